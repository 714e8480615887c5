// SPDX-License-Identifier: Apache-2.0
//
// Reads the core files of recorded processes that a signal ended, in a thread of its own that runs when there is one,
// and emits their stacks as frames of the spool.
//
//   CoreReader cores(ReadCorePattern(), emit);
//   cores.Add({.process = {segment, serial, pid}, .search = {...}, .ticks = now, .is_certain = true});
//   cores.Flush(2s);   // those added before were given to `emit`
//
// A core file is nothing that a program knows of: it is neither changed nor removed. One takes at most kTime.
//
// Process: launcher, main thread. Waits in Flush alone. A disk that gives no answer leaves the thread behind, which
// emits nothing any more.
#ifndef TBPROF_LAUNCHER_SAMPLING_CORE_READER_H_
#define TBPROF_LAUNCHER_SAMPLING_CORE_READER_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "launcher/sampling/core_pattern.h"
#include "launcher/sampling/core_search.h"
#include "launcher/sampling/stack_sampler.h"

namespace tbprof {

// As the kernel has it now.
CorePattern ReadCorePattern();

class CoreReader {
 public:
  using Emit = StackSampler::Emit;
  static constexpr std::chrono::milliseconds kTime{1000};

  struct Job {
    StackSampler::Process process;  // without a pidfd
    CoreSearch search;              // `pattern` is filled in
    uint64_t ticks = 0;             // when the process had ended
    int signal = 0;                 // that ended it; 0: not known
    bool is_certain = false;        // the kernel reported a core file
  };

  CoreReader(CorePattern pattern, Emit emit);
  ~CoreReader();
  CoreReader(const CoreReader&) = delete;
  CoreReader& operator=(const CoreReader&) = delete;

  const CorePattern& pattern() const { return pattern_; }
  void Add(Job job);
  // False: not all were read in time.
  bool Flush(std::chrono::milliseconds timeout);

 private:
  struct State;
  static void Run(std::shared_ptr<State> state);

  const CorePattern pattern_;
  std::shared_ptr<State> state_;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_CORE_READER_H_
