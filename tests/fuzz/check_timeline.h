// SPDX-License-Identifier: Apache-2.0
//
// What has to be true of every timeline, and of every output made of it.
#ifndef TBPROF_TESTS_FUZZ_CHECK_TIMELINE_H_
#define TBPROF_TESTS_FUZZ_CHECK_TIMELINE_H_

#include "absl/status/statusor.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

// Prints where, and abort(), if it is false: a finding.
void Require(bool condition, int line = __builtin_LINE(), const char* file = __builtin_FILE());

void CheckTimeline(const absl::StatusOr<Timeline>& timeline);

}  // namespace tbprof

#endif  // TBPROF_TESTS_FUZZ_CHECK_TIMELINE_H_
