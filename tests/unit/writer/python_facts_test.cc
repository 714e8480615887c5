// SPDX-License-Identifier: Apache-2.0
//
// Code objects, frames and states of sampled Python processes, valid and corrupt.
#include "writer/spool/python_facts.h"

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/writer/spool_maker.h"

namespace tbprof {
namespace {

template <typename Fact>
std::string BytesOf(const Fact& fact) {
  return {reinterpret_cast<const char*>(&fact), sizeof(fact)};
}

class PythonFactsTest : public testing::Test {
 protected:
  void Take(FrameType type, const std::string& payload, uint32_t segment = 1) {
    Frame frame{};
    frame.type = type;
    frame.segment = segment;
    frame.payload = payload;
    facts_.Take(frame);
  }
  void TakeCode(uint32_t code, const std::string& name, const std::string& file, const std::string& table,
                uint16_t flags = 0) {
    PythonCodeFact fact{1, code, 10, 11, flags, 0, 0, 0, 0};
    fact.name_bytes = static_cast<uint32_t>(name.size());
    fact.file_bytes = static_cast<uint32_t>(file.size());
    fact.table_bytes = static_cast<uint32_t>(table.size());
    Take(FrameType::kPythonCode, BytesOf(fact) + name + file + table);
  }
  void TakeNodes(const std::vector<PythonNode>& nodes) {
    std::string payload = BytesOf(PythonStacksFact{1, static_cast<uint32_t>(nodes.size())});
    for (const PythonNode& node : nodes) payload += BytesOf(node);
    Take(FrameType::kPythonStacks, payload);
  }
  void TakeStatus(uint64_t ticks, uint16_t state, uint32_t interval_us, const std::string& reason = "") {
    PythonStatusFact fact{};
    fact.ticks = ticks;
    fact.process_serial = 1;
    fact.state = state;
    fact.interval_us = interval_us;
    Take(FrameType::kPythonStatus, BytesOf(fact) + reason);
  }
  const PythonProcessFacts& Process() { return *facts_.Of(1, 1); }

  PythonFacts facts_;
};

TEST_F(PythonFactsTest, CodesAndNodes_AreFoundByTheirNumbers) {
  TakeCode(7, "forward", "/x/train.py", "\x80");
  TakeNodes({{5, 0, 7, 2}, {9, 5, 7, 4}});
  ASSERT_NE(facts_.Of(1, 1), nullptr);
  EXPECT_EQ(facts_.Of(1, 2), nullptr);
  ASSERT_EQ(Process().codes.size(), 1u);
  EXPECT_EQ(Process().codes[0].name, "forward");
  EXPECT_EQ(Process().codes[0].file, "/x/train.py");
  EXPECT_EQ(Process().codes[0].table, "\x80");
  EXPECT_EQ(Process().codes[0].first_line, 10);
  const PythonFrameFact& inner = Process().frames[Process().FrameOf(9)];
  EXPECT_EQ(inner.parent, Process().FrameOf(5));
  EXPECT_EQ(inner.instruction, 4);
  EXPECT_EQ(inner.depth, 2u);
  EXPECT_EQ(Process().FrameOf(0), 0u);
  EXPECT_EQ(Process().FrameOf(6), 0u);
  EXPECT_EQ(facts_.corrupt(), 0u);
}

TEST_F(PythonFactsTest, NodesThatCannotBe_AreCountedAndLeftOut) {
  TakeCode(1, "f", "f.py", "");
  TakeNodes({{1, 1, 1, 0}});                // its own parent
  TakeNodes({{2, 3, 1, 0}, {3, 2, 1, 0}});  // a circle
  TakeNodes({{4, 0, 2, 0}});                // its code object is missing
  TakeNodes({{0, 0, 1, 0}});
  EXPECT_EQ(facts_.corrupt(), 5u);
  EXPECT_EQ(Process().frames.size(), 1u);
  TakeNodes({{5, 0, 1, 0}, {5, 0, 1, 8}});  // twice
  EXPECT_EQ(facts_.corrupt(), 6u);
  EXPECT_EQ(Process().frames[Process().FrameOf(5)].instruction, 0) << "the first counts";
}

TEST_F(PythonFactsTest, FactsOfWrongLengths_AreCounted) {
  Take(FrameType::kNotebook, "short");
  Take(FrameType::kNotebook, BytesOf(NotebookFact{1, 3}) + "/x");
  Take(FrameType::kPythonCode, "short");
  PythonCodeFact fact{1, 1, 1, 11, 0, 0xffffffff, 0xffffffff, 0xffffffff, 0};
  Take(FrameType::kPythonCode, BytesOf(fact) + "name");
  Take(FrameType::kPythonStacks, BytesOf(PythonStacksFact{1, 1000}));
  Take(FrameType::kPythonStatus, "short");
  Take(FrameType::kPythonStacks, BytesOf(PythonStacksFact{1, 0}), /*segment=*/0);
  TakeStatus(1, 0, 1);
  TakeStatus(1, 99, 1);
  EXPECT_EQ(facts_.corrupt(), 9u);
}

TEST_F(PythonFactsTest, LongTexts_AreCutAndTablesThatAreCutLeftOut) {
  TakeCode(1, std::string(5000, 'n'), std::string(5000, 'f'), std::string(kLongestPythonTable + 1, '\x80'));
  TakeCode(2, "g", "g.py", "\x80", kPythonCodeNoTable);
  EXPECT_EQ(Process().codes[0].name, std::string(kLongestPythonText, 'n'));
  EXPECT_EQ(Process().codes[0].file, std::string(kLongestPythonText, 'f'));
  EXPECT_EQ(Process().codes[0].table, "");
  EXPECT_EQ(Process().codes[1].table, "");
}

TEST_F(PythonFactsTest, DeepStacks_LoseTheirInnermostFrames) {
  TakeCode(1, "recurse", "f.py", "");
  std::vector<PythonNode> nodes;
  for (uint32_t i = 1; i <= kDeepestPythonStack + 10; ++i) nodes.push_back({i, i - 1, 1, 0});
  TakeNodes(nodes);
  EXPECT_EQ(facts_.left_out(), 10u);
  EXPECT_EQ(Process().FrameOf(kDeepestPythonStack + 10), Process().FrameOf(kDeepestPythonStack));
}

TEST_F(PythonFactsTest, LatestStatusCounts_AndIntervalsHoldFromTheirTimes) {
  TakeStatus(500, kPythonNoPermission, 40'000, "denied");
  TakeStatus(100, kPythonSampled, 10'000);
  EXPECT_EQ(Process().status.state, kPythonNoPermission);
  EXPECT_EQ(Process().reason, "denied");
  EXPECT_EQ(Process().IntervalAt(50), 10'000u);
  EXPECT_EQ(Process().IntervalAt(499), 10'000u);
  EXPECT_EQ(Process().IntervalAt(500), 40'000u);
}

TEST_F(PythonFactsTest, RandomFrames_LeaveOnlyParentsThatStandBefore) {
  std::mt19937 random(3);
  for (int i = 0; i < 100'000; ++i) {
    std::string payload(random() % 80, '\0');
    for (char& byte : payload) byte = static_cast<char>(random() % 8 == 0 ? random() : random() % 4);
    Take(static_cast<FrameType>(22 + random() % 4), payload, random() % 3);
  }
  EXPECT_GT(facts_.corrupt(), 0u);
  for (const auto& [identity, process] : facts_.processes()) {
    for (size_t i = 1; i < process.frames.size(); ++i) {
      EXPECT_LT(process.frames[i].parent, i);
      EXPECT_LT(process.frames[i].code, process.codes.size());
    }
  }
}

}  // namespace
}  // namespace tbprof
