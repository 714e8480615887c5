// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "writer/base/median.h"
#include "writer/steps/python_loop.h"

namespace tbprof {
namespace {

// A library needs less than 0.1 ms between two waits for one result, unless the thread does not get a CPU.
constexpr double kLeastGapPs = 20e6, kUsualGapPs = 50e6, kMostGapPs = 640e6;
constexpr double kGapFactor = 1.25;
// Gaps within this factor of a bound count against it.
constexpr double kNear = 1.6;
constexpr size_t kFewestVisits = 12;
// Number of lengths before and behind a length that it is compared with.
constexpr size_t kAround = 8;
constexpr double kShort = 0.3, kLong = 2.5;
// Upper limit of the 90th minus the 10th percentile of regular lengths, relative to the lengths around them. Random
// visits have 1.7.
constexpr double kMostSpread = 1;
constexpr double kLeastRegular = 0.75, kNearlyAllVisits = 0.9;
// Share of the longest regular time of a row: among rows with at least this share, the most frequent one is the step.
constexpr double kAsMuchTime = 0.9;

// Returns the bound between short and long gaps: the value with the fewest gaps near it.
double BoundOfGaps(std::vector<double> gaps) {
  std::ranges::sort(gaps);
  double best = kUsualGapPs;
  auto fewest = static_cast<size_t>(-1);
  double distance = 0;
  for (double bound = kLeastGapPs; bound <= kMostGapPs; bound *= kGapFactor) {
    const auto near = std::ranges::upper_bound(gaps, bound * kNear) - std::ranges::lower_bound(gaps, bound / kNear);
    const auto count = static_cast<size_t>(near);
    const double away = std::abs(std::log(bound / kUsualGapPs));
    if (count > fewest || (count == fewest && away >= distance)) continue;
    best = bound;
    fewest = count;
    distance = away;
  }
  return best;
}

struct Row {
  std::vector<const LineVisit*> visits;
  std::vector<double> lengths;  // from one visit to the next
  std::vector<bool> is_regular;
  double median = 0;
  double regular_ps = 0;
  double spread = 0;
  size_t regular = 0;
};

int64_t CutOf(const LineVisit& visit) { return visit.waits ? visit.end_ps : visit.start_ps; }

// Compares each length with those around it: a program that has fewer CPUs for a while is slower, but as regular.
void Measure(Row* row) {
  for (size_t i = 1; i < row->visits.size(); ++i) {
    row->lengths.push_back(static_cast<double>(CutOf(*row->visits[i]) - CutOf(*row->visits[i - 1])));
  }
  row->median = Median(row->lengths);
  std::vector<double> relative;
  const size_t all = row->lengths.size();
  for (size_t i = 0; i < all; ++i) {
    const size_t from = i < kAround ? 0 : i - kAround, to = std::min(all, i + kAround + 1);
    const double usual = Median(std::vector<double>(row->lengths.begin() + static_cast<std::ptrdiff_t>(from),
                                                    row->lengths.begin() + static_cast<std::ptrdiff_t>(to)));
    const double length = row->lengths[i] / std::max(usual, 1.0);
    row->is_regular.push_back(length >= kShort && length <= kLong);
    if (!row->is_regular.back()) continue;
    ++row->regular;
    row->regular_ps += row->lengths[i];
    relative.push_back(length);
  }
  if (relative.empty()) return;
  std::ranges::sort(relative);
  row->spread = relative[relative.size() * 9 / 10] - relative[relative.size() / 10];
}

double Share(const Row& row) { return static_cast<double>(row.regular) / static_cast<double>(row.lengths.size()); }

bool IsRegular(const Row& row) {
  return row.regular + 1 >= kFewestVisits && row.spread <= kMostSpread && Share(row) >= kLeastRegular;
}

// Prefers the row that is more regular; of rows that are nearly all regular, the one with the most visits.
bool IsBetter(const Row& row, const Row& than) {
  const double share = std::min(Share(row), kNearlyAllVisits), other = std::min(Share(than), kNearlyAllVisits);
  return share != other ? share > other : row.visits.size() > than.visits.size();
}

// Merges consecutive visits of one line.
std::vector<LineVisit> WholeLines(const std::vector<LineVisit>& visits) {
  std::vector<LineVisit> lines;
  for (const LineVisit& visit : visits) {
    if (lines.empty() || lines.back().path != visit.path) {
      lines.push_back(visit);
      continue;
    }
    lines.back().end_ps = std::max(lines.back().end_ps, visit.end_ps);
    lines.back().waits = visit.waits;
  }
  return lines;
}

StepDetection StepsOf(const Row& row) {
  StepDetection found;
  for (size_t i = 0; i < row.lengths.size(); ++i) {
    DetectedStep step{CutOf(*row.visits[i]), CutOf(*row.visits[i + 1])};
    if (step.end_ps <= step.start_ps) continue;
    if (!row.is_regular[i]) {
      step.kind = DetectedStep::Kind::kIrregular;
      if (row.lengths[i] > row.median) step.cause = DetectedStep::Cause::kPause;
    }
    found.steps.push_back(step);
  }
  found.period_ps = static_cast<int64_t>(row.median);
  const auto regular = static_cast<double>(row.regular);
  found.confidence = std::clamp(1.15 - 0.5 * row.spread, 0.0, 1.0) * (1 - std::exp(-regular / 6)) * regular /
                     static_cast<double>(row.lengths.size());
  return found;
}

}  // namespace

void MergeWaits(std::vector<LineVisit>* visits) {
  std::map<uint64_t, std::vector<double>> gaps;  // by symbol
  const auto follows = [](const LineVisit& visit, const LineVisit& before) {
    return visit.waits && before.waits && visit.symbol == before.symbol;
  };
  for (size_t i = 1; i < visits->size(); ++i) {
    if (!follows((*visits)[i], (*visits)[i - 1])) continue;
    gaps[(*visits)[i].symbol].push_back(static_cast<double>((*visits)[i].start_ps - (*visits)[i - 1].end_ps));
  }
  std::map<uint64_t, double> bounds;
  for (auto& [symbol, of] : gaps) bounds[symbol] = BoundOfGaps(std::move(of));
  std::vector<LineVisit> merged;
  for (const LineVisit& visit : *visits) {
    if (!merged.empty() && follows(visit, merged.back()) &&
        static_cast<double>(visit.start_ps - merged.back().end_ps) < bounds[visit.symbol]) {
      merged.back().end_ps = std::max(merged.back().end_ps, visit.end_ps);
      merged.back().for_clock &= visit.for_clock;
    } else {
      merged.push_back(visit);
    }
  }
  *visits = std::move(merged);
}

StepDetection DetectStepsAtOneLine(const std::vector<LineVisit>& visits) {
  const std::vector<LineVisit> lines = WholeLines(visits);
  std::map<uint64_t, Row> rows;  // by symbol; rows of whole lines by path, which equals no symbol
  for (const LineVisit& visit : visits) rows[visit.symbol].visits.push_back(&visit);
  for (const LineVisit& line : lines) rows[line.path].visits.push_back(&line);
  double most_ps = 0;
  for (auto& [symbol, row] : rows) {
    if (row.visits.size() < kFewestVisits) continue;
    Measure(&row);
    if (IsRegular(row)) most_ps = std::max(most_ps, row.regular_ps);
  }
  const Row* best = nullptr;
  for (const auto& [symbol, row] : rows) {
    if (!IsRegular(row) || row.regular_ps < kAsMuchTime * most_ps) continue;
    if (best == nullptr || IsBetter(row, *best)) best = &row;
  }
  if (best == nullptr) return {};
  StepDetection found = StepsOf(*best);
  // A row that occurs at every few visits of the best one may be the step instead.
  for (const auto& [symbol, row] : rows) {
    if (&row == best || !IsRegular(row)) continue;
    const double ratio = row.median / best->median;
    if (ratio < 1.5 || ratio > kMostPartsOfStep + 0.5 || row.regular_ps < kAsMuchTime * most_ps) continue;
    found.alternative = std::round(ratio);
  }
  return found;
}

}  // namespace tbprof
