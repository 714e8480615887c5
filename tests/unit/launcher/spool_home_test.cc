// SPDX-License-Identifier: Apache-2.0
#include "launcher/session/spool_home.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <filesystem>

#include "launcher/session/spools.h"

namespace tbprof {
namespace {

namespace fs = std::filesystem;
using testing::EndsWith;
using testing::StartsWith;

class SpoolHomeTest : public testing::Test {
 protected:
  SpoolHomeTest() {
    // /var/tmp is on a disk if the machine has one: a spool in memory gets another limit.
    char name[] = "/var/tmp/tbprof-test-home-XXXXXX";
    root_ = mkdtemp(name);
    chmod(root_.c_str(), 0755);
    fs::create_directory(root_ + "/logs");
    config_.logdir = root_ + "/logs";
    config_.run = "run";
  }
  ~SpoolHomeTest() override { fs::remove_all(root_); }

  ScopedFd Make() {
    absl::StatusOr<ScopedFd> file = home_.Make(config_, 0x12345);
    EXPECT_TRUE(file.ok()) << file.status();
    return file.ok() ? *std::move(file) : ScopedFd();
  }

  std::string root_;
  SessionConfig config_;
  SpoolHome home_;
};

TEST_F(SpoolHomeTest, MadeSpool_IsLockedAndHasAHeader) {
  const ScopedFd file = Make();
  EXPECT_THAT(home_.name(), StartsWith("run-"));
  EXPECT_THAT(home_.name(), EndsWith("-2345.spool"));
  EXPECT_TRUE(IsSpoolInUse(home_.path()));
  EXPECT_GT(fs::file_size(home_.path()), 0u);
}

TEST_F(SpoolHomeTest, SpoolDirectory_IsUsedWhereItIsNamed) {
  config_.spool_dir = root_ + "/elsewhere";
  const ScopedFd file = Make();
  EXPECT_EQ(fs::path(home_.path()).parent_path(), config_.spool_dir);
}

TEST_F(SpoolHomeTest, Limit_IsSharedOutInThePlan) {
  config_.spool_limit = 64 << 20;
  config_.split_ns = 1;
  const ScopedFd file = Make();
  const SpoolPlan plan = home_.Plan(config_);
  EXPECT_EQ(plan.limit, config_.spool_limit);
  EXPECT_EQ(plan.reserve, config_.spool_limit / 4);
  EXPECT_EQ(plan.split_bytes, config_.spool_limit / 8 * 5);
  EXPECT_FALSE(plan.parts_at_once);
}

TEST_F(SpoolHomeTest, RenamedDirectory_IsFoundAgain) {
  config_.spool_dir = root_ + "/elsewhere";
  const ScopedFd file = Make();
  fs::rename(config_.spool_dir, root_ + "/moved");
  EXPECT_EQ(home_.Find(file.get()), root_ + "/moved/" + home_.name());
  EXPECT_FALSE(home_.removed());
}

TEST_F(SpoolHomeTest, RemovedSpool_IsReadThroughItsDescriptor) {
  config_.spool_dir = root_ + "/elsewhere";
  const ScopedFd file = Make();
  fs::remove_all(config_.spool_dir);
  EXPECT_THAT(home_.Find(file.get()), StartsWith("/proc/"));
  EXPECT_TRUE(home_.removed());
  EXPECT_EQ(home_.directory(), -1);
}

TEST_F(SpoolHomeTest, Remove_LeavesAnEmptyLogdir) {
  const ScopedFd file = Make();
  home_.Remove(file.get());
  EXPECT_TRUE(fs::is_empty(config_.logdir));
}

}  // namespace
}  // namespace tbprof
