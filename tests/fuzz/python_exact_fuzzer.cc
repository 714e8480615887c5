// SPDX-License-Identifier: Apache-2.0
//
// Code objects and stacks of a target, as records and facts have them, to stacks of the timeline: each reference that
// comes out is one, whatever the order. The input is a list of steps: kind:8 a:8 b:8, and for a stack its frames.
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "tests/fuzz/check_timeline.h"
#include "writer/convert/python_exact.h"
#include "writer/timeline/python_place.h"

namespace tbprof {
namespace {

constexpr uint64_t kCodes = 8;  // addresses, of which the last is never known

class Steps {
 public:
  Steps(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  uint8_t Next() {
    if (size_ == 0) return 0;
    --size_;
    return *data_++;
  }
  bool AtEnd() const { return size_ == 0; }
  std::string Bytes(size_t most) {
    const size_t size = most < size_ ? most : size_;
    std::string bytes(reinterpret_cast<const char*>(data_), size);
    data_ += size;
    size_ -= size;
    return bytes;
  }

 private:
  const uint8_t* data_;
  size_t size_;
};

uint64_t AddressOf(uint8_t code) { return 8 * (1 + code % kCodes); }

void AddCode(Steps* steps, ProcessFacts* process) {
  PythonCodeAt at;
  const uint64_t address = AddressOf(steps->Next());
  if (address == 8 * kCodes) return;
  at.ticks = steps->Next();
  at.code.minor = 8 + steps->Next() % 8;
  at.code.first_line = static_cast<int8_t>(steps->Next());
  at.code.name = steps->Bytes(steps->Next() % 8);
  at.code.file = steps->Bytes(steps->Next() % 8);
  at.code.table = steps->Bytes(steps->Next() % 32);
  std::vector<PythonCodeAt>& known = process->python_codes[address];
  if (known.empty() || known.back().ticks <= at.ticks) known.push_back(at);
}

// A record of whole slots, which may promise more frames than it has.
uint32_t TakeStack(Steps* steps, const Identity& process, const Identity& thread, PythonExact* python) {
  PythonStackRecord record{};
  record.ticks = steps->Next();
  record.number = steps->Next() % 8;
  record.frames = steps->Next();
  record.flags = steps->Next();
  std::string bytes(reinterpret_cast<const char*>(&record), sizeof(record));
  for (int frames = steps->Next() % 16; frames > 0; --frames) {
    const uint64_t address = AddressOf(steps->Next());
    const PythonFrameWord word = PackPythonFrame(address, static_cast<int8_t>(steps->Next()));
    bytes.append(reinterpret_cast<const char*>(&word), sizeof(word));
  }
  bytes.resize((bytes.size() + kSlotBytes - 1) / kSlotBytes * kSlotBytes);
  return python->Take(
      process, thread,
      {record.tag, reinterpret_cast<const uint8_t*>(bytes.data()), static_cast<uint32_t>(bytes.size())});
}

}  // namespace
}  // namespace tbprof

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tbprof;
  Steps steps(data, size);
  SpoolFacts facts;
  for (uint32_t serial = 1; serial <= 4; ++serial) {
    ProcessFacts& process = facts.processes[{1, serial}];
    process.parent_serial = steps.Next() % 5;  // in circles, too
    process.start_ticks = steps.Next();
  }
  // All facts are known before the first record is read.
  for (int codes = steps.Next() % 32; codes > 0; --codes) AddCode(&steps, &facts.processes[{1, 1u + steps.Next() % 4}]);
  Timeline timeline;
  PythonStacks stacks(&timeline);
  PythonExactLimits limits;
  if (steps.Next() % 2 == 0) limits = {.stacks = 6, .numbers = 3, .open = 2};
  PythonExact python(&facts, &stacks, &timeline, limits);
  std::vector<uint32_t> references, places;
  while (!steps.AtEnd()) {
    const uint8_t kind = steps.Next();
    const Identity process{1, 1u + kind / 2 % 4}, thread{1, 1u + kind / 8 % 2};
    if (kind % 2 == 0) {
      Require(TakeStack(&steps, process, thread, &python) < timeline.python.stacks.size());
    } else {
      references.push_back(python.ReferenceTo(thread, steps.Next() % 8));
      places.push_back(python.PlaceOf(references.back()));
    }
  }
  python.Finish();
  Require(timeline.python.stacks.size() <= 1 + limits.stacks);
  for (size_t i = 1; i < timeline.python.stacks.size(); ++i) {
    const PythonStack& stack = timeline.python.stacks[i];
    Require(stack.parent < i && stack.function < timeline.python.functions.size() && stack.line >= -1);
  }
  for (size_t i = 0; i < references.size(); ++i) {
    const uint32_t stack = python.StackOf(references[i]);
    const uint32_t place = python.FinalPlace(places[i]);
    Require(stack < timeline.python.stacks.size() && (stack == 0) == (place == 0));
    Require(place == python.PlaceOf(stack));
    const StringId label = python.LabelOf(place);
    Require(label < timeline.strings.size() && (place == 0) == (label == 0));
    if (stack != 0) Require(!PythonStackText(timeline, stack, 8).empty());
  }
  return 0;
}
