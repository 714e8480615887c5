// SPDX-License-Identifier: Apache-2.0
//
// From which share of the time on a cause is named.
//
// Process: converter.
#ifndef TBPROF_WRITER_VERDICT_CAUSE_LIMITS_H_
#define TBPROF_WRITER_VERDICT_CAUSE_LIMITS_H_

#include <cstddef>

#include "writer/verdict/cause_choice.h"

namespace tbprof {

// Pure Python is named only if it takes at least kLeastOfPython. New pages need kLeastOfPages: any program that
// allocates and frees large blocks spends about a fifth of its time on them.
inline constexpr double kLeastShare = kLeastShareOfCause, kLeastOfPython = 0.4, kLeastOfPages = 0.33;
// No cause is named if a larger share of the time is unknown.
inline constexpr double kMostUnknown = 0.5;
// From this share of the allowed CPUs on, the job itself uses up the CPUs.
inline constexpr double kOwnCpus = 0.7;
inline constexpr double kThrottled = 0.3;
// Least mean number of threads of the job that are runnable but have no CPU.
inline constexpr double kCrowd = 0.75;
// Ratio of the CPUs that the job demands to the allowed CPUs: from it on the job oversubscribes them itself, whatever
// other jobs run.
inline constexpr double kOwnDemand = 1.5;
// kLeastInput: share of the steps' time in waits for processes that prepare data. kMostlyInput: their share of the
// job's CPU time.
inline constexpr double kLeastInput = 0.08, kMostlyInput = 0.5;
inline constexpr size_t kMostWhere = 5;
// Share of the waits for descriptors in which a thread or process must be busy, so that it may be what they wait for.
inline constexpr double kBusyInPolls = 0.6;
inline constexpr double kMostlySleeps = 0.8;
// Share of a library's waits in which another thread is busy: below it, the library does not compute. Python that is
// busy for kBusyAlone of them is then what is waited for.
inline constexpr double kIdleBeside = 0.5, kBusyAlone = 0.4;
// Share of the workers' time in waits for the GIL: from it on, more of them do not help.
inline constexpr double kMostlyGil = 0.3;
// Share of a wait in which other threads hold the GIL: from it on they take turns.
inline constexpr double kMostlyHeld = 0.5;
// Share of the waits for the GIL from which on they come before the thread's own Python code: two threads that compute
// in Python have half of it each.
inline constexpr double kGilBeforePython = 0.25;
// Share of the waits for processes in which one of these starts.
inline constexpr double kMostlyStarts = 0.5;
// Smaller shares of the workers' time in waits for the GIL and for locks are not named.
inline constexpr double kLeastOfWorkers = 0.2, kMostlyAtLocks = 0.35;

}  // namespace tbprof

#endif  // TBPROF_WRITER_VERDICT_CAUSE_LIMITS_H_
