// SPDX-License-Identifier: Apache-2.0
//
// Process: the converter and the launcher. Single-threaded.
#ifndef TBPROF_WRITER_BASE_SINK_H_
#define TBPROF_WRITER_BASE_SINK_H_

#include <string_view>

#include "absl/status/status.h"

namespace tbprof {

// Receives the bytes of an output. Implemented by RunDirectory (a file under a temporary name) and by tests (a string).
class Sink {
 public:
  virtual ~Sink() = default;
  virtual absl::Status Append(std::string_view bytes) = 0;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_BASE_SINK_H_
