// SPDX-License-Identifier: Apache-2.0
//
// The copy of summary.json that --summary-json asks for. Only an earlier summary is replaced, and the launchers of one
// job do not replace each other's.
//
//   const std::string path = SummaryPath(options, rank_of_file);
//   if (const absl::Status status = CheckSummaryFile(path); !status.ok()) ...  // before the command starts
//   ... WriteSummaryJson(options, path, text);
//
// Process: launcher.
#ifndef TBPROF_LAUNCHER_CONVERT_SUMMARY_FILE_H_
#define TBPROF_LAUNCHER_CONVERT_SUMMARY_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "launcher/cli/options.h"

namespace tbprof {

// Returns the path of --summary-json, empty without one. `rank`: of a launcher that does not write the file of that
// name, since another launcher of its job does; `out.json` becomes `out_r3.json`. Paths in /dev and /proc stay. -1: the
// file itself.
std::string SummaryPath(const Options& options, int rank);

// The same for the summaries of one command that converts several windows or spools: `out.json` for the first,
// `out_2.json` for `number` 2.
std::string NumberedSummaryPath(const Options& options, size_t number);

// Fails if a file that is not empty and is no summary has the path: it would be lost. Everything else is found out when
// the summary is written.
absl::Status CheckSummaryFile(const std::string& path);

// Writes the summary to `path`, or to the descriptor of --summary-json=fd:N; does nothing without that option.
absl::Status WriteSummaryJson(const Options& options, const std::string& path, const std::string& text);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_CONVERT_SUMMARY_FILE_H_
