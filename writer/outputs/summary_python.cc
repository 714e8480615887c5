// SPDX-License-Identifier: Apache-2.0
#include "writer/outputs/summary_python.h"

#include <algorithm>
#include <functional>
#include <string_view>

#include "writer/base/summary_format.h"
#include "writer/base/text.h"
#include "writer/base/utf8.h"
#include "writer/convert/python_totals.h"
#include "writer/outputs/xplane.h"

namespace tbprof {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostFunctions = 50;
constexpr size_t kMostGroups = 100;
constexpr size_t kMostProcesses = 1000;
constexpr size_t kShownFunctions = 3;
// `<module>` and what starts it contain everything.
constexpr double kWholeShare = 0.99;
constexpr double kLeastShownShare = 0.005;

double Seconds(int64_t picoseconds) { return static_cast<double>(picoseconds) / 1e12; }

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

Json FunctionsJson(const Timeline& timeline, const std::vector<PythonFunctionTotal>& functions) {
  Json out = Json::array();
  for (size_t i = 0; i < std::min(kMostFunctions, functions.size()); ++i) {
    const PythonFunctionTotal& total = functions[i];
    const PythonFunction& function = timeline.python.functions[total.function];
    out.push_back({{"function", timeline.strings.Get(function.name)},
                   {"file", timeline.strings.Get(function.file)},
                   {"first_line", function.first_line},
                   {"self_samples", total.self.samples},
                   {"self_s", Seconds(total.self.wall_ps)},
                   {"self_on_cpu_s", Seconds(total.self.on_cpu_ps)},
                   {"total_samples", total.total.samples},
                   {"total_s", Seconds(total.total.wall_ps)},
                   {"total_on_cpu_s", Seconds(total.total.on_cpu_ps)}});
  }
  return out;
}

void SortByTotal(std::vector<PythonFunctionTotal>* functions) {
  std::ranges::stable_sort(*functions, std::greater<>(),
                           [](const PythonFunctionTotal& function) { return function.total.wall_ps; });
}

Json GroupJson(const Timeline& timeline, const PythonGroup& group) {
  PythonTotals totals = TotalsOfThreads(timeline.python, group.members);
  Json out = {{"process", ValidUtf8(group.process)},
              {"forked", group.forked},
              {"main", group.is_main},
              {"threads", ValidUtf8(group.threads)},
              {"thread_count", group.members.size()},
              {"samples", totals.all.samples},
              {"wall_s", Seconds(totals.all.wall_ps)},
              {"on_cpu_s", Seconds(totals.all.on_cpu_ps)},
              {"without_frames_s", Seconds(totals.without_frames.wall_ps)},
              {"function_count", totals.functions.size()},
              {"top_self", FunctionsJson(timeline, totals.functions)}};
  SortByTotal(&totals.functions);
  out["top_total"] = FunctionsJson(timeline, totals.functions);
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

// The thread that the terminal's summary is about; null: none was sampled.
const PythonThread* ShownThread(const Timeline& timeline) {
  const PythonThread* shown = nullptr;
  uint64_t most = 0;
  const uint32_t counted = CountedProcess(timeline);
  for (const PythonThread& samples : timeline.python.threads) {
    const Thread& thread = timeline.threads[samples.thread];
    if (!thread.is_main) continue;
    if (thread.process == counted) return &samples;
    uint64_t count = 0;
    for (const PythonTally& tally : samples.tallies) count += tally.samples;
    if (count > most) {
      most = count;
      shown = &samples;
    }
  }
  return shown;
}

// `41 % train.py:88 forward`
std::string Share(const Timeline& timeline, const PythonTotals& totals, const PythonFunctionTotal& of, int64_t ps) {
  const PythonFunction& function = timeline.python.functions[of.function];
  return StrCat(HumanPercent(static_cast<double>(ps) / static_cast<double>(totals.all.wall_ps)), " ",
                PrintableUtf8(BaseName(timeline.strings.Get(function.file))), ":", function.first_line, " ",
                PrintableUtf8(timeline.strings.Get(function.name)));
}

// As many of the parts as there is room for, at least one.
std::string Joined(std::string_view head, const std::vector<std::string>& parts, size_t columns) {
  std::string text(head);
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string part = StrCat(i == 0 ? "" : ", ", parts[i]);
    if (i > 0 && Utf8Columns(text) + Utf8Columns(part) > columns) break;
    text += part;
  }
  return text;
}

}  // namespace

Json PythonJson(const Timeline& timeline) {
  const PythonTimeline& python = timeline.python;
  if (python.threads.empty() && python.processes.empty()) return nullptr;
  Json processes = Json::array();
  for (size_t i = 0; i < std::min(kMostProcesses, python.processes.size()); ++i) {
    processes.push_back(ProcessJson(timeline, python.processes[i]));
  }
  const std::vector<PythonGroup> groups = GroupPythonThreads(timeline);
  Json out_groups = Json::array();
  for (size_t i = 0; i < std::min(kMostGroups, groups.size()); ++i) {
    out_groups.push_back(GroupJson(timeline, groups[i]));
  }
  return {{"process_count", python.processes.size()},
          {"processes", std::move(processes)},
          {"group_count", groups.size()},
          {"groups", std::move(out_groups)},
          {"samples_not_drawn", python.samples_without_run},
          {"spans_not_drawn", python.spans_left_out},
          {"shortest_drawn_s", Seconds(python.shortest_span_ps)}};
}

std::vector<std::string> PythonText(const Timeline& timeline, size_t columns) {
  const PythonThread* thread = ShownThread(timeline);
  if (thread == nullptr) return {};
  PythonTotals totals = TotalsOfThreads(timeline.python, {thread});
  if (totals.all.wall_ps <= 0) return {};
  const auto share = [&](int64_t ps) { return static_cast<double>(ps) / static_cast<double>(totals.all.wall_ps); };
  const uint64_t samples = totals.all.samples;
  std::vector<std::string> lines = {
      StrCat("python  main thread: ", HumanCount(samples), samples == 1 ? " sample, " : " samples, ",
             HumanPercent(share(totals.all.on_cpu_ps)), " on CPU (lines are those of def)")};
  std::vector<std::string> parts;
  for (const PythonFunctionTotal& function : totals.functions) {
    if (parts.size() == kShownFunctions || share(function.self.wall_ps) < kLeastShownShare) break;
    parts.push_back(Share(timeline, totals, function, function.self.wall_ps));
  }
  if (!parts.empty()) lines.push_back(Joined("        self   ", parts, columns));
  parts.clear();
  SortByTotal(&totals.functions);
  for (const PythonFunctionTotal& function : totals.functions) {
    if (parts.size() == kShownFunctions || share(function.total.wall_ps) < kLeastShownShare) break;
    if (share(function.total.wall_ps) > kWholeShare || function.total.samples == function.self.samples) continue;
    parts.push_back(Share(timeline, totals, function, function.total.wall_ps));
  }
  if (!parts.empty()) lines.push_back(Joined("        total  ", parts, columns));
  return lines;
}

}  // namespace tbprof
