// SPDX-License-Identifier: Apache-2.0
//
// The Python stacks that hooks read in the target (PythonStack records). Other records of the same thread refer to them
// by number.
//
//   PythonExact python(&facts, &stacks, &timeline);
//   python.Take(process, thread, record);                       // each PythonStack record
//   event.python = python.ReferenceTo(thread, span.python_stack);
//   totals.Count(..., python.PlaceOf(event.python), ...);
//   python.Finish();                                            // after the last record
//
// A thread moves from chunk to chunk, and the spool may have a later chunk before the rest of an earlier one: a record
// may come before the stack that it refers to. Until Finish such a reference is open (IsOpen); StackOf converts it to a
// stack, and FinalPlace to a place.
//
// A place is the innermost frame alone: a line of a function. Places are numbered from 1.
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

// Limits of all processes together.
inline constexpr size_t kMostExactStacks = 1u << 20;  // entries of PythonTimeline::stacks
// References are to recent stacks of a thread, which records a stack again after a second. At least this many of the
// latest numbers are kept, and at most twice as many.
inline constexpr size_t kMostKnownNumbers = 1u << 19;
inline constexpr size_t kMostOpenReferences = 1u << 20;

struct PythonExactLimits {
  size_t stacks = kMostExactStacks, numbers = kMostKnownNumbers, open = kMostOpenReferences;
};

class PythonExact {
 public:
  // All must outlive this. `limits`: the defaults except in tests.
  PythonExact(const SpoolFacts* facts, PythonStacks* stacks, Timeline* timeline, const PythonExactLimits& limits = {})
      : facts_(*facts), stacks_(*stacks), timeline_(*timeline), limits_(limits) {}

  // Takes a PythonStack record. Returns an index into PythonTimeline::stacks; 0: no frame, or none that is known.
  uint32_t Take(const Identity& process, const Identity& thread, const RecordView& record);

  // Converts PythonStackRecord::number in a record to an index into PythonTimeline::stacks, or to an open reference; 0:
  // no stack.
  uint32_t ReferenceTo(const Identity& thread, uint32_t number);
  static bool IsOpen(uint32_t reference) { return (reference & kOpen) != 0; }
  // The place of a reference; an open reference is returned unchanged; 0 for 0.
  uint32_t PlaceOf(uint32_t reference);

  // Call after the last record. Adds notes on missing stacks, and resolves open references in Event::python of all
  // events.
  void Finish();
  // The stack of a reference; 0: it is not in the spool. Call after the last record.
  uint32_t StackOf(uint32_t reference) const {
    if (!IsOpen(reference)) return reference;
    return open_[reference & ~kOpen].stack;
  }
  // The place for a result of PlaceOf. Call after the last record.
  uint32_t FinalPlace(uint32_t place) { return IsOpen(place) ? PlaceOf(StackOf(place)) : place; }
  // `train.py:42 remember`, a different label for each place; 0 for 0.
  StringId LabelOf(uint32_t final_place);
  // A stack with the place as its innermost frame; 0 for 0.
  uint32_t StackOfPlace(uint32_t final_place) const { return place_stacks_[final_place]; }

 private:
  static constexpr uint32_t kOpen = uint32_t{1} << 31;

  // A code object, and the time for which it lay at its address.
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
  // Returns false if no code object is known.
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
  absl::flat_hash_map<std::pair<Identity, uint64_t>, KnownCode> codes_;  // by address: the latest lookup
  // By caller, code object and instruction: the results of Add.
  absl::flat_hash_map<std::tuple<uint32_t, const PythonCode*, int32_t>, uint32_t> frames_;
  size_t added_ = 0;
  Numbers numbers_, older_numbers_;
  absl::flat_hash_map<ThreadNumber, uint32_t> open_numbers_;  // index into open_
  std::vector<OpenReference> open_;
  absl::flat_hash_map<std::pair<uint32_t, int32_t>, uint32_t> places_;  // by function and line
  std::vector<uint32_t> place_stacks_{0};                               // by place: a stack with it innermost
  std::vector<uint32_t> stack_places_;                                  // by stack; 0: not looked up yet
  std::vector<StringId> place_labels_;                                  // by place; likewise
  absl::flat_hash_map<StringId, StringId> label_files_;                 // by label: the only file that uses it
  uint64_t cut_ = 0, left_out_ = 0, lost_ = 0;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_PYTHON_EXACT_H_
