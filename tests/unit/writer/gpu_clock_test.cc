// SPDX-License-Identifier: Apache-2.0
#include "writer/spool/gpu_clock.h"

#include <gtest/gtest.h>

#include <cmath>

#include "writer/base/interval_union.h"
#include "writer/convert/gpu_memory.h"
#include "writer/convert/gpu_occupancy.h"

namespace tbprof {
namespace {

constexpr uint64_t kAhead = 1'700'000'000'000'000'000;
constexpr uint64_t kSecond = 1'000'000'000;
constexpr size_t kAll = SIZE_MAX / 2;

GpuClockRecord Pair(uint64_t ticks, uint64_t gpu_ns, uint64_t width = 100) {
  GpuClockRecord pair{};
  pair.ticks_before = ticks - width / 2;
  pair.gpu_ns = gpu_ns;
  pair.ticks_after = pair.ticks_before + width;
  return pair;
}

uint64_t Distance(uint64_t a, uint64_t b) { return a > b ? a - b : b - a; }

TEST(GpuClock, ToTicks_BetweenAndBeyondPairs_IsLinear) {
  GpuClockMap clock;
  // 3 ticks a nanosecond, and the GPU clock 50 ppm fast.
  for (uint64_t s = 10; s <= 20; ++s) clock.Add(Pair(3 * s * kSecond, kAhead + s * kSecond + s * 50'000));
  ASSERT_TRUE(clock.Finish(1.0 / 3));
  EXPECT_EQ(clock.breaks(), 0u);
  EXPECT_EQ(clock.error_ticks(), 50u);
  uint64_t before = 0;
  for (uint64_t ns = 0; ns < 30 * kSecond; ns += 7'777'777) {
    const GpuTicks time = clock.ToTicks(kAhead + ns + ns / kSecond * 50'000 + ns % kSecond / 20'000, kAll);
    EXPECT_FALSE(time.uncertain);
    EXPECT_GE(time.ticks, before);
    before = time.ticks;
    // Outside of the pairs, the session's own rate is used: an error of 50 ppm of ten seconds.
    EXPECT_LE(Distance(time.ticks, 3 * ns), ns < 10 * kSecond || ns > 20 * kSecond ? 1'600'000u : 10u) << ns;
  }
}

TEST(GpuClock, WideReadings_AreLeftOut) {
  GpuClockMap clock;
  for (uint64_t s = 1; s <= 9; ++s) clock.Add(Pair(s * kSecond, kAhead + s * kSecond));
  // Preempted for 400 us between the readings, at its beginning.
  GpuClockRecord wide = Pair(5 * kSecond + 1000, kAhead + 5 * kSecond + 1000);
  wide.ticks_after += 400'000;
  clock.Add(wide);
  ASSERT_TRUE(clock.Finish(1));
  EXPECT_EQ(clock.error_ticks(), 50u);
  EXPECT_EQ(clock.ToTicks(kAhead + 5 * kSecond + 1000, kAll).ticks, 5 * kSecond + 1000);
}

// PyTorch's Kineto registers the counter of the CPU as CUPTI's clock, and never restores the old clock.
TEST(GpuClock, ToTicks_ClockReplacedByACounter_BothSidesAreRight) {
  GpuClockMap clock;
  const auto counter = [](uint64_t ns) { return 40'000'000'000'000 + ns * 21 / 10; };  // at 2.1 GHz
  for (uint64_t ms = 1000; ms < 3000; ms += 200) clock.Add(Pair(ms * 1'000'000, kAhead + ms * 1'000'000));
  for (uint64_t ms = 4100; ms < 9000; ms += 200) {
    for (const uint64_t ns : {ms * 1'000'000, ms * 1'000'000 + 50'000}) clock.Add(Pair(ns, counter(ns)));
  }
  ASSERT_TRUE(clock.Finish(1));
  EXPECT_EQ(clock.replaced(), 1u);
  EXPECT_EQ(clock.breaks(), 0u);
  for (uint64_t ms = 1001; ms < 2800; ms += 37) {
    EXPECT_EQ(clock.ToTicks(kAhead + ms * 1'000'000, 5).ticks, ms * 1'000'000);
  }
  for (uint64_t ms = 4101; ms < 8800; ms += 37) {
    const GpuTicks time = clock.ToTicks(counter(ms * 1'000'000), kAll);
    EXPECT_FALSE(time.uncertain) << ms;
    EXPECT_LE(Distance(time.ticks, ms * 1'000'000), 10u) << ms;
  }
  // Times behind the last pair use the same rate.
  EXPECT_LE(Distance(clock.ToTicks(counter(10 * kSecond), kAll).ticks, 10 * kSecond), 100u);
}

TEST(GpuClock, ToTicks_CounterFromTheFirstPairOn_IsRight) {
  GpuClockMap clock;
  for (uint64_t ms = 1000; ms < 3000; ms += 200) clock.Add(Pair(ms * 1'000'000, ms * 3'000'000));
  ASSERT_TRUE(clock.Finish(1));
  EXPECT_EQ(clock.breaks() + clock.replaced(), 0u);
  EXPECT_LE(Distance(clock.ToTicks(1'500'000'000ull * 3, kAll).ticks, 1'500'000'000), 2u);
}

TEST(GpuClock, ForwardStep_IsABreakAndBothSidesAreRight) {
  GpuClockMap clock;
  constexpr uint64_t kStep = 3 * kSecond;
  for (uint64_t s = 1; s <= 5; ++s) clock.Add(Pair(s * kSecond, kAhead + s * kSecond));
  for (uint64_t s = 6; s <= 9; ++s) clock.Add(Pair(s * kSecond, kAhead + s * kSecond + kStep));
  ASSERT_TRUE(clock.Finish(1));
  EXPECT_EQ(clock.breaks(), 1u);
  EXPECT_EQ(clock.ToTicks(kAhead + 4 * kSecond, kAll).ticks, 4 * kSecond);
  EXPECT_EQ(clock.ToTicks(kAhead + 7 * kSecond + kStep, kAll).ticks, 7 * kSecond);
  EXPECT_FALSE(clock.ToTicks(kAhead + 7 * kSecond + kStep, kAll).uncertain);
  // The clock was set between 5 s and 6 s. Times near the step are placed on the side that they fit.
  const GpuTicks early = clock.ToTicks(kAhead + 5 * kSecond + kSecond / 4, kAll);
  EXPECT_TRUE(early.uncertain);
  EXPECT_EQ(early.ticks, 5 * kSecond + kSecond / 4);
  const GpuTicks late = clock.ToTicks(kAhead + 5 * kSecond + kSecond * 3 / 4 + kStep, kAll);
  EXPECT_TRUE(late.uncertain);
  EXPECT_EQ(late.ticks, 5 * kSecond + kSecond * 3 / 4);
  // Times that the clock never showed.
  const GpuTicks never = clock.ToTicks(kAhead + 7 * kSecond, kAll);
  EXPECT_TRUE(never.uncertain);
  EXPECT_GE(never.ticks, 5 * kSecond);
  EXPECT_LE(never.ticks, 6 * kSecond);
}

TEST(GpuClock, BackwardStep_PositionOfTheRecordDecides) {
  GpuClockMap clock;
  constexpr uint64_t kStep = 3 * kSecond;
  for (uint64_t s = 1; s <= 5; ++s) clock.Add(Pair(s * kSecond, kAhead + s * kSecond));
  for (uint64_t s = 6; s <= 12; ++s) clock.Add(Pair(s * kSecond, kAhead + s * kSecond - kStep));
  ASSERT_TRUE(clock.Finish(1));
  EXPECT_EQ(clock.breaks(), 1u);
  // 4 s on the clock were at 4 s and at 7 s.
  EXPECT_EQ(clock.PassPair(Pair(4 * kSecond, 0)), 4u);
  EXPECT_EQ(clock.ToTicks(kAhead + 4 * kSecond, 4).ticks, 4 * kSecond);
  EXPECT_EQ(clock.ToTicks(kAhead + 4 * kSecond, 8).ticks, 7 * kSecond);
}

TEST(GpuClock, SlewAndLongGaps_AreNoBreaks) {
  GpuClockMap clock;
  clock.Add(Pair(kSecond, kAhead + kSecond));
  clock.Add(Pair(100 * kSecond, kAhead + 100 * kSecond + 99 * 400'000));
  ASSERT_TRUE(clock.Finish(1));
  EXPECT_EQ(clock.breaks(), 0u);
}

TEST(GpuClock, HostilePairs_AreAccepted) {
  GpuClockMap none;
  EXPECT_FALSE(none.Finish(1));
  EXPECT_FALSE(none.usable());
  GpuClockMap clock;
  GpuClockRecord backwards{};
  backwards.ticks_before = 10;
  backwards.gpu_ns = 5;
  clock.Add(backwards);
  clock.Add(Pair(1000, UINT64_MAX));
  clock.Add(Pair(UINT64_MAX - 1000, 1));
  clock.Add(Pair(1000, 7));
  for (uint64_t i = 0; i < 2000; ++i) clock.Add(Pair(i * 1'000'003 + 500, (i * 0x9E3779B97F4A7C15) | 1));
  ASSERT_TRUE(clock.Finish(0));
  for (uint64_t i = 0; i < 1000; ++i) {
    clock.ToTicks(i * 0xD1B54A32D192ED03, i);
    clock.ToTicks(i, kAll);
  }
}

TEST(IntervalUnion, OverlappingIntervals_CountOnce) {
  IntervalUnion busy;
  busy.Add(10, 20);
  busy.Add(15, 30);
  busy.Add(5, 6);
  busy.Add(30, 31);
  busy.Add(9, 9);
  EXPECT_EQ(busy.Length(), 22u);
}

TEST(IntervalUnion, MoreIntervalsThanRoom_LengthIsRight) {
  IntervalUnion busy(64);
  uint64_t expected = 0;
  for (uint64_t i = 0; i < 10'000; ++i) {
    busy.Add(i * 1000, i * 1000 + 400 + i % 7);
    expected += 400 + i % 7;
  }
  EXPECT_EQ(busy.Length(), expected);
}

TEST(GpuMemory, ReleasesOfUnknownBlocks_ChangeNothing) {
  GpuMemoryTrack track;
  track.Add({30, 0x1000, 100, 0, true});
  track.Add({10, 0x1000, 100, 0, false});
  track.Add({20, 0x2000, 50, 0, false});
  track.Add({25, 0x9000, 999, 0, true});
  track.Add({26, 0x1000, 999, 1, true});  // another process' address
  const auto samples = track.Samples();
  ASSERT_EQ(samples.size(), 3u);
  EXPECT_EQ(samples[0].bytes, 100);
  EXPECT_EQ(samples[1].bytes, 150);
  EXPECT_EQ(samples[2].bytes, 50);
}

GpuDeviceRecord H100() {
  GpuDeviceRecord device{};
  device.compute_major = 9;
  device.warps_per_multiprocessor = 64;
  device.blocks_per_multiprocessor = 32;
  device.threads_per_warp = 32;
  device.registers_per_multiprocessor = 65'536;
  device.shared_bytes_per_multiprocessor = 233'472;
  return device;
}

GpuLaunch Launch(uint32_t threads, uint32_t registers, uint32_t shared) {
  GpuLaunch launch;
  launch.block[0] = threads;
  launch.registers = registers;
  launch.static_shared_bytes = shared;
  return launch;
}

// Expected values are calculated by the rules of cudaOccMaxActiveBlocksPerMultiprocessor in cuda_occupancy.h
// (CUDA 13.0).
TEST(Occupancy, EachResource_LimitsIt) {
  const GpuDeviceRecord device = H100();
  EXPECT_DOUBLE_EQ(Occupancy(device, Launch(256, 32, 0)), 1.0);           // warps
  EXPECT_DOUBLE_EQ(Occupancy(device, Launch(32, 16, 0)), 0.5);            // 32 blocks of one warp
  EXPECT_DOUBLE_EQ(Occupancy(device, Launch(256, 64, 0)), 0.5);           // registers: 32 warps, 4 blocks
  EXPECT_DOUBLE_EQ(Occupancy(device, Launch(256, 255, 0)), 0.125);        // 8 warps: 1 block
  EXPECT_DOUBLE_EQ(Occupancy(device, Launch(128, 32, 48 * 1024)), 0.25);  // shared: 4 blocks of 49 KiB
  EXPECT_DOUBLE_EQ(Occupancy(device, Launch(1024, 40, 0)), 0.5);          // 48 warps at once: 1 block of 32
  EXPECT_DOUBLE_EQ(Occupancy(device, Launch(100, 32, 0)), 16 * 100 / 2048.0);
  GpuDeviceRecord turing = device;
  turing.compute_major = 7;
  turing.shared_bytes_per_multiprocessor = 65'536;
  EXPECT_DOUBLE_EQ(Occupancy(turing, Launch(128, 16, 16 * 1024)), 0.25);  // nothing reserved before 8.0
}

TEST(Occupancy, MissingFacts_AreUnknown) {
  EXPECT_LT(Occupancy(GpuDeviceRecord{}, Launch(256, 32, 0)), 0);
  EXPECT_LT(Occupancy(H100(), Launch(0, 32, 0)), 0);
  EXPECT_GE(Occupancy(H100(), Launch(65'535, 65'535, UINT32_MAX)), 0);
}

}  // namespace
}  // namespace tbprof
