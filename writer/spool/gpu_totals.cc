// SPDX-License-Identifier: Apache-2.0
#include "writer/spool/gpu_totals.h"

#include <algorithm>

#include "writer/base/saturating.h"

namespace tbprof {
namespace {

constexpr size_t kBusyIntervals = 1u << 15;

}  // namespace

GpuTotals::Sum* GpuTotals::SumOf(Key key) {
  if (sums_.size() >= kMostRows && key.kind == GpuTotalKind::kKernel && !sums_.contains(key)) key.id = 0;
  if (sums_.size() >= 2 * kMostRows && !sums_.contains(key)) return nullptr;
  return &sums_[key];
}

void GpuTotals::AddWork(const Key& key, uint64_t start, uint64_t end, uint64_t bytes) {
  if (end != 0 && end < start) return;
  Sum* const sum = SumOf(key);
  if (sum == nullptr) return;
  if (start == 0) {
    ++sum->untimed;
    return;
  }
  ++sum->calls;
  AddSaturating(&sum->bytes, bytes);
  if (end == 0) {
    ++sum->unfinished;
    return;
  }
  AddSaturating(&sum->ns, end - start);
  sum->longest = std::max(sum->longest, end - start);
  // The host makes such a copy itself.
  if (key.kind == GpuTotalKind::kCopy && key.id == static_cast<uint32_t>(GpuCopyKind::kHostToHost)) return;
  const auto device = std::make_tuple(key.segment, key.process, key.device);
  auto busy = busy_.find(device);
  if (busy == busy_.end()) {
    if (busy_.size() >= kMostBusy) return;
    busy = busy_.emplace(device, IntervalUnion(kBusyIntervals)).first;
  }
  busy->second.Add(start, end);
}

void GpuTotals::AddCall(const Key& key, uint64_t ns, uint64_t bytes) {
  Sum* const sum = SumOf(key);
  if (sum == nullptr) return;
  ++sum->calls;
  AddSaturating(&sum->bytes, bytes);
  AddSaturating(&sum->ns, ns);
  sum->longest = std::max(sum->longest, ns);
}

void GpuTotals::Add(uint32_t segment, uint32_t process_serial, const RecordView& record) {
  const auto key = [&](GpuTotalKind kind, uint16_t device, uint32_t id) {
    return Key{segment, process_serial, kind, device, id};
  };
  switch (record.tag.kind) {
    case RecordKind::kGpuKernel: {
      GpuKernelRecord kernel;
      if (!record.Read(&kernel)) return;
      return AddWork(key(GpuTotalKind::kKernel, record.tag.aux, kernel.name), kernel.start, kernel.end, 0);
    }
    case RecordKind::kGpuCopy: {
      GpuCopyRecord copy;
      if (!record.Read(&copy)) return;
      return AddWork(key(GpuTotalKind::kCopy, record.tag.aux, static_cast<uint8_t>(copy.copy_kind)), copy.start,
                     copy.end, copy.bytes);
    }
    case RecordKind::kGpuApi: {
      GpuApiRecord api;
      if (!record.Read(&api)) return;
      const bool driver = (record.tag.flags & kRecordDriver) != 0;
      return AddCall(key(GpuTotalKind::kCall, 0, record.tag.aux | uint32_t{driver} << 16),
                     api.duration_and_result >> 16);
    }
    case RecordKind::kGpuSpan: {
      GpuSpanRecord span;
      if (!record.Read(&span)) return;
      if (span.span_kind == GpuSpanKind::kGraph) {
        return AddWork(key(GpuTotalKind::kGraph, record.tag.aux, 0), span.start, span.end, 0);
      }
      const bool is_wait = span.span_kind == GpuSpanKind::kSynchronization && IsHostWait(span.type);
      if (!is_wait || span.start == 0 || span.end < span.start) return;
      return AddCall(key(GpuTotalKind::kWait, 0, span.context), span.end - span.start);
    }
    case RecordKind::kGpuMemory:
      return AddMemory(segment, process_serial, record);
    case RecordKind::kGpuUnifiedMemory: {
      GpuUnifiedMemoryRecord unified;
      if (!record.Read(&unified) || unified.start == 0 || (unified.end != 0 && unified.end < unified.start)) return;
      return AddCall(key(GpuTotalKind::kUnifiedMemory, record.tag.aux, static_cast<uint8_t>(unified.unified_kind)),
                     unified.end == 0 ? 0 : unified.end - unified.start,
                     unified.unified_kind == GpuUnifiedKind::kHostFault ? 0 : unified.value);
    }
    default:
      return;
  }
}

void GpuTotals::AddMemory(uint32_t segment, uint32_t process_serial, const RecordView& record) {
  GpuMemoryRow row{segment, process_serial, {}};
  if (record.tag.kind != RecordKind::kGpuMemory || !record.Read(&row.memory)) return;
  if (!IsDeviceMemory(row.memory.memory_kind)) return;
  if (memory_.size() >= kMostMemory) ForgetOldMemory();
  if (memory_.size() >= kMostMemory) {
    ++memory_left_out_;
    return;
  }
  memory_.push_back(row);
}

// Removes pairs of an allocation and its release from the older half.
void GpuTotals::ForgetOldMemory() {
  std::stable_sort(memory_.begin(), memory_.end(), [](const GpuMemoryRow& a, const GpuMemoryRow& b) {
    if (a.memory.time != b.memory.time) return a.memory.time < b.memory.time;
    return a.memory.operation > b.memory.operation;
  });
  absl::flat_hash_map<std::tuple<uint32_t, uint32_t, uint16_t, uint64_t>, size_t> in_use;
  std::vector<bool> forgotten(memory_.size());
  for (size_t i = 0; i < memory_.size() / 2; ++i) {
    const GpuMemoryRow& row = memory_[i];
    const auto key = std::make_tuple(row.segment, row.process_serial, row.memory.tag.aux, row.memory.address);
    if (row.memory.operation == GpuMemoryOperation::kAllocation) {
      in_use[key] = i;
      continue;
    }
    const auto allocated = in_use.find(key);
    if (allocated == in_use.end()) continue;
    forgotten[allocated->second] = forgotten[i] = true;
    in_use.erase(allocated);
  }
  size_t kept = 0;
  for (size_t i = 0; i < memory_.size(); ++i) {
    if (!forgotten[i]) memory_[kept++] = memory_[i];
  }
  memory_.resize(kept);
}

std::vector<GpuTotalRow> GpuTotals::Rows() {
  std::vector<GpuTotalRow> rows;
  for (const auto& [key, sum] : sums_) {
    rows.push_back({key.segment, key.process, key.kind, key.device, key.id, sum.calls, sum.bytes, sum.ns, sum.longest,
                    sum.untimed, sum.unfinished});
  }
  for (auto& [key, busy] : busy_) {
    const auto [segment, process, device] = key;
    rows.push_back({segment, process, GpuTotalKind::kBusy, device, 0, 0, 0, busy.Length(), 0, 0, 0});
  }
  return rows;
}

}  // namespace tbprof
