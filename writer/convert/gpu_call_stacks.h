// SPDX-License-Identifier: Apache-2.0
//
// The Python stacks of calls of CUDA. They come from hooks on the driver (kPythonStackCall), the calls from CUPTI or
// the observer, and only their times tie them together. A stack that may belong to two calls belongs to none.
//
//   GpuCallStacks stacks(&facts);
//   stacks.Take(line, ticks, reference);      // each such record
//   stacks.Finish(&events, timeline);         // once all calls are kept
//
// Process: converter, one thread. Untrusted: all of it. Memory: kMostCallStacks.
#ifndef TBPROF_WRITER_CONVERT_GPU_CALL_STACKS_H_
#define TBPROF_WRITER_CONVERT_GPU_CALL_STACKS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "writer/convert/host_events.h"
#include "writer/spool/spool_facts.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

inline constexpr size_t kMostCallStacks = 4u << 20;

class GpuCallStacks {
 public:
  // Must outlive this. `most`: kMostCallStacks but in tests.
  explicit GpuCallStacks(const SpoolFacts* facts, size_t most = kMostCallStacks) : facts_(*facts), most_(most) {}

  // `line`: index into Timeline::threads. `reference`: of PythonExact.
  void Take(uint32_t line, uint64_t ticks, uint32_t reference);
  // Gives the calls of `events` their references, and adds a note on what was left out.
  void Finish(HostEvents* events, Timeline* timeline);

 private:
  struct CallStack {
    uint64_t ticks;
    uint32_t reference;
  };

  const SpoolFacts& facts_;
  const size_t most_;
  std::map<uint32_t, std::vector<CallStack>> lines_;
  size_t count_ = 0;
  uint64_t left_out_ = 0;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_GPU_CALL_STACKS_H_
