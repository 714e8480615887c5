// SPDX-License-Identifier: Apache-2.0
//
// `tbprof ab`: runs two commands in pairs, in random order, until it can decide whether the second is slower.
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "launcher/base/text.h"
#include "launcher/cli/commands.h"
#include "launcher/cli/terminal.h"
#include "launcher/gate/ab_plan.h"
#include "launcher/gate/ab_run.h"
#include "launcher/gate/compare.h"
#include "launcher/gate/cpu_contention.h"
#include "launcher/gate/gate_end.h"
#include "launcher/gate/gate_output.h"
#include "writer/base/utf8.h"
#include "writer/logdir/logdir.h"

namespace tbprof {
namespace {

constexpr mode_t kDirectoryMode = 0777;

class Ab {
 public:
  Ab(const Options& options, std::string logdir)
      : options_(options),
        terminal_(options),
        logdir_(std::move(logdir)),
        stamp_(absl::FormatTime("ab_%Y_%m_%d_%H_%M_%S", absl::Now(), absl::LocalTimeZone()) + "_" +
               std::to_string(getpid())),
        looks_(PlanLooks(options.pairs)),
        order_((uint64_t{std::random_device()()} << 32) | std::random_device()()) {}

  int Main() {
    if (!MakeDirectory()) return kExitGateFailed;
    terminal_.Print(
        StrCat("ab: up to ", options_.pairs, " pairs of runs; what they print: ", PrintableUtf8(directory_)));
    while (base_.runs.size() < options_.pairs && !stopped_) {
      if (base_.runs.size() >= kFewestPairs && !HasTimeForAPair()) {
        stop_reason_ = "--max-time is over";
        break;
      }
      RunPair();
      if (!stopped_) LookAtPair();
    }
    return End();
  }

 private:
  bool MakeDirectory() {
    std::error_code error;
    directory_ = StrCat(logdir_, "/ab/", stamp_);
    std::filesystem::create_directories(StrCat(logdir_, "/ab"), error);
    if (!error && mkdir(directory_.c_str(), kDirectoryMode) == 0) return true;
    terminal_.Error(StrCat("cannot make ", PrintableUtf8(directory_), ": ", error ? error.message() : strerror(errno)));
    return false;
  }

  // Assumes that the next pair takes as long as the longest pair so far.
  bool HasTimeForAPair() const {
    return options_.max_time == absl::ZeroDuration() || absl::Now() - start_ + longest_pair_ <= options_.max_time;
  }

  void RunPair() {
    const absl::Time begin = absl::Now();
    const bool new_first = order_.Next();
    RunOne(new_first);
    if (!stopped_) RunOne(!new_first);
    longest_pair_ = std::max(longest_pair_, absl::Now() - begin);
    // Drops the run of an incomplete pair.
    const size_t whole = std::min(base_.runs.size(), new_.runs.size());
    base_.runs.resize(whole);
    new_.runs.resize(whole);
    base_load_.resize(whole);
    new_load_.resize(whole);
  }

  void RunOne(bool is_new) {
    Side& side = is_new ? new_ : base_;
    const std::string name = absl::StrFormat("%s_%s_%02d", stamp_, is_new ? "new" : "base", side.runs.size() + 1);
    const AbRunResult result = RunSide({.command = is_new ? options_.new_runs[0] : options_.base_runs[0],
                                        .logdir = logdir_,
                                        .run = name,
                                        .output = StrCat(directory_, "/", name, ".log")},
                                       &gpus_);
    if (result.interrupted) return Stop("interrupted");
    const std::string what = StrCat("run ", side.runs.size() + 1, is_new ? " of --new" : " of --base");
    if (!result.error.empty()) return Stop(StrCat(what, " ", result.error));
    const std::string run = StrCat(logdir_, "/plugins/profile/", name);
    absl::StatusOr<RunNumbers> numbers = ReadRunNumbers(run, std::nullopt);
    if (!numbers.ok()) return Stop(StrCat(what, ": ", PrintableUtf8(std::string(numbers.status().message()))));
    KeepNumbers(run, name, side.runs.empty());
    side.runs.push_back(*std::move(numbers));
    (is_new ? new_load_ : base_load_).push_back(result.load);
  }

  // Keeps one profile per side for the user. Of all other runs only the summaries are kept: they are copied before the
  // run is removed.
  void KeepNumbers(const std::string& run, const std::string& name, bool first) {
    std::error_code error;
    size_t copied = 0;
    for (const auto& entry : std::filesystem::directory_iterator(run, error)) {
      const std::string file = entry.path().filename();
      if (!file.ends_with("summary.json")) continue;
      if (!std::filesystem::copy_file(entry.path(), StrCat(directory_, "/", name, ".", file), error)) return;
      ++copied;
    }
    if (!first && copied > 0 && !error) std::filesystem::remove_all(run, error);
  }

  void Stop(const std::string& reason) {
    stopped_ = true;
    stop_reason_ = reason;
  }

  CompareOptions OptionsOf(double share) const {
    CompareOptions compare;
    compare.margin = options_.margin;
    compare.any_program = true;
    compare.budget_share = share;
    return compare;
  }

  void LookAtPair() {
    const size_t pairs = base_.runs.size();
    const std::string where = StrCat("ab: pair ", pairs, " of at most ", options_.pairs);
    latest_.reset();
    if (looks_[taken_].pairs != pairs) return terminal_.Print(where);
    latest_ = Compare(base_, new_, OptionsOf(looks_[taken_++].share));
    const QuantityResult* const time = StepTime(*latest_);
    const std::string change = time == nullptr ? "" : ChangeText(*time);
    terminal_.Print(StrCat(where, change.empty() ? "" : ": ", change));
    // More pairs do not change an answer that other numbers than the step time put in doubt.
    stopped_ = latest_->answer != Answer::kCannotTell || (time != nullptr && time->answer != Answer::kCannotTell);
  }

  int End() {
    if (base_.runs.empty()) {
      terminal_.Error(StrCat("cannot tell: ", stop_reason_));
      return kExitCannotTell;
    }
    // The run stopped between two looks: this look takes the shares of the looks that are left.
    if (!latest_) latest_ = Compare(base_, new_, OptionsOf(ShareLeft(looks_, taken_)));
    Comparison& comparison = *latest_;
    const Contamination found = FindContamination(base_load_, new_load_);
    if (found.is_even_load && IsClearUnderLoad(comparison)) {
      comparison.warnings.push_back(StrCat(found.why, ": the change is much larger than what that explains"));
    } else if (!found.why.empty()) {
      WithdrawTimes(found.why, &comparison, /*keeps_cpu_time=*/found.is_even_load);
    }
    if (!stop_reason_.empty()) {
      comparison.warnings.insert(comparison.warnings.begin(),
                                 StrCat("stopped after ", base_.runs.size(), " pairs: ", stop_reason_));
      // A failed command makes the answer unusable.
      if (stopped_) WithdrawTimes(stop_reason_, &comparison);
    }
    return EndGate(options_, std::move(comparison), &terminal_);
  }

  const Options& options_;
  Terminal terminal_;
  const std::string logdir_, stamp_;
  const std::vector<Look> looks_;
  AbOrder order_;
  std::string directory_;
  const absl::Time start_ = absl::Now();
  absl::Duration longest_pair_;
  GpuLoadReader gpus_;
  Side base_, new_;
  std::vector<RunLoad> base_load_, new_load_;
  size_t taken_ = 0;
  std::optional<Comparison> latest_;  // comparison of all pairs so far
  bool stopped_ = false;
  std::string stop_reason_;
};

}  // namespace

int CommandAb(const Options& options) {
  const auto fail = [](std::string_view line) {
    Terminal().Error(line);
    return kExitGateFailed;
  };
  if (options.base_runs.size() != 1 || options.new_runs.size() != 1 || !options.operands.empty()) {
    return fail("ab needs two commands: tbprof ab --base 'CMD A' --new 'CMD B'");
  }
  Terminal errors;
  if (!CanEndGate(options, &errors)) return kExitGateFailed;
  const absl::StatusOr<std::string> logdir = NormaliseLogdir(options.logdir, WorkingDirectory());
  if (!logdir.ok()) return fail(std::string(logdir.status().message()));
  return Ab(options, *logdir).Main();
}

}  // namespace tbprof
