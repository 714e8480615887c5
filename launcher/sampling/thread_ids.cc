// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/thread_ids.h"

#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string>

#include "launcher/base/proc_files.h"
#include "writer/base/scoped.h"
#include "writer/base/text.h"

namespace tbprof {
namespace {

constexpr size_t kPthreadBytes = 1536;  // glibc's struct pthread is larger, and more of a thread's memory follows it
constexpr int32_t kUsualOffset = 720;   // glibc on x86-64, 2.2 to 2.41

}  // namespace

int32_t InnermostId(const std::string& path, bool* nested) {
  char text[4096];
  const ScopedFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const ssize_t got = fd.valid() ? read(fd.get(), text, sizeof(text) - 1) : -1;
  if (got <= 0) return 0;
  text[got] = '\0';
  const char* line = strstr(text, "\nNSpid:");
  if (line == nullptr) return 0;
  long id = 0;
  int count = 0;
  for (const char* at = line + 7; *at != '\n' && *at != '\0';) {
    char* end;
    const long next = strtol(at, &end, 10);
    if (end == at) break;
    id = next;
    at = end;
    ++count;
  }
  *nested = count > 1;
  return static_cast<int32_t>(id);
}

void ThreadIds::ReadTasks() {
  outer_.clear();
  bool nested = false;
  inner_pid_ = InnermostId(StrCat("/proc/", pid_, "/status"), &nested);
  for (const int32_t outer : TasksOf(pid_)) {
    bool ignored;
    const int32_t inner = nested ? InnermostId(StrCat("/proc/", pid_, "/task/", outer, "/status"), &ignored) : outer;
    if (inner > 0) outer_[inner] = outer;
  }
}

std::optional<ThreadIds::Ids> ThreadIds::FindInner(uint64_t inner) {
  if (inner == 0 || inner > INT32_MAX) return std::nullopt;
  const auto found = outer_.find(static_cast<int32_t>(inner));
  if (found == outer_.end()) return std::nullopt;
  return Ids{found->first, found->second};
}

std::optional<ThreadIds::Ids> ThreadIds::Resolve(const PythonReader::Thread& thread) {
  ReadTasks();
  if (thread.native_id != 0) {
    if (const auto ids = FindInner(thread.native_id)) return ids;
  }
  // The main thread's id is the process id. After a fork, the state has the id of the thread that forked.
  if (thread.main || thread.native_id != 0) {
    if (thread.main || outer_.size() == 1) return FindInner(static_cast<uint64_t>(inner_pid_));
    return std::nullopt;
  }
  if (outer_.size() == 1) return FindInner(static_cast<uint64_t>(inner_pid_));
  if (offset_ < 0 && !LearnOffset(thread)) return std::nullopt;
  int32_t inner = 0;
  if (!ReadAt(read_, thread.thread_id + static_cast<uint64_t>(offset_), &inner, sizeof(inner))) return std::nullopt;
  if (inner == inner_pid_) return std::nullopt;
  return FindInner(static_cast<uint64_t>(inner));
}

bool ThreadIds::LearnOffset(const PythonReader::Thread& thread) {
  uint8_t bytes[kPthreadBytes];
  if (!ReadAt(read_, thread.thread_id, bytes, sizeof(bytes))) return false;
  int32_t candidate = -1;
  int count = 0;
  for (size_t at = 0; at + 4 <= sizeof(bytes); at += 4) {
    int32_t value;
    std::memcpy(&value, bytes + at, sizeof(value));
    if (value == inner_pid_ || !outer_.contains(value)) continue;
    candidate = static_cast<int32_t>(at);
    ++count;
    if (candidate == kUsualOffset) {
      offset_ = candidate;
      return true;
    }
  }
  if (count != 1) return false;  // another thread may be unambiguous
  offset_ = candidate;
  return true;
}

}  // namespace tbprof
