// SPDX-License-Identifier: Apache-2.0
//
// Makes the summary of raw records in the converter process. Writes no files.
//
// Process: launcher, main thread.
#ifndef TBPROF_LAUNCHER_REPORT_SPOOL_SUMMARY_H_
#define TBPROF_LAUNCHER_REPORT_SPOOL_SUMMARY_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "launcher/cli/options.h"
#include "launcher/cli/terminal.h"

namespace tbprof {

struct SpoolText {
  std::string summary;               // the text of a summary.json
  std::vector<std::string> remarks;  // parts that the summary does not cover: other windows, records that a launcher
                                     // still writes
};

absl::StatusOr<SpoolText> SummaryOfSpool(const std::string& spool, const Options& options, Terminal* terminal);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_REPORT_SPOOL_SUMMARY_H_
