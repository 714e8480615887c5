// SPDX-License-Identifier: Apache-2.0
#include "writer/steps/launch_detector.h"

namespace tbprof::launch_steps {

double Detector::RatioOf(uint32_t coarse, uint32_t fine) const {
  const Ratio& ratio = classes_[coarse].finer[fine];
  if (fine >= coarse || classes_[coarse].intervals < 3 || ratio.value < 2) return 0;
  return static_cast<double>(ratio.same) / (classes_[coarse].intervals - 1) >= 0.7 ? static_cast<double>(ratio.value)
                                                                                   : 0;
}

void Detector::CompareContents(const std::vector<uint32_t>& finalists) {
  struct State {
    uint32_t interval = kNone, count = 0, before_interval = kNone, before_count = 0, present = 0;
    uint32_t distance = 0, same_distance = 0;  // intervals from one that has it to the next
    float offset = 0;                          // launches into the interval, summed
  };
  struct Progress {
    uint64_t hash;
    size_t length;
    bool open = false;
    uint32_t interval = 0;
    double intervals = 0;  // that were closed
    size_t began = 0;
    uint32_t touched = 0, touched_next = 0;
    double regular = 0, total = 0;
    std::array<double, kMaxFinalists> with{}, behind{};
    std::array<uint32_t, kMaxFinalists> withs{}, behinds{};
  };
  const size_t count = finalists.size();
  pairs_.assign(count, std::vector<Pair>(count));
  std::vector<Progress> progress;
  for (uint32_t id : finalists) {
    const Candidate& pivot = members_[classes_[id].pivot].type;
    progress.push_back({pivot.hash, pivot.length});
  }
  const std::vector<Type>& slots = tables_[0].slots();
  std::vector<uint32_t> dense(slots.size(), kNone);
  std::vector<uint32_t> symbols;
  for (size_t i = 0; i < slots.size() && symbols.size() < kMaxSymbols; ++i) {
    if (slots[i].count < kFewestOccurrences) continue;
    dense[i] = static_cast<uint32_t>(symbols.size());
    symbols.push_back(static_cast<uint32_t>(i));
  }
  std::vector<State> states(symbols.size() * count);
  const size_t from = launches_.size() > kCompared ? (launches_.size() - kCompared) / 2 : 0;
  const size_t to = std::min(launches_.size(), from + kCompared);
  std::vector<size_t> occurrences(symbols.size());
  Read(launches_, from, to, [&](const Reading& reading) {
    if (reading.begins_segment) {
      for (Progress& one : progress) {
        one.open = false;
        one.interval += 2;
        one.touched = one.touched_next = 0;
      }
    }
    uint32_t pivots = 0;
    for (size_t f = 0; f < count; ++f) {
      Progress& one = progress[f];
      if (one.length >= reading.lengths || reading.runs[one.length] != one.hash) continue;
      pivots |= 1u << f;
      if (one.open) {
        one.intervals += 1;
        const double length = static_cast<double>(reading.index - one.began);
        for (size_t c = 0; c < count; ++c) {
          if ((one.touched_next >> c & 1) != 0) {
            one.behind[c] += length;
            ++one.behinds[c];
          }
          if ((one.touched >> c & 1) != 0) {
            one.with[c] += length;
            ++one.withs[c];
          }
        }
      }
      one.touched_next = one.touched;
      one.touched = 0;
      one.open = true;
      ++one.interval;
      one.began = reading.index;
    }
    if (pivots != 0) {
      for (Progress& one : progress) one.touched |= pivots;
    }
    const size_t slot = tables_[0].IndexOf(reading.runs[0]);
    const uint32_t symbol = slot == SIZE_MAX ? kNone : dense[slot];
    if (symbol != kNone) ++occurrences[symbol];
    for (size_t f = 0; f < count; ++f) {
      Progress& one = progress[f];
      if (!one.open) continue;
      one.total += 1;
      if (symbol == kNone) continue;
      State& state = states[symbol * count + f];
      if (state.interval == one.interval) {
        ++state.count;
        continue;
      }
      if (state.interval != kNone && state.before_interval + 1 == state.interval && state.before_count == state.count) {
        one.regular += state.count;
      }
      ++state.present;
      state.offset += static_cast<float>(reading.index - one.began);
      if (state.interval != kNone) {
        state.same_distance += one.interval - state.interval == state.distance;
        state.distance = one.interval - state.interval;
      }
      state.before_interval = state.interval;
      state.before_count = state.count;
      state.interval = one.interval;
      state.count = 1;
    }
  });
  for (size_t f = 0; f < count; ++f) {
    const double intervals = std::max(2.0, progress[f].intervals + 1);
    // The first two intervals of a symbol are never counted.
    classes_[finalists[f]].explained =
        progress[f].total == 0 ? 0
                               : std::min(1.0, progress[f].regular / progress[f].total * intervals / (intervals - 1.9));
  }
  for (size_t f = 0; f < count; ++f) {
    std::map<uint32_t, Outer> outers;
    const double fine = std::max(1.0, progress[f].intervals);
    for (size_t s = 0; s < symbols.size(); ++s) {
      const State& state = states[s * count + f];
      // Three distances alike may be chance where symbols are many; a few times is all there is in a short run.
      if (state.present < 5 || state.distance < 2 || state.same_distance < 3) continue;
      const double covered = static_cast<double>(state.present) * state.distance;
      if (state.same_distance * 4 < (state.present - 2) * 3 || covered < 0.75 * fine || covered > 1.3 * fine) continue;
      Outer& outer = outers[state.distance];
      const double launches = static_cast<double>(occurrences[s]) * state.distance / fine;
      const Type& type = slots[symbols[s]];
      outer.ratio = state.distance;
      outer.extra += launches;
      if ((type.flags & StepLaunch::kBlocking) != 0) outer.blocking += launches;
      if ((type.flags & StepLaunch::kOptimizer) != 0) outer.optimizer += launches;
      outer.offset += state.offset / state.present * launches;
      if (outer.symbols.size() < kMaxExtras) outer.symbols.push_back(type.hash);
    }
    Outer& best = classes_[finalists[f]].outer;
    for (auto& [ratio, outer] : outers) {
      if (outer.extra > best.extra) best = std::move(outer);
    }
    if (best.extra > 0) best.offset /= best.extra;
  }
  for (size_t c = 0; c < count; ++c) {
    for (size_t f = 0; f < count; ++f) {
      if (finalists[f] >= finalists[c]) continue;
      Pair& pair = pairs_[c][f];
      const double coarse = std::max(1.0, progress[c].intervals);
      const double fine = std::max(1.0, progress[f].intervals);
      for (size_t s = 0; s < symbols.size(); ++s) {
        if (states[s * count + c].present < 0.75 * coarse || states[s * count + f].present > 0.6 * fine) continue;
        const double launches = static_cast<double>(occurrences[s]) / coarse;
        pair.extra += launches;
        if (pair.symbols.size() < kMaxExtras) pair.symbols.push_back(slots[symbols[s]].hash);
        if ((slots[symbols[s]].flags & StepLaunch::kBlocking) != 0) pair.blocking += launches;
      }
      const double usual = std::max(1.0, classes_[finalists[f]].length);
      double longest = 0;
      if (progress[f].withs[c] != 0) longest = progress[f].with[c] / progress[f].withs[c];
      if (progress[f].behinds[c] != 0) longest = std::max(longest, progress[f].behind[c] / progress[f].behinds[c]);
      pair.stretch = std::max(1.0, longest / usual);
    }
  }
}

const Detector::Pair& Detector::PairOf(uint32_t coarse, uint32_t fine) const {
  const auto at = [this](uint32_t id) {
    return static_cast<size_t>(std::find(finalists_.begin(), finalists_.end(), id) - finalists_.begin());
  };
  return pairs_[at(coarse)][at(fine)];
}

// Whether what the coarser has besides the finer is part of a step, not something that happens every few steps.
bool Detector::IsStepOver(uint32_t coarse, uint32_t fine) const {
  const Class& outer = classes_[coarse];
  const Pair& pair = PairOf(coarse, fine);
  if (outer.alternation < 0.85 || outer.coverage < 0.7 || outer.good < 3 || outer.share < 0.6) return false;
  // Logging waits for what it logs, and is little.
  if (classes_[fine].marked && (pair.blocking * 4 > pair.extra || pair.extra < 1.5)) return false;
  const bool like_layers = !classes_[fine].marked && classes_[fine].length <= kLayerLaunches;
  return pair.stretch < 3 || classes_[fine].share < 0.75 || like_layers;
}

// Whether what the coarser consists of are steps, and it is an epoch of them or what is logged now and then: too many
// to be the parts of one step, or each with an optimizer of its own and one like the other.
bool Detector::AreManySteps(uint32_t coarse, uint32_t fine) const {
  const Class& part = classes_[fine];
  const double ratio = RatioOf(coarse, fine);
  if (ratio == 0 || part.alternation < 0.9) return false;
  if (by_optimizer_) return part.optimizes && (ratio > kMostNetworks || part.explained >= kLikeTheOther);
  return part.marked && ratio > kMostPartsOfStep;
}

}  // namespace tbprof::launch_steps
