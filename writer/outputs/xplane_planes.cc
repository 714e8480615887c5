// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_format.h"
#include "writer/base/text.h"
#include "writer/base/utf8.h"
#include "writer/convert/input_pipeline.h"
#include "writer/outputs/xplane.h"
#include "writer/outputs/xplane_native.h"
#include "writer/outputs/xplane_python.h"
#include "writer/timeline/schema.h"

namespace tbprof {
namespace {

// Each plane is a process row of the viewer with its own tables of names. A build that starts thousands of compilers
// gets one row for all further processes.
constexpr size_t kMaxHelperPlanes = 64;
// Shells, `uname`, the shims of a Python version manager: if there are more than this, they share a row.
constexpr size_t kMaxShortHelpers = 3;
constexpr size_t kShortEvents = 200;
constexpr int64_t kShortShare = 20;  // 1/20 of the capture's length

// When the viewer opens a profile, it folds each row with more lines than this: the threads of a pool would fold the
// row of the program.
constexpr size_t kMostLinesOpen = 20;
// Lines of such a row other than threads, input and GIL: steps, phases, counters, memory.
constexpr size_t kOtherLines = 4;
constexpr size_t kFewestThreads = 4;

// The pages count only the threads of `/host:CPU`, and steps are made only from these threads.
bool MustBeCounted(const Timeline& timeline, const Thread& thread) {
  return thread.is_main || thread.is_line || std::ranges::any_of(thread.events, [&](const Event& event) {
           const EventType& type = timeline.types[event.type];
           return type.family == EventFamily::kAnnotation || type.family == EventFamily::kGpu;
         });
}

int64_t EndOfSamples(const Timeline& timeline, uint32_t thread) {
  const PythonThread* samples = timeline.python.OfThread(thread);
  return samples == nullptr || samples->runs.empty() ? 0 : samples->runs.back().to_ps;
}

// Keeps as many threads of a process as the row can have without being folded: those that must stay, and the busiest of
// the others. Returns the rest, in their order.
std::vector<uint32_t> TakeIdlest(const Timeline& timeline, uint32_t process, std::vector<uint32_t>* threads) {
  std::vector<uint32_t> rest;
  if (threads->size() <= kFewestThreads) return rest;
  const size_t of_gil = GilSpansOf(timeline, process).empty() ? 0 : 1;
  const size_t other_lines = kOtherLines + InputLines(timeline, process).size() + of_gil;
  const auto any = [&](auto count) {
    return std::ranges::any_of(*threads, [&](uint32_t index) { return count(timeline, index) > 0; });
  };
  const size_t lines_each = 1 + (any(PythonSpanCount) ? 1 : 0) + (any(NativeSpanCount) ? 1 : 0);
  const size_t room = std::max(kFewestThreads, (kMostLinesOpen - std::min(kMostLinesOpen, other_lines)) / lines_each);
  if (threads->size() <= room) return rest;
  std::vector<uint32_t> others;
  for (const uint32_t index : *threads) {
    if (!MustBeCounted(timeline, timeline.threads[index])) others.push_back(index);
  }
  std::ranges::stable_sort(others, [&](uint32_t a, uint32_t b) {
    return timeline.threads[a].events.size() > timeline.threads[b].events.size();
  });
  const size_t stay = threads->size() - others.size();
  const size_t more = stay < room ? std::min(others.size(), room - stay) : 0;
  others.erase(others.begin(), others.begin() + static_cast<ptrdiff_t>(more));
  std::ranges::sort(others);
  const auto goes = [&](uint32_t index) { return std::ranges::binary_search(others, index); };
  std::ranges::copy_if(*threads, std::back_inserter(rest), goes);
  std::erase_if(*threads, goes);
  return rest;
}

}  // namespace

uint32_t CountedProcess(const Timeline& timeline) {
  for (const Step& step : timeline.steps) {
    if (step.thread < timeline.threads.size()) return timeline.threads[step.thread].process;
  }
  for (uint32_t i = 0; i < timeline.processes.size(); ++i) {
    if (timeline.processes[i].is_command) return i;
  }
  return 0;
}

std::vector<HostPlane> HostPlanes(const Timeline& timeline) {
  std::vector<HostPlane> planes;
  HostPlane& counted = planes.emplace_back();
  counted.name = kHostCpuPlane;
  if (timeline.processes.empty()) return planes;

  std::vector<std::vector<uint32_t>> threads(timeline.processes.size());
  for (uint32_t i = 0; i < timeline.threads.size(); ++i) {
    const Thread& thread = timeline.threads[i];
    const bool has_lines =
        !thread.events.empty() || PythonSpanCount(timeline, i) > 0 || NativeSpanCount(timeline, i) > 0;
    if (thread.process < threads.size() && has_lines) threads[thread.process].push_back(i);
  }
  std::vector<bool> has_counters(timeline.processes.size());
  for (const CounterTrack& track : timeline.counters) {
    if (track.process < has_counters.size() && track.device < 0 && !track.samples.empty())
      has_counters[track.process] = true;
  }
  for (std::vector<uint32_t>& list : threads) {
    std::stable_sort(list.begin(), list.end(), [&](uint32_t a, uint32_t b) {
      const Thread &x = timeline.threads[a], &y = timeline.threads[b];
      return x.is_main != y.is_main ? x.is_main : x.line_id < y.line_id;
    });
  }
  auto add = [&](HostPlane& plane, uint32_t process) {
    plane.processes.push_back(process);
    plane.threads.insert(plane.threads.end(), threads[process].begin(), threads[process].end());
  };

  const uint32_t first = CountedProcess(timeline);
  add(counted, first);
  if (std::vector<uint32_t> rest = TakeIdlest(timeline, first, &counted.threads); !rest.empty()) {
    // Its row is the next one: `+` comes before letters and digits.
    HostPlane plane;
    plane.name = StrCat(kHostCpuPlane, " + ", Counted(rest.size(), "thread"));
    plane.threads = std::move(rest);
    planes.push_back(std::move(plane));
  }
  std::vector<uint32_t> helpers;
  for (uint32_t i = 0; i < timeline.processes.size(); ++i) {
    if (i != first && (!threads[i].empty() || has_counters[i])) helpers.push_back(i);
  }
  const auto is_short = [&](uint32_t index) {
    // Decided by the process's activity: its end is known only to some ten milliseconds.
    const int64_t start = timeline.processes[index].start_ps;
    size_t events = 0;
    int64_t last = start;
    for (const uint32_t thread : threads[index]) {
      events += timeline.threads[thread].events.size();
      for (const Event& event : timeline.threads[thread].events)
        last = std::max(last, event.start_ps + event.duration_ps);
      last = std::max(last, EndOfSamples(timeline, thread));
      if (events >= kShortEvents) return false;
    }
    return last - start < timeline.duration_ps / kShortShare;
  };
  const auto short_ones =
      std::stable_partition(helpers.begin(), helpers.end(), [&](uint32_t i) { return !is_short(i); });
  size_t own_planes = static_cast<size_t>(short_ones - helpers.begin());
  if (helpers.size() - own_planes <= kMaxShortHelpers) {
    std::sort(helpers.begin(), helpers.end());
    own_planes = helpers.size();
  }
  if (own_planes > kMaxHelperPlanes) own_planes = kMaxHelperPlanes - 1;
  for (size_t i = 0; i < own_planes; ++i) {
    const Process& process = timeline.processes[helpers[i]];
    HostPlane& plane = planes.emplace_back();
    // The viewer sorts rows by this text, and shows a pid of its own next to it.
    plane.name = absl::StrFormat("%s %s %02d pid %d", kHostCpuPlane, TruncateUtf8(PrintableUtf8(process.name), 64),
                                 i + 1, process.pid);
    add(plane, helpers[i]);
  }
  if (own_planes < helpers.size()) {
    HostPlane& plane = planes.emplace_back();
    plane.name = absl::StrFormat("%s ~ %d short processes", kHostCpuPlane, helpers.size() - own_planes);
    plane.merged = true;
    for (size_t i = own_planes; i < helpers.size(); ++i) add(plane, helpers[i]);
  }
  return planes;
}

}  // namespace tbprof
