// SPDX-License-Identifier: Apache-2.0
//
// Compares a rank's verdict with those of the other ranks and finds the rank that the others wait for.
//
//   JudgeRanks(&timeline);   // once timeline.by_rank is complete
//
// Process: converter. A pure function of the timeline.
#ifndef TBPROF_WRITER_VERDICT_RANK_STRAGGLERS_H_
#define TBPROF_WRITER_VERDICT_RANK_STRAGGLERS_H_

#include "writer/timeline/timeline.h"

namespace tbprof {

// If this rank waits in collectives while another rank hardly waits, the other rank is the cause. If this rank is the
// one that hardly waits and its own verdict names no problem, the cause is that another rank waits for it; if its own
// verdict names a problem, only a fact is added. Otherwise nothing changes.
void JudgeRanks(Timeline* timeline);

}  // namespace tbprof

#endif  // TBPROF_WRITER_VERDICT_RANK_STRAGGLERS_H_
