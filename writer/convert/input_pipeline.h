// SPDX-License-Identifier: Apache-2.0
//
// How a program that uses PyTorch's DataLoader or tf.data gets its input: what PyTorch's loader does, in the program
// itself or in workers. How long the steps wait for it: input_wait.h.
//
// Process: converter. Pure functions of the timeline.
#ifndef TBPROF_WRITER_CONVERT_INPUT_PIPELINE_H_
#define TBPROF_WRITER_CONVERT_INPUT_PIPELINE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "writer/timeline/timeline.h"

namespace tbprof {

// kWait: for workers, or the threads of tf.data; kFetch: by the thread that waits; kPrepare: by a worker, what it does
// but reading; kPin: by a thread that copies batches to where a device can get them.
enum class InputStage : uint8_t { kWait, kFetch, kRead, kPrepare, kCopy, kPin };
inline constexpr size_t kInputStages = 6;

struct InputEvent {
  int64_t start_ps = 0;
  int64_t end_ps = 0;
  InputStage stage = InputStage::kWait;
};

// Of a thread that loads: sorted by (start ascending, end descending), nested or apart.
struct InputLine {
  std::string name;
  std::vector<InputEvent> events;
  size_t batches_each = 0;  // above 0: the events are sums, each of so many outermost ones
};

// The threads of a process whose events become stages of its input: the one that gets most batches (-1: none does), and
// those that pin memory for it.
struct InputThreads {
  int loader = -1;
  std::vector<uint32_t> pinning;
};
InputThreads InputThreadsOf(const Timeline& timeline, uint32_t process);

// By what the program gets its batches, for people; empty: nothing that is known.
std::string_view LoaderOf(const Timeline& timeline);

// Of the process and its workers, of which those that follow each other share a line. Bounded: where there are too
// many, the events of several batches become one of their summed length, so that the sums of each stage are kept.
std::vector<InputLine> InputLines(const Timeline& timeline, uint32_t process);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_INPUT_PIPELINE_H_
