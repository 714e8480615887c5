/* SPDX-License-Identifier: Apache-2.0
 * embeds_python LIBRARY SOURCE...: opens libpython for itself alone, late, and runs each source in an interpreter of
 * its own, one after the other. Prints `ran N` of each. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char** argv) {
  void* library = argc < 2 ? NULL : dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) return 2;
  void (*initialize)(int) = (void (*)(int))dlsym(library, "Py_InitializeEx");
  int (*run)(const char*) = (int (*)(const char*))dlsym(library, "PyRun_SimpleString");
  int (*finalize)(void) = (int (*)(void))dlsym(library, "Py_FinalizeEx");
  if (initialize == NULL || run == NULL || finalize == NULL) return 3;
  for (int i = 2; i < argc; i++) {
    initialize(0);
    if (run(argv[i]) != 0) return 4;
    if (finalize() != 0) return 5;
    printf("ran %d\n", i - 1);
    fflush(stdout);
  }
  return 0;
}
