// SPDX-License-Identifier: Apache-2.0
//
// Unwinding and symbols on a real Python process: stacks are taken with ptrace, as a sampled malloc would take them.
// BENCH_PYTHON names the interpreter, TBPROF_BENCH_SCRIPT the code it runs, TBPROF_BENCH_MODULE the file whose
// functions are looked up.
#include <benchmark/benchmark.h>
#include <elf.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "writer/symbols/elf_file.h"
#include "writer/symbols/symbolize.h"
#include "writer/symbols/unwind.h"

namespace tbprof {
namespace {

constexpr size_t kStackBytes = 8192;
constexpr int kLimit = 64;
constexpr char kScript[] =
    "import json\n"
    "def walk(n):\n"
    "  return json.loads(json.dumps([{'a': [1, 2.5, 'x' * 40]}] * 20)) if n == 0 else walk(n - 1)\n"
    "while True: sorted(map(walk, range(8)), key=len)\n";

std::string Option(const char* name, const char* fallback) {
  const char* value = getenv(name);
  return value != nullptr ? value : fallback;
}

ModuleMap ReadModules(pid_t pid) {
  struct Range {
    uint64_t start = UINT64_MAX, end = 0, bias = 0;
  };
  std::map<std::string, Range> ranges;
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  for (std::string line; std::getline(maps, line);) {
    unsigned long start, end, offset;
    int path = 0;
    if (sscanf(line.c_str(), "%lx-%lx %*s %lx %*s %*s %n", &start, &end, &offset, &path) < 3) continue;
    if (path == 0 || line[static_cast<size_t>(path)] != '/') continue;
    Range& range = ranges[line.substr(static_cast<size_t>(path))];
    range.start = std::min<uint64_t>(range.start, start);
    range.end = std::max<uint64_t>(range.end, end);
  }
  ModuleMap modules;
  for (const auto& [path, range] : ranges) {
    std::unique_ptr<ElfFile> file = ElfFile::Open(path);
    if (file == nullptr || file->segments().empty()) continue;
    Module module;
    module.start = range.start;
    module.end = range.end;
    module.load_bias = range.start - (file->segments()[0].address & ~uint64_t{4095});
    module.path = path;
    module.build_id = file->build_id();
    modules.Add(module);
  }
  return modules;
}

struct Samples {
  ModuleMap modules;
  std::vector<std::vector<uint8_t>> stacks;
  std::vector<StackSnapshot> snapshots;
};

bool TakeSample(pid_t pid, Samples* samples) {
#if defined(__x86_64__)
  user_regs_struct registers;
  if (ptrace(PTRACE_INTERRUPT, pid, nullptr, nullptr) != 0) return false;
  int status;
  if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status)) return false;
  if (ptrace(PTRACE_GETREGS, pid, nullptr, &registers) != 0) return false;
  StackSnapshot snapshot;
  const uint64_t values[] = {registers.rbx, registers.rbp, registers.r12, registers.r13,
                             registers.r14, registers.r15, registers.rsp, registers.rip};
  memcpy(snapshot.registers, values, sizeof(values));
  snapshot.register_count = 8;
  std::vector<uint8_t> stack(kStackBytes);
  iovec local = {stack.data(), stack.size()};
  iovec remote = {reinterpret_cast<void*>(registers.rsp), stack.size()};
  const ssize_t got = process_vm_readv(pid, &local, 1, &remote, 1, 0);
  ptrace(PTRACE_CONT, pid, nullptr, nullptr);
  if (got <= 0) return true;
  snapshot.stack_address = registers.rsp;
  snapshot.stack_size = static_cast<size_t>(got);
  samples->stacks.push_back(std::move(stack));
  samples->snapshots.push_back(snapshot);
  return true;
#else
  return false;
#endif
}

const Samples& PythonSamples() {
  static Samples samples = [] {
    Samples taken;
    const std::string python = Option("BENCH_PYTHON", "/usr/bin/python3");
    const std::string script = Option("TBPROF_BENCH_SCRIPT", kScript);
    const pid_t pid = fork();
    if (pid == 0) {
      execl(python.c_str(), python.c_str(), "-c", script.c_str(), nullptr);
      _exit(127);
    }
    usleep(1000 * static_cast<useconds_t>(atoi(Option("TBPROF_BENCH_WARMUP_MS", "1000").c_str())));
    if (ptrace(PTRACE_SEIZE, pid, nullptr, nullptr) == 0) {
      for (int i = 0; i < 2000 && TakeSample(pid, &taken); ++i) usleep(500);
      taken.modules = ReadModules(pid);
    }
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    for (size_t i = 0; i < taken.snapshots.size(); ++i) {
      taken.snapshots[i].stack = taken.stacks[i].data();
    }
    return taken;
  }();
  return samples;
}

long PeakKilobytes() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

void BM_UnwindPython(benchmark::State& state) {
  const Samples& samples = PythonSamples();
  if (samples.snapshots.empty()) return state.SkipWithError("no samples (ptrace or python missing)");
  Unwinder unwinder;
  size_t frames = 0, at = 0;
  for (const StackSnapshot& snapshot : samples.snapshots) {
    unwinder.Unwind(samples.modules, snapshot, kLimit);
  }
  for (auto _ : state) {
    const StackSnapshot& snapshot = samples.snapshots[at++ % samples.snapshots.size()];
    frames += unwinder.Unwind(samples.modules, snapshot, kLimit).size();
  }
  state.SetItemsProcessed(state.iterations());
  state.counters["frames"] = benchmark::Counter(static_cast<double>(frames), benchmark::Counter::kAvgIterations);
  state.counters["modules"] = static_cast<double>(samples.modules.modules().size());
}
BENCHMARK(BM_UnwindPython);

// All samples once, nothing known before.
void BM_UnwindPythonCold(benchmark::State& state) {
  const Samples& samples = PythonSamples();
  if (samples.snapshots.empty()) return state.SkipWithError("no samples (ptrace or python missing)");
  std::set<uint64_t> distinct;
  for (auto _ : state) {
    Unwinder unwinder;
    for (const StackSnapshot& snapshot : samples.snapshots) {
      const auto pcs = unwinder.Unwind(samples.modules, snapshot, kLimit);
      state.PauseTiming();
      distinct.insert(pcs.begin(), pcs.end());
      state.ResumeTiming();
    }
  }
  state.counters["snapshots"] = static_cast<double>(samples.snapshots.size());
  state.counters["distinct_pcs"] = static_cast<double>(distinct.size());
}
BENCHMARK(BM_UnwindPythonCold)->Unit(benchmark::kMillisecond)->Iterations(3);

// 100000 addresses spread over the code of one file, by a new symbolizer.
void BM_SymbolizeDistinct(benchmark::State& state) {
  const std::string path = Option("TBPROF_BENCH_MODULE", "/usr/lib/x86_64-linux-gnu/libc.so.6");
  std::unique_ptr<ElfFile> file = ElfFile::Open(path);
  if (file == nullptr) return state.SkipWithError("no such file");
  uint64_t low = 0, high = 0;
  for (const ElfFile::Segment& segment : file->segments()) {
    if (!segment.executable) continue;
    low = segment.address;
    high = segment.address + segment.file_size;
  }
  Module module;
  module.start = 0x7f0000000000;
  module.end = module.start + high;
  module.load_bias = module.start;
  module.path = path;
  ModuleMap modules;
  modules.Add(module);
  constexpr uint64_t kAddresses = 100000;
  const long before = PeakKilobytes();
  uint64_t named = 0, lines = 0;
  for (auto _ : state) {
    Symbolizer symbolizer;
    for (uint64_t i = 0; i < kAddresses; ++i) {
      const Symbol symbol = symbolizer.Find(modules, module.start + low + (high - low) * i / kAddresses, false);
      named += symbol.function.empty() ? 0 : 1;
      lines += symbol.line > 0 ? 1 : 0;
    }
  }
  state.counters["named"] = static_cast<double>(named);
  state.counters["lines"] = static_cast<double>(lines);
  state.counters["peak_MB"] = static_cast<double>(PeakKilobytes() - before) / 1024;
}
BENCHMARK(BM_SymbolizeDistinct)->Unit(benchmark::kMillisecond)->Iterations(1);

void BM_SymbolizeCached(benchmark::State& state) {
  const Samples& samples = PythonSamples();
  if (samples.snapshots.empty()) return state.SkipWithError("no samples (ptrace or python missing)");
  Unwinder unwinder;
  Symbolizer symbolizer;
  std::vector<uint64_t> addresses;
  for (const StackSnapshot& snapshot : samples.snapshots) {
    const auto pcs = unwinder.Unwind(samples.modules, snapshot, kLimit);
    addresses.insert(addresses.end(), pcs.begin(), pcs.end());
  }
  for (uint64_t address : addresses) symbolizer.Find(samples.modules, address, true);
  size_t at = 0;
  for (auto _ : state) {
    const uint64_t address = addresses[at++ % addresses.size()];
    benchmark::DoNotOptimize(symbolizer.Find(samples.modules, address, true));
  }
}
BENCHMARK(BM_SymbolizeCached);

}  // namespace
}  // namespace tbprof

BENCHMARK_MAIN();
