// SPDX-License-Identifier: Apache-2.0
//
// Python stacks that records refer to, from a spool to the timeline and to each output. Ticks are nanoseconds.
#include "writer/convert/python_exact.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/unit/writer/host_fixture.h"
#include "tests/unit/writer/python_maker.h"
#include "tests/unit/writer/spool_maker.h"
#include "tests/unit/writer/string_sink.h"
#include "wire/python_current.h"
#include "writer/outputs/outputs.h"
#include "writer/outputs/summary.h"
#include "writer/outputs/xplane.h"
#include "writer/proto/xplane.pb.h"
#include "writer/timeline/python_place.h"

namespace tbprof {
namespace {

using Json = nlohmann::json;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kMain = 0x7f0000001000, kRemember = 0x7f0000002000, kLoad = 0x7f0000003000;
constexpr char kExactSession[] =
    R"({"host":"h","run":"r","families":127,"command":["python","train.py"],"malloc_stamp_every":16})";

SpoolMaker Program(const std::string& session = "") {
  SpoolMaker spool;
  if (session.empty()) {
    spool.Session(kMs);
  } else {
    spool.Session(kMs, session);
  }
  spool.Segment(1, {{"nanosleep", kFamilySleep}, {"malloc", kFamilyMalloc, ObjectRole::kNone, ResultRole::kNone}});
  spool.Process(1, 1, 100, kMs).Thread(1, 1, 1, 100, kMs).Thread(1, 2, 1, 101, kMs);
  return spool;
}

// `main` calls `remember` at line 89; each is at its own line.
void AddCodes(SpoolMaker* spool, uint64_t ticks = 2 * kMs) {
  AddPythonCode(spool, ticks, kMain, "main", "/home/u/train.py", 88);
  AddPythonCode(spool, ticks, kRemember, "remember", "/home/u/train.py", 41);
}
const std::vector<PythonFrameAt> kRememberStack = {{kRemember, 1}, {kMain, 1}};

Timeline BuildGood(const SpoolMaker& spool, const TimelineRequest& request = {}) {
  auto timeline = spool.Build(request);
  EXPECT_TRUE(timeline.ok()) << timeline.status();
  return timeline.ok() ? *std::move(timeline) : Timeline();
}

// The stack of each event of a thread; empty: none.
std::vector<std::string> StacksOf(const Timeline& timeline, size_t thread = 0) {
  std::vector<std::string> out;
  for (const Event& event : timeline.threads.at(thread).events) {
    if (event.duration_ps == 0) continue;
    out.push_back(event.python == 0 ? "" : PythonStackText(timeline, event.python, 8));
  }
  return out;
}

std::string Written(const Timeline& timeline, std::string_view output) {
  StringSink sink;
  const Output* row = FindOutput(output);
  EXPECT_TRUE(row->write(timeline, sink).ok());
  const TemporaryPath file("python_exact");
  file.Write(sink.bytes());
  if (row->verify == nullptr) return sink.bytes();
  const auto result = row->verify(file.path(), timeline);
  EXPECT_TRUE(result.ok()) << result.status();
  return sink.bytes();
}

// ---- references

TEST(PythonExact, SpanThatRefersToAStack_HasItsFrames) {
  SpoolMaker spool = Program();
  spool.Chunk(1, 1, 1);
  AddCodes(&spool);
  AddPythonStack(&spool, 3 * kMs, 7, kRememberStack);
  AddPythonSpan(&spool, 0, 4 * kMs, kMs, 7);
  spool.Span(0, 6 * kMs, kMs);
  const Timeline timeline = BuildGood(spool.EndChunk().End(100 * kMs));
  EXPECT_THAT(StacksOf(timeline), ElementsAre("train.py:42 remember < train.py:89 main", ""));
  EXPECT_EQ(timeline.corrupt_records, 0u);
  EXPECT_THAT(timeline.notes, Not(Contains(HasSubstr("Python lines"))));
}

TEST(PythonExact, NumbersOfTwoThreads_AreApart) {
  SpoolMaker spool = Program();
  spool.Chunk(1, 1, 1);
  AddCodes(&spool);
  AddPythonStack(&spool, 3 * kMs, 1, kRememberStack);
  spool.EndChunk().Chunk(1, 1, 2);
  AddPythonStack(&spool, 3 * kMs, 1, {{kMain, 0}});
  AddPythonSpan(&spool, 0, 4 * kMs, kMs, 1);
  spool.EndChunk().Chunk(1, 1, 1);
  AddPythonSpan(&spool, 0, 4 * kMs, kMs, 1);
  const Timeline timeline = BuildGood(spool.EndChunk().End(100 * kMs));
  EXPECT_THAT(StacksOf(timeline, 0), ElementsAre("train.py:42 remember < train.py:89 main"));
  EXPECT_THAT(StacksOf(timeline, 1), ElementsAre("train.py:88 main"));
}

// The launcher may read a thread's next chunk before the rest of its previous chunk.
TEST(PythonExact, StackThatComesBehindItsSpan_IsFound) {
  SpoolMaker spool = Program();
  spool.Chunk(1, 1, 1);
  AddCodes(&spool);
  AddPythonSpan(&spool, 0, 5 * kMs, kMs, 3, 0x123);
  AddPythonSample(&spool, 5 * kMs, 1000, 0x456, 3);
  spool.EndChunk().Chunk(1, 1, 1);
  AddPythonStack(&spool, 3 * kMs, 3, kRememberStack);
  AddPythonSpan(&spool, 0, 4 * kMs, kMs, 3, 0x123);
  const Timeline timeline = BuildGood(spool.EndChunk().End(100 * kMs));
  EXPECT_THAT(StacksOf(timeline), Each("train.py:42 remember < train.py:89 main"));
  ASSERT_EQ(timeline.wait_sites.size(), 1u);
  EXPECT_EQ(timeline.wait_sites[0].calls, 2u);
  EXPECT_EQ(timeline.strings.Get(timeline.wait_sites[0].python), "train.py:42 remember");
  ASSERT_EQ(timeline.allocation_sites.size(), 1u);
  EXPECT_EQ(timeline.strings.Get(timeline.allocation_sites[0].python), "train.py:42 remember");
  EXPECT_THAT(timeline.notes, Not(Contains(HasSubstr("Python lines"))));
}

TEST(PythonExact, StackThatIsNotThere_LeavesNoLineAndANote) {
  SpoolMaker spool = Program();
  spool.Chunk(1, 1, 1);
  AddPythonSpan(&spool, 0, 4 * kMs, kMs, 3, 0x123);
  AddPythonSpan(&spool, 0, 6 * kMs, kMs, 3, 0x123);
  const Timeline timeline = BuildGood(spool.EndChunk().End(100 * kMs));
  EXPECT_THAT(StacksOf(timeline), ElementsAre("", ""));
  ASSERT_EQ(timeline.wait_sites.size(), 1u);
  EXPECT_EQ(timeline.wait_sites[0].python, 0u);
  EXPECT_THAT(timeline.notes, Contains(HasSubstr("2 calls have none")));
}

TEST(PythonExact, NumberThatIsUsedAgain_IsTheLaterStack) {
  SpoolMaker spool = Program();
  spool.Chunk(1, 1, 1);
  AddCodes(&spool);
  AddPythonStack(&spool, 3 * kMs, 1, kRememberStack);
  AddPythonSpan(&spool, 0, 4 * kMs, kMs, 1);
  AddPythonStack(&spool, 5 * kMs, 1, {{kMain, 2}});
  AddPythonSpan(&spool, 0, 6 * kMs, kMs, 1);
  const Timeline timeline = BuildGood(spool.EndChunk().End(100 * kMs));
  EXPECT_THAT(StacksOf(timeline), ElementsAre("train.py:42 remember < train.py:89 main", "train.py:90 main"));
}

// ---- code objects

TEST(PythonExact, UnknownCode_EndsTheStack) {
  SpoolMaker spool = Program();
  spool.Chunk(1, 1, 1);
  AddCodes(&spool);
  AddPythonStack(&spool, 3 * kMs, 1, {{kRemember, 1}, {kLoad, 0}, {kMain, 1}});
  AddPythonStack(&spool, 3 * kMs, 2, {{kLoad, 0}, {kMain, 1}});
  AddPythonSpan(&spool, 0, 4 * kMs, kMs, 1);
  AddPythonSpan(&spool, 0, 6 * kMs, kMs, 2);
  const Timeline timeline = BuildGood(spool.EndChunk().End(100 * kMs));
  EXPECT_THAT(StacksOf(timeline), ElementsAre("train.py:42 remember", ""));
  EXPECT_THAT(timeline.notes, Contains(HasSubstr("2 stacks end at a function")));
}

TEST(PythonExact, AddressUsedAgain_IsTheCodeOfItsTime) {
  SpoolMaker spool = Program();
  spool.Chunk(1, 1, 1);
  AddPythonCode(&spool, 2 * kMs, kLoad, "load", "/home/u/data.py", 10);
  AddPythonCode(&spool, 20 * kMs, kLoad, "save", "/home/u/data.py", 30);
  AddPythonStack(&spool, 1 * kMs, 1, {{kLoad, 0}});  // before the first
  AddPythonStack(&spool, 19 * kMs, 2, {{kLoad, 0}});
  AddPythonStack(&spool, 20 * kMs, 3, {{kLoad, 0}});
  AddPythonStack(&spool, 3 * kMs, 4, {{kLoad, 0}});
  for (uint32_t number = 1; number <= 4; ++number) AddPythonSpan(&spool, 0, 30 * kMs + number * kMs, kMs / 2, number);
  const Timeline timeline = BuildGood(spool.EndChunk().End(100 * kMs));
  EXPECT_THAT(StacksOf(timeline), ElementsAre("", "data.py:10 load", "data.py:30 save", "data.py:10 load"));
}

TEST(PythonExact, ForkChild_HasTheCodesOfItsParentBeforeTheFork) {
  SpoolMaker spool = Program();
  spool.Process(1, SpoolMaker::MakeProcess(2, 200, 10 * kMs, 0, 1)).Thread(1, 3, 2, 200, 10 * kMs);
  spool.Chunk(1, 1, 1);
  AddCodes(&spool);
  AddPythonCode(&spool, 15 * kMs, kMain, "other", "/home/u/other.py", 1);  // after the fork, in the parent
  AddPythonCode(&spool, 15 * kMs, kLoad, "load", "/home/u/data.py", 10);   // likewise
  spool.EndChunk().Chunk(1, 2, 3);
  AddPythonStack(&spool, 20 * kMs, 1, kRememberStack);
  AddPythonSpan(&spool, 0, 21 * kMs, kMs, 1);
  AddPythonStack(&spool, 22 * kMs, 2, {{kLoad, 0}});
  AddPythonSpan(&spool, 0, 23 * kMs, kMs, 2);
  AddPythonCode(&spool, 24 * kMs, kRemember, "forget", "/home/u/train.py", 51);  // in the child
  AddPythonStack(&spool, 25 * kMs, 3, kRememberStack);
  AddPythonSpan(&spool, 0, 26 * kMs, kMs, 3);
  const Timeline timeline = BuildGood(spool.EndChunk().End(100 * kMs));
  ASSERT_EQ(timeline.threads.size(), 3u);
  EXPECT_THAT(StacksOf(timeline, 2),
              ElementsAre("train.py:42 remember < train.py:89 main", "", "train.py:52 forget < train.py:89 main"));
}

// Two processes that claim to be each other's parent.
TEST(PythonExact, ParentsInACircle_AreLeft) {
  SpoolMaker spool = Program();
  spool.Process(1, SpoolMaker::MakeProcess(1, 100, 5 * kMs, 0, 2))
      .Process(1, SpoolMaker::MakeProcess(2, 200, 5 * kMs, 0, 1));
  spool.Chunk(1, 1, 1);
  AddPythonStack(&spool, 20 * kMs, 1, kRememberStack);
  AddPythonSpan(&spool, 0, 21 * kMs, kMs, 1);
  EXPECT_THAT(StacksOf(BuildGood(spool.EndChunk().End(100 * kMs))), ElementsAre(""));
}

TEST(PythonExact, CodeWithoutTable_IsShownWithoutLine) {
  SpoolMaker spool = Program();
  spool.Chunk(1, 1, 1);
  PythonCodeRecord code{};
  code.ticks = 2 * kMs;
  code.code = kLoad;
  code.minor = 11;
  code.first_line = -5;
  code.name_bytes = 4;
  code.flags = kPythonRecordNoTable;
  spool.Add(RecordKind::kPythonCode, code, 0, 0, "load");
  AddPythonStack(&spool, 3 * kMs, 1, {{kLoad, 0}});
  AddPythonSpan(&spool, 0, 4 * kMs, kMs, 1);
  EXPECT_THAT(StacksOf(BuildGood(spool.EndChunk().End(100 * kMs))), ElementsAre("?:? load"));
}

TEST(PythonExact, StackLongerThanItsRecord_IsCorrupt) {
  SpoolMaker spool = Program();
  spool.Chunk(1, 1, 1);
  AddCodes(&spool);
  PythonStackRecord stack{};
  stack.ticks = 3 * kMs;
  stack.number = 1;
  stack.frames = 5;
  spool.Add(RecordKind::kPythonStack, stack, 0, 0, std::string(16, 'x'));
  stack.frames = UINT16_MAX;
  spool.Add(RecordKind::kPythonStack, stack, 0, 0, std::string(40'000, 'x'));
  AddPythonSpan(&spool, 0, 4 * kMs, kMs, 1);
  const Timeline timeline = BuildGood(spool.EndChunk().End(100 * kMs));
  EXPECT_EQ(timeline.corrupt_records, 2u);
  EXPECT_THAT(StacksOf(timeline), ElementsAre(""));
}

TEST(PythonExact, ProcessWithoutStacks_HasItsReason) {
  SpoolMaker spool = Program();
  spool.Chunk(1, 1, 1).Info(ProcessInfoKey::kPython, "-3.15 not supported").Span(0, 4 * kMs, kMs).EndChunk();
  EXPECT_THAT(BuildGood(spool.End(100 * kMs)).notes,
              Contains(HasSubstr("Python lines of waits and allocations are not recorded: Python 3.15 not supported")));
}

// ---- limits

class PythonExactLimitsTest : public HostFixture {
 protected:
  static constexpr Identity kProcess{1, 1}, kThread{1, 1};

  PythonExactLimitsTest() {
    ProcessFacts& process = AddProcess(kProcess, 100, 1);
    for (uint64_t code = 8; code <= 80; code += 8) {
      PythonCodeAt at;
      at.code.name = "f" + std::to_string(code);
      process.python_codes[code].push_back(at);
    }
    Build();
  }
  uint32_t Take(PythonExact* python, uint32_t number, uint64_t code) {
    struct {
      PythonStackRecord record{};
      PythonFrameWord word;
      PythonFrameWord unused[3];
    } bytes{};
    bytes.record.ticks = 100;
    bytes.record.number = number;
    bytes.record.frames = 1;
    bytes.word = PackPythonFrame(code, 0);
    return python->Take(kProcess, kThread, {{}, reinterpret_cast<const uint8_t*>(&bytes), sizeof(bytes)});
  }

  PythonStacks stacks_{&timeline_};
};

TEST_F(PythonExactLimitsTest, StacksBeyondTheLimit_AreLeftOutWithANote) {
  PythonExact python(&facts_, &stacks_, &timeline_, {.stacks = 2});
  EXPECT_NE(Take(&python, 1, 8), 0u);
  EXPECT_NE(Take(&python, 2, 16), 0u);
  EXPECT_EQ(Take(&python, 3, 24), 0u);
  EXPECT_NE(Take(&python, 4, 8), 0u);
  EXPECT_EQ(timeline_.python.stacks.size(), 3u);
  python.Finish();
  EXPECT_THAT(timeline_.notes, ElementsAre(HasSubstr("1 stacks beyond the converter's limits")));
}

TEST_F(PythonExactLimitsTest, OldNumbers_AreForgottenBeforeNewOnes) {
  PythonExact python(&facts_, &stacks_, &timeline_, {.numbers = 2});
  for (uint32_t number = 1; number <= 5; ++number) Take(&python, number, 8 * number);
  EXPECT_TRUE(PythonExact::IsOpen(python.ReferenceTo(kThread, 1)));
  for (uint32_t number = 3; number <= 5; ++number) {
    EXPECT_FALSE(PythonExact::IsOpen(python.ReferenceTo(kThread, number))) << number;
  }
}

TEST_F(PythonExactLimitsTest, OpenReferencesBeyondTheLimit_AreNoReferences) {
  PythonExact python(&facts_, &stacks_, &timeline_, {.open = 1});
  const uint32_t open = python.ReferenceTo(kThread, 1);
  EXPECT_TRUE(PythonExact::IsOpen(open));
  EXPECT_EQ(python.ReferenceTo(kThread, 1), open);
  EXPECT_EQ(python.ReferenceTo(kThread, 2), 0u);
  const uint32_t stack = Take(&python, 1, 8);
  EXPECT_EQ(python.StackOf(open), stack);
  EXPECT_EQ(python.FinalPlace(open), python.PlaceOf(stack));
  python.Finish();
  EXPECT_THAT(timeline_.notes, ElementsAre(HasSubstr("1 calls have none")));
}

// ---- sites

TEST(PythonExact, WaitsOfTwoLinesInOneFunctionOfC_AreApart) {
  SpoolMaker spool = Program();
  spool.Chunk(1, 1, 1);
  AddCodes(&spool);
  AddPythonStack(&spool, 3 * kMs, 1, kRememberStack);
  AddPythonStack(&spool, 3 * kMs, 2, {{kMain, 2}});
  AddPythonSpan(&spool, 0, 4 * kMs, kMs, 1, 0x123);
  AddPythonSpan(&spool, 0, 6 * kMs, 3 * kMs, 2, 0x123);
  AddPythonSpan(&spool, 0, 12 * kMs, kMs, 1, 0x123);
  spool.Span(0, 14 * kMs, kMs / 2, 0, 0, 0, 0x123);
  const Timeline timeline = BuildGood(spool.EndChunk().End(100 * kMs));
  ASSERT_EQ(timeline.wait_sites.size(), 3u);
  EXPECT_EQ(timeline.strings.Get(timeline.wait_sites[0].python), "train.py:90 main");
  EXPECT_EQ(timeline.strings.Get(timeline.wait_sites[1].python), "train.py:42 remember");
  EXPECT_EQ(timeline.wait_sites[1].calls, 2u);
  EXPECT_EQ(timeline.wait_sites[2].python, 0u);
  const Json json = Json::parse(SummaryJson(timeline, {}, {}));
  EXPECT_EQ(json["waits_by_python_line"][0]["python"], "train.py:90 main");
  EXPECT_EQ(json["waits_by_python_line"][1]["calls"], 2);
  EXPECT_TRUE(json["wait_sites"][2].at("python").is_null());
  EXPECT_THAT(SummaryText(timeline, {}, {}), Contains(HasSubstr("nanosleep in train.py:90 main")));
}

TEST(PythonExact, WaitsOfOneLineInTwoFunctionsOfC_AreOneRowOfTheTerminal) {
  SpoolMaker spool = Program();
  spool.Chunk(1, 1, 1);
  AddCodes(&spool);
  AddPythonStack(&spool, 3 * kMs, 1, kRememberStack);
  AddPythonSpan(&spool, 0, 4 * kMs, kMs, 1, 0x123);
  AddPythonSpan(&spool, 0, 6 * kMs, 3 * kMs, 1, 0x456);
  const Timeline timeline = BuildGood(spool.EndChunk().End(100 * kMs));
  EXPECT_EQ(timeline.wait_sites.size(), 2u);
  EXPECT_THAT(SummaryText(timeline, {}, {}),
              Contains(HasSubstr("4.00 ms   3.00 ms         2  nanosleep in train.py:42 remember, via 0x456")));
}

TEST(PythonExact, FilesOfOneName_AreToldApartByTheirPaths) {
  SpoolMaker spool = Program();
  spool.Chunk(1, 1, 1);
  AddPythonCode(&spool, 2 * kMs, kMain, "<module>", "/srv/a/loader.py", 1);
  AddPythonCode(&spool, 2 * kMs, kLoad, "<module>", "/srv/b/loader.py", 1);
  AddPythonStack(&spool, 3 * kMs, 1, {{kMain, 0}});
  AddPythonStack(&spool, 3 * kMs, 2, {{kLoad, 0}});
  AddPythonSpan(&spool, 0, 4 * kMs, 2 * kMs, 1, 0x123);
  AddPythonSpan(&spool, 0, 7 * kMs, kMs, 2, 0x123);
  const Json json = Json::parse(SummaryJson(BuildGood(spool.EndChunk().End(100 * kMs)), {}, {}));
  ASSERT_EQ(json["waits_by_python_line"].size(), 2u);
  EXPECT_EQ(json["waits_by_python_line"][0]["python"], "loader.py:1 <module>");
  EXPECT_EQ(json["waits_by_python_line"][1]["python"], "/srv/b/loader.py:1 <module>");
}

TEST(PythonExact, SamplesOfOneLine_AreOneSiteWithTheLargestStack) {
  SpoolMaker spool = Program();
  spool.Chunk(1, 1, 1);
  AddCodes(&spool);
  AddPythonStack(&spool, 3 * kMs, 1, kRememberStack);
  AddPythonStack(&spool, 3 * kMs, 2, {{kRemember, 1}, {kMain, 2}});
  AddPythonSample(&spool, 4 * kMs, 1000, 0x456, 1);
  AddPythonSample(&spool, 5 * kMs, 5000, 0x456, 2);
  AddPythonSample(&spool, 6 * kMs, 700, 0x456, 0);
  const Timeline timeline = BuildGood(spool.EndChunk().End(100 * kMs));
  ASSERT_EQ(timeline.allocation_sites.size(), 2u);
  EXPECT_EQ(timeline.allocation_sites[0].samples, 2u);
  EXPECT_EQ(PythonStackText(timeline, timeline.allocation_sites[0].python_stack, 8),
            "train.py:42 remember < train.py:90 main");
  const Json json = Json::parse(SummaryJson(timeline, {}, {}));
  EXPECT_EQ(json["allocation_sites"][0]["python"], "train.py:42 remember");
  EXPECT_EQ(json["allocation_sites"][0]["python_stack"], Json({"train.py:42 remember", "train.py:90 main"}));
  EXPECT_TRUE(json["allocation_sites"][1].at("python").is_null());
  EXPECT_TRUE(json["allocation_sites"][1].at("python_stack").is_null());
  EXPECT_EQ(json["allocations_by_python_line"],
            Json::array({{{"python", "train.py:42 remember"}, {"samples", 2}, {"bytes_estimate", 6000.0}}}));
}

// A run with --malloc=exact.
Timeline Blocks() {
  SpoolMaker spool = Program(kExactSession);
  spool.Chunk(1, 1, 1).Taken(50 * kMs);
  AddCodes(&spool);
  AddBlock(&spool, 3 * kMs, 0x5000, 100, 0x123);
  AddPythonStack(&spool, 4 * kMs, 1, kRememberStack, kPythonStackCurrent);
  AddBlock(&spool, 4 * kMs + 1, 0x6000, 1000, 0x123);
  AddPythonStack(&spool, 5 * kMs, 2, {{kMain, 2}});  // of a wait
  AddBlock(&spool, 5 * kMs + 1, 0x7000, 1000, 0x123);
  spool.EndChunk().Chunk(1, 1, 2).Taken(50 * kMs);
  AddBlock(&spool, 5 * kMs + 2, 0x8000, 10, 0x123);  // of another thread
  spool.EndChunk().Chunk(1, 1, 1).Taken(50 * kMs);
  AddPythonStack(&spool, 6 * kMs, 2, {}, kPythonStackCurrent);
  AddBlock(&spool, 6 * kMs + 1, 0x9000, 500, 0x123);
  AddBlock(&spool, 7 * kMs, 0x6000, 1000, 0x123, /*release=*/true);
  AddPythonStack(&spool, 8 * kMs, 0, {}, kPythonStackCurrent);
  AddBlock(&spool, 8 * kMs + 1, 0xa000, 30, 0x123);
  ThreadFact thread = SpoolMaker::MakeThread(1, 1, 100, kMs);
  thread.taken_ticks = 50 * kMs;
  thread.allocations = 7;
  thread.allocated_bytes = 2640;
  return BuildGood(spool.EndChunk().Thread(1, thread).End(100 * kMs));
}

// A thread's stack is valid until its next stack.
TEST(PythonExact, BlocksBehindAStack_AreOfItsLine) {
  const Timeline timeline = Blocks();
  const ExactHeap& heap = timeline.processes.at(0).exact_heap;
  ASSERT_EQ(heap.lost, 0u);
  std::vector<std::string> sites;
  for (const HeapSite& site : heap.sites) {
    sites.push_back(timeline.strings.Get(site.python) + " " + std::to_string(site.peak_bytes) + " " +
                    std::to_string(site.live_bytes) + " " + std::to_string(site.calls));
  }
  EXPECT_THAT(sites, ElementsAre("train.py:42 remember 2000 1000 2", "train.py:90 main 500 500 1", " 110 140 3"));
  const Json json = Json::parse(SummaryJson(timeline, {}, {}));
  const Json& lines = json["processes"][0]["exact_heap"]["python_lines"];
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["python"], "train.py:42 remember");
  EXPECT_EQ(lines[0]["peak_bytes"], 2000);
  EXPECT_THAT(SummaryText(timeline, {}, {}), Contains(HasSubstr("train.py:42 remember")));
}

TEST(PythonExact, BlocksUnderAStackThatComesLater_AreOfItsLine) {
  SpoolMaker spool = Program(kExactSession);
  spool.Chunk(1, 1, 1).Taken(50 * kMs);
  AddCodes(&spool);
  AddPythonStack(&spool, 4 * kMs, 1, {}, kPythonStackCurrent);
  AddBlock(&spool, 4 * kMs + 1, 0x6000, 1000, 0x123);
  AddPythonStack(&spool, 5 * kMs, 9, {}, kPythonStackCurrent);  // a stack that is lost
  AddBlock(&spool, 5 * kMs + 1, 0x7000, 10, 0x123);
  spool.EndChunk().Chunk(1, 1, 1).Taken(50 * kMs);
  AddPythonStack(&spool, 3 * kMs, 1, kRememberStack);
  const Timeline timeline = BuildGood(spool.EndChunk().End(100 * kMs));
  const std::vector<HeapSite>& sites = timeline.processes.at(0).exact_heap.sites;
  ASSERT_EQ(sites.size(), 2u);
  EXPECT_EQ(timeline.strings.Get(sites[0].python), "train.py:42 remember");
  EXPECT_EQ(sites[0].bytes, 1000u);
  EXPECT_EQ(sites[1].python, 0u);
}

// ---- outputs

Timeline Shown() {
  SpoolMaker spool = Program();
  spool.Chunk(1, 1, 1);
  AddCodes(&spool);
  AddPythonStack(&spool, 3 * kMs, 1, kRememberStack);
  AddPythonStack(&spool, 3 * kMs, 2, {{kMain, 2}});
  AddPythonSpan(&spool, 0, 4 * kMs, kMs, 1);
  AddPythonSpan(&spool, 1, 6 * kMs, kMs, 2);
  spool.Span(0, 8 * kMs, kMs);
  return BuildGood(spool.EndChunk().End(100 * kMs));
}

TEST(PythonExact, XplaneFile_HasLineAndStackOfEachCall) {
  tensorflow::profiler::XSpace space;
  ASSERT_TRUE(space.ParseFromString(Written(Shown(), "xplane")));
  std::vector<std::string> found;
  for (const auto& plane : space.planes()) {
    if (plane.name() != "/host:CPU") continue;
    for (const auto& line : plane.lines()) {
      for (const auto& event : line.events()) {
        for (const auto& stat : event.stats()) {
          const std::string& name = plane.stat_metadata().at(stat.metadata_id()).name();
          if (!name.starts_with("python")) continue;
          found.push_back(name + ": " + plane.stat_metadata().at(static_cast<int64_t>(stat.ref_value())).name());
        }
      }
    }
  }
  EXPECT_THAT(found, ElementsAre("python: train.py:42 remember",
                                 "python stack: train.py:42 remember < train.py:89 main", "python: train.py:90 main"));
}

// Calculates the table like the page: blocks allocated before the first peak and not freed by then, matched by address.
TEST(PythonExact, MemoryPage_ListsWhatEachLineHeldAtThePeak) {
  const Timeline timeline = Blocks();
  tensorflow::profiler::XSpace space;
  ASSERT_TRUE(space.ParseFromString(Written(timeline, "xplane")));
  struct Row {
    int64_t at_ps, level, address, bytes;
    bool came;
    std::string text;
  };
  std::vector<Row> rows;
  for (const auto& plane : space.planes()) {
    for (const auto& line : plane.lines()) {
      if (line.name() != "memory") continue;
      for (const auto& event : line.events()) {
        Row row{event.offset_ps(),
                0,
                0,
                0,
                plane.event_metadata().at(event.metadata_id()).name() == "MemoryAllocation",
                ""};
        for (const auto& stat : event.stats()) {
          const std::string& name = plane.stat_metadata().at(stat.metadata_id()).name();
          const auto text = [&] { return plane.stat_metadata().at(static_cast<int64_t>(stat.ref_value())).name(); };
          if (name == "bytes_allocated") row.level = stat.int64_value();
          if (name == "addr") row.address = stat.int64_value();
          if (name == "allocation_bytes") row.bytes = stat.int64_value();
          if (name == "tf_op") row.text = text() + row.text;
          if (name == "region_type") row.text += ", " + text();
        }
        rows.push_back(row);
      }
    }
  }
  const Row* peak = nullptr;
  for (const Row& row : rows) {
    if (peak == nullptr || row.level > peak->level) peak = &row;
  }
  ASSERT_NE(peak, nullptr);
  EXPECT_EQ(peak->level, 2610);
  std::map<int64_t, std::pair<std::string, int64_t>> held;
  for (const Row& row : rows) {
    if (row.at_ps > peak->at_ps) break;
    held.erase(row.address);
    if (row.came) held[row.address] = {row.text, row.bytes};
  }
  std::vector<std::string> listed;
  for (const auto& [address, entry] : held) listed.push_back(entry.first + ": " + std::to_string(entry.second));
  EXPECT_THAT(listed,
              ElementsAre("train.py:42 remember, via 0x123: 2000", "train.py:90 main, via 0x123: 500", "0x123: 110"));
}

TEST(PythonExact, EachOutput_IsGood) {
  const Timeline shown = Shown(), blocks = Blocks();
  for (const Output& output : Outputs()) {
    Written(shown, output.name);
    Written(blocks, output.name);
  }
}

}  // namespace
}  // namespace tbprof
