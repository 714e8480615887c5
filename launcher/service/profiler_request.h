// SPDX-License-Identifier: Apache-2.0
//
// What a stock client requests, as a capture of ours, or the reason why not: with the name of the field, its value and
// its limit.
//
// Process: the worker that serves the port. Pure functions; the requests come from anybody who reaches the port.
#ifndef TBPROF_LAUNCHER_SERVICE_PROFILER_REQUEST_H_
#define TBPROF_LAUNCHER_SERVICE_PROFILER_REQUEST_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "launcher/base/control_messages.h"
#include "launcher/proto/profiler_service.pb.h"

namespace tbprof {

// Of one call. Both Unix nanoseconds; deadline 0: the client waits for as long as it takes.
struct CallTimes {
  uint64_t now_unix_ns = 0;
  uint64_t deadline_unix_ns = 0;
};

// `asked_by`: who, in words. Errors are InvalidArgument.
absl::StatusOr<CaptureRequest> CaptureOf(const tensorflow::ProfileRequest& request, const CallTimes& times,
                                         std::string asked_by);
absl::StatusOr<CaptureRequest> MonitoringOf(const tensorflow::MonitorRequest& request, const CallTimes& times,
                                            std::string asked_by);

// A name that becomes a file's or a directory's: `field` is named in the error. Empty is fine.
absl::Status CheckName(std::string_view field, std::string_view name);

// The numbers and the text of a Monitor reply, from the summary of the time that was looked at (JSON).
tensorflow::MonitorResponse MonitorResponseOf(const std::string& summary_json,
                                              const tensorflow::MonitorRequest& request, uint64_t now_unix_ns);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SERVICE_PROFILER_REQUEST_H_
