// SPDX-License-Identifier: Apache-2.0
//
// Timelines from spools made by hand; every timeline also goes through the xplane output and its lint.
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <functional>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/writer/spool_maker.h"
#include "tests/unit/writer/string_sink.h"
#include "writer/outputs/xplane.h"

namespace tbprof {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string XplaneOf(const Timeline& timeline) {
  StringSink sink;
  EXPECT_TRUE(WriteXplane(timeline, sink).ok());
  return sink.bytes();
}

// Checks the guarantees of timeline.h for every timeline.
void ExpectValid(const Timeline& timeline, const std::string& what) {
  SCOPED_TRACE(what);
  const int64_t end = timeline.duration_ps;
  EXPECT_GT(end, 0);
  for (size_t i = 0; i < timeline.processes.size(); ++i) {
    const Process& process = timeline.processes[i];
    EXPECT_LT(process.parent, static_cast<int>(i)) << "no circles";
    EXPECT_LE(0, process.start_ps);
    EXPECT_LE(process.start_ps, process.end_ps);
    EXPECT_LE(process.end_ps, end);
    for (size_t o = 0; o < process.operations.size(); ++o) {
      const OperationTotal& total = process.operations[o];
      EXPECT_LT(total.type, timeline.types.size());
      EXPECT_GE(total.total_ps, 0);
      EXPECT_GE(total.longest_ps, 0);
      EXPECT_LE(total.recorded, total.calls);
      if (o > 0) {
        EXPECT_LE(total.total_ps, process.operations[o - 1].total_ps);
      }
    }
  }
  for (const EventType& type : timeline.types) {
    EXPECT_NE(type.name.substr(0, 5), "train");
    EXPECT_NE(type.name.substr(0, 4), "test");
  }
  for (size_t t = 0; t < timeline.threads.size(); ++t) {
    const Thread& thread = timeline.threads[t];
    EXPECT_LT(thread.process, timeline.processes.size());
    EXPECT_EQ(thread.line_id, t + 1);
    EXPECT_LE(0, thread.start_ps);
    EXPECT_LE(thread.start_ps, thread.end_ps);
    EXPECT_LE(thread.end_ps, end);
    std::vector<int64_t> ends;
    const Event* before = nullptr;
    for (const Event& event : thread.events) {
      ASSERT_LT(event.type, timeline.types.size());
      ASSERT_LT(event.call_site, timeline.strings.size());
      ASSERT_LT(event.detail, timeline.strings.size());
      ASSERT_GE(event.start_ps, 0);
      ASSERT_GE(event.duration_ps, 0);
      ASSERT_LE(event.start_ps, end);
      ASSERT_LE(event.duration_ps, end - event.start_ps);
      if (before != nullptr) {
        ASSERT_TRUE(before->start_ps < event.start_ps ||
                    (before->start_ps == event.start_ps && before->duration_ps >= event.duration_ps));
      }
      before = &event;
      while (!ends.empty() && ends.back() <= event.start_ps) ends.pop_back();
      if (!ends.empty()) {
        ASSERT_LE(event.start_ps + event.duration_ps, ends.back()) << "nested or apart";
      }
      ends.push_back(event.start_ps + event.duration_ps);
    }
  }
  for (const CallSiteTotal& site : timeline.wait_sites) {
    EXPECT_LT(site.site, timeline.strings.size());
    EXPECT_LT(site.type, timeline.types.size());
    EXPECT_GE(site.total_ps, 0);
    EXPECT_GE(site.longest_ps, 0);
  }
  for (const AllocationSiteTotal& site : timeline.allocation_sites) {
    for (const StringId frame : site.frames) EXPECT_LT(frame, timeline.strings.size());
  }
  for (const CounterTrack& track : timeline.counters) {
    EXPECT_LT(track.process, timeline.processes.size());
    for (size_t i = 0; i < track.samples.size(); ++i) {
      EXPECT_LE(0, track.samples[i].time_ps);
      EXPECT_LE(track.samples[i].time_ps, end);
      if (i > 0) {
        EXPECT_LE(track.samples[i - 1].time_ps, track.samples[i].time_ps);
      }
    }
  }
  for (const Step& step : timeline.steps) EXPECT_LT(step.thread, timeline.threads.size());
}

void ExpectLintClean(const Timeline& timeline, const std::string& what) {
  const TemporaryPath file("xplane");
  file.Write(XplaneOf(timeline));
  const auto counts = LintXplane(file.path(), timeline.host);
  EXPECT_TRUE(counts.ok()) << what << ": " << counts.status();
  if (counts.ok()) {
    EXPECT_EQ(*counts, ExpectedXplane(timeline)) << what;
  }
}

Timeline BuildGood(const SpoolMaker& spool, const TimelineRequest& request = {}) {
  auto timeline = spool.Build(request);
  EXPECT_TRUE(timeline.ok()) << timeline.status();
  if (!timeline.ok()) return {};
  ExpectValid(*timeline, "");
  ExpectLintClean(*timeline, "");
  return std::move(*timeline);
}

std::vector<Event> EventsNamed(const Timeline& timeline, const std::string& name, size_t thread = 0) {
  std::vector<Event> events;
  if (thread >= timeline.threads.size()) return events;
  for (const Event& event : timeline.threads[thread].events) {
    if (timeline.types[event.type].name == name) events.push_back(event);
  }
  return events;
}

const OperationTotal* TotalNamed(const Timeline& timeline, const std::string& name, size_t process = 0) {
  for (const OperationTotal& total : timeline.processes.at(process).operations) {
    if (timeline.types[total.type].name == name) return &total;
  }
  return nullptr;
}

const std::vector<OperationRow> kRows = {
    {"read", kFamilyIo, ObjectRole::kDescriptor, ResultRole::kBytes},
    {"pthread_mutex_lock", kFamilyLock, ObjectRole::kAddress, ResultRole::kStatus},
    {"pthread_create", kFamilyThread, ObjectRole::kThread, ResultRole::kStatus},
    {"waitpid", kFamilyProcess, ObjectRole::kProcessId, ResultRole::kProcessId},
    {"execve", kFamilyProcess, ObjectRole::kNone, ResultRole::kStatus},
    {"poll", kFamilyIo, ObjectRole::kNone, ResultRole::kCount},
    {"malloc", kFamilyMalloc, ObjectRole::kAddress, ResultRole::kNone},
};
constexpr uint16_t kRead = 0, kLock = 1, kCreate = 2, kWait = 3, kExecve = 4, kPoll = 5;

// One process, pid 100, one thread, both from 500; the window opens at 1000.
SpoolMaker One(uint64_t open = 1000) {
  SpoolMaker spool;
  spool.Session(open).Segment(1, kRows).Process(1, 1, 100, 500).Thread(1, 1, 1, 100, 500);
  return spool;
}

TEST(TimelineBuilder, ThreadsThatCouldNotBeStarted_AreAWarning) {
  SpoolMaker spool = One();
  spool.Chunk(1, 1, 1).Span(kCreate, 2000, 500, 0, EAGAIN, EAGAIN).Span(kCreate, 3000, 500, 0, EAGAIN, EAGAIN);
  spool.Span(kCreate, 4000, 500, 0, EINVAL, EINVAL).Span(kRead, 5000, 50, 8, -1, EAGAIN);
  EXPECT_THAT(BuildGood(spool.EndChunk().End(10000)).warnings,
              testing::Contains(HasSubstr("2 threads could not be started")));
  SpoolMaker other = One();
  EXPECT_THAT(BuildGood(other.End(10000)).warnings, testing::Not(testing::Contains(HasSubstr("not be started"))));
}

TEST(TimelineBuilder, EndBySystemCallFilter_IsExplained) {
  SpoolMaker spool = One();
  EXPECT_THAT(BuildGood(spool.End(10000, -1, SIGSYS)).warnings, testing::Contains(HasSubstr("a system call filter")));
}

TEST(TimelineBuilder, Spans_BecomeEvents) {
  SpoolMaker spool = One();
  spool.Chunk(1, 1, 1)
      .Span(kRead, 2000, 500, 7, 4096)
      .Span(kLock, 3000, 100, 0xabc0)
      .Span(kRead, 4000, 50, 8, -1, EAGAIN)
      .Span(kWait, 5000, 10, 101, 101)
      .Span(kPoll, 6000, 10, 0, 3)
      .EndChunk()
      .End(10000, 3, 0);
  const Timeline timeline = BuildGood(spool);
  ASSERT_EQ(timeline.threads.size(), 1u);
  EXPECT_EQ(timeline.host, "node1");
  EXPECT_EQ(timeline.run, "2026_01_02_03_04_05");
  EXPECT_EQ(timeline.duration_ps, 9'000'000);
  EXPECT_EQ(timeline.origin_unix_ns, 1'700'000'000'000'001'000u);
  EXPECT_EQ(timeline.exit_code, 3);
  EXPECT_EQ(timeline.records, 5u);
  EXPECT_EQ(timeline.corrupt_records, 0u);
  EXPECT_TRUE(timeline.drops.empty());
  const std::vector<Event>& events = timeline.threads[0].events;
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events[0].start_ps, 1'000'000);
  EXPECT_EQ(events[0].duration_ps, 500'000);
  EXPECT_EQ(events[0].object, 7u);
  EXPECT_EQ(events[0].value, 4096);
  EXPECT_EQ(events[0].flags, 0);
  EXPECT_EQ(timeline.types[events[0].type].name, "read");
  EXPECT_EQ(timeline.types[events[0].type].object, ObjectKind::kDescriptor);
  EXPECT_EQ(timeline.types[events[0].type].value, ValueKind::kBytes);
  EXPECT_EQ(timeline.types[events[0].type].family, EventFamily::kIo);
  EXPECT_EQ(timeline.types[events[1].type].object, ObjectKind::kAddress);
  EXPECT_EQ(events[2].error, EAGAIN);
  EXPECT_EQ(events[2].flags, Event::kFailed);
  EXPECT_EQ(timeline.types[events[3].type].value, ValueKind::kProcessId);
  EXPECT_EQ(timeline.types[events[4].type].value, ValueKind::kResult);
  EXPECT_TRUE(timeline.threads[0].is_main);
  EXPECT_TRUE(timeline.processes[0].is_command);
  EXPECT_EQ(timeline.processes[0].pid, 100);
  EXPECT_EQ(timeline.processes[0].records, 5u);
  const OperationTotal* reads = TotalNamed(timeline, "read");
  ASSERT_NE(reads, nullptr);
  EXPECT_EQ(reads->calls, 2u);
  EXPECT_EQ(reads->recorded, 2u);
  EXPECT_EQ(reads->total_ps, 550'000);
  EXPECT_EQ(reads->longest_ps, 500'000);
}

TEST(TimelineBuilder, SpansOfBothSizes_AreEqual) {
  SpoolMaker spool = One();
  SpanRecord whole{};
  whole.start = 3000;
  whole.ticks = 40;
  whole.object = 5;
  whole.result = -1;
  whole.error = EINTR;
  spool.Chunk(1, 1, 1)
      .Span(kRead, 2000, 40, 5, -1, EINTR)
      .Add(RecordKind::kSpan, whole, kRead, kRecordFailed)
      .EndChunk();
  const Timeline timeline = BuildGood(spool);
  ASSERT_EQ(timeline.threads[0].events.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    const Event& event = timeline.threads[0].events.at(i);
    EXPECT_EQ(event.object, 5u);
    EXPECT_EQ(event.value, -1);
    EXPECT_EQ(event.error, EINTR);
    EXPECT_EQ(event.duration_ps, timeline.threads[0].events.at(0).duration_ps);
  }
}

TEST(TimelineBuilder, TimeFarBehindAllOthers_IsCorrupt) {
  SpoolMaker spool = One();
  spool.Chunk(1, 1, 1).Span(kRead, 2000, 5).Span(kRead, uint64_t{1} << 55, 5).EndChunk();
  const Timeline timeline = BuildGood(spool);
  EXPECT_EQ(timeline.threads[0].events.size(), 1u);
  EXPECT_EQ(timeline.corrupt_records, 1u);
}

TEST(TimelineBuilder, CorruptEndOfAThread_LeavesItsCalls) {
  SpoolMaker spool = One();
  ThreadFact fact = SpoolMaker::MakeThread(1, 1, 100, 500);
  fact.end_ticks = UINT64_MAX;
  spool.Chunk(1, 1, 1).Span(kRead, 2000, 5).EndChunk().Thread(1, fact);
  const Timeline timeline = BuildGood(spool);
  EXPECT_EQ(timeline.threads[0].events.size(), 1u);
  EXPECT_EQ(timeline.corrupt_records, 0u);
}

TEST(TimelineBuilder, ErrorNumberWithoutTheFlag_IsNoError) {
  SpoolMaker spool = One();
  SpanRecord span{};
  span.start = 2000;
  span.ticks = 5;
  span.error = EIO;
  spool.Chunk(1, 1, 1).Add(RecordKind::kSpan, span, kRead).EndChunk();
  const Timeline timeline = BuildGood(spool);
  EXPECT_EQ(timeline.threads[0].events.at(0).error, 0);
}

TEST(TimelineBuilder, CallSites_AreSummedByPlaceAndOperation) {
  SpoolMaker spool = One();
  spool.Chunk(1, 1, 1).Module(0x7f0000000000, 0x7f0000100000, "/nonexistent/libx.so");
  for (uint64_t i = 0; i < 10; ++i) spool.Span(kRead, 2000 + i * 100, 10 + i, 0, 0, 0, 0x7f0000001000);
  spool.Span(kLock, 5000, 1000, 0, 0, 0, 0x7f0000001000).Span(kLock, 7000, 7).EndChunk().End(10000);
  const Timeline timeline = BuildGood(spool);
  ASSERT_EQ(timeline.wait_sites.size(), 2u);
  EXPECT_EQ(timeline.wait_sites[0].total_ps, 1'000'000);
  EXPECT_EQ(timeline.wait_sites[1].calls, 10u);
  EXPECT_EQ(timeline.wait_sites[1].total_ps, 145'000);
  EXPECT_EQ(timeline.wait_sites[1].longest_ps, 19'000);
  EXPECT_THAT(timeline.strings.Get(timeline.wait_sites[0].site), HasSubstr("libx.so"));
  EXPECT_EQ(timeline.threads[0].events[0].call_site, timeline.wait_sites[1].site);
  EXPECT_EQ(EventsNamed(timeline, "pthread_mutex_lock")[1].call_site, 0u);
}

TEST(TimelineBuilder, SpansAcrossTheWindow_AreCutAtBothBorders) {
  SpoolMaker spool = One(10'000);
  spool.Chunk(1, 1, 1)
      .Span(kRead, 1000, 8999)   // ends before
      .Span(kRead, 1000, 9000)   // ends on the border
      .Span(kLock, 9000, 2000)   // ends inside
      .Span(kRead, 12000, 100)   // inside
      .Span(kPoll, 19000, 5000)  // begins inside
      .Span(kRead, 20000, 100)   // begins on the border
      .Span(kRead, 25000, 100)
      .EndChunk()
      .Window(0, WindowEvent::kClosed, 20'000)
      .End(30'000);
  const Timeline timeline = BuildGood(spool);
  EXPECT_EQ(timeline.duration_ps, 10'000'000);
  const std::vector<Event>& events = timeline.threads[0].events;
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].start_ps, 0);
  EXPECT_EQ(events[0].duration_ps, 1'000'000);
  EXPECT_EQ(events[0].flags, Event::kClippedAtStart);
  EXPECT_EQ(events[1].flags, 0);
  EXPECT_EQ(events[2].duration_ps, 1'000'000);
  EXPECT_EQ(events[2].flags, Event::kClippedAtEnd);
  EXPECT_EQ(timeline.records, 3u);
  EXPECT_EQ(TotalNamed(timeline, "pthread_mutex_lock")->total_ps, 1'000'000) << "only what lies in the window counts";
}

TEST(TimelineBuilder, SpanOverTheWholeWindow_IsCutToIt) {
  SpoolMaker spool = One(10'000);
  spool.Chunk(1, 1, 1).Span(kRead, 600, 50'000).EndChunk().Window(0, WindowEvent::kClosed, 20'000);
  const Timeline timeline = BuildGood(spool);
  const Event event = timeline.threads[0].events.at(0);
  EXPECT_EQ(event.duration_ps, timeline.duration_ps);
  EXPECT_EQ(event.flags, Event::kClippedAtStart | Event::kClippedAtEnd);
}

TEST(TimelineBuilder, Capture_ShowsItsOwnWindow) {
  SpoolMaker spool = One();
  spool.Window(1, WindowEvent::kOpened, 5000).Chunk(1, 1, 1).Span(kRead, 2000, 10).Span(kRead, 5500, 10).EndChunk();
  spool.Window(1, WindowEvent::kClosed, 6000).Window(2, WindowEvent::kOpened, 7000);
  spool.Chunk(1, 1, 1).Span(kLock, 7500, 10).EndChunk().Window(2, WindowEvent::kClosed, 8000).End(9000);
  TimelineRequest request;
  request.window = 1;
  Timeline timeline = BuildGood(spool, request);
  EXPECT_EQ(timeline.window, "capture 1");
  EXPECT_EQ(timeline.duration_ps, 1'000'000);
  ASSERT_EQ(timeline.threads[0].events.size(), 1u);
  EXPECT_EQ(timeline.threads[0].events[0].start_ps, 500'000);
  request.window = 2;
  timeline = BuildGood(spool, request);
  EXPECT_EQ(EventsNamed(timeline, "pthread_mutex_lock").size(), 1u);
  EXPECT_EQ(timeline.threads[0].events.size(), 1u);
  request.window = 0;
  EXPECT_EQ(BuildGood(spool, request).threads[0].events.size(), 3u);
}

TEST(TimelineBuilder, OpenWaits_EndWithTheWindow) {
  SpoolMaker spool = One();
  ThreadFact waiting = SpoolMaker::MakeThread(2, 1, 102, 600);
  waiting.wait_since = 4000;
  waiting.wait_operation = kLock;
  waiting.wait_object = 0xbeef;
  waiting.wait_site = 0x401000;
  waiting.taken_ticks = 8000;
  ThreadFact stale = SpoolMaker::MakeThread(3, 1, 103, 600);
  stale.wait_since = 2000;  // left by longjmp: the thread has continued since
  stale.wait_operation = kRead;
  stale.taken_ticks = 8000;
  ThreadFact early = SpoolMaker::MakeThread(4, 1, 104, 600);
  early.wait_since = 700;
  early.wait_operation = kRead;
  early.taken_ticks = 8000;
  spool.Thread(1, waiting).Thread(1, stale).Thread(1, early);
  spool.Chunk(1, 1, 3).Span(kRead, 3000, 10).EndChunk().Window(0, WindowEvent::kClosed, 9000).End(10000);
  const Timeline timeline = BuildGood(spool);
  ASSERT_EQ(timeline.threads.size(), 4u);
  ASSERT_EQ(timeline.threads[1].events.size(), 1u);
  const Event wait = timeline.threads[1].events[0];
  EXPECT_EQ(wait.start_ps, 3'000'000);
  EXPECT_EQ(wait.duration_ps, 5'000'000);
  EXPECT_EQ(wait.object, 0xbeefu);
  EXPECT_EQ(wait.flags, Event::kClippedAtEnd | Event::kOpen);
  EXPECT_NE(wait.call_site, 0u);
  EXPECT_EQ(timeline.threads[2].events.size(), 1u);
  EXPECT_EQ(timeline.threads[2].events[0].duration_ps, 10'000);
  EXPECT_EQ(timeline.threads[3].events.at(0).flags, Event::kClippedAtStart | Event::kClippedAtEnd | Event::kOpen);
  EXPECT_EQ(timeline.threads[3].events[0].duration_ps, timeline.duration_ps);
  EXPECT_EQ(TotalNamed(timeline, "pthread_mutex_lock")->calls, 1u);
}

TEST(TimelineBuilder, OpenWait_EndsWithItsProcess) {
  SpoolMaker spool;
  spool.Session().Segment(1, kRows).Process(1, 1, 100, 500, 6000);
  ThreadFact waiting = SpoolMaker::MakeThread(1, 1, 100, 500);
  waiting.wait_since = 4000;
  waiting.wait_operation = kRead;
  waiting.taken_ticks = 6000;
  spool.Thread(1, waiting).End(10000, -1, 9);
  const Timeline timeline = BuildGood(spool);
  EXPECT_EQ(timeline.threads[0].events.at(0).duration_ps, 2'000'000);
  EXPECT_EQ(timeline.threads[0].end_ps, 5'000'000);
  EXPECT_EQ(timeline.exit_signal, 9);
}

TEST(TimelineBuilder, Threads_AreLinkedToTheirCreation) {
  SpoolMaker spool = One();
  spool.Chunk(1, 1, 1)
      .Span(kCreate, 2000, 50, 0x7000)
      .Span(kCreate, 3000, 50, 0x7001)
      .Span(kCreate, 4000, 50)
      .EndChunk();
  spool.Thread(1, 2, 1, 102, 2060).Chunk(1, 1, 2).ThreadStart(2060, 102, 1, 2000).EndChunk();
  spool.Thread(1, 3, 1, 103, 3055).Chunk(1, 1, 3).ThreadStart(3055, 103, 1, 3000).ThreadExit(5000).EndChunk();
  spool.End(9000);
  const Timeline timeline = BuildGood(spool);
  ASSERT_EQ(timeline.threads.size(), 3u);
  const std::vector<Event> created = EventsNamed(timeline, "pthread_create");
  ASSERT_EQ(created.size(), 3u);
  EXPECT_EQ(timeline.types[created[0].type].value, ValueKind::kFlowOut);
  for (size_t i = 0; i < 2; ++i) {
    const Thread& child = timeline.threads[i + 1];
    EXPECT_NE(child.flow_id, 0u);
    EXPECT_EQ(static_cast<uint64_t>(created[i].value), child.flow_id);
    const std::vector<Event> started = EventsNamed(timeline, "thread start", i + 1);
    ASSERT_EQ(started.size(), 1u);
    EXPECT_EQ(static_cast<uint64_t>(started[0].value), child.flow_id);
    EXPECT_EQ(timeline.types[started[0].type].value, ValueKind::kFlowIn);
  }
  EXPECT_EQ(created[2].value, 0) << "one whose thread never recorded";
  EXPECT_EQ(timeline.threads[0].flow_id, 0u);
  EXPECT_EQ(timeline.threads[2].end_ps, 4'000'000);
}

TEST(TimelineBuilder, ThreadNames_LastOneIsUsed) {
  SpoolMaker spool = One();
  ThreadFact named = SpoolMaker::MakeThread(2, 1, 102, 600);
  memcpy(named.name, "fromslot", 9);
  ThreadFact full = SpoolMaker::MakeThread(3, 1, 103, 600);
  memset(full.name, 'x', sizeof(full.name));
  spool.Thread(1, named).Thread(1, full).Thread(1, 4, 1, 104, 600).Thread(1, 5, 1, 105, 600);
  spool.Chunk(1, 1, 1)
      .ThreadName(2000, "main\xff")
      .ThreadName(2001, "worker four", 4)
      .ThreadName(2002, "five", 0, 105)
      .EndChunk();
  const Timeline timeline = BuildGood(spool);
  ASSERT_EQ(timeline.threads.size(), 5u);
  EXPECT_EQ(timeline.threads[0].name, "main\xff");
  EXPECT_EQ(timeline.threads[1].name, "fromslot");
  EXPECT_EQ(timeline.threads[2].name, std::string(16, 'x'));
  EXPECT_EQ(timeline.threads[3].name, "worker four");
  EXPECT_EQ(timeline.threads[4].name, "five");
}

TEST(TimelineBuilder, ReusedThreadNumber_KeepsEachName) {
  SpoolMaker spool = One();
  spool.Thread(1, 2, 1, 102, 1100, 2000).Thread(1, 3, 1, 102, 3000);
  spool.Chunk(1, 1, 1).ThreadName(1500, "first", 0, 102).ThreadName(3500, "second", 0, 102).EndChunk().End(9000);
  const Timeline timeline = BuildGood(spool);
  ASSERT_EQ(timeline.threads.size(), 3u);
  EXPECT_EQ(timeline.threads[1].name, "first");
  EXPECT_EQ(timeline.threads[2].name, "second");
}

TEST(TimelineBuilder, ForkChild_HasItsParentsImage) {
  SpoolMaker spool = One();
  spool.Chunk(1, 1, 1)
      .Info(ProcessInfoKey::kExecutable, "/usr/bin/python3")
      .Info(ProcessInfoKey::kArgument, "python3")
      .Info(ProcessInfoKey::kArgument, "train.py")
      .Info(ProcessInfoKey::kRank, "RANK=3")
      .Module(0x7f0000000000, 0x7f0000100000, "/nonexistent/libparent.so")
      .EndChunk();
  spool.Process(1, SpoolMaker::MakeProcess(2, 200, 3000, 8000, 1)).Thread(1, 2, 2, 200, 3000);
  spool.Chunk(1, 2, 2).Span(kRead, 4000, 10, 0, 0, 0, 0x7f0000001000).EndChunk();
  spool.Process(1, SpoolMaker::MakeProcess(3, 300, 5000, 0, 2)).Thread(1, 3, 3, 300, 5000);
  spool.End(9000);
  const Timeline timeline = BuildGood(spool);
  ASSERT_EQ(timeline.processes.size(), 3u);
  EXPECT_FALSE(timeline.processes[0].forked);
  for (size_t i = 1; i < 3; ++i) {
    EXPECT_TRUE(timeline.processes[i].forked);
    EXPECT_EQ(timeline.processes[i].parent, static_cast<int>(i) - 1);
    EXPECT_EQ(timeline.processes[i].name, "train.py");
    EXPECT_EQ(timeline.processes[i].rank, 3);
    EXPECT_THAT(timeline.processes[i].arguments, ElementsAre("python3", "train.py"));
  }
  EXPECT_EQ(timeline.processes[1].end_ps, 7'000'000);
  ASSERT_EQ(EventsNamed(timeline, "read", 1).size(), 1u);
  EXPECT_THAT(timeline.strings.Get(EventsNamed(timeline, "read", 1)[0].call_site), HasSubstr("libparent.so"));
}

TEST(TimelineBuilder, Exec_IsTheNextIncarnation) {
  SpoolMaker spool = One();
  spool.Chunk(1, 1, 1)
      .Info(ProcessInfoKey::kExecutable, "/bin/sh")
      .Span(kRead, 2000, 10)
      .Exec(kExecve, 3000, "/usr/bin/work")
      .EndChunk();
  spool.Segment(2, kRows, 3100).Process(2, 1, 100, 3100).Thread(2, 1, 1, 100, 3100);
  spool.Chunk(2, 1, 1).Info(ProcessInfoKey::kExecutable, "/usr/bin/work").Span(kLock, 4000, 10).EndChunk().End(9000);
  const Timeline timeline = BuildGood(spool);
  ASSERT_EQ(timeline.processes.size(), 2u);
  EXPECT_EQ(timeline.processes[1].parent, 0);
  EXPECT_EQ(timeline.processes[1].name, "work");
  EXPECT_FALSE(timeline.processes[1].forked);
  const std::vector<Event> execs = EventsNamed(timeline, "execve");
  ASSERT_EQ(execs.size(), 1u);
  EXPECT_EQ(execs[0].duration_ps, 0);
  EXPECT_EQ(timeline.strings.Get(execs[0].detail), "/usr/bin/work");
  EXPECT_TRUE(timeline.warnings.empty());
}

TEST(TimelineBuilder, ExecWithoutOurEnvironment_IsAWarning) {
  SpoolMaker spool = One();
  spool.Chunk(1, 1, 1).Exec(kExecve, 3000, "/usr/bin/env", kRecordEnvironmentLost).EndChunk();
  const Timeline timeline = BuildGood(spool);
  ASSERT_EQ(timeline.warnings.size(), 1u);
  EXPECT_THAT(timeline.warnings[0], HasSubstr("/usr/bin/env"));
}

ThreadFact Counting(ThreadFact fact, uint64_t taken, uint64_t allocations, uint64_t bytes) {
  fact.taken_ticks = taken;
  fact.allocations = allocations;
  fact.frees = allocations / 2;
  fact.allocated_bytes = bytes;
  fact.freed_bytes = bytes / 2;
  return fact;
}

TEST(TimelineBuilder, AllocatorTotals_AreSummedOverThreads) {
  SpoolMaker spool = One();
  spool.Thread(1, Counting(SpoolMaker::MakeThread(1, 1, 100, 500), 5000, 10, 1000));
  spool.Thread(1, Counting(SpoolMaker::MakeThread(1, 1, 100, 500), 8000, 100, 10000));
  spool.Thread(1, Counting(SpoolMaker::MakeThread(2, 1, 101, 2000, 3000), 3000, 8, 80));
  ProcessFact process = SpoolMaker::MakeProcess(1, 100, 500, 8500);
  process.late_frees = 3;
  process.late_freed_bytes = 30;
  process.late_allocations = 1;
  process.late_allocated_bytes = 5;
  process.peak_bytes = 7777;
  spool.Process(1, process).End(9000);
  const AllocatorTotals totals = BuildGood(spool).processes.at(0).allocator;
  EXPECT_EQ(totals.allocations, 100u + 8 + 1);
  EXPECT_EQ(totals.frees, 50u + 4 + 3);
  EXPECT_EQ(totals.allocated_bytes, 10000u + 80 + 5);
  EXPECT_EQ(totals.freed_bytes, 5000u + 40 + 30);
  EXPECT_EQ(totals.live_bytes, 10085 - 5070);
  EXPECT_EQ(totals.peak_bytes, 7777);
}

// A capture counts from its own opening, independent of earlier captures.
TEST(TimelineBuilder, Captures_CountDifferences) {
  SpoolMaker spool;
  spool.Session().Segment(1, kRows);
  const auto thread = [&](uint32_t serial, uint64_t start, uint64_t end, uint64_t taken, uint64_t count) {
    ThreadFact fact = Counting(SpoolMaker::MakeThread(serial, 1, 99 + static_cast<int>(serial), start, end), taken,
                               count, count * 10);
    fact.dropped[kDropNoChunk] = count;
    spool.Thread(1, fact, {{kRead, 0, count, count * 100}});
  };
  const auto process = [&](uint64_t taken, uint64_t late) {
    ProcessFact fact = SpoolMaker::MakeProcess(1, 100, 500);
    fact.taken_ticks = taken;
    fact.late_allocations = late;
    fact.dropped[kDropNoThreadSlot] = late;
    spool.Process(1, fact);
  };
  process(1000, 2);
  thread(1, 500, 0, 900, 100);
  thread(2, 600, 1800, 1800, 5000);  // gone before the capture
  thread(1, 500, 0, 1900, 300);
  process(1900, 4);
  spool.Window(1, WindowEvent::kOpened, 2000);
  thread(1, 500, 0, 2900, 1000);
  thread(3, 2500, 0, 2900, 7);  // born inside
  thread(1, 500, 0, 4100, 1300);
  thread(3, 2500, 0, 4100, 9);
  process(4100, 10);
  spool.Window(1, WindowEvent::kClosed, 4000);
  thread(1, 500, 0, 8000, 9999);
  process(8000, 99);
  spool.End(9000);
  TimelineRequest request;
  request.window = 1;
  const Timeline timeline = BuildGood(spool, request);
  ASSERT_EQ(timeline.processes.size(), 1u);
  EXPECT_EQ(timeline.processes[0].allocator.allocations, 1300u - 300 + 9 + 6);
  const OperationTotal* reads = TotalNamed(timeline, "read");
  ASSERT_NE(reads, nullptr);
  EXPECT_EQ(reads->calls, 1300u - 300 + 9);
  EXPECT_EQ(reads->recorded, 0u);
  EXPECT_EQ(reads->total_ps, (1300 - 300 + 9) * 100'000);
  ASSERT_EQ(timeline.drops.size(), 2u);
  EXPECT_EQ(timeline.drops[0].records, 1300u - 300 + 9);
  EXPECT_EQ(timeline.drops[1].records, 6u);
}

TEST(TimelineBuilder, ShortCalls_AreInTheTotals) {
  SpoolMaker spool = One();
  ThreadFact fact = SpoolMaker::MakeThread(1, 1, 100, 500);
  fact.taken_ticks = 8000;
  spool.Thread(1, fact, {{kRead, 0, 40, 4000}, {kLock, 0, 5, 50}, {159, 0, 5, 5}, {4'000'000, 0, 5, 5}});
  spool.Chunk(1, 1, 1).Span(kRead, 2000, 500).EndChunk().End(9000);
  const Timeline timeline = BuildGood(spool);
  const OperationTotal* reads = TotalNamed(timeline, "read");
  ASSERT_NE(reads, nullptr);
  EXPECT_EQ(reads->calls, 41u);
  EXPECT_EQ(reads->recorded, 1u);
  EXPECT_EQ(reads->total_ps, 4'500'000);
  EXPECT_EQ(reads->longest_ps, 500'000);
  EXPECT_EQ(TotalNamed(timeline, "pthread_mutex_lock")->calls, 5u);
  EXPECT_EQ(timeline.processes[0].operations.size(), 2u);
  EXPECT_EQ(timeline.threads[0].events.size(), 1u);
}

// 20,000 spans, one after the other.
SpoolMaker Many(const std::function<uint64_t()>& next_length) {
  SpoolMaker spool = One();
  uint64_t at = 2000;
  for (int c = 0; c < 20; ++c) {
    spool.Chunk(1, 1, 1);
    for (int i = 0; i < 1000; ++i) {
      const uint64_t length = next_length();
      spool.Span(kRead, at, length);
      at += length + 10;
    }
    spool.EndChunk();
  }
  spool.End(at);
  return spool;
}

TEST(TimelineBuilder, OverBudget_LongestEventsAreKept) {
  std::mt19937 random(5);
  std::vector<uint64_t> lengths;
  const SpoolMaker spool = Many([&] {
    lengths.push_back(100 + static_cast<uint64_t>(std::exp2(random() % 1000 / 50.0)));
    return lengths.back();
  });
  TimelineRequest request;
  request.max_profile_size = 4000 * 24;
  const Timeline timeline = BuildGood(spool, request);
  const size_t shown = timeline.threads[0].events.size();
  EXPECT_LE(shown, 4000u);
  EXPECT_GE(shown, 2000u) << "the budget is used";
  EXPECT_EQ(shown + timeline.events_over_budget, lengths.size());
  EXPECT_GT(timeline.shortest_shown_ps, 0);
  size_t wanted = 0;
  int64_t start_ps = static_cast<int64_t>(2000 - 1000) * 1000;
  for (const uint64_t length : lengths) {
    const bool in_detail = start_ps >= timeline.full_detail.start_ps && start_ps < timeline.full_detail.end_ps;
    wanted += in_detail || static_cast<int64_t>(length) * 1000 >= timeline.shortest_shown_ps ? 1 : 0;
    start_ps += static_cast<int64_t>(length + 10) * 1000;
  }
  EXPECT_EQ(shown, wanted) << "exactly those that are as long as is said, and those of the full detail";
  EXPECT_EQ(TotalNamed(timeline, "read")->calls, lengths.size()) << "totals know nothing of the budget";
  EXPECT_EQ(timeline.records, lengths.size());
  request.max_profile_size = 64u << 20;
  const Timeline all = BuildGood(spool, request);
  EXPECT_EQ(all.threads[0].events.size(), lengths.size());
  EXPECT_EQ(all.events_over_budget, 0u);
  EXPECT_EQ(all.shortest_shown_ps, 0);
}

// The waits have nearly the same length (within 1 %), as for one timer.
TEST(TimelineBuilder, EventsOfOneLength_BudgetIsFilled) {
  std::mt19937 random(6);
  const SpoolMaker spool = Many([&] { return 100'000 + random() % 500; });
  TimelineRequest request;
  request.max_profile_size = 4000 * 24;
  const Timeline timeline = BuildGood(spool, request);
  const std::vector<Event>& events = timeline.threads[0].events;
  EXPECT_LE(events.size(), 4000u);
  EXPECT_GE(events.size(), 2500u) << "the budget is used";
  EXPECT_EQ(events.size() + timeline.events_over_budget, 20'000u);
  EXPECT_LT(timeline.shortest_shown_ps, timeline.all_shown_from_ps);
  // About the same share is kept in each twentieth of the time that has no full detail.
  std::vector<int> parts(20);
  for (const Event& event : events) ++parts[static_cast<size_t>(event.start_ps * 20 / timeline.duration_ps)];
  const auto part_of = [&](int64_t at_ps) { return at_ps * 20 / timeline.duration_ps; };
  const int64_t first = part_of(timeline.full_detail.start_ps), last = part_of(timeline.full_detail.end_ps);
  ASSERT_LE(last - first, 3);
  parts.erase(parts.begin() + first, parts.begin() + std::min<int64_t>(last + 1, 20));
  const auto [fewest, most] = std::minmax_element(parts.begin(), parts.end());
  EXPECT_GT(*fewest, *most / 2);
  EXPECT_EQ(TotalNamed(timeline, "read")->calls, 20'000u);
}

// Steps are found by short ranges: the budget drops other events first.
TEST(TimelineBuilder, OverBudget_RangesOfPytorchsStepsAreKept) {
  SpoolMaker spool = One();
  const std::string_view texts[] = {"enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
                                    "Optimizer.step#SGD.step", "aten::mm"};
  spool.Chunk(1, 1, 1);
  for (uint64_t name = 1; name <= 3; ++name) {
    AnnotationNameRecord record{};
    record.number = name;
    record.text_length = texts[name - 1].size();
    spool.Add(RecordKind::kAnnotationName, record, static_cast<uint16_t>(AnnotationNameKey::kName), 0, texts[name - 1]);
  }
  uint64_t at = 2000;
  const auto range = [&](uint64_t name, TorchScope scope, uint64_t length) {
    AnnotationRecord record{};
    record.ticks = at;
    record.name = name;
    record.category = static_cast<uint32_t>(scope);
    spool.Add(RecordKind::kAnnotation, record, kTorchDomain, static_cast<uint8_t>(AnnotationAction::kPush));
    record.ticks = at += length;
    spool.Add(RecordKind::kAnnotation, record, kTorchDomain, static_cast<uint8_t>(AnnotationAction::kPop));
    at += 10;
  };
  constexpr uint64_t kSteps = 200;
  for (uint64_t step = 0; step < kSteps; ++step) {
    range(1, TorchScope::kUser, 50);
    for (uint64_t i = 0; i < 30; ++i) range(3, TorchScope::kOperation, 100 + i * 10);
    range(2, TorchScope::kUser, 50);
    spool.EndChunk().Chunk(1, 1, 1);
  }
  spool.EndChunk().End(at + 1000);
  TimelineRequest request;
  request.max_profile_size = 4000 * 24;
  const Timeline timeline = BuildGood(spool, request);
  EXPECT_GT(timeline.events_over_budget, 1000u);
  EXPECT_EQ(EventsNamed(timeline, "Optimizer.step#SGD.step").size(), kSteps);
  EXPECT_EQ(timeline.step_source, StepSource::kFramework);
  EXPECT_EQ(timeline.step_source_text, "Optimizer.step");
  EXPECT_GE(timeline.steps.size(), kSteps - 1);
}

TEST(TimelineBuilder, Shapes_AreTextsOfTheirOperation) {
  SpoolMaker spool = One();
  const std::string_view texts[] = {"aten::mm", "[[32, 64], [\xff]]", "enumerate(DataLoader)#Loader.__next__"};
  spool.Chunk(1, 1, 1);
  for (uint64_t name = 1; name <= 3; ++name) {
    AnnotationNameRecord record{};
    record.number = name;
    record.text_length = texts[name - 1].size();
    spool.Add(RecordKind::kAnnotationName, record, static_cast<uint16_t>(AnnotationNameKey::kName), 0, texts[name - 1]);
  }
  uint64_t at = 2000;
  const auto range = [&](uint64_t name, TorchScope scope, PayloadType type, uint64_t shapes) {
    AnnotationRecord push{};
    push.ticks = at;
    push.name = name;
    push.category = static_cast<uint32_t>(scope);
    AnnotationPayload payload{};
    payload.type = type;
    payload.bits = 7;
    payload.shapes = shapes;
    spool.Add(RecordKind::kAnnotation, push, kTorchDomain, static_cast<uint8_t>(AnnotationAction::kPush),
              {reinterpret_cast<const char*>(&payload), sizeof(payload)});
    AnnotationRecord pop{};
    pop.ticks = at += 100;
    spool.Add(RecordKind::kAnnotation, pop, kTorchDomain, static_cast<uint8_t>(AnnotationAction::kPop));
    at += 10;
  };
  range(1, TorchScope::kOperation, PayloadType::kSigned, 2);
  range(1, TorchScope::kOperation, PayloadType{}, 2);
  range(1, TorchScope::kOperation, PayloadType{}, 1);
  range(1, TorchScope::kOperation, PayloadType{}, 4711);
  range(3, TorchScope::kUser, PayloadType{}, 2);
  spool.EndChunk().End(at + 1000);
  const Timeline timeline = BuildGood(spool);
  std::vector<std::string> shapes;
  for (const Event& event : EventsNamed(timeline, "aten::mm")) shapes.push_back(timeline.strings.Get(event.call_site));
  EXPECT_THAT(shapes, testing::ElementsAre("[[32, 64], [\\xff]]", "[[32, 64], [\\xff]]", "", ""));
  EXPECT_EQ(timeline.types[EventsNamed(timeline, "aten::mm")[0].type].value, ValueKind::kSequence);
  EXPECT_EQ(timeline.types[EventsNamed(timeline, "aten::mm")[1].type].value, ValueKind::kNone);
  EXPECT_EQ(EventsNamed(timeline, "enumerate(DataLoader)#Loader.__next__")[0].call_site, 0u);
}

// A loop of one call: a cut that drops all events of a length would leave none.
TEST(TimelineBuilder, EventsOfSimilarLengths_BudgetIsFilled) {
  for (const uint64_t shortest : {80u, 1000u, 5'000'000u}) {
    std::mt19937_64 random(5);
    const SpoolMaker spool = Many([&] { return shortest + random() % (shortest / 4); });
    TimelineRequest request;
    request.max_profile_size = 4000 * 24;
    const Timeline timeline = BuildGood(spool, request);
    EXPECT_LE(timeline.threads[0].events.size(), 4000u) << shortest;
    EXPECT_GE(timeline.threads[0].events.size(), 1500u) << shortest;
    EXPECT_EQ(timeline.threads[0].events.size() + timeline.events_over_budget, 20'000u) << shortest;
  }
}

// Calls of length 0, from a hostile target, must cost neither much memory nor much time.
TEST(TimelineBuilder, InstantsOverBudget_AreCut) {
  SpoolMaker spool = One();
  for (int c = 0; c < 100; ++c) {
    spool.Chunk(1, 1, 1);
    for (uint64_t i = 0; i < 1000; ++i) spool.Span(kRead, 2000 + i, 0);
    spool.EndChunk();
  }
  spool.Chunk(1, 1, 1).Span(kLock, 5000, 3000).EndChunk().End(9000);
  TimelineRequest request;
  request.max_profile_size = 2000 * 24;
  const Timeline timeline = BuildGood(spool, request);
  EXPECT_LE(timeline.threads[0].events.size(), 2000u);
  EXPECT_EQ(timeline.threads[0].events.size() + timeline.events_over_budget, 100'001u);
  EXPECT_EQ(EventsNamed(timeline, "pthread_mutex_lock").size(), 1u);
}

TEST(TimelineBuilder, Drops_AreSummedByCause) {
  SpoolMaker spool = One();
  ThreadFact fact = SpoolMaker::MakeThread(1, 1, 100, 500);
  fact.taken_ticks = 8000;
  fact.dropped[kDropNoChunk] = 11;
  fact.dropped[kDropTooLong] = 2;
  ProcessFact process = SpoolMaker::MakeProcess(1, 100, 500);
  process.dropped[kDropNoThreadSlot] = 5;
  ProcessFact child = SpoolMaker::MakeProcess(2, 101, 600, 0, 1);
  child.dropped[kDropNoThreadSlot] = 5;  // a count of the segment: the same in each process
  spool.Thread(1, fact).Process(1, process).Process(1, child).Chunk(1, 1, 1, 1).Span(kRead, 2000, 10).EndChunk();
  const Timeline timeline = BuildGood(spool);
  uint64_t sum = 0;
  for (const DropCount& drop : timeline.drops) sum += drop.records;
  EXPECT_EQ(timeline.drops.size(), 4u);
  EXPECT_EQ(sum, 11u + 2 + 5 + 1);
  EXPECT_THAT(timeline.drops[0].cause, HasSubstr("no free chunk"));
}

TEST(TimelineBuilder, NestedAndOverlappingSpans_AreSortedAndCut) {
  SpoolMaker spool = One();
  spool.Chunk(1, 1, 1)
      .Span(kRead, 2500, 100)  // inner first, as they end
      .Span(kLock, 2000, 1000)
      .Span(kPoll, 2990, 20)  // ends after the lock because of the clock's jitter
      .Span(kRead, 4000, 100)
      .Span(kLock, 4000, 200)  // same start: the longer is the parent
      .Span(kPoll, 4000, 100)
      .EndChunk()
      .End(9000);
  const Timeline timeline = BuildGood(spool);
  const std::vector<Event>& events = timeline.threads[0].events;
  ASSERT_EQ(events.size(), 6u);
  EXPECT_EQ(timeline.types[events[0].type].name, "pthread_mutex_lock");
  EXPECT_EQ(events[2].duration_ps, 10'000) << "cut to its parent";
  EXPECT_EQ(events[3].duration_ps, 200'000);
}

TEST(TimelineBuilder, ClockWithDriftAndBreak_TimesAreConverted) {
  SpoolMaker spool = One();
  // 2 ticks per ns up to 2 s, then a suspend of 1 s, then 2 ticks per ns again.
  spool.Clock(2'000'000'001, 1'000'000'001).Clock(4'000'000'001, 2'000'000'001).Clock(4'000'100'001, 3'000'050'001);
  spool.Clock(8'000'000'001, 5'000'000'001);
  spool.Chunk(1, 1, 1).Span(kRead, 1'000'000'001, 200).Span(kRead, 6'000'050'001, 2000).EndChunk().End(8'000'000'001);
  const Timeline timeline = BuildGood(spool);
  const std::vector<Event>& events = timeline.threads[0].events;
  ASSERT_EQ(events.size(), 2u);
  EXPECT_NEAR(static_cast<double>(events[0].start_ps), 0.5e12, 2e6);
  EXPECT_NEAR(static_cast<double>(events[0].duration_ps), 100e3, 5e3);
  EXPECT_NEAR(static_cast<double>(events[1].start_ps), 4.0e12, 5e8);
  EXPECT_FALSE(timeline.warnings.empty());
  EXPECT_THAT(timeline.warnings[0], HasSubstr("clock"));
}

TEST(TimelineBuilder, ProcessWithoutThreads_IsKept) {
  SpoolMaker spool;
  spool.Session().Segment(1, kRows).Process(1, 1, 100, 500).End(9000);
  const Timeline timeline = BuildGood(spool);
  EXPECT_EQ(timeline.processes.size(), 1u);
  EXPECT_TRUE(timeline.threads.empty());
}

TEST(TimelineBuilder, NoProcess_IsAnError) {
  SpoolMaker spool;
  spool.Session().End(9000);
  const Timeline timeline = BuildGood(spool);
  ASSERT_EQ(timeline.errors.size(), 1u);
  EXPECT_THAT(timeline.errors[0], HasSubstr("no process was recorded"));
}

TEST(TimelineBuilder, Secrets_AreMasked) {
  SpoolMaker spool = One();
  spool.Chunk(1, 1, 1)
      .Info(ProcessInfoKey::kExecutable, "/bin/app")
      .Info(ProcessInfoKey::kArgument, "app")
      .Info(ProcessInfoKey::kArgument, "--api-key=topsecret1")
      .Info(ProcessInfoKey::kArgument, "--password")
      .Info(ProcessInfoKey::kArgument, "topsecret2")
      .EndChunk();
  const Timeline timeline = BuildGood(spool);
  EXPECT_EQ(timeline.command_line, "python train.py --token ***");
  EXPECT_THAT(timeline.processes[0].arguments, ElementsAre("app", "--api-key=***", "--password", "***"));
  const std::string file = XplaneOf(timeline);
  EXPECT_EQ(file.find("topsecret"), std::string::npos);
  EXPECT_EQ(file.find("s3cret"), std::string::npos);
}

TEST(TimelineBuilder, HostileOperationNames_AreMadeSafe) {
  std::vector<OperationRow> rows;
  for (const char* name : {"train 1", "test", "testing", "trainer", "", "group_id", "_r", "WhileOp-EvalCond", "ForOp",
                           "\xff\xfe", "thread start", "pthread_create", "pthread_create", "a\nb", "Steps", "running",
                           "0123456789012345678901234567890123456789XXXX"}) {
    rows.push_back({name, 12345, static_cast<ObjectRole>(77), static_cast<ResultRole>(99)});
  }
  SpoolMaker spool;
  spool.Session().Segment(1, rows).Process(1, 1, 100, 500).Thread(1, 1, 1, 100, 500).Chunk(1, 1, 1);
  for (uint16_t i = 0; i < rows.size(); ++i) spool.Span(i, 2000 + i * 100u, 50, i, i);
  spool.Span(static_cast<uint16_t>(rows.size()), 5000, 10).EndChunk().End(9000);
  const Timeline timeline = BuildGood(spool);
  EXPECT_EQ(timeline.threads[0].events.size(), rows.size());
  EXPECT_EQ(timeline.corrupt_records, 1u) << "no such operation";
  EXPECT_EQ(EventsNamed(timeline, "call train 1").size(), 1u);
}

TEST(TimelineBuilder, RecordsTooShort_AreCounted) {
  SpoolMaker spool = One();
  PadRecord pad{};
  spool.Chunk(1, 1, 1);
  for (int kind = 3; kind <= 10; ++kind) spool.Add(static_cast<RecordKind>(kind), pad, kRead);
  spool.Add(static_cast<RecordKind>(200), pad).Span(kRead, 2000, 10).EndChunk();
  const Timeline timeline = BuildGood(spool);
  EXPECT_EQ(timeline.threads.at(0).events.size(), 1u);
  // Span, ThreadStart, Module, AllocationSample are longer than a slot; 200 is of another version.
  EXPECT_EQ(timeline.corrupt_records, 5u);
}

TEST(TimelineBuilder, SegmentsWithTheirOwnOperations_AreNamed) {
  SpoolMaker spool;
  spool.Session();
  constexpr uint32_t kSegments = 450;
  for (uint32_t s = 1; s <= kSegments; ++s) {
    std::vector<OperationRow> rows;
    for (uint32_t i = 0; i < kMaxOperations; ++i) rows.push_back({"op" + std::to_string(s) + "_" + std::to_string(i)});
    spool.Segment(s, rows).Process(s, 1, static_cast<int32_t>(s), 500).Thread(s, 1, 1, static_cast<int32_t>(s), 500);
    spool.Chunk(s, 1, 1).Span(0, 2000, 10).Span(159, 3000, 10).Exec(5, 4000, "/x").EndChunk();
  }
  spool.End(9000);
  auto timeline = spool.Build();
  ASSERT_TRUE(timeline.ok());
  ExpectValid(*timeline, "");
  EXPECT_EQ(EventsNamed(*timeline, "op1_0", 0).size(), 1u);
  for (size_t t = 0; t < timeline->threads.size(); ++t) {
    for (const Event& event : timeline->threads[t].events) {
      EXPECT_EQ(timeline->types[event.type].name.substr(0, 2), "op");
    }
  }
}

TEST(TimelineBuilder, ManyCounters_PeaksAndEndAreKept) {
  SpoolMaker spool = One();
  for (uint64_t i = 0; i < 10001; ++i) {
    spool.Counters(1, 1, 2000 + i, i == 4321 ? 1'000'000 : static_cast<int64_t>(i));
  }
  spool.End(20000);
  const Timeline timeline = BuildGood(spool);
  ASSERT_EQ(timeline.counters.size(), 1u);
  const std::vector<CounterSample>& samples = timeline.counters[0].samples;
  EXPECT_LE(samples.size(), 4001u);
  EXPECT_EQ(std::max_element(samples.begin(), samples.end(), [](auto& a, auto& b) { return a.value < b.value; })->value,
            1e6);
  EXPECT_EQ(samples.back().value, 10000);
}

TEST(TimelineBuilder, AllocationSamples_AreSummedByStack) {
  SpoolMaker spool = One();
  spool.Chunk(1, 1, 1).Module(0x7f0000000000, 0x7f0000100000, "/nonexistent/libm.so");
  for (int i = 0; i < 5; ++i) spool.Sample(2000, 1000, 0x7f0000001000);
  spool.Sample(100, 1000, 0x7f0000001000).EndChunk().End(9000);
  const Timeline timeline = BuildGood(spool);
  ASSERT_EQ(timeline.allocation_sites.size(), 1u);
  EXPECT_EQ(timeline.allocation_sites[0].samples, 5u);
  EXPECT_DOUBLE_EQ(timeline.allocation_sites[0].bytes, 5000);
}

TEST(TimelineBuilder, RecoveredAndDamagedSpools_AreWarnings) {
  SpoolMaker spool = One();
  spool.Raw(FrameType::kNote, 0, "a note");
  TimelineRequest request;
  request.recovered = true;
  request.warnings = {"of the launcher"};
  Timeline timeline = BuildGood(spool, request);
  EXPECT_FALSE(timeline.complete);
  ASSERT_EQ(timeline.warnings.size(), 3u);
  EXPECT_EQ(timeline.warnings[0], "a note");
  spool.End(9000);
  EXPECT_TRUE(BuildGood(spool, request).complete);
  const TemporaryPath file("spool");
  std::string bytes = spool.Bytes();
  file.Write(bytes.substr(0, bytes.size() - 3));
  request.spool = file.path();
  auto cut = BuildTimeline(request, [](uint64_t, uint64_t) {});
  ASSERT_TRUE(cut.ok());
  EXPECT_FALSE(cut->complete);
  EXPECT_THAT(cut->warnings, testing::Contains(HasSubstr("unreadable")));
  // The file ends inside the header of the next frame.
  file.Write(bytes + "TFR");
  cut = BuildTimeline(request, [](uint64_t, uint64_t) {});
  ASSERT_TRUE(cut.ok());
  EXPECT_THAT(cut->warnings, testing::Contains(HasSubstr("3 bytes")));
}

TEST(TimelineBuilder, InvalidSessions_AreRead) {
  for (const char* json :
       {"{}", R"({"host":1,"run":[],"command":{},"families":"x","clock_cost_ns":null})",
        R"({"host":"\u0000","families":-1,"wait_threshold_ns":1e300,"clock_cost_ns":"a"})",
        R"({"run_exclusive":"no","launcher_pid":"1","start_unix_ns":{},"also":[1,"x"],"command":[1]})"}) {
    SpoolMaker spool;
    spool.Session(1000, json).Segment(1, kRows).Process(1, 1, 100, 500).Thread(1, 1, 1, 100, 500).End(9000);
    auto timeline = spool.Build();
    EXPECT_TRUE(timeline.ok()) << json;
    const TemporaryPath file("spool");
    file.Write(spool.Bytes());
    EXPECT_TRUE(ReadSpoolSummary(file.path()).ok()) << json;
  }
  for (const char* json : {"", "x", "[]", "{", "null", "\xff"}) {
    SpoolMaker spool;
    spool.Session(1000, json);
    EXPECT_FALSE(spool.Build().ok()) << json;
    const TemporaryPath file("spool");
    file.Write(spool.Bytes());
    EXPECT_FALSE(ReadSpoolSummary(file.path()).ok()) << json;
  }
  SpoolMaker no_clock;
  no_clock.Raw(FrameType::kSession, 0, SpoolMaker::kSession);
  EXPECT_FALSE(no_clock.Build().ok());
}

TEST(TimelineBuilder, SlidingWindow_ShowsItsEndAndCountsAll) {
  SpoolMaker spool = One();
  WindowFact window{2'000'000, kEndWindow, WindowEvent::kOpened, kFamilyAll, 3};  // the last 3 ms
  spool.Raw(FrameType::kWindow, 0, {reinterpret_cast<const char*>(&window), sizeof(window)});
  spool.Chunk(1, 1, 1)
      .Span(kRead, 1'500'000, 1000)
      .Span(kRead, 6'999'000, 2000)  // across the border
      .Span(kRead, 9'000'000, 500)
      .EndChunk();
  const PartFact part{1, 0, 2'000'000, 5'000'000, 4, 1000};
  spool.Raw(FrameType::kDropped, 0, {reinterpret_cast<const char*>(&part), sizeof(part)});
  for (const uint32_t drops : {1u, 2u}) {  // the second counts a part that still exists
    const TotalsFact totals{drops, 1, 0};
    const TotalRow row{1, 1, kRead, 0, 0x401000, 4 * drops, 7000, 3000};
    std::string payload(reinterpret_cast<const char*>(&totals), sizeof(totals));
    payload.append(reinterpret_cast<const char*>(&row), sizeof(row));
    spool.Raw(FrameType::kTotals, 0, payload);
  }
  spool.Window(kEndWindow, WindowEvent::kClosed, 10'000'000).End(10'000'000);
  TimelineRequest request;
  request.window = kEndWindow;
  const auto built = spool.Build(request);
  ASSERT_TRUE(built.ok());
  const Timeline& timeline = *built;
  EXPECT_EQ(timeline.window, "end");
  EXPECT_EQ(timeline.duration_ps, 3'000'000'000);
  EXPECT_EQ(timeline.totals_ps, 9'999'000'000);
  const auto reads = EventsNamed(timeline, "read");
  ASSERT_EQ(reads.size(), 2u);
  EXPECT_EQ(reads[0].start_ps, 0);
  EXPECT_EQ(reads[0].duration_ps, 1'000'000);
  EXPECT_EQ(reads[0].flags, Event::kClippedAtStart);
  EXPECT_EQ(TotalNamed(timeline, "read")->calls, 7u);
  EXPECT_EQ(TotalNamed(timeline, "read")->total_ps, 10'500'000);
  ASSERT_FALSE(timeline.wait_sites.empty());
  EXPECT_EQ(timeline.wait_sites[0].calls, 4u);
}

TEST(TimelineBuilder, WindowWithDroppedRecords_IsCutToTheRest) {
  SpoolMaker spool = One();
  spool.Chunk(1, 1, 1).Span(kRead, 2'000'000, 500).Span(kRead, 6'000'000, 500).Span(kRead, 9'500'000, 10).EndChunk();
  PartFact part{1, 0, 1000, 5'000'000, 4, 1000};
  GapFact gap{9'000'000, 9'400'000, 12, GapCause::kLimit, 0};
  const GapFact slow{7'000'000, 7'500'000, 3, GapCause::kSlowDisk, 0};
  const auto raw = [&](FrameType type, const auto& fact) {
    spool.Raw(type, 0, {reinterpret_cast<const char*>(&fact), sizeof(fact)});
  };
  raw(FrameType::kDropped, part);
  raw(FrameType::kGap, gap);
  raw(FrameType::kGap, slow);
  spool.Window(0, WindowEvent::kClosed, 10'000'000).End(10'000'000);
  const Timeline timeline = BuildGood(spool);
  EXPECT_EQ(timeline.duration_ps, 4'000'000'000) << "from the end of the dropped part to the gap";
  const auto reads = EventsNamed(timeline, "read");
  ASSERT_EQ(reads.size(), 1u);
  EXPECT_EQ(reads[0].start_ps, 1'000'000'000);
  EXPECT_THAT(timeline.warnings, testing::Contains(HasSubstr("the first 4 ms of this window are not shown")));
  EXPECT_THAT(timeline.warnings, testing::Contains(HasSubstr("the last 1 ms of this window are not shown: the spool")));
  EXPECT_THAT(timeline.warnings, testing::Contains(HasSubstr("3 records are missing between 2 ms and 2 ms: the disk")));
  EXPECT_EQ(timeline.records_not_kept, 15u);
}

// The gap lies behind the close, but records of the window may be drained after it.
TEST(TimelineBuilder, GapBehindTheLastWindow_IsAWarning) {
  SpoolMaker spool = One();
  const auto raw = [&](const GapFact& gap) {
    spool.Raw(FrameType::kGap, 0, std::string(reinterpret_cast<const char*>(&gap), sizeof(gap)));
  };
  raw(GapFact{10'500'000, 10'900'000, 7, GapCause::kSlowDisk, 0});
  raw(GapFact{11'000'000, 11'900'000, 5, GapCause::kLimit, 0});
  spool.Window(0, WindowEvent::kClosed, 10'000'000).End(10'000'100);
  const Timeline timeline = BuildGood(spool);
  EXPECT_EQ(timeline.records_not_kept, 12u);
  EXPECT_EQ(timeline.duration_ps, 9'999'000'000);
  EXPECT_THAT(timeline.warnings, testing::Contains(HasSubstr("7 records are missing between 9 ms and 9 ms: the disk")));
  EXPECT_THAT(timeline.warnings, testing::Contains(HasSubstr("5 records that belong there were not kept")));
}

TEST(TimelineBuilder, ReadSpoolSummary_HasSessionAndOutputs) {
  const TemporaryPath file("spool");
  file.Write(One().Bytes());
  const auto summary = ReadSpoolSummary(file.path());
  ASSERT_TRUE(summary.ok());
  EXPECT_EQ(summary->logdir, "/tmp/x");
  EXPECT_EQ(summary->host, "node1");
  EXPECT_TRUE(summary->run_exclusive);
  EXPECT_EQ(summary->launcher_pid, 1);
  EXPECT_EQ(summary->start_unix_ns, 5u);
  EXPECT_THAT(summary->also, ElementsAre("summary"));
}

TEST(TimelineBuilder, ReadSpoolSummary_HasEachWindow) {
  SpoolMaker spool = One();
  spool.Window(1, WindowEvent::kOpened, 2000).Window(1, WindowEvent::kClosed, 3000);
  spool.Window(1, WindowEvent::kPublished, 3100).Window(kStartWindow, WindowEvent::kOpened, 1000);
  spool.Window(0, WindowEvent::kReplaced, 4000);
  const TemporaryPath file("spool");
  file.Write(spool.Bytes());
  const auto summary = ReadSpoolSummary(file.path());
  ASSERT_TRUE(summary.ok());
  ASSERT_EQ(summary->windows.size(), 3u);
  EXPECT_TRUE(summary->windows[0].replaced);
  EXPECT_TRUE(summary->windows[1].published);
  EXPECT_EQ(summary->windows[2].number, kStartWindow);
  EXPECT_FALSE(summary->windows[2].published || summary->windows[2].replaced);
}

TEST(TimelineBuilder, SameSpool_GivesTheSameFile) {
  SpoolMaker spool = One();
  std::mt19937 random(8);
  for (uint32_t t = 2; t < 40; ++t) {
    spool.Thread(1, t, 1, static_cast<int32_t>(t), 600).Chunk(1, 1, t);
    for (int i = 0; i < 50; ++i) {
      spool.Span(static_cast<uint16_t>(random() % 6), 2000 + random() % 5000, random() % 50, 1, 1, 0,
                 0x1000 * (1 + random() % 30));
    }
    spool.EndChunk();
  }
  spool.End(9000);
  const std::string first = XplaneOf(BuildGood(spool));
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(XplaneOf(BuildGood(spool)) == first);
}

// Random records, facts and windows: nothing crashes, and every timeline keeps all guarantees.
class Garbage {
 public:
  explicit Garbage(uint32_t seed) : random_(seed) {}

  SpoolMaker Make() {
    SpoolMaker spool;
    spool.Session(Up(3) == 0 ? 0 : 1 + Up(20000));
    const uint32_t frames = 1 + Up(40);
    for (uint32_t i = 0; i < frames; ++i) AddFrame(&spool);
    return spool;
  }
  uint32_t Up(uint32_t limit) { return static_cast<uint32_t>(random_() % limit); }

 private:
  uint64_t Ticks() { return Up(8) == 0 ? random_() >> Up(64) : Up(30000); }
  uint64_t Word() { return Up(3) == 0 ? random_() : Up(300); }
  template <typename Fact>
  Fact Random() {
    Fact fact;
    auto* bytes = reinterpret_cast<uint8_t*>(&fact);
    for (size_t i = 0; i < sizeof(fact); ++i) bytes[i] = static_cast<uint8_t>(Up(4) == 0 ? random_() : 0);
    return fact;
  }
  void AddFrame(SpoolMaker* spool) {
    const uint32_t segment = Up(3);
    switch (Up(12)) {
      case 0: {
        std::vector<OperationRow> rows = kRows;
        rows.resize(1 + Up(static_cast<uint32_t>(rows.size())));
        rows[Up(static_cast<uint32_t>(rows.size()))] = {std::string(Up(45), static_cast<char>(random_())), Up(100),
                                                        static_cast<ObjectRole>(Up(8)), static_cast<ResultRole>(Up(8))};
        spool->Segment(segment, rows, Ticks());
        break;
      }
      case 1: {
        ProcessFact fact = SpoolMaker::MakeProcess(Up(4), static_cast<int32_t>(Up(5)), Ticks(), Up(2) * Ticks(), Up(4));
        fact.late_allocations = Word();
        fact.late_allocated_bytes = Word();
        fact.peak_bytes = static_cast<int64_t>(Word());
        fact.parent_pid = static_cast<int32_t>(Up(5));
        fact.taken_ticks = Ticks();
        spool->Process(segment, Up(10) == 0 ? Random<ProcessFact>() : fact);
        break;
      }
      case 2: {
        ThreadFact fact = SpoolMaker::MakeThread(Up(6), Up(4), static_cast<int32_t>(Up(5)), Ticks(), Up(2) * Ticks());
        fact.wait_since = Up(2) * Ticks();
        fact.wait_operation = Up(9);
        fact.wait_site = Word();
        fact.allocations = Word();
        fact.allocated_bytes = Word();
        fact.freed_bytes = Word();
        fact.dropped[Up(kDropCauses)] = Word();
        fact.creator_serial = Up(6);
        fact.taken_ticks = Ticks();
        spool->Thread(segment, Up(10) == 0 ? Random<ThreadFact>() : fact,
                      {{Up(9), 0, Word(), Word()}, {Up(9), 0, Word(), Word()}});
        break;
      }
      case 3:
        spool->Window(Up(3), static_cast<WindowEvent>(1 + Up(2)), Ticks());
        break;
      case 4:
        spool->Clock(Ticks(), Ticks());
        break;
      case 5:
        spool->Counters(segment, Up(4), Ticks(), static_cast<int64_t>(Word()));
        break;
      case 6:
        spool->Raw(FrameType::kMaps, segment,
                   "7f0000000000-7f0000100000 r-xp 00000000 08:01 1 /nonexistent/lib.so\n7f00-zz\n- /\n"
                   "1-2 r\nffffffffffffffff-0 r-xp 0 0 0 /x.so\n" +
                       std::string(Up(100), static_cast<char>(random_())));
        break;
      case 7: {
        std::string payload(Up(400), '\0');
        for (char& c : payload) c = static_cast<char>(random_());
        spool->Raw(static_cast<FrameType>(2 + Up(12)), segment, payload);
        break;
      }
      case 8:
        if (Up(4) == 0) spool->End(Ticks(), static_cast<int>(Up(300)) - 1, static_cast<int>(Up(70)));
        break;
      default: {
        spool->Chunk(segment, Up(4), Up(6), Up(2));
        for (uint32_t i = Up(30); i > 0; --i) AddRecord(spool);
        spool->EndChunk();
      }
    }
  }
  void AddRecord(SpoolMaker* spool) {
    switch (Up(14)) {
      case 0:
        spool->ThreadStart(Ticks(), static_cast<int32_t>(Up(5)), Up(6), Ticks());
        break;
      case 1:
        spool->ThreadExit(Ticks());
        break;
      case 2:
        spool->ThreadName(Ticks(), std::string(Up(70), static_cast<char>(random_())), Up(6),
                          static_cast<int32_t>(Up(5)));
        break;
      case 3:
        spool->Info(static_cast<ProcessInfoKey>(Up(7)), Up(2) == 0 ? "RANK=" + std::to_string(Up(4)) : "/bin/python3");
        break;
      case 4:
        spool->Module(Word() << 12, Word() << 12, "/nonexistent/lib.so");
        break;
      case 5:
        spool->Exec(static_cast<uint16_t>(Up(9)), Ticks(), "/bin/x", static_cast<uint8_t>(Up(4)));
        break;
      case 6: {
        AllocationSampleRecord sample = Random<AllocationSampleRecord>();
        sample.ticks = Ticks();
        sample.stack_bytes = Up(200);
        spool->Add(RecordKind::kAllocationSample, sample, 6, 0, std::string(Up(100), static_cast<char>(random_())));
        break;
      }
      case 7:
        spool->Add(static_cast<RecordKind>(Up(14)), Random<PadRecord>(), static_cast<uint16_t>(Up(9)));
        break;
      default:
        spool->Span(static_cast<uint16_t>(Up(9)), Ticks(), Up(4) == 0 ? Ticks() : Up(500), Word(),
                    static_cast<int64_t>(Word()), Up(5) == 0 ? static_cast<int>(random_()) : 0, Word());
    }
  }
  std::mt19937_64 random_;
};

TEST(TimelineBuilder, RandomSpools_KeepEachInvariant) {
  uint64_t events = 0;
  for (uint32_t seed = 0; seed < 20000; ++seed) {
    Garbage garbage(seed);
    const SpoolMaker spool = garbage.Make();
    TimelineRequest request;
    request.window = garbage.Up(3);
    request.max_profile_size = seed % 16 == 0 ? 1 : 64u << 20;
    auto timeline = spool.Build(request);
    if (!timeline.ok()) continue;
    const std::string what = "seed " + std::to_string(seed);
    ExpectValid(*timeline, what);
    if (seed % 8 == 0) ExpectLintClean(*timeline, what);
    for (const Thread& thread : timeline->threads) events += thread.events.size();
    if (testing::Test::HasFailure()) break;
  }
  EXPECT_GT(events, 10000u);
}

// Valid spools with changed bytes and correct checksums: no disk does that, but a hostile launcher may.
TEST(TimelineBuilder, MutatedPayloads_KeepEachInvariant) {
  std::mt19937_64 random(6);
  for (uint32_t round = 0; round < 3000; ++round) {
    Garbage garbage(round % 50 + 100000);
    const std::string bytes = garbage.Make().Bytes();
    FrameBuffer buffer(0);
    for (size_t at = sizeof(SpoolHeader); at < bytes.size();) {
      FrameHeader header;
      memcpy(&header, &bytes[at], sizeof(header));
      std::string payload = bytes.substr(at + sizeof(header), header.payload_bytes);
      at += sizeof(header) + (header.payload_bytes + 7) / 8 * 8;
      if (header.type != FrameType::kSession && !payload.empty() && random() % 3 == 0) {
        for (int i = 0; i < 3; ++i) payload[random() % payload.size()] = static_cast<char>(random());
        if (random() % 5 == 0) payload.resize(random() % payload.size());
      }
      buffer.Append(header.type, header.segment, payload.data(), payload.size());
    }
    const TemporaryPath file("spool");
    file.Write(bytes.substr(0, sizeof(SpoolHeader)) +
               std::string(reinterpret_cast<const char*>(buffer.bytes().data()), buffer.size()));
    TimelineRequest request;
    request.spool = file.path();
    auto timeline = BuildTimeline(request, [](uint64_t, uint64_t) {});
    if (!timeline.ok()) continue;
    ExpectValid(*timeline, "round " + std::to_string(round));
    if (round % 8 == 0) ExpectLintClean(*timeline, "round " + std::to_string(round));
    if (testing::Test::HasFailure()) break;
  }
}

}  // namespace
}  // namespace tbprof
