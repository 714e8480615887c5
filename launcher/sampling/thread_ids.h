// SPDX-License-Identifier: Apache-2.0
//
// Finds the kernel thread of a Python thread state: its ids in the pid namespaces of the target and of the launcher.
//
// From 3.11 on, the thread state contains the thread id. Before, it contains only pthread_self(): the id is in glibc's
// struct pthread at that address, at an offset that is learnt from a thread with only one possible position of its id.
//
// Process: launcher, the sampler's thread. Not thread-safe.
#ifndef TBPROF_LAUNCHER_SAMPLING_THREAD_IDS_H_
#define TBPROF_LAUNCHER_SAMPLING_THREAD_IDS_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "launcher/sampling/python_reader.h"
#include "launcher/sampling/target_memory.h"

namespace tbprof {

// The last number of the line `NSpid:` in a file /proc/.../status: the id in the process's own pid namespace; 0: none.
// `nested`: that namespace is not tbprof's.
int32_t InnermostId(const std::string& path, bool* nested);

class ThreadIds {
 public:
  struct Ids {
    int32_t inner, outer;  // in the pid namespaces of target and launcher
  };

  ThreadIds(pid_t pid, ReadMemory read) : pid_(pid), read_(std::move(read)) {}
  // std::nullopt: not known, or not known yet.
  std::optional<Ids> Resolve(const PythonReader::Thread& thread);

 private:
  void ReadTasks();
  std::optional<Ids> FindInner(uint64_t inner);
  bool LearnOffset(const PythonReader::Thread& thread);

  pid_t pid_;
  ReadMemory read_;
  std::map<int32_t, int32_t> outer_;  // by the id in the target's own pid namespace
  int32_t inner_pid_ = 0;
  int32_t offset_ = -1;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_THREAD_IDS_H_
