// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/sampler_commands.h"

#include <fcntl.h>
#include <unistd.h>

#include <optional>
#include <thread>

#include <gtest/gtest.h>

namespace tbprof {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using Command = SamplerCommands::Command;

TEST(SamplerCommandsTest, Commands_ComeInTheirOrderAndOnce) {
  SamplerCommands commands;
  const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  commands.AddProcess({.segment = 1, .serial = 2, .pid = 3, .pidfd = fd});
  commands.SetArmed(true);
  commands.RemoveProcess(1, 2);
  const SamplerCommands::Batch batch = commands.Wait(std::nullopt);
  ASSERT_EQ(batch.commands.size(), 3u);
  EXPECT_EQ(batch.commands[0].kind, Command::kAdd);
  EXPECT_EQ(batch.commands[0].process.pid, 3);
  EXPECT_NE(batch.commands[0].process.pidfd, fd) << "a copy";
  EXPECT_EQ(batch.commands[1].kind, Command::kArm);
  EXPECT_EQ(batch.commands[2].kind, Command::kRemove);
  EXPECT_FALSE(batch.flush || batch.stop);
  EXPECT_TRUE(commands.Wait(std::chrono::steady_clock::now()).commands.empty());
  close(batch.commands[0].process.pidfd);
  close(fd);
}

TEST(SamplerCommandsTest, Flush_ReturnsWhenItsBatchIsDone) {
  SamplerCommands commands;
  bool emitted = false;
  std::thread sampler([&] {
    for (;;) {
      const SamplerCommands::Batch batch = commands.Wait(std::nullopt);
      if (batch.flush) emitted = true;
      commands.Done(batch);
      if (batch.stop) return;
    }
  });
  EXPECT_TRUE(commands.Flush(minutes(5)));
  EXPECT_TRUE(emitted);
  commands.Stop();
  sampler.join();
  EXPECT_FALSE(commands.Flush(milliseconds(1))) << "the thread has ended";
}

}  // namespace
}  // namespace tbprof
