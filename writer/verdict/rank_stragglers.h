// SPDX-License-Identifier: Apache-2.0
//
// The verdict of a rank with those of the others beside it: which of them the others wait for.
//
//   JudgeRanks(&timeline);   // once timeline.by_rank is complete
//
// Process: converter. A pure function of the timeline.
#ifndef TBPROF_WRITER_VERDICT_RANK_STRAGGLERS_H_
#define TBPROF_WRITER_VERDICT_RANK_STRAGGLERS_H_

#include "writer/timeline/timeline.h"

namespace tbprof {

// Where this rank waits in collectives while another one hardly does, that one is the cause. Where it is this one, and
// nothing is to be mended by its own verdict, the cause is that another waits for it. Else nothing changes.
void JudgeRanks(Timeline* timeline);

}  // namespace tbprof

#endif  // TBPROF_WRITER_VERDICT_RANK_STRAGGLERS_H_
