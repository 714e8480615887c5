// SPDX-License-Identifier: Apache-2.0
//
// CRC-32C against its published vectors and a bit-by-bit reference.
#include <cstring>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "writer/base/crc32c.h"

namespace tbprof {
namespace {

uint32_t Reference(uint32_t crc, const std::string& bytes) {
  crc = ~crc;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0);
  }
  return ~crc;
}

// RFC 3720, B.4.
TEST(Crc32c, PublishedVectors_GiveThePublishedSums) {
  EXPECT_EQ(Crc32c(0, "123456789", 9), 0xe3069283u);
  EXPECT_EQ(Crc32c(0, std::string(32, '\0').data(), 32), 0x8a9136aau);
  EXPECT_EQ(Crc32c(0, std::string(32, '\xff').data(), 32), 0x62a8ab43u);
  std::string up(32, '\0');
  for (size_t i = 0; i < up.size(); ++i) up[i] = static_cast<char>(i);
  EXPECT_EQ(Crc32c(0, up.data(), up.size()), 0x46dd794eu);
  EXPECT_EQ(Crc32c(0, nullptr, 0), 0u);
}

TEST(Crc32c, EachLengthAlignmentAndSplit_GivesTheSameSum) {
  std::mt19937 random(2);
  std::string bytes(300, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  for (size_t from = 0; from < 9; ++from) {
    for (size_t length = 0; from + length <= 200; ++length) {
      const std::string part = bytes.substr(from, length);
      const uint32_t whole = Crc32c(0, bytes.data() + from, length);
      ASSERT_EQ(whole, Reference(0, part)) << from << " " << length;
      const size_t split = length == 0 ? 0 : random() % length;
      ASSERT_EQ(Crc32c(Crc32c(0, part.data(), split), part.data() + split, length - split), whole);
    }
  }
}

// Inputs so long that the checksums of several lanes are combined.
TEST(Crc32c, LongInput_EqualsTheReference) {
  std::mt19937 random(3);
  std::string bytes(70'000, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  for (const size_t length : {2047u, 6143u, 6144u, 6145u, 12'287u, 12'288u, 12'295u, 65'536u, 69'990u}) {
    for (const size_t from : {0u, 1u, 7u}) {
      const std::string part = bytes.substr(from, length);
      ASSERT_EQ(Crc32c(0, part.data(), part.size()), Reference(0, part)) << from << " " << length;
      ASSERT_EQ(Crc32c(Crc32c(0, part.data(), 5), part.data() + 5, part.size() - 5), Reference(0, part)) << length;
    }
  }
}

}  // namespace
}  // namespace tbprof
