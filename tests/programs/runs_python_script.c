// SPDX-License-Identifier: Apache-2.0
//
//   runs_python_script LIBRARY SCRIPT   loads libpython for itself alone (RTLD_LOCAL) and runs the script in it
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) return fprintf(stderr, "%s\n", dlerror()), 2;
  void (*initialize)(void) = (void (*)(void))dlsym(library, "Py_Initialize");
  int (*run)(FILE*, const char*) = (int (*)(FILE*, const char*))dlsym(library, "PyRun_SimpleFile");
  int (*finalize)(void) = (int (*)(void))dlsym(library, "Py_FinalizeEx");
  FILE* script = fopen(argv[2], "r");
  if (initialize == NULL || run == NULL || finalize == NULL || script == NULL) return 2;
  initialize();
  int result = run(script, argv[2]);
  fclose(script);
  if (finalize() != 0) return 2;
  return result == 0 ? 0 : 1;
}
