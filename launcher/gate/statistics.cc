// SPDX-License-Identifier: Apache-2.0
#include "launcher/gate/statistics.h"

#include <algorithm>
#include <boost/math/distributions/non_central_t.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <functional>
#include <numbers>
#include <numeric>

namespace tbprof {
namespace {

namespace policies = boost::math::policies;
// boost::math does not throw: an error is a NaN, and comparisons with a NaN never give a decision.
using Policy =
    policies::policy<policies::promote_double<false>, policies::domain_error<policies::ignore_error>,
                     policies::pole_error<policies::ignore_error>, policies::overflow_error<policies::ignore_error>,
                     policies::evaluation_error<policies::ignore_error>>;
using StudentsT = boost::math::students_t_distribution<double, Policy>;
using NoncentralT = boost::math::non_central_t_distribution<double, Policy>;

// Clocks and counters are not finer than this share of a step; runs that agree more closely do so by chance.
constexpr double kLeastSd = 1e-4;
constexpr uint64_t kMostRunsToAdvise = 10'000;
constexpr double kManyDegrees = 1e6;  // Student's t is the normal distribution
constexpr size_t kFewestForTrend = 6, kFewestForWarming = 5;
// Distance of the first run from the other runs of its side, in standard deviations.
constexpr double kWarmingSds = 5;
// Share of the largest possible distance between the sides' mean places in time.
constexpr double kMostApart = 0.3;

double Quantile(double degrees, double level) {
  return boost::math::quantile(boost::math::complement(StudentsT(degrees), level));
}

double SureLevel(bool disturbed) { return disturbed ? kDisturbedLevel : kWorseLevel; }

struct Moments {
  double mean = 0, variance = 0;
  double count = 0;
};

template <typename Values, typename Get>
Moments MomentsOf(const Values& values, Get get) {
  Moments out;
  out.count = static_cast<double>(values.size());
  for (const auto& value : values) out.mean += get(value) / out.count;
  for (const auto& value : values) out.variance += std::pow(get(value) - out.mean, 2);
  out.variance = out.count > 1 ? out.variance / (out.count - 1) : 0;
  return out;
}

double LogOf(const RunValue& run) { return run.log; }

// Lower bound for the variance of one run.
double FloorOf(absl::Span<const RunValue> runs) {
  double square = 0;
  for (const RunValue& run : runs) square += run.error * run.error / static_cast<double>(runs.size());
  return std::max(square, kLeastSd * kLeastSd);
}

struct Point {
  double log = 0, place = 0;  // place in time among the runs of both sides
  bool now = false;
};

std::vector<Point> InTimeOrder(absl::Span<const RunValue> base, absl::Span<const RunValue> now) {
  std::vector<std::pair<int64_t, Point>> timed;
  for (const RunValue& run : base) timed.push_back({run.start_ns, {run.log, 0, false}});
  for (const RunValue& run : now) timed.push_back({run.start_ns, {run.log, 0, true}});
  std::ranges::stable_sort(timed, {}, [](const auto& entry) { return entry.first; });
  std::vector<Point> points;
  for (size_t i = 0; i < timed.size(); ++i) {
    points.push_back(timed[i].second);
    points.back().place = static_cast<double>(i);
  }
  return points;
}

// A line through each side; both lines have the same slope.
struct Trend {
  double slope = 0, slope_error = 0, degrees = 0;
  double distance = 0;                     // between the sides' mean places: now minus base
  double base_square = 0, now_square = 0;  // sums of the squared residuals
};

Trend FitTrend(absl::Span<const Point> points) {
  double count[2] = {}, log[2] = {}, place[2] = {};
  for (const Point& point : points) {
    ++count[point.now];
    log[point.now] += point.log;
    place[point.now] += point.place;
  }
  for (const int side : {0, 1}) {
    log[side] /= count[side];
    place[side] /= count[side];
  }
  double xx = 0, xy = 0;
  for (const Point& point : points) {
    const double x = point.place - place[point.now];
    xx += x * x;
    xy += x * (point.log - log[point.now]);
  }
  Trend trend;
  trend.distance = place[1] - place[0];
  trend.degrees = static_cast<double>(points.size()) - 3;
  trend.slope = xx > 0 ? xy / xx : 0;
  for (const Point& point : points) {
    const double left = point.log - log[point.now] - trend.slope * (point.place - place[point.now]);
    (point.now ? trend.now_square : trend.base_square) += left * left;
  }
  const double variance = (trend.base_square + trend.now_square) / trend.degrees;
  trend.slope_error = xx > 0 ? std::sqrt(variance / xx) : 0;
  return trend;
}

// True: the residuals of consecutive runs are correlated, for instance because another program's load lasts for several
// runs.
bool AreAlike(absl::Span<const Point> points) {
  double mean[2] = {}, count[2] = {};
  for (const Point& point : points) {
    mean[point.now] += point.log;
    ++count[point.now];
  }
  double both = 0, square = 0, last = 0;
  for (const Point& point : points) {
    const double left = point.log - mean[point.now] / count[point.now];
    both += left * last;
    square += left * left;
    last = left;
  }
  const double bound = Quantile(kManyDegrees, kDisturbanceLevel) / std::sqrt(static_cast<double>(points.size()));
  return square > 0 && both / square > bound;
}

bool IsApart(const Trend& trend, size_t points) {
  return std::abs(trend.distance) > kMostApart * static_cast<double>(points) / 2;
}

double WelchDegrees(double a, double a_count, double b, double b_count) {
  const double sum = a / a_count + b / b_count;
  return sum * sum / (a * a / (a_count * a_count * (a_count - 1)) + b * b / (b_count * b_count * (b_count - 1)));
}

// For a side with a single run: takes the scatter from the other side.
void TakeScatterOfOtherSide(const Moments& base, const Moments& now, double floor, Estimate* out) {
  const double degrees = base.count + now.count - 2;
  const double square = base.variance * (base.count - 1) + now.variance * (now.count - 1);
  if (degrees < 1) return;
  const double variance = std::max(square / degrees, floor);
  out->known = true;
  out->run_sd = std::sqrt(variance);
  out->error = std::sqrt(variance * (1 / base.count + 1 / now.count));
  out->degrees = degrees;
}

void RemoveTrend(const Trend& trend, double floor, const Moments& base, const Moments& now, Estimate* out) {
  // Both sides share one fitted slope, so the residuals scatter less by this factor.
  const double scale = (base.count + now.count - 2) / trend.degrees;
  const double of_base = std::max(trend.base_square / (base.count - 1) * scale, floor);
  const double of_now = std::max(trend.now_square / (now.count - 1) * scale, floor);
  const double by_slope = trend.distance * trend.slope_error;
  out->change -= trend.slope * trend.distance;
  out->error = std::sqrt(of_base / base.count + of_now / now.count + by_slope * by_slope);
  out->degrees = std::max(1.0, WelchDegrees(of_base, base.count, of_now, now.count) - 1);
  out->run_sd = std::sqrt((of_base + of_now) / 2);
}

// True: the first run in time is far slower than all other runs of its side.
bool IsWarming(absl::Span<const RunValue> runs, size_t* first) {
  if (runs.size() < kFewestForWarming) return false;
  const auto earliest = std::ranges::min_element(runs, {}, &RunValue::start_ns);
  *first = static_cast<size_t>(earliest - runs.begin());
  std::vector<double> others;
  for (const RunValue& run : runs) {
    if (&run != &*earliest) others.push_back(run.log);
  }
  const Moments moments = MomentsOf(others, std::identity());
  const double sd = std::sqrt(std::max(moments.variance, FloorOf(runs)));
  return earliest->log > *std::ranges::max_element(others) && earliest->log - moments.mean > kWarmingSds * sd;
}

std::vector<RunValue> Without(absl::Span<const RunValue> runs, size_t index) {
  std::vector<RunValue> out(runs.begin(), runs.end());
  out.erase(out.begin() + static_cast<ptrdiff_t>(index));
  return out;
}

// Probability that a true change of this size gives the answer worse or the answer equivalent.
double PowerOf(double change, double error, double degrees, double margin, double sure_level) {
  const double seen = std::abs(change) / error;
  double worse = 0, equivalent = 0;
  if (std::abs(change) > std::log1p(kSmallestChange)) {
    const double bound = Quantile(degrees, sure_level);
    worse = seen - bound > 10 ? 1 : 1 - boost::math::cdf(NoncentralT(degrees, seen), bound);
  }
  const double bound = Quantile(degrees, kEquivalentLevel), limit = std::log1p(margin);
  const double upper = (limit - std::abs(change)) / error, lower = (limit + std::abs(change)) / error;
  if (upper > 0) {
    const auto missed = [&](double distance) {
      return distance - bound > 10 ? 0 : boost::math::cdf(NoncentralT(degrees, distance), bound);
    };
    equivalent = 1 - missed(upper) - missed(lower);
  }
  return std::max(worse, equivalent);
}

bool IsEnough(uint64_t runs, double change, double run_sd, double margin, bool paired, double sure_level) {
  const auto count = static_cast<double>(runs);
  const double error = run_sd * std::sqrt((paired ? 1 : 2) / count);
  return PowerOf(change, error, paired ? count - 1 : 2 * count - 2, margin, sure_level) >= kWantedPower;
}

}  // namespace

Estimate EstimateChange(absl::Span<const RunValue> base, absl::Span<const RunValue> now) {
  Estimate out;
  if (base.empty() || now.empty()) return out;
  size_t base_first = 0, now_first = 0;
  if (IsWarming(base, &base_first) && IsWarming(now, &now_first)) {
    const std::vector<RunValue> base_rest = Without(base, base_first), now_rest = Without(now, now_first);
    out = EstimateChange(base_rest, now_rest);
    out.warming = out.disturbed = true;
    return out;
  }
  const Moments of_base = MomentsOf(base, LogOf), of_now = MomentsOf(now, LogOf);
  out.change = of_now.mean - of_base.mean;
  out.runs = std::min(base.size(), now.size());
  const double floor = std::max(FloorOf(base), FloorOf(now));
  if (out.runs < 2) {
    TakeScatterOfOtherSide(of_base, of_now, floor, &out);
    return out;
  }
  out.known = true;
  const double base_variance = std::max(of_base.variance, floor), now_variance = std::max(of_now.variance, floor);
  out.error = std::sqrt(base_variance / of_base.count + now_variance / of_now.count);
  out.degrees = WelchDegrees(base_variance, of_base.count, now_variance, of_now.count);
  out.run_sd = std::sqrt((base_variance + now_variance) / 2);
  const std::vector<Point> points = InTimeOrder(base, now);
  const Trend trend = FitTrend(points);
  out.apart = IsApart(trend, points.size());
  out.in_turns = std::ranges::adjacent_find(points, {}, &Point::now) == points.end();
  out.disturbed = out.run_sd > kDisturbedSd;
  if (out.runs < kFewestForTrend) return out;
  const auto slopes = [&](double level) {
    return trend.slope_error > 0 && std::abs(trend.slope) > Quantile(trend.degrees, level) * trend.slope_error;
  };
  out.trend = slopes(out.apart ? kTrendLevel / 2 : kDisturbanceLevel);
  out.disturbed |= out.trend || AreAlike(points);
  // If the sides alternate, removing the slope costs one degree of freedom and removes the drift. If they do not, it
  // doubles the error, so the slope is removed only if there is a visible drift.
  if (!out.apart || out.trend) RemoveTrend(trend, floor, of_base, of_now, &out);
  return out;
}

Estimate EstimatePairedChange(absl::Span<const RunValue> base, absl::Span<const RunValue> now) {
  Estimate out;
  out.paired = true;
  out.runs = std::min(base.size(), now.size());
  if (out.runs == 0) return out;
  std::vector<double> differences;
  for (size_t i = 0; i < out.runs; ++i) differences.push_back(now[i].log - base[i].log);
  const Moments moments = MomentsOf(differences, [](double difference) { return difference; });
  out.change = moments.mean;
  if (out.runs < 2) return out;
  out.known = true;
  out.run_sd = std::sqrt(std::max(moments.variance, FloorOf(base) + FloorOf(now)));
  out.error = out.run_sd / std::sqrt(moments.count);
  out.degrees = moments.count - 1;
  out.disturbed = out.run_sd > kDisturbedSd * std::numbers::sqrt2;
  return out;
}

Estimate EstimateWindowChange(double base_log, const SeriesError& base, double now_log, const SeriesError& now) {
  Estimate out;
  out.windows = true;
  out.runs = 1;
  out.change = now_log - base_log;
  out.disturbed = base.wanders || now.wanders;
  if (base.degrees <= 0 || now.degrees <= 0) return out;
  const double of_base = std::max(base.error * base.error, kLeastSd * kLeastSd);
  const double of_now = std::max(now.error * now.error, kLeastSd * kLeastSd);
  const double sum = of_base + of_now;
  out.known = true;
  out.error = std::sqrt(sum);
  out.run_sd = std::sqrt(sum / 2);
  out.degrees = sum * sum / (of_base * of_base / base.degrees + of_now * of_now / now.degrees);
  return out;
}

Decision Decide(const Estimate& estimate, double margin, double budget_share) {
  Decision out;
  if (!estimate.known) {
    if (estimate.windows) return out;
    const std::optional<uint64_t> needed = RunsNeeded(0, kAssumedRunSd, margin, estimate.paired);
    if (needed.has_value()) out.more_runs = std::max<uint64_t>(*needed, estimate.runs + 1) - estimate.runs;
    return out;
  }
  const double level = estimate.windows && estimate.disturbed ? kDisturbedWindowLevel : SureLevel(estimate.disturbed);
  const double sure = Quantile(estimate.degrees, level * budget_share) * estimate.error;
  const double within = Quantile(estimate.degrees, kEquivalentLevel * budget_share) * estimate.error;
  const double limit = std::log1p(margin);
  const double smallest = std::log1p(estimate.windows ? kSmallestWindowChange : kSmallestChange);
  if (estimate.change > std::max(sure, smallest)) {
    out.answer = Answer::kWorse;
  } else if (estimate.change < -std::max(sure, smallest)) {
    out.answer = Answer::kBetter;
  } else if (std::abs(estimate.change) + within < limit) {
    out.answer = Answer::kEquivalent;
  } else if (estimate.windows) {
    return out;  // more runs are no more windows of this process
  } else if (const auto needed =
                 RunsNeeded(estimate.change, estimate.run_sd, margin, estimate.paired, estimate.disturbed)) {
    out.more_runs = std::max<uint64_t>(*needed, estimate.runs + 1) - estimate.runs;
  }
  return out;
}

ConfidenceInterval IntervalOf(const Estimate& estimate, double confidence) {
  const double half = Quantile(estimate.degrees, (1 - confidence) / 2) * estimate.error;
  return {std::expm1(estimate.change - half), std::expm1(estimate.change + half)};
}

std::optional<uint64_t> RunsNeeded(double change_log, double run_sd, double margin, bool paired, bool disturbed) {
  run_sd = std::max(run_sd, kLeastSd);
  const double sure_level = SureLevel(disturbed);
  uint64_t enough = 2;
  while (!IsEnough(enough, change_log, run_sd, margin, paired, sure_level)) {
    if (enough >= kMostRunsToAdvise) return std::nullopt;
    enough = std::min(enough * 2, kMostRunsToAdvise);
  }
  uint64_t too_few = enough / 2;
  while (enough - too_few > 1) {
    const uint64_t middle = too_few + (enough - too_few) / 2;
    (middle >= 2 && IsEnough(middle, change_log, run_sd, margin, paired, sure_level) ? enough : too_few) = middle;
  }
  return enough;
}

double MiddleOf(absl::Span<const double> sorted) {
  return (sorted[(sorted.size() - 1) / 2] + sorted[sorted.size() / 2]) / 2;
}

double StudentP(double t, double degrees) {
  return 2 * boost::math::cdf(boost::math::complement(StudentsT(degrees), std::abs(t)));
}

double IntervalFactor(double confidence, double degrees) { return Quantile(degrees, (1 - confidence) / 2); }

double VarianceOfMean(absl::Span<const double> values) {
  const Moments moments = MomentsOf(values, std::identity());
  return moments.count > 1 ? moments.variance / moments.count : 0;
}

double WelchP(absl::Span<const double> a, absl::Span<const double> b, double floor) {
  if (a.size() < 2 || b.size() < 2) return 1;
  const Moments of_a = MomentsOf(a, std::identity()), of_b = MomentsOf(b, std::identity());
  const double a_variance = std::max(of_a.variance, floor * floor), b_variance = std::max(of_b.variance, floor * floor);
  const double error = std::sqrt(a_variance / of_a.count + b_variance / of_b.count);
  if (!(error > 0)) return of_a.mean == of_b.mean ? 1 : 0;
  const double degrees = WelchDegrees(a_variance, of_a.count, b_variance, of_b.count);
  return StudentP((of_a.mean - of_b.mean) / error, degrees);
}

std::vector<bool> Holm(absl::Span<const double> p, double level) {
  std::vector<size_t> order(p.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return p[i]; });
  std::vector<bool> out(p.size());
  for (size_t i = 0; i < order.size(); ++i) {
    if (!(p[order[i]] <= level / static_cast<double>(p.size() - i))) break;
    out[order[i]] = true;
  }
  return out;
}

}  // namespace tbprof
