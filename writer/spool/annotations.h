// SPDX-License-Identifier: Apache-2.0
//
// Assembles the ranges and marks of a program (NVTX) from the records of their beginnings and ends.
//
//   Annotations annotations(PeriodsOf(facts.windows));
//   annotations.Take(thread, process, record, [&](const Annotations::Range& range) { ... });  // in a thread's order
//   annotations.Finish(close, consume);                                                      // what is still open
//
// Each range is reported once, with its own beginning, and with its own end or a flagged one, whatever the program does
// and whatever was lost. Memory: bounded by kMaxOpen. Process: converter, one thread.
#ifndef TBPROF_WRITER_SPOOL_ANNOTATIONS_H_
#define TBPROF_WRITER_SPOOL_ANNOTATIONS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/node_hash_map.h"
#include "wire/records.h"
#include "writer/spool/record_view.h"
#include "writer/spool/spool.h"
#include "writer/spool/spool_facts.h"

namespace tbprof {

// Periods of recording, [open, close) in ticks, ascending. Nothing is recorded between them, so no range extends
// across.
using ArmedPeriods = std::vector<std::pair<uint64_t, uint64_t>>;
ArmedPeriods PeriodsOf(const std::vector<WindowFact>& windows);

class Annotations {
 public:
  enum class Kind : uint8_t { kRange, kMark, kAcross };  // kAcross: begun and ended by number, on any threads
  struct Range {
    Kind kind = Kind::kRange;
    bool end_lost = false;  // its own end is missing: `end` is the last time at which it is known to be open
    uint16_t domain = 0;
    uint32_t category = 0;
    uint64_t start = 0, end = 0;  // ticks; equal for a mark
    uint64_t inside = 0;          // ticks of the ranges that are nested in it
    uint64_t name = 0;            // 0: there was no room for more names
    PayloadType payload_type{};
    uint64_t payload = 0;
    uint64_t torch_thread = 0;  // for kTorchDomain, if it has a payload
    uint64_t shapes = 0;        // for kTorchDomain, if they are recorded: the hash of their text
    Identity thread, process;   // where it began
  };
  using Consume = std::function<void(const Range&)>;

  explicit Annotations(ArmedPeriods periods) : periods_(std::move(periods)) {}

  // False: the record is not a valid annotation.
  bool Take(const Identity& thread, const Identity& process, const RecordView& record, const Consume& consume);
  // `close`: when the timeline ends.
  void Finish(uint64_t close, const Consume& consume);

  // Ends without a beginning: of ranges that were open when recording began, or of a program that ends more ranges than
  // it begins.
  uint64_t unmatched() const { return unmatched_; }
  uint64_t ends_lost() const { return ends_lost_; }
  uint64_t not_followed() const { return not_followed_; }

 private:
  static constexpr size_t kMaxOpen = 1u << 19;
  static constexpr size_t kMaxEarly = 1u << 18;  // ends whose beginnings may never come
  static constexpr size_t kMaxDepth = 4096;
  static constexpr size_t kKeptDepth = 64;  // capacity that an empty stack of a thread keeps

  struct Open {
    // Initializes each member: filling in and copying an object of zeros takes longer than all other work.
    Open(const Identity& thread, const Identity& process, const AnnotationRecord& record,
         const AnnotationPayload& payload, uint32_t begun_in);
    Range range;
    uint16_t level;
    uint32_t period;
    uint64_t again = 0;  // kAcross: start of the next range with its number; this one ended before it, or never
  };

  // The open ranges of a thread in a domain, the innermost last.
  struct Stack {
    std::vector<Open> opens;
    uint64_t last_ticks = 0;  // of its last record
  };

  uint32_t PeriodAt(uint64_t ticks);
  Stack* StackOf(const Identity& thread, uint16_t domain, bool make);
  void EndEarlier(Stack* stack, uint32_t period, const Consume& consume);
  void EndFromLevel(Stack* stack, uint16_t level, const Consume& consume);
  void EndLost(Open* open, uint64_t end, const Consume& consume);
  using Number = std::pair<Identity, uint64_t>;  // the number of a kAcross range, in its process
  void StartAcross(const Number& number, const Open& open, const Consume& consume);
  void EndAcross(const Number& number, uint64_t ticks, const Consume& consume);
  bool HasRoom(Stack* stack, uint16_t level, uint32_t period, const Consume& consume);
  void Pop(Stack* stack, const AnnotationRecord& record, const Consume& consume);

  ArmedPeriods periods_;
  uint64_t period_from_ = 1, period_to_ = 0;  // ticks for which period_ is valid
  uint32_t period_ = 0;
  using StackKey = std::pair<Identity, uint16_t>;  // of a thread and a domain
  absl::node_hash_map<StackKey, Stack> stacks_;
  StackKey last_key_;
  Stack* last_stack_ = nullptr;                                        // of last_key_
  absl::flat_hash_map<Number, std::multimap<uint64_t, Open>> across_;  // by their starts
  absl::flat_hash_map<Number, std::multiset<uint64_t>> early_ends_;
  size_t open_count_ = 0, early_count_ = 0;
  uint64_t unmatched_ = 0, ends_lost_ = 0, not_followed_ = 0;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_SPOOL_ANNOTATIONS_H_
