// SPDX-License-Identifier: Apache-2.0
#include "launcher/service/profiler_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "writer/base/utf8.h"

namespace tbprof {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint64_t kNow = 1'795'000'000 * kSecond;

tensorflow::ProfileRequest Plain() {
  tensorflow::ProfileRequest request;
  request.set_duration_ms(500);
  request.set_host_name("127.0.0.1:6009");
  request.set_session_id("2026_11_22_20_44_30");
  request.set_repository_root("/logs/plugins/profile");
  tensorflow::ProfileOptions* const options = request.mutable_opts();
  options->set_version(1);
  options->set_duration_ms(500);
  options->set_host_tracer_level(2);
  options->set_device_tracer_level(1);
  return request;
}

CaptureRequest Good(const tensorflow::ProfileRequest& request, const CallTimes& times = {kNow, 0}) {
  absl::StatusOr<CaptureRequest> capture = CaptureOf(request, times, "somebody");
  EXPECT_TRUE(capture.ok()) << capture.status();
  return capture.ok() ? *std::move(capture) : CaptureRequest();
}

// The text of the refusal. It must be printable, and small enough for a reply's trailer.
std::string Bad(const tensorflow::ProfileRequest& request, const CallTimes& times = {kNow, 0}) {
  const absl::StatusOr<CaptureRequest> capture = CaptureOf(request, times, "somebody");
  EXPECT_EQ(capture.status().code(), absl::StatusCode::kInvalidArgument);
  std::string text(capture.status().message());
  EXPECT_LT(text.size(), 600u);
  EXPECT_EQ(PrintableUtf8(text), text);
  return text;
}

TEST(ProfilerRequest, StockClient_IsAccepted) {
  const CaptureRequest capture = Good(Plain(), {kNow, kNow + 60 * kSecond});
  EXPECT_EQ(capture.duration_ns, kSecond / 2);
  EXPECT_EQ(capture.start_unix_ns, 0u);
  EXPECT_EQ(capture.deadline_unix_ns, kNow + 60 * kSecond);
  EXPECT_EQ(capture.families, static_cast<uint32_t>(kFamilyAll));
  EXPECT_EQ(capture.run, "2026_11_22_20_44_30");
  EXPECT_EQ(capture.host, "127.0.0.1_6009");
  EXPECT_EQ(capture.repository_root, "/logs/plugins/profile");
  EXPECT_EQ(capture.asked_by, "somebody");
  EXPECT_FALSE(capture.publish);
  EXPECT_TRUE(capture.warnings.empty());
}

TEST(ProfilerRequest, Summary_OnlyForClientsThatNameIt) {
  tensorflow::ProfileRequest request = Plain();
  for (const char* tool : {"trace_viewer", "overview_page", "summary.json", "xplane.pb"}) request.add_tools(tool);
  EXPECT_FALSE(Good(request).summary);
  request.add_tools(kSummaryTool);
  EXPECT_TRUE(Good(request).summary);
}

TEST(ProfilerRequest, EmptyRequest_ErrorNamesTheDuration) {
  EXPECT_THAT(Bad(tensorflow::ProfileRequest()), HasSubstr("duration_ms is 0"));
}

TEST(ProfilerRequest, DurationOfTheOptions_IsPreferred) {
  tensorflow::ProfileRequest request = Plain();
  request.mutable_opts()->set_duration_ms(700);
  EXPECT_EQ(Good(request).duration_ns, 700'000'000u);
  request.mutable_opts()->set_duration_ms(0);
  EXPECT_EQ(Good(request).duration_ns, kSecond / 2);
  // A sender without options sends version 0: the values of the options are then ignored.
  request.mutable_opts()->set_duration_ms(700);
  request.mutable_opts()->set_version(0);
  EXPECT_EQ(Good(request).duration_ns, kSecond / 2);
}

TEST(ProfilerRequest, ShortestAndLongestDuration_AreLimited) {
  tensorflow::ProfileRequest request = Plain();
  for (const uint64_t good : {uint64_t{1}, uint64_t{600'000}}) {
    request.mutable_opts()->set_duration_ms(good);
    EXPECT_EQ(Good(request).duration_ns, good * 1'000'000);
  }
  for (const uint64_t bad : {uint64_t{600'001}, uint64_t{1} << 63, std::numeric_limits<uint64_t>::max(),
                             // Multiplied by a million, these wrap around to 0 and 448,384 ns in 64 bits.
                             uint64_t{1} << 58, uint64_t{18'446'744'073'710}}) {
    request.mutable_opts()->set_duration_ms(bad);
    EXPECT_THAT(Bad(request), AllOf(HasSubstr("duration_ms is " + std::to_string(bad)), HasSubstr("1 to 600000")));
  }
  request.mutable_opts()->set_duration_ms(0);
  request.set_duration_ms(0);
  EXPECT_THAT(Bad(request), HasSubstr("duration_ms is 0"));
}

TEST(ProfilerRequest, StartInThePast_IsNow) {
  tensorflow::ProfileRequest request = Plain();
  for (const uint64_t start : {uint64_t{1}, kNow - 10'000'000'000}) {
    request.mutable_opts()->set_start_timestamp_ns(start);
    EXPECT_EQ(Good(request).start_unix_ns, 0u);
  }
  // A start that has just passed is kept: several workers have agreed on it, and their profiles count from it.
  for (const uint64_t start : {kNow - 1, kNow}) {
    request.mutable_opts()->set_start_timestamp_ns(start);
    EXPECT_EQ(Good(request).start_unix_ns, start);
  }
}

TEST(ProfilerRequest, StartInTheFuture_IsLimitedByTheDeadline) {
  tensorflow::ProfileRequest request = Plain();
  const auto at = [&request](uint64_t start) {
    request.mutable_opts()->set_start_timestamp_ns(start);
    return request;
  };
  EXPECT_EQ(Good(at(kNow + 1)).start_unix_ns, kNow + 1);
  EXPECT_EQ(Good(at(kNow + 3600 * kSecond)).start_unix_ns, kNow + 3600 * kSecond);
  EXPECT_THAT(Bad(at(kNow + 3600 * kSecond + 1)), AllOf(HasSubstr("start_timestamp_ns"), HasSubstr("at most 3600")));
  EXPECT_THAT(Bad(at(uint64_t{1} << 63)), HasSubstr("start_timestamp_ns"));
  EXPECT_THAT(Bad(at(std::numeric_limits<uint64_t>::max())), HasSubstr("start_timestamp_ns"));
  // A capture that starts after the deadline is refused: its profile would not be delivered.
  const CallTimes times{kNow, kNow + 60 * kSecond};
  EXPECT_EQ(Good(at(kNow + 60 * kSecond - 1), times).start_unix_ns, kNow + 60 * kSecond - 1);
  EXPECT_THAT(Bad(at(kNow + 60 * kSecond), times), AllOf(HasSubstr("start_timestamp_ns"), HasSubstr("deadline")));
  request.mutable_opts()->set_version(0);
  EXPECT_EQ(Good(request, times).start_unix_ns, 0u);
}

TEST(ProfilerRequest, Levels_SelectTheFamilies) {
  tensorflow::ProfileRequest request = Plain();
  const auto families = [&request](uint32_t host, uint32_t device) {
    request.mutable_opts()->set_host_tracer_level(host);
    request.mutable_opts()->set_device_tracer_level(device);
    return Good(request).families;
  };
  constexpr uint32_t kAll = kFamilyAll;
  constexpr uint32_t kGpu = kFamilyGpu;
  constexpr uint32_t kMarked = kFamilyAnnotation | kFamilyThread | kFamilyProcess;
  EXPECT_EQ(families(2, 1), kAll);
  EXPECT_EQ(families(3, 3), kAll);
  EXPECT_EQ(families(2, 0), kAll & ~kGpu);
  EXPECT_EQ(families(1, 1), kMarked | kGpu);
  EXPECT_EQ(families(1, 0), kMarked);
  EXPECT_EQ(families(0, 1), kGpu);
  EXPECT_EQ(families(0, 0), 0u);
  // A sender without options has no levels either.
  request.mutable_opts()->set_version(0);
  EXPECT_EQ(Good(request).families, kAll);
}

TEST(ProfilerRequest, FieldsWithoutEffect_AreWarnings) {
  tensorflow::ProfileRequest request = Plain();
  tensorflow::ProfileOptions* const options = request.mutable_opts();
  options->set_host_tracer_level(99);
  options->set_device_tracer_level(4);
  options->set_python_tracer_level(1);
  options->set_device_type(tensorflow::ProfileOptions::TPU);
  (*options->mutable_advanced_configuration())["gpu_max_callback_api_events"].set_int64_value(1);
  (*options->mutable_advanced_configuration())["zeta"].set_bool_value(true);
  (*options->mutable_advanced_configuration())["alpha\n\x1b[31m"].set_string_value("x");
  const CaptureRequest capture = Good(request);
  EXPECT_EQ(capture.families, static_cast<uint32_t>(kFamilyAll));
  EXPECT_THAT(capture.warnings,
              ElementsAre("host_tracer_level 99 is taken for 3", "device_tracer_level 4 is taken for 3",
                          HasSubstr("python_tracer_level"), HasSubstr("TPU"),
                          AllOf(HasSubstr("`alpha\\n\\x1b[31m`"), Not(HasSubstr("\n"))), HasSubstr("`zeta`")));
}

TEST(ProfilerRequest, StepMarker_IsTakenOrRefused) {
  tensorflow::ProfileRequest request = Plain();
  auto& setting = (*request.mutable_opts()->mutable_advanced_configuration())[kStepMarkerSetting];
  setting.set_string_value("train.py:42");
  const CaptureRequest capture = Good(request);
  EXPECT_EQ(capture.step_marker, "train.py:42");
  EXPECT_THAT(capture.warnings, testing::IsEmpty());
  setting.set_string_value("train.py:(42");
  EXPECT_THAT(Bad(request), HasSubstr("step_marker must be a regular expression"));
}

TEST(ProfilerRequest, ManyUnknownKeys_AreFewWarnings) {
  tensorflow::ProfileRequest request = Plain();
  auto* const settings = request.mutable_opts()->mutable_advanced_configuration();
  for (int i = 0; i < 10'000; ++i) (*settings)["key" + std::to_string(i)].set_int64_value(i);
  (*settings)[std::string(1 << 20, 'a')].set_int64_value(1);
  const CaptureRequest capture = Good(request);
  EXPECT_EQ(capture.warnings.size(), 16u);
  for (const std::string& warning : capture.warnings) EXPECT_LT(warning.size(), 200u);
}

TEST(ProfilerRequest, RunName_InvalidOne_IsRefused) {
  const std::string longest(128, 'r');
  for (const std::string& good : {std::string("run"), std::string("a.b-c_D9"), std::string("-"), longest}) {
    tensorflow::ProfileRequest request = Plain();
    request.set_session_id(good);
    EXPECT_EQ(Good(request).run, good);
    request.set_session_id("other");
    request.mutable_opts()->set_session_id(good);
    EXPECT_EQ(Good(request).run, good);
  }
  for (const std::string& bad :
       {std::string("."), std::string(".."), std::string("../up"), std::string("../../up"), std::string("/absolute"),
        std::string("a/b"), std::string("a\0b", 3), std::string("\0", 1), std::string(".hidden"), std::string("a b"),
        std::string("a\nb"), std::string("\xc3\xa4"), std::string("a\\b"), std::string("~"), std::string("$(id)"),
        longest + "r", std::string(1 << 20, 'x'), std::string(1 << 20, '\x01')}) {
    tensorflow::ProfileRequest request = Plain();
    request.set_session_id(bad);
    EXPECT_THAT(Bad(request), HasSubstr("session_id is "));
    request.set_session_id("fine");
    request.mutable_opts()->set_session_id(bad);
    EXPECT_THAT(Bad(request), HasSubstr("session_id is "));
    EXPECT_FALSE(CheckName("any", bad).ok());
  }
  tensorflow::ProfileRequest request = Plain();
  request.clear_session_id();
  EXPECT_EQ(Good(request).run, "");
  EXPECT_TRUE(CheckName("any", "").ok());
}

TEST(ProfilerRequest, HostName_InvalidOne_IsRefused) {
  const std::pair<std::string, std::string> good[] = {{"host", "host"},
                                                      {"host:6009", "host_6009"},
                                                      {"[::1]:6009", "___1__6009"},
                                                      {"10.0.0.1:6009", "10.0.0.1_6009"},
                                                      {"::1", "__1"},
                                                      {"", ""},
                                                      {"[fe80::1]:1", "_fe80__1__1"}};
  for (const auto& [typed, name] : good) {
    tensorflow::ProfileRequest request = Plain();
    request.set_host_name(typed);
    EXPECT_EQ(Good(request).host, name);
  }
  for (const std::string& bad : {std::string("a/b"), std::string("../a"), std::string(".a"), std::string("a\0b", 3),
                                 std::string("a b:1"), std::string("[fe80::1%eth0]:1"), std::string(1 << 20, ':')}) {
    tensorflow::ProfileRequest request = Plain();
    request.set_host_name(bad);
    EXPECT_THAT(Bad(request), HasSubstr("host_name is "));
    request = Plain();
    request.mutable_opts()->set_override_hostname(bad);
    EXPECT_THAT(Bad(request), HasSubstr("override_hostname is "));
    request = Plain();
    (*request.mutable_opts()->mutable_advanced_configuration())["override_hostname"].set_string_value(bad);
    EXPECT_THAT(Bad(request), HasSubstr("override_hostname is "));
  }
}

TEST(ProfilerRequest, OverriddenHost_IsUsed) {
  tensorflow::ProfileRequest request = Plain();
  auto& setting = (*request.mutable_opts()->mutable_advanced_configuration())["override_hostname"];
  setting.set_int64_value(7);  // the wrong type: ignored
  EXPECT_EQ(Good(request).host, "127.0.0.1_6009");
  setting.set_string_value("setting:1");
  EXPECT_EQ(Good(request).host, "setting_1");
  request.mutable_opts()->set_override_hostname("field:2");
  EXPECT_EQ(Good(request).host, "field_2");
  EXPECT_TRUE(Good(request).warnings.empty());
}

TEST(ProfilerRequest, Repository_InvalidPath_IsRefused) {
  tensorflow::ProfileRequest request = Plain();
  for (const std::string& good :
       {std::string(), std::string("../../elsewhere"), std::string("gs://bucket/x"), std::string(4096, 'd')}) {
    request.set_repository_root(good);
    EXPECT_EQ(Good(request).repository_root, good);
  }
  for (const std::string& bad : {std::string("/a\0b", 4), std::string("\0", 1), std::string(4097, 'd'),
                                 std::string(1 << 20, 'd'), std::string(1 << 20, '\x1b')}) {
    request.set_repository_root(bad);
    EXPECT_THAT(Bad(request), HasSubstr("repository_root is no path: "));
  }
}

// Every valid request of a client fits into one message to the launcher: a message that is too long would end the
// worker's connection, and with it all other calls.
TEST(ProfilerRequest, LongestRequest_FitsIntoAMessage) {
  tensorflow::ProfileRequest request = Plain();
  request.set_repository_root(std::string(4096, '\x01'));
  request.set_session_id(std::string(128, 'r'));
  request.set_host_name(std::string(128, 'h'));
  for (int i = 0; i < 100; ++i) {
    (*request.mutable_opts()->mutable_advanced_configuration())[std::string(200, '\x01') + std::to_string(i)];
  }
  ControlAsk ask{AskKind::kCapture, UINT64_MAX, Good(request, {kNow, UINT64_MAX})};
  const std::string text = ToText(ask);
  EXPECT_LT(text.size(), kMaxControlMessage);
  const absl::StatusOr<ControlAsk> again = ParseAsk(text);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(ToText(*again), text);
}

TEST(ProfilerRequest, Monitoring_Duration_IsChecked) {
  tensorflow::MonitorRequest request;
  absl::StatusOr<CaptureRequest> capture = MonitoringOf(request, {kNow, kNow + kSecond}, "somebody");
  ASSERT_TRUE(capture.ok()) << capture.status();
  EXPECT_EQ(capture->duration_ns, kSecond);
  EXPECT_EQ(capture->deadline_unix_ns, kNow + kSecond);
  EXPECT_EQ(capture->asked_by, "somebody");
  request.set_duration_ms(250);
  request.set_monitoring_level(-5);
  capture = MonitoringOf(request, {kNow, 0}, "somebody");
  ASSERT_TRUE(capture.ok()) << capture.status();
  EXPECT_EQ(capture->duration_ns, kSecond / 4);
  for (const uint64_t bad : {uint64_t{600'001}, uint64_t{1} << 63}) {
    request.set_duration_ms(bad);
    capture = MonitoringOf(request, {kNow, 0}, "somebody");
    EXPECT_EQ(capture.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(capture.status().message()), HasSubstr("duration_ms is "));
  }
}

using Result = tensorflow::ProfilerServiceMonitorResult;

TEST(MonitorResponse, Training_HasDeviceStepAndEvents) {
  const std::string summary =
      R"({"wall_s": 2.0, "gpus": [{"busy_share": 0.5}, {"busy_share": 0.7}, {"name": "without"}],
          "steps": {"count": 12, "mean_s": 0.1, "shortest_s": 0.05, "longest_s": 0.25, "source": "optimizer",
                    "input_wait_share": 0.125},
          "records": {"decoded": 3000, "dropped": {"no_chunk": 3, "budget": 4}}})";
  tensorflow::MonitorRequest request;
  const tensorflow::MonitorResponse response = MonitorResponseOf(summary, request, kNow);
  const Result& result = response.monitor_result();
  EXPECT_EQ(result.response_type(), Result::UTIL_IDLE_STEP);
  EXPECT_NEAR(result.device_idle_time_percent(), 40, 1e-9);
  EXPECT_NEAR(result.step_time_ms_avg(), 100, 1e-9);
  EXPECT_NEAR(result.step_time_ms_min(), 50, 1e-9);
  EXPECT_NEAR(result.step_time_ms_max(), 250, 1e-9);
  EXPECT_NEAR(result.infeed_percent_avg(), 12.5, 1e-9);
  EXPECT_EQ(response.data(),
            "Device idle: 40.0 % (2 GPUs)\n"
            "Step time: avg 100.00 ms, min 50.00 ms, max 250.00 ms (12 steps, from optimizer)\n"
            "Waiting for input: 12.5 %\n"
            "Events: 1500/s, 7 dropped\n");
  request.set_timestamp(true);
  EXPECT_THAT(MonitorResponseOf(summary, request, kNow).data(),
              testing::MatchesRegex("Timestamp: ..:..:..\nDevice(.|\n)*"));
}

TEST(MonitorResponse, NoGpusOrSteps_AreNamed) {
  const tensorflow::MonitorResponse response = MonitorResponseOf(
      R"({"wall_s": 0, "gpus": [], "steps": {"count": 1, "mean_s": 2.0, "source": "synthetic"}, "records": {"decoded": 5}})",
      {}, kNow);
  EXPECT_EQ(response.monitor_result().response_type(), Result::EMPTY_RESULT);
  EXPECT_EQ(response.data(), "Device: no GPU was used\nStep time: unknown\nEvents: 0/s, 0 dropped\n");
}

TEST(MonitorResponse, AnySummary_HasEachLine) {
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  for (const std::string& summary :
       {std::string(), std::string("{"), std::string("null"), std::string("[]"), std::string("5"), std::string("\"x\""),
        std::string(R"({"wall_s": "x", "gpus": 5, "steps": [], "records": "x"})"),
        std::string(R"({"gpus": [null, 5, [], {"busy_share": "x"}], "steps": null, "records": null})"),
        std::string(R"({"steps": {"count": 3, "mean_s": 1, "source": 5}})"),
        std::string(R"({"steps": {"count": 3, "mean_s": 1, "source": "\u0000\u001b"}})"),
        std::string(R"({"steps": {"count": 1e300, "mean_s": 1e300}, "gpus": [{"busy_share": 1e300}]})"),
        std::string(R"({"records": {"dropped": [1, -1, "x", {}], "decoded": -5}, "wall_s": -1})"),
        std::string(R"({"records": {"dropped": 7}})"), std::string(R"({"steps": {"count": -3, "mean_s": 1}})"), deep,
        R"({"gpus": )" + deep + R"(, "steps": )" + deep + R"(, "records": {"dropped": )" + deep + "}}"}) {
    const tensorflow::MonitorResponse response = MonitorResponseOf(summary, {}, kNow);
    EXPECT_THAT(response.data(), AllOf(HasSubstr("Device"), HasSubstr("Step time"), HasSubstr("Events")));
  }
}

}  // namespace
}  // namespace tbprof
