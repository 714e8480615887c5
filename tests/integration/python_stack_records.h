// SPDX-License-Identifier: Apache-2.0
//
// The Python stacks in the records of a spool, for a program that starts no other program. chroot may have executed it.
#ifndef TBPROF_TESTS_INTEGRATION_PYTHON_STACK_RECORDS_H_
#define TBPROF_TESTS_INTEGRATION_PYTHON_STACK_RECORDS_H_

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "wire/python_current.h"
#include "writer/spool/spool_facts.h"
#include "writer/symbols/python_lines.h"

namespace tbprof::integration {

struct RecordedStack {
  std::vector<std::string> frames;  // `name:line`, innermost first
  std::vector<std::string> files;
  uint16_t flags = 0;
};
struct RecordedBlock {
  uint64_t size;
  const RecordedStack* stack;  // null: unknown
};
struct RecordedSpan {
  SpanRecord span;
  uint32_t process;
  const RecordedStack* stack;  // null: the span has none
};

class PythonStackRecords {
 public:
  explicit PythonStackRecords(const std::string& path) {
    auto reader = SpoolReader::Open(path);
    EXPECT_TRUE(reader.ok()) << path;
    if (!reader.ok()) return;
    EXPECT_TRUE(ReadSpoolFacts(
                    reader->get(), 0, [](uint64_t) {}, &facts_)
                    .ok());
    for (const bool stacks : {true, false}) {
      auto again = SpoolReader::Open(path);
      if (again.ok()) ReadRecords(again->get(), stacks);
    }
    EXPECT_EQ(facts_.corrupt_records, 0u);
    EXPECT_EQ(corrupt_, 0u);
  }

  const SpoolFacts& facts() const { return facts_; }
  const std::vector<RecordedSpan>& spans() const { return spans_; }
  // The allocated blocks, with --malloc=exact.
  const std::vector<RecordedBlock>& blocks() const { return blocks_; }
  // The number of records whose stack, or the code in it, was not recorded.
  uint64_t unresolved() const { return unresolved_; }
  uint64_t stacks() const { return stacks_.size(); }
  uint64_t samples() const { return samples_; }
  uint64_t samples_with_stack() const { return samples_with_stack_; }
  // Python's state in the first process: `+3.11`, `-3.16 REASON`; empty: no Python process.
  std::string Python() const {
    for (const auto& [id, process] : facts_.processes) {
      if (!process.python.empty()) return process.python;
    }
    return "";
  }

 private:
  void ReadRecords(SpoolReader* reader, bool stacks) {
    Frame frame;
    while (reader->Next(&frame)) {
      if (frame.type != FrameType::kChunk) continue;
      ChunkFact chunk;
      ForEachRecord(frame, &chunk, &corrupt_, [&](const RecordView& view) {
        const std::pair<uint32_t, uint32_t> thread(chunk.process_serial, chunk.thread_serial);
        if (stacks && view.tag.kind == RecordKind::kPythonStack) TakeStack(thread, view);
        if (!stacks) TakeUse(thread, view);
      });
    }
  }
  void TakeStack(std::pair<uint32_t, uint32_t> thread, const RecordView& view) {
    PythonStackRecord record;
    ASSERT_TRUE(view.Read(&record));
    if ((record.flags & kPythonStackCurrent) != 0) {
      EXPECT_EQ(record.frames, 0u);
      return;
    }
    const std::string_view words = view.Text(sizeof(record), uint64_t{record.frames} * sizeof(PythonFrameWord));
    ASSERT_EQ(words.size(), record.frames * sizeof(PythonFrameWord));
    RecordedStack stack;
    stack.flags = record.flags;
    for (size_t i = 0; i < record.frames; ++i) {
      PythonFrameWord word;
      memcpy(&word, words.data() + i * sizeof(word), sizeof(word));
      const PythonCode* const code = CodeOf(thread.first, PythonCodeOf(word), record.ticks);
      if (code == nullptr) ++unresolved_;
      stack.frames.push_back(code == nullptr
                                 ? "?"
                                 : code->name + ":" +
                                       std::to_string(LineOfInstruction(code->minor, code->table, code->first_line,
                                                                        PythonInstructionOf(word))));
      stack.files.push_back(code == nullptr ? "?" : code->file);
    }
    const bool fresh = stacks_.emplace(std::make_pair(thread, record.number), std::move(stack)).second;
    EXPECT_TRUE(fresh) << "number " << record.number << " is used twice";
  }
  const PythonCode* CodeOf(uint32_t process, uint64_t code, uint64_t ticks) const {
    for (const auto& [id, each] : facts_.processes) {
      if (id.serial != process) continue;
      const auto found = each.python_codes.find(code);
      if (found != each.python_codes.end()) {
        for (auto at = found->second.rbegin(); at != found->second.rend(); ++at) {
          if (at->ticks <= ticks) return &at->code;
        }
      }
      if (each.last.parent_serial == 0) continue;  // perhaps chroot, which executed this program
      return CodeOf(each.last.parent_serial, code, ticks);
    }
    return nullptr;
  }
  const RecordedStack* StackOf(std::pair<uint32_t, uint32_t> thread, uint32_t number) {
    if (number == 0) return nullptr;
    const auto found = stacks_.find(std::make_pair(thread, number));
    if (found != stacks_.end()) return &found->second;
    ++unresolved_;
    return nullptr;
  }
  void TakeUse(std::pair<uint32_t, uint32_t> thread, const RecordView& view) {
    SpanRecord span;
    AllocationSampleRecord sample;
    AllocationRecord block;
    PythonStackRecord stack;
    if (view.tag.kind == RecordKind::kPythonStack && view.Read(&stack) && (stack.flags & kPythonStackCurrent) != 0) {
      current_[thread] = StackOf(thread, stack.number);
    }
    if (view.tag.kind == RecordKind::kAllocation && (view.tag.flags & kRecordRelease) == 0 && view.Read(&block)) {
      blocks_.push_back({SizeOf(block), current_[thread]});
    }
    if (view.tag.kind == RecordKind::kAllocationSample && view.Read(&sample)) {
      ++samples_;
      if (StackOf(thread, sample.python_stack) != nullptr) ++samples_with_stack_;
    } else if (view.ReadSpan(&span)) {
      spans_.push_back({span, thread.first, StackOf(thread, span.python_stack)});
    }
  }

  SpoolFacts facts_;
  std::map<std::pair<std::pair<uint32_t, uint32_t>, uint32_t>, RecordedStack> stacks_;
  std::vector<RecordedSpan> spans_;
  std::vector<RecordedBlock> blocks_;
  std::map<std::pair<uint32_t, uint32_t>, const RecordedStack*> current_;
  uint64_t corrupt_ = 0, unresolved_ = 0, samples_ = 0, samples_with_stack_ = 0;
};

}  // namespace tbprof::integration

#endif  // TBPROF_TESTS_INTEGRATION_PYTHON_STACK_RECORDS_H_
