// SPDX-License-Identifier: Apache-2.0
#include "writer/outputs/gzip_sink.h"

#include <zlib.h>

#include <algorithm>
#include <limits>

namespace tbprof {

struct GzipSink::State {
  z_stream stream = {};
  bool ready = false;
  char buffer[1 << 18];
};

GzipSink::GzipSink(Sink* out) : out_(out), state_(std::make_unique<State>()) {
  // Level 1: events are so similar that higher levels save a tenth in size for twice the time. 16: gzip header.
  state_->ready = deflateInit2(&state_->stream, 1, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY) == Z_OK;
}

GzipSink::~GzipSink() {
  if (state_->ready) deflateEnd(&state_->stream);
}

absl::Status GzipSink::Deflate(int flush) {
  z_stream& stream = state_->stream;
  do {
    stream.next_out = reinterpret_cast<Bytef*>(state_->buffer);
    stream.avail_out = sizeof(state_->buffer);
    if (deflate(&stream, flush) == Z_STREAM_ERROR) return absl::InternalError("zlib is in a bad state");
    const size_t made = sizeof(state_->buffer) - stream.avail_out;
    if (made > 0) {
      if (absl::Status status = out_->Append({state_->buffer, made}); !status.ok()) return status;
    }
  } while (stream.avail_out == 0);
  return absl::OkStatus();
}

absl::Status GzipSink::Append(std::string_view bytes) {
  if (!state_->ready) return absl::ResourceExhaustedError("zlib cannot allocate its buffers");
  while (!bytes.empty()) {
    const size_t piece = std::min<size_t>(bytes.size(), std::numeric_limits<uInt>::max());
    state_->stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    state_->stream.avail_in = static_cast<uInt>(piece);
    if (absl::Status status = Deflate(Z_NO_FLUSH); !status.ok()) return status;
    bytes.remove_prefix(piece);
  }
  return absl::OkStatus();
}

absl::Status GzipSink::Finish() {
  if (!state_->ready) return absl::ResourceExhaustedError("zlib cannot allocate its buffers");
  state_->stream.next_in = nullptr;
  state_->stream.avail_in = 0;
  return Deflate(Z_FINISH);
}

}  // namespace tbprof
