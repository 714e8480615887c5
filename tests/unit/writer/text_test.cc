// SPDX-License-Identifier: Apache-2.0
#include "writer/base/text.h"

#include <gtest/gtest.h>

namespace tbprof {
namespace {

TEST(BaseName, Path_EndsInItsName) {
  EXPECT_EQ(BaseName("/usr/lib/libc.so.6"), "libc.so.6");
  EXPECT_EQ(BaseName("name"), "name");
  EXPECT_EQ(BaseName("/usr/"), "");
  EXPECT_EQ(BaseName(""), "");
}

TEST(WithoutDeleted, MarkAtTheEnd_IsRemovedOnce) {
  EXPECT_EQ(WithoutDeleted("/usr/bin/x (deleted)"), "/usr/bin/x");
  EXPECT_EQ(WithoutDeleted("/usr/bin/x (deleted) (deleted)"), "/usr/bin/x (deleted)");
  EXPECT_EQ(WithoutDeleted("/a (deleted)/x"), "/a (deleted)/x");
  EXPECT_EQ(WithoutDeleted("x(deleted)"), "x(deleted)");
  EXPECT_EQ(WithoutDeleted(" (deleted)"), "");
  EXPECT_EQ(WithoutDeleted(""), "");
}

}  // namespace
}  // namespace tbprof
