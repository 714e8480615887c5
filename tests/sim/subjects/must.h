// SPDX-License-Identifier: Apache-2.0
//
// For programs that call the driver and CUPTI: what fails ends them, with its name.
#ifndef TBPROF_TESTS_SIM_SUBJECTS_MUST_H_
#define TBPROF_TESTS_SIM_SUBJECTS_MUST_H_

#include <cstdio>
#include <cstdlib>

inline void Must(int result, const char* what) {
  if (result == 0) return;
  fprintf(stderr, "%s: %d\n", what, result);
  exit(1);
}
#define MUST(call) Must(call, #call)

#endif  // TBPROF_TESTS_SIM_SUBJECTS_MUST_H_
