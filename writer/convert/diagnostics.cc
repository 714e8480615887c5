// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/diagnostics.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <map>
#include <set>
#include <string_view>
#include <tuple>

#include "wire/rendezvous.h"
#include "writer/base/text.h"
#include "writer/base/utf8.h"
#include "writer/spool/exec_images.h"
#include "writer/spool/torch_sampling.h"

namespace tbprof {
namespace {

constexpr int64_t kHelloPatiencePs = 2'000'000'000'000;
constexpr size_t kMaxPids = 8;
constexpr size_t kMaxPrograms = 1000;
constexpr size_t kShownPrograms = 3;
constexpr size_t kShownPath = 32;
constexpr char kNotReached[] = "tbprof was not reached: another root, a system call filter, or too few descriptors";

std::string ErrorName(int error) {
  if (error == 0) return "";
  const char* name = strerrorname_np(error);
  return name != nullptr ? StrCat(": ", name) : StrCat(": error ", error);
}

std::string InertText(const InertFact& fact) {
  switch (static_cast<InertReason>(fact.reason)) {
    case InertReason::kFileLimit:
      return "ulimit -f leaves no room for records";
    case InertReason::kAddressLimit:
      return "ulimit -v leaves no room for records";
    case InertReason::kForkPage:
      return StrCat("no page that fork wipes", ErrorName(fact.error));
    case InertReason::kMemfd:
      return StrCat("memfd_create", ErrorName(fact.error),
                    fact.error == EPERM || fact.error == ENOSYS ? ", seccomp?" : "");
    case InertReason::kSize:
      return StrCat("memfd cannot be sized and sealed", ErrorName(fact.error));
    case InertReason::kMap:
      return StrCat("mmap", ErrorName(fact.error));
    case InertReason::kNotChosen:
      return "its rank is left out";
    case InertReason::kSanitizer:
      return "built with ThreadSanitizer: hooks would change its reports";
    case InertReason::kSend:
      return StrCat("could not send its segment", ErrorName(fact.error));
  }
  return StrCat("reason ", fact.reason, ErrorName(fact.error));
}

class Collector {
 public:
  void Add(ProcessState state, const std::string& path, const std::string& reason, int32_t pid) {
    const auto key = std::make_tuple(state, path, reason);
    auto found = index_.find(key);
    if (found == index_.end()) {
      if (programs_.size() == kMaxPrograms) return;
      found = index_.emplace(key, programs_.size()).first;
      programs_.push_back({state, path, reason, 0, {}});
    }
    UnrecordedProgram& program = programs_[found->second];
    ++program.count;
    if (pid > 0 && program.pids.size() < kMaxPids) program.pids.push_back(pid);
  }
  std::vector<UnrecordedProgram> Take() {
    std::stable_sort(programs_.begin(), programs_.end(),
                     [](const UnrecordedProgram& a, const UnrecordedProgram& b) { return a.count > b.count; });
    return std::move(programs_);
  }

 private:
  std::map<std::tuple<ProcessState, std::string, std::string>, size_t> index_;
  std::vector<UnrecordedProgram> programs_;
};

// Whether the list of the pid has a value of at least `from`.
bool HasFrom(const std::map<int32_t, std::vector<uint64_t>>& ticks, int32_t pid, uint64_t from) {
  const auto found = ticks.find(pid);
  return found != ticks.end() &&
         std::any_of(found->second.begin(), found->second.end(), [&](uint64_t at) { return at >= from; });
}

bool IsPython(const ProcessFacts& process) {
  const auto is_python = [](std::string_view path) {
    const std::string_view name = BaseName(path);
    return name.starts_with("libpython") || name.starts_with("python");
  };
  return is_python(process.executable) || std::any_of(process.modules.begin(), process.modules.end(),
                                                      [&](const Module& module) { return is_python(module.path); });
}

// Evaluates the self-test at attach: whether the program calls tbprof's functions.
class HookDiagnosis {
 public:
  HookDiagnosis(uint32_t families, const ExamineProgram& examine, Timeline* timeline)
      : families_(families), examine_(examine), timeline_(timeline) {}

  // `image`: the process whose exec made the image: `facts` or an ancestor.
  void Add(const ProcessFacts& image, const ProcessFacts& facts, Process* process) {
    if ((families_ & kFamilyMalloc) != 0) AddAllocator(image, process);
    AddMissed(image, process);
    if (!facts.stopped.empty()) {
      process->reason = StrCat("recorded until it made the CPU's clock counter fault (", facts.stopped, ")");
    }
    AddTorch(facts, *process);
    AddPython(facts, *process);
    if (process->state == ProcessState::kRecorded && !process->reason.empty() &&
        reported_.insert(StrCat(process->name, "\n", process->reason)).second) {
      timeline_->warnings.push_back(StrCat(process->name, ": ", process->reason));
    }
  }

 private:
  void AddAllocator(const ProcessFacts& image, Process* process) {
    const uint32_t flags = image.last.flags;
    // The library that comes before tbprof's, for the functions by which the self-test can detect the allocator.
    std::string other;
    for (const char* function : {"malloc", "memalign", "aligned_alloc", "valloc"}) {
      const auto interposer = image.interposers.find(function);
      if (interposer != image.interposers.end()) other = interposer->second;
    }
    bool hidden = false;
    if ((flags & kProcessAllocatorSeen) != 0 && examine_ != nullptr && !image.executable.empty()) {
      const auto [known, added] = own_allocator_.try_emplace(image.executable);
      if (added) known->second = examine_(image.executable).own_allocator;
      hidden = known->second;
    }
    // An allocator that comes before tbprof's library but passes its calls on is recorded all the same.
    const bool missed = (flags & kProcessAllocatorMissed) != 0 && process->allocator.allocations == 0;
    if (hidden || missed) {
      process->state = ProcessState::kRecordedWithoutAllocator;
      process->reason =
          (flags & kProcessSanitized) != 0 ? "allocations are not recorded: hooks would change the sanitizer's reports"
          : hidden || other.empty()        ? "allocator not observable: linked statically into the program"
                                    : StrCat("allocator not observable: ", other, " comes before tbprof's library");
    }
    if ((flags & kProcessSizesUnknown) != 0 && process->state == ProcessState::kRecorded) {
      process->reason = "its allocator reports no block sizes (malloc_usable_size): bytes count as 0, calls are right";
    }
  }

  void AddMissed(const ProcessFacts& image, Process* process) {
    static constexpr struct {
      uint32_t family;
      const char* function;
      const char* what;
    } kTested[] = {{kFamilyThread, "pthread_create", "threads"},
                   {kFamilyLock, "pthread_mutex_lock", "locks"},
                   {kFamilySleep, "nanosleep", "sleeps"},
                   {kFamilyIo, "read", "input and output"},
                   {kFamilyProcess, "execve", "processes"}};
    const uint32_t flags = image.last.flags;
    std::string missed_names, by;
    for (const auto& tested : kTested) {
      if ((flags >> kProcessMissedShift & families_ & tested.family) == 0) continue;
      StrAppend(&missed_names, missed_names.empty() ? "" : ", ", tested.what);
      const auto interposer = image.interposers.find(tested.function);
      if (by.empty() && interposer != image.interposers.end()) {
        by = interposer->second.empty() ? "the program itself" : interposer->second;
      }
    }
    if (!missed_names.empty() && process->state == ProcessState::kRecorded) {
      process->reason = StrCat(missed_names, ": ", by.empty() ? "another library" : by,
                               " comes before tbprof's library, and what it does not hand on is not recorded");
    }
  }

  void AddTorch(const ProcessFacts& facts, const Process& process) {
    if (!facts.torch.empty() && reported_.insert(facts.torch).second) {
      const std::string torch = ValidUtf8(std::string_view(facts.torch).substr(1));
      if (facts.torch[0] == '+') {
        timeline_->notes.push_back(StrCat(process.name, ": PyTorch ", torch, " is observed"));
      } else {
        timeline_->warnings.push_back(
            StrCat(process.name, ": PyTorch ", torch, ": its operations are not recorded, and steps are inferred"));
      }
    }
    if (!facts.torch_shapes.empty() && reported_.insert(StrCat("shapes ", facts.torch_shapes)).second) {
      timeline_->warnings.push_back(StrCat(
          process.name, ": the shapes of PyTorch's operations are not recorded: ", ValidUtf8(facts.torch_shapes)));
    }
  }

  void AddPython(const ProcessFacts& facts, const Process& process) {
    if (facts.python.empty() || facts.python[0] == '+' || !reported_.insert(StrCat("python ", facts.python)).second)
      return;
    timeline_->notes.push_back(StrCat(process.name, ": Python lines of waits and allocations are not recorded: Python ",
                                      ValidUtf8(std::string_view(facts.python).substr(1))));
  }

  const uint32_t families_;
  const ExamineProgram& examine_;
  Timeline* const timeline_;
  std::set<std::string> reported_;
  std::map<std::string, bool> own_allocator_;  // by the path of the executable
};

}  // namespace

std::vector<UnrecordedProgram> FindUnrecorded(const SpoolFacts& facts, uint64_t open, uint64_t close, bool complete,
                                              const ExamineProgram& examine) {
  Collector programs;
  std::map<int32_t, std::vector<uint64_t>> attached, inert;
  for (const auto& [identity, process] : facts.processes) {
    if (process.parent_serial != 0) continue;
    // By its own pid and by the pid that the launcher sees.
    attached[process.pid].push_back(process.start_ticks);
    if (process.has_last && process.last.pid != process.pid) {
      attached[process.last.pid].push_back(process.start_ticks);
    }
  }
  for (const InertProcess& process : facts.inert) {
    inert[process.fact.pid].push_back(process.fact.ticks);
    inert[process.fact.inner_pid].push_back(process.fact.ticks);
    const bool by_wish = process.fact.reason == static_cast<uint32_t>(InertReason::kNotChosen);
    if (by_wish || process.fact.ticks < open || process.fact.ticks > close) continue;
    std::string path = process.path;
    // The process may have ended before the launcher could read its path.
    if (path.empty()) {
      for (const ExecFacts& exec : facts.execs) {
        if (exec.ticks <= process.fact.ticks && exec.pid == process.fact.inner_pid) path = exec.path;
      }
    }
    programs.Add(ProcessState::kInert, path, InertText(process.fact), process.fact.pid);
  }
  std::map<std::string, ProgramFile> files;
  const auto file_of = [&](const std::string& path) -> const ProgramFile& {
    const auto [found, added] = files.try_emplace(path);
    if (added && examine != nullptr && !path.empty()) found->second = examine(path);
    return found->second;
  };
  const ExecReturns returns(facts);
  for (const ExecFacts& exec : facts.execs) {
    if (exec.ticks < open || exec.ticks > close || facts.only_command) continue;
    if (returns.Has(exec)) continue;
    int32_t pid = exec.pid;
    if (!exec.spawned) {
      const auto process = facts.processes.find(exec.process);
      if (process == facts.processes.end()) continue;
      pid = process->second.has_last ? process->second.last.pid : process->second.pid;
    }
    // A child of posix_spawn may have sent its hello before its parent recorded the call.
    const uint64_t from = exec.started_ticks;
    if (pid > 0 && (HasFrom(attached, pid, from) || HasFrom(inert, pid, from))) continue;
    if (exec.environment_lost) {
      programs.Add(ProcessState::kNotLoaded, exec.path, "environment without tbprof's LD_PRELOAD", pid);
      continue;
    }
    const std::string& reason = file_of(exec.path).not_loaded;
    if (!reason.empty()) {
      programs.Add(ProcessState::kNotLoaded, exec.path, reason, pid);
    } else if (pid > 0 &&
               (complete || facts.clock.ToPs(facts.last_ticks) - facts.clock.ToPs(exec.ticks) > kHelloPatiencePs)) {
      programs.Add(ProcessState::kNotLoaded, exec.path, kNotReached, pid);
    }
  }
  return programs.Take();
}

std::string UnrecordedText(const std::vector<UnrecordedProgram>& programs) {
  uint64_t count = 0;
  for (const UnrecordedProgram& program : programs) count += program.count;
  if (count == 0) return "";
  std::string text = StrCat(count, count == 1 ? " command ran unrecorded: " : " commands ran unrecorded: ");
  for (size_t i = 0; i < programs.size() && i < kShownPrograms; ++i) {
    const UnrecordedProgram& program = programs[i];
    const std::string_view path = program.path;
    StrAppend(&text, i == 0 ? "" : ", ",
              path.empty()               ? std::string_view("a program")
              : path.size() > kShownPath ? BaseName(path)
                                         : path);
    if (program.count > 1) StrAppend(&text, " x", program.count);
    StrAppend(&text, " (", program.reason, ")");
  }
  if (programs.size() > kShownPrograms) StrAppend(&text, ", and more in summary.json");
  return text;
}

std::vector<std::string> UnseenNotes(const SpoolFacts& facts, uint32_t families) {
  // Libraries that wait in the kernel by themselves, without pthread functions.
  struct Library {
    std::string_view prefix, name;
  };
  static constexpr Library kLibraries[] = {
      {"libgomp.so", "OpenMP (libgomp)"},
      {"libgomp-", "OpenMP (libgomp)"},
      {"libiomp5.so", "OpenMP (libiomp5)"},
      {"libomp.so", "OpenMP (libomp)"},
      {"libtbb.so", "TBB"},
      {"libabsl_synchronization", "absl::Mutex"},
      {"libtensorflow_framework", "absl::Mutex"},
      {"libpython3.13", "Python's own locks"},
      {"libpython3.14", "Python's own locks"},
      {"libgo.so", "Go"},
  };
  std::vector<std::string> notes;
  bool python = false, torch = false, torch_reported = false;
  std::vector<std::string_view> locks;
  for (const auto& [identity, process] : facts.processes) {
    python = python || ((process.last.flags & kProcessPlainPython) == 0 && IsPython(process));
    torch_reported = torch_reported || !process.torch.empty();
    for (const Module& module : process.modules) {
      torch = torch || BaseName(module.path).starts_with("libtorch_cpu.so");
      for (const Library& library : kLibraries) {
        if (!BaseName(module.path).starts_with(library.prefix)) continue;
        if (std::find(locks.begin(), locks.end(), library.name) == locks.end()) locks.push_back(library.name);
      }
    }
  }
  if (python && (families & kFamilyMalloc) != 0) {
    notes.push_back(
        "Python's objects of up to 512 bytes are not in the heap figures: pymalloc cuts them from blocks of 256 KiB "
        "and "
        "more; PYTHONMALLOC=malloc shows them, at a cost");
  }
  if (torch && !torch_reported && (families & kFamilyAnnotation) != 0) {
    notes.push_back(
        "PyTorch was loaded, and its operations and steps are not recorded: --torch=off, or no tensor was made on the "
        "main thread while recording, and few on others");
  }
  if (!locks.empty() && (families & kFamilyLock) != 0) {
    std::string names;
    for (const std::string_view name : locks) StrAppend(&names, names.empty() ? "" : ", ", name);
    notes.push_back(StrCat("waits inside ", names, " are not seen: these wait by futex, not by pthread functions"));
  }
  return notes;
}

void AddEndDiagnoses(Timeline* timeline) {
  if (timeline->refused_threads > 0) {
    timeline->warnings.push_back(
        StrCat(Counted(timeline->refused_threads, "thread"),
               " could not be started: the limit of processes or memory was "
               "reached (`ulimit -u`, the cgroup's pids.max, `ulimit -v`); tbprof's own five count, too"));
  }
  if (timeline->exit_signal == SIGSYS) {
    timeline->warnings.push_back(
        "a system call filter ended the command: it forbids a call of the command, or getpid, gettid or getppid, "
        "which tbprof's library makes in it");
  }
}

std::string SamplingText(const Timeline& timeline) {
  double recorded = 0, skipped = 0;
  for (const Process& process : timeline.processes) {
    recorded += static_cast<double>(process.torch.recorded);
    skipped += static_cast<double>(process.torch.skipped);
  }
  if (skipped <= 0) return "";
  return StrCat("PyTorch operations: sampled, ", SharePercent(skipped / (recorded + skipped)),
                " skipped to keep overhead under 1 % (record all: --torch=all)");
}

void DiagnoseHooks(const std::map<Identity, uint32_t>& processes, const ExecImages& images, uint32_t families,
                   const ExamineProgram& examine, SpoolFacts* facts, Timeline* timeline) {
  HookDiagnosis diagnosis(families, examine, timeline);
  for (const auto& [identity, index] : processes) {
    const ProcessFacts& process = facts->processes.at(identity);
    // After an exec of a fork child, the new image is reported for both.
    if (process.forked && images.after.contains(identity)) continue;
    diagnosis.Add(ImageOf(identity, facts), process, &timeline->processes[index]);
  }
}

}  // namespace tbprof
