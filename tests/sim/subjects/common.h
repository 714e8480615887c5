// SPDX-License-Identifier: Apache-2.0
//
// What the subjects have in common: they print what they did as `key=value` lines, so that a test can compare a profile
// with it, and end with status 1 at the first call that fails unexpectedly.
#ifndef TBPROF_TESTS_SIM_SUBJECTS_COMMON_H_
#define TBPROF_TESTS_SIM_SUBJECTS_COMMON_H_

#include <stdio.h>
#include <stdlib.h>

// CHECK is for the runtime's calls, MUST for the driver's.
#define CHECK(call)                                                                       \
  do {                                                                                    \
    const cudaError_t check_result = (call);                                              \
    if (check_result != cudaSuccess) {                                                    \
      fprintf(stderr, "%s:%d: %s: %d %s\n", __FILE__, __LINE__, #call, (int)check_result, \
              cudaGetErrorString(check_result));                                          \
      exit(1);                                                                            \
    }                                                                                     \
  } while (0)
#define MUST(call)                                                        \
  do {                                                                    \
    const CUresult must_result = (call);                                  \
    if (must_result != CUDA_SUCCESS) {                                    \
      fprintf(stderr, "%d: %s: %d\n", __LINE__, #call, (int)must_result); \
      exit(1);                                                            \
    }                                                                     \
  } while (0)

static inline void Fact(const char* name, long long value) { printf("%s=%lld\n", name, value); }

static inline long long Argument(int argc, char** argv, int index, long long default_value) {
  return argc > index ? atoll(argv[index]) : default_value;
}

#ifdef __CUDACC__
// On a GPU a kernel takes the time in its first argument, as it does on the simulator, where no code runs.
__device__ static inline void WaitNs(long long duration) {
  if (duration <= 0) return;
  unsigned long long start, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
  do {
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while ((long long)(now - start) < duration);
}
#endif

#endif  // TBPROF_TESTS_SIM_SUBJECTS_COMMON_H_
