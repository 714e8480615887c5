// SPDX-License-Identifier: Apache-2.0
//
// Turns the range borders that recorded processes report (--window=nvtx:NAME, cuda-profiler) into windows: a window
// lasts from the first begin to the last end of overlapping ranges.
//
//   const uint32_t reported = ReportedBorders(*TriggersOf(header));  // each segment; the clock is read after it
//   triggers.Read(segment, *TriggersOf(header), reported, &seen, from, now);
//   triggers.Forget(segment, is_alive, now);                        // its ended processes
//   for (const TriggerChange& change : triggers.Take()) ...
//
// Process: launcher, main thread. Does not trust a segment's content.
#ifndef TBPROF_LAUNCHER_SESSION_TRIGGERS_H_
#define TBPROF_LAUNCHER_SESSION_TRIGGERS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "wire/layout.h"

namespace tbprof {

struct TriggerChange {
  bool opens = false;
  uint64_t ticks = 0;
  bool process_ended = false;  // the process ended inside its range
};

// How many borders a segment has reported. None of them is later than a clock that is read after this.
inline uint32_t ReportedBorders(const Triggers& triggers) {
  return __atomic_load_n(&triggers.reported, __ATOMIC_SEQ_CST);
}

class TriggerReader {
 public:
  // Reads the borders up to number `reported`. `seen`: the number of borders of this segment that were read before;
  // updated. Border times are clamped to `from`...`now`.
  void Read(uint32_t segment, const Triggers& triggers, uint32_t reported, uint32_t* seen, uint64_t from, uint64_t now);
  // Ends the ranges of processes that have ended.
  void Forget(uint32_t segment, const std::function<bool(uint32_t process_serial)>& is_alive, uint64_t now);
  void ForgetSegment(uint32_t segment, uint64_t now);
  // Returns the changes in time order.
  std::vector<TriggerChange> Take();

  // Whether a range is open, or its window is: of a begin that was read but not taken, the range is; of an end that was
  // not taken, the window.
  bool is_open() const { return open_count_ > 0 || !open_.empty(); }
  // Ranges whose border was overwritten before it was read, or was never finished.
  uint64_t missed() const { return missed_; }

 private:
  struct Key {
    uint32_t segment, process_serial;
    bool operator<(const Key& other) const {
      return segment != other.segment ? segment < other.segment : process_serial < other.process_serial;
    }
  };
  struct Border {
    uint64_t ticks;
    Key key;
    bool begins;
    bool process_ended;
  };
  void Add(const Key& key, bool begins, uint64_t ticks);
  void EndAll(uint32_t segment, uint64_t now);

  std::vector<Border> borders_;
  std::map<Key, std::vector<uint64_t>> open_;  // the begins of the open ranges, ascending
  std::map<Key, int> looked_for_;              // how often a process was not found alive; kLooks once it was found
  std::map<uint32_t, int> unwritten_;          // by segment: how often an unfinished border was read
  int open_count_ = 0;
  uint64_t missed_ = 0;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SESSION_TRIGGERS_H_
