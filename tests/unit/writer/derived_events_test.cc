// SPDX-License-Identifier: Apache-2.0
//
// Events without a record of their own: starts of threads, open waits, and a command that was not recorded.
#include "writer/convert/derived_events.h"

#include <gmock/gmock.h>

#include <string>

#include "tests/unit/writer/host_fixture.h"

namespace tbprof {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class DerivedEventsTest : public HostFixture {
 protected:
  static constexpr Identity kProcess{1, 1}, kMain{1, 1}, kWorker{1, 2};

  // A process with a main thread and a worker that was created at 5000.
  void AddThreads() {
    AddOperation(1, "sem_wait", kFamilyLock);
    AddOperation(1, "pthread_create", kFamilyThread);
    AddProcess(kProcess, 100, 10);
    AddThread(kMain, 1, 100, 10);
    ThreadFacts& worker = AddThread(kWorker, 1, 101, 5010);
    worker.creator_serial = 1;
    worker.created_ticks = 5000;
  }
  ThreadFacts& WaitSince(uint64_t ticks) {
    ThreadFacts& thread = facts_.threads.at(kMain);
    thread.has_last = true;
    thread.last.wait_since = ticks;
    thread.last.wait_operation = 0;
    thread.last.wait_object = 77;
    return thread;
  }
  void KeepCreate(uint64_t ticks) {
    RawEvent create;
    create.start = ticks;
    create.duration = 20;
    create.type = types_.OfOperation(1, 1);
    events_.Keep(model_.IndexOfThread(kMain), create);
  }
};

TEST_F(DerivedEventsTest, ThreadThatStartedBeforeTheWindow_HasNoStart) {
  AddThreads();
  Build();
  AddThreadStarts(facts_, window_, host_);
  EXPECT_THAT(events_.Of(model_.IndexOfThread(kMain)), IsEmpty());
  ASSERT_THAT(events_.Of(model_.IndexOfThread(kWorker)), SizeIs(1));
  EXPECT_EQ(events_.Of(model_.IndexOfThread(kWorker))[0].start, 5010u);
}

TEST_F(DerivedEventsTest, CreatedThread_IsLinkedToItsCreator) {
  AddThreads();
  Build();
  AddThreadStarts(facts_, window_, host_);
  KeepCreate(5000);
  KeepCreate(6000);  // of an unknown thread
  LinkThreads(facts_, host_, &timeline_);
  const uint32_t main = model_.IndexOfThread(kMain), worker = model_.IndexOfThread(kWorker);
  const auto flow = static_cast<int64_t>(timeline_.threads[worker].line_id);
  EXPECT_EQ(timeline_.threads[worker].flow_id, timeline_.threads[worker].line_id);
  EXPECT_EQ(timeline_.threads[main].flow_id, 0u);
  EXPECT_EQ(events_.Of(main)[0].value, flow);
  EXPECT_EQ(events_.Of(main)[1].value, 0);
  EXPECT_EQ(events_.Of(worker)[0].value, flow);
}

TEST_F(DerivedEventsTest, OpenWait_LastsToTheEndOfWindow) {
  AddThreads();
  Build();
  WaitSince(500);
  AddOpenWaits(facts_, window_, host_, timeline_);
  const std::vector<Event>& events = EventsOf(model_.IndexOfThread(kMain));
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].start_ps, 0);
  EXPECT_EQ(events[0].duration_ps, timeline_.duration_ps);
  EXPECT_EQ(events[0].flags, Event::kOpen | Event::kClippedAtEnd | Event::kClippedAtStart);
  EXPECT_EQ(events[0].object, 77u);
}

TEST_F(DerivedEventsTest, OpenWaitOfEndedProcess_EndsWithIt) {
  AddThreads();
  facts_.processes.at(kProcess).end_ticks = 400'000;
  Build();
  WaitSince(300'000);
  AddOpenWaits(facts_, window_, host_, timeline_);
  const std::vector<RawEvent>& events = events_.Of(model_.IndexOfThread(kMain));
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].end(), 400'000u);
}

TEST_F(DerivedEventsTest, WaitBehindWindowOrOfNoOperation_IsNone) {
  AddThreads();
  Build();
  WaitSince(kClose);
  AddOpenWaits(facts_, window_, host_, timeline_);
  WaitSince(UINT64_MAX);
  AddOpenWaits(facts_, window_, host_, timeline_);
  WaitSince(5000).last.wait_operation = 99;
  AddOpenWaits(facts_, window_, host_, timeline_);
  WaitSince(0);
  AddOpenWaits(facts_, window_, host_, timeline_);
  EXPECT_THAT(events_.Of(model_.IndexOfThread(kMain)), IsEmpty());
}

TEST_F(DerivedEventsTest, WaitThatTheThreadLeft_IsNotOpen) {
  AddThreads();
  Build();
  ThreadFacts& thread = WaitSince(5000);
  thread.last_ticks = 5001;
  AddOpenWaits(facts_, window_, host_, timeline_);
  EXPECT_THAT(events_.Of(model_.IndexOfThread(kMain)), IsEmpty());
  thread.last.wait_resumed = 1;
  AddOpenWaits(facts_, window_, host_, timeline_);
  EXPECT_THAT(events_.Of(model_.IndexOfThread(kMain)), SizeIs(1));
}

TEST_F(DerivedEventsTest, CommandWithoutRecordedProcess_IsOneEvent) {
  Build();
  facts_.ended = true;
  facts_.end.ticks = 500'000;
  facts_.notes = {"static program"};
  timeline_.exit_code = 3;
  AddUnrecordedCommand(facts_, window_, "train.py", {"static program", "no library\xff"}, host_, &timeline_);
  ASSERT_THAT(timeline_.processes, SizeIs(1));
  EXPECT_TRUE(timeline_.processes[0].is_unrecorded);
  ASSERT_THAT(EventsOf(0), SizeIs(1));
  const Event& event = EventsOf(0)[0];
  EXPECT_EQ(event.duration_ps, (500'000 - 1000) * 1000);
  EXPECT_EQ(timeline_.types[event.type].name, "command not recorded, exit status 3");
  EXPECT_EQ(timeline_.strings.Get(event.detail), "exit status 3; static program; no library\\xff");
}

TEST_F(DerivedEventsTest, CommandThatEndedBeforeWindow_StillHasAnEvent) {
  Build();
  facts_.ended = true;
  facts_.end.ticks = 5;
  timeline_.exit_signal = 9;
  AddUnrecordedCommand(facts_, window_, "train.py", {}, host_, &timeline_);
  ASSERT_THAT(EventsOf(0), SizeIs(1));
  EXPECT_GT(EventsOf(0)[0].duration_ps, 0);
  EXPECT_THAT(timeline_.types[EventsOf(0)[0].type].name, HasSubstr("signal 9"));
}

TEST_F(DerivedEventsTest, ProcessOutsideWindow_MakesNoUnrecordedCommand) {
  AddProcess(kProcess, 100, 10, 500);
  Build();
  AddUnrecordedCommand(facts_, window_, "train.py", {}, host_, &timeline_);
  EXPECT_THAT(timeline_.processes, IsEmpty());
}

}  // namespace
}  // namespace tbprof
