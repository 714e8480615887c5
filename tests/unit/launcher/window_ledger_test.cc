// SPDX-License-Identifier: Apache-2.0
#include "launcher/session/window_ledger.h"

#include <gtest/gtest.h>

#include "wire/layout.h"
#include "writer/spool/spool.h"

namespace tbprof {
namespace {

constexpr uint64_t kLate = 7;

SessionConfig NothingByItself() {
  SessionConfig config;
  config.everything = false;
  return config;
}

TEST(WindowLedgerTest, OpenWindows_ArmTheUnionOfTheirFamilies) {
  SessionConfig config;
  config.families = kFamilyAll & ~kFamilyMalloc;
  WindowLedger ledger(config, 0);
  EXPECT_EQ(ledger.ArmedFamilies(), 0u);
  ledger.Open(1, kFamilyLock);
  ledger.Open(2, kFamilyThread | kFamilyMalloc);
  EXPECT_EQ(ledger.ArmedFamilies(), kFamilyLock | kFamilyThread);
  ledger.Close(2);
  EXPECT_EQ(ledger.ArmedFamilies(), uint32_t{kFamilyLock});
  ledger.Close(1);
  EXPECT_FALSE(ledger.armed());
}

TEST(WindowLedgerTest, RangesOfTheProgram_ArmAnnotationsUntilTheSessionEnds) {
  SessionConfig config = NothingByItself();
  config.trigger = TriggerKind::kRange;
  WindowLedger ledger(config, 100);
  EXPECT_EQ(ledger.ArmedFamilies(), uint32_t{kFamilyAnnotation});
  ledger.EndSession();
  EXPECT_EQ(ledger.ArmedFamilies(), 0u);
}

TEST(WindowLedgerTest, RunsOwnWindow_NeedsARangeOnlyWhereNothingElseKeepsIt) {
  WindowLedger everything(SessionConfig(), 0);
  everything.Keep(0, 10);
  EXPECT_TRUE(everything.RetentionNow(kLate).everything);
  EXPECT_TRUE(everything.RetentionNow(kLate).ranges.empty());
  WindowLedger ranges(NothingByItself(), 0);
  ranges.Keep(0, 10);
  ASSERT_EQ(ranges.RetentionNow(kLate).ranges.size(), 1u);
  EXPECT_EQ(ranges.RetentionNow(kLate).ranges[0].from, 10u);
  EXPECT_FALSE(ranges.RetentionNow(kLate).totals);
}

TEST(WindowLedgerTest, SlidingWindow_KeepsSoMuchMoreAsRecordsMayBeLate) {
  const WindowLedger ledger(NothingByItself(), 100);
  EXPECT_EQ(ledger.RetentionNow(kLate).sliding_ticks, 100u + kLate);
  EXPECT_TRUE(ledger.RetentionNow(kLate).totals);
}

TEST(WindowLedgerTest, ClosedWindow_EndsAtTheFlushThatFollows) {
  WindowLedger ledger(SessionConfig(), 0);
  ledger.Keep(1, 10);
  ledger.Open(1, kFamilyAll);
  ledger.Flushed(20);
  EXPECT_EQ(ledger.RangeOf(1)->to, UINT64_MAX);
  ledger.Close(1);
  ledger.Flushed(30);
  ledger.Flushed(40);
  EXPECT_EQ(ledger.RangeOf(1)->to, 30u);
}

TEST(WindowLedgerTest, PublishedWindow_GoesUnlessTheSpoolIsKept) {
  SessionConfig config;
  for (const bool keep : {false, true}) {
    config.keep_spool = keep;
    WindowLedger ledger(config, 0);
    ledger.Keep(1, 10);
    ledger.Published(1, false);
    ASSERT_TRUE(ledger.RangeOf(1).has_value());
    EXPECT_FALSE(ledger.RangeOf(1)->needed);
    ledger.Published(1, true);
    EXPECT_EQ(ledger.RangeOf(1).has_value(), keep);
  }
}

TEST(WindowLedgerTest, SplitRun_GoesOnAsTheWindowOfItsEnd) {
  WindowLedger ledger(SessionConfig(), 0);
  ledger.Open(0, kFamilyLock);
  ledger.SplitRun(50);
  EXPECT_EQ(ledger.ArmedFamilies(), uint32_t{kFamilyLock});
  EXPECT_FALSE(ledger.RetentionNow(kLate).everything);
  EXPECT_EQ(ledger.RetentionNow(kLate).sliding_ticks, 50u + kLate);
  ledger.Close(0);
  EXPECT_TRUE(ledger.armed());
  ledger.Close(kEndWindow);
  EXPECT_FALSE(ledger.armed());
}

TEST(WindowLedgerTest, NarrowedRun_KeepsItsPartAndRecordsNoMore) {
  WindowLedger ledger(SessionConfig(), 0);
  ledger.Open(0, kFamilyAll);
  ledger.NarrowRun(25);
  EXPECT_FALSE(ledger.armed());
  ASSERT_TRUE(ledger.RangeOf(0).has_value());
  EXPECT_EQ(ledger.RangeOf(0)->from, 25u);
  EXPECT_FALSE(ledger.RetentionNow(kLate).everything);
}

TEST(WindowLedgerTest, WindowsOfGpus_AreCountedOnceAndNotTheWholeRun) {
  WindowLedger ledger(SessionConfig(), 0);
  EXPECT_FALSE(ledger.OpenForGpus(0, kFamilyAll));
  EXPECT_FALSE(ledger.OpenForGpus(1, kFamilyAll & ~kFamilyGpu));
  EXPECT_TRUE(ledger.OpenForGpus(1, kFamilyAll));
  EXPECT_FALSE(ledger.OpenForGpus(1, kFamilyAll));
  EXPECT_EQ(ledger.gpu_windows(), 2 * kGpuWindowOpen + kGpuWindowOpen);
  ledger.Close(1);
  EXPECT_FALSE(ledger.is_open_for_gpus(1));
  EXPECT_EQ(ledger.gpu_windows(), 2 * kGpuWindowOpen);
}

TEST(WindowLedgerTest, AskedForWindow_IsNoMoreAfterItsClose) {
  WindowLedger ledger(SessionConfig(), 0);
  ledger.AskFor(3);
  EXPECT_TRUE(ledger.is_asked_for(3));
  EXPECT_TRUE(ledger.any_asked_for());
  ledger.Close(3);
  EXPECT_FALSE(ledger.any_asked_for());
}

}  // namespace
}  // namespace tbprof
