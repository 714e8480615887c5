// SPDX-License-Identifier: Apache-2.0
//
// Emits rows of one process as frames of the spool. Each frame begins with a fact that contains the number of its rows.
//
// Process: launcher, the thread of a sampler.
#ifndef TBPROF_LAUNCHER_SAMPLING_EMIT_ROWS_H_
#define TBPROF_LAUNCHER_SAMPLING_EMIT_ROWS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "launcher/sampling/sampled_process.h"

namespace tbprof {

inline constexpr size_t kMaxRowsOfFrame = 4096;

template <typename Fact, typename Row>
void EmitRows(const EmitFrame& emit, FrameType type, const SampledProcess& process, const std::vector<Row>& rows) {
  for (size_t at = 0; at < rows.size(); at += kMaxRowsOfFrame) {
    const size_t count = std::min(rows.size() - at, kMaxRowsOfFrame);
    const Fact fact = {process.serial, static_cast<uint32_t>(count)};
    std::vector<uint8_t> payload(sizeof(fact) + count * sizeof(Row));
    std::memcpy(payload.data(), &fact, sizeof(fact));
    std::memcpy(payload.data() + sizeof(fact), &rows[at], count * sizeof(Row));
    emit(type, process.segment, payload.data(), payload.size());
  }
}

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_EMIT_ROWS_H_
