// SPDX-License-Identifier: Apache-2.0
//
// No call waits for a thread that is stopped inside the pool of buffers, at any instruction: one process is
// single-stepped through a call, and after each step another process makes whole calls.
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <functional>

#include <gtest/gtest.h>

#include "cupti/buffers.h"
#include "tests/unit/single_step.h"

namespace tbprof::cupti {
namespace {

constexpr int kMostSteps = 100'000;
constexpr size_t kValid = 64;

// Requests a buffer, as a thread of the program does inside a launch, and completes it as CUPTI does. False: no buffer.
bool Launch(Buffers* buffers) {
  uint8_t* const buffer = buffers->Request(1);
  if (buffer == nullptr) return false;
  buffers->Complete(buffer, kValid);
  return true;
}

// With a lock, the tracer would wait for the process that it has stopped.
class BuffersStopped : public testing::Test {
 protected:
  void SetUp() override {
    // Both processes share the pool, except for the bytes in its buffers.
    void* const shared = mmap(nullptr, sizeof(Buffers), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(shared, MAP_FAILED);
    buffers_ = static_cast<Buffers*>(shared);
    // With the reserve, there is a buffer for each instruction.
    ASSERT_TRUE(buffers_->Start(false));
    alarm(60);
  }
  void TearDown() override {
    alarm(0);
    munmap(buffers_, sizeof(Buffers));
  }

  // Single-steps `part` in a child and calls `between` after each step. Returns the number of steps.
  static int Step(const std::function<void()>& part, const std::function<void()>& between) {
    const pid_t child = StartStopped(part);
    EXPECT_GT(child, 0);
    int steps = 0, stopped_by = 0;
    for (; steps < kMostSteps && StepOnce(child, &stopped_by); ++steps) between();
    EXPECT_EQ(stopped_by, SIGSTOP);
    EndStopped(child);
    return steps;
  }

  Buffers* buffers_ = nullptr;
};

TEST_F(BuffersStopped, Take_LaunchesAtAnyInstruction_DoNotWait) {
  int launched = 0;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Launch(buffers_));
  const int steps = Step(
      [&] {
        for (int i = 0; i < 3; ++i) {
          Buffers::Filled filled;
          if (buffers_->Take(&filled)) buffers_->Return(filled);
        }
      },
      [&] { launched += Launch(buffers_); });
  EXPECT_GT(steps, 100);
  EXPECT_EQ(launched, std::min<int>(steps, Buffers::kCount + Buffers::kReserve));
}

TEST_F(BuffersStopped, Launch_TakeOrLaunchAtAnyInstruction_DoesNotWait) {
  int launched = 0, taken = 0;
  const int steps = Step([&] { Launch(buffers_); },
                         [&] {
                           launched += Launch(buffers_);
                           Buffers::Filled filled;
                           while (buffers_->Take(&filled)) {
                             buffers_->Return(filled);
                             ++taken;
                           }
                         });
  EXPECT_GT(steps, 30);
  EXPECT_EQ(launched, steps);
  EXPECT_GE(taken, steps);
}

}  // namespace
}  // namespace tbprof::cupti
