// SPDX-License-Identifier: Apache-2.0
#include "writer/spool/annotations.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace tbprof {
namespace {

constexpr uint64_t kEnd = 1'000'000;

class AnnotationsTest : public testing::Test {
 protected:
  explicit AnnotationsTest(ArmedPeriods periods = {{0, UINT64_MAX}}) : annotations_(std::move(periods)) {}

  void Print(AnnotationAction action, uint64_t ticks, uint64_t name = 0, uint16_t level = kNoLevel, uint16_t domain = 0,
             uint32_t thread = 1, uint64_t started = 0) {
    struct {
      AnnotationRecord record;
      AnnotationPayload payload;
    } bytes{};
    bytes.record.tag = {1, RecordKind::kAnnotation, static_cast<uint8_t>(action), 1, domain};
    bytes.record.ticks = ticks;
    bytes.record.name = name;
    bytes.record.level = level;
    if (action == AnnotationAction::kStart) {
      bytes.record.tag.slots = 2;
      bytes.payload.name = started;
    }
    RecordView view;
    view.tag = bytes.record.tag;
    view.bytes = reinterpret_cast<const uint8_t*>(&bytes);
    view.size = view.tag.slots * kSlotBytes;
    EXPECT_TRUE(annotations_.Take({1, thread}, {1, 1}, view, consume_));
  }
  void Push(uint64_t ticks, uint64_t name, uint16_t level = kNoLevel, uint16_t domain = 0, uint32_t thread = 1) {
    Print(AnnotationAction::kPush, ticks, name, level, domain, thread);
  }
  void Pop(uint64_t ticks, uint16_t level = kNoLevel, uint16_t domain = 0, uint32_t thread = 1) {
    Print(AnnotationAction::kPop, ticks, 0, level, domain, thread);
  }
  // Each range as `name start-end`, with `!` if its own end was not recorded; in the order of the reports.
  std::string Ranges() {
    annotations_.Finish(kEnd, consume_);
    std::string told;
    for (const Annotations::Range& range : ranges_) {
      absl::StrAppend(&told, told.empty() ? "" : ", ", range.name, " ", range.start, "-", range.end,
                      range.end_lost ? "!" : "");
    }
    return told;
  }

  std::vector<Annotations::Range> ranges_;
  const Annotations::Consume consume_ = [this](const Annotations::Range& range) { ranges_.push_back(range); };
  Annotations annotations_;
};

TEST_F(AnnotationsTest, RangesOfSeveralThreadsAndDomains_NestSeparately) {
  Push(10, 1, 0);
  Push(11, 2, 0, /*domain=*/3);
  Push(12, 3, 1);
  Push(13, 4, 0, 0, /*thread=*/2);
  Pop(20, 0, 3);
  Pop(21, 1);
  Pop(22, 0);
  Pop(23, 0, 0, 2);
  EXPECT_EQ(Ranges(), "2 11-20, 3 12-21, 1 10-22, 4 13-23");
  EXPECT_EQ(annotations_.unmatched() + annotations_.ends_lost(), 0u);
}

TEST_F(AnnotationsTest, Mark_IsAnInstant) {
  Print(AnnotationAction::kMark, 5, 9);
  EXPECT_EQ(Ranges(), "9 5-5");
  EXPECT_EQ(ranges_[0].kind, Annotations::Kind::kMark);
}

TEST_F(AnnotationsTest, LostEnd_OtherRangesKeepTheirEnds) {
  Push(10, 1, 0);
  Push(20, 2, 1);
  Push(30, 3, 2);
  // The end of 3, at level 2, was lost.
  Pop(50, 1);
  Pop(60, 0);
  EXPECT_EQ(Ranges(), "3 30-30!, 2 20-50, 1 10-60") << "when 3 ended is not known: 50 may be long after";
}

// Records were lost from 21 to 90, among them the end of 1.
TEST_F(AnnotationsTest, LostEndOfTheOutermostRange_IsNotOpenUntilTheEnd) {
  Push(10, 1, 0);
  Push(20, 2, 1);
  Pop(21, 1);
  Push(90, 3, 0);
  Push(91, 4, 1);
  Pop(92, 1);
  Pop(95, 0);
  EXPECT_EQ(Ranges(), "2 20-21, 1 10-21!, 4 91-92, 3 90-95");
  EXPECT_EQ(annotations_.unmatched(), 0u);
  EXPECT_EQ(annotations_.ends_lost(), 1u);
}

// The range lasts longer than the records that were lost: its own end came.
TEST_F(AnnotationsTest, LostRecordsInsideARange_RangeKeepsItsEnd) {
  Push(10, 1, 0);
  Push(20, 2, 1);
  Push(90, 3, 1);
  Pop(95, 1);
  Pop(99, 0);
  EXPECT_EQ(Ranges(), "2 20-20!, 3 90-95, 1 10-99");
}

TEST_F(AnnotationsTest, LostBeginning_OtherRangesKeepTheirEnds) {
  Push(10, 1, 0);
  // The beginning of a range at level 1 was lost.
  Pop(20, 1);
  Pop(30, 0);
  EXPECT_EQ(Ranges(), "1 10-30");
  EXPECT_EQ(annotations_.unmatched(), 1u);
}

TEST_F(AnnotationsTest, EndOfRangeOpenedBeforeRecording_IsUnmatched) {
  Pop(10, 0xffff);  // the thread's level goes below its first value
  Push(20, 1, 0xffff);
  Push(30, 2, 0);
  Pop(40, 0);
  Pop(50, 0xffff);
  EXPECT_EQ(annotations_.unmatched(), 1u);
  EXPECT_EQ(Ranges(), "2 30-40, 1 20-50");
}

TEST_F(AnnotationsTest, NoLevels_EndsMatchByOrder) {
  Push(10, 1, kNoLevel, 40);
  Push(20, 2, kNoLevel, 40);
  Pop(30, kNoLevel, 40);
  Pop(40, kNoLevel, 40);
  EXPECT_EQ(Ranges(), "2 20-30, 1 10-40");
}

TEST_F(AnnotationsTest, RangeOpenAtTheEnd_EndsWithTheWindow) {
  Push(10, 1, 0);
  Push(20, 2, 1);
  EXPECT_EQ(Ranges(), "1 10-1000000!, 2 20-1000000!");
}

TEST_F(AnnotationsTest, RangeNumber_EndOnAnotherThread_Matches) {
  Print(AnnotationAction::kStart, 10, /*number=*/7, kNoLevel, 0, 1, /*name=*/70);
  Print(AnnotationAction::kStart, 12, 8, kNoLevel, 0, 1, 80);
  Print(AnnotationAction::kEnd, 20, 7, kNoLevel, 0, 2);
  Print(AnnotationAction::kEnd, 25, 99);
  Print(AnnotationAction::kStart, 30, 8, kNoLevel, 0, 1, 81);
  Print(AnnotationAction::kEnd, 40, 8);
  EXPECT_EQ(Ranges(), "70 10-20, 81 30-40, 80 12-30!");
  EXPECT_EQ(annotations_.unmatched(), 1u);
}

TEST_F(AnnotationsTest, RangeNumber_EndReadBeforeBeginning_Matches) {
  Print(AnnotationAction::kEnd, 20, /*number=*/7, kNoLevel, 0, 2);
  Print(AnnotationAction::kEnd, 40, 7, kNoLevel, 0, 3);
  Print(AnnotationAction::kEnd, 5, 7, kNoLevel, 0, 3);
  Print(AnnotationAction::kStart, 10, 7, kNoLevel, 0, 1, /*name=*/70);
  Print(AnnotationAction::kStart, 30, 7, kNoLevel, 0, 1, 71);
  EXPECT_EQ(Ranges(), "70 10-20, 71 30-40");
  EXPECT_EQ(annotations_.unmatched(), 1u);
}

TEST_F(AnnotationsTest, RangeNumber_ReusedBeforeItsEndIsRead_Matches) {
  for (const uint64_t start : {10, 30, 50}) {
    Print(AnnotationAction::kStart, start, /*number=*/7, kNoLevel, 0, 1, /*name=*/start);
  }
  for (const uint64_t end : {40, 20, 60, 45}) Print(AnnotationAction::kEnd, end, 7, kNoLevel, 0, 2);
  EXPECT_EQ(Ranges(), "30 30-40, 10 10-20, 50 50-60");
  EXPECT_EQ(annotations_.unmatched(), 1u);
}

class TwoPeriods : public AnnotationsTest {
 protected:
  TwoPeriods() : AnnotationsTest({{100, 200}, {300, 400}}) {}
};

TEST_F(TwoPeriods, RangesOpenAtTheEndOfAPeriod_EndWithIt) {
  Push(110, 1, 0);
  Push(150, 2, 1);
  // The ends were not recorded.
  Push(310, 3, 2);
  Pop(320, 2);
  Pop(330, 1);
  Pop(340, 0);
  EXPECT_EQ(Ranges(), "2 150-200!, 1 110-200!, 3 310-320");
  EXPECT_EQ(annotations_.unmatched(), 2u);
}

TEST(ArmedPeriodsTest, OverlappingWindows_AreOnePeriod) {
  const auto window = [](uint64_t ticks, uint32_t number, WindowEvent event) {
    return WindowFact{ticks, number, event, 0, 0};
  };
  const ArmedPeriods periods = PeriodsOf({window(10, 0, WindowEvent::kOpened), window(20, 1, WindowEvent::kOpened),
                                          window(30, 1, WindowEvent::kClosed), window(35, 1, WindowEvent::kPublished),
                                          window(40, 0, WindowEvent::kClosed), window(50, 2, WindowEvent::kOpened)});
  EXPECT_EQ(periods, (ArmedPeriods{{10, 40}, {50, UINT64_MAX}}));
}

// For any records: each range is reported exactly once, and its end is not before its beginning.
TEST_F(AnnotationsTest, RandomRecords_EachRangeIsReportedOnce) {
  std::mt19937_64 random(11);
  uint64_t begun = 0, marks = 0;
  for (int i = 0; i < 200'000; ++i) {
    const auto action = static_cast<AnnotationAction>(1 + random() % 5);
    const auto level = static_cast<uint16_t>(random() % 7 == 0 ? random() : random() % 6);
    const bool by_number = action == AnnotationAction::kStart || action == AnnotationAction::kEnd;
    Print(action, random() % kEnd, by_number ? random() % 50 : random(), level, static_cast<uint16_t>(random() % 20),
          static_cast<uint32_t>(random() % 5), random());
    begun += action == AnnotationAction::kPush || action == AnnotationAction::kStart ? 1 : 0;
    marks += action == AnnotationAction::kMark ? 1 : 0;
  }
  annotations_.Finish(kEnd, consume_);
  EXPECT_EQ(ranges_.size(), begun + marks - annotations_.not_followed());
  for (const Annotations::Range& range : ranges_) ASSERT_LE(range.start, range.end);
}

}  // namespace
}  // namespace tbprof
