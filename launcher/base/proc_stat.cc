// SPDX-License-Identifier: Apache-2.0
#include "launcher/base/proc_stat.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <type_traits>

#include "writer/base/parse_number.h"
#include "writer/base/scoped.h"

namespace tbprof {

std::optional<ProcStat> ParseProcStat(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  // `PID (NAME) STATE PARENT ...`: the name may contain anything.
  const size_t name_end = text.rfind(')');
  if (name_end == std::string_view::npos) return std::nullopt;
  std::string_view rest = text.substr(name_end + 1);
  const auto take_word = [&rest] {
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
    const std::string_view word = rest.substr(0, rest.find(' '));
    rest.remove_prefix(word.size());
    return word;
  };
  constexpr int kParent = 1, kMinorFaults = 7, kMajorFaults = 9, kStart = 19;  // words behind the state
  const std::string_view state = take_word();
  if (state.size() != 1) return std::nullopt;
  ProcStat stat;
  stat.state = state[0];
  bool is_valid = true;
  const auto set = [&is_valid](std::string_view word, auto* value) {
    const auto number = ParseNumber<std::remove_pointer_t<decltype(value)>>(word);
    is_valid &= number.has_value();
    *value = number.value_or(0);
  };
  for (int i = kParent; i <= kStart; ++i) {
    const std::string_view word = take_word();
    if (i == kParent) set(word, &stat.parent);
    if (i == kMinorFaults) set(word, &stat.minor_faults);
    if (i == kMajorFaults) set(word, &stat.major_faults);
    if (i == kStart) set(word, &stat.start_ticks);
  }
  set(text.substr(text.rfind(' ') + 1), &stat.last_field);
  return is_valid ? std::make_optional(stat) : std::nullopt;
}

std::optional<ProcStat> ReadProcStat(const char* path) {
  // The kernel returns the whole line, of at most 1300 bytes, for one read.
  char text[2048];
  const ScopedFd file(open(path, O_RDONLY | O_CLOEXEC));
  const ssize_t got = file.valid() ? read(file.get(), text, sizeof(text)) : -1;
  return got <= 0 ? std::nullopt : ParseProcStat({text, static_cast<size_t>(got)});
}

std::optional<ProcStat> ReadProcStat(pid_t pid) {
  char path[64];
  snprintf(path, sizeof(path), "/proc/%d/stat", pid);
  return ReadProcStat(path);
}

std::optional<ProcStat> ReadProcStat(pid_t pid, pid_t tid) {
  char path[64];
  snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", pid, tid);
  return ReadProcStat(path);
}

char SchedulerState(pid_t pid) {
  const std::optional<ProcStat> stat = ReadProcStat(pid);
  return stat ? stat->state : '\0';
}

}  // namespace tbprof
