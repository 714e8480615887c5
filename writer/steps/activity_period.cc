// SPDX-License-Identifier: Apache-2.0
#include "writer/steps/step_detector.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <numbers>
#include <utility>

#include "writer/steps/clamp_time.h"

namespace tbprof {

namespace {

constexpr size_t kFewestBins = 32;

std::vector<std::complex<double>> RootsOf(size_t size) {
  std::vector<std::complex<double>> roots(std::max<size_t>(size / 2, 1));
  for (size_t i = 0; i < roots.size(); ++i) {
    roots[i] = std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(size));
  }
  return roots;
}

// Product of finite numbers: the multiplication of std::complex checks each product for infinities.
std::complex<double> Product(const std::complex<double>& a, const std::complex<double>& b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

// `roots`: RootsOf(twice the size).
void Transform(const std::vector<std::complex<double>>& roots, std::vector<std::complex<double>>* values) {
  std::vector<std::complex<double>>& all = *values;
  const size_t size = all.size();
  for (size_t i = 1, j = 0; i < size; ++i) {
    size_t bit = size >> 1;
    for (; (j & bit) != 0; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) std::swap(all[i], all[j]);
  }
  for (size_t half = 1; half < size; half *= 2) {
    const size_t stride = size / half;
    for (size_t first = 0; first < size; first += 2 * half) {
      for (size_t i = 0; i < half; ++i) {
        const std::complex<double> odd = Product(all[first + half + i], roots[i * stride]);
        all[first + half + i] = all[first + i] - odd;
        all[first + i] += odd;
      }
    }
  }
}

// Transforms a real signal, padded with zeros to `size` values. Returns the first half of the transform and one more
// value. The signal's even and odd values are the real and imaginary parts of a transform of half the size.
void TransformReal(const std::vector<std::complex<double>>& roots, const std::vector<double>& signal, size_t size,
                   std::vector<std::complex<double>>* values) {
  const size_t half = size / 2;
  values->assign(half, 0);
  for (size_t i = 0; i < signal.size(); ++i) {
    std::complex<double>& value = (*values)[i / 2];
    if (i % 2 == 0) {
      value.real(signal[i]);
    } else {
      value.imag(signal[i]);
    }
  }
  Transform(roots, values);
  values->push_back((*values)[0]);
  for (size_t i = 0, j = half; i <= j; ++i, --j) {
    const std::complex<double> front = (*values)[i], back = std::conj((*values)[j]);
    const std::complex<double> even = 0.5 * (front + back);
    const std::complex<double> odd = Product({0, -0.5}, front - back);
    const std::complex<double> turned = Product(i == half ? std::complex<double>(-1) : roots[i], odd);
    (*values)[i] = even + turned;
    (*values)[j] = std::conj(even - turned);
  }
}

// Returns the signal with mean 0, standard deviation 1 and no linear trend: a trend would correlate at every distance.
// Empty: the signal does not vary.
std::vector<double> Standardised(const std::vector<float>& signal) {
  const double count = static_cast<double>(signal.size());
  std::vector<double> values(signal.size());
  double mean = 0, slope = 0;
  for (size_t i = 0; i < signal.size(); ++i) {
    values[i] = std::isfinite(signal[i]) ? static_cast<double>(signal[i]) : 0;
    mean += values[i] / count;
  }
  const double middle = (count - 1) / 2;
  for (size_t i = 0; i < values.size(); ++i) {
    slope += (values[i] - mean) * (static_cast<double>(i) - middle) / (count * (count * count - 1) / 12);
  }
  double variance = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] -= mean + slope * (static_cast<double>(i) - middle);
    variance += values[i] * values[i] / count;
  }
  if (!(variance > 1e-12 * (1 + mean * mean)) || !std::isfinite(variance)) return {};
  for (double& value : values) value /= std::sqrt(variance);
  return values;
}

// Autocorrelation of all signals together; 1 at distance 0. The spectra are summed and transformed back once.
std::vector<double> Autocorrelation(const std::vector<std::vector<double>>& signals, size_t count, size_t most) {
  const size_t size = std::bit_ceil(2 * count);
  const std::vector<std::complex<double>> roots = RootsOf(size);
  std::vector<double> power(size);
  std::vector<std::complex<double>> values;
  for (const std::vector<double>& signal : signals) {
    double energy = 0;
    for (const double value : signal) energy += value * value;
    TransformReal(roots, signal, size, &values);
    for (size_t i = 0; i < values.size(); ++i) power[i] += std::norm(values[i]) / energy;
  }
  for (size_t i = 1; i < size / 2; ++i) power[size - i] = power[i];
  TransformReal(roots, power, size, &values);
  std::vector<double> sum(most + 1);
  for (size_t i = 0; i <= most; ++i) {
    const double pairs = static_cast<double>(count - i) / static_cast<double>(count);
    sum[i] = values[i].real() / static_cast<double>(size) / pairs / static_cast<double>(signals.size());
  }
  return sum;
}

struct Peak {
  double place = 0;
  double height = 0;
};

Peak HighestNear(const std::vector<double>& values, double from, double to) {
  const size_t first = static_cast<size_t>(std::max(1.0, std::floor(from)));
  const size_t last = std::min(values.size() - 1, static_cast<size_t>(std::max(0.0, std::ceil(to))));
  if (first >= last) return {};
  size_t best = first;
  for (size_t i = first; i <= last; ++i) {
    if (values[i] > values[best]) best = i;
  }
  Peak peak{static_cast<double>(best), values[best]};
  if (best > 0 && best + 1 < values.size()) {
    const double curve = values[best - 1] - 2 * values[best] + values[best + 1];
    if (curve < 0) {
      peak.place += std::clamp(0.5 * (values[best - 1] - values[best + 1]) / curve, -0.5, 0.5);
    }
  }
  return peak;
}

// Returns the first distance at which the autocorrelation is close to its highest peak. Height 0: there is none.
Peak FindPeriod(const std::vector<double>& alike) {
  size_t begin = 1;
  while (begin < alike.size() && alike[begin] > 0.3) ++begin;
  double highest = 0;
  for (size_t i = begin; i < alike.size(); ++i) highest = std::max(highest, alike[i]);
  if (highest < 0.5) return {};
  for (size_t i = std::max<size_t>(begin, 2); i + 1 < alike.size(); ++i) {
    if (alike[i] < std::max(0.5, 0.88 * highest) || alike[i] < alike[i - 1] || alike[i] < alike[i + 1]) continue;
    const double place = static_cast<double>(i);
    Peak peak = HighestNear(alike, place * 0.95, place * 1.05);
    if (2.1 * place >= static_cast<double>(alike.size())) return {};
    if (HighestNear(alike, 1.93 * peak.place, 2.07 * peak.place).height < 0.4) continue;
    // A peak many periods away gives the period more exactly.
    for (double times = 2; times * peak.place * 1.05 < static_cast<double>(alike.size()); times *= 2) {
      const double width = std::max(1.5, 0.1 * peak.place);
      const Peak further = HighestNear(alike, times * peak.place - width, times * peak.place + width);
      if (further.height < 0.4) break;
      peak.place = further.place / times;
    }
    return peak;
  }
  return {};
}

}  // namespace

StepDetection DetectStepsInActivity(const StepActivity& activity) {
  if (activity.signals.empty() || activity.bin_ps <= 0) return {};
  const size_t count = activity.signals[0].size();
  if (count < kFewestBins || count > kMaxActivityBins) return {};
  // The times of all bins must be within kTimeLimit.
  if (activity.bin_ps > kTimeLimit / static_cast<int64_t>(count)) return {};
  std::vector<std::vector<double>> signals;
  std::vector<double> phase;
  const size_t phase_signal = activity.phase_signal < 0 ? 0 : static_cast<size_t>(activity.phase_signal);
  for (size_t i = 0; i < activity.signals.size(); ++i) {
    if (activity.signals[i].size() != count) return {};
    std::vector<double> values = Standardised(activity.signals[i]);
    if (values.empty()) continue;
    if (i == phase_signal) phase = values;
    signals.push_back(std::move(values));
  }
  if (signals.empty()) return {};
  if (phase.empty()) phase = signals[0];
  if (activity.phase_signal < 0) {
    for (double& value : phase) value = -value;
  }
  const std::vector<double> alike = Autocorrelation(signals, count, count / 2);
  const Peak period = FindPeriod(alike);
  if (period.height <= 0 || period.place < 2) return {};
  // Folds all periods into one and finds the place where the phase signal is highest.
  const size_t parts = std::min<size_t>(static_cast<size_t>(std::ceil(period.place)), 1024);
  std::vector<double> folded(parts), weights(parts);
  for (size_t i = 0; i < count; ++i) {
    const double turn = static_cast<double>(i) / period.place;
    const size_t part =
        std::min(parts - 1, static_cast<size_t>((turn - std::floor(turn)) * static_cast<double>(parts)));
    folded[part] += phase[i];
    weights[part] += 1;
  }
  size_t best = 0;
  for (size_t i = 0; i < parts; ++i) {
    if (weights[i] > 0) folded[i] /= weights[i];
    if (folded[i] > folded[best]) best = i;
  }
  StepDetection found;
  const int64_t origin = ClampTime(activity.start_ps);
  const double reach = 0.15 * period.place;
  double at = static_cast<double>(best) / static_cast<double>(parts) * period.place;
  std::vector<size_t> places;
  while (at < static_cast<double>(count)) {
    // Step lengths vary: takes the highest value near the expected place, and continues from there.
    const size_t from = static_cast<size_t>(std::max(0.0, std::floor(at - reach)));
    const size_t to = std::min(count - 1, static_cast<size_t>(std::ceil(at + reach)));
    size_t place = std::min(count - 1, static_cast<size_t>(std::lround(at)));
    for (size_t i = from; i <= to; ++i) {
      if (phase[i] > phase[place] + 1e-9) place = i;
    }
    if (!places.empty() && place <= places.back()) break;
    places.push_back(place);
    at = static_cast<double>(place) + period.place;
  }
  for (size_t i = 1; i < places.size(); ++i) {
    DetectedStep step;
    step.start_ps = origin + static_cast<int64_t>(places[i - 1]) * activity.bin_ps;
    step.end_ps = origin + static_cast<int64_t>(places[i]) * activity.bin_ps;
    found.steps.push_back(step);
  }
  if (found.steps.size() < 3) return {};
  found.period_ps = static_cast<int64_t>(period.place * static_cast<double>(activity.bin_ps));
  // Activity alone does not distinguish a step from a part or a multiple of a step.
  found.confidence =
      std::min(kSureConfidence, 0.8 * period.height) * (1 - std::exp(-static_cast<double>(found.steps.size()) / 4));
  found.source = "activity that repeats";
  return found;
}

}  // namespace tbprof
