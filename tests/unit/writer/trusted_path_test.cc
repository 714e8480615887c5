// SPDX-License-Identifier: Apache-2.0
#include "writer/base/trusted_path.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace tbprof {
namespace {

namespace fs = std::filesystem;

class TrustedPath : public testing::Test {
 protected:
  TrustedPath() {
    std::string pattern = testing::TempDir() + "/trusted_path_XXXXXX";
    root_ = fs::canonical(mkdtemp(pattern.data())).string();
    chmod(root_.c_str(), 0755);
    fs::create_directories(root_ + "/real/deep");
  }
  ~TrustedPath() override { fs::remove_all(root_); }

  // The directory at which the walk ends, or the error message.
  std::string Walk(const std::string& path, const DirectoryWalk& walk = {}) const {
    const absl::StatusOr<ScopedFd> fd = OpenDirectoryTrusted(path, walk);
    return fd.ok() ? PathOfDirectory(fd->get()) : std::string(fd.status().message());
  }
  void Write(const std::string& name, const std::string& text) const { std::ofstream(root_ + "/" + name) << text; }
  std::string Read(const std::string& name) const {
    std::ifstream in(root_ + "/" + name);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::string root_;
};

TEST_F(TrustedPath, Walk_OwnLinks_AreFollowed) {
  fs::create_directory_symlink("real", root_ + "/relative");
  fs::create_directory_symlink(root_ + "/real/deep", root_ + "/absolute");
  fs::create_directory_symlink("../relative/deep/..", root_ + "/real/up");
  EXPECT_EQ(Walk(root_ + "/real/deep"), root_ + "/real/deep");
  EXPECT_EQ(Walk(root_ + "/relative/deep"), root_ + "/real/deep");
  EXPECT_EQ(Walk(root_ + "/absolute"), root_ + "/real/deep");
  EXPECT_EQ(Walk(root_ + "//./real/up"), root_ + "/real");
  EXPECT_EQ(Walk("/"), "/");
  EXPECT_EQ(Walk("/proc/self/root"), "/");
}

TEST_F(TrustedPath, Walk_LoopsAndLinksOfOtherUsers_AreRefused) {
  fs::create_symlink("loop", root_ + "/loop");
  EXPECT_NE(Walk(root_ + "/loop").find("Too many levels"), std::string::npos);
  if (geteuid() != 0) return;
  fs::create_directory_symlink("real", root_ + "/theirs");
  ASSERT_EQ(lchown((root_ + "/theirs").c_str(), 65534, 65534), 0);
  const absl::Status status = OpenDirectoryTrusted(root_ + "/theirs/deep").status();
  EXPECT_TRUE(IsUntrusted(status)) << status;
  EXPECT_NE(std::string(status.message()).find(root_ + "/theirs is a symbolic link of uid 65534"), std::string::npos);
}

TEST_F(TrustedPath, Walk_LinkBelow_IsNotFollowed) {
  fs::create_directory_symlink("real", root_ + "/link");
  fs::create_directory_symlink("deep", root_ + "/real/link");
  DirectoryWalk walk;
  walk.no_links_below = root_ + "/real";
  EXPECT_EQ(Walk(root_ + "/real/deep", walk), root_ + "/real/deep");
  EXPECT_NE(Walk(root_ + "/real/link", walk).find("is a symbolic link"), std::string::npos);
}

TEST_F(TrustedPath, Walk_MissingDirectories_AreMade) {
  DirectoryWalk walk;
  bool made = false;
  walk.make = true;
  walk.made = &made;
  fs::create_directory_symlink("real/made", root_ + "/dangling");
  EXPECT_EQ(Walk(root_ + "/dangling/a", walk), root_ + "/real/made/a");
  EXPECT_TRUE(made);
  EXPECT_EQ(Walk(root_ + "/dangling/a", walk), root_ + "/real/made/a");
  EXPECT_FALSE(made);
  EXPECT_NE(Walk(root_ + "/none").find("No such file"), std::string::npos);
}

TEST_F(TrustedPath, OpenForWriting_AppendOrTruncate_IsApplied) {
  Write("file", "old ");
  for (const int flag : {O_APPEND, O_TRUNC}) {
    const absl::StatusOr<ScopedFd> file = OpenForWriting(root_ + "/file", flag);
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE(WriteAll(file->get(), "new", "file").ok());
    EXPECT_EQ(Read("file"), flag == O_APPEND ? "old new" : "new");
  }
}

TEST_F(TrustedPath, OpenForWriting_SharedDirectory_IsChecked) {
  chmod((root_ + "/real").c_str(), 01777);
  Write("file", "text");
  fs::create_hard_link(root_ + "/file", root_ + "/hard");
  fs::create_hard_link(root_ + "/file", root_ + "/real/hard");
  EXPECT_TRUE(OpenForWriting(root_ + "/hard", O_TRUNC).ok()) << "the caller's own directory";
  Write("file", "text");
  EXPECT_TRUE(IsUntrusted(OpenForWriting(root_ + "/real/hard", O_TRUNC).status()));
  EXPECT_EQ(Read("file"), "text") << "emptied before it was checked";
  Write("real/own", "text");
  EXPECT_TRUE(OpenForWriting(root_ + "/real/own", O_TRUNC).ok());
  EXPECT_TRUE(OpenForWriting("/dev/null", O_TRUNC).ok());
  EXPECT_FALSE(OpenForWriting(root_ + "/real", O_TRUNC).ok());
  EXPECT_FALSE(OpenForWriting(root_ + "/none/x", O_TRUNC).ok());
  EXPECT_FALSE(OpenForWriting("", O_TRUNC).ok());
}

TEST_F(TrustedPath, OpenBeneath_PathThatLeadsOut_IsRefused) {
  fs::create_directory_symlink("/etc", root_ + "/real/out");
  Write("real/deep/file", "text");
  const absl::StatusOr<ScopedFd> real = OpenDirectoryTrusted(root_ + "/real");
  EXPECT_TRUE(OpenBeneath(real->get(), "deep/file", O_RDONLY).ok());
  EXPECT_FALSE(OpenBeneath(real->get(), "out/passwd", O_RDONLY).ok());
  EXPECT_FALSE(OpenBeneath(real->get(), "../real/deep/file", O_RDONLY).ok());
  EXPECT_FALSE(OpenBeneath(real->get(), "out", O_RDONLY | O_DIRECTORY).ok());
}

TEST_F(TrustedPath, IsRemoved_RenamedDirectory_IsFalse) {
  const absl::StatusOr<ScopedFd> deep = OpenDirectoryTrusted(root_ + "/real/deep");
  fs::rename(root_ + "/real/deep", root_ + "/real/deep (deleted)");
  EXPECT_FALSE(IsRemoved(deep->get()));
  fs::rename(root_ + "/real/deep (deleted)", root_ + "/moved");
  EXPECT_FALSE(IsRemoved(deep->get()));
  EXPECT_EQ(PathOfDirectory(deep->get()), root_ + "/moved");
  fs::remove(root_ + "/moved");
  EXPECT_TRUE(IsRemoved(deep->get()));
  EXPECT_EQ(PathOfDirectory(deep->get()), "");
}

TEST_F(TrustedPath, OpenPrivateDirectory_OtherUsersHaveNoAccess) {
  const absl::StatusOr<ScopedFd> root = OpenDirectoryTrusted(root_);
  std::string name;
  ASSERT_TRUE(OpenPrivateDirectory(root->get(), "mine", &name).ok());
  EXPECT_EQ(name, "mine");
  ASSERT_TRUE(OpenPrivateDirectory(root->get(), "mine", &name).ok());
  EXPECT_EQ(name, "mine") << "used again";
  chmod((root_ + "/mine").c_str(), 0777);
  ASSERT_TRUE(OpenPrivateDirectory(root->get(), "mine", &name).ok());
  EXPECT_NE(name, "mine");
  struct stat facts;
  ASSERT_EQ(stat((root_ + "/" + name).c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 07777, 0700u);
}

}  // namespace
}  // namespace tbprof
