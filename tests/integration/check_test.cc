// SPDX-License-Identifier: Apache-2.0
//
// `tbprof check` as a command: its outputs, its exit status, its arguments, and that it changes nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/integration/harness.h"
#include "writer/base/text.h"

namespace tbprof::integration {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

void MakeRun(const std::string& logdir, std::string_view place, std::string_view content) {
  std::filesystem::create_directories(StrCat(logdir, "/", place));
  WriteFile(StrCat(logdir, "/", place, "/h.xplane.pb"), content);
}

// A plane with one event that is a step: `TraceContext`.
constexpr std::string_view kProfile(
    "\x0a\x20\x12\x02/h\x1a\x04\x22\x02\x08\x01\x22\x14\x08\x01\x12\x10\x08\x01\x12\x0cTraceContext");

TEST(Check, Result_IsPrintedAndIsTheExitStatus) {
  const TemporaryDirectory directory;
  MakeRun(directory.path(), "plugins/profile/run", kProfile);
  RunResult result = RunTbprof({"check", directory.path()});
  EXPECT_EQ(result.code(), 0);
  EXPECT_THAT(result.out, HasSubstr("  run  hosts: h  tools: framework_op_stats"));
  EXPECT_THAT(result.printed, IsEmpty());

  MakeRun(directory.path(), "plugins/profile/bad", "");
  result = RunTbprof({"check", directory.path()});
  EXPECT_EQ(result.code(), 2);
  EXPECT_THAT(result.out,
              HasSubstr("bad/h.xplane.pb: is empty, 0 s old: its pages are blank; wait until it is written\n"));

  result = RunTbprof({"check", "--json", directory.path()});
  EXPECT_EQ(result.code(), 2);
  const nlohmann::json json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["schema"], 2);
  EXPECT_EQ(json["exit_status"], 2);
  EXPECT_EQ(json["findings"][0]["id"], "profile-empty");
}

TEST(Check, Logdir_OptionVariableOrDefault_IsUsed) {
  const TemporaryDirectory directory;
  MakeRun(directory.path(), "logs/plugins/profile/run", kProfile);
  EXPECT_EQ(RunTbprof({"check", "--logdir", directory / "logs"}).code(), 0);
  RunOptions options;
  options.environment = {{"TBPROF_LOGDIR", directory / "logs"}};
  EXPECT_EQ(RunTbprof({"check"}, options).code(), 0);
  options.environment.clear();
  options.directory = directory.path();
  EXPECT_EQ(RunTbprof({"check", "logs/../logs//"}, options).code(), 0);
  const RunResult missing = RunTbprof({"check"}, options);  // ./tbprof-logs
  EXPECT_EQ(missing.code(), 2);
  EXPECT_THAT(missing.out, HasSubstr("/tbprof-logs"));
}

TEST(Check, WrongUsage_Is125OnStandardError) {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"check", "/tmp", "/var"}, {"check", ""}, {"check", "gs://bucket/logs"}, {"check", "--keep-spool"}}) {
    const RunResult result = RunTbprof(words);
    EXPECT_EQ(result.code(), 125);
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(result.printed.size(), 1u);
  }
}

TEST(Check, OtherFileSystem_MessageNamesThePathAsGiven) {
  const RunResult result = RunTbprof({"check", "gs://bucket/logs"});
  EXPECT_EQ(result.code(), 125);
  EXPECT_THAT(result.AllPrinted(), HasSubstr("gs://bucket/logs"));
  EXPECT_THAT(result.AllPrinted(), testing::Not(HasSubstr("logs/x")));
}

TEST(Check, LogdirOfARun_PassesAndIsUnchanged) {
  const RunResult run = RunUnderTbprof({"/bin/sh", "-c", "sleep 0.01 | cat"});
  ASSERT_EQ(run.code(), 0) << run.AllPrinted();
  const auto state = [&] {
    std::string text;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(run.logdir)) {
      struct stat info;
      EXPECT_EQ(lstat(entry.path().c_str(), &info), 0);
      StrAppend(&text, entry.path().string(), " ", info.st_size, " ", info.st_mtim.tv_sec, " ", info.st_mtim.tv_nsec,
                "\n");
    }
    return text;
  };
  const std::string before = state();
  const RunResult result = RunTbprof({"check", run.logdir});
  EXPECT_EQ(result.code(), 0) << result.out;
  EXPECT_EQ(state(), before);
  EXPECT_THAT(result.out, HasSubstr(std::filesystem::path(run.run_directories.at(0)).filename().string()));
}

// Root may read everything, so the check runs as another user.
class CheckAsUser : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() == 0) launcher_ = {"/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"};
    ASSERT_EQ(chmod(directory_.path().c_str(), 0755), 0);
    options_.directory = directory_.path();
    options_.environment = {{"HOME", directory_.path()}};
    // The build directory need not be open to that user.
    std::filesystem::copy_file(Tbprof(), program_);
    MakeRun(logs_, "plugins/profile/run", kProfile);
  }

  RunResult Run(std::vector<std::string> command) const {
    command.insert(command.begin(), launcher_.begin(), launcher_.end());
    return RunBare(command, options_);
  }
  RunResult RunCheck() const { return Run({program_, "check", logs_}); }

  const TemporaryDirectory directory_;
  const std::string program_ = directory_ / "tbprof", logs_ = directory_ / "logs";

 private:
  RunOptions options_;
  std::vector<std::string> launcher_;
};

TEST_F(CheckAsUser, Permissions_AreThoseOfTheUser) {
  const std::string run = logs_ + "/plugins/profile/run";
  for (const std::string& path : {logs_, logs_ + "/plugins", logs_ + "/plugins/profile"}) chmod(path.c_str(), 0755);
  ASSERT_EQ(chmod(run.c_str(), 0555), 0);
  RunResult result = RunCheck();
  EXPECT_EQ(result.code(), 2) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("xprof lists no tool; view a copy of yours"));
  // tbprof writes this file into its runs; with it only the trace viewer is lost.
  ASSERT_EQ(chmod(run.c_str(), 0755), 0);
  WriteFile(run + "/NO_MODULE.hlo_proto.pb", "");
  ASSERT_EQ(chmod(run.c_str(), 0555), 0);
  result = RunCheck();
  EXPECT_EQ(result.code(), 1) << result.out;
  EXPECT_THAT(result.out, HasSubstr("profile/run: you may not write in it: the trace viewer is empty"));
  ASSERT_EQ(chmod((run + "/h.xplane.pb").c_str(), 0), 0);
  result = RunCheck();
  EXPECT_THAT(result.out, HasSubstr("plugins/profile/run/h.xplane.pb: cannot be read: Permission denied"));
  ASSERT_EQ(chmod(run.c_str(), 0), 0);
  result = RunCheck();
  EXPECT_THAT(result.out, HasSubstr("FAIL  plugins/profile/run: cannot be listed: Permission denied"));
  ASSERT_EQ(chmod(run.c_str(), 0755), 0);
}

TEST_F(CheckAsUser, OwnFileThatMayNotBeRead_IsMadeReadable) {
  const std::string file = logs_ + "/plugins/profile/run/h.xplane.pb";
  const std::string events = logs_ + "/events.out.tfevents.1000.host.1.0";
  WriteFile(events, "");
  for (const std::string& path :
       {logs_, logs_ + "/plugins", logs_ + "/plugins/profile", logs_ + "/plugins/profile/run"}) {
    chmod(path.c_str(), 0755);
    if (geteuid() == 0) ASSERT_EQ(chown(path.c_str(), 65534, 65534), 0);
  }
  ASSERT_EQ(chmod(file.c_str(), 0), 0);
  ASSERT_EQ(chmod(events.c_str(), 0), 0);
  if (geteuid() == 0) {
    // Only the owner of a file may change it.
    EXPECT_THAT(RunCheck().out, HasSubstr("ask its owner"));
    ASSERT_EQ(chown(file.c_str(), 65534, 65534), 0);
    ASSERT_EQ(chown(events.c_str(), 65534, 65534), 0);
  }
  const std::string out = RunCheck().out;
  EXPECT_THAT(out, HasSubstr("h.xplane.pb: cannot be read: Permission denied; allow it\n      run: chmod u+r -- " +
                             file + "\n"));
  EXPECT_THAT(out, HasSubstr("run: chmod u+r -- " + events + "\n"));
  EXPECT_EQ(Run({"/bin/sh", "-c", "chmod u+r -- " + file + " " + events}).code(), 0);
  EXPECT_EQ(RunCheck().out.find("cannot be read"), std::string::npos);
}

}  // namespace
}  // namespace tbprof::integration
