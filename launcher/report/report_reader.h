// SPDX-License-Identifier: Apache-2.0
//
// The answers of a source: which of its summaries, and what to do without one.
//
//   absl::StatusOr<Report> report = ReadReport(*source, rank);
//
// Process: launcher, for `tbprof report`, main thread. Files may be anybody's.
#ifndef TBPROF_LAUNCHER_REPORT_REPORT_READER_H_
#define TBPROF_LAUNCHER_REPORT_REPORT_READER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "launcher/report/report.h"
#include "launcher/report/report_source.h"

namespace tbprof {

// Of several ranks the slowest, or `rank`. A spool's summary is made by SummaryOfSpool (spool_summary.h).
absl::StatusOr<Report> ReadReport(const ReportSource& source, std::optional<int64_t> rank);

// The answers of a summary that is no file: `source.path` is its name for messages.
absl::StatusOr<Report> ReportOfText(const std::string& summary, const ReportSource& source,
                                    std::optional<int64_t> rank);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_REPORT_REPORT_READER_H_
