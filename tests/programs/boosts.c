// SPDX-License-Identifier: Apache-2.0
// boosts LIBRARY ROUNDS: trains as the packages of XGBoost and LightGBM do, which look their functions up by name.
// Between two rounds it waits for about 2 ms, as an evaluation would take. Prints what the functions return, and which
// names the process has.
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define ANY (void*)(intptr_t)

static const char* kNames[] = {"XGBoosterUpdateOneIter",
                               "XGBoosterBoostOneIter",
                               "XGBoosterTrainOneIter",
                               "LGBM_BoosterUpdateOneIter",
                               "LGBM_BoosterUpdateOneIterCustom",
                               "XGBoosterCreate",
                               "X",
                               "L",
                               "XG",
                               "LGB",
                               "XGBoosterUpdateOneIterations"};

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const int names = sizeof(kNames) / sizeof(kNames[0]), rounds = atoi(argv[2]);
  for (int i = 0; i < names; ++i) printf("%s at the start: %d\n", kNames[i], dlsym(RTLD_DEFAULT, kNames[i]) != NULL);
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) return 3;
  for (int i = 0; i < names; ++i) {
    void* found = dlsym(library, kNames[i]);
    printf("%s: %d, the same again: %d, of all: %d\n", kNames[i], found != NULL, found == dlsym(library, kNames[i]),
           dlsym(RTLD_DEFAULT, kNames[i]) != NULL);
  }
  int (*update)(void*, int, void*) = dlsym(library, kNames[0]);
  int (*boost)(void*, void*, float*, float*, uint64_t) = dlsym(library, kNames[1]);
  int (*train)(void*, void*, int, const char*, const char*) = dlsym(library, kNames[2]);
  int (*light)(void*, int*) = dlsym(library, kNames[3]);
  int (*custom)(void*, const float*, const float*, int*) = dlsym(library, kNames[4]);
  float gradient[1] = {4}, hessian[1] = {8};
  int finished = 0, sum = 0;
  errno = ENOSPC;
  printf("boost %d\n", boost(ANY 1, ANY 2, gradient, hessian, 16));
  printf("train %d\n", train(ANY 1, ANY 2, 4, "a", "b"));
  printf("custom %d", custom(ANY 1, gradient, hessian, &finished));
  printf(" %d\n", finished);
  printf("light %d", light(ANY 1, &finished));
  printf(" %d\n", finished);
  printf("errno %d\n", errno == ENOSPC);
  for (int i = 0; i < rounds; ++i) {
    sum += update(ANY 1, i, ANY 2);
    usleep(2000);
  }
  printf("update %d\n", sum);
  return 0;
}
