// SPDX-License-Identifier: Apache-2.0
// Two functions of TensorFlow's C interface, which take time and compute nothing. A batch is taken on a thread of its
// own, as in TensorFlow.
#include <pthread.h>
#include <stddef.h>
#include <time.h>

#include "tensorflow.h"

EXPORT const char* TFE_OpGetName(const struct Operation* operation, struct Status* status) {
  if (operation->name == NULL) status->code = 3;
  return operation->name;
}

static void* TakeBatch(void* nanoseconds) __asm__(
    "_ZN10tensorflow4data16IteratorResource7GetNextEPNS_15OpKernelContextEPSt6vectorINS_6TensorESaIS5_EEPb");
static __attribute__((noinline)) void* TakeBatch(void* nanoseconds) {
  int is_at_end = 0, tensors = 0;
  const struct IteratorStatus status = IteratorGetNext(nanoseconds, &is_at_end, &tensors, &is_at_end);
  const int right = status.iterator == nanoseconds && status.context == &tensors && status.tensors == &tensors;
  return right && is_at_end == 7 ? NULL : nanoseconds;
}

EXPORT void TFE_Execute(struct Operation* operation, void** results, int* count, struct Status* status) {
  void* wrong = NULL;
  if (operation->input_nanoseconds >= 0) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, TakeBatch, &operation->input_nanoseconds) != 0) wrong = operation;
    if (wrong == NULL) pthread_join(thread, &wrong);
  }
  const struct timespec length = {0, operation->nanoseconds};
  nanosleep(&length, NULL);
  for (int i = 0; i < *count; ++i) results[i] = operation;
  *count = 1;
  status->code = wrong == NULL ? operation->code : -2;
}
