// SPDX-License-Identifier: Apache-2.0
//
// State that the parts of a run share: the options, the terminal, decisions made before the command started, and the
// progress of the run.
//
// Process: launcher, main thread.
#ifndef TBPROF_LAUNCHER_RUN_RUN_CONTEXT_H_
#define TBPROF_LAUNCHER_RUN_RUN_CONTEXT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "launcher/cli/options.h"
#include "launcher/cli/terminal.h"
#include "launcher/convert/summary_file.h"
#include "launcher/target/job.h"
#include "launcher/target/signals.h"
#include "wire/clock.h"

namespace tbprof {

// The windows of a run that does not fit one profile; times are measured from the start of the run.
struct AutoTimes {
  uint64_t start_ns = 30'000'000'000;
  uint64_t steady_at_ns = 120'000'000'000;
  uint64_t steady_ns = 20'000'000'000;
  uint64_t end_ns = 30'000'000'000;
};
// Parses `start,steady_at,steady,end` in milliseconds (TBPROF_TEST_AUTO, which shortens tests); null: the defaults.
AutoTimes AutoTimesOf(const char* text);

struct RunContext {
  RunContext(const Options& all_options, Terminal* terminal_of_run, const AutoTimes& auto_times)
      : options(all_options), terminal(*terminal_of_run), times(auto_times) {}

  // Prints a warning and adds it to every profile from now on.
  void Warn(const std::string& text) {
    terminal.Warn(text);
    warnings.push_back(text);
  }
  int PrintingRank() const { return tbprof::PrintingRank(choice, job.rank); }
  // The path of --summary-json: of the launchers of a job, the one that prints has it as it was given.
  std::string SummaryFile() const {
    const bool is_further = job.sure_rank && job.rank.world_size > 1 && job.rank.rank != PrintingRank();
    return SummaryPath(options, is_further ? job.rank.rank : -1);
  }
  bool TargetRuns() const { return !closed && (state.target_running || state.following); }

  const Options& options;
  Terminal& terminal;
  const AutoTimes times;
  Job job{};
  RankChoice choice{};
  std::string host, run;
  bool run_exclusive = true;
  std::vector<std::string> warnings;
  SignalState state;
  bool closed = false;  // the session is closed: nothing is recorded any more
  const uint64_t began_ns = ReadMonotonic();
  uint64_t command_start_ns = 0, command_end_ns = 0;  // 0: not yet
};

// The text of --window in profiles and on the terminal.
std::string WindowText(const Window& window);

inline uint64_t Nanoseconds(absl::Duration duration) {
  return static_cast<uint64_t>(absl::ToInt64Nanoseconds(duration));
}

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_RUN_RUN_CONTEXT_H_
