// SPDX-License-Identifier: Apache-2.0
//
// The GPU part of the second pass: device records become events on lines of devices, calls of the CUDA interfaces
// become events of host threads, and both are linked.
//
//   GpuBuilder gpu(&window, &facts, host, &timeline);
//   for each GPU record: gpu.Take(process, owner, record);
//   gpu.Finish();
//   gpu.FinishTimes();
//
// Process: converter, one thread. Untrusted: every id, time and number.
#ifndef TBPROF_WRITER_CONVERT_GPU_BUILDER_H_
#define TBPROF_WRITER_CONVERT_GPU_BUILDER_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "writer/convert/capture_window.h"
#include "writer/convert/gpu_correlation.h"
#include "writer/convert/gpu_devices.h"
#include "writer/convert/host_parts.h"
#include "writer/convert/launches_in_flight.h"
#include "writer/spool/gpu_totals.h"
#include "writer/spool/spool_facts.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

class GpuBuilder {
 public:
  // All must outlive this.
  GpuBuilder(const CaptureWindow* window, const SpoolFacts* facts, const HostParts& host, Timeline* timeline)
      : window_(*window), facts_(facts), timeline_(timeline), host_(host), devices_(facts, timeline) {}

  static bool IsGpu(RecordKind kind);
  // `owner`: index into Timeline::processes; kNoProcess: the process ended before the shown time and counts only in
  // totals.
  void Take(const Identity& process, uint32_t owner, const RecordView& record);
  // Takes the totals of a process on a device in parts of the spool that were dropped.
  void TakeTotal(const Identity& process, uint32_t owner, const GpuTotalRow& row);
  void TakeDroppedMemory(const Identity& process, uint32_t owner, const GpuMemoryRecord& memory);
  // Links calls with device work. Call while HostEvents still holds the host's events.
  void Finish();
  // Converts ticks to picoseconds; makes order, nesting and totals.
  void FinishTimes();
  // Adds warnings, and the recording status of each process. `index`: of the processes in the timeline.
  void AddDiagnostics(const std::map<Identity, uint32_t>& index);

  // Time on devices by process.
  const std::map<uint32_t, int64_t>& device_ps() const { return device_ps_; }

 private:
  // The repeated lookups of a process.
  struct ProcessState {
    const GpuFacts* facts = nullptr;
    const ProcessFacts* process = nullptr;
    size_t pairs_passed = 0;
    absl::flat_hash_map<uint32_t, StringId> names;
    absl::flat_hash_map<uint32_t, uint16_t> call_types;
    absl::flat_hash_map<uint32_t, uint32_t> devices;
    LaunchesInFlight in_flight;
    uint64_t last_call_ticks = 0;  // end of the latest recorded call
    uint64_t last_work_ticks = 0;  // end of the latest recorded work of a device
  };
  struct Span {
    uint64_t start = 0, end = 0;
    bool uncertain = false, unfinished = false;
  };
  enum class Timing { kGood, kUntimed, kCorrupt };
  // A kernel, a copy, a set or a graph.
  struct Work {
    uint32_t device = kNoLine;
    Span span;
    uint64_t ns = 0;  // as the device measured it
  };

  ProcessState& StateOf(const Identity& process);
  Timing TimesOf(const ProcessState& state, uint64_t start_ns, uint64_t end_ns, bool may_be_open, Span* span) const;
  uint32_t DeviceOf(ProcessState* state, uint16_t device);
  static const std::string* StreamName(const ProcessState& state, uint32_t device, uint32_t stream);
  uint32_t StreamOf(uint32_t owner, uint32_t device, uint32_t stream, const ProcessState& state);
  uint16_t CallType(ProcessState* state, uint16_t callback, bool driver);
  bool IsLaunch(uint16_t type) const;
  void CountCalls(const Identity& process, uint32_t owner, uint16_t type, bool is_launch, uint64_t calls,
                  uint64_t ticks, uint64_t longest);
  void CountWaits(ProcessState* state, uint32_t context, uint64_t calls, int64_t ps);
  StringId KernelName(ProcessState* state, uint32_t id);
  uint32_t LaunchOf(uint32_t device, const GpuKernelRecord& kernel);
  void TakeKernel(ProcessState* state, uint32_t owner, const RecordView& record);
  void TakeCopy(ProcessState* state, uint32_t owner, const RecordView& record);
  void TakeApi(const Identity& process, ProcessState* state, uint32_t owner, const RecordView& record);
  void TakeSpan(ProcessState* state, uint32_t owner, const RecordView& record);
  void CountUnifiedMemory(ProcessState* state, uint32_t owner, uint16_t device, GpuUnifiedKind kind, uint64_t calls,
                          uint64_t value, int64_t ps);
  void TakeUnifiedMemory(const Identity& process, ProcessState* state, uint32_t owner, const RecordView& record);
  void TakeMemory(ProcessState* state, uint32_t owner, const GpuMemoryRecord& memory, bool dropped);
  void TakeGraph(ProcessState* state, uint32_t owner, const RecordView& record, const GpuSpanRecord& graph);
  bool InTotals(const Span& span) const { return span.end > window_.totals_open && span.start < window_.close; }
  // Returns false if there is nothing to count; the cause is counted.
  bool FindWork(ProcessState* state, uint16_t device, uint64_t start_ns, uint64_t end_ns, Work* work);
  // The part of the totals that all kinds of work share. Returns the time that counts, in ps.
  int64_t CountWork(uint32_t owner, const Work& work);
  // A copy from host to host is made by the host: CUDA runs it in the call, and CUPTI's times are those of the host.
  void TakeHostCopy(uint32_t owner, const Work& work, const GpuCopyRecord& copy);
  // Returns false if the work is not in the window, or its process is not shown.
  bool Place(uint32_t owner, const Work& work, uint32_t flags, GpuEvent* event) const;
  // `span` must touch the window. Returns false if there are too many lines or types, and counts that.
  bool PlaceOnHost(uint32_t line, uint16_t type, const Span& span, RawEvent* event);
  void Keep(const ProcessState& state, uint32_t owner, const Work& work, uint32_t stream, const GpuEvent& event);
  void KeepHostSpan(const GpuHostSpan& span);
  // The part of a span that lies in the time of the totals, in ps.
  int64_t CountedPs(const Span& span, uint64_t ns) const;

  const CaptureWindow& window_;
  const SpoolFacts* facts_;
  Timeline* timeline_;
  const HostParts host_;
  GpuDevices devices_;

  std::map<Identity, ProcessState> states_;
  const Identity* last_process_ = nullptr;
  ProcessState* last_state_ = nullptr;
  absl::flat_hash_map<std::pair<uint64_t, uint32_t>, uint32_t> stream_ids_;  // (owner << 32 | stream, device)
  absl::flat_hash_map<std::string, uint32_t> launch_ids_;
  std::map<uint32_t, int64_t> device_ps_;
  std::vector<GpuHostSpan> host_spans_;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_GPU_BUILDER_H_
