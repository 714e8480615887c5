// SPDX-License-Identifier: Apache-2.0
//
// How a program that uses PyTorch's DataLoader or tf.data gets its input: how long it waits for it, and what PyTorch's
// loader does in that time, in the program itself or in workers.
//
// Process: converter. Pure functions of the timeline.
#ifndef TBPROF_WRITER_INPUT_PIPELINE_H_
#define TBPROF_WRITER_INPUT_PIPELINE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "writer/timeline.h"

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
};

// The threads of a process whose events become stages of its input: the one that gets most batches (-1: none does), and
// those that pin memory for it.
struct InputThreads {
  int loader = -1;
  std::vector<uint32_t> pinning;
};
InputThreads InputThreadsOf(const Timeline& timeline, uint32_t process);

// When a thread got its next batch; in order, apart.
std::vector<InputEvent> InputWaits(const Timeline& timeline, uint32_t thread);

// By what the program gets its batches, for people; empty: nothing that is known.
std::string_view LoaderOf(const Timeline& timeline);

// Of the regular steps' time, 0...1; -1: no loader is known, or most steps get their batch where nobody sees it.
double InputShare(const Timeline& timeline);

// Of the process and its workers, of which those that follow each other share a line. Bounded: the shortest reads and
// copies go, and where batches alone are too many the shortest of these.
std::vector<InputLine> InputLines(const Timeline& timeline, uint32_t process);

}  // namespace tbprof

#endif  // TBPROF_WRITER_INPUT_PIPELINE_H_
