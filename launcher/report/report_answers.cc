// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/report_answers.h"

#include <algorithm>
#include <utility>

#include "launcher/base/text.h"
#include "writer/base/secrets.h"
#include "writer/base/shown_file.h"
#include "writer/base/summary_format.h"
#include "writer/base/symbol_text.h"
#include "writer/base/utf8.h"
#include "writer/timeline/timeline_verdict.h"

namespace tbprof {
namespace {

constexpr uint64_t kSummaryVersion = 1;
constexpr size_t kMostUnrecorded = 20;

absl::Status Damaged(const std::string& path, std::string_view what) {
  return absl::DataLossError(StrCat(PrintableUtf8(path), ": ", what));
}

// Checks that the JSON is a summary that this tbprof can read.
absl::Status CheckVersion(const Fields& root, const std::string& path) {
  if (!root.Has("schema_version") || !root.Has("tbprof_version")) {
    return Damaged(path, "no summary of tbprof: $.schema_version or $.tbprof_version is missing");
  }
  const std::optional<uint64_t> version = root.Count("schema_version");
  if (version.has_value() && *version != kSummaryVersion) {
    return Damaged(path, StrCat("$.schema_version: ", *version, "; this tbprof reads ", kSummaryVersion,
                                ": use the tbprof that wrote it, or a newer one"));
  }
  return absl::OkStatus();
}

std::string_view PartTitle(std::string_view name) {
  const std::optional<StepPart> part = StepPartNamed(name);
  return part.has_value() ? StepPartTitle(*part) : name;
}

std::string LineText(const std::string& file, const std::optional<int64_t>& line) {
  return StrCat(ShownFile(file), line.has_value() ? StrCat(":", *line) : "");
}

VerdictPlace ReadPlace(const Fields& fields) {
  VerdictPlace place;
  place.role = fields.Text("role");
  place.file = fields.Text("file");
  place.line = fields.Integer("line");
  place.function = fields.Text("function");
  place.doing = fields.Text("doing");
  place.share = fields.Number("share");
  place.pid = fields.Integer("pid");
  place.thread = fields.Text("thread");
  for (const Fields& caller : fields.Objects("callers")) {
    place.callers.push_back(LineText(caller.Text("file"), caller.Integer("line")));
  }
  return place;
}

// The text of the blocker for summaries without that text: built from the places.
std::string BlockerOf(const std::vector<VerdictPlace>& where) {
  auto found = std::ranges::find(where, "waited_for", &VerdictPlace::role);
  const bool waited_for = found != where.end();
  if (!waited_for) found = std::ranges::find(where, "spends", &VerdictPlace::role);
  if (found == where.end()) return "";
  std::string text = found->thread.empty() ? "" : StrCat("thread ", found->thread);
  if (found->pid.has_value()) StrAppend(&text, text.empty() ? "process " : " of process ", *found->pid);
  StrAppend(&text, text.empty() ? "" : ", ",
            waited_for || !found->share.has_value() ? "" : StrCat(HumanPercent(*found->share), " "),
            found->doing.empty() ? "running" : StrCat("in ", found->doing), " at ",
            found->file.empty() ? "" : StrCat(LineText(found->file, found->line), " "), ShortFunction(found->function));
  for (const std::string& caller : found->callers) StrAppend(&text, ", from ", caller);
  return text;
}

VerdictAnswer ReadVerdict(const Fields& fields) {
  VerdictAnswer verdict;
  verdict.known = fields.present();
  if (!verdict.known) return verdict;
  verdict.text = fields.Text("text");
  verdict.cause = fields.Text("cause");
  verdict.problem = fields.Flag("problem");
  verdict.share = fields.Number("share");
  verdict.unknown_because = fields.Text("unknown_because");
  verdict.next = fields.Text("next");
  for (const Fields& place : fields.Objects("where")) verdict.where.push_back(ReadPlace(place));
  verdict.facts = fields.Texts("facts");
  verdict.hangs = fields.Texts("hangs");
  const Fields split = fields.Object("split");
  verdict.basis = split.Text("basis");
  for (const Fields& part : split.Objects("parts")) {
    const std::string name = part.Text("part");
    verdict.parts.push_back({name, std::string(PartTitle(name)), part.Number("share").value_or(0), part.Number("s")});
  }
  verdict.limits = split.Texts("limits");
  verdict.blocker = fields.Text("blocker");
  verdict.is_waited_for = std::ranges::find(verdict.where, "waited_for", &VerdictPlace::role) != verdict.where.end();
  if (verdict.blocker.empty()) verdict.blocker = BlockerOf(verdict.where);
  if (verdict.blocker.empty()) verdict.blocker = verdict.cause.empty() ? "not known" : "no single line of Python";
  return verdict;
}

ChangeAnswer ReadChange(const Fields& fields) {
  ChangeAnswer change;
  change.text = fields.Text("text");
  change.kind = fields.Text("kind");
  change.slower = fields.Flag("slower").value_or(false);
  change.at_s = fields.Seconds("at_s");
  change.until_s = fields.Number("until_s");
  change.step = fields.Integer("step").value_or(0);
  change.before_s = fields.Seconds("before_s");
  change.after_s = fields.Seconds("after_s");
  change.steps_before = fields.Count("steps_before").value_or(0);
  change.steps_after = fields.Count("steps_after").value_or(0);
  change.part = fields.Text("part");
  change.part_s = fields.Number("part_s");
  change.file = fields.Text("file");
  change.line = fields.Integer("line");
  change.function = fields.Text("function");
  change.line_s = fields.Number("line_s");
  change.line_part = fields.Text("line_part");
  change.line_part_s = fields.Number("line_part_s");
  return change;
}

StepsAnswer ReadSteps(const Fields& fields) {
  StepsAnswer steps;
  steps.known = fields.Flag("known").value_or(false);
  steps.unknown_because = fields.Text("unknown_because");
  steps.source = fields.Text("source");
  steps.count = fields.Count("count");
  steps.irregular = fields.Count("irregular");
  steps.irregular_s = fields.Number("irregular_s");
  steps.median_s = fields.Number("median_s");
  steps.mean_s = fields.Number("mean_s");
  steps.shortest_s = fields.Number("shortest_s");
  steps.longest_s = fields.Number("longest_s");
  steps.confidence = fields.Number("confidence");
  steps.input_wait_share = fields.Number("input_wait_share");
  steps.change = ReadChange(fields.Object("change"));
  steps.searched_from_s = fields.Number("searched_from_s");
  steps.searched_to_s = fields.Number("searched_to_s");
  return steps;
}

// Lists missing data that a user might expect in the profile.
std::vector<std::string> ReadUnrecorded(const Fields& root) {
  std::vector<std::string> out;
  uint64_t dropped = 0;
  for (const auto& [cause, count] : root.Object("records").Object("dropped").NumbersEnding("")) {
    if (count <= 0) continue;
    ++dropped;
    out.push_back(
        StrCat("lost ", HumanCount(count < 1e18 ? static_cast<uint64_t>(count) : UINT64_MAX), " records: ", cause));
  }
  if (root.Has("missing_ranks") && !root.Has("ranks")) out.emplace_back("ranks: not known");
  for (const Fields& program : root.Objects("unrecorded")) {
    if (out.size() == kMostUnrecorded + dropped) break;
    out.push_back(StrCat("not recorded: ", program.Text("path"), " (", program.Text("reason"), ")"));
  }
  for (const char* what : {"python", "native"}) {
    std::vector<std::string> seen;
    for (const Fields& process : root.Object(what).Objects("processes")) {
      const std::string reason = process.Text("reason"), state = process.Text("state");
      if (state == "sampled" || std::ranges::find(seen, state + reason) != seen.end()) continue;
      seen.push_back(state + reason);
      out.push_back(StrCat(std::string_view(what) == "python" ? "Python lines" : "native functions", " of process ",
                           process.Integer("pid").value_or(0), ": ", state, reason.empty() ? "" : ": ", reason));
    }
  }
  if (!root.Object("python").present()) out.emplace_back("Python lines: no process with Python was sampled");
  if (!root.Object("native").present()) out.emplace_back("native functions: no process was sampled");
  return out;
}

std::string ProcessText(const Fields& root) {
  const std::vector<Fields> processes = root.Objects("processes");
  if (processes.empty()) return "";
  const uint64_t count = root.Count("process_count").value_or(processes.size());
  if (count > 1) return StrCat("all ", count, " processes");
  return StrCat(processes[0].Text("name"), " (", processes[0].Integer("pid").value_or(0), ")");
}

std::optional<double> SearchedTime(const Fields& steps) {
  const std::optional<double> from = steps.Number("searched_from_s"), to = steps.Number("searched_to_s");
  return from && to ? std::optional(*to - *from) : std::nullopt;
}

RankAnswer RankOf(const Fields& section) {
  RankAnswer answer;
  answer.rank = section.Integer("rank");
  answer.host = section.Text("host");
  answer.state = section.Text("state");
  answer.end = EndText(section.Integer("exit_code"), section.Integer("exit_signal"));
  const Fields steps = section.Object("steps");
  answer.steps = steps.Count("count");
  answer.median_s = steps.Number("median_s");
  answer.searched_s = SearchedTime(steps);
  answer.wait_s = section.Number("wait_s");
  answer.verdict = section.Text("verdict");
  return answer;
}

}  // namespace

VerdictAnswer ReadVerdictOfRank(const Fields& section) {
  VerdictAnswer verdict;
  verdict.text = section.Text("verdict");
  verdict.known = !verdict.text.empty();
  verdict.cause = section.Text("cause");
  verdict.blocker = "no single line of Python";
  const Fields busiest = section.Object("busiest");
  if (!busiest.present()) return verdict;
  const std::string file = busiest.Text("file");
  verdict.blocker = StrCat(file.empty() ? "" : StrCat(LineText(file, busiest.Integer("line")), " "),
                           ShortFunction(busiest.Text("function")));
  return verdict;
}

std::string_view SourceKindName(SourceKind kind) {
  switch (kind) {
    case SourceKind::kSummary:
      return "summary";
    case SourceKind::kProfile:
      return "profile";
    case SourceKind::kRun:
      return "run";
    case SourceKind::kLogdir:
      return "logdir";
    case SourceKind::kSpool:
      return "spool";
  }
  return "summary";
}

std::string EndText(std::optional<int64_t> exit_code, std::optional<int64_t> exit_signal) {
  if (exit_signal.has_value()) return StrCat("killed by signal ", *exit_signal);
  return exit_code.has_value() ? StrCat("exit status ", *exit_code) : "";
}

std::string MaskedLine(const std::string& line) {
  std::vector<std::string> words;
  for (const std::string_view word : Split(line, ' ')) words.emplace_back(word);
  std::string text;
  for (const std::string& word : MaskSecrets(words)) StrAppend(&text, text.empty() ? "" : " ", word);
  return text;
}

absl::Status ReadAnswers(const nlohmann::json& summary, const std::string& path, Report* report) {
  std::string fault;
  const Fields root(summary, "$", &fault);
  if (!fault.empty()) return Damaged(path, fault);
  if (const absl::Status status = CheckVersion(root, path); !status.ok()) return status;
  report->file = PrintableUtf8(path);
  report->run = root.Text("run");
  report->host = root.Text("host");
  report->window = root.Text("window");
  report->tbprof_version = root.Text("tbprof_version");
  const Fields command = root.Object("command");
  report->command = MaskedLine(command.Text("line"));
  report->end = EndText(command.Integer("exit_code"), command.Integer("exit_signal"));
  if (report->end.empty() && command.Flag("running").value_or(false)) report->end = "still running";
  report->complete = root.Flag("complete");
  report->wall_s = root.Number("wall_s");
  report->totals_wall_s = root.Number("totals_wall_s");
  report->rank = root.Integer("rank");
  report->process = ProcessText(root);
  report->verdict = ReadVerdict(root.Object("verdict"));
  report->steps = ReadSteps(root.Object("steps"));
  report->python = ReadPython(root);
  report->native = ReadNative(root);
  report->waits = ReadWaits(root);
  report->gil = ReadGil(root);
  report->gpus = ReadGpus(root);
  report->memory = ReadMemory(root);
  report->errors = root.Texts("errors");
  report->warnings = root.Texts("warnings");
  report->notes = root.Texts("notes");
  report->not_recorded = ReadUnrecorded(root);
  if (!report->verdict.known) {
    report->missing.push_back(StrCat("verdict and split: this summary has none (written by tbprof ",
                                     report->tbprof_version, "; `tbprof convert` of its spool makes one)"));
  }
  return fault.empty() ? absl::OkStatus() : Damaged(path, fault);
}

absl::StatusOr<std::vector<RankAnswer>> ReadRanks(const nlohmann::json& summary, const std::string& path) {
  std::string fault;
  const Fields root(summary, "$", &fault);
  if (!fault.empty()) return Damaged(path, fault);
  if (const absl::Status status = CheckVersion(root, path); !status.ok()) return status;
  RankAnswer own;
  own.rank = root.Integer("rank");
  own.host = root.Text("host");
  own.verdict = root.Object("verdict").Text("text");
  own.summary = path;
  const Fields steps = root.Object("steps");
  own.steps = steps.Count("count");
  own.median_s = steps.Number("median_s");
  own.searched_s = SearchedTime(steps);
  const Fields command = root.Object("command");
  own.end = EndText(command.Integer("exit_code"), command.Integer("exit_signal"));
  own.state = command.Flag("running").value_or(false) ? "running" : "ended";
  std::vector<RankAnswer> ranks = {std::move(own)};
  for (const Fields& section : root.Objects("by_rank")) {
    RankAnswer rank = RankOf(section);
    if (rank.rank.has_value() && rank.rank == ranks[0].rank) {
      ranks[0].wait_s = rank.wait_s;
      ranks[0].state = rank.state;
      ranks[0].end = rank.end;
    } else {
      ranks.push_back(std::move(rank));
    }
  }
  return fault.empty() ? absl::StatusOr<std::vector<RankAnswer>>(std::move(ranks)) : Damaged(path, fault);
}

}  // namespace tbprof
