// SPDX-License-Identifier: Apache-2.0
#include "writer/outputs/summary_python.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "writer/base/json_values.h"
#include "writer/base/text.h"
#include "writer/base/utf8.h"
#include "writer/convert/native_by_line.h"
#include "writer/convert/native_totals.h"
#include "writer/convert/python_totals.h"
#include "writer/convert/sample_phases.h"
#include "writer/convert/thread_groups.h"
#include "writer/outputs/summary_native.h"
#include "writer/timeline/summary_limits.h"

namespace tbprof {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostFunctions = 50;
constexpr size_t kMostGroups = 100;
constexpr size_t kMostProcesses = 1000;
constexpr size_t kMostFrames = 64;

std::string_view SamplingName(PythonSampling sampling) {
  switch (sampling) {
    case PythonSampling::kSampled:
      return "sampled";
    case PythonSampling::kRefused:
      return "refused";
    case PythonSampling::kUnsupported:
      return "unsupported";
    case PythonSampling::kOff:
      return "off";
  }
  return "unknown";
}

void AddSums(const PythonSamplesTotal& self, const PythonSamplesTotal& total, Json* row) {
  row->update({{"self_samples", self.samples},
               {"self_s", Seconds(self.wall_ps)},
               {"self_on_cpu_s", Seconds(self.on_cpu_ps)},
               {"total_samples", total.samples},
               {"total_s", Seconds(total.wall_ps)},
               {"total_on_cpu_s", Seconds(total.on_cpu_ps)}});
}

Json FunctionsJson(const Timeline& timeline, const std::vector<PythonFunctionTotal>& functions) {
  Json out = Json::array();
  for (size_t i = 0; i < std::min(kMostFunctions, functions.size()); ++i) {
    const PythonFunctionTotal& total = functions[i];
    const PythonFunction& function = timeline.python.functions[total.function];
    Json row = {{"function", timeline.strings.Get(function.name)},
                {"file", timeline.strings.Get(function.file)},
                {"first_line", function.first_line}};
    AddSums(total.self, total.total, &row);
    out.push_back(std::move(row));
  }
  return out;
}

Json LineOrNull(int32_t line) { return line >= 0 ? Json(line) : Json(nullptr); }

// `native`: null for the program's own lines, because their time includes libraries.
Json LinesJson(const Timeline& timeline, const std::vector<PythonLineTotal>& lines, size_t most,
               const NativeSums* sums = nullptr, const NativeByLine* native = nullptr) {
  Json out = Json::array();
  for (const PythonLineTotal& total : lines) {
    if (out.size() == most || total.self.samples == 0) break;
    const PythonFunction& function = timeline.python.functions[total.function];
    Json row = {{"file", timeline.strings.Get(function.file)},
                {"line", LineOrNull(total.line)},
                {"function", timeline.strings.Get(function.name)}};
    AddSums(total.self, total.total, &row);
    if (native != nullptr) {
      const auto found = native->find({total.function, total.line});
      row["native"] = found == native->end() ? Json(nullptr) : NativeOfLineJson(timeline, *sums, found->second);
    }
    out.push_back(std::move(row));
  }
  return out;
}

// Null: the steps are unknown.
Json PhasesJson(const Timeline& timeline, const PythonSums& sums, const NativeSums& native_sums,
                const SamplePhases& phases, const ThreadGroup<PythonThread>& group) {
  if (!phases.known()) return nullptr;
  std::vector<SamplePhases::Tallies> divided;
  for (const PythonThread* thread : group.members) divided.push_back(phases.Of(*thread));
  Json out = Json::array();
  for (size_t phase = 0; phase < kSamplePhases; ++phase) {
    std::vector<const std::vector<PythonTally>*> tallies;
    for (const SamplePhases::Tallies& of_thread : divided) tallies.push_back(&of_thread[phase]);
    const PythonTotals totals = sums.Of(tallies);
    const auto value = static_cast<SamplePhase>(phase);
    const NativeByLine native = DivideNativeByLine(timeline, group.members, phases, value);
    out.push_back({{"phase", SamplePhaseName(value)},
                   {"samples", totals.all.samples},
                   {"wall_s", Seconds(totals.all.wall_ps)},
                   {"on_cpu_s", Seconds(totals.all.on_cpu_ps)},
                   {"top_lines", LinesJson(timeline, totals.lines, kSummaryLinesOfPhase, &native_sums, &native)},
                   {"top_own_lines", LinesJson(timeline, totals.own_lines, kSummaryLinesOfPhase)}});
  }
  return out;
}

Json GroupJson(const Timeline& timeline, const PythonSums& sums, const NativeSums& native_sums,
               const SamplePhases& phases, const ThreadGroup<PythonThread>& group) {
  PythonTotals totals = sums.OfThreads(group.members);
  const NativeByLine native = DivideNativeByLine(timeline, group.members, phases, std::nullopt);
  Json out = {{"process", ValidUtf8(group.process)},
              {"forked", group.forked},
              {"main", group.is_main},
              {"threads", ValidUtf8(group.threads)},
              {"thread_count", group.members.size()},
              {"samples", totals.all.samples},
              {"wall_s", Seconds(totals.all.wall_ps)},
              {"on_cpu_s", Seconds(totals.all.on_cpu_ps)},
              {"without_frames_s", Seconds(totals.without_frames.wall_ps)},
              {"importing_s", Seconds(totals.importing.wall_ps)},
              {"line_count", totals.lines.size()},
              {"top_lines", LinesJson(timeline, totals.lines, kMostFunctions, &native_sums, &native)},
              {"top_own_lines", LinesJson(timeline, totals.own_lines, kMostFunctions)},
              {"function_count", totals.functions.size()},
              {"top_self", FunctionsJson(timeline, totals.functions)}};
  std::ranges::stable_sort(totals.functions, std::greater<>(),
                           [](const PythonFunctionTotal& function) { return function.total.wall_ps; });
  out["top_total"] = FunctionsJson(timeline, totals.functions);
  out["phases"] = PhasesJson(timeline, sums, native_sums, phases, group);
  return out;
}

Json ProcessJson(const Timeline& timeline, const PythonProcess& process) {
  const bool known = process.minor > 0;
  return {{"pid", timeline.processes[process.process].pid},
          {"state", SamplingName(process.sampling)},
          {"reason", ValidUtf8(process.reason)},
          {"version", known ? Json(StrCat("3.", process.minor)) : Json(nullptr)},
          {"interval_s", process.period_ps > 0 ? Json(Seconds(process.period_ps)) : Json(nullptr)},
          {"samples", process.samples},
          {"torn", process.torn},
          {"unreadable", process.unreadable}};
}

Json GilLinesJson(const Timeline& timeline, const std::vector<PythonLineTotal>& lines) {
  Json out = Json::array();
  for (const PythonLineTotal& total : lines) {
    if (out.size() == kMostFunctions || total.self.samples == 0) break;
    const PythonFunction& function = timeline.python.functions[total.function];
    out.push_back({{"file", timeline.strings.Get(function.file)},
                   {"line", LineOrNull(total.line)},
                   {"function", timeline.strings.Get(function.name)},
                   {"samples", total.self.samples},
                   {"held_s", Seconds(total.self.wall_ps)}});
  }
  return out;
}

// The samples in which a thread of a process held the GIL.
Json GilOfProcessJson(const Timeline& timeline, const PythonSums& sums, uint32_t process,
                      const std::vector<const GilHolder*>& holders) {
  std::map<uint32_t, PythonTally> by_stack;
  std::map<uint32_t, uint64_t> by_thread;
  for (const GilHolder* holder : holders) {
    PythonTally& tally = by_stack[holder->stack];
    tally.stack = holder->stack;
    ++tally.samples;
    tally.wall_ps += holder->period_ps;
    ++by_thread[holder->thread];
  }
  std::vector<PythonTally> tallies;
  for (const auto& [stack, tally] : by_stack) tallies.push_back(tally);
  const PythonTotals totals = sums.Of({&tallies});
  std::vector<std::pair<uint32_t, uint64_t>> threads(by_thread.begin(), by_thread.end());
  std::ranges::stable_sort(threads, std::greater<>(), [](const auto& thread) { return thread.second; });
  Json top_threads = Json::array();
  for (size_t i = 0; i < std::min(kMostFunctions, threads.size()); ++i) {
    const Thread& thread = timeline.threads[threads[i].first];
    top_threads.push_back({{"tid", thread.tid},
                           {"thread", ValidUtf8(thread.name)},
                           {"main", thread.is_main},
                           {"samples", threads[i].second}});
  }
  return {{"pid", timeline.processes[process].pid},
          {"process", ValidUtf8(timeline.processes[process].name)},
          {"samples", holders.size()},
          {"held_s", Seconds(totals.all.wall_ps)},
          {"thread_count", threads.size()},
          {"top_threads", std::move(top_threads)},
          {"top_lines", GilLinesJson(timeline, totals.lines)},
          {"top_own_lines", GilLinesJson(timeline, totals.own_lines)}};
}

// The processes with most samples first.
Json GilJson(const Timeline& timeline, const PythonSums& sums) {
  std::map<uint32_t, std::vector<const GilHolder*>> by_process;
  for (const GilHolder& holder : timeline.python.holders) {
    by_process[timeline.threads[holder.thread].process].push_back(&holder);
  }
  std::vector<std::pair<uint32_t, std::vector<const GilHolder*>>> processes(by_process.begin(), by_process.end());
  std::ranges::stable_sort(processes, std::greater<>(), [](const auto& process) { return process.second.size(); });
  Json out = Json::array();
  for (size_t i = 0; i < std::min(kMostGroups, processes.size()); ++i) {
    out.push_back(GilOfProcessJson(timeline, sums, processes[i].first, processes[i].second));
  }
  return out;
}

Json LastStackJson(const Timeline& timeline, const PythonLastStack& last) {
  const Thread& thread = timeline.threads[last.thread];
  const Process& process = timeline.processes[thread.process];
  return {{"pid", process.pid},
          {"process", ValidUtf8(process.name)},
          {"signal", process.exit_signal},
          {"tid", thread.tid},
          {"thread", ValidUtf8(thread.name)},
          {"main", thread.is_main},
          {"source", last.exact ? "core" : "sample"},
          {"age_s", Seconds(last.age_ps)},
          {"frame_count", PythonStackDepth(timeline, last.stack)},
          {"frames", PythonFramesJson(timeline, last.stack, kMostFrames)}};
}

}  // namespace

Json PythonFramesJson(const Timeline& timeline, uint32_t stack, size_t most) {
  Json frames = Json::array();
  for (uint32_t at = stack; at != 0 && frames.size() < most; at = timeline.python.stacks[at].parent) {
    const PythonStack& frame = timeline.python.stacks[at];
    const PythonFunction& function = timeline.python.functions[frame.function];
    frames.push_back({{"file", timeline.strings.Get(function.file)},
                      {"line", LineOrNull(frame.line)},
                      {"function", timeline.strings.Get(function.name)}});
  }
  return frames;
}

uint64_t PythonStackDepth(const Timeline& timeline, uint32_t stack) {
  uint64_t depth = 0;
  for (; stack != 0; stack = timeline.python.stacks[stack].parent) ++depth;
  return depth;
}

Json PythonJson(const Timeline& timeline) {
  const PythonTimeline& python = timeline.python;
  if (python.threads.empty() && python.processes.empty() && python.last_stacks.empty()) return nullptr;
  Json processes = Json::array();
  for (size_t i = 0; i < std::min(kMostProcesses, python.processes.size()); ++i) {
    processes.push_back(ProcessJson(timeline, python.processes[i]));
  }
  const PythonSums sums(timeline);
  const NativeSums native_sums(timeline.native);
  const SamplePhases phases(timeline);
  const auto groups = GroupThreads(timeline, timeline.python.threads);
  Json out_groups = Json::array();
  for (size_t i = 0; i < std::min(kMostGroups, groups.size()); ++i) {
    out_groups.push_back(GroupJson(timeline, sums, native_sums, phases, groups[i]));
  }
  Json last_stacks = Json::array();
  for (const PythonLastStack& last : python.last_stacks) last_stacks.push_back(LastStackJson(timeline, last));
  return {{"process_count", python.processes.size()},
          {"processes", std::move(processes)},
          {"group_count", groups.size()},
          {"groups", std::move(out_groups)},
          {"gil", GilJson(timeline, sums)},
          {"last_stacks", std::move(last_stacks)},
          {"samples_not_drawn", python.samples_without_run},
          {"spans_not_drawn", python.spans_left_out},
          {"shortest_drawn_s", Seconds(python.shortest_span_ps)}};
}

}  // namespace tbprof
