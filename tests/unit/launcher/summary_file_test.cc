// SPDX-License-Identifier: Apache-2.0
#include "launcher/convert/summary_file.h"

#include <gtest/gtest.h>

#include <string>

namespace tbprof {
namespace {

std::string PathOf(const std::string& path, int rank) {
  Options options;
  options.summary_json = path;
  return SummaryPath(options, rank);
}

TEST(SummaryPath, FurtherRank_HasAFileOfItsOwn) {
  EXPECT_EQ(PathOf("out.json", 3), "out_r3.json");
  EXPECT_EQ(PathOf("/a.b/out", 3), "/a.b/out_r3");
  EXPECT_EQ(PathOf("/a.b/.out", 3), "/a.b/.out_r3");
  EXPECT_EQ(PathOf("out.tar.json", 12), "out.tar_r12.json");
}

TEST(SummaryPath, OtherPaths_StayAsTheyAre) {
  EXPECT_EQ(PathOf("out.json", -1), "out.json");
  EXPECT_EQ(PathOf("/dev/stdout", 3), "/dev/stdout");
  EXPECT_EQ(PathOf("/proc/self/fd/1", 3), "/proc/self/fd/1");
  EXPECT_EQ(PathOf("", 3), "");
}

}  // namespace
}  // namespace tbprof
