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

// The rank's share at a place of another rank, or the most that it can be: only the longest places are known.
struct ShareAtPlace {
  double share = 0;
  bool is_most = false;
};
ShareAtPlace ShareAt(const RankReport& report, const RankPlace& place) {
  const auto found = std::ranges::find_if(report.places, [&](const RankPlace& own) {
    return own.line == place.line && own.file == place.file && own.function == place.function;
  });
  if (found != report.places.end()) return {found->share, false};
  return {report.places.empty() ? 1 : report.places.back().share, true};
}

struct Extremes {
  const RankReport* most = nullptr;   // the rank that waits longest for the others
  const RankReport* least = nullptr;  // the straggler
  const RankReport* own = nullptr;
};

bool HasShare(const RankReport& report) { return report.has_numbers && report.collectives_share >= 0; }

// Shares of steps, of a loop and of a whole run are not compared, unless the ranks were sampled at the same time
// (`tbprof attach`): those of steps come first, else those that this rank has.
Extremes ExtremesOf(const Timeline& timeline) {
  Extremes found;
  VerdictBasis basis = VerdictBasis::kNone;
  for (const RankReport& report : timeline.by_rank) {
    const bool is_of_steps = report.share_basis == VerdictBasis::kSteps;
    if (HasShare(report) && (is_of_steps || (report.rank == timeline.rank && basis != VerdictBasis::kSteps)))
      basis = report.share_basis;
  }
  for (const RankReport& report : timeline.by_rank) {
    if (!HasShare(report) || (!timeline.attached && report.share_basis != basis)) continue;
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

std::string_view OfWhat(const RankReport& report) {
  return report.share_basis == VerdictBasis::kSteps ? " of its step" : " of its time";
}

std::string SharesText(const Extremes& ranks) {
  return StrCat("rank ", ranks.least->rank, " waits in collectives for ", HumanPercent(ranks.least->collectives_share),
                OfWhat(*ranks.least), ", rank ", ranks.most->rank, " for ", HumanPercent(ranks.most->collectives_share),
                ranks.most->share_basis == ranks.least->share_basis ? "" : OfWhat(*ranks.most));
}

// Smaller differences between the shares of two ranks are none.
constexpr double kNearlySame = 0.05;

// The place of the slow rank at which it spends most, compared with another rank, which runs the same program; the
// longest, if none differs. SIZE_MAX: it has no places.
size_t DiffersAt(const RankReport& slow, const RankReport& other) {
  size_t best = SIZE_MAX;
  double most = kNearlySame;
  for (size_t i = 0; i < slow.places.size(); ++i) {
    const double excess = slow.places[i].share - ShareAt(other, slow.places[i]).share;
    if (excess <= most) continue;
    most = excess;
    best = i;
  }
  return best == SIZE_MAX && !slow.places.empty() ? 0 : best;
}

// `there rank 1 spends 28 % of its step, rank 0 at most 8.0 %`; empty: they spend nearly the same.
std::string DifferenceText(const RankReport& slow, const RankReport& other, const RankPlace& place) {
  const ShareAtPlace usual = ShareAt(other, place);
  if (place.share - usual.share <= kNearlySame) return "";
  return StrCat("there rank ", slow.rank, " spends ", HumanPercent(place.share), OfWhat(slow), ", rank ", other.rank,
                usual.is_most ? " at most " : " ", HumanPercent(usual.share));
}

// This rank waits: the place where the slow rank spends its time becomes part of the cause.
void NameOther(const RankReport& slow, const RankReport& other, double share, Timeline* timeline) {
  Verdict& verdict = timeline->verdict;
  const bool same_places = verdict.part == StepPart::kCollectives;
  verdict.cause = Cause::kStraggler;
  verdict.part = StepPart::kCollectives;
  verdict.share = share;
  verdict.advice = Advice::kOfCause;
  verdict.remedy.reset();
  std::erase_if(verdict.where, [&](const Where& where) { return !same_places || where.role == WhereRole::kWaitedFor; });
  const bool waits_too = slow.cause == Cause::kCollectives || slow.cause == Cause::kStraggler;
  if (IsProblem(slow.cause) && !waits_too && !slow.verdict.empty()) {
    verdict.blocker_cause = slow.cause;
    verdict.facts.push_back(StrCat("rank ", slow.rank, ": ", slow.verdict));
  }
  const size_t at = DiffersAt(slow, other);
  if (at == SIZE_MAX) return;
  const RankPlace& place = slow.places[at];
  Where where;
  where.role = WhereRole::kWaitedFor;
  where.thread = kOtherRank;
  where.rank = slow.rank;
  where.file = timeline->strings.Intern(place.file);
  where.line = place.line;
  where.function = timeline->strings.Intern(place.function);
  verdict.where.push_back(std::move(where));
  if (std::string text = DifferenceText(slow, other, place); !text.empty()) verdict.facts.push_back(std::move(text));
}

}  // namespace

void JudgeRanks(Timeline* timeline) {
  if (!timeline->verdict.hangs.empty()) return;  // where each rank waits at the end is in its texts
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
    NameOther(*ranks.least, *ranks.own, own - least, timeline);
  } else if (ranks.own == ranks.least && (verdict.cause == Cause::kCollectives || !IsProblem(verdict.cause))) {
    // Where it waits for others itself is not why they wait for it.
    if (verdict.cause == Cause::kCollectives) {
      verdict.where.clear();
      const size_t at = DiffersAt(*ranks.own, *ranks.most);
      if (at < verdict.places.size()) verdict.where.push_back(verdict.places[at]);
    }
    verdict.cause = Cause::kStraggler;
    verdict.advice = Advice::kOfCause;
    verdict.remedy.reset();
    verdict.share = most - least;
    verdict.waiting_rank = ranks.most->rank;
  } else if (ranks.own != ranks.least) {
    return;
  }
  verdict.facts.push_back(SharesText(ranks));
}

}  // namespace tbprof
