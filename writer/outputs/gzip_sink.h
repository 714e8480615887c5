// SPDX-License-Identifier: Apache-2.0
//
// A sink that compresses into another sink, in bounded memory.
#ifndef TBPROF_WRITER_OUTPUTS_GZIP_SINK_H_
#define TBPROF_WRITER_OUTPUTS_GZIP_SINK_H_

#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "writer/base/sink.h"

namespace tbprof {

class GzipSink : public Sink {
 public:
  explicit GzipSink(Sink* out);
  ~GzipSink() override;
  absl::Status Append(std::string_view bytes) override;
  absl::Status Finish();

 private:
  struct State;
  absl::Status Deflate(int flush);

  Sink* out_;
  std::unique_ptr<State> state_;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_GZIP_SINK_H_
