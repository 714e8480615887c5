// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/heap_levels.h"

#include <gtest/gtest.h>

namespace tbprof {
namespace {

// Recording is armed from 100 on; the process began at 200.
const ArmedPeriods kArmed = {{100, UINT64_MAX}};

ProcessFacts Process(std::vector<std::pair<uint64_t, int64_t>> counters, int64_t peak = 0) {
  ProcessFacts process;
  for (const auto& [ticks, bytes] : counters) process.counters.push_back({ticks, 1, 0, bytes});
  process.start_ticks = 200;
  process.last.peak_bytes = peak;
  return process;
}

TEST(HeapLevels, CountedFromTheStart_AreAbsolute) {
  const ProcessFacts process = Process({{300, 150}, {400, 100}, {600, 110}, {700, 60}, {900, 999}}, 150);
  const HeapLevels levels = HeapLevelsOf({process, 200, 500, 800, 100, 60}, kArmed);
  EXPECT_TRUE(levels.absolute);
  EXPECT_EQ(levels.shift, 0);
  EXPECT_EQ(levels.begin_bytes, 100);
  EXPECT_EQ(levels.live_bytes, 60);
  EXPECT_EQ(levels.window_peak_bytes, 110);
  EXPECT_EQ(levels.peak_before_bytes, 150);
  EXPECT_EQ(levels.peak_bytes, 150);
}

TEST(HeapLevels, CountedLater_AreLowerBounds) {
  // 40 bytes from before are freed, then 10 bytes are allocated.
  const ProcessFacts process = Process({{600, -40}, {700, -30}}, 5);
  const HeapLevels levels = HeapLevelsOf({process, 200, 500, 800, 0, -30}, {{500, 800}});
  EXPECT_FALSE(levels.absolute);
  EXPECT_EQ(levels.shift, 40);
  EXPECT_EQ(levels.begin_bytes, 40);
  EXPECT_EQ(levels.live_bytes, 10);
  EXPECT_EQ(levels.window_peak_bytes, 40);
  EXPECT_EQ(levels.peak_bytes, 45);
}

// A peak between two reads of the counters.
TEST(HeapLevels, ThePeakOfTheTarget_IsOfTheWindowThatItRoseIn) {
  ProcessFacts process = Process({{300, 10}, {600, 20}}, 70);
  EXPECT_EQ(HeapLevelsOf({process, 200, 150, 800, 0, 20}, kArmed).window_peak_bytes, 70) << "it began in the window";
  EXPECT_EQ(HeapLevelsOf({process, 200, 500, 800, 10, 20}, kArmed).window_peak_bytes, 20) << "or before";
  process.has_first = true;
  process.first.peak_bytes = 70;
  EXPECT_EQ(HeapLevelsOf({process, 200, 500, 800, 10, 20}, kArmed).window_peak_bytes, 20);
  EXPECT_EQ(HeapLevelsOf({process, 200, 500, 800, 10, 20}, kArmed).peak_before_bytes, 70);
  process.first.peak_bytes = 60;
  EXPECT_EQ(HeapLevelsOf({process, 200, 500, 800, 10, 20}, kArmed).window_peak_bytes, 70);
}

// A read inside the window reports a peak from before the window.
TEST(HeapLevels, ALateLook_DoesNotMoveAPeakIntoTheWindow) {
  ProcessFacts process = Process({{300, 20}, {599, 150}, {600, 100}, {700, 60}}, 150);
  process.has_first = true;
  process.first.peak_bytes = 150;
  const HeapLevels levels = HeapLevelsOf({process, 200, 500, 800, 100, 60}, kArmed);
  EXPECT_EQ(levels.begin_bytes, 100);
  EXPECT_EQ(levels.window_peak_bytes, 100);
  EXPECT_EQ(levels.peak_before_bytes, 150);
  EXPECT_EQ(levels.peak_bytes, 150);
  EXPECT_EQ(LooksInWindow(process, 500, 800).size(), 2u);
}

TEST(HeapLevels, ASecondCaptureWithAGapBefore_IsNotAbsolute) {
  const ProcessFacts process = Process({});
  EXPECT_FALSE(HeapLevelsOf({process, 200, 500, 600, 0, 0}, {{100, 300}, {500, 600}}).absolute);
  EXPECT_TRUE(HeapLevelsOf({process, 200, 250, 300, 0, 0}, {{100, 300}, {500, 600}}).absolute);
  EXPECT_FALSE(HeapLevelsOf({process, 200, 250, 300, 0, 0}, {}).absolute);
}

TEST(HeapLevels, HostileNumbers_AreNotNegative) {
  const ProcessFacts process = Process({{400, INT64_MIN}, {600, INT64_MAX}, {700, INT64_MIN}}, INT64_MIN);
  for (const ArmedPeriods& periods : {kArmed, ArmedPeriods{{450, 900}}}) {
    const HeapLevels levels = HeapLevelsOf({process, 200, 500, 800, INT64_MIN, INT64_MIN}, periods);
    for (const int64_t level : {levels.begin_bytes, levels.live_bytes, levels.window_peak_bytes,
                                levels.peak_before_bytes, levels.peak_bytes}) {
      EXPECT_GE(level, 0);
    }
  }
}

WindowFact Window(uint32_t number, WindowEvent event, uint64_t ticks, uint32_t families = kFamilyAll) {
  return {ticks, number, event, families, 0};
}

TEST(AllocatorPeriods, WindowsWithoutTheAllocator_DoNotCount) {
  EXPECT_EQ(AllocatorPeriods({Window(0, WindowEvent::kOpened, 10), Window(1, WindowEvent::kOpened, 20),
                              Window(1, WindowEvent::kClosed, 30), Window(0, WindowEvent::kClosed, 40)}),
            (ArmedPeriods{{10, 40}}));
  EXPECT_EQ(AllocatorPeriods({Window(1, WindowEvent::kOpened, 20, kFamilyIo), Window(1, WindowEvent::kClosed, 30)}),
            ArmedPeriods());
  // A window that was narrowed to steps is opened twice and closed once.
  EXPECT_EQ(AllocatorPeriods({Window(0, WindowEvent::kOpened, 10), Window(0, WindowEvent::kOpened, 15),
                              Window(0, WindowEvent::kClosed, 20)}),
            (ArmedPeriods{{10, 20}}));
}

}  // namespace
}  // namespace tbprof
