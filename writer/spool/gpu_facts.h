// SPDX-License-Identifier: Apache-2.0
//
// Facts about a process's GPUs other than events: devices, contexts, streams, names, clock, and the state of recording.
//
// Process: converter, first pass.
#ifndef TBPROF_WRITER_SPOOL_GPU_FACTS_H_
#define TBPROF_WRITER_SPOOL_GPU_FACTS_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "writer/spool/cupti_cause.h"
#include "writer/spool/gpu_clock.h"
#include "writer/spool/record_view.h"

namespace tbprof {

struct GpuDeviceFacts {
  GpuDeviceRecord record{};
  std::string name;
  bool has_uuid() const;
};

// One event of GPU recording, in the order of time.
struct GpuStateChange {
  enum Kind : uint8_t { kRecording, kPaused, kUnavailable };
  uint64_t ticks = 0;
  Kind kind = kRecording;
  std::string text;
  PauseCause cause = PauseCause::kOther;  // kPaused
};

struct GpuFacts {
  // False: the record is invalid.
  bool Take(const RecordView& record);

  const std::string* Name(GpuNameKind kind, uint64_t id) const;

  std::map<uint16_t, GpuDeviceFacts> devices;
  struct Context {
    uint16_t device = 0;
    uint32_t null_stream = 0;
  };
  absl::flat_hash_map<uint32_t, Context> contexts;
  struct Stream {
    uint32_t context = 0;
    int32_t priority = 0;
    uint32_t flags = 0;
  };
  absl::flat_hash_map<uint32_t, Stream> streams;
  GpuClockMap clock;
  bool clock_assumed = false;  // assumed to be the wall clock: no pair was recorded

  std::string library, versions;
  std::vector<GpuStateChange> changes;
  std::vector<CuptiUseAt> cupti_uses;  // while recording was paused for the program
  // Changes beyond the limit: their number, the time of the first, and the kind of the last.
  uint64_t changes_left_out = 0;
  uint64_t left_out_from_ticks = 0;
  GpuStateChange::Kind last_left_out = GpuStateChange::kRecording;
  std::vector<std::string> tried;
  std::vector<std::string> missing_kinds;
  std::string by_hooks;  // not empty: device times are those of events; the reason
  bool hooks_asked_for() const { return by_hooks == kHooksAskedFor; }
  uint64_t dropped = 0;
  uint64_t unknown = 0;
  uint64_t unread_bytes = 0;  // of CUPTI's buffers
  std::string unread_cause;   // of the first report
  uint64_t names_left_out = 0;

 private:
  bool TakeName(const RecordView& record);
  bool TakeInfo(const RecordView& record);
  bool TakeLeft(uint64_t ticks, std::string_view bytes);

  absl::flat_hash_map<std::pair<uint16_t, uint64_t>, std::string> names_;
  uint64_t name_bytes_ = 0;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_SPOOL_GPU_FACTS_H_
