// SPDX-License-Identifier: Apache-2.0
//
// Accounts for each call and record: per kind, calls made = events published + calls counted by a cause. The target
// counts calls when they begin; every later stage counts what it passes on and what it leaves out. A sum that does not
// hold therefore reveals an uncounted loss. docs/conservation.md.
//
//   Conservation conservation(&facts);
//   const ConservedKind kind = conservation.Take(segment, record);   // of every record of the second pass
//   conservation.Count(kind, ConservedCause::kOutsideWindow);        // of one that becomes no event
//   conservation.Finish(...);                                        // fills Timeline::conservation
//
// Process: converter, one thread.
#ifndef TBPROF_WRITER_CONVERT_CONSERVATION_H_
#define TBPROF_WRITER_CONVERT_CONSERVATION_H_

#include <cstddef>
#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "writer/spool/record_view.h"
#include "writer/spool/spool_facts.h"
#include "writer/timeline/conserved.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

class Conservation {
 public:
  // Must outlive this.
  explicit Conservation(const SpoolFacts* facts) : facts_(*facts) {}

  // Counts a record as read, and returns its kind; kNone: the kind is not followed.
  ConservedKind Take(uint32_t segment, const RecordView& record);
  // Counts the records of a thread that were read, of all kinds.
  void TakeChunk(const Identity& thread, uint64_t records) { read_[thread] += records; }
  void Count(ConservedKind kind, ConservedCause cause, uint64_t count = 1) {
    counts_[Index(kind)][Index(cause)] += count;
  }
  // Marks a thread whose unfinished call is an event.
  void CountOpen(const Identity& thread) { open_.insert({thread, true}); }

  struct Input {
    bool own_window = true;   // the run's own window, not a capture's
    bool each_block = false;  // --malloc=exact
    uint64_t samples = 0;     // allocation samples in the profile
  };
  // Call after all events are in the timeline.
  void Finish(const Input& input, Timeline* timeline);

 private:
  static constexpr size_t kKinds = static_cast<size_t>(ConservedKind::kKinds);
  static constexpr size_t kCauses = static_cast<size_t>(ConservedCause::kCauses);
  template <typename Enum>
  static constexpr size_t Index(Enum value) {
    return static_cast<size_t>(value);
  }
  struct Made {
    uint64_t count = 0;
    uint64_t at_most = 0;   // of these: may have neither event nor cause
    bool open_end = false;  // a process ran on after its last counters
  };

  ConservedKind KindOf(uint32_t segment, RecordKind kind, uint8_t flags, uint32_t aux);
  void AddThreads();
  void AddThread(const Identity& identity, const ThreadFacts& thread);
  void AddShortCalls(const Identity& identity, const ThreadFacts& thread);
  void AddInFlight(const Identity& identity, const ThreadFacts& thread);
  void AddSpool();
  void CountEvents(const Timeline& timeline);
  uint64_t PublishedOf(ConservedKind kind, const Input& input, const Timeline& timeline) const;
  void AddRow(ConservedKind kind, const Input& input, Timeline* timeline) const;
  bool IsExact(const Input& input) const;
  bool IsCounted() const;

  const SpoolFacts& facts_;
  uint64_t counts_[kKinds + 1][kCauses] = {};
  Made made_[kKinds + 1];
  uint64_t passed_[kKinds + 1] = {};  // read in the second pass
  uint64_t events_[kKinds + 1] = {};
  uint64_t undone_ = 0;  // records of blocks that no counter counts: of releases that a failed realloc undid
  absl::flat_hash_map<Identity, uint64_t> read_;
  absl::flat_hash_map<Identity, bool> open_;
  uint32_t segment_ = 0;  // the segment of operations_
  const SegmentFacts* operations_ = nullptr;
};

// The text for XSpace.warnings and the terminal; empty: all known sums hold.
std::string ConservationText(const Timeline& timeline);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_CONSERVATION_H_
