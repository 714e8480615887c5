// SPDX-License-Identifier: Apache-2.0
//
// A process with two CUDA runtimes, as Python's packages for CUDA 12 and for CUDA 13 bring them: each library's calls
// are its own runtime's.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char** argv) {
  char directory[4000];
  if (argc < 1 || strlen(argv[0]) >= sizeof(directory)) return 2;
  strcpy(directory, argv[0]);
  char* const slash = strrchr(directory, '/');
  if (slash == NULL) return 2;
  *slash = 0;
  for (int major = 12; major <= 13; ++major) {
    char path[4200];
    snprintf(path, sizeof(path), "%s/libsim_package%d.so", directory, major);
    void* package = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (package == NULL) {
      fprintf(stderr, "%s\n", dlerror());
      return 2;
    }
    int (*version)(void) = (int (*)(void))dlsym(package, "package_runtime_version");
    int (*allocates)(void) = (int (*)(void))dlsym(package, "package_allocates");
    printf("package%d: runtime=%d allocates=%d\n", major, version(), allocates());
  }
  return 0;
}
