// SPDX-License-Identifier: Apache-2.0
// What Keras' fit does, with the libraries of tests/sim/tensorflow: executes LIBPYWRAP STEPS
// [INPUT_US]: how long each step takes to get its batch.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) return 2;
  void* const library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  int (*execute)(const char*, long, int, long) = (int (*)(const char*, long, int, long))dlsym(library, "execute");
  const long input = argc > 3 ? 1000 * atol(argv[3]) : -1;
  if (execute == NULL) return 1;
  int wrong = execute("ReadVariableOp", 1000, 0, -1) != 0;
  for (int step = 0; step < atoi(argv[2]); ++step) {
    wrong += execute("__inference_one_step_on_iterator_1234", 10000000, 0, input) != 0;
    if (step % 10 == 9) wrong += execute("AddV2", 1000, 0, -1) != 0;
  }
  // One that fails, and one that has no name.
  wrong += execute("MatMul", 1000, 3, -1) != 3;
  wrong += execute(NULL, 1000, 0, -1) != 0;
  printf("%d wrong\n", wrong);
  return wrong != 0;
}
