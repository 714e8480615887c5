// SPDX-License-Identifier: Apache-2.0
//
// The member `native` of summary.json, and its lines of the terminal's summary: which functions used CPU time.
//
// Process: converter. Pure functions of the timeline.
#ifndef TBPROF_WRITER_OUTPUTS_SUMMARY_NATIVE_H_
#define TBPROF_WRITER_OUTPUTS_SUMMARY_NATIVE_H_

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "writer/convert/native_totals.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

// Null: nothing is known, not even a reason.
nlohmann::ordered_json NativeJson(const Timeline& timeline);

// The functions that used the CPU while a thread was at a Python line; null: no sample is known to belong to the line.
nlohmann::ordered_json NativeOfLineJson(const Timeline& timeline, const NativeSums& sums,
                                        const std::vector<NativeTally>& tallies);
// `native: 61 % sgemm_kernel`; empty if there are few samples, or if they are spread over many functions.
std::string NativeOfLineText(const Timeline& timeline, const NativeSums& sums, const std::vector<NativeTally>& tallies);

// At most four lines: the main thread in regular steps and the other threads, else all threads together.
std::vector<std::string> NativeText(const Timeline& timeline, size_t columns);

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_SUMMARY_NATIVE_H_
