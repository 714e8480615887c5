// SPDX-License-Identifier: Apache-2.0
//
// Sampled stacks for speedscope (https://www.speedscope.app). Each thread has one Python profile, in order of time, and
// one native profile, summed by stack. If a thread has more Python stacks than a viewer can open, they are summed as
// well.
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
