// SPDX-License-Identifier: Apache-2.0
//
// Assigns processes to ranks, finds missing ranks, and selects the rank that a profile shows: one file per rank,
// because the file's reader pairs the steps of several files, and takes the steps of two ranks in one file for one
// sequence.
//
// Process: converter, one thread. Untrusted: the ranks that processes report.
#ifndef TBPROF_WRITER_CONVERT_RANKS_H_
#define TBPROF_WRITER_CONVERT_RANKS_H_

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "wire/ranks.h"
#include "writer/convert/capture_window.h"
#include "writer/convert/session_facts.h"
#include "writer/spool/spool_facts.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

class Ranks {
 public:
  // All must outlive this.
  Ranks(const SessionFacts& session, const CaptureWindow& window, SpoolFacts* facts, Timeline* timeline)
      : session_(session), window_(window), facts_(facts), timeline_(timeline) {}

  // Leaves only the processes of the selected rank in `order` (kAnyRank: of the lowest rank, and of no rank). A process
  // belongs to the rank that it names, else to the rank of its nearest ancestor. Sets the ranks of the timeline and
  // their reports.
  void Choose(int wanted, std::vector<std::pair<uint64_t, Identity>>* order);

  // The rank by the rank variables of an image. If a spool has several schedulers, the first of the table counts: under
  // `srun torchrun` the number that Slurm gave to torchrun is not a rank.
  RankFacts OwnRankOf(const ProcessFacts& image) const;
  // The ranks that still ran when the command ended.
  const std::set<int>& unended() const { return unended_; }

 private:
  // A process that no other process of its rank started, with all images that it ran.
  struct RankProcess {
    int32_t pid = 0;
    int local_rank = -1;
    uint64_t start_ticks = 0, end_ticks = 0;  // 0: had not ended
    int exit_code = -1, exit_signal = 0;
    bool out_of_memory = false;

    bool failed() const { return exit_signal != 0 || exit_code > 0; }
  };

  void Find();
  void GiveRankToStarter();
  std::map<int, std::vector<RankProcess>> FindProcesses();
  void AddReports();
  void FindMissing(const std::set<int>& ranks, int local_world_size, int group);

  const SessionFacts& session_;
  const CaptureWindow& window_;
  SpoolFacts* const facts_;
  Timeline* const timeline_;
  int scheduler_ = -1;  // index into the table of wire/ranks.h
  std::set<int> unended_;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_RANKS_H_
