// SPDX-License-Identifier: Apache-2.0
//
// What a stack of Python is for, by the library that is on it: a loader, a logger, a queue. And the line of the
// program's own that called it.
//
// Process: converter. Pure functions of the timeline.
#ifndef TBPROF_WRITER_VERDICT_PYTHON_TAGS_H_
#define TBPROF_WRITER_VERDICT_PYTHON_TAGS_H_

#include <cstdint>
#include <vector>

#include "writer/timeline/timeline.h"

namespace tbprof {

enum class PythonTag : uint8_t {
  kNone,
  kLoader,      // of a framework's data loader
  kQueueGet,    // of a thread's queue
  kQueuePut,    // likewise
  kProcessGet,  // of another process: a queue, a pool, a connection
  kFuture,      // the result of a thread's or process's work
  kThread,      // another thread: join, Event, Condition, Semaphore
  kBarrier,     // of threads or processes
  kCollective,  // of the processes of a job
  kChild,       // a program that was started
  kNetwork,
  kLogging,  // logs, progress bars, metrics
  kCheckpoint,
  kCompile,  // of JAX, PyTorch, Triton, Numba
  kImport,
};

class PythonTags {
 public:
  explicit PythonTags(const Timeline& timeline);

  // `stack`: index into PythonTimeline::stacks; 0: none.
  PythonTag TagOf(uint32_t stack) const { return stack < tags_.size() ? tags_[stack] : PythonTag::kNone; }
  // The innermost frame of the program's own; where there is none, the innermost. 0: none.
  uint32_t OwnFrameOf(uint32_t stack) const { return stack < own_.size() ? own_[stack] : 0; }
  bool HasOwnFrame(uint32_t stack) const { return stack < own_.size() && own_[stack] != 0 && is_own_[own_[stack]]; }
  // The first frame of the same function and line: frames that differ in their callers alone have the same.
  uint32_t LineOf(uint32_t frame) const { return frame < lines_.size() ? lines_[frame] : 0; }
  // The program's own frame that called this one, through libraries; 0: none.
  uint32_t OwnCallerOf(uint32_t frame) const;

 private:
  std::vector<PythonTag> tags_;  // by stack
  std::vector<uint32_t> own_;    // by stack
  std::vector<bool> is_own_;     // by stack: its innermost frame
  std::vector<uint32_t> lines_;  // by stack: of its innermost frame
  std::vector<uint32_t> parents_;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_VERDICT_PYTHON_TAGS_H_
