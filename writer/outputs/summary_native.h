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

#include "writer/timeline/timeline.h"

namespace tbprof {

// Null: nothing is known, not even why.
nlohmann::ordered_json NativeJson(const Timeline& timeline);

// At most three lines, of all threads.
std::vector<std::string> NativeText(const Timeline& timeline, size_t columns);

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_SUMMARY_NATIVE_H_
