// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/left_processes.h"

#include <dirent.h>
#include <unistd.h>

#include <cstdlib>
#include <map>

#include "launcher/base/deadline.h"
#include "launcher/base/text.h"
#include "writer/base/scoped.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

constexpr size_t kMostNamed = 3;
// An exec takes about a millisecond, longer on a busy machine. Some processes have no environment at all.
constexpr int kAttempts = 5;
constexpr useconds_t kExecUs = 2000;

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

std::vector<int> ProcessesWith(std::string_view start) {
  std::vector<int> found, in_exec;
  const ScopedDirectory listing(opendir("/proc"));
  if (listing == nullptr) return found;
  while (const dirent* entry = readdir(listing.get())) {
    const int pid = atoi(entry->d_name);
    if (pid > 0 && pid != getpid()) in_exec.push_back(pid);
  }
  for (int attempt = 0; attempt < kAttempts && !in_exec.empty(); ++attempt) {
    if (attempt > 0) usleep(kExecUs);
    std::erase_if(in_exec, [&](int pid) {
      const Reading reading = Read(pid, start);
      if (reading == Reading::kHasIt) found.push_back(pid);
      return reading != Reading::kInExec;
    });
  }
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
  return StrCat(left.size(), is_one ? " process runs on, and is" : " processes run on, and are",
                " no longer recorded: ", names, left.size() > kMostNamed ? ", ..." : "", "; --follow=all waits for ",
                is_one ? "it" : "them");
}

}  // namespace tbprof
