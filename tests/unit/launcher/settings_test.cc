// SPDX-License-Identifier: Apache-2.0
//
// Each row of wire/settings.def: from the command line to the session variable and the session record, and back.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "launcher/cli/options.h"
#include "launcher/cli/terminal.h"
#include "launcher/run/run_setup.h"
#include "launcher/session/rendezvous.h"
#include "writer/convert/session_facts.h"

namespace tbprof {
namespace {

SessionVariable GoodVariable() {
  SessionVariable variable{};
  strcpy(variable.socket_path, "/tmp/s");
  VisitNumbers(variable, []<typename Number>(Number& number, uint32_t, uint64_t low, uint64_t) {
    number = static_cast<Number>(low);
    return true;
  });
  return variable;
}

bool Parse(const std::string& text, SessionVariable* variable) {
  return ParseSessionVariable(text.c_str() + text.find('=') + 1, variable);
}

TEST(SettingsTest, SessionVariable_BoundsOfEachNumber_ComeBack) {
#define TBPROF_TARGET(type, name, base, low, high, meaning)                    \
  for (const uint64_t bound : {uint64_t{low}, uint64_t{high}}) {               \
    SessionVariable variable = GoodVariable(), parsed;                         \
    variable.name = static_cast<type>(bound);                                  \
    ASSERT_TRUE(Parse(FormatSessionVariable(variable), &parsed)) << #name;     \
    EXPECT_EQ(parsed.name, bound) << #name;                                    \
    EXPECT_EQ(FormatSessionVariable(parsed), FormatSessionVariable(variable)); \
  }
#define TBPROF_OPTION(type, name, preset, absent, low, high, option, meaning) \
  TBPROF_TARGET(type, name, 10, low, high, meaning)
#include "wire/settings.def"
}

TEST(SettingsTest, SessionVariable_TextOfVersion4_IsUnchanged) {
  const std::string text =
      "TBPROF_SESSION=4;/tmp/s;deadbeef01234567;2;63;3000;524288;1048576;30000;1024;77;1;10;3;5;16;1;fedcba9876543210;"
      "255;900";
  SessionVariable variable{};
  ASSERT_TRUE(Parse(text, &variable));
  EXPECT_EQ(FormatSessionVariable(variable), text);
}

TEST(SettingsTest, SessionVariable_OutsideTheBounds_IsRefused) {
  int refused = 0;
  const auto is_within = [](uint64_t number, uint64_t low, uint64_t high) { return number >= low && number <= high; };
#define TBPROF_TARGET(type, name, base, low, high, meaning)                                  \
  for (const uint64_t beyond : {uint64_t{low} - 1, uint64_t{high} + 1}) {                    \
    if (beyond != static_cast<type>(beyond) || is_within(beyond, low, high)) continue;       \
    SessionVariable variable = GoodVariable(), parsed;                                       \
    variable.name = static_cast<type>(beyond);                                               \
    EXPECT_FALSE(Parse(FormatSessionVariable(variable), &parsed)) << #name << " " << beyond; \
    ++refused;                                                                               \
  }
#define TBPROF_OPTION(type, name, preset, absent, low, high, option, meaning) \
  TBPROF_TARGET(type, name, 10, low, high, meaning)
#include "wire/settings.def"
  EXPECT_EQ(refused, 5) << "two of clock_kind and malloc_interval each, one of malloc_stamp_every";
}

// Two values of each type of the record: its bounds, if it has any.
template <typename Type>
std::vector<Type> ValuesOf() {
  return {std::numeric_limits<Type>::lowest(), std::numeric_limits<Type>::max()};
}
template <>
std::vector<std::string> ValuesOf() {
  return {"", "a \"b\" \n \u00e4"};
}
template <>
std::vector<std::vector<std::string>> ValuesOf() {
  return {{}, {"a", ""}};
}

TEST(SettingsTest, SessionRecord_BoundsOfEachMember_ComeBack) {
  const auto check = [](const char* name, auto field, auto value) {
    SessionFacts facts;
    facts.*field = value;
    const absl::StatusOr<SessionFacts> parsed = ParseSession(FormatSession(facts));
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ((*parsed).*field, value) << name;
  };
#define TBPROF_OPTION(type, name, preset, absent, low, high, option, meaning) \
  for (const uint64_t bound : {uint64_t{low}, uint64_t{high}})                \
    check(#name, &SessionFacts::name, static_cast<type>(bound));
#define TBPROF_RECORD_OPTION(type, name, preset, absent, option, meaning) TBPROF_RECORD(type, name, absent, meaning)
#define TBPROF_RECORD(type, name, absent, meaning)                                      \
  for (const type value : ValuesOf<type>()) {                                           \
    if (#name != std::string("ticks_per_ns")) check(#name, &SessionFacts::name, value); \
  }
#include "wire/settings.def"
  for (const double rate : {0.0011, 999.9}) check("ticks_per_ns", &SessionFacts::ticks_per_ns, rate);
}

TEST(SettingsTest, SessionRecord_OtherTypesAndNumbers_CountAsAbsent) {
  const SessionFacts absent = *ParseSession("{}");
  const auto check = [&absent](const char* name, auto field, const nlohmann::json& value) {
    const absl::StatusOr<SessionFacts> parsed = ParseSession(nlohmann::json{{name, value}}.dump());
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ((*parsed).*field, absent.*field) << name << " " << value;
  };
#define TBPROF_RECORD(type, name, absent, meaning)                               \
  check(#name, &SessionFacts::name, nlohmann::json::object());                   \
  check(#name, &SessionFacts::name, nullptr);                                    \
  if constexpr (std::is_integral_v<type>) {                                      \
    check(#name, &SessionFacts::name, 1.5);                                      \
    check(#name, &SessionFacts::name, "1");                                      \
    if (sizeof(type) == 4) check(#name, &SessionFacts::name, uint64_t{1} << 32); \
    if (std::is_unsigned_v<type>) check(#name, &SessionFacts::name, -1);         \
  }
#define TBPROF_RECORD_OPTION(type, name, preset, absent, option, meaning) TBPROF_RECORD(type, name, absent, meaning)
#define TBPROF_OPTION(type, name, preset, absent, low, high, option, meaning) TBPROF_RECORD(type, name, absent, meaning)
#include "wire/settings.def"
  check("malloc_stamp_every", &SessionFacts::malloc_stamp_every, 1'000'001);
  check("ticks_per_ns", &SessionFacts::ticks_per_ns, 0);
  check("ticks_per_ns", &SessionFacts::ticks_per_ns, 1000);
}

TEST(SettingsTest, Options_EachRow_ReachesTheSessionAndTheDocument) {
  // A value of each option that is not its default.
  const std::map<std::string, std::string> values = {
      {"trace", "lock"},    {"malloc-interval", "1MiB"},  {"malloc-stamp-every", "7"}, {"wait-threshold", "2us"},
      {"ranks", "all"},     {"max-profile-size", "1MiB"}, {"step-marker", "epoch"},    {"also", "perfetto"},
      {"sample-rate", "97"}};
  const std::string document = OptionMarkdown();
  Terminal terminal;
  const auto check = [&](const char* option, auto field) {
    ASSERT_TRUE(values.contains(option)) << "a new row of wire/settings.def: give " << option << " a value here";
    EXPECT_NE(document.find(std::string("| `--") + option + "="), std::string::npos) << option;
    const absl::StatusOr<Options> options =
        ParseOptions({"run", "--malloc=exact", std::string("--") + option + "=" + values.at(option), "true"}, {}, "/");
    ASSERT_TRUE(options.ok()) << options.status();
    EXPECT_NE((*options).*field, SessionOptions().*field) << option << " does not set its field";
    RunContext context(*options, &terminal, AutoTimes());
    EXPECT_EQ(SessionConfigOf(context).*field, (*options).*field) << option;
  };
#define TBPROF_OPTION(type, name, preset, absent, low, high, option, meaning) \
  static_assert(sizeof(meaning) > 1);                                         \
  check(option, &SessionOptions::name);
#define TBPROF_RECORD_OPTION(type, name, preset, absent, option, meaning) \
  static_assert(sizeof(meaning) > 1);                                     \
  check(option, &SessionOptions::name);
#include "wire/settings.def"
}

}  // namespace
}  // namespace tbprof
