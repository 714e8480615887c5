// SPDX-License-Identifier: Apache-2.0
// Stands for what is between Python and TensorFlow's library, which it calls by versioned references.
#include "tensorflow.h"

EXPORT int execute(const char* name, long nanoseconds, int code, long input_nanoseconds) {
  struct Operation operation = {name, nanoseconds, code, input_nanoseconds};
  struct Status status = {0};
  void* results[2] = {0, 0};
  int count = 2;
  TFE_Execute(&operation, results, &count, &status);
  return count == 1 && results[0] == &operation && results[1] == &operation ? status.code : -1;
}
