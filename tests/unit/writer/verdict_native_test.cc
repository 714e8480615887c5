// SPDX-License-Identifier: Apache-2.0
// The verdict on programs without Python: functions take the place of lines.
#include <algorithm>
#include <cstdint>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "writer/outputs/summary_verdict.h"
#include "writer/verdict/cpu_split.h"
#include "writer/verdict/verdict.h"

namespace tbprof {
namespace {

using testing::HasSubstr;

constexpr int64_t kMs = 1'000'000'000;

// A process `app` with a main thread, and ten seconds of time.
class NativeVerdict : public testing::Test {
 protected:
  enum Type : uint16_t { kCondition, kMutex, kChildEnd, kSemaphore, kSleep, kRead };

  NativeVerdict() {
    timeline_.duration_ps = 10'000 * kMs;
    timeline_.waits_recorded = true;
    timeline_.types = {{"pthread_cond_wait", EventFamily::kLock}, {"pthread_mutex_lock", EventFamily::kLock},
                       {"waitpid", EventFamily::kProcess},        {"sem_wait", EventFamily::kLock},
                       {"clock_nanosleep", EventFamily::kSleep},  {"read", EventFamily::kIo}};
    timeline_.python.functions.resize(1);
    timeline_.python.stacks.resize(1);
    timeline_.native.stacks.resize(1);
    AddProcess("/opt/app", 100, -1);
    timeline_.processes[0].is_command = true;
    main_ = AddThread(0, "", true);
    root_ = Frame("app", "main", 0);
    train_ = Frame("app", "train(float const*)", root_);
    libc_ = Frame("libc.so.6", "memcpy", train_);
  }

  void AddProcess(const std::string& executable, int pid, int parent) {
    Process process;
    process.pid = pid;
    process.parent = parent;
    process.executable = executable;
    process.name = executable.substr(executable.rfind('/') + 1);
    timeline_.processes.push_back(process);
    timeline_.native.processes.push_back({.process = static_cast<uint32_t>(timeline_.processes.size() - 1)});
  }
  uint32_t AddThread(uint32_t process, const std::string& name, bool is_main = false) {
    Thread thread;
    thread.process = process;
    thread.name = name;
    thread.is_main = is_main;
    thread.end_ps = timeline_.duration_ps;
    timeline_.threads.push_back(thread);
    const auto index = static_cast<uint32_t>(timeline_.threads.size() - 1);
    timeline_.native.threads.push_back({.thread = index});
    timeline_.usage.push_back({.thread = index, .points = {{}}});
    return index;
  }
  uint32_t Frame(const std::string& module, const std::string& function, uint32_t parent) {
    timeline_.native.stacks.push_back(
        {parent, timeline_.strings.Intern(function), timeline_.strings.Intern(module), 0, false});
    return static_cast<uint32_t>(timeline_.native.stacks.size() - 1);
  }
  void Run(uint32_t thread, int64_t start, int64_t length, uint32_t stack) {
    std::vector<UsagePoint>& points = timeline_.usage[thread].points;
    const int64_t used = points.back().cpu_ps;
    points.push_back({start, used});
    points.push_back({start + length, used + length});
    for (int64_t at = start; at < start + length; at += 10 * kMs) {
      const auto native = std::ranges::find(timeline_.native.threads, thread, &NativeThread::thread);
      native->points.push_back({at, 10'000, stack});
    }
  }
  void Wait(uint32_t thread, Type type, int64_t start, int64_t length, uint64_t object = 7) {
    Event event;
    event.type = type;
    event.start_ps = start;
    event.duration_ps = length;
    event.object = object;
    event.call_site = timeline_.strings.Intern("wait_for_batch");
    timeline_.threads[thread].events.push_back(event);
  }
  // Four threads that wait for one lock for so much of each 100 ms, and run for the rest.
  void WaitForWorkersAtALock(int64_t lock_ms) {
    Wait(main_, kCondition, 0, 10'000 * kMs);
    for (int i = 0; i < 4; ++i) {
      const uint32_t worker = AddThread(0, "worker");
      for (int64_t at = 0; at < 10'000; at += 100) {
        Wait(worker, kMutex, at * kMs, lock_ms * kMs, 9);
        Run(worker, (at + lock_ms) * kMs, (100 - lock_ms) * kMs, train_);
      }
    }
  }
  // It runs for 30 % of the time, and for tenths of it it could run and has no CPU.
  void AddStarvedWorker(int tenths) {
    const uint32_t worker = AddThread(0, "worker");
    for (int64_t at = 0; at < 10'000; at += 1000) Run(worker, at * kMs, 300 * kMs, train_);
    std::vector<UsagePoint>& points = timeline_.usage[worker].points;
    points.push_back({timeline_.duration_ps, points.back().cpu_ps});
    for (UsagePoint& point : points) point.run_delay_ps = point.at_ps / 10 * tenths;
  }
  void Make() { timeline_.verdict = MakeVerdict(timeline_); }
  std::string Sentence() const { return VerdictSentence(timeline_); }

  Timeline timeline_;
  uint32_t main_ = 0, root_ = 0, train_ = 0, libc_ = 0;
};

TEST_F(NativeVerdict, ProgramThatComputes_NamesItsOwnFunction) {
  const uint32_t other = Frame("app", "evaluate()", root_);
  const uint32_t jump = Frame("app", "[app]", train_);  // of the table of jumps to libraries
  for (int64_t at = 0; at < 10'000; at += 1000) {
    Run(main_, at * kMs, 600 * kMs, libc_);
    Run(main_, (at + 600) * kMs, 200 * kMs, jump);
    Run(main_, (at + 800) * kMs, 200 * kMs, other);
  }
  Make();
  EXPECT_EQ(timeline_.verdict.cause, Cause::kOperations);
  EXPECT_EQ(VerdictBlocker(timeline_), "80 % running at train");
  EXPECT_THAT(VerdictSentence(timeline_, {.place = true}), HasSubstr("native code computes, at train"));
}

// A rank that waits for others asks again and again: it uses a CPU.
TEST_F(NativeVerdict, CpuTimeInCallsOfMpi_IsAWaitForOtherRanks) {
  const uint32_t call = Frame("libmpi.so.40", "PMPI_Allreduce", train_);
  const uint32_t progress = Frame("libopen-pal.so.40", "opal_progress", call);
  const uint32_t poll = Frame("libc.so.6", "epoll_wait", progress);
  const uint32_t other = Frame("app", "relax()", root_);
  for (int64_t at = 0; at < 10'000; at += 1000) {
    Run(main_, at * kMs, 300 * kMs, progress);
    Run(main_, (at + 300) * kMs, 300 * kMs, poll);
    Run(main_, (at + 600) * kMs, 400 * kMs, other);
  }
  Make();
  EXPECT_EQ(timeline_.verdict.cause, Cause::kCollectives) << Sentence();
  EXPECT_NEAR(timeline_.verdict.ShareOf(StepPart::kCollectives), 0.6, 0.01);
  EXPECT_NEAR(timeline_.verdict.ShareOf(StepPart::kOperations), 0.4, 0.01);
  EXPECT_THAT(VerdictSentence(timeline_, {.place = true}), HasSubstr("waits for collectives, at train"));
}

TEST_F(NativeVerdict, OnlyCallsThatExchange_WaitForOtherRanks) {
  for (const char* call : {"MPI_Recv", "PMPI_Waitall", "mpi_bcast_", "pmpi_allreduce__", "MPI_Comm_split"}) {
    EXPECT_TRUE(IsCallOfMpi(call)) << call;
  }
  for (const char* call : {"MPI_Init_thread", "PMPI_File_write_at", "mpi_type_commit_", "Prepare", "PMPI", "pack"}) {
    EXPECT_FALSE(IsCallOfMpi(call)) << call;
  }
}

TEST_F(NativeVerdict, WaitsForACpu_HaveTheFunctionThatRan) {
  for (int64_t at = 0; at < 10'000; at += 1000) Run(main_, at * kMs, 400 * kMs, train_);
  for (UsagePoint& point : timeline_.usage[main_].points) point.run_delay_ps = point.cpu_ps * 3 / 2;
  timeline_.usage[main_].points.push_back({timeline_.duration_ps, 4000 * kMs, 6000 * kMs});
  Make();
  EXPECT_EQ(timeline_.verdict.cause, Cause::kCpuContention) << Sentence();
  EXPECT_EQ(VerdictBlocker(timeline_), "60 % in the queue for a CPU at train");
}

TEST_F(NativeVerdict, WorkersThatWaitForOneLock_AreTheCause) {
  WaitForWorkersAtALock(80);
  Make();
  EXPECT_EQ(timeline_.verdict.cause, Cause::kLockConvoy) << Sentence();
  EXPECT_THAT(Sentence(), HasSubstr("its threads wait for contended locks"));
  EXPECT_THAT(VerdictBlocker(timeline_), HasSubstr("thread worker and 3 alike, in pthread_mutex_lock"));
  EXPECT_THAT(timeline_.verdict.facts,
              testing::Contains(HasSubstr("these 4 threads wait for locks in 80 % of their time")));
}

TEST_F(NativeVerdict, WorkersThatComputeBesideALock_AreWaitedFor) {
  WaitForWorkersAtALock(20);
  Make();
  EXPECT_EQ(timeline_.verdict.cause, Cause::kWorkers) << Sentence();
}

// A main thread that looks every 100 ms whether its threads are done.
TEST_F(NativeVerdict, SleepsWhileItsThreadsCompute_AreAWaitForThem) {
  for (int64_t at = 0; at < 10'000; at += 100) Wait(main_, kSleep, at * kMs, 100 * kMs, 0);
  const uint32_t worker = AddThread(0, "worker");
  Run(worker, 0, 9'000 * kMs, train_);
  Make();
  EXPECT_EQ(timeline_.verdict.cause, Cause::kWorkers) << Sentence();
  EXPECT_THAT(VerdictBlocker(timeline_), HasSubstr("thread worker, running at train"));
}

// On a shared machine: what could run and has no CPU is at work.
TEST_F(NativeVerdict, WorkerThatLacksACpu_IsWaitedFor) {
  Wait(main_, kCondition, 0, 10'000 * kMs);
  AddStarvedWorker(7);
  Make();
  EXPECT_EQ(timeline_.verdict.cause, Cause::kWorkers) << Sentence();
  EXPECT_THAT(VerdictBlocker(timeline_), HasSubstr("thread worker, running at train"));
  EXPECT_THAT(timeline_.verdict.facts, testing::Contains(HasSubstr("for 100 % of the wait (70 % without a CPU)")));
}

TEST_F(NativeVerdict, SleepsWhileAWorkerLacksACpu_AreAWaitForIt) {
  for (int64_t at = 0; at < 10'000; at += 100) Wait(main_, kSleep, at * kMs, 100 * kMs, 0);
  AddStarvedWorker(7);
  Make();
  EXPECT_EQ(timeline_.verdict.cause, Cause::kWorkers) << Sentence();
}

TEST_F(NativeVerdict, SleepsBesideAWorkerThatIsIdle_AreSleeps) {
  for (int64_t at = 0; at < 10'000; at += 100) Wait(main_, kSleep, at * kMs, 100 * kMs, 0);
  AddStarvedWorker(0);
  Make();
  EXPECT_EQ(timeline_.verdict.cause, Cause::kSleep) << Sentence();
}

// Of stdio's calls none is recorded.
TEST_F(NativeVerdict, TimeInTheKernel_IsInTheEvidence) {
  Run(main_, 0, 3'000 * kMs, train_);
  timeline_.usage[main_].points.push_back({timeline_.duration_ps, 10'000 * kMs});
  Make();
  EXPECT_EQ(timeline_.verdict.cause, Cause::kOperations) << Sentence();
  EXPECT_EQ(timeline_.verdict.advice, Advice::kInKernel);
  ASSERT_FALSE(timeline_.verdict.facts.empty());
  EXPECT_THAT(timeline_.verdict.facts.front(),
              HasSubstr("70 % of its CPU time is in the kernel, outside of recorded calls"));
}

TEST_F(NativeVerdict, SleepsBesideAThreadThatDoesLittle_AreSleeps) {
  for (int64_t at = 0; at < 10'000; at += 100) Wait(main_, kSleep, at * kMs, 100 * kMs, 0);
  const uint32_t other = AddThread(0, "heartbeat");
  for (int64_t at = 0; at < 10'000; at += 1000) Run(other, at * kMs, 50 * kMs, train_);
  Make();
  EXPECT_EQ(timeline_.verdict.cause, Cause::kSleep) << Sentence();
}

// Of millions of calls that take less than a microsecond each, none is recorded.
TEST_F(NativeVerdict, CallsThatWereOnlyCounted_AreNoComputing) {
  Run(main_, 0, 10'000 * kMs, train_);
  OperationTotal reads;
  reads.type = kRead;
  reads.calls = 20'000'000;
  reads.total_ps = 7'000 * kMs;
  timeline_.processes[0].operations.push_back(reads);
  Make();
  EXPECT_EQ(timeline_.verdict.cause, Cause::kDisk) << Sentence();
  EXPECT_THAT(Sentence(), HasSubstr("makes many short calls that read or write"));
  EXPECT_NEAR(timeline_.verdict.ShareOf(StepPart::kDisk), 0.7, 0.01);
  EXPECT_NEAR(timeline_.verdict.ShareOf(StepPart::kOperations), 0.3, 0.01);
  EXPECT_THAT(timeline_.verdict.facts, testing::Contains(HasSubstr("20.0 M calls of read, 350 ns each")));
}

TEST_F(NativeVerdict, CountedCallsOfOtherThreads_AreNotThisThreads) {
  Run(main_, 0, 10'000 * kMs, train_);
  Run(AddThread(0, "reader"), 0, 8'000 * kMs, libc_);
  OperationTotal reads;
  reads.type = kRead;
  reads.calls = 20'000'000;
  reads.total_ps = 7'000 * kMs;
  timeline_.processes[0].operations.push_back(reads);
  Make();
  EXPECT_EQ(timeline_.verdict.cause, Cause::kOperations) << Sentence();
}

TEST_F(NativeVerdict, CodeThatAllocates_IsToldToReuseMemory) {
  const uint32_t allocator = Frame("libc.so.6", "_int_malloc", train_);
  for (int64_t at = 0; at < 10'000; at += 1000) {
    Run(main_, at * kMs, 600 * kMs, train_);
    Run(main_, (at + 600) * kMs, 400 * kMs, allocator);
  }
  Make();
  EXPECT_EQ(timeline_.verdict.cause, Cause::kOperations);
  EXPECT_EQ(timeline_.verdict.advice, Advice::kAllocates);
  EXPECT_THAT(timeline_.verdict.facts, testing::Contains(HasSubstr("40 % of its CPU time is in malloc and free")));
}

TEST_F(NativeVerdict, ThreadsOfOpenMpThatSpin_AreInTheEvidence) {
  Run(main_, 0, 10'000 * kMs, train_);
  Run(AddThread(0, ""), 0, 10'000 * kMs, Frame("libgomp.so.1", "gomp_team_barrier_wait_end", 0));
  Make();
  EXPECT_EQ(timeline_.verdict.cause, Cause::kOperations);
  EXPECT_THAT(timeline_.verdict.facts,
              testing::Contains(HasSubstr("OpenMP's threads wait for each other in 50 % of the CPU time")));
}

// `timeout 30 ./train`, `sh -c`.
TEST_F(NativeVerdict, CommandThatOnlyWaitsForAProgram_IsNotJudged) {
  Wait(main_, kSleep, 0, 10'000 * kMs, 0);
  AddProcess("/opt/train", 101, 0);
  const uint32_t child = AddThread(1, "", true);
  Run(child, 0, 9'000 * kMs, train_);
  Make();
  EXPECT_EQ(timeline_.verdict.thread, child) << Sentence();
  EXPECT_EQ(timeline_.verdict.cause, Cause::kOperations) << Sentence();
  EXPECT_THAT(timeline_.verdict.facts, testing::Contains(HasSubstr("about process 101, train")));
}

TEST_F(NativeVerdict, CommandThatStartsManyPrograms_IsJudged) {
  Wait(main_, kChildEnd, 0, 10'000 * kMs, 0);
  for (int i = 0; i < 5; ++i) {
    AddProcess("/opt/tool", 101 + i, 0);
    Run(AddThread(static_cast<uint32_t>(1 + i), "", true), i * 2'000 * kMs, 1'900 * kMs, train_);
  }
  Make();
  EXPECT_EQ(timeline_.verdict.thread, main_) << Sentence();
  EXPECT_EQ(timeline_.verdict.cause, Cause::kChild) << Sentence();
}

TEST_F(NativeVerdict, LauncherOfRanks_IsNotJudged_ButTheFirstRankIs) {
  Wait(main_, kChildEnd, 0, 10'000 * kMs, 0);
  for (int rank = 1; rank >= 0; --rank) {
    AddProcess("/opt/train", 101 + rank, 0);
    timeline_.processes.back().rank = rank;
    Run(AddThread(static_cast<uint32_t>(timeline_.processes.size() - 1), "", true), 0, 9'000 * kMs, train_);
  }
  Make();
  EXPECT_EQ(timeline_.threads[timeline_.verdict.thread].process, 2u) << Sentence();
  EXPECT_EQ(timeline_.processes[2].rank, 0);
}

TEST_F(NativeVerdict, ManyFunctions_NoneIsNamedInTheSentence) {
  for (int64_t i = 0; i < 10; ++i) {
    Run(main_, i * 1000 * kMs, 1000 * kMs, Frame("app", "part_" + std::to_string(i), root_));
  }
  Make();
  EXPECT_EQ(timeline_.verdict.cause, Cause::kOperations);
  EXPECT_EQ(VerdictSentence(timeline_, {.place = true}).find(", at "), std::string::npos);
  EXPECT_THAT(VerdictBlocker(timeline_), HasSubstr("10 % running at part_"));
}

TEST_F(NativeVerdict, FunctionsWithoutNames_NoPlace) {
  Run(main_, 0, 10'000 * kMs, Frame("app", "[app]", 0));
  Make();
  EXPECT_EQ(timeline_.verdict.cause, Cause::kOperations);
  EXPECT_EQ(VerdictBlocker(timeline_), "no single function");
  EXPECT_THAT(timeline_.verdict.limits,
              testing::Contains(HasSubstr("function names: most of the native code has none")));
}

TEST_F(NativeVerdict, LibraryOfTheProgram_CountsIfNoFrameIsOfTheExecutable) {
  const uint32_t library = Frame("libengine.so", "engine::loop()", 0);
  Run(main_, 0, 10'000 * kMs, Frame("libc.so.6", "memset", library));
  Make();
  EXPECT_EQ(VerdictBlocker(timeline_), "100 % running at engine::loop");
}

// Two threads work in turn, on their own and beside the main thread, which waits for them.
TEST_F(NativeVerdict, WaitForAThread_NamesItAndItsFunction) {
  const uint32_t parse = Frame("app", "parse_record", Frame("libc.so.6", "start_thread", 0));
  const uint32_t worker = AddThread(0, "parser"), like = AddThread(0, "parser 2");
  for (int64_t at = 0; at < 10'000; at += 1000) {
    Wait(main_, kCondition, at * kMs, 700 * kMs);
    Wait(main_, kMutex, (at + 700) * kMs, 10 * kMs, 9);
    Run(main_, (at + 710) * kMs, 290 * kMs, train_);
    Run(worker, at * kMs, 710 * kMs, parse);
    Run(like, at * kMs, 400 * kMs, parse);
  }
  Make();
  EXPECT_EQ(timeline_.verdict.cause, Cause::kWorkers);
  EXPECT_NEAR(timeline_.verdict.share, 0.7, 0.01);
  EXPECT_EQ(VerdictBlocker(timeline_), "thread parser and 1 alike, running at parse_record");
}

// A thread that is busy for a part of the wait may do something else.
TEST_F(NativeVerdict, WaitBesideAThreadWithLittleWork_IsUnknown) {
  const uint32_t logger = AddThread(0, "logger");
  for (int64_t at = 0; at < 10'000; at += 1000) {
    Wait(main_, kCondition, at * kMs, 700 * kMs);
    Run(main_, (at + 700) * kMs, 300 * kMs, train_);
    Run(logger, at * kMs, 210 * kMs, Frame("libz.so.1", "deflate", 0));
  }
  Make();
  EXPECT_EQ(timeline_.verdict.cause, Cause::kUnknown) << Sentence();
}

// The main thread itself never runs: xz -T2.
TEST_F(NativeVerdict, WaitOfAThreadWithoutSamples_NamesTheOther) {
  const uint32_t worker = AddThread(0, "worker");
  timeline_.native.threads.erase(timeline_.native.threads.begin());
  Wait(main_, kCondition, 0, 9'900 * kMs);
  Run(worker, 0, 9'900 * kMs, Frame("liblzma.so.5", "[liblzma.so.5]", 0));
  Make();
  EXPECT_EQ(timeline_.verdict.cause, Cause::kWorkers) << Sentence();
  EXPECT_EQ(VerdictBlocker(timeline_), "thread worker, running");
}

// Workers that take turns fill the wait together.
TEST_F(NativeVerdict, WaitForThreadsThatTakeTurns_NamesThem) {
  const uint32_t parse = Frame("app", "parse_record", 0);
  const uint32_t workers[] = {AddThread(0, "w"), AddThread(0, "w"), AddThread(0, "w")};
  for (int64_t at = 0; at < 10'000; at += 1000) {
    Wait(main_, kCondition, at * kMs, 900 * kMs);
    Run(main_, (at + 900) * kMs, 100 * kMs, train_);
    for (int64_t i = 0; i < 3; ++i) Run(workers[i], (at + i * 300) * kMs, 290 * kMs, parse);
  }
  Make();
  EXPECT_EQ(timeline_.verdict.cause, Cause::kWorkers) << Sentence();
  EXPECT_THAT(timeline_.verdict.facts, testing::Contains(HasSubstr("these 3 threads work")));
}

// A semaphore, or a futex, for which others wait, too, is a lock: of Rust, or of Abseil.
TEST_F(NativeVerdict, SemaphoreThatOthersWaitFor_IsALock) {
  for (const bool shared : {true, false}) {
    SCOPED_TRACE(shared);
    for (Thread& thread : timeline_.threads) thread.events.clear();
    const uint32_t update = Frame("app", "update", root_), other = AddThread(0, "other");
    for (int64_t at = 0; at < 10'000; at += 1000) {
      Wait(main_, kSemaphore, at * kMs, 500 * kMs);
      Run(other, at * kMs, 490 * kMs, update);
      if (shared) Wait(other, kSemaphore, (at + 500) * kMs, 500 * kMs);
    }
    for (int64_t at = 500; at < 10'000; at += 1000) Run(main_, at * kMs, 500 * kMs, train_);
    Make();
    EXPECT_EQ(timeline_.verdict.cause, shared ? Cause::kLockConvoy : Cause::kWorkers) << Sentence();
    for (auto& native : timeline_.native.threads) native.points.clear();
    for (ThreadUsage& usage : timeline_.usage) usage.points = {{}};
  }
}

// Templates and inlined functions of the language's own library are in the executable, too.
TEST_F(NativeVerdict, CodeOfTheLanguage_CountsForItsCaller) {
  const uint32_t sort = Frame("app", "void std::__introsort_loop<int*, long>(int*, int*, long)", train_);
  Run(main_, 0, 10'000 * kMs, Frame("app", "__memmove_avx_unaligned", sort));
  Make();
  EXPECT_EQ(VerdictBlocker(timeline_), "100 % running at train");
}

// A wait in which no thread is busy has no cause that was recorded.
TEST_F(NativeVerdict, WaitForNobody_IsUnknown) {
  AddThread(0, "idle");
  for (int64_t at = 0; at < 10'000; at += 1000) {
    Wait(main_, kCondition, at * kMs, 700 * kMs);
    Run(main_, (at + 700) * kMs, 300 * kMs, train_);
  }
  Make();
  EXPECT_EQ(timeline_.verdict.cause, Cause::kUnknown) << Sentence();
}

TEST_F(NativeVerdict, ContendedLock_IsNotAWaitForWorkers) {
  const uint32_t update = Frame("app", "update_shared", root_);
  const uint32_t other = AddThread(0, "other");
  for (int64_t at = 0; at < 10'000; at += 1000) {
    Wait(main_, kMutex, at * kMs, 500 * kMs);
    Run(other, at * kMs, 500 * kMs, update);
    Run(main_, (at + 500) * kMs, 500 * kMs, update);
    Wait(other, kMutex, (at + 500) * kMs, 500 * kMs);
  }
  Make();
  EXPECT_EQ(timeline_.verdict.cause, Cause::kLockConvoy) << Sentence();
  EXPECT_EQ(VerdictBlocker(timeline_), "thread other, running at update_shared");
}

// Of a child without names of functions, the process is named. A busy thread beside the wait is not what it is for.
TEST_F(NativeVerdict, WaitForAChild_NamesTheBusiestDescendant) {
  AddProcess("/usr/bin/sort", 200, 0);
  const uint32_t child = AddThread(1, "", true), beside = AddThread(0, "beside");
  Wait(main_, kChildEnd, 0, 10'000 * kMs);
  Run(child, 0, 6'000 * kMs, Frame("sort", "[sort]", 0));
  Run(beside, 0, 10'000 * kMs, train_);
  Make();
  EXPECT_EQ(timeline_.verdict.cause, Cause::kChild);
  EXPECT_EQ(VerdictBlocker(timeline_), "process 200 (sort), running");
}

// A shell waits for what it has started. Of its children none works for a quarter of the wait, but those of one program
// do together.
TEST_F(NativeVerdict, WaitForManyChildren_NamesTheProgramThatTakesMost) {
  AddProcess("/bin/sh", 200, 0);
  Wait(main_, kChildEnd, 0, 10'000 * kMs);
  Wait(AddThread(1, "", true), kChildEnd, 0, 10'000 * kMs);
  for (int i = 0; i < 5; ++i) {
    AddProcess("/usr/bin/cc1", 300 + i, 1);
    Run(AddThread(static_cast<uint32_t>(2 + 2 * i), "", true), i * 2000 * kMs, 1500 * kMs, Frame("cc1", "parse", 0));
    AddProcess("/usr/bin/as", 400 + i, 1);
    Run(AddThread(static_cast<uint32_t>(3 + 2 * i), "", true), (i * 2000 + 1500) * kMs, 500 * kMs,
        Frame("as", "[as]", 0));
  }
  Make();
  EXPECT_EQ(timeline_.verdict.cause, Cause::kChild);
  EXPECT_THAT(VerdictBlocker(timeline_), testing::MatchesRegex("process 30. \\(cc1\\) and 4 alike, running at parse"));
  EXPECT_THAT(timeline_.verdict.facts, testing::Contains(HasSubstr("these 5 processes work for 75 %")));
}

// Many children that sleep, and concurrent ones, do not fill the wait.
TEST_F(NativeVerdict, ChildrenThatSleepOrWorkAtOnce_AreNotTheOneThatTakesMost) {
  timeline_.types.push_back({"clock_nanosleep", EventFamily::kSleep});
  const auto nap = static_cast<Type>(timeline_.types.size() - 1);
  Wait(main_, kChildEnd, 0, 10'000 * kMs);
  uint32_t process = 0;
  const auto child = [&](const std::string& name) {
    AddProcess("/usr/bin/" + name, 200 + static_cast<int>(++process), 0);
    return AddThread(process, "", true);
  };
  const uint32_t compile = Frame("cc1", "parse", 0);
  for (int i = 0; i < 8; ++i) Run(child("cc1"), 0, 4'500 * kMs, compile);
  for (int i = 0; i < 10; ++i) Wait(child("sleep"), nap, i * 1000 * kMs, 1000 * kMs);
  Run(child("ld"), 4'500 * kMs, 5'500 * kMs, Frame("ld", "merge", 0));
  Make();
  EXPECT_EQ(VerdictBlocker(timeline_), "process 219 (ld), running at merge");
}

// Those that used most CPU time are looked at.
TEST_F(NativeVerdict, MoreChildrenThanAreJudged_TheBusiestIsFound) {
  Wait(main_, kChildEnd, 0, 10'000 * kMs);
  for (int i = 0; i < 600; ++i) {
    AddProcess("/bin/true", 1000 + i, 0);
    Run(AddThread(static_cast<uint32_t>(i + 1), "", true), i * 16 * kMs, 20 * kMs, root_);
  }
  AddProcess("/usr/bin/xz", 9000, 0);
  Run(AddThread(601, "", true), 0, 10'000 * kMs, Frame("xz", "lzma_encode", 0));
  Make();
  EXPECT_EQ(VerdictBlocker(timeline_), "process 9000 (xz), running at lzma_encode");
}

// Python's own samples have lines: functions of native code do not take their place.
TEST_F(NativeVerdict, ProcessWithPython_HasNoNativePlaces) {
  timeline_.python.threads.push_back({.thread = main_});
  Run(main_, 0, 10'000 * kMs, libc_);
  Make();
  EXPECT_EQ(VerdictBlocker(timeline_), "no single line of Python");
}

}  // namespace
}  // namespace tbprof
