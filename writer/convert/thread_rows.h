// SPDX-License-Identifier: Apache-2.0
//
// The rows of a frame about the threads of one process: ThreadUsageFact, Row[].
//
// Process: converter. Untrusted: all of a frame.
#ifndef TBPROF_WRITER_CONVERT_THREAD_ROWS_H_
#define TBPROF_WRITER_CONVERT_THREAD_ROWS_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "writer/convert/process_model.h"
#include "writer/spool/spool.h"

namespace tbprof {

// Calls `visit(owner, row)` for each row, with an index into Timeline::processes, and `others(identity, row)` for rows
// of processes that are not shown.
template <typename Row, typename Visit, typename Others>
void ForEachThreadRow(const Frame& frame, ProcessModel* model, uint64_t* corrupt, Visit&& visit, Others&& others) {
  ThreadUsageFact fact;
  if (!frame.Read(&fact) || frame.segment == 0 || fact.process_serial == 0) {
    ++*corrupt;
    return;
  }
  const Identity identity{frame.segment, fact.process_serial};
  const uint32_t owner = model->IndexOfProcess(identity);
  const std::string_view rows = frame.payload.substr(sizeof(fact));
  const size_t count = std::min<size_t>(fact.count, rows.size() / sizeof(Row));
  if (count != fact.count) ++*corrupt;
  for (size_t i = 0; i < count; ++i) {
    Row row;
    memcpy(&row, rows.data() + i * sizeof(row), sizeof(row));
    owner == kNoProcess ? others(identity, row) : visit(owner, row);
  }
}

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_THREAD_ROWS_H_
