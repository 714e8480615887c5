// SPDX-License-Identifier: Apache-2.0
// The verdict on timelines in which one cause bounds the step.
#include "writer/verdict/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "tests/unit/writer/verdict_maker.h"

namespace tbprof {
namespace {

using Maker = VerdictMaker;

TEST(Verdict, NothingRecorded_IsUnknownWithAReason) {
  Timeline timeline;
  const Verdict verdict = MakeVerdict(timeline);
  EXPECT_EQ(verdict.cause, Cause::kUnknown);
  EXPECT_FALSE(verdict.reason.empty());
}

TEST(Verdict, NativeWorkAlone_IsNoProblem) {
  Maker maker;
  maker.EachStep(0, [](int64_t) {});
  maker.Expect(Cause::kOperations, StepPart::kOperations, 1);
  EXPECT_FALSE(IsProblem(maker.Make().cause));
}

TEST(Verdict, InterpreterAlone_IsPython) {
  Maker maker;
  maker.EachStep(80 * kMs, [&](int64_t at) { maker.Run(maker.main, at, 80 * kMs, maker.in_main, maker.interpreter); });
  // Both are at one line: all native samples of the line count.
  maker.Expect(Cause::kPython, StepPart::kPython, 0.8);
}

TEST(Verdict, PythonInManyLines_AdviceNamesNoLine) {
  for (const int lines : {2, 8}) {
    Maker maker;
    std::vector<uint32_t> stacks;
    for (int line = 0; line < lines; ++line) stacks.push_back(maker.Stack(0, kOwn, "parse", 20 + line));
    maker.EachStep(80 * kMs, [&](int64_t at) {
      for (int i = 0; i < 8; ++i) {
        maker.Run(maker.main, at + i * 10 * kMs, 10 * kMs, stacks[static_cast<size_t>(i % lines)], maker.interpreter);
      }
    });
    const Verdict verdict = maker.Make();
    EXPECT_EQ(verdict.cause, Cause::kPython);
    EXPECT_EQ(verdict.advice, lines == 2 ? Advice::kOfCause : Advice::kNoLine) << lines;
  }
}

TEST(Verdict, CallWithoutAHook_IsWhatSamplesFoundItBlockedIn) {
  const struct {
    BlockedIn kind;
    Cause cause;
    StepPart part;
  } kCases[] = {{BlockedIn::kFile, Cause::kDisk, StepPart::kDisk},
                {BlockedIn::kPageFault, Cause::kReclaim, StepPart::kReclaim},
                {BlockedIn::kSocket, Cause::kNetwork, StepPart::kNetwork},
                {BlockedIn::kPipe, Cause::kChild, StepPart::kChild},
                {BlockedIn::kSleep, Cause::kSleep, StepPart::kSleep}};
  for (const auto& [kind, cause, part] : kCases) {
    Maker maker;
    const uint32_t read = maker.Stack(maker.in_main, kOwn, "load", 33);
    maker.EachStep(60 * kMs, [&, kind = kind](int64_t at) { maker.Block(at, 60 * kMs, read, kind); });
    maker.Expect(cause, part, 0.6);
    const Verdict verdict = maker.Make();
    ASSERT_FALSE(verdict.where.empty());
    EXPECT_EQ(maker.PlaceOf(verdict.where[0]), "train.py:33");
    EXPECT_FALSE(verdict.where[0].doing.empty());
  }
}

// A function that calls the same helper as another is not the place of its own time alone.
TEST(Verdict, HelperOfTwoCallers_CountsForBoth) {
  Maker maker;
  const uint32_t train = maker.Stack(maker.in_main, kOwn, "train", 20);
  const uint32_t check = maker.Stack(maker.in_main, kOwn, "check", 30);
  const uint32_t of_train = maker.Stack(train, kOwn, "helper", 40);
  // The same function and line.
  maker.timeline.python.stacks.push_back({check, maker.timeline.python.stacks[of_train].function, 40});
  const auto of_check = static_cast<uint32_t>(maker.timeline.python.stacks.size() - 1);
  maker.EachStep(90 * kMs, [&](int64_t at) {
    maker.Run(maker.main, at, 30 * kMs, of_train, maker.library);
    maker.Run(maker.main, at + 30 * kMs, 20 * kMs, of_check, maker.library);
    maker.Run(maker.main, at + 50 * kMs, 40 * kMs, check, maker.interpreter);
  });
  for (const std::string& fact : maker.Make().facts) EXPECT_EQ(fact.find("check with all"), std::string::npos) << fact;
}

// The cause explains a part of what the line costs.
TEST(Verdict, LineThatComputesAndWaits_IsNamedWithAllOfIt) {
  for (const int64_t waits : {int64_t{5}, int64_t{35}}) {
    Maker maker;
    const uint32_t monitor = maker.Stack(maker.in_main, kOwn, "monitor", 33);
    maker.EachStep((45 + waits) * kMs, [&](int64_t at) {
      maker.Run(maker.main, at, 45 * kMs, monitor, maker.interpreter);
      maker.Wait(maker.main, kSync, at + 45 * kMs, waits * kMs, monitor);
    });
    const Verdict verdict = maker.Make();
    EXPECT_EQ(verdict.cause, Cause::kPython);
    const bool said = std::ranges::any_of(verdict.facts, [](const std::string& fact) {
      return fact.find("train.py:33 monitor with all that it calls: 80 %") != std::string::npos;
    });
    EXPECT_EQ(said, waits == 35) << waits;
  }
}

// A person stopped it: that says nothing of the program.
TEST(Verdict, StoppedBySignal_IsLeftOut) {
  Maker maker;
  const uint32_t parse = maker.Stack(maker.in_main, kOwn, "parse", 33);
  size_t step = 0;
  maker.EachStep(80 * kMs, [&](int64_t at) {
    maker.Run(maker.main, at, 80 * kMs, parse, maker.interpreter);
    if (++step == 1) maker.timeline.blocked.push_back({.thread = maker.main});
    if (step == 2) maker.timeline.blocked[0].runs.push_back({at, at + 300 * kMs, 30, -1, BlockedIn::kStopped});
  });
  const Verdict verdict = maker.Make();
  EXPECT_EQ(verdict.cause, Cause::kPython);
  ASSERT_FALSE(verdict.limits.empty());
  EXPECT_THAT(verdict.limits[0], testing::HasSubstr("stopped by a signal or a debugger for 300 ms"));
}

TEST(Verdict, StoppedAllTheTime_IsUnknown) {
  Maker maker;
  maker.timeline.blocked.push_back({.thread = maker.main});
  maker.timeline.blocked[0].runs.push_back({0, 1000000 * kMs, 30, -1, BlockedIn::kStopped});
  maker.EachStep(80 * kMs, [](int64_t) {});
  const Verdict verdict = maker.Make();
  EXPECT_EQ(verdict.cause, Cause::kUnknown);
  EXPECT_THAT(verdict.reason, testing::HasSubstr("the main thread was stopped by a signal"));
  maker.timeline.blocked[0].runs[0].last_ps = maker.timeline.duration_ps * 9 / 10;
  EXPECT_THAT(maker.Make().reason, testing::HasSubstr("the main thread was stopped by a signal"))
      << "the rest is too short to say what bounds the program";
}

// Which process holds it was not recorded.
TEST(Verdict, LockOfAFile_IsALockWithoutACause) {
  Maker maker;
  const uint32_t lock = maker.Stack(maker.in_main, kOwn, "update", 33);
  maker.EachStep(80 * kMs, [&](int64_t at) { maker.Block(at, 80 * kMs, lock, BlockedIn::kFileLock); });
  const Verdict verdict = maker.Make();
  EXPECT_NEAR(verdict.ShareOf(StepPart::kLocks), 0.8, 0.02);
  EXPECT_EQ(verdict.cause, Cause::kUnknown);
  EXPECT_THAT(verdict.reason, testing::HasSubstr("is locks, and what it waits for was not recorded"));
}

// Three threads share a lock that the main thread hardly waits for.
TEST(Verdict, LockOfAFile_IsNoConvoyOfThreads) {
  Maker maker;
  const uint32_t lock = maker.Stack(maker.in_main, kOwn, "update", 33);
  const uint32_t one = maker.Thread("one"), other = maker.Thread("other");
  maker.EachStep(80 * kMs, [&](int64_t at) {
    maker.Block(at + kMs, 79 * kMs, lock, BlockedIn::kFileLock);
    maker.Wait(maker.main, kCondition, at, kMs, maker.in_main, 0xabc);
    maker.Wait(one, kCondition, at, 50 * kMs, 0, 0xabc);
    maker.Wait(other, kCondition, at, 50 * kMs, 0, 0xabc);
  });
  EXPECT_NE(maker.Make().cause, Cause::kLockConvoy);
}

TEST(Verdict, NativeWorkWithAFewLogs_IsNativeWork) {
  Maker maker;
  const uint32_t logs = maker.Stack(maker.in_main, "/usr/lib/python3.11/logging/__init__.py", "info", 1489);
  maker.EachStep(5 * kMs, [&](int64_t at) { maker.Run(maker.main, at, 5 * kMs, logs, maker.library); });
  EXPECT_EQ(CauseName(maker.Make().cause), "operations");
}

// A GPU makes operations of some microseconds slower.
TEST(Verdict, TinyOperationsOfPyTorch_AreToGetMoreWork) {
  for (const int64_t self_us : {3, 300}) {
    Maker maker;
    maker.EachStep(90 * kMs, [&](int64_t at) { maker.Run(maker.main, at, 90 * kMs, maker.in_main, maker.library); });
    EventType type = {"aten::add", EventFamily::kAnnotation};
    type.origin = RangeOrigin::kTorchOperation;
    maker.timeline.types.push_back(type);
    OperationTotal total;
    total.type = static_cast<uint16_t>(maker.timeline.types.size() - 1);
    total.self_ps = kSteps * 80 * kMs;
    total.calls = static_cast<uint64_t>(total.self_ps / (self_us * 1'000'000));
    maker.timeline.processes[0].operations = {total};
    const Verdict verdict = maker.Make();
    EXPECT_EQ(verdict.cause, Cause::kOperations);
    EXPECT_EQ(verdict.advice, self_us == 3 ? Advice::kTinyOperations : Advice::kOfCause);
  }
}

TEST(Verdict, CostlyRecordingOfOperations_IsALimit) {
  for (const double share : {0.02, 0.13}) {
    Maker maker;
    maker.EachStep(90 * kMs, [&](int64_t at) { maker.Run(maker.main, at, 90 * kMs, maker.in_main, maker.library); });
    maker.timeline.processes[0].observing_seconds = share * static_cast<double>(maker.timeline.duration_ps) / 1e12;
    const Verdict verdict = maker.Make();
    const std::string expected = "recording every operation of PyTorch takes about 13 % of its CPU time";
    EXPECT_EQ(std::ranges::count(verdict.limits, expected), share > 0.1 ? 1 : 0);
  }
}

TEST(Verdict, NativeWorkBesideALargeWait_SaysNotThatNoWaitIsLarge) {
  for (const int64_t blocked : {0, 30}) {
    Maker maker;
    const uint32_t lock = maker.Stack(maker.in_main, kOwn, "update", 33);
    maker.EachStep(blocked * kMs, [&](int64_t at) {
      if (blocked > 0) maker.Block(at, blocked * kMs, lock, BlockedIn::kFileLock);
    });
    const Verdict verdict = maker.Make();
    EXPECT_EQ(verdict.cause, Cause::kOperations);
    EXPECT_EQ(NextStep(verdict).find("no wait is large") != std::string_view::npos, blocked == 0);
  }
}

// asyncio.to_thread: the loop learns by a socket of its own that the thread is done.
TEST(Verdict, EventLoopThatWaitsForItsExecutor_WaitsForItsThreads) {
  for (const bool busy : {true, false}) {
    Maker maker;
    const uint32_t pool = maker.Thread("asyncio_0");
    const uint32_t begin = maker.Stack(0, "/usr/lib/python3.11/concurrent/futures/thread.py", "_worker", 83);
    const uint32_t pack = maker.Stack(begin, kOwn, "pack", 44);
    const uint32_t loop = maker.Stack(maker.in_main, "/usr/lib/python3.11/asyncio/base_events.py", "_run_once", 1884);
    const uint32_t select = maker.Stack(loop, "/usr/lib/python3.11/selectors.py", "EpollSelector.select", 468);
    maker.EachStep(80 * kMs, [&](int64_t at) {
      maker.Wait(maker.main, kPoll, at, 79 * kMs, select);
      maker.timeline.threads[maker.main].events.back().value = 1;
      maker.Wait(maker.main, kReceive, at + 79 * kMs, kMs, select);
      maker.timeline.threads[maker.main].events.back().value = 1;
      maker.Run(pool, at, busy ? 78 * kMs : 10 * kMs, pack, maker.library);
    });
    if (!busy) {
      EXPECT_THAT(maker.Make().reason, testing::HasSubstr("waits for any of several descriptors"));
      continue;
    }
    maker.Expect(Cause::kWorkers, StepPart::kLocks, 0.79);
    maker.ExpectBlocker("train.py:44");
  }
}

// A server whose other threads are busy may as well wait for its clients.
TEST(Verdict, EventLoopBesideABusyThread_MayWaitForTheNetwork) {
  Maker maker;
  const uint32_t other = maker.Thread("stats");
  const uint32_t count = maker.Stack(0, kOwn, "count", 44);
  const uint32_t select = maker.Stack(maker.in_main, "/usr/lib/python3.11/selectors.py", "EpollSelector.select", 468);
  maker.EachStep(80 * kMs, [&](int64_t at) {
    maker.Wait(maker.main, kPoll, at, 79 * kMs, select);
    maker.timeline.threads[maker.main].events.back().value = 1;
    maker.Wait(maker.main, kReceive, at + 79 * kMs, kMs, select);
    maker.timeline.threads[maker.main].events.back().value = 500;
    maker.Run(other, at, 80 * kMs, count, maker.library);
  });
  maker.Expect(Cause::kNetwork, StepPart::kNetwork, 0.8);
}

// Only the time of the polls is shown as that of the workers.
TEST(Verdict, EventLoopBesideOtherWaits_LeavesTheseAlone) {
  Maker maker;
  const uint32_t pool = maker.Thread("asyncio_0");
  const uint32_t pack = maker.Stack(0, kOwn, "pack", 44);
  const uint32_t select = maker.Stack(maker.in_main, "/usr/lib/python3.11/selectors.py", "EpollSelector.select", 468);
  maker.EachStep(100 * kMs, [&](int64_t at) {
    maker.Wait(maker.main, kPoll, at, 60 * kMs, select);
    maker.timeline.threads[maker.main].events.back().value = 1;
    maker.Wait(maker.main, kReceive, at + 62 * kMs, 38 * kMs, maker.in_main);
    maker.timeline.threads[maker.main].events.back().value = 500;
    maker.Run(pool, at, 60 * kMs, pack, maker.library);
    maker.Run(maker.main, at + 60 * kMs, 2 * kMs, maker.in_main, maker.library);
  });
  maker.Expect(Cause::kWorkers, StepPart::kLocks, 0.6);
  EXPECT_NEAR(maker.Make().ShareOf(StepPart::kNetwork), 0.38, 0.02);
}

// `make -j2`: pselect until a compiler ends.
TEST(Verdict, PollWhileAChildWorks_IsAWaitForIt) {
  Maker maker;
  const uint32_t compiler = maker.Thread("", true, maker.Process(20, 0));
  maker.timeline.processes.back().forked = false;
  const uint32_t compile = maker.Stack(0, kOwn, "compile", 44);
  maker.EachStep(80 * kMs, [&](int64_t at) {
    maker.Wait(maker.main, kPoll, at, 80 * kMs, 0, 0, "jobserver_acquire");
    maker.timeline.threads[maker.main].events.back().value = 1;
    maker.Run(compiler, at, 79 * kMs, compile, maker.library);
  });
  maker.Expect(Cause::kChild, StepPart::kChild, 0.8);
}

TEST(Verdict, PollThatNobodyExplains_SaysSo) {
  Maker maker;
  maker.EachStep(80 * kMs, [&](int64_t at) {
    maker.Wait(maker.main, kPoll, at, 80 * kMs, maker.in_main);
    maker.timeline.threads[maker.main].events.back().value = 1;
  });
  const Verdict verdict = maker.Make();
  EXPECT_EQ(verdict.cause, Cause::kUnknown);
  EXPECT_EQ(verdict.reason, "80 % waits for any of several descriptors, and for which was not recorded");
}

// Simulations of reinforcement learning are no data loader.
TEST(Verdict, OwnProcesses_AreNotCalledADataLoader) {
  for (const bool of_loader : {true, false}) {
    Maker maker;
    const char* const file = of_loader ? "/lib/python3.11/site-packages/torch/utils/data/dataloader.py"
                                       : "/usr/lib/python3.11/multiprocessing/connection.py";
    const uint32_t get = maker.Stack(maker.in_main, file, of_loader ? "__next__" : "recv", 250);
    const uint32_t worker = maker.Thread("", true, maker.Process(20, 0));
    const uint32_t simulate = maker.Stack(0, kOwn, "simulate", 44);
    maker.EachStep(80 * kMs, [&](int64_t at) {
      maker.Wait(maker.main, kReceive, at, 80 * kMs, get);
      maker.Run(worker, at, 79 * kMs, simulate, maker.library);
    });
    maker.Expect(Cause::kSlowLoader, StepPart::kInput, 0.8);
    const Verdict verdict = maker.Make();
    EXPECT_EQ(CauseTitle(verdict.cause, verdict.advice),
              of_loader ? "waits for the data loader" : "waits for its worker processes");
    EXPECT_EQ(NextStep(verdict).find("num_workers") != std::string_view::npos, of_loader);
  }
}

TEST(Verdict, LoaderWithoutWorkers_IsNotWaitedFor) {
  Maker maker;
  const std::string data = "/lib/python3.11/site-packages/torch/utils/data/";
  const uint32_t next = maker.Stack(maker.in_main, data + "dataloader.py", "_next_data", 250);
  const uint32_t fetch = maker.Stack(next, data + "_utils/fetch.py", "fetch", 50);
  const uint32_t item = maker.Stack(fetch, kOwn, "Images.__getitem__", 44);
  maker.EachStep(80 * kMs, [&](int64_t at) { maker.Run(maker.main, at, 80 * kMs, item, maker.library); });
  maker.Expect(Cause::kSlowLoader, StepPart::kInput, 0.8);
  const Verdict verdict = maker.Make();
  EXPECT_EQ(CauseTitle(verdict.cause, verdict.advice), "makes the batches itself, in the data loader");
}

// JAX and TensorFlow wait for other processes in locks of their own.
TEST(Verdict, LockOfALibrarysOwn_IsItsWorkOnlyIfItsThreadsAreBusy) {
  Maker idle;
  idle.timeline.processes[0].world_size = 2;
  idle.EachStep(60 * kMs, [&](int64_t at) { idle.Block(at, 60 * kMs, idle.in_main, BlockedIn::kFutex); });
  idle.Expect(Cause::kLibraryWait, StepPart::kLocks, 0.6);
  EXPECT_EQ(idle.PlaceOf(idle.Make().where[0]), "train.py:10");
  Maker maker;
  const uint32_t pool = maker.Thread("pool");
  std::erase_if(maker.timeline.python.threads, [&](const PythonThread& of) { return of.thread == pool; });
  maker.timeline.usage[pool].points = {{}, {maker.timeline.duration_ps, maker.timeline.duration_ps * 2 / 3}};
  maker.EachStep(60 * kMs, [&](int64_t at) { maker.Block(at, 60 * kMs, maker.in_main, BlockedIn::kFutex); });
  maker.Expect(Cause::kOperations, StepPart::kOperations, 1);
  // If waits for locks are not recorded, the lock may be any lock.
  maker.timeline.waits_recorded = false;
  EXPECT_NEAR(maker.Make().ShareOf(StepPart::kRest), 0.6, 0.02);
}

TEST(Verdict, WriteToAPipe_WaitsForTheProcessBehindIt) {
  Maker maker;
  maker.EachStep(60 * kMs, [&](int64_t at) {
    maker.Wait(maker.main, kWrite, at, 30 * kMs, maker.in_main, 7);
    maker.Wait(maker.main, kWrite, at + 30 * kMs, 30 * kMs, maker.in_main, 8);
  });
  // Descriptor 8 is a file.
  maker.timeline.blocked.push_back({.thread = maker.main});
  maker.timeline.blocked[0].runs = {{5 * kMs, 25 * kMs, 3, 7, BlockedIn::kPipe},
                                    {35 * kMs, 55 * kMs, 3, 8, BlockedIn::kFile}};
  const Verdict verdict = maker.Make();
  EXPECT_NEAR(verdict.ShareOf(StepPart::kChild), 0.3, 0.02);
  EXPECT_NEAR(verdict.ShareOf(StepPart::kDisk), 0.3, 0.02);
}

// The heartbeat thread also sleeps, all the time: it must not be named.
TEST(Verdict, QueueOfAThreadThatSleeps_NamesItsLine) {
  Maker maker;
  const uint32_t fetcher = maker.Thread("fetch"), heart = maker.Thread("heartbeat");
  const uint32_t get = maker.Stack(maker.in_main, "/usr/lib/python3.12/queue.py", "Queue.get", 171);
  const uint32_t fetch = maker.Stack(0, "/home/me/data.py", "fetch", 17);
  const uint32_t beat = maker.Stack(0, "/home/me/monitor.py", "beat", 5);
  maker.EachStep(60 * kMs, [&](int64_t at) {
    maker.Wait(maker.main, kSemaphore, at, 60 * kMs, get);
    maker.Wait(fetcher, kNap, at, 59 * kMs, fetch);
    for (int i = 0; i < 4; ++i) maker.Wait(heart, kNap, at + i * 25 * kMs, 24 * kMs + i * kMs / 7, beat);
  });
  maker.Expect(Cause::kPrefetchThread, StepPart::kInput, 0.6);
  const Verdict verdict = maker.Make();
  ASSERT_EQ(verdict.where.size(), 2u);
  EXPECT_EQ(maker.PlaceOf(verdict.where[0]), "train.py:10");
  EXPECT_EQ(verdict.where[1].role, WhereRole::kWaitedFor);
  EXPECT_EQ(verdict.where[1].thread, fetcher);
  EXPECT_EQ(maker.PlaceOf(verdict.where[1]), "data.py:17");
}

TEST(Verdict, WorkersThatCompute_AreASlowLoader) {
  Maker maker;
  const uint32_t worker = maker.Thread("", true, maker.Process(101, 0));
  const uint32_t get = maker.Stack(maker.in_main, "/x/site-packages/torch/utils/data/dataloader.py", "_get_data", 1);
  const uint32_t work = maker.Stack(0, "/home/me/data.py", "decode", 31);
  maker.EachStep(70 * kMs, [&](int64_t at) {
    maker.Wait(maker.main, kSemaphore, at, 70 * kMs, get);
    maker.Run(worker, at, 100 * kMs, work, maker.library);
  });
  maker.Expect(Cause::kSlowLoader, StepPart::kInput, 0.7);
  EXPECT_EQ(maker.PlaceOf(maker.Make().where.back()), "data.py:31");
}

TEST(Verdict, LockThatSeveralWaitFor_IsAConvoy) {
  Maker maker;
  const uint32_t other = maker.Thread("reader");
  const uint32_t holds = maker.Stack(0, "/home/me/cache.py", "read", 8);
  maker.EachStep(50 * kMs, [&](int64_t at) {
    maker.Wait(maker.main, kSemaphore, at, 50 * kMs, maker.in_main, 0x1000);
    maker.Run(other, at, 50 * kMs, holds, maker.interpreter);
    maker.Wait(other, kSemaphore, at + 60 * kMs, 5 * kMs, holds, 0x1000);
  });
  maker.Expect(Cause::kLockConvoy, StepPart::kLocks, 0.5);
}

TEST(Verdict, LockThatABusyThreadHolds_NamesIt) {
  Maker maker;
  const uint32_t holder = maker.Thread("whitening");
  const uint32_t holds = maker.Stack(0, "/home/me/stats.py", "run", 31);
  maker.EachStep(60 * kMs, [&](int64_t at) {
    maker.Wait(maker.main, kSemaphore, at, 60 * kMs, maker.in_main, 0x77);
    maker.Run(holder, at, 58 * kMs, holds, maker.library);
  });
  maker.Expect(Cause::kLockConvoy, StepPart::kLocks, 0.6);
  EXPECT_EQ(maker.PlaceOf(maker.Make().where.back()), "stats.py:31");
}

TEST(Verdict, LockWithoutAnyHolder_IsNoConvoy) {
  Maker maker;
  maker.EachStep(60 * kMs, [&](int64_t at) { maker.Wait(maker.main, kSemaphore, at, 60 * kMs, maker.in_main, 0x77); });
  EXPECT_NE(maker.Make().cause, Cause::kLockConvoy);
}

// A poll of 59 ms that finds `ready` descriptors, and a read that begins `later` after it.
Verdict PollAndRead(int64_t ready, int64_t later) {
  Maker maker;
  maker.EachStep(70 * kMs, [&](int64_t at) {
    maker.Wait(maker.main, kPoll, at, 59 * kMs, maker.in_main);
    maker.timeline.threads[maker.main].events.back().value = ready;
    maker.Wait(maker.main, kReceive, at + 59 * kMs + later, kMs, maker.in_main);
  });
  return maker.Make();
}

TEST(Verdict, PollBeforeARead_WaitsForTheSocket) {
  EXPECT_EQ(PollAndRead(1, kMs / 2).cause, Cause::kNetwork);
  EXPECT_NE(PollAndRead(0, kMs / 2).cause, Cause::kNetwork) << "it found nothing: it slept";
  EXPECT_NE(PollAndRead(1, 5 * kMs).cause, Cause::kNetwork) << "what is read much later was not waited for";
}

TEST(Verdict, FullQueueOfABusyThread_IsNoContendedLock) {
  Maker maker;
  const uint32_t writer = maker.Thread("writer");
  const uint32_t put = maker.Stack(maker.in_main, "/usr/lib/python3.12/queue.py", "Queue.put", 139);
  maker.EachStep(60 * kMs, [&](int64_t at) {
    maker.Wait(maker.main, kSemaphore, at, 60 * kMs, put, 0x77);
    maker.Run(writer, at, 58 * kMs, maker.in_main, maker.library);
  });
  EXPECT_NE(maker.Make().cause, Cause::kLockConvoy);
}

TEST(Verdict, ProcessesThatWaitNearlyAlike_StillWaitForCollectives) {
  Maker maker;
  const uint32_t slow = maker.Thread("", true, maker.Process(101, 0));
  const uint32_t barrier = maker.Stack(maker.in_main, "/usr/lib/python3.12/threading.py", "Barrier.wait", 5);
  maker.EachStep(33 * kMs, [&](int64_t at) {
    maker.Wait(maker.main, kSemaphore, at, 33 * kMs, barrier);
    maker.Run(slow, at, 84 * kMs, maker.in_main, maker.library);
    maker.Wait(slow, kSemaphore, at + 84 * kMs, 16 * kMs, barrier);
  });
  maker.Expect(Cause::kCollectives, StepPart::kCollectives, 0.33);
}

TEST(Verdict, ProcessThatOthersWaitFor_IsTheStraggler) {
  Maker maker;
  const uint32_t slow = maker.Thread("", true, maker.Process(101, 0));
  const uint32_t barrier = maker.Stack(maker.in_main, "/usr/lib/python3.12/threading.py", "Barrier.wait", 5);
  const uint32_t its = maker.Stack(0, kOwn, "extra", 44);
  const uint32_t its_barrier = maker.Stack(its, "/usr/lib/python3.12/threading.py", "Barrier.wait", 5);
  maker.EachStep(50 * kMs, [&](int64_t at) {
    maker.Wait(maker.main, kSemaphore, at, 50 * kMs, barrier);
    maker.Run(slow, at, 98 * kMs, its, maker.library);
    maker.Wait(slow, kSemaphore, at + 98 * kMs, 2 * kMs, its_barrier);
  });
  maker.Expect(Cause::kStraggler, StepPart::kCollectives, 0.49);
  ASSERT_FALSE(maker.Make().places.empty());
  EXPECT_EQ(maker.PlaceOf(maker.Make().places.front()), "train.py:10") << "of its own work, not of the barrier";
  EXPECT_EQ(maker.PlaceOf(maker.Make().where.back()), "train.py:44");
}

TEST(Verdict, PlaceOfTheStraggler_IsWhereItDiffersFromTheOthers) {
  Maker maker;
  const uint32_t slow = maker.Thread("", true, maker.Process(101, 0));
  const uint32_t barrier = maker.Stack(maker.in_main, "/usr/lib/python3.12/threading.py", "Barrier.wait", 5);
  const uint32_t its = maker.Stack(maker.in_main, kOwn, "extra", 44);
  maker.EachStep(25 * kMs, [&](int64_t at) {
    maker.Wait(maker.main, kSemaphore, at, 25 * kMs, barrier);
    maker.Run(slow, at, 70 * kMs, maker.in_main, maker.library);  // as the main thread's process does
    maker.Run(slow, at + 70 * kMs, 28 * kMs, its, maker.library);
    maker.Wait(slow, kSemaphore, at + 98 * kMs, 2 * kMs, barrier);
  });
  maker.Expect(Cause::kStraggler, StepPart::kCollectives, 0.24);
  const Verdict verdict = maker.Make();
  ASSERT_FALSE(verdict.where.empty());
  EXPECT_EQ(maker.PlaceOf(verdict.where.front()), "train.py:44");
  EXPECT_THAT(verdict.facts,
              testing::Contains(testing::HasSubstr("it spends 28 % of the time at the first place, the others 0.0 %")));
}

struct Plain {
  Cause cause;
  StepPart part;
  VerdictWait type;
  const char *file, *function;  // of a library on the stack; empty: none
};
TEST(Verdict, OneKindOfCall_IsItsCause) {
  const Plain rows[] = {
      {Cause::kDisk, StepPart::kDisk, kSync, "", ""},
      {Cause::kSleep, StepPart::kSleep, kNap, "", ""},
      {Cause::kNetwork, StepPart::kNetwork, kReceive, "", ""},
      {Cause::kChild, StepPart::kChild, kChildEnd, "", ""},
      {Cause::kChild, StepPart::kChild, kSemaphore, "/usr/lib/python3.12/subprocess.py", "Popen.wait"},
      {Cause::kNetwork, StepPart::kNetwork, kSync, "/usr/lib/python3.12/http/client.py", "HTTPResponse.begin"},
      {Cause::kLogging, StepPart::kDisk, kSync, "/usr/lib/python3.12/logging/__init__.py", "Logger._log"},
      {Cause::kCheckpoint, StepPart::kDisk, kSync, "/x/site-packages/torch/serialization.py", "save"},
      {Cause::kCheckpoint, StepPart::kDisk, kSync, "/home/me/io.py", "save_checkpoint"},
      {Cause::kModelLoad, StepPart::kDisk, kSync, "/x/site-packages/torch/serialization.py", "load"},
      {Cause::kModelLoad, StepPart::kDisk, kSync, "/x/site-packages/transformers/modeling_utils.py",
       "PreTrainedModel.from_pretrained"},
      {Cause::kRecompilation, StepPart::kCompile, kSemaphore, "/x/site-packages/jax/_src/compiler.py", "compile"},
      {Cause::kRecompilation, StepPart::kCompile, kSemaphore,
       "/x/site-packages/tensorflow/python/eager/polymorphic_function/tracing_compilation.py",
       "_create_concrete_function"},
      {Cause::kWorkers, StepPart::kLocks, kReceive, "/usr/lib/python3.12/multiprocessing/connection.py",
       "Connection._send"},
  };
  for (const Plain& row : rows) {
    Maker maker;
    const uint32_t stack = *row.file == '\0' ? maker.in_main : maker.Stack(maker.in_main, row.file, row.function, 3);
    maker.EachStep(60 * kMs, [&](int64_t at) { maker.Wait(maker.main, row.type, at, 60 * kMs, stack); });
    SCOPED_TRACE(std::string(row.file) + " " + std::string(CauseName(row.cause)));
    maker.Expect(row.cause, row.part, 0.6);
  }
}

// What it computes counts, too, and stays native code in the split.
TEST(Verdict, Loading_CountsWithWhatItComputes) {
  Maker maker;
  const uint32_t load = maker.Stack(maker.in_main, "/x/site-packages/torch/serialization.py", "load", 1200);
  const uint32_t inner = maker.Stack(load, "/x/site-packages/torch/serialization.py", "_load", 1500);
  maker.EachStep(80 * kMs, [&](int64_t at) {
    maker.Wait(maker.main, kSync, at, 30 * kMs, inner);
    maker.Run(maker.main, at + 30 * kMs, 40 * kMs, inner, maker.library);
  });
  const Verdict verdict = maker.Make();
  EXPECT_EQ(verdict.cause, Cause::kModelLoad);
  EXPECT_NEAR(verdict.share, 0.7, 0.02);
  EXPECT_GE(verdict.ShareOf(StepPart::kOperations), 0.39);
}

// Steps are short beside the distance of two samples: nearly all of these are in the wait, which is most of a step.
TEST(Verdict, SamplesWithinAWait_ShowNothingOfTheTimeBehindIt) {
  Maker maker;
  const uint32_t wait = maker.Stack(0, kOwn, "fetch", 20), work = maker.Stack(0, kOwn, "compute", 30);
  int64_t step = 0;
  maker.EachStep(kStep, [&](int64_t at) {
    maker.Wait(maker.main, kSemaphore, at, 60 * kMs, wait);
    maker.Run(maker.main, at + 60 * kMs, 40 * kMs, work, maker.library);
    std::vector<PythonRun>& runs = maker.timeline.python.threads[maker.main].runs;
    if (step++ % 5 == 0) return;
    PythonRun& run = runs.back();
    run.stack = wait;
    run.samples = 2;
    run.on_cpu = 1;
    run.first_ps = at + 10 * kMs;
    run.last_ps = at + 50 * kMs;
    run.from_ps = at;
  });
  const Verdict verdict = maker.Make();
  const auto place = std::ranges::find(verdict.places, 30, &Where::line);
  ASSERT_NE(place, verdict.places.end());
  EXPECT_NEAR(place->share, 0.4, 0.03);
}

// `time.sleep` in a coroutine.
TEST(Verdict, WaitInATaskOfAnEventLoop_BlocksTheOthers) {
  for (const auto& row : {std::pair{true, false}, std::pair{true, true}, std::pair{false, false}}) {
    const bool in_task = row.first, in_notebook = row.second;
    Maker maker;
    const uint32_t run = maker.Stack(maker.in_main, "/usr/lib/python3.12/asyncio/runners.py", "Runner.run", 118);
    const uint32_t loop = maker.Stack(run, "/usr/lib/python3.12/asyncio/base_events.py", "_run_once", 1987);
    const uint32_t kernel = maker.Stack(loop, "/x/site-packages/ipykernel/kernelbase.py", "dispatch_queue", 545);
    const uint32_t task = maker.Stack(in_notebook ? kernel : loop, kOwn, "predict", 18);
    maker.EachStep(60 * kMs,
                   [&](int64_t at) { maker.Wait(maker.main, kNap, at, 60 * kMs, in_task ? task : maker.in_main); });
    const Verdict verdict = maker.Make();
    EXPECT_EQ(verdict.cause, Cause::kSleep);
    EXPECT_EQ(verdict.advice, in_task && !in_notebook ? Advice::kBlocksEventLoop : Advice::kOfCause);
  }
}

// These are on the stack of each call of what was compiled.
TEST(Verdict, CallOfCompiledCode_IsNoCompilation) {
  const std::pair<const char*, const char*> calls[] = {
      {"/x/site-packages/tensorflow/python/eager/polymorphic_function/tracing_compilation.py", "call_function"},
      {"/x/site-packages/torch/_inductor/compile_fx.py", "align_inputs_from_check_idxs.<locals>.run"},
      {"/x/site-packages/jax/_src/stages.py", "Compiled.call"}};
  for (const auto& [file, function] : calls) {
    Maker maker;
    const uint32_t stack = maker.Stack(maker.in_main, file, function, 125);
    maker.EachStep(80 * kMs, [&](int64_t at) { maker.Run(maker.main, at, 80 * kMs, stack, maker.library); });
    SCOPED_TRACE(function);
    maker.Expect(Cause::kOperations, StepPart::kOperations, 1);
  }
}

// A progress bar pulls the program's own generator: that work is no logging.
TEST(Verdict, WorkBelowAProgressBar_IsTheProgramsOwn) {
  for (const auto& [file, function] : {std::pair{"/x/site-packages/tqdm/std.py", "tqdm.__iter__"},
                                       std::pair{"/x/site-packages/rich/progress.py", "Progress.track"}}) {
    Maker maker;
    const uint32_t bar = maker.Stack(maker.in_main, file, function, 1181);
    const uint32_t parse = maker.Stack(bar, kOwn, "parse", 30);
    maker.EachStep(80 * kMs, [&](int64_t at) { maker.Run(maker.main, at, 80 * kMs, parse, maker.interpreter); });
    maker.Expect(Cause::kPython, StepPart::kPython, 0.8);
    Maker drawing;
    const uint32_t refresh = drawing.Stack(drawing.Stack(drawing.in_main, file, function, 1190), file, "refresh", 1345);
    drawing.EachStep(60 * kMs, [&](int64_t at) { drawing.Wait(drawing.main, kSync, at, 60 * kMs, refresh); });
    drawing.Expect(Cause::kLogging, StepPart::kDisk, 0.6);
  }
}

TEST(Verdict, OwnFilesAndFunctions_AreNotLibrariesOfThatName) {
  const std::pair<const char*, const char*> kOwnFrames[] = {{"/home/rich/train.py", "parse"},
                                                            {"/home/me/logging/parse.py", "parse"},
                                                            {"/home/me/socket.py", "parse"},
                                                            {"/home/me/vectors.py", "save_embeddings"}};
  for (const auto& [file, function] : kOwnFrames) {
    Maker maker;
    const uint32_t own = maker.Stack(maker.in_main, file, function, 30);
    maker.EachStep(80 * kMs, [&](int64_t at) { maker.Run(maker.main, at, 80 * kMs, own, maker.interpreter); });
    SCOPED_TRACE(file);
    maker.Expect(Cause::kPython, StepPart::kPython, 0.8);
  }
}

TEST(Verdict, JoinOfThreadsThatWaitForTheGil_NamesThemAndTheGil) {
  Maker maker;
  const uint32_t one = maker.Thread("one"), other = maker.Thread("other");
  const uint32_t join = maker.Stack(maker.in_main, "/usr/lib/python3.12/threading.py", "Thread.join", 1149);
  const uint32_t work = maker.Stack(0, "/home/me/work.py", "work", 7);
  maker.EachStep(80 * kMs, [&](int64_t at) {
    maker.Wait(maker.main, kSemaphore, at, 80 * kMs, join);
    for (const auto& [thread, first] : {std::pair{one, true}, std::pair{other, false}}) {
      const int64_t runs = first ? at : at + 40 * kMs, waits = first ? at + 40 * kMs : at;
      if (first) maker.Run(thread, runs, 40 * kMs, work, maker.interpreter);
      maker.Wait(thread, kCondition, waits, 40 * kMs, work, 0, "take_gil (ceval_gil.c:1)");
      if (!first) maker.Run(thread, runs, 40 * kMs, work, maker.interpreter);
    }
  });
  maker.Expect(Cause::kWorkers, StepPart::kLocks, 0.8);
  const Verdict verdict = maker.Make();
  EXPECT_EQ(maker.PlaceOf(verdict.where.back()), "work.py:7");
  EXPECT_THAT(verdict.facts, testing::Contains("its threads wait 50 % for the GIL"));
}

// joblib asks its processes again and again whether they have ended.
TEST(Verdict, SleepOfJoblib_WaitsForItsProcesses) {
  Maker maker;
  const uint32_t worker = maker.Thread("", true, maker.Process(101, 0));
  const uint32_t retrieve =
      maker.Stack(maker.in_main, "/x/site-packages/joblib/parallel.py", "Parallel._retrieve", 1800);
  const uint32_t fit = maker.Stack(0, "/home/me/model.py", "fit", 12);
  maker.EachStep(80 * kMs, [&](int64_t at) {
    for (int i = 0; i < 8; ++i) maker.Wait(maker.main, kNap, at + i * 10 * kMs, 10 * kMs, retrieve);
    maker.Run(worker, at, 100 * kMs, fit, maker.library);
  });
  maker.Expect(Cause::kWorkers, StepPart::kLocks, 0.8);
  EXPECT_EQ(maker.PlaceOf(maker.Make().where.back()), "model.py:12");
}

// The pool's own thread passes on what its processes have made.
TEST(Verdict, PoolThatReadsAPipe_IsNotTheBlocker) {
  Maker maker;
  const uint32_t results = maker.Thread("Thread-3 (_handle_results)");
  const uint32_t worker = maker.Thread("", true, maker.Process(101, 0));
  const uint32_t next =
      maker.Stack(maker.in_main, "/usr/lib/python3.12/multiprocessing/pool.py", "IMapIterator.next", 1);
  const uint32_t recv = maker.Stack(0, "/usr/lib/python3.12/multiprocessing/connection.py", "Connection._recv", 395);
  const uint32_t work = maker.Stack(0, "/home/me/work.py", "work", 9);
  maker.timeline.blocked.push_back({.thread = results});
  maker.EachStep(80 * kMs, [&](int64_t at) {
    maker.Wait(maker.main, kSemaphore, at, 80 * kMs, next);
    maker.Wait(results, kReceive, at, 80 * kMs, recv, 5);
    maker.Run(worker, at, 60 * kMs, work, maker.library);
  });
  maker.Expect(Cause::kSlowLoader, StepPart::kInput, 0.8);
  EXPECT_EQ(maker.PlaceOf(maker.Make().where.back()), "work.py:9");
}

// A backward pass on the CPU waits for the gradients of the other ranks.
TEST(Verdict, BackwardPassOfARank_WaitsForTheOthers) {
  for (const int ranks : {1, 2}) {
    Maker maker;
    maker.timeline.processes[0].world_size = ranks;
    const uint32_t backward =
        maker.Stack(maker.in_main, "/x/site-packages/torch/autograd/graph.py", "_engine_run_backward", 829);
    maker.EachStep(80 * kMs, [&](int64_t at) {
      maker.Wait(maker.main, kCondition, at, 80 * kMs, backward, 0x10,
                 "std::condition_variable::wait(std::unique_lock<std::mutex>&) (libstdc++.so.6.0.30)");
    });
    const Verdict verdict = maker.Make();
    EXPECT_NEAR(verdict.ShareOf(ranks > 1 ? StepPart::kCollectives : StepPart::kLocks), 0.8, 0.02);
    EXPECT_EQ(CauseName(verdict.cause), ranks > 1 ? "collectives" : "unknown");
    if (ranks == 1) EXPECT_EQ(verdict.reason, "80 % is locks, and what it waits for was not recorded");
  }
}

// torch.multiprocessing gives its processes no rank in their environment, and Work::wait is no Python function.
TEST(Verdict, ThreadsOfAProcessGroup_ShowThatAProcessHasPeers) {
  enum { kInProgram, kInLibrary, kInOtherProcess };
  for (const int variant : {kInProgram, kInLibrary, kInOtherProcess}) {
    SCOPED_TRACE(variant);
    Maker maker;
    maker.Thread("pt_gloo_runloop", false, variant == kInOtherProcess ? maker.Process(101, 0) : 0);
    const uint32_t loader =
        maker.Stack(maker.in_main, "/x/site-packages/decord/video_reader.py", "VideoReader.next", 9);
    maker.EachStep(80 * kMs, [&](int64_t at) {
      maker.Wait(maker.main, kCondition, at, 80 * kMs, variant == kInLibrary ? loader : maker.in_main, 0x10,
                 "std::condition_variable::wait(std::unique_lock<std::mutex>&) (libstdc++.so.6.0.30)");
    });
    EXPECT_NEAR(maker.Make().ShareOf(StepPart::kCollectives), variant == kInProgram ? 0.8 : 0, 0.02);
  }
}

// DistributedDataParallel.forward calls the module of the program.
TEST(Verdict, ModuleBelowDistributedDataParallel_IsNoCollective) {
  for (const char* file : {kOwn, "/x/site-packages/torch/nn/modules/linear.py"}) {
    Maker maker;
    const uint32_t ddp = maker.Stack(maker.in_main, "/x/site-packages/torch/nn/parallel/distributed.py",
                                     "DistributedDataParallel.forward", 1700);
    const uint32_t call = maker.Stack(ddp, "/x/site-packages/torch/nn/modules/module.py", "Module._call_impl", 1750);
    const uint32_t module = maker.Stack(call, file, "forward", 13);
    maker.EachStep(60 * kMs, [&](int64_t at) { maker.Wait(maker.main, kNap, at, 60 * kMs, module); });
    maker.Expect(Cause::kSleep, StepPart::kSleep, 0.6);
  }
}

// A training that hangs after its last step.
TEST(Verdict, LongTimeAfterTheSteps_IsALimit) {
  Maker maker;
  EXPECT_THAT(maker.Make().limits, testing::Not(testing::Contains(testing::StartsWith("after the last step"))));
  const int64_t end = maker.timeline.duration_ps;
  maker.timeline.duration_ps = maker.timeline.threads[maker.main].end_ps = end + 20'000 * kMs;
  const uint32_t barrier =
      maker.Stack(maker.in_main, "/x/site-packages/torch/distributed/distributed_c10d.py", "barrier", 4800);
  maker.Wait(maker.main, kCondition, end, 15'000 * kMs, barrier);
  EXPECT_THAT(maker.Make().limits, testing::Contains(testing::AllOf(testing::StartsWith("after the last step: 20.0 s"),
                                                                    testing::HasSubstr("15.0 s of it in "),
                                                                    testing::HasSubstr("train.py:10"))));
}

// Whether a poll that was not drawn found something is not known.
TEST(Verdict, PollThatIsNotDrawn_IsNoSleep) {
  Maker maker;
  maker.EachStep(60 * kMs, [&](int64_t at) {
    maker.timeline.threads[maker.main].cut_waits.push_back({at, 60 * kMs, 0, kPoll});
  });
  EXPECT_EQ(maker.Make().ShareOf(StepPart::kSleep), 0);
}

TEST(Verdict, PollThatFindsNothing_Sleeps) {
  Maker maker;
  maker.EachStep(60 * kMs, [&](int64_t at) { maker.Wait(maker.main, kPoll, at, 60 * kMs, maker.in_main); });
  maker.Expect(Cause::kSleep, StepPart::kSleep, 0.6);
}

TEST(Verdict, Files_AdviceDependsOnTheCall) {
  for (const auto& [type, advice] : {std::pair{kSync, Advice::kSyncs}, {kPread, Advice::kReads}}) {
    Maker maker;
    maker.EachStep(60 * kMs,
                   [&, type = type](int64_t at) { maker.Wait(maker.main, type, at, 60 * kMs, maker.in_main, 7); });
    maker.Expect(Cause::kDisk, StepPart::kDisk, 0.6);
    EXPECT_EQ(maker.Make().advice, advice);
    Verdict of_cause;
    of_cause.cause = Cause::kDisk;
    Verdict of_call = of_cause;
    of_call.advice = advice;
    EXPECT_NE(NextStep(of_call), NextStep(of_cause));
  }
}

TEST(Verdict, CompilationWithoutSteps_IsRepeatedIfItGoesOnToTheEnd) {
  enum class Program { kSteps, kToTheEnd, kAtFirst, kAtFirstInACapture };
  const std::pair<Program, Advice> kAdvice[] = {{Program::kSteps, Advice::kOfCause},
                                                {Program::kToTheEnd, Advice::kCompilesAgain},
                                                {Program::kAtFirst, Advice::kNoSteps},
                                                {Program::kAtFirstInACapture, Advice::kCompilesInCapture}};
  for (const auto& [which, advice] : kAdvice) {
    const Program program = which;
    Maker maker;
    maker.timeline.exit_code = program == Program::kAtFirstInACapture ? -1 : 0;
    const bool at_first = program == Program::kAtFirst || program == Program::kAtFirstInACapture;
    const uint32_t stack = maker.Stack(maker.in_main, "/x/site-packages/jax/_src/compiler.py", "compile", 3);
    maker.EachStep(60 * kMs, [&](int64_t at) {
      if (at_first && at >= maker.timeline.duration_ps * 2 / 3) {
        return maker.Run(maker.main, at, 60 * kMs, maker.in_main, maker.library);
      }
      maker.Wait(maker.main, kSemaphore, at, 60 * kMs, stack);
      maker.Run(maker.main, at, 60 * kMs, stack, 0);
    });
    if (program != Program::kSteps) {
      maker.timeline.steps.clear();
      maker.timeline.step_source = StepSource::kWholeCapture;
    }
    const Verdict verdict = maker.Make();
    EXPECT_EQ(CauseName(verdict.cause), "recompilation") << verdict.reason;
    EXPECT_EQ(verdict.advice, advice);
  }
}

// One compilation at the start is less of a longer run; what comes again and again is not.
TEST(Verdict, CompilationAtTheStart_DoesNotHideWhatRepeats) {
  for (const bool much : {true, false}) {
    Maker maker;
    maker.timeline.exit_code = 0;
    maker.timeline.steps.clear();
    maker.timeline.step_source = StepSource::kWholeCapture;
    const uint32_t stack = maker.Stack(maker.in_main, "/x/site-packages/jax/_src/compiler.py", "compile", 3);
    const uint32_t batch = maker.Stack(maker.in_main, kOwn, "host_batch", 12);
    const int64_t compiled = maker.timeline.duration_ps * 6 / 10;
    maker.Wait(maker.main, kSemaphore, 0, compiled, stack);
    maker.Run(maker.main, 0, compiled, stack, 0);
    const int64_t rest = maker.timeline.duration_ps - compiled, python = much ? rest * 9 / 10 : rest / 4;
    maker.Run(maker.main, compiled, python, batch, maker.interpreter);
    maker.Run(maker.main, compiled + python, rest - python, maker.in_main, maker.library);
    const Verdict verdict = maker.Make();
    EXPECT_EQ(CauseName(verdict.cause), much ? "python" : "recompilation");
  }
}

// FastAPI converts what an endpoint has returned: no code of the program is on the stack.
TEST(Verdict, LibraryThatNoLineCalls_HasItsOwnAdvice) {
  for (const bool called : {false, true}) {
    Maker maker;
    const uint32_t server = maker.Stack(0, "/x/site-packages/fastapi/routing.py", "serialize_response", 30);
    const uint32_t caller = called ? maker.in_main : server;
    const uint32_t encoder = maker.Stack(caller, "/x/site-packages/fastapi/encoders.py", "jsonable_encoder", 300);
    const uint32_t inner = maker.Stack(encoder, "/x/site-packages/fastapi/encoders.py", "jsonable_encoder", 310);
    maker.EachStep(95 * kMs, [&](int64_t at) { maker.Run(maker.main, at, 95 * kMs, inner, maker.interpreter); });
    const Verdict verdict = maker.Make();
    EXPECT_EQ(CauseName(verdict.cause), "python");
    EXPECT_EQ(verdict.advice == Advice::kLibraryAlone, !called) << NextStep(verdict);
    const bool is_named = std::ranges::any_of(verdict.facts, [](const std::string& fact) {
      return fact.starts_with("jsonable_encoder (fastapi) with all that it calls: 9");
    });
    EXPECT_EQ(is_named, !called);
  }
}

// A client is asked for requests, a server waits for them.
TEST(Verdict, WaitForClients_IsNoRequestThatIsSentLate) {
  Maker maker;
  maker.timeline.types[kReceive].name = "accept4";
  maker.EachStep(60 * kMs, [&](int64_t at) {
    maker.Wait(maker.main, kReceive, at, 60 * kMs,
               maker.Stack(maker.in_main, "/usr/lib/python3.11/socket.py", "accept", 9), 7);
  });
  const Verdict verdict = maker.Make();
  EXPECT_EQ(CauseName(verdict.cause), "network") << verdict.reason;
  EXPECT_EQ(verdict.advice, Advice::kServes);
}

// A server polls, and accept takes at once what has come. What its threads do for the clients is named.
TEST(Verdict, ServerWithAThreadPerRequest_NamesTheirWork) {
  Maker maker;
  maker.timeline.types.push_back({"accept4", EventFamily::kIo});
  const auto accept = static_cast<uint16_t>(maker.timeline.types.size() - 1);
  const uint32_t predict = maker.Stack(0, "/home/me/serve.py", "predict", 14);
  const uint32_t get = maker.Stack(predict, "/usr/lib/python3.12/queue.py", "Queue.get", 9);
  int step = 0;
  maker.EachStep(60 * kMs, [&](int64_t at) {
    maker.Wait(maker.main, kPoll, at, 59 * kMs, maker.in_main);
    maker.timeline.threads[maker.main].events.back().value = 1;
    maker.Wait(maker.main, accept, at + 59 * kMs, kMs, maker.in_main, 7);
    if (step++ >= 3) return;
    const uint32_t request = maker.Thread("request");
    maker.Wait(request, kSemaphore, at, 20 * kMs, predict, 0x55);
    maker.Wait(request, kSemaphore, at + 20 * kMs, 40 * kMs, get, 0x66);  // idle
  });
  const Verdict verdict = maker.Make();
  EXPECT_EQ(CauseName(verdict.cause), "network") << verdict.reason;
  EXPECT_EQ(CauseTitle(verdict.cause, verdict.advice), "waits for clients");
  maker.ExpectBlocker("serve.py:14");
  EXPECT_EQ(verdict.where.back().alike, 2u);
}

// A child that lives as long as its parent is not one that is started again and again.
TEST(Verdict, Children_AdviceDependsOnTheirNumber) {
  for (const auto& [children, advice] : {std::pair{1, Advice::kFewChildren}, {20, Advice::kOfCause}}) {
    Maker maker;
    for (int i = 0; i < children; ++i) maker.Process(200 + i, 0);
    maker.EachStep(60 * kMs, [&](int64_t at) { maker.Wait(maker.main, kChildEnd, at, 60 * kMs, maker.in_main); });
    maker.Expect(Cause::kChild, StepPart::kChild, 0.6);
    EXPECT_EQ(maker.Make().advice, advice) << children;
  }
}

TEST(Verdict, NamesOfCauses_LeadBackToThem) {
  EXPECT_EQ(CauseNamed("slow_loader"), Cause::kSlowLoader);
  EXPECT_EQ(CauseNamed("anything"), Cause::kUnknown);
}

// Long ones wait until somebody reads.
TEST(Verdict, WritesToTheTerminal_AreLogging) {
  for (const int64_t length : {kMs, 60 * kMs}) {
    Maker maker;
    maker.EachStep(60 * kMs, [&](int64_t at) {
      for (int64_t from = at; from < at + 60 * kMs; from += length) {
        maker.Wait(maker.main, kWrite, from, length, maker.in_main, 1);
      }
    });
    maker.Expect(Cause::kLogging, StepPart::kDisk, 0.6);
    EXPECT_EQ(maker.Make().advice, length > kMs ? Advice::kSlowOutput : Advice::kOfCause);
  }
}

TEST(Verdict, GarbageCollection_IsItsOwnPart) {
  Maker maker;
  maker.EachStep(40 * kMs,
                 [&](int64_t at) { maker.Run(maker.main, at, 40 * kMs, maker.in_main, maker.interpreter, true); });
  maker.Expect(Cause::kGarbageCollection, StepPart::kGarbageCollection, 0.4);
}

// The main thread is off the CPU although it could run.
class Starved : public Maker {
 public:
  Starved() {
    int64_t delay = 0;
    EachStep(60 * kMs, [&](int64_t at) {
      Run(main, at, 60 * kMs, in_main, 0);
      UsagePoint point = timeline.usage[main].points.back();
      point.at_ps = at;
      point.run_delay_ps = delay;
      timeline.usage[main].points.push_back(point);
      delay += 60 * kMs;
      point.at_ps = at + 60 * kMs;
      point.run_delay_ps = delay;
      timeline.usage[main].points.push_back(point);
    });
    // The kernel's counts never decrease.
    int64_t highest = 0;
    for (UsagePoint& point : timeline.usage[main].points) {
      highest = std::max(highest, point.run_delay_ps);
      point.run_delay_ps = highest;
    }
    timeline.cpu_limits.cpus_allowed = 2;
  }
};
TEST(Verdict, NoCpu_IsOtherProcessesOrTheQuotaOrItsOwnThreads) {
  Starved maker;
  maker.Expect(Cause::kCpuContention, StepPart::kStarvation, 0.6);
  maker.timeline.cpu_limits.quota_cpus = 0.4;
  maker.timeline.cpu_limits.throttled_ps = kSteps * 55 * kMs;
  maker.Expect(Cause::kCpuQuota, StepPart::kStarvation, 0.6);
  Starved crowded;
  for (int i = 0; i < 2; ++i) {
    const uint32_t pool = crowded.Thread("pool");
    crowded.timeline.usage[pool].points = {
        {}, {crowded.timeline.duration_ps, crowded.timeline.duration_ps / 2, crowded.timeline.duration_ps / 3, 0, 0}};
  }
  crowded.Expect(Cause::kOversubscription, StepPart::kStarvation, 0.6);
}

// Ranks of one job take the CPUs from each other: for each, the others are the job, not other programs.
TEST(Verdict, NoCpuBecauseOfItsSiblings_IsOversubscription) {
  Starved maker;
  maker.timeline.processes[0].is_command = false;
  const uint32_t launcher = maker.Process(1, -1);
  maker.timeline.processes[launcher].is_command = true;
  maker.timeline.processes[0].parent = static_cast<int>(launcher);
  for (int rank = 1; rank < 4; ++rank) {
    const uint32_t sibling = maker.Thread("", true, maker.Process(200 + rank, static_cast<int>(launcher)));
    maker.timeline.usage[sibling].points = {
        {}, {maker.timeline.duration_ps, maker.timeline.duration_ps / 2, maker.timeline.duration_ps / 2, 0, 0}};
  }
  maker.Expect(Cause::kOversubscription, StepPart::kStarvation, 0.6);
  EXPECT_THAT(maker.Make().facts, testing::Contains(testing::StartsWith("the job used 1.9 of 2 CPUs")));

  // Somebody took CPUs from the job.
  maker.timeline.cpu_limits.cpus_before = 4;
  EXPECT_THAT(maker.Make().facts, testing::Contains(testing::StartsWith("the job used 1.9 of 2 CPUs (4 before)")));

  // The same, with ranks that have profiles of their own.
  Starved alone;
  alone.timeline.cpu_of_others = {alone.timeline.duration_ps * 3 / 2, alone.timeline.duration_ps * 3 / 2};
  alone.Expect(Cause::kOversubscription, StepPart::kStarvation, 0.6);
}

// The pool's threads wait for a CPU, and the main thread waits for the pool.
TEST(Verdict, CrowdOfItsOwn_TakesTheWaitsForItAlong) {
  Maker maker;
  maker.EachStep(60 * kMs, [&](int64_t at) { maker.Block(at, 60 * kMs, maker.in_main, BlockedIn::kFutex); });
  maker.timeline.cpu_limits.cpus_allowed = 2;
  for (int i = 0; i < 8; ++i) {
    const uint32_t pool = maker.Thread("pool");
    maker.timeline.usage[pool].points = {
        {}, {maker.timeline.duration_ps, maker.timeline.duration_ps / 10, maker.timeline.duration_ps / 2, 0, 0}};
  }
  // Other programs run, too: the pool gets far less than the CPUs' capacity. But it asks for twice that capacity.
  maker.Expect(Cause::kOversubscription, StepPart::kStarvation, 0.6);
}

TEST(Verdict, ProcessesThatPrepareDataAndHaveTheCpus_AreASlowLoader) {
  Maker maker;
  const uint32_t get =
      maker.Stack(maker.in_main, "/usr/lib/python3.12/multiprocessing/pool.py", "IMapIterator.next", 1);
  maker.EachStep(20 * kMs, [&](int64_t at) { maker.Wait(maker.main, kSemaphore, at, 20 * kMs, get); });
  // Half of the 80 ms on the line was spent waiting for a CPU.
  for (UsagePoint& point : maker.timeline.usage[maker.main].points) {
    point.run_delay_ps = point.cpu_ps / 2;
    point.cpu_ps -= point.run_delay_ps;
  }
  maker.timeline.cpu_limits.cpus_allowed = 2;
  for (int i = 0; i < 2; ++i) {
    const uint32_t worker = maker.Thread("", true, maker.Process(101 + i, 0));
    maker.timeline.usage[worker].points = {
        {}, {maker.timeline.duration_ps, maker.timeline.duration_ps * 2 / 3, maker.timeline.duration_ps / 3, 0, 0}};
  }
  const Verdict verdict = maker.Make();
  EXPECT_EQ(CauseName(verdict.cause), CauseName(Cause::kSlowLoader)) << verdict.reason;
  EXPECT_NEAR(verdict.share, 0.6, 0.03);
  EXPECT_FALSE(verdict.facts.empty());
}

TEST(Verdict, PagesFromDisk_AreReclaim) {
  Maker maker;
  maker.EachStep(60 * kMs, [&](int64_t at) { maker.Run(maker.main, at, 60 * kMs, maker.in_main, 0); });
  maker.Faults(10'000, 0);
  maker.Expect(Cause::kReclaim, StepPart::kReclaim, 0.6);
}

// One page from disk takes milliseconds, not seconds.
TEST(Verdict, OnePageFromDisk_DoesNotExplainTheTime) {
  Maker maker;
  maker.EachStep(70 * kMs, [&](int64_t at) { maker.Run(maker.main, at, 70 * kMs, maker.in_main, 0); });
  maker.Faults(1, 0);
  const Verdict verdict = maker.Make();
  EXPECT_EQ(verdict.cause, Cause::kUnknown);
  EXPECT_LT(verdict.ShareOf(StepPart::kReclaim), 0.01);
}

// Without Python samples and the kernel's counts, only native samples show that a thread ran.
TEST(Verdict, TimeWithoutAnySample_IsNotOperations) {
  Maker maker;
  maker.EachStep(60 * kMs, [](int64_t) {});
  maker.timeline.python.threads.clear();
  maker.timeline.usage.clear();
  const Verdict verdict = maker.Make();
  EXPECT_NEAR(verdict.ShareOf(StepPart::kOperations), 0.4, 0.02);
  EXPECT_NEAR(verdict.ShareOf(StepPart::kRest), 0.6, 0.02);
  EXPECT_EQ(verdict.cause, Cause::kUnknown);
}

// CPU time without samples in user code was spent in the kernel, on page faults.
TEST(Verdict, NewPages_AreAllocationChurn) {
  Maker maker;
  maker.EachStep(60 * kMs, [&](int64_t at) { maker.Run(maker.main, at, 60 * kMs, maker.in_main, maker.library); });
  auto& points = maker.timeline.native.threads[maker.main].points;
  std::erase_if(points, [](const NativePoint& point) { return point.at_ps % kStep < 60 * kMs; });
  maker.Faults(0, 20'000'000);
  maker.Expect(Cause::kAllocationChurn, StepPart::kReclaim, 0.6);
  EXPECT_FALSE(maker.Make().remedy.has_value());
  // What is kept needs new pages in each step.
  HeldMemory& memory = maker.timeline.processes[0].memory;
  memory.grows = true;
  memory.peak_bytes = 300 << 20;
  memory.growth.emplace().bytes = 200 << 20;
  EXPECT_EQ(maker.Make().remedy, Advice::kMemoryGrows);
}

class OnGpu : public Maker {
 public:
  OnGpu() { timeline.gpu_streams.resize(1); }
  void Work(GpuEventKind kind, int64_t start, int64_t length, uint8_t source = 0, uint64_t bytes = 0) {
    GpuEvent event;
    event.kind = kind;
    event.start_ps = start;
    event.duration_ps = length;
    event.source_kind = source;
    event.value = bytes;
    timeline.gpu_streams[0].events.push_back(event);
  }
};
TEST(Verdict, GpuThatComputes_IsNoProblem) {
  OnGpu maker;
  maker.EachStep(95 * kMs, [&](int64_t at) {
    maker.Work(GpuEventKind::kKernel, at, 94 * kMs);
    maker.Wait(maker.main, kGpuSync, at, 95 * kMs, maker.in_main);
  });
  maker.Expect(Cause::kKernels, StepPart::kKernels, 0.95);
  EXPECT_FALSE(IsProblem(Cause::kKernels));
}
TEST(Verdict, ManyShortKernels_AreTinyKernels) {
  OnGpu maker;
  constexpr int64_t kUs = kMs / 1000;
  maker.EachStep(60 * kMs, [&](int64_t at) {
    for (int i = 0; i < 3000; ++i) {
      maker.Wait(maker.main, kLaunchCall, at + i * 20 * kUs, 20 * kUs, maker.in_main);
      maker.Work(GpuEventKind::kKernel, at + i * 20 * kUs, 2 * kUs);
    }
  });
  maker.Expect(Cause::kTinyKernels, StepPart::kLaunch, 0.6);
}
TEST(Verdict, SynchronizationAfterEachKernel_IsSync) {
  OnGpu maker;
  constexpr int64_t kUs = kMs / 1000;
  maker.EachStep(60 * kMs, [&](int64_t at) {
    for (int i = 0; i < 600; ++i) {
      maker.Wait(maker.main, kGpuSync, at + i * 100 * kUs, 100 * kUs, maker.in_main);
      maker.Work(GpuEventKind::kKernel, at + i * 100 * kUs, 30 * kUs);
    }
  });
  maker.Expect(Cause::kSync, StepPart::kKernels, 0.6);
}
// A training whose host prepares the next step while the GPU computes.
TEST(Verdict, GpuThatComputesMeanwhile_IsTheLimit) {
  OnGpu maker;
  maker.EachStep(98 * kMs, [&](int64_t at) {
    maker.Work(GpuEventKind::kKernel, at, 97 * kMs);
    maker.Run(maker.main, at, 60 * kMs, maker.in_main, maker.library);
    maker.Wait(maker.main, kGpuSync, at + 60 * kMs, 38 * kMs, maker.in_main);
  });
  const Verdict verdict = maker.Make();
  EXPECT_EQ(verdict.cause, Cause::kKernels) << verdict.reason;
  EXPECT_NEAR(verdict.share, 0.97, 0.01);
  EXPECT_NEAR(verdict.ShareOf(StepPart::kKernels), 0.37, 0.03) << "the split is the host's";
  EXPECT_EQ(verdict.advice, Advice::kGpuIsLimit);
}

TEST(Verdict, BusyGpuWithTheShortestKernels_IsTinyKernels) {
  OnGpu maker;
  constexpr int64_t kUs = kMs / 1000;
  maker.EachStep(96 * kMs, [&](int64_t at) {
    for (int i = 0; i < 4000; ++i) {
      maker.Wait(maker.main, kLaunchCall, at + i * 24 * kUs, 20 * kUs, maker.in_main);
      for (int part = 0; part < 8; ++part)
        maker.Work(GpuEventKind::kKernel, at + i * 24 * kUs + part * 3 * kUs, 3 * kUs);
    }
  });
  EXPECT_EQ(maker.Make().cause, Cause::kTinyKernels);
}

// As a training on an H200: one wait in each step, and the GPU begins late in it.
TEST(Verdict, WaitForAnIdleGpu_IsSync) {
  OnGpu maker;
  maker.EachStep(90 * kMs, [&](int64_t at) {
    maker.Wait(maker.main, kGpuSync, at, 90 * kMs, maker.in_main);
    maker.Work(GpuEventKind::kKernel, at + 76 * kMs, 14 * kMs);
  });
  maker.Expect(Cause::kSync, StepPart::kKernels, 0.9);
}
// An asynchronous copy, and an event that the GPU waits for: the host waits for neither.
// The profile's size left out most of the kernels, and the launches among the calls: the totals have them.
TEST(Verdict, ShortWorkThatIsNotDrawn_CountsByTheTotals) {
  OnGpu maker;
  maker.timeline.shortest_gpu_shown_ps = 5'000'000;
  GpuDevice& device = maker.timeline.gpu_devices.emplace_back();
  device.kernels = 100 * kSteps;
  device.kernel_ps = device.kernels * 2'000'000;
  device.busy_ps = device.kernel_ps;
  tbprof::Thread& thread = maker.timeline.threads[maker.main];
  maker.EachStep(80 * kMs, [&](int64_t at) {
    for (int i = 0; i < 100; ++i) {
      thread.cut_waits.push_back({at + i * (kMs * 8 / 10), kMs * 78 / 100, 0, kLaunchCall});
    }
    maker.Work(GpuEventKind::kKernel, at, 6'000'000);
  });
  maker.Expect(Cause::kTinyKernels, StepPart::kLaunch, 0.78);
  const Verdict verdict = maker.Make();
  EXPECT_THAT(verdict.facts, testing::Contains(testing::HasSubstr("5000 kernels of 2.00 us")));
  EXPECT_THAT(verdict.limits, testing::Contains(testing::HasSubstr("--max-profile-size")));
}

// The steps are those of a part of which all events are there: nothing of their GPU work is missing.
TEST(Verdict, StepsOfTheFullDetail_NeedNoTotals) {
  OnGpu maker;
  maker.timeline.shortest_gpu_shown_ps = 5'000'000;
  maker.timeline.steps_in_detail = true;
  maker.timeline.full_detail = {0, maker.timeline.duration_ps};
  GpuDevice& device = maker.timeline.gpu_devices.emplace_back();
  device.kernels = 1'000'000;
  device.kernel_ps = device.busy_ps = maker.timeline.duration_ps;
  constexpr int64_t kUs = kMs / 1000;
  maker.EachStep(60 * kMs, [&](int64_t at) {
    for (int i = 0; i < 600; ++i) {
      maker.Wait(maker.main, kGpuSync, at + i * 100 * kUs, 100 * kUs, maker.in_main);
      maker.Work(GpuEventKind::kKernel, at + i * 100 * kUs, 30 * kUs);
    }
  });
  maker.Expect(Cause::kSync, StepPart::kKernels, 0.6);
  EXPECT_THAT(maker.Make().limits, testing::Contains(testing::HasSubstr("of the rest, short events were left out")));
}

// Two seconds have 200 samples; of less, the shares would be chance.
TEST(Verdict, StepsOfAShortPart_AreNotItsBasis) {
  OnGpu maker;
  maker.EachStep(60 * kMs, [&](int64_t at) { maker.Work(GpuEventKind::kKernel, at, 30 * kMs); });
  ASSERT_EQ(maker.Make().basis, VerdictBasis::kSteps);
  maker.timeline.steps_in_detail = true;
  maker.timeline.steps.resize(10);
  EXPECT_NE(maker.Make().basis, VerdictBasis::kSteps);
}

TEST(Verdict, AsynchronousCalls_AreNoSynchronization) {
  OnGpu maker;
  maker.timeline.types[kCopyIn].name = "cudaMemcpyAsync";
  maker.timeline.types[kGpuSync].name = "cudaStreamWaitEvent";
  constexpr int64_t kUs = kMs / 1000;
  maker.EachStep(60 * kMs, [&](int64_t at) {
    for (int i = 0; i < 300; ++i) {
      maker.Wait(maker.main, kCopyIn, at + i * 200 * kUs, 100 * kUs, maker.in_main);
      maker.Wait(maker.main, kGpuSync, at + i * 200 * kUs + 100 * kUs, 100 * kUs, maker.in_main);
      maker.Work(GpuEventKind::kKernel, at + i * 200 * kUs, 30 * kUs);
    }
  });
  EXPECT_NE(maker.Make().cause, Cause::kSync);
}
TEST(Verdict, CopiesFromPageableMemory_AreNamed) {
  OnGpu maker;
  maker.EachStep(60 * kMs, [&](int64_t at) {
    maker.Wait(maker.main, kCopyIn, at, 60 * kMs, maker.in_main);
    maker.Work(GpuEventKind::kCopy, at + 10 * kMs, 50 * kMs, /*source=*/1, 500 << 20);
  });
  maker.Expect(Cause::kPageableCopy, StepPart::kCopies, 0.6);
}
// The GPU is idle while the CPU prepares the copy: the program does not wait for work that begins late.
TEST(Verdict, CopyThatTheCpuPrepares_IsNoSync) {
  OnGpu maker;
  maker.EachStep(60 * kMs, [&](int64_t at) {
    maker.Wait(maker.main, kCopyIn, at, 60 * kMs, maker.in_main);
    maker.Work(GpuEventKind::kCopy, at + 45 * kMs, 15 * kMs, /*source=*/1, 500 << 20);
  });
  maker.Expect(Cause::kPageableCopy, StepPart::kCopies, 0.6);
}

TEST(Verdict, TimeThatNothingExplains_IsUnknown) {
  Maker maker;
  maker.EachStep(70 * kMs, [&](int64_t at) { maker.Run(maker.main, at, 70 * kMs, maker.in_main, 0); });
  const Verdict verdict = maker.Make();
  EXPECT_EQ(verdict.cause, Cause::kUnknown);
  EXPECT_NEAR(verdict.ShareOf(StepPart::kRest), 0.7, 0.02);
  EXPECT_THAT(verdict.reason, testing::HasSubstr("70 %"));
}

// Without native samples it is unknown whether the interpreter runs or a function that it calls.
TEST(Verdict, WithoutNativeSamples_RunningIsNotExplained) {
  Maker maker;
  maker.EachStep(0, [](int64_t) {});
  maker.timeline.native.threads.clear();
  maker.timeline.native.processes.clear();
  const Verdict verdict = maker.Make();
  EXPECT_EQ(verdict.cause, Cause::kUnknown);
  EXPECT_THAT(verdict.limits, testing::Contains(testing::HasSubstr("native stacks")));
}

// A program that was started without tbprof's library: the files of its code are not known.
TEST(Verdict, NativeStacksWithoutFiles_AreNotTakenForNativeCode) {
  Maker maker;
  const uint32_t unknown = maker.Native("", "[generated code]", 0);
  maker.EachStep(kStep, [&](int64_t at) { maker.Run(maker.main, at, kStep, maker.in_main, unknown); });
  const Verdict verdict = maker.Make();
  EXPECT_EQ(verdict.ShareOf(StepPart::kOperations), 0);
  EXPECT_THAT(verdict.limits, testing::Contains(testing::HasSubstr("files are not known")));
}

// work(), then a short loop in the module: the loop of the module is not what the program does.
TEST(Verdict, SmallLoopBesideTheWork_IsNotTheMainLoop) {
  Maker maker;
  maker.timeline.steps.clear();
  maker.timeline.step_source = StepSource::kWholeCapture;
  const auto in = [&](uint32_t parent, int line, uint32_t function) {
    const uint32_t stack = maker.Stack(parent, kOwn, "main", line);
    maker.timeline.python.stacks[stack].function = function;
    return stack;
  };
  const uint32_t module = maker.timeline.python.stacks[maker.in_main].function;
  const uint32_t call = in(0, 8, module), one = in(0, 10, module), other = in(0, 11, module);
  const uint32_t work = maker.Stack(call, kOwn, "work", 5);
  const uint32_t inner = in(call, 6, maker.timeline.python.stacks[work].function);
  int64_t at = 0;
  for (; at < 4000 * kMs; at += 100 * kMs) {
    maker.Run(maker.main, at, 40 * kMs, work, maker.interpreter);
    maker.Run(maker.main, at + 40 * kMs, 60 * kMs, inner, maker.interpreter);
  }
  for (; at < maker.timeline.duration_ps; at += 100 * kMs) {
    maker.Run(maker.main, at, 40 * kMs, one, maker.interpreter);
    maker.Run(maker.main, at + 40 * kMs, 60 * kMs, other, maker.interpreter);
  }
  const Verdict verdict = maker.Make();
  EXPECT_EQ(verdict.basis, VerdictBasis::kLoop);
  EXPECT_EQ(maker.timeline.strings.Get(verdict.loop.function), "work");
  EXPECT_EQ(verdict.total_ps, 4000 * kMs);
}

// Without steps, the lines that repeat are the loop; the time before the loop does not count.
TEST(Verdict, WithoutSteps_IsAboutTheLoop) {
  Maker maker;
  maker.timeline.steps.clear();
  maker.timeline.step_source = StepSource::kWholeCapture;
  const uint32_t setup = maker.Stack(0, kOwn, "main", 2), again = maker.Stack(0, kOwn, "main", 11);
  maker.timeline.python.stacks[setup].function = maker.timeline.python.stacks[maker.in_main].function;
  maker.timeline.python.stacks[again].function = maker.timeline.python.stacks[maker.in_main].function;
  maker.Run(maker.main, 0, 1000 * kMs, setup, maker.interpreter);
  for (int64_t at = 1000 * kMs; at < maker.timeline.duration_ps; at += 100 * kMs) {
    maker.Wait(maker.main, kNap, at, 60 * kMs, maker.in_main);
    maker.Run(maker.main, at, 60 * kMs, maker.in_main, 0);
    maker.Run(maker.main, at + 60 * kMs, 40 * kMs, again, maker.library);
  }
  const Verdict verdict = maker.Make();
  EXPECT_EQ(verdict.basis, VerdictBasis::kLoop);
  EXPECT_EQ(verdict.total_ps, 4000 * kMs);
  EXPECT_EQ(CauseName(verdict.cause), "sleep");
  EXPECT_NEAR(verdict.share, 0.6, 0.02);
  EXPECT_EQ(maker.timeline.strings.Get(verdict.loop.file), kOwn);
  EXPECT_EQ(maker.timeline.strings.Get(verdict.loop.function), "main");
  EXPECT_EQ(verdict.loop.first, 10) << "line 2 is before the loop";
  EXPECT_EQ(verdict.loop.last, 11);
}

// Deep stacks lack their outer frames: the line that called them was not left.
TEST(Verdict, CallWhoseDeepStacksAreCut_IsNoLoop) {
  Maker maker;
  maker.timeline.steps.clear();
  maker.timeline.step_source = StepSource::kWholeCapture;
  const uint32_t work = maker.Stack(maker.in_main, kOwn, "work", 5),
                 other = maker.Stack(maker.in_main, kOwn, "work", 6);
  maker.timeline.python.stacks[other].function = maker.timeline.python.stacks[work].function;
  const uint32_t cut = maker.Stack(0, "/home/me/deep.py", "recurse", 3);
  for (int64_t at = 0; at < maker.timeline.duration_ps; at += 100 * kMs) {
    maker.Run(maker.main, at, 40 * kMs, work, maker.interpreter);
    maker.Run(maker.main, at + 40 * kMs, 20 * kMs, cut, maker.interpreter);
    maker.Run(maker.main, at + 60 * kMs, 40 * kMs, other, maker.interpreter);
  }
  const Verdict verdict = maker.Make();
  EXPECT_EQ(verdict.basis, VerdictBasis::kLoop);
  EXPECT_EQ(maker.timeline.strings.Get(verdict.loop.function), "work");
}

// A pool of processes in a program without steps: what it makes need not be data of a training.
TEST(Verdict, PoolOfProcessesWithoutSteps_IsNoDataLoader) {
  Maker maker;
  maker.timeline.steps.clear();
  maker.timeline.step_source = StepSource::kWholeCapture;
  const uint32_t result = maker.Stack(maker.in_main, "/usr/lib/python3.11/multiprocessing/pool.py", "get", 770);
  maker.Wait(maker.main, kCondition, 0, maker.timeline.duration_ps, result);
  maker.Run(maker.main, 0, maker.timeline.duration_ps, result, 0);
  const uint32_t worker = maker.Thread("", true, maker.Process(2, 0));
  const uint32_t work = maker.Stack(0, kOwn, "work", 60);
  maker.Run(worker, 0, maker.timeline.duration_ps, work, maker.library);
  const Verdict verdict = maker.Make();
  EXPECT_EQ(CauseName(verdict.cause), "workers") << verdict.reason;
  EXPECT_EQ(verdict.part, StepPart::kLocks);
  EXPECT_GT(verdict.ShareOf(StepPart::kLocks), 0.9);
}

// ThreadPoolExecutor.map of a program without steps: its threads do the work, and prefetch nothing.
TEST(Verdict, PoolOfThreadsWithoutSteps_IsNoPrefetchThread) {
  Maker maker;
  maker.timeline.steps.clear();
  maker.timeline.step_source = StepSource::kWholeCapture;
  const uint32_t result = maker.Stack(maker.in_main, "/usr/lib/python3.11/concurrent/futures/_base.py", "result", 451);
  maker.Wait(maker.main, kCondition, 0, maker.timeline.duration_ps, result);
  maker.Run(maker.main, 0, maker.timeline.duration_ps, result, 0);
  const uint32_t worker = maker.Thread("pool_0");
  maker.Run(worker, 0, maker.timeline.duration_ps, maker.Stack(0, kOwn, "work", 60), maker.library);
  const Verdict verdict = maker.Make();
  EXPECT_EQ(CauseName(verdict.cause), "workers") << verdict.reason;
  EXPECT_EQ(verdict.ShareOf(StepPart::kInput), 0);
}

// pytest-xdist: a thread reads the pipes of the workers, and puts what comes into a queue.
TEST(Verdict, ThreadThatReadsAPipe_IsNotTheBlockerIfAProcessComputes) {
  Maker maker;
  maker.timeline.steps.clear();
  maker.timeline.step_source = StepSource::kWholeCapture;
  const uint32_t get = maker.Stack(maker.in_main, "/usr/lib/python3.11/queue.py", "Queue.get", 171);
  const uint32_t reader = maker.Thread("reader");
  const uint32_t read = maker.Stack(0, "/venv/site-packages/execnet/gateway_base.py", "Popen2IO.read", 534);
  const uint32_t worker = maker.Thread("", true, maker.Process(2, 0));
  for (int64_t at = 0; at < maker.timeline.duration_ps; at += 100 * kMs) {
    maker.Wait(maker.main, kCondition, at, 99 * kMs, get);
    maker.Wait(reader, kReceive, at, 98 * kMs, read, 5);
  }
  maker.timeline.types[kReceive].name = "read";
  maker.Run(maker.main, 0, maker.timeline.duration_ps, get, 0);
  maker.Run(worker, 0, maker.timeline.duration_ps, maker.Stack(0, kOwn, "test", 60), maker.library);
  const Verdict verdict = maker.Make();
  EXPECT_EQ(CauseName(verdict.cause), "workers") << verdict.reason;
  const auto blocker = std::ranges::find(verdict.where, WhereRole::kWaitedFor, &Where::role);
  ASSERT_NE(blocker, verdict.where.end());
  EXPECT_EQ(blocker->thread, worker);
}

// The main thread of a worker waits in its event loop for what the program sends, and for the GIL, which the thread
// that does the work has. It runs for a moment in each sample.
TEST(Verdict, EventLoopOfAWorkerThatWaitsForTheGil_IsNotTheBlocker) {
  for (const bool for_gil : {true, false}) {
    Maker maker;
    maker.timeline.steps.clear();
    maker.timeline.step_source = StepSource::kWholeCapture;
    const uint32_t child = maker.Process(4711, 0);
    const uint32_t loop = maker.Thread("", true, child), works = maker.Thread("Default-Threads", false, child);
    const uint32_t waits =
        maker.Stack(maker.in_main, "/usr/lib/python3.12/concurrent/futures/_base.py", "Future.result", 449);
    const uint32_t select = maker.Stack(0, "/usr/lib/python3.12/selectors.py", "EpollSelector.select", 468);
    const uint32_t feat = maker.Stack(0, "/home/me/work.py", "feat", 6);
    maker.timeline.blocked.push_back({.thread = loop});
    for (int64_t at = 0; at < maker.timeline.duration_ps; at += 100 * kMs) {
      maker.Wait(maker.main, kSemaphore, at, 90 * kMs, waits);
      maker.Run(maker.main, at + 90 * kMs, 10 * kMs, maker.in_main, maker.library);
      maker.Run(works, at, 60 * kMs, feat, maker.library);
      if (for_gil) {
        maker.Wait(loop, kCondition, at, 50 * kMs, select, 0, "take_gil (ceval_gil.c:1)");
      } else {
        maker.Wait(loop, kPoll, at, 97 * kMs, select);
        maker.timeline.threads[loop].events.back().value = 1;
        maker.Wait(loop, kReceive, at + 97 * kMs, kMs, select, 9);
      }
      maker.Run(loop, at + (for_gil ? 50 : 98) * kMs, (for_gil ? 50 : 2) * kMs, select, maker.interpreter);
      if (for_gil) maker.timeline.python.threads[loop].runs.back().cpu_ps = kMs;
    }
    SCOPED_TRACE(for_gil);
    maker.ExpectBlocker("work.py:6");
  }
}

// A worker that was spawned begins in `python -c 'from multiprocessing.spawn import spawn_main; ...'`.
TEST(Verdict, BootstrapOfASpawnedWorker_IsNoLineOfTheProgram) {
  Maker maker;
  maker.timeline.steps.clear();
  maker.timeline.step_source = StepSource::kWholeCapture;
  const uint32_t result = maker.Stack(maker.in_main, "/usr/lib/python3.11/multiprocessing/pool.py", "get", 770);
  maker.Wait(maker.main, kCondition, 0, maker.timeline.duration_ps, result);
  maker.Run(maker.main, 0, maker.timeline.duration_ps, result, 0);
  const uint32_t worker = maker.Thread("", true, maker.Process(2, 0));
  const uint32_t begins = maker.Stack(0, "<string>", "<module>", 1);
  const uint32_t spawned = maker.Stack(begins, "/usr/lib/python3.11/multiprocessing/spawn.py", "spawn_main", 122);
  const uint32_t inside = maker.Stack(spawned, "/venv/site-packages/numpy/linalg.py", "svd", 60);
  maker.Run(worker, 0, maker.timeline.duration_ps, inside, maker.library);
  maker.ExpectBlocker("linalg.py:60");
}

// A worker of a server that nobody asks waits for requests with a time limit, again and again.
TEST(Verdict, IdleEventLoopOfAnotherProcess_IsNoBlocker) {
  Maker maker;
  maker.timeline.steps.clear();
  maker.timeline.step_source = StepSource::kWholeCapture;
  const uint32_t idle = maker.Stack(maker.in_main, "/usr/lib/python3.11/threading.py", "wait", 320);
  const uint32_t worker = maker.Thread("", true, maker.Process(2, 0));
  const uint32_t loop = maker.Stack(0, "/usr/lib/python3.11/selectors.py", "select", 468);
  for (int64_t at = 0; at < maker.timeline.duration_ps; at += 100 * kMs) {
    maker.Wait(maker.main, kCondition, at, 100 * kMs, idle);
    maker.Wait(worker, kPoll, at, 99 * kMs, loop);
  }
  maker.Run(maker.main, 0, maker.timeline.duration_ps, idle, 0);
  const Verdict verdict = maker.Make();
  EXPECT_EQ(verdict.cause, Cause::kUnknown) << CauseName(verdict.cause);
}

// `nox`, `dvc repro`, subprocess.run(): the program that they start does the work.
TEST(Verdict, ProgramThatWaitsForAnother_IsNotTheOneThatIsJudged) {
  Maker maker;
  maker.timeline.steps.clear();
  maker.timeline.step_source = StepSource::kWholeCapture;
  const uint32_t waits = maker.Stack(maker.in_main, "/usr/lib/python3.11/subprocess.py", "wait", 1264);
  maker.Wait(maker.main, kChildEnd, 0, maker.timeline.duration_ps, waits);
  maker.Run(maker.main, 0, maker.timeline.duration_ps, waits, 0);
  const uint32_t process = maker.Process(4711, 0);
  maker.timeline.processes[process].forked = false;
  maker.timeline.processes[process].name = "train.py";
  maker.timeline.processes[process].arguments = {"python3", "train.py"};
  maker.timeline.processes[0].is_command = true;
  const uint32_t other = maker.Thread("", true, process);
  const uint32_t work = maker.Stack(0, kOwn, "work", 60);
  maker.Run(other, 0, maker.timeline.duration_ps / 2, work, maker.library);
  const Verdict verdict = maker.Make();
  EXPECT_EQ(verdict.thread, other);
  EXPECT_THAT(verdict.facts, testing::Contains("about process 4711, train.py"));
  // A worker of its pool is not the program, however much it does.
  const uint32_t spawned = maker.Process(4712, static_cast<int>(process));
  maker.timeline.processes[spawned].forked = false;
  maker.timeline.processes[spawned].arguments = {"python3", "-c", "from multiprocessing.spawn import spawn_main"};
  maker.Run(maker.Thread("", true, spawned), 0, maker.timeline.duration_ps, work, maker.library);
  const uint32_t forked = maker.Thread("", true, maker.Process(4713, static_cast<int>(process)));
  const uint32_t start =
      maker.Stack(0, "/usr/lib/python3.11/multiprocessing/process.py", "BaseProcess._bootstrap", 314);
  maker.Run(forked, 0, maker.timeline.duration_ps, maker.Stack(start, kOwn, "load", 70), maker.library);
  EXPECT_EQ(maker.Make().thread, other);
}

// `jupyter nbconvert --execute`, papermill: the kernel runs the cells, however little CPU these use.
TEST(Verdict, ProgramThatExecutesANotebook_IsNotTheOneThatIsJudged) {
  Maker maker;
  maker.timeline.steps.clear();
  maker.timeline.step_source = StepSource::kWholeCapture;
  const uint32_t waits = maker.Stack(maker.in_main, "/usr/lib/python3.11/selectors.py", "EpollSelector.select", 468);
  maker.Run(maker.main, 0, maker.timeline.duration_ps, waits, 0);
  const uint32_t process = maker.Process(4711, 0);
  maker.timeline.processes[process].forked = false;
  maker.timeline.processes[0].is_command = true;
  const uint32_t kernel = maker.Thread("", true, process);
  const uint32_t loop = maker.Stack(0, "/x/site-packages/ipykernel/kernelbase.py", "dispatch_queue", 545);
  const uint32_t cell = maker.Stack(loop, "/home/me/train.ipynb cell 3", "<module>", 5);
  maker.Wait(kernel, kNap, 0, maker.timeline.duration_ps / 2, cell);
  maker.Run(kernel, 0, maker.timeline.duration_ps / 2, cell, 0);
  const Verdict verdict = maker.Make();
  EXPECT_EQ(verdict.thread, kernel);
  EXPECT_EQ(verdict.cause, Cause::kSleep);
}

// gunicorn's arbiter waits for signals, and serves nothing itself.
TEST(Verdict, ParentThatWaitsForSignals_IsAboutItsBusiestForkedWorker) {
  Maker maker;
  maker.timeline.steps.clear();
  maker.timeline.step_source = StepSource::kWholeCapture;
  const uint32_t sleeps = maker.Stack(maker.in_main, "/venv/site-packages/gunicorn/arbiter.py", "Arbiter.sleep", 357);
  maker.Run(maker.main, 0, maker.timeline.duration_ps, sleeps, 0);
  const uint32_t serves = maker.Stack(0, kOwn, "predict", 20);
  const uint32_t first = maker.Thread("", true, maker.Process(4711, 0));
  maker.Run(first, 0, maker.timeline.duration_ps / 4, serves, maker.library);
  const uint32_t second = maker.Thread("", true, maker.Process(4712, 0));
  maker.Run(second, 0, maker.timeline.duration_ps / 2, serves, maker.library);
  const Verdict verdict = maker.Make();
  EXPECT_EQ(verdict.thread, second);
  EXPECT_THAT(verdict.facts, testing::Contains(testing::AllOf(testing::StartsWith("about process 4712"),
                                                              testing::EndsWith(", and 1 alike"))));
}

// gunicorn --threads: the worker's main thread passes requests on to its other threads.
TEST(Verdict, ForkedWorkerWithThreads_IsAboutTheThreadThatAnswers) {
  Maker maker;
  maker.timeline.steps.clear();
  maker.timeline.step_source = StepSource::kWholeCapture;
  maker.Run(maker.main, 0, maker.timeline.duration_ps, maker.in_main, 0);
  const uint32_t worker = maker.Process(4711, 0);
  maker.Run(maker.Thread("", true, worker), 0, maker.timeline.duration_ps, maker.Stack(0, kOwn, "accept", 5), 0);
  const uint32_t pool = maker.Thread("pool_0", false, worker);
  maker.Run(pool, 0, maker.timeline.duration_ps / 2, maker.Stack(0, kOwn, "predict", 20), maker.library);
  // Not another thread of the waiting process: it may prepare data while that waits for a GPU.
  maker.Run(maker.Thread("helper"), 0, maker.timeline.duration_ps, maker.Stack(0, kOwn, "help", 30), maker.library);
  const Verdict verdict = maker.Make();
  EXPECT_EQ(verdict.thread, pool);
  EXPECT_THAT(verdict.facts, testing::Contains(testing::EndsWith(": thread pool_0")));
}

// Process(target=work).join(): the parent does nothing else. Without the join, its workers may be a loader's.
TEST(Verdict, ParentThatJoinsItsProcesses_IsAboutTheBusiest) {
  for (const bool joins : {true, false}) {
    Maker maker;
    maker.timeline.steps.clear();
    maker.timeline.step_source = StepSource::kWholeCapture;
    const uint32_t waits =
        joins ? maker.Stack(maker.in_main, "/usr/lib/python3.11/multiprocessing/process.py", "BaseProcess.join", 149)
              : maker.in_main;
    maker.Run(maker.main, 0, maker.timeline.duration_ps, waits, 0);
    const uint32_t worker = maker.Thread("", true, maker.Process(4711, 0));
    const uint32_t start =
        maker.Stack(0, "/usr/lib/python3.11/multiprocessing/process.py", "BaseProcess._bootstrap", 314);
    maker.Run(worker, 0, maker.timeline.duration_ps / 2, maker.Stack(start, kOwn, "work", 60), maker.library);
    EXPECT_EQ(maker.Make().thread, joins ? worker : maker.main) << joins;
  }
}

// The default of Python 3.14: a server forks the workers.
TEST(Verdict, WorkerOfAForkServer_IsOneThatTheParentWaitsFor) {
  Maker maker;
  maker.timeline.steps.clear();
  maker.timeline.step_source = StepSource::kWholeCapture;
  const uint32_t joins =
      maker.Stack(maker.in_main, "/usr/lib/python3.14/multiprocessing/process.py", "BaseProcess.join", 149);
  maker.Run(maker.main, 0, maker.timeline.duration_ps, joins, 0);
  const uint32_t server = maker.Process(4711, 0);
  maker.timeline.processes[server].forked = false;
  maker.timeline.processes[server].arguments = {"python3", "-c",
                                                "from multiprocessing.forkserver import main; main(5)"};
  const uint32_t worker = maker.Thread("", true, maker.Process(4712, static_cast<int>(server)));
  const uint32_t begins = maker.Stack(maker.Stack(0, "<string>", "<module>", 1),
                                      "/usr/lib/python3.14/multiprocessing/forkserver.py", "main", 200);
  const uint32_t start =
      maker.Stack(begins, "/usr/lib/python3.14/multiprocessing/process.py", "BaseProcess._bootstrap", 314);
  maker.Run(worker, 0, maker.timeline.duration_ps, maker.Stack(start, kOwn, "work", 60), maker.library);
  EXPECT_EQ(maker.Make().thread, worker);
}

// Libraries of the same names run in the parent, too: its line is the one that called them.
TEST(Verdict, CallThroughASpawnOfALibrary_IsTheProgramsLine) {
  Maker maker;
  const uint32_t spawn = maker.Stack(maker.in_main, "/venv/lib/python3.11/site-packages/torch/multiprocessing/spawn.py",
                                     "start_processes", 250);
  maker.EachStep(60 * kMs, [&](int64_t at) { maker.Wait(maker.main, kSync, at, 60 * kMs, spawn); });
  const Verdict verdict = maker.Make();
  ASSERT_FALSE(verdict.where.empty());
  EXPECT_EQ(maker.PlaceOf(verdict.where.front()), "train.py:10");
}

// The interpreter starts, imports, works, imports once more, works, and at its end collects and frees all objects.
class OnePass : public Maker {
 public:
  OnePass() {
    timeline.steps.clear();
    timeline.step_source = StepSource::kWholeCapture;
    timeline.processes[0].executable = "/usr/bin/python3.12";
    timeline.threads[main].start_ps = 10 * kMs;
    const uint32_t loading = Stack(0, "<frozen importlib._bootstrap>", "_find_and_load", 1);
    Run(main, 500 * kMs, 1000 * kMs, loading, interpreter);
    Run(main, 1500 * kMs, 500 * kMs, 0, interpreter);
    Run(main, 2000 * kMs, 500 * kMs, loading, interpreter, true);
    Run(main, 2500 * kMs, 1000 * kMs, in_main, library);
    Run(main, 3500 * kMs, 200 * kMs, loading, interpreter);
    Run(main, 3700 * kMs, 300 * kMs, in_main, interpreter);
    Run(main, 4000 * kMs, 1000 * kMs, 0, interpreter, true);
  }
};

TEST(Verdict, ImportsAndTheEndOfPython_AreNotTheProgramsWork) {
  OnePass maker;
  const Verdict verdict = maker.Make();
  EXPECT_EQ(verdict.basis, VerdictBasis::kMainThread);
  EXPECT_EQ(verdict.total_ps, 1300 * kMs);
  EXPECT_EQ(verdict.part_ps[static_cast<size_t>(StepPart::kGarbageCollection)], 0);
  EXPECT_EQ(CauseName(verdict.cause), "operations");
  EXPECT_NEAR(verdict.share, 1000.0 / 1300, 0.02);
}

TEST(Verdict, EmbeddedPython_WorkAfterItCounts) {
  OnePass maker;
  maker.timeline.processes[0].executable = "/usr/local/bin/simulate";
  const Verdict verdict = maker.Make();
  // All but the three times of import.
  EXPECT_EQ(verdict.total_ps, maker.timeline.duration_ps - 10 * kMs - 1700 * kMs);
}

TEST(Verdict, ImportBetweenSteps_IsNotOfTheTimeFromTheFirstToTheLast) {
  Maker maker;
  const uint32_t loading = maker.Stack(0, "<frozen importlib._bootstrap>", "_find_and_load", 1);
  for (Step& step : maker.timeline.steps) step.end_ps = step.start_ps + kStep / 2;
  for (int i = 0; i < kSteps; ++i) {
    maker.Run(maker.main, i * kStep, kStep / 2, maker.in_main, maker.library);
    const bool loads = i == kSteps / 2;
    maker.Run(maker.main, i * kStep + kStep / 2, kStep / 2, loads ? loading : maker.in_main, maker.interpreter);
  }
  const Verdict verdict = maker.Make();
  EXPECT_EQ(verdict.basis, VerdictBasis::kTraining);
  // One gap is import, and the last is behind the last step.
  EXPECT_EQ(verdict.total_ps, (kSteps - 1) * kStep);
}

// The reader of a pipeline waits for a program that it has not started.
TEST(Verdict, ReadsOfStandardInput_AreNotAWaitForAChild) {
  for (const uint64_t descriptor : {0, 5}) {
    Maker maker;
    maker.timeline.blocked.push_back({.thread = maker.main});
    const uint32_t helper = maker.Thread("", true, maker.Process(101, 0));
    const uint32_t work = maker.Stack(0, "/home/me/work.py", "work", 9);
    maker.EachStep(60 * kMs, [&](int64_t at) {
      maker.Run(helper, at, 50 * kMs, work, maker.library);
      maker.Wait(maker.main, kPread, at, 60 * kMs, maker.in_main, descriptor);
      maker.timeline.blocked[0].runs.push_back(
          {at + kMs, at + 59 * kMs, 6, static_cast<int32_t>(descriptor), BlockedIn::kPipe});
    });
    maker.Expect(Cause::kChild, StepPart::kChild, 0.6);
    EXPECT_EQ(maker.Make().where.size(), descriptor == 0 ? 1u : 2u) << "a busy child is no blocker of standard input";
    EXPECT_EQ(maker.Make().advice, descriptor == 0 ? Advice::kStdin : Advice::kFewChildren);
  }
}

// TensorFlow waits in its own locks while its threads call functions of the program, each in turn.
TEST(Verdict, WaitInALibraryForFunctionsOfTheProgram_NamesThem) {
  for (const bool computes : {false, true}) {
    Maker maker;
    const uint32_t load = maker.Stack(0, "/home/me/data.py", "load", 8);
    const uint32_t threads[] = {maker.Thread("pool"), maker.Thread("pool"), maker.Thread("pool")};
    const uint32_t native = maker.Thread("intra_op");
    std::erase_if(maker.timeline.python.threads, [&](const PythonThread& of) { return of.thread == native; });
    int step = 0;
    maker.EachStep(90 * kMs, [&](int64_t at) {
      maker.Block(at, 90 * kMs, maker.in_main, BlockedIn::kFutex);
      maker.Run(threads[step++ % 3], at, 80 * kMs, load, maker.library);
      if (!computes) return;
      std::vector<UsagePoint>& points = maker.timeline.usage[native].points;
      points.push_back({at, points.back().cpu_ps});
      points.push_back({at + 90 * kMs, points.back().cpu_ps + 90 * kMs});
    });
    if (computes) {
      maker.Expect(Cause::kOperations, StepPart::kOperations, 1);
      continue;
    }
    maker.Expect(Cause::kPrefetchThread, StepPart::kInput, 0.9);
    maker.ExpectBlocker("data.py:8");
    EXPECT_THAT(maker.Make().facts, testing::Contains(testing::HasSubstr("these 3 threads work for")));
  }
}

// polars waits for its own threads in a call that only evidence shows to be of a pool.
TEST(Verdict, WaitForThreadsOfALibraryThatCompute_IsNativeCode) {
  enum { kCompute, kQueueForCpu, kIdle, kPythonLock, kOtherWaits };
  for (const int variant : {kCompute, kQueueForCpu, kIdle, kPythonLock, kOtherWaits}) {
    SCOPED_TRACE(variant);
    Maker maker;
    const uint32_t pool = maker.Thread("polars-0");
    std::erase_if(maker.timeline.python.threads, [&](const PythonThread& of) { return of.thread == pool; });
    const uint32_t other = maker.Thread("other");
    maker.EachStep(80 * kMs, [&](int64_t at) {
      maker.Wait(
          maker.main, kSemaphore, at, 80 * kMs, maker.in_main, 0x77,
          variant == kPythonLock ? "PyThread_acquire_lock_timed (thread.h:4)" : "rayon_core::registry::in_worker_cold");
      if (variant == kOtherWaits) maker.Wait(other, kSemaphore, at, 80 * kMs, 0, 0x77);
      if (variant == kIdle) return;
      UsagePoint point = maker.timeline.usage[pool].points.back();
      point.at_ps = at;
      maker.timeline.usage[pool].points.push_back(point);
      point.at_ps = at + 80 * kMs;
      point.cpu_ps += (variant == kQueueForCpu ? 20 : 60) * kMs;
      point.run_delay_ps += (variant == kQueueForCpu ? 60 : 0) * kMs;
      maker.timeline.usage[pool].points.push_back(point);
    });
    const bool is_pool = variant == kCompute || variant == kQueueForCpu;
    const Verdict verdict = maker.Make();
    EXPECT_NEAR(verdict.ShareOf(StepPart::kOperations), is_pool ? 1 : 0.2, 0.02);
    EXPECT_NEAR(verdict.ShareOf(StepPart::kLocks), is_pool ? 0 : 0.8, 0.02);
    if (is_pool) maker.Expect(Cause::kOperations, StepPart::kOperations, 1);
  }
}

// A thread that sleeps beside the wait, or computes while the GPU does, is not what the library waits for.
TEST(Verdict, WaitInALibraryBesideAnotherThread_IsNativeCode) {
  for (const bool on_gpu : {false, true}) {
    OnGpu maker;
    const uint32_t beside = maker.Thread("monitor");
    const uint32_t push = maker.Stack(0, "/home/me/monitor.py", "push", 8);
    maker.EachStep(90 * kMs, [&](int64_t at) {
      maker.Block(at, 90 * kMs, maker.in_main, BlockedIn::kFutex);
      if (on_gpu) {
        maker.Run(beside, at, 80 * kMs, push, maker.library);
        maker.Work(GpuEventKind::kKernel, at, 90 * kMs);
      } else {
        maker.Wait(beside, kNap, at, 99 * kMs, push);
      }
    });
    SCOPED_TRACE(on_gpu);
    EXPECT_NE(CauseName(maker.Make().cause), "prefetch_thread");
  }
}

// A program that fails at once has hardly worked.
TEST(Verdict, LittleBesideImports_IsNoWork) {
  OnePass maker;
  std::vector<PythonRun>& runs = maker.timeline.python.threads[maker.main].runs;
  ASSERT_EQ(runs.size(), 7u);
  runs[3].stack = runs[0].stack;  // 2.5 to 3.5 s are import, too
  runs[5].to_ps = runs[5].last_ps = runs[6].first_ps = runs[6].from_ps = 3800 * kMs;
  const Verdict verdict = maker.Make();
  EXPECT_EQ(verdict.basis, VerdictBasis::kNone);
  EXPECT_EQ(verdict.reason, "beside imports, the main thread worked for 100 ms");
}

TEST(Verdict, ImportsAlone_AreNoWork) {
  OnePass maker;
  std::vector<PythonRun>& runs = maker.timeline.python.threads[maker.main].runs;
  std::erase_if(runs, [&](const PythonRun& run) { return run.stack == maker.in_main; });
  const Verdict verdict = maker.Make();
  EXPECT_EQ(verdict.basis, VerdictBasis::kNone);
  EXPECT_EQ(verdict.reason, "the main thread did nothing but import");
}

// `timeout` and other wrappers wait for the program all the time. A script may start a short program of Python.
TEST(Verdict, WrapperOfAProgramThatOnlyImports_IsNotJudgedInItsPlace) {
  for (const bool is_wrapper : {true, false}) {
    OnePass maker;
    std::erase_if(maker.timeline.python.threads[maker.main].runs,
                  [&](const PythonRun& run) { return run.stack == maker.in_main; });
    const int64_t end = maker.timeline.threads[maker.main].end_ps;
    if (!is_wrapper) maker.timeline.duration_ps = 3 * end;
    maker.timeline.processes[0].is_command = false;
    const uint32_t wrapper = maker.Process(1, -1);
    maker.timeline.processes[wrapper].is_command = true;
    maker.timeline.processes[0].parent = static_cast<int>(wrapper);
    const uint32_t thread = maker.Thread("", true, wrapper);
    std::erase_if(maker.timeline.python.threads, [&](const PythonThread& of) { return of.thread == thread; });
    maker.Wait(thread, kNap, 0, maker.timeline.duration_ps, 0);
    EXPECT_EQ(CauseName(maker.Make().cause), is_wrapper ? "unknown" : "sleep");
  }
}

}  // namespace
}  // namespace tbprof
