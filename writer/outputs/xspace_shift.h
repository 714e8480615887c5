// SPDX-License-Identifier: Apache-2.0
//
// Moves a profile in time: an XSpace counts from its own start, and TensorBoard overlays the profiles of a run without
// aligning them. Works with the XSpace of any writer; unknown fields are copied.
//
//   absl::StatusOr<XspaceTimes> times = TimesOf(bytes);
//   ShiftXspace(bytes, {.later_ns = times->start_unix_ns - earliest, .start_unix_ns = earliest, .host = "node2"},
//   sink);
//
// Process: launcher. Pure functions; `bytes` may be anything.
#ifndef TBPROF_WRITER_OUTPUTS_XSPACE_SHIFT_H_
#define TBPROF_WRITER_OUTPUTS_XSPACE_SHIFT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "writer/base/sink.h"

namespace tbprof {

// From the plane `Task Environment`; 0: not given.
struct XspaceTimes {
  uint64_t start_unix_ns = 0, stop_unix_ns = 0;
};
absl::StatusOr<XspaceTimes> TimesOf(std::string_view xspace);

struct XspaceShift {
  uint64_t later_ns = 0;       // added to the start of every line
  uint64_t start_unix_ns = 0;  // of the new start; 0: unknown
  std::string host;            // replaces the first host name; empty: unchanged
};
absl::Status ShiftXspace(std::string_view xspace, const XspaceShift& shift, Sink& sink);

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_XSPACE_SHIFT_H_
