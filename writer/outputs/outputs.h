// SPDX-License-Identifier: Apache-2.0
//
// The table of outputs: each output is one file of writer/outputs/ and one row in outputs.cc, a pure function of the
// timeline.
//
// Process: the converter. Single-threaded.
#ifndef TBPROF_WRITER_OUTPUTS_OUTPUTS_H_
#define TBPROF_WRITER_OUTPUTS_OUTPUTS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "writer/base/sink.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

struct Output {
  std::string_view name;       // as in --also=NAME
  std::string_view file_name;  // `%h` stands for the host; relative to the run directory
  bool by_default;
  bool limited;  // to the size of --max-profile-size
  absl::Status (*write)(const Timeline& timeline, Sink& sink);
  // Reads the file back from disk, with code that shares nothing with the writer; null = only the size is checked.
  // Returns a text such as `verified: 3 planes, 12 lines, 10432 events`.
  absl::StatusOr<std::string> (*verify)(const std::string& path, const Timeline& timeline);
};

absl::Span<const Output> Outputs();

// The row with this name, or null.
const Output* FindOutput(std::string_view name);

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_OUTPUTS_H_
