// SPDX-License-Identifier: Apache-2.0
//
// Reads the tables of a summary.json: Python lines, native functions, waits, GPUs, memory.
#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "launcher/base/text.h"
#include "launcher/report/report_answers.h"

namespace tbprof {
namespace {

// Fewer samples are not representative of the steps.
constexpr uint64_t kLeastSamplesInSteps = 10;
// Threads other than main threads that run for a smaller share of their time count as idle.
constexpr double kLeastBusy = 0.05;
constexpr size_t kMostOfThreads = 50;
// Functions that contain (nearly) everything, or little, are no answer.
constexpr double kEverything = 0.99, kLeastOfCaller = 0.05;
constexpr size_t kMostCallers = 4;

double ShareOf(double part, double whole) { return whole > 0 ? part / whole : 0; }

// Threads of these libraries wait for work between two calls: such waits give no information about the program.
struct Pool {
  std::string_view part, name;
};
constexpr Pool kPools[] = {{"openblas", "OpenBLAS"}, {"blas_thread_server", "OpenBLAS"},
                           {"libgomp", "OpenMP"},    {"libomp", "OpenMP"},
                           {"libiomp", "OpenMP"},    {"libmkl", "MKL"},
                           {"libtbb", "TBB"},        {"libcuda.so", "CUDA"},
                           {"libcudart", "CUDA"},    {"libnccl", "NCCL"}};

std::string_view PoolOf(const WaitRow& row) {
  if (!row.python.empty()) return "";
  const std::string site = LowerCase(row.call_site);
  for (const Pool& pool : kPools) {
    if (site.find(pool.part) != std::string::npos) return pool.name;
  }
  return "";
}

template <typename Row>
ThreadRows<Row> ReadThreads(const Fields& group) {
  ThreadRows<Row> threads;
  threads.process = group.Text("process");
  threads.threads = group.Text("threads");
  threads.main = group.Flag("main").value_or(false);
  threads.forked = group.Flag("forked").value_or(false);
  threads.thread_count = group.Count("thread_count").value_or(0);
  return threads;
}

// The name of the process that makes the steps; empty: not known.
std::string NameOfSteps(const Fields& root) {
  const std::optional<int64_t> pid = StepsPid(root);
  for (const Fields& process : root.Objects("processes")) {
    if (pid.has_value() && process.Integer("pid") == pid) return process.Text("name");
  }
  return "";
}

struct GroupPart {
  RowsOf window = RowsOf::kProfile;
  Fields fields;
};

// The phase of a group in the regular steps if it has enough samples, else the whole group. Of a main thread that is
// in irregular steps (evaluations, rollouts) for a quarter of the time in both, these, too.
std::vector<GroupPart> ShownParts(const Fields& group, bool main) {
  std::vector<GroupPart> parts;
  uint64_t in_steps = 0;
  for (const Fields& phase : group.Objects("phases")) {
    const std::string name = phase.Text("phase");
    const uint64_t samples = phase.Count("samples").value_or(0);
    if (samples < kLeastSamplesInSteps) continue;
    if (name == "steps") {
      in_steps = samples;
      parts.push_back({RowsOf::kSteps, phase});
    } else if (name == "irregular_steps" && main && in_steps > 0 && samples * 3 >= in_steps) {
      parts.push_back({RowsOf::kIrregularSteps, phase});
    }
  }
  if (in_steps == 0) return {{RowsOf::kProfile, group}};
  return parts;
}

PythonThreads PythonOf(const GroupPart& part, PythonThreads threads) {
  threads.window = part.window;
  threads.samples = part.fields.Count("samples").value_or(0);
  threads.seconds = part.fields.Seconds("wall_s");
  threads.on_cpu_s = part.fields.Seconds("on_cpu_s");
  for (const Fields& line : part.fields.Objects("top_lines")) {
    if (threads.rows.size() == kMostOfThreads) break;
    const double self = line.Seconds("self_s");
    threads.rows.push_back({line.Text("file"), line.Text("function"), line.Integer("line"),
                            line.Count("self_samples").value_or(0), self, line.Seconds("self_on_cpu_s"),
                            line.Seconds("total_s"), ShareOf(self, threads.seconds)});
  }
  return threads;
}

}  // namespace

std::optional<int64_t> StepsPid(const Fields& root) {
  for (const Fields& place : root.Object("verdict").Objects("where")) {
    if (place.Text("role") == "spends") return place.Integer("pid");
  }
  return std::nullopt;
}

std::vector<PythonThreads> ReadPython(const Fields& root) {
  std::vector<PythonThreads> out;
  // A thread that the verdict names is shown, even if it rarely runs.
  std::vector<std::string> named;
  for (const Fields& place : root.Object("verdict").Objects("where")) named.push_back(place.Text("thread"));
  for (const Fields& group : root.Object("python").Objects("groups")) {
    PythonThreads threads = ReadThreads<PythonRow>(group);
    const double wall = group.Seconds("wall_s"), on_cpu = group.Seconds("on_cpu_s");
    const bool waited_for = std::ranges::find(named, group.Text("threads")) != named.end();
    threads.idle = !threads.main && !waited_for && ShareOf(on_cpu, wall) < kLeastBusy;
    for (const GroupPart& part : ShownParts(group, threads.main)) out.push_back(PythonOf(part, threads));
  }
  // First the main thread of the process with the steps, or else of the command: not a fork child, and with the most
  // samples.
  const std::string of_steps = NameOfSteps(root);
  std::ranges::stable_sort(out, std::greater<>(), [&](const PythonThreads& threads) {
    return std::tuple(threads.main, threads.process == of_steps, !threads.forked, !threads.idle, threads.samples);
  });
  return out;
}

std::vector<NativeThreads> ReadNative(const Fields& root) {
  std::vector<NativeThreads> out;
  for (const Fields& group : root.Object("native").Objects("groups")) {
    NativeThreads threads = ReadThreads<NativeRow>(group);
    // What runs in irregular steps is in the table of Python's lines.
    const GroupPart shown = ShownParts(group, /*main=*/false).front();
    const Fields& part = shown.fields;
    threads.window = shown.window;
    threads.samples = part.Count("samples").value_or(0);
    threads.seconds = threads.on_cpu_s = part.Seconds("cpu_s");
    for (const Fields& row : part.Objects("top_self")) {
      if (threads.rows.size() == kMostOfThreads) break;
      const double self = row.Seconds("self_cpu_s");
      threads.rows.push_back({row.Text("function"), row.Text("module"), row.Count("self_samples").value_or(0), self,
                              row.Seconds("total_cpu_s"), ShareOf(self, threads.seconds)});
    }
    for (const Fields& row : part.Objects("top_total")) {
      const double total = row.Seconds("total_cpu_s"), self = row.Seconds("self_cpu_s");
      const double share = ShareOf(total, threads.seconds);
      if (share >= kEverything || share < kLeastOfCaller || self >= total) continue;
      // All functions without a name of a file: `[libcrypto.so.3]`.
      if (row.Text("function").starts_with('[')) continue;
      threads.callers.push_back(
          {row.Text("function"), row.Text("module"), row.Count("total_samples").value_or(0), self, total, share});
      if (threads.callers.size() == kMostCallers) break;
    }
    out.push_back(std::move(threads));
  }
  const std::string of_steps = NameOfSteps(root);
  std::ranges::stable_sort(out, std::greater<>(), [&](const NativeThreads& threads) {
    return std::tuple(threads.main, threads.process == of_steps, !threads.forked, threads.seconds);
  });
  return out;
}

std::vector<WaitRow> ReadWaits(const Fields& root) {
  std::vector<WaitRow> out;
  for (const Fields& site : root.Objects("wait_sites")) {
    WaitRow row = {site.Text("operation"),          site.Text("call_site"),  site.Text("python"),      "",
                   site.Count("calls").value_or(0), site.Seconds("total_s"), site.Seconds("longest_s")};
    row.idle_pool = PoolOf(row);
    out.push_back(std::move(row));
  }
  return out;
}

std::vector<GilAnswer> ReadGil(const Fields& root) {
  std::vector<GilAnswer> out;
  for (const Fields& fields : root.Object("python").Objects("gil")) {
    GilAnswer gil;
    gil.process = fields.Text("process");
    gil.pid = fields.Integer("pid").value_or(0);
    gil.samples = fields.Count("samples").value_or(0);
    gil.thread_count = fields.Count("thread_count").value_or(0);
    gil.held_s = fields.Seconds("held_s");
    const auto samples = static_cast<double>(gil.samples);
    // Of the program's own lines, if it has any: what a library does for a line belongs to it.
    std::vector<Fields> lines = fields.Objects("top_own_lines");
    if (lines.empty()) lines = fields.Objects("top_lines");
    for (const Fields& thread : fields.Objects("top_threads")) {
      const double of_thread = static_cast<double>(thread.Count("samples").value_or(0));
      gil.by_one_thread = std::max(gil.by_one_thread, ShareOf(of_thread, samples));
    }
    for (const Fields& line : lines) {
      const double held_s = line.Seconds("held_s");
      gil.rows.push_back({line.Text("file"), line.Text("function"), line.Integer("line"),
                          line.Count("samples").value_or(0), held_s, 0, 0, ShareOf(held_s, gil.held_s)});
    }
    out.push_back(std::move(gil));
  }
  return out;
}

std::vector<GpuAnswer> ReadGpus(const Fields& root) {
  std::vector<GpuAnswer> out;
  for (const Fields& fields : root.Objects("gpus")) {
    GpuAnswer gpu;
    gpu.number = fields.Integer("number").value_or(0);
    gpu.name = fields.Text("name");
    gpu.busy_s = fields.Seconds("busy_s");
    gpu.busy_share = fields.Number("busy_share").value_or(0);
    gpu.busy_share_in_steps = fields.Number("busy_share_in_steps");
    gpu.kernels = fields.Count("kernels").value_or(0);
    gpu.kernel_s = fields.Seconds("kernel_s");
    gpu.collective_s = fields.Seconds("collective_s");
    gpu.peak_bytes = fields.Count("peak_bytes").value_or(0);
    for (const Fields& kernel : fields.Objects("top_kernels")) {
      if (gpu.top_kernels.size() == kMostOfThreads) break;
      gpu.top_kernels.push_back(
          {kernel.Text("name"), kernel.Count("calls").value_or(0), kernel.Seconds("total_s"), std::nullopt});
    }
    for (const Fields& copy : fields.Objects("copies")) {
      gpu.copies.push_back(
          {copy.Text("name"), copy.Count("calls").value_or(0), copy.Seconds("total_s"), copy.Count("bytes")});
    }
    out.push_back(std::move(gpu));
  }
  return out;
}

MemoryAnswer ReadMemory(const Fields& root) {
  MemoryAnswer memory;
  memory.text = root.Object("memory").Texts("text");
  for (auto& [name, bytes] : root.Object("memory").NumbersEnding("_bytes")) memory.totals.push_back({name, bytes});
  for (const Fields& process : root.Objects("processes")) {
    const Fields allocator = process.Object("allocator");
    if (!allocator.present()) continue;
    memory.processes.push_back({process.Text("name"), process.Integer("pid").value_or(0),
                                allocator.Count("allocations").value_or(0),
                                allocator.Number("allocated_bytes").value_or(0), allocator.Number("live_bytes"),
                                allocator.Number("peak_bytes")});
  }
  const auto peak = [](const ProcessMemory& of) { return of.peak_bytes.value_or(of.live_bytes.value_or(0)); };
  std::ranges::stable_sort(memory.processes, std::greater<>(), peak);
  // Sites with the same place but other frames in between are one row.
  std::map<std::string, AllocationRow> places;
  for (const Fields& site : root.Objects("allocation_sites")) {
    const std::vector<std::string> frames = site.Texts("frames");
    std::string place = site.Text("python");
    if (place.empty() && !frames.empty()) place = frames[0];
    AllocationRow& row = places[place];
    row.place = place;
    row.samples += site.Count("samples").value_or(0);
    row.bytes += site.Number("bytes_estimate").value_or(0);
  }
  for (auto& [key, row] : places) memory.allocations.push_back(std::move(row));
  std::ranges::stable_sort(memory.allocations, std::greater<>(), &AllocationRow::bytes);
  return memory;
}

}  // namespace tbprof
