// SPDX-License-Identifier: Apache-2.0
// `tbprof report` in every form, of what a real run leaves: log directory, run, profile, summary, spool.
#include <gmock/gmock.h>

#include <filesystem>

#include "harness.h"
#include "schema_check.h"

namespace tbprof::integration {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

class Report : public ::testing::Test {
 protected:
  // One run for all tests.
  static void SetUpTestSuite() {
    directory_ = new TemporaryDirectory();
    const RunResult run = RunTbprof(
        {"run", "--keep-spool", "--run=first", "--logdir=" + logs(), "--", Program("marked_steps"), "12"}, In());
    ASSERT_EQ(run.code(), 5) << run.AllPrinted();  // the program's own status
  }
  static void TearDownTestSuite() {
    delete directory_;
    directory_ = nullptr;
  }
  static RunOptions In() {
    RunOptions options;
    options.directory = directory_->path();
    // marked_steps continues when this file exists.
    WriteFile(*directory_ / "stop", "");
    return options;
  }
  static std::string logs() { return *directory_ / "logs"; }
  static std::string run() { return logs() + "/plugins/profile/first"; }
  static std::string Only(const std::string& suffix) {
    const std::vector<std::string> files = FilesBelow(logs(), suffix);
    EXPECT_THAT(files, SizeIs(1)) << suffix;
    return files.empty() ? "" : files[0];
  }
  static RunResult Of(std::vector<std::string> words) {
    words.insert(words.begin(), "report");
    return RunTbprof(words, In());
  }

  static TemporaryDirectory* directory_;
};
TemporaryDirectory* Report::directory_ = nullptr;

TEST_F(Report, OfEachSource_HasTheSameAnswersAndMatchesItsSchema) {
  const auto schema = nlohmann::json::parse(ReadFile(TBPROF_SOURCE_DIR "/docs/report.schema.json"), nullptr, false);
  ASSERT_TRUE(schema.is_object());
  const std::pair<std::string, std::string> sources[] = {{logs(), "logdir"},
                                                         {run(), "run"},
                                                         {Only(".xplane.pb"), "profile"},
                                                         {Only("summary.json"), "summary"},
                                                         {Only(".spool"), "spool"}};
  nlohmann::json first;
  for (const auto& [path, kind] : sources) {
    const RunResult result = Of({"--json", path});
    ASSERT_EQ(result.code(), 0) << kind << result.AllPrinted() << result.out;
    const auto report = nlohmann::json::parse(result.out, nullptr, false);
    ASSERT_TRUE(report.is_object()) << result.out;
    for (const std::string& fault : SchemaFaults(schema, report)) ADD_FAILURE() << kind << ": " << fault;
    EXPECT_EQ(report["source"]["kind"], kind);
    EXPECT_EQ(report["steps"]["known"], true) << kind;
    if (first.is_null()) first = report;
    for (const char* same : {"verdict", "steps", "python", "native", "waits", "gpus", "memory"}) {
      EXPECT_EQ(report[same], first[same]) << kind << " " << same;
    }
  }
}

TEST_F(Report, OfANameOrNothing_IsTheRunOfTheLogdir) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--logdir=" + logs()}, {"--logdir=" + logs(), "first"}, {"--run=first", logs()}}) {
    const RunResult result = Of(words);
    ASSERT_EQ(result.code(), 0) << result.AllPrinted();
    EXPECT_THAT(result.out, HasSubstr(" steps, median "));
    EXPECT_THAT(result.out, HasSubstr("run first"));
  }
}

TEST_F(Report, LinesOfItsLead_AreThoseOfTheEndBlock) {
  const RunResult again = RunTbprof({"convert", "--logdir=" + logs(), "--run=again", Only(".spool")}, In());
  ASSERT_EQ(again.code(), 0) << again.AllPrinted();
  const RunResult report = Of({"--run=again", logs()});
  ASSERT_EQ(report.code(), 0) << report.AllPrinted();
  const std::vector<std::string> lines = Lines(report.out);
  ASSERT_GT(lines.size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(again.Printed(lines[i])) << lines[i] << "\n" << again.AllPrinted();
  EXPECT_THAT(lines[0], StartsWith("verdict: "));
  std::filesystem::remove_all(logs() + "/plugins/profile/again");
}

TEST_F(Report, OtherForms_HaveTheirBounds) {
  const RunResult csv = Of({"--csv", run()});
  ASSERT_EQ(csv.code(), 0);
  EXPECT_THAT(csv.out, StartsWith("section,rank,process,name,file,line,calls,total_s,share,bytes\r\n"));
  EXPECT_THAT(csv.out, HasSubstr("\r\nwaits,"));
  const RunResult markdown = Of({"--md", "--tokens=200", run()});
  ASSERT_EQ(markdown.code(), 0);
  EXPECT_LE(markdown.out.size(), 600u);
  EXPECT_THAT(markdown.out, HasSubstr("**verdict: "));
  EXPECT_EQ(Of({"--md", "--csv", run()}).code(), 125);
  EXPECT_EQ(Of({run(), run()}).code(), 125);
}

TEST_F(Report, OfAProfileAlone_IsInPart) {
  const std::string alone = *directory_ / "alone";
  std::filesystem::create_directory(alone);
  std::filesystem::copy_file(Only(".xplane.pb"), alone + "/h.xplane.pb");
  const RunResult result = Of({alone + "/h.xplane.pb"});
  EXPECT_EQ(result.code(), 1) << result.AllPrinted();
  EXPECT_THAT(result.out, HasSubstr("its summary.json is missing: of the verdict"));
  EXPECT_THAT(result.out, HasSubstr("verdict: 100 % of the step: sleeps"));
  EXPECT_THAT(result.out, HasSubstr(" steps, median "));
  std::filesystem::remove_all(alone);
}

TEST_F(Report, OfWhatIsNone_IsOneLineAndStatus2) {
  WriteFile(*directory_ / "bad.json", "{\"schema_version\": 1, ");
  WriteFile(*directory_ / "bad.xplane.pb", "\x0a\xff\x01 no");
  WriteFile(*directory_ / "bad.spool", "nothing");
  WriteFile(*directory_ / "empty.xplane.pb", "");
  for (const char* name : {"bad.json", "bad.xplane.pb", "bad.spool", "empty.xplane.pb", "missing"}) {
    const RunResult result = Of({name});
    EXPECT_EQ(result.code(), 2) << name;
    EXPECT_EQ(result.out, "") << name;
    ASSERT_THAT(result.printed, SizeIs(1)) << name << result.AllPrinted();
    EXPECT_THAT(result.printed[0], HasSubstr(name));
  }
  EXPECT_TRUE(Of({"bad.json"}).Printed("bad.json: byte "));
  EXPECT_TRUE(Of({"bad.xplane.pb"}).Printed("byte 0"));
}

}  // namespace
}  // namespace tbprof::integration
