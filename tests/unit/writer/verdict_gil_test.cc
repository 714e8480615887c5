// SPDX-License-Identifier: Apache-2.0
// Who holds the GIL that the main thread waits for.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/writer/verdict_maker.h"
#include "writer/verdict/verdict.h"

namespace tbprof {
namespace {

using testing::HasSubstr;

// The main thread waits for the GIL for 60 ms of each step.
class GilVerdict : public testing::Test {
 protected:
  void EachStep(const std::function<void(int64_t)>& visit) {
    maker_.EachStep(60 * kMs, [&](int64_t at) {
      for (int i = 0; i < 12; ++i) {
        maker_.Wait(maker_.main, kCondition, at + i * 5 * kMs, 5 * kMs, maker_.in_main, 0, "take_gil (ceval_gil.c:1)");
      }
      visit(at);
    });
  }
  void Holds(uint32_t thread, uint32_t stack, int64_t at, int64_t length) {
    for (int64_t sample = at + kMs; sample < at + length; sample += 10 * kMs) {
      maker_.timeline.python.holders.push_back({sample, 10 * kMs, thread, stack});
    }
  }
  Where Blocker() {
    const Verdict verdict = maker_.Make();
    EXPECT_EQ(CauseName(verdict.cause), CauseName(Cause::kGil)) << verdict.reason;
    const auto blocker = std::ranges::find(verdict.where, WhereRole::kWaitedFor, &Where::role);
    return blocker == verdict.where.end() ? Where() : *blocker;
  }
  std::string LastFact() { return maker_.Make().facts.back(); }

  VerdictMaker maker_;
};

TEST_F(GilVerdict, NoSamplesOfHolders_NamesTheThreadThatIsBusy) {
  const uint32_t other = maker_.Thread("stats");
  const uint32_t burn = maker_.Stack(0, "/home/me/stats.py", "run", 28);
  EachStep([&](int64_t at) { maker_.Run(other, at, 60 * kMs, burn, maker_.interpreter); });
  maker_.Expect(Cause::kGil, StepPart::kGil, 0.6);
  EXPECT_EQ(maker_.PlaceOf(Blocker()), "stats.py:28");
}

// The thread spends most of its time in a call that has released the GIL.
TEST_F(GilVerdict, LineThatHoldsIt_IsNamedInsteadOfTheBusiestOne) {
  const uint32_t server = maker_.Thread("server");
  const uint32_t infer = maker_.Stack(0, "/home/me/serve.py", "infer", 12);
  const uint32_t nms = maker_.Stack(0, "/home/me/serve.py", "nms", 40);
  EachStep([&](int64_t at) {
    maker_.Run(server, at, 50 * kMs, infer, maker_.library);
    maker_.Run(server, at + 50 * kMs, 10 * kMs, nms, maker_.interpreter);
    Holds(server, nms, at + 50 * kMs, 10 * kMs);
  });
  EXPECT_EQ(maker_.PlaceOf(Blocker()), "serve.py:40");
  EXPECT_EQ(LastFact(), "that thread holds the GIL in 100 % of the samples that show who does");
}

TEST_F(GilVerdict, ThreadsThatHoldItInOneFunction_CountTogether) {
  const uint32_t nms = maker_.Stack(0, "/home/me/serve.py", "nms", 40);
  maker_.timeline.python.stacks.push_back(maker_.timeline.python.stacks[nms]);
  maker_.timeline.python.stacks.back().line = 41;
  const auto other_line = static_cast<uint32_t>(maker_.timeline.python.stacks.size() - 1);
  const uint32_t log = maker_.Stack(0, "/home/me/log.py", "emit", 7);
  std::vector<uint32_t> servers;
  for (int i = 0; i < 3; ++i) servers.push_back(maker_.Thread("server " + std::to_string(i)));
  const uint32_t logger = maker_.Thread("logger");
  EachStep([&](int64_t at) {
    // Each of the servers less than the logger, all of them more.
    for (size_t i = 0; i < servers.size(); ++i)
      Holds(servers[i], i == 2 ? other_line : nms, at + static_cast<int64_t>(i) * 10 * kMs, 10 * kMs);
    Holds(logger, log, at + 30 * kMs, 20 * kMs);
  });
  EXPECT_EQ(maker_.PlaceOf(Blocker()), "serve.py:40");
  EXPECT_EQ(Blocker().alike, 2u);
  EXPECT_EQ(LastFact(), "these 3 threads hold the GIL in 60 % of the samples that show who does");
}

// Neither another process's GIL counts, nor a time in which the main thread does not wait, nor its own.
TEST_F(GilVerdict, SamplesOfOtherWaitsAndProcesses_DoNotCount) {
  const uint32_t holder = maker_.Thread("holder");
  const uint32_t child = maker_.Thread("", true, maker_.Process(101, 0));
  const uint32_t line = maker_.Stack(0, "/home/me/a.py", "f", 1), other = maker_.Stack(0, "/home/me/b.py", "g", 2);
  EachStep([&](int64_t at) {
    Holds(child, other, at, 60 * kMs);
    Holds(maker_.main, maker_.in_main, at, 60 * kMs);
    Holds(holder, line, at, 10 * kMs);
    Holds(holder, other, at + 60 * kMs, 40 * kMs);
  });
  std::ranges::stable_sort(maker_.timeline.python.holders, {}, &GilHolder::at_ps);
  EXPECT_EQ(maker_.PlaceOf(Blocker()), "a.py:1");
  EXPECT_THAT(LastFact(), HasSubstr("in 100 % of"));
}

// Two threads that compute in Python have half of the GIL each.
TEST_F(GilVerdict, OwnPythonBesideWaitsForTheGil_IsNotTheCause) {
  for (const int waits_ms : {30, 20}) {
    VerdictMaker maker;
    const uint32_t other = maker.Thread("stats");
    const uint32_t burn = maker.Stack(0, "/home/me/stats.py", "run", 28);
    maker.EachStep(95 * kMs, [&](int64_t at) {
      maker.Wait(maker.main, kCondition, at, waits_ms * kMs, maker.in_main, 0, "take_gil (ceval_gil.c:1)");
      maker.Run(maker.main, at + waits_ms * kMs, (95 - waits_ms) * kMs, maker.in_main, maker.interpreter);
      maker.Run(other, at, waits_ms * kMs, burn, maker.interpreter);
      maker.timeline.python.holders.push_back({at + kMs, 10 * kMs, other, burn});
    });
    EXPECT_EQ(CauseName(maker.Make().cause), CauseName(waits_ms == 30 ? Cause::kGil : Cause::kPython));
  }
}

// What a queue waits for are threads that have the GIL in turn: more of them would not help.
TEST_F(GilVerdict, ThreadsThatFillAQueueInTurn_NameWhatHoldsIt) {
  for (const bool in_turn : {true, false}) {
    VerdictMaker maker;
    const uint32_t get = maker.Stack(maker.in_main, "/usr/lib/python3.11/queue.py", "Queue.get", 1);
    const uint32_t wait = maker.Stack(0, "/home/me/feed.py", "wait", 5),
                   parse = maker.Stack(0, "/home/me/feed.py", "parse", 9);
    const uint32_t feeds[] = {maker.Thread("feed_0"), maker.Thread("feed_1")};
    maker.EachStep(80 * kMs, [&](int64_t at) {
      maker.Wait(maker.main, kCondition, at, 70 * kMs, get);
      maker.Wait(maker.main, kCondition, at + 70 * kMs, 10 * kMs, get, 0, "take_gil (ceval_gil.c:1)");
      for (const uint32_t feed : feeds) maker.Run(feed, at, 80 * kMs, wait, maker.library);
      for (int i = 0; in_turn && i < 8; ++i) {
        maker.timeline.python.holders.push_back({at + i * 10 * kMs + kMs, 10 * kMs, feeds[i % 2], parse});
      }
    });
    maker.Expect(Cause::kPrefetchThread, StepPart::kInput, 0.8);
    const Verdict verdict = maker.Make();
    maker.ExpectBlocker(in_turn ? "feed.py:9" : "feed.py:5");
    EXPECT_EQ(verdict.advice == Advice::kTakeTurns, in_turn);
  }
}

TEST_F(GilVerdict, FewSamplesOfHolders_AreNoEvidence) {
  const uint32_t other = maker_.Thread("stats");
  const uint32_t burn = maker_.Stack(0, "/home/me/stats.py", "run", 28),
                 rare = maker_.Stack(0, "/home/me/x.py", "x", 3);
  EachStep([&](int64_t at) {
    maker_.Run(other, at, 60 * kMs, burn, maker_.interpreter);
    if (at < 19 * kStep) Holds(other, rare, at, 10 * kMs);
  });
  EXPECT_EQ(maker_.PlaceOf(Blocker()), "stats.py:28");
}

}  // namespace
}  // namespace tbprof
