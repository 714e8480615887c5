// SPDX-License-Identifier: Apache-2.0
#include "launcher/gate/run_numbers.h"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "launcher/base/text.h"
#include "launcher/gate/run_amounts.h"
#include "launcher/report/bounded_json.h"
#include "launcher/report/report_answers.h"
#include "launcher/report/report_fields.h"
#include "launcher/report/report_source.h"
#include "writer/base/summary_format.h"
#include "writer/base/utf8.h"
#include "writer/timeline/summary_limits.h"

namespace tbprof {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kFewestSteps = 10;
constexpr double kLeastConfidence = 0.5;
constexpr size_t kMostSummaries = 4096;
constexpr double kBaselineRounding = 1e-5;

absl::StatusOr<Json> ReadSummary(const std::string& path) {
  const absl::StatusOr<OpenedFile> file = OpenRegularFile(path);
  if (!file.ok()) return file.status();
  // The list of steps has at most 2000 elements; a truncated list would describe other steps.
  return ReadBoundedJson(file->fd.get(), path, {.array_values = 100'000});
}

void ReadProcess(const Fields& root, RunIdentity* identity) {
  const std::optional<int64_t> pid = StepsPid(root);
  for (const Fields& process : root.Objects("processes")) {
    if (process.Flag("replaced_by_exec").value_or(false)) continue;
    const bool is_wanted = pid.has_value() ? process.Integer("pid") == pid : process.Flag("is_command").value_or(false);
    if (!is_wanted || !process.Has("started_ticks")) continue;
    identity->pid = process.Integer("pid").value_or(0);
    identity->started_ticks = process.Integer("started_ticks").value_or(0);
  }
}

void ReadIdentity(const Fields& root, RunNumbers* numbers) {
  RunIdentity& identity = numbers->identity;
  identity.command = MaskedLine(root.Object("command").Text("line"));
  identity.window = root.Text("window");
  // Somebody chose when it begins and ends.
  if (root.Object("command").Flag("attached").value_or(false)) identity.window = StrCat("attached ", identity.window);
  identity.tbprof_version = root.Text("tbprof_version");
  identity.host = root.Text("host");
  const Fields steps = root.Object("steps");
  // Without steps the source is that of the one step that stands for the whole window.
  if (steps.Flag("known").value_or(true)) identity.steps_source = steps.Text("source");
  identity.world_size = root.Integer("world_size");
  const Fields machine = root.Object("machine");
  identity.cpu_model = machine.Text("cpu_model");
  identity.cpus = std::max<int64_t>(0, machine.Integer("cpus").value_or(0));
  for (const Fields& process : root.Object("python").Objects("processes")) {
    if (identity.python.empty()) identity.python = process.Text("version");
  }
  for (const Fields& gpu : root.Objects("gpus")) {
    if (const std::string name = gpu.Text("name"); !name.empty()) identity.devices.push_back(name);
  }
  std::ranges::sort(identity.devices);
  ReadProcess(root, &identity);
}

void ReadSteps(const Fields& steps, RunNumbers* numbers) {
  numbers->steps = steps.Count("count").value_or(0);
  numbers->irregular_steps = steps.Count("irregular").value_or(0);
  numbers->median_step_s = steps.Seconds("median_s");
  numbers->mean_step_s = steps.Seconds("mean_s");
  const bool known = steps.Flag("known").value_or(numbers->steps > 0);
  // Where no steps are known, the list has the whole window.
  for (const Fields& step : known ? steps.Objects("list") : std::vector<Fields>()) {
    const double length = step.Seconds("duration_s");
    if (step.Flag("regular").value_or(false) && length > 0) numbers->steps_s.push_back(length);
  }
  if (numbers->steps_s.empty() && steps.Has("blocks")) {
    numbers->block_medians_s = steps.Object("blocks").Numbers("medians_s");
    numbers->block_means_s = steps.Object("blocks").Numbers("means_s");
  }
  const double confidence = steps.Seconds("confidence");
  if (!known) {
    const std::string why = steps.Text("unknown_because");
    numbers->no_times = StrCat("its steps are not known", why.empty() ? "" : ": ", why);
  } else if (numbers->steps < kFewestSteps) {
    numbers->no_times = StrCat(numbers->steps, " regular steps; at least ", kFewestSteps, " are needed");
  } else if (confidence < kLeastConfidence) {
    numbers->no_times = StrCat("it is not sure what a step is (confidence ", HumanPercent(confidence), ", at least ",
                               HumanPercent(kLeastConfidence), " is needed); name it by --step-marker");
  } else if (numbers->median_step_s <= 0 || numbers->mean_step_s <= 0) {
    numbers->no_times = "its steps have no length";
  }
}

// Peak of the process that makes the steps; if that is unknown, the highest peak.
std::optional<double> MemoryPeak(const Fields& root) {
  const std::optional<int64_t> pid = StepsPid(root);
  std::optional<double> highest;
  for (const Fields& process : root.Object("memory").Objects("processes")) {
    const std::optional<double> peak = process.Number("peak_bytes");
    if (pid.has_value() && process.Integer("pid") == pid) return peak;
    if (peak.has_value() && *peak > highest.value_or(0)) highest = peak;
  }
  return highest;
}

void ReadFitness(const Fields& root, RunNumbers* numbers) {
  const Fields command = root.Object("command");
  const std::optional<int64_t> exit_code = command.Integer("exit_code");
  const std::string end = EndText(exit_code, command.Integer("exit_signal"));
  numbers->running = command.Flag("running").value_or(false);
  if (!end.empty() && exit_code != 0) {
    numbers->unfit = StrCat("its command failed: ", end);
    numbers->failed = true;
  } else if (!root.Flag("complete").value_or(true)) {
    numbers->unfit = "it is not complete: recovered after its tbprof was killed";
  }
}

void ReadStraggler(const Fields& verdict, RunNumbers* numbers) {
  for (const Fields& place : verdict.Objects("where")) {
    if (place.Text("role") != "waited_for" || !place.Integer("rank").has_value()) continue;
    numbers->waits_for_rank = place.Integer("rank");
    numbers->waits_for = verdict.Text("blocker");
    return;
  }
}

// `root`: a valid summary of the supported version.
RunNumbers NumbersOf(const Fields& root) {
  RunNumbers numbers;
  ReadIdentity(root, &numbers);
  ReadFitness(root, &numbers);
  ReadSteps(root.Object("steps"), &numbers);
  numbers.start_unix_ns = root.Integer("start_unix_ns").value_or(0);
  numbers.memory_peak_bytes = MemoryPeak(root);
  const std::optional<double> user = root.Number("user_cpu_s"), system = root.Number("system_cpu_s"),
                              wall = root.Number("wall_s");
  if (user.has_value() && system.has_value()) numbers.cpu_s = *user + *system;
  if (numbers.cpu_s.has_value() && wall.value_or(0) > 0) numbers.cpus_used = *numbers.cpu_s / *wall;
  if (root.Has("cpus_allowed")) numbers.cpus_allowed = root.Number("cpus_allowed");
  if (root.Has("cpu_wait_s")) numbers.cpu_wait_s = root.Number("cpu_wait_s");
  numbers.wall_s = root.Has("totals_wall_s") ? root.Number("totals_wall_s") : root.Number("wall_s");
  ReadStraggler(root.Object("verdict"), &numbers);
  ReadCounts(root, &numbers);
  ReadAmounts(root, &numbers);
  return numbers;
}

struct RankNumbers {
  bool is_main = false;
  std::optional<int64_t> rank;
  RunNumbers numbers;
};

absl::StatusOr<RankNumbers> ReadOne(const std::string& path) {
  const absl::StatusOr<Json> json = ReadSummary(path);
  if (!json.ok()) return json.status();
  // ReadRanks checks the version and the form of the summary, as for `tbprof report`.
  const absl::StatusOr<std::vector<RankAnswer>> ranks = ReadRanks(*json, path);
  if (!ranks.ok()) return ranks.status();
  std::string fault;
  const Fields root(*json, "$", &fault);
  RankNumbers out{IsMainSummary(path), root.Integer("rank"), NumbersOf(root)};
  if (!fault.empty()) return absl::DataLossError(StrCat(PrintableUtf8(path), ": ", fault));
  out.numbers.files = {PrintableUtf8(path)};
  return out;
}

RunNumbers Unfit(std::string_view why) {
  RunNumbers numbers;
  numbers.unfit = std::string(why);
  return numbers;
}

RunNumbers Choose(const ReportSource& source, std::optional<int64_t> rank) {
  std::vector<RankNumbers> ranks;
  std::string fault;
  for (size_t i = 0; i < std::min(source.summaries.size(), kMostSummaries); ++i) {
    absl::StatusOr<RankNumbers> read = ReadOne(source.summaries[i]);
    if (!read.ok()) {
      if (fault.empty()) fault = PrintableUtf8(std::string(read.status().message()));
      continue;
    }
    if (!rank.has_value() || read->rank == rank) ranks.push_back(*std::move(read));
  }
  // A damaged summary could belong to the slowest rank.
  if (!fault.empty()) {
    RunNumbers damaged = Unfit(fault);
    damaged.damaged = true;
    return damaged;
  }
  std::ranges::stable_sort(ranks, {}, [](const RankNumbers& of) { return of.rank.value_or(INT64_MAX); });
  RankNumbers* chosen = nullptr;
  for (RankNumbers& of : ranks) {
    if (of.is_main) return std::move(of.numbers);
    if (chosen == nullptr || IsSlowerRank(of.numbers.median_step_s, chosen->numbers.median_step_s)) chosen = &of;
  }
  if (chosen != nullptr) return std::move(chosen->numbers);
  if (rank.has_value()) return Unfit(StrCat("no summary of rank ", *rank, " in it"));
  return Unfit(source.kind == SourceKind::kSpool ? "raw records: make a profile of them by `tbprof convert`"
                                                 : "no summary.json beside it, which the comparison reads: another "
                                                   "tool wrote or fetched the profile, or an older tbprof");
}

}  // namespace

std::string_view AmountKindName(AmountKind kind) {
  switch (kind) {
    case AmountKind::kPart:
      return "part";
    case AmountKind::kOperation:
      return "operation";
    case AmountKind::kKernel:
      return "kernel";
    case AmountKind::kWait:
      return "wait";
    case AmountKind::kPythonLine:
      return "python_line";
    case AmountKind::kOwnLine:
      return "own_line";
    case AmountKind::kOtherLine:
      return "other_line";
    case AmountKind::kOwnFunction:
      return "own_function";
    case AmountKind::kFunction:
      return "function";
    case AmountKind::kAllocationSite:
      return "allocation_site";
  }
  return "part";
}

bool IsSampled(AmountKind kind) {
  return kind == AmountKind::kPythonLine || kind == AmountKind::kOwnLine || kind == AmountKind::kOtherLine ||
         kind == AmountKind::kFunction || kind == AmountKind::kOwnFunction || kind == AmountKind::kAllocationSite;
}

WindowKind KindOfWindow(const RunIdentity& identity) {
  constexpr std::string_view kAttached = "attached ";
  std::string_view window = identity.window;
  const bool attached = window.starts_with(kAttached);
  if (attached) window.remove_prefix(kAttached.size());
  // Somebody chose when sampling began and ended.
  if (window == "auto" || window == "all") return attached ? WindowKind::kTime : WindowKind::kWhole;
  if (window.starts_with("capture ")) return WindowKind::kCapture;
  // `last=30s`, `10s+5s`; the name of a range (`nvtx:a+b`) may have a plus sign.
  const bool of_time = window.find('+') != std::string_view::npos && window.find(':') == std::string_view::npos;
  return of_time || window.starts_with("last=") ? WindowKind::kTime : WindowKind::kOther;
}

bool IsWindow(const RunIdentity& identity) {
  const WindowKind kind = KindOfWindow(identity);
  return kind == WindowKind::kCapture || kind == WindowKind::kTime;
}

bool AreOfOneProcess(const RunIdentity& a, const RunIdentity& b) {
  return IsWindow(a) && IsWindow(b) && a.started_ticks != 0 && a.started_ticks == b.started_ticks && a.pid == b.pid;
}

bool IsSameRun(const RunNumbers& a, const RunNumbers& b) {
  if (a.start_unix_ns != b.start_unix_ns || a.identity.host != b.identity.host) return false;
  if (a.start_unix_ns == 0) return !a.files.empty() && a.files == b.files;
  // Ranks of a run differ in their steps.
  return a.steps == b.steps && std::abs(a.median_step_s - b.median_step_s) <= kBaselineRounding * a.median_step_s;
}

bool IsListFull(const RunNumbers& run, AmountKind kind) {
  if (kind == AmountKind::kPart) return false;
  const bool of_lines = IsSampled(kind) && kind != AmountKind::kAllocationSite;
  const auto rows = static_cast<size_t>(std::ranges::count(run.amounts, kind, &Amount::kind));
  // Functions of one name are added up.
  if (kind == AmountKind::kOwnFunction) return run.own_function_unlisted > 0;
  const size_t most = kind == AmountKind::kFunction ? kSummaryLinesOfPhase / 2
                      : of_lines                    ? kSummaryLinesOfPhase
                                                    : kSummaryRows;
  return rows >= most;
}

double LeastListed(const RunNumbers& run, AmountKind kind) {
  if (!IsListFull(run, kind)) return 0;
  if (kind == AmountKind::kOwnFunction) return run.own_function_unlisted;
  double least = INFINITY;
  for (const Amount& amount : run.amounts) {
    if (amount.kind == kind) least = std::min(least, amount.per_step);
  }
  return least;
}

absl::StatusOr<RunNumbers> ReadRunNumbers(const std::string& path, std::optional<int64_t> rank,
                                          const std::string& logdir) {
  absl::StatusOr<ReportSource> source = FindSource(path, logdir, "");
  if (!source.ok()) return source.status();
  if (source->kind == SourceKind::kProfile && source->summaries.size() > 1) source->summaries.resize(1);
  RunNumbers numbers = Choose(*source, rank);
  numbers.path = PrintableUtf8(path);
  struct stat file;
  if (stat(path.c_str(), &file) != 0) numbers.logdir = PrintableUtf8(logdir);
  return numbers;
}

}  // namespace tbprof
