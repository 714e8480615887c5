// SPDX-License-Identifier: Apache-2.0
#include "writer/verdict/native_places.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "writer/base/symbol_text.h"
#include "writer/base/text.h"
#include "writer/base/text_match.h"
#include "writer/verdict/cpu_split.h"

namespace tbprof {
namespace {

enum class Nearness : uint8_t { kNone, kLibrary, kOwn };

// Inlined code of a language's library, whose names may lack the library.
bool IsFileOfLanguage(std::string_view file) {
  return ContainsAny(file,
                     {"/rustc/", "/library/core/src/", "/library/alloc/src/", "/library/std/src/", "/include/c++/"});
}

// The frames that every program has.
bool IsOfStart(std::string_view function) { return function == "_start" || function == "_init"; }

// The innermost frame with this function; null: none.
const NativeStack* FrameOf(const NativeTimeline& native, uint32_t stack, StringId function) {
  while (stack != 0 && stack < native.stacks.size()) {
    const NativeStack& frame = native.stacks[stack];
    if (frame.function == function) return &frame;
    stack = frame.parent < stack ? frame.parent : 0;
  }
  return nullptr;
}

}  // namespace

NativeLine MainLineOf(const Timeline& timeline, uint32_t thread, StringId function) {
  const NativeThread* const samples = timeline.native.OfThread(thread);
  if (samples == nullptr) return {};
  std::map<std::pair<StringId, int32_t>, int64_t> lines;
  int64_t all = 0;
  for (const NativeTally& tally : samples->tallies) {
    const NativeStack* const frame = FrameOf(timeline.native, tally.stack, function);
    if (frame == nullptr) continue;
    all += tally.cpu_ps;
    if (frame->file != 0) lines[{frame->file, frame->line}] += tally.cpu_ps;
  }
  const auto most = std::ranges::max_element(lines, {}, [](const auto& line) { return line.second; });
  if (most == lines.end()) return {};
  const auto [file, line] = most->first;
  return {file, most->second >= all / 2 ? line : -1};
}

NativePlaces::NativePlaces(const Timeline& timeline)
    : timeline_(timeline),
      own_(timeline.native.stacks.size(), 0),
      unnamed_(timeline.native.stacks.size(), false),
      are_native_(timeline.processes.size(), false) {
  const auto set = [&](uint32_t thread, bool native) { are_native_[timeline.threads[thread].process] = native; };
  for (const NativeThread& thread : timeline.native.threads) set(thread.thread, true);
  for (const PythonThread& thread : timeline.python.threads) set(thread.thread, false);
  std::set<std::string_view> executables;
  for (const Process& process : timeline.processes) executables.insert(BaseName(process.executable));
  const std::vector<NativeStack>& stacks = timeline.native.stacks;
  for (const NativeClass of_stack : NativeClassesOf(timeline)) in_mpi_.push_back(of_stack == NativeClass::kCollectives);
  std::vector<Nearness> nearness(stacks.size(), Nearness::kNone);
  for (uint32_t i = 1; i < stacks.size(); ++i) {
    const NativeStack& frame = stacks[i];
    if (frame.parent < i) {
      own_[i] = own_[frame.parent];
      unnamed_[i] = unnamed_[frame.parent];
      nearness[i] = nearness[frame.parent];
    }
    const std::string_view module = timeline.strings.Get(frame.module), name = timeline.strings.Get(frame.function);
    // A function without a name has that of its module: `[sort]`.
    if (name.starts_with('[') && executables.contains(module)) unnamed_[i] = true;
    if (frame.is_gap || module.empty() || name.starts_with('[') || IsOfStart(name)) continue;
    if (IsHelper(module) || IsInterpreter(module)) continue;
    const bool own = executables.contains(module) && !IsOfLanguageLibrary(name) &&
                     !IsFileOfLanguage(timeline.strings.Get(frame.file));
    const Nearness here = own ? Nearness::kOwn : Nearness::kLibrary;
    if (here < nearness[i]) continue;
    own_[i] = frame.function;
    nearness[i] = here;
  }
}

bool NativePlaces::IsNative(uint32_t thread) const { return are_native_[timeline_.threads[thread].process]; }

bool NativePlaces::Has(uint32_t thread) const {
  return IsNative(thread) && timeline_.native.OfThread(thread) != nullptr;
}

bool NativePlaces::AreUnnamed(uint32_t thread) const {
  if (!Has(thread)) return false;
  int64_t all = 0, unnamed = 0;
  for (const NativePoint& point : timeline_.native.OfThread(thread)->points) {
    all += PeriodPs(point);
    if (point.stack < own_.size() && own_[point.stack] == 0 && unnamed_[point.stack]) unnamed += PeriodPs(point);
  }
  return unnamed > all / 2;
}

std::vector<NativePlace> NativePlaces::In(uint32_t thread, const std::vector<TimeSpan>& spans) const {
  std::vector<NativePlace> places;
  if (!Has(thread)) return places;
  std::map<StringId, NativePlace> sums;
  size_t at = 0;
  for (const NativePoint& point : timeline_.native.OfThread(thread)->points) {
    ForCommon(spans, &at, point.at_ps, point.at_ps + 1, [&](int64_t, int64_t) {
      const bool known = point.stack < own_.size();
      NativePlace& place = sums[known ? own_[point.stack] : 0];
      place.ps += PeriodPs(point);
      if (known && in_mpi_[point.stack]) place.in_mpi_ps += PeriodPs(point);
    });
  }
  for (const auto& [function, place] : sums) places.push_back({function, place.ps, place.in_mpi_ps});
  std::ranges::stable_sort(places, [](const NativePlace& a, const NativePlace& b) { return a.ps > b.ps; });
  return places;
}

}  // namespace tbprof
