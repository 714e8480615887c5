// SPDX-License-Identifier: Apache-2.0
//
// The answers of a profile for `tbprof report`: read from a summary.json (report_answers.cc) or, without one, from the
// profile (xspace_totals.cc); printed in four formats (report_output.h). Profiles are untrusted, so all texts here are
// printable UTF-8.
//
// Process: launcher, for `tbprof report`. Data only.
#ifndef TBPROF_LAUNCHER_REPORT_REPORT_H_
#define TBPROF_LAUNCHER_REPORT_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tbprof {

// The source of the answers.
enum class SourceKind { kSummary, kProfile, kRun, kLogdir, kSpool };
std::string_view SourceKindName(SourceKind kind);

struct VerdictPlace {
  std::string role;  // `spends` or `waited_for`, as in summary.json
  std::string file;  // empty: not Python
  std::optional<int64_t> line;
  std::string function;
  std::string doing;  // empty: running
  std::optional<double> share;
  std::optional<int64_t> pid;
  std::string thread;                // empty: unknown
  std::vector<std::string> callers;  // `train.py:12`
};

struct VerdictPart {
  std::string name, title;
  double share = 0;
  std::optional<double> seconds;
};

struct VerdictAnswer {
  bool known = false;          // the summary, or a warning of the profile, has a verdict; its cause may be unknown
  bool is_waited_for = false;  // `blocker` is what the steps wait for
  bool is_text_alone = false;  // `text` names the cause, which `cause` does not have: the summary is missing
  std::string text, cause, next, blocker, unknown_because, basis;
  std::optional<bool> problem;
  std::optional<double> share;
  std::vector<VerdictPlace> where;
  std::vector<VerdictPart> parts;  // largest first
  std::vector<std::string> facts, limits;
  std::vector<std::string> hangs;  // where each thread waits, if nothing ran
};

// A lasting change of the length of the steps.
struct ChangeAnswer {
  std::string text, kind, part, file, function, line_part;  // empty: not known; `text`: there is none
  bool slower = false;
  double at_s = 0, before_s = 0, after_s = 0;
  std::optional<double> until_s, part_s, line_s, line_part_s;
  int64_t step = 0;
  uint64_t steps_before = 0, steps_after = 0;
  std::optional<int64_t> line;
};

struct StepsAnswer {
  bool known = false;
  std::string unknown_because, source;
  std::optional<uint64_t> count, irregular;
  std::optional<double> irregular_s, median_s, mean_s, shortest_s, longest_s, confidence, input_wait_share;
  std::optional<double> searched_from_s, searched_to_s;  // the part in which steps were searched; neither: in all
  ChangeAnswer change;
};

struct PythonRow {
  std::string file, function;
  std::optional<int64_t> line;
  uint64_t samples = 0;
  double self_s = 0, on_cpu_s = 0, total_s = 0;
  double share = 0;  // of the group's time in this window
};

struct NativeRow {
  std::string function, module;
  uint64_t samples = 0;
  double self_s = 0, total_s = 0;
  double share = 0;
};

enum class RowsOf : uint8_t { kProfile, kSteps, kIrregularSteps };

// Threads with the same work, in one window of time.
template <typename Row>
struct ThreadRows {
  std::string process, threads;
  bool main = false, forked = false;
  RowsOf window = RowsOf::kProfile;
  bool idle = false;  // the threads only wait
  uint64_t thread_count = 0, samples = 0;
  double seconds = 0;  // Python: wall time of the samples; native: CPU time
  double on_cpu_s = 0;
  std::vector<Row> rows;
  std::vector<Row> callers;  // native: functions with what they call, largest first; empty: not known for this window
};
using PythonThreads = ThreadRows<PythonRow>;
using NativeThreads = ThreadRows<NativeRow>;

struct WaitRow {
  std::string operation, call_site, python;
  std::string idle_pool;  // not empty: idle threads of this library wait for work
  uint64_t calls = 0;
  double total_s = 0, longest_s = 0;
};

// A process with several threads that run Python.
struct GilAnswer {
  std::string process;
  int64_t pid = 0;
  uint64_t samples = 0;  // in which a thread held the GIL
  uint64_t thread_count = 0;
  double held_s = 0;            // the time that they stand for
  double by_one_thread = 0;     // share of the samples: of the thread with most
  std::vector<PythonRow> rows;  // on_cpu_s and total_s are not known
  // Without a second thread that wants it, the GIL holds nobody up. A few samples are chance.
  bool is_shared() const { return by_one_thread <= 0.95 && samples >= 20; }
};

struct KernelRow {
  std::string name;
  uint64_t calls = 0;
  double total_s = 0;
  std::optional<uint64_t> bytes;  // only for copies
};

struct GpuAnswer {
  int64_t number = 0;
  std::string name;
  double busy_s = 0, busy_share = 0, kernel_s = 0, collective_s = 0;
  std::optional<double> busy_share_in_steps;
  uint64_t kernels = 0, peak_bytes = 0;
  std::vector<KernelRow> top_kernels, copies;
};

struct AllocationRow {
  std::string place;
  uint64_t samples = 0;
  double bytes = 0;  // estimated from samples
};

struct ProcessMemory {
  std::string process;
  int64_t pid = 0;
  uint64_t allocations = 0;
  double allocated_bytes = 0;
  std::optional<double> live_bytes, peak_bytes;
};

struct NamedBytes {
  std::string name;
  double bytes = 0;
};

struct MemoryAnswer {
  std::vector<std::string> text;   // what the heap holds and whether memory grows, as sentences
  std::vector<NamedBytes> totals;  // of the summary's object `memory`
  std::vector<ProcessMemory> processes;
  std::vector<AllocationRow> allocations;
};

struct RankAnswer {
  std::optional<int64_t> rank;
  std::string host, state, verdict, end;
  std::string summary;  // path of the summary with the rank's details; empty: none
  std::optional<uint64_t> steps;
  std::optional<double> median_s, wait_s;
  std::optional<double> searched_s;  // length of the part in which steps were searched; not set: all
};

// For a profile without a summary: totals from the profile's own structure.
struct PlaneAnswer {
  std::string name;
  uint64_t lines = 0, events = 0;
  std::vector<KernelRow> top;  // the event names with the most time; times include nested events
};

struct ProfileAnswer {
  std::vector<PlaneAnswer> planes;
  uint64_t plane_count = 0, lines = 0, events = 0;
};

struct Report {
  SourceKind kind = SourceKind::kSummary;
  std::string path;  // as given or found
  std::string file;  // the file with the details
  std::string run, host, window, command, end, tbprof_version;
  std::optional<bool> complete;
  std::optional<double> wall_s, totals_wall_s;
  std::optional<int64_t> rank;
  std::string process;               // the command's process; `all N processes` if there are several
  std::vector<std::string> missing;  // one line per answer that this report lacks, with the reason

  VerdictAnswer verdict;
  StepsAnswer steps;
  std::vector<PythonThreads> python;
  std::vector<NativeThreads> native;
  std::vector<WaitRow> waits;
  std::vector<GilAnswer> gil;
  std::vector<GpuAnswer> gpus;
  MemoryAnswer memory;
  std::vector<RankAnswer> ranks;
  std::vector<std::string> errors, warnings, notes, not_recorded;
  std::optional<ProfileAnswer> profile;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_REPORT_REPORT_H_
