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

TEST(ReadAll, ThereIsRoomForMoreOrLess) {
  std::string path = std::filesystem::temp_directory_path().string() + "/file_ops_test.XXXXXX";
  const FileDescriptor made(mkstemp(path.data()));
  ASSERT_GE(made.get(), 0);
  std::ofstream(path) << "0123456789";
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::filesystem::remove(path);
  for (const size_t room : {0, 4, 10, 4000}) {
    std::string bytes(room, 'x');
    ASSERT_TRUE(ReadAll(file.get(), &bytes, path).ok());
    EXPECT_EQ(bytes, std::string("0123456789").substr(0, room));
  }
}

TEST(ReadAll, AnErrorIsNotTheEnd) {
  const FileDescriptor file(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  std::string bytes(10, 'x');
  const absl::Status status = ReadAll(file.get(), &bytes, "/");
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.message(), "cannot read /: Is a directory");
}

}  // namespace
}  // namespace tbprof
