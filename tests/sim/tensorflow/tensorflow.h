// SPDX-License-Identifier: Apache-2.0
#ifndef TBPROF_TESTS_SIM_TENSORFLOW_TENSORFLOW_H_
#define TBPROF_TESTS_SIM_TENSORFLOW_TENSORFLOW_H_

#define EXPORT __attribute__((visibility("default")))

struct Operation {
  const char* name;
  long nanoseconds;
  int code;
};
struct Status {
  int code;
};

const char* TFE_OpGetName(const struct Operation* operation, struct Status* status);
void TFE_Execute(struct Operation* operation, void** results, int* count, struct Status* status);

#endif  // TBPROF_TESTS_SIM_TENSORFLOW_TENSORFLOW_H_
