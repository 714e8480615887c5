// SPDX-License-Identifier: Apache-2.0
//
// <logdir>/.tbprof/endpoints/<run>/<host>-<pid>.endpoints.json: where `tbprof capture --run` finds all workers of a
// run. It goes when the object does, and its directories when nothing is left in them.
//
//   EndpointsFile endpoints;
//   endpoints.Write(run, options.ranks, addresses);
//
// Process: launcher, main thread. Waits for a file server no longer than two seconds.
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
  std::vector<Entry> entries_;  // the outermost first
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_CAPTURE_ENDPOINTS_FILE_H_
