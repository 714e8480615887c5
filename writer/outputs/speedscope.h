// SPDX-License-Identifier: Apache-2.0
//
// Sampled stacks for speedscope (https://www.speedscope.app): of Python a profile per thread, in order of time, and of
// native code one, added up. Where a thread has more of Python's than a viewer opens, they are added up, too.
//
// Process: converter.
#ifndef TBPROF_WRITER_OUTPUTS_SPEEDSCOPE_H_
#define TBPROF_WRITER_OUTPUTS_SPEEDSCOPE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "writer/base/sink.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

absl::Status WriteSpeedscope(const Timeline& timeline, Sink& sink);
absl::StatusOr<std::string> VerifySpeedscope(const std::string& path, const Timeline& timeline);

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_SPEEDSCOPE_H_
