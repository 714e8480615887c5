// SPDX-License-Identifier: Apache-2.0
#include "launcher/capture/fetched_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/launcher/report_maker.h"

namespace tbprof {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

const SummaryPlace kPlace = {"after",
                             "/logs",
                             "node_6009",
                             {{"/logs/plugins/profile/after/node_6009.xplane.pb", 100, ""},
                              {"/logs/plugins/profile/after/node_6009.r1.xplane.pb", 50, ""},
                              {"/logs/plugins/profile/after/other_6009.xplane.pb", 100, ""}}};

TEST(FetchedSummaryTest, RewriteSummary_NamesTheNewPlace) {
  Json summary = MakeSummary();
  summary["files"] = {{{"path", "/private/node_6009.xplane.pb"}, {"bytes", 100}, {"verified", "verified: 2 planes"}},
                      {{"path", "/private/node_6009.r1.xplane.pb"}, {"bytes", 51}, {"verified", "verified: 1 plane"}}};
  const absl::StatusOr<FetchedSummary> fetched = RewriteSummary(summary.dump(), kPlace);
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  const Json json = Json::parse(fetched->json, nullptr, false);
  EXPECT_EQ(json["run"], "after");
  EXPECT_EQ(json["logdir"], "/logs");
  ASSERT_EQ(json["files"].size(), 2u);
  EXPECT_EQ(json["files"][0]["path"], kPlace.files[0].path);
  EXPECT_EQ(json["files"][0]["verified"], "verified: 2 planes");
  EXPECT_TRUE(json["files"][1]["verified"].is_null());  // of another size: it was not this file that was read back
  for (const auto& [name, value] : summary.items()) {
    if (name != "run" && name != "logdir" && name != "files") EXPECT_EQ(json[name], value) << name;
  }
  ASSERT_FALSE(fetched->lines.empty());
  EXPECT_THAT(fetched->lines[0], HasSubstr("verdict: 62 % of the step"));
  EXPECT_EQ(fetched->lines.back(), "evidence: that thread is busy for 98 % of the wait");
}

TEST(FetchedSummaryTest, RewriteSummary_NoSummary_IsAnError) {
  Json newer = MakeSummary();
  newer["schema_version"] = 1000;
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("{}"), std::string("{\"schema_version\""), newer.dump(), deep,
        "{\"schema_version\": 1, \"x\": " + deep + "}"}) {
    EXPECT_FALSE(RewriteSummary(text, kPlace).ok()) << text.substr(0, 60);
  }
}

// An object with a million keys takes hours to build: each key is compared with all before it.
TEST(FetchedSummaryTest, RewriteSummary_TooManyKeys_IsAnError) {
  for (const int keys : {500, 5000}) {
    Json summary = MakeSummary();
    Json object;
    for (int i = 0; i < keys; ++i) object[std::to_string(i)] = i;
    summary["further"] = Json::array();
    for (int i = 0; i < 2001; ++i) summary["further"].push_back(i);
    summary["further"].push_back(object);  // behind what a report keeps of an array
    EXPECT_EQ(RewriteSummary(summary.dump(), kPlace).ok(), keys == 500);
  }
}

}  // namespace
}  // namespace tbprof
