// SPDX-License-Identifier: Apache-2.0
//
// `tbprof baseline`: saves runs under a name, lists all baselines, shows one.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "launcher/base/text.h"
#include "launcher/cli/commands.h"
#include "launcher/cli/terminal.h"
#include "launcher/gate/baseline_store.h"
#include "launcher/gate/gate_output.h"
#include "launcher/gate/statistics.h"
#include "writer/base/summary_format.h"
#include "writer/base/utf8.h"
#include "writer/logdir/logdir.h"

namespace tbprof {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kExitNoBaseline = 2;
constexpr std::string_view kUsage = "usage: tbprof baseline save NAME RUN... | list | show NAME";

int Fail(std::string_view line, int status) {
  Terminal().Error(line);
  return status;
}

int FailWith(const absl::Status& status, int exit_status) {
  return Fail(PrintableUtf8(std::string(status.message())), exit_status);
}

std::string UtcTime(int64_t unix_ns) {
  if (unix_ns <= 0) return "-";
  return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", absl::FromUnixNanos(unix_ns), absl::UTCTimeZone());
}

// Median over the runs whose step times are comparable.
std::string StepText(const Side& side) {
  std::vector<double> medians;
  for (const RunNumbers& run : side.runs) {
    if (run.unfit.empty() && run.no_times.empty() && run.median_step_s > 0) medians.push_back(run.median_step_s);
  }
  if (medians.empty()) return "no step times";
  std::ranges::sort(medians);
  std::string text = StrCat("step ", HumanSeconds(MiddleOf(medians)));
  if (const std::optional<RunNoise> noise = NoiseOf(side); noise.has_value()) {
    StrAppend(&text, ", run to run ", HumanPercent(noise->sd));
  }
  return text;
}

std::string LineOf(const Baseline& baseline) {
  const size_t runs = baseline.side.runs.size();
  return StrCat(Counted(runs, "run"), ", ", StepText(baseline.side), ", saved ", UtcTime(baseline.saved_unix_ns));
}

// The fields that must be equal for a comparison. If runs differ, each value is shown, in the order of the runs.
std::vector<std::pair<std::string, std::string>> IdentityFields(const RunIdentity& identity) {
  std::string devices;
  for (const std::string& device : identity.devices) StrAppend(&devices, devices.empty() ? "" : ", ", device);
  return {{"command", identity.command},
          {"window", identity.window},
          {"steps by", identity.steps_source},
          {"processor", identity.cpu_model},
          {"processors", identity.cpus > 0 ? StrCat(identity.cpus) : ""},
          {"devices", devices.empty() ? "no GPU" : devices},
          {"ranks", identity.world_size.has_value() ? StrCat(*identity.world_size) : ""},
          {"Python", identity.python},
          {"tbprof", identity.tbprof_version},
          {"host", identity.host}};
}

std::string ShownText(const Baseline& baseline) {
  constexpr size_t kMostValues = 5;
  std::string text = StrCat(baseline.name, ": ", LineOf(baseline), "\n");
  const auto add = [&](std::string_view line) {
    StrAppend(&text, FitColumns(WithoutCommands(line), kGateColumns), "\n");
  };
  const size_t fields = IdentityFields({}).size();
  for (size_t field = 0; field < fields; ++field) {
    std::vector<std::string> values;
    std::string name;
    for (const RunNumbers& run : baseline.side.runs) {
      auto [title, value] = IdentityFields(run.identity)[field];
      name = std::move(title);
      if (value.empty()) value = "not known";
      if (std::ranges::find(values, value) == values.end()) values.push_back(std::move(value));
    }
    for (size_t i = 0; i < std::min(values.size(), kMostValues); ++i) {
      add(absl::StrFormat("  %-11s%s%s", i == 0 ? name : "", values.size() > 1 ? "differs: " : "", values[i]));
    }
    if (values.size() > kMostValues) add(StrCat("             ", values.size() - kMostValues, " more values"));
  }
  for (const RunNumbers& run : baseline.side.runs) {
    const std::string& fault = run.unfit.empty() ? run.no_times : run.unfit;
    add(absl::StrFormat("  %-23s %8s %6s steps  %s%s", UtcTime(run.start_unix_ns),
                        run.median_step_s > 0 ? HumanSeconds(run.median_step_s) : "-",
                        run.steps > 0 ? StrCat(run.steps) : "-", run.path, fault.empty() ? "" : StrCat(": ", fault)));
  }
  return text;
}

Json OrNull(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json JsonOf(const Baseline& baseline) {
  const std::optional<RunNoise> noise = NoiseOf(baseline.side);
  Json runs = Json::array();
  for (const RunNumbers& run : baseline.side.runs) {
    const RunIdentity& identity = run.identity;
    runs.push_back({{"path", run.path},
                    {"start_unix_ns", run.start_unix_ns > 0 ? Json(run.start_unix_ns) : Json(nullptr)},
                    {"command", OrNull(identity.command)},
                    {"window", OrNull(identity.window)},
                    {"steps_source", OrNull(identity.steps_source)},
                    {"cpu_model", OrNull(identity.cpu_model)},
                    {"cpus", identity.cpus > 0 ? Json(identity.cpus) : Json(nullptr)},
                    {"devices", identity.devices},
                    {"world_size", identity.world_size.has_value() ? Json(*identity.world_size) : Json(nullptr)},
                    {"python", OrNull(identity.python)},
                    {"tbprof_version", OrNull(identity.tbprof_version)},
                    {"host", OrNull(identity.host)},
                    {"no_times", OrNull(run.no_times)},
                    {"unfit", OrNull(run.unfit)},
                    {"steps", run.steps > 0 ? Json(run.steps) : Json(nullptr)},
                    {"median_step_s", run.median_step_s > 0 ? Json(run.median_step_s) : Json(nullptr)}});
  }
  return {{"name", baseline.name},
          {"saved_unix_ns", baseline.saved_unix_ns},
          {"run_to_run_sd", noise.has_value() ? Json(noise->sd) : Json(nullptr)},
          {"runs", std::move(runs)}};
}

int PrintJson(const Json& json) {
  return PrintOut(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n") ? 0 : kExitUsage;
}

int Save(const Options& options) {
  if (options.operands.size() < 3) return Fail("baseline save takes a name and at least one run", kExitUsage);
  const std::string& name = options.operands[1];
  const std::optional<int64_t> rank = options.rank >= 0 ? std::optional(options.rank) : std::nullopt;
  const absl::StatusOr<std::string> logdir = NormaliseLogdir(options.logdir, WorkingDirectory());
  if (!logdir.ok()) return FailWith(logdir.status(), kExitUsage);
  Terminal terminal(options);
  Side side;
  for (size_t i = 2; i < options.operands.size(); ++i) {
    absl::StatusOr<RunNumbers> run = ReadRunNumbers(options.operands[i], rank, *logdir);
    if (!run.ok()) return FailWith(run.status(), kExitUsage);
    if (!run->unfit.empty()) {
      return Fail(PrintableUtf8(StrCat(options.operands[i], ": not saved: ", run->unfit)), kExitUsage);
    }
    if (!run->no_times.empty() && !run->IsWholeRun()) {
      terminal.Warn(
          PrintableUtf8(StrCat(options.operands[i], ": ",
                               run->counts.empty() ? "neither its times nor counts of a step can be compared: "
                                                   : "its counts can be compared, its times not: ",
                               run->no_times)));
    }
    if (run->no_times.empty() && !run->no_counts.empty()) {
      terminal.Warn(PrintableUtf8(StrCat(options.operands[i], ": its counts cannot be compared: ", run->no_counts)));
    }
    side.runs.push_back(*std::move(run));
  }
  const absl::StatusOr<SavedBaseline> saved =
      SaveBaseline(options.store, name, side, {.add = options.add, .keep = options.keep});
  if (!saved.ok()) return FailWith(saved.status(), kExitUsage);
  std::string text = StrCat("baseline ", name, ": ", Counted(options.add ? side.runs.size() : saved->runs, "run"),
                            options.add ? " added in " : " saved in ", options.store);
  if (options.add) StrAppend(&text, "; the baseline has ", Counted(saved->runs, "run"));
  if (saved->again > 0) StrAppend(&text, "; ", saved->again, saved->again == 1 ? " was" : " were", " there already");
  if (saved->dropped > 0) StrAppend(&text, "; the oldest ", saved->dropped, " dropped (--keep=", options.keep, ")");
  terminal.Print(PrintableUtf8(text));
  return 0;
}

int List(const Options& options) {
  if (options.operands.size() != 1) return Fail("baseline list takes no operand", kExitUsage);
  std::vector<std::string> faults;
  const absl::StatusOr<std::vector<Baseline>> baselines = ListBaselines(options.store, &faults);
  if (!baselines.ok()) return FailWith(baselines.status(), kExitNoBaseline);
  for (const std::string& fault : faults) Terminal().Error(PrintableUtf8(fault));
  const int status = faults.empty() ? 0 : kExitNoBaseline;
  if (options.json) {
    Json all = Json::array();
    for (const Baseline& baseline : *baselines) all.push_back(JsonOf(baseline));
    const int printed = PrintJson({{"baselines", std::move(all)}, {"faults", faults}});
    return printed != 0 ? printed : status;
  }
  std::string text;
  for (const Baseline& baseline : *baselines) {
    StrAppend(&text, FitColumns(StrCat(baseline.name, ": ", LineOf(baseline)), kGateColumns), "\n");
  }
  if (baselines->empty() && faults.empty()) {
    text = StrCat("no baselines in ", PrintableUtf8(options.store), ": tbprof baseline save NAME RUN... makes one\n");
  }
  return PrintOut(text) ? status : kExitUsage;
}

int Show(const Options& options) {
  if (options.operands.size() != 2) return Fail("baseline show takes one name", kExitUsage);
  const absl::StatusOr<Baseline> baseline = ReadBaseline(options.store, options.operands[1]);
  if (!baseline.ok()) return FailWith(baseline.status(), kExitNoBaseline);
  if (options.json) return PrintJson(JsonOf(*baseline));
  return PrintOut(ShownText(*baseline)) ? 0 : kExitUsage;
}

}  // namespace

int CommandBaseline(const Options& options) {
  const std::string what = options.operands.empty() ? "" : options.operands[0];
  for (const std::string_view name : {"add", "keep"}) {
    // The same option in the environment or a file may be meant for another command.
    if (what != "save" && SourceOf(options, name) == OptionSource::kCommandLine)
      return Fail(StrCat("--", name, " belongs to baseline save"), kExitUsage);
  }
  if (what == "save") return Save(options);
  if (what == "list") return List(options);
  if (what == "show") return Show(options);
  return Fail(what.empty() ? std::string(kUsage) : StrCat("no `baseline ", PrintableUtf8(what), "`; ", kUsage),
              kExitUsage);
}

}  // namespace tbprof
