// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "absl/strings/str_format.h"
#include "launcher/base/text.h"
#include "launcher/report/report_output.h"
#include "writer/base/shown_file.h"
#include "writer/base/summary_format.h"
#include "writer/base/symbol_text.h"

namespace tbprof {
namespace {

// Smaller parts are left out of the line, as in the end block.
constexpr double kLeastShown = 0.02;

std::string Plural(uint64_t count, std::string_view one, std::string_view many) {
  return StrCat(HumanCount(count), " ", count == 1 ? one : many);
}

}  // namespace

std::string AsHumanBytes(double bytes) { return HumanBytes(std::clamp(bytes, 0.0, 1e18)); }

std::string StepsLine(const Report& report) {
  const StepsAnswer& steps = report.steps;
  if (!steps.known) {
    const bool nothing = steps.source.empty() && steps.unknown_because.empty();
    return StrCat("steps unknown", nothing ? ": nothing was recorded" : "", steps.unknown_because.empty() ? "" : ": ",
                  steps.unknown_because);
  }
  std::string text = Plural(steps.count.value_or(0), "step", "steps");
  if (steps.searched_from_s.has_value() && steps.searched_to_s.has_value()) {
    StrAppend(&text, " in ", HumanSeconds(*steps.searched_to_s - *steps.searched_from_s));
    if (report.wall_s.has_value()) StrAppend(&text, " of ", HumanSeconds(*report.wall_s));
  }
  if (steps.median_s.has_value()) {
    StrAppend(&text, ", ", StepLengthText(*steps.median_s, steps.mean_s.value_or(*steps.median_s)));
  }
  const double regular_s = static_cast<double>(steps.count.value_or(0)) * steps.mean_s.value_or(0);
  text += IrregularText(steps.irregular.value_or(0), steps.irregular_s.value_or(0), regular_s);
  text += " (";
  const double confidence = steps.confidence.value_or(0);
  if (confidence > 0 && confidence < 1) StrAppend(&text, absl::StrFormat("confidence %.2f, ", confidence));
  return StrCat(text, "found by ", steps.source, ")");
}

std::string Percent(double share) { return HumanPercent(std::clamp(share, 0.0, 9.99)); }

std::string SplitLine(const VerdictAnswer& verdict) {
  std::string text;
  for (const VerdictPart& part : verdict.parts) {
    if (part.share >= kLeastShown)
      StrAppend(&text, text.empty() ? "" : ", ", part.title, " ", HumanPercent(part.share));
  }
  return text;
}

std::string RankPrefix(const Report& report) {
  if (report.ranks.size() < 2) return "";
  if (report.rank.has_value()) return StrCat("rank ", *report.rank, ", ");
  return report.host.empty() ? "" : StrCat("host ", report.host, ", ");
}

std::vector<std::string> LeadLines(const Report& report) {
  std::vector<std::string> lines;
  std::string rank = RankPrefix(report);
  if (rank.size() > 2) rank.replace(rank.size() - 2, 2, ": ");
  const VerdictAnswer& verdict = report.verdict;
  lines.push_back(StrCat(rank, "verdict: ", verdict.known ? verdict.text : "not known"));
  lines.push_back(StepsLine(report));
  if (!report.steps.change.text.empty()) lines.push_back(report.steps.change.text);
  if (!verdict.known) return lines;
  lines.push_back(StrCat(verdict.is_waited_for ? "blocker: " : "where: ", verdict.blocker));
  for (const std::string& text : verdict.hangs) lines.push_back(StrCat("hangs: ", text));
  if (!verdict.next.empty()) lines.push_back(StrCat("next: ", verdict.next));
  if (const std::string split = SplitLine(verdict); !split.empty()) lines.push_back(StrCat("split: ", split));
  return lines;
}

template <typename Row>
std::string ThreadsText(const ThreadRows<Row>& threads) {
  // Threads without a name have this one.
  const bool named = !threads.threads.empty() && threads.threads != "thread";
  std::string name = threads.main ? "main thread" : named ? StrCat("thread ", threads.threads) : "threads";
  if (threads.thread_count > 1) {
    name = StrCat(threads.thread_count, threads.main ? " main threads" : " threads");
    if (!threads.main && named) StrAppend(&name, " ", threads.threads);
  }
  return StrCat(threads.process, threads.forked ? " (fork children)" : "", ", ", name, ", ",
                threads.window == RowsOf::kProfile ? "whole profile"
                : threads.window == RowsOf::kSteps ? "in steps"
                                                   : "in irregular steps");
}
template std::string ThreadsText(const PythonThreads&);
template std::string ThreadsText(const NativeThreads&);

std::string PythonPlace(const PythonRow& row) {
  return StrCat(ShownFile(row.file), row.line.has_value() ? StrCat(":", *row.line) : "", " ", row.function);
}

std::string WaitPlace(const WaitRow& row) {
  std::string text = row.operation;
  if (!row.python.empty()) StrAppend(&text, " in ", row.python);
  if (!row.call_site.empty()) StrAppend(&text, row.python.empty() ? " in " : ", via ", row.call_site);
  return text;
}

std::string NativeName(const NativeRow& row) {
  const std::string name = ShortSymbol(row.function);
  return row.module.empty() || name.find(row.module) != std::string::npos ? name : StrCat(name, " (", row.module, ")");
}

std::string IdlePoolsText(const Report& report) {
  size_t sites = 0;
  double seconds = 0;
  std::vector<std::string> pools;
  for (const WaitRow& wait : report.waits) {
    if (wait.idle_pool.empty()) continue;
    ++sites;
    seconds += wait.total_s;
    if (std::ranges::find(pools, wait.idle_pool) == pools.end()) pools.push_back(wait.idle_pool);
  }
  if (sites == 0) return "";
  std::string text = StrCat(HumanSeconds(seconds), " in ", Plural(sites, "wait site", "wait sites"), " of ");
  for (size_t i = 0; i < pools.size(); ++i) StrAppend(&text, i == 0 ? "" : ", ", pools[i]);
  return text;
}

std::string IdleThreadsText(const Report& report) {
  uint64_t threads = 0;
  for (const PythonThreads& group : report.python) threads += group.idle ? group.thread_count : 0;
  return threads == 0 ? "" : Plural(threads, "thread of Python only waits", "threads of Python only wait");
}

std::string RankLine(const RankAnswer& rank) {
  std::string text = rank.rank.has_value() ? StrCat("rank ", *rank.rank) : "";
  if (!rank.host.empty()) StrAppend(&text, text.empty() ? "host " : " (", rank.host, rank.rank.has_value() ? ")" : "");
  StrAppend(&text, ": ");
  if (rank.steps.has_value()) {
    StrAppend(&text, Plural(*rank.steps, "step", "steps"));
    if (rank.searched_s.has_value()) StrAppend(&text, " in ", HumanSeconds(*rank.searched_s));
    if (rank.median_s.has_value()) StrAppend(&text, ", median ", HumanSeconds(*rank.median_s));
    StrAppend(&text, "; ");
  }
  if (rank.state == "missing") return StrCat(text, "missing: no process of it was recorded");
  if (rank.state == "no summary") return StrCat(text, "no summary.json: not known");
  if (!rank.end.empty() && rank.end != "exit status 0") StrAppend(&text, rank.end, "; ");
  return StrCat(text, rank.verdict.empty() ? "verdict: not known" : rank.verdict);
}

std::string WindowLine(const Report& report) {
  std::string text;
  const auto add = [&](std::string_view what, const std::string& value) {
    if (!value.empty()) StrAppend(&text, text.empty() ? "" : "; ", what, value);
  };
  add("run ", report.run);
  add("host ", report.host);
  add("window ", report.window);
  if (report.wall_s.has_value()) add("", StrCat(HumanSeconds(*report.wall_s), " wall"));
  if (report.totals_wall_s.has_value()) add("totals of ", HumanSeconds(*report.totals_wall_s));
  add("", report.end);
  add("", report.process);
  return text;
}

}  // namespace tbprof
