// SPDX-License-Identifier: Apache-2.0
//
// What anybody's xplane.pb shows without its summary: planes with their lines and events, and the names that take most
// time. Events are read in one pass and not kept.
//
// Process: launcher. Content is taken as hostile. Any thread.
#ifndef TBPROF_LAUNCHER_REPORT_XSPACE_TOTALS_H_
#define TBPROF_LAUNCHER_REPORT_XSPACE_TOTALS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "launcher/report/report.h"

namespace tbprof {

// Fills in `profile`, `steps`, `errors`, `warnings`. `path` is the name for messages, which name the byte where the
// structure breaks.
absl::Status ReadXspaceTotals(int fd, uint64_t size, const std::string& path, Report* report);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_REPORT_XSPACE_TOTALS_H_
