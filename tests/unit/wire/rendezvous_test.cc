// SPDX-License-Identifier: Apache-2.0
//
// The session variable: the library reads it inside programs that may set it to any value.
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "wire/rendezvous.h"

namespace tbprof {
namespace {

constexpr char kGood[] =
    "4;/tmp/tbprof-AbCdEf/s;deadbeef01234567;2;63;3000;524288;1048576;30000;1024;77;1;10;3;5;16;1;"
    "fedcba9876543210;255;900";

// kGood with field `index` (0: the version) replaced.
std::string With(size_t index, const std::string& text) {
  std::vector<std::string> fields(1);
  for (const char* at = kGood; *at != '\0'; ++at) {
    if (*at == ';') {
      fields.emplace_back();
    } else {
      fields.back() += *at;
    }
  }
  fields[index] = text;
  std::string joined;
  for (size_t i = 0; i < fields.size(); ++i) joined += (i == 0 ? "" : ";") + fields[i];
  return joined;
}

bool Parses(const std::string& text) {
  SessionVariable session;
  memset(&session, 0xee, sizeof(session));
  return ParseSessionVariable(text.c_str(), &session);
}

TEST(SessionVariableText, ValidText_IsParsed) {
  SessionVariable session;
  ASSERT_TRUE(ParseSessionVariable(kGood, &session));
  EXPECT_STREQ(session.socket_path, "/tmp/tbprof-AbCdEf/s");
  EXPECT_EQ(session.nonce, 0xdeadbeef01234567u);
  EXPECT_EQ(session.clock_kind, 2u);
  EXPECT_EQ(session.families, 63u);
  EXPECT_EQ(session.wait_threshold_ticks, 3000u);
  EXPECT_EQ(session.malloc_interval, 524288u);
  EXPECT_EQ(session.large_allocation, 1048576u);
  EXPECT_EQ(session.slow_allocation_ticks, 30000u);
  EXPECT_EQ(session.chunks, 1024u);
  EXPECT_EQ(session.only_child_of, 77u);
  EXPECT_EQ(session.record_arguments, 1u);
  EXPECT_EQ(session.handle_signal, 10u);
  EXPECT_EQ(session.seccomp_filters, 3u);
  EXPECT_EQ(session.gpu_options, 5u);
  EXPECT_EQ(session.malloc_stamp_every, 16u);
  EXPECT_EQ(session.trigger_kind, 1u);
  EXPECT_EQ(session.trigger_name, 0xfedcba9876543210u);
  EXPECT_EQ(session.trigger_families, 255u);
  EXPECT_EQ(session.python_wait_ticks, 900u);
}

TEST(SeccompFiltersTest, SeccompStatus_FiltersAreCounted) {
  EXPECT_EQ(SeccompFilters(""), 0u);
  EXPECT_EQ(SeccompFilters("Name:\tx\nThreads:\t1\n"), 0u);
  EXPECT_EQ(SeccompFilters("Name:\tSeccomp:\t7\nSeccomp:\t0\nSeccomp_filters:\t0\n"), 0u);
  EXPECT_EQ(SeccompFilters("Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t13\nCpus:\t1\n"), 13u);
  EXPECT_EQ(SeccompFilters("Name:\tx\nSeccomp:\t2\nCpus:\t1\n"), 2u) << "before Linux 5.9";
}

TEST(SessionVariableText, EachPrefix_IsRefused) {
  const std::string good = kGood;
  for (size_t length = 0; length + 2 < good.size(); ++length) {
    EXPECT_FALSE(Parses(good.substr(0, length))) << good.substr(0, length);
  }
  EXPECT_TRUE(Parses(good));
}

TEST(SessionVariableText, MalformedText_IsRefused) {
  SessionVariable session;
  EXPECT_FALSE(ParseSessionVariable(nullptr, &session));
  for (const char* text : {"", "4", "4;", ";", "3;/s;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1",
                           "44;/s;1;1;1;1;1;1;1;1;1;1;1;1;1;1", " 3;/s", "3:/s:1:1:1:1:1:1:1:1:1:1:1:1:1:1"}) {
    EXPECT_FALSE(Parses(text)) << text;
  }
  EXPECT_FALSE(Parses(With(1, ""))) << "no path";
  for (size_t field = 2; field <= 15; ++field) {
    for (const char* text : {"", " 1", "1 ", "-1", "+1", "0x10", "1.0", "g", "1,", "A", "\xff", "1\n"}) {
      EXPECT_FALSE(Parses(With(field, text))) << field << " " << text;
    }
    if (field > 2) {
      EXPECT_FALSE(Parses(With(field, "a"))) << field << ": hexadecimal is for the nonce";
    }
  }
  EXPECT_FALSE(Parses(With(3, "0"))) << "no such clock";
  EXPECT_FALSE(Parses(With(3, "3"))) << "no such clock";
}

TEST(SessionVariableText, MoreFields_AreAnotherVersion) {
  EXPECT_FALSE(Parses(std::string(kGood) + ";1"));
  EXPECT_FALSE(Parses(std::string(kGood) + ";rubbish"));
}

TEST(SessionVariableText, LongestPath_IsParsed) {
  EXPECT_TRUE(Parses(With(1, std::string(kMaxSocketPath, 'p'))));
  EXPECT_FALSE(Parses(With(1, std::string(kMaxSocketPath + 1, 'p'))));
  EXPECT_FALSE(Parses("4;" + std::string(100000, 'p')));
}

TEST(SessionVariableText, NumberOverflow_IsRefused) {
  EXPECT_TRUE(Parses(With(2, "ffffffffffffffff")));
  EXPECT_FALSE(Parses(With(2, "10000000000000000")));
  EXPECT_TRUE(Parses(With(5, "18446744073709551615")));
  EXPECT_FALSE(Parses(With(5, "18446744073709551616")));
  EXPECT_FALSE(Parses(With(5, std::string(1000, '9'))));
  // A value that does not fit into 32 bits is refused, not truncated.
  for (const size_t field : {3u, 4u, 9u, 10u, 11u, 12u}) {
    EXPECT_FALSE(Parses(With(field, "4294967297"))) << field;
  }
  EXPECT_TRUE(Parses(With(9, "4294967295")));
}

TEST(SessionVariableText, RandomTexts_DoNotCrash) {
  uint64_t state = 7;
  const auto next = [&] { return state = state * 6364136223846793005 + 1442695040888963407, state >> 33; };
  for (int round = 0; round < 200000; ++round) {
    std::string text = kGood;
    for (uint64_t i = 0, changes = 1 + next() % 4; i < changes && !text.empty(); ++i) {
      const size_t at = next() % text.size();
      switch (next() % 4) {
        case 0:
          text[at] = static_cast<char>(1 + next() % 255);
          break;
        case 1:
          text.erase(at, 1 + next() % 8);
          break;
        case 2:
          text.insert(at, text.substr(0, next() % text.size()));
          break;
        default:
          text.resize(at);
      }
    }
    SessionVariable session;
    if (!ParseSessionVariable(text.c_str(), &session)) continue;
    EXPECT_LE(strlen(session.socket_path), kMaxSocketPath);
    EXPECT_TRUE(session.clock_kind == 1 || session.clock_kind == 2);
  }
}

TEST(SessionVariableText, Hello_HasAFixedLayout) {
  EXPECT_EQ(sizeof(Hello), 32u);
  EXPECT_EQ(memcmp(&kHelloMagic, "TBPHELO1", 8), 0);
}

}  // namespace
}  // namespace tbprof
