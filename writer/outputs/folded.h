// SPDX-License-Identifier: Apache-2.0
//
// Sampled stacks as folded text, for flame graphs (flamegraph.pl, inferno, speedscope). Each stack is one line:
// `process (pid);thread/tid;outermost frame;...;innermost frame samples`. Native stacks start with
// `native process (pid)`.
//
// Process: converter.
#ifndef TBPROF_WRITER_OUTPUTS_FOLDED_H_
#define TBPROF_WRITER_OUTPUTS_FOLDED_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "writer/base/sink.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

absl::Status WriteFolded(const Timeline& timeline, Sink& sink);
absl::StatusOr<std::string> VerifyFolded(const std::string& path, const Timeline& timeline);

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_FOLDED_H_
