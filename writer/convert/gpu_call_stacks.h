// SPDX-License-Identifier: Apache-2.0
//
// The Python stacks of CUDA calls. The stacks come from hooks on the driver (kPythonStackCall), the calls from CUPTI or
// the observer; only their times link them. A stack that may belong to two calls is given to neither.
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
  // Must outlive this. `most`: kMostCallStacks except in tests.
  explicit GpuCallStacks(const SpoolFacts* facts, size_t most = kMostCallStacks) : facts_(*facts), most_(most) {}

  // `line`: index into Timeline::threads. `reference`: from PythonExact.
  void Take(uint32_t line, uint64_t ticks, uint32_t reference);
  // Sets the references of the calls in `events`, and adds a note on the calls that were left out.
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
