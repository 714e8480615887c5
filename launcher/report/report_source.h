// SPDX-License-Identifier: Apache-2.0
//
// What `tbprof report` was asked about: the files that an operand means, a path or the name of a run.
//
//   absl::StatusOr<ReportSource> source = FindSource(operand, logdir, run);
//
// Errors are one line that names the file and the place in it. Process: launcher, main thread. Files may be anybody's.
#ifndef TBPROF_LAUNCHER_REPORT_REPORT_SOURCE_H_
#define TBPROF_LAUNCHER_REPORT_REPORT_SOURCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "launcher/base/scoped.h"
#include "launcher/report/report.h"

namespace tbprof {

struct ReportSource {
  SourceKind kind = SourceKind::kSummary;
  std::string path;                    // as it was given, or found
  std::string run;                     // directory of the run; of a file: the one it lies in
  std::vector<std::string> summaries;  // paths, sorted
  std::vector<std::string> profiles;   // likewise
};

// A file that is to be read, never waited for; its size.
struct OpenedFile {
  ScopedFd fd;
  uint64_t size = 0;
};
absl::StatusOr<OpenedFile> OpenRegularFile(const std::string& path);

// `operand` empty: the newest run of `logdir`. `run` empty: not named.
absl::StatusOr<ReportSource> FindSource(const std::string& operand, const std::string& logdir, const std::string& run);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_REPORT_REPORT_SOURCE_H_
