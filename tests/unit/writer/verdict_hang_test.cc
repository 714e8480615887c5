// SPDX-License-Identifier: Apache-2.0
// Where the threads of a process wait in which nothing runs.
#include "writer/verdict/hang.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/unit/writer/verdict_maker.h"

namespace tbprof {
namespace {

using Texts = std::vector<std::string>;

constexpr int64_t kSecond = 1'000'000'000'000;

class HangTest : public ::testing::Test {
 protected:
  HangTest() {
    maker_.timeline.attached = true;
    maker_.timeline.duration_ps = 5 * kSecond;
    maker_.timeline.types.push_back({"sem_wait (sampled)", EventFamily::kLock});
    maker_.timeline.types.back().sampled = true;
    type_ = static_cast<uint16_t>(maker_.timeline.types.size() - 1);
  }

  void WaitAll(uint32_t thread, uint32_t stack, const std::string& site = "") {
    maker_.Wait(thread, type_, 0, 5 * kSecond, stack, 0, site);
  }
  Texts Make() { return WhereThreadsHang(maker_.timeline, PythonTags(maker_.timeline), maker_.main); }

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
  EXPECT_EQ(texts[0].find("main thread, in sem_wait (sampled) at threading.py:1119 Thread.join < "), 0u) << texts[0];
  EXPECT_EQ(texts[1], "thread ingest, in sem_wait (sampled) at train.py:12 ingest");
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

TEST_F(HangTest, MainThreadThatIsInSeveralCalls_DoesNotHang) {
  for (int i = 0; i < 5; ++i) maker_.Wait(maker_.main, type_, i * kSecond, kSecond, 0, 0, "poll");
  EXPECT_EQ(Make(), Texts());
}

TEST_F(HangTest, RecordedRun_IsNotJudged) {
  maker_.timeline.attached = false;
  WaitAll(maker_.main, 0, "commit");
  EXPECT_EQ(Make(), Texts());
}

}  // namespace
}  // namespace tbprof
