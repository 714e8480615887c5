// SPDX-License-Identifier: Apache-2.0
//
// Chooses the cause that takes the largest share of the steps, with the lines and numbers that support it.
//
// Process: converter.
#ifndef TBPROF_WRITER_VERDICT_CAUSE_CHOICE_H_
#define TBPROF_WRITER_VERDICT_CAUSE_CHOICE_H_

#include "writer/verdict/account.h"
#include "writer/verdict/cpu_split.h"
#include "writer/verdict/gpu_time.h"
#include "writer/verdict/step_span.h"
#include "writer/verdict/verdict.h"

namespace tbprof {

// Least share of the steps for which a problem is named.
inline constexpr double kLeastShareOfCause = 0.22;

struct CauseInputs {
  const Timeline& timeline;
  const PythonTags& tags;
  const WaitClasses& classes;
  const NativePlaces& natives;
  const StepSpan& span;
  const ThreadTime& time;
  const GpuTime& gpu;
  const UsageInSpans& usage;
  const Account& account;
};

// Fills cause, part, share, where, facts and reason. `verdict` must already contain the split into parts.
void ChooseCause(const CauseInputs& inputs, Verdict* verdict);

// How unevenly the processes of a job wait for each other at barriers or in collectives.
struct Stragglers {
  bool found = false;
  uint32_t slow_thread = 0;       // main thread of the process that waits least
  std::vector<uint32_t> threads;  // main threads of all processes that wait for each other
  double others_wait = 0;         // share of the spans that the process with the longest waits spends waiting
  double slow_waits = 0;
};
// `most`, `least`: shares of the time that the longest-waiting and the shortest-waiting process wait.
bool IsStraggler(double most, double least);
Stragglers FindStragglers(const CauseInputs& inputs);
// What the slow process does, and how long the others wait for it. Needs the verdict's total_ps.
void AddPlacesOf(const Stragglers& stragglers, const CauseInputs& inputs, Verdict* verdict);

}  // namespace tbprof

#endif  // TBPROF_WRITER_VERDICT_CAUSE_CHOICE_H_
