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

// Calls `visit(owner, row)` for each row, with an index into Timeline::processes. Ignores processes that are not shown.
template <typename Row, typename Visit>
void ForEachThreadRow(const Frame& frame, ProcessModel* model, uint64_t* corrupt, Visit&& visit) {
  ThreadUsageFact fact;
  if (!frame.Read(&fact) || frame.segment == 0 || fact.process_serial == 0) {
    ++*corrupt;
    return;
  }
  const uint32_t owner = model->IndexOfProcess({frame.segment, fact.process_serial});
  if (owner == kNoProcess) return;
  const std::string_view rows = frame.payload.substr(sizeof(fact));
  const size_t count = std::min<size_t>(fact.count, rows.size() / sizeof(Row));
  if (count != fact.count) ++*corrupt;
  for (size_t i = 0; i < count; ++i) {
    Row row;
    memcpy(&row, rows.data() + i * sizeof(row), sizeof(row));
    visit(owner, row);
  }
}

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_THREAD_ROWS_H_
