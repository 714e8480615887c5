// SPDX-License-Identifier: Apache-2.0
//
// Moving a profile in time: an XSpace counts from its own beginning, and TensorBoard lays several of a run over each
// other as they are. Of any writer's XSpace; what is not known here is copied.
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

// Of the plane `Task Environment`; 0: it does not say.
struct XspaceTimes {
  uint64_t start_unix_ns = 0, stop_unix_ns = 0;
};
absl::StatusOr<XspaceTimes> TimesOf(std::string_view xspace);

struct XspaceShift {
  uint64_t later_ns = 0;       // added to the start of every line
  uint64_t start_unix_ns = 0;  // of the new beginning; 0: not known
  std::string host;            // the first host name; empty: as it is
};
absl::Status ShiftXspace(std::string_view xspace, const XspaceShift& shift, Sink& sink);

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_XSPACE_SHIFT_H_
