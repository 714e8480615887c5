// SPDX-License-Identifier: Apache-2.0
// CUDA calls and the Python stacks at which the driver was entered, in spools made by hand.
#include "writer/convert/gpu_call_stacks.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/writer/gpu_spool.h"
#include "tests/unit/writer/python_maker.h"
#include "tests/unit/writer/string_sink.h"
#include "wire/python_current.h"
#include "writer/outputs/outputs.h"

namespace tbprof {
namespace {

using testing::ElementsAre;

constexpr uint64_t kUs = 1000, kStep = 0x7f0000001000;
constexpr uint16_t kDriverLaunch = 307;

// Adds a stack for each of `lines`; its number is the line: `train.py:42` has number 42.
void AddLines(SpoolMaker* spool, const std::vector<int>& lines) {
  AddPythonCode(spool, kMs, kStep, "step", "/src/train.py", 40);
  for (const int line : lines) AddPythonStack(spool, kMs, static_cast<uint32_t>(line), {{kStep, line - 40}});
}

void Enter(SpoolMaker* spool, uint64_t ticks, uint32_t line) {
  AddPythonStack(spool, ticks, line, {}, kPythonStackCall);
}

// The main thread's calls as `cudaLaunchKernel 42`, sorted by time.
std::vector<std::string> CallsOf(const SpoolMaker& spool, TimelineRequest request = {}) {
  const auto timeline = spool.Build(std::move(request));
  EXPECT_TRUE(timeline.ok()) << timeline.status();
  for (const Output& output : Outputs()) {
    StringSink sink;
    EXPECT_TRUE(output.write(*timeline, sink).ok()) << output.name;
    if (output.verify == nullptr) continue;
    const TemporaryPath file("output");
    file.Write(sink.bytes());
    EXPECT_TRUE(output.verify(file.path(), *timeline).ok()) << output.name;
  }
  std::vector<std::string> calls;
  for (const Event& event : timeline->threads[0].events) {
    const EventType& type = timeline->types[event.type];
    if (type.value != ValueKind::kCorrelation) continue;
    const int32_t line = event.python == 0 ? 0 : timeline->python.stacks[event.python].line;
    calls.push_back(type.name + " " + std::to_string(line));
  }
  return calls;
}

TEST(GpuCallStacks, EntryWithinACallOfTheRuntime_IsItsStack) {
  SpoolMaker spool = GpuProcess();
  spool.Api(kLaunchCallback, kMainTid, Gpu(10 * kMs), 5 * kUs, 1);
  spool.Api(kSyncCallback, kMainTid, Gpu(10 * kMs + 6 * kUs), kMs, 2);
  spool.Api(kLaunchCallback, kMainTid, Gpu(12 * kMs), 5 * kUs, 3);
  spool.EndChunk().Chunk(1, 1, 1);
  AddLines(&spool, {41, 42});
  Enter(&spool, 10 * kMs + kUs, 41);
  Enter(&spool, 10 * kMs + 7 * kUs, 42);
  EXPECT_THAT(CallsOf(spool.EndChunk().End(100 * kMs)),
              ElementsAre("cudaLaunchKernel 41", "cudaStreamSynchronize 42", "cudaLaunchKernel 0"));
}

TEST(GpuCallStacks, EntryRightBeforeACallOfTheDriver_IsItsStack) {
  SpoolMaker spool = GpuProcess();
  spool.Api(kDriverLaunch, kMainTid, Gpu(10 * kMs), 5 * kUs, 1, true);
  spool.Api(kDriverLaunch, kMainTid, Gpu(10 * kMs + 6 * kUs), 5 * kUs, 2, true);
  spool.EndChunk().Chunk(1, 1, 1);
  AddLines(&spool, {41, 42});
  Enter(&spool, 10 * kMs + 6 * kUs - 100, 42);
  Enter(&spool, 10 * kMs - 2 * kUs, 41);  // of a call that has no record
  EXPECT_THAT(CallsOf(spool.EndChunk().End(100 * kMs)), ElementsAre("cuLaunchKernel 0", "cuLaunchKernel 42"));
}

TEST(GpuCallStacks, EntryBetweenTwoCallsThatAreClose_IsNeithers) {
  SpoolMaker spool = GpuProcess();
  spool.Api(kDriverLaunch, kMainTid, Gpu(10 * kMs), 5 * kUs, 1, true);
  spool.Api(kDriverLaunch, kMainTid, Gpu(10 * kMs + 5 * kUs + 100), 5 * kUs, 2, true);
  spool.EndChunk().Chunk(1, 1, 1);
  AddLines(&spool, {41});
  Enter(&spool, 10 * kMs + 5 * kUs, 41);
  EXPECT_THAT(CallsOf(spool.EndChunk().End(100 * kMs)), ElementsAre("cuLaunchKernel 0", "cuLaunchKernel 0"));
}

TEST(GpuCallStacks, OfAnotherThread_IsNotTaken) {
  SpoolMaker spool = GpuProcess();
  spool.Api(kLaunchCallback, kMainTid, Gpu(10 * kMs), 5 * kUs, 1);
  spool.EndChunk();
  spool.Thread(1, 3, 1, 103, 20).Chunk(1, 1, 3);
  AddLines(&spool, {41});
  Enter(&spool, 10 * kMs + kUs, 41);
  EXPECT_THAT(CallsOf(spool.EndChunk().End(100 * kMs)), ElementsAre("cudaLaunchKernel 0"));
}

TEST(GpuCallStacks, StackThatComesLater_IsFound) {
  SpoolMaker spool = GpuProcess();
  spool.Api(kLaunchCallback, kMainTid, Gpu(10 * kMs), 5 * kUs, 1);
  spool.EndChunk().Chunk(1, 1, 1);
  Enter(&spool, 10 * kMs + kUs, 41);
  Enter(&spool, 11 * kMs, 77);  // a stack that is never recorded
  spool.EndChunk().Chunk(1, 1, 1);
  AddLines(&spool, {41});
  EXPECT_THAT(CallsOf(spool.EndChunk().End(100 * kMs)), ElementsAre("cudaLaunchKernel 41"));
}

TEST(GpuCallStacks, WithExactBlocks_CallsHaveTheirs) {
  SpoolMaker spool = GpuProcess();
  spool.Api(kLaunchCallback, kMainTid, Gpu(10 * kMs), 5 * kUs, 1);
  spool.EndChunk().Chunk(1, 1, 1).Taken(50 * kMs);
  AddLines(&spool, {41});
  AddBlock(&spool, 9 * kMs, 0x5000, 100, 0x123);
  Enter(&spool, 10 * kMs + kUs, 41);
  EXPECT_THAT(CallsOf(spool.EndChunk().End(100 * kMs)), ElementsAre("cudaLaunchKernel 41"));
}

TEST(GpuCallStacks, TimesThatCannotBe_DoNoHarm) {
  SpoolMaker spool = GpuProcess();
  spool.Api(kLaunchCallback, kMainTid, Gpu(10 * kMs), 5 * kUs, 1);
  spool.EndChunk().Chunk(1, 1, 1);
  AddLines(&spool, {41});
  for (const uint64_t ticks : {uint64_t{0}, UINT64_MAX, UINT64_MAX - 1, uint64_t{1} << 63}) Enter(&spool, ticks, 41);
  EXPECT_THAT(CallsOf(spool.EndChunk().End(100 * kMs)), ElementsAre("cudaLaunchKernel 0"));
}

TEST(GpuCallStacks, BeyondTheLimit_AreCounted) {
  SpoolFacts facts;
  GpuCallStacks stacks(&facts, /*most=*/1);
  Timeline filled;
  filled.threads.emplace_back();
  Conservation conservation(&facts);
  HostEvents events(&facts, &conservation, &filled);
  for (int i = 0; i < 3; ++i) stacks.Take(0, 5, 1);
  stacks.Finish(&events, &filled);
  ASSERT_EQ(filled.notes.size(), 1u);
  EXPECT_THAT(filled.notes[0], testing::HasSubstr("2 calls of CUDA have none"));
}

}  // namespace
}  // namespace tbprof
