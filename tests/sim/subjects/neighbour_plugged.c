// SPDX-License-Identifier: Apache-2.0
//
// neighbour.cc in a library that is opened late: neighbour_plugged LIBRARY ORDER [SESSIONS]
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char** argv) {
  void* const library = dlopen(argc > 1 ? argv[1] : "", RTLD_NOW);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 2;
  }
  int (*run)(int, char**) = (int (*)(int, char**))dlsym(library, "RunNeighbour");
  return run == NULL ? 3 : run(argc - 1, argv + 1);
}
