// SPDX-License-Identifier: Apache-2.0
// What Keras' fit does, with the libraries of tests/sim/tensorflow: executes LIBPYWRAP STEPS
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  void* const library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  int (*execute)(const char*, long, int) = (int (*)(const char*, long, int))dlsym(library, "execute");
  if (execute == NULL) return 1;
  int wrong = execute("ReadVariableOp", 1000, 0) != 0;
  for (int step = 0; step < atoi(argv[2]); ++step) {
    wrong += execute("__inference_one_step_on_iterator_1234", 2000000, 0) != 0;
    if (step % 10 == 9) wrong += execute("AddV2", 1000, 0) != 0;
  }
  // One that fails, and one that has no name.
  wrong += execute("MatMul", 1000, 3) != 3;
  wrong += execute(NULL, 1000, 0) != 0;
  printf("%d wrong\n", wrong);
  return wrong != 0;
}
