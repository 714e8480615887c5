// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/rank_report.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <utility>

#include "writer/base/arguments.h"
#include "writer/base/median.h"
#include "writer/base/saturating.h"
#include "writer/base/summary_format.h"
#include "writer/base/text.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

constexpr size_t kMaxRankWaits = 5;
constexpr size_t kMaxNamedFailures = 4;

void FillSteps(const Timeline& timeline, RankReport* report) {
  if (timeline.step_source == StepSource::kWholeCapture) return;
  report->step_source = timeline.step_source_text;
  report->step_confidence = timeline.step_confidence;
  std::vector<int64_t> lengths;
  for (const Step& step : timeline.steps) {
    report->last_step = std::max(report->last_step, step.number);
    if (step.is_regular) lengths.push_back(step.end_ps - step.start_ps);
  }
  if (timeline.steps_in_detail) {
    report->last_step = -1;
    report->searched_from_ps = timeline.full_detail.start_ps;
    report->searched_to_ps = timeline.full_detail.end_ps;
  }
  if (!timeline.steps.empty() && timeline.steps.front().thread < timeline.threads.size()) {
    report->steps_pid = timeline.processes[timeline.threads[timeline.steps.front().thread].process].pid;
  }
  report->steps = lengths.size();
  report->irregular_steps = timeline.steps.size() - lengths.size();
  if (!lengths.empty()) report->median_step_ps = Median(std::move(lengths));
}

void FillWaits(const Timeline& timeline, RankReport* report) {
  report->waits.clear();
  report->waited_ps = 0;
  for (const CallSiteTotal& site : timeline.wait_sites) {
    AddSaturating(&report->waited_ps, site.total_ps);
    if (report->waits.size() >= kMaxRankWaits) continue;
    const std::string operation = site.type < timeline.types.size() ? timeline.types[site.type].name : "";
    report->waits.push_back({operation, timeline.strings.Get(site.site), site.calls, site.total_ps, site.longest_ps});
  }
}

void FillVerdict(const Timeline& timeline, RankReport* report) {
  const Verdict& verdict = timeline.verdict;
  report->cause = verdict.cause;
  report->change_is_of_others = timeline.step_change.part == StepPart::kCollectives;
  report->hangs = verdict.hangs;
  if (verdict.basis != VerdictBasis::kNone) {
    report->collectives_share = verdict.ShareOf(StepPart::kCollectives);
    report->share_basis = verdict.basis == VerdictBasis::kTraining ? VerdictBasis::kSteps : verdict.basis;
  }
  report->places.clear();
  for (const Where& place : verdict.places) {
    RankPlace of = {timeline.strings.Get(place.file), place.line, timeline.strings.Get(place.function), place.share};
    // It runs there, and waits there, too.
    const auto same = std::ranges::find_if(report->places, [&](const RankPlace& known) {
      return known.line == of.line && known.file == of.file && known.function == of.function;
    });
    if (same == report->places.end()) {
      report->places.push_back(std::move(of));
    } else {
      same->share += of.share;
    }
  }
}

std::string FailureText(const RankReport& report) {
  std::string text =
      StrCat("rank ", report.rank, ": ", ExitText(report.exit_code, report.exit_signal, report.out_of_memory));
  if (report.end_ps >= 0) StrAppend(&text, " at ", HumanTime(report.end_ps));
  // The steps may be those of an earlier process of the rank.
  if (report.last_step >= 0 && (report.steps_pid == 0 || report.steps_pid == report.pid)) {
    StrAppend(&text, ", last recorded step ", report.last_step);
  } else if (report.has_numbers && report.steps == 0) {
    text += ", no steps recognised";
  }
  return text;
}

}  // namespace

std::string ExitText(int exit_code, int exit_signal, bool out_of_memory) {
  if (exit_signal != 0) {
    const char* name = sigabbrev_np(exit_signal);
    return StrCat("killed by ", name != nullptr ? StrCat("SIG", name) : StrCat("signal ", exit_signal),
                  out_of_memory ? " (out of memory)" : "");
  }
  if (exit_code < 0) return "ended, exit status not known";
  // A shell returns 128 + the signal that ended its child.
  const int signal = exit_code > 128 && exit_code < 160 ? exit_code - 128 : 0;
  const char* name = signal != 0 ? sigabbrev_np(signal) : nullptr;
  return StrCat("exit status ", exit_code, name != nullptr ? StrCat(" (128 + SIG", name, ")") : std::string());
}

bool HasFailed(const RankReport& report) {
  return report.state == RankState::kEnded && (report.exit_signal != 0 || report.exit_code > 0);
}

void FillRankReport(Timeline* timeline) {
  for (RankReport& report : timeline->by_rank) {
    if (report.rank != timeline->rank || report.state == RankState::kMissing) continue;
    report.has_numbers = true;
    report.host = timeline->host;
    report.processes = timeline->processes.size();
    report.threads = static_cast<uint64_t>(std::count_if(timeline->threads.begin(), timeline->threads.end(),
                                                         [](const Thread& thread) { return !thread.is_line; }));
    report.records = timeline->records;
    report.own_cost_seconds = timeline->own_cost_seconds;
    report.heap_peak_bytes = -1;
    for (const Process& process : timeline->processes) {
      if (process.allocator.allocations + process.allocator.frees == 0) continue;
      report.heap_peak_bytes = std::max(report.heap_peak_bytes, process.allocator.peak_bytes);
    }
    FillSteps(*timeline, &report);
    FillWaits(*timeline, &report);
    FillVerdict(*timeline, &report);
  }
}

void PutRankReport(RankReport report, std::vector<RankReport>* reports) {
  const auto at = std::lower_bound(reports->begin(), reports->end(), report.rank,
                                   [](const RankReport& other, int rank) { return other.rank < rank; });
  if (at != reports->end() && at->rank == report.rank) {
    *at = std::move(report);
  } else {
    reports->insert(at, std::move(report));
  }
}

RankTotals TotalsOf(const std::vector<RankReport>& reports) {
  RankTotals totals;
  for (const RankReport& report : reports) {
    if (!report.has_numbers) continue;
    ++totals.ranks;
    totals.processes += report.processes;
    totals.threads += report.threads;
    totals.records += report.records;
    AddSaturating(&totals.waited_ps, report.waited_ps);
    totals.own_cost_seconds += report.own_cost_seconds;
  }
  return totals;
}

RankSpeeds SpeedsOf(const std::vector<RankReport>& reports) {
  RankSpeeds speeds;
  std::vector<const RankReport*> with_steps, with_waits, other_waits;
  for (const RankReport& report : reports) {
    if (!report.has_numbers) continue;
    const bool has_steps = report.median_step_ps >= 0;
    if (has_steps) with_steps.push_back(&report);
    if (!has_steps) ++speeds.without_steps;
    if (report.collectives_share < 0) continue;
    if (has_steps && report.share_basis == VerdictBasis::kSteps) with_waits.push_back(&report);
    // Shares of a loop and of a whole run are not compared.
    const bool is_alike = other_waits.empty() || other_waits.front()->share_basis == report.share_basis;
    if (!has_steps && is_alike) other_waits.push_back(&report);
  }
  if (with_steps.size() >= 2) {
    const auto [fastest, slowest] = std::ranges::minmax_element(with_steps, {}, &RankReport::median_step_ps);
    const auto [fewest, most] = std::ranges::minmax_element(with_steps, {}, &RankReport::steps);
    speeds.fastest = *fastest;
    speeds.slowest = *slowest;
    speeds.fewest = *fewest;
    speeds.most = *most;
  }
  if (with_steps.empty()) with_waits = std::move(other_waits);
  if (with_waits.size() < 2) return speeds;
  const auto [least, longest] = std::ranges::minmax_element(with_waits, {}, &RankReport::collectives_share);
  speeds.waits_least = *least;
  speeds.waits_most = *longest;
  return speeds;
}

namespace {

// After a restart (torchrun --max-restarts): the failure that began it all, of a process that was replaced since.
const RankReport* FirstOfEarlier(const Timeline& timeline) {
  const RankReport* first = nullptr;
  for (const RankReport& report : timeline.by_rank) {
    if (report.earlier_failures == 0 || report.earlier_end_ps < 0 || report.of_other_launcher) continue;
    if (first == nullptr || report.earlier_end_ps < first->earlier_end_ps) first = &report;
  }
  return first;
}

}  // namespace

std::vector<std::string> RankWarnings(const Timeline& timeline) {
  std::vector<std::string> texts;
  const RankReport* const earlier = FirstOfEarlier(timeline);
  if (earlier != nullptr) {
    texts.push_back(StrCat("rank ", earlier->rank, ": ", earlier->earlier_failure, " at ",
                           HumanTime(earlier->earlier_end_ps), " (the first to fail; then it was started again)"));
  }
  std::vector<const RankReport*> failed;
  std::vector<int> not_known;
  for (const RankReport& report : timeline.by_rank) {
    if (HasFailed(report)) failed.push_back(&report);
    const bool has_status = report.exit_code >= 0 || report.exit_signal != 0;
    if (report.state == RankState::kEnded && !has_status) not_known.push_back(report.rank);
  }
  std::stable_sort(failed.begin(), failed.end(),
                   [](const RankReport* a, const RankReport* b) { return a->end_ps < b->end_ps; });
  // The clocks of two machines do not show which rank failed first.
  const bool in_order =
      std::none_of(failed.begin(), failed.end(), [](const RankReport* report) { return report->of_other_launcher; });
  const bool is_first = in_order && failed.size() > 1 && earlier == nullptr;
  const size_t named = failed.size() <= kMaxNamedFailures ? failed.size() : kMaxNamedFailures - 1;
  for (size_t i = 0; i < named; ++i) {
    texts.push_back(StrCat(FailureText(*failed[i]), is_first && i == 0 ? " (the first to fail)" : ""));
  }
  if (named < failed.size()) {
    std::vector<int> rest;
    for (size_t i = named; i < failed.size(); ++i) rest.push_back(failed[i]->rank);
    std::sort(rest.begin(), rest.end());
    texts.push_back(
        StrCat(rest.size(), " further ranks failed: ", TruncateUtf8(RankList(rest), 60), " (summary.json: by_rank)"));
  }
  // A run without failures needs no such warning.
  const bool command_failed = timeline.exit_signal != 0 || timeline.exit_code > 0;
  if (!not_known.empty() && (command_failed || !failed.empty())) {
    texts.push_back(StrCat("rank ", TruncateUtf8(RankList(not_known), 60),
                           ": ended, exit status not known (the kernel did not report it)"));
  }
  if (timeline.ranks_elsewhere > 0) {
    texts.push_back(StrCat("not in this run: ", timeline.ranks_elsewhere, " of ", timeline.world_size,
                           " ranks, of other nodes (--run=NAME, the same on all nodes, joins them)"));
  }
  for (const RankReport& report : timeline.by_rank) {
    if (report.earlier_failures == 0) continue;
    texts.push_back(StrCat("rank ", report.rank, ": ", report.earlier_failures,
                           report.earlier_failures == 1 ? " earlier process" : " earlier processes", " failed (",
                           report.earlier_failure, "); the profile shows all of them, the steps are of process ",
                           report.steps_pid != 0 ? report.steps_pid : report.pid));
    if (texts.size() >= 2 * kMaxNamedFailures) break;
  }
  return texts;
}

}  // namespace tbprof
