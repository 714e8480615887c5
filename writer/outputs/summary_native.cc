// SPDX-License-Identifier: Apache-2.0
#include "writer/outputs/summary_native.h"

#include <algorithm>
#include <functional>
#include <span>
#include <string_view>
#include <utility>

#include "writer/base/summary_format.h"
#include "writer/base/text.h"
#include "writer/base/utf8.h"
#include "writer/convert/native_totals.h"
#include "writer/outputs/summary_lines.h"

namespace tbprof {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostFunctions = 50;
constexpr size_t kMostProcesses = 1000;
constexpr size_t kShownFunctions = 3;
constexpr size_t kLongestShownName = 60;
// `main` and what starts it contain everything.
constexpr double kWholeShare = 0.99;
constexpr double kLeastShownShare = 0.005;

double Seconds(int64_t picoseconds) { return static_cast<double>(picoseconds) / 1e12; }

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
  for (size_t i = 0; i < std::min(kMostFunctions, functions.size()); ++i) {
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

// With its library where another one has a function of this name: two copies of OpenBLAS, of NumPy and of SciPy.
std::string ShownName(const Timeline& timeline, const NativeFunctionTotal& function,
                      const std::vector<NativeFunctionTotal>& functions) {
  const auto stack_of = [&](const NativeFunctionTotal& one) { return timeline.native.stacks[one.stack]; };
  const NativeStack stack = stack_of(function);
  const std::string whole = PrintableUtf8(timeline.strings.Get(stack.function));
  const std::string_view name = TruncateUtf8(whole, kLongestShownName);
  const auto shown = std::span(functions).first(std::min(functions.size(), kMostFunctions));
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

}  // namespace

Json NativeJson(const Timeline& timeline) {
  const NativeTimeline& native = timeline.native;
  if (native.threads.empty() && native.processes.empty()) return nullptr;
  Json processes = Json::array();
  for (size_t i = 0; i < std::min(kMostProcesses, native.processes.size()); ++i) {
    processes.push_back(ProcessJson(timeline, native.processes[i]));
  }
  NativeTotals totals = TotalsOfNative(native);
  Json out = {{"process_count", native.processes.size()},
              {"processes", std::move(processes)},
              {"samples", totals.all.samples},
              {"cpu_s", Seconds(totals.all.cpu_ps)},
              {"without_frames_s", Seconds(totals.without_frames.cpu_ps)},
              {"function_count", totals.functions.size()},
              {"top_self", FunctionsJson(timeline, totals.functions)}};
  SortByTotal(&totals.functions);
  out["top_total"] = FunctionsJson(timeline, totals.functions);
  out["samples_not_drawn"] = native.samples_without_span;
  out["spans_not_drawn"] = native.spans_left_out;
  return out;
}

std::vector<std::string> NativeText(const Timeline& timeline, size_t columns) {
  NativeTotals totals = TotalsOfNative(timeline.native);
  if (totals.all.cpu_ps <= 0) return {};
  const auto share = [&](int64_t ps) { return static_cast<double>(ps) / static_cast<double>(totals.all.cpu_ps); };
  const auto part = [&](const NativeFunctionTotal& function, int64_t ps) {
    return StrCat(HumanPercent(share(ps)), " ", ShownName(timeline, function, totals.functions));
  };
  const uint64_t samples = totals.all.samples;
  std::vector<std::string> lines = {StrCat("native  all threads: ", HumanCount(samples),
                                           samples == 1 ? " sample, " : " samples, ", HumanTime(totals.all.cpu_ps),
                                           " of CPU in user code")};
  std::vector<std::string> parts;
  for (const NativeFunctionTotal& function : totals.functions) {
    if (parts.size() == kShownFunctions || share(function.self.cpu_ps) < kLeastShownShare) break;
    parts.push_back(part(function, function.self.cpu_ps));
  }
  if (!parts.empty()) lines.push_back(Joined("        self   ", parts, columns));
  parts.clear();
  SortByTotal(&totals.functions);
  for (const NativeFunctionTotal& function : totals.functions) {
    if (parts.size() == kShownFunctions || share(function.total.cpu_ps) < kLeastShownShare) break;
    if (share(function.total.cpu_ps) > kWholeShare || function.total.samples == function.self.samples) continue;
    parts.push_back(part(function, function.total.cpu_ps));
  }
  if (!parts.empty()) lines.push_back(Joined("        total  ", parts, columns));
  return lines;
}

}  // namespace tbprof
