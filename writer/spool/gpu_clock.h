// SPDX-License-Identifier: Apache-2.0
//
// Converts nanoseconds of a process's GPU clock to ticks of the session: linearly between the pairs that the process
// read, and beyond them with the session's own rate.
//
//   GpuClockMap clock;
//   for (const GpuClockRecord& pair : pairs) clock.Add(pair);
//   clock.Finish(ns_per_tick);
//   const GpuTicks time = clock.ToTicks(ns, hint);
//
// A program may register its own clock with CUPTI, which cannot be undone (PyTorch's Kineto: the CPU's counter). From
// then on the clock has another rate, which the pairs show.
//
// CUPTI's default clock is CLOCK_REALTIME: it follows NTP, and jumps when NTP steps it. A jump is between two pairs, at
// an unknown time. Times between these pairs are put on the side that they fit, and flagged as uncertain.
//
// Process: converter. Not thread-safe (remembers the interval last used).
#ifndef TBPROF_WRITER_SPOOL_GPU_CLOCK_H_
#define TBPROF_WRITER_SPOOL_GPU_CLOCK_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "wire/records.h"

namespace tbprof {

struct GpuTicks {
  uint64_t ticks = 0;
  bool uncertain = false;  // the clock jumped nearby
};

class GpuClockMap {
 public:
  // Untrusted: ignores a pair whose ticks run backwards.
  void Add(const GpuClockRecord& pair);
  // To be called after the last Add. False: there is no usable pair.
  bool Finish(double ns_per_tick);
  bool usable() const { return !pairs_.empty(); }

  // `hint`: number of this process's pairs before the record in the spool, from PassPair. A clock that jumped back has
  // the same reading twice; a record is older than the pairs before it by at most a flush.
  GpuTicks ToTicks(uint64_t gpu_ns, size_t hint) const;
  // Returns the number of pairs up to this one, for `hint`.
  size_t PassPair(const GpuClockRecord& pair) const;

  // Number of jumps of one clock, and of replacements by another clock.
  uint32_t breaks() const { return breaks_; }
  uint32_t replaced() const { return replaced_; }
  // Largest error between device and host times: half the distance of the two readings, for the worst pair that is
  // used.
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
    double rate;  // nanoseconds of the clock per nanosecond of the session
  };
  void LeaveOutWide();
  void FindBreaks();
  // The rate of the clock from pair `first` on; 1 if the pairs show no other.
  double RateFrom(size_t first) const;
  double Residual(size_t from, size_t to, double rate) const;
  // The uncertainty of the two readings, in the clock's nanoseconds.
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
