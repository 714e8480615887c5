// SPDX-License-Identifier: Apache-2.0
//
// Speed of the step detector, and its results beside those of two simple ones (docs/steps.md).
//
//   step_detector_bench --benchmark_filter=Detect            events a second
//   step_detector_bench --benchmark_filter=Quality           each case: F1, confidence, F1 of the simple ones
//
// A Quality row's time means nothing: programs are made in it.
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/unit/writer/step_maker.h"
#include "writer/steps/step_detector.h"

namespace tbprof {
namespace {

double PeakMegabytes() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

void Detect(benchmark::State& state, const std::vector<StepLaunch>& launches) {
  double confidence = 0;
  const double before = PeakMegabytes();
  for (auto _ : state) confidence = DetectSteps(launches).confidence;
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(launches.size()));
  state.counters["events"] = static_cast<double>(launches.size());
  state.counters["confidence"] = confidence;
  state.counters["peak_MB"] = PeakMegabytes() - before;
}

std::vector<StepLaunch> Shaped(void (*change)(StepShape*)) {
  StepShape shape;
  change(&shape);
  return MakeSteps(shape, 1).launches;
}

std::vector<StepLaunch> Random(uint64_t kinds) {
  std::mt19937_64 random(3);
  std::vector<StepLaunch> launches(5'000'000);
  for (size_t i = 0; i < launches.size(); ++i) {
    const int64_t start = static_cast<int64_t>(i) * 5'000'000;
    launches[i] = {start, start + 3'000'000, kinds == 0 ? random() : random() % kinds, 0};
  }
  return launches;
}

const bool kRegistered = [] {
  const auto add = [](const char* name, auto make) {
    benchmark::RegisterBenchmark(name, [make](benchmark::State& state) {
      Detect(state, make());
    })->Unit(benchmark::kMillisecond);
  };
  add("Detect/training", [] {
    return Shaped([](StepShape* s) {
      s->layers = 24;
      s->steps = 5000;
    });
  });
  add("Detect/short", [] {
    return Shaped([](StepShape* s) {
      s->layers = 24;
      s->steps = 60;
    });
  });
  add("Detect/accumulation", [] {
    return Shaped([](StepShape* s) {
      s->accumulation = 8;
      s->steps = 1200;
    });
  });
  add("Detect/decode", [] {
    return Shaped([](StepShape* s) {
      s->decode = true;
      s->optimizer = StepShape::kNoOptimizer;
      s->steps = 15'000;
    });
  });
  add("Detect/graph", [] {
    return Shaped([](StepShape* s) {
      s->graph_launches = 3;
      s->steps = 1'000'000;
    });
  });
  add("Detect/foreign_3", [] {
    return Shaped([](StepShape* s) {
      s->foreign = 0.03;
      s->steps = 8000;
    });
  });
  add("Detect/foreign_30", [] {
    return Shaped([](StepShape* s) {
      s->foreign = 0.3;
      s->steps = 8000;
    });
  });
  add("Detect/random_1000_symbols", [] { return Random(1000); });
  add("Detect/random_symbols", [] { return Random(0); });
  add("Detect/one_symbol", [] { return Random(1); });
  return true;
}();

// The first distance at which 95 % of the calls are the same again; steps begin where the mean gap is longest.
std::vector<int64_t> ByCallSequence(const std::vector<StepLaunch>& launches) {
  const size_t count = std::min<size_t>(launches.size(), 20'000);
  size_t period = 0;
  for (size_t lag = 1; lag < std::min<size_t>(count / 2, 6000) && period == 0; ++lag) {
    size_t same = 0;
    const size_t pairs = count - lag, allowed = pairs / 20;
    for (size_t i = 0; i < pairs && i - same <= allowed; ++i) same += launches[i].symbol == launches[i + lag].symbol;
    if (static_cast<double>(same) >= 0.95 * static_cast<double>(pairs)) period = lag;
  }
  if (period == 0) return {};
  std::vector<double> idle(period);
  for (size_t i = 1; i < launches.size(); ++i) {
    idle[i % period] += static_cast<double>(launches[i].start_ps - launches[i - 1].end_ps);
  }
  std::vector<int64_t> found;
  const auto phase = std::max_element(idle.begin(), idle.end()) - idle.begin();
  for (size_t i = static_cast<size_t>(phase); i < launches.size(); i += period) found.push_back(launches[i].start_ps);
  return found;
}

// Of the gaps longer than ten times the median, those of the length that is most frequent (half an octave wide).
std::vector<int64_t> ByLargeGap(const std::vector<StepLaunch>& launches) {
  std::vector<int64_t> gaps;
  for (size_t i = 1; i < launches.size(); ++i) gaps.push_back(launches[i].start_ps - launches[i - 1].end_ps);
  if (gaps.size() < 8) return {};
  std::vector<int64_t> sorted = gaps;
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<ptrdiff_t>(sorted.size() / 2), sorted.end());
  const int64_t large = 10 * std::max<int64_t>(sorted[sorted.size() / 2], 1);
  std::map<int, int> lengths;
  const auto length = [](int64_t gap) { return static_cast<int>(2 * std::log2(static_cast<double>(gap))); };
  for (int64_t gap : gaps) {
    if (gap > large) ++lengths[length(gap)];
  }
  if (lengths.empty()) return {};
  const auto most = std::max_element(lengths.begin(), lengths.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  std::vector<int64_t> found;
  for (size_t i = 0; i < gaps.size(); ++i) {
    if (gaps[i] > large && std::abs(length(gaps[i]) - most->first) <= 1) found.push_back(launches[i + 1].start_ps);
  }
  return found;
}

void Quality(benchmark::State& state, const StepCase& one, uint64_t first_seed) {
  constexpr int kSeeds = 10;
  double precision = 0, recall = 0, f1 = 0, confidence = 0, sequence = 0, gap = 0, worst = 1;
  for (auto _ : state) {
    for (int i = 0; i < kSeeds; ++i) {
      const MadeSteps made = MakeSteps(one.shape, first_seed + static_cast<uint64_t>(i));
      const StepDetection found = DetectSteps(made.launches);
      const StepScore score = ScoreSteps(made, found);
      precision += score.precision / kSeeds;
      recall += score.recall / kSeeds;
      f1 += score.f1 / kSeeds;
      worst = std::min(worst, score.f1);
      confidence += found.confidence / kSeeds;
      sequence += ScoreBoundaries(made, ByCallSequence(made.launches)).f1 / kSeeds;
      gap += ScoreBoundaries(made, ByLargeGap(made.launches)).f1 / kSeeds;
    }
  }
  state.counters["a_precision"] = precision;
  state.counters["b_recall"] = recall;
  state.counters["c_F1"] = f1;
  state.counters["d_worst_F1"] = worst;
  state.counters["e_confidence"] = confidence;
  state.counters["f_sequence_F1"] = sequence;
  state.counters["g_gap_F1"] = gap;
}

const bool kQualityRegistered = [] {
  const auto add = [](const std::string& list, const std::vector<StepCase>& cases, uint64_t first_seed) {
    for (const StepCase& one : cases) {
      benchmark::RegisterBenchmark(("Quality/" + list + "/" + one.name).c_str(), [one,
                                                                                  first_seed](benchmark::State& s) {
        Quality(s, one, first_seed);
      })->Iterations(1);
    }
  };
  add("tuning", TuningCases(), 1);
  add("held-out", HeldOutCases(), kHeldOutSeeds + 100'000);
  return true;
}();

}  // namespace
}  // namespace tbprof

BENCHMARK_MAIN();
