// SPDX-License-Identifier: Apache-2.0
//
// The trace for ui.perfetto.dev and chrome://tracing: Chrome's JSON trace events, gzip-compressed.
#ifndef TBPROF_WRITER_OUTPUTS_PERFETTO_H_
#define TBPROF_WRITER_OUTPUTS_PERFETTO_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "writer/outputs/outputs.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

absl::Status WritePerfetto(const Timeline& timeline, Sink& sink);

// Decompresses the file, checks its checksum and that the JSON is closed, and counts its events.
absl::StatusOr<std::string> VerifyPerfetto(const std::string& path, const Timeline& timeline);

// Whether the timeline contains the device or process of the track.
inline bool IsShown(const Timeline& timeline, const CounterTrack& track) {
  return track.device >= 0 ? static_cast<size_t>(track.device) < timeline.gpu_devices.size()
                           : track.process < timeline.processes.size();
}

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_PERFETTO_H_
