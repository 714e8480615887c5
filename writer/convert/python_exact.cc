// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/python_exact.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string_view>

#include "writer/base/text.h"
#include "writer/symbols/python_lines.h"
#include "writer/timeline/python_place.h"

namespace tbprof {
namespace {

// The limit of forks within forks.
constexpr int kDeepestParents = 64;
constexpr size_t kMostCachedCodes = 1u << 20;

}  // namespace

uint32_t PythonExact::Take(const Identity& process, const Identity& thread, const RecordView& record) {
  PythonStackRecord found;
  if (!record.Read(&found)) return 0;
  const std::string_view frames = record.Text(sizeof(found), uint64_t{found.frames} * sizeof(PythonFrameWord));
  if (found.frames > kMaxPythonFrames || frames.size() != found.frames * sizeof(PythonFrameWord)) {
    ++timeline_.corrupt_records;
    return 0;
  }
  // The record only marks the current stack.
  if (frames.empty()) return 0;
  const uint32_t stack = StackOfFrames(process, found.ticks, frames);
  if (found.number != 0) Define({thread, found.number}, stack);
  return stack;
}

// Frames outside of a frame with an unknown code object are left out: they may not be its callers.
uint32_t PythonExact::StackOfFrames(const Identity& process, uint64_t ticks, std::string_view frames) {
  struct KnownFrame {
    KnownCode code;
    int32_t instruction;
  };
  KnownFrame known[kMaxPythonFrames];
  size_t count = 0;
  for (; count * sizeof(PythonFrameWord) < frames.size(); ++count) {
    PythonFrameWord word;
    memcpy(&word, frames.data() + count * sizeof(word), sizeof(word));
    if (!CodeAt(process, PythonCodeOf(word), ticks, &known[count].code)) {
      ++cut_;
      break;
    }
    known[count].instruction = PythonInstructionOf(word);
  }
  uint32_t stack = 0;
  while (count-- > 0) {
    stack = Add(stack, known[count].code, known[count].instruction);
    if (stack != 0) continue;
    ++left_out_;
    return 0;
  }
  return stack;
}

bool PythonExact::CodeAt(const Identity& process, uint64_t address, uint64_t ticks, KnownCode* found) {
  const std::pair<Identity, uint64_t> key{process, address};
  if (const auto cached = codes_.find(key); cached != codes_.end()) {
    *found = cached->second;
    if (found->from <= ticks && ticks < found->until) return true;
  }
  *found = {};
  if (!FindCode(process, address, ticks, found)) return false;
  found->function = stacks_.FunctionOf(*found->code);
  if (codes_.size() >= kMostCachedCodes) codes_.clear();
  codes_[key] = *found;
  return true;
}

// A fork child has the code objects that its parent had at the fork.
bool PythonExact::FindCode(Identity process, uint64_t address, uint64_t ticks, KnownCode* found) const {
  uint64_t begin = 0, end = UINT64_MAX;  // the period for which the current process's code objects apply
  for (int depth = 0; depth < kDeepestParents; ++depth) {
    const auto facts = facts_.processes.find(process);
    if (facts == facts_.processes.end()) return false;
    const auto codes = facts->second.python_codes.find(address);
    if (codes != facts->second.python_codes.end()) {
      const auto next = std::upper_bound(codes->second.begin(), codes->second.end(), ticks,
                                         [](uint64_t at, const PythonCodeAt& code) { return at < code.ticks; });
      // A code object that an ancestor got after the fork does not end the period.
      const bool ends = next != codes->second.end() && (depth == 0 || next->ticks <= begin);
      if (ends) end = std::min(end, next->ticks);
      if (next != codes->second.begin()) {
        const PythonCodeAt& at = *std::prev(next);
        *found = {std::max(begin, at.ticks), end, &at.code, 0};
        return true;
      }
    }
    if (facts->second.parent_serial == 0) return false;
    process.serial = facts->second.parent_serial;
    begin = std::max(begin, facts->second.start_ticks);
    ticks = std::min(ticks, facts->second.start_ticks);
  }
  return false;
}

uint32_t PythonExact::Add(uint32_t parent, const KnownCode& code, int32_t instruction) {
  const std::tuple<uint32_t, const PythonCode*, int32_t> key{parent, code.code, instruction};
  if (const auto known = frames_.find(key); known != frames_.end()) return known->second;
  const PythonCode& fact = *code.code;
  const int32_t line =
      fact.table.empty() ? kNoPythonLine : LineOfInstruction(fact.minor, fact.table, fact.first_line, instruction);
  const size_t before = timeline_.python.stacks.size();
  const uint32_t stack = stacks_.Add({parent, code.function, line}, /*may_grow=*/added_ < limits_.stacks);
  added_ += timeline_.python.stacks.size() - before;
  if (stack == 0) return 0;
  if (frames_.size() >= 2 * limits_.stacks) frames_.clear();
  frames_.emplace(key, stack);
  return stack;
}

void PythonExact::Define(const ThreadNumber& key, uint32_t stack) {
  if (const auto open = open_numbers_.find(key); open != open_numbers_.end()) {
    open_[open->second].stack = stack;
    open_[open->second].found = true;
    open_numbers_.erase(open);
  }
  if (numbers_.size() >= limits_.numbers) {
    older_numbers_ = std::move(numbers_);
    numbers_ = {};
  }
  numbers_[key] = stack;
}

uint32_t PythonExact::ReferenceTo(const Identity& thread, uint32_t number) {
  if (number == 0) return 0;
  const ThreadNumber key{thread, number};
  if (const auto known = numbers_.find(key); known != numbers_.end()) return known->second;
  if (const auto known = older_numbers_.find(key); known != older_numbers_.end()) return known->second;
  const auto [open, added] = open_numbers_.try_emplace(key, static_cast<uint32_t>(open_.size()));
  if (added) {
    if (open_.size() >= limits_.open) {
      open_numbers_.erase(open);
      ++lost_;
      return 0;
    }
    open_.emplace_back();
  }
  ++open_[open->second].uses;
  return kOpen | open->second;
}

uint32_t PythonExact::PlaceOf(uint32_t reference) {
  if (reference == 0 || IsOpen(reference)) return reference;
  const std::vector<PythonStack>& stacks = timeline_.python.stacks;
  if (stack_places_.size() < stacks.size()) stack_places_.resize(stacks.size());
  uint32_t& place = stack_places_[reference];
  if (place != 0) return place;
  const PythonStack& frame = stacks[reference];
  const auto [known, added] =
      places_.try_emplace({frame.function, frame.line}, static_cast<uint32_t>(place_stacks_.size()));
  if (added) place_stacks_.push_back(reference);
  return place = known->second;
}

// If files have the same name, the second and later ones are given with their directories.
StringId PythonExact::LabelOf(uint32_t final_place) {
  if (final_place == 0) return 0;
  place_labels_.resize(place_stacks_.size());
  StringId& label = place_labels_[final_place];
  if (label != 0) return label;
  const PythonStack& frame = timeline_.python.stacks[place_stacks_[final_place]];
  const StringId file = timeline_.python.functions[frame.function].file;
  label = timeline_.strings.Intern(PythonFrameText(timeline_, frame));
  if (label_files_.try_emplace(label, file).first->second != file) {
    label = timeline_.strings.Intern(PythonFrameText(timeline_, frame, /*whole_path=*/true));
  }
  return label;
}

void PythonExact::Finish() {
  if (!open_.empty()) {
    for (Thread& thread : timeline_.threads) {
      for (Event& event : thread.events) event.python = StackOf(event.python);
    }
  }
  for (const OpenReference& open : open_) {
    if (!open.found) lost_ += open.uses;
  }
  AddNotes();
}

void PythonExact::AddNotes() {
  std::vector<std::string>& notes = timeline_.notes;
  if (lost_ > 0) {
    notes.push_back(StrCat("Python lines: ", lost_, " calls have none, their stacks are not in the recording"));
  }
  if (cut_ > 0) {
    notes.push_back(StrCat("Python lines: ", cut_, " stacks end at a function that is not in the recording"));
  }
  if (left_out_ > 0) {
    notes.push_back(StrCat("Python lines: ", left_out_, " stacks beyond the converter's limits are left out"));
  }
}

}  // namespace tbprof
