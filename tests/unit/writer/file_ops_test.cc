// SPDX-License-Identifier: Apache-2.0
#include "writer/base/file_ops.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace tbprof {
namespace {

TEST(ReadAll, MoreOrLessRoomThanBytes_ReadsUpToTheEnd) {
  std::string path = std::filesystem::temp_directory_path().string() + "/file_ops_test.XXXXXX";
  const ScopedFd made(mkstemp(path.data()));
  ASSERT_GE(made.get(), 0);
  std::ofstream(path) << "0123456789";
  const ScopedFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::filesystem::remove(path);
  for (const size_t room : {0, 4, 10, 4000}) {
    std::string bytes(room, 'x');
    ASSERT_TRUE(ReadAll(file.get(), &bytes, path).ok());
    EXPECT_EQ(bytes, std::string("0123456789").substr(0, room));
  }
}

TEST(ReadAll, ReadError_IsNotTheEnd) {
  const ScopedFd file(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  std::string bytes(10, 'x');
  const absl::Status status = ReadAll(file.get(), &bytes, "/");
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.message(), "cannot read /: Is a directory");
}

class FileSinkTest : public testing::Test {
 protected:
  FileSinkTest() : file_(mkstemp(path_.data())) {}
  ~FileSinkTest() override { std::filesystem::remove(path_); }
  std::string Content() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::string path_ = std::filesystem::temp_directory_path().string() + "/file_ops_test.XXXXXX";
  ScopedFd file_;
};

TEST_F(FileSinkTest, Append_PiecesOfAllSizes_FileHoldsThemInOrderAfterFlush) {
  FileSink sink(file_.get(), path_, UINT64_MAX);
  std::string all;
  for (const size_t size : {1, 30, 65535, 1, 65536, 65537, 7, 5 << 20, 0, 3}) {
    const std::string piece(size, static_cast<char>('a' + all.size() % 26));
    ASSERT_TRUE(sink.Append(piece).ok());
    all += piece;
    EXPECT_EQ(sink.bytes(), all.size());
  }
  ASSERT_TRUE(sink.Flush().ok());
  EXPECT_EQ(Content(), all);
}

TEST_F(FileSinkTest, Append_ManySmallPieces_OneWrite) {
  // Every write to /dev/full fails; bytes that are only buffered cause no error.
  const ScopedFd full(open("/dev/full", O_WRONLY | O_CLOEXEC));
  FileSink sink(full.get(), "/dev/full", UINT64_MAX);
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(sink.Append("30 bytes of a short process...").ok());
  const absl::Status status = sink.Flush();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
}

TEST_F(FileSinkTest, Append_BeyondTheLimit_CountedAndNotWritten) {
  FileSink sink(file_.get(), path_, 100);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(sink.Append(std::string(50, 'x')).ok());
  EXPECT_EQ(sink.bytes(), 500u);
  ASSERT_TRUE(sink.Append(std::string(100'000, 'x')).ok());
  EXPECT_EQ(sink.bytes(), 100'500u);
  EXPECT_LE(Content().size(), 200u);
}

}  // namespace
}  // namespace tbprof
