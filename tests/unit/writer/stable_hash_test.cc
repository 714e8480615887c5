// SPDX-License-Identifier: Apache-2.0
#include "writer/base/stable_hash.h"

#include <gtest/gtest.h>

#include <set>

namespace tbprof {
namespace {

// The values are the same in every build and process. If they change, the steps of recorded programs change.
TEST(StableHash, SameValues_GiveTheSameNumberEverywhere) {
  EXPECT_EQ(StableHash(1), 0x910a2dec89025cc1u);
  EXPECT_EQ(StableHash(1, 2), 0xbcd9dbb49673066bu);
  EXPECT_NE(StableHash(1, 2), StableHash(2, 1));
  EXPECT_NE(StableHash(0), StableHash(0, 0));
}

TEST(StableHash, SmallNumbers_DoNotCollide) {
  std::set<uint64_t> hashes;
  for (uint64_t a = 0; a < 200; ++a) {
    for (uint64_t b = 0; b < 200; ++b) hashes.insert(StableHash(a, b));
  }
  EXPECT_EQ(hashes.size(), 200u * 200u);
}

}  // namespace
}  // namespace tbprof
