// SPDX-License-Identifier: Apache-2.0
//
// Where the threads of a program without Python run: the program's own native functions, by sampled stacks.
//
// A sample counts for its innermost function in the program's executable, whatever libraries it called, those of the
// language too; else for the innermost one outside of libc and the like.
//
// Process: converter. Pure function of the timeline.
#ifndef TBPROF_WRITER_VERDICT_NATIVE_PLACES_H_
#define TBPROF_WRITER_VERDICT_NATIVE_PLACES_H_

#include <cstdint>
#include <vector>

#include "writer/timeline/time_span.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

struct NativePlace {
  StringId function = 0;  // 0: of functions without a name
  int64_t ps = 0;         // CPU time
  int64_t in_mpi_ps = 0;  // part of it in calls of MPI
};

struct NativeLine {
  StringId file = 0;  // 0: not known
  int32_t line = -1;  // -1: the function's time is spread over its lines
};

// The line at which `thread` is most of the time that it spends in `function`, and what that calls.
NativeLine MainLineOf(const Timeline& timeline, uint32_t thread, StringId function);

class NativePlaces {
 public:
  // Must outlive this.
  explicit NativePlaces(const Timeline& timeline);

  // The thread's process has native samples, and no Python that was sampled.
  bool IsNative(uint32_t thread) const;
  // The same, and the thread itself has samples.
  bool Has(uint32_t thread) const;
  // The sampled time within `spans` (sorted, apart), longest first. Empty if Has is false.
  std::vector<NativePlace> In(uint32_t thread, const std::vector<TimeSpan>& spans) const;
  // Most of the thread's samples are in functions of the program's executable that have no name.
  bool AreUnnamed(uint32_t thread) const;

 private:
  const Timeline& timeline_;
  std::vector<StringId> own_;     // by stack
  std::vector<bool> unnamed_;     // by stack: a frame of the executable has no name
  std::vector<bool> in_mpi_;      // by stack
  std::vector<bool> are_native_;  // by process
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_VERDICT_NATIVE_PLACES_H_
