// SPDX-License-Identifier: Apache-2.0
// Where the threads of a process wait in which nothing runs.
#include "writer/verdict/hang.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/unit/writer/verdict_maker.h"
#include "writer/outputs/summary_verdict.h"

namespace tbprof {
namespace {

using Texts = std::vector<std::string>;

constexpr int64_t kSecond = 1'000'000'000'000;

class HangTest : public ::testing::Test {
 protected:
  HangTest() {
    maker_.timeline.attached = true;
    maker_.timeline.usage[maker_.main].points = {{0, 0}, {5 * kSecond, 0}};
    maker_.timeline.duration_ps = 5 * kSecond;
    maker_.timeline.types.push_back({"sem_wait (sampled)", EventFamily::kLock});
    maker_.timeline.types.back().sampled = true;
    type_ = static_cast<uint16_t>(maker_.timeline.types.size() - 1);
  }

  void WaitAll(uint32_t thread, uint32_t stack, const std::string& site = "") {
    maker_.Wait(thread, type_, 0, 5 * kSecond, stack, 0, site);
  }
  Hang Find() {
    return FindHang(maker_.timeline, PythonTags(maker_.timeline), WaitClasses(maker_.timeline), maker_.main);
  }
  Texts Make() { return Find().texts; }
  // Not attached: a run of 20 s that computes for 5 s. It is killed at its end.
  void MakeRun() {
    maker_.timeline.attached = false;
    maker_.timeline.duration_ps = 20 * kSecond;
    maker_.timeline.exit_signal = 15;
    maker_.timeline.usage[maker_.main].points = {{0, 0}, {5 * kSecond, 4 * kSecond}, {20 * kSecond, 4 * kSecond}};
    maker_.timeline.threads[maker_.main].end_ps = 20 * kSecond;
  }
  void WaitToTheEnd(uint32_t thread, uint16_t type, uint32_t stack, const std::string& site = "") {
    maker_.Wait(thread, type, 5 * kSecond, 15 * kSecond, stack, 0, site);
  }

  VerdictMaker maker_;
  uint16_t type_ = 0;
};

TEST_F(HangTest, EachThreadHasItsLine_TheMainThreadFirst) {
  const uint32_t ingest = maker_.Stack(0, "/job/train.py", "ingest", 12);
  const uint32_t join = maker_.Stack(maker_.in_main, "/usr/lib/python3.11/threading.py", "Thread.join", 1119);
  WaitAll(maker_.Thread("ingest"), ingest);
  WaitAll(maker_.main, join);
  const Texts texts = Make();
  ASSERT_EQ(texts.size(), 2u);
  EXPECT_EQ(texts[0], "main thread, in sem_wait (sampled) at train.py:10 main > threading.py:1119 Thread.join");
  EXPECT_EQ(texts[1], "thread ingest, in sem_wait (sampled) at train.py:12 ingest");
}

TEST_F(HangTest, VerdictBeginsWithIt) {
  WaitAll(maker_.main, maker_.in_main);
  maker_.timeline.verdict = MakeVerdict(maker_.timeline);
  EXPECT_THAT(VerdictSentence(maker_.timeline), testing::StartsWith("nothing runs, each thread waits"));
}

TEST_F(HangTest, VerdictOfARunThatHangsAtItsEnd_BeginsWithIt) {
  MakeRun();
  WaitToTheEnd(maker_.main, kCondition, maker_.in_main);
  maker_.timeline.verdict = MakeVerdict(maker_.timeline);
  EXPECT_THAT(VerdictSentence(maker_.timeline), testing::StartsWith("at the end nothing ran for "));
}

TEST_F(HangTest, ThreadsAtOnePlace_AreOneText) {
  WaitAll(maker_.main, 0, "commit");
  for (int i = 0; i < 3; ++i) WaitAll(maker_.Thread("pool"), 0, "take_job");
  const Texts texts = Make();
  ASSERT_EQ(texts.size(), 2u);
  EXPECT_EQ(texts[1], "thread pool and 2 alike, in sem_wait (sampled) at take_job");
}

TEST_F(HangTest, HolderOfAMutex_IsNamed) {
  const uint32_t flusher = maker_.Thread("flusher");
  WaitAll(maker_.main, 0, "commit");
  WaitAll(flusher, 0, "flush_log");
  for (const auto& [thread, holder] : {std::pair{maker_.main, flusher}, {flusher, maker_.main}}) {
    ThreadBlocked& blocked = maker_.timeline.blocked.emplace_back();
    blocked.thread = thread;
    blocked.runs.emplace_back().holder = holder;
  }
  EXPECT_EQ(Make(), (Texts{"main thread, in sem_wait (sampled) at commit, held by thread flusher",
                           "thread flusher, in sem_wait (sampled) at flush_log, held by main thread"}));
}

TEST_F(HangTest, ProcessThatRuns_DoesNotHang) {
  WaitAll(maker_.main, 0, "commit");
  const uint32_t worker = maker_.Thread("worker");
  maker_.timeline.usage[worker].points.push_back({kSecond, kSecond / 10});
  EXPECT_EQ(Make(), Texts());
}

TEST_F(HangTest, CallsThatEndAndBeginAgain_AreOneIfTheyTimeOut) {
  for (const bool times_out : {true, false}) {
    maker_.timeline.threads[maker_.main].events.clear();
    for (int i = 0; i < 5; ++i) {
      maker_.Wait(maker_.main, kChildEnd, i * kSecond, kMs / 10, 0);
      maker_.Wait(maker_.main, type_, i * kSecond + kMs / 10, kSecond - kMs / 10, 0, 0, "poll");
      if (!times_out) continue;
      maker_.timeline.threads[maker_.main].events.back().flags |= Event::kFailed;
      maker_.timeline.threads[maker_.main].events.back().error = ETIMEDOUT;
    }
    EXPECT_EQ(Make().empty(), !times_out);
  }
}

// The last of a loader's polls has not returned, and its stack was not read.
TEST_F(HangTest, CallsThatTimeOutAtTheEndOfARun_AreOne) {
  MakeRun();
  for (int i = 5; i < 20; ++i) {
    maker_.Wait(maker_.main, kCondition, i * kSecond, kSecond, i < 19 ? maker_.in_main : 0);
    Event& wait = maker_.timeline.threads[maker_.main].events.back();
    wait.flags |= i < 19 ? Event::kFailed : Event::kOpen;
    wait.error = i < 19 ? ETIMEDOUT : 0;
  }
  const Hang hang = Find();
  EXPECT_EQ(hang.texts, Texts{"main thread, in pthread_cond_timedwait at train.py:10 main"});
  EXPECT_NEAR(static_cast<double>(hang.span.start_ps), 5e12, 0.2e12);
}

TEST_F(HangTest, EndOfARunThatWasKilled_IsJudged) {
  MakeRun();
  WaitToTheEnd(maker_.main, kCondition, maker_.in_main);
  const Hang hang = Find();
  ASSERT_EQ(hang.texts.size(), 1u);
  EXPECT_FALSE(hang.is_all);
  EXPECT_NEAR(static_cast<double>(hang.span.start_ps), 5e12, 0.2e12);
  EXPECT_EQ(hang.texts[0], "main thread, in pthread_cond_timedwait at train.py:10 main");
  // What ends by itself does not hang.
  maker_.timeline.exit_signal = 0;
  maker_.timeline.exit_code = 0;
  EXPECT_EQ(Make(), Texts());
}

TEST_F(HangTest, ProcessThatWasKilledBefore_IsNamed) {
  MakeRun();
  WaitToTheEnd(maker_.main, kCondition, maker_.in_main);
  FailedProcess& killed = maker_.timeline.failed_processes.emplace_back();
  killed = {.pid = 7, .parent_pid = 100, .name = "pool.py", .exit_signal = 9, .how = "killed by SIGKILL"};
  killed.end_ps = -40 * kSecond;
  const Texts texts = Make();
  ASSERT_EQ(texts.size(), 2u);
  EXPECT_EQ(texts[1], "pool.py/7 ended 45.0 s before: killed by SIGKILL");
  // By then it hung already.
  maker_.timeline.failed_processes[0].end_ps = 8 * kSecond;
  EXPECT_EQ(Make().size(), 1u);
}

// torchrun ends the other ranks when one was killed.
TEST_F(HangTest, CrashBeforeOthersWereEnded_IsNamed) {
  MakeRun();
  WaitToTheEnd(maker_.main, kCondition, maker_.in_main);
  FailedProcess rank = {.pid = 7, .parent_pid = 100, .name = "rank", .exit_signal = 9, .how = "killed by SIGKILL"};
  rank.end_ps = 3 * kSecond;
  maker_.timeline.failed_processes = {rank};
  for (int i = 0; i < 4; ++i) {
    rank = {.pid = 8 + i, .parent_pid = 100, .name = "rank", .exit_signal = 15, .how = "killed by SIGTERM"};
    rank.end_ps = (31 + i) * kSecond / 10;
    maker_.timeline.failed_processes.push_back(rank);
  }
  const Texts texts = Make();
  ASSERT_EQ(texts.size(), 4u);
  EXPECT_EQ(texts[1], "rank/7 ended 2.00 s before: killed by SIGKILL");
}

// A shell has commands that return an error, and a pool ends its workers by SIGTERM.
TEST_F(HangTest, EarlyEndOnPurpose_IsNotNamed) {
  MakeRun();
  WaitToTheEnd(maker_.main, kCondition, maker_.in_main);
  for (const int signal : {0, 15}) {
    FailedProcess failed = {.pid = 7, .parent_pid = 100, .name = "grep", .exit_signal = signal, .how = "exit status 1"};
    failed.end_ps = -20 * kSecond;
    maker_.timeline.failed_processes = {failed};
    EXPECT_EQ(Make().size(), 1u);
    maker_.timeline.failed_processes[0].end_ps = 4 * kSecond;
    EXPECT_EQ(Make()[1], "grep/7 ended 1.00 s before: exit status 1");
  }
}

TEST_F(HangTest, ParentOfAKilledProcess_Hangs) {
  MakeRun();
  WaitToTheEnd(maker_.main, kChildEnd, maker_.in_main);
  EXPECT_EQ(Make(), Texts());
  FailedProcess killed = {.pid = 7, .parent_pid = 100, .name = "worker", .exit_signal = 9, .how = "killed by SIGKILL"};
  killed.end_ps = 5 * kSecond;
  maker_.timeline.failed_processes = {killed};
  const Texts texts = Make();
  ASSERT_EQ(texts.size(), 2u);
  EXPECT_EQ(texts[1], "worker/7 ended right before: killed by SIGKILL");
}

TEST_F(HangTest, ThreadThatEndedShortlyBefore_IsNamed) {
  MakeRun();
  WaitToTheEnd(maker_.main, kCondition, maker_.in_main);
  const uint32_t consumer = maker_.Thread("consumer");
  maker_.Run(consumer, 0, 2 * kSecond, maker_.in_main, maker_.library);
  maker_.timeline.threads[consumer].end_ps = 2 * kSecond;
  EXPECT_EQ(Make()[1], "thread consumer ended 3.00 s before");
  // A pool that was shut down.
  for (int i = 0; i < 3; ++i) {
    const uint32_t worker = maker_.Thread("worker");
    maker_.Run(worker, 0, 2 * kSecond, maker_.in_main, maker_.library);
    maker_.timeline.threads[worker].end_ps = 2 * kSecond;
  }
  EXPECT_EQ(Make().size(), 1u);
}

TEST_F(HangTest, LastWordsAfterCtrlC_AreLeftOut) {
  MakeRun();
  maker_.Wait(maker_.main, kCondition, 5 * kSecond, 14 * kSecond, maker_.in_main);
  maker_.timeline.usage[maker_.main].points = {
      {0, 0}, {5 * kSecond, 4 * kSecond}, {19 * kSecond, 4 * kSecond}, {20 * kSecond, 5 * kSecond}};
  EXPECT_EQ(Make().size(), 1u);
}

TEST_F(HangTest, RunThatSleepsOrWaitsForClients_DoesNotHang) {
  for (const uint16_t type : {kNap, kPoll}) {
    MakeRun();
    maker_.timeline.threads[maker_.main].events.clear();
    WaitToTheEnd(maker_.main, type, maker_.in_main);
    EXPECT_EQ(Make(), Texts()) << type;
  }
}

TEST_F(HangTest, WorkerThatRuns_IsNoHang) {
  for (const bool works : {true, false}) {
    MakeRun();
    WaitToTheEnd(maker_.main, kCondition, maker_.in_main);
    const uint32_t process = maker_.Process(200, 0);
    maker_.timeline.processes[process].name = "pt_data_worker";
    const uint32_t worker = maker_.Thread("", true, process);
    WaitToTheEnd(worker, kCondition, maker_.Stack(0, kOwn, "load", 26));
    maker_.timeline.usage[worker].points = {{0, 0}, {20 * kSecond, works ? 9 * kSecond : 0}};
    const Texts texts = Make();
    ASSERT_EQ(texts.size(), works ? 0u : 2u);
    if (!works) {
      EXPECT_EQ(texts[1], "pt_data_worker/200, main thread, in pthread_cond_timedwait at train.py:26 load");
    }
    maker_.timeline.threads.pop_back();
    maker_.timeline.usage.pop_back();
    maker_.timeline.processes.pop_back();
    maker_.timeline.python.threads.pop_back();
    maker_.timeline.native.threads.pop_back();
    maker_.timeline.threads[maker_.main].events.clear();
  }
}

// Many short processes: each ran little.
TEST_F(HangTest, ProcessesThatRanInTurn_AreNoHang) {
  MakeRun();
  WaitToTheEnd(maker_.main, kCondition, maker_.in_main);
  for (int i = 0; i < 10; ++i) {
    const uint32_t process = maker_.Process(200 + i, 0);
    maker_.timeline.processes[process].end_ps = (6 + i) * kSecond;
    const uint32_t thread = maker_.Thread("", true, process);
    maker_.timeline.usage[thread].points = {{(5 + i) * kSecond, 0}, {(6 + i) * kSecond, kSecond / 5}};
  }
  EXPECT_EQ(Make(), Texts());
}

// A reader that gets a little at a time uses hardly any CPU.
TEST_F(HangTest, ThreadThatGetsOn_IsNoHang) {
  MakeRun();
  WaitToTheEnd(maker_.main, kCondition, maker_.in_main);
  const uint32_t reader = maker_.Thread("reader");
  for (int i = 0; i < 10; ++i) maker_.Wait(reader, kReceive, (6 + i) * kSecond, kSecond, 0);
  EXPECT_EQ(Make(), Texts());
}

TEST_F(HangTest, WithoutTheKernelsCounts_NothingIsKnown) {
  WaitAll(maker_.main, 0, "commit");
  EXPECT_EQ(Make().size(), 1u);
  maker_.timeline.usage[maker_.main].points.clear();
  EXPECT_EQ(Make(), Texts());
  // Nothing changed while it was sampled.
  maker_.Run(maker_.main, 0, 5 * kSecond, maker_.in_main, 0);
  EXPECT_EQ(Make().size(), 1u);
}

// They are not in this rank's timeline.
TEST_F(HangTest, OtherRanksThatRun_AreNoHang) {
  WaitAll(maker_.main, 0, "commit");
  maker_.timeline.cpu_of_others.cpu_ps = kSecond;
  EXPECT_EQ(Make(), Texts());
}

// `sh -c 'work; sleep 20'`.
TEST_F(HangTest, ParentOfAChildThatSleeps_DoesNotHang) {
  for (const bool sleeps : {true, false}) {
    MakeRun();
    maker_.timeline.threads[maker_.main].events.clear();
    WaitToTheEnd(maker_.main, kChildEnd, maker_.in_main);
    const uint32_t child = maker_.Thread("", true, maker_.Process(200, 0));
    WaitToTheEnd(child, sleeps ? kNap : kCondition, 0, "main");
    EXPECT_EQ(Make().empty(), sleeps);
    maker_.timeline.processes.back().start_ps = maker_.timeline.duration_ps;  // gone
    maker_.timeline.threads.back().is_main = false;
  }
}

// A pool's thread polls for results of processes.
TEST_F(HangTest, PollsOfMultiprocessing_ServeNobody) {
  MakeRun();
  maker_.timeline.steps.clear();
  WaitToTheEnd(maker_.main, kCondition, maker_.in_main);
  const uint32_t wait = maker_.Stack(0, "/usr/lib/python3.12/multiprocessing/connection.py", "wait", 947);
  WaitToTheEnd(maker_.Thread("Thread-1 (_handle_workers)"), kPoll, wait);
  EXPECT_EQ(Make().size(), 2u);
}

TEST_F(HangTest, MainThreadOfAServer_HasNothingToDo) {
  for (const bool has_steps : {true, false}) {
    MakeRun();
    maker_.timeline.threads[maker_.main].events.clear();
    if (!has_steps) maker_.timeline.steps.clear();
    WaitToTheEnd(maker_.main, kCondition, maker_.in_main);
    WaitToTheEnd(maker_.Thread("grpc"), kPoll, 0);
    EXPECT_EQ(Make().empty(), !has_steps);
  }
}

TEST_F(HangTest, PoolsOfLibraries_AreNotNamedBesidePython) {
  MakeRun();
  WaitToTheEnd(maker_.main, kCondition, maker_.in_main);
  maker_.Run(maker_.main, 0, 5 * kSecond, maker_.in_main, maker_.library);
  const uint32_t pool = maker_.Thread("");
  WaitToTheEnd(pool, kCondition, 0, "blas_thread_server");
  EXPECT_EQ(Make().size(), 1u);
}

}  // namespace
}  // namespace tbprof
