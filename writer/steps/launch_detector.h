// SPDX-License-Identifier: Apache-2.0
//
// The implementation of DetectSteps (step_detector.h). Only its own source files include this header:
//
//   launch_classes.cc     groups repeated runs of launches into classes, by their count
//   launch_contents.cc    compares the contents of intervals, and decides which class is a step of another
//   launch_choice.cc      chooses the class of the steps, and computes the confidence
//   launch_boundaries.cc  finds the place in an interval where a step begins
//
// Process: converter, one thread. Untrusted: every launch.
#ifndef TBPROF_WRITER_STEPS_LAUNCH_DETECTOR_H_
#define TBPROF_WRITER_STEPS_LAUNCH_DETECTOR_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "writer/steps/clamp_time.h"
#include "writer/steps/step_detector.h"

namespace tbprof::launch_steps {

inline constexpr size_t kLengths = 3;
inline constexpr size_t kRunLength[kLengths] = {1, 2, 4};
inline constexpr size_t kBins = 40;
inline constexpr uint32_t kNone = UINT32_MAX;
inline constexpr size_t kMaxProbes = 128;
inline constexpr size_t kMaxClasses = 20;
inline constexpr size_t kMaxFinalists = 6;
inline constexpr size_t kMaxSymbols = 1 << 16;
inline constexpr size_t kMaxExtras = 4096;
inline constexpr double kMostNetworks = 8;  // networks in one step, each with its own optimizer
inline constexpr double kEither = 0.65;     // factor if it is unclear which of two is the step, or where it begins
inline constexpr double kLeastShareOfParts = 0.3;
inline constexpr double kOfAnotherNetwork = 0.25;  // share of an interval's launches
inline constexpr double kLikeTheOther = 0.8;       // share of launches in common with the next interval
inline constexpr uint32_t kFewestOccurrences = 4;
inline constexpr double kLeastShare = 0.35;
inline constexpr double kLeastAlternation = 0.6;
inline constexpr double kTakesTurns = 0.75;
// Upper limit of (90th - 10th percentile) / median of the lengths of intervals. Random intervals have 3.2.
inline constexpr double kMostSpread = 2;
// A gap is a mark if it is longer than the median gap by this many octaves (factors of two).
inline constexpr double kMark = 1;
// A layer of a network has at most this many launches.
inline constexpr double kLayerLaunches = 40;
// Most launches per interval of an executable: the executable itself, and copies of its input and result.
inline constexpr double kExecutableLaunches = 8;
// Contents are compared over at most this many launches.
inline constexpr size_t kCompared = size_t{1} << 19;

inline uint64_t Mix(uint64_t value) {
  value ^= value >> 32;
  value *= 0xD6E8FEB86659FD93;
  value ^= value >> 29;
  value *= 0xA0761D6478BD642F;
  return value ^ value >> 32;
}

// One launch as all passes see it. Times are relative to the first launch and never decrease.
struct Reading {
  size_t index = 0;
  uint64_t time = 0;
  uint64_t idle = 0;
  uint64_t segment_time = 0;
  bool begins_segment = false;
  uint8_t flags = 0;
  uint32_t since_optimizer = kNone;  // launches since one of an optimizer; 1: the previous launch
  uint32_t since_blocking = kNone;
  size_t lengths = 0;  // how many of the runs that end here do not cross a loss
  uint64_t runs[kLengths] = {};
};

template <typename Visit>
void Read(std::span<const StepLaunch> launches, size_t from, size_t to, Visit&& visit) {
  if (from >= to) return;
  const int64_t origin = ClampTime(launches[0].start_ps);
  Reading reading;
  uint64_t busy_until = 0, before[3] = {};
  size_t in_segment = 0;
  for (size_t i = from; i < to; ++i) {
    const StepLaunch& launch = launches[i];
    const auto since_origin = [origin](int64_t time) {
      return static_cast<uint64_t>(std::max<int64_t>(ClampTime(time) - origin, 0));
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

// Statistics of one run of symbols.
struct Type {
  uint64_t hash;
  uint64_t last;
  uint32_t count;
  uint32_t histogram;
  uint32_t flags;  // flags of its last launch
  float idle;      // sum of log2 of the idle nanoseconds before it
};

class TypeTable {
 public:
  // Null: the table is full, or too many hashes collide.
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

// The exponent and the first bit of the mantissa: counts half octaves, approximately.
inline int HalfOctave(double value) { return static_cast<int>(std::bit_cast<uint64_t>(value) >> 51); }

// log2, linearly interpolated between the powers of two.
inline double RoughLog2(double value) {
  return static_cast<double>(std::bit_cast<uint64_t>(value) >> 32) / (1 << 20) - 1023;
}
inline double IdleWeight(uint64_t idle_ps) { return RoughLog2(static_cast<double>(idle_ps) / 1000 + 1); }

// Internal flag: the launch directly follows a launch of an optimizer.
inline constexpr uint8_t kBehindOptimizer = 0x80;

struct Candidate {
  uint64_t hash = 0;
  uint32_t count = 0;
  uint8_t length = 0;  // index into kRunLength
  uint8_t flags = 0;
  bool taken = false;
  float idle = 0;       // mean
  double share = 0;     // share of the time between its occurrences that is in gaps of about one length
  double coverage = 0;  // share of all time that is between its occurrences

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
  // Sixteen bins per octave.
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

// The fields that each occurrence changes share one cache line.
struct alignas(64) Member {
  uint32_t owner = 0;
  uint32_t interval = kNone;
  uint32_t here = 0;
  uint64_t once = 0;  // intervals in which it occurred exactly once
  uint64_t seen = 0;
  double offset = 0;  // sum of its distances from the pivot, in launches
  double idle = 0;    // sum of log2 of the idle nanoseconds before it
  double after_optimizer = 0, after_blocking = 0;
  Candidate type;
  double after_extra = 0;
  double alternation = 0;

  double Offset() const { return seen == 0 ? 0 : offset / static_cast<double>(seen); }
};

struct Ratio {
  uint64_t before = 0;  // pivots of the other class when the interval began
  uint64_t value = 0;   // the number that more than half of the intervals have, if any
  int64_t votes = 0;
  uint64_t last = 0, same = 0;
};

// Launches that only every Nth interval of a class has.
struct Outer {
  uint32_t ratio = 0;  // N; 0: there are none
  double extra = 0;    // launches each time; of these, the numbers that block or belong to an optimizer:
  double blocking = 0, optimizer = 0;
  double offset = 0;  // position in the interval, in launches
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
  size_t good = 0;         // members that take turns
  bool optimizes = false;  // an optimizer runs in nearly each interval
  double share = 0, coverage = 0;
  double period = 0, length = 0;  // medians, in ps and launches
  double spread = 0;              // SpreadOf the durations or the launches, the smaller one
  double explained = 0;           // share of the launches whose symbol occurs as often in the interval before
  bool marked = false;            // has a gap or a wait where a step may begin
  bool has_gap = false;           // has a gap where a step may begin
  double bursts = 0;              // bursts of optimizers per interval
  bool executable = false;        // each interval launches an executable and little else
  double score = 0;
  bool qualified = false;
};

inline double SpreadOf(const LogHistogram& histogram) {
  const double median = histogram.Quantile(0.5);
  return median <= 0 ? 1 : (histogram.Quantile(0.9) - histogram.Quantile(0.1)) / median;
}

// Small enough to stay in the cache. Most launches are not in the table.
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

class Detector {
 public:
  explicit Detector(std::span<const StepLaunch> launches) : launches_(launches) {}
  StepDetection Run();

 private:
  struct Pair {
    std::vector<uint64_t> symbols;
    double extra = 0;     // launches in an interval of the coarser class that are not in each of the finer one
    double blocking = 0;  // of these, those that block
    double stretch = 1;   // launches of a finer interval that has them, relative to the usual number
  };

  void CountTypes();
  void CollectCandidates();
  void FormClasses();
  void TakeMembers(size_t first, size_t last);
  void Alternate();
  void Judge();
  class Contents;
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
  uint64_t bursts_ = 0;  // bursts of optimizer launches so far
  TypeTable tables_[kLengths];
  bool active_[kLengths] = {true, true, true};
  std::vector<std::array<float, kBins>> histograms_;
  std::vector<Candidate> candidates_;
  std::vector<Member> members_;
  std::vector<Class> classes_;  // in order, the finest class first
  std::vector<uint32_t> finalists_;
  std::vector<std::vector<Pair>> pairs_;  // by finalist: [coarse][fine]
  bool by_optimizer_ = false;
  bool every_ = false;            // a step consists of several intervals of the chosen class
  std::vector<uint64_t> extras_;  // symbols that are in the chosen step but not in each of its parts, sorted
  struct Boundary {
    size_t index;
    uint64_t time;
    bool after_loss;
  };
  std::vector<Boundary> boundaries_;
};

}  // namespace tbprof::launch_steps

#endif  // TBPROF_WRITER_STEPS_LAUNCH_DETECTOR_H_
