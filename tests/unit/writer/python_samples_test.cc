// SPDX-License-Identifier: Apache-2.0
//
// Sampled Python stacks from a spool to the timeline and to each output. Ticks are nanoseconds; a sample each 10 ms.
#include "writer/convert/python_samples.h"

#include <fstream>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/unit/writer/spool_maker.h"
#include "tests/unit/writer/string_sink.h"
#include "writer/convert/python_totals.h"
#include "writer/convert/thread_groups.h"
#include "writer/outputs/outputs.h"
#include "writer/outputs/summary.h"
#include "writer/outputs/xplane.h"
#include "writer/proto/xplane.pb.h"

namespace tbprof {
namespace {

using Json = nlohmann::json;
using tensorflow::profiler::XLine;
using tensorflow::profiler::XPlane;
using tensorflow::profiler::XSpace;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::UnorderedElementsAre;

constexpr uint64_t kMs = 1'000'000;

PythonSample At(uint64_t first_ms, uint64_t last_ms, uint32_t node, uint32_t samples, uint32_t on_cpu = 0,
                int32_t tid = 100) {
  return {first_ms * kMs, last_ms * kMs, tid, node, samples, on_cpu};
}

// A process with a main thread and a named thread, from 1 ms to 1 s.
SpoolMaker Program() {
  SpoolMaker spool;
  spool.Session(kMs).Segment(1, {{"read", kFamilyIo, ObjectRole::kDescriptor, ResultRole::kBytes}});
  spool.Process(1, 1, 100, kMs).Thread(1, 1, 1, 100, kMs).Thread(1, 2, 1, 101, kMs);
  spool.Chunk(1, 1, 1).Info(ProcessInfoKey::kExecutable, "/usr/bin/python3").Span(0, 20 * kMs, 30 * kMs).EndChunk();
  spool.Chunk(1, 1, 2).ThreadName(2 * kMs, "Loader-3", 2).EndChunk();
  return spool;
}

// main -> train_step -> forward; main -> decode.
void AddCodes(SpoolMaker* spool) {
  spool->PythonStatus(1, 1, 2 * kMs, kPythonSampled);
  spool->PythonCode(1, 1, 1, "main", "/home/u/train.py", 100);
  spool->PythonCode(1, 1, 2, "train_step", "/home/u/train.py", 50);
  spool->PythonCode(1, 1, 3, "Model.forward", "/home/u/model.py", 10);
  spool->PythonCode(1, 1, 4, "decode", "/home/u/data.py", 5);
  spool->PythonNodes(1, 1, {{1, 0, 1, 2}, {2, 1, 2, 0}, {3, 2, 3, 4}, {4, 1, 4, 0}, {5, 2, 3, 6}});
}

SpoolMaker Sampled() {
  SpoolMaker spool = Program();
  AddCodes(&spool);
  // One thread is in forward at two lines, then in decode; the other is in decode all the time.
  spool.PythonSamples(1, 1, {At(100, 190, 3, 10, 10), At(200, 240, 5, 5, 5), At(250, 290, 4, 5, 0)});
  spool.PythonSamples(1, 1, {At(100, 490, 4, 40, 4, 101)});
  spool.End(1000 * kMs);
  return spool;
}

Timeline BuildGood(const SpoolMaker& spool, const TimelineRequest& request = {}) {
  auto timeline = spool.Build(request);
  EXPECT_TRUE(timeline.ok()) << timeline.status();
  return timeline.ok() ? *std::move(timeline) : Timeline();
}

// `Model.forward (model.py:10) 95+150 x15:12`, in milliseconds.
std::vector<std::string> SpansOf(const Timeline& timeline, const PythonThread& thread) {
  std::vector<std::string> out;
  for (const PythonSpan& span : thread.spans) {
    out.push_back(timeline.strings.Get(timeline.python.functions[span.function].label) + " " +
                  std::to_string(span.start_ps / 1'000'000'000) + "+" +
                  std::to_string(span.duration_ps / 1'000'000'000) + " x" + std::to_string(span.samples) + ":" +
                  std::to_string(span.line));
  }
  return out;
}

std::string Written(const Timeline& timeline, std::string_view output, std::string* verified = nullptr) {
  StringSink sink;
  const Output* row = FindOutput(output);
  EXPECT_TRUE(row->write(timeline, sink).ok());
  const TemporaryPath file("python_output");
  file.Write(sink.bytes());
  const auto result = row->verify(file.path(), timeline);
  EXPECT_TRUE(result.ok()) << result.status();
  if (verified != nullptr && result.ok()) *verified = *result;
  return sink.bytes();
}

void ExpectEachOutputIsGood(const Timeline& timeline) {
  for (const Output& output : Outputs()) Written(timeline, output.name);
}

TEST(PythonSamples, RunsOfTwoThreads_BecomeSpansOnTheirThreads) {
  const Timeline timeline = BuildGood(Sampled());
  ASSERT_EQ(timeline.python.threads.size(), 2u);
  EXPECT_THAT(SpansOf(timeline, timeline.python.threads[0]),
              ElementsAre("main (train.py:100) 94+200 x20:101", "train_step (train.py:50) 94+150 x15:50",
                          "Model.forward (model.py:10) 94+150 x15:12", "decode (data.py:5) 244+50 x5:5"));
  EXPECT_EQ(timeline.threads[timeline.python.threads[0].thread].tid, 100);
  EXPECT_EQ(timeline.threads[timeline.python.threads[1].thread].name, "Loader-3");
  EXPECT_EQ(timeline.corrupt_records, 0u);
  EXPECT_EQ(timeline.threads.size(), 2u);
  ASSERT_EQ(timeline.python.processes.size(), 1u);
  EXPECT_EQ(timeline.python.processes[0].minor, 11u);
  EXPECT_EQ(timeline.python.processes[0].period_ps, 10'000'000'000);
}

TEST(PythonSamples, SamplesOfACollectingThread_AreCountedInRunsAndTallies) {
  SpoolMaker spool = Program();
  AddCodes(&spool);
  spool.PythonSamples(1, 1, {At(100, 190, 3, 10, 10), At(250, 290, 3, 5, 4)});
  spool.PythonCollecting(1, 1, {At(200, 240, 3, 5, 5), At(300, 390, 4, 10, 10)});
  const Timeline timeline = BuildGood(spool.End(1000 * kMs));
  EXPECT_EQ(timeline.corrupt_records, 0u);
  ASSERT_EQ(timeline.python.threads.size(), 1u);
  const PythonThread& thread = timeline.python.threads[0];
  std::vector<uint32_t> collecting;
  for (const PythonRun& run : thread.runs) collecting.push_back(run.collecting);
  EXPECT_THAT(collecting, ElementsAre(0u, 5u, 0u, 10u));
  ASSERT_EQ(thread.tallies.size(), 2u);
  EXPECT_EQ(thread.tallies[0].samples, 20u);
  EXPECT_EQ(thread.tallies[0].collecting_ps, 50'000'000'000);
  EXPECT_EQ(thread.tallies[1].collecting_ps, 100'000'000'000);
  // One span, although the thread collected garbage in part of it.
  EXPECT_THAT(SpansOf(timeline, thread), testing::Contains("Model.forward (model.py:10) 94+200 x20:12"));
  ExpectEachOutputIsGood(timeline);
}

TEST(PythonSamples, HoldersOfTheGil_AreInOrderWithTheirStacks) {
  SpoolMaker spool = Sampled();
  const auto later = GilHolderRow{300 * kMs, 100, 4}, sooner = GilHolderRow{120 * kMs, 101, 3};
  spool.GilHolders(1, 1, {later, sooner});
  const Timeline timeline = BuildGood(spool);
  const std::vector<GilHolder>& holders = timeline.python.holders;
  ASSERT_EQ(holders.size(), 2u);
  EXPECT_EQ(holders[0].at_ps, 119'000'000'000);  // the window begins at 1 ms
  EXPECT_EQ(timeline.threads[holders[0].thread].tid, 101);
  EXPECT_EQ(timeline.threads[holders[1].thread].tid, 100);
  const uint32_t function = timeline.python.stacks[holders[0].stack].function;
  EXPECT_EQ(timeline.strings.Get(timeline.python.functions[function].name), "Model.forward");
  EXPECT_EQ(holders[1].period_ps, 10'000'000'000);
  EXPECT_EQ(timeline.corrupt_records, 0u);
}

TEST(PythonSamples, HoldersOfTheGil_AreInTheSummary) {
  SpoolMaker spool = Sampled();
  spool.GilHolders(1, 1, {{120 * kMs, 101, 4}, {130 * kMs, 101, 4}, {140 * kMs, 100, 3}});
  const Json gil = Json::parse(SummaryJson(BuildGood(spool), {}, {}))["python"]["gil"];
  ASSERT_EQ(gil.size(), 1u);
  EXPECT_EQ(gil[0]["samples"], 3);
  EXPECT_EQ(gil[0]["held_s"], 0.03);
  EXPECT_EQ(gil[0]["thread_count"], 2);
  EXPECT_EQ(gil[0]["top_threads"][0]["thread"], "Loader-3");
  EXPECT_EQ(gil[0]["top_lines"][0]["function"], "decode");
  EXPECT_EQ(gil[0]["top_lines"][0]["samples"], 2);
  EXPECT_EQ(gil[0]["top_lines"].size(), 2u);
}

// `Loader-3/101 100+30 x3`, in milliseconds, with the function in place of the thread for a span of a function.
std::vector<std::string> GilSpansOfTimeline(const Timeline& timeline) {
  std::vector<std::string> out;
  for (const GilSpan& span : timeline.python.gil_spans) {
    const std::string name = span.is_of_thread ? std::to_string(timeline.threads[span.thread].tid)
                                               : timeline.strings.Get(timeline.python.functions[span.function].name) +
                                                     ":" + std::to_string(span.line);
    out.push_back(name + " " + std::to_string(span.start_ps / 1'000'000'000) + "+" +
                  std::to_string(span.duration_ps / 1'000'000'000) + " x" + std::to_string(span.samples));
  }
  return out;
}

TEST(PythonSamples, HoldersOfTheGil_BecomeSpansOfThreadsAndFunctions) {
  SpoolMaker spool = Sampled();
  // The thread 101 in two functions and without frames, then 100, then after a gap 100 again.
  spool.GilHolders(1, 1, {{101 * kMs, 101, 4}, {111 * kMs, 101, 4}, {121 * kMs, 101, 3}, {131 * kMs, 101, 0}});
  spool.GilHolders(1, 1, {{141 * kMs, 100, 3}, {301 * kMs, 100, 3}});
  const Timeline timeline = BuildGood(spool);
  EXPECT_THAT(GilSpansOfTimeline(timeline),
              ElementsAre("101 95+40 x4", "decode:5 95+20 x2", "Model.forward:12 115+10 x1", "100 135+10 x1",
                          "Model.forward:12 135+10 x1", "100 295+10 x1", "Model.forward:12 295+10 x1"));
  ExpectEachOutputIsGood(timeline);
  XSpace space;
  ASSERT_TRUE(space.ParseFromString(Written(timeline, "xplane")));
  const XPlane& plane = space.planes(0);
  const auto line = std::ranges::find(plane.lines(), "GIL holder (sampled)", &XLine::name);
  ASSERT_NE(line, plane.lines().end());
  ASSERT_EQ(line->events_size(), 7);
  EXPECT_EQ(plane.event_metadata().at(line->events(0).metadata_id()).name(), "GIL: Loader-3/101");
  EXPECT_EQ(plane.event_metadata().at(line->events(1).metadata_id()).name(), "decode (data.py:5)");
  EXPECT_EQ(plane.event_metadata().at(line->events(3).metadata_id()).name(), "GIL: main thread/100");
}

TEST(PythonSamples, GilOfOneThread_HasNoSpans) {
  SpoolMaker spool = Sampled();
  spool.GilHolders(1, 1, {{101 * kMs, 101, 4}, {111 * kMs, 101, 4}});
  EXPECT_TRUE(BuildGood(spool).python.gil_spans.empty());
}

// Two threads take turns at each sample.
TEST(PythonSamples, SpansOfTheGilBeyondTheLimit_AreCounted) {
  SpoolMaker spool = Sampled();
  std::vector<GilHolderRow> rows;
  for (uint64_t i = 0; i < 800; ++i) rows.push_back({100 * kMs + i * kMs, i % 2 == 0 ? 100 : 101, 3});
  spool.GilHolders(1, 1, rows);
  const Timeline all = BuildGood(spool);
  EXPECT_EQ(all.python.gil_spans.size(), 1600u);
  TimelineRequest request;
  request.max_profile_size = 300'000;
  const Timeline cut = BuildGood(spool, request);
  // About 130: which of equal length stay depends on their starts.
  EXPECT_LT(cut.python.gil_spans.size(), 300u);
  EXPECT_GE(cut.python.gil_spans.size() + 2 * cut.python.spans_left_out, 1600u);
  EXPECT_EQ(cut.python.holders.size(), 800u);
  ExpectEachOutputIsGood(cut);
}

TEST(PythonSamples, HoldersThatCannotBe_AreCounted) {
  SpoolMaker spool = Sampled();
  spool.GilHolders(1, 1, {{120 * kMs, 0, 3}, {120 * kMs, 100, 99}, {kLatestTicks, 100, 3}, {0, 100, 3}});
  spool.GilHolders(1, 1, {{5000 * kMs, 100, 3}});  // behind the window
  const Timeline timeline = BuildGood(spool);
  EXPECT_TRUE(timeline.python.holders.empty());
  EXPECT_EQ(timeline.corrupt_records, 4u);
}

TEST(PythonSamples, FramesThatComeBehindTheirSamples_AreFound) {
  SpoolMaker spool = Program();
  spool.PythonSamples(1, 1, {At(100, 190, 3, 10)});
  AddCodes(&spool);
  EXPECT_EQ(BuildGood(spool.End(1000 * kMs)).python.threads.at(0).spans.size(), 3u);
}

TEST(PythonSamples, EntriesBeyondTheWindow_AreCutToItsSamples) {
  SpoolMaker spool = Program();
  AddCodes(&spool);
  spool.Window(1, WindowEvent::kOpened, 205 * kMs).Window(1, WindowEvent::kClosed, 305 * kMs);
  spool.PythonSamples(1, 1, {At(50, 90, 4, 5), At(100, 399, 3, 300, 150), At(400, 500, 4, 10)});
  TimelineRequest request;
  request.window = 1;
  const Timeline timeline = BuildGood(spool.End(1000 * kMs), request);
  ASSERT_EQ(timeline.python.threads.size(), 1u);
  ASSERT_EQ(timeline.python.threads[0].runs.size(), 1u);
  EXPECT_EQ(timeline.python.threads[0].runs[0].samples, 100u);
  EXPECT_EQ(timeline.python.threads[0].runs[0].on_cpu, 50u);
  EXPECT_EQ(timeline.python.threads[0].spans[0].start_ps, 0);
  EXPECT_EQ(timeline.python.threads[0].spans[0].duration_ps, timeline.duration_ps);
}

TEST(PythonSamples, ThreadNumberUsedAgain_BelongsToTheThreadThatLived) {
  SpoolMaker spool = Program();
  spool.Thread(1, 3, 1, 105, 100 * kMs, 200 * kMs).Thread(1, 4, 1, 105, 300 * kMs);
  AddCodes(&spool);
  spool.PythonSamples(1, 1, {At(150, 190, 4, 5, 0, 105), At(350, 390, 4, 5, 0, 105), At(350, 390, 4, 5, 0, 777)});
  const Timeline timeline = BuildGood(spool.End(1000 * kMs));
  ASSERT_EQ(timeline.python.threads.size(), 3u);
  EXPECT_EQ(timeline.threads[timeline.python.threads[0].thread].end_ps, 199'000'000'000);
  EXPECT_NE(timeline.python.threads[0].thread, timeline.python.threads[1].thread);
  EXPECT_EQ(timeline.threads[timeline.python.threads[2].thread].name, "thread 777");
  ExpectEachOutputIsGood(timeline);
}

TEST(PythonSamples, EntriesThatCannotBe_AreCountedAndNotShown) {
  SpoolMaker spool = Program();
  AddCodes(&spool);
  spool.PythonSamples(1, 1,
                      {At(200, 100, 3, 5),
                       At(100, 190, 3, 0),
                       At(100, 190, 3, 5, 6),
                       At(100, 190, 99, 5),
                       At(100, 190, 3, 5, 0, 0),
                       {0, UINT64_MAX, 100, 3, 5, 0}});
  spool.Raw(FrameType::kPythonSamples, 1, "short");
  const Timeline timeline = BuildGood(spool.End(1000 * kMs));
  EXPECT_EQ(timeline.corrupt_records, 7u);
  EXPECT_TRUE(timeline.python.threads.empty());
}

TEST(PythonSamples, EntriesOfOneThreadThatOverlap_AreCountedAndTheFirstIsShown) {
  SpoolMaker spool = Program();
  AddCodes(&spool);
  spool.PythonSamples(1, 1, {At(100, 190, 3, 10), At(150, 250, 4, 10), At(260, 290, 4, 3)});
  const Timeline timeline = BuildGood(spool.End(1000 * kMs));
  EXPECT_EQ(timeline.corrupt_records, 1u);
  EXPECT_EQ(timeline.python.threads.at(0).runs.size(), 2u);
  EXPECT_EQ(PythonSums(timeline).OfThreads({&timeline.python.threads[0]}).all.samples, 13u);
}

TEST(PythonSamples, StateOfAnotherInterpreterWithoutFrames_HidesNoFrames) {
  SpoolMaker spool = Program();
  AddCodes(&spool);
  spool.PythonSamples(1, 1, {At(50, 290, 0, 25), At(100, 190, 3, 10), At(300, 390, 0, 10), At(350, 390, 0, 5)});
  const Timeline timeline = BuildGood(spool.End(1000 * kMs));
  EXPECT_EQ(timeline.corrupt_records, 0u);
  ASSERT_EQ(timeline.python.threads.at(0).runs.size(), 2u);
  EXPECT_NE(timeline.python.threads[0].runs[0].stack, 0u);
  EXPECT_EQ(timeline.python.threads[0].runs[1].samples, 10u);
}

TEST(PythonSamples, LongProcess_TakesTheIntervalOfItsTime) {
  SpoolMaker spool = Program();
  AddCodes(&spool);
  spool.PythonStatus(1, 1, 300 * kMs, kPythonSampled, 40'000);
  spool.PythonSamples(1, 1, {At(100, 190, 4, 10), At(400, 520, 4, 4, 4)});
  const Timeline timeline = BuildGood(spool.End(1000 * kMs));
  const PythonTotals totals = PythonSums(timeline).OfThreads({&timeline.python.threads.at(0)});
  EXPECT_EQ(totals.all.wall_ps, int64_t{100 + 160} * 1'000'000'000);
  EXPECT_EQ(totals.all.on_cpu_ps, int64_t{160} * 1'000'000'000);
}

TEST(PythonSamples, StatesWithoutSamples_AreNamedWithTheirReason) {
  const auto build = [](PythonState state, std::string_view reason) {
    SpoolMaker spool = Program();
    return BuildGood(spool.PythonStatus(1, 1, 2 * kMs, state, 0, reason).End(1000 * kMs));
  };
  const Timeline refused = build(kPythonNoPermission, "Python stacks: not sampled, ptrace is denied");
  EXPECT_THAT(refused.warnings, testing::Contains("Python stacks: not sampled, ptrace is denied (python3 100)"));
  const Timeline old = build(kPythonUnknownVersion, "");
  EXPECT_THAT(old.notes, testing::Contains(HasSubstr("this version of Python is not supported")));
  EXPECT_THAT(old.warnings, Not(testing::Contains(HasSubstr("Python stacks"))));
  const Timeline off = build(kPythonOff, "");
  EXPECT_THAT(off.notes, Not(testing::Contains(HasSubstr("Python stacks"))));
  EXPECT_EQ(Json::parse(SummaryJson(off, {}, {}))["python"]["processes"][0]["state"], "off");
}

TEST(PythonSamples, StatusOlderThanTheSamples_DoesNotLowerTheirNumber) {
  SpoolMaker spool = Program();
  AddCodes(&spool);
  spool.PythonStatus(1, 1, 100 * kMs, kPythonSampled, 10'000);
  spool.PythonSamples(1, 1, {At(100, 190, 4, 10)});
  const Timeline timeline = BuildGood(spool.End(1000 * kMs));
  ASSERT_EQ(timeline.python.processes.size(), 1u);
  EXPECT_EQ(timeline.python.processes[0].samples, 10u);
}

// A killed launcher leaves a spool without an end.
TEST(PythonSamples, SamplesBehindTheLastRecord_AreInTheWindow) {
  SpoolMaker spool = Program();
  AddCodes(&spool);
  spool.PythonStatus(1, 1, 100 * kMs, kPythonSampled, 10'000);
  spool.PythonSamples(1, 1, {At(700, 790, 4, 10)});
  const Timeline timeline = BuildGood(spool);
  uint64_t samples = 0;
  for (const PythonTally& tally : timeline.python.threads.at(0).tallies) samples += tally.samples;
  EXPECT_EQ(samples, 10u);
}

TEST(PythonSamples, NoPython_HasNothingInTheSummary) {
  SpoolMaker spool = Program();
  const Timeline timeline = BuildGood(spool.End(1000 * kMs));
  EXPECT_TRUE(Json::parse(SummaryJson(timeline, {}, {}))["python"].is_null());
  for (const std::string& line : SummaryText(timeline, {}, {})) EXPECT_THAT(line, Not(HasSubstr("python  ")));
  ExpectEachOutputIsGood(timeline);
}

TEST(PythonSamples, RandomFrames_GiveTimelinesThatEachOutputTakes) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](uint32_t end) { return static_cast<uint32_t>(random() % end); };
    SpoolMaker spool = Program();
    AddCodes(&spool);
    for (int i = 0; i < 20; ++i) {
      std::vector<PythonNode> nodes;
      std::vector<PythonSample> samples;
      for (int k = 0; k < 20; ++k) {
        nodes.push_back({below(40), below(40), below(8), static_cast<int32_t>(below(20)) - 4});
        const uint64_t first = below(1200);
        samples.push_back(
            At(first, first + below(40), below(40), below(6), below(4), static_cast<int32_t>(99 + below(6))));
      }
      spool.PythonNodes(below(3), below(3), nodes).PythonSamples(below(3), below(3), samples);
    }
    TimelineRequest request;
    request.max_profile_size = seed % 2 == 0 ? 1000 : 64u << 20;
    const Timeline timeline = BuildGood(spool.End(1000 * kMs), request);
    EXPECT_GT(timeline.corrupt_records, 0u);
    ExpectEachOutputIsGood(timeline);
    EXPECT_TRUE(Json::accept(SummaryJson(timeline, {}, {})));
  }
}

std::string NameFrame(uint32_t process, int32_t tid, std::string_view name, uint32_t bytes) {
  const PythonThreadFact fact{process, tid, bytes, 0};
  return std::string(reinterpret_cast<const char*>(&fact), sizeof(fact)).append(name);
}

TEST(PythonThreadNames, ThreadWithoutANameOfItsOwn_GetsPythons) {
  SpoolMaker spool = Sampled();
  spool.Thread(1, 3, 1, 103, kMs, 50 * kMs).Thread(1, 4, 1, 103, 60 * kMs);
  const auto name = [&](int32_t tid, std::string_view text) {
    spool.Raw(FrameType::kPythonThread, 1, NameFrame(1, tid, text, static_cast<uint32_t>(text.size())));
  };
  name(101, "decode");
  name(103, "before");
  name(103, "after");
  name(999, "nobody");
  const Timeline timeline = BuildGood(spool);
  std::vector<std::string> names;
  for (const Thread& thread : timeline.threads) names.push_back(thread.name);
  // The system's name of a thread stays; a reused number belongs to the latest thread.
  EXPECT_THAT(names, ElementsAre("", "Loader-3", "", "after"));
  EXPECT_EQ(timeline.corrupt_records, 0u);
}

TEST(PythonThreadNames, FramesThatCannotBe_AreCounted) {
  SpoolMaker spool = Sampled();
  spool.Raw(FrameType::kPythonThread, 1, "short");
  spool.Raw(FrameType::kPythonThread, 1, NameFrame(1, 101, "name", 5));
  spool.Raw(FrameType::kPythonThread, 1, NameFrame(1, 0, "name", 4));
  spool.Raw(FrameType::kPythonThread, 1, NameFrame(0, 101, "name", 4));
  spool.Raw(FrameType::kPythonThread, 0, NameFrame(1, 101, "name", 4));
  const Timeline timeline = BuildGood(spool);
  EXPECT_EQ(timeline.corrupt_records, 5u);
  ExpectEachOutputIsGood(timeline);
}

TEST(PythonXplane, ThreadHasALineOfSamplesBeneathIt) {
  const Timeline timeline = BuildGood(Sampled());
  XSpace space;
  ASSERT_TRUE(space.ParseFromString(Written(timeline, "xplane")));
  const XPlane& plane = space.planes(0);
  std::vector<std::string> lines;
  for (const XLine& line : plane.lines()) lines.push_back(line.name());
  const auto exact = std::ranges::find(lines, "python3/100");
  ASSERT_NE(exact, lines.end());
  ASSERT_NE(exact + 1, lines.end());
  EXPECT_EQ(*(exact + 1), "python: python3/100 (sampled)");
  EXPECT_THAT(lines, testing::Contains("python: Loader-3/101 (sampled)"));
  const XLine& line = plane.lines(static_cast<int>(exact + 1 - lines.begin()));
  std::map<std::string, std::string> shown;
  for (const auto& event : line.events()) {
    const auto& metadata = plane.event_metadata().at(event.metadata_id());
    EXPECT_FALSE(metadata.name().starts_with("train") || metadata.name().starts_with("test")) << metadata.name();
    std::string stats;
    for (const auto& stat : event.stats()) {
      stats += plane.stat_metadata().at(stat.metadata_id()).name() + "=" + std::to_string(stat.int64_value()) + " ";
    }
    shown[metadata.display_name().empty() ? metadata.name() : metadata.display_name()] = stats;
  }
  EXPECT_THAT(shown, UnorderedElementsAre(testing::Pair("main (train.py:100)", "samples=20 line=101 "),
                                          testing::Pair("train_step (train.py:50)", "samples=15 line=50 "),
                                          testing::Pair("Model.forward (model.py:10)", "samples=15 line=12 "),
                                          testing::Pair("decode (data.py:5)", "samples=5 line=5 ")));
}

TEST(PythonXplane, ManySpans_LeaveExactEventsAlone) {
  const auto build = [](bool sampled) {
    SpoolMaker spool = Program();
    AddCodes(&spool);
    spool.Chunk(1, 1, 1);
    for (uint64_t i = 0; i < 900; ++i) spool.Span(0, (60 + i) * kMs, 1000 + i);
    spool.EndChunk();
    std::vector<PythonSample> samples;
    for (uint64_t i = 0; sampled && i < 9000; ++i) {
      samples.push_back({60 * kMs + i * 100'000, 60 * kMs + i * 100'000, 100, i % 2 == 0 ? 3u : 4u, 1, 0});
    }
    spool.PythonStatus(1, 1, 2 * kMs, kPythonSampled, 100).PythonSamples(1, 1, samples);
    TimelineRequest request;
    request.max_profile_size = 24'000;
    return BuildGood(spool.End(1000 * kMs), request);
  };
  const Timeline without = build(false), with = build(true);
  EXPECT_EQ(with.events_over_budget, without.events_over_budget);
  EXPECT_EQ(with.threads[0].events.size(), without.threads[0].events.size());
  ASSERT_EQ(with.python.threads.size(), 1u);
  EXPECT_GT(with.python.threads[0].spans.size(), 0u);
  EXPECT_GT(with.python.spans_left_out, 0u);
  EXPECT_THAT(with.notes, testing::Contains(HasSubstr("spans are in the totals but not drawn")));
  EXPECT_EQ(PythonSums(with).OfThreads({&with.python.threads[0]}).all.samples, 9000u);
}

TEST(PythonFolded, StackOfEachThread_IsALineWithItsSamples) {
  std::string verified;
  const std::string text = Written(BuildGood(Sampled()), "folded", &verified);
  EXPECT_EQ(text,
            "python3 (100);python3/100;main (train.py:100);train_step (train.py:50);Model.forward (model.py:10) 15\n"
            "python3 (100);python3/100;main (train.py:100);decode (data.py:5) 5\n"
            "python3 (100);Loader-3/101;main (train.py:100);decode (data.py:5) 40\n");
  EXPECT_EQ(verified, "verified: 3 stacks, 60 samples");
}

TEST(PythonSpeedscope, ThreadIsASampledProfileWithItsTimes) {
  std::string verified;
  const Json json = Json::parse(Written(BuildGood(Sampled()), "speedscope", &verified));
  EXPECT_EQ(json["$schema"], "https://www.speedscope.app/file-format-schema.json");
  ASSERT_EQ(json["profiles"].size(), 2u);
  const Json& profile = json["profiles"][0];
  EXPECT_EQ(profile["type"], "sampled");
  EXPECT_EQ(profile["unit"], "nanoseconds");
  EXPECT_EQ(profile["name"], "python3 (100) python3/100");
  ASSERT_EQ(profile["samples"].size(), 2u);
  EXPECT_EQ(profile["weights"], Json({150'000'000, 50'000'000}));
  std::vector<std::string> names;
  for (const Json& frame : profile["samples"][0])
    names.push_back(json["shared"]["frames"][frame.get<size_t>()]["name"]);
  EXPECT_THAT(names, ElementsAre("main", "train_step", "Model.forward"));
  EXPECT_EQ(verified, "verified: 2 threads, 3 stacks");
}

TEST(PythonOutputs, VerifyRefusesACutFile) {
  const Timeline timeline = BuildGood(Sampled());
  for (const char* name : {"folded", "speedscope", "flamegraph"}) {
    const std::string bytes = Written(timeline, name);
    const TemporaryPath file("python_cut");
    file.Write(bytes.substr(0, bytes.size() / 2));
    EXPECT_FALSE(FindOutput(name)->verify(file.path(), timeline).ok()) << name;
  }
}

TEST(PythonSummary, TopFunctions_ByGroupOfThreads) {
  const Json python = Json::parse(SummaryJson(BuildGood(Sampled()), {}, {}))["python"];
  ASSERT_EQ(python["groups"].size(), 2u);
  const Json& main = python["groups"][0];
  EXPECT_EQ(main["threads"], "main");
  EXPECT_EQ(main["samples"], 20);
  EXPECT_NEAR(main["wall_s"].get<double>(), 0.2, 1e-9);
  EXPECT_NEAR(main["on_cpu_s"].get<double>(), 0.15, 1e-9);
  EXPECT_EQ(main["top_self"][0]["function"], "Model.forward");
  EXPECT_EQ(main["top_self"][0]["self_samples"], 15);
  EXPECT_EQ(main["top_total"][0]["function"], "main");
  EXPECT_EQ(main["top_total"][0]["file"], "/home/u/train.py");
  EXPECT_EQ(python["groups"][1]["threads"], "Loader");
  EXPECT_EQ(python["processes"][0]["version"], "3.11");
}

// The lines of the terminal from the one that begins with `python` on.
std::vector<std::string> PythonLinesOf(const Timeline& timeline, size_t count) {
  const std::vector<std::string> lines = SummaryText(timeline, {}, {});
  const auto python = std::ranges::find_if(lines, [](const std::string& line) { return line.starts_with("python"); });
  const auto left = static_cast<size_t>(lines.end() - python);
  return {python, python + static_cast<std::ptrdiff_t>(std::min(count, left))};
}

TEST(PythonSummary, Lines_AreThoseThatWereExecuted) {
  const Json main = Json::parse(SummaryJson(BuildGood(Sampled()), {}, {}))["python"]["groups"][0];
  EXPECT_EQ(main["line_count"], 5);
  const Json& lines = main["top_lines"];
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0]["file"], "/home/u/model.py");
  EXPECT_EQ(lines[0]["line"], 12);
  EXPECT_EQ(lines[0]["function"], "Model.forward");
  EXPECT_EQ(lines[0]["self_samples"], 10);
  EXPECT_EQ(lines[1]["line"], 13);
  EXPECT_EQ(lines[2]["line"], 5);
  EXPECT_TRUE(main["phases"].is_null());
}

// Steps of 50 ms from 100 ms on, the first of them irregular.
Timeline SampledWithSteps() {
  Timeline timeline = BuildGood(Sampled());
  timeline.step_source = StepSource::kMarked;
  timeline.steps.clear();
  for (int64_t i = 0; i < 3; ++i) {
    Step step;
    step.start_ps = (99 + 50 * i) * 1'000'000'000;
    step.end_ps = (99 + 50 * (i + 1)) * 1'000'000'000;
    step.number = i;
    step.is_regular = i > 0;
    timeline.steps.push_back(step);
  }
  return timeline;
}

TEST(PythonSummary, Phases_DivideTheSamplesOfEachGroup) {
  const Json groups = Json::parse(SummaryJson(SampledWithSteps(), {}, {}))["python"]["groups"];
  const auto samples = [&](size_t group, size_t phase) { return groups[group]["phases"][phase]["samples"]; };
  EXPECT_EQ(groups[0]["phases"][0]["phase"], "steps");
  EXPECT_EQ(samples(0, 0), 10);
  EXPECT_EQ(samples(0, 1), 5);
  EXPECT_EQ(samples(0, 2), 5);
  EXPECT_EQ(groups[0]["phases"][2]["top_lines"][0]["function"], "decode");
  EXPECT_EQ(samples(1, 0), 10);
  EXPECT_EQ(samples(1, 1), 5);
  EXPECT_EQ(samples(1, 2), 25);
}

TEST(PythonSummary, Terminal_WithSteps_NamesLinesOfRegularSteps) {
  EXPECT_THAT(PythonLinesOf(SampledWithSteps(), 4),
              ElementsAre("python      self  line (main thread, in regular steps: 10 samples, waits included)",
                          "            50 %  model.py:12 Model.forward", "            50 %  model.py:13 Model.forward",
                          "      outside of regular steps (50 % of the samples): 50 % model.py:12 Model.forward"));
}

TEST(PythonSummary, Terminal_NarrowAndStartedByRunpy_ShowsTheProgramsFunctions) {
  SpoolMaker spool = Program();
  spool.PythonStatus(1, 1, 2 * kMs, kPythonSampled);
  spool.PythonCode(1, 1, 1, "_run_module_as_main", "<frozen runpy>", 10);
  spool.PythonCode(1, 1, 2, "_run_code", "<frozen runpy>", 50);
  spool.PythonCode(1, 1, 3, "work", "/home/u/job.py", 10);
  spool.PythonCode(1, 1, 4, "dot", "/e/lib/python3.11/site-packages/numpy/core.py", 5);
  spool.PythonCode(1, 1, 5, "_find_and_load", "<frozen importlib._bootstrap>", 5);
  spool.PythonNodes(1, 1, {{1, 0, 1, 0}, {2, 1, 2, 0}, {3, 2, 3, 0}, {4, 3, 4, 0}, {5, 2, 5, 0}});
  spool.PythonSamples(1, 1, {At(100, 190, 4, 10), At(200, 240, 3, 5), At(250, 290, 5, 5)});
  SummaryOptions options;
  options.width = 60;
  const std::vector<std::string> lines = SummaryText(BuildGood(spool.End(1000 * kMs)), {}, options);
  for (const std::string& line : lines) EXPECT_THAT(line, Not(HasSubstr("runpy")));
  EXPECT_THAT(lines, testing::Contains(testing::StartsWith("      own lines: 75 % job.py")));
  EXPECT_THAT(lines, testing::Contains(testing::StartsWith("      functions: 75 % work (job.py)")));
}

TEST(PythonSummary, Terminal_NamesTheLinesThatTheMainThreadWasAt) {
  EXPECT_THAT(PythonLinesOf(BuildGood(Sampled()), 5),
              ElementsAre("python      self  line (main thread, 20 samples, waits included)",
                          "            50 %  model.py:12 Model.forward", "            25 %  model.py:13 Model.forward",
                          "            25 %  data.py:5 decode", "      functions: 75 % train_step (train.py)"));
}

TEST(PythonTotals, RecursiveFunction_CountsOnceInItsTotal) {
  Timeline timeline;
  PythonTimeline& python = timeline.python;
  python.functions.resize(2);
  python.stacks = {{}, {0, 0, 1}, {1, 0, 2}, {2, 1, 3}};
  PythonThread thread;
  thread.tallies = {{0, 1, 0, 10, 0}, {2, 2, 1, 20, 10}, {3, 3, 0, 30, 0}};
  const PythonTotals totals = PythonSums(timeline).OfThreads({&thread});
  EXPECT_EQ(totals.all.samples, 6u);
  EXPECT_EQ(totals.without_frames.samples, 1u);
  ASSERT_EQ(totals.functions.size(), 2u);
  EXPECT_EQ(totals.functions[0].function, 1u);
  EXPECT_EQ(totals.functions[1].self.samples, 2u);
  EXPECT_EQ(totals.functions[1].total.samples, 5u);
  EXPECT_EQ(totals.functions[1].total.on_cpu_ps, 10);
}

TEST(PythonTotals, LineOfRecursiveFunction_CountsOnceInItsTotal) {
  Timeline timeline;
  timeline.python.functions.resize(1);
  // The function calls itself on line 2, and works on line 3.
  timeline.python.stacks = {{}, {0, 0, 2}, {1, 0, 2}, {2, 0, 3}};
  PythonThread thread;
  thread.tallies = {{1, 1, 0, 10, 0}, {3, 4, 0, 40, 0}};
  const PythonTotals totals = PythonSums(timeline).OfThreads({&thread});
  ASSERT_EQ(totals.lines.size(), 2u);
  EXPECT_EQ(totals.lines[0].line, 3);
  EXPECT_EQ(totals.lines[0].self.samples, 4u);
  EXPECT_EQ(totals.lines[0].total.samples, 4u);
  EXPECT_EQ(totals.lines[1].line, 2);
  EXPECT_EQ(totals.lines[1].self.samples, 1u);
  EXPECT_EQ(totals.lines[1].total.samples, 5u);
}

TEST(PythonTotals, ThreadNames_GroupByTheirStem) {
  EXPECT_EQ(StemOfThreadName("Worker-12"), "Worker");
  EXPECT_EQ(StemOfThreadName("ThreadPoolExecu"), "ThreadPoolExecu");
  EXPECT_EQ(StemOfThreadName("Thread-12 (f1)"), "Thread (f1)");
  EXPECT_EQ(StemOfThreadName("Thread-12"), "Thread");
  EXPECT_EQ(StemOfThreadName("Thread- (f)"), "Thread- (f)");
  EXPECT_EQ(StemOfThreadName("123"), "123");
  EXPECT_EQ(StemOfThreadName(""), "");
}

}  // namespace
}  // namespace tbprof
