// SPDX-License-Identifier: Apache-2.0
//
// Reads the numbers of one run that a comparison needs from its summary.json.
//
//   absl::StatusOr<RunNumbers> run = ReadRunNumbers(path, rank);
//
// Process: launcher, for `tbprof compare`, `ab`, `baseline` and `run --baseline`. Files are untrusted: all texts in the
// result are printable UTF-8 and all numbers are finite.
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

// The kind of an amount per step.
enum class AmountKind {
  kPart,            // part of the split of the step time: s per step
  kOperation,       // operation of a framework, without operations inside it: s per step
  kKernel,          // s per step
  kWait,            // call that waits, by its call site: s per step
  kPythonLine,      // line of Python in the thread of the steps: s per step
  kOwnLine,         // line of the program's own in that thread, with what it calls outside: s per step
  kOtherLine,       // line of Python in another thread or process, such as a loader: s per step
  kFunction,        // native function in the thread of the steps: s of CPU time per step
  kOwnFunction,     // function of a program without Python, with what it calls, in all threads: likewise
  kAllocationSite,  // bytes per step, estimated from samples
};
inline constexpr AmountKind kAmountKinds[] = {
    AmountKind::kPart,     AmountKind::kOperation,     AmountKind::kKernel,    AmountKind::kWait,
    AmountKind::kOwnLine,  AmountKind::kPythonLine,    AmountKind::kOtherLine, AmountKind::kOwnFunction,
    AmountKind::kFunction, AmountKind::kAllocationSite};
std::string_view AmountKindName(AmountKind kind);
bool IsSampled(AmountKind kind);  // estimated from samples

struct Amount {
  AmountKind kind = AmountKind::kPart;
  std::string name;
  double per_step = 0;
  double samples = 0;  // from which it is estimated; kWait, kKernel: calls; 0: not known
};

// kSteps: the count covers the regular steps only; kRun: the whole run, divided by its number of steps.
enum class CountBasis { kSteps, kRun };

struct Count {
  std::string name;  // `kernels`, `allocations`, ...; --fail-on uses the name with `_per_step`
  double per_step = 0;
  CountBasis basis = CountBasis::kSteps;
};

// Facts that must be equal for two runs to be comparable; a difference is reported.
struct RunIdentity {
  std::string command, window, cpu_model, python, tbprof_version, steps_source;  // empty: unknown
  std::string host;
  int64_t cpus = 0;                  // 0: unknown
  std::vector<std::string> devices;  // names of GPUs, sorted
  std::optional<int64_t> world_size;
  // The process whose steps these are: the same in all windows of a session. `host` may differ, since it is the name of
  // a file. 0: unknown.
  int64_t pid = 0, started_ticks = 0;
};

// What of a session a run's profile shows: all that the session could record, a capture, another time of a chosen
// length, or what was chosen in another way (`steps=100:120`).
enum class WindowKind : uint8_t { kWhole, kCapture, kTime, kOther };
WindowKind KindOfWindow(const RunIdentity& identity);
// True: the length of the window was chosen, not what the program did in it: windows of the same length have fewer
// steps where the program is slower.
bool IsWindow(const RunIdentity& identity);
// True: both are windows of the same process.
bool AreOfOneProcess(const RunIdentity& a, const RunIdentity& b);

struct RunNumbers {
  std::string path;    // as given by the user
  std::string logdir;  // in which it was found by its name; empty: `path` is that of a file or directory
  RunIdentity identity;
  int64_t start_unix_ns = 0;
  bool running = false;      // the command had not ended
  bool failed = false;       // it ended by a signal, or with another exit status than 0
  bool damaged = false;      // the file cannot be read: `unfit` has the fault
  bool of_baseline = false;  // read from a baseline, which may have runs of other machines and options
  // Why the times (`no_times`) or the whole run (`unfit`) cannot be compared: one line; empty: comparable.
  std::string no_times, unfit;
  std::vector<double> steps_s;  // of the regular steps, in order; empty if the summary has no list (over 2000 steps)
  // The typical step of blocks of consecutive steps, in order; only if `steps_s` is empty.
  std::vector<double> block_medians_s;
  std::vector<double> block_means_s;          // of the same blocks
  uint64_t steps = 0;                         // number of regular steps
  uint64_t irregular_steps = 0;               // further steps; a busy machine has more of them
  double median_step_s = 0, mean_step_s = 0;  // of all regular steps
  // The sum of all kPart amounts: `mean_step_s`, or more if the time between steps is split as well. 0: no split.
  double split_step_s = 0;
  double python_samples = 0;  // of the thread of the steps, in the steps; without steps, in the window
  double native_samples = 0;  // likewise; only of windows
  // Of a window: parts, lines and functions of the thread of the steps, with their share of the window's time, from 0
  // to 1, in `per_step`; functions have their share of that thread's CPU time.
  std::vector<Amount> shares;
  std::vector<Count> counts;
  std::string no_counts;  // why counts are not exact: one line; empty: exact
  std::vector<Amount> amounts;
  double own_function_unlisted = 0;  // a list of functions was full: one that it lacks has at most this; 0: none was
  std::optional<double> memory_peak_bytes;  // of the process that makes the steps
  std::optional<double> wall_s;
  std::optional<double> cpus_used;     // CPU time of the command and its descendants, by its wall time
  std::optional<double> cpu_s;         // that CPU time
  std::optional<double> cpus_allowed;  // that it may use: affinity, quota
  std::optional<double> cpu_wait_s;    // time in which its threads could run and had no CPU, the sum over them
  // The rank for which this one waits, and where that one is: `rank 1, mostly at train.py:10 tokenize`.
  std::optional<int64_t> waits_for_rank;
  std::string waits_for;
  std::vector<std::string> files;

  // True: no steps are known, and the numbers are those of the whole run.
  bool IsWholeRun() const {
    return steps == 0 && irregular_steps == 0 && wall_s.value_or(0) > 0 && KindOfWindow(identity) == WindowKind::kWhole;
  }
  // The number of steps by which totals of the whole run are divided.
  double AllSteps() const { return static_cast<double>(steps + irregular_steps); }
};

// True: both are the same run, perhaps read from another path. Jobs of a CI system use the same path for each of their
// runs, so that the path does not show it. `b` may come from a baseline, which rounds.
bool IsSameRun(const RunNumbers& a, const RunNumbers& b);

// True: the run lists as many amounts of this kind as a summary can: one that it does not list may be as large as the
// least of them. A summary lists 20 lines of a thread, and 200 rows of other kinds.
bool IsListFull(const RunNumbers& run, AmountKind kind);
// The least of them, which an amount may have that the run does not list. 0: the list is not full.
double LeastListed(const RunNumbers& run, AmountKind kind);

// `path`: a summary.json, a profile, a run's directory, a log directory (its newest run), or the name of a run in
// `logdir`, if that is not empty. Without `rank`: the numbers of the slowest rank.
absl::StatusOr<RunNumbers> ReadRunNumbers(const std::string& path, std::optional<int64_t> rank,
                                          const std::string& logdir = "");

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_GATE_RUN_NUMBERS_H_
