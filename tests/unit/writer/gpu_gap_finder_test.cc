// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "writer/convert/gpu_gaps.h"

namespace tbprof {
namespace {

struct Gap {
  uint64_t from, to;
  std::string cause;
  bool operator==(const Gap&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Gap& gap) {
  return out << gap.from << ".." << gap.to << " " << gap.cause;
}

GpuStateChange At(uint64_t ticks, GpuStateChange::Kind kind, std::string text = "") {
  GpuStateChange change;
  change.ticks = ticks;
  change.kind = kind;
  change.cause = kind == GpuStateChange::kPaused ? ParsePauseCause(text) : PauseCause::kOther;
  change.text = std::move(text);
  return change;
}

// The window is open from 100 to 1000; a tick is 1 ms.
class GapFinderTest : public testing::Test {
 protected:
  std::vector<Gap> Find(const std::vector<GpuStateChange>& changes) {
    for (const GpuStateChange& change : changes) finder_.Take(change);
    finder_.Finish();
    return gaps_;
  }

  std::vector<Gap> gaps_;
  GapFinder finder_{100, 1000, 1e6, [this](uint64_t, uint64_t from, uint64_t to, PauseCause, const std::string& cause) {
                      gaps_.push_back({from, to, cause});
                    }};
};

constexpr char kProgram[] = "program: the program uses CUPTI itself";

TEST_F(GapFinderTest, PauseForTheProgram_IsAGapUntilRecordingResumes) {
  EXPECT_EQ(Find({At(10, GpuStateChange::kRecording), At(200, GpuStateChange::kPaused, kProgram),
                  At(300, GpuStateChange::kRecording)}),
            (std::vector<Gap>{{200, 300, kProgram}}));
  EXPECT_TRUE(finder_.recorded());
  EXPECT_FALSE(finder_.ended_in_order());
}

TEST_F(GapFinderTest, PauseThatBeginsBeforeTheWindow_IsCutToIt) {
  EXPECT_EQ(Find({At(10, GpuStateChange::kPaused, kProgram)}), (std::vector<Gap>{{100, 1000, kProgram}}));
}

TEST_F(GapFinderTest, NoWindowOpen_IsNoGap) {
  EXPECT_TRUE(Find({At(200, GpuStateChange::kPaused, "window: no window is open")}).empty());
}

// The program starts to use CUPTI while no window is open, and does not stop.
TEST_F(GapFinderTest, AnotherCauseDuringAPause_BeginsAGapOfItsOwn) {
  EXPECT_EQ(Find({At(150, GpuStateChange::kPaused, "window: no window is open"),
                  At(200, GpuStateChange::kPaused, kProgram), At(400, GpuStateChange::kRecording)}),
            (std::vector<Gap>{{200, 400, kProgram}}));
}

TEST_F(GapFinderTest, OrderlyEnd_IsAGapOnlyWhereTheProcessLivesOn) {
  EXPECT_TRUE(Find({At(10, GpuStateChange::kRecording), At(900, GpuStateChange::kPaused, "end")}).empty());
  EXPECT_TRUE(finder_.ended_in_order());
  gaps_.clear();
  GapFinder late(100, 1000, 3e6, [this](uint64_t, uint64_t from, uint64_t to, PauseCause, const std::string& cause) {
    gaps_.push_back({from, to, cause});
  });
  late.Take(At(500, GpuStateChange::kPaused, "end"));
  late.Finish();
  EXPECT_EQ(gaps_, (std::vector<Gap>{{500, 1000, kExitHandlers}}));
}

TEST_F(GapFinderTest, ChangesThatWereLeftOut_EndTheGapThatIsKnown) {
  finder_.Take(At(200, GpuStateChange::kPaused, kProgram));
  finder_.LeaveOut(300, GpuStateChange::kRecording);
  finder_.Finish();
  EXPECT_EQ(gaps_, (std::vector<Gap>{{200, 300, kProgram}}));
  EXPECT_TRUE(finder_.recorded());
}

TEST_F(GapFinderTest, Unavailable_KeepsItsReason) {
  Find({At(20, GpuStateChange::kUnavailable, "no usable CUPTI was found")});
  EXPECT_EQ(finder_.unavailable(), "no usable CUPTI was found");
  EXPECT_FALSE(finder_.recorded());
}

TEST(PauseCause, Text_IsParsedFromItsBeginning) {
  EXPECT_EQ(ParsePauseCause("end"), PauseCause::kEnd);
  EXPECT_EQ(ParsePauseCause("ended"), PauseCause::kOther);
  EXPECT_EQ(ParsePauseCause(kProgram), PauseCause::kProgram);
  EXPECT_EQ(ParsePauseCause("window: no window is open"), PauseCause::kWindow);
  EXPECT_EQ(ParsePauseCause("restart: CUPTI gave kernels no valid times"), PauseCause::kRestart);
  EXPECT_EQ(ParsePauseCause("limited: CUPTI records only in windows"), PauseCause::kLimited);
  EXPECT_EQ(ParsePauseCause(""), PauseCause::kOther);
}

}  // namespace
}  // namespace tbprof
