// SPDX-License-Identifier: Apache-2.0
#include "writer/outputs/summary_native.h"

#include <algorithm>
#include <functional>
#include <span>
#include <string_view>
#include <utility>

#include "writer/base/json_values.h"
#include "writer/base/summary_format.h"
#include "writer/base/symbol_text.h"
#include "writer/base/text.h"
#include "writer/base/utf8.h"
#include "writer/convert/sample_phases.h"
#include "writer/convert/thread_groups.h"
#include "writer/outputs/summary_lines.h"
#include "writer/outputs/summary_python_text.h"
#include "writer/outputs/xplane.h"
#include "writer/timeline/summary_limits.h"

namespace tbprof {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostFunctionsOfPhase = 20, kMostFunctionsOfLine = 5;
constexpr size_t kMostNativeProcesses = 1000;
constexpr size_t kMostNativeGroups = 100;
constexpr size_t kShownNativeFunctions = 3;
constexpr size_t kLongestShownName = 60;
// `main` and its callers contain everything: functions above this share are skipped.
constexpr double kWholeCpuShare = 0.99;
constexpr double kLeastShownCpuShare = 0.005;
// Least share of the CPU time at which the other threads have a line of their own.
constexpr double kLeastCpuOfOthers = 0.1;
// A main thread with a smaller share does not do the work.
constexpr double kLeastMainCpu = 0.1;
// Fewer samples are not meaningful for a line or for the steps. A function with a smaller share of a line does not
// explain it.
constexpr uint64_t kLeastSamplesOfLine = 10;
constexpr double kLeastShareOfLine = 0.25;

std::string_view SamplingName(NativeSampling sampling) {
  switch (sampling) {
    case NativeSampling::kSampled:
      return "sampled";
    case NativeSampling::kRefused:
      return "refused";
    case NativeSampling::kMissing:
      return "missing";
    case NativeSampling::kOff:
      return "off";
  }
  return "unknown";
}

Json FunctionsJson(const Timeline& timeline, const std::vector<NativeFunctionTotal>& functions) {
  Json out = Json::array();
  for (size_t i = 0; i < std::min(kMostNativeFunctions, functions.size()); ++i) {
    const NativeFunctionTotal& function = functions[i];
    const NativeStack& stack = timeline.native.stacks[function.stack];
    out.push_back({{"function", ValidUtf8(timeline.strings.Get(stack.function))},
                   {"module", ValidUtf8(timeline.strings.Get(stack.module))},
                   {"self_samples", function.self.samples},
                   {"self_cpu_s", Seconds(function.self.cpu_ps)},
                   {"total_samples", function.total.samples},
                   {"total_cpu_s", Seconds(function.total.cpu_ps)}});
  }
  return out;
}

void SortByTotal(std::vector<NativeFunctionTotal>* functions) {
  std::ranges::stable_sort(*functions, std::greater<>(),
                           [](const NativeFunctionTotal& function) { return function.total.cpu_ps; });
}

// Includes the library if another library has a function of this name, such as the two copies of OpenBLAS of NumPy and
// of SciPy.
std::string ShownName(const Timeline& timeline, const NativeFunctionTotal& function,
                      const std::vector<NativeFunctionTotal>& functions) {
  const auto stack_of = [&](const NativeFunctionTotal& one) { return timeline.native.stacks[one.stack]; };
  const NativeStack stack = stack_of(function);
  const std::string whole = PrintableUtf8(ShortSymbol(timeline.strings.Get(stack.function)));
  const std::string_view name = TruncateUtf8(whole, kLongestShownName);
  const auto shown = std::span(functions).first(std::min(functions.size(), kMostNativeFunctions));
  const bool again = std::ranges::any_of(shown, [&](const NativeFunctionTotal& other) {
    return stack_of(other).function == stack.function && stack_of(other).module != stack.module;
  });
  return again ? StrCat(name, " (", PrintableUtf8(timeline.strings.Get(stack.module)), ")") : std::string(name);
}

Json ProcessJson(const Timeline& timeline, const NativeProcess& process) {
  return {{"pid", timeline.processes[process.process].pid},
          {"state", SamplingName(process.sampling)},
          {"reason", ValidUtf8(process.reason)},
          {"interval_s", process.period_ps > 0 ? Json(Seconds(process.period_ps)) : Json(nullptr)},
          {"samples", process.samples},
          {"lost", process.lost},
          {"cut", process.cut}};
}

Json TotalsJson(const Timeline& timeline, NativeTotals totals) {
  Json out = {{"samples", totals.all.samples},
              {"cpu_s", Seconds(totals.all.cpu_ps)},
              {"without_frames_s", Seconds(totals.without_frames.cpu_ps)},
              {"function_count", totals.functions.size()},
              {"top_self", FunctionsJson(timeline, totals.functions)}};
  SortByTotal(&totals.functions);
  out["top_total"] = FunctionsJson(timeline, totals.functions);
  return out;
}

// Null: the steps are unknown.
Json PhasesJson(const Timeline& timeline, const NativeSums& sums, const SamplePhases& phases,
                const ThreadGroup<NativeThread>& group) {
  if (!phases.known()) return nullptr;
  std::vector<SamplePhases::NativeTallies> divided;
  for (const NativeThread* thread : group.members) divided.push_back(phases.Of(*thread));
  Json out = Json::array();
  for (size_t phase = 0; phase < kSamplePhases; ++phase) {
    std::vector<const std::vector<NativeTally>*> tallies;
    for (const SamplePhases::NativeTallies& of_thread : divided) tallies.push_back(&of_thread[phase]);
    NativeTotals totals = sums.Of(tallies);
    totals.functions.resize(std::min(totals.functions.size(), kMostFunctionsOfPhase));
    out.push_back({{"phase", SamplePhaseName(static_cast<SamplePhase>(phase))},
                   {"samples", totals.all.samples},
                   {"cpu_s", Seconds(totals.all.cpu_ps)},
                   {"top_self", FunctionsJson(timeline, totals.functions)}});
  }
  return out;
}

Json GroupJson(const Timeline& timeline, const NativeSums& sums, const SamplePhases& phases,
               const ThreadGroup<NativeThread>& group) {
  Json out = {{"process", ValidUtf8(group.process)},
              {"forked", group.forked},
              {"main", group.is_main},
              {"threads", ValidUtf8(group.threads)},
              {"thread_count", group.members.size()}};
  out.update(TotalsJson(timeline, sums.OfThreads(group.members)));
  out["phases"] = PhasesJson(timeline, sums, phases, group);
  return out;
}

// The main thread whose Python stacks are shown, else the main thread of the process with the steps; null: it has no
// samples.
const NativeThread* ShownThread(const Timeline& timeline) {
  if (const PythonThread* const python = ShownPythonThread(timeline)) return timeline.native.OfThread(python->thread);
  const uint32_t counted = CountedProcess(timeline);
  for (const NativeThread& native : timeline.native.threads) {
    const Thread& thread = timeline.threads[native.thread];
    if (thread.is_main && thread.process == counted) return &native;
  }
  return nullptr;
}

// `self` and `total` shares of the functions that used most CPU time.
void AddFunctions(const Timeline& timeline, NativeTotals totals, size_t columns, std::vector<std::string>* lines) {
  const auto part = [&](const NativeFunctionTotal& function, int64_t ps) {
    return StrCat(HumanPercent(PartOf(ps, totals.all.cpu_ps)), " ", ShownName(timeline, function, totals.functions));
  };
  std::vector<std::string> parts;
  for (const NativeFunctionTotal& function : totals.functions) {
    if (parts.size() == kShownNativeFunctions || PartOf(function.self.cpu_ps, totals.all.cpu_ps) < kLeastShownCpuShare)
      break;
    parts.push_back(part(function, function.self.cpu_ps));
  }
  if (!parts.empty()) lines->push_back(Joined("        self   ", parts, columns));
  parts.clear();
  SortByTotal(&totals.functions);
  for (const NativeFunctionTotal& function : totals.functions) {
    const double share = PartOf(function.total.cpu_ps, totals.all.cpu_ps);
    if (parts.size() == kShownNativeFunctions || share < kLeastShownCpuShare) break;
    if (share > kWholeCpuShare || function.total.samples == function.self.samples) continue;
    if (timeline.native.stacks[function.stack].is_gap) continue;
    parts.push_back(part(function, function.total.cpu_ps));
  }
  if (!parts.empty()) lines->push_back(Joined("        total  ", parts, columns));
}

std::string SamplesText(const NativeTotals& totals) {
  return StrCat(HumanCount(totals.all.samples), totals.all.samples == 1 ? " sample, " : " samples, ",
                HumanTime(totals.all.cpu_ps), " of CPU in user code");
}

// The other threads in one line: `31 % blas_thread_server`.
std::string OthersText(const Timeline& timeline, const NativeTotals& totals, size_t columns) {
  std::vector<std::string> parts;
  for (const NativeFunctionTotal& function : totals.functions) {
    const double share = PartOf(function.self.cpu_ps, totals.all.cpu_ps);
    if (parts.size() == kShownNativeFunctions || share < kLeastShownCpuShare) break;
    parts.push_back(StrCat(HumanPercent(share), " ", ShownName(timeline, function, totals.functions)));
  }
  return Joined(StrCat("        other threads, ", HumanTime(totals.all.cpu_ps), ": "), parts, columns);
}

}  // namespace

Json NativeOfLineJson(const Timeline& timeline, const NativeSums& sums, const std::vector<NativeTally>& tallies) {
  NativeSamplesTotal all;
  for (const NativeTally& tally : tallies) all.Add(tally);
  if (all.samples == 0) return nullptr;
  Json top = Json::array();
  for (const NativeFunctionTotal& function : sums.InnermostOf(tallies)) {
    if (top.size() == kMostFunctionsOfLine) break;
    const NativeStack& stack = timeline.native.stacks[function.stack];
    top.push_back({{"function", ValidUtf8(timeline.strings.Get(stack.function))},
                   {"module", ValidUtf8(timeline.strings.Get(stack.module))},
                   {"samples", function.self.samples},
                   {"cpu_s", Seconds(function.self.cpu_ps)}});
  }
  return {{"samples", all.samples}, {"cpu_s", Seconds(all.cpu_ps)}, {"top_self", std::move(top)}};
}

std::string NativeOfLineText(const Timeline& timeline, const NativeSums& sums,
                             const std::vector<NativeTally>& tallies) {
  NativeSamplesTotal all;
  for (const NativeTally& tally : tallies) all.Add(tally);
  if (all.samples < kLeastSamplesOfLine) return "";
  const std::vector<NativeFunctionTotal> functions = sums.InnermostOf(tallies);
  if (functions.empty()) return "";
  const double share = PartOf(functions[0].self.cpu_ps, all.cpu_ps);
  if (share < kLeastShareOfLine) return "";
  const StringId function = timeline.native.stacks[functions[0].stack].function;
  const std::string name = PrintableUtf8(ShortSymbol(timeline.strings.Get(function)));
  return StrCat("native: ", HumanPercent(share), " ", TruncateUtf8(name, kLongestShownName));
}

Json NativeJson(const Timeline& timeline) {
  const NativeTimeline& native = timeline.native;
  if (native.threads.empty() && native.processes.empty()) return nullptr;
  Json processes = Json::array();
  for (size_t i = 0; i < std::min(kMostNativeProcesses, native.processes.size()); ++i) {
    processes.push_back(ProcessJson(timeline, native.processes[i]));
  }
  const NativeSums sums(native);
  const SamplePhases phases(timeline);
  const auto groups = GroupThreads(timeline, native.threads);
  Json out = {{"process_count", native.processes.size()}, {"processes", std::move(processes)}};
  out.update(TotalsJson(timeline, sums.OfAll()));
  out["group_count"] = groups.size();
  out["groups"] = Json::array();
  for (size_t i = 0; i < std::min(kMostNativeGroups, groups.size()); ++i) {
    out["groups"].push_back(GroupJson(timeline, sums, phases, groups[i]));
  }
  out["samples_not_drawn"] = native.samples_without_point;
  out["spans_not_drawn"] = native.spans_left_out;
  return out;
}

std::vector<std::string> NativeText(const Timeline& timeline, size_t columns) {
  const NativeSums sums(timeline.native);
  const NativeTotals all = sums.OfAll();
  if (all.all.cpu_ps <= 0) return {};
  const SamplePhases phases(timeline);
  const NativeThread* const native = ShownThread(timeline);
  NativeTotals totals = native != nullptr ? sums.OfThreads({native}) : NativeTotals();
  std::vector<std::string> lines;
  if (PartOf(totals.all.cpu_ps, all.all.cpu_ps) < kLeastMainCpu) {
    lines.push_back(StrCat("native  all threads: ", SamplesText(all)));
    AddFunctions(timeline, all, columns, &lines);
    return lines;
  }
  std::string_view where = "main thread: ";
  if (phases.known()) {
    const SamplePhases::NativeTallies divided = phases.Of(*native);
    NativeTotals steps = sums.Of({&divided[static_cast<size_t>(SamplePhase::kSteps)]});
    if (steps.all.samples >= kLeastSamplesOfLine) {
      totals = std::move(steps);
      where = "main thread, in regular steps: ";
    }
  }
  lines.push_back(StrCat("native  ", OfRank(timeline, "rank ", ", "), where, SamplesText(totals)));
  AddFunctions(timeline, std::move(totals), columns, &lines);
  std::vector<const NativeThread*> others;
  for (const NativeThread& thread : timeline.native.threads) {
    if (&thread != native) others.push_back(&thread);
  }
  const NativeTotals rest = sums.OfThreads(others);
  if (PartOf(rest.all.cpu_ps, all.all.cpu_ps) >= kLeastCpuOfOthers)
    lines.push_back(OthersText(timeline, rest, columns));
  return lines;
}

}  // namespace tbprof
