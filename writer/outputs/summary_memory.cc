// SPDX-License-Identifier: Apache-2.0
#include "writer/outputs/summary_memory.h"

#include <algorithm>
#include <map>
#include <utility>

#include "writer/base/json_values.h"
#include "writer/base/saturating.h"
#include "writer/base/summary_format.h"
#include "writer/base/text.h"
#include "writer/base/utf8.h"
#include "writer/outputs/memory_text.h"
#include "writer/outputs/native_place.h"
#include "writer/timeline/summary_limits.h"

namespace tbprof {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostListed = 16;

const PythonStack* FrameOf(const Timeline& timeline, const HeldBytes& row) {
  const std::vector<PythonStack>& stacks = timeline.python.stacks;
  if (row.python == 0 || row.python_stack == 0 || row.python_stack >= stacks.size()) return nullptr;
  const PythonStack& frame = stacks[row.python_stack];
  return frame.function < timeline.python.functions.size() ? &frame : nullptr;
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

// Without the places.
Json GrowthJson(const MemoryGrowth& growth) {
  Json per_step;
  if (growth.steps > 0) per_step = static_cast<double>(growth.bytes) / static_cast<double>(growth.steps);
  return {{"from_s", Seconds(growth.from_ps)},
          {"to_s", Seconds(growth.to_ps)},
          {"bytes", growth.bytes},
          {"steps", growth.steps > 0 ? Json(growth.steps) : Json(nullptr)},
          {"bytes_per_step", std::move(per_step)}};
}

Json ResidentJson(const ResidentMemory& resident) {
  if (resident.points.empty()) return nullptr;
  const ResidentPoint& highest = resident.highest;
  return {{"peak_bytes", resident.peak_bytes},
          {"own_bytes", highest.own_bytes()},
          {"own_s", Seconds(highest.at_ps)},
          {"anonymous_bytes", highest.anonymous_bytes},
          {"shared_bytes", highest.shared_bytes},
          {"swapped_bytes", highest.swapped_bytes},
          {"growth", resident.growth ? GrowthJson(*resident.growth) : Json(nullptr)},
          {"grows", resident.grows ? Json(*resident.grows) : Json(nullptr)},
          {"beyond_heap_bytes", resident.beyond_bytes},
          {"beyond_heap_growth", resident.beyond_growth ? GrowthJson(*resident.beyond_growth) : Json(nullptr)}};
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
  json["resident"] = ResidentJson(process.resident);
  if (!known) return json;
  json["live_at_peak"] = RowsJson(timeline, memory.at_peak, memory.peak_bytes, memory.earlier_bytes, estimated);
  if (!memory.growth) return json;
  json["growth"] = GrowthJson(*memory.growth);
  json["growth"]["rows"] = RowsJson(timeline, memory.growth->rows, memory.growth->bytes, 0, estimated);
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

nlohmann::ordered_json MemoryJson(const Timeline& timeline) {
  Json processes = Json::array();
  for (const Process* process : ProcessesByMemory(timeline)) {
    // Of a process without a known heap, only the sentences tell.
    if (processes.size() == kMostListed || process->memory.peak_bytes <= 0) break;
    processes.push_back(ProcessMemoryJson(timeline, *process));
  }
  Json devices = Json::array();
  for (const DeviceMemory& device : timeline.device_memory) devices.push_back(DeviceMemoryJson(timeline, device));
  const MemoryText text = MemoryOfRanks(timeline);
  Json sentences = Json::array();
  for (const std::vector<std::string>& some : {text.growth, text.levels}) {
    for (const std::string& sentence : some) sentences.push_back(ValidUtf8(sentence));
  }
  return {{"text", std::move(sentences)}, {"processes", std::move(processes)}, {"devices", std::move(devices)}};
}

}  // namespace tbprof
