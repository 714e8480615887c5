// SPDX-License-Identifier: Apache-2.0
#include "launcher/check/path_trust.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace tbprof {
namespace {

using testing::HasSubstr;

constexpr uid_t kOther = 65534;

class PathTrustTest : public testing::Test {
 protected:
  PathTrustTest() {
    char name[] = "/tmp/path_trust.XXXXXX";
    root_ = std::filesystem::canonical(mkdtemp(name)).string();
  }
  ~PathTrustTest() override { std::filesystem::remove_all(root_); }

  std::string Make(const std::string& path, mode_t mode) {
    const std::string whole = root_ + "/" + path;
    std::filesystem::create_directories(whole);
    EXPECT_EQ(chmod(whole.c_str(), mode), 0);
    return whole;
  }
  // The shared directory because of which `directory` is not trusted.
  static SharedDirectory Shared(const std::string& directory) {
    PathTrust trust;
    EXPECT_FALSE(trust.IsOurs(directory)) << directory;
    return trust.shared().value_or(SharedDirectory());
  }

  std::string root_;
};

TEST_F(PathTrustTest, OwnDirectory_InASharedStickyOne_IsOurs) {
  PathTrust trust;
  EXPECT_TRUE(trust.IsOurs(Make("logs", 0755)));  // below /tmp
  EXPECT_TRUE(trust.IsOurs(root_ + "/logs/not/made/yet"));
  EXPECT_FALSE(trust.shared().has_value());
}

TEST_F(PathTrustTest, EveryUserMayWrite_NamesThem) {
  const std::string logs = Make("logs", 0777);
  EXPECT_EQ(Shared(logs).who, "every user");
  EXPECT_EQ(Shared(logs).path, logs);
  EXPECT_EQ(Shared(logs + "/not/made/yet").path, logs);
  EXPECT_EQ(Shared(Make("logs/plugins", 0755)).path, logs);
}

TEST_F(PathTrustTest, StickyDirectory_IsSafeAboveButNotItself) {
  const std::string logs = Make("logs", 01777);
  EXPECT_EQ(Shared(logs).path, logs);
  EXPECT_EQ(Shared(logs + "/missing").path, logs);
  PathTrust trust;
  EXPECT_TRUE(trust.IsOurs(Make("logs/plugins", 0755)));
}

TEST_F(PathTrustTest, OtherUser_OwnsDirectoryOrLink) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to give a directory away";
  const std::string logs = Make("logs", 0755);
  ASSERT_EQ(chown(logs.c_str(), kOther, kOther), 0);
  EXPECT_EQ(Shared(logs).who, "uid 65534");
  EXPECT_THAT(Shared(Make("logs/plugins", 0755)).advice, HasSubstr("as that user"));
  Make("real", 0755);
  const std::string link = root_ + "/link";
  std::filesystem::create_directory_symlink("real", link);
  PathTrust trust;
  EXPECT_TRUE(trust.IsOurs(link));
  ASSERT_EQ(lchown(link.c_str(), kOther, kOther), 0);
  EXPECT_EQ(Shared(link).who, "a link's owner");
}

TEST_F(PathTrustTest, GroupMayWrite_IsSafeInAPrivateGroupAlone) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to give a directory to a group";
  const std::string logs = Make("logs", 0775);
  PathTrust trust;
  EXPECT_TRUE(trust.IsOurs(logs));  // root's own
  ASSERT_EQ(chown(logs.c_str(), 0, 12345), 0);
  ASSERT_EQ(chmod(logs.c_str(), 0775), 0);
  EXPECT_EQ(Shared(logs).who, "group 12345");
}

}  // namespace
}  // namespace tbprof
