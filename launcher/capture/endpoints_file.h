// SPDX-License-Identifier: Apache-2.0
//
// <logdir>/.tbprof/endpoints/<run>/<host>-<pid>.endpoints.json: `tbprof capture RUN` reads these files to find all
// workers of a run. The destructor removes the file, and its directories if they are empty.
//
//   EndpointsFile endpoints;
//   endpoints.Write(run, options.ranks, addresses);
//
// Process: launcher, main thread. The destructor waits at most two seconds for a file server; Write has no limit.
#ifndef TBPROF_LAUNCHER_CAPTURE_ENDPOINTS_FILE_H_
#define TBPROF_LAUNCHER_CAPTURE_ENDPOINTS_FILE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "launcher/capture/capture_run.h"
#include "writer/base/file_ops.h"

namespace tbprof {

class EndpointsFile {
 public:
  EndpointsFile() = default;
  ~EndpointsFile();
  EndpointsFile(const EndpointsFile&) = delete;
  EndpointsFile& operator=(const EndpointsFile&) = delete;

  // `ranks`: --ranks.
  absl::Status Write(const CaptureRun& run, const std::string& ranks, const std::vector<std::string>& addresses);

 private:
  struct Entry {
    FileDescriptor directory;
    std::string name;
  };
  std::vector<Entry> entries_;  // outermost first
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_CAPTURE_ENDPOINTS_FILE_H_
