// SPDX-License-Identifier: Apache-2.0
//
// Reports of ranks in summary.json: writes them, and reads them from the summaries of the run's other launchers.
//
// Process: converter. The summaries of others are hostile input: a member of another type counts as not known.
#ifndef TBPROF_WRITER_CONVERT_RANK_JSON_H_
#define TBPROF_WRITER_CONVERT_RANK_JSON_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "writer/timeline/timeline.h"

namespace tbprof {

nlohmann::ordered_json RankReportJson(const RankReport& report);

// The ranks that the summary's own launcher recorded; none if that launcher ended before this run began. Times are
// converted to those of a window that began at `origin_unix_ns`.
std::vector<RankReport> RankReportsOfSummary(const std::string& summary, uint64_t origin_unix_ns,
                                             uint64_t run_start_unix_ns);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_RANK_JSON_H_
