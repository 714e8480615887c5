// SPDX-License-Identifier: Apache-2.0
//
// The share of the steps' time that is spent waiting for input: measured if a loader is known; else *unknown*, with the
// waits that may be input, or *none* if the steps' thread hardly waits at all. Never zero without a measurement.
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

// Calls of these families wait; outside of them the thread runs.
inline bool IsWait(EventFamily family) {
  return family == EventFamily::kLock || family == EventFamily::kSleep || family == EventFamily::kIo ||
         family == EventFamily::kProcess || family == EventFamily::kThread;
}

enum class WaitPurpose : uint8_t {
  kInput,       // the next batch
  kOther,       // known not to be input: a write, the backward pass, a collective
  kUnknown,     // for another thread or process, Python's interpreter, a pipe, a socket, a sleep
  kRead,        // the thread reads data itself, almost without waiting
  kInFunction,  // a function of TensorFlow takes its batches itself, at times that are not recorded
};

// An interval in which the thread of the steps did not run.
struct StepWait {
  int64_t start_ps = 0;
  int64_t end_ps = 0;
  WaitPurpose purpose = WaitPurpose::kOther;
  uint16_t type = 0;       // of the call or range
  StringId call_site = 0;  // of the call
};

// The outermost waits of a thread: in order, disjoint.
std::vector<StepWait> StepWaits(const Timeline& timeline, uint32_t thread);

// When tf.data gave batches to TensorFlow's operations and functions, mostly on a separate thread: in order, disjoint.
std::vector<StepWait> BatchesOfFunctions(const Timeline& timeline, uint32_t process);

enum class InputWaitState : uint8_t { kUnknown, kNone, kMeasured };
enum class InputUnknown : uint8_t {
  kNoSteps,
  kNotRecorded,  // waits were not recorded
  kNotDrawn,     // short waits, which only totals include, may be for input
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
  InputUnknown cause = InputUnknown::kNoSteps;  // for kUnknown
  std::string_view loader;                      // for kMeasured
  double share = 0;                             // for kMeasured; for kNone: at most
  double unknown_share = 0;                     // waits of an unknown purpose
  double read_steps = 0;                        // share of the steps whose thread reads data itself
  std::vector<NamedWait> unknown;               // the longest of these waits, longest first
};
InputWait MeasureInputWait(const Timeline& timeline);

// Waits of an unknown purpose are reported from this share of the steps on; TensorBoard calls a program input-bound
// from the same share on.
inline constexpr double kMuchWaiting = 0.05;

// One line for people; empty: there are no steps.
std::string InputWaitText(const InputWait& input);

// The loader from which the program gets its batches, for people; empty: no known loader.
std::string_view LoaderOf(const Timeline& timeline);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_INPUT_WAIT_H_
