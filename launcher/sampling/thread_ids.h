// SPDX-License-Identifier: Apache-2.0
//
// Which thread of the kernel a Python thread state belongs to, as the target and as the launcher number it.
//
// From 3.11 on the thread state has the number. Before, it has pthread_self() alone: the number is in glibc's struct
// pthread behind it, at an offset that is learnt from threads whose number can be told from everything else there.
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

// The last number of the line `NSpid:` in a file /proc/.../status, which is the process's own; 0: none. `nested`: it is
// not ours.
int32_t InnermostId(const std::string& path, bool* nested);

class ThreadIds {
 public:
  struct Ids {
    int32_t inner, outer;  // as the target and as the launcher see it
  };

  ThreadIds(pid_t pid, ReadMemory read) : pid_(pid), read_(std::move(read)) {}
  // Nothing if it is not known, or not yet.
  std::optional<Ids> Resolve(const PythonReader::Thread& thread);

 private:
  void ReadTasks();
  std::optional<Ids> FindInner(uint64_t inner);
  bool LearnOffset(const PythonReader::Thread& thread);

  pid_t pid_;
  ReadMemory read_;
  std::map<int32_t, int32_t> outer_;  // by the number in the target's own namespace
  int32_t inner_pid_ = 0;
  int32_t offset_ = -1;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_THREAD_IDS_H_
