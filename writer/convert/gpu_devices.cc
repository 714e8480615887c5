// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/gpu_devices.h"

#include <algorithm>

#include "writer/base/saturating.h"
#include "writer/base/text.h"
#include "writer/base/utf8.h"
#include "writer/convert/gpu_names.h"

namespace tbprof {
namespace {

constexpr size_t kMaxCounterSamples = 4000;

std::string Hexadecimal(const uint8_t* bytes, size_t size) {
  std::string text;
  for (size_t i = 0; i < size; ++i) {
    text += "0123456789abcdef"[bytes[i] >> 4];
    text += "0123456789abcdef"[bytes[i] & 15];
  }
  return text;
}

}  // namespace

uint32_t GpuDevices::Find(uint16_t number, const GpuDeviceFacts* facts) {
  // With CUDA_VISIBLE_DEVICES two processes may use one number for different devices, or two numbers for one device.
  const std::string key = facts != nullptr && facts->has_uuid()
                              ? Hexadecimal(facts->record.uuid, sizeof(facts->record.uuid))
                              : StrCat("number ", number);
  const auto same = std::find(keys_.begin(), keys_.end(), key);
  auto index = static_cast<uint32_t>(same - keys_.begin());
  if (same == keys_.end()) {
    if (keys_.size() >= kMaxDevices) return kNoLine;
    keys_.push_back(key);
    records_.emplace_back();
    numbers_.push_back(number);
    busy_.emplace_back();
    dropped_busy_ps_.push_back(0);
    memory_.emplace_back();
    timeline_->gpu_devices.emplace_back();
  }
  GpuDevice& device = timeline_->gpu_devices[index];
  if (facts != nullptr && !device.has_facts) {
    const GpuDeviceRecord& record = facts->record;
    records_[index] = record;
    device.has_facts = true;
    device.name = TruncateUtf8(PrintableUtf8(facts->name), 128);
    if (facts->has_uuid()) device.uuid = key;
    device.is_partition = (record.flags & 1) != 0;
    device.memory_bytes = record.memory_bytes;
    if (__builtin_mul_overflow(record.memory_bandwidth, uint64_t{1000}, &device.memory_bandwidth)) {
      device.memory_bandwidth = 0;
    }
    device.core_clock_khz = record.core_clock_khz;
    device.multiprocessors = record.multiprocessors;
    device.compute_major = record.compute_major;
    device.compute_minor = record.compute_minor;
  }
  return index;
}

void GpuDevices::CountKernels(uint32_t device, StringId name, uint64_t calls, int64_t ps, int64_t longest_ps) {
  GpuKernelTotal& total = kernel_totals_[{device, name}];
  total.name = name;
  AddSaturating(&total.calls, calls);
  AddSaturating(&total.total_ps, ps);
  total.longest_ps = std::max(total.longest_ps, longest_ps);
  GpuDevice& of = timeline_->gpu_devices[device];
  AddSaturating(&of.kernels, calls);
  AddSaturating(&of.kernel_ps, ps);
  if (IsCollective(timeline_->strings.Get(name))) AddSaturating(&of.collective_ps, ps);
}

void GpuDevices::CountCopies(uint32_t device, uint8_t copy_kind, uint64_t calls, uint64_t bytes, int64_t ps) {
  GpuCopyTotal& total = copy_totals_[{device, copy_kind}];
  AddSaturating(&total.calls, calls);
  AddSaturating(&total.bytes, bytes);
  AddSaturating(&total.total_ps, ps);
}

void GpuDevices::CountUnified(uint32_t device, GpuUnifiedKind kind, uint64_t calls, uint64_t value, int64_t ps) {
  GpuUnifiedTotal& total = unified_totals_[{device, kind}];
  AddSaturating(&total.calls, calls);
  AddSaturating(&total.value, kind == GpuUnifiedKind::kThrottling ? calls : value);
  AddSaturating(&total.total_ps, ps);
}

void GpuDevices::AddTotals() {
  for (uint32_t i = 0; i < timeline_->gpu_devices.size(); ++i) {
    GpuDevice& device = timeline_->gpu_devices[i];
    device.busy_ps = facts_->clock.DurationPs(busy_[i].Length());
    AddSaturating(&device.busy_ps, dropped_busy_ps_[i]);
    // Work on both sides of a dropped part's border, or of two processes, counts twice.
    device.busy_ps = std::min(device.busy_ps, std::max(timeline_->totals_ps, timeline_->duration_ps));
    for (const auto& [key, total] : kernel_totals_) {
      if (key.first == i) device.kernel_totals.push_back(total);
    }
    for (auto& [key, total] : copy_totals_) {
      if (key.first != i) continue;
      total.name = GpuCopyName(key.second);
      device.copy_totals.push_back(total);
    }
    for (auto& [key, total] : unified_totals_) {
      if (key.first != i) continue;
      const UnifiedMemoryKind& kind = *FindUnifiedMemoryKind(key.second);
      total.name = kind.name;
      total.is_bytes = kind.is_bytes;
      device.unified_totals.push_back(total);
    }
    const auto longer = [](const auto& a, const auto& b) { return a.total_ps > b.total_ps; };
    std::stable_sort(device.kernel_totals.begin(), device.kernel_totals.end(), longer);
    std::stable_sort(device.copy_totals.begin(), device.copy_totals.end(), longer);
  }
}

void GpuDevices::AddMemory(const CaptureWindow& window) {
  for (uint32_t i = 0; i < memory_.size(); ++i) {
    const std::vector<GpuMemoryTrack::Sample> all = memory_[i].Samples();
    if (all.empty()) continue;
    GpuDevice& device = timeline_->gpu_devices[i];
    CounterTrack track;
    track.name = "GPU memory in use";
    track.series = "bytes";
    track.device = static_cast<int>(i);
    int64_t at_open = 0;
    std::vector<GpuMemoryTrack::Sample> shown;
    for (const GpuMemoryTrack::Sample& sample : all) {
      device.live_bytes = sample.bytes;
      if (sample.ticks >= window.totals_open) device.peak_bytes = std::max(device.peak_bytes, sample.bytes);
      if (sample.ticks < window.open) {
        at_open = sample.bytes;
      } else {
        shown.push_back(sample);
      }
    }
    device.peak_bytes = std::max(device.peak_bytes, at_open);
    track.samples.push_back({0, static_cast<double>(at_open)});
    // Keeps the highest sample of each bucket, so that a burst stays visible.
    const size_t stride = shown.size() / kMaxCounterSamples + 1;
    for (size_t from = 0; from < shown.size(); from += stride) {
      const auto begin = shown.begin() + static_cast<ptrdiff_t>(from);
      const auto end = shown.begin() + static_cast<ptrdiff_t>(std::min(from + stride, shown.size()));
      const auto highest = std::max_element(begin, end, [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
      track.samples.push_back({PsInWindow(*facts_, *timeline_, highest->ticks), static_cast<double>(highest->bytes)});
    }
    if (!shown.empty() && stride > 1) {
      track.samples.push_back(
          {PsInWindow(*facts_, *timeline_, shown.back().ticks), static_cast<double>(shown.back().bytes)});
    }
    timeline_->counters.push_back(std::move(track));
  }
}

std::vector<GpuDevicePlace> GpuDevices::Places() const {
  std::vector<GpuDevicePlace> places(timeline_->gpu_devices.size());
  for (const GpuStream& stream : timeline_->gpu_streams) places[stream.device].is_used = true;
  for (uint32_t i = 0; i < places.size(); ++i) {
    const GpuDevice& device = timeline_->gpu_devices[i];
    places[i].number = numbers_[i];
    places[i].record = records_[i];
    places[i].is_used =
        places[i].is_used || device.kernels != 0 || device.untimed != 0 || device.graphs != 0 || !memory_[i].empty() ||
        std::any_of(copy_totals_.begin(), copy_totals_.end(), [&](const auto& row) { return row.first.first == i; }) ||
        std::any_of(unified_totals_.begin(), unified_totals_.end(),
                    [&](const auto& row) { return row.first.first == i; });
  }
  return places;
}

void GpuDevices::Finish(const CaptureWindow& window) {
  AddTotals();
  AddMemory(window);
}

}  // namespace tbprof
