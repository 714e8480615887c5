// SPDX-License-Identifier: Apache-2.0
//
// Computes the totals of an untrusted xplane.pb without its summary: planes with their lines and events, and the names
// with the most time. Events are read in one pass and not kept.
//
// Process: launcher. Content is untrusted. Any thread.
#ifndef TBPROF_LAUNCHER_REPORT_XSPACE_TOTALS_H_
#define TBPROF_LAUNCHER_REPORT_XSPACE_TOTALS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "launcher/report/report.h"

namespace tbprof {

// Sets `profile`, `steps`, `errors`, `warnings`, `host` and `file`. `path`: the file's name in messages, which also
// name the byte where the structure is broken.
absl::Status ReadXspaceTotals(int fd, uint64_t size, const std::string& path, Report* report);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_REPORT_XSPACE_TOTALS_H_
