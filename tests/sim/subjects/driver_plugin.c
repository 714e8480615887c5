// SPDX-License-Identifier: Apache-2.0
//
// A library that is linked with libcuda.so.1, and a program that opens it (opens_plugin.c): as Triton's launchers and
// extension modules of Python are.
#include "common.h"

#define CALL(name) name
#include "vector_add.h"

extern long long cuForwarderCalls(void) __attribute__((weak));

__attribute__((visibility("default"))) int PluginRuns(int launches) {
  const int result = VectorAdd(launches);
  if (cuForwarderCalls) Fact("forwarded", cuForwarderCalls());
  return result;
}
