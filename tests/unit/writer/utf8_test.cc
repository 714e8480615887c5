// SPDX-License-Identifier: Apache-2.0
#include "writer/base/utf8.h"

#include <google/protobuf/stubs/common.h>
#include <gtest/gtest.h>

#include <random>

#include "writer/timeline/timeline.h"

namespace tbprof {
namespace {

bool ProtobufAccepts(const std::string& text) {
  return google::protobuf::internal::IsStructurallyValidUTF8(text.data(), static_cast<int>(text.size()));
}

TEST(Utf8, RandomBytes_AgreeWithProtobuf) {
  std::mt19937 random(7);
  for (int i = 0; i < 200'000; ++i) {
    std::string text(random() % 6, '\0');
    // Bytes at the limits of the encoding's ranges.
    static constexpr unsigned char kBytes[] = {0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF,
                                               0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC, 0xED, 0xEE,
                                               0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF};
    for (char& c : text) c = static_cast<char>(kBytes[random() % sizeof(kBytes)]);
    const bool valid = ValidUtf8Prefix(text) == text.size();
    ASSERT_EQ(valid, ProtobufAccepts(text)) << testing::PrintToString(text);
    ASSERT_TRUE(ProtobufAccepts(ValidUtf8(text)));
    ASSERT_TRUE(ProtobufAccepts(PrintableUtf8(text)));
    if (valid) {
      ASSERT_EQ(ValidUtf8(text), text);
    }
  }
}

TEST(Utf8, InvalidBytes_AreShownEscaped) {
  EXPECT_EQ(ValidUtf8("a\xff"
                      "b"),
            "a\\xffb");
  EXPECT_EQ(ValidUtf8("tab\there"), "tab\there");
  EXPECT_EQ(PrintableUtf8("a\nb\tc\x1b[31m\x7f"), "a\\nb\\tc\\x1b[31m\\x7f");
  EXPECT_EQ(PrintableUtf8("\xc2\x9b"
                          "31m"),
            "\\xc2\\x9b31m");  // C1: an escape sequence in one character
  EXPECT_EQ(PrintableUtf8("\xe2\x80\xae"
                          "x"),
            "\\xe2\\x80\\xaex");  // right-to-left override
  EXPECT_EQ(PrintableUtf8("grün €"), "grün €");
}

TEST(Utf8, Truncate_CutsBetweenCharacters) {
  EXPECT_EQ(TruncateUtf8("€€", 5), "€");
  EXPECT_EQ(TruncateUtf8("€€", 6), "€€");
  EXPECT_EQ(TruncateUtf8("€", 2), "");
  EXPECT_EQ(Utf8Columns("a€b"), 3u);
  EXPECT_EQ(FitColumns("abcdefghij", 5), "abcd…");
  EXPECT_EQ(FitColumns("abcdefghij", 5, true), "ab…ij");
  EXPECT_EQ(FitColumns("€€€", 3), "€€€");
  EXPECT_EQ(FitColumns("€€€€", 3), "€€…");
  EXPECT_EQ(FitColumns("abc", 0), "");
}

TEST(StringTable, Intern_InvalidText_IsStoredEscaped) {
  StringTable table;
  EXPECT_EQ(table.Intern(""), 0u);
  const StringId id = table.Intern("x\xfe");
  EXPECT_EQ(table.Get(id), "x\\xfe");
  EXPECT_EQ(table.Intern("x\xfe"), id);
  for (int i = 0; i < 10'000; ++i) table.Intern(std::to_string(i));
  EXPECT_EQ(table.Get(id), "x\\xfe");
  EXPECT_EQ(table.Get(table.Intern("77")), "77");
}

}  // namespace
}  // namespace tbprof
