// SPDX-License-Identifier: Apache-2.0
#include "launcher/service/profiler_request.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "launcher/base/text.h"
#include "writer/base/utf8.h"
#include "writer/steps/step_markers.h"
#include "writer/timeline/timeline.h"

namespace tbprof {
namespace {

constexpr uint64_t kMs = 1'000'000;
constexpr size_t kMaxName = 128;
constexpr size_t kMaxPath = 4096;
constexpr size_t kMaxShown = 60;  // bytes of an invalid value in an error
constexpr size_t kMaxWarnings = 16;
constexpr uint64_t kMaxStartAheadNs = 3600 * uint64_t{1'000'000'000};
constexpr uint64_t kMostLateNs = 10'000'000'000;  // an agreed start is at most this far in the past
constexpr uint64_t kDefaultMonitorNs = 1'000'000'000;

// Settings of TensorFlow's and XLA's own tracers; ignoring them changes nothing in the profile.
constexpr std::string_view kKnownSettings[] = {"gpu_max_callback_api_events", "gpu_max_activity_api_events",
                                               "gpu_max_annotation_strings", "gpu_num_chips_to_profile_per_task",
                                               "override_hostname"};

std::string Shown(std::string_view value) {
  const std::string printable = PrintableUtf8(value.substr(0, kMaxShown));
  return StrCat("`", printable, value.size() > kMaxShown ? "..." : "", "`");
}

absl::Status CheckDuration(std::string_view field, uint64_t duration_ms) {
  if (duration_ms >= 1 && duration_ms <= kMaxWindowNs / kMs) return absl::OkStatus();
  return InvalidArgument(StrCat(field, " is ", duration_ms, "; it must be from 1 to ", kMaxWindowNs / kMs));
}

absl::Status CheckPath(std::string_view field, std::string_view path) {
  if (path.size() <= kMaxPath && path.find('\0') == std::string_view::npos) return absl::OkStatus();
  return InvalidArgument(StrCat(field, " is no path: ", Shown(path)));
}

void Warn(CaptureRequest* capture, std::string text) {
  if (capture->warnings.size() < kMaxWarnings) capture->warnings.push_back(std::move(text));
}

// Level 0 is off. TensorFlow's documentation: 1 records user annotations, 2 (the default) more, 3 all. The cost of a
// hook does not depend on the level, so levels can only leave out families.
void SetLevels(const tensorflow::ProfileOptions& options, CaptureRequest* capture) {
  if (options.host_tracer_level() == 0) {
    capture->families &= kFamilyGpu;
  } else if (options.host_tracer_level() == 1) {
    capture->families &= kFamilyGpu | kFamilyAnnotation | kFamilyThread | kFamilyProcess;
  }
  if (options.device_tracer_level() == 0) capture->families &= ~static_cast<uint32_t>(kFamilyGpu);
  for (const auto& [field, level, most] :
       {std::tuple<std::string_view, uint32_t, uint32_t>{"host_tracer_level", options.host_tracer_level(), 3},
        {"device_tracer_level", options.device_tracer_level(), 3}}) {
    if (level > most) Warn(capture, StrCat(field, " ", level, " is taken for ", most));
  }
  if (options.python_tracer_level() != 0) {
    Warn(capture, "python_tracer_level is not 0: tbprof has no tracer of Python's functions");
  }
}

}  // namespace

absl::Status CheckName(std::string_view field, std::string_view name) {
  const bool plain = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  });
  if (plain && name.size() <= kMaxName && (name.empty() || name[0] != '.')) return absl::OkStatus();
  return InvalidArgument(StrCat(field, " is ", Shown(name), "; it must be at most ", kMaxName,
                                " letters, digits, `.`, `_` or `-`, without a dot in front"));
}

absl::StatusOr<CaptureRequest> CaptureOf(const tensorflow::ProfileRequest& request, const CallTimes& times,
                                         std::string asked_by) {
  CaptureRequest capture;
  capture.asked_by = std::move(asked_by);
  capture.deadline_unix_ns = times.deadline_unix_ns;
  capture.summary = std::find(request.tools().begin(), request.tools().end(), kSummaryTool) != request.tools().end();
  const tensorflow::ProfileOptions& options = request.opts();
  const bool has_options = request.has_opts() && options.version() != 0;

  const uint64_t duration_ms =
      has_options && options.duration_ms() != 0 ? options.duration_ms() : request.duration_ms();
  if (absl::Status status = CheckDuration("duration_ms", duration_ms); !status.ok()) return status;
  capture.duration_ns = duration_ms * kMs;

  if (has_options) {
    const uint64_t start = options.start_timestamp_ns();
    // A start further in the past than clocks differ (kMostLateNs) is not an agreed start: it is ignored.
    if (start > times.now_unix_ns) {
      const uint64_t ahead = start - times.now_unix_ns;
      if (ahead > kMaxStartAheadNs) {
        return InvalidArgument(StrCat("start_timestamp_ns (delay_ms) is ", ahead / 1'000'000'000,
                                      " s ahead by this machine's clock; it must be at most ",
                                      kMaxStartAheadNs / 1'000'000'000));
      }
      if (times.deadline_unix_ns != 0 && start >= times.deadline_unix_ns) {
        return InvalidArgument("start_timestamp_ns (delay_ms) is behind the call's own deadline");
      }
    }
    if (start + kMostLateNs > times.now_unix_ns) capture.start_unix_ns = start;
    SetLevels(options, &capture);
    if (options.device_type() == tensorflow::ProfileOptions::TPU) {
      Warn(&capture, "device_type is TPU: tbprof records CPUs and NVIDIA's GPUs");
    }
    std::vector<std::string> unknown;
    for (const auto& [name, value] : options.advanced_configuration()) {
      if (name == kStepMarkerSetting) {
        if (value.value_case() != tensorflow::ProfileOptions::AdvancedConfigValue::kStringValue) {
          return InvalidArgument(StrCat(name, " must be text: a regular expression"));
        }
        capture.step_marker = value.string_value();
        const absl::Status status = CheckStepMarker(capture.step_marker);
        if (!status.ok()) return InvalidArgument(StrCat(name, " must be ", std::string(status.message())));
        continue;
      }
      if (std::find(std::begin(kKnownSettings), std::end(kKnownSettings), name) == std::end(kKnownSettings)) {
        unknown.push_back(name);
      }
    }
    std::sort(unknown.begin(), unknown.end());
    for (const std::string& name : unknown) Warn(&capture, StrCat("no effect here: the option ", Shown(name)));
  }

  const std::string& run = has_options && !options.session_id().empty() ? options.session_id() : request.session_id();
  if (absl::Status status = CheckName("session_id", run); !status.ok()) return status;
  capture.run = run;

  std::string host = request.host_name();
  std::string_view field = "host_name";
  if (has_options) {
    const auto overridden = options.advanced_configuration().find("override_hostname");
    if (overridden != options.advanced_configuration().end() && !overridden->second.string_value().empty()) {
      host = overridden->second.string_value();
      field = "override_hostname";
    }
    if (!options.override_hostname().empty()) {
      host = options.override_hostname();
      field = "override_hostname";
    }
  }
  // Similar to the client's file name, which keeps the brackets of `[::1]:6009`.
  for (char& c : host) c = c == ':' || c == '[' || c == ']' ? '_' : c;
  if (absl::Status status = CheckName(field, host); !status.ok()) return status;
  capture.host = host;

  if (absl::Status status = CheckPath("repository_root", request.repository_root()); !status.ok()) return status;
  capture.repository_root = request.repository_root();
  return capture;
}

absl::StatusOr<CaptureRequest> MonitoringOf(const tensorflow::MonitorRequest& request, const CallTimes& times,
                                            std::string asked_by) {
  CaptureRequest capture;
  capture.asked_by = std::move(asked_by);
  capture.deadline_unix_ns = times.deadline_unix_ns;
  capture.duration_ns = kDefaultMonitorNs;
  if (request.duration_ms() != 0) {
    if (absl::Status status = CheckDuration("duration_ms", request.duration_ms()); !status.ok()) return status;
    capture.duration_ns = request.duration_ms() * kMs;
  }
  return capture;
}

tensorflow::MonitorResponse MonitorResponseOf(const std::string& summary_json,
                                              const tensorflow::MonitorRequest& request, uint64_t now_unix_ns) {
  tensorflow::MonitorResponse response;
  tensorflow::ProfilerServiceMonitorResult* const result = response.mutable_monitor_result();
  const auto json = nlohmann::json::parse(summary_json, nullptr, /*allow_exceptions=*/false);
  const auto number = [](const nlohmann::json& object, const char* name) {
    if (!object.is_object() || !object.contains(name) || !object[name].is_number()) return -1.0;
    return object[name].get<double>();
  };
  static const nlohmann::json* const kNone = new nlohmann::json();
  const auto member = [](const nlohmann::json& object, const char* name) -> const nlohmann::json& {
    return object.is_object() && object.contains(name) ? object[name] : *kNone;
  };
  const auto word = [&member](const nlohmann::json& object, const char* name) {
    const nlohmann::json& found = member(object, name);
    return found.is_string() ? found.get<std::string>() : std::string();
  };
  std::string text;
  if (request.timestamp()) {
    StrAppend(
        &text, "Timestamp: ",
        absl::FormatTime("%H:%M:%S", absl::FromUnixNanos(static_cast<int64_t>(now_unix_ns)), absl::LocalTimeZone()),
        "\n");
  }
  const double seconds = std::max(number(json, "wall_s"), 0.0);
  const nlohmann::json& gpus = member(json, "gpus");
  double busy = 0;
  size_t count = 0;
  if (gpus.is_array()) {
    for (const auto& gpu : gpus) {
      if (const double share = number(gpu, "busy_share"); share >= 0) {
        busy += share;
        ++count;
      }
    }
  }
  if (count > 0) {
    const double idle = 100 * (1 - busy / static_cast<double>(count));
    result->set_device_idle_time_percent(idle);
    result->set_response_type(tensorflow::ProfilerServiceMonitorResult::UTIL_IDLE);
    text += absl::StrFormat("Device idle: %.1f %% (%d GPU%s)\n", idle, count, count == 1 ? "" : "s");
  } else {
    text += "Device: no GPU was used\n";
  }
  const nlohmann::json& steps = member(json, "steps");
  const double regular = number(steps, "count");
  const bool whole_capture = word(steps, "source") == kWholeCaptureText;
  const bool known = number(steps, "mean_s") >= 0 && !whole_capture;
  if (regular > 0 && known) {
    result->set_response_type(tensorflow::ProfilerServiceMonitorResult::UTIL_IDLE_STEP);
    result->set_step_time_ms_avg(1000 * number(steps, "mean_s"));
    result->set_step_time_ms_min(1000 * number(steps, "shortest_s"));
    result->set_step_time_ms_max(1000 * number(steps, "longest_s"));
    text += absl::StrFormat("Step time: avg %.2f ms, min %.2f ms, max %.2f ms (%.0f steps, from %s)\n",
                            result->step_time_ms_avg(), result->step_time_ms_min(), result->step_time_ms_max(), regular,
                            word(steps, "source"));
    if (const double share = number(steps, "input_wait_share"); share >= 0) {
      result->set_infeed_percent_avg(100 * share);
      result->set_infeed_percent_min(100 * share);
      result->set_infeed_percent_max(100 * share);
      text += absl::StrFormat("Waiting for input: %.1f %%\n", 100 * share);
    }
  } else if (whole_capture) {
    text += "Step time: unknown\n";
  } else {
    text += "Step time: no step began and ended in this time\n";
  }
  const nlohmann::json& verdict = member(json, "verdict");
  if (!word(verdict, "cause").empty()) StrAppend(&text, "Verdict: ", word(verdict, "text"), "\n");
  const nlohmann::json& records = member(json, "records");
  uint64_t dropped = 0;
  for (const auto& cause : member(records, "dropped")) {
    if (cause.is_number_unsigned()) dropped += cause.get<uint64_t>();
  }
  const double decoded = std::max(number(records, "decoded"), 0.0);
  text += absl::StrFormat("Events: %.0f/s, %d dropped\n", seconds > 0 ? decoded / seconds : 0, dropped);
  response.set_data(text);
  return response;
}

}  // namespace tbprof
