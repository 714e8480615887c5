// SPDX-License-Identifier: Apache-2.0
//
// The purpose of a Python stack, derived from the library on it (a loader, a logger, a queue), and the line of the
// program itself that called the library.
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
  kLoader,      // a framework's data loader
  kQueueGet,    // get from a queue between threads
  kQueuePut,    // put into a queue
  kProcessGet,  // data from another process: a queue, a pool, a connection
  kFuture,      // the result of a thread's or process's work
  kThread,      // waits for another thread: Event, Condition, Semaphore
  kWorkers,     // waits until its own threads or processes have ended their work
  kBarrier,     // a barrier of threads or processes
  kCollective,  // between the processes of a job
  kChild,       // a program that the process started
  kNetwork,
  kServe,    // a server waits for clients, or passes on what they ask
  kLogging,  // logs, progress bars, metrics
  kCheckpoint,
  kModelLoad,  // reads a model, or makes it ready to run
  kCompile,    // by JAX, PyTorch, Triton, Numba
  kImport,     // imports, and the set-up of a library that starts other processes
};

class PythonTags {
 public:
  explicit PythonTags(const Timeline& timeline);

  // `stack`: index into PythonTimeline::stacks; 0: none.
  PythonTag TagOf(uint32_t stack) const { return stack < tags_.size() ? tags_[stack] : PythonTag::kNone; }
  // The innermost frame of the program's own code, else the innermost frame of the stack. 0: the stack is empty.
  uint32_t OwnFrameOf(uint32_t stack) const { return stack < own_.size() ? own_[stack] : 0; }
  bool HasOwnFrame(uint32_t stack) const { return stack < own_.size() && own_[stack] != 0 && is_own_[own_[stack]]; }
  // Whether the stack is of a process that multiprocessing has forked.
  bool IsOfWorker(uint32_t stack) const { return stack < of_worker_.size() && of_worker_[stack]; }
  // Whether a server's code has called what the stack shows, the program's own code included.
  bool IsOfServer(uint32_t stack) const { return stack < of_server_.size() && of_server_[stack]; }
  // The first frame with the same function and line: frames that differ only in their callers share it.
  uint32_t LineOf(uint32_t frame) const { return frame < lines_.size() ? lines_[frame] : 0; }
  // The program's own frame that called `frame`, directly or through libraries; 0: none.
  uint32_t OwnCallerOf(uint32_t frame) const;

 private:
  std::vector<PythonTag> tags_;  // by stack
  std::vector<uint32_t> own_;    // by stack: the frame that OwnFrameOf returns
  std::vector<bool> is_own_;     // by stack: whether its innermost frame is the program's own
  std::vector<uint32_t> lines_;  // by stack: LineOf its innermost frame
  std::vector<uint32_t> parents_;
  std::vector<bool> of_worker_;  // by stack
  std::vector<bool> of_server_;  // by stack
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_VERDICT_PYTHON_TAGS_H_
