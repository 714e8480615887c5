// SPDX-License-Identifier: Apache-2.0
//
// Launches of programs whose steps are known: training and serving loops with disturbances, and programs without any
// loop.
//
//   const MadeSteps made = MakeSteps(shape, seed);
//   const StepScore score = ScoreSteps(made, DetectSteps(made.launches));
//
// The cases are in two lists with no case in common. Rules are tuned on TuningCases() with seeds below kHeldOutSeeds;
// the gates use HeldOutCases() with seeds from kHeldOutSeeds on.
#ifndef TBPROF_TESTS_UNIT_WRITER_STEP_MAKER_H_
#define TBPROF_TESTS_UNIT_WRITER_STEP_MAKER_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "writer/steps/step_detector.h"

namespace tbprof {

inline constexpr uint64_t kHeldOutSeeds = 5'000'000;

struct StepShape {
  enum Kind { kLoop, kUniform, kSkewed, kMarkov, kBursts, kMixedRequests, kPhases };
  enum Optimizer { kNamed, kUnnamed, kNoOptimizer, kInBackward };
  Kind kind = kLoop;
  int steps = 60;
  double step_ms = 100;
  int layers = 12;
  int layer_launches = 8;
  Optimizer optimizer = kNamed;
  int optimizer_launches = 20;
  int accumulation = 1;
  double jitter = 0.1;
  double input_wait = 0.05;  // share of a step
  double loss_copy = 0;      // share of a step for which the host waits for the loss, at its end
  double foreign = 0;        // launches of other programs for each of its own
  int variants = 1;          // sets of kernel names; each step takes one at random
  int depth_min = 0;         // random number of layers from here to `layers`; 0: always all
  int evaluate_every = 0, evaluate_batches = 20;
  bool evaluation_names = false;  // evaluation has other kernels than training
  int evaluate_ends = 0;          // launches after an evaluation, each of its own kind
  int checkpoint_every = 0;
  double pauses = 0;  // number of pauses of 50 to 500 ms per step
  int log_every = 0, log_launches = 2;
  bool log_blocks = true;
  int startup = 0, slow_steps = 0;
  double slow_factor = 30;
  bool two_networks = false;
  int micro_batches = 0;
  int experts = 0;
  int rollout = 0;
  bool decode = false;
  int graph_launches = 0;
  bool graph_flag = true;
  double request_gap = 0;  // steps begin with requests: the mean of an exponential wait, in steps
  double lost = 0;         // share of launches that are lost in known ranges
  double dropped = 0;      // share of launches that are lost singly, without a trace
  double clock_us = 0;
  double length_spread = 0;  // sigma of a log-normal factor of whole steps
  int epoch = 0;             // number of steps before a pause of ten steps
  int launches = 30'000;     // for kinds other than a loop
  int alphabet = 500;
  int requests = 6;          // number of kinds of requests
  double usual_request = 0;  // share of requests of the first kind
};

struct StepCase {
  std::string name;
  StepShape shape;
};

struct MadeSteps {
  std::vector<StepLaunch> launches;
  std::vector<int64_t> truth;     // the starts of steps, and the end of the last
  std::vector<int64_t> optional;  // a boundary there is neither right nor wrong
  int64_t median_ps = 0;
  bool periodic = false;
};

class StepMaker {
 public:
  StepMaker(const StepShape& shape, uint64_t seed) : shape_(shape), random_(seed * 0x9E3779B97F4A7C15 + 12345) {}

  MadeSteps Make() {
    base_ = random_();
    if (shape_.kind == StepShape::kLoop) {
      Loop();
    } else {
      Aperiodic();
    }
    Lose();
    Finish();
    return std::move(made_);
  }

 private:
  // Parts of the program. Two parts share names only where that is intended.
  enum Part : uint64_t {
    kForward = 1,
    kBackward,
    kInput,
    kHead,
    kLoss,
    kOptimizerPart,
    kForeign,
    kStartup,
    kCheckpoint,
    kLog,
    kExpert,
    kGraph,
    kSample,
    kEvaluation,
    kSecondForward,
    kSecondBackward,
    kPrefill,
    kRandom,
  };

  double Uniform() { return std::uniform_real_distribution<double>(0, 1)(random_); }
  int Below(int bound) { return static_cast<int>(random_() % static_cast<uint64_t>(bound)); }
  uint64_t Name(Part part, int index, int variant = 0) const {
    return (base_ + part * 1'000'003 + static_cast<uint64_t>(index) * 7919 + static_cast<uint64_t>(variant) * 104'729) *
           0xD1B54A32D192ED03;
  }
  double Jitter() { return std::max(0.05, (1 + shape_.jitter * (2 * Uniform() - 1)) * step_factor_); }

  void Put(uint64_t name, uint8_t flags = 0, double length = 1) {
    if (shape_.foreign > 0) {
      double left = shape_.foreign;
      for (; left > 0 && Uniform() < left; left -= 1) {
        const double u = Uniform();
        const int64_t start = now_ + 200'000;
        now_ = start + 2'000'000;
        made_.launches.push_back({start, now_, Name(kForeign, static_cast<int>(200 * u * u)), 0});
      }
    }
    const int64_t gap = static_cast<int64_t>(unit_ * 0.45 * Jitter());
    const int64_t duration = static_cast<int64_t>(unit_ * 0.55 * Jitter() * length);
    const int64_t start = now_ + gap;
    now_ = start + duration;
    made_.launches.push_back({start, now_, name, flags});
  }
  void Wait(double ps) { now_ += static_cast<int64_t>(ps); }

  void Layers(Part part, int layers, int launches, int variant) {
    for (int layer = 0; layer < layers; ++layer) {
      for (int i = 0; i < launches; ++i) {
        // Norms and additions occur twice in a layer.
        Put(Name(part, i % std::max(1, launches - 2), variant));
        if (shape_.experts > 0 && i == launches / 2) {
          for (int expert = 0; expert < 2; ++expert) Put(Name(kExpert, Below(shape_.experts), part == kBackward));
        }
        if (part == kBackward && shape_.optimizer == StepShape::kInBackward && i + 1 == launches) {
          for (int k = 0; k < 2; ++k) Put(Name(kOptimizerPart, k), StepLaunch::kOptimizer);
        }
      }
    }
  }
  void Input() {
    Wait(shape_.input_wait * step_ps_ / std::max(1, shape_.accumulation) * (0.5 + Uniform()) * step_factor_);
    if (begins_step_) Begin();
    begins_step_ = false;
    PutFirst(Name(kInput, 0));
    Put(Name(kInput, 1));
  }
  // The true boundary is the start of the step's first launch, whatever other programs launch meanwhile.
  void Begin() { pending_ = true; }
  void PutFirst(uint64_t name, uint8_t flags = 0) {
    Put(name, flags);
    if (pending_) made_.truth.push_back(made_.launches.back().start_ps);
    pending_ = false;
  }
  void Forward(int layers, int variant) {
    Put(Name(kHead, 0));
    Layers(kForward, layers, shape_.layer_launches, variant);
    for (int i = 1; i < 4; ++i) Put(Name(kHead, i));
  }
  void Backward(int layers, int variant) {
    for (int i = 0; i < 3; ++i) Put(Name(kLoss, i));
    Layers(kBackward, layers, shape_.layer_launches * 2, variant);
  }
  void Optimize() {
    if (shape_.optimizer == StepShape::kNoOptimizer || shape_.optimizer == StepShape::kInBackward) return;
    const uint8_t flags = shape_.optimizer == StepShape::kNamed ? StepLaunch::kOptimizer : 0;
    for (int i = 0; i < shape_.optimizer_launches; ++i) Put(Name(kOptimizerPart, i % 3), flags);
  }
  bool Training() const { return shape_.optimizer != StepShape::kNoOptimizer; }

  // The number of launches of a step, from which the length of a launch is calculated.
  double Count() const {
    const double layer = shape_.layer_launches + (shape_.experts > 0 ? 2 : 0);
    if (shape_.graph_launches > 0) return shape_.graph_launches * 4;
    double forward = shape_.layers * layer + 6;
    if (shape_.depth_min > 0) forward *= 0.5 + 0.5 * shape_.depth_min / shape_.layers;
    if (!Training()) return forward;
    const double both = forward * 3 + 3;
    const double times = shape_.micro_batches > 0 ? shape_.micro_batches : shape_.accumulation;
    return both * times * (shape_.two_networks ? 2 : 1) + shape_.rollout * forward + shape_.optimizer_launches;
  }

  void OneStep(int number) {
    const int variant = shape_.variants > 1 ? Below(shape_.variants) : 0;
    const int layers =
        shape_.depth_min > 0 ? shape_.depth_min + Below(shape_.layers - shape_.depth_min + 1) : shape_.layers;
    if (shape_.graph_launches > 0) {
      Wait(shape_.input_wait * step_ps_ * (0.5 + Uniform()));
      Begin();
      for (int i = 0; i < shape_.graph_launches; ++i) {
        // The executable is launched, and awaited if another launch follows.
        const bool is_graph = i == std::min(1, shape_.graph_launches - 1);
        const uint8_t executable = is_graph && shape_.graph_flag ? StepLaunch::kExecutable : 0;
        const uint8_t flags = i == 2 ? uint8_t{StepLaunch::kBlocking} : executable;
        if (i == 0) {
          PutFirst(Name(kGraph, i), flags);
        } else {
          Put(Name(kGraph, i), flags);
        }
      }
      return;
    }
    if (shape_.decode) {
      Begin();
      if (Uniform() < 0.02) {
        PutFirst(Name(kPrefill, 0));
        Layers(kPrefill, shape_.layers, shape_.layer_launches, 0);
      } else {
        PutFirst(Name(kHead, 0));
        Layers(kForward, shape_.layers, shape_.layer_launches, variant);
      }
      for (int i = 1; i < 3; ++i) Put(Name(kHead, i));
      Put(Name(kSample, 0));
      Put(Name(kSample, 1), StepLaunch::kBlocking, 4);
      return;
    }
    if (shape_.rollout > 0) {
      Wait(shape_.input_wait * step_ps_ * (0.5 + Uniform()));
      for (int token = 0; token < shape_.rollout; ++token) {
        if (token == 0) Begin();
        PutFirst(Name(kHead, 0));
        Layers(kForward, shape_.layers, shape_.layer_launches, 1);
        Put(Name(kSample, 0));
        Put(Name(kSample, 1), StepLaunch::kBlocking, 3);
      }
    } else {
      begins_step_ = true;
    }
    if (shape_.micro_batches > 0) {
      const int ahead = std::min(3, shape_.micro_batches);
      int forward = 0, backward = 0;
      for (; forward < ahead; ++forward) {
        Input();
        Forward(layers, variant);
      }
      for (; backward < shape_.micro_batches; ++backward) {
        Wait(0.005 * step_ps_ * Uniform());
        Backward(layers, variant);
        if (forward == shape_.micro_batches) continue;
        Input();
        Forward(layers, variant);
        ++forward;
      }
      Optimize();
    } else {
      for (int i = 0; i < shape_.accumulation; ++i) {
        Input();
        Forward(layers, variant);
        if (Training()) Backward(layers, variant);
      }
      Optimize();
      if (shape_.two_networks) {
        Layers(kSecondForward, layers, shape_.layer_launches, variant);
        Layers(kForward, layers, shape_.layer_launches, variant);
        Layers(kSecondBackward, layers, shape_.layer_launches * 2, variant);
        Layers(kBackward, layers, shape_.layer_launches * 2, variant);
        Optimize();
      }
    }
    if (shape_.loss_copy > 0) {
      Put(Name(kLog, 99), StepLaunch::kBlocking, shape_.loss_copy * step_ps_ / (unit_ * 0.55));
    }
    if (shape_.log_every > 0 && number % shape_.log_every == shape_.log_every - 1) {
      for (int i = 0; i < shape_.log_launches; ++i) {
        const bool last = i + 1 == shape_.log_launches;
        Put(Name(kLog, i), shape_.log_blocks && last ? StepLaunch::kBlocking : 0);
      }
    }
  }

  void Between(int number) {
    const auto optional = [this] { made_.optional.push_back(now_ + static_cast<int64_t>(unit_ * 0.45)); };
    if (shape_.evaluate_every > 0 && number % shape_.evaluate_every == shape_.evaluate_every - 1) {
      for (int batch = 0; batch < shape_.evaluate_batches; ++batch) {
        Wait(shape_.input_wait * step_ps_ * Uniform());
        optional();
        Put(Name(kInput, 0));
        Put(Name(kInput, 1));
        if (shape_.evaluation_names) {
          Layers(kEvaluation, shape_.layers, shape_.layer_launches, 0);
        } else {
          Forward(shape_.layers, 0);
        }
        Put(Name(kEvaluation, 1000), batch % 4 == 3 ? StepLaunch::kBlocking : 0);
      }
      optional();
      for (int i = 0; i < shape_.evaluate_ends; ++i) Put(Name(kEvaluation, 2000 + i));
      if (shape_.evaluate_ends > 0) optional();
    }
    if (shape_.checkpoint_every > 0 && number % shape_.checkpoint_every == shape_.checkpoint_every - 1) {
      optional();
      for (int i = 0; i < 120; ++i) {
        Put(Name(kCheckpoint, i % 8), StepLaunch::kBlocking, 0.05 * step_ps_ / unit_);
      }
      optional();
    }
  }

  void Loop() {
    made_.periodic = true;
    step_ps_ = shape_.step_ms * 1e9;
    unit_ = step_ps_ * (1 - shape_.input_wait - shape_.loss_copy) / Count();
    now_ = 1'000'000'000'000;
    for (int i = 0; i < shape_.startup; ++i) {
      const double u = Uniform();
      Put(Name(kStartup, static_cast<int>(u * u * 150)));
      if (Below(50) == 0) Wait(step_ps_ * Uniform());
    }
    for (int number = 0; number < shape_.steps; ++number) {
      const bool slow = number < shape_.slow_steps;
      // Whole steps vary in length, too.
      step_factor_ = (slow ? shape_.slow_factor : 1) * (1 + 0.2 * shape_.jitter * (2 * Uniform() - 1));
      if (shape_.length_spread > 0) {
        step_factor_ *= std::exp(std::normal_distribution<double>(0, shape_.length_spread)(random_));
      }
      if (shape_.epoch > 0 && number > 0 && number % shape_.epoch == 0) Wait(10 * step_ps_);
      if (shape_.request_gap > 0) Wait(-std::log(1 - Uniform()) * shape_.request_gap * step_ps_);
      const size_t first = made_.launches.size();
      OneStep(number);
      if (shape_.pauses > 0 && Uniform() < shape_.pauses) Pause(first);
      step_factor_ = 1;
      if (number + 1 == shape_.steps) made_.truth.push_back(now_);
      if (number + 1 == shape_.steps) break;
      Between(number);
    }
  }

  // Somewhere in the step nothing happens for a while.
  void Pause(size_t first) {
    const size_t at = first + 1 + static_cast<size_t>(Below(static_cast<int>(made_.launches.size() - first)));
    const int64_t pause = static_cast<int64_t>((50 + 450 * Uniform()) * 1e9);
    for (size_t i = at; i < made_.launches.size(); ++i) {
      made_.launches[i].start_ps += pause;
      made_.launches[i].end_ps += pause;
    }
    now_ += pause;
  }

  void Aperiodic() {
    unit_ = 1e7;
    now_ = 1'000'000'000'000;
    const int alphabet = shape_.alphabet;
    std::vector<std::vector<int>> next(static_cast<size_t>(alphabet));
    for (auto& targets : next) {
      for (int i = 0; i < 4; ++i) targets.push_back(Below(alphabet));
    }
    int state = 0;
    while (static_cast<int>(made_.launches.size()) < shape_.launches) {
      switch (shape_.kind) {
        case StepShape::kUniform:
          Put(Name(kRandom, Below(alphabet)), Below(20) == 0 ? StepLaunch::kOptimizer : 0);
          break;
        case StepShape::kSkewed: {
          const double u = Uniform();
          Put(Name(kRandom, static_cast<int>(alphabet * u * u * u)));
          break;
        }
        case StepShape::kMarkov:
          state = next[static_cast<size_t>(state)][static_cast<size_t>(Below(4))];
          Put(Name(kRandom, state), state % 17 == 0 ? StepLaunch::kOptimizer : 0);
          break;
        case StepShape::kBursts: {
          Wait(-std::log(1 - Uniform()) * unit_ * 300);
          const int length = 5 + Below(150);
          for (int i = 0; i < length; ++i) Put(Name(kRandom, Below(alphabet)));
          break;
        }
        case StepShape::kPhases: {
          // Loops of a few turns each, in random order.
          const int body = Below(4), turns = 3 + Below(8);
          for (int turn = 0; turn < turns; ++turn) {
            for (int i = 0; i < 10 + body * 7; ++i) Put(Name(kRandom, body * 100 + i));
          }
          break;
        }
        default: {
          // Requests of several kinds in random order; requests of a kind are equal.
          Wait(-std::log(1 - Uniform()) * unit_ * 50);
          const double u = Uniform();
          const int request = Uniform() < shape_.usual_request ? 0 : static_cast<int>(u * shape_.requests);
          const int length = 10 + request * 17 % 40;
          for (int i = 0; i < length; ++i) Put(Name(kRandom, request * 100 + i % 30));
        }
      }
    }
  }

  void Lose() {
    std::vector<StepLaunch>& all = made_.launches;
    std::vector<StepLaunch> kept;
    if (shape_.dropped > 0) {
      for (const StepLaunch& launch : all) {
        if (Uniform() >= shape_.dropped) kept.push_back(launch);
      }
      all.swap(kept);
    }
    if (shape_.lost > 0) {
      kept.clear();
      const int range = 250;
      bool lost = false;
      for (size_t i = 0; i < all.size();) {
        if (Uniform() < shape_.lost / range) {
          const size_t end = std::min(all.size(), i + 100 + static_cast<size_t>(Below(300)));
          // Steps that begin where nothing was recorded cannot be found.
          const int64_t from = all[i].start_ps, to = all[end - 1].start_ps;
          std::erase_if(made_.truth, [&](int64_t time) {
            const bool hidden = time >= from && time <= to;
            if (hidden) made_.optional.push_back(time);
            return hidden;
          });
          // The first launch after the range may count as a boundary or not.
          i = end;
          lost = true;
          continue;
        }
        kept.push_back(all[i++]);
        if (lost) kept.back().flags |= StepLaunch::kAfterLoss;
        lost = false;
      }
      all.swap(kept);
    }
    if (shape_.clock_us > 0) {
      std::normal_distribution<double> noise(0, shape_.clock_us * 1e6);
      for (StepLaunch& launch : all) {
        const int64_t by = static_cast<int64_t>(noise(random_));
        launch.start_ps += by;
        launch.end_ps += by;
      }
      std::stable_sort(all.begin(), all.end(),
                       [](const StepLaunch& a, const StepLaunch& b) { return a.start_ps < b.start_ps; });
    }
  }

  void Finish() {
    std::vector<int64_t> lengths;
    for (size_t i = 1; i < made_.truth.size(); ++i) lengths.push_back(made_.truth[i] - made_.truth[i - 1]);
    if (lengths.empty()) return;
    std::nth_element(lengths.begin(), lengths.begin() + static_cast<ptrdiff_t>(lengths.size() / 2), lengths.end());
    made_.median_ps = lengths[lengths.size() / 2];
    std::sort(made_.optional.begin(), made_.optional.end());
  }

  const StepShape shape_;
  std::mt19937_64 random_;
  MadeSteps made_;
  uint64_t base_ = 0;
  double unit_ = 0, step_ps_ = 0, step_factor_ = 1;
  int64_t now_ = 0;
  bool begins_step_ = false, pending_ = false;
};

inline MadeSteps MakeSteps(const StepShape& shape, uint64_t seed) { return StepMaker(shape, seed).Make(); }

struct StepScore {
  double precision = 0, recall = 0, f1 = 0;
};

// Boundaries within 5 % of the true median step count as found.
inline StepScore ScoreBoundaries(const MadeSteps& made, std::vector<int64_t> found) {
  if (!made.periodic) return found.empty() ? StepScore{1, 1, 1} : StepScore{0, 0, 0};
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  const int64_t tolerance = made.median_ps / 20;
  std::vector<bool> used(found.size());
  size_t matched = 0;
  for (size_t t = 0, f = 0; t < made.truth.size(); ++t) {
    while (f < found.size() && found[f] < made.truth[t] - tolerance) ++f;
    if (f == found.size() || found[f] > made.truth[t] + tolerance) continue;
    used[f++] = true;
    ++matched;
  }
  size_t wrong = 0;
  for (size_t f = 0; f < found.size(); ++f) {
    if (used[f]) continue;
    const auto near = std::lower_bound(made.optional.begin(), made.optional.end(), found[f] - tolerance);
    wrong += near == made.optional.end() || *near > found[f] + tolerance;
  }
  StepScore score;
  if (matched == 0) return score;
  score.precision = static_cast<double>(matched) / static_cast<double>(matched + wrong);
  score.recall = static_cast<double>(matched) / static_cast<double>(made.truth.size());
  score.f1 = 2 * score.precision * score.recall / (score.precision + score.recall);
  return score;
}

inline StepScore ScoreSteps(const MadeSteps& made, const StepDetection& detection) {
  std::vector<int64_t> found;
  for (const DetectedStep& step : detection.steps) {
    found.push_back(step.start_ps);
    found.push_back(step.end_ps);
  }
  return ScoreBoundaries(made, std::move(found));
}

inline std::vector<StepCase> HeldOutCases() {
  using S = StepShape;
  std::vector<StepCase> cases;
  const auto add = [&](std::string name, auto change) {
    StepShape shape;
    change(shape);
    cases.push_back({std::move(name), shape});
  };
  for (int layers : {1, 3, 10, 32, 80}) {
    for (double jitter : {0.02, 0.2, 0.4}) {
      add(std::to_string(layers) + " layers, jitter " + std::to_string(static_cast<int>(jitter * 100)) + " %",
          [&](S& s) {
            s.layers = layers;
            s.jitter = jitter;
            s.optimizer_launches = layers == 10 ? 1 : 35;
            s.steps = 45;
          });
    }
  }
  add("no input gap", [](S& s) {
    s.input_wait = 0;
    s.layers = 20;
    s.steps = 150;
  });
  add("loss copied each step", [](S& s) {
    s.loss_copy = 0.4;
    s.layers = 16;
  });
  add("optimizer unnamed", [](S& s) {
    s.optimizer = S::kUnnamed;
    s.layers = 18;
    s.optimizer_launches = 30;
  });
  add("optimizer unnamed, loss copied", [](S& s) {
    s.optimizer = S::kUnnamed;
    s.layers = 9;
    s.loss_copy = 0.2;
  });
  add("accumulation 3", [](S& s) {
    s.accumulation = 3;
    s.layers = 10;
  });
  add("accumulation 8", [](S& s) {
    s.accumulation = 8;
    s.layers = 6;
    s.steps = 40;
  });
  add("accumulation 3, unnamed", [](S& s) {
    s.accumulation = 3;
    s.optimizer = S::kUnnamed;
  });
  add("accumulation 8, unnamed", [](S& s) {
    s.accumulation = 8;
    s.layers = 5;
    s.optimizer = S::kUnnamed;
    s.optimizer_launches = 60;
    s.steps = 30;
  });
  add("evaluation every 30", [](S& s) {
    s.evaluate_every = 30;
    s.evaluate_batches = 15;
    s.steps = 160;
    s.layers = 10;
  });
  add("evaluation every 25, other kernels", [](S& s) {
    s.evaluate_every = 25;
    s.evaluate_batches = 12;
    s.evaluation_names = true;
    s.steps = 130;
    s.layers = 10;
  });
  add("evaluation every 30, unnamed", [](S& s) {
    s.evaluate_every = 30;
    s.evaluate_batches = 10;
    s.optimizer = S::kUnnamed;
    s.steps = 160;
    s.layers = 10;
  });
  add("14 epochs of 25", [](S& s) {
    s.evaluate_every = 25;
    s.evaluate_batches = 12;
    s.evaluate_ends = 30;
    s.evaluation_names = true;
    s.steps = 350;
    s.layers = 5;
  });
  add("9 epochs of 50, unnamed", [](S& s) {
    s.evaluate_every = 50;
    s.evaluate_batches = 30;
    s.evaluate_ends = 8;
    s.optimizer = S::kUnnamed;
    s.steps = 450;
    s.layers = 4;
  });
  add("11 epochs of 40, no evaluation, unnamed", [](S& s) {
    s.evaluate_every = 40;
    s.evaluate_batches = 0;
    s.evaluate_ends = 60;
    s.optimizer = S::kUnnamed;
    s.steps = 440;
    s.layers = 3;
  });
  add("checkpoint every 15", [](S& s) {
    s.checkpoint_every = 15;
    s.steps = 80;
  });
  add("checkpoint every 20, unnamed", [](S& s) {
    s.checkpoint_every = 20;
    s.optimizer = S::kUnnamed;
    s.steps = 90;
  });
  add("pauses 3 %", [](S& s) {
    s.pauses = 0.03;
    s.step_ms = 150;
    s.layers = 14;
    s.steps = 100;
  });
  add("pauses 15 %, unnamed", [](S& s) {
    s.pauses = 0.15;
    s.step_ms = 300;
    s.optimizer = S::kUnnamed;
  });
  add("foreign 2 %", [](S& s) {
    s.foreign = 0.02;
    s.layers = 20;
  });
  add("foreign 7 %", [](S& s) {
    s.foreign = 0.07;
    s.layers = 14;
  });
  add("foreign 20 %", [](S& s) {
    s.foreign = 0.2;
    s.layers = 14;
  });
  add("foreign 25 %, unnamed", [](S& s) {
    s.foreign = 0.25;
    s.optimizer = S::kUnnamed;
    s.optimizer_launches = 12;
  });
  add("4 shape variants", [](S& s) {
    s.variants = 4;
    s.layers = 16;
  });
  add("8 shape variants, inference", [](S& s) {
    s.variants = 8;
    s.optimizer = S::kNoOptimizer;
    s.steps = 150;
  });
  add("depth 6-20", [](S& s) {
    s.depth_min = 6;
    s.layers = 20;
    s.steps = 120;
  });
  add("depth 3-9, unnamed", [](S& s) {
    s.depth_min = 3;
    s.layers = 9;
    s.steps = 120;
    s.optimizer = S::kUnnamed;
  });
  add("graph, 2 launches", [](S& s) {
    s.graph_launches = 2;
    s.steps = 150;
  });
  add("graph, 3 launches, not said to be one", [](S& s) {
    s.graph_launches = 3;
    s.steps = 120;
    s.graph_flag = false;
  });
  add("graph, 1 launch", [](S& s) {
    s.graph_launches = 1;
    s.steps = 60;
  });
  add("two networks", [](S& s) {
    s.two_networks = true;
    s.layers = 7;
    s.steps = 50;
  });
  add("optimizer in backward", [](S& s) {
    s.optimizer = S::kInBackward;
    s.layers = 15;
  });
  add("1F1B, 8 micro-batches", [](S& s) {
    s.micro_batches = 8;
    s.layers = 5;
    s.steps = 40;
  });
  add("1F1B, 6 micro-batches, unnamed", [](S& s) {
    s.micro_batches = 6;
    s.layers = 5;
    s.steps = 40;
    s.optimizer = S::kUnnamed;
    s.optimizer_launches = 40;
  });
  add("8 experts", [](S& s) {
    s.experts = 8;
    s.layers = 12;
  });
  add("32 experts, unnamed", [](S& s) {
    s.experts = 32;
    s.layers = 10;
    s.optimizer = S::kUnnamed;
  });
  add("rollout 24", [](S& s) {
    s.rollout = 24;
    s.layers = 8;
    s.steps = 30;
  });
  add("rollout 80", [](S& s) {
    s.rollout = 80;
    s.layers = 4;
    s.steps = 25;
  });
  add("decode", [](S& s) {
    s.decode = true;
    s.optimizer = S::kNoOptimizer;
    s.layers = 20;
    s.steps = 250;
    s.step_ms = 15;
  });
  add("decode, 3 variants", [](S& s) {
    s.decode = true;
    s.optimizer = S::kNoOptimizer;
    s.layers = 28;
    s.steps = 200;
    s.step_ms = 20;
    s.variants = 3;
  });
  add("inference", [](S& s) {
    s.optimizer = S::kNoOptimizer;
    s.layers = 18;
    s.steps = 120;
  });
  add("requests at random times", [](S& s) {
    s.optimizer = S::kNoOptimizer;
    s.layers = 10;
    s.steps = 150;
    s.request_gap = 0.7;
    s.input_wait = 0;
  });
  add("5 steps", [](S& s) {
    s.steps = 5;
    s.layers = 16;
  });
  add("6 steps, unnamed", [](S& s) {
    s.steps = 6;
    s.layers = 10;
    s.optimizer = S::kUnnamed;
  });
  add("11 steps", [](S& s) {
    s.steps = 11;
    s.layers = 8;
  });
  add("start-up, then 3 slow steps", [](S& s) {
    s.startup = 1500;
    s.slow_steps = 3;
    s.steps = 140;
  });
  add("start-up, 2 slow steps, unnamed", [](S& s) {
    s.startup = 3000;
    s.slow_steps = 2;
    s.slow_factor = 20;
    s.steps = 100;
    s.optimizer = S::kUnnamed;
  });
  add("ranges lost 2 %", [](S& s) {
    s.lost = 0.02;
    s.layers = 12;
    s.steps = 100;
  });
  add("ranges lost 8 %", [](S& s) {
    s.lost = 0.08;
    s.layers = 20;
    s.steps = 100;
  });
  add("dropped 3 %", [](S& s) {
    s.dropped = 0.03;
    s.layers = 14;
    s.steps = 80;
  });
  add("dropped 7 %, unnamed", [](S& s) {
    s.dropped = 0.07;
    s.optimizer = S::kUnnamed;
    s.steps = 80;
  });
  add("clock off by 30 us", [](S& s) {
    s.clock_us = 30;
    s.layers = 14;
  });
  add("logs every 7", [](S& s) {
    s.log_every = 7;
    s.steps = 100;
  });
  add("logs every 8, unnamed", [](S& s) {
    s.log_every = 8;
    s.steps = 100;
    s.optimizer = S::kUnnamed;
    s.log_launches = 3;
  });
  add("uniform, 800 symbols", [](S& s) {
    s.kind = S::kUniform;
    s.alphabet = 800;
  });
  add("uniform, 7 symbols", [](S& s) {
    s.kind = S::kUniform;
    s.alphabet = 7;
  });
  add("skewed, 3000 symbols", [](S& s) {
    s.kind = S::kSkewed;
    s.alphabet = 3000;
  });
  add("Markov chain, 60 states", [](S& s) {
    s.kind = S::kMarkov;
    s.alphabet = 60;
  });
  add("Markov chain, 900 states", [](S& s) {
    s.kind = S::kMarkov;
    s.alphabet = 900;
  });
  add("bursts", [](S& s) {
    s.kind = S::kBursts;
    s.alphabet = 120;
  });
  add("mixed requests", [](S& s) {
    s.kind = S::kMixedRequests;
    s.launches = 20'000;
  });
  add("short and uniform", [](S& s) {
    s.kind = S::kUniform;
    s.alphabet = 60;
    s.launches = 600;
  });
  return cases;
}

inline std::vector<StepCase> TuningCases() {
  using S = StepShape;
  std::vector<StepCase> cases;
  const auto add = [&](std::string name, auto change) {
    StepShape shape;
    change(shape);
    cases.push_back({std::move(name), shape});
  };
  for (int layers : {2, 6, 24, 96}) {
    for (double jitter : {0.05, 0.3}) {
      for (int optimizer : {2, 100}) {
        add(std::to_string(layers) + " layers, jitter " + std::to_string(static_cast<int>(jitter * 100)) +
                " %, optimizer " + std::to_string(optimizer),
            [&](S& s) {
              s.layers = layers;
              s.jitter = jitter;
              s.optimizer_launches = optimizer;
            });
      }
    }
  }
  add("no input gap", [](S& s) {
    s.input_wait = 0;
    s.layers = 24;
    s.steps = 200;
  });
  add("loss copied each step", [](S& s) {
    s.loss_copy = 0.3;
    s.layers = 12;
  });
  add("optimizer unnamed", [](S& s) {
    s.optimizer = S::kUnnamed;
    s.layers = 24;
  });
  add("optimizer unnamed, loss copied", [](S& s) {
    s.optimizer = S::kUnnamed;
    s.layers = 6;
    s.loss_copy = 0.3;
  });
  add("accumulation 4", [](S& s) {
    s.accumulation = 4;
    s.layers = 12;
  });
  add("accumulation 16", [](S& s) {
    s.accumulation = 16;
    s.layers = 4;
    s.steps = 30;
  });
  add("accumulation 4, unnamed", [](S& s) {
    s.accumulation = 4;
    s.optimizer = S::kUnnamed;
  });
  add("accumulation 2, unnamed", [](S& s) {
    s.accumulation = 2;
    s.optimizer = S::kUnnamed;
    s.optimizer_launches = 6;
  });
  add("evaluation every 50", [](S& s) {
    s.evaluate_every = 50;
    s.steps = 210;
    s.layers = 8;
  });
  add("evaluation every 20, other kernels", [](S& s) {
    s.evaluate_every = 20;
    s.evaluation_names = true;
    s.steps = 110;
    s.layers = 8;
    s.evaluate_batches = 8;
  });
  add("evaluation every 40, unnamed", [](S& s) {
    s.evaluate_every = 40;
    s.optimizer = S::kUnnamed;
    s.steps = 170;
    s.layers = 8;
  });
  add("checkpoint every 25", [](S& s) {
    s.checkpoint_every = 25;
    s.steps = 110;
  });
  add("checkpoint every 10, unnamed", [](S& s) {
    s.checkpoint_every = 10;
    s.optimizer = S::kUnnamed;
    s.steps = 70;
  });
  add("pauses 10 %", [](S& s) {
    s.pauses = 0.1;
    s.step_ms = 200;
  });
  add("pauses 5 %, unnamed", [](S& s) {
    s.pauses = 0.05;
    s.optimizer = S::kUnnamed;
    s.step_ms = 120;
  });
  add("foreign 1 %", [](S& s) {
    s.foreign = 0.01;
    s.layers = 24;
  });
  add("foreign 3 %", [](S& s) {
    s.foreign = 0.03;
    s.layers = 24;
  });
  add("foreign 10 %", [](S& s) { s.foreign = 0.1; });
  add("foreign 30 %", [](S& s) { s.foreign = 0.3; });
  add("foreign 15 %, unnamed", [](S& s) {
    s.foreign = 0.15;
    s.optimizer = S::kUnnamed;
  });
  add("6 shape variants", [](S& s) {
    s.variants = 6;
    s.layers = 24;
  });
  add("5 shape variants, inference", [](S& s) {
    s.variants = 5;
    s.optimizer = S::kNoOptimizer;
    s.steps = 120;
  });
  add("depth 4-24", [](S& s) {
    s.depth_min = 4;
    s.layers = 24;
    s.steps = 100;
  });
  add("depth 2-10, unnamed", [](S& s) {
    s.depth_min = 2;
    s.layers = 10;
    s.steps = 100;
    s.optimizer = S::kUnnamed;
  });
  add("graph, 3 launches", [](S& s) {
    s.graph_launches = 3;
    s.steps = 200;
  });
  add("graph, 2 launches, not said to be one", [](S& s) {
    s.graph_launches = 2;
    s.steps = 100;
    s.graph_flag = false;
  });
  add("graph, 1 launch", [](S& s) {
    s.graph_launches = 1;
    s.steps = 90;
  });
  add("two networks", [](S& s) {
    s.two_networks = true;
    s.layers = 5;
  });
  add("optimizer in backward", [](S& s) {
    s.optimizer = S::kInBackward;
    s.layers = 8;
  });
  add("1F1B, 4 micro-batches", [](S& s) {
    s.micro_batches = 4;
    s.layers = 6;
  });
  add("1F1B, 12 micro-batches, unnamed", [](S& s) {
    s.micro_batches = 12;
    s.layers = 3;
    s.optimizer = S::kUnnamed;
    s.steps = 30;
  });
  add("16 experts", [](S& s) {
    s.experts = 16;
    s.layers = 16;
  });
  add("64 experts, unnamed", [](S& s) {
    s.experts = 64;
    s.layers = 8;
    s.optimizer = S::kUnnamed;
  });
  add("rollout 32", [](S& s) {
    s.rollout = 32;
    s.layers = 6;
    s.steps = 25;
  });
  add("rollout 100", [](S& s) {
    s.rollout = 100;
    s.layers = 3;
    s.steps = 20;
  });
  add("decode", [](S& s) {
    s.decode = true;
    s.optimizer = S::kNoOptimizer;
    s.layers = 24;
    s.steps = 200;
    s.step_ms = 20;
  });
  add("decode, 2 variants", [](S& s) {
    s.decode = true;
    s.optimizer = S::kNoOptimizer;
    s.layers = 12;
    s.steps = 300;
    s.step_ms = 10;
    s.variants = 2;
  });
  add("inference", [](S& s) {
    s.optimizer = S::kNoOptimizer;
    s.layers = 24;
    s.steps = 140;
  });
  add("requests at random times", [](S& s) {
    s.optimizer = S::kNoOptimizer;
    s.layers = 12;
    s.steps = 120;
    s.request_gap = 1;
    s.input_wait = 0;
  });
  add("5 steps", [](S& s) {
    s.steps = 5;
    s.layers = 24;
  });
  add("7 steps, unnamed", [](S& s) {
    s.steps = 7;
    s.layers = 12;
    s.optimizer = S::kUnnamed;
  });
  add("12 steps", [](S& s) {
    s.steps = 12;
    s.layers = 12;
  });
  add("start-up, then 3 slow steps", [](S& s) {
    s.startup = 2000;
    s.slow_steps = 3;
    s.steps = 200;
  });
  add("start-up, 1 slow step, unnamed", [](S& s) {
    s.startup = 4000;
    s.slow_steps = 1;
    s.slow_factor = 50;
    s.steps = 120;
    s.optimizer = S::kUnnamed;
  });
  add("ranges lost 1 %", [](S& s) {
    s.lost = 0.01;
    s.layers = 24;
    s.steps = 100;
  });
  add("ranges lost 10 %", [](S& s) {
    s.lost = 0.1;
    s.layers = 16;
    s.steps = 100;
  });
  add("dropped 1 %", [](S& s) {
    s.dropped = 0.01;
    s.steps = 80;
  });
  add("dropped 10 %", [](S& s) {
    s.dropped = 0.1;
    s.layers = 10;
    s.steps = 80;
  });
  add("clock off by 50 us", [](S& s) { s.clock_us = 50; });
  add("logs every 10", [](S& s) {
    s.log_every = 10;
    s.steps = 120;
  });
  add("logs every 5, unnamed", [](S& s) {
    s.log_every = 5;
    s.steps = 80;
    s.optimizer = S::kUnnamed;
  });
  add("no gap, unnamed, loss copied", [](S& s) {
    s.input_wait = 0;
    s.optimizer = S::kUnnamed;
    s.loss_copy = 0.1;
    s.layers = 10;
  });
  add("no gap, accumulation 4", [](S& s) {
    s.input_wait = 0;
    s.accumulation = 4;
  });
  add("no gap, accumulation 6, unnamed", [](S& s) {
    s.input_wait = 0;
    s.accumulation = 6;
    s.optimizer = S::kUnnamed;
    s.layers = 6;
  });
  add("jitter 60 %, unnamed", [](S& s) {
    s.jitter = 0.6;
    s.optimizer = S::kUnnamed;
  });
  add("logs every 4, not waited for", [](S& s) {
    s.log_every = 4;
    s.log_blocks = false;
    s.steps = 90;
  });
  add("evaluation of 150 every 30", [](S& s) {
    s.evaluate_every = 30;
    s.evaluate_batches = 150;
    s.steps = 100;
    s.layers = 6;
  });
  add("10 epochs of 20, evaluation of 10", [](S& s) {
    s.evaluate_every = 20;
    s.evaluate_batches = 10;
    s.evaluate_ends = 12;
    s.steps = 200;
    s.layers = 4;
  });
  add("10 epochs of 20, evaluation of 10, unnamed", [](S& s) {
    s.evaluate_every = 20;
    s.evaluate_batches = 10;
    s.evaluate_ends = 12;
    s.optimizer = S::kUnnamed;
    s.steps = 200;
    s.layers = 4;
  });
  add("12 epochs of 100, no evaluation, unnamed", [](S& s) {
    s.evaluate_every = 100;
    s.evaluate_batches = 0;
    s.evaluate_ends = 25;
    s.optimizer = S::kUnnamed;
    s.steps = 1200;
    s.layers = 2;
  });
  add("lengths vary, sigma 0.4", [](S& s) {
    s.length_spread = 0.4;
    s.steps = 80;
  });
  add("lengths vary, sigma 0.3, unnamed", [](S& s) {
    s.length_spread = 0.3;
    s.steps = 80;
    s.optimizer = S::kUnnamed;
  });
  add("epochs of 20", [](S& s) {
    s.epoch = 20;
    s.steps = 105;
    s.optimizer = S::kUnnamed;
  });
  add("accumulation 4, foreign 10 %", [](S& s) {
    s.accumulation = 4;
    s.foreign = 0.1;
  });
  add("accumulation 4, unnamed, foreign 10 %", [](S& s) {
    s.accumulation = 4;
    s.foreign = 0.1;
    s.optimizer = S::kUnnamed;
  });
  add("accumulation 4, evaluation every 15", [](S& s) {
    s.accumulation = 4;
    s.evaluate_every = 15;
    s.steps = 70;
    s.layers = 6;
  });
  add("accumulation 4, unnamed, evaluation every 15", [](S& s) {
    s.accumulation = 4;
    s.evaluate_every = 15;
    s.steps = 70;
    s.layers = 6;
    s.optimizer = S::kUnnamed;
  });
  add("two networks, foreign 5 %", [](S& s) {
    s.two_networks = true;
    s.foreign = 0.05;
    s.layers = 8;
  });
  add("two networks, unnamed", [](S& s) {
    s.two_networks = true;
    s.optimizer = S::kUnnamed;
    s.layers = 8;
  });
  add("experts, accumulation 4", [](S& s) {
    s.accumulation = 4;
    s.experts = 16;
  });
  add("depth 4-16, accumulation 4", [](S& s) {
    s.depth_min = 4;
    s.layers = 16;
    s.accumulation = 4;
  });
  add("accumulation 4, 12 steps", [](S& s) {
    s.accumulation = 4;
    s.steps = 12;
  });
  add("accumulation 4, unnamed, 8 steps", [](S& s) {
    s.accumulation = 4;
    s.steps = 8;
    s.optimizer = S::kUnnamed;
  });
  add("accumulation 4, ranges lost 5 %", [](S& s) {
    s.accumulation = 4;
    s.lost = 0.05;
  });
  add("loss copied, logs every 6, unnamed", [](S& s) {
    s.loss_copy = 0.2;
    s.log_every = 6;
    s.steps = 90;
    s.optimizer = S::kUnnamed;
  });
  add("2 requests in no order", [](S& s) {
    s.kind = S::kMixedRequests;
    s.requests = 2;
  });
  add("3 requests, one usual", [](S& s) {
    s.kind = S::kMixedRequests;
    s.requests = 3;
    s.usual_request = 0.4;
  });
  add("loops of a few turns", [](S& s) { s.kind = S::kPhases; });
  add("Markov chain, 8 states", [](S& s) {
    s.kind = S::kMarkov;
    s.alphabet = 8;
  });
  add("uniform, 3 symbols", [](S& s) {
    s.kind = S::kUniform;
    s.alphabet = 3;
  });
  add("skewed, 50 symbols", [](S& s) {
    s.kind = S::kSkewed;
    s.alphabet = 50;
  });
  add("short bursts", [](S& s) {
    s.kind = S::kBursts;
    s.alphabet = 30;
    s.launches = 1500;
  });
  add("uniform, 300 symbols", [](S& s) {
    s.kind = S::kUniform;
    s.alphabet = 300;
  });
  add("uniform, 20 symbols", [](S& s) {
    s.kind = S::kUniform;
    s.alphabet = 20;
  });
  add("uniform, 5000 symbols", [](S& s) {
    s.kind = S::kUniform;
    s.alphabet = 5000;
  });
  add("skewed, 1000 symbols", [](S& s) {
    s.kind = S::kSkewed;
    s.alphabet = 1000;
  });
  add("Markov chain, 30 states", [](S& s) {
    s.kind = S::kMarkov;
    s.alphabet = 30;
  });
  add("Markov chain, 300 states", [](S& s) {
    s.kind = S::kMarkov;
    s.alphabet = 300;
  });
  add("bursts", [](S& s) {
    s.kind = S::kBursts;
    s.alphabet = 60;
  });
  add("mixed requests", [](S& s) { s.kind = S::kMixedRequests; });
  add("short and uniform", [](S& s) {
    s.kind = S::kUniform;
    s.alphabet = 100;
    s.launches = 800;
  });
  return cases;
}

// Cases that launches alone do not resolve: a few decoding steps before each update look like evaluation before each
// checkpoint, a single kernel every fourth time looks like logging, and an epoch of a few steps like a step of several
// parts. The result must name the other reading, and must not be sure of either.
inline std::vector<StepCase> AmbiguousCases() {
  using S = StepShape;
  std::vector<StepCase> cases;
  const auto add = [&](std::string name, auto change) {
    StepShape shape;
    change(shape);
    cases.push_back({std::move(name), shape});
  };
  add("rollout 40, unnamed", [](S& s) {
    s.rollout = 40;
    s.layers = 5;
    s.steps = 25;
    s.optimizer = S::kUnnamed;
  });
  add("logs every 5, unnamed, not waited for", [](S& s) {
    s.log_every = 5;
    s.log_blocks = false;
    s.log_launches = 4;
    s.steps = 80;
    s.optimizer = S::kUnnamed;
  });
  for (const int steps : {4, 8}) {
    add(std::to_string(steps) + " steps an epoch", [steps](S& s) {
      s.evaluate_every = steps;
      s.evaluate_batches = 5;
      s.evaluate_ends = 12;
      s.steps = 30 * steps;
      s.layers = 4;
    });
  }
  add("8 steps an epoch, unnamed", [](S& s) {
    s.evaluate_every = 8;
    s.evaluate_batches = 5;
    s.evaluate_ends = 12;
    s.steps = 240;
    s.layers = 4;
    s.optimizer = S::kUnnamed;
  });
  add("accumulation 4, unnamed, optimizer 1", [](S& s) {
    s.accumulation = 4;
    s.optimizer = S::kUnnamed;
    s.optimizer_launches = 1;
  });
  return cases;
}

// Random combinations. In some of them not even a person could find the steps, so tests check only the confidence.
inline StepShape RandomShape(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto uniform = [&random] { return std::uniform_real_distribution<double>(0, 1)(random); };
  const auto chance = [&uniform](double p) { return uniform() < p; };
  const auto below = [&uniform](double bound) { return static_cast<int>(uniform() * bound); };
  StepShape shape;
  shape.steps = 8 + static_cast<int>(uniform() * uniform() * 150);
  shape.step_ms = 10 * std::pow(30, uniform());
  shape.layers = 1 + static_cast<int>(uniform() * uniform() * 60);
  shape.layer_launches = 4 + below(10);
  shape.optimizer_launches = 1 + below(60);
  if (chance(0.35)) {
    shape.optimizer = StepShape::kUnnamed;
  } else if (chance(0.2)) {
    shape.optimizer = StepShape::kNoOptimizer;
  } else if (chance(0.1)) {
    shape.optimizer = StepShape::kInBackward;
  }
  const bool has_burst = shape.optimizer == StepShape::kNamed || shape.optimizer == StepShape::kUnnamed;
  if (chance(0.25) && has_burst) shape.accumulation = 2 + below(8);
  shape.jitter = 0.5 * uniform();
  shape.input_wait = chance(0.25) ? 0 : 0.3 * uniform();
  if (chance(0.3)) shape.loss_copy = 0.4 * uniform();
  if (chance(0.3)) shape.foreign = 0.4 * uniform() * uniform();
  if (chance(0.1)) shape.variants = 2 + below(5);
  if (chance(0.1) && shape.layers > 6) shape.depth_min = shape.layers / 3;
  if (chance(0.15)) {
    shape.evaluate_every = 10 + below(30);
    shape.evaluate_batches = 3 + below(20);
    shape.evaluation_names = chance(0.5);
  }
  if (chance(0.1)) shape.checkpoint_every = 8 + below(20);
  if (chance(0.1)) shape.pauses = 0.15 * uniform();
  if (chance(0.15)) shape.log_every = 2 + below(12);
  if (chance(0.2)) {
    shape.startup = below(3000);
    shape.slow_steps = below(4);
    shape.slow_factor = 2 + 20 * uniform();
  }
  if (chance(0.07) && shape.accumulation == 1) shape.two_networks = true;
  if (chance(0.1)) shape.experts = 4 + below(30);
  if (chance(0.1)) shape.lost = 0.06 * uniform();
  if (chance(0.05)) shape.dropped = 0.05 * uniform();
  if (chance(0.1)) shape.length_spread = 0.3 * uniform();
  if (shape.evaluate_every > 0 && chance(0.5)) shape.evaluate_ends = below(40);
  return shape;
}

}  // namespace tbprof

#endif  // TBPROF_TESTS_UNIT_WRITER_STEP_MAKER_H_
