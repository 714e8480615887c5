// SPDX-License-Identifier: Apache-2.0
//
// The interface of the run for captures on request; launcher/run implements it, so that launcher/capture does not
// depend on launcher/run.
//
// Process: launcher, main thread.
#ifndef TBPROF_LAUNCHER_CAPTURE_CAPTURE_RUN_H_
#define TBPROF_LAUNCHER_CAPTURE_CAPTURE_RUN_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "launcher/target/job.h"

namespace tbprof {

// The run whose windows are captured.
class CaptureRun {
 public:
  virtual ~CaptureRun() = default;
  // Closes the session's window and starts its conversion.
  virtual void CloseAndConvert(uint32_t window) = 0;
  virtual void Convert(uint32_t window) = 0;
  virtual size_t UnwrittenCaptures() const = 0;
  virtual bool TargetRuns() const = 0;
  // Facts of the run that all its profiles share.
  virtual const std::string& logdir() const = 0;
  virtual int logdir_fd() const = 0;
  // How long a small file may wait for the log directory without a response.
  virtual absl::Duration LogdirLimit() const = 0;
  virtual const std::string& run_name() const = 0;
  virtual const std::string& host() const = 0;
  virtual std::string WindowText() const = 0;
  virtual bool RunWindowIsOpen() const = 0;
  virtual const Job& job() const = 0;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_CAPTURE_CAPTURE_RUN_H_
