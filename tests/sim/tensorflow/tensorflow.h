// SPDX-License-Identifier: Apache-2.0
#ifndef TBPROF_TESTS_SIM_TENSORFLOW_TENSORFLOW_H_
#define TBPROF_TESTS_SIM_TENSORFLOW_TENSORFLOW_H_

#define EXPORT __attribute__((visibility("default")))

struct Operation {
  const char* name;
  long nanoseconds;
  int code;
  long input_nanoseconds;  // below 0: it takes no batch
};
struct Status {
  int code;
};

const char* TFE_OpGetName(const struct Operation* operation, struct Status* status);
void TFE_Execute(struct Operation* operation, void** results, int* count, struct Status* status);

struct IteratorStatus {
  void *iterator, *context, *tensors;
};
struct IteratorStatus IteratorGetNext(void* iterator, void* context, void* tensors, int* is_at_end) __asm__(
    "_ZN10tensorflow4data19DatasetBaseIterator7GetNextEPNS0_15IteratorContextEPSt6vectorINS_6TensorESaIS5_EEPb");

#endif  // TBPROF_TESTS_SIM_TENSORFLOW_TENSORFLOW_H_
