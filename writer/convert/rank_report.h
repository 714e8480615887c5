// SPDX-License-Identifier: Apache-2.0
//
// The ranks of a run side by side: the activity of each, how it ended, and the slowest one.
//
//   FillRankReport(&timeline);                        // the numbers of the timeline's own rank, in timeline.by_rank
//   for (const std::string& text : RankWarnings(timeline)) ...
//
// Process: converter. Pure functions.
#ifndef TBPROF_WRITER_CONVERT_RANK_REPORT_H_
#define TBPROF_WRITER_CONVERT_RANK_REPORT_H_

#include <string>
#include <vector>

#include "writer/timeline/timeline.h"

namespace tbprof {

// `killed by SIGKILL`, `killed by SIGKILL (out of memory)`, `exit status 3`, `ended, exit status not known`.
std::string ExitText(int exit_code, int exit_signal, bool out_of_memory);

// Whether the rank ended, and not with status 0.
bool HasFailed(const RankReport& report);

void FillRankReport(Timeline* timeline);

// Replaces the report of the same rank, or inserts it in order of rank.
void PutRankReport(RankReport report, std::vector<RankReport>* reports);

struct RankTotals {
  uint64_t ranks = 0;  // that have numbers
  uint64_t processes = 0, threads = 0, records = 0;
  int64_t waited_ps = 0;
  double own_cost_seconds = 0;
};
RankTotals TotalsOf(const std::vector<RankReport>& reports);

// By the median length of their steps, and by their number; null if fewer than two ranks have steps.
struct RankSpeeds {
  const RankReport* slowest = nullptr;
  const RankReport* fastest = nullptr;
  const RankReport *fewest = nullptr, *most = nullptr;
  // By the share of their steps in waits for other ranks; null if fewer than two are known.
  const RankReport *waits_most = nullptr, *waits_least = nullptr;
  uint64_t without_steps = 0;  // ranks that have numbers and no steps
};
RankSpeeds SpeedsOf(const std::vector<RankReport>& reports);

// Ranks that failed, in the order of their failures, and ranks that were started again. At most one line for each of
// the first few; one line counts the rest.
std::vector<std::string> RankWarnings(const Timeline& timeline);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_RANK_REPORT_H_
