// SPDX-License-Identifier: Apache-2.0
#include "writer/base/parse_number.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace tbprof {
namespace {

TEST(ParseNumber, WholeText_IsNumber_GivesIt) {
  EXPECT_EQ(ParseNumber<int>("6009"), 6009);
  EXPECT_EQ(ParseNumber<int>("-1"), -1);
  EXPECT_EQ(ParseNumber<uint32_t>("4294967295"), UINT32_MAX);
}

TEST(ParseNumber, OtherText_GivesNothing) {
  for (const char* text : {"", "+1", " 1", "1 ", "1x", "x", "2147483648"})
    EXPECT_EQ(ParseNumber<int>(text), std::nullopt) << text;
  EXPECT_EQ(ParseNumber<uint32_t>("-1"), std::nullopt);
}

TEST(TakeNumber, NumberInFront_IsRemoved) {
  std::string_view text = "12KiB";
  EXPECT_EQ(TakeNumber<uint64_t>(&text), 12u);
  EXPECT_EQ(text, "KiB");
  EXPECT_EQ(TakeNumber<uint64_t>(&text), std::nullopt);
  EXPECT_EQ(text, "KiB");
  EXPECT_EQ(LeadingNumber<int>("7 of 9"), 7);
}

}  // namespace
}  // namespace tbprof
