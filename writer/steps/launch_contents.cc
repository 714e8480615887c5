// SPDX-License-Identifier: Apache-2.0
#include "writer/steps/launch_detector.h"

namespace tbprof::launch_steps {

double Detector::RatioOf(uint32_t coarse, uint32_t fine) const {
  const Ratio& ratio = classes_[coarse].finer[fine];
  if (fine >= coarse || classes_[coarse].intervals < 3 || ratio.value < 2) return 0;
  return static_cast<double>(ratio.same) / (classes_[coarse].intervals - 1) >= 0.7 ? static_cast<double>(ratio.value)
                                                                                   : 0;
}

// The contents of each finalist's intervals, symbol by symbol.
class Detector::Contents {
 public:
  Contents(Detector* detector, const std::vector<uint32_t>& finalists)
      : detector_(*detector),
        finalists_(finalists),
        slots_(detector->tables_[0].slots()),
        dense_(slots_.size(), kNone) {
    for (uint32_t id : finalists) {
      const Candidate& pivot = detector_.members_[detector_.classes_[id].pivot].type;
      progress_.push_back({pivot.hash, pivot.length});
    }
    for (size_t i = 0; i < slots_.size() && symbols_.size() < kMaxSymbols; ++i) {
      if (slots_[i].count < kFewestOccurrences) continue;
      dense_[i] = static_cast<uint32_t>(symbols_.size());
      symbols_.push_back(static_cast<uint32_t>(i));
    }
    states_.resize(symbols_.size() * finalists.size());
    occurrences_.resize(symbols_.size());
  }

  void Take(const Reading& reading) {
    if (reading.begins_segment) {
      for (Progress& one : progress_) {
        one.open = false;
        one.interval += 2;
        one.touched = one.touched_next = 0;
      }
    }
    if (const uint32_t pivots = TakePivots(reading); pivots != 0) {
      for (Progress& one : progress_) one.touched |= pivots;
    }
    const size_t slot = detector_.tables_[0].IndexOf(reading.runs[0]);
    const uint32_t symbol = slot == SIZE_MAX ? kNone : dense_[slot];
    if (symbol != kNone) ++occurrences_[symbol];
    for (size_t f = 0; f < progress_.size(); ++f) {
      if (!progress_[f].open) continue;
      progress_[f].total += 1;
      if (symbol != kNone) TakeSymbol(reading.index, &progress_[f], &StateOf(symbol, f));
    }
  }

  double Explained(size_t f) const {
    const Progress& one = progress_[f];
    const double intervals = std::max(2.0, one.intervals + 1);
    // The first two intervals of a symbol are never counted.
    return one.total == 0 ? 0 : std::min(1.0, one.regular / one.total * intervals / (intervals - 1.9));
  }

  // Finds the loop around a finalist's loop, by symbols that occur in every Nth of its intervals.
  void FindOuter(size_t f, Outer* best) const {
    std::map<uint32_t, Outer> outers;
    const double fine = std::max(1.0, progress_[f].intervals);
    for (size_t s = 0; s < symbols_.size(); ++s) {
      const State& state = states_[s * finalists_.size() + f];
      // Three equal distances may be chance if there are many symbols. More are not required, since a short recording
      // has only a few.
      if (state.present < 5 || state.distance < 2 || state.same_distance < 3) continue;
      const double covered = static_cast<double>(state.present) * state.distance;
      if (state.same_distance * 4 < (state.present - 2) * 3 || covered < 0.75 * fine || covered > 1.3 * fine) continue;
      Outer& outer = outers[state.distance];
      const double launches = static_cast<double>(occurrences_[s]) * state.distance / fine;
      const Type& type = slots_[symbols_[s]];
      outer.ratio = state.distance;
      outer.extra += launches;
      if ((type.flags & StepLaunch::kBlocking) != 0) outer.blocking += launches;
      if ((type.flags & StepLaunch::kOptimizer) != 0) outer.optimizer += launches;
      outer.offset += state.offset / state.present * launches;
      if (outer.symbols.size() < kMaxExtras) outer.symbols.push_back(type.hash);
    }
    for (auto& [ratio, outer] : outers) {
      if (outer.extra > best->extra) *best = std::move(outer);
    }
    if (best->extra > 0) best->offset /= best->extra;
  }

  // Finds the launches that the coarser finalist `c` has in addition to those of the finer finalist `f`.
  Pair Compare(size_t c, size_t f) const {
    Pair pair;
    const double coarse = std::max(1.0, progress_[c].intervals);
    const double fine = std::max(1.0, progress_[f].intervals);
    const size_t count = finalists_.size();
    for (size_t s = 0; s < symbols_.size(); ++s) {
      if (states_[s * count + c].present < 0.75 * coarse || states_[s * count + f].present > 0.6 * fine) continue;
      const double launches = static_cast<double>(occurrences_[s]) / coarse;
      pair.extra += launches;
      if (pair.symbols.size() < kMaxExtras) pair.symbols.push_back(slots_[symbols_[s]].hash);
      if ((slots_[symbols_[s]].flags & StepLaunch::kBlocking) != 0) pair.blocking += launches;
    }
    const double usual = std::max(1.0, detector_.classes_[finalists_[f]].length);
    double longest = 0;
    if (progress_[f].withs[c] != 0) longest = progress_[f].with[c] / progress_[f].withs[c];
    if (progress_[f].behinds[c] != 0) longest = std::max(longest, progress_[f].behind[c] / progress_[f].behinds[c]);
    pair.stretch = std::max(1.0, longest / usual);
    return pair;
  }

 private:
  // State of one symbol in the intervals of one finalist.
  struct State {
    uint32_t interval = kNone, count = 0, before_interval = kNone, before_count = 0, present = 0;
    uint32_t distance = 0, same_distance = 0;  // intervals from one with the symbol to the next
    float offset = 0;                          // sum of its positions in the interval, in launches
  };
  // State of one finalist.
  struct Progress {
    uint64_t hash;
    size_t length;
    bool open = false;
    uint32_t interval = 0;
    double intervals = 0;  // number of closed intervals
    size_t began = 0;
    uint32_t touched = 0, touched_next = 0;
    double regular = 0, total = 0;
    std::array<double, kMaxFinalists> with{}, behind{};
    std::array<uint32_t, kMaxFinalists> withs{}, behinds{};
  };

  State& StateOf(uint32_t symbol, size_t finalist) { return states_[symbol * finalists_.size() + finalist]; }

  // Returns the finalists of which an interval begins here, one bit each.
  uint32_t TakePivots(const Reading& reading) {
    uint32_t pivots = 0;
    for (size_t f = 0; f < progress_.size(); ++f) {
      Progress& one = progress_[f];
      if (one.length >= reading.lengths || reading.runs[one.length] != one.hash) continue;
      pivots |= 1u << f;
      if (one.open) CloseInterval(reading.index, &one);
      one.touched_next = one.touched;
      one.touched = 0;
      one.open = true;
      ++one.interval;
      one.began = reading.index;
    }
    return pivots;
  }

  void CloseInterval(size_t index, Progress* one) const {
    one->intervals += 1;
    const double length = static_cast<double>(index - one->began);
    for (size_t c = 0; c < progress_.size(); ++c) {
      if ((one->touched_next >> c & 1) != 0) {
        one->behind[c] += length;
        ++one->behinds[c];
      }
      if ((one->touched >> c & 1) != 0) {
        one->with[c] += length;
        ++one->withs[c];
      }
    }
  }

  static void TakeSymbol(size_t index, Progress* one, State* state) {
    if (state->interval == one->interval) {
      ++state->count;
      return;
    }
    if (state->interval != kNone && state->before_interval + 1 == state->interval &&
        state->before_count == state->count) {
      one->regular += state->count;
    }
    ++state->present;
    state->offset += static_cast<float>(index - one->began);
    if (state->interval != kNone) {
      state->same_distance += one->interval - state->interval == state->distance;
      state->distance = one->interval - state->interval;
    }
    state->before_interval = state->interval;
    state->before_count = state->count;
    state->interval = one->interval;
    state->count = 1;
  }

  const Detector& detector_;
  const std::vector<uint32_t>& finalists_;
  const std::vector<Type>& slots_;
  std::vector<uint32_t> dense_;    // by slot: its symbol
  std::vector<uint32_t> symbols_;  // by symbol: its slot
  std::vector<Progress> progress_;
  std::vector<State> states_;  // by symbol, then finalist
  std::vector<size_t> occurrences_;
};

void Detector::CompareContents(const std::vector<uint32_t>& finalists) {
  Contents contents(this, finalists);
  const size_t from = launches_.size() > kCompared ? (launches_.size() - kCompared) / 2 : 0;
  const size_t to = std::min(launches_.size(), from + kCompared);
  Read(launches_, from, to, [&](const Reading& reading) { contents.Take(reading); });
  const size_t count = finalists.size();
  pairs_.assign(count, std::vector<Pair>(count));
  for (size_t f = 0; f < count; ++f) {
    classes_[finalists[f]].explained = contents.Explained(f);
    contents.FindOuter(f, &classes_[finalists[f]].outer);
    for (size_t c = 0; c < count; ++c) {
      if (finalists[f] < finalists[c]) pairs_[c][f] = contents.Compare(c, f);
    }
  }
}

const Detector::Pair& Detector::PairOf(uint32_t coarse, uint32_t fine) const {
  const auto at = [this](uint32_t id) {
    return static_cast<size_t>(std::find(finalists_.begin(), finalists_.end(), id) - finalists_.begin());
  };
  return pairs_[at(coarse)][at(fine)];
}

// Returns whether the additional launches of the coarser class are part of a step, not work that happens every few
// steps.
bool Detector::IsStepOver(uint32_t coarse, uint32_t fine) const {
  const Class& outer = classes_[coarse];
  const Pair& pair = PairOf(coarse, fine);
  if (outer.alternation < 0.85 || outer.coverage < 0.7 || outer.good < 3 || outer.share < 0.6) return false;
  // Logging has few launches, and waits for the values that it logs.
  if (classes_[fine].marked && (pair.blocking * 4 > pair.extra || pair.extra < 1.5)) return false;
  const bool like_layers = !classes_[fine].marked && classes_[fine].length <= kLayerLaunches;
  return pair.stretch < 3 || classes_[fine].share < 0.75 || like_layers;
}

// Returns whether the intervals of the finer class are steps, and the coarser class is an epoch or occasional logging:
// the finer intervals are too many to be parts of one step, or each has its own optimizer and they are alike.
bool Detector::AreManySteps(uint32_t coarse, uint32_t fine) const {
  const Class& part = classes_[fine];
  const double ratio = RatioOf(coarse, fine);
  if (ratio == 0 || part.alternation < 0.9) return false;
  if (by_optimizer_) return part.optimizes && (ratio > kMostNetworks || part.explained >= kLikeTheOther);
  return part.marked && ratio > kMostPartsOfStep;
}

}  // namespace tbprof::launch_steps
