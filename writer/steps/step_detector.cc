// SPDX-License-Identifier: Apache-2.0
#include "writer/steps/step_detector.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <complex>
#include <map>
#include <numbers>
#include <optional>
#include <utility>

#include "writer/base/median.h"

namespace tbprof {
namespace {

constexpr size_t kLengths = 3;
constexpr size_t kRunLength[kLengths] = {1, 2, 4};
constexpr size_t kBins = 40;
constexpr int64_t kTimeLimit = int64_t{1} << 61;
constexpr uint32_t kNone = UINT32_MAX;
constexpr size_t kMaxProbes = 128;
constexpr size_t kMaxClasses = 20;
constexpr size_t kMaxFinalists = 6;
constexpr size_t kMaxSymbols = 1 << 16;
constexpr size_t kMaxExtras = 4096;
constexpr double kMostNetworks = 8;  // each with an optimizer of its own, in one step
constexpr double kEither = 0.65;     // the most where nothing tells which of two is the step, or where it begins
constexpr double kLeastShareOfParts = 0.3;
constexpr double kOfAnotherNetwork = 0.25;  // of an interval's launches
constexpr double kLikeTheOther = 0.8;       // of the launches, from one interval to the next
constexpr uint32_t kFewestOccurrences = 4;
constexpr double kLeastShare = 0.35;
constexpr double kLeastAlternation = 0.6;
constexpr double kTakesTurns = 0.75;
// Of the lengths of intervals, nine tenths to one tenth, in medians: 3.2 where they come at random.
constexpr double kMostSpread = 2;
// A gap that is so many octaves longer than others are is a mark.
constexpr double kMark = 1;
// More than a layer launches.
constexpr double kLayerLaunches = 40;
// What goes with an executable: its input, its result.
constexpr double kExecutableLaunches = 8;
// Content is compared over so many launches at most.
constexpr size_t kCompared = size_t{1} << 19;

uint64_t Mix(uint64_t value) {
  value ^= value >> 32;
  value *= 0xD6E8FEB86659FD93;
  value ^= value >> 29;
  value *= 0xA0761D6478BD642F;
  return value ^ value >> 32;
}

// One launch as all passes see it. Times are from the first launch on and do not run backwards.
struct Reading {
  size_t index = 0;
  uint64_t time = 0;
  uint64_t idle = 0;
  uint64_t segment_time = 0;
  bool begins_segment = false;
  uint8_t flags = 0;
  uint32_t since_optimizer = kNone;  // launches from the last one that was an optimizer's; 1: the one before
  uint32_t since_blocking = kNone;
  size_t lengths = 0;  // of the runs that end here, how many do not reach back over a loss
  uint64_t runs[kLengths] = {};
};

int64_t Sane(int64_t time) { return std::clamp(time, -kTimeLimit, kTimeLimit); }

template <typename Visit>
void Read(std::span<const StepLaunch> launches, size_t from, size_t to, Visit&& visit) {
  if (from >= to) return;
  const int64_t origin = Sane(launches[0].start_ps);
  Reading reading;
  uint64_t busy_until = 0, before[3] = {};
  size_t in_segment = 0;
  for (size_t i = from; i < to; ++i) {
    const StepLaunch& launch = launches[i];
    const auto since_origin = [origin](int64_t time) {
      return static_cast<uint64_t>(std::max<int64_t>(Sane(time) - origin, 0));
    };
    reading.index = i;
    reading.time = std::max(reading.time, since_origin(launch.start_ps));
    reading.begins_segment = i == from || (launch.flags & StepLaunch::kAfterLoss) != 0;
    if (reading.begins_segment) {
      in_segment = 0;
      reading.segment_time = reading.time;
      reading.since_optimizer = reading.since_blocking = kNone;
      busy_until = reading.time;
    }
    reading.idle = reading.time > busy_until ? reading.time - busy_until : 0;
    busy_until = std::max(busy_until, since_origin(launch.end_ps));
    reading.flags = launch.flags;
    const uint64_t symbol = Mix(launch.symbol);
    reading.runs[0] = symbol;
    reading.runs[1] = (symbol ^ std::rotl(before[0], 21)) * 0x9FB21C651E98DF25;
    reading.runs[2] = (reading.runs[1] ^ std::rotl(before[1], 37) ^ before[2] >> 3) * 0xC2B2AE3D27D4EB4F + before[2];
    before[2] = before[1];
    before[1] = before[0];
    before[0] = symbol;
    ++in_segment;
    reading.lengths = in_segment >= 4 ? 3 : in_segment >= 2 ? 2 : 1;
    visit(reading);
    const auto count_on = [](uint32_t since, bool now) { return now ? 1 : since == kNone ? kNone : since + 1; };
    reading.since_optimizer = count_on(reading.since_optimizer, (launch.flags & StepLaunch::kOptimizer) != 0);
    reading.since_blocking = count_on(reading.since_blocking, (launch.flags & StepLaunch::kBlocking) != 0);
  }
}

// What is known of a run of symbols.
struct Type {
  uint64_t hash;
  uint64_t last;
  uint32_t count;
  uint32_t histogram;
  uint32_t flags;  // of its last launch
  float idle;      // log2 of the nanoseconds without a launch before it, summed
};

class TypeTable {
 public:
  // Null: there are too many, or too many in one place.
  Type* FindOrAdd(uint64_t hash) {
    if (slots_.empty() || size_ * 2 >= slots_.size()) {
      if (size_ >= kMaxTypes) {
        const size_t found = Place(hash);
        return found != SIZE_MAX && slots_[found].count != 0 ? &slots_[found] : nullptr;
      }
      Grow();
    }
    const size_t place = Place(hash);
    if (place == SIZE_MAX) return nullptr;
    if (slots_[place].count == 0) {
      slots_[place] = {hash, 0, 0, kNone, 0, 0};
      ++size_;
    }
    return &slots_[place];
  }
  size_t IndexOf(uint64_t hash) const {
    if (slots_.empty()) return SIZE_MAX;
    const size_t place = Place(hash);
    return place == SIZE_MAX || slots_[place].count == 0 ? SIZE_MAX : place;
  }
  void Clear() {
    slots_ = {};
    size_ = 0;
  }
  const std::vector<Type>& slots() const { return slots_; }

 private:
  size_t Place(uint64_t hash) const {
    const size_t mask = slots_.size() - 1;
    size_t at = static_cast<size_t>(hash ^ hash >> 33) & mask;
    for (size_t probes = 0; probes < kMaxProbes; ++probes, at = (at + 1) & mask) {
      if (slots_[at].count == 0 || slots_[at].hash == hash) return at;
    }
    return SIZE_MAX;
  }
  void Grow() {
    std::vector<Type> old(std::max<size_t>(1 << 10, slots_.size() * 2));
    old.swap(slots_);
    size_ = 0;
    for (const Type& type : old) {
      if (type.count == 0) continue;
      const size_t place = Place(type.hash);
      if (place == SIZE_MAX) continue;
      slots_[place] = type;
      ++size_;
    }
  }
  std::vector<Type> slots_;
  size_t size_ = 0;
};

// Half octaves, more or less: the exponent and the first bit behind it.
int HalfOctave(double value) { return static_cast<int>(std::bit_cast<uint64_t>(value) >> 51); }

// log2 by straight lines between the powers of two.
double RoughLog2(double value) { return static_cast<double>(std::bit_cast<uint64_t>(value) >> 32) / (1 << 20) - 1023; }
double IdleWeight(uint64_t idle_ps) { return RoughLog2(static_cast<double>(idle_ps) / 1000 + 1); }

// A flag of ours, of a launch that comes straight after an optimizer's.
constexpr uint8_t kBehindOptimizer = 0x80;

struct Candidate {
  uint64_t hash = 0;
  uint32_t count = 0;
  uint8_t length = 0;  // index into kRunLength
  uint8_t flags = 0;
  bool taken = false;
  float idle = 0;       // mean
  double share = 0;     // of the time between its occurrences: in gaps of about one length
  double coverage = 0;  // of all time: between its occurrences

  double Quality() const { return share * share * coverage * (length == 0 ? 1.3 : 1); }
};

class LogHistogram {
 public:
  void Add(uint64_t value) {
    ++bins_[Bin(value)];
    ++total_;
  }
  uint64_t total() const { return total_; }
  double Quantile(double q) const {
    const double wanted = q * static_cast<double>(total_);
    double passed = 0;
    for (size_t i = 0; i < bins_.size(); ++i) {
      passed += bins_[i];
      if (bins_[i] != 0 && passed >= wanted) return Middle(i);
    }
    return 0;
  }

 private:
  // Sixteen to an octave.
  static size_t Bin(uint64_t value) {
    const uint64_t bits = std::bit_cast<uint64_t>(static_cast<double>(value) + 1) >> 48;
    return std::min<size_t>(static_cast<size_t>(bits - (uint64_t{1023} << 4)), kSize - 1);
  }
  static double Middle(size_t bin) {
    return std::bit_cast<double>(((bin + (uint64_t{1023} << 4)) << 48) + (uint64_t{1} << 47)) - 1;
  }
  static constexpr size_t kSize = 64 * 16;
  std::array<uint32_t, kSize> bins_{};
  uint64_t total_ = 0;
};

// What each of its occurrences changes is in one line of the cache.
struct alignas(64) Member {
  uint32_t owner = 0;
  uint32_t interval = kNone;
  uint32_t here = 0;
  uint64_t once = 0;  // intervals in which it occurred once
  uint64_t seen = 0;
  double offset = 0;  // launches behind the pivot, summed
  double idle = 0;    // log2 of the nanoseconds without a launch before it, summed
  double after_optimizer = 0, after_blocking = 0;
  Candidate type;
  double after_extra = 0;
  double alternation = 0;

  double Offset() const { return seen == 0 ? 0 : offset / static_cast<double>(seen); }
};

struct Ratio {
  uint64_t before = 0;  // pivots of the other class when the interval began
  uint64_t value = 0;   // that more than half of the intervals have, if any
  int64_t votes = 0;
  uint64_t last = 0, same = 0;
};

// What is in every so many-th interval of a class.
struct Outer {
  uint32_t ratio = 0;  // 0: nothing
  double extra = 0;    // launches each time; of these:
  double blocking = 0, optimizer = 0;
  double offset = 0;  // launches into the interval
  std::vector<uint64_t> symbols;
};

struct Class {
  bool open = false;
  uint32_t interval = 0;
  uint32_t aborted = kNone;
  uint64_t began = 0;
  size_t began_index = 0;
  uint64_t pivots = 0;
  uint32_t pivot = 0;
  std::vector<uint32_t> members;
  Outer outer;
  uint64_t bursts_before = 0, with_burst = 0;
  LogHistogram durations, launches;
  std::array<Ratio, kMaxClasses> finer{};

  double intervals = 0;
  double alternation = 0;
  size_t good = 0;         // members that do take turns
  bool optimizes = false;  // in each interval
  double share = 0, coverage = 0;
  double period = 0, length = 0;  // medians, in ps and launches
  double spread = 0;              // of the period
  double explained = 0;           // of the launches: as many of the kind as in the interval before
  bool marked = false;            // there is a place where one may begin
  bool has_gap = false;           // of those, a gap
  double bursts = 0;              // of optimizers, in an interval
  bool executable = false;        // an executable is launched in each, and little else
  double score = 0;
  bool qualified = false;
};

double SpreadOf(const LogHistogram& histogram) {
  const double median = histogram.Quantile(0.5);
  return median <= 0 ? 1 : (histogram.Quantile(0.9) - histogram.Quantile(0.1)) / median;
}

class Detector {
 public:
  explicit Detector(std::span<const StepLaunch> launches) : launches_(launches) {}
  StepDetection Run();

 private:
  struct Pair {
    std::vector<uint64_t> symbols;
    double extra = 0;     // launches in an interval of the coarser that are not in each of the finer
    double blocking = 0;  // of these
    double stretch = 1;   // launches of the finer's interval that has them, as a multiple of the usual number
  };

  void CountTypes();
  void CollectCandidates();
  void FormClasses();
  void TakeMembers(size_t first, size_t last);
  void Alternate();
  void Judge();
  void CompareContents(const std::vector<uint32_t>& finalists);
  const Pair& PairOf(uint32_t coarse, uint32_t fine) const;
  bool IsStepOver(uint32_t coarse, uint32_t fine) const;
  bool AreManySteps(uint32_t coarse, uint32_t fine) const;
  double RatioOf(uint32_t coarse, uint32_t fine) const;
  std::optional<uint32_t> Choose();
  bool IsEachOfSeveral(const Class& one);
  void KeepEvery(const Outer& outer, double length);
  double Confidence(uint32_t chosen);
  void FollowExtras(const Class& chosen);
  void Cut(uint32_t chosen);
  size_t PickCut(const Class& chosen) const;
  void CutBehindBursts();
  void FindBoundaries(uint32_t chosen, const Member& cut, const Member& helper);
  void FindUnseen();
  bool LossIn(size_t from, size_t to) const;
  uint64_t TimeOf(size_t index, uint64_t earliest, uint64_t latest) const;
  size_t FindAlike(size_t from, size_t next, size_t length) const;
  void MakeSteps();

  const std::span<const StepLaunch> launches_;
  StepDetection result_;
  uint64_t span_ = 0;
  size_t losses_ = 0;
  uint64_t bursts_ = 0;  // of optimizers' launches
  TypeTable tables_[kLengths];
  bool active_[kLengths] = {true, true, true};
  std::vector<std::array<float, kBins>> histograms_;
  std::vector<Candidate> candidates_;
  std::vector<Member> members_;
  std::vector<Class> classes_;  // the finest first
  std::vector<uint32_t> finalists_;
  std::vector<std::vector<Pair>> pairs_;  // by finalist: coarse, fine
  bool by_optimizer_ = false;
  bool every_ = false;            // a step is several intervals of the class chosen
  std::vector<uint64_t> extras_;  // symbols that are in the step chosen but not in each of its parts, sorted
  struct Boundary {
    size_t index;
    uint64_t time;
    bool after_loss;
  };
  std::vector<Boundary> boundaries_;
};

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
      // The first gap is in no histogram, nor are those that something was lost in.
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
  // Runs with a launch of somebody else in them are many, and of any count: they must not crowd out the others.
  const auto weight = [](const Candidate& type) {
    const double by_chance = 0.62 + 1.2 / std::sqrt(static_cast<double>(type.count));
    const double optimizer = (type.flags & StepLaunch::kOptimizer) != 0 ? 4 : 1;
    // Whole numbers: what a sum keeps of what was taken from it again would be a class.
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
  // Others may have the count, but not the rhythm.
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
  // What is best for telling the class, then where it may be cut.
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
  // A pivot that is sometimes not seen makes long intervals of which its class looks irregular: the one whose count
  // most have.
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

// Small enough to stay in the cache: what most launches are is not in it.
class MemberTable {
 public:
  explicit MemberTable(const std::vector<Member>& members) : slots_(4096, {0, kNone}), present_(1 << 10) {
    for (size_t i = 0; i < members.size(); ++i) {
      size_t at = members[i].type.hash & (slots_.size() - 1);
      while (slots_[at].second != kNone) at = (at + 1) & (slots_.size() - 1);
      slots_[at] = {members[i].type.hash, static_cast<uint32_t>(i)};
      present_[Bit(members[i].type.hash) / 64] |= uint64_t{1} << Bit(members[i].type.hash) % 64;
    }
  }
  uint32_t Find(uint64_t hash) const {
    if ((present_[Bit(hash) / 64] >> Bit(hash) % 64 & 1) == 0) return kNone;
    size_t at = hash & (slots_.size() - 1);
    while (slots_[at].second != kNone && slots_[at].first != hash) at = (at + 1) & (slots_.size() - 1);
    return slots_[at].second;
  }

 private:
  static size_t Bit(uint64_t hash) { return hash >> 48; }
  std::vector<std::pair<uint64_t, uint32_t>> slots_;
  std::vector<uint64_t> present_;
};

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
    // One that goes from parameter to parameter may call more than a few others in between.
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
    // The better half is what the class stands for; the rest may have the count by chance.
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

std::optional<uint32_t> Detector::Choose() {
  std::vector<uint32_t> order;
  for (uint32_t c = 0; c < classes_.size(); ++c) {
    if (classes_[c].qualified) order.push_back(c);
  }
  if (order.empty()) return std::nullopt;
  std::stable_sort(order.begin(), order.end(),
                   [this](uint32_t a, uint32_t b) { return classes_[a].score > classes_[b].score; });
  // What has no optimizer's launch in it is a part of a step where others have.
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
    // Two networks, each with an optimizer: half of a step is unlike the other half.
    if (by_optimizer_ && classes_[c].explained < classes_[best].explained + 0.1) continue;
    if (AreManySteps(c, best)) continue;
    best = c;
  }
  for (uint32_t f : finalists_) {
    if (best != first) break;
    if (f >= best || !may_be_step(f) || RatioOf(best, f) == 0) continue;
    const Class &fine = classes_[f], &coarse = classes_[best];
    // The optimizer's step, not every so many-th of them.
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

// Whether several of a class's intervals are one step, for which there is no class: among launches of others a run of
// symbols is seldom whole.
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
  // Either the time is regular or what happens in it is.
  const double regular_time = std::clamp(1.15 - 0.5 * one.spread, 0.0, 1.0);
  const double regular = std::max(regular_time, std::min(1.0, one.explained * 1.1));
  double members = std::min(1.0, 0.55 + 0.15 * std::log2(static_cast<double>(one.good)));
  if (one.executable) members = 1;
  // The same launch over and over may be a step as well as a part of one.
  if (one.length < 2 && !one.executable) members *= 0.6;
  double confidence = std::sqrt(one.alternation) * enough * regular *
                      (by_optimizer_ ? std::max(members, 0.9) : members) * std::min(1.0, 0.4 + 0.6 * one.share / 0.9);
  const double strength = std::min(1.0, std::max(one.share, one.explained) / 0.85);
  confidence *= strength * strength;
  confidence *= std::min(1.0, 0.35 + 0.65 * std::max(one.explained, 0.8 * regular_time));
  double ambiguity = 1, best_part = 0;
  // What happens every few steps only waits (logging, a checkpoint), is longer than a step (an evaluation, but so is
  // the training behind a few steps of decoding), or would be a part of the step.
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
      // What an evaluation or a log has comes on top. Another network's update, a generator's behind its critics',
      // takes the place of theirs: all of them together may be the step.
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
      // Several networks, or steps and what comes behind so many of them.
      if (by_optimizer_ && (!inner.optimizes || ratio < 3)) continue;
      // Layers are many and short; micro-batches are few and long.
      const bool layers = !inner.marked && inner.length <= kLayerLaunches && ratio >= 3;
      may_be(1 / ratio, layers ? 0.85 : kEither);
    }
  }
  // Steps with something else behind every few of them are as uneven as what happens at random, and no class that could
  // be chosen; and still they may be the steps.
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
  // Where nothing shows where it begins, the period may be right and the cut is not.
  if (by_optimizer_ ? one.bursts > 1.5 && !one.has_gap : !one.marked && !one.executable) ambiguity *= kEither;
  // An optimizer that is in step with something else.
  if (!by_optimizer_ && bursts_ >= 4) ambiguity *= kEither;
  return confidence * ambiguity;
}

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
    // A wait is the end of something.
    if ((member.type.flags & StepLaunch::kBlocking) != 0) value -= 4;
    // Where records begin, a step often does.
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

// Parts of a step begin alike; the step begins behind what only one of them has.
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
  // Of as many launches as were looked at.
  const double scale = static_cast<double>(launches_.size()) / static_cast<double>(to);
  for (uint32_t id : chosen.members) members_[id].after_extra *= scale;
}

void Detector::Cut(uint32_t id) {
  const Class& chosen = classes_[id];
  if (!extras_.empty()) FollowExtras(chosen);
  const Member& cut = members_[PickCut(chosen)];
  double most = 0;
  for (uint32_t member : chosen.members) most = std::max(most, members_[member].alternation);
  // What is seen most reliably, and shortly before the cut: where the cut itself is hidden by another launch, the time
  // between them tells.
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
  // Where what follows the optimizer is not the same each time, no member is there.
  const bool no_member =
      by_optimizer_ && !every_ &&
      ((cut.type.flags & StepLaunch::kOptimizer) != 0 || cut.after_optimizer < 0.5 * static_cast<double>(cut.seen));
  if (no_member && chosen.bursts > 0.8 && chosen.bursts < 1.5) return CutBehindBursts();
  FindBoundaries(id, cut, *helper);
}

// Behind each burst of an optimizer's launches, within a few launches of it where the longest gap is.
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
    bool begins;  // a segment, between the sight before and this
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
  const int64_t origin = Sane(launches_[0].start_ps);
  size_t c = 0;
  for (; c < cuts.size() && cuts[c].index <= helpers[0].index; ++c) add(cuts[c]);
  for (size_t h = 0; h < helpers.size(); ++h) {
    const size_t until = h + 1 < helpers.size() ? helpers[h + 1].index : launches_.size();
    const size_t before = boundaries_.size();
    for (; c < cuts.size() && cuts[c].index <= until; ++c) {
      // A helper that was lost leaves two cuts; a cut seen twice at once is one.
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
      const int64_t start = std::max<int64_t>(Sane(launches_[i].start_ps) - origin, 0);
      time = std::max(time, static_cast<uint64_t>(start));
      if (static_cast<double>(time) > expected + width) break;
      const double idle = busy == 0 || busy > time ? 0 : static_cast<double>(time - busy);
      busy = std::max(busy, static_cast<uint64_t>(std::max<int64_t>(Sane(launches_[i].end_ps) - origin, 0)));
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

// Of the boundaries those behind what only every so many-th interval has; before it, if it comes early in there.
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

// The cut is seen where a step follows another: not before the first, and not behind an evaluation. There it is where
// the launches are the same as those behind the next boundary.
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
        // Only the boundary behind a loss says that there was one.
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
  const int64_t time = Sane(launches_[index].start_ps) - Sane(launches_[0].start_ps);
  return std::clamp(static_cast<uint64_t>(std::max<int64_t>(time, 0)), earliest, latest);
}

// Where, about `length` launches before `next` and not before `from`, the launches are those behind `next`.
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
    // Where records begin, a step often does.
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
  const int64_t origin = Sane(launches_[0].start_ps);
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
  // The last has no boundary behind it.
  uint64_t end = 0;
  for (size_t i = boundaries_.back().index; i < launches_.size(); ++i) {
    end = std::max({end, static_cast<uint64_t>(std::max<int64_t>(Sane(launches_[i].end_ps) - origin, 0)),
                    static_cast<uint64_t>(std::max<int64_t>(Sane(launches_[i].start_ps) - origin, 0))});
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
          idle = std::max(idle, static_cast<double>(Sane(launches_[j + 1].start_ps) - Sane(launches_[j].end_ps)));
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

StepDetection Detector::Run() {
  if (launches_.size() < kFewestOccurrences) return {};
  const int64_t origin = Sane(launches_[0].start_ps);
  for (const StepLaunch& launch : launches_) {
    losses_ += (launch.flags & StepLaunch::kAfterLoss) != 0;
    span_ = std::max(span_, static_cast<uint64_t>(std::max<int64_t>(Sane(launch.start_ps) - origin, 0)));
  }
  if (span_ == 0) return {};
  CountTypes();
  CollectCandidates();
  FormClasses();
  candidates_ = {};
  if (classes_.empty()) return std::move(result_);
  Alternate();
  Judge();
  const std::optional<uint32_t> chosen = Choose();
  if (!chosen) return std::move(result_);
  const double confidence = Confidence(*chosen);
  if (confidence >= kLeastConfidence) {
    Cut(*chosen);
    if (every_) KeepEvery(classes_[*chosen].outer, classes_[*chosen].length);
    FindUnseen();
    MakeSteps();
  }
  if (result_.steps.empty()) {
    StepDetection none;
    none.capped = result_.capped;
    return none;
  }
  result_.confidence = std::min(confidence, 0.99);
  result_.cut_known = by_optimizer_ || classes_[*chosen].executable;
  result_.source = classes_[*chosen].executable ? "an executable launched again and again"
                   : by_optimizer_              ? "repeated launches, cut behind the optimizer"
                                                : "repeated launches";
  return std::move(result_);
}

constexpr size_t kFewestBins = 32;

std::vector<std::complex<double>> RootsOf(size_t size) {
  std::vector<std::complex<double>> roots(std::max<size_t>(size / 2, 1));
  for (size_t i = 0; i < roots.size(); ++i) {
    roots[i] = std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(size));
  }
  return roots;
}

// The product of finite numbers: std::complex's own looks for infinities at each.
std::complex<double> Product(const std::complex<double>& a, const std::complex<double>& b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

// `roots`: of twice the size.
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

// Of a real signal with zeros behind it, `size` values in all: the first half of its transform and one more. Its even
// and odd values go as real and imaginary parts through a transform of half the size.
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

// Mean 0, deviation 1, and no trend, which would be alike at every distance. Empty: it does not vary.
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

// Of all signals together; 1 at distance 0. Their spectra are added up and transformed back once.
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

// The distance at which activity is most like itself, for the first time. Height 0: none.
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
    // What is many periods away tells the period more exactly.
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

UsualLengths UsualLengthsOf(const std::vector<double>& lengths) {
  UsualLengths usual;
  usual.median = Median(lengths);
  std::vector<double> deviations;
  deviations.reserve(lengths.size());
  for (const double length : lengths) deviations.push_back(std::abs(length - usual.median));
  usual.least = 0.25 * usual.median;
  usual.most = usual.median + std::max(8 * Median(std::move(deviations)), 0.5 * usual.median);
  return usual;
}

bool NameLooksLikeOptimizer(std::string_view name) {
  constexpr std::string_view kWords[] = {
      "adam", "sgd", "lamb", "lion", "adafactor", "rmsprop", "muon", "foreach", "multi_tensor_apply", "fused_optim"};
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  for (std::string_view word : kWords) {
    for (auto from = name.begin();;) {
      const auto found =
          std::search(from, name.end(), word.begin(), word.end(), [&](char a, char b) { return lower(a) == b; });
      if (found == name.end()) break;
      from = found + 1;
      // Every second kernel of PyTorch has a lambda in its name.
      const std::string_view rest(found + static_cast<ptrdiff_t>(word.size()), name.end());
      if (word == "lamb" && rest.starts_with("da")) continue;
      // A million, a medallion.
      if (word == "lion" && found != name.begin() && found[-1] >= 'a' && found[-1] <= 'z') continue;
      return true;
    }
  }
  return false;
}

StepDetection DetectSteps(std::span<const StepLaunch> launches) { return Detector(launches).Run(); }

StepDetection DetectLongSteps(std::span<const StepLaunch> launches) {
  if (launches.size() < kFewestLaunches) return {};
  StepDetection found = DetectSteps(launches);
  if (found.period_ps < kShortestStepPs) found.steps.clear();
  return found;
}

StepDetection DetectStepsInActivity(const StepActivity& activity) {
  if (activity.signals.empty() || activity.bin_ps <= 0) return {};
  const size_t count = activity.signals[0].size();
  if (count < kFewestBins || count > kMaxActivityBins) return {};
  // What is in front of the last bin must have a time.
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
  // Where in the period it is highest, all periods together.
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
  const int64_t origin = Sane(activity.start_ps);
  const double reach = 0.15 * period.place;
  double at = static_cast<double>(best) / static_cast<double>(parts) * period.place;
  std::vector<size_t> places;
  while (at < static_cast<double>(count)) {
    // Steps are not all of one length: the highest nearby, and on from there.
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
  // Activity does not tell a step from a part or a multiple of it.
  found.confidence =
      std::min(kSureConfidence, 0.8 * period.height) * (1 - std::exp(-static_cast<double>(found.steps.size()) / 4));
  found.source = "activity that repeats";
  return found;
}

}  // namespace tbprof
