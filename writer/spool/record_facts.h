// SPDX-License-Identifier: Apache-2.0
//
// The first pass over a spool, record by record: collects the facts that records have about threads, processes,
// modules, started programs, GPUs and names.
//
// Process: converter, one thread. Untrusted: everything; invalid records are counted as corrupt.
#ifndef TBPROF_WRITER_SPOOL_RECORD_FACTS_H_
#define TBPROF_WRITER_SPOOL_RECORD_FACTS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "writer/spool/record_view.h"
#include "writer/spool/spool_facts.h"

namespace tbprof {

class RecordFacts {
 public:
  explicit RecordFacts(SpoolFacts* facts) : facts_(*facts) {}

  // Takes a record that a summary of its chunk does not cover. `has_copy`: the main file has a copy of its facts.
  void Take(const Identity& process, const Identity& thread, const RecordView& record, bool has_copy);
  // Takes a record that a summary covers, in a chunk that is read nevertheless.
  void TakeSummarized(const Identity& process, const Identity& thread, const RecordView& record);
  void TakeBegin(const Identity& process, const Identity& thread, const ChunkBeginRecord& begin);
  // To be called after the last record: assigns names that threads got from others.
  void Finish();

  // Returns whether the operation is a function that does not return if it succeeds.
  bool IsExec(uint32_t segment, uint16_t operation) const;

 private:
  // A name that another thread gave a thread. It has the thread's kernel id, and may precede the thread's own first
  // record.
  struct NameByOther {
    uint32_t segment;
    int32_t tid;
    uint64_t ticks;
    std::string name;
  };

  void TakeThreadStart(const Identity& thread, const RecordView& record);
  void TakeThreadName(const Identity& thread, const RecordView& record);
  void TakeProcessInfo(const Identity& process, const RecordView& record);
  void TakeModule(const Identity& process, const RecordView& record);
  void TakeExec(const Identity& process, const Identity& thread, const RecordView& record);
  void TakeAnnotationName(const Identity& process, const RecordView& record);
  void TakePythonCode(const Identity& process, const RecordView& record);
  static void SetName(ThreadFacts* thread, uint64_t ticks, std::string_view name);

  SpoolFacts& facts_;
  std::vector<NameByOther> names_by_others_;
  size_t python_codes_ = 0, python_bytes_ = 0;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_SPOOL_RECORD_FACTS_H_
