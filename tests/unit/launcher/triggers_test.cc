// SPDX-License-Identifier: Apache-2.0
#include "launcher/session/triggers.h"

#include <gtest/gtest.h>

namespace tbprof {
namespace {

class TriggersTest : public testing::Test {
 protected:
  void Report(uint64_t ticks, bool begins, uint32_t serial = 1) {
    const uint32_t number = ++triggers_.reported;
    triggers_.borders[number % kRangeBorders] = {ticks, serial, number * 2 + (begins ? 0 : 1)};
  }
  // The changes as text, like `+10 -20`; `!` is the end of a process.
  std::string Changes(uint64_t now = 1000) {
    reader_.Read(1, triggers_, triggers_.reported, &seen_, 0, now);
    return Text();
  }
  std::string Text() {
    std::string text;
    for (const TriggerChange& change : reader_.Take()) {
      text += (text.empty() ? "" : " ") +
              std::string(change.opens           ? "+"
                          : change.process_ended ? "!"
                                                 : "-") +
              std::to_string(change.ticks);
    }
    return text;
  }

  Triggers triggers_{};
  uint32_t seen_ = 0;
  TriggerReader reader_;
};

TEST_F(TriggersTest, EachRange_IsAWindow) {
  EXPECT_EQ(Changes(), "");
  Report(10, true);
  Report(20, false);
  Report(30, true);
  EXPECT_EQ(Changes(), "+10 -20 +30");
  EXPECT_TRUE(reader_.is_open());
  Report(40, false);
  EXPECT_EQ(Changes(), "-40");
  EXPECT_EQ(Changes(), "");
}

// Between Read and Take the launcher may set control words: those of an open range must stay armed.
TEST_F(TriggersTest, BeginThatIsNotTaken_IsOpen) {
  Report(10, true);
  reader_.Read(1, triggers_, triggers_.reported, &seen_, 0, 1000);
  EXPECT_TRUE(reader_.is_open());
  Report(20, false);
  EXPECT_EQ(Changes(), "+10 -20");
  EXPECT_FALSE(reader_.is_open());
}

// What is reported after the clock was read is read the next time.
TEST_F(TriggersTest, BorderAfterTheClock_KeepsItsTime) {
  Report(10, true);
  const uint32_t reported = ReportedBorders(triggers_);
  Report(1020, false);
  reader_.Read(1, triggers_, reported, &seen_, 0, 1000);
  EXPECT_EQ(Text(), "+10");
  EXPECT_EQ(Changes(2000), "-1020");
}

TEST_F(TriggersTest, OverlappingRanges_AreOne) {
  Report(10, true, 1);
  Report(30, false, 1);
  Report(20, true, 2);
  Report(40, false, 2);
  EXPECT_EQ(Changes(), "+10 -40");
  // A range of another segment, whose borders are read later.
  Report(50, true);
  Triggers other{};
  other.reported = 2;
  other.borders[1] = {45, 1, 2};
  other.borders[2] = {55, 1, 5};
  reader_.Read(1, triggers_, triggers_.reported, &seen_, 0, 1000);
  uint32_t seen = 0;
  reader_.Read(2, other, other.reported, &seen, 0, 1000);
  EXPECT_EQ(Text(), "+45");
}

// Two threads begin and end the range: their clocks may differ by a few ticks.
TEST_F(TriggersTest, EndBeforeItsBegin_OtherProcessKeepsItsWindow) {
  Report(10, true, 1);
  Report(30, true, 2);
  Report(28, false, 2);
  EXPECT_EQ(Changes(), "+10");
  Report(40, false, 1);
  EXPECT_EQ(Changes(), "-40");
}

TEST_F(TriggersTest, EndBeforeABeginThatWasTaken_WindowEndsWhereItBegan) {
  Report(30, true);
  EXPECT_EQ(Changes(), "+30");
  Report(28, false);
  EXPECT_EQ(Changes(), "-30");
}

// The begin of the second range is reported before the end of the first: each end belongs to the earliest begin.
TEST_F(TriggersTest, NextRangeBeginsBeforeTheEndIsReported_BothAreWindows) {
  Report(10, true);
  Report(40, true);
  Report(38, false);
  Report(39, false);
  EXPECT_EQ(Changes(), "+10 -38 +40 -40");
}

TEST_F(TriggersTest, Ranges_EndWithTheirProcess) {
  Report(10, true, 1);
  Report(20, true, 7);
  EXPECT_EQ(Changes(), "+10");
  const auto forget = [&](uint32_t gone, uint64_t now) {
    reader_.Forget(
        1, [&](uint32_t serial) { return serial != gone; }, now);
    return Text();
  };
  EXPECT_EQ(forget(0, 100), "");
  EXPECT_EQ(forget(7, 110), "") << "the other one is in its range";
  EXPECT_EQ(forget(1, 120), "!120") << "it was seen alive, and is gone";
  // The range was reported before its process was registered.
  Report(130, true, 9);
  EXPECT_EQ(Changes(), "+130");
  EXPECT_EQ(forget(9, 140), "");
  EXPECT_EQ(forget(9, 150), "");
  EXPECT_EQ(forget(9, 160), "!160");
  Report(170, true, 11);
  EXPECT_EQ(Changes(), "+170");
  reader_.ForgetSegment(1, 180);
  EXPECT_EQ(Text(), "!180");
}

TEST_F(TriggersTest, MoreBordersThanRoom_AreCounted) {
  for (uint64_t i = 0; i < 1000; ++i) Report(i, i % 2 == 0);
  reader_.Read(1, triggers_, triggers_.reported, &seen_, 0, 5000);
  EXPECT_EQ(reader_.Take().size(), kRangeBorders);
  EXPECT_EQ(reader_.missed(), (1000 - kRangeBorders) / 2);
  EXPECT_FALSE(reader_.is_open());
}

TEST_F(TriggersTest, UnfinishedBorder_IsReadLater) {
  Report(10, true);
  ++triggers_.reported;
  EXPECT_EQ(Changes(), "+10");
  triggers_.borders[2] = {20, 1, 5};
  EXPECT_EQ(Changes(), "-20");
  // A thread was killed while it wrote a border.
  ++triggers_.reported;
  Report(40, true);
  EXPECT_EQ(Changes(), "");
  EXPECT_EQ(Changes(), "");
  EXPECT_EQ(Changes(), "+40");
}

TEST_F(TriggersTest, HostileBorders_AreIgnored) {
  Report(10, false);
  EXPECT_EQ(Changes(), "") << "an end without a begin";
  Report(5000, true);
  EXPECT_EQ(Changes(1000), "+1000") << "not in the future";
  Report(1, false);
  reader_.Read(1, triggers_, triggers_.reported, &seen_, 900, 1100);
  EXPECT_EQ(Text(), "-1000") << "nor before its begin";
  Report(1, true);
  reader_.Read(1, triggers_, triggers_.reported, &seen_, 900, 1100);
  EXPECT_EQ(Text(), "+900") << "nor in the distant past";
  Report(950, false);
  EXPECT_EQ(Changes(), "-950");
  triggers_.reported += 4'000'000'000u;
  EXPECT_EQ(Changes(), "");
  for (int i = 0; i < 10; ++i) Report(20, true);
  for (int i = 0; i < 10; ++i) Report(30, false);
  Changes();
  EXPECT_FALSE(reader_.is_open());
}

}  // namespace
}  // namespace tbprof
