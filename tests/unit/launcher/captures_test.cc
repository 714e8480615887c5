// SPDX-License-Identifier: Apache-2.0
#include "launcher/capture/captures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/time/time.h"

namespace tbprof {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint64_t kNow = 5'000 * kSecond;  // CLOCK_MONOTONIC
constexpr uint64_t kNowUnix = 1'795'000'000 * kSecond;

CaptureTimes At(uint64_t ns) { return {kNow + ns, kNowUnix + ns}; }

CaptureRequest For(uint64_t duration_ns, const std::string& run = "run", const std::string& by = "10.0.0.7:51234") {
  CaptureRequest request;
  request.duration_ns = duration_ns;
  request.run = run;
  request.asked_by = by;
  return request;
}

class CapturesTest : public testing::Test {
 protected:
  // A capture that opened at once, or null.
  Capture* Open(CaptureRequest request, uint64_t at_ns = 0, Asker asker = {1, 1, false}) {
    absl::StatusOr<Capture*> capture = captures_.Ask(std::move(request), asker, At(at_ns));
    if (!capture.ok()) return nullptr;
    (*capture)->state = Capture::State::kOpen;
    return *capture;
  }
  std::string Refusal(const CaptureRequest& request, uint64_t at_ns, const Asker& asker = {2, 1, false}) {
    const absl::StatusOr<Capture*> capture = captures_.Ask(request, asker, At(at_ns));
    EXPECT_EQ(capture.status().code(), absl::StatusCode::kAlreadyExists);
    return std::string(capture.status().message());
  }

  Captures captures_;
};

TEST_F(CapturesTest, Ask_StartsNow_CaptureIsFoundByItsClient) {
  const absl::StatusOr<Capture*> capture = captures_.Ask(For(2 * kSecond), {3, 9, false}, At(0));
  ASSERT_TRUE(capture.ok()) << capture.status();
  EXPECT_EQ((*capture)->number, 1u);
  EXPECT_EQ((*capture)->state, Capture::State::kAgreed);
  EXPECT_EQ((*capture)->opens_ns, kNow);
  EXPECT_EQ((*capture)->closes_ns, kNow + 2 * kSecond);
  EXPECT_EQ((*capture)->gives_up_ns, UINT64_MAX);
  EXPECT_TRUE((*capture)->waited_for());
  EXPECT_EQ(captures_.Find(1), *capture);
  EXPECT_EQ(captures_.Find(3, 9), *capture);
  EXPECT_EQ(captures_.Find(9, 3), nullptr);
  EXPECT_EQ(captures_.Find(2), nullptr);
  EXPECT_EQ(captures_.Current(), *capture);
  EXPECT_EQ(captures_.count(), 1u);
}

TEST_F(CapturesTest, Ask_AnotherIsOpen_RefusalNamesClientAndEnd) {
  ASSERT_NE(Open(For(10 * kSecond)), nullptr);
  const std::string closes = absl::FormatTime(
      "%H:%M:%S", absl::FromUnixNanos(static_cast<int64_t>(kNowUnix + 10 * kSecond)), absl::LocalTimeZone());
  const std::string text = Refusal(For(kSecond), 4 * kSecond);
  EXPECT_THAT(text, AllOf(HasSubstr("capture 1 of 10.0.0.7:51234"), HasSubstr("until " + closes), HasSubstr("(6.0 s)"),
                          HasSubstr("one at a time")));
  // A request for the same run, or from the same client, is refused, too.
  Refusal(For(kSecond, "run"), 5 * kSecond, {1, 2, false});
  // The time of the open capture is over, but it is not closed yet.
  EXPECT_THAT(Refusal(For(kSecond), 11 * kSecond), HasSubstr("(0.0 s)"));
  EXPECT_EQ(captures_.count(), 1u);
  EXPECT_EQ(captures_.all().size(), 1u);
}

TEST_F(CapturesTest, Ask_OthersAreBeingWritten_IsAccepted) {
  for (uint32_t i = 1; i <= 3; ++i) {
    Capture* const capture = Open(For(kSecond));
    ASSERT_NE(capture, nullptr);
    EXPECT_EQ(capture->number, i);
    capture->state = i == 2 ? Capture::State::kDelivered : Capture::State::kWriting;
    EXPECT_EQ(captures_.Current(), nullptr);
  }
  EXPECT_EQ(captures_.count(), 3u);
  captures_.Remove(2);
  EXPECT_EQ(captures_.Find(2), nullptr);
  EXPECT_NE(captures_.Find(3), nullptr);
  captures_.Remove(2);
  EXPECT_EQ(captures_.all().size(), 2u);
  // Each number is used once: it identifies a window.
  EXPECT_EQ(Open(For(kSecond))->number, 4u);
}

TEST_F(CapturesTest, Ask_MonitorBesideACapture_IsAccepted) {
  ASSERT_NE(Open(For(10 * kSecond)), nullptr);
  Capture* const monitor = Open(For(kSecond, "", "10.0.0.8:1"), 0, {2, 1, true});
  ASSERT_NE(monitor, nullptr);
  EXPECT_NE(monitor->number, 1u);
  EXPECT_EQ(captures_.count(), 1u);
  EXPECT_EQ(captures_.Current()->number, 1u);
  EXPECT_THAT(Refusal(For(kSecond), 0, {3, 1, true}),
              AllOf(HasSubstr("another monitor of 10.0.0.8:1"), Not(HasSubstr("capture"))));
  EXPECT_THAT(Refusal(For(kSecond), 0, {3, 2, false}), HasSubstr("capture 1 of 10.0.0.7"));
  captures_.Remove(1);
  EXPECT_EQ(captures_.Current(), nullptr);
  EXPECT_NE(Open(For(kSecond)), nullptr);
}

TEST_F(CapturesTest, Terminate_Name_EndsTheCaptureOfThatName) {
  Capture* const capture = Open(For(60 * kSecond, "long"));
  captures_.Terminate("other", kNow + kSecond);
  captures_.Terminate("lon", kNow + kSecond);
  EXPECT_EQ(capture->closes_ns, kNow + 60 * kSecond);
  captures_.Terminate("long", kNow + 2 * kSecond);
  EXPECT_EQ(capture->opens_ns, kNow);
  EXPECT_EQ(capture->closes_ns, kNow + 2 * kSecond);
  EXPECT_EQ(captures_.NextNs(), kNow + 2 * kSecond);
  capture->state = Capture::State::kWriting;
  // Terminate ended one capture; the next capture with that name is not affected.
  EXPECT_EQ(Open(For(60 * kSecond, "long"), 3 * kSecond)->closes_ns, kNow + 63 * kSecond);
}

TEST_F(CapturesTest, Terminate_AgreedStart_EndsItToo) {
  CaptureRequest request = For(kSecond, "later");
  request.start_unix_ns = kNowUnix + 100 * kSecond;
  Capture* const capture = *captures_.Ask(request, {1, 1, false}, At(0));
  captures_.Terminate("later", kNow + kSecond);
  EXPECT_EQ(capture->opens_ns, kNow + kSecond);
  EXPECT_EQ(capture->closes_ns, kNow + kSecond);
  EXPECT_EQ(captures_.NextNs(), kNow + kSecond);
}

TEST_F(CapturesTest, Terminate_MonitorsAndClosedCaptures_AreLeft) {
  Capture* const monitor = Open(For(60 * kSecond, "name"), 0, {1, 1, true});
  Capture* const closed = Open(For(kSecond, "name"));
  closed->state = Capture::State::kWriting;
  captures_.Terminate("name", kNow + kSecond / 2);
  EXPECT_EQ(monitor->closes_ns, kNow + 60 * kSecond);
  EXPECT_EQ(closed->closes_ns, kNow + kSecond);
}

// A stock client's Terminate without a name must not end the captures that have no name (those by a signal).
TEST_F(CapturesTest, Terminate_NoName_EndsNothing) {
  Capture* const capture = Open(For(60 * kSecond, ""));
  captures_.Terminate("", kNow + kSecond);
  EXPECT_EQ(capture->closes_ns, kNow + 60 * kSecond);
  captures_.Remove(capture->number);
  captures_.Terminate("", kNow + 2 * kSecond);
  EXPECT_EQ(Open(For(60 * kSecond, ""), 3 * kSecond)->closes_ns, kNow + 63 * kSecond);
}

TEST_F(CapturesTest, Terminate_BeforeItsCapture_EndsItOnce) {
  captures_.Terminate("early", kNow);
  Capture* const other = Open(For(kSecond, "other"), kSecond);
  EXPECT_EQ(other->closes_ns, kNow + 2 * kSecond);
  captures_.Remove(other->number);
  Capture* const capture = Open(For(60 * kSecond, "early"), 2 * kSecond);
  EXPECT_EQ(capture->opens_ns, kNow + 2 * kSecond);
  EXPECT_EQ(capture->closes_ns, kNow + 2 * kSecond);
  captures_.Remove(capture->number);
  // An early Terminate counts once.
  EXPECT_EQ(Open(For(60 * kSecond, "early"), 3 * kSecond)->closes_ns, kNow + 63 * kSecond);
}

TEST_F(CapturesTest, Terminate_LongBeforeItsCapture_IsForgotten) {
  captures_.Terminate("early", kNow);
  EXPECT_EQ(Open(For(60 * kSecond, "early"), 10 * kSecond)->closes_ns, kNow + 70 * kSecond);
}

TEST_F(CapturesTest, Terminate_BeforeAnAgreedStart_StartsAtOnce) {
  captures_.Terminate("early", kNow);
  CaptureRequest request = For(60 * kSecond, "early");
  request.start_unix_ns = kNowUnix + 100 * kSecond;
  EXPECT_EQ(Open(request, kSecond)->opens_ns, kNow + kSecond);
}

TEST_F(CapturesTest, Ask_Deadline_CaptureGivesUpThen) {
  CaptureRequest request = For(kSecond);
  request.deadline_unix_ns = kNowUnix + 60 * kSecond;
  Capture* capture = Open(request, 10 * kSecond);
  EXPECT_EQ(capture->gives_up_ns, kNow + 60 * kSecond);
  captures_.Remove(capture->number);
  // The deadline passed before the request was received.
  capture = Open(request, 70 * kSecond);
  EXPECT_EQ(capture->gives_up_ns, kNow + 70 * kSecond);
}

TEST_F(CapturesTest, Ask_AgreedStart_OpensThen) {
  CaptureRequest request = For(2 * kSecond);
  request.start_unix_ns = kNowUnix + 3 * kSecond;
  Capture* capture = *captures_.Ask(request, {1, 1, false}, At(kSecond));
  EXPECT_EQ(capture->opens_ns, kNow + 3 * kSecond);
  EXPECT_EQ(capture->closes_ns, kNow + 5 * kSecond);
  EXPECT_EQ(captures_.Current(), capture);
  // A capture with an agreed start blocks other captures like an open one.
  EXPECT_THAT(Refusal(For(kSecond), kSecond), HasSubstr("(4.0 s)"));
  captures_.Remove(capture->number);
  for (const uint64_t past : {uint64_t{1}, kNowUnix, kNowUnix + 5 * kSecond}) {
    request.start_unix_ns = past;
    capture = *captures_.Ask(request, {1, 1, false}, At(5 * kSecond));
    EXPECT_EQ(capture->opens_ns, kNow + 5 * kSecond) << past;
    captures_.Remove(capture->number);
  }
}

// The control socket takes any numbers: one that overflows must not open a window that closed long ago, or never.
TEST_F(CapturesTest, Ask_StartBeyondTime_DoesNotWrapAround) {
  CaptureRequest request = For(600 * kSecond);
  for (const uint64_t start : {UINT64_MAX, UINT64_MAX - 1000 * kSecond}) {
    request.start_unix_ns = start;
    const Capture* const capture = *captures_.Ask(request, {1, 1, false}, At(0));
    EXPECT_GT(capture->opens_ns, kNow) << start;
    EXPECT_GE(capture->closes_ns, capture->opens_ns) << start;
    captures_.Remove(capture->number);
  }
}

TEST_F(CapturesTest, NextNs_EachState_IsTheNextChange) {
  EXPECT_EQ(captures_.NextNs(), UINT64_MAX);
  CaptureRequest request = For(2 * kSecond);
  request.start_unix_ns = kNowUnix + 10 * kSecond;
  Capture* const capture = *captures_.Ask(request, {1, 1, false}, At(0));
  EXPECT_EQ(captures_.NextNs(), kNow + 10 * kSecond);
  Capture* const monitor = Open(For(3 * kSecond), 0, {2, 1, true});
  EXPECT_EQ(captures_.NextNs(), kNow + 3 * kSecond);
  monitor->state = Capture::State::kWriting;
  capture->state = Capture::State::kOpen;
  EXPECT_EQ(captures_.NextNs(), kNow + 12 * kSecond);
  capture->state = Capture::State::kDelivered;
  EXPECT_EQ(captures_.NextNs(), UINT64_MAX);
}

TEST_F(CapturesTest, Add_WindowInThePast_IsACaptureOfNoClient) {
  Capture* const open = Open(For(kSecond));
  Capture* const last = captures_.Add(For(0, "", "a signal"));
  EXPECT_EQ(last->number, 2u);
  EXPECT_EQ(last->state, Capture::State::kWriting);
  EXPECT_FALSE(last->waited_for());
  EXPECT_EQ(captures_.Current(), open);
  EXPECT_EQ(captures_.count(), 2u);
  // Client number 0 does not exist.
  EXPECT_EQ(captures_.Find(0, 0), nullptr);
}

}  // namespace
}  // namespace tbprof
