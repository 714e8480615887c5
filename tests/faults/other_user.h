// SPDX-License-Identifier: Apache-2.0
//
// Another user of the machine, for tests that run as root: uid 65534 attacks, root runs tbprof. A directory of root's,
// the victim, is as it was after every attempt.
//
//   class Swapped : public OtherUserTest {};
//   TEST_F(Swapped, ForALink) { ASSERT_TRUE(AsOther([&] { return Link(victim_, theirs_ + "/logs"); })); ... }
#ifndef TBPROF_TESTS_FAULTS_OTHER_USER_H_
#define TBPROF_TESTS_FAULTS_OTHER_USER_H_

#include <grp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <functional>
#include <set>
#include <string>

#include "../integration/harness.h"

namespace tbprof::integration {

inline constexpr uid_t kOther = 65534;

// Starts a child that is the other user; it ends with 0 if `act` is true, 3 if it could not change its user.
inline pid_t StartAsOther(const std::function<bool()>& act) {
  const pid_t child = fork();
  if (child == 0) {
    if (setgroups(0, nullptr) != 0 || setgid(kOther) != 0 || setuid(kOther) != 0) _exit(3);
    _exit(act() ? 0 : 1);
  }
  return child;
}

// False: the other user's action failed.
inline bool AsOther(const std::function<bool()>& act) {
  int status = 0;
  waitpid(StartAsOther(act), &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

inline bool Rename(const std::string& from, const std::string& to) { return rename(from.c_str(), to.c_str()) == 0; }
inline bool Link(const std::string& target, const std::string& path) {
  return symlink(target.c_str(), path.c_str()) == 0;
}
// A directory that everybody can write to; `mode` with the sticky bit or without.
inline bool MakeOpenDirectory(const std::string& path, mode_t mode) {
  return mkdir(path.c_str(), 0777) == 0 && chmod(path.c_str(), mode) == 0;
}

// Names, types and contents.
inline std::string Picture(const std::string& directory) {
  std::set<std::string> lines;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    const bool plain = entry.is_regular_file() && !entry.is_symlink();
    lines.insert(entry.path().string() + "\t" + (plain ? ReadFile(entry.path()) : "-"));
  }
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

class OtherUserTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "another user's files need root";
    ASSERT_EQ(chmod(root_.path().c_str(), 0755), 0);
    ASSERT_EQ(mkdir(victim_.c_str(), 0755), 0);
    WriteFile(victim_ + "/precious", "precious\n", 0644);
    ASSERT_EQ(mkdir(theirs_.c_str(), 0755), 0);
    GiveToOther(theirs_);
    before_ = Picture(victim_);
  }
  void TearDown() override {
    if (before_.empty()) return;  // skipped
    EXPECT_EQ(Picture(victim_), before_);
  }

  static void GiveToOther(const std::string& path) { ASSERT_EQ(lchown(path.c_str(), kOther, kOther), 0) << path; }

  TemporaryDirectory root_;
  const std::string victim_ = root_ / "victim";  // root's
  const std::string theirs_ = root_ / "theirs";  // the other user's
  std::string before_;                           // the victim's picture
};

}  // namespace tbprof::integration

#endif  // TBPROF_TESTS_FAULTS_OTHER_USER_H_
