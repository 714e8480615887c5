// SPDX-License-Identifier: Apache-2.0
//
// Collects an output's bytes in memory.
#ifndef TBPROF_TESTS_UNIT_WRITER_STRING_SINK_H_
#define TBPROF_TESTS_UNIT_WRITER_STRING_SINK_H_

#include <string>
#include <string_view>

#include "writer/outputs/outputs.h"

namespace tbprof {

class StringSink : public Sink {
 public:
  absl::Status Append(std::string_view bytes) override {
    bytes_ += bytes;
    return absl::OkStatus();
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

}  // namespace tbprof

#endif  // TBPROF_TESTS_UNIT_WRITER_STRING_SINK_H_
