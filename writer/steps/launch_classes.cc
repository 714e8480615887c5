// SPDX-License-Identifier: Apache-2.0
#include "writer/steps/launch_detector.h"

#include "writer/base/median.h"

namespace tbprof::launch_steps {

void Detector::CountTypes() {
  const double span = static_cast<double>(std::max<uint64_t>(span_, 1));
  const int top = HalfOctave(span);
  Read(launches_, 0, launches_.size(), [&](const Reading& reading) {
    const float idle = static_cast<float>(IdleWeight(reading.idle));
    const uint8_t flags = reading.flags | (reading.since_optimizer == 1 ? kBehindOptimizer : 0);
    for (size_t k = 0; k < reading.lengths; ++k) {
      if (!active_[k]) continue;
      Type* type = tables_[k].FindOrAdd(reading.runs[k]);
      if (type == nullptr) {
        result_.capped = true;
        if (k == 0) continue;
        for (size_t longer = k; longer < kLengths; ++longer) {
          active_[longer] = false;
          tables_[longer].Clear();
        }
        break;
      }
      if (type->count >= 2 && type->last >= reading.segment_time) {
        if (type->histogram == kNone && histograms_.size() < kMaxHistograms) {
          type->histogram = static_cast<uint32_t>(histograms_.size());
          histograms_.emplace_back();
        }
        if (type->histogram != kNone) {
          const double gap = static_cast<double>(reading.time - type->last);
          const int bin = static_cast<int>(kBins) - 1 - (top - HalfOctave(gap));
          histograms_[type->histogram][static_cast<size_t>(std::clamp<int>(bin, 0, kBins - 1))] +=
              static_cast<float>(gap);
        }
      }
      type->last = reading.time;
      type->count += type->count != kNone;
      type->flags = flags;
      type->idle += idle;
    }
  });
}

void Detector::CollectCandidates() {
  const double span = static_cast<double>(std::max<uint64_t>(span_, 1));
  for (size_t k = 0; k < kLengths; ++k) {
    for (const Type& type : tables_[k].slots()) {
      if (type.count < kFewestOccurrences || type.histogram == kNone) continue;
      const auto& bins = histograms_[type.histogram];
      double total = 0, best = 0;
      for (size_t i = 0; i < kBins; ++i) {
        total += bins[i];
        const double around = bins[i] + (i > 0 ? bins[i - 1] : 0) + (i + 1 < kBins ? bins[i + 1] : 0);
        best = std::max(best, around);
      }
      if (total <= 0 || best < kLeastShare * total) continue;
      // The histogram lacks the first gap, and gaps in which records were lost.
      const double gaps = static_cast<double>(type.count) - 1;
      const double recorded = gaps - 1 - std::min(static_cast<double>(losses_), (gaps - 1) / 2);
      Candidate candidate;
      candidate.hash = type.hash;
      candidate.count = type.count;
      candidate.length = static_cast<uint8_t>(k);
      candidate.flags = static_cast<uint8_t>(type.flags);
      candidate.idle = type.idle / static_cast<float>(type.count);
      candidate.share = best / total;
      candidate.coverage = std::min(1.0, total / span * gaps / std::max(recorded, 1.0));
      if (candidate.coverage < 0.2) continue;
      candidates_.push_back(candidate);
    }
  }
  histograms_ = {};
  std::sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
    return a.count != b.count ? a.count > b.count : a.hash < b.hash;
  });
}

void Detector::FormClasses() {
  const auto least = [](uint32_t most) {
    const double width = std::max({1.0, 0.02 * most, 1.1 * std::sqrt(static_cast<double>(most))});
    return static_cast<uint32_t>(std::max(static_cast<double>(most) - width, 1.0));
  };
  // Runs that contain an unrelated launch are numerous and have arbitrary counts: they must not crowd out the other
  // runs.
  const auto weight = [](const Candidate& type) {
    const double by_chance = 0.62 + 1.2 / std::sqrt(static_cast<double>(type.count));
    const double optimizer = (type.flags & StepLaunch::kOptimizer) != 0 ? 4 : 1;
    // Integers: with floating point, the rounding error that remains after the subtractions would form a class.
    return static_cast<uint64_t>(type.Quality() * (type.share > by_chance ? 1e12 * optimizer : 1e3));
  };
  std::vector<uint64_t> weights(candidates_.size());
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = weight(candidates_[i]);
  while (classes_.size() < kMaxClasses) {
    uint64_t best = 0, sum = 0;
    size_t best_first = 0, best_last = 0, last = 0;
    for (size_t first = 0; first < candidates_.size(); ++first) {
      const uint32_t lowest = least(candidates_[first].count);
      for (; last < candidates_.size() && candidates_[last].count >= lowest; ++last) sum += weights[last];
      if (sum > best) {
        best = sum;
        best_first = first;
        best_last = last;
      }
      sum -= weights[first];
    }
    if (best == 0) break;
    TakeMembers(best_first, best_last);
    std::fill(weights.begin() + static_cast<ptrdiff_t>(best_first), weights.begin() + static_cast<ptrdiff_t>(best_last),
              uint64_t{0});
  }
  std::sort(classes_.begin(), classes_.end(), [this](const Class& a, const Class& b) {
    return members_[a.pivot].type.count > members_[b.pivot].type.count;
  });
  for (size_t c = 0; c < classes_.size(); ++c) {
    for (uint32_t member : classes_[c].members) members_[member].owner = static_cast<uint32_t>(c);
  }
}

void Detector::TakeMembers(size_t first, size_t last) {
  constexpr size_t kBest = 32, kOfKind = 12;
  std::vector<size_t> order;
  for (size_t i = first; i < last; ++i) {
    if (candidates_[i].taken) continue;
    candidates_[i].taken = true;
    order.push_back(i);
  }
  double most = 0;
  for (size_t i : order) most = std::max(most, candidates_[i].Quality());
  // Runs of low quality may have the same count, but not the same rhythm.
  std::erase_if(order, [&](size_t i) { return candidates_[i].Quality() < 0.5 * most; });
  const auto better = [this](size_t a, size_t b) {
    const double qa = candidates_[a].Quality(), qb = candidates_[b].Quality();
    return qa != qb ? qa > qb : candidates_[a].hash < candidates_[b].hash;
  };
  const auto longer_idle = [this](size_t a, size_t b) {
    return candidates_[a].idle != candidates_[b].idle ? candidates_[a].idle > candidates_[b].idle : a < b;
  };
  Class made;
  const auto take = [&](size_t place) {
    made.members.push_back(static_cast<uint32_t>(members_.size()));
    members_.emplace_back().type = candidates_[order[place]];
  };
  // Takes the members that identify the class best, then those where the step may be cut.
  size_t taken = std::min(kBest, order.size());
  const auto begin = [&] { return order.begin() + static_cast<ptrdiff_t>(taken); };
  std::partial_sort(order.begin(), begin(), order.end(), better);
  for (size_t i = 0; i < taken; ++i) take(i);
  const size_t idle_end = std::min(taken + kOfKind, order.size());
  std::partial_sort(begin(), order.begin() + static_cast<ptrdiff_t>(idle_end), order.end(), longer_idle);
  for (; taken < idle_end; ++taken) take(taken);
  size_t optimizers = 0, behind = 0;
  for (size_t i = taken; i < order.size(); ++i) {
    const uint8_t flags = candidates_[order[i]].flags;
    if ((flags & StepLaunch::kOptimizer) != 0 ? optimizers++ < kOfKind
                                              : (flags & kBehindOptimizer) != 0 && behind++ < kOfKind) {
      take(i);
    }
  }
  // The pivot's count must be near the median count of the members: a pivot that is sometimes missed makes long
  // intervals, and the class looks irregular.
  std::vector<uint32_t> counts;
  for (uint32_t member : made.members) counts.push_back(members_[member].type.count);
  const double usual = Median(std::move(counts));
  made.pivot = made.members[0];
  double best_pivot = -1;
  for (uint32_t member : made.members) {
    const Candidate& type = members_[member].type;
    const double away = std::abs(type.count - usual) / usual;
    const double value = type.Quality() - 2 * away;
    if (value > best_pivot) {
      best_pivot = value;
      made.pivot = member;
    }
  }
  classes_.push_back(std::move(made));
}

void Detector::Alternate() {
  const MemberTable table(members_);
  std::vector<uint8_t> is_pivot(members_.size());
  for (const Class& one : classes_) is_pivot[one.pivot] = 1;
  const bool has_backward = std::ranges::any_of(
      launches_, [](const StepLaunch& launch) { return (launch.flags & StepLaunch::kBackward) != 0; });
  bool behind_backward = true;
  Read(launches_, 0, launches_.size(), [&](const Reading& reading) {
    if (reading.begins_segment) {
      for (Class& one : classes_) {
        if (one.open) one.aborted = one.interval;
        one.open = false;
      }
    }
    behind_backward |= !has_backward || reading.begins_segment || (reading.flags & StepLaunch::kBackward) != 0;
    // An optimizer that processes one parameter after another may launch more than four other kernels in between. If
    // backward passes are known, a new burst therefore needs one since the last burst.
    if ((reading.flags & StepLaunch::kOptimizer) != 0 && reading.since_optimizer > 4 && behind_backward) {
      ++bursts_;
      behind_backward = false;
    }
    uint32_t found[kLengths];
    for (size_t k = 0; k < kLengths; ++k) found[k] = k < reading.lengths ? table.Find(reading.runs[k]) : kNone;
    for (uint32_t id : found) {
      if (id == kNone || is_pivot[id] == 0) continue;
      Class& owner = classes_[members_[id].owner];
      if (owner.open) {
        owner.durations.Add(reading.time - owner.began);
        owner.launches.Add(reading.index - owner.began_index);
        owner.with_burst += bursts_ != owner.bursts_before;
      }
      for (size_t other = 0; &classes_[other] != &owner; ++other) {
        Ratio& ratio = owner.finer[other];
        const uint64_t passed = classes_[other].pivots - ratio.before;
        ratio.before = classes_[other].pivots;
        if (!owner.open) continue;
        ratio.same += passed == ratio.last;
        ratio.last = passed;
        if (ratio.votes == 0) ratio.value = passed;
        ratio.votes += ratio.value == passed ? 1 : -1;
      }
      owner.bursts_before = bursts_;
      ++owner.pivots;
      ++owner.interval;
      owner.open = true;
      owner.began = reading.time;
      owner.began_index = reading.index;
    }
    const double idle = IdleWeight(reading.idle);
    for (uint32_t id : found) {
      if (id == kNone) continue;
      Member& member = members_[id];
      const Class& owner = classes_[member.owner];
      member.idle += idle;
      if (reading.since_optimizer <= 4) member.after_optimizer += 1.0 - 0.25 * (reading.since_optimizer - 1);
      if (reading.since_blocking <= 4) member.after_blocking += 1.0 - 0.25 * (reading.since_blocking - 1);
      ++member.seen;
      if (!owner.open) continue;
      member.offset += static_cast<double>(reading.index - owner.began_index);
      if (member.interval == owner.interval) {
        ++member.here;
        continue;
      }
      member.once += member.here == 1 && member.interval != owner.aborted;
      member.interval = owner.interval;
      member.here = 1;
    }
  });
}

void Detector::Judge() {
  for (Class& one : classes_) {
    one.intervals = static_cast<double>(one.durations.total());
    if (one.intervals < 3) continue;
    std::vector<double> alternations;
    for (uint32_t id : one.members) {
      Member& member = members_[id];
      member.alternation = std::min(1.0, static_cast<double>(member.once) / one.intervals);
      if (id != one.pivot) alternations.push_back(member.alternation);
      one.good += member.alternation >= kTakesTurns;
    }
    // The better members represent the class; the others may have the count by chance.
    std::sort(alternations.begin(), alternations.end());
    const size_t at = alternations.size() * 6 / 10;
    one.alternation = alternations.empty() ? 0 : alternations[at];
    // Layers follow each other without a pause; steps seldom do.
    std::vector<double> idle;
    for (uint32_t id : one.members) {
      const Member& member = members_[id];
      if (member.alternation < kTakesTurns) continue;
      idle.push_back(member.idle / static_cast<double>(member.seen));
      one.marked |= (member.type.flags & StepLaunch::kBlocking) != 0 ||
                    member.after_blocking >= 0.9 * static_cast<double>(member.seen);
      one.executable |= (member.type.flags & StepLaunch::kExecutable) != 0;
    }
    std::sort(idle.begin(), idle.end());
    one.has_gap = !idle.empty() && idle.back() > idle[idle.size() / 2] + kMark;
    one.marked |= one.has_gap;
    const Member& pivot = members_[one.pivot];
    one.share = pivot.type.share;
    one.coverage = pivot.type.coverage;
    one.period = one.durations.Quantile(0.5);
    one.length = one.launches.Quantile(0.5);
    one.spread = std::min(SpreadOf(one.durations), SpreadOf(one.launches));
    one.qualified = one.alternation >= kLeastAlternation && one.good >= 2 && one.coverage >= 0.3 && one.period > 0 &&
                    one.spread <= kMostSpread;
    one.executable &= one.share > 0.8 && one.intervals > 6 && one.length <= kExecutableLaunches;
    one.bursts = static_cast<double>(bursts_) / std::max<double>(1, static_cast<double>(one.pivots));
    one.optimizes = static_cast<double>(one.with_burst) >= 0.9 * one.intervals;
    const double members = std::min(3.5, std::log2(1.0 + static_cast<double>(one.good)));
    one.score = one.alternation * one.alternation * members * one.coverage * one.share * one.share;
  }
}

}  // namespace tbprof::launch_steps
