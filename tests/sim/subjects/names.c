// SPDX-License-Identifier: Apache-2.0
//
// Looks up in every way whether names of CUDA, CUPTI, NCCL and NVTX are there, as a program and as a library that comes
// late (NAMES_LIBRARY), or in the constructor of one that is there at the start (NAMES_CONSTRUCTOR). Built with and
// without libraries that have them. names [LIBRARY...] [FLAGS: now, global, deep, plain] plain: without dlvsym.
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMES(X) X(cuLaunchKernel) X(cuGetProcAddress_v2) X(cuptiSubscribe) X(cuptiFinalize) X(ncclAllReduce)
#define DECLARE(name) extern int name(void) __attribute__((weak));
NAMES(DECLARE)
#define ADDRESS(name) (void*)name,
static void* const kTable[] = {NAMES(ADDRESS)};
// The program writes where a reference was.
static void* volatile written[] = {NAMES(ADDRESS)};
#ifdef NAMES_IN_CODE
// A reference that the loader relocates in the code (DT_TEXTREL).
__asm__(".text\n.p2align 3\n.weak ncclReduce\n.quad ncclReduce");
#endif

#define IS(call) ((void)dlerror(), (call) != NULL)

static int is_plain;
// What comes behind a library that came late is libc's answer alone.
#ifdef NAMES_LIBRARY
enum { is_library = 1 };
#else
enum { is_library = 0 };
#endif

static void Ask(const char* name, void* reference, const void* in_table) {
  void* const self = dlopen(NULL, RTLD_LAZY);
  const int by_default = IS(dlsym(RTLD_DEFAULT, name));
  const int has_error = dlerror() != NULL;
  printf("%s: reference=%d table=%d default=%d error=%d next=%d self=%d version=%d same=%d,%d,%d\n", name,
         reference != NULL, in_table == reference, by_default, has_error, IS(dlsym(RTLD_NEXT, name)),
         IS(dlsym(self, name)), !is_plain && IS(dlvsym(RTLD_DEFAULT, name, "libcupti.so.13")),
         dlsym(RTLD_DEFAULT, name) == reference, dlsym(self, name) == reference,
         is_library || dlsym(RTLD_NEXT, name) == reference);
}

__attribute__((visibility("default"))) void AskAll(void) {
  int at = 0;
#define ASK(name) Ask(#name, (void*)name, kTable[at++]);
  NAMES(ASK)
  for (int i = 0; i < 2; ++i) {
    const char* const name = i == 0 ? "InitializeInjectionNvtx2" : "cuptiActivityFlushAll";
    printf("%s: default=%d next=%d\n", name, IS(dlsym(RTLD_DEFAULT, name)), IS(dlsym(RTLD_NEXT, name)));
  }
}

#ifdef NAMES_CONSTRUCTOR
// It allocates first, as libstdc++'s does before that of any library in C++.
__attribute__((constructor)) static void Construct(void) {
  char* volatile block = malloc(1);
  free(block);
  AskAll();
}
#endif

#ifdef NAMES_OWN_VISIT
// As of a program that has the list of its objects from its start (ClickHouse, Seastar).
int dl_iterate_phdr(int (*visit)(struct dl_phdr_info*, size_t, void*), void* data) {
  (void)visit;
  (void)data;
  return 0;
}
#endif

#ifndef NAMES_LIBRARY
int main(int argc, char** argv) {
  int flags = RTLD_LAZY;
  for (size_t i = 0; i < sizeof(written) / sizeof(written[0]); ++i) written[i] = argv;
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "plain") == 0) is_plain = 1;
    if (strcmp(argv[i], "now") == 0) flags = (flags & ~RTLD_LAZY) | RTLD_NOW;
    if (strcmp(argv[i], "global") == 0) flags |= RTLD_GLOBAL;
    if (strcmp(argv[i], "deep") == 0) flags |= RTLD_DEEPBIND;
  }
  AskAll();
  for (int i = 1; i < argc; ++i) {
    if (strchr(argv[i], '.') == NULL) continue;
    void* const library = dlopen(argv[i], flags);
    printf("%s: %s\n", strrchr(argv[i], '/') == NULL ? argv[i] : strrchr(argv[i], '/'),
           library == NULL ? dlerror() : "open");
    void (*ask)(void) = library == NULL ? NULL : (void (*)(void))dlsym(library, "AskAll");
    if (ask != NULL && ask != AskAll) ask();
    AskAll();
  }
  return 0;
}
#endif
