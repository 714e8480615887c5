// SPDX-License-Identifier: Apache-2.0
//
// The native functions that used the CPU while a thread was at a line of Python. Samples of the two kinds are taken at
// different times: a native sample counts for a line only if a Python sample of its thread, at most kNearPs before or
// after it, was at that line. Two Python samples at one line are no evidence for the time between them: a loop whose
// period is about their distance returns to the line.
//
// Process: converter. Pure functions of the timeline.
#ifndef TBPROF_WRITER_CONVERT_NATIVE_BY_LINE_H_
#define TBPROF_WRITER_CONVERT_NATIVE_BY_LINE_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "writer/convert/sample_phases.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

// Half a millisecond. Shorter calls are mixed with their neighbours.
inline constexpr int64_t kNearPs = 500'000'000;

// Index into PythonTimeline::functions, and the line.
using PythonLineKey = std::pair<uint32_t, int32_t>;
// For each line its native samples, by stack.
using NativeByLine = absl::flat_hash_map<PythonLineKey, std::vector<NativeTally>>;

// `phase`: counts only the samples of this phase; none: all samples.
NativeByLine DivideNativeByLine(const Timeline& timeline, const std::vector<const PythonThread*>& threads,
                                const SamplePhases& phases, std::optional<SamplePhase> phase);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_NATIVE_BY_LINE_H_
