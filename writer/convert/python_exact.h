// SPDX-License-Identifier: Apache-2.0
//
// The Python stacks that hooks have read in the target (PythonStack records), for the records of the same thread that
// refer to them by number.
//
//   PythonExact python(&facts, &stacks, &timeline);
//   python.Take(process, thread, record);                       // each PythonStack record
//   event.python = python.ReferenceTo(thread, span.python_stack);
//   totals.Count(..., python.PlaceOf(event.python), ...);
//   python.Finish();                                            // after the last record
//
// A thread goes from chunk to chunk, and the spool may have a later chunk in front of the rest of an earlier one: a
// record may come before the stack that it refers to. Until Finish such a reference is an open one (IsOpen); it becomes
// a stack by StackOf and a place by FinalPlace.
//
// A place is the innermost frame alone: a line of a function. Places number from 1.
//
// Process: converter, one thread. Untrusted: all of the records. Memory: bounded by the limits below.
#ifndef TBPROF_WRITER_CONVERT_PYTHON_EXACT_H_
#define TBPROF_WRITER_CONVERT_PYTHON_EXACT_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "writer/convert/python_stacks.h"
#include "writer/spool/record_view.h"
#include "writer/spool/spool_facts.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

// Of all processes together.
inline constexpr size_t kMostExactStacks = 1u << 20;  // entries of PythonTimeline::stacks
// References are to the latest stacks of a thread, which records a stack again after a second: of older ones as many
// are kept as are recorded between two that many apart.
inline constexpr size_t kMostKnownNumbers = 1u << 19;
inline constexpr size_t kMostOpenReferences = 1u << 20;

struct PythonExactLimits {
  size_t stacks = kMostExactStacks, numbers = kMostKnownNumbers, open = kMostOpenReferences;
};

class PythonExact {
 public:
  // All must outlive this. `limits`: as they are but in tests.
  PythonExact(const SpoolFacts* facts, PythonStacks* stacks, Timeline* timeline, const PythonExactLimits& limits = {})
      : facts_(*facts), stacks_(*stacks), timeline_(*timeline), limits_(limits) {}

  // Of kind PythonStack. Returns an index into PythonTimeline::stacks; 0: it has no frame, or none that is known.
  uint32_t Take(const Identity& process, const Identity& thread, const RecordView& record);

  // What a record means by PythonStackRecord::number: an index into PythonTimeline::stacks, or an open reference; 0:
  // nothing.
  uint32_t ReferenceTo(const Identity& thread, uint32_t number);
  static bool IsOpen(uint32_t reference) { return (reference & kOpen) != 0; }
  // Of a reference its place; of an open one the reference itself; 0 of 0.
  uint32_t PlaceOf(uint32_t reference);

  // After the last record. Adds what is not known to the notes, and makes Event::python of the open references of all
  // events.
  void Finish();
  // Likewise after the last. Of a reference the stack; 0: it is not in the spool.
  uint32_t StackOf(uint32_t reference) const {
    if (!IsOpen(reference)) return reference;
    return open_[reference & ~kOpen].stack;
  }
  // Of what PlaceOf returned.
  uint32_t FinalPlace(uint32_t place) { return IsOpen(place) ? PlaceOf(StackOf(place)) : place; }
  // `train.py:42 remember`, another one for each place; of 0 it is 0.
  StringId LabelOf(uint32_t final_place);
  // A stack with the place innermost; 0 of 0.
  uint32_t StackOfPlace(uint32_t final_place) const { return place_stacks_[final_place]; }

 private:
  static constexpr uint32_t kOpen = uint32_t{1} << 31;

  // A code object while it lay at its address.
  struct KnownCode {
    uint64_t from = 0, until = 0;  // ticks
    const PythonCode* code = nullptr;
    uint32_t function = 0;
  };
  struct OpenReference {
    uint32_t stack = 0;
    bool found = false;
    uint64_t uses = 0;
  };
  struct ThreadNumber {
    Identity thread;
    uint32_t number = 0;
    friend bool operator==(const ThreadNumber&, const ThreadNumber&) = default;
    template <typename H>
    friend H AbslHashValue(H hash, const ThreadNumber& key) {
      return H::combine(std::move(hash), key.thread, key.number);
    }
  };
  using Numbers = absl::flat_hash_map<ThreadNumber, uint32_t>;

  uint32_t StackOfFrames(const Identity& process, uint64_t ticks, std::string_view frames);
  // False: none is known.
  bool CodeAt(const Identity& process, uint64_t address, uint64_t ticks, KnownCode* found);
  bool FindCode(Identity process, uint64_t address, uint64_t ticks, KnownCode* found) const;
  // An index into PythonTimeline::stacks; 0: there are too many.
  uint32_t Add(uint32_t parent, const KnownCode& code, int32_t instruction);
  void Define(const ThreadNumber& key, uint32_t stack);
  void AddNotes();

  const SpoolFacts& facts_;
  PythonStacks& stacks_;
  Timeline& timeline_;
  const PythonExactLimits limits_;
  absl::flat_hash_map<std::pair<Identity, uint64_t>, KnownCode> codes_;  // by address: the one that was looked up last
  // By caller, code object and instruction: what Add has returned.
  absl::flat_hash_map<std::tuple<uint32_t, const PythonCode*, int32_t>, uint32_t> frames_;
  size_t added_ = 0;
  Numbers numbers_, older_numbers_;
  absl::flat_hash_map<ThreadNumber, uint32_t> open_numbers_;  // index into open_
  std::vector<OpenReference> open_;
  absl::flat_hash_map<std::pair<uint32_t, int32_t>, uint32_t> places_;  // by function and line
  std::vector<uint32_t> place_stacks_{0};                               // by place: a stack that has it innermost
  std::vector<uint32_t> stack_places_;                                  // by stack; 0: not asked for yet
  std::vector<StringId> place_labels_;                                  // by place; likewise
  absl::flat_hash_map<StringId, StringId> label_files_;                 // the file that has a label to itself
  uint64_t cut_ = 0, left_out_ = 0, lost_ = 0;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_PYTHON_EXACT_H_
