// SPDX-License-Identifier: Apache-2.0
#include "writer/verdict/rank_stragglers.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "writer/base/summary_format.h"
#include "writer/base/text.h"
#include "writer/verdict/cause_choice.h"

namespace tbprof {
namespace {

struct Extremes {
  const RankReport* most = nullptr;   // the rank that waits longest for the others
  const RankReport* least = nullptr;  // the straggler
  const RankReport* own = nullptr;
};

Extremes ExtremesOf(const Timeline& timeline) {
  Extremes found;
  for (const RankReport& report : timeline.by_rank) {
    if (!report.has_numbers || report.collectives_share < 0) continue;
    if (report.rank == timeline.rank) found.own = &report;
    if (found.most == nullptr || report.collectives_share > found.most->collectives_share) found.most = &report;
    if (found.least == nullptr || report.collectives_share < found.least->collectives_share) found.least = &report;
  }
  return found;
}

bool HasAllRanks(const Timeline& timeline) {
  const auto known = std::ranges::count(timeline.by_rank, true, &RankReport::has_numbers);
  return known >= std::max<int64_t>(timeline.world_size, static_cast<int64_t>(timeline.by_rank.size()));
}

std::string SharesText(const Extremes& ranks) {
  return StrCat("rank ", ranks.least->rank, " waits in collectives for ", HumanPercent(ranks.least->collectives_share),
                " of its step, rank ", ranks.most->rank, " for ", HumanPercent(ranks.most->collectives_share));
}

// This rank waits: the place where the slow rank spends its time becomes part of the cause.
void NameOther(const RankReport& slow, double share, Timeline* timeline) {
  Verdict& verdict = timeline->verdict;
  const bool same_places = verdict.part == StepPart::kCollectives;
  verdict.cause = Cause::kStraggler;
  verdict.part = StepPart::kCollectives;
  verdict.share = share;
  verdict.advice = Advice::kOfCause;
  std::erase_if(verdict.where, [&](const Where& where) { return !same_places || where.role == WhereRole::kWaitedFor; });
  const bool waits_too = slow.cause == Cause::kCollectives || slow.cause == Cause::kStraggler;
  if (IsProblem(slow.cause) && !waits_too && !slow.verdict.empty()) {
    verdict.blocker_cause = slow.cause;
    verdict.facts.push_back(StrCat("rank ", slow.rank, ": ", slow.verdict));
  }
  if (slow.busiest.function.empty()) return;
  Where where;
  where.role = WhereRole::kWaitedFor;
  where.thread = kOtherRank;
  where.rank = slow.rank;
  where.file = timeline->strings.Intern(slow.busiest.file);
  where.line = slow.busiest.line;
  where.function = timeline->strings.Intern(slow.busiest.function);
  verdict.where.push_back(std::move(where));
}

}  // namespace

void JudgeRanks(Timeline* timeline) {
  const Extremes ranks = ExtremesOf(*timeline);
  if (timeline->verdict.cause == Cause::kCollectives && !HasAllRanks(*timeline)) {
    timeline->verdict.advice = Advice::kFewRanks;
  }
  if (ranks.own == nullptr || ranks.most == ranks.least) return;
  const double most = ranks.most->collectives_share, least = ranks.least->collectives_share;
  if (!IsStraggler(most, least) || most - least < kLeastShareOfCause) return;
  Verdict& verdict = timeline->verdict;
  const double own = ranks.own->collectives_share;
  const bool larger = IsProblem(verdict.cause) && verdict.cause != Cause::kCollectives && verdict.share > own;
  if (own - least >= kLeastShareOfCause && IsStraggler(own, least) && !larger) {
    NameOther(*ranks.least, own - least, timeline);
  } else if (ranks.own == ranks.least && (verdict.cause == Cause::kCollectives || !IsProblem(verdict.cause))) {
    // Where it waits for others itself is not why they wait for it.
    if (verdict.cause == Cause::kCollectives) {
      verdict.where.clear();
      if (verdict.busiest.has_value()) verdict.where.push_back(*verdict.busiest);
    }
    verdict.cause = Cause::kStraggler;
    verdict.advice = Advice::kOfCause;
    verdict.share = most - least;
    verdict.waiting_rank = ranks.most->rank;
  } else if (ranks.own != ranks.least) {
    return;
  }
  verdict.facts.push_back(SharesText(ranks));
}

}  // namespace tbprof
