// SPDX-License-Identifier: Apache-2.0
//
// What a thread did between its recorded waits: the interpreter, native code, garbage collection, or no CPU.
//
// How long it was on a CPU, and how long it could have been, the kernel counts (Timeline::usage). By which line, the
// samples of Python tell; whether in the interpreter or below it, the native samples.
//
// Process: converter.
#ifndef TBPROF_WRITER_VERDICT_CPU_SPLIT_H_
#define TBPROF_WRITER_VERDICT_CPU_SPLIT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "writer/verdict/account.h"

namespace tbprof {

// What the kernel counted of a thread in some spans.
struct UsageInSpans {
  bool known = false;
  int64_t cpu_ps = 0, run_delay_ps = 0;
  double major_faults = 0, minor_faults = 0;
};
UsageInSpans UsageOf(const Timeline& timeline, uint32_t thread, const std::vector<TimeSpan>& spans);

enum class NativeClass : uint8_t { kPython, kOperations, kGarbageCollection };
inline constexpr size_t kNativeClasses = 3;
// Of each native stack.
std::vector<NativeClass> NativeClassesOf(const Timeline& timeline);

// Divides ThreadTime::running among parts of `account`. `limits` gets what was not known.
void SplitRunning(const Timeline& timeline, const PythonTags& tags, uint32_t thread, const ThreadTime& time,
                  const UsageInSpans& usage, Account* account, std::vector<std::string>* limits);

}  // namespace tbprof

#endif  // TBPROF_WRITER_VERDICT_CPU_SPLIT_H_
