// SPDX-License-Identifier: Apache-2.0
//
// Sampled native stacks from a spool to the timeline and to each output. Ticks are nanoseconds; a sample each 10 ms.
#include "writer/convert/native_samples.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/unit/writer/spool_maker.h"
#include "tests/unit/writer/string_sink.h"
#include "writer/convert/native_totals.h"
#include "writer/outputs/outputs.h"
#include "writer/outputs/summary.h"
#include "writer/proto/xplane.pb.h"

namespace tbprof {
namespace {

using Json = nlohmann::json;
using tensorflow::profiler::XSpace;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kLibrary = 0x7000'0000'0000;

NativeSample At(uint64_t ms, uint32_t node, int32_t tid = 100) { return {ms * kMs, tid, node, 10'000, 0}; }

NativeStatusFact Status(NativeState state, uint64_t samples = 0, uint64_t lost = 0, uint64_t cut = 0) {
  NativeStatusFact fact{};
  fact.ticks = 5 * kMs;
  fact.process_serial = 1;
  fact.state = state;
  fact.interval_us = 10'000;
  fact.samples = samples;
  fact.lost = lost;
  fact.cut = cut;
  return fact;
}

// A process with a main thread and another thread, from 1 ms to 1 s. It maps a library that does not exist on this
// machine.
SpoolMaker Program() {
  SpoolMaker spool;
  spool.Session(kMs).Segment(1, {{"read", kFamilyIo, ObjectRole::kDescriptor, ResultRole::kBytes}});
  spool.Process(1, 1, 100, kMs).Thread(1, 1, 1, 100, kMs).Thread(1, 2, 1, 101, kMs);
  spool.Chunk(1, 1, 1).Info(ProcessInfoKey::kExecutable, "/nowhere/trainer").Span(0, 20 * kMs, 30 * kMs).EndChunk();
  spool.Raw(FrameType::kMaps, 1, "700000000000-700000010000 r-xp 00000000 08:01 1 /nowhere/libgemm.so.3\n");
  return spool;
}

// Stack 1 calls 2 and 3 in the library; 4 is in no file; the callers of 5 are missing.
SpoolMaker WithStacks() {
  SpoolMaker spool = Program();
  spool.NativeStatus(1, Status(kNativeSampled, 7));
  spool.NativeNodes(1, 1, {{1, 0, kLibrary + 0x101}, {2, 1, kLibrary + 0x201}, {3, 1, 0x1001}});
  spool.NativeNodes(1, 1, {{4, 0, 0}, {5, 4, kLibrary + 0x301}});
  return spool;
}

Timeline BuildGood(const SpoolMaker& spool, const TimelineRequest& request = {}) {
  auto timeline = spool.Build(request);
  EXPECT_TRUE(timeline.ok()) << timeline.status();
  return timeline.ok() ? *std::move(timeline) : Timeline();
}

std::string Written(const Timeline& timeline, std::string_view output) {
  StringSink sink;
  const Output* row = FindOutput(output);
  EXPECT_TRUE(row->write(timeline, sink).ok());
  const TemporaryPath file("native_output");
  file.Write(sink.bytes());
  const auto result = row->verify(file.path(), timeline);
  EXPECT_TRUE(result.ok()) << result.status();
  return sink.bytes();
}

// `[libgemm.so.3] 95+30 x3`, in milliseconds.
std::vector<std::string> SpansOf(const Timeline& timeline, size_t thread) {
  std::vector<std::string> out;
  for (const NativeSpan& span : timeline.native.threads.at(thread).spans) {
    out.push_back(timeline.strings.Get(timeline.native.stacks[span.stack].function) + " " +
                  std::to_string(span.start_ps / 1'000'000'000) + "+" +
                  std::to_string(span.duration_ps / 1'000'000'000) + " x" + std::to_string(span.samples));
  }
  return out;
}

// Times are relative to the window, which begins at 1 ms.
TEST(NativeSamples, ConsecutiveSamples_BecomeNestedSpansUpToAGap) {
  SpoolMaker spool = WithStacks();
  spool.NativeSamples(1, 1, {At(101, 2), At(111, 2), At(121, 3), At(201, 1)});
  const Timeline timeline = BuildGood(spool.End(1000 * kMs));
  ASSERT_EQ(timeline.native.threads.size(), 1u);
  EXPECT_THAT(SpansOf(timeline, 0), ElementsAre("[libgemm.so.3] 95+30 x3", "[libgemm.so.3] 95+20 x2",
                                                "[generated code] 115+10 x1", "[libgemm.so.3] 195+10 x1"));
}

TEST(NativeSamples, ThreadThatRunsOn_HasNoHoleWhereItsPeriodChanged) {
  SpoolMaker spool = WithStacks();
  NativeSample behind_change = At(121, 3);
  behind_change.period_us *= 2;  // it stands for the period that the change cut, too
  spool.NativeSamples(1, 1, {At(101, 2), behind_change, At(146, 2), At(186, 2)});
  const Timeline timeline = BuildGood(spool.End(1000 * kMs));
  EXPECT_THAT(SpansOf(timeline, 0),
              ElementsAre("[libgemm.so.3] 95+55 x3", "[libgemm.so.3] 95+15 x1", "[generated code] 110+15 x1",
                          "[libgemm.so.3] 140+10 x1", "[libgemm.so.3] 180+10 x1", "[libgemm.so.3] 180+10 x1"));
}

TEST(NativeSamples, StackWithoutCallers_HasARootThatSaysSo) {
  SpoolMaker spool = WithStacks();
  spool.NativeSamples(1, 1, {At(101, 5)});
  const Timeline timeline = BuildGood(spool.End(1000 * kMs));
  EXPECT_THAT(SpansOf(timeline, 0), ElementsAre("(callers not known) 95+10 x1", "[libgemm.so.3] 95+10 x1"));
}

TEST(NativeSamples, SamplesOutsideTheWindow_AreNotCounted) {
  SpoolMaker spool = WithStacks();
  spool.Window(1, WindowEvent::kOpened, 200 * kMs);
  spool.NativeSamples(1, 1, {At(199, 2), At(200, 2), At(299, 2), At(300, 2)});
  spool.Window(1, WindowEvent::kClosed, 300 * kMs);
  TimelineRequest request;
  request.window = 1;
  const Timeline timeline = BuildGood(spool.End(1000 * kMs), request);
  EXPECT_EQ(NativeSums(timeline.native).OfAll().all.samples, 2u);
}

TEST(NativeSamples, Totals_CountARecursiveFunctionOnce) {
  SpoolMaker spool = WithStacks();
  // The library calls itself: one function, as it has no names.
  spool.NativeSamples(1, 1, {At(101, 2), At(111, 2), At(121, 3), At(131, 0)});
  const Timeline timeline = BuildGood(spool.End(1000 * kMs));
  const NativeTotals totals = NativeSums(timeline.native).OfAll();
  EXPECT_EQ(totals.all.samples, 4u);
  EXPECT_EQ(totals.all.cpu_ps, 40'000'000'000);
  EXPECT_EQ(totals.without_frames.samples, 1u);
  ASSERT_EQ(totals.functions.size(), 2u);
  EXPECT_EQ(totals.functions[0].self.samples, 2u);
  EXPECT_EQ(totals.functions[0].total.samples, 3u);
  EXPECT_EQ(totals.functions[1].self.samples, 1u);
}

TEST(NativeSamples, Summary_HasFunctionsAndHowSamplingWent) {
  SpoolMaker spool = WithStacks();
  spool.NativeSamples(1, 1, {At(101, 2), At(111, 2), At(121, 3)});
  const Timeline timeline = BuildGood(spool.End(1000 * kMs));
  const Json native = Json::parse(SummaryJson(timeline, {}, {}))["native"];
  EXPECT_EQ(native["samples"], 3);
  EXPECT_DOUBLE_EQ(native["cpu_s"], 0.03);
  EXPECT_EQ(native["processes"][0]["state"], "sampled");
  EXPECT_EQ(native["top_self"][0]["function"], "[libgemm.so.3]");
  EXPECT_EQ(native["top_self"][0]["module"], "libgemm.so.3");
  EXPECT_EQ(native["top_self"][0]["self_samples"], 2);
}

// NumPy and SciPy each ship an OpenBLAS with the same functions.
TEST(NativeSamples, TwoFunctionsOfOneName_AreShownWithTheirLibraries) {
  SpoolMaker spool = WithStacks();
  spool.NativeSamples(1, 1, {At(101, 2), At(111, 3)});
  Timeline timeline = BuildGood(spool.End(1000 * kMs));
  const StringId name = timeline.strings.Intern("blas_thread_server");
  for (NativeStack& stack : timeline.native.stacks) {
    stack.function = name;
    stack.module =
        timeline.strings.Intern(stack.module == timeline.native.stacks.back().module ? "libb.so" : "liba.so");
  }
  std::string text;
  for (const std::string& line : SummaryText(timeline, {}, {})) text += line + "\n";
  EXPECT_THAT(text, HasSubstr("blas_thread_server (liba.so)"));
  EXPECT_THAT(text, HasSubstr("blas_thread_server (libb.so)"));
}

TEST(NativeSamples, WithoutSampling_SummaryHasNull) {
  const Timeline timeline = BuildGood(Program().End(1000 * kMs));
  EXPECT_TRUE(Json::parse(SummaryJson(timeline, {}, {}))["native"].is_null());
}

TEST(NativeSamples, EachOutput_HoldsThemAndIsVerified) {
  SpoolMaker spool = WithStacks();
  spool.NativeSamples(1, 1, {At(101, 2), At(111, 3), At(121, 5), At(131, 0)});
  spool.NativeSamples(1, 1, {At(101, 2, 101), At(400, 1, 999)});
  const Timeline timeline = BuildGood(spool.End(1000 * kMs));
  for (const Output& output : Outputs()) Written(timeline, output.name);
  XSpace space;
  ASSERT_TRUE(space.ParseFromString(Written(timeline, "xplane")));
  std::vector<std::string> lines;
  for (const auto& line : space.planes(0).lines()) {
    if (line.name().starts_with("native: ")) lines.push_back(line.name());
  }
  EXPECT_THAT(lines, ElementsAre(HasSubstr("/100 "), HasSubstr("/101 "), HasSubstr("thread 999 ")));
}

TEST(NativeSamples, Refusal_IsOneWarningForAllProcesses) {
  SpoolMaker spool = Program();
  spool.Process(1, 2, 200, kMs).Thread(1, 3, 2, 200, kMs);
  const std::string reason = "Native stacks: not sampled, perf_event_paranoid is 4 (as root: sysctl x=2)";
  NativeStatusFact status = Status(kNativeNoPermission);
  status.error = EACCES;
  spool.NativeStatus(1, status, reason);
  status.process_serial = 2;
  spool.NativeStatus(1, status, reason);
  const Timeline timeline = BuildGood(spool.End(1000 * kMs));
  EXPECT_EQ(std::ranges::count(timeline.warnings, reason + " (2 processes)"), 1)
      << testing::PrintToString(timeline.warnings);
  EXPECT_EQ(timeline.native.processes.at(0).sampling, NativeSampling::kRefused);
}

TEST(NativeSamples, LostAndCutSamples_AreNoted) {
  SpoolMaker spool = Program();
  spool.NativeStatus(1, Status(kNativeSampled, 100, 2, 11));
  const Timeline many = BuildGood(spool.End(1000 * kMs));
  EXPECT_THAT(many.notes, testing::Contains(HasSubstr("2 samples lost and 100 taken")));
  EXPECT_THAT(many.notes, testing::Contains(HasSubstr("11 of 100 lack their outer frames")));
  SpoolMaker other = Program();
  other.NativeStatus(1, Status(kNativeSampled, 100, 1, 10));
  EXPECT_THAT(BuildGood(other.End(1000 * kMs)).notes, Not(testing::Contains(HasSubstr("Native stacks"))));
}

// The command used 4 s by the kernel's count.
TEST(NativeSamples, SamplesForLessThanTheCommandUsed_AreNoted) {
  const auto notes = [](uint32_t period_us) {
    SpoolMaker spool = WithStacks();
    for (uint64_t i = 0; i < 4; ++i) spool.NativeSamples(1, 1, {{(100 + i) * kMs, 100, 2, period_us, 0}});
    const EndFact end{1000 * kMs, 0, 0, 4'000'000, 0};
    spool.Raw(FrameType::kEnd, 0, {reinterpret_cast<const char*>(&end), sizeof(end)});
    return BuildGood(spool).notes;
  };
  EXPECT_THAT(notes(500'000), testing::Contains(HasSubstr("stand for 50 % of the CPU time")));
  EXPECT_THAT(notes(900'000), Not(testing::Contains(HasSubstr("of the CPU time"))));
}

TEST(NativeSamples, SmallProfile_LeavesTheLongestSpansAndAllTotals) {
  SpoolMaker spool = WithStacks();
  std::vector<NativeSample> samples;
  for (uint64_t i = 0; i < 4000; ++i)
    samples.push_back({(10 + i / 5) * kMs + i % 5 * 200'000, 100, i % 2 == 0 ? 2u : 3u, 200, 0});
  spool.NativeSamples(1, 1, samples);
  TimelineRequest request;
  request.max_profile_size = 24'000;
  const Timeline timeline = BuildGood(spool.End(1000 * kMs), request);
  EXPECT_EQ(NativeSums(timeline.native).OfAll().all.samples, 4000u);
  EXPECT_GT(timeline.native.spans_left_out, 0u);
  ASSERT_FALSE(timeline.native.threads[0].spans.empty());
  EXPECT_EQ(timeline.native.threads[0].spans[0].samples, 4000u) << "the outermost is the longest";
  EXPECT_THAT(timeline.notes, testing::Contains(HasSubstr("not drawn")));
}

TEST(NativeSamples, RandomFrames_LeaveOutputsThatAreVerified) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 30; ++round) {
    SpoolMaker spool = WithStacks();
    for (int i = 0; i < 10; ++i) {
      std::string payload(random() % 200, '\0');
      for (char& byte : payload) byte = static_cast<char>(random() % 4 == 0 ? random() : random() % 3);
      const auto types = {FrameType::kNativeStacks, FrameType::kNativeSamples, FrameType::kNativeStatus};
      if (payload.size() >= 4) std::memcpy(payload.data(), "\1\0\0\0", 4);
      spool.Raw(*(types.begin() + random() % 3), 1, payload);
    }
    spool.NativeSamples(1, 1,
                        {{random() % kMs * 1000, static_cast<int32_t>(random() % 4) + 99,
                          static_cast<uint32_t>(random() % 7), static_cast<uint32_t>(random()), 0}});
    const Timeline timeline = BuildGood(spool.End(1000 * kMs));
    for (const Output& output : Outputs()) Written(timeline, output.name);
  }
}

class NativeFactsTest : public testing::Test {
 protected:
  void TakeNodes(const std::vector<NativeNode>& nodes, uint32_t count) {
    const NativeStacksFact fact{1, count};
    std::string payload(reinterpret_cast<const char*>(&fact), sizeof(fact));
    for (const NativeNode& node : nodes) payload.append(reinterpret_cast<const char*>(&node), sizeof(node));
    Frame frame{};
    frame.type = FrameType::kNativeStacks;
    frame.segment = 1;
    frame.payload = payload;
    facts_.Take(frame);
  }
  NativeFacts facts_;
};

TEST_F(NativeFactsTest, NodeWithUnknownParentOrNumberUsedBefore_IsCorrupt) {
  TakeNodes({{1, 0, 5}, {2, 3, 6}, {1, 0, 7}, {0, 0, 8}, {4, 4, 9}}, 5);
  EXPECT_EQ(facts_.corrupt(), 4u);
  ASSERT_NE(facts_.Of(1, 1), nullptr);
  EXPECT_EQ(facts_.Of(1, 1)->frames.size(), 2u);
  EXPECT_EQ(facts_.Of(1, 1)->frames[1].address, 5u);
}

TEST_F(NativeFactsTest, CountBeyondThePayload_TakesWhatIsThere) {
  TakeNodes({{1, 0, 5}}, 1000);
  EXPECT_EQ(facts_.corrupt(), 1u);
  EXPECT_EQ(facts_.Of(1, 1)->frames.size(), 2u);
}

TEST_F(NativeFactsTest, StackThatIsTooDeep_LosesItsInnermostFrames) {
  std::vector<NativeNode> nodes;
  for (uint32_t i = 1; i <= kDeepestNativeStack + 10; ++i) nodes.push_back({i, i - 1, i});
  TakeNodes(nodes, static_cast<uint32_t>(nodes.size()));
  EXPECT_EQ(facts_.left_out(), 10u);
  EXPECT_EQ(facts_.Of(1, 1)->FrameOf(kDeepestNativeStack + 10), kDeepestNativeStack);
}

}  // namespace
}  // namespace tbprof
