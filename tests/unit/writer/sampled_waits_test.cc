// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/sampled_waits.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <string>
#include <vector>

#include "writer/spool/spool_facts.h"

namespace tbprof {
namespace {

constexpr int64_t kMs = 1'000'000'000;
constexpr uint64_t kMost = 1 << 20;

class SampledWaitsTest : public ::testing::Test {
 protected:
  SampledWaitsTest() : types_(&facts_, &timeline_) {
    timeline_.attached = true;
    timeline_.duration_ps = 1000 * kMs;
    timeline_.threads.resize(1);
    timeline_.processes.resize(1);
    timeline_.blocked.push_back({0, {}});
  }

  BlockedRun& Add(int64_t first_ms, int64_t last_ms, BlockedIn kind, int64_t call) {
    BlockedRun& run = timeline_.blocked[0].runs.emplace_back();
    run.first_ps = first_ms * kMs;
    run.last_ps = last_ms * kMs;
    run.samples = 1;
    run.kind = kind;
    run.call = static_cast<uint16_t>(call + 1);
    return run;
  }

  // `name start+duration`, in milliseconds.
  std::vector<std::string> Events(uint64_t most_bytes = kMost) {
    AddSampledWaits(most_bytes, &types_, &timeline_);
    std::vector<std::string> out;
    for (const Event& event : timeline_.threads[0].events) {
      out.push_back(timeline_.types[event.type].name + " " + std::to_string(event.start_ps / kMs) + "+" +
                    std::to_string(event.duration_ps / kMs));
    }
    return out;
  }

  SpoolFacts facts_;
  Timeline timeline_;
  EventTypes types_;
};

using Texts = std::vector<std::string>;

TEST_F(SampledWaitsTest, Runs_AreEventsOfTheirCall_HalfAPeriodLongerAtEachEnd) {
  Add(100, 140, BlockedIn::kSleep, SYS_clock_nanosleep);
  Add(200, 200, BlockedIn::kPipe, SYS_read).fd = 7;
  EXPECT_EQ(Events(), (Texts{"clock_nanosleep (sampled) 95+50", "read (sampled) 195+10"}));
  EXPECT_EQ(timeline_.types[timeline_.threads[0].events[0].type].family, EventFamily::kSleep);
  EXPECT_EQ(timeline_.threads[0].events[1].object, 7u);
}

TEST_F(SampledWaitsTest, RunsThatTheLauncherCut_AreOneEvent) {
  Add(100, 240, BlockedIn::kPoll, SYS_epoll_wait);
  Add(250, 300, BlockedIn::kPoll, SYS_epoll_wait).goes_on = true;
  Add(310, 340, BlockedIn::kPoll, SYS_epoll_wait);
  EXPECT_EQ(Events(), (Texts{"epoll_wait (sampled) 95+210", "epoll_wait (sampled) 305+40"}));
}

// With tbprof's library, calls that begin in the window are recorded.
TEST_F(SampledWaitsTest, RecordedProcess_HasTheCallThatBeganBefore) {
  timeline_.attached = false;
  Add(1, 1, BlockedIn::kFutex, SYS_futex).function = timeline_.strings.Intern("__pthread_join");
  Add(51, 600, BlockedIn::kFutex, SYS_futex).function = timeline_.strings.Intern("__pthread_join");
  Add(700, 800, BlockedIn::kSleep, SYS_clock_nanosleep);
  EXPECT_EQ(Events(), (Texts{"pthread_join (sampled) 0+605"}));
}

TEST_F(SampledWaitsTest, CallBeforeTheWindow_EndsAtTheFirstRecordedOne) {
  timeline_.attached = false;
  Event& write = timeline_.threads[0].events.emplace_back();
  write.type = types_.Find("write", EventFamily::kIo, ObjectKind::kNone, ValueKind::kNone);
  write.start_ps = 602 * kMs;
  write.duration_ps = kMs;
  Add(1, 600, BlockedIn::kFutex, SYS_futex).function = timeline_.strings.Intern("__pthread_join");
  EXPECT_EQ(Events(), (Texts{"pthread_join (sampled) 0+602", "write 602+1"}));
}

TEST_F(SampledWaitsTest, ThreadThatRanMeanwhile_MadeSeveralCalls) {
  timeline_.attached = false;
  Add(1, 600, BlockedIn::kFutex, SYS_futex);
  timeline_.usage = {{0, {{0, 0}, {300 * kMs, 30 * kMs}, {700 * kMs, 60 * kMs}}}};
  EXPECT_EQ(Events(), Texts());
  timeline_.usage = {{0, {{0, 0}, {300 * kMs, 0}, {700 * kMs, 0}}}};
  EXPECT_EQ(Events(), (Texts{"futex (sampled) 0+605"}));
}

TEST_F(SampledWaitsTest, CallThatBeganInTheWindow_IsNotSampled) {
  timeline_.attached = false;
  timeline_.duration_ps = 5000 * kMs;
  Add(1300, 1900, BlockedIn::kSleep, SYS_clock_nanosleep).function = timeline_.strings.Intern("sleep");
  EXPECT_EQ(Events(), Texts());
}

TEST_F(SampledWaitsTest, ProcessThatStartedInTheWindow_IsNotSampled) {
  timeline_.attached = false;
  timeline_.processes[0].start_ps = 50 * kMs;
  Add(100, 900, BlockedIn::kSleep, SYS_clock_nanosleep).function = timeline_.strings.Intern("sleep");
  EXPECT_EQ(Events(), Texts());
}

// It had recorded nothing before.
TEST_F(SampledWaitsTest, ThreadOfACallThatBeganBefore_IsAsOld) {
  timeline_.attached = false;
  timeline_.threads[0].start_ps = 700 * kMs;
  Add(1, 600, BlockedIn::kSleep, SYS_clock_nanosleep).function = timeline_.strings.Intern("sleep");
  EXPECT_EQ(Events(), (Texts{"clock_nanosleep (sampled) 0+605"}));
  EXPECT_EQ(timeline_.threads[0].start_ps, 0);
}

TEST_F(SampledWaitsTest, RunsThatFollowEachOtherSoon_DoNotOverlap) {
  Add(100, 100, BlockedIn::kPipe, SYS_read);
  Add(104, 104, BlockedIn::kPipe, SYS_write);
  EXPECT_EQ(Events(), (Texts{"read (sampled) 95+10", "write (sampled) 105+4"}));
}

TEST_F(SampledWaitsTest, Futex_HasTheNameOfTheLibrarysFunction) {
  BlockedRun& mutex = Add(100, 100, BlockedIn::kFutex, SYS_futex);
  mutex.futex = 0x7f00;
  mutex.function = timeline_.strings.Intern("__lll_lock_wait");
  mutex.site = timeline_.strings.Intern("Cache::Find (cache.cc:12)");
  Add(200, 200, BlockedIn::kFutex, SYS_futex).function = timeline_.strings.Intern("__pthread_cond_wait_common");
  Add(300, 300, BlockedIn::kFutex, SYS_futex);
  EXPECT_EQ(Events(), (Texts{"pthread_mutex_lock (sampled) 95+10", "pthread_cond_wait (sampled) 195+10",
                             "futex (sampled) 295+10"}));
  const Event& event = timeline_.threads[0].events[0];
  EXPECT_EQ(event.object, 0x7f00u);
  EXPECT_EQ(timeline_.strings.Get(event.call_site), "Cache::Find (cache.cc:12)");
}

TEST_F(SampledWaitsTest, Gil_IsTheWaitThatHooksRecord) {
  Add(100, 100, BlockedIn::kGil, SYS_futex);
  EXPECT_EQ(Events(), (Texts{"pthread_cond_timedwait (sampled) 95+10"}));
  EXPECT_EQ(timeline_.strings.Get(timeline_.threads[0].events[0].call_site), "take_gil");
}

TEST_F(SampledWaitsTest, WhatIsNoWait_IsNoEvent) {
  Add(100, 100, BlockedIn::kPageFault, -1);
  Add(200, 200, BlockedIn::kOther, SYS_ioctl);
  EXPECT_EQ(Events(), Texts());
}

TEST_F(SampledWaitsTest, Budget_LeavesTheLaterOnesOut) {
  for (int64_t at = 100; at < 900; at += 50) Add(at, at, BlockedIn::kPipe, SYS_read);
  EXPECT_EQ(Events(100).size(), 2u);
}

TEST_F(SampledWaitsTest, Events_AreInOrderWithThoseThatWereRecorded) {
  Event mark;
  mark.start_ps = 150 * kMs;
  mark.type = types_.Find("mark", EventFamily::kAnnotation, ObjectKind::kNone, ValueKind::kNone);
  timeline_.threads[0].events.push_back(mark);
  Add(100, 100, BlockedIn::kPipe, SYS_read);
  Add(200, 200, BlockedIn::kPipe, SYS_read);
  EXPECT_EQ(Events(), (Texts{"read (sampled) 95+10", "mark 150+0", "read (sampled) 195+10"}));
}

}  // namespace
}  // namespace tbprof
