// SPDX-License-Identifier: Apache-2.0
// Two captures of one process, before and after it got slower, and `tbprof compare` of them. The slow steps take fifty
// times as long, so that a busy machine changes no answer.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness.h"
#include "schema_check.h"

namespace tbprof::integration {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int kWorse = 1;
constexpr char kDuration[] = "--duration=2s";

class WindowCompare : public ::testing::Test {
 protected:
  void Start(const std::vector<std::string>& options, const std::string& most_bytes_of_reply = "") {
    RunOptions run;
    run.tbprof = options;
    if (!most_bytes_of_reply.empty()) run.environment.emplace_back("TBPROF_TEST_MAX_REPLY", most_bytes_of_reply);
    running_ = StartUnderTbprof({Program("slower_steps")}, run);
    ASSERT_TRUE(running_->WaitForFact("warm "));
  }
  std::string Address() const {
    const std::string printed = running_->Err(), mark = "profiler service on ";
    const size_t at = printed.find(mark);
    if (at == std::string::npos) return "no port: " + printed;
    return printed.substr(at + mark.size(), printed.find_first_of(" \n", at + mark.size()) - at - mark.size());
  }
  void MakeSlow() {
    WriteFile(running_->path() + "/slow", "");
    ASSERT_TRUE(running_->WaitForFact("slow "));
  }
  void End() {
    WriteFile(running_->path() + "/stop", "");
    EXPECT_EQ(running_->Wait().code(), 0);
  }
  RunResult Capture(const std::string& target, const std::string& run, std::vector<std::string> more = {}) const {
    std::vector<std::string> words = {"capture", target, kDuration, "--run=" + run, "--logdir=" + logs()};
    words.insert(words.end(), more.begin(), more.end());
    return RunTbprof(words);
  }
  std::string logs() const { return directory_ / "logs"; }
  std::string RunPath(const std::string& run) const { return logs() + "/plugins/profile/" + run; }

  // The comparison of `before` and `after`, of one process.
  void ExpectWorse() const {
    const RunResult text = RunTbprof({"compare", RunPath("before"), RunPath("after")});
    EXPECT_EQ(text.code(), kWorse) << text.out << text.AllPrinted();
    EXPECT_THAT(text.out, HasSubstr("worse: the step takes "));
    EXPECT_THAT(text.out, HasSubstr(" ms longer ("));
    EXPECT_THAT(text.out, HasSubstr("two windows of one"));
    EXPECT_THAT(text.out, HasSubstr("why: +"));
    EXPECT_THAT(text.out, Not(HasSubstr("number of steps differs")));
    const RunResult result = RunTbprof({"compare", "--json", RunPath("before"), RunPath("after")});
    const auto json = nlohmann::json::parse(result.out, nullptr, false);
    ASSERT_TRUE(json.is_object()) << result.out;
    const auto schema = nlohmann::json::parse(ReadFile(TBPROF_SOURCE_DIR "/docs/gate.schema.json"), nullptr, false);
    EXPECT_THAT(SchemaFaults(schema, json, ""), IsEmpty());
    EXPECT_EQ(json["one_process"], true);
    for (const auto& quantity : json["quantities"]) {
      // The counters of the second window begin at its opening, not at that of the first.
      if (quantity["name"] != "allocations_per_step") continue;
      EXPECT_LT(quantity["new"].get<double>(), 2 * quantity["base"].get<double>()) << quantity;
    }
  }

  TemporaryDirectory directory_;
  std::unique_ptr<Running> running_;
};

TEST_F(WindowCompare, CapturesByTheSocket_AreCompared) {
  Start({"--window=none"});
  const std::string pid = std::to_string(running_->pid());
  const RunResult before = Capture(pid, "before");
  ASSERT_EQ(before.code(), 0) << before.AllPrinted();
  EXPECT_THAT(before.AllPrinted(), HasSubstr("split: "));
  MakeSlow();
  ASSERT_EQ(Capture(pid, "after").code(), 0);
  End();
  ExpectWorse();
  const RunResult rule = RunTbprof({"compare", "--fail-on=part:sleep>+5ms", RunPath("before"), RunPath("after")});
  EXPECT_EQ(rule.code(), kWorse) << rule.out;
  EXPECT_THAT(rule.out, HasSubstr("rule part:sleep>+5ms fails: +"));
}

TEST_F(WindowCompare, CapturesByThePort_HaveASummaryOfTheirPlace) {
  Start({"--window=none", "--port=0"});
  const std::string address = Address();
  const RunResult before = Capture(address, "before");
  ASSERT_EQ(before.code(), 0) << before.AllPrinted();
  EXPECT_THAT(before.AllPrinted(), HasSubstr("split: "));
  MakeSlow();
  ASSERT_EQ(Capture(address, "after").code(), 0);
  End();
  ExpectWorse();
  const std::vector<std::string> summaries = FilesBelow(RunPath("before"), "summary.json");
  ASSERT_EQ(summaries.size(), 1u);
  const auto summary = nlohmann::json::parse(ReadFile(summaries[0]), nullptr, false);
  const auto schema = nlohmann::json::parse(ReadFile(TBPROF_SOURCE_DIR "/docs/summary.schema.json"), nullptr, false);
  EXPECT_THAT(SchemaFaults(schema, summary, ""), IsEmpty());
  EXPECT_EQ(summary["run"], "before");
  EXPECT_EQ(summary["logdir"], logs());
  ASSERT_EQ(summary["files"].size(), 1u);
  const std::vector<std::string> profiles = FilesBelow(RunPath("before"), ".xplane.pb");
  ASSERT_EQ(profiles.size(), 1u);
  EXPECT_EQ(summary["files"][0]["path"], profiles[0]);
  EXPECT_TRUE(summary["files"][0]["verified"].is_string());
}

TEST_F(WindowCompare, ReplyWithoutRoomForTheSummary_ReportsIt) {
  // Of the few slow steps the profile has 8 kB, and its summary over 15 kB.
  Start({"--window=none", "--port=0"}, "12000");
  MakeSlow();
  const std::string address = Address();
  const RunResult capture = Capture(address, "before");
  EXPECT_EQ(capture.code(), 0) << capture.AllPrinted();
  EXPECT_THAT(capture.AllPrinted(), HasSubstr("no summary.json: it did not fit the reply"));
  EXPECT_THAT(FilesBelow(RunPath("before"), ".xplane.pb"), ::testing::SizeIs(1));
  EXPECT_THAT(FilesBelow(RunPath("before"), "summary.json"), IsEmpty());
  End();
}

}  // namespace
}  // namespace tbprof::integration
