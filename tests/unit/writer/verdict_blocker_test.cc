// SPDX-License-Identifier: Apache-2.0
//
// Who is waited for: processes that sleep for their answers, workers in turn, service threads.
#include <algorithm>
#include <string>
#include <vector>

#include "tests/unit/writer/verdict_maker.h"

namespace tbprof {
namespace {

using Maker = VerdictMaker;

constexpr char kConnection[] = "/usr/lib/python3.11/multiprocessing/connection.py";
constexpr char kLoader[] = "/x/site-packages/torch/utils/data/dataloader.py";

const Where* BlockerOf(const Verdict& verdict) {
  const auto found = std::ranges::find(verdict.where, WhereRole::kWaitedFor, &Where::role);
  return found == verdict.where.end() ? nullptr : &*found;
}

// Simulations that take 6 ms for an answer: one of their calls ends near each moment, so that only the time between the
// waits shows for whom they sleep.
TEST(VerdictBlocker, ProcessesThatSleepForTheirAnswers_AreNamed) {
  for (const bool answers : {true, false}) {
    Maker maker;
    const uint32_t receive = maker.Stack(maker.in_main, kConnection, "recv", 250);
    const uint32_t simulate = maker.Stack(0, "/home/me/simulation.py", "step", 9);
    const uint32_t worker = maker.Thread("", true, maker.Process(20, 0));
    maker.EachStep(80 * kMs, [&](int64_t at) {
      for (int64_t from = at; from < at + 80 * kMs; from += 8 * kMs) {
        maker.Wait(maker.main, kReceive, from, 6 * kMs, receive);
        maker.Run(maker.main, from + 6 * kMs, 2 * kMs, receive, maker.interpreter);
        if (answers) maker.Wait(worker, kNap, from + kMs / 2, 5 * kMs, simulate);
      }
      // A heartbeat goes on while nobody waits.
      for (int64_t from = at; !answers && from < at + kStep; from += 5 * kMs) {
        maker.Wait(worker, kNap, from, 4 * kMs, simulate);
      }
    });
    const Verdict verdict = maker.Make();
    ASSERT_EQ(verdict.cause, Cause::kSlowLoader) << CauseName(verdict.cause);
    const Where* const blocker = BlockerOf(verdict);
    if (answers) {
      ASSERT_NE(blocker, nullptr);
      EXPECT_EQ(maker.PlaceOf(*blocker), "simulation.py:9");
      EXPECT_EQ(verdict.advice, Advice::kOwnProcesses);
    } else {
      EXPECT_EQ(blocker, nullptr);
      EXPECT_EQ(verdict.advice, Advice::kOwnUnseen);
    }
  }
}

TEST(VerdictBlocker, ServiceThreadInAccept_IsNotTheBlocker) {
  Maker maker;
  const auto accept = static_cast<uint16_t>(maker.timeline.types.size());
  maker.timeline.types.push_back({"accept4", EventFamily::kIo});
  const uint32_t next = maker.Stack(maker.in_main, kLoader, "_get_data", 1);
  const uint32_t process = maker.Process(101, 0);
  const uint32_t serve = maker.Thread("_serve", false, process), worker = maker.Thread("", true, process);
  const uint32_t listen = maker.Stack(0, "/usr/lib/python3.11/multiprocessing/resource_sharer.py", "_serve", 138);
  const uint32_t load = maker.Stack(0, "/home/me/data.py", "load", 8);
  maker.Wait(serve, accept, 0, maker.timeline.duration_ps, listen);
  maker.EachStep(80 * kMs, [&](int64_t at) {
    maker.Wait(maker.main, kSemaphore, at, 80 * kMs, next);
    maker.Run(worker, at, 30 * kMs, load, maker.library);
  });
  maker.ExpectBlocker("data.py:8");
}

// Samples alone do not show which of its reads ends just before a wait of the training.
TEST(VerdictBlocker, LoaderWorkersThatAlwaysWaitForTheNetwork_AreNamed) {
  for (const bool is_worker : {true, false}) {
    Maker maker;
    maker.timeline.types[kPoll].sampled = true;
    const uint32_t next = maker.Stack(maker.in_main, kLoader, "_get_data", 1);
    const std::string loop = is_worker ? "/x/site-packages/torch/utils/data/_utils/worker.py" : "/x/y/worker.py";
    const uint32_t get = maker.Stack(maker.Stack(0, loop, "_worker_loop", 1), "/home/me/data.py", "get", 24);
    const uint32_t answer = maker.Stack(get, "/usr/lib/python3.11/socket.py", "readinto", 1);
    const uint32_t worker = maker.Thread("", true, maker.Process(20, 0));
    maker.Wait(worker, kPoll, 0, maker.timeline.duration_ps, answer);
    maker.Run(worker, 0, maker.timeline.duration_ps, answer, 0);
    maker.EachStep(60 * kMs, [&](int64_t at) { maker.Wait(maker.main, kPoll, at, 60 * kMs, next); });
    const Verdict verdict = maker.Make();
    ASSERT_EQ(verdict.cause, Cause::kSlowLoader) << CauseName(verdict.cause);
    const Where* const blocker = BlockerOf(verdict);
    ASSERT_EQ(blocker != nullptr, is_worker);
    if (is_worker) EXPECT_EQ(maker.PlaceOf(*blocker), "data.py:24");
  }
}

// One of four threads works at a time, since each holds the lock while it does.
TEST(VerdictBlocker, PoolThatALockSerializes_HoldsItForTooLong) {
  for (const bool at_lock : {true, false}) {
    Maker maker;
    const uint32_t result =
        maker.Stack(maker.in_main, "/usr/lib/python3.11/concurrent/futures/_base.py", "Future.result", 3);
    const uint32_t loop = maker.Stack(0, "/usr/lib/python3.11/concurrent/futures/thread.py", "_worker", 81);
    const uint32_t load = maker.Stack(loop, "/home/me/data.py", "load", 8);
    std::vector<uint32_t> pool;
    for (int i = 0; i < 4; ++i) pool.push_back(maker.Thread("pool"));
    maker.EachStep(80 * kMs, [&](int64_t at) {
      maker.Wait(maker.main, kSemaphore, at, 80 * kMs, result);
      for (int i = 0; i < 4; ++i) {
        const int64_t from = at + i * 20 * kMs;
        // Without work they wait in the library.
        if (i > 0) maker.Wait(pool[i], kSemaphore, at, i * 20 * kMs, at_lock ? load : loop);
        maker.Run(pool[i], from, 20 * kMs, load, maker.library);
        if (i < 3) maker.Wait(pool[i], kSemaphore, from + 20 * kMs, (3 - i) * 20 * kMs, at_lock ? load : loop);
      }
    });
    const Verdict verdict = maker.Make();
    ASSERT_EQ(verdict.cause, Cause::kPrefetchThread) << CauseName(verdict.cause);
    EXPECT_EQ(verdict.advice == Advice::kAtLocks, at_lock);
  }
}

// queue.SimpleQueue.get is no Python code: its waits are at the program's own line, as those for a lock are. They last
// until the main thread hands out work again.
TEST(VerdictBlocker, IdleThreadsOfASimpleQueue_AreAtNoLock) {
  Maker maker;
  const uint32_t result =
      maker.Stack(maker.in_main, "/usr/lib/python3.11/concurrent/futures/_base.py", "Future.result", 3);
  const uint32_t work = maker.Stack(0, "/home/me/data.py", "work", 8);
  std::vector<uint32_t> pool;
  for (int i = 0; i < 4; ++i) pool.push_back(maker.Thread("pool"));
  maker.EachStep(80 * kMs, [&](int64_t at) {
    maker.Wait(maker.main, kSemaphore, at, 80 * kMs, result);
    for (int i = 0; i < 4; ++i) {
      const int64_t length = i == 0 ? 80 * kMs : 30 * kMs;
      maker.Run(pool[i], at, length, work, maker.library);
      maker.Wait(pool[i], kSemaphore, at + length, kStep - length, work);
    }
  });
  const Verdict verdict = maker.Make();
  ASSERT_EQ(verdict.cause, Cause::kPrefetchThread) << CauseName(verdict.cause);
  EXPECT_NE(verdict.advice, Advice::kAtLocks);
}

// Each child of a pipe works for a fourth of the time.
TEST(VerdictBlocker, ChildrenOneAfterTheOther_AreNamedTogether) {
  Maker maker;
  const uint32_t next = maker.Stack(maker.in_main, kLoader, "_get_data", 1);
  const uint32_t cat = maker.Stack(0, "/home/me/slowcat.py", "main", 4);
  constexpr int kChildren = 4;
  for (int i = 0; i < kChildren; ++i) {
    const uint32_t process = maker.Process(200 + i, 0);
    maker.timeline.processes[process].name = "slowcat.py";
    const uint32_t child = maker.Thread("", true, process);
    const int64_t life = maker.timeline.duration_ps / kChildren;
    maker.timeline.threads[child].start_ps = i * life;
    maker.timeline.threads[child].end_ps = (i + 1) * life;
    for (int64_t at = i * life; at < (i + 1) * life; at += kStep) maker.Wait(child, kNap, at, 89 * kMs, cat);
  }
  maker.EachStep(90 * kMs, [&](int64_t at) { maker.Wait(maker.main, kReceive, at, 90 * kMs, next); });
  const Verdict verdict = maker.Make();
  const Where* const blocker = BlockerOf(verdict);
  ASSERT_NE(blocker, nullptr);
  EXPECT_EQ(maker.PlaceOf(*blocker), "slowcat.py:4");
  EXPECT_EQ(blocker->alike, 3u);
}

// polars: a function of Python in the library's own threads, which the main thread waits for on a condition.
TEST(VerdictBlocker, ConditionOfALibrary_IsNoContendedLock) {
  for (const std::string site : {"parking_lot::condvar::Condvar::wait_until_internal (lib.so)",
                                 "std::sys::sync::mutex::futex::Mutex::lock_contended (lib.so)"}) {
    Maker maker;
    const auto futex = static_cast<uint16_t>(maker.timeline.types.size());
    maker.timeline.types.push_back({"futex", EventFamily::kLock});
    const uint32_t worker = maker.Thread("tokio-rt-worker");
    const uint32_t bucket = maker.Stack(0, kOwn, "bucket", 6);
    maker.EachStep(90 * kMs, [&](int64_t at) {
      maker.Wait(maker.main, futex, at, 90 * kMs, maker.in_main, 0x1000, site);
      maker.Run(worker, at, 88 * kMs, bucket, maker.interpreter);
    });
    const Verdict verdict = maker.Make();
    const bool of_lock = site.find("lock_contended") != std::string::npos;
    EXPECT_EQ(CauseName(verdict.cause), CauseName(of_lock ? Cause::kLockConvoy : Cause::kWorkers)) << site;
    maker.ExpectBlocker("train.py:6");
  }
}

TEST(VerdictBlocker, WorkersThatStartAgain_AreToBeKept) {
  for (const bool again : {true, false}) {
    Maker maker;
    const auto stack = [&](uint32_t parent, const char* file, const char* name, int line) {
      return maker.Stack(parent, file, name, line);
    };
    const uint32_t get = stack(maker.in_main, kLoader, "_get_data", 1);
    const uint32_t start = stack(0, "/usr/lib/python3.11/multiprocessing/spawn.py", "spawn_main", 122);
    const uint32_t module = stack(start, kOwn, "<module>", 1);
    const uint32_t bootstrap = stack(start, "/usr/lib/python3.11/multiprocessing/process.py", "_bootstrap", 314);
    const uint32_t own = stack(bootstrap, kOwn, "load", 30);
    for (int i = 0; i < kSteps; ++i) {
      if (!again && i > 0) break;
      const uint32_t process = maker.Process(300 + i, 0);
      maker.timeline.processes[process].start_ps = i * kStep;
      maker.timeline.processes[process].end_ps = (i + 1) * kStep;
      maker.Thread("", true, process);
    }
    maker.EachStep(80 * kMs, [&](int64_t at) {
      maker.Wait(maker.main, kSemaphore, at, 80 * kMs, get);
      const auto worker = static_cast<uint32_t>(again ? 1 + at / kStep : 1);
      if (again) {
        maker.Run(worker, at, 60 * kMs, module, maker.interpreter);
        maker.Run(worker, at + 60 * kMs, 20 * kMs, own, maker.library);
      } else {
        maker.Run(worker, at, 80 * kMs, own, maker.library);
      }
    });
    const Verdict verdict = maker.Make();
    EXPECT_EQ(CauseName(verdict.cause), CauseName(Cause::kSlowLoader));
    EXPECT_EQ(verdict.advice, again ? Advice::kStartedAgain : Advice::kOfCause);
  }
}

// Fork children of short epochs are not sampled.
TEST(VerdictBlocker, ForkedWorkersOfShortEpochs_AreToBeKept) {
  for (const bool again : {true, false}) {
    Maker maker;
    const uint32_t get = maker.Stack(maker.in_main, kLoader, "_get_data", 1);
    for (int i = 0; again && i < kSteps; ++i) {
      const uint32_t process = maker.Process(300 + i, 0);
      maker.timeline.processes[process].start_ps = i * kStep + 1;
      maker.timeline.processes[process].end_ps = i * kStep + 80 * kMs;
    }
    maker.EachStep(70 * kMs, [&](int64_t at) { maker.Wait(maker.main, kSemaphore, at, 70 * kMs, get); });
    const Verdict verdict = maker.Make();
    EXPECT_EQ(CauseName(verdict.cause), CauseName(Cause::kSlowLoader)) << again;
    EXPECT_EQ(verdict.advice, again ? Advice::kStartedAgain : Advice::kOfCause);
  }
}

// SQLAlchemy, attrs, torch.fx make functions of text: the line that called them is the program's.
TEST(VerdictBlocker, CodeThatALibraryMade_IsPartOfTheLineThatCalledIt) {
  for (const char* const made : {"<sqlalchemy generated _go() wrapper>", "<string>"}) {
    Maker maker;
    const uint32_t commit = maker.Stack(maker.in_main, made, "commit", 2);
    maker.EachStep(90 * kMs, [&](int64_t at) { maker.Run(maker.main, at, 90 * kMs, commit, maker.interpreter); });
    const Verdict verdict = maker.Make();
    EXPECT_EQ(verdict.cause, Cause::kPython);
    ASSERT_FALSE(verdict.where.empty());
    EXPECT_EQ(maker.PlaceOf(verdict.where[0]), "train.py:10") << made;
  }
  // What the program executes itself.
  Maker harness;
  const uint32_t executed = harness.Stack(harness.in_main, "<string>", "<module>", 12);
  harness.EachStep(90 * kMs,
                   [&](int64_t at) { harness.Run(harness.main, at, 90 * kMs, executed, harness.interpreter); });
  EXPECT_EQ(harness.PlaceOf(harness.Make().where[0]), "<string>:12");
  // `python -c` itself.
  Maker maker;
  const uint32_t module = maker.Stack(0, "<string>", "<module>", 3), function = maker.Stack(module, "<string>", "f", 1);
  maker.EachStep(90 * kMs, [&](int64_t at) { maker.Run(maker.main, at, 90 * kMs, function, maker.interpreter); });
  EXPECT_EQ(maker.PlaceOf(maker.Make().where[0]), "<string>:1");
}

}  // namespace
}  // namespace tbprof
