// SPDX-License-Identifier: Apache-2.0
//
// Sampled stacks as a flame graph: one HTML file that a browser opens from disk, without a network. It contains the
// page of flamegraph.html and the stacks as JSON. Python stacks (all time) and native stacks (CPU time) have trees of
// their own, because their times cannot be added up.
//
// Process: converter.
#ifndef TBPROF_WRITER_OUTPUTS_FLAMEGRAPH_H_
#define TBPROF_WRITER_OUTPUTS_FLAMEGRAPH_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "writer/base/sink.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

absl::Status WriteFlamegraph(const Timeline& timeline, Sink& sink);
absl::StatusOr<std::string> VerifyFlamegraph(const std::string& path, const Timeline& timeline);

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_FLAMEGRAPH_H_
