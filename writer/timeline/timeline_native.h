// SPDX-License-Identifier: Apache-2.0
//
// The native part of a timeline: stacks of threads that were running, sampled by the kernel. Times and indexes as in
// timeline.h.
//
// Process: the converter.
#ifndef TBPROF_WRITER_TIMELINE_TIMELINE_NATIVE_H_
#define TBPROF_WRITER_TIMELINE_TIMELINE_NATIVE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace tbprof {

using StringId = uint32_t;

// A frame and its callers. Index 0: none.
struct NativeStack {
  uint32_t parent = 0;    // index into NativeTimeline::stacks, below its own; 0: the outermost
  StringId function = 0;  // `gemm_kernel`; its module if it has no name
  StringId module = 0;    // `libblas.so.3`; empty: not known
  StringId site = 0;      // `gemm_kernel (gemm.c:123)`
  StringId file = 0;      // source file, as the debug information has it; 0: unknown
  int32_t line = -1;      // of `file`; -1: unknown
  bool is_gap = false;    // stands for frames that were not found
};

// Consecutive samples of a thread in one function with the same callers.
struct NativeSpan {
  int64_t start_ps = 0;
  int64_t duration_ps = 0;
  uint32_t stack = 0;  // index into NativeTimeline::stacks
  uint32_t samples = 0;
  uint32_t depth = 0;  // number of callers, including those without a span
};

// A sample. It stands for the CPU time since the sample before it; spans end in the middle of that time.
struct NativePoint {
  int64_t at_ps = 0;
  uint32_t period_us = 0;  // of the thread's CPU time
  uint32_t stack = 0;      // index into NativeTimeline::stacks
};
inline int64_t PeriodPs(const NativePoint& point) { return point.period_us * int64_t{1'000'000}; }

// All samples of a thread with one stack, including those without a point.
struct NativeTally {
  uint32_t stack = 0;
  uint64_t samples = 0;
  int64_t cpu_ps = 0;
};

struct NativeThread {
  uint32_t thread = 0;               // index into Timeline::threads
  std::vector<NativePoint> points;   // in order of time
  std::vector<NativeSpan> spans;     // sorted by (start ascending, duration descending), nested or apart
  std::vector<NativeTally> tallies;  // sorted by stack
};

enum class NativeSampling : uint8_t {
  kSampled,
  kRefused,  // a remedy exists: see `reason`
  kMissing,  // the kernel has no such events: see `reason`
  kOff,
};

struct NativeProcess {
  uint32_t process = 0;  // index into Timeline::processes
  NativeSampling sampling = NativeSampling::kSampled;
  std::string reason;
  bool paused = false;    // threads that switched too often have fewer samples than CPU time
  int64_t period_ps = 0;  // of CPU time between two samples of a thread
  uint64_t samples = 0;   // of the whole run
  uint64_t lost = 0;      // of the whole run, lost by the kernel
  uint64_t cut = 0;       // of the whole run, stacks whose outer frames could not be found
};

struct NativeTimeline {
  std::vector<NativeStack> stacks;
  std::vector<NativeThread> threads;     // sorted by thread; those with samples
  std::vector<NativeProcess> processes;  // sorted by process
  uint64_t samples_without_point = 0;    // only in the tallies
  uint64_t spans_left_out = 0;           // by the budget
  // Null: it has no samples.
  const NativeThread* OfThread(uint32_t thread) const;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_TIMELINE_TIMELINE_NATIVE_H_
