// SPDX-License-Identifier: Apache-2.0
// Names that are no text, modes of files, shared directories, empty programs, and the size limit.
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "../integration/harness.h"
#include "writer/base/utf8.h"

namespace tbprof::integration {
namespace {

using ::testing::SizeIs;

void ExpectText(const std::string& text) { EXPECT_EQ(ValidUtf8(text), text); }

void ExpectTexts(const Profile& profile) {
  for (const auto& plane : profile.space().planes()) {
    ExpectText(plane.name());
    for (const auto& line : plane.lines()) {
      ExpectText(line.name());
      ExpectText(line.display_name());
    }
    for (const auto& [id, event] : plane.event_metadata()) ExpectText(event.name());
    for (const auto& [id, stat] : plane.stat_metadata()) ExpectText(stat.name());
  }
  for (const Event& event : profile.events()) {
    for (const auto& [name, value] : event.stats) ExpectText(value);
  }
  for (const std::string& warning : profile.space().warnings()) ExpectText(warning);
}

TEST(OddNames, ThreadsArgumentsAndDirectories_AreEscaped) {
  TemporaryDirectory directory;
  const std::string odd = directory / "new\nline \xff\xc3( {\"";
  std::filesystem::create_directories(odd);
  const std::string program = odd +
                              "/odd\n\xff"
                              "program";
  std::filesystem::copy_file(Program("odd_names"), program);
  RunOptions options;
  options.default_logdir = false;
  options.directory = odd;
  options.tbprof = {"--logdir=" + odd + "/logs", "--also=perfetto", "--wait-threshold=0"};
  options.environment = {{"RANK\xff", "\xfe"}, {"TF_CONFIG", "\xff\n{"}};
  const std::vector<std::string> command = {program, "", "\xff\xfe", "a\nb", "\"}", std::string(100, '\xf0')};
  const RunResult bare = RunBare(command, options);
  RunResult result = RunUnderTbprof(command, options);
  EXPECT_TRUE(SameOutput(bare, result));
  result.logdir = odd + "/logs";
  ReadProfile(&result);
  ASSERT_NE(result.profile, nullptr) << result.AllPrinted();
  ExpectTexts(*result.profile);
  EXPECT_EQ(result.profile->Count("usleep"), 7);
  EXPECT_TRUE(result.summary.is_object());
  const auto traces = FilesBelow(result.logdir, ".json");
  ASSERT_THAT(traces, SizeIs(1));
  for (const std::string& path : traces)
    EXPECT_FALSE(nlohmann::json::parse(ReadFile(path), nullptr, false).is_discarded());
  for (const std::string& line : result.printed) {
    EXPECT_EQ(line.find('\x1b'), std::string::npos) << "a thread's name is no command for the terminal";
  }
}

TEST(OddNames, LongCommandLines_AreCut) {
  RunOptions options;
  std::vector<std::string> command = {Program("odd_names")};
  for (const size_t length : {131000, 100000, 65536, 8191, 8192, 8193}) command.push_back(std::string(length, 'a'));
  for (int i = 0; i < 1000; ++i) command.push_back("word" + std::to_string(i));
  const RunResult bare = RunBare(command, options);
  EXPECT_EQ(bare.code(), 0) << bare.err;
  const RunResult result = RunUnderTbprof(command, options);
  EXPECT_TRUE(SameOutput(bare, result));
  ASSERT_NE(result.profile, nullptr) << result.AllPrinted();
  EXPECT_EQ(result.summary["records"]["corrupt"], 0);
  EXPECT_TRUE(result.summary["records"]["dropped"].empty()) << result.summary["records"];
  const auto& words = result.summary["processes"][0]["arguments"];
  ASSERT_GE(words.size(), 7u);
  EXPECT_TRUE(words[6].get<std::string>().starts_with("aaaa"));
  for (const std::string& line : result.printed) EXPECT_LE(line.size(), 4096u) << line.substr(0, 200);
}

class Umask : public testing::TestWithParam<mode_t> {};

TEST_P(Umask, EachMask_IsKept) {
  TemporaryDirectory directory;
  RunOptions options;
  options.default_logdir = false;
  char octal[8];
  snprintf(octal, sizeof(octal), "%03o", GetParam());
  options.launcher = {"/bin/sh", "-c", std::string("umask ") + octal + "; exec \"$@\"", "sh"};
  options.tbprof = {"--logdir=" + (directory / "logs"), "--keep-spool"};
  const RunResult result = RunUnderTbprof({Program("ends"), "exit", "0"}, options);
  EXPECT_EQ(result.code(), 0);
  const auto profiles = FilesBelow(directory / "logs", ".xplane.pb");
  ASSERT_THAT(profiles, SizeIs(1));
  struct stat info;
  ASSERT_EQ(stat(profiles[0].c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0666 & ~GetParam());
  ASSERT_EQ(stat(std::filesystem::path(profiles[0]).parent_path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0777 & ~GetParam());
  const auto spools = FilesBelow(directory / "logs", ".spool");
  ASSERT_THAT(spools, SizeIs(1));
  ASSERT_EQ(stat(spools[0].c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0077, 0u) << "raw records are for their owner";
}
INSTANTIATE_TEST_SUITE_P(Some, Umask, testing::Values(0, 022, 077));

TEST(SharedDirectory, StickyDirectoryOfAnotherUser_IsUnchanged) {
  if (geteuid() != 0) GTEST_SKIP() << "another user's directory needs root";
  TemporaryDirectory directory;
  const std::string logdir = directory / "logs";
  std::filesystem::create_directories(logdir + "/plugins/profile");
  for (const std::string part : {"", "/plugins", "/plugins/profile"}) {
    ASSERT_EQ(chown((logdir + part).c_str(), 65534, 65534), 0);
    ASSERT_EQ(chmod((logdir + part).c_str(), 01777), 0);
  }
  RunOptions options;
  options.default_logdir = false;
  options.tbprof = {"--logdir=" + logdir};
  EXPECT_EQ(RunUnderTbprof({Program("ends"), "exit", "0"}, options).code(), 0);
  EXPECT_THAT(FilesBelow(logdir, ".xplane.pb"), SizeIs(1));
  for (const std::string part : {"", "/plugins", "/plugins/profile"}) {
    struct stat info;
    ASSERT_EQ(stat((logdir + part).c_str(), &info), 0);
    EXPECT_EQ(info.st_uid, 65534u) << part;
    EXPECT_EQ(info.st_mode & 07777, 01777u) << part;
  }
}

TEST(EmptyTarget, EmptyProgram_ProfileNamesIt) {
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"/bin/true"}, {"/bin/sleep", "0.05"}, {Program("sleeps_once"), "5"}}) {
    const RunResult result = RunUnderTbprof(command);
    EXPECT_EQ(result.code(), 0);
    ASSERT_NE(result.profile, nullptr) << command[0];
    EXPECT_GE(result.profile->space().planes_size(), 1);
    EXPECT_FALSE(result.profile->events().empty()) << command[0];
    EXPECT_EQ(result.summary["steps"]["known"], false);
    EXPECT_TRUE(result.summary["steps"]["count"].is_null()) << "unknown, not 0";
  }
}

TEST(SizeLimit, EachLimit_IsKept) {
  for (const auto& [text, bytes] :
       {std::pair<std::string, size_t>{"64KiB", 64u << 10}, {"1MiB", 1u << 20}, {"4MiB", 4u << 20}}) {
    RunOptions options;
    options.tbprof = {"--wait-threshold=0", "--window=all", "--max-profile-size=" + text};
    const RunResult result = RunUnderTbprof({Program("survive"), "400000", "return"}, options);
    const auto profiles = FilesBelow(result.logdir, ".xplane.pb");
    ASSERT_THAT(profiles, SizeIs(1));
    EXPECT_LE(std::filesystem::file_size(profiles[0]), bytes) << text;
    EXPECT_FALSE(result.profile->events().empty());
    EXPECT_TRUE(result.profile->HasWarning("size budget"));
    int64_t calls = 0;
    for (const auto& operation : result.summary["processes"][0]["operations"]) {
      if (operation["operation"] == "read" || operation["operation"] == "write")
        calls += operation["calls"].get<int64_t>();
    }
    EXPECT_EQ(calls, 400000) << "the totals are whole";
  }
}

}  // namespace
}  // namespace tbprof::integration
