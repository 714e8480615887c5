// SPDX-License-Identifier: Apache-2.0
//
// Translates the request of a stock client into a CaptureRequest, or into an error with the name of the field, its
// value and its limit.
//
// Process: the worker of the port. Pure functions; requests are not trusted: they come from anybody who reaches the
// port.
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

// Times of one call in Unix nanoseconds; deadline 0: the client waits without limit.
struct CallTimes {
  uint64_t now_unix_ns = 0;
  uint64_t deadline_unix_ns = 0;
};

// The tool that tbprof's own client names in a request, to get summary.json with the profile. Other clients do not name
// it, and get what they know; other servers ignore it.
inline constexpr char kSummaryTool[] = "tbprof.summary.json";
// The advanced option that sets the step marker of the window (--step-marker).
inline constexpr char kStepMarkerSetting[] = "step_marker";
// The name of the summary in the reply. Without data: it is left out, because the reply would be too long.
inline constexpr char kSummaryFile[] = "summary.json";

// `asked_by`: the requester, as text. Errors are InvalidArgument.
absl::StatusOr<CaptureRequest> CaptureOf(const tensorflow::ProfileRequest& request, const CallTimes& times,
                                         std::string asked_by);
absl::StatusOr<CaptureRequest> MonitoringOf(const tensorflow::MonitorRequest& request, const CallTimes& times,
                                            std::string asked_by);

// Checks a name that becomes a file or directory name; the error names `field`. An empty name is valid.
absl::Status CheckName(std::string_view field, std::string_view name);

// The numbers and the text of a Monitor reply, from the summary (JSON) of the monitored time.
tensorflow::MonitorResponse MonitorResponseOf(const std::string& summary_json,
                                              const tensorflow::MonitorRequest& request, uint64_t now_unix_ns);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SERVICE_PROFILER_REQUEST_H_
