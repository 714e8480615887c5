// SPDX-License-Identifier: Apache-2.0
//
// Finds the files that an operand of `tbprof report` stands for: a path or the name of a run.
//
//   absl::StatusOr<ReportSource> source = FindSource(operand, logdir, run);
//
// Errors are one line with the file and the place in it. Process: launcher, main thread. Files are untrusted.
#ifndef TBPROF_LAUNCHER_REPORT_REPORT_SOURCE_H_
#define TBPROF_LAUNCHER_REPORT_REPORT_SOURCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "launcher/report/report.h"
#include "writer/base/scoped.h"

namespace tbprof {

struct ReportSource {
  SourceKind kind = SourceKind::kSummary;
  std::string path;                    // as given or found
  std::string run;                     // directory of the run; for a file: its directory
  std::vector<std::string> summaries;  // paths, sorted
  std::vector<std::string> profiles;   // paths, sorted
};

// A regular file, opened without blocking, and its size.
struct OpenedFile {
  ScopedFd fd;
  uint64_t size = 0;
};
absl::StatusOr<OpenedFile> OpenRegularFile(const std::string& path);

// `operand` empty: the newest run of `logdir`. `run` empty: no run was named.
absl::StatusOr<ReportSource> FindSource(const std::string& operand, const std::string& logdir, const std::string& run);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_REPORT_REPORT_SOURCE_H_
