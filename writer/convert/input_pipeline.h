// SPDX-License-Identifier: Apache-2.0
//
// How a program that uses PyTorch's DataLoader or tf.data gets its input: the work of PyTorch's loader, in the program
// itself or in workers. input_wait.h measures how long the steps wait for it.
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

// kWait: wait for workers, or for threads of tf.data; kFetch: the waiting thread fetches itself; kPrepare: work of a
// worker other than reading; kPin: a thread copies batches to memory that a device can read.
enum class InputStage : uint8_t { kWait, kFetch, kRead, kPrepare, kCopy, kPin };
inline constexpr size_t kInputStages = 6;

struct InputEvent {
  int64_t start_ps = 0;
  int64_t end_ps = 0;
  InputStage stage = InputStage::kWait;
};

// The events of a thread that loads: sorted by (start ascending, end descending), nested or disjoint.
struct InputLine {
  std::string name;
  std::vector<InputEvent> events;
  size_t batches_each = 0;  // if above 0, each event is the sum of this many outermost ones
};

// The threads of a process whose events become stages of its input: the thread that gets most batches (-1: none), and
// the threads that pin memory for it.
struct InputThreads {
  int loader = -1;
  std::vector<uint32_t> pinning;
};
InputThreads InputThreadsOf(const Timeline& timeline, uint32_t process);

// The lines of the process and its workers; workers that follow each other in time share a line. Bounded: if there are
// too many events, those of several batches become one event of the summed length, so that the sum of each stage is
// kept.
std::vector<InputLine> InputLines(const Timeline& timeline, uint32_t process);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_INPUT_PIPELINE_H_
