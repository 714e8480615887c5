// SPDX-License-Identifier: Apache-2.0
//
// How much of the steps' time goes into waiting for input: measured where a loader is known, else *unknown* with the
// waits that may be it, or *none* where the steps' thread hardly waits at all. Never a zero that was not measured.
//
//   const InputWait input = MeasureInputWait(timeline);
//   if (input.state == InputWaitState::kMeasured) ... input.share
//
// Process: converter. Pure functions of the timeline.
#ifndef TBPROF_WRITER_CONVERT_INPUT_WAIT_H_
#define TBPROF_WRITER_CONVERT_INPUT_WAIT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "writer/timeline/timeline.h"

namespace tbprof {

// Calls of these families wait; their thread runs outside of them.
inline bool IsWait(EventFamily family) {
  return family == EventFamily::kLock || family == EventFamily::kSleep || family == EventFamily::kIo ||
         family == EventFamily::kProcess || family == EventFamily::kThread;
}

enum class WaitPurpose : uint8_t {
  kInput,       // the next batch
  kOther,       // known not to be input: a write, the backward pass, a collective
  kUnknown,     // another thread or process, Python's interpreter, a pipe, a socket, a sleep
  kRead,        // the thread reads data itself, and hardly waits for them
  kInFunction,  // a function of TensorFlow that takes its batches itself, where nothing shows when
};

// What the thread of steps did instead of running.
struct StepWait {
  int64_t start_ps = 0;
  int64_t end_ps = 0;
  WaitPurpose purpose = WaitPurpose::kOther;
  uint16_t type = 0;       // of the call or range
  StringId call_site = 0;  // of the call
};

// The outermost ones of a thread: in order, disjoint.
std::vector<StepWait> StepWaits(const Timeline& timeline, uint32_t thread);

// When tf.data gave batches to TensorFlow's operations and functions, mostly on a thread of its own: in order,
// disjoint.
std::vector<StepWait> BatchesOfFunctions(const Timeline& timeline, uint32_t process);

enum class InputWaitState : uint8_t { kUnknown, kNone, kMeasured };
enum class InputUnknown : uint8_t {
  kNoSteps,
  kNotRecorded,  // waits are no part of what was recorded
  kNotDrawn,     // short waits, of which only totals are kept, may be it
  kInFunction,
  kWaits,
  kReads,
};

struct NamedWait {
  std::string name;  // `sem_wait in PyThread_acquire_lock_timed (thread_pthread.h:497)`
  double share = 0;
};

// Shares are of the regular steps' time.
struct InputWait {
  InputWaitState state = InputWaitState::kUnknown;
  InputUnknown cause = InputUnknown::kNoSteps;  // of kUnknown
  std::string_view loader;                      // of kMeasured
  double share = 0;                             // of kMeasured; of kNone: at most
  double unknown_share = 0;                     // waits of an unknown purpose
  double read_steps = 0;                        // of the steps: in which their thread reads data itself
  std::vector<NamedWait> unknown;               // the longest of these waits, longest first
};
InputWait MeasureInputWait(const Timeline& timeline);

// From this share of the steps on, waits of an unknown purpose are reported; TensorBoard calls a program input-bound
// from the same one on.
inline constexpr double kMuchWaiting = 0.05;

// One line for people; empty: there are no steps.
std::string InputWaitText(const InputWait& input);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_INPUT_WAIT_H_
