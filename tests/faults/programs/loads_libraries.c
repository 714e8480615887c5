// SPDX-License-Identifier: Apache-2.0
// loads_libraries WAY: a library loaded so that its calls pass us by (deepbind, a namespace of its own), or again and
// again while threads record; it allocates, and its blocks are used and freed here.
#include <dlfcn.h>
#include <pthread.h>

#include "facts.h"

typedef int (*Compress)(unsigned char*, unsigned long*, const unsigned char*, unsigned long);

static int Use(void* library) {
  if (library == NULL) {
    printf("%s\n", dlerror());
    return 0;
  }
  const Compress compress = (Compress)dlsym(library, "compress");
  unsigned char* out = malloc(100000);
  unsigned char* in = calloc(1, 50000);
  unsigned long size = 100000;
  const int result = compress(out, &size, in, 50000);
  free(in);
  free(out);
  return result == 0 ? (int)size : -1;
}

static volatile int stop;
static void* Records(void* argument) {
  while (!stop) {
    usleep(50);
    free(malloc(1000));
  }
  return argument;
}

int main(int argc, char** argv) {
  const char* way = argc > 1 ? argv[1] : "";
  if (strcmp(way, "deepbind") == 0) printf("%d\n", Use(dlopen("libz.so.1", RTLD_NOW | RTLD_DEEPBIND)));
  if (strcmp(way, "namespace") == 0) printf("%d\n", Use(dlmopen(LM_ID_NEWLM, "libz.so.1", RTLD_NOW)));
  if (strcmp(way, "again") == 0) {
    pthread_t threads[3];
    for (int i = 0; i < 3; ++i) pthread_create(&threads[i], NULL, Records, NULL);
    int sum = 0;
    for (int i = 0; i < 300; ++i) {
      void* library = dlopen("libz.so.1", i % 2 == 0 ? RTLD_NOW : RTLD_LAZY);
      sum += Use(library) > 0;
      dlclose(library);
    }
    stop = 1;
    for (int i = 0; i < 3; ++i) pthread_join(threads[i], NULL);
    printf("%d\n", sum);
  }
  usleep(1000);
  return 3;
}
