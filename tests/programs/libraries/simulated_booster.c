// SPDX-License-Identifier: Apache-2.0
// The functions of XGBoost and LightGBM that train for a round, which takes about 3 ms of CPU time.
#include <stdint.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

static void Work(void) {
  struct timespec from, now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
  do {
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  } while ((now.tv_sec - from.tv_sec) * 1000000000L + now.tv_nsec - from.tv_nsec < 3000000);
}

// The result shows which arguments arrived.
EXPORT int XGBoosterUpdateOneIter(void* booster, int round, void* data) {
  Work();
  return (int)(intptr_t)booster + round + (int)(intptr_t)data;
}

EXPORT int XGBoosterBoostOneIter(void* booster, void* data, float* gradient, float* hessian, uint64_t size) {
  Work();
  return (int)(intptr_t)booster + (int)(intptr_t)data + (int)gradient[0] + (int)hessian[0] + (int)size;
}

EXPORT int XGBoosterTrainOneIter(void* booster, void* data, int round, const char* gradient, const char* hessian) {
  Work();
  return (int)(intptr_t)booster + (int)(intptr_t)data + round + gradient[0] + hessian[0];
}

EXPORT int LGBM_BoosterUpdateOneIter(void* booster, int* is_finished) {
  Work();
  *is_finished = 1;
  return (int)(intptr_t)booster;
}

EXPORT int LGBM_BoosterUpdateOneIterCustom(void* booster, const float* gradient, const float* hessian,
                                           int* is_finished) {
  Work();
  *is_finished = (int)(gradient[0] + hessian[0]);
  return -(int)(intptr_t)booster;
}
