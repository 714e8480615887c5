// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/torch_memory.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "writer/base/extremes.h"
#include "writer/base/saturating.h"

namespace tbprof {
namespace {

constexpr size_t kMostDevices = 256;

void Thin(std::vector<TensorMemory>* reports, size_t groups) {
  *reports = KeepExtremes(*reports, groups, [](auto from, auto to) {
    return std::minmax_element(from, to,
                               [](const TensorMemory& a, const TensorMemory& b) { return a.allocated < b.allocated; });
  });
}

// The name of PyTorch's outermost operation at a time.
StringId OperationAt(const Timeline& timeline, uint32_t index, int64_t time_ps) {
  constexpr int kMostLooks = 256;
  if (index >= timeline.threads.size()) return 0;
  const std::vector<Event>& events = timeline.threads[index].events;
  auto event = std::upper_bound(events.begin(), events.end(), time_ps,
                                [](int64_t time, const Event& other) { return time < other.start_ps; });
  for (int look = 0; look < kMostLooks && event != events.begin(); ++look) {
    --event;
    const RangeOrigin origin = timeline.types[event->type].origin;
    if (origin != RangeOrigin::kTorchOperation && origin != RangeOrigin::kTorchBackward) continue;
    if (event->detail != 0 && event->start_ps + event->duration_ps >= time_ps) return event->detail;
  }
  return 0;
}

// The live memory at the highest report: by operation, and by the sampled stack of the thread.
DeviceMemory PeakOf(const Timeline& timeline, const std::vector<TensorMemory>& reports, bool complete) {
  const auto highest = std::ranges::max_element(reports, {}, &TensorMemory::allocated);
  DeviceMemory device;
  device.process = highest->process;
  device.device_type = highest->device_type;
  device.device = highest->device;
  device.by_torch = true;
  device.peak_bytes = highest->allocated;
  device.reserved_bytes = highest->reserved;
  device.peak_ps = highest->time_ps;
  absl::flat_hash_map<uint64_t, const TensorMemory*> live;
  for (auto report = reports.begin(); report <= highest; ++report) {
    if (report->bytes > 0) {
      live[report->address] = &*report;
    } else {
      live.erase(report->address);
    }
  }
  std::map<std::pair<StringId, uint32_t>, HeldBytes> rows;
  int64_t known = 0;
  for (const auto& [address, tensor] : live) {
    const StringId operation = OperationAt(timeline, tensor->thread, tensor->time_ps);
    const PythonThread* const python = timeline.python.OfThread(tensor->thread);
    const uint32_t stack = python == nullptr ? 0 : python->StackAt(tensor->time_ps);
    HeldBytes& row = rows[{operation, stack}];
    if (operation != 0) row.frames = {operation};
    row.python_stack = stack;
    AddSaturating(&row.bytes, tensor->bytes);
    ++row.blocks;
    AddSaturating(&known, tensor->bytes);
  }
  for (auto& [key, row] : rows) device.at_peak.push_back(std::move(row));
  std::ranges::stable_sort(device.at_peak, std::ranges::greater(), &HeldBytes::bytes);
  device.complete = complete && known == device.peak_bytes;
  return device;
}

int64_t EndOfStepAt(const Timeline& timeline, int64_t time_ps) {
  auto step = std::upper_bound(timeline.steps.begin(), timeline.steps.end(), time_ps,
                               [](int64_t time, const Step& other) { return time < other.start_ps; });
  return step == timeline.steps.begin() ? INT64_MIN : std::prev(step)->end_ps;
}

}  // namespace

bool TorchMemory::Take(uint32_t process, uint32_t thread, const RecordView& view) {
  TensorMemoryRecord record;
  if (!view.Read(&record)) return false;
  const std::tuple key{process, record.device_type, record.tag.aux};
  if (devices_.size() >= kMostDevices && devices_.find(key) == devices_.end()) return false;
  auto& [reports, thinned] = devices_[key];
  TensorMemory report;
  report.time_ps = static_cast<int64_t>(record.ticks);
  report.address = record.address;
  report.bytes = std::max(record.bytes, -INT64_MAX);
  report.allocated = static_cast<int64_t>(std::min<uint64_t>(record.allocated, INT64_MAX));
  report.reserved = static_cast<int64_t>(std::min<uint64_t>(record.reserved, INT64_MAX));
  report.process = process;
  report.thread = thread;
  report.device_type = record.device_type;
  report.device = record.tag.aux;
  reports.push_back(report);
  if (reports.size() >= kMostOfADevice) {
    Thin(&reports, kMostOfADevice / 4);
    thinned = true;
  }
  return true;
}

std::vector<TensorMemory> TorchMemory::Finish(const Timeline& timeline, const std::function<int64_t(uint64_t)>& to_ps,
                                              std::vector<DeviceMemory>* devices) {
  std::vector<TensorMemory> all;
  for (auto& [key, of_device] : devices_) {
    auto& [reports, thinned] = of_device;
    // Threads are read one after the other, so the reports are not in order of time.
    std::stable_sort(reports.begin(), reports.end(),
                     [](const TensorMemory& a, const TensorMemory& b) { return a.time_ps < b.time_ps; });
    absl::flat_hash_map<uint64_t, size_t> live;
    for (size_t i = 0; i < reports.size(); ++i) {
      TensorMemory& report = reports[i];
      report.time_ps = to_ps(static_cast<uint64_t>(report.time_ps));
      report.lasting = true;
      report.kind_known = !thinned;
      if (report.bytes > 0) {
        live[report.address] = i;
      } else if (const auto come = live.find(report.address); come != live.end()) {
        TensorMemory& allocation = reports[come->second];
        allocation.lasting = report.time_ps > EndOfStepAt(timeline, allocation.time_ps);
        report.lasting = allocation.lasting;
        live.erase(come);
      }
    }
    if (!reports.empty()) devices->push_back(PeakOf(timeline, reports, !thinned));
    if (reports.size() > kMostKept) Thin(&reports, kMostKept / 2);
    for (TensorMemory& report : reports) report.operation = OperationAt(timeline, report.thread, report.time_ps);
    all.insert(all.end(), reports.begin(), reports.end());
  }
  devices_.clear();
  std::stable_sort(all.begin(), all.end(),
                   [](const TensorMemory& a, const TensorMemory& b) { return a.time_ps < b.time_ps; });
  return all;
}

}  // namespace tbprof
