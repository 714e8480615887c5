// SPDX-License-Identifier: Apache-2.0
// The advice about workers that are waited for.
#include "writer/verdict/worker_cpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/writer/verdict_maker.h"

namespace tbprof {
namespace {

class WorkerCpus : public testing::Test {
 protected:
  WorkerCpus() {
    maker_.timeline.cpu_limits.cpus_allowed = 2;
    verdict_.cause = Cause::kWorkers;
  }
  Advice With(double cpus) {
    maker_.timeline.usage[maker_.main].points = {{0, 0}, {kSteps * kStep, static_cast<int64_t>(cpus * kSteps * kStep)}};
    verdict_.advice = Advice::kOfCause;
    verdict_.remedy.reset();
    verdict_.facts.clear();
    AddCpusOfWorkers(maker_.timeline, 0, {{0, kSteps * kStep}}, &verdict_);
    return verdict_.remedy.value_or(verdict_.advice);
  }
  VerdictMaker maker_;
  Verdict verdict_;
};

TEST_F(WorkerCpus, CpusThatAreUsedOrIdle_DecideTheAdvice) {
  EXPECT_EQ(With(1.9), Advice::kCpusAreUsed);
  EXPECT_THAT(verdict_.facts, testing::ElementsAre("the job used 1.9 of 2 CPUs"));
  EXPECT_EQ(CauseTitle(Cause::kWorkers, Advice::kCpusAreUsed),
            "waits for its own threads or processes, which use the CPUs");
  EXPECT_EQ(With(0.4), Advice::kOfCause) << "threads of its own may need the GIL";
  Where where;
  where.role = WhereRole::kWaitedFor;
  where.thread = maker_.Thread("pool");
  where.doing = "clock_nanosleep";
  verdict_.where = {where};
  EXPECT_EQ(With(0.4), Advice::kCpusAreIdle) << "it sleeps";
  where.doing.clear();
  where.thread = maker_.Thread("", true, maker_.Process(200, 0));
  verdict_.where = {where};
  EXPECT_EQ(With(0.4), Advice::kCpusAreIdle);
  EXPECT_EQ(With(1.3), Advice::kOfCause);
  maker_.timeline.cpu_limits.quota_cpus = 0.5;
  EXPECT_EQ(With(0.4), Advice::kCpusAreUsed);
  maker_.timeline.cpu_limits.quota_cpus = -1;
  maker_.timeline.cpu_limits.cpus_allowed = 0;  // not known
  EXPECT_EQ(With(0.4), Advice::kOfCause);
  EXPECT_TRUE(verdict_.facts.empty());
}

TEST_F(WorkerCpus, ManyThreadsThatWaitForACpu_AreTooMany) {
  const uint32_t worker = maker_.Thread("", true, maker_.Process(200, 0));
  for (const double delayed : {0.5, 1.5, 6.0}) {
    const auto delayed_ps = static_cast<int64_t>(delayed * static_cast<double>(kSteps * kStep));
    maker_.timeline.usage[worker].points = {{0, 0, 0, 0, 0}, {kSteps * kStep, 0, delayed_ps, 0, 0}};
    EXPECT_EQ(With(1.9), delayed < 2 ? Advice::kCpusAreUsed : Advice::kManyThreads);
    EXPECT_EQ(verdict_.facts.front(), delayed < 1 ? "the job used 1.9 of 2 CPUs"
                                      : delayed < 2
                                          ? "the job used 1.9 of 2 CPUs, and 1.5 of its threads waited for one"
                                          : "the job used 1.9 of 2 CPUs, and 6.0 of its threads waited for one");
  }
}

// Threads that live for some milliseconds are never seen.
TEST_F(WorkerCpus, CommandThatUsedMoreThanItsThreads_LeavesNothingIdle) {
  Where where;
  where.role = WhereRole::kWaitedFor;
  where.thread = maker_.Thread("pool");
  where.doing = "clock_nanosleep";
  verdict_.where = {where};
  Timeline& timeline = maker_.timeline;
  timeline.window = "auto";
  timeline.exit_code = 0;
  timeline.system_cpu_seconds = 0;
  timeline.user_cpu_seconds = 0.45 * static_cast<double>(kSteps * kStep) / 1e12;
  EXPECT_EQ(With(0.4), Advice::kCpusAreIdle);
  timeline.user_cpu_seconds *= 4;
  EXPECT_EQ(With(0.4), Advice::kOfCause);
  EXPECT_THAT(verdict_.facts, testing::ElementsAre("the job used at least 0.4 of 2 CPUs"));
  timeline.exit_code = -1;
  EXPECT_EQ(With(0.4), Advice::kCpusAreIdle) << "the command's time is not known before its end";
}

TEST_F(WorkerCpus, Loaders_HaveWorkers) {
  verdict_.cause = Cause::kSlowLoader;
  EXPECT_EQ(With(1.9), Advice::kLoaderUsesCpus);
  EXPECT_EQ(With(0.4), Advice::kLoaderLeavesCpus);
}

TEST_F(WorkerCpus, OtherCauses_KeepTheirs) {
  verdict_.cause = Cause::kDisk;
  EXPECT_EQ(With(0.4), Advice::kOfCause);
  EXPECT_TRUE(verdict_.facts.empty());
}

TEST_F(WorkerCpus, DataForProcesses_IsToBeSentLess) {
  Where where;
  where.role = WhereRole::kWaitedFor;
  where.share = 0.9;
  where.function = maker_.timeline.strings.Intern("Connection._send");
  where.file = maker_.timeline.strings.Intern("/usr/lib/python3.12/multiprocessing/connection.py");
  verdict_.where.push_back(where);
  EXPECT_EQ(With(1.9), Advice::kSendsMuch);
  EXPECT_EQ(verdict_.advice, Advice::kOfCause) << "the cause is still called as before";
  // It waits for data that nobody has sent.
  verdict_.where[0].function = maker_.timeline.strings.Intern("Connection.poll");
  EXPECT_EQ(With(1.9), Advice::kCpusAreUsed);
  // A worker that waits for its next command is in the function that receives: few bytes come.
  verdict_.where[0].function = maker_.timeline.strings.Intern("Connection._recv");
  Timeline& timeline = maker_.timeline;
  timeline.waits_recorded = true;
  verdict_.share = 1;
  verdict_.total_ps = kSteps * kStep;
  EXPECT_EQ(With(1.9), Advice::kCpusAreUsed);
  const auto type = static_cast<uint16_t>(timeline.types.size());
  timeline.types.push_back({.name = "read", .family = EventFamily::kIo, .value = ValueKind::kBytes});
  Event event;
  event.type = type;
  event.start_ps = kStep;
  event.duration_ps = kMs;
  event.value = 400 << 20;
  timeline.threads[verdict_.where.front().thread].events.push_back(event);
  EXPECT_EQ(With(1.9), Advice::kSendsMuch);
}

}  // namespace
}  // namespace tbprof
