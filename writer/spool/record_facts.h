// SPDX-License-Identifier: Apache-2.0
//
// The first pass over a spool, record by record: what records say about threads, processes, modules, programs that are
// started, GPUs and names.
//
// Process: converter, one thread. Untrusted: everything; what makes no sense is counted as corrupt.
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

  // A record that no summary of its chunk stands for. `has_copy`: what it says is in the main file, too.
  void Take(const Identity& process, const Identity& thread, const RecordView& record, bool has_copy);
  // One that a summary stands for, in a chunk that is read nevertheless.
  void TakeSummarized(const Identity& process, const Identity& thread, const RecordView& record);
  void TakeBegin(const Identity& process, const Identity& thread, const ChunkBeginRecord& begin);
  // After the last record: names that threads got from others.
  void Finish();

  // Whether the operation is a function that does not come back when all goes well.
  bool IsExec(uint32_t segment, uint16_t operation) const;

 private:
  // A name that a thread got from another is known by kernel id, and may stand before the thread's own first record.
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
