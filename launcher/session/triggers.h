// SPDX-License-Identifier: Apache-2.0
//
// From the borders that recorded processes tell (--window=nvtx:NAME, cuda-profiler) to windows: from the first begin to
// the last end.
//
//   triggers.Read(target, *TriggersOf(header), now);    // each segment
//   triggers.Forget(target, is_alive, now);             // its processes that are gone
//   for (const TriggerChange& change : triggers.Take()) ...
//
// Process: launcher, main thread. Trusts nothing in a segment.
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
  bool process_ended = false;  // inside the range
};

class TriggerReader {
 public:
  // `seen`: borders of this segment that were read before. `from`: no border lies before it, and none after `now`.
  void Read(uint32_t segment, const Triggers& triggers, uint32_t* seen, uint64_t from, uint64_t now);
  // Of processes that are gone, ranges end here.
  void Forget(uint32_t segment, const std::function<bool(uint32_t process_serial)>& is_alive, uint64_t now);
  void ForgetSegment(uint32_t segment, uint64_t now);
  // In the order of time.
  std::vector<TriggerChange> Take();

  bool is_open() const { return open_count_ > 0; }
  // Ranges that came and went faster than they were read.
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
  void EndAll(uint32_t segment, uint64_t now);

  std::vector<Border> borders_;
  std::map<Key, int> depths_;          // ranges open
  std::map<Key, int> looked_for_;      // looks that did not find the process, before it was seen
  std::map<uint32_t, int> unwritten_;  // by segment: looks at a border that is not there yet
  int open_count_ = 0;
  uint64_t missed_ = 0;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SESSION_TRIGGERS_H_
