// SPDX-License-Identifier: Apache-2.0
//
// Reads the core files of recorded processes that were ended by a signal, and emits their stacks as frames of the
// spool. The reading thread exists only while core files are waiting.
//
//   CoreReader cores(ReadCorePattern(), emit);
//   cores.Add({.process = {segment, serial, pid}, .search = {...}, .ticks = now, .is_certain = true});
//   cores.Flush(2s);   // waits until all core files added before were passed to `emit`
//
// Core files are neither changed nor removed. Reading one core file takes at most kTime.
//
// Process: launcher, main thread. Only Flush waits. If the disk does not respond, the destructor abandons the reading
// thread, which then emits nothing.
#ifndef TBPROF_LAUNCHER_SAMPLING_CORE_READER_H_
#define TBPROF_LAUNCHER_SAMPLING_CORE_READER_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "launcher/sampling/core_pattern.h"
#include "launcher/sampling/core_search.h"
#include "launcher/sampling/sampled_process.h"

namespace tbprof {

// The kernel's current pattern.
CorePattern ReadCorePattern();

class CoreReader {
 public:
  using Emit = EmitFrame;
  static constexpr std::chrono::milliseconds kTime{1000};

  struct Job {
    SampledProcess process;   // without a pidfd
    CoreSearch search;        // Add sets `pattern`
    uint64_t ticks = 0;       // when the process had ended
    int signal = 0;           // that ended the process; 0: not known
    bool is_certain = false;  // the kernel reported a core file
  };

  CoreReader(CorePattern pattern, Emit emit);
  ~CoreReader();
  CoreReader(const CoreReader&) = delete;
  CoreReader& operator=(const CoreReader&) = delete;

  const CorePattern& pattern() const { return pattern_; }
  void Add(Job job);
  // False: the timeout expired before all core files were read.
  bool Flush(std::chrono::milliseconds timeout);

 private:
  struct State;
  static void Run(std::shared_ptr<State> state);

  const CorePattern pattern_;
  std::shared_ptr<State> state_;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_CORE_READER_H_
