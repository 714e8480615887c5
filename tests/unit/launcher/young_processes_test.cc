// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/young_processes.h"

#include <fcntl.h>
#include <gtest/gtest.h>

namespace tbprof {
namespace {

using Time = YoungProcesses::Time;
constexpr auto kYouth = YoungProcesses::kYouth;

SampledProcess Process(uint32_t serial) { return {1, serial, 100, open("/dev/null", O_RDONLY | O_CLOEXEC)}; }
bool IsOpen(int fd) { return fcntl(fd, F_GETFD) >= 0; }

TEST(YoungProcesses, Grown_AreTakenOnceInTheirOrder) {
  YoungProcesses young;
  const Time start = Time::clock::now();
  for (uint32_t serial = 1; serial <= 3; ++serial) {
    young.Add(Process(serial), start + std::chrono::milliseconds(serial));
  }
  const Time first = start + std::chrono::milliseconds(1) + kYouth;
  EXPECT_EQ(young.NextWake(/*others=*/false, start), first);
  EXPECT_EQ(young.NextWake(/*others=*/true, start), start);
  EXPECT_EQ(young.NextWake(/*others=*/true, start + 2 * kYouth), first);
  EXPECT_TRUE(young.TakeGrown(start + kYouth).empty());
  const std::vector<SampledProcess> grown = young.TakeGrown(start + kYouth + std::chrono::milliseconds(2));
  ASSERT_EQ(grown.size(), 2u);
  EXPECT_EQ(grown[0].serial, 1u);
  EXPECT_EQ(grown[1].serial, 2u);
  for (const SampledProcess& process : grown) EXPECT_EQ(close(process.pidfd), 0) << "it is the caller's";
  EXPECT_FALSE(young.empty());
}

TEST(YoungProcesses, OneThatEndsBefore_IsNeverTaken) {
  YoungProcesses young;
  const Time start = Time::clock::now();
  const SampledProcess process = Process(7);
  young.Add(process, start);
  young.Remove(1, 8);
  young.Remove(2, 7);
  EXPECT_FALSE(young.empty());
  young.Remove(1, 7);
  EXPECT_TRUE(young.empty());
  EXPECT_FALSE(IsOpen(process.pidfd));
  EXPECT_TRUE(young.TakeGrown(start + 2 * kYouth).empty());
}

}  // namespace
}  // namespace tbprof
