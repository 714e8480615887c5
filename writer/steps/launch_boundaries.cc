// SPDX-License-Identifier: Apache-2.0
#include "writer/steps/launch_detector.h"

#include "writer/base/median.h"

namespace tbprof::launch_steps {

size_t Detector::PickCut(const Class& chosen) const {
  double best = -1e9;
  size_t cut = chosen.pivot;
  const uint64_t first_symbol = Mix(launches_[0].symbol);
  for (uint32_t id : chosen.members) {
    const Member& member = members_[id];
    if (member.seen == 0 || (member.alternation < 0.55 && id != chosen.pivot)) continue;
    const double seen = static_cast<double>(member.seen);
    const bool is_optimizer = (member.type.flags & StepLaunch::kOptimizer) != 0;
    double value = member.idle / seen + 4 * member.after_extra / seen + 1.5 * member.after_blocking / seen +
                   8 * member.alternation;
    // A wait is rather the end of a step than its begin.
    if ((member.type.flags & StepLaunch::kBlocking) != 0) value -= 4;
    // A step often begins where the recording begins.
    if (!chosen.has_gap && member.type.hash == first_symbol) value += 2;
    if (by_optimizer_) value += 4 * member.after_optimizer / seen - (is_optimizer ? 6 : 0);
    value -= 0.01 * static_cast<double>(kRunLength[member.type.length]);
    if (value > best) {
      best = value;
      cut = id;
    }
  }
  return cut;
}

// All parts of a step begin with the same launches. The step begins behind the launches that only one part has.
void Detector::FollowExtras(const Class& chosen) {
  std::vector<Member> members;
  for (uint32_t id : chosen.members) members.push_back(members_[id]);
  const MemberTable table(members);
  bool behind = false;
  const size_t to = std::min(launches_.size(), kCompared);
  Read(launches_, 0, to, [&](const Reading& reading) {
    const bool extra = std::binary_search(extras_.begin(), extras_.end(), reading.runs[0]);
    if (behind && !extra) {
      for (size_t k = 0; k < reading.lengths; ++k) {
        const uint32_t found = table.Find(reading.runs[k]);
        if (found != kNone) members_[chosen.members[found]].after_extra += 1;
      }
    }
    behind = extra;
  });
  // Scales the numbers from the launches that were read to all launches.
  const double scale = static_cast<double>(launches_.size()) / static_cast<double>(to);
  for (uint32_t id : chosen.members) members_[id].after_extra *= scale;
}

void Detector::Cut(uint32_t id) {
  const Class& chosen = classes_[id];
  if (!extras_.empty()) FollowExtras(chosen);
  const Member& cut = members_[PickCut(chosen)];
  double most = 0;
  for (uint32_t member : chosen.members) most = std::max(most, members_[member].alternation);
  // The helper is the member that is seen most reliably, shortly before the cut. If another launch hides the cut, the
  // usual time between helper and cut gives its place.
  const Member* helper = &cut;
  double nearest = 1e300;
  for (uint32_t member : chosen.members) {
    const Member& candidate = members_[member];
    if (candidate.alternation < std::max(most - 0.03, cut.alternation + 0.003)) continue;
    double distance = cut.Offset() - candidate.Offset();
    if (distance < 0) distance += chosen.length;
    distance += 0.02 * chosen.length * static_cast<double>(candidate.type.length);
    if (distance >= nearest) continue;
    nearest = distance;
    helper = &candidate;
  }
  // If different launches follow the optimizer each time, no member marks the begin of a step.
  const bool no_member =
      by_optimizer_ && !every_ &&
      ((cut.type.flags & StepLaunch::kOptimizer) != 0 || cut.after_optimizer < 0.5 * static_cast<double>(cut.seen));
  if (no_member && chosen.bursts > 0.8 && chosen.bursts < 1.5) return CutBehindBursts();
  FindBoundaries(id, cut, *helper);
}

// Cuts behind each burst of optimizer launches: at the longest gap within the next few launches.
void Detector::CutBehindBursts() {
  constexpr uint32_t kReach = 4;
  Boundary found{};
  double best = -1e300;
  bool blocking_before = false, lost = false;
  Read(launches_, 0, launches_.size(), [&](const Reading& reading) {
    lost |= reading.begins_segment && reading.index != 0;
    const bool is_blocking = (reading.flags & StepLaunch::kBlocking) != 0;
    if ((reading.flags & StepLaunch::kOptimizer) != 0) {
      best = -1e300;
    } else if (reading.since_optimizer <= kReach) {
      const double value = IdleWeight(reading.idle) + (blocking_before ? 1.5 : 0) - 0.25 * reading.since_optimizer;
      if (!is_blocking && value > best) {
        best = value;
        found = {reading.index, reading.time, lost};
      }
    } else if (best > -1e300) {
      boundaries_.push_back(found);
      best = -1e300;
      lost = false;
    }
    blocking_before = is_blocking;
  });
}

void Detector::FindBoundaries(uint32_t id, const Member& cut, const Member& helper) {
  const Class& chosen = classes_[id];
  struct Sight {
    size_t index;
    uint64_t time;
    bool begins;  // a segment begins between the previous sight and this one
  };
  std::vector<Sight> cuts, helpers;
  const bool same = &cut == &helper;
  bool lost = false, lost_helper = false;
  Read(launches_, 0, launches_.size(), [&](const Reading& reading) {
    lost |= reading.begins_segment && reading.index != 0;
    lost_helper |= reading.begins_segment && reading.index != 0;
    if (cut.type.length < reading.lengths && reading.runs[cut.type.length] == cut.type.hash) {
      cuts.push_back({reading.index, reading.time, lost});
      lost = false;
    }
    if (!same && helper.type.length < reading.lengths && reading.runs[helper.type.length] == helper.type.hash) {
      helpers.push_back({reading.index, reading.time, lost_helper});
      lost_helper = false;
    }
  });
  const auto add = [this](const Sight& sight) { boundaries_.push_back({sight.index, sight.time, sight.begins}); };
  if (same || helpers.size() < 3) {
    for (const Sight& sight : cuts) add(sight);
    return;
  }
  std::vector<uint64_t> offsets;
  for (size_t h = 0, c = 0; h < helpers.size(); ++h) {
    while (c < cuts.size() && cuts[c].index <= helpers[h].index) ++c;
    if (c < cuts.size() && (h + 1 == helpers.size() || cuts[c].index <= helpers[h + 1].index)) {
      offsets.push_back(cuts[c].time - helpers[h].time);
    }
  }
  if (offsets.empty()) {
    for (const Sight& sight : helpers) add(sight);
    return;
  }
  const double offset = static_cast<double>(Median(std::move(offsets)));
  const double width = 0.04 * chosen.period;
  const int64_t origin = ClampTime(launches_[0].start_ps);
  size_t c = 0;
  for (; c < cuts.size() && cuts[c].index <= helpers[0].index; ++c) add(cuts[c]);
  for (size_t h = 0; h < helpers.size(); ++h) {
    const size_t until = h + 1 < helpers.size() ? helpers[h + 1].index : launches_.size();
    const size_t before = boundaries_.size();
    for (; c < cuts.size() && cuts[c].index <= until; ++c) {
      // A lost helper leaves two cuts. Cuts closer than half a period are one.
      if (boundaries_.size() > before &&
          static_cast<double>(cuts[c].time - boundaries_.back().time) < 0.5 * chosen.period) {
        continue;
      }
      add(cuts[c]);
    }
    if (boundaries_.size() != before) continue;
    const double expected = static_cast<double>(helpers[h].time) + offset;
    uint64_t time = helpers[h].time, busy = 0;
    double best = -1;
    Sight snapped{};
    for (size_t i = helpers[h].index; i < until; ++i) {
      const int64_t start = std::max<int64_t>(ClampTime(launches_[i].start_ps) - origin, 0);
      time = std::max(time, static_cast<uint64_t>(start));
      if (static_cast<double>(time) > expected + width) break;
      const double idle = busy == 0 || busy > time ? 0 : static_cast<double>(time - busy);
      busy = std::max(busy, static_cast<uint64_t>(std::max<int64_t>(ClampTime(launches_[i].end_ps) - origin, 0)));
      if (i == helpers[h].index || static_cast<double>(time) < expected - width) continue;
      const double value = idle - 0.01 * std::abs(static_cast<double>(time) - expected);
      if (best < 0 || value > best) {
        best = std::max(value, 0.0);
        snapped = {i, time, helpers[h].begins};
      }
    }
    if (best >= 0) add(snapped);
  }
}

// Keeps the boundaries behind the launches that only every Nth interval has. If these launches come early in the
// interval, keeps the boundaries before them instead.
void Detector::KeepEvery(const Outer& outer, double length) {
  std::vector<uint64_t> symbols = outer.symbols;
  std::sort(symbols.begin(), symbols.end());
  std::vector<uint32_t> extra(boundaries_.size() + 1);
  size_t next = 0;
  Read(launches_, 0, launches_.size(), [&](const Reading& reading) {
    while (next < boundaries_.size() && boundaries_[next].index <= reading.index) ++next;
    extra[next] += std::binary_search(symbols.begin(), symbols.end(), reading.runs[0]);
  });
  const bool early = outer.offset * 3 < length;
  std::vector<Boundary> kept;
  bool lost = false;
  for (size_t i = 0; i < boundaries_.size(); ++i) {
    lost |= boundaries_[i].after_loss;
    if (extra[early ? i + 1 : i] < 0.5 * outer.extra) continue;
    kept.push_back(boundaries_[i]);
    kept.back().after_loss = lost;
    lost = false;
  }
  boundaries_ = std::move(kept);
}

// The cut is visible only between two consecutive steps: not before the first step, and not behind an evaluation.
// There, the boundary is where the launches equal those behind the next boundary.
void Detector::FindUnseen() {
  if (boundaries_.size() < 3) return;
  std::vector<size_t> lengths;
  for (size_t i = 1; i < boundaries_.size(); ++i) lengths.push_back(boundaries_[i].index - boundaries_[i - 1].index);
  const size_t length = Median(std::move(lengths));
  std::vector<Boundary> all;
  for (size_t i = 0; i < boundaries_.size(); ++i) {
    const size_t from = i == 0 ? 0 : boundaries_[i - 1].index + 1;
    const size_t room = boundaries_[i].index - from;
    if (i == 0 ? room * 10 >= length * 6 : room * 20 > length * 31) {
      const size_t place = FindAlike(from, boundaries_[i].index, length);
      if (place != SIZE_MAX) {
        // Only the boundary behind a loss has its flag.
        const bool first = i == 0;
        all.push_back({place, TimeOf(place, first ? 0 : boundaries_[i - 1].time, boundaries_[i].time),
                       !first && LossIn(from, place + 1)});
        boundaries_[i].after_loss = LossIn(place + 1, boundaries_[i].index + 1);
      }
    }
    all.push_back(boundaries_[i]);
  }
  boundaries_ = std::move(all);
}

bool Detector::LossIn(size_t from, size_t to) const {
  for (size_t i = from; i < to && i < launches_.size(); ++i) {
    if ((launches_[i].flags & StepLaunch::kAfterLoss) != 0) return true;
  }
  return false;
}

uint64_t Detector::TimeOf(size_t index, uint64_t earliest, uint64_t latest) const {
  const int64_t time = ClampTime(launches_[index].start_ps) - ClampTime(launches_[0].start_ps);
  return std::clamp(static_cast<uint64_t>(std::max<int64_t>(time, 0)), earliest, latest);
}

// Returns the place, about `length` launches before `next` and not before `from`, whose launches equal those behind
// `next`. SIZE_MAX: there is none.
size_t Detector::FindAlike(size_t from, size_t next, size_t length) const {
  constexpr size_t kAlike = 8;
  const size_t compared = std::min(kAlike, length);
  if (compared == 0 || next + compared > launches_.size() || next < length * 6 / 10) return SIZE_MAX;
  const size_t reach = length + length * 2 / 5 + 1;
  const size_t far = std::max(from, next > reach ? next - reach : 0);
  size_t best = 0, place = SIZE_MAX, distance = SIZE_MAX;
  for (size_t at = far; at <= next - length * 6 / 10 && at < next; ++at) {
    size_t alike = 0;
    for (size_t i = 0; i < compared; ++i) alike += launches_[at + i].symbol == launches_[next + i].symbol;
    if (alike * 4 < compared * 3) continue;
    // A step often begins where the recording begins.
    if (at == 0 && alike == compared) return 0;
    const size_t away = at + length > next ? at + length - next : next - at - length;
    if (alike > best || (alike == best && away < distance)) {
      best = alike;
      place = at;
      distance = away;
    }
  }
  return place;
}

void Detector::MakeSteps() {
  const int64_t origin = ClampTime(launches_[0].start_ps);
  std::vector<double> durations;
  std::vector<size_t> lengths;
  for (size_t i = 1; i < boundaries_.size(); ++i) {
    if (boundaries_[i].after_loss) continue;
    durations.push_back(static_cast<double>(boundaries_[i].time - boundaries_[i - 1].time));
    lengths.push_back(boundaries_[i].index - boundaries_[i - 1].index);
  }
  if (durations.size() < 2) return;
  const auto [usual, least, most] = UsualLengthsOf(durations);
  const auto launches = static_cast<double>(Median(std::move(lengths)));
  if (usual <= 0) return;
  // The last step has no boundary behind it.
  uint64_t end = 0;
  for (size_t i = boundaries_.back().index; i < launches_.size(); ++i) {
    end = std::max({end, static_cast<uint64_t>(std::max<int64_t>(ClampTime(launches_[i].end_ps) - origin, 0)),
                    static_cast<uint64_t>(std::max<int64_t>(ClampTime(launches_[i].start_ps) - origin, 0))});
  }
  const double rest = static_cast<double>(end) - static_cast<double>(boundaries_.back().time);
  const double rest_launches = static_cast<double>(launches_.size() - boundaries_.back().index);
  if (rest_launches >= 0.75 * launches && rest_launches <= 1.3 * launches && rest <= 1.5 * most && rest > 0.4 * usual) {
    bool lost = false;
    for (size_t i = boundaries_.back().index + 1; i < launches_.size(); ++i) {
      lost |= (launches_[i].flags & StepLaunch::kAfterLoss) != 0;
    }
    boundaries_.push_back({launches_.size(), end, lost});
  }
  std::vector<int64_t> regular;
  for (size_t i = 1; i < boundaries_.size(); ++i) {
    const Boundary &from = boundaries_[i - 1], &to = boundaries_[i];
    DetectedStep step;
    step.start_ps = static_cast<int64_t>(from.time) + origin;
    step.end_ps = static_cast<int64_t>(to.time) + origin;
    const double duration = static_cast<double>(to.time - from.time);
    const double length = static_cast<double>(to.index - from.index);
    if (duration > 2 * usual && i <= 3 && length < 1.5 * launches) {
      step.kind = DetectedStep::Kind::kWarmUp;
    } else if (duration > most || duration < least || to.after_loss) {
      step.kind = DetectedStep::Kind::kIrregular;
      double idle = 0, blocking = 0;
      for (size_t j = from.index; j < to.index; ++j) {
        blocking += (launches_[j].flags & StepLaunch::kBlocking) != 0;
        if (j + 1 < to.index) {
          idle = std::max(idle,
                          static_cast<double>(ClampTime(launches_[j + 1].start_ps) - ClampTime(launches_[j].end_ps)));
        }
      }
      step.cause = to.after_loss                                           ? DetectedStep::Cause::kLoss
                   : idle > 0.6 * (duration - usual)                       ? DetectedStep::Cause::kPause
                   : blocking > 0.5 * (length - launches) && blocking >= 3 ? DetectedStep::Cause::kCopies
                                                                           : DetectedStep::Cause::kMoreWork;
    } else {
      regular.push_back(step.end_ps - step.start_ps);
    }
    result_.steps.push_back(step);
  }
  if (regular.size() < 2) {
    result_.steps.clear();
    return;
  }
  result_.period_ps = Median(std::move(regular));
}

}  // namespace tbprof::launch_steps
