// SPDX-License-Identifier: Apache-2.0
#include "writer/steps/launch_detector.h"

namespace tbprof::launch_steps {

std::optional<uint32_t> Detector::Choose() {
  std::vector<uint32_t> order;
  for (uint32_t c = 0; c < classes_.size(); ++c) {
    if (classes_[c].qualified) order.push_back(c);
  }
  if (order.empty()) return std::nullopt;
  std::stable_sort(order.begin(), order.end(),
                   [this](uint32_t a, uint32_t b) { return classes_[a].score > classes_[b].score; });
  // If other classes have an optimizer, a class without one is only a part of a step.
  const auto may_be_step = [this](uint32_t c) { return !by_optimizer_ || classes_[c].optimizes; };
  for (uint32_t c : order) {
    by_optimizer_ |=
        classes_[c].optimizes && classes_[c].coverage >= 0.7 && classes_[c].score >= 0.45 * classes_[order[0]].score;
  }
  const auto parts = std::stable_partition(order.begin(), order.end(), may_be_step);
  const auto take = [this](auto from, auto to, size_t most) {
    while (from != to && finalists_.size() < most) finalists_.push_back(*from++);
  };
  take(order.begin(), parts, kMaxFinalists - 2);
  take(parts, order.end(), kMaxFinalists);
  CompareContents(finalists_);
  std::vector<uint32_t> coarser = finalists_;
  std::sort(coarser.begin(), coarser.end());
  const uint32_t first = finalists_[0];
  uint32_t best = first;
  for (uint32_t c : coarser) {
    if (c <= best || !may_be_step(c) || RatioOf(c, best) == 0 || !IsStepOver(c, best)) continue;
    // With two networks that each have an optimizer, the two halves of a step differ.
    if (by_optimizer_ && classes_[c].explained < classes_[best].explained + 0.1) continue;
    if (AreManySteps(c, best)) continue;
    best = c;
  }
  for (uint32_t f : finalists_) {
    if (best != first) break;
    if (f >= best || !may_be_step(f) || RatioOf(best, f) == 0) continue;
    const Class &fine = classes_[f], &coarse = classes_[best];
    // Prefers the steps of the optimizer to every Nth of them.
    const bool is_optimizers = by_optimizer_ && fine.alternation >= 0.9 && fine.share >= 0.85 * coarse.share &&
                               fine.coverage >= 0.7 && fine.explained >= coarse.explained - 0.1;
    if (is_optimizers || AreManySteps(best, f)) {
      best = f;
      continue;
    }
    if (IsStepOver(best, f)) continue;
    const Pair& pair = PairOf(best, f);
    const bool copies = pair.extra >= 8 && pair.blocking * 2 > pair.extra && classes_[f].share >= 0.5;
    if (copies || (classes_[f].share >= 0.8 && classes_[f].score >= 0.3 * classes_[best].score)) best = f;
  }
  for (uint32_t f : finalists_) {
    const bool is_part = classes_[f].marked || classes_[f].length > kLayerLaunches;
    if (f < best && RatioOf(best, f) != 0 && is_part && classes_[f].share >= 0.6) extras_ = PairOf(best, f).symbols;
  }
  std::sort(extras_.begin(), extras_.end());
  if (best == first) every_ = IsEachOfSeveral(classes_[best]);
  return best;
}

// Returns whether several intervals of a class are one step that has no class of its own: unrelated launches often
// interrupt the runs of symbols that would form its class.
bool Detector::IsEachOfSeveral(const Class& one) {
  const Outer& outer = one.outer;
  if (outer.ratio < 2 || by_optimizer_) return false;
  if (outer.optimizer * 2 > outer.extra) {
    by_optimizer_ = true;
    return true;
  }
  if (one.marked && outer.ratio > kMostPartsOfStep) return false;
  if (outer.blocking * 4 > outer.extra || outer.extra < 1.5) return false;
  return outer.extra < 2 * one.length && (one.marked || one.length > kLayerLaunches);
}

double Detector::Confidence(uint32_t chosen) {
  const Class& one = classes_[chosen];
  const double enough = 1 - std::exp(-one.intervals / (every_ ? one.outer.ratio : 1) / 4);
  // It is enough if either the times or the contents are regular.
  const double regular_time = std::clamp(1.15 - 0.5 * one.spread, 0.0, 1.0);
  const double regular = std::max(regular_time, std::min(1.0, one.explained * 1.1));
  double members = std::min(1.0, 0.55 + 0.15 * std::log2(static_cast<double>(one.good)));
  if (one.executable) members = 1;
  // A single repeated launch may be a step or a part of one.
  if (one.length < 2 && !one.executable) members *= 0.6;
  double confidence = std::sqrt(one.alternation) * enough * regular *
                      (by_optimizer_ ? std::max(members, 0.9) : members) * std::min(1.0, 0.4 + 0.6 * one.share / 0.9);
  const double strength = std::min(1.0, std::max(one.share, one.explained) / 0.85);
  confidence *= strength * strength;
  confidence *= std::min(1.0, 0.35 + 0.65 * std::max(one.explained, 0.8 * regular_time));
  double ambiguity = 1, best_part = 0;
  // Work that happens every few steps only waits (logging, a checkpoint), is longer than a step (an evaluation, but
  // also the training after a few steps of decoding), or may be a part of the step.
  const auto doubt = [](bool waits, bool is_long) { return waits ? 0.8 : is_long ? 0.7 : 0.6; };
  const auto may_be = [&](double ratio, double here) {
    if (here >= ambiguity) return;
    ambiguity = here;
    result_.alternative = ratio;
  };
  if (every_) {
    ambiguity = by_optimizer_ ? 0.9 : kEither;
    result_.accumulation = one.outer.ratio;
    if (!by_optimizer_) result_.alternative = 1.0 / one.outer.ratio;
  } else if (one.outer.ratio >= 2 && !by_optimizer_) {
    ambiguity = doubt(one.outer.blocking * 4 > one.outer.extra, one.outer.extra >= 2 * one.length);
    result_.alternative = one.outer.ratio;
  }
  for (uint32_t other : finalists_) {
    if (other == chosen) continue;
    if (other > chosen) {
      const double ratio = RatioOf(other, chosen);
      if (ratio == 0 || classes_[other].alternation < 0.8) continue;
      const Pair& pair = PairOf(other, chosen);
      // The launches of an evaluation or of logging are additional. The update of another network (a generator after
      // its critics) replaces the launches of the usual update: all of these updates together may be the step.
      const double more = pair.extra / std::max(1.0, classes_[chosen].length);
      const bool takes_a_place = more >= kOfAnotherNetwork && pair.stretch < 1 + more / 2;
      may_be(ratio, by_optimizer_ ? (takes_a_place ? kEither : 0.9)
                                  : doubt(pair.blocking * 4 > pair.extra, pair.stretch >= 3));
    } else {
      const double ratio = RatioOf(chosen, other);
      const Class& inner = classes_[other];
      if (ratio == 0 || inner.share < kLeastShareOfParts) continue;
      const bool has_parts = inner.marked || inner.length > kLayerLaunches;
      if (has_parts && inner.coverage > 0.8 && inner.score > best_part) {
        best_part = inner.score;
        result_.accumulation = static_cast<uint32_t>(ratio);
      }
      // An inner class with an optimizer and a ratio of at least 3 may be one of several networks in the step, or the
      // step itself, with other work behind every Nth.
      if (by_optimizer_ && (!inner.optimizes || ratio < 3)) continue;
      // Layers are many and short; micro-batches are few and long.
      const bool layers = !inner.marked && inner.length <= kLayerLaunches && ratio >= 3;
      may_be(1 / ratio, layers ? 0.85 : kEither);
    }
  }
  // Steps with other work behind every few of them are too uneven for a qualified class, and may still be the steps.
  for (uint32_t other = 0; other < chosen; ++other) {
    const Class& inner = classes_[other];
    const double ratio = RatioOf(chosen, other);
    const bool has_optimizer =
        inner.bursts > 0.7 && inner.bursts < 1.5 && (inner.marked || inner.length > kLayerLaunches / 2);
    const bool may_be_step = by_optimizer_ ? has_optimizer : inner.marked;
    if (inner.qualified || ratio < 3 || !may_be_step || inner.alternation < 0.9 || inner.coverage < 0.7 ||
        inner.good < 3 || inner.share < kLeastShareOfParts) {
      continue;
    }
    may_be(1 / ratio, kEither);
  }
  // If no mark shows where a step begins, the period may be right, but the cut wrong.
  if (by_optimizer_ ? one.bursts > 1.5 && !one.has_gap : !one.marked && !one.executable) ambiguity *= kEither;
  // An optimizer runs several times, but not in each interval of a strong class.
  if (!by_optimizer_ && bursts_ >= 4) ambiguity *= kEither;
  return confidence * ambiguity;
}

}  // namespace tbprof::launch_steps
