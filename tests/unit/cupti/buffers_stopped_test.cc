// SPDX-License-Identifier: Apache-2.0
//
// No call waits for a thread that has been stopped in the pool of buffers, wherever it is: one is taken through it
// instruction by instruction, and between any two of them the others go all the way.
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

// What a thread of the program does in the middle of a launch, and then CUPTI. False: there was no buffer.
bool Launch(Buffers* buffers) {
  uint8_t* const buffer = buffers->Request();
  if (buffer == nullptr) return false;
  buffers->Complete(buffer, kValid);
  return true;
}

// A lock would have the tracer wait for the process that it has stopped.
class BuffersStopped : public testing::Test {
 protected:
  void SetUp() override {
    // Tracer and traced share the pool, but for the bytes in its buffers.
    void* const shared = mmap(nullptr, sizeof(Buffers), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(shared, MAP_FAILED);
    buffers_ = static_cast<Buffers*>(shared);
    // With the reserve, so that there is one for each instruction.
    ASSERT_TRUE(buffers_->Start(false));
    alarm(60);
  }
  void TearDown() override {
    alarm(0);
    munmap(buffers_, sizeof(Buffers));
  }

  // Single steps through `part` in a child; `between` after each. How many there were.
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
