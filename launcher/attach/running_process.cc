// SPDX-License-Identifier: Apache-2.0
#include "launcher/attach/running_process.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>

#include "launcher/base/proc_files.h"
#include "launcher/base/proc_stat.h"
#include "launcher/base/text.h"
#include "launcher/sampling/mappings.h"
#include "launcher/sampling/read_denial.h"
#include "launcher/sampling/target_memory.h"
#include "launcher/sampling/thread_ids.h"
#include "wire/ranks.h"
#include "wire/rendezvous.h"
#include "writer/base/text.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

constexpr size_t kMostTasks = 4096;

std::string PathOf(pid_t pid, std::string_view name) { return StrCat("/proc/", pid, "/", name); }

// The strings of a file in which each ends in a NUL byte.
std::vector<std::string> Strings(const std::string& text) {
  std::vector<std::string> strings;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\0', at), text.size());
    strings.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return strings;
}

std::vector<std::string> RankVariablesOf(pid_t pid) {
  std::vector<std::string> found;
  const std::vector<std::string> environment = Strings(ReadText(PathOf(pid, "environ")));
  for (const char* name : kRankVariables) {
    const std::string start = StrCat(name, "=");
    const auto entry =
        std::ranges::find_if(environment, [&](const std::string& candidate) { return candidate.starts_with(start); });
    if (entry != environment.end()) found.push_back(*entry);
  }
  return found;
}

// The children that the kernel lists for one thread; false: this kernel has no such list.
bool AddChildrenOfThread(pid_t pid, pid_t tid, std::vector<pid_t>* children) {
  const std::string path = StrCat("/proc/", pid, "/task/", tid, "/children");
  const std::string text = ReadText(path);
  if (text.empty()) return access(path.c_str(), F_OK) == 0 || access(PathOf(pid, "stat").c_str(), F_OK) != 0;
  for (const std::string_view word : Split(text, ' ')) {
    pid_t child = 0;
    std::from_chars(word.data(), word.data() + word.size(), child);
    if (child > 0) children->push_back(child);
  }
  return true;
}

void AddChildrenByParent(pid_t pid, std::vector<pid_t>* children) {
  for (const pid_t child : Pids()) {
    const std::optional<ProcStat> stat = ReadProcStat(child);
    if (stat && stat->parent == pid) children->push_back(child);
  }
}

// A first thread that has left its process to others is a zombie, too.
bool HasEnded(pid_t pid, char state) {
  return state == 'X' || state == 'x' || (state == 'Z' && TasksOf(pid).size() < 2);
}

}  // namespace

absl::StatusOr<RunningProcess> ReadRunningProcess(pid_t pid) {
  const std::optional<ProcStat> stat = pid > 0 ? ReadProcStat(pid) : std::nullopt;
  if (!stat) return InvalidArgument(StrCat("there is no process ", pid));
  if (HasEnded(pid, stat->state)) return InvalidArgument(StrCat("process ", pid, " has ended"));
  RunningProcess process;
  process.pid = pid;
  process.parent = stat->parent;
  process.start_ticks = stat->start_ticks;
  bool nested = false;
  process.inner_pid = InnermostId(PathOf(pid, "status"), &nested);
  if (process.inner_pid <= 0) process.inner_pid = pid;
  // The files of a process that allows no debugger belong to root; so does the status's directory then.
  if (const auto users = StatusIds(ReadText(PathOf(pid, "status")), "Uid")) process.user = (*users)[1];
  process.executable = LinkText(PathOf(pid, "exe"));
  process.arguments = Strings(ReadText(PathOf(pid, "cmdline")));
  process.rank_variables = RankVariablesOf(pid);
  return process;
}

bool IsStill(const RunningProcess& process) {
  const std::optional<ProcStat> stat = ReadProcStat(process.pid);
  return stat && !HasEnded(process.pid, stat->state) && stat->start_ticks == process.start_ticks &&
         LinkText(PathOf(process.pid, "exe")) == process.executable;
}

std::vector<pid_t> ChildrenOf(pid_t pid) {
  std::vector<pid_t> children;
  for (const pid_t tid : ThreadsOf(pid, kMostTasks)) {
    if (AddChildrenOfThread(pid, tid, &children)) continue;
    children.clear();
    AddChildrenByParent(pid, &children);
    break;
  }
  std::ranges::sort(children);
  return children;
}

std::vector<pid_t> ThreadsOf(pid_t pid, size_t most) {
  std::vector<pid_t> threads = TasksOf(pid);
  threads.resize(std::min(threads.size(), most));
  std::ranges::sort(threads);
  return threads;
}

bool HasTbprofLibrary(pid_t pid) {
  int error = 0;
  return ReadProcFile(PathOf(pid, "maps"), &error).find(StrCat("/", kPreloadFileName)) != std::string::npos;
}

absl::Status CheckMemoryAccess(const RunningProcess& process) {
  int error = 0;
  const std::string maps = ReadProcFile(PathOf(process.pid, "maps"), &error);
  uint64_t address = 0;
  if (error == 0 && maps.empty()) {
    return InvalidArgument(StrCat("process ", process.pid, " has no memory of its own: a thread of the kernel"));
  }
  std::string_view rest = maps;
  while (const std::optional<MapsLine> line = TakeMapsLine(&rest)) {
    if (!line->readable) continue;
    address = line->start;
    break;
  }
  if (error == 0) {
    char byte = 0;
    const iovec range = MemoryRange(address, sizeof(byte));
    const int64_t got = ProcessMemory(process.pid)(&byte, {&range, 1});
    if (got > 0 || !IsReadDenied(static_cast<int>(-got))) return absl::OkStatus();
    error = static_cast<int>(-got);
  }
  if (error == ENOENT || error == ESRCH) return InvalidArgument(StrCat("process ", process.pid, " has ended"));
  const Denial denial = ExplainDenial(LookUpDenial(process.pid, error));
  return absl::PermissionDeniedError(
      StrCat("process ", process.pid, " cannot be read: ", denial.cause, "; ", denial.remedy));
}

}  // namespace tbprof
