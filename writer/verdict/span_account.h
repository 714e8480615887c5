// SPDX-License-Identifier: Apache-2.0
//
// Where a thread's time in some spans goes: its recorded waits and what it did between them, by part of the step and
// by line.
//
//   const Account account = AccountOf(timeline, tags, thread, spans);
//
// Process: converter. Pure functions of the timeline.
#ifndef TBPROF_WRITER_VERDICT_SPAN_ACCOUNT_H_
#define TBPROF_WRITER_VERDICT_SPAN_ACCOUNT_H_

#include <cstdint>
#include <vector>

#include "writer/verdict/account.h"
#include "writer/verdict/gpu_time.h"

namespace tbprof {

// Adds the waits; of those for a GPU, its activity decides the part.
void AddWaits(const PythonTags& tags, const ThreadTime& time, const GpuTime& gpu, Account* account);

// `spans`: in order, disjoint. `tags` must outlive the account.
Account AccountOf(const Timeline& timeline, const PythonTags& tags, uint32_t thread,
                  const std::vector<TimeSpan>& spans);

}  // namespace tbprof

#endif  // TBPROF_WRITER_VERDICT_SPAN_ACCOUNT_H_
