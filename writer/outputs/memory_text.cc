// SPDX-License-Identifier: Apache-2.0
#include "writer/outputs/memory_text.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "writer/base/json_values.h"
#include "writer/base/saturating.h"
#include "writer/base/shown_file.h"
#include "writer/base/summary_format.h"
#include "writer/base/text.h"
#include "writer/base/utf8.h"
#include "writer/outputs/native_place.h"
#include "writer/timeline/python_origin.h"

namespace tbprof {
namespace {

constexpr int64_t kLeastPeak = 1 << 20;
constexpr double kLeastShare = 0.05;     // least share of the peak for the largest place to be named
constexpr double kLeastOfGrowth = 0.25;  // below it the largest place is no explanation
constexpr size_t kNameColumns = 24;
// What is resident beyond the heap is named from this size and share of the resident memory on: an interpreter with its
// libraries has some MiB, with PyTorch up to 260.
constexpr int64_t kLeastBeyond = 320 << 20;
constexpr double kLeastBeyondShare = 0.4;

PythonOrigin OriginOf(const Timeline& timeline, const PythonStack& frame) {
  const PythonFunction& function = timeline.python.functions[frame.function];
  return PythonOriginOf(timeline.strings.Get(function.file), timeline.strings.Get(function.name));
}

// The frame of `stack` that is the program's own and innermost; 0: there is none.
uint32_t OwnFrame(const Timeline& timeline, uint32_t stack) {
  while (stack != 0 && OriginOf(timeline, timeline.python.stacks[stack]) != PythonOrigin::kProgram) {
    stack = timeline.python.stacks[stack].parent;
  }
  return stack;
}

// `train.py:88 (load_batch)`; of a library `numeric.py:232 (ones), from train.py:88`; without a Python line
// `Fill (heap.cc:12) < main (heap.cc:40)`.
std::string PlaceText(const Timeline& timeline, const HeldBytes& row) {
  if (row.python == 0) return row.frames.empty() ? "?" : NativePlace(timeline, row.frames);
  std::string label = PrintableUtf8(timeline.strings.Get(row.python));
  const std::vector<PythonStack>& stacks = timeline.python.stacks;
  if (row.python_stack == 0 || row.python_stack >= stacks.size()) return label;
  const PythonStack& frame = stacks[row.python_stack];
  const std::string name = PrintableUtf8(timeline.strings.Get(timeline.python.functions[frame.function].name));
  if (label.ends_with(StrCat(" ", name))) {
    label.resize(label.size() - name.size());
    StrAppend(&label, "(", name, ")");
  }
  const PythonOrigin origin = OriginOf(timeline, frame);
  if (IsOfImportlib(origin)) label = "imports of modules";
  if (origin == PythonOrigin::kProgram) return label;
  const uint32_t own = OwnFrame(timeline, frame.parent);
  if (own == 0) return label;
  const PythonStack& caller = stacks[own];
  const PythonFunction& function = timeline.python.functions[caller.function];
  return StrCat(label, ", from ", PrintableUtf8(ShownFile(timeline.strings.Get(function.file))),
                caller.line > 0 ? StrCat(":", caller.line) : "", " (",
                PrintableUtf8(timeline.strings.Get(function.name)), ")");
}

std::string ProcessName(const Process& process) {
  return StrCat(FitColumns(PrintableUtf8(process.name.empty() ? process.executable : process.name), kNameColumns), " (",
                process.pid, ")");
}

// ` in train.py (4711)` if there are several processes.
std::string InProcess(const Process& process, bool several) {
  return several ? StrCat(" in ", ProcessName(process)) : "";
}

double ShareOfPeak(int64_t bytes, int64_t peak) { return std::min(PartOf(bytes, peak), 1.0); }

std::string Bytes(int64_t bytes) { return HumanBytes(static_cast<double>(std::max<int64_t>(bytes, 0))); }

std::string LargestText(const Timeline& timeline, const std::vector<HeldBytes>& rows, int64_t peak, bool estimated) {
  const std::vector<HeldBytes> lines = HeldByLine(timeline, rows);
  if (lines.empty() || ShareOfPeak(lines[0].bytes, peak) < kLeastShare) return "";
  return StrCat(", ", estimated ? "about " : "", HumanPercent(ShareOfPeak(lines[0].bytes, peak)), " by ",
                PlaceText(timeline, lines[0]));
}

std::string PeakSentence(const Timeline& timeline, const Process& process, bool several) {
  const HeldMemory& memory = process.memory;
  const std::string text = StrCat("peak ", memory.lower_bound ? "at least " : "", Bytes(memory.peak_bytes),
                                  " of heap at ", HumanTime(memory.peak_ps), InProcess(process, several));
  if (memory.too_many) {
    return StrCat(text, "; what holds it is unknown: too many live blocks to follow; use --malloc-interval=4MiB");
  }
  if (memory.lost > 0) return StrCat(text, "; what holds it is unknown: ", HumanCount(memory.lost), " records lost");
  return StrCat(text, LargestText(timeline, memory.at_peak, memory.peak_bytes, memory.samples > 0));
}

// `1.00 MiB a step`, `207 MiB in 150 s`.
std::string RateText(const MemoryGrowth& growth) {
  return growth.steps > 0 ? StrCat(Bytes(growth.bytes / static_cast<int64_t>(growth.steps)), " a step")
                          : StrCat(Bytes(growth.bytes), " in ", HumanTime(growth.to_ps - growth.from_ps));
}

bool Grows(const HeldMemory& memory) {
  return memory.grows.value_or(false) && memory.growth && memory.growth->bytes > 0;
}

std::string GrowthSentence(const Timeline& timeline, const Process& process, bool several) {
  const HeldMemory& memory = process.memory;
  const std::string text = StrCat("grows by ", RateText(*memory.growth), InProcess(process, several));
  const std::vector<HeldBytes> lines = HeldByLine(timeline, memory.growth->rows);
  if (lines.empty()) return text;
  const double share = ShareOfPeak(lines[0].bytes, memory.growth->bytes);
  if (share < kLeastOfGrowth) {
    return StrCat(text, ", spread over many places: the largest, ", PlaceText(timeline, lines[0]), ", has ",
                  memory.samples > 0 ? "about " : "", HumanPercent(share));
  }
  return StrCat(text, ", by ", PlaceText(timeline, lines[0]), ": ", memory.samples > 0 ? "about " : "",
                HumanPercent(share));
}

bool HasPython(const Timeline& timeline, const Process& process) {
  return std::ranges::any_of(timeline.python.processes, [&](const PythonProcess& python) {
    return python.minor != 0 && &timeline.processes[python.process] == &process;
  });
}

// What may hold memory that no live block of malloc explains. `shared`: whether most of it is shared memory.
std::string BeyondHint(const Timeline& timeline, const Process& process, bool shared) {
  // Nothing is known of the heap: all of the resident memory counts as beyond it.
  if (timeline.attached) return "which lines allocate it is recorded by `tbprof run` alone";
  if (const StringId library = process.memory.own_new; library != 0) {
    return StrCat("beyond the heap: what C++ has from ", PrintableUtf8(timeline.strings.Get(library)),
                  ", whose operator new is not recorded");
  }
  if (shared) return "beyond the heap: shared memory that it touches: /dev/shm, tensors or data of other processes";
  if (HasPython(timeline, process)) {
    return "beyond the heap: Python objects (PYTHONMALLOC=malloc names their lines), mmap, freed blocks";
  }
  return "beyond the heap: mmap, stacks of threads, freed blocks that malloc keeps";
}

std::string BeyondSentence(const Timeline& timeline, const Process& process, bool several) {
  const ResidentMemory& resident = process.resident;
  if (timeline.attached) {
    return StrCat(Bytes(resident.beyond_at.own_bytes()), " resident at ", HumanTime(resident.beyond_at.at_ps),
                  InProcess(process, several));
  }
  return StrCat(Bytes(resident.beyond_at.own_bytes()), " resident at ", HumanTime(resident.beyond_at.at_ps),
                InProcess(process, several), ", ", Bytes(resident.beyond_bytes), " of it beyond the heap");
}

// A heap that grows leaves holes between its blocks: those are no second leak.
bool GrowsBeyond(const Process& process) {
  const std::optional<MemoryGrowth>& growth = process.resident.beyond_growth;
  if (!growth.has_value() || growth->bytes <= 0) return false;
  return !Grows(process.memory) || 2 * growth->bytes >= process.memory.growth->bytes;
}

int64_t SharedAt(const ResidentMemory& resident, int64_t at_ps) {
  const auto after = std::ranges::upper_bound(resident.points, at_ps, {}, &ResidentPoint::at_ps);
  return (after == resident.points.begin() ? *after : *std::prev(after)).shared_bytes;
}

// Whether most of the growth is shared memory.
bool IsSharedGrowth(const ResidentMemory& resident) {
  const MemoryGrowth& growth = *resident.beyond_growth;
  return 2 * (SharedAt(resident, growth.to_ps) - SharedAt(resident, growth.from_ps)) >= growth.bytes;
}

std::string GrowsBeyondSentence(const Timeline& timeline, const Process& process, bool several) {
  return StrCat("resident memory grows by ", RateText(*process.resident.beyond_growth), InProcess(process, several),
                timeline.attached ? "" : " beyond the heap");
}

std::string DeviceSentence(const Timeline& timeline, const DeviceMemory& device) {
  return StrCat(DeviceName(timeline, device), ": peak ", Bytes(device.peak_bytes),
                device.by_torch ? " of tensors at " : " of the driver's allocations at ", HumanTime(device.peak_ps),
                LargestText(timeline, device.at_peak, device.peak_bytes, !device.complete));
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

std::vector<const Process*> ProcessesByMemory(const Timeline& timeline) {
  std::vector<const Process*> processes;
  for (const Process& process : timeline.processes) {
    if (process.memory.peak_bytes > 0 || !process.resident.points.empty()) processes.push_back(&process);
  }
  std::ranges::stable_sort(processes, std::ranges::greater(), [](const Process* process) {
    return std::pair(process->memory.peak_bytes, process->resident.highest.own_bytes());
  });
  return processes;
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

MemoryText MemoryOf(const Timeline& timeline) {
  MemoryText text;
  const std::vector<const Process*> processes = ProcessesByMemory(timeline);
  const bool several = processes.size() > 1;
  if (!processes.empty() && processes[0]->memory.peak_bytes >= kLeastPeak) {
    text.levels.push_back(PeakSentence(timeline, *processes[0], several));
  }
  const auto furthest =
      std::ranges::max_element(processes, {}, [](const Process* one) { return one->resident.beyond_bytes; });
  if (furthest != processes.end()) {
    const ResidentMemory& resident = (*furthest)->resident;
    const int64_t bytes = resident.beyond_bytes;
    if (bytes >= kLeastBeyond && PartOf(bytes, resident.beyond_at.own_bytes()) >= kLeastBeyondShare) {
      text.levels.push_back(BeyondSentence(timeline, **furthest, several));
      const bool shared = resident.beyond_at.shared_bytes * 2 >= bytes;
      if (!GrowsBeyond(**furthest) && !timeline.attached)
        text.levels.push_back(BeyondHint(timeline, **furthest, shared));
    }
  }
  if (!timeline.device_memory.empty()) text.levels.push_back(DeviceSentence(timeline, timeline.device_memory[0]));
  const auto grows = std::ranges::find_if(processes, [](const Process* one) { return Grows(one->memory); });
  if (grows != processes.end()) text.growth.push_back(GrowthSentence(timeline, **grows, several));
  const auto beyond = std::ranges::find_if(processes, [](const Process* one) { return GrowsBeyond(*one); });
  if (beyond != processes.end()) {
    text.growth.push_back(GrowsBeyondSentence(timeline, **beyond, several));
    text.growth.push_back(BeyondHint(timeline, **beyond, IsSharedGrowth((*beyond)->resident)));
  }
  return text;
}

MemoryText MemoryOfRanks(const Timeline& timeline) {
  if (timeline.by_rank.size() < 2) return MemoryOf(timeline);
  const auto most = std::ranges::max_element(timeline.by_rank, {}, [](const RankReport& report) {
    return std::pair(!report.memory_growth.empty(), report.heap_peak_bytes);
  });
  MemoryText text;
  for (const auto& [from, to] : {std::pair{&most->memory, &text.levels}, {&most->memory_growth, &text.growth}}) {
    for (const std::string& sentence : *from) to->push_back(StrCat("rank ", most->rank, ": ", sentence));
  }
  return text;
}

}  // namespace tbprof
