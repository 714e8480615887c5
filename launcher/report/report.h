// SPDX-License-Identifier: Apache-2.0
//
// The answers of a profile, as `tbprof report` has them: read from a summary.json (report_answers.cc) or, where there
// is none, from the profile alone (xspace_totals.cc); printed in four forms (report_output.h). All texts are printable
// UTF-8 already: a profile may be anybody's.
//
// Process: launcher, for `tbprof report`. Data alone.
#ifndef TBPROF_LAUNCHER_REPORT_REPORT_H_
#define TBPROF_LAUNCHER_REPORT_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tbprof {

// What the answers were read from.
enum class SourceKind { kSummary, kProfile, kRun, kLogdir, kSpool };
std::string_view SourceKindName(SourceKind kind);

struct VerdictPlace {
  std::string role;  // `spends` or `waited_for`, as in summary.json
  std::string file;  // empty: not Python
  std::optional<int64_t> line;
  std::string function;
  std::string doing;  // empty: it runs
  std::optional<double> share;
  std::optional<int64_t> pid;
  std::string thread;                // empty: not known
  std::vector<std::string> callers;  // `train.py:12`
};

struct VerdictPart {
  std::string name, title;
  double share = 0;
  std::optional<double> seconds;
};

struct VerdictAnswer {
  bool known = false;  // the summary has a verdict; it may be that the cause is not known
  std::string text, cause, next, blocker, unknown_because, basis;
  std::optional<bool> problem;
  std::optional<double> share;
  std::vector<VerdictPlace> where;
  std::vector<VerdictPart> parts;  // largest first
  std::vector<std::string> facts, limits;
};

struct StepsAnswer {
  bool known = false;
  std::string unknown_because, source;
  std::optional<uint64_t> count, irregular;
  std::optional<double> median_s, shortest_s, longest_s, confidence, input_wait_share;
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

// Threads that do the same, in one window of time.
template <typename Row>
struct ThreadRows {
  std::string process, threads;
  bool main = false, forked = false;
  bool in_steps = false;  // the window: the regular steps, else all of the profile
  bool idle = false;      // they only wait
  uint64_t thread_count = 0, samples = 0;
  double seconds = 0;  // Python: wall time of the samples; native: CPU time
  double on_cpu_s = 0;
  std::vector<Row> rows;
};
using PythonThreads = ThreadRows<PythonRow>;
using NativeThreads = ThreadRows<NativeRow>;

struct WaitRow {
  std::string operation, call_site, python;
  std::string idle_pool;  // not empty: threads of this library that wait for work
  uint64_t calls = 0;
  double total_s = 0, longest_s = 0;
};

struct KernelRow {
  std::string name;
  uint64_t calls = 0;
  double total_s = 0;
  std::optional<uint64_t> bytes;  // of copies
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
  double bytes = 0;  // an estimate from samples
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
  std::vector<NamedBytes> totals;  // of the summary's own object `memory`
  std::vector<ProcessMemory> processes;
  std::vector<AllocationRow> allocations;
};

struct RankAnswer {
  std::optional<int64_t> rank;
  std::string host, state, verdict, end;
  std::string summary;  // path of a summary with its details; empty: there is none
  std::optional<uint64_t> steps;
  std::optional<double> median_s, wait_s;
};

// Of a profile without a summary: what its own structure shows.
struct PlaneAnswer {
  std::string name;
  uint64_t lines = 0, events = 0;
  std::vector<KernelRow> top;  // event names by their time, nested ones included
};

struct ProfileAnswer {
  std::vector<PlaneAnswer> planes;
  uint64_t plane_count = 0, lines = 0, events = 0;
};

struct Report {
  SourceKind kind = SourceKind::kSummary;
  std::string path;  // as it was given or found
  std::string file;  // that the details are from
  std::string run, host, window, command, end, tbprof_version;
  std::optional<bool> complete;
  std::optional<double> wall_s, totals_wall_s;
  std::optional<int64_t> rank;
  std::string process;               // the command's; `all N processes` where there are several
  std::vector<std::string> missing;  // what this report cannot have, and why: a line each

  VerdictAnswer verdict;
  StepsAnswer steps;
  std::vector<PythonThreads> python;
  std::vector<NativeThreads> native;
  std::vector<WaitRow> waits;
  std::vector<GpuAnswer> gpus;
  MemoryAnswer memory;
  std::vector<RankAnswer> ranks;
  std::vector<std::string> errors, warnings, notes, not_recorded;
  std::optional<ProfileAnswer> profile;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_REPORT_REPORT_H_
