// SPDX-License-Identifier: Apache-2.0
//
// How long the lists in summary.json are. A list of that length may be cut short: a row that it lacks is not known.
//
// Process: converter, and readers of summary.json.
#ifndef TBPROF_WRITER_TIMELINE_SUMMARY_LIMITS_H_
#define TBPROF_WRITER_TIMELINE_SUMMARY_LIMITS_H_

#include <cstddef>

namespace tbprof {

inline constexpr size_t kSummaryRows = 200;
inline constexpr size_t kSummaryLinesOfPhase = 20;  // lines of Python
// Native functions of a group of threads.
inline constexpr size_t kMostNativeFunctions = 50;

}  // namespace tbprof

#endif  // TBPROF_WRITER_TIMELINE_SUMMARY_LIMITS_H_
