// SPDX-License-Identifier: Apache-2.0
#include "launcher/session/sampling_governor.h"

#include <gtest/gtest.h>

namespace tbprof {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint64_t kInterval = 512 << 10;
constexpr uint64_t kRate = 100 << 20;

// A program that allocates evenly, with a governor that is updated every second.
class Program {
 public:
  explicit Program(uint64_t rate) : governor_(kInterval, rate) { governor_.Update(now_, 0, 0); }

  // Returns the bytes written in that time.
  uint64_t Run(int seconds, double allocated_per_second, uint64_t others_per_second, uint64_t stack = kSnapshotBytes) {
    const uint64_t before = all_;
    for (int i = 0; i < seconds; ++i) {
      const Sampling& sampling = governor_.sampling();
      const double samples = allocated_per_second / static_cast<double>(sampling.interval);
      const auto bytes =
          static_cast<uint64_t>(samples * static_cast<double>(160 + std::min<uint64_t>(stack, sampling.stack_bytes)));
      samples_ += bytes;
      all_ += bytes + others_per_second;
      now_ += kSecond;
      changes_ += governor_.Update(now_, samples_, all_) ? 1 : 0;
    }
    return all_ - before;
  }
  const Sampling& sampling() const { return governor_.sampling(); }
  int changes() const { return changes_; }

 private:
  SamplingGovernor governor_;
  uint64_t now_ = 5 * kSecond, samples_ = 0, all_ = 0;
  int changes_ = 0;
};

TEST(SamplingGovernor, ShortOrQuietProgram_IntervalIsUnchanged) {
  Program quiet(kRate);
  quiet.Run(3600, 40e6, 100'000);
  EXPECT_EQ(quiet.sampling().interval, kInterval);
  EXPECT_EQ(quiet.sampling().stack_bytes, kSnapshotBytes);
  Program brief(kRate);
  brief.Run(5, 500e6, 0);
  EXPECT_EQ(brief.sampling().interval, kInterval);
}

TEST(SamplingGovernor, LongProgram_StaysBelowTheRate) {
  for (const double allocated : {300e6, 1e9, 20e9, 500e9}) {
    for (const uint64_t stack : {uint64_t{300}, uint64_t{3000}, uint64_t{kSnapshotBytes}}) {
      Program program(kRate);
      program.Run(120, allocated, 200'000, stack);
      const uint64_t ten_minutes = program.Run(600, allocated, 200'000, stack);
      EXPECT_LE(ten_minutes, 10 * kRate + kRate / 4) << allocated << " " << stack;
      EXPECT_LE(program.changes(), 8) << "it settles";
      if (program.sampling().interval > kInterval) {
        EXPECT_GE(ten_minutes, 3 * kRate) << "no more is left out than has to be";
      }
    }
  }
}

TEST(SamplingGovernor, OtherRecords_LeaveAnEighthForSamples) {
  Program program(kRate);
  const uint64_t others = 50u << 20;
  program.Run(120, 1e9, others);
  const uint64_t samples = program.Run(60, 1e9, others) - 60 * others;
  EXPECT_GE(samples, kRate / 20);
  EXPECT_LE(samples, kRate / 8 + kRate / 50);
}

TEST(SamplingGovernor, ProgramThatCalmsDown_IntervalIsRestored) {
  Program program(kRate);
  program.Run(120, 20e9, 0);
  EXPECT_GT(program.sampling().interval, 8 * kInterval);
  program.Run(300, 10e6, 0);
  EXPECT_EQ(program.sampling().interval, kInterval);
  EXPECT_EQ(program.sampling().stack_bytes, kSnapshotBytes);
}

TEST(SamplingGovernor, NoRate_IntervalIsUnchanged) {
  Program program(0);
  program.Run(600, 500e9, 0);
  EXPECT_EQ(program.sampling().interval, kInterval);
  EXPECT_EQ(program.changes(), 0);
}

TEST(SamplingGovernor, TimeAndTotalsThatStandStill_ChangeNothing) {
  SamplingGovernor governor(kInterval, kRate);
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(governor.Update(7 * kSecond, 1u << 30, 1u << 30));
  EXPECT_FALSE(governor.Update(6 * kSecond, 1u << 30, 1u << 30));
}

}  // namespace
}  // namespace tbprof
