// SPDX-License-Identifier: Apache-2.0
#include "writer/outputs/summary_memory.h"

#include <algorithm>
#include <map>
#include <utility>

#include "writer/base/saturating.h"
#include "writer/base/summary_format.h"
#include "writer/base/text.h"
#include "writer/base/utf8.h"
#include "writer/outputs/native_place.h"
#include "writer/outputs/summary_values.h"
#include "writer/timeline/summary_limits.h"

namespace tbprof {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostListed = 16;
constexpr int64_t kLeastPeak = 1 << 20;
constexpr double kLeastShare = 0.05;  // least share of the peak for the largest place to be named
constexpr std::string_view kLabel = "memory: ";
constexpr size_t kNameColumns = 24;

const PythonStack* FrameOf(const Timeline& timeline, const HeldBytes& row) {
  const std::vector<PythonStack>& stacks = timeline.python.stacks;
  if (row.python == 0 || row.python_stack == 0 || row.python_stack >= stacks.size()) return nullptr;
  const PythonStack& frame = stacks[row.python_stack];
  return frame.function < timeline.python.functions.size() ? &frame : nullptr;
}

// `train.py:88 (load_batch)`; without a Python line `Fill (heap.cc:12) < main (heap.cc:40)`.
std::string PlaceText(const Timeline& timeline, const HeldBytes& row) {
  if (row.python == 0) return row.frames.empty() ? "?" : NativePlace(timeline, row.frames);
  std::string label = PrintableUtf8(timeline.strings.Get(row.python));
  const PythonStack* const frame = FrameOf(timeline, row);
  if (frame == nullptr) return label;
  const std::string name = PrintableUtf8(timeline.strings.Get(timeline.python.functions[frame->function].name));
  if (!label.ends_with(StrCat(" ", name))) return label;
  label.resize(label.size() - name.size());
  return StrCat(label, "(", name, ")");
}

std::string ProcessName(const Process& process) {
  return StrCat(FitColumns(PrintableUtf8(process.name.empty() ? process.executable : process.name), kNameColumns), " (",
                process.pid, ")");
}

// Sorted by peak, highest first.
std::vector<const Process*> ByPeak(const Timeline& timeline) {
  std::vector<const Process*> processes;
  for (const Process& process : timeline.processes) {
    if (process.memory.peak_bytes > 0) processes.push_back(&process);
  }
  std::ranges::stable_sort(processes, std::ranges::greater(),
                           [](const Process* process) { return process->memory.peak_bytes; });
  return processes;
}

double ShareOfPeak(int64_t bytes, int64_t peak) { return std::min(PartOf(bytes, peak), 1.0); }

std::string Bytes(int64_t bytes) { return HumanBytes(static_cast<double>(std::max<int64_t>(bytes, 0))); }

std::string LargestText(const Timeline& timeline, const std::vector<HeldBytes>& rows, int64_t peak, bool estimated) {
  const std::vector<HeldBytes> lines = HeldByLine(timeline, rows);
  if (lines.empty() || ShareOfPeak(lines[0].bytes, peak) < kLeastShare) return "";
  return StrCat(", ", estimated ? "about " : "", HumanPercent(ShareOfPeak(lines[0].bytes, peak)), " by ",
                PlaceText(timeline, lines[0]));
}

std::string PeakLine(const Timeline& timeline, const Process& process, bool several) {
  const HeldMemory& memory = process.memory;
  std::string line = StrCat(kLabel, "peak ", memory.lower_bound ? "at least " : "", Bytes(memory.peak_bytes),
                            " of heap at ", HumanTime(memory.peak_ps));
  if (several) StrAppend(&line, " in ", ProcessName(process));
  if (memory.lost > 0) return StrCat(line, "; by what is unknown: ", HumanCount(memory.lost), " records lost");
  return StrCat(line, LargestText(timeline, memory.at_peak, memory.peak_bytes, memory.samples > 0));
}

std::string GrowthLine(const Timeline& timeline, const Process& process) {
  const HeldMemory& memory = process.memory;
  if (!memory.grows.value_or(false) || !memory.growth || memory.growth->bytes <= 0) return "";
  const MemoryGrowth& growth = *memory.growth;
  std::string line =
      StrCat(kLabel, "grows by ",
             growth.steps > 0 ? StrCat(Bytes(growth.bytes / static_cast<int64_t>(growth.steps)), " a step")
                              : Bytes(growth.bytes));
  const std::vector<HeldBytes> lines = HeldByLine(timeline, growth.rows);
  if (lines.empty()) return line;
  return StrCat(line, ", by ", PlaceText(timeline, lines[0]), ": ", memory.samples > 0 ? "about " : "",
                HumanPercent(ShareOfPeak(lines[0].bytes, growth.bytes)));
}

std::string DeviceName(const Timeline& timeline, const DeviceMemory& device) {
  if (!device.by_torch) {
    return device.device < timeline.gpu_devices.size() ? StrCat("GPU ", timeline.gpu_devices[device.device].number)
                                                       : "GPU";
  }
  // c10::DeviceType.
  const bool gpu = device.device_type == 1 || device.device_type == 6;
  return StrCat(gpu ? "GPU " : StrCat("device ", device.device_type, ":"), device.device);
}

std::string DeviceLine(const Timeline& timeline, const DeviceMemory& device) {
  return StrCat(kLabel, DeviceName(timeline, device), ": peak ", Bytes(device.peak_bytes),
                device.by_torch ? " of tensors at " : " of the driver's allocations at ", HumanTime(device.peak_ps),
                LargestText(timeline, device.at_peak, device.peak_bytes, !device.complete));
}

Json RowJson(const Timeline& timeline, const HeldBytes& row, bool estimated) {
  const PythonStack* const frame = FrameOf(timeline, row);
  Json json = {{"kind", "place"}, {"python", nullptr},   {"file", nullptr},
               {"line", nullptr}, {"function", nullptr}, {"call_site", nullptr}};
  if (row.python != 0) json["python"] = ValidUtf8(timeline.strings.Get(row.python));
  if (frame != nullptr) {
    const PythonFunction& function = timeline.python.functions[frame->function];
    json["file"] = ValidUtf8(timeline.strings.Get(function.file));
    if (frame->line > 0) json["line"] = frame->line;
    json["function"] = ValidUtf8(timeline.strings.Get(function.name));
  }
  if (!row.frames.empty()) json["call_site"] = NativePlace(timeline, row.frames);
  json["bytes"] = row.bytes;
  json["blocks"] = row.blocks;
  json["estimated"] = estimated;
  return json;
}

// A row for bytes without a place; their number of blocks is unknown.
Json OtherJson(std::string_view kind, int64_t bytes, bool estimated) {
  return {{"kind", kind},    {"python", nullptr},   {"file", nullptr},
          {"line", nullptr}, {"function", nullptr}, {"call_site", nullptr},
          {"bytes", bytes},  {"blocks", nullptr},   {"estimated", estimated}};
}

// The first rows, and rows for the remaining bytes, so that the sum is `whole`.
Json RowsJson(const Timeline& timeline, const std::vector<HeldBytes>& rows, int64_t whole, int64_t earlier,
              bool estimated) {
  Json json = Json::array();
  int64_t rest = whole;
  for (const HeldBytes& row : HeldByLine(timeline, rows)) {
    if (json.size() == kSummaryRows) break;
    json.push_back(RowJson(timeline, row, estimated));
    rest -= std::clamp<int64_t>(row.bytes, -(int64_t{1} << 60), int64_t{1} << 60);
  }
  const int64_t before = std::clamp<int64_t>(earlier, 0, std::max<int64_t>(rest, 0));
  if (before > 0) json.push_back(OtherJson("earlier", before, estimated));
  if (rest != before) json.push_back(OtherJson("rest", rest - before, estimated));
  return json;
}

std::string_view BasisName(MemoryBasis basis) {
  switch (basis) {
    case MemoryBasis::kNone:
      return "none";
    case MemoryBasis::kExact:
      return "exact";
    case MemoryBasis::kSampled:
      return "sampled";
  }
  return "none";
}

Json ProcessMemoryJson(const Timeline& timeline, const Process& process) {
  const HeldMemory& memory = process.memory;
  const bool estimated = memory.basis != MemoryBasis::kExact;
  const bool known = memory.basis != MemoryBasis::kNone && memory.lost == 0;
  Json json = {{"pid", process.pid},
               {"name", ValidUtf8(process.name)},
               {"basis", BasisName(memory.basis)},
               {"peak_bytes", memory.peak_bytes},
               {"peak_is", memory.lower_bound    ? "lower_bound"
                           : estimated || !known ? "counted"
                                                 : "exact"},
               {"peak_s", Seconds(memory.peak_ps)},
               {"samples", memory.samples},
               {"lost_at_least", memory.lost},
               {"live_at_peak", nullptr},
               {"growth", nullptr},
               {"grows", nullptr}};
  if (memory.grows) json["grows"] = *memory.grows;
  if (!known) return json;
  json["live_at_peak"] = RowsJson(timeline, memory.at_peak, memory.peak_bytes, memory.earlier_bytes, estimated);
  if (!memory.growth) return json;
  const MemoryGrowth& growth = *memory.growth;
  Json per_step;
  if (growth.steps > 0) per_step = static_cast<double>(growth.bytes) / static_cast<double>(growth.steps);
  json["growth"] = {{"from_s", Seconds(growth.from_ps)},
                    {"to_s", Seconds(growth.to_ps)},
                    {"bytes", growth.bytes},
                    {"steps", growth.steps > 0 ? Json(growth.steps) : Json(nullptr)},
                    {"bytes_per_step", std::move(per_step)},
                    {"rows", RowsJson(timeline, growth.rows, growth.bytes, 0, estimated)}};
  return json;
}

Json DeviceMemoryJson(const Timeline& timeline, const DeviceMemory& device) {
  const bool known = device.process < timeline.processes.size();
  return {{"name", DeviceName(timeline, device)},
          {"source", device.by_torch ? "pytorch" : "driver"},
          {"pid", known && device.by_torch ? Json(timeline.processes[device.process].pid) : Json(nullptr)},
          {"number", device.by_torch || device.device >= timeline.gpu_devices.size()
                         ? static_cast<int64_t>(device.device)
                         : static_cast<int64_t>(timeline.gpu_devices[device.device].number)},
          {"peak_bytes", device.peak_bytes},
          {"peak_s", Seconds(device.peak_ps)},
          {"reserved_bytes", device.by_torch ? Json(device.reserved_bytes) : Json(nullptr)},
          {"complete", device.complete},
          {"live_at_peak", RowsJson(timeline, device.at_peak, device.peak_bytes, 0, !device.complete)}};
}

}  // namespace

std::vector<HeldBytes> HeldByLine(const Timeline& timeline, const std::vector<HeldBytes>& rows) {
  std::vector<HeldBytes> lines;
  std::map<std::pair<StringId, std::string>, size_t> indices;
  for (const HeldBytes& row : rows) {
    std::string native = row.python != 0 || row.frames.empty() ? "" : NativePlace(timeline, row.frames);
    const auto [known, added] = indices.try_emplace({row.python, std::move(native)}, lines.size());
    if (added) {
      lines.push_back(row);
      continue;
    }
    HeldBytes& line = lines[known->second];
    AddSaturating(&line.bytes, row.bytes);
    AddSaturating(&line.blocks, row.blocks);
  }
  std::ranges::stable_sort(lines, std::ranges::greater(), &HeldBytes::bytes);
  return lines;
}

std::vector<std::string> MemoryVerdict(const Timeline& timeline, size_t columns) {
  std::vector<std::string> lines;
  const std::vector<const Process*> processes = ByPeak(timeline);
  if (!processes.empty() && processes[0]->memory.peak_bytes >= kLeastPeak) {
    lines.push_back(PeakLine(timeline, *processes[0], processes.size() > 1));
    if (std::string growth = GrowthLine(timeline, *processes[0]); !growth.empty()) lines.push_back(std::move(growth));
  }
  if (!timeline.device_memory.empty()) lines.push_back(DeviceLine(timeline, timeline.device_memory[0]));
  for (std::string& line : lines) line = FitColumns(line, columns, /*keep_end=*/false);
  return lines;
}

nlohmann::ordered_json MemoryJson(const Timeline& timeline) {
  Json processes = Json::array();
  for (const Process* process : ByPeak(timeline)) {
    if (processes.size() == kMostListed) break;
    processes.push_back(ProcessMemoryJson(timeline, *process));
  }
  Json devices = Json::array();
  for (const DeviceMemory& device : timeline.device_memory) devices.push_back(DeviceMemoryJson(timeline, device));
  return {{"processes", std::move(processes)}, {"devices", std::move(devices)}};
}

}  // namespace tbprof
