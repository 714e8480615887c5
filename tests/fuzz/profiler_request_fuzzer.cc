// SPDX-License-Identifier: Apache-2.0
//
// What arrives at the port, as a message of each kind, and on to the launcher; and as the summary of a Monitor reply.
// The first byte sets how far away the call's deadline is; the rest is the message.
#include <cstdint>
#include <string>

#include "launcher/service/profiler_request.h"
#include "tests/fuzz/check_timeline.h"
#include "writer/base/utf8.h"

namespace {

using namespace tbprof;

constexpr uint64_t kNow = 1'795'000'000'000'000'000;

void CheckAsk(AskKind kind, const absl::StatusOr<CaptureRequest>& capture, const CallTimes& times) {
  if (!capture.ok()) {
    const std::string line(capture.status().message());
    Require(absl::IsInvalidArgument(capture.status()));
    Require(!line.empty() && line.size() < 1000 && PrintableUtf8(line) == line);
    return;
  }
  Require(capture->duration_ns >= 1'000'000 && capture->duration_ns <= kMaxWindowNs);
  // One that has just passed is what several workers have agreed on.
  Require(capture->start_unix_ns == 0 || capture->start_unix_ns + 10'000'000'000 > times.now_unix_ns);
  Require(capture->start_unix_ns <= times.now_unix_ns + 3600 * uint64_t{1'000'000'000});
  Require(capture->families <= kFamilyAll);
  Require(CheckName("run", capture->run).ok() && CheckName("host", capture->host).ok());
  Require(capture->repository_root.find('\0') == std::string::npos);
  const ControlAsk ask{kind, 7, *capture};
  const std::string text = ToText(ask);
  // A longer one would end the worker's connection.
  Require(text.size() <= kMaxControlMessage);
  const absl::StatusOr<ControlAsk> again = ParseAsk(text);
  Require(again.ok() && again->kind == kind && again->id == 7 && ToText(*again) == text);
  Require(again->capture.run == capture->run && again->capture.repository_root == capture->repository_root);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  CallTimes times;
  times.now_unix_ns = kNow;
  if (size > 0) {
    if (data[0] != 0) times.deadline_unix_ns = kNow + data[0] * uint64_t{30'000'000'000};
    ++data;
    --size;
  }
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  tensorflow::ProfileRequest profile;
  if (profile.ParseFromString(bytes)) CheckAsk(AskKind::kCapture, CaptureOf(profile, times, "[::1]:51234"), times);
  tensorflow::MonitorRequest monitor;
  if (monitor.ParseFromString(bytes)) CheckAsk(AskKind::kMonitor, MonitoringOf(monitor, times, "[::1]:51234"), times);
  const tensorflow::MonitorResponse response = MonitorResponseOf(bytes, monitor, kNow);
  Require(!response.data().empty() && ValidUtf8Prefix(response.data()) == response.data().size());
  return 0;
}
