// SPDX-License-Identifier: Apache-2.0
//
// The parts of the conversion that make the lines of the host, with facts made by hand. A tick is a nanosecond; the
// window is [kOpen, kClose).
#ifndef TBPROF_TESTS_UNIT_WRITER_HOST_FIXTURE_H_
#define TBPROF_TESTS_UNIT_WRITER_HOST_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "writer/convert/host_parts.h"
#include "writer/convert/ranks.h"

namespace tbprof {

class HostFixture : public testing::Test {
 protected:
  static constexpr uint64_t kOpen = 1000, kClose = 1'000'000;

  HostFixture() {
    window_.open = window_.totals_open = kOpen;
    window_.close = kClose;
    ClockFact pair{};
    facts_.clock.Add(pair);
    EXPECT_TRUE(facts_.clock.Finish());
    facts_.clock.SetOrigin(kOpen);
    facts_.close_ticks = kClose;
    timeline_.duration_ps = static_cast<int64_t>(kClose - kOpen) * 1000;
  }

  ProcessFacts& AddProcess(const Identity& identity, int32_t pid, uint64_t start, uint64_t end = 0) {
    ProcessFacts& process = facts_.processes[identity];
    process.pid = pid;
    process.start_ticks = start;
    process.end_ticks = end;
    process.executable = "/usr/bin/program";
    process.arguments = {"program"};
    return process;
  }
  ThreadFacts& AddThread(const Identity& identity, uint32_t process_serial, int32_t tid, uint64_t start,
                         uint64_t end = 0) {
    ThreadFacts& thread = facts_.threads[identity];
    thread.process_serial = process_serial;
    thread.tid = tid;
    thread.start_ticks = start;
    thread.end_ticks = end;
    return thread;
  }
  void AddOperation(uint32_t segment, std::string_view name, uint32_t family, ResultRole result = ResultRole::kNone) {
    Operation row{};
    memcpy(row.name, name.data(), std::min(name.size(), sizeof(row.name)));
    row.family = family;
    row.result = result;
    facts_.segments[segment].operations.push_back(row);
  }
  void Build() {
    events_.Begin(MostEvents(0) * kBytesPerEvent);
    model_.AddProcesses(kAnyRank, &ranks_);
    model_.AddThreads(&events_);
  }
  // The events of a line after Finish.
  const std::vector<Event>& EventsOf(uint32_t line) {
    if (!finished_) events_.Finish(totals_.NameSites());
    finished_ = true;
    return timeline_.threads[line].events;
  }

  SpoolFacts facts_;
  SessionFacts session_;
  CaptureWindow window_;
  Timeline timeline_;
  Ranks ranks_{session_, window_, &facts_, &timeline_};
  EventTypes types_{&facts_, &timeline_};
  Conservation conservation_{&facts_};
  HostEvents events_{&facts_, &conservation_, &timeline_};
  ProcessModel model_{&window_, &facts_, &timeline_};
  ProcessModules modules_{&facts_, &timeline_.strings};
  CallTotals totals_{&facts_, &modules_, &timeline_};
  const HostParts host_{&types_, &model_, &modules_, &totals_, &events_, &conservation_};

 private:
  bool finished_ = false;
};

}  // namespace tbprof

#endif  // TBPROF_TESTS_UNIT_WRITER_HOST_FIXTURE_H_
