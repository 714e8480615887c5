// SPDX-License-Identifier: Apache-2.0
//
// Files that hide a run's tools, files in a packed or damaged form, links, dates as directories, shared places.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "launcher/check/logdir_check.h"
#include "tests/unit/launcher/logdir_fixture.h"

namespace tbprof {
namespace {

using namespace event_maker;
using namespace std::string_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
namespace fs = std::filesystem;

class LogdirFiles : public LogdirFixture {
 protected:
  void Follow(const LogdirReport& report) {
    for (const LogdirFinding& finding : report.findings) {
      if (finding.command.empty()) continue;
      EXPECT_EQ(system(finding.command.c_str()), 0) << finding.command;
    }
  }
  // Compresses the file with `program`: h.xplane.pb becomes h.xplane.pb.gz.
  void Pack(const std::string& program, const std::string& path, const std::string& content, size_t cut = 0) {
    static const std::map<std::string, std::string> kSuffixes = {
        {"gzip -n", ".gz"}, {"bzip2", ".bz2"}, {"xz", ".xz"}, {"zstd -q --rm", ".zst"}};
    Put(path, content);
    const std::string whole = logdir_ + "/" + path, packed = whole + kSuffixes.at(program);
    ASSERT_EQ(system(StrCat(program, " ", whole).c_str()), 0);
    fs::resize_file(packed, fs::file_size(packed) - cut);
    fs::permissions(packed, fs::perms(0644));
  }
  std::string CommandsOf(const LogdirReport& report) {
    std::string all;
    for (const LogdirFinding& finding : report.findings) all += finding.command + "\n";
    return all;
  }
};

// The content is unknown: unpacked into a run that shows a profile, it could hide the tools of the whole run.
TEST_F(LogdirFiles, CompressedBesideAShownProfile_IsUnpackedInAnotherRun) {
  for (const char* program : {"gzip -n", "bzip2", "xz", "zstd -q --rm"}) {
    for (const std::string& content : {Profile(), "garbage"s, Profile().substr(0, 10)}) {
      PutRun();
      Pack(program, kRun + "/n.xplane.pb", content);
      const LogdirFinding finding = Only(Check(), "profile-name");
      EXPECT_EQ(finding.fix, "unpack it in another run");
      EXPECT_THAT(finding.command, HasSubstr("mkdir -p -- " + logdir_ + "/" + kRun + "_n && mv -nT -- "));
      Follow(Check());
      const LogdirReport after = Check();
      ASSERT_EQ(after.profile_runs.size(), 2u);
      EXPECT_EQ(after.profile_runs[1].tools.size(), 8u);
      EXPECT_EQ(after.profile_runs[0].tools.size(), content == Profile() ? 8u : 0u);
      EXPECT_EQ(CommandsOf(after), std::string(after.findings.size(), '\n')) << ReportText(after);
      fs::remove_all(logdir_);
    }
  }
}

TEST_F(LogdirFiles, SeveralCompressedOnes_AreUnpackedIntoARunEach) {
  Pack("gzip -n", kRun + "/a.xplane.pb", Profile());
  Pack("xz", kRun + "/b.xplane.pb", "garbage");
  Pack("zstd -q --rm", kRun + "/c.xplane.pb", Profile());
  Follow(Check());
  size_t with_tools = 0;
  for (const ProfileRun& run : Check().profile_runs) with_tools += run.tools.empty() ? 0 : 1;
  EXPECT_EQ(Check().profile_runs.size(), 3u);
  EXPECT_EQ(with_tools, 2u);
}

TEST_F(LogdirFiles, CompressedFileThatIsCutOff_IsUnpackedByNoCommand) {
  std::string large;
  for (uint32_t i = 1, x = 7; i < 200'000; ++i) large += static_cast<char>((x = x * 1664525 + 1013904223) >> 24);
  for (const char* program : {"gzip -n", "bzip2", "xz", "zstd -q --rm"}) {
    for (const std::string& content : {Profile(), large}) {
      for (const size_t cut : {size_t{0}, size_t{1}, size_t{5}, size_t{20}, content.size() / 2}) {
        Pack(program, kRun + "/n.xplane.pb", content, content == large ? cut : std::min<size_t>(cut, 20));
        const LogdirFinding finding = Only(Check(), "profile-name");
        EXPECT_EQ(finding.command.empty(), cut != 0) << program << " " << cut;
        EXPECT_EQ(finding.fix, cut != 0 ? "copy it again" : "unpack it");
        fs::remove_all(logdir_);
      }
    }
  }
}

TEST_F(LogdirFiles, CompressedCopyOfABrokenProfile_IsUnpackedInAnotherRun) {
  Pack("gzip -n", kRun + "/n.xplane.pb", Profile());
  Put(kRun + "/n.xplane.pb", Profile().substr(0, 10));
  EXPECT_THAT(Only(Check(), "profile-name").what, HasSubstr("broken"));
  Follow(Check());
  EXPECT_EQ(Check().profile_runs[0].name, "run_n");
  EXPECT_EQ(Check().profile_runs[0].tools.size(), 8u);
  EXPECT_EQ(CommandsOf(Check()).find("gzip"), std::string::npos);
  // A broken profile that was unpacked from the compressed file gives no gzip command either.
  fs::remove_all(logdir_);
  Pack("gzip -n", kRun + "/n.xplane.pb", "garbage");
  Follow(Check());
  EXPECT_EQ(CommandsOf(Check()).find("gzip"), std::string::npos);
}

TEST_F(LogdirFiles, BrokenProfile_HidesToolsOfTheRun_UntilItIsMoved) {
  for (const char* name : {"/a.xplane.pb", "/z.xplane.pb"}) {
    PutRun();
    Put(kRun + name, "garbage");
    const LogdirReport report = Check();
    EXPECT_THAT(report.profile_runs[0].tools, IsEmpty());
    EXPECT_THAT(Only(report, "run-no-tools").what, HasSubstr(name + 1));
    ASSERT_EQ(system(Only(report, "run-no-tools").command.c_str()), 0);
    EXPECT_THAT(Lines(Check()), ElementsAre("fail profile-unparsable plugins/profile/run_broken"s + name));
    EXPECT_EQ(Check().profile_runs[1].tools.size(), 8u);
    fs::remove_all(logdir_);
  }
}

// xprof has looked at the run and remembers that it found no tool.
TEST_F(LogdirFiles, BrokenProfile_ViewedOnce_IsMovedAsBefore) {
  PutRun();
  Put(kRun + "/a.xplane.pb", "garbage");
  const std::string command = Only(Check(), "run-no-tools").command;
  const auto state = [](const std::string& content) { return StrCat(kOld / kSecond, "-", content.size()); };
  Put(kRun + "/.cached_tools.json", StrCat(R"({"version": 1, "files": {"h.xplane.pb": ")", state(Profile()),
                                           R"(", "a.xplane.pb": ")", state("garbage"), R"("}, "tools": []})"));
  ASSERT_TRUE(Check().profile_runs[0].tools_from_cache);
  EXPECT_EQ(Only(Check(), "run-no-tools").command, command);
  Follow(Check());
  EXPECT_EQ(Check().profile_runs[1].tools.size(), 8u);
}

// In a run with NO_MODULE.hlo_proto.pb, xprof reads only the first profile to find tools; its pages read all profiles.
TEST_F(LogdirFiles, BrokenProfile_InAMarkedRun_FailsPagesOnly) {
  std::set<size_t> tools;
  for (int number = 0; number < 8; ++number) {
    PutRun();
    Put(kRun + "/NO_MODULE.hlo_proto.pb");
    Put(StrCat(kRun, "/", number, ".xplane.pb"), "garbage");
    const LogdirReport report = Check();
    const std::string first = ScanLogdir(logdir_, {}).directories[3].profiles[0].name;
    ASSERT_EQ(report.profile_runs[0].tools.size(), first == "h.xplane.pb" ? 8u : 0u);
    tools.insert(report.profile_runs[0].tools.size());
    const bool lists = !report.profile_runs[0].tools.empty();
    const LogdirFinding finding = Only(report, lists ? "run-pages-fail" : "run-no-tools");
    EXPECT_EQ(finding.level, FindingLevel::kProblem);
    Follow(report);
    EXPECT_THAT(Lines(Check()),
                ElementsAre(StrCat("fail profile-unparsable plugins/profile/run_broken/", number, ".xplane.pb")));
    EXPECT_EQ(Check().profile_runs[1].tools.size(), 8u);
    fs::remove_all(logdir_);
  }
  EXPECT_THAT(tools, testing::Contains(8u));
}

TEST_F(LogdirFiles, BrokenProfile_JustWritten_IsNotMoved) {
  PutRun();
  Put(kRun + "/a.xplane.pb", Profile().substr(0, 10), kNow - kSecond);
  EXPECT_EQ(Only(Check(), "run-no-tools").command, "");
}

TEST_F(LogdirFiles, LinkThatLeadsNowhere_HidesToolsOfTheRun_UntilItIsMoved) {
  for (const char* target : {"../../../gone", "a.xplane.pb"}) {  // the second is a link to itself
    PutRun();
    fs::create_symlink(target, logdir_ + "/" + kRun + "/a.xplane.pb");
    const LogdirReport report = Check();
    EXPECT_THAT(report.profile_runs[0].tools, IsEmpty());
    EXPECT_THAT(Only(report, "profile-unreadable").what, HasSubstr("leads nowhere"));
    EXPECT_EQ(Only(report, "profile-unreadable").fix, "link it anew, or copy the file");
    EXPECT_EQ(Only(report, "run-no-tools").command,
              StrCat("mkdir -p -- ", logdir_, "/", kRun, "_broken && mv -nT -- ", logdir_, "/", kRun, "/a.xplane.pb ",
                     logdir_, "/", kRun, "_broken/a.xplane.pb"));
    Follow(report);
    EXPECT_TRUE(fs::is_symlink(logdir_ + "/" + kRun + "_broken/a.xplane.pb"));
    EXPECT_EQ(Check().profile_runs[1].tools.size(), 8u);
    for (const LogdirFinding& finding : Check().findings) EXPECT_EQ(finding.command, "");
    fs::remove_all(logdir_);
  }
}

TEST_F(LogdirFiles, NameWithADot_IsNoHost) {
  Put(kRun + "/.h.xplane.pb", Profile());
  const LogdirReport report = Check();
  EXPECT_THAT(report.profile_runs[0].hosts, IsEmpty());
  Follow(report);
  EXPECT_THAT(Lines(Check()), IsEmpty());
  EXPECT_THAT(Check().profile_runs[0].hosts, ElementsAre("h"));
}

TEST_F(LogdirFiles, AppleDouble_IsNoHostAndHidesTools) {
  PutRun();
  Put(kRun + "/._h.xplane.pb", "\0\5\26\7\0\2\0\0Mac OS X"s);
  const LogdirReport report = Check();
  EXPECT_THAT(report.profile_runs[0].tools, IsEmpty());
  EXPECT_THAT(Lines(report), ElementsAre("fail profile-name plugins/profile/run/._h.xplane.pb"));
  Follow(report);
  EXPECT_THAT(Lines(Check()), IsEmpty());
  EXPECT_EQ(Check().profile_runs[0].tools.size(), 8u);
}

TEST_F(LogdirFiles, LinkToAProfile_IsFollowedOnce) {
  fs::create_directory(root_ + "/store");
  Put("../store/one.pb", Profile());
  fs::create_symlink("../store/one.pb", logdir_ + "/h.xplane.pb");
  EXPECT_NE(Only(Check(), "profile-misplaced").command, "");
  Follow(Check());
  EXPECT_THAT(Lines(Check()), IsEmpty());
  EXPECT_EQ(Check().profile_runs.size(), 1u);
}

TEST_F(LogdirFiles, DirectoryAboveIsNoUtf8_PluginFails) {
  PutRun();
  Put("e\xe9/x/plugins/profile/r/h.xplane.pb", Profile());
  Put("e\xe9/y/plugins/profile/readme", "no run is needed for it");
  const LogdirReport report = Check();
  EXPECT_TRUE(report.plugin_fails);
  for (const ProfileRun& run : report.profile_runs) EXPECT_FALSE(run.shown);
  EXPECT_THAT(Lines(report), ElementsAre("fail path-pattern e\xe9"));
  Follow(report);
  EXPECT_FALSE(Check().plugin_fails);
  EXPECT_EQ(Check().ExitStatus(), 0) << ReportText(Check());
  EXPECT_EQ(Check().profile_runs.size(), 2u);
  // xprof looks for neither: a directory with events only, and one that only a link leads to.
  Put("train\xe9/" + kEvents, Version() + Scalar("a", 1) + Scalar("a", 2));
  fs::create_directory(logdir_ + "/l\xe9");
  fs::create_directory_symlink("../plugins", logdir_ + "/l\xe9/plugins");
  EXPECT_FALSE(Check().plugin_fails);
}

TEST_F(LogdirFiles, RunIsNoUtf8_ListsNoTool) {
  PutRun();
  Put("plugins/profile/r\xe9/h.xplane.pb", Profile());
  const LogdirReport report = Check();
  EXPECT_FALSE(report.plugin_fails);
  EXPECT_THAT(report.profile_runs[0].hosts, ElementsAre("h"));
  EXPECT_EQ(report.profile_runs[0].tools.size(), 0u);
  EXPECT_EQ(report.profile_runs[1].name, "run");
  EXPECT_EQ(report.profile_runs[1].tools.size(), 8u);
  EXPECT_THAT(Lines(report), ElementsAre("fail path-pattern plugins/profile/r\xe9"));
  Follow(report);
  EXPECT_THAT(Lines(Check()), IsEmpty());
  for (const ProfileRun& run : Check().profile_runs) EXPECT_EQ(run.tools.size(), 8u);
}

TEST_F(LogdirFiles, HostIsNoUtf8_HidesToolsOfTheRun) {
  for (const char* mark : {"/readme", "/NO_MODULE.hlo_proto.pb"}) {
    PutRun();
    Put(kRun + mark);
    Put(kRun + "/\xe9.xplane.pb", Profile());
    const LogdirReport report = Check();
    EXPECT_THAT(report.profile_runs[0].tools, IsEmpty());
    EXPECT_THAT(Lines(report), ElementsAre("fail host-name " + kRun + "/\xe9.xplane.pb"));
    Follow(report);
    EXPECT_THAT(Lines(Check()), IsEmpty());
    EXPECT_EQ(Check().profile_runs[0].tools.size(), 8u);
    fs::remove_all(logdir_);
  }
}

TEST_F(LogdirFiles, DirectoryNamedAsAnEventsFile_IsRenamed) {
  PutRun();
  Put("my_tfevents/" + kEvents, Version() + Scalar("a", 1));
  EXPECT_THAT(Lines(Check()), ElementsAre("warn events-directory my_tfevents"));
  Follow(Check());
  EXPECT_THAT(Lines(Check()), IsEmpty());
  EXPECT_EQ(Check().events_runs.size(), 1u);
}

TEST_F(LogdirFiles, DateAsDirectories_StaysInTheNameOfTheRun) {
  for (const char* day : {"25", "26"}) Put("plugins/profile/2023/11/"s + day + "/h.xplane.pb", Profile());
  Follow(Check());
  std::vector<std::string> names;
  for (const ProfileRun& run : Check().profile_runs) names.push_back(run.name);
  EXPECT_THAT(names, ElementsAre("2023_11_26", "2023_11_25"));  // and no empty run `2023`
  EXPECT_THAT(Lines(Check()), IsEmpty());
}

TEST_F(LogdirFiles, LineEndsOfATerminal_AreRecognisedInAFileThatParses) {
  std::string lines;
  for (const char c : Profile()) lines += c == '\n' ? "\r\n"s : std::string(1, c);
  PutRun(lines);
  EXPECT_THAT(Only(Check(), "profile-damaged").what, HasSubstr("CR LF"));
}

// Root's tar restores owners, setuid programs and devices from the archive.
TEST_F(LogdirFiles, Archive_IsUnpackedByNoCommand) {
  for (const char* name : {"logs.tar", "logs.tar.gz", "logs.tgz", "logs.zip", "logs.7z"}) {
    Put(name, "anything");
    const LogdirFinding finding = Only(Check(), "archive");
    EXPECT_EQ(finding.command, "") << name;
    EXPECT_EQ(finding.fix, "unpack it, not as root, into a new directory");
    fs::remove(logdir_ + "/" + name);
  }
}

// The unpacked file gets the mode of the packed file.
TEST_F(LogdirFiles, CompressedProfileThatIsSetuid_IsUnpackedByNoCommand) {
  const std::string name = kRun + "/h.xplane.pb.gz";
  Pack("gzip -n", kRun + "/h.xplane.pb", Profile());
  EXPECT_EQ(Only(Check(), "profile-name").command, "gzip -dk -- " + logdir_ + "/" + name);
  for (const mode_t mode : {04755, 02755, 01644}) {
    ASSERT_EQ(chmod((logdir_ + "/" + name).c_str(), mode), 0);
    EXPECT_EQ(Only(Check(), "profile-name").command, "") << mode;
  }
}

// A cloned repository may hold links that lead out of it: mv through such a link would change files outside.
TEST_F(LogdirFiles, LinkOnTheWay_NoCommandGoesThroughIt) {
  fs::create_directories(root_ + "/home/.config");
  // The scan does not follow this link: it leads to a parent directory.
  fs::create_directory_symlink("..", logdir_ + "/plugins");
  Put("plugin/profile/run/h.xplane.pb", Profile());
  const std::string command = Only(Check(), "profile-misspelt").command;
  EXPECT_THAT(command, HasSubstr(logdir_ + "/profiles/plugins/profile"));
  EXPECT_THAT(command, Not(HasSubstr(logdir_ + "/plugins")));
  fs::remove(logdir_ + "/plugins");
  // A run may be a link: the scan follows it.
  fs::remove_all(logdir_ + "/plugin");
  fs::create_directories(logdir_ + "/plugins/profile");
  fs::create_directory_symlink(root_ + "/home/.config", logdir_ + "/plugins/profile/r");
  Put("plugins/profile/r/h.xplane.pb", Profile());
  Put("plugins/profile/r/.k.xplane.pb", Profile());
  Put("plugins/profile/r/.cached_tools.json", "[]");
  const LogdirReport report = Check();
  size_t by_hand = 0;
  for (const LogdirFinding& finding : report.findings) {
    EXPECT_EQ(finding.command, "") << finding.id;
    by_hand += finding.fix == "a link is on the way: do it by hand" ? 1 : 0;
  }
  EXPECT_GT(by_hand, 0u);
  EXPECT_EQ(Only(report, "commands-withheld").where, "plugins/profile/r");
}

// Commands that link or view a profile name it by its real path.
TEST_F(LogdirFiles, ProfilesBehindALink_AreNamedByTheirPlace) {
  fs::create_directories(root_ + "/store/day");
  fs::create_directory_symlink("../store", logdir_ + "/job");
  Put("job/day/h.xplane.pb", Profile());
  PutRun();
  const LogdirFinding finding = Only(Check(), "profile-misplaced");
  EXPECT_THAT(finding.command, HasSubstr("ln -sT -- " + root_ + "/store/day " + logdir_ + "/plugins/profile/"));
}

TEST_F(LogdirFiles, LinkToADirectoryAboveTheLogdir_IsNotFollowed) {
  PutRun();
  fs::create_directory_symlink("/", logdir_ + "/all");
  fs::create_directory_symlink("../..", logdir_ + "/up");
  const LogdirReport report = Check();
  EXPECT_THAT(Lines(report), ElementsAre("warn link-loop all", "warn link-loop up"));
  EXPECT_EQ(report.directories, 4u);
}

TEST_F(LogdirFiles, LinkToManyDirectories_IsFollowedToALimit) {
  for (int i = 0; i < 8; ++i) fs::create_directories(StrCat(root_, "/store/", i));
  fs::create_directory_symlink("../store", logdir_ + "/job");
  PutRun();
  ScanLimits limits;
  limits.linked_directories = 9;
  EXPECT_THAT(Lines(Check("", limits)), IsEmpty());
  limits.linked_directories = 5;
  const LogdirReport report = Check("", limits);
  EXPECT_THAT(Only(report, "scan-cut").what, HasSubstr("links lead to too many directories"));
  EXPECT_EQ(report.directories, 4u + 5u);
  EXPECT_EQ(report.profile_runs.size(), 1u);
}

TEST_F(LogdirFiles, OthersMayWrite_NoCommandIsGiven) {
  Put("plugin/profile/run/h.xplane.pb", Profile());
  EXPECT_NE(Only(Check(), "profile-misspelt").command, "");
  for (const char* place : {"/plugin", ""}) {
    ASSERT_EQ(chmod((logdir_ + place).c_str(), 0777), 0);
    const LogdirReport report = Check();
    for (const LogdirFinding& finding : report.findings) EXPECT_EQ(finding.command, "") << finding.id;
    EXPECT_EQ(Only(report, "profile-misspelt").fix, "rename it");
    EXPECT_EQ(Only(report, "commands-withheld").level, FindingLevel::kNote);
    EXPECT_EQ(Only(report, "commands-withheld").what, "every user may write here");
    ASSERT_EQ(chmod((logdir_ + place).c_str(), 0755), 0);
  }
}

TEST_F(LogdirFiles, OthersMayWriteToWhatALinkLeadsTo_NoCommandIsGiven) {
  Put("../store/day/h.xplane.pb", Profile());
  fs::create_directory_symlink("../store/day", logdir_ + "/day");
  EXPECT_NE(Only(Check(), "profile-misplaced").command, "");
  ASSERT_EQ(chmod((root_ + "/store/day").c_str(), 0777), 0);
  EXPECT_EQ(Only(Check(), "profile-misplaced").command, "");
}

}  // namespace
}  // namespace tbprof
