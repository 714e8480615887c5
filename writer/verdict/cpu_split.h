// SPDX-License-Identifier: Apache-2.0
//
// What a thread did between its recorded waits: interpreter, native code, garbage collection, or off the CPU.
//
// The kernel's counters (Timeline::usage) give the time on a CPU and the time in which the thread was runnable without
// one. The Python samples divide this time by line, and the native samples divide it into interpreter and native code.
//
// Process: converter.
#ifndef TBPROF_WRITER_VERDICT_CPU_SPLIT_H_
#define TBPROF_WRITER_VERDICT_CPU_SPLIT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "writer/verdict/account.h"
#include "writer/verdict/native_places.h"

namespace tbprof {

// The kernel's counters of one thread within some spans.
struct UsageInSpans {
  bool known = false;
  int64_t cpu_ps = 0, run_delay_ps = 0;
  double major_faults = 0, minor_faults = 0;
};
UsageInSpans UsageOf(const Timeline& timeline, uint32_t thread, const std::vector<TimeSpan>& spans);
// CPU time in the kernel that the page faults took, without that of giving the pages back, in ps.
double FaultPs(const Timeline& timeline, const UsageInSpans& usage);

// CPU time that the kernel counted from the first reading to the last: of a thread, and of all threads of a process.
int64_t CpuOfThread(const Timeline& timeline, uint32_t thread);
int64_t CpuOfProcess(const Timeline& timeline, uint32_t process);

// Whether the kernel samples the native stacks of the process.
bool IsNativeSampled(const Timeline& timeline, uint32_t process);

// Whether these samples were paused for a time, because a thread switched too often.
bool IsPaused(const Timeline& timeline, uint32_t process);

// Modules of native code: the Python interpreter, and libraries whose time belongs to the caller (libc and the like).
bool IsInterpreter(std::string_view module);
bool IsHelper(std::string_view module);

// Whether the function is a call of MPI that waits for other ranks or moves data between them.
bool IsCallOfMpi(std::string_view function);

enum class NativeClass : uint8_t {
  kPython,
  kOperations,
  kGarbageCollection,
  kCollectives,  // in a call of MPI, which mostly waits for other ranks by asking again and again
};
inline constexpr size_t kNativeClasses = 4;
// The class of each native stack.
std::vector<NativeClass> NativeClassesOf(const Timeline& timeline);

// Divides ThreadTime::running among the parts of `account`, without `quick_ps` of it, which the account has by now
// (quick_calls.h). Appends to `limits` the facts that were unknown.
void SplitRunning(const Timeline& timeline, const PythonTags& tags, const NativePlaces& natives, uint32_t thread,
                  const ThreadTime& time, const UsageInSpans& usage, int64_t quick_ps, Account* account,
                  std::vector<std::string>* limits);

}  // namespace tbprof

#endif  // TBPROF_WRITER_VERDICT_CPU_SPLIT_H_
