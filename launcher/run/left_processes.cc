// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/left_processes.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <map>
#include <optional>

#include "absl/time/time.h"
#include "launcher/base/deadline.h"
#include "launcher/base/proc_files.h"
#include "launcher/base/proc_stat.h"
#include "launcher/base/text.h"
#include "writer/base/scoped.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

constexpr size_t kMostNamed = 3;
// An exec takes about a millisecond, longer on a busy machine. Some processes have no environment at all.
constexpr int kAttempts = 5;
constexpr useconds_t kExecUs = 2000;
constexpr absl::Duration kLimit = absl::Milliseconds(300);

std::string CommandName(int pid) { return ReadText(StrCat("/proc/", pid, "/comm")); }

bool Runs(int pid) {
  const char state = SchedulerState(pid);
  return state != '\0' && state != 'Z' && state != 'X';
}

enum class Reading { kHasIt, kHasItNot, kInExec };

// `start`: of a variable in the environment.
Reading Read(int pid, std::string_view start) {
  const std::string environment = ReadText(StrCat("/proc/", pid, "/environ"));
  if (environment.find(start) != std::string::npos) return Reading::kHasIt;
  // In the middle of an exec there is no environment. Threads of the kernel have no program either.
  char program[1];
  const bool in_exec = environment.empty() && readlink(StrCat("/proc/", pid, "/exe").c_str(), program, 1) > 0;
  return in_exec ? Reading::kInExec : Reading::kHasItNot;
}

// In the kernel's ticks since boot; 0: there is no such process.
uint64_t StartOf(int pid) {
  const std::optional<ProcStat> stat = ReadProcStat(pid);
  return stat ? stat->start_ticks : 0;
}

std::vector<int> YoungerProcesses() {
  std::vector<int> younger;
  const uint64_t own = StartOf(getpid());
  for (const pid_t pid : Pids()) {
    if (pid != getpid() && StartOf(pid) >= own) younger.push_back(pid);
  }
  return younger;
}

// Writes the pids to `pipe` as they are found.
void WriteThoseWith(std::string_view start, std::vector<int> pids, int pipe) {
  for (int attempt = 0; attempt < kAttempts && !pids.empty(); ++attempt) {
    if (attempt > 0) usleep(kExecUs);
    std::erase_if(pids, [&](int pid) {
      const Reading reading = Read(pid, start);
      if (reading == Reading::kHasIt) (void)!write(pipe, &pid, sizeof(pid));
      return reading != Reading::kInExec;
    });
  }
}

// `start`: of a variable in the environment.
std::vector<int> ProcessesWith(std::string_view start) {
  std::vector<int> found;
  const std::vector<int> younger = YoungerProcesses();
  int ends[2];
  if (younger.empty() || pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return found;
  const ScopedFd reader(ends[0]), writer(ends[1]);
  // What is found until the limit counts.
  (void)WithinDeadline(kLimit, [&] {
    WriteThoseWith(start, younger, writer.get());
    return absl::OkStatus();
  });
  for (int pid; read(reader.get(), &pid, sizeof(pid)) == sizeof(pid);) found.push_back(pid);
  return found;
}

}  // namespace

LeftProcesses::LeftProcesses(const std::vector<int>& recorded) {
  for (const int pid : recorded) recorded_.emplace_back(pid, CommandName(pid));
}

std::string LeftProcesses::Line(std::string_view session_variable) const {
  std::map<int, std::string> left;
  for (const auto& [pid, name] : recorded_) {
    if (Runs(pid) && CommandName(pid) == name) left.emplace(pid, name);
  }
  for (const int pid : ProcessesWith(session_variable)) {
    if (Runs(pid)) left.emplace(pid, CommandName(pid));
  }
  if (left.empty()) return "";
  std::string names;
  size_t named = 0;
  for (const auto& [pid, name] : left) {
    if (++named > kMostNamed) break;
    StrAppend(&names, names.empty() ? "" : ", ", PrintableUtf8(Strip(name)), " (", pid, ")");
  }
  const bool is_one = left.size() == 1;
  return StrCat(left.size(), is_one ? " process runs on" : " processes run on", " without being recorded: ", names,
                left.size() > kMostNamed ? ", ..." : "");
}

}  // namespace tbprof
