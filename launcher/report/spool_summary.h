// SPDX-License-Identifier: Apache-2.0
//
// The summary of raw records, made by the converter process without writing anything.
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
  std::vector<std::string> remarks;  // what it is not of: other windows, a launcher that still writes
};

absl::StatusOr<SpoolText> SummaryOfSpool(const std::string& spool, const Options& options, Terminal* terminal);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_REPORT_SPOOL_SUMMARY_H_
