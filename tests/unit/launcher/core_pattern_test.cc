// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/core_pattern.h"

#include <gtest/gtest.h>

#include <string>

namespace tbprof {
namespace {

std::string PathOf(const char* pattern, bool uses_pid = false) {
  return ParseCorePattern(pattern, uses_pid).PathOf(42);
}

TEST(CorePattern, PlainName_IsRelative) {
  const CorePattern pattern = ParseCorePattern("core\n", false);
  EXPECT_EQ(pattern.kind(), CorePattern::kFile);
  EXPECT_TRUE(pattern.is_relative());
  EXPECT_EQ(pattern.PathOf(42), "core");
  EXPECT_FALSE(ParseCorePattern("/var/core", false).is_relative());
}

TEST(CorePattern, UsesPid_IsAddedWhereThePatternHasNone) {
  EXPECT_EQ(PathOf("core", true), "core.42");
  EXPECT_EQ(PathOf("core.%p", true), "core.42");
  EXPECT_EQ(PathOf("core.%%p", true), "core.%p.42");
  EXPECT_EQ(PathOf("", true), ".42");
  EXPECT_EQ(ParseCorePattern("\n", false).kind(), CorePattern::kNone);
}

TEST(CorePattern, WhatOnlyTheKernelKnew_IsAWildcard) {
  EXPECT_EQ(PathOf("/c/%e.%p.%t"), "/c/*.42.*");
  EXPECT_EQ(PathOf("%E%s%u-%P"), "*-*");
  EXPECT_TRUE(HasWildcard(PathOf("core.%h")));
  EXPECT_FALSE(HasWildcard(PathOf("core.%p")));
}

TEST(CorePattern, SignsOfItsOwn_MeanThemselves) {
  EXPECT_EQ(PathOf("a*b?[%p"), "a\\*b\\?\\[42");
  EXPECT_FALSE(HasWildcard(PathOf("a*b")));
  EXPECT_EQ(UnescapedPath(PathOf("a*b\\")), "a*b\\");
  EXPECT_EQ(PathOf("100%%"), "100%");
  EXPECT_EQ(PathOf("core%"), "core");
  EXPECT_EQ(PathOf("core%Z"), "core");
}

TEST(EscapedPath, SignsOfPatterns_MeanThemselves) {
  EXPECT_EQ(EscapedPath("/a*b?[c]\\d"), "/a\\*b\\?\\[c]\\\\d");
  for (const char* path : {"", "/plain", "*", "\\", "/a[b]*?\\*"}) {
    EXPECT_FALSE(HasWildcard(EscapedPath(path))) << path;
    EXPECT_EQ(UnescapedPath(EscapedPath(path)), path);
  }
}

TEST(CorePattern, Pipe_NamesItsProgram) {
  const CorePattern pattern = ParseCorePattern("|/usr/lib/systemd/systemd-coredump %P %u %g\n", true);
  EXPECT_EQ(pattern.kind(), CorePattern::kPipe);
  EXPECT_EQ(pattern.program(), "/usr/lib/systemd/systemd-coredump");
  EXPECT_FALSE(pattern.is_relative());
}

}  // namespace
}  // namespace tbprof
