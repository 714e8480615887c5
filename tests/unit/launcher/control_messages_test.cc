// SPDX-License-Identifier: Apache-2.0
#include "launcher/base/control_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <set>

namespace tbprof {
namespace {

using testing::ElementsAre;

CaptureRequest Full() {
  CaptureRequest capture;
  capture.duration_ns = 2'000'000'000;
  capture.start_unix_ns = UINT64_MAX;
  capture.deadline_unix_ns = uint64_t{1} << 63;
  capture.families = kFamilyGpu | kFamilyMalloc;
  capture.run = "run";
  capture.host = "host";
  capture.repository_root = "/logs/\"quoted\"\n/plugins";
  capture.asked_by = "127.0.0.1:51234";
  capture.step_marker = "train.py:42";
  capture.warnings = {"one", "two"};
  capture.publish = true;
  capture.summary = true;
  capture.shared = true;
  return capture;
}

TEST(ControlAsks, EachAsk_IsParsedBack) {
  std::set<std::string> texts;
  for (const AskKind kind : {AskKind::kCapture, AskKind::kMonitor, AskKind::kTerminate, AskKind::kCancel,
                             AskKind::kReceived, AskKind::kStatus, AskKind::kRefused}) {
    const std::string text = ToText(ControlAsk{kind, UINT64_MAX, Full()});
    texts.insert(text);
    const absl::StatusOr<ControlAsk> ask = ParseAsk(text);
    ASSERT_TRUE(ask.ok()) << ask.status() << " " << text;
    EXPECT_EQ(ask->kind, kind);
    EXPECT_EQ(ask->id, UINT64_MAX);
    EXPECT_EQ(ToText(*ask), text);
    if (kind == AskKind::kTerminate) {
      EXPECT_EQ(ask->capture.run, "run");
    }
    if (kind != AskKind::kCapture && kind != AskKind::kMonitor) continue;
    EXPECT_EQ(ask->capture.duration_ns, 2'000'000'000u);
    EXPECT_EQ(ask->capture.start_unix_ns, UINT64_MAX);
    EXPECT_EQ(ask->capture.deadline_unix_ns, uint64_t{1} << 63);
    EXPECT_EQ(ask->capture.families, static_cast<uint32_t>(kFamilyGpu | kFamilyMalloc));
    EXPECT_EQ(ask->capture.run, "run");
    EXPECT_EQ(ask->capture.host, "host");
    EXPECT_EQ(ask->capture.repository_root, "/logs/\"quoted\"\n/plugins");
    EXPECT_EQ(ask->capture.asked_by, "127.0.0.1:51234");
    EXPECT_EQ(ask->capture.step_marker, "train.py:42");
    EXPECT_THAT(ask->capture.warnings, ElementsAre("one", "two"));
    EXPECT_TRUE(ask->capture.publish);
    EXPECT_TRUE(ask->capture.summary);
    EXPECT_TRUE(ask->capture.shared);
  }
  EXPECT_EQ(texts.size(), 7u);
}

TEST(ControlAsks, MissingFields_HaveDefaults) {
  const absl::StatusOr<ControlAsk> ask = ParseAsk(R"({"ask": "capture", "unknown": {"a": [1]}})");
  ASSERT_TRUE(ask.ok()) << ask.status();
  EXPECT_EQ(ask->id, 0u);
  EXPECT_EQ(ask->capture.duration_ns, 0u);
  EXPECT_EQ(ask->capture.families, static_cast<uint32_t>(kFamilyAll));
  EXPECT_FALSE(ask->capture.publish);
  EXPECT_FALSE(ask->capture.summary);
}

TEST(ControlAsks, ShownTexts_ArePrintableAndShort) {
  ControlAsk ask{AskKind::kCapture, 1, {}};
  ask.capture.asked_by = "\x1b[31m" + std::string(1000, 'a');
  ask.capture.warnings = {std::string(1000, '\n')};
  const absl::StatusOr<ControlAsk> again = ParseAsk(ToText(ask));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->capture.asked_by.size(), 200u);
  EXPECT_TRUE(again->capture.asked_by.starts_with("\\x1b[31ma"));
  ASSERT_EQ(again->capture.warnings.size(), 1u);
  EXPECT_LE(again->capture.warnings[0].size(), 500u);
  EXPECT_EQ(again->capture.warnings[0].find('\n'), std::string::npos);
}

// The converter compiles it.
TEST(ControlAsks, StepMarkerThatIsNoExpression_IsRefused) {
  CaptureRequest capture = Full();
  const auto is_taken = [&](const std::string& marker) {
    capture.step_marker = marker;
    return ParseAsk(ToText(ControlAsk{AskKind::kCapture, 1, capture})).ok();
  };
  for (const std::string& marker :
       {std::string("train.py:(42"), std::string(10'000, 'a'), std::string(200, '('), std::string("((a{90}){90}){90}"),
        std::string("(a|b){4500}"), std::string("a{90}{90}{90}"), std::string("(ab)+{99}{99}"),
        std::string("(a{1,99999999999999999999}b)"), std::string("((x[{]){99}\\\\{){999}")}) {
    EXPECT_FALSE(is_taken(marker)) << marker;
  }
  for (const char* marker :
       {"", "train.py:42", "epoch \\d{1,6} step \\d{1,8} of \\d{1,8}", "step[ #]*[0-9]+", "^step .{1,120}$",
        "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "frame\\{id=2024", "^[{]\"step\" 50000"}) {
    EXPECT_TRUE(is_taken(marker)) << marker;
  }
}

TEST(ControlAsks, WrongTypes_AreRefused) {
  for (const char* const text : {
           "",
           " ",
           "null",
           "5",
           "\"capture\"",
           "[]",
           "[\"ask\", \"capture\"]",
           "{}",
           "{",
           "{}{}",
           R"({"ask": "capture"} x)",
           R"({"ask": 5})",
           R"({"ask": ""})",
           R"({"ask": "Capture"})",
           R"({"ask": null})",
           R"({"ask": ["capture"]})",
           R"({"ask": "capture", "id": -1})",
           R"({"ask": "capture", "id": 1.5})",
           R"({"ask": "capture", "id": "1"})",
           R"({"ask": "capture", "id": 18446744073709551616})",
           R"({"ask": "capture", "id": 1e3})",
           R"({"ask": "capture", "id": null})",
           R"({"ask": "capture", "capture": 5})",
           R"({"ask": "capture", "capture": null})",
           R"({"ask": "capture", "capture": []})",
           R"({"ask": "capture", "capture": {"duration_ns": -5}})",
           R"({"ask": "capture", "capture": {"duration_ns": "5"}})",
           R"({"ask": "capture", "capture": {"families": 4294967296}})",
           R"({"ask": "capture", "capture": {"families": -1}})",
           R"({"ask": "capture", "capture": {"publish": 1}})",
           R"({"ask": "capture", "capture": {"run": 5}})",
           R"({"ask": "capture", "capture": {"host": ["h"]}})",
           R"({"ask": "capture", "capture": {"warnings": "w"}})",
           R"({"ask": "capture", "capture": {"warnings": [5]}})",
           R"({"ask": "capture", "capture": {"warnings": {"a": "b"}}})",
       }) {
    const absl::StatusOr<ControlAsk> ask = ParseAsk(text);
    EXPECT_EQ(ask.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_LT(ask.status().message().size(), 100u);
  }
}

TEST(ControlAsks, CutTexts_AreRefused) {
  const std::string text = ToText(ControlAsk{AskKind::kCapture, 7, Full()});
  for (size_t size = 0; size < text.size(); ++size) EXPECT_FALSE(ParseAsk(text.substr(0, size)).ok()) << size;
}

void* ParseNested(void*) {
  constexpr size_t kLevels = kMaxControlMessage / 2;
  for (const auto& [open, close] : {std::pair<std::string, std::string>{"[", "]"}, {"{\"a\":", "}"}}) {
    std::string deep;
    for (size_t i = 0; i < kLevels; ++i) deep += open;
    deep += "5";
    for (size_t i = 0; i < kLevels; ++i) deep += close;
    for (const std::string& text : {deep, "{\"ask\":\"capture\",\"capture\":{\"warnings\":" + deep + "}}",
                                    "{\"state\":\"done\",\"files\":" + deep + "}", deep.substr(0, deep.size() / 2)}) {
      EXPECT_FALSE(ParseAsk(text).ok());
      EXPECT_FALSE(ParseAnswer(text).ok());
    }
    EXPECT_FALSE(ParseSessionStatus("{\"pids\":" + deep + "}").ok());
    // The values of unknown names are not parsed.
    EXPECT_TRUE(ParseAsk("{\"ask\":\"status\",\"other\":" + deep + "}").ok());
    EXPECT_EQ(ParseAsk("{\"ask\":\"capture\",\"capture\":" + deep + "}").ok(), open[0] == '{');
  }
  return nullptr;
}

// A message has room for 32,000 brackets, every process of this user may send one, and the user may limit the
// launcher's stack.
TEST(ControlMessages, DeeplyNestedText_DoesNotCrash) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 256 << 10);
  pthread_t thread;
  ASSERT_EQ(pthread_create(&thread, &attributes, ParseNested, nullptr), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

TEST(ControlAnswers, EachAnswer_IsParsedBack) {
  ControlAnswer open;
  open.id = 5;
  open.state = AnswerState::kOpen;
  open.opens_unix_ns = 1;
  open.closes_unix_ns = UINT64_MAX;
  ControlAnswer writing;
  writing.state = AnswerState::kWriting;
  writing.done = 3;
  writing.total = 4;
  ControlAnswer done;
  done.id = UINT64_MAX;
  done.files = {"xplane.pb", "r1.xplane.pb"};
  done.directory = "/logs/plugins/profile/run";
  done.lines = {"a line", "\xff is no text"};
  done.json = "{\"wall_s\": 1}";
  for (const ControlAnswer& answer : {open, writing, done}) {
    const std::string text = ToText(answer);
    const absl::StatusOr<ControlAnswer> again = ParseAnswer(text);
    ASSERT_TRUE(again.ok()) << again.status() << " " << text;
    EXPECT_EQ(ToText(*again), text);
    EXPECT_EQ(again->id, answer.id);
    EXPECT_EQ(again->state, answer.state);
    EXPECT_EQ(again->opens_unix_ns, answer.opens_unix_ns);
    EXPECT_EQ(again->closes_unix_ns, answer.closes_unix_ns);
    EXPECT_EQ(again->done, answer.done);
    EXPECT_EQ(again->total, answer.total);
    EXPECT_EQ(again->files, answer.files);
    EXPECT_EQ(again->directory, answer.directory);
    EXPECT_EQ(again->lines.size(), answer.lines.size());
    EXPECT_EQ(again->json, answer.json);
  }
}

TEST(ControlAnswers, EachFailure_IsParsedBack) {
  for (int code = 1; code <= static_cast<int>(absl::StatusCode::kUnauthenticated); ++code) {
    ControlAnswer answer;
    answer.state = AnswerState::kFailed;
    answer.status = absl::Status(static_cast<absl::StatusCode>(code), "why");
    const absl::StatusOr<ControlAnswer> again = ParseAnswer(ToText(answer));
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->state, AnswerState::kFailed);
    EXPECT_EQ(again->status, answer.status);
  }
}

TEST(ControlAnswers, InvalidFailureCode_IsNoSuccess) {
  for (const char* const code : {"0", "-1", "17", "100", "2147483647", "-2147483648", "4294967296", "4294967297",
                                 "9223372036854775807", "18446744073709551615"}) {
    const absl::StatusOr<ControlAnswer> answer =
        ParseAnswer(std::string(R"({"id": 1, "state": "failed", "text": "why", "code": )") + code + "}");
    if (!answer.ok()) continue;  // a code cannot be this number
    EXPECT_EQ(answer->status.code(), absl::StatusCode::kUnknown) << code;
    EXPECT_EQ(answer->status.message(), "why");
  }
  const absl::StatusOr<ControlAnswer> answer = ParseAnswer(R"({"state": "failed"})");
  ASSERT_TRUE(answer.ok());
  EXPECT_FALSE(answer->status.ok());
}

TEST(ControlAnswers, WrongTypes_AreRefused) {
  for (const char* const text : {"", "{}", "[]", R"({"state": "closed"})", R"({"state": "done", "id": -1})",
                                 R"({"state": "done", "files": {"a": "b"}})", R"({"state": "done", "files": [1]})",
                                 R"({"state": "done", "lines": "x"})", R"({"state": "done", "directory": 5})",
                                 R"({"state": "done", "json": {}})", R"({"state": "open", "opens_unix_ns": 1.5})",
                                 R"({"state": "open", "closes_unix_ns": -1})", R"({"state": "writing", "done": "1"})",
                                 R"({"state": "failed", "code": "1"})", R"({"state": "failed", "code": 1.0})",
                                 R"({"state": "failed", "text": 1})"}) {
    EXPECT_EQ(ParseAnswer(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(SessionStatusText, Status_IsParsedBack) {
  SessionStatus status;
  status.pid = 4711;
  status.run = "run";
  status.logdir = "/logs";
  status.host = "host";
  status.window = "none";
  status.command = {"python3", "train.py"};
  status.since_unix_ns = 12;
  status.state = "armed";
  status.capture_of = "127.0.0.1:5";
  status.capture_until_unix_ns = 13;
  status.captures = 1;
  status.processes = 2;
  status.records = 3;
  status.dropped = 4;
  status.pids = {1, 4194304};
  status.addresses = {"127.0.0.1:6009", "[::1]:6009"};
  const std::string text = ToText(status);
  const absl::StatusOr<SessionStatus> again = ParseSessionStatus(text);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(ToText(*again), text);
  EXPECT_EQ(again->pid, 4711);
  EXPECT_EQ(again->command, status.command);
  EXPECT_EQ(again->pids, status.pids);
  EXPECT_EQ(again->addresses, status.addresses);
  EXPECT_EQ(again->capture_until_unix_ns, 13u);
  EXPECT_EQ(again->dropped, 4u);
}

TEST(SessionStatusText, WrongTypes_AreRefused) {
  for (const char* const text :
       {"", "[]", R"({"pid": "1"})", R"({"pid": 1.5})", R"({"pids": [1, "2"]})", R"({"pids": 1})", R"({"pids": [1.5]})",
        R"({"command": "x"})", R"({"records": -1})", R"({"state": 1})"}) {
    EXPECT_FALSE(ParseSessionStatus(text).ok()) << text;
  }
}

// An impossible pid must not wrap around to another process's pid: `tbprof capture --pid` would connect to that
// process.
TEST(SessionStatusText, PidOutOfRange_IsRefused) {
  for (const char* const number : {"4294967297", "-4294967295", "18446744073709551615", "9223372036854775808"}) {
    EXPECT_FALSE(ParseSessionStatus(std::string(R"({"pid": )") + number + "}").ok()) << number;
    EXPECT_FALSE(ParseSessionStatus(std::string(R"({"pids": [)") + number + "]}").ok()) << number;
  }
}

}  // namespace
}  // namespace tbprof
