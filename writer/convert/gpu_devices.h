// SPDX-License-Identifier: Apache-2.0
//
// The devices that processes used: which numbers of different processes mean the same device, the work on each device,
// and its memory.
//
// Process: converter, one thread. Untrusted: all numbers.
#ifndef TBPROF_WRITER_CONVERT_GPU_DEVICES_H_
#define TBPROF_WRITER_CONVERT_GPU_DEVICES_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "writer/base/interval_union.h"
#include "writer/base/saturating.h"
#include "writer/convert/capture_window.h"
#include "writer/convert/gpu_lines.h"
#include "writer/convert/gpu_memory.h"
#include "writer/spool/spool_facts.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

class GpuDevices {
 public:
  // Both must outlive this.
  GpuDevices(const SpoolFacts* facts, Timeline* timeline) : facts_(facts), timeline_(timeline) {}

  // Index into Timeline::gpu_devices of the device that a process calls `number`, created if needed; kNoLine: there are
  // too many. `facts`: the process's record of the device, or null.
  uint32_t Find(uint16_t number, const GpuDeviceFacts* facts);
  const GpuDeviceRecord& record(uint32_t device) const { return records_[device]; }

  void CountKernels(uint32_t device, StringId name, uint64_t calls, int64_t ps, int64_t longest_ps);
  void CountCopies(uint32_t device, uint8_t copy_kind, uint64_t calls, uint64_t bytes, int64_t ps);
  void CountUnified(uint32_t device, GpuUnifiedKind kind, uint64_t calls, uint64_t value, int64_t ps);
  // In ticks; time in dropped parts of the spool is in ps.
  void AddBusy(uint32_t device, uint64_t from, uint64_t to) { busy_[device].Add(from, to); }
  void AddDroppedBusy(uint32_t device, int64_t ps) { AddSaturating(&dropped_busy_ps_[device], ps); }
  GpuMemoryTrack& memory(uint32_t device) { return memory_[device]; }

  // Adds the totals and the memory tracks to the timeline.
  void Finish(const CaptureWindow& window);
  std::vector<GpuDevicePlace> Places() const;

 private:
  void AddTotals();
  void AddMemory(const CaptureWindow& window);

  const SpoolFacts* facts_;
  Timeline* timeline_;
  std::vector<std::string> keys_;
  std::vector<GpuDeviceRecord> records_;
  std::vector<uint32_t> numbers_;  // as processes number them
  std::vector<IntervalUnion> busy_;
  std::vector<int64_t> dropped_busy_ps_;
  std::vector<GpuMemoryTrack> memory_;
  std::map<std::pair<uint32_t, StringId>, GpuKernelTotal> kernel_totals_;
  std::map<std::pair<uint32_t, uint8_t>, GpuCopyTotal> copy_totals_;
  std::map<std::pair<uint32_t, GpuUnifiedKind>, GpuUnifiedTotal> unified_totals_;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_GPU_DEVICES_H_
