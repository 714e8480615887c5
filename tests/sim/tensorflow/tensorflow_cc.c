// SPDX-License-Identifier: Apache-2.0
// Two functions of TensorFlow's C interface, which take time and compute nothing.
#include <stddef.h>
#include <time.h>

#include "tensorflow.h"

EXPORT const char* TFE_OpGetName(const struct Operation* operation, struct Status* status) {
  if (operation->name == NULL) status->code = 3;
  return operation->name;
}

EXPORT void TFE_Execute(struct Operation* operation, void** results, int* count, struct Status* status) {
  const struct timespec length = {0, operation->nanoseconds};
  nanosleep(&length, NULL);
  for (int i = 0; i < *count; ++i) results[i] = operation;
  *count = 1;
  status->code = operation->code;
}
