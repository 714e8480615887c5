// SPDX-License-Identifier: Apache-2.0
#include "writer/steps/step_evidence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "writer/steps/inferred_steps.h"

namespace tbprof {
namespace {

constexpr int64_t kUs = 1'000'000, kMs = 1000 * kUs;

// A loop that allocates and frees large blocks, like a training without names, plus the calls that a test adds.
class StepEvidenceTest : public testing::Test {
 protected:
  enum Type : uint16_t { kAllocate, kFree, kOpen, kRead, kWrite, kFork, kWaitPid, kReceive, kPoll, kSleep, kBarrier };
  StepEvidenceTest() {
    Process& process = timeline_.processes.emplace_back();
    process.is_command = true;
    process.library = NumericLibrary::kFramework;
    const auto type = [&](const char* name, EventFamily family, ObjectKind object, ValueKind value) {
      timeline_.types.push_back({name, family, object, value});
    };
    type("malloc", EventFamily::kMemory, ObjectKind::kAddress, ValueKind::kBytes);
    type("free", EventFamily::kMemory, ObjectKind::kAddress, ValueKind::kBytes);
    type("openat64", EventFamily::kIo, ObjectKind::kNone, ValueKind::kResult);
    type("read", EventFamily::kIo, ObjectKind::kDescriptor, ValueKind::kBytes);
    type("write", EventFamily::kIo, ObjectKind::kDescriptor, ValueKind::kBytes);
    type("fork", EventFamily::kProcess, ObjectKind::kNone, ValueKind::kProcessId);
    type("waitpid", EventFamily::kProcess, ObjectKind::kProcessId, ValueKind::kProcessId);
    type("recv", EventFamily::kIo, ObjectKind::kDescriptor, ValueKind::kBytes);
    type("poll", EventFamily::kIo, ObjectKind::kNone, ValueKind::kResult);
    type("nanosleep", EventFamily::kSleep, ObjectKind::kNone, ValueKind::kNone);
    type("pthread_barrier_wait", EventFamily::kLock, ObjectKind::kAddress, ValueKind::kNone);
    for (uint64_t i = 0; i < 3; ++i) {
      timeline_.threads.emplace_back().line_id = i + 1;
      timeline_.threads.back().is_main = i == 0;
    }
  }

  void Call(Type type, int64_t length, StringId site, int64_t value = 0, uint64_t object = 0, size_t thread = 0) {
    timeline_.threads[thread].events.push_back(
        {.start_ps = now_, .duration_ps = length, .object = object, .value = value, .call_site = site, .type = type});
    now_ += length;
  }
  template <typename Extra>
  void Loop(int steps, Extra&& extra) {
    for (step_ = 0; step_ < steps; ++step_) {
      for (StringId site = 1; site < 5; ++site) {
        Call(kAllocate, 10 * kUs, site, block_ << site);
        now_ += kMs;
      }
      extra();
      now_ += 3 * kMs;
      for (StringId site = 1; site < 5; ++site) Call(kFree, 10 * kUs, 10 + site, block_ << site);
      now_ += 2 * kMs;
    }
    timeline_.duration_ps = std::max(timeline_.duration_ps, now_);
  }
  InferredSteps Infer() { return InferSteps(timeline_, 0); }
  void ExpectUnknown(StepDoubt doubt) {
    const InferredSteps found = Infer();
    EXPECT_TRUE(found.steps.empty()) << found.steps.size() << " steps, " << found.source << ", " << found.confidence;
    EXPECT_EQ(found.unknown, TextOf(doubt));
  }

  Timeline timeline_;
  int64_t now_ = 0;
  int64_t block_ = 64 << 10;
  int step_ = 0;
};

TEST_F(StepEvidenceTest, LoopThatComputes_IsATraining) {
  Loop(60, [] {});
  const InferredSteps found = Infer();
  EXPECT_GE(found.steps.size(), 58u) << found.unknown;
  EXPECT_GE(found.confidence, kLeastShown);
  EXPECT_LE(found.confidence, 0.65);
  EXPECT_EQ(found.unknown, "");
}

TEST_F(StepEvidenceTest, ProgressBar_IsNoFile) {
  Loop(60, [&] { Call(kWrite, 20 * kUs, 30, 80, 2); });
  EXPECT_GE(Infer().steps.size(), 58u);
}

TEST_F(StepEvidenceTest, FrameworkThatReadsAndLogs_IsATraining) {
  Loop(60, [&] {
    Call(kRead, 20 * kUs, 30, 4096, 7);
    Call(kWrite, 20 * kUs, 31, 80, 8);
  });
  EXPECT_GE(Infer().steps.size(), 58u);
}

TEST_F(StepEvidenceTest, LoopThatStartsPrograms_IsUnknown) {
  Loop(60, [&] {
    Call(kFork, 200 * kUs, 30, 100 + step_);
    Call(kWaitPid, 2 * kMs, 31, 100 + step_);
  });
  ExpectUnknown(StepDoubt::kProcesses);
}

TEST_F(StepEvidenceTest, ChildInEachStep_IsUnknown) {
  for (int i = 0; i < 60; ++i) {
    Process& child = timeline_.processes.emplace_back();
    child.parent = 0;
    child.start_ps = i * 9 * kMs + 5 * kMs;
  }
  Loop(60, [] {});
  ExpectUnknown(StepDoubt::kProcesses);
}

TEST_F(StepEvidenceTest, LoopThatOpensFiles_IsUnknown) {
  Loop(60, [&] { Call(kOpen, 20 * kUs, 30, 5); });
  ExpectUnknown(StepDoubt::kFiles);
}

TEST_F(StepEvidenceTest, LoopThatWaitsForSockets_IsUnknown) {
  Loop(60, [&] {
    Call(kPoll, kMs, 30, 1);
    Call(kReceive, 20 * kUs, 31, 500, 9);
  });
  ExpectUnknown(StepDoubt::kSockets);
}

TEST_F(StepEvidenceTest, LoopThatSleeps_IsUnknown) {
  Loop(60, [&] { Call(kSleep, 40 * kMs, 30); });
  ExpectUnknown(StepDoubt::kWaits);
}

TEST_F(StepEvidenceTest, LoopThatWritesWithoutAFramework_IsUnknown) {
  timeline_.processes[0].library = NumericLibrary::kLinearAlgebra;
  Loop(60, [&] { Call(kWrite, 50 * kUs, 30, 4096, 5); });
  ExpectUnknown(StepDoubt::kFiles);
}

TEST_F(StepEvidenceTest, LoopWithoutANumericLibrary_IsUnknown) {
  timeline_.processes[0].library = NumericLibrary::kNone;
  Loop(60, [] {});
  ExpectUnknown(StepDoubt::kAnyLoop);
}

TEST_F(StepEvidenceTest, LoopWithLinearAlgebra_IsATraining) {
  timeline_.processes[0].library = NumericLibrary::kLinearAlgebra;
  Loop(60, [] {});
  EXPECT_GE(Infer().steps.size(), 58u);
}

TEST_F(StepEvidenceTest, LoopThatVaries_IsUnknown) {
  std::mt19937 random(3);
  Loop(80, [&] {
    for (int i = 0; i < 12; ++i) Call(kAllocate, 10 * kUs, 100 + random() % 500, int64_t{1} << (17 + random() % 8));
  });
  ExpectUnknown(StepDoubt::kOtherEachTime);
}

TEST_F(StepEvidenceTest, ThreadsWithBarriers_NeedNoLibrary) {
  timeline_.processes[0].library = NumericLibrary::kNone;
  Loop(60, [&] {
    for (size_t thread = 1; thread < 3; ++thread) Call(kBarrier, 200 * kUs, 40, 0, 0, thread);
  });
  EXPECT_GE(Infer().steps.size(), 58u) << Infer().unknown;
}

TEST_F(StepEvidenceTest, ConfidenceBelowAHalf_IsUnknown) {
  // Only six turns.
  Loop(6, [] {});
  const InferredSteps found = Infer();
  EXPECT_TRUE(found.steps.empty() || found.confidence >= kLeastShown);
  EXPECT_EQ(found.steps.empty(), !found.unknown.empty());
}

TEST_F(StepEvidenceTest, NoSteps_HaveADoubt) {
  const StepEvidence evidence = MeasureSteps(timeline_, 0, {});
  EXPECT_EQ(evidence.covered, 0);
  EXPECT_NE(DoubtOf(evidence), StepDoubt::kNone);
  StepDetection found;
  found.steps = {{5, 3}, {INT64_MIN / 4, INT64_MAX / 4}, {7, 7}};
  Call(kAllocate, kUs, 1, block_);
  EXPECT_NE(DoubtOf(MeasureSteps(timeline_, 0, found)), StepDoubt::kNone);
}

TEST(NumericLibraries, FileName_GivesTheLibrary) {
  EXPECT_EQ(NumericLibraryOf("/v/site-packages/jaxlib/libjax_common.so"), NumericLibrary::kFramework);
  EXPECT_EQ(NumericLibraryOf("/v/site-packages/torch/lib/libtorch_cpu.so"), NumericLibrary::kFramework);
  EXPECT_EQ(NumericLibraryOf("/usr/lib/x86_64-linux-gnu/libblas.so.3"), NumericLibrary::kLinearAlgebra);
  EXPECT_EQ(NumericLibraryOf("/v/numpy.libs/libscipy_openblas64_-1.so"), NumericLibrary::kLinearAlgebra);
  EXPECT_EQ(NumericLibraryOf("/usr/lib/x86_64-linux-gnu/libgomp.so.1"), NumericLibrary::kNone);
  EXPECT_EQ(NumericLibraryOf("/home/libtorch/bin/program"), NumericLibrary::kNone);
  EXPECT_EQ(NumericLibraryOf(""), NumericLibrary::kNone);
}

}  // namespace
}  // namespace tbprof
