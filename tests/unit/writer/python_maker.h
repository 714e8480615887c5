// SPDX-License-Identifier: Apache-2.0
//
// Records of Python code and stacks made by hand, for SpoolMaker::Add.
#ifndef TBPROF_TESTS_UNIT_WRITER_PYTHON_MAKER_H_
#define TBPROF_TESTS_UNIT_WRITER_PYTHON_MAKER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/unit/writer/spool_maker.h"
#include "wire/records.h"

namespace tbprof {

// Code of 3.11 with one line for each of the first four instructions: unit n is line first + n.
inline void AddPythonCode(SpoolMaker* spool, uint64_t ticks, uint64_t code, std::string_view name,
                          std::string_view file, int32_t first_line) {
  const std::string table = std::string("\xe8\x00", 2) + "\xe8\x02\xe8\x02\xe8\x02";
  PythonCodeRecord record{};
  record.ticks = ticks;
  record.code = code;
  record.first_line = first_line;
  record.minor = 11;
  record.name_bytes = static_cast<uint32_t>(name.size());
  record.file_bytes = static_cast<uint32_t>(file.size());
  record.table_bytes = static_cast<uint32_t>(table.size());
  spool->Add(RecordKind::kPythonCode, record, 0, 0, std::string(name) + std::string(file) + table);
}

struct PythonFrameAt {
  uint64_t code = 0;
  int64_t unit = 0;
};
// Innermost first.
inline void AddPythonStack(SpoolMaker* spool, uint64_t ticks, uint32_t number, const std::vector<PythonFrameAt>& frames,
                           uint16_t flags = 0) {
  std::string words;
  for (const PythonFrameAt& frame : frames) {
    const PythonFrameWord word = PackPythonFrame(frame.code, frame.unit);
    words.append(reinterpret_cast<const char*>(&word), sizeof(word));
  }
  PythonStackRecord record{};
  record.ticks = ticks;
  record.number = number;
  record.frames = static_cast<uint16_t>(frames.size());
  record.flags = flags;
  spool->Add(RecordKind::kPythonStack, record, 0, 0, words);
}

// Like SpoolMaker::Span, with a reference to a stack.
inline void AddPythonSpan(SpoolMaker* spool, uint16_t operation, uint64_t start, uint64_t ticks, uint32_t number,
                          uint64_t call_site = 0) {
  SpanRecord span{};
  span.start = start;
  span.ticks = ticks;
  span.call_site = call_site;
  span.python_stack = number;
  spool->Add(RecordKind::kSpan, span, operation);
}

inline void AddPythonSample(SpoolMaker* spool, uint64_t ticks, uint64_t weight, uint64_t call_site, uint32_t number) {
  AllocationSampleRecord sample{};
  sample.ticks = ticks;
  sample.weight = sample.size = weight;
  sample.call_site = call_site;
  sample.python_stack = number;
  spool->Add(RecordKind::kAllocationSample, sample);
}

inline void AddBlock(SpoolMaker* spool, uint64_t ticks, uint64_t address, uint64_t size, uint64_t call_site,
                     bool release = false) {
  AllocationRecord record{};
  PackAllocation(&record, address, size, call_site, ticks);
  spool->Add(RecordKind::kAllocation, record, 0, release ? kRecordRelease : 0);
}

}  // namespace tbprof

#endif  // TBPROF_TESTS_UNIT_WRITER_PYTHON_MAKER_H_
