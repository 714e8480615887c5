// SPDX-License-Identifier: Apache-2.0
//
// <logdir>/.tbprof/endpoints/<run>/<host>-<pid>.endpoints.json: `tbprof capture RUN` reads these files to find all
// workers of a run. The destructor removes the file, and its directories if they are empty.
//
//   EndpointsFile endpoints;
//   absl::Status status = endpoints.Write(run, options.ranks, addresses);
//
// Process: launcher, main thread. Write waits at most run.LogdirLimit() for a file server, the destructor two seconds.
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

  // `ranks`: --ranks. DeadlineExceeded: the log directory did not respond in time.
  absl::Status Write(const CaptureRun& run, const std::string& ranks, const std::vector<std::string>& addresses);

 private:
  ScopedFd logdir_;
  std::string run_, file_;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_CAPTURE_ENDPOINTS_FILE_H_
