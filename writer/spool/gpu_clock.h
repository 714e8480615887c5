// SPDX-License-Identifier: Apache-2.0
//
// Nanoseconds of a process's GPU clock to ticks of the session: linear between the pairs that the process read, and
// beyond them with the session's own rate.
//
//   GpuClockMap clock;
//   for (const GpuClockRecord& pair : pairs) clock.Add(pair);
//   clock.Finish(ns_per_tick);
//   const GpuTime time = clock.ToTicks(ns, hint);
//
// A program may give CUPTI a clock of its own, which nothing undoes (PyTorch's Kineto: the CPU's counter): from there
// on the clock goes at another rate, which the pairs show.
//
// CUPTI's default clock is CLOCK_REALTIME: it follows NTP, and jumps when that steps it. A jump is between two pairs;
// where exactly is not known. Times in there are put on the side they fit, and flagged as uncertain.
//
// Process: converter. Not thread-safe (remembers the interval last used).
#ifndef TBPROF_WRITER_SPOOL_GPU_CLOCK_H_
#define TBPROF_WRITER_SPOOL_GPU_CLOCK_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "wire/records.h"

namespace tbprof {

struct GpuTime {
  uint64_t ticks = 0;
  bool uncertain = false;  // the clock jumped nearby
};

class GpuClockMap {
 public:
  // Untrusted: a pair whose ticks run backwards is left out.
  void Add(const GpuClockRecord& pair);
  // After the last Add. False: no usable pair at all.
  bool Finish(double ns_per_tick);
  bool usable() const { return !pairs_.empty(); }

  // `hint`: pairs of this process that stood before the record in the spool, as PassPair counts them. A clock that
  // jumped back reads the same twice; a record is not older than what was read before it by more than a flush.
  GpuTime ToTicks(uint64_t gpu_ns, size_t hint) const;
  // The number of pairs not after this one, for `hint`.
  size_t PassPair(const GpuClockRecord& pair) const;

  // Jumps of one clock, and how often another clock took its place.
  uint32_t breaks() const { return breaks_; }
  uint32_t replaced() const { return replaced_; }
  // Half the distance of the two readings, of the worst pair that is used: how far device and host times may be apart.
  uint64_t error_ticks() const { return error_ticks_; }
  uint64_t last_ticks() const { return pairs_.empty() ? 0 : pairs_.back().ticks; }

 private:
  struct Pair {
    uint64_t ticks;
    uint64_t gpu_ns;
    uint64_t width;
    bool after_break;  // the clock jumped between the pair before and this one
  };
  // Pairs [first, last] without a jump between them.
  struct Segment {
    size_t first, last;
    double rate;  // nanoseconds of the clock in one of the session
  };
  void LeaveOutWide();
  void FindBreaks();
  // Of the clock from pair `first` on; 1 where the pairs show no other.
  double RateFrom(size_t first) const;
  double Residual(size_t from, size_t to, double rate) const;
  // What the two readings leave open, in the clock's nanoseconds.
  double Tolerance(size_t from, size_t to, double rate) const;
  uint64_t InSegment(const Segment& segment, uint64_t gpu_ns) const;
  uint64_t Around(const Pair& pair, uint64_t gpu_ns, double ns_per_tick) const;

  std::vector<Pair> pairs_;
  std::vector<Segment> segments_;
  double ns_per_tick_ = 1;
  uint32_t breaks_ = 0;
  uint32_t replaced_ = 0;
  uint64_t error_ticks_ = 0;
  mutable size_t last_ = 0;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_SPOOL_GPU_CLOCK_H_
