// SPDX-License-Identifier: Apache-2.0
#include "launcher/gate/window_shares.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <utility>

namespace tbprof {
namespace {

constexpr AmountKind kKinds[] = {AmountKind::kPart, AmountKind::kOwnLine, AmountKind::kPythonLine,
                                 AmountKind::kFunction};
// Least difference of a row. A line that a full list of 20 leaves out has less.
constexpr double kLeastPoints = 0.05;
// Samples that follow each other are mostly of the same call: as sure as one in this number of independent ones.
constexpr double kSamplesOfACall = 10;
constexpr double kErrors = 3;
constexpr double kSamplesASecond = 100;  // parts are of recorded calls and counted CPU time as well

using Shares = std::map<std::string, double>;  // by name, the mean of the windows of a side

// Empty: a window has none of this kind.
Shares SharesOf(const Side& side, AmountKind kind) {
  Shares shares;
  for (const RunNumbers& run : side.runs) {
    bool has = false;
    for (const Amount& amount : run.shares) {
      if (amount.kind != kind) continue;
      has = true;
      shares[amount.name] += amount.per_step / static_cast<double>(side.runs.size());
    }
    if (!has) return {};
  }
  return shares;
}

double SamplesOf(const Side& side, AmountKind kind) {
  double samples = 0;
  for (const RunNumbers& run : side.runs) {
    samples += kind == AmountKind::kFunction ? run.native_samples
               : kind == AmountKind::kPart   ? std::max(run.python_samples, run.wall_s.value_or(0) * kSamplesASecond)
                                             : run.python_samples;
  }
  return samples;
}

double Variance(double share, double samples) {
  const double independent = std::max(1.0, samples / kSamplesOfACall);
  return std::clamp(share, 0.0, 1.0) * std::clamp(1 - share, 0.0, 1.0) / independent;
}

std::vector<ShareRow> RowsOf(const Side& base, const Side& now, AmountKind kind) {
  const Shares of_base = SharesOf(base, kind), of_now = SharesOf(now, kind);
  if (of_base.empty() || of_now.empty()) return {};
  std::map<std::string, std::pair<double, double>> shares;
  for (const auto& [name, share] : of_base) shares[name].first = share;
  for (const auto& [name, share] : of_now) shares[name].second = share;
  const double base_samples = SamplesOf(base, kind), now_samples = SamplesOf(now, kind);
  std::vector<ShareRow> rows;
  for (const auto& [name, pair] : shares) {
    // The variance at the mean of both: a share of 0 has none.
    const double middle = (pair.first + pair.second) / 2;
    const double error = std::sqrt(Variance(middle, base_samples) + Variance(middle, now_samples));
    const double points = std::abs(pair.second - pair.first);
    if (points >= std::max(kLeastPoints, kErrors * error)) rows.push_back({kind, name, pair.first, pair.second});
  }
  std::ranges::stable_sort(rows, std::ranges::greater(), [](const ShareRow& row) { return row.now - row.base; });
  return rows;
}

}  // namespace

std::vector<ShareRow> ChangedShares(const Side& base, const Side& now) {
  std::vector<ShareRow> out;
  for (const AmountKind kind : kKinds) {
    for (ShareRow& row : RowsOf(base, now, kind)) {
      // A line that calls nothing outside of the program is one row.
      const bool is_double = kind == AmountKind::kPythonLine && std::ranges::any_of(out, [&](const ShareRow& other) {
                               return other.kind == AmountKind::kOwnLine && other.name == row.name;
                             });
      if (!is_double) out.push_back(std::move(row));
    }
  }
  return out;
}

}  // namespace tbprof
