// SPDX-License-Identifier: Apache-2.0
#include "launcher/gate/bootstrap.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

namespace tbprof {
namespace {

constexpr size_t kResamples = 200;
constexpr size_t kFewestSteps = 4;
constexpr size_t kBatches = 10, kFewBatches = 5;
// Correlations of neighbours, from which on the level wanders. Chosen on simulated steps: window_compare_test.cc.
constexpr double kBatchesWander = 0.2, kStepsWander = 0.8;
constexpr double kMostCorrelation = 0.99;

size_t TrimmedCount(size_t steps) { return static_cast<size_t>(kTrimmedShare * static_cast<double>(steps)); }

// Correlation of each value with the next one.
double Autocorrelation(absl::Span<const double> values) {
  const double mean = Mean(values);
  double both = 0, square = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double value = values[i] - mean;
    square += value * value;
    if (i + 1 < values.size()) both += value * (values[i + 1] - mean);
  }
  return square > 0 ? both / square : 0;
}

std::vector<double> Winsorised(absl::Span<const double> steps_s) {
  std::vector<double> sorted(steps_s.begin(), steps_s.end());
  std::ranges::sort(sorted);
  const size_t trimmed = TrimmedCount(sorted.size());
  const double low = sorted[trimmed], high = sorted[sorted.size() - 1 - trimmed];
  std::vector<double> out(steps_s.begin(), steps_s.end());
  for (double& value : out) value = std::clamp(value, low, high);
  return out;
}

std::vector<double> BatchMeans(absl::Span<const double> values, size_t batches) {
  std::vector<double> means;
  const size_t length = values.size() / batches;
  for (size_t i = 0; i < batches; ++i) means.push_back(Mean(values.subspan(i * length, length)));
  return means;
}

double ErrorOfMean(absl::Span<const double> values) {
  const double mean = Mean(values);
  double square = 0;
  for (const double value : values) square += (value - mean) * (value - mean);
  const auto count = static_cast<double>(values.size());
  return std::sqrt(square / (count - 1) / count);
}

// Factor of the error of a mean if each value correlates so much with the next one.
double ErrorFactor(double correlation) { return std::sqrt((1 + correlation) / (1 - correlation)); }

// Of the mean of the values; in their unit.
SeriesError ErrorOfSeries(absl::Span<const double> values) {
  const std::vector<double> batches = BatchMeans(values, kBatches);
  const double of_batches = std::clamp(Autocorrelation(batches), 0.0, kMostCorrelation);
  const double of_steps = std::clamp(Autocorrelation(values), 0.0, kMostCorrelation);
  SeriesError out{ErrorOfMean(batches) * ErrorFactor(of_batches), kBatches - 1};
  out.error = std::max(out.error, ErrorOfMean(values) * ErrorFactor(of_steps));
  out.wanders = of_batches > kBatchesWander || of_steps > kStepsWander;
  if (of_batches > kBatchesWander / 2 || of_steps > kStepsWander) {
    out.error = std::max(out.error, ErrorOfMean(BatchMeans(values, kFewBatches)));
    out.degrees = kFewBatches - 1;
  }
  return out;
}

}  // namespace

double Mean(absl::Span<const double> values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double TrimmedMean(absl::Span<const double> steps_s) {
  if (steps_s.empty()) return 0;
  std::vector<double> sorted(steps_s.begin(), steps_s.end());
  std::ranges::sort(sorted);
  const size_t trimmed = TrimmedCount(sorted.size());
  return Mean(absl::MakeConstSpan(sorted).subspan(trimmed, sorted.size() - 2 * trimmed));
}

size_t BlockLength(absl::Span<const double> steps_s) {
  const auto steps = static_cast<double>(steps_s.size());
  const double neighbours = std::clamp(Autocorrelation(steps_s), 0.0, 0.95);
  // Carlstein's rule for the variance of a mean of a first-order autoregressive series; never below the cube root.
  const double rule = std::cbrt(1.5 * steps) * std::pow(2 * neighbours / (1 - neighbours * neighbours), 2.0 / 3.0);
  const double length = std::max(std::cbrt(steps), rule);
  return std::max<size_t>(1, static_cast<size_t>(std::min(std::ceil(length), steps / 4)));
}

double BlockError(absl::Span<const double> steps_s, uint64_t seed) {
  const size_t count = steps_s.size();
  const double middle = TrimmedMean(steps_s);
  if (count < kFewestSteps || middle <= 0) return 0;
  const std::vector<double> values = Winsorised(steps_s);
  const double mean = Mean(values);
  const size_t length = BlockLength(values), blocks = (count + length - 1) / length;
  // Sums of the blocks that begin at each step. A block that reaches the last step continues at the first one.
  std::vector<double> sums(count);
  double sum = 0;
  for (size_t i = 0; i < length; ++i) sum += values[i] - mean;
  for (size_t i = 0; i < count; ++i) {
    sums[i] = sum;
    sum += values[(i + length) % count] - values[i];
  }
  std::mt19937_64 random(seed);
  double square = 0;
  for (size_t resample = 0; resample < kResamples; ++resample) {
    double total = 0;
    for (size_t block = 0; block < blocks; ++block) total += sums[random() % count];
    const double of_step = total / static_cast<double>(blocks * length);
    square += of_step * of_step;
  }
  const double error =
      std::sqrt(square / kResamples * static_cast<double>(blocks * length) / static_cast<double>(count));
  return error / (1 - 2 * kTrimmedShare) / middle;
}

SeriesError WanderingError(absl::Span<const double> values, uint64_t seed) {
  const double middle = TrimmedMean(values);
  if (values.size() < kBatches || middle <= 0) return {};
  SeriesError out = ErrorOfSeries(Winsorised(values));
  out.error = std::max(out.error / (1 - 2 * kTrimmedShare) / middle, BlockError(values, seed));
  return out;
}

SeriesError WanderingErrorOfMean(absl::Span<const double> values) {
  const double mean = Mean(values);
  if (values.size() < kBatches || mean <= 0) return {};
  SeriesError out = ErrorOfSeries(values);
  out.error /= mean;
  return out;
}

}  // namespace tbprof
