// SPDX-License-Identifier: Apache-2.0
//
// The numbers of one run that another is compared by, read from its summary.json.
//
//   absl::StatusOr<RunNumbers> run = ReadRunNumbers(path, rank);
//
// Process: launcher, for `tbprof compare`, `ab`, `baseline` and `run --baseline`. Files may be anybody's: texts are
// printable UTF-8 and numbers finite when they are here.
#ifndef TBPROF_LAUNCHER_GATE_RUN_NUMBERS_H_
#define TBPROF_LAUNCHER_GATE_RUN_NUMBERS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace tbprof {

// What an amount is of.
enum class AmountKind {
  kPart,            // of the split of the steps' time: s in a step
  kOperation,       // of a framework, without those inside it: s in a step
  kKernel,          // s in a step
  kWait,            // a call that waits, by where it is called: s in a step
  kPythonLine,      // of the thread of the steps: s in a step
  kOtherLine,       // of Python in another thread or process, such as a loader's: s in a step
  kAllocationSite,  // bytes in a step, an estimate from samples
};
inline constexpr AmountKind kAmountKinds[] = {
    AmountKind::kPart,       AmountKind::kOperation, AmountKind::kKernel,        AmountKind::kWait,
    AmountKind::kPythonLine, AmountKind::kOtherLine, AmountKind::kAllocationSite};
std::string_view AmountKindName(AmountKind kind);

struct Amount {
  AmountKind kind = AmountKind::kPart;
  std::string name;
  double per_step = 0;
};

// Whether a count is of the regular steps alone, or of the whole run divided by its steps.
enum class CountBasis { kSteps, kRun };

struct Count {
  std::string name;  // `kernels`, `allocations`, ...; with `_per_step` it is what --fail-on names
  double per_step = 0;
  CountBasis basis = CountBasis::kSteps;
};

// What must be equal for two runs to be comparable, and is named where it is not.
struct RunIdentity {
  std::string command, window, cpu_model, python, tbprof_version, steps_source;  // empty: not known
  std::string host;
  int64_t cpus = 0;                  // 0: not known
  std::vector<std::string> devices;  // names of GPUs, sorted
  std::optional<int64_t> world_size;
};

struct RunNumbers {
  std::string path;  // as it was given
  RunIdentity identity;
  int64_t start_unix_ns = 0;
  bool running = false;      // its command had not ended
  bool of_baseline = false;  // read from a baseline, which may hold runs of other machines and options
  // Why its times, or all of it, cannot be compared: one line. Empty: they can.
  std::string no_times, unfit;
  std::vector<double> steps_s;   // the regular ones, in order; none where a summary has no list (over 2000 steps)
  uint64_t steps = 0;            // all regular ones
  uint64_t irregular_steps = 0;  // beside them: a busy machine makes more
  double median_step_s = 0, mean_step_s = 0;  // of all regular ones
  // What the amounts of kPart add up to: `mean_step_s`, or more where time between steps is split as well. 0: no split.
  double split_step_s = 0;
  std::vector<Count> counts;
  std::string no_counts;  // why counts are not exact: one line. Empty: they are
  std::vector<Amount> amounts;
  std::optional<double> memory_peak_bytes;  // of the process that makes the steps
  std::optional<double> wall_s;
  std::vector<std::string> files;
};

// `path`: a summary.json, a profile, a run's directory or a log directory (its newest run). Of several ranks the
// slowest.
absl::StatusOr<RunNumbers> ReadRunNumbers(const std::string& path, std::optional<int64_t> rank);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_GATE_RUN_NUMBERS_H_
