// SPDX-License-Identifier: Apache-2.0
// Servers: their main thread waits for clients, and other threads answer them.
#include <cstdint>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/writer/verdict_maker.h"
#include "writer/verdict/verdict.h"

namespace tbprof {
namespace {

constexpr char kLibrary[] = "/usr/lib/python3.11/";

class VerdictServer : public testing::Test {
 protected:
  VerdictServer() {
    maker_.timeline.steps.clear();
    maker_.timeline.step_source = StepSource::kWholeCapture;
    const uint32_t serve = Library(maker_.in_main, "socketserver.py", "BaseServer.serve_forever");
    select_ = Library(serve, "selectors.py", "_PollLikeSelector.select");
    // Of a thread that socketserver starts for a connection.
    request_ = Library(0, "socketserver.py", "ThreadingMixIn.process_request_thread");
    next_ = Library(Library(request_, "http/server.py", "BaseHTTPRequestHandler.handle"), "socket.py", "readinto");
    answer_ = maker_.Stack(request_, kOwn, "Handler.do_POST", 20);
    WaitAt(maker_.main, kPoll, 0, kAll, select_);
  }

  uint32_t Library(uint32_t parent, const std::string& file, const std::string& name) {
    return maker_.Stack(parent, kLibrary + file, name, 1);
  }
  // As a sampled thread: a wait that was recorded, and the Python stack in which it is.
  void WaitAt(uint32_t thread, uint16_t type, int64_t start, int64_t length, uint32_t stack, uint64_t object = 0) {
    maker_.Wait(thread, type, start, length, stack, object);
    maker_.Run(thread, start, length, stack, 0);
  }

  static constexpr int64_t kAll = kSteps * kStep;
  VerdictMaker maker_;
  uint32_t select_ = 0, request_ = 0, next_ = 0, answer_ = 0;
};

TEST_F(VerdictServer, ThreadThatAnswers_IsJudged) {
  const uint32_t reload = maker_.Stack(0, kOwn, "reload", 40);
  const uint32_t reloader = maker_.Thread("reloader");
  constexpr uint64_t kLock = 77;
  for (int i = 0; i < 3; ++i) {
    const uint32_t worker = maker_.Thread("worker");
    for (int64_t at = 0; at < kAll; at += kStep) {
      WaitAt(worker, kSemaphore, at, 80 * kMs, answer_, kLock);
      WaitAt(worker, kReceive, at + 80 * kMs, 20 * kMs, next_);
    }
  }
  for (int64_t at = 0; at < kAll; at += kStep) WaitAt(reloader, kNap, at, 79 * kMs, reload);
  const Verdict verdict = maker_.Make();
  EXPECT_EQ(CauseName(verdict.cause), CauseName(Cause::kLockConvoy)) << verdict.reason;
  EXPECT_NEAR(verdict.share, 0.8, 0.05);
  ASSERT_FALSE(verdict.where.empty());
  EXPECT_EQ(maker_.PlaceOf(verdict.where.front()), "train.py:20");
  maker_.ExpectBlocker("train.py:40");
}

// In waits for the next request a thread answers nobody.
TEST_F(VerdictServer, IdleServer_WaitsForClients) {
  for (int i = 0; i < 3; ++i) {
    const uint32_t worker = maker_.Thread("worker");
    for (int64_t at = 0; at < kAll; at += kStep) WaitAt(worker, kReceive, at, 99 * kMs, next_);
  }
  const Verdict verdict = maker_.Make();
  EXPECT_EQ(CauseName(verdict.cause), CauseName(Cause::kNetwork)) << verdict.reason;
  EXPECT_EQ(verdict.advice, Advice::kServes);
}

// waitress: idle threads wait for work in a condition.
TEST_F(VerdictServer, IdleThreadsInAServersCondition_AnswerNobody) {
  const uint32_t task = Library(0, "site-packages/waitress/task.py", "ThreadedTaskDispatcher.handler_thread");
  const uint32_t idle = Library(task, "threading.py", "Condition.wait");
  for (int i = 0; i < 3; ++i) WaitAt(maker_.Thread("waitress"), kSemaphore, 0, kAll, idle);
  const Verdict verdict = maker_.Make();
  EXPECT_EQ(CauseName(verdict.cause), CauseName(Cause::kNetwork)) << verdict.reason;
  EXPECT_EQ(verdict.advice, Advice::kServes);
}

// gRPC: the main thread waits in a condition for the server's end.
TEST_F(VerdictServer, MainThreadThatWaitsForTheServersEnd_IsNotJudged) {
  maker_.timeline.threads[maker_.main].events.clear();
  maker_.timeline.python.threads[0].runs.clear();
  const uint32_t end = Library(maker_.in_main, "site-packages/grpc/_server.py", "_Server.wait_for_termination");
  WaitAt(maker_.main, kSemaphore, 0, kAll, Library(end, "threading.py", "Condition.wait"));
  const uint32_t rpc = Library(0, "site-packages/grpc/_server.py", "_unary_response_in_pool");
  const uint32_t nap = maker_.Stack(rpc, kOwn, "Predict", 30);
  const uint32_t worker = maker_.Thread("worker");
  for (int64_t at = 0; at < kAll; at += kStep) WaitAt(worker, kNap, at, 90 * kMs, nap);
  const Verdict verdict = maker_.Make();
  EXPECT_EQ(CauseName(verdict.cause), CauseName(Cause::kSleep)) << verdict.reason;
  ASSERT_FALSE(verdict.where.empty());
  EXPECT_EQ(maker_.PlaceOf(verdict.where.front()), "train.py:30");
}

TEST_F(VerdictServer, EventLoop_MayBeAClientsOrAServers) {
  const uint32_t run = Library(maker_.in_main, "asyncio/base_events.py", "BaseEventLoop.run_forever");
  const uint32_t once = Library(run, "asyncio/base_events.py", "BaseEventLoop._run_once");
  const uint32_t select = Library(once, "selectors.py", "EpollSelector.select");
  maker_.timeline.threads[maker_.main].events.clear();
  maker_.timeline.python.threads[0].runs.clear();
  for (int64_t at = 0; at < kAll; at += kStep) {
    WaitAt(maker_.main, kPoll, at, 80 * kMs, select);
    maker_.timeline.threads[maker_.main].events.back().value = 1;
    maker_.Wait(maker_.main, kReceive, at + 80 * kMs, 10 * kMs, once);
  }
  const Verdict verdict = maker_.Make();
  EXPECT_EQ(CauseName(verdict.cause), CauseName(Cause::kNetwork)) << verdict.reason;
  EXPECT_EQ(verdict.advice, Advice::kEventLoop);
}

}  // namespace
}  // namespace tbprof
