// SPDX-License-Identifier: Apache-2.0
//
// Reads the report of a source: chooses one of its summaries, or reads the profile if there is none.
//
//   absl::StatusOr<Report> report = ReadReport(*source, rank);
//
// Process: launcher, for `tbprof report`, main thread. Files are untrusted.
#ifndef TBPROF_LAUNCHER_REPORT_REPORT_READER_H_
#define TBPROF_LAUNCHER_REPORT_REPORT_READER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "launcher/report/report.h"
#include "launcher/report/report_source.h"

namespace tbprof {

// Without `rank`: of several ranks the slowest one. For a spool, SummaryOfSpool (spool_summary.h) makes the summary.
absl::StatusOr<Report> ReadReport(const ReportSource& source, std::optional<int64_t> rank);

// The report of a summary that is not a file: `source.path` is its name in messages.
absl::StatusOr<Report> ReportOfText(const std::string& summary, const ReportSource& source,
                                    std::optional<int64_t> rank);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_REPORT_REPORT_READER_H_
