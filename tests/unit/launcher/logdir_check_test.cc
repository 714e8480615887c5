// SPDX-License-Identifier: Apache-2.0
#include "launcher/check/logdir_check.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "launcher/base/text.h"
#include "tests/unit/launcher/logdir_fixture.h"
#include "tests/unit/writer/event_maker.h"

namespace tbprof {
namespace {

using namespace event_maker;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class LogdirCheck : public LogdirFixture {};

// The target of a link is not moved: the run that shows it by the link would lose it.
TEST_F(LogdirCheck, TargetOfALink_IsNotMoved) {
  namespace fs = std::filesystem;
  const auto commands = [&] {
    std::string all;
    for (const LogdirFinding& finding : Check().findings) all += finding.command + "\n";
    fs::remove_all(logdir_);
    fs::create_directory(logdir_);
    return all;
  };
  const std::string runs = logdir_ + "/plugins/profile/";
  // A profile outside of the runs that two runs show by links.
  Put("store/h.xplane.pb", Profile());
  for (const char* run : {"T", "U"}) {
    fs::create_directories(runs + run);
    fs::create_symlink("../../../store/h.xplane.pb", runs + run + "/h.xplane.pb");
  }
  EXPECT_EQ(commands().find("mv "), std::string::npos);
  // A run whose name a glob pattern would not match, shown by a link.
  Put("plugins/profile/T[0]/h.xplane.pb", Profile());
  fs::create_directory_symlink("T[0]", runs + "newest");
  EXPECT_EQ(commands().find("mv "), std::string::npos);
  // Events in a file of another name, shown by links.
  Put("data/loss.log", Version() + Scalar("loss", 1, 10) + Scalar("loss", 2, 11));
  fs::create_directory(logdir_ + "/a");
  fs::create_symlink("../data/loss.log", logdir_ + "/a/" + kEvents);
  EXPECT_EQ(commands().find("mv "), std::string::npos);
  // Without a link each of them is moved.
  Put("store/h.xplane.pb", Profile());
  Put("plugins/profile/T[0]/h.xplane.pb", Profile());
  EXPECT_NE(commands().find("mv "), std::string::npos);
}

TEST_F(LogdirCheck, ValidLogdir_HasNoFinding) {
  PutRun();
  Put("events.out.tfevents.1000.host.profile-empty", Version());
  Put("train/" + kEvents, Version() + Scalar("loss", 1, 10) + Scalar("loss", 2, 11));
  const LogdirReport report = Check();
  EXPECT_THAT(Lines(report), IsEmpty()) << ReportText(report);
  EXPECT_EQ(report.ExitStatus(), 0);
  ASSERT_EQ(report.profile_runs.size(), 1u);
  EXPECT_EQ(report.profile_runs[0].name, "run");
  EXPECT_THAT(report.profile_runs[0].hosts, ElementsAre("h"));
  EXPECT_EQ(report.profile_runs[0].tools.size(), 8u);
  EXPECT_TRUE(report.profile_runs[0].shown_old);
  ASSERT_EQ(report.events_runs.size(), 2u);
  EXPECT_EQ(report.events_runs[1].values, 2u);
  EXPECT_THAT(ReportText(report), HasSubstr("PASS"));
}

TEST_F(LogdirCheck, LogdirEmptyMissingOrTooDeep_Fails) {
  EXPECT_THAT(Lines(Check()), ElementsAre("fail logdir-empty ."));
  EXPECT_THAT(Lines(Check("x")), ElementsAre("fail logdir-missing ."));
  EXPECT_THAT(Only(Check("x"), "logdir-missing").command,
              "tensorboard --logdir " + logdir_);  // a directory with a similar name
  PutRun();
  EXPECT_THAT(Lines(Check("/" + kRun + "/h.xplane.pb")), ElementsAre("fail logdir-not-directory ."));
  EXPECT_EQ(Only(Check("/" + kRun + "/h.xplane.pb"), "logdir-not-directory").command,
            "tensorboard --logdir " + logdir_);
  for (const std::string level : {"/plugins", "/plugins/profile", "/plugins/profile/run"}) {
    const LogdirReport report = Check(level);
    EXPECT_EQ(report.ExitStatus(), 2) << level;
    EXPECT_EQ(Only(report, "logdir-too-deep").command, "tensorboard --logdir " + logdir_) << level;
  }
  EXPECT_TRUE(Check("/plugins").plugin_fails);
}

TEST_F(LogdirCheck, LogdirTooHigh_IsANoteWithThePath) {
  Put("job/a/" + kRun + "/h.xplane.pb", Profile());
  const LogdirFinding finding = Only(Check(), "logdir-too-high");
  EXPECT_EQ(finding.level, FindingLevel::kNote);
  EXPECT_EQ(finding.command, "tensorboard --logdir " + logdir_ + "/job/a");
  Put("other/" + kEvents, Version() + Scalar("a", 1));
  for (const std::string& line : Lines(Check())) EXPECT_THAT(line, testing::Not(HasSubstr("too-high")));
}

TEST_F(LogdirCheck, MisspeltPlace_IsRenamed) {
  for (const std::string place : {"plugin/profile", "plugins/profiles", "Plugins/Profile", "PLUGINS/profile"}) {
    std::filesystem::remove_all(logdir_);
    Put(place + "/run/h.xplane.pb", Profile());
    const LogdirReport report = Check();
    EXPECT_EQ(Only(report, "profile-misspelt").where, place);
    EXPECT_EQ(report.ExitStatus(), 2);
    ASSERT_EQ(system(Only(report, "profile-misspelt").command.c_str()), 0);
    EXPECT_EQ(Check().ExitStatus(), 0) << place;
  }
}

TEST_F(LogdirCheck, Fix_ShellCharacters_AreQuoted) {
  Put("a b'c\n/plugin/profile/run/h.xplane.pb", Profile());
  Put("$(touch pwned)/plugin/profile/run/h.xplane.pb", Profile());
  const LogdirReport report = Check();
  size_t fixed = 0;
  for (const LogdirFinding& finding : report.findings) {
    if (finding.id != "profile-misspelt") continue;
    std::ofstream(root_ + "/fix.sh") << finding.command;
    ASSERT_EQ(system(StrCat("cd ", root_, " && sh fix.sh").c_str()), 0) << finding.command;
    ++fixed;
  }
  EXPECT_EQ(fixed, 2u);
  EXPECT_FALSE(std::filesystem::exists(root_ + "/pwned"));
  EXPECT_EQ(Check().ExitStatus(), 0) << ReportText(Check());
  // One finding is one line, whatever the names hold.
  const std::string text = ReportText(report);
  EXPECT_EQ(text.find("c\n/"), std::string::npos);
}

TEST_F(LogdirCheck, BrokenProfiles_AreFindings) {
  Put("plugins/profile/a/h.xplane.pb", "");
  Put("plugins/profile/b/h.xplane.pb", Profile().substr(0, 10));
  Put("plugins/profile/c/h.xplane.pb", "<html>not found</html>");
  Put("plugins/profile/d/h.xplane.pb", Plane("/host:CPU"));
  Put("plugins/profile/e/xplane.pb", Profile());
  Put("plugins/profile/f/H.XPLANE.PB", Profile());
  Put("plugins/profile/g/h.xplane.pb.gz", Profile());
  Put("plugins/profile/h/h.trace.json.gz", "old");
  std::filesystem::create_directory(logdir_ + "/plugins/profile/i");
  Put("plugins/profile/j/a,b.xplane.pb", Profile());
  EXPECT_THAT(
      Lines(Check()),
      testing::UnorderedElementsAre(
          "fail profile-empty plugins/profile/a/h.xplane.pb", "fail profile-truncated plugins/profile/b/h.xplane.pb",
          "fail profile-unparsable plugins/profile/c/h.xplane.pb",
          "warn profile-no-events plugins/profile/d/h.xplane.pb", "fail profile-name plugins/profile/e/xplane.pb",
          "fail profile-name plugins/profile/f/H.XPLANE.PB", "fail profile-name plugins/profile/g/h.xplane.pb.gz",
          "fail run-without-profile plugins/profile/h", "fail run-without-profile plugins/profile/i",
          "warn host-name plugins/profile/j/a,b.xplane.pb"));
}

TEST_F(LogdirCheck, LargeProfiles_AreGradedBySize) {
  PutRun();
  // A plane with an event, and data that the check skips. The file is sparse, so it takes no space.
  const std::string path = logdir_ + "/" + kRun + "/h.xplane.pb";
  const uint64_t size = uint64_t{65} << 20;
  const std::string inner = Field(3, Field(4, "\x08\x01")) + "\x3a" + Varint(size);
  const std::string head = "\x0a" + Varint(inner.size() + size) + inner;
  std::ofstream(path, std::ios::binary) << head;
  ASSERT_EQ(truncate(path.c_str(), static_cast<off_t>(head.size() + size)), 0);
  EXPECT_THAT(Lines(Check()), ElementsAre("warn profile-large plugins/profile/run/h.xplane.pb",
                                          "warn run-no-steps plugins/profile/run"));
}

TEST_F(LogdirCheck, MessagesInAProfile_AreRepeated) {
  PutRun(Profile(Field(2, "no permission") + Field(3, "no steps")));
  const LogdirReport report = Check();
  EXPECT_EQ(Only(report, "profile-errors").what, "no permission");
  EXPECT_EQ(Only(report, "profile-errors").level, FindingLevel::kWarning);
  EXPECT_EQ(Only(report, "profile-warnings").what, "no steps");
  EXPECT_EQ(Only(report, "profile-warnings").level, FindingLevel::kNote);
}

TEST_F(LogdirCheck, DropsInTheSummary_AreAFinding) {
  PutRun();
  Put(kRun + "/summary.json",
      R"({"schema_version":1,"records":{"corrupt":0,"over_budget":7,"dropped":{"no free chunk":12,"other":0}}})");
  const LogdirReport report = Check();
  EXPECT_THAT(Only(report, "profile-drops").what, HasSubstr("12 records were lost: no free chunk"));
  EXPECT_EQ(Only(report, "profile-budget").level, FindingLevel::kNote);
  for (const std::string text :
       {"{", "[]", "null", R"({"schema":1,"records":[]})", R"({"schema":1,"records":{"dropped":{"a":"b"}}})",
        R"({"schema":1,"records":{"dropped":{"a":-1},"corrupt":{}}})"}) {
    Put(kRun + "/summary.json", text);
    EXPECT_EQ(Check().ExitStatus(), 0) << text;
  }
  Put(kRun + "/summary.json", std::string(500'000, '['));
  EXPECT_EQ(Check().ExitStatus(), 0);
}

TEST_F(LogdirCheck, StaleCache_IsAFinding) {
  PutRun();
  Put(kRun + "/ALL_HOSTS.op_stats_v2.pb", "x", kOld + kSecond);
  EXPECT_EQ(Check().ExitStatus(), 0);
  Put(kRun + "/late.xplane.pb", Profile(), kOld + 2 * kSecond);
  const std::string cache = logdir_ + "/" + kRun + "/ALL_HOSTS.op_stats_v2.pb";
  EXPECT_EQ(Only(Check(), "cache-stale").command, "mv -nT -- " + cache + " " + cache + ".old");
  EXPECT_EQ(Check().ExitStatus(), 1);
}

TEST_F(LogdirCheck, FilesLeftByTbprof_AreAFinding) {
  PutRun();
  Put(".tbprof/1.spool", "x", kOld);
  Put(".tbprof/staging/r/h.xplane.pb.tmp", "x", kOld);
  Touch(".tbprof/staging/r", kOld);
  const LogdirReport left = Check();
  EXPECT_EQ(Only(left, "spool").level, FindingLevel::kWarning);
  EXPECT_THAT(Only(left, "spool").command, HasSubstr("tbprof recover --logdir=" + logdir_));
  EXPECT_EQ(Only(left, "staging").level, FindingLevel::kWarning);
  const int spool = open((logdir_ + "/.tbprof/1.spool").c_str(), O_RDONLY | O_CLOEXEC);
  const int staging = open((logdir_ + "/.tbprof/staging/r").c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(flock(spool, LOCK_EX), 0);
  ASSERT_EQ(flock(staging, LOCK_EX), 0);
  const LogdirReport at_work = Check();
  EXPECT_EQ(Only(at_work, "spool").level, FindingLevel::kNote);
  EXPECT_EQ(Only(at_work, "staging").level, FindingLevel::kNote);
  EXPECT_EQ(at_work.ExitStatus(), 0);
  close(spool);
  close(staging);
}

TEST_F(LogdirCheck, TraceOfAnotherTool_IsAWarning) {
  Put("host_1.1700.pt.trace.json", "{}");
  EXPECT_EQ(Only(Check(), "foreign-trace").level, FindingLevel::kWarning);
}

TEST_F(LogdirCheck, EventsFilesWithoutValues_AreGradedByAge) {
  Put("a/" + kEvents, "", kNow - 10 * kSecond);
  Put("b/" + kEvents, Version(), kNow - 10 * kSecond);
  Put("c/" + kEvents, "");
  Put("d/" + kEvents, Version());
  Put("e/" + kEvents, Record(Event(1, 0, Field(4, "graph"))));
  Put("f/events.out.tfevents.1000.host.profile-empty", Version());
  const std::string name = "/" + kEvents;
  EXPECT_THAT(Lines(Check()), testing::UnorderedElementsAre("note events-empty a" + name, "note events-empty b" + name,
                                                            "warn events-empty c" + name, "warn events-empty d" + name,
                                                            "warn events-no-summary e", "note no-profile ."));
}

TEST_F(LogdirCheck, EventsEmpty_WriterOfTheRunsBelow_IsANote) {
  Put("job/" + kEvents, Version());
  Put("job/loss_a/" + kEvents, Version() + Scalar("loss", 1) + Scalar("loss", 2));
  Put("job2/" + kEvents, Version());
  EXPECT_THAT(Lines(Check()), testing::UnorderedElementsAre("note events-empty job/" + kEvents, "note no-profile .",
                                                            "warn events-empty job2/" + kEvents));
}

TEST_F(LogdirCheck, CutAndBrokenEventsFiles_AreFindings) {
  const std::string good = Version() + Scalar("a", 1) + Scalar("a", 2);
  Put("alive/" + kEvents, good.substr(0, good.size() - 3), kNow - 5 * kSecond);
  Put("dead/" + kEvents, good.substr(0, good.size() - 3));
  std::string broken = good;
  broken[Version().size() + 20] ^= 1;
  Put("broken/" + kEvents, broken);
  const LogdirReport report = Check();
  EXPECT_THAT(Lines(report), testing::UnorderedElementsAre("note events-truncated alive/" + kEvents,
                                                           "warn events-truncated dead/" + kEvents,
                                                           "fail events-corrupt broken/" + kEvents));
  EXPECT_THAT(Only(report, "events-corrupt").what, HasSubstr(StrCat("at byte ", Version().size())));
}

TEST_F(LogdirCheck, Steps_OneStepOrBackwards_AreFindings) {
  Put("one/" + kEvents,
      Scalar("a", 0, 1) + Scalar("a", 0, 2) + Scalar("b", 7, 1) + Scalar("b", 7, 2) + Scalar("c", 0, 1));
  Put("back/" + kEvents, Scalar("a", 1, 1) + Scalar("a", 5, 2) + Scalar("a", 2, 3));
  // A restart that continues the steps in a file of its own, and a restart that begins at step 1.
  Put("restart/" + kEvents, Scalar("a", 1, 1) + Scalar("a", 5, 2));
  Put("restart/events.out.tfevents.2000.host.2.0", Scalar("a", 6, 3) + Scalar("a", 7, 4));
  Put("again/" + kEvents, Scalar("a", 1, 1) + Scalar("a", 5, 2));
  Put("again/events.out.tfevents.2000.host.2.0", Scalar("a", 1, 3) + Scalar("a", 7, 4));
  const LogdirReport report = Check();
  EXPECT_THAT(Lines(report), testing::UnorderedElementsAre("warn events-one-step one", "warn events-steps-back back",
                                                           "warn events-steps-back again", "note no-profile ."));
  EXPECT_EQ(Only(report, "events-one-step").what,
            "all 2 values are at step 0, one is shown: `a`, and 1 more tag likewise");
}

TEST_F(LogdirCheck, SeveralWritersInOneDirectory_AreAFinding) {
  Put("mixed/" + kEvents, Scalar("a", 1, 1) + Scalar("a", 5, 20));
  Put("mixed/events.out.tfevents.1001.host.2.0", Scalar("a", 6, 10) + Scalar("a", 7, 30));
  Put("apart/" + kEvents, Scalar("a", 1, 1) + Scalar("a", 5, 20));
  Put("apart/events.out.tfevents.1001.host.2.0", Scalar("b", 1, 10) + Scalar("b", 7, 30));
  const LogdirReport report = Check();
  EXPECT_THAT(Lines(report), testing::UnorderedElementsAre("warn events-several-writers mixed",
                                                           "note events-several-writers apart", "note no-profile ."));
  EXPECT_EQ(report.findings[0].what, "mixed at the same time: `a`, 2 writers (host.1, host.2)");
}

TEST_F(LogdirCheck, InvalidTimes_AreAFinding) {
  Put("future/" + kEvents, Scalar("a", 1, static_cast<double>(kNow / kSecond) + 90000));
  Put("bad/" + kEvents, Scalar("a", 1, 1) + Scalar("a", 2, HUGE_VAL) + Scalar("a", 3, 1e300));
  const LogdirReport report = Check();
  EXPECT_THAT(Lines(report), testing::UnorderedElementsAre("warn events-future future/" + kEvents,
                                                           "warn events-bad-time bad/" + kEvents,
                                                           "warn events-future bad/" + kEvents, "note no-profile ."));
}

TEST_F(LogdirCheck, Links_AreFollowedOnceAndLoopsReported) {
  PutRun();
  std::filesystem::create_directory_symlink(logdir_, logdir_ + "/loop");
  std::filesystem::create_directory_symlink("/nonexistent", logdir_ + "/dangling");
  Put("real/" + kEvents, Scalar("a", 1));
  std::filesystem::create_directory_symlink(logdir_ + "/real", logdir_ + "/link");
  const LogdirReport report = Check();
  EXPECT_THAT(Lines(report), ElementsAre("warn link-loop loop"));
  EXPECT_EQ(Only(report, "link-loop").command, "");
  EXPECT_EQ(report.events_runs.size(), 2u);
}

TEST_F(LogdirCheck, Walk_ManyEntriesOrLevels_IsBounded) {
  for (int i = 0; i < 300; ++i) Put(StrCat("file", i));
  ScanLimits limits;
  limits.entries = 100;
  EXPECT_EQ(Only(Check("", limits), "scan-cut").level, FindingLevel::kWarning);
  std::string deep = "d";
  for (int i = 0; i < 30; ++i) deep += "/d";
  Put(deep + "/" + kEvents, Scalar("a", 1));
  limits = {};
  limits.depth = 10;
  EXPECT_EQ(Only(Check("", limits), "scan-cut").level, FindingLevel::kWarning);
  EXPECT_EQ(Check().events_runs.size(), 1u);
}

TEST_F(LogdirCheck, SpecialFiles_AreNotOpened) {
  PutRun();
  ASSERT_EQ(mkfifo((logdir_ + "/events.out.tfevents.fifo").c_str(), 0600), 0);
  ASSERT_EQ(mkfifo((logdir_ + "/" + kRun + "/p.xplane.pb").c_str(), 0600), 0);
  const LogdirReport report = Check();
  EXPECT_EQ(Only(report, "events-unreadable").level, FindingLevel::kWarning);
  EXPECT_EQ(Only(report, "profile-unreadable").level, FindingLevel::kProblem);
}

TEST_F(LogdirCheck, Report_ManyFindings_IsShortAndTheJsonWhole) {
  for (int i = 0; i < 200; ++i) Put(StrCat("plugins/profile/run", i, "/h.xplane.pb"), "");
  const LogdirReport report = Check();
  const std::string text = ReportText(report);
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 60);
  EXPECT_THAT(text, HasSubstr("and 190 more of this kind (profile-empty; all of them: --json)"));
  const nlohmann::json json = nlohmann::json::parse(ReportJson(report));
  EXPECT_EQ(json["schema"], 2);
  EXPECT_EQ(json["findings"].size(), 200u);
  EXPECT_EQ(json["profile"]["runs"].size(), 200u);
  EXPECT_EQ(json["result"], "fail");
}

// ---- steps

TEST_F(LogdirCheck, Steps_NoMarker_WarnsWithRemedy) {
  PutRun(ProfileWithoutSteps());
  const LogdirFinding finding = Only(Check(), "run-no-steps");
  EXPECT_EQ(finding.level, FindingLevel::kWarning);
  EXPECT_THAT(finding.fix, HasSubstr("tbprof run"));
  EXPECT_EQ(Check().ExitStatus(), 1);
}

TEST_F(LogdirCheck, Steps_OneHostHasThem_NoFinding) {
  PutRun(ProfileWithoutSteps());
  Put(kRun + "/other.xplane.pb", Profile());
  EXPECT_THAT(Lines(Check()), IsEmpty());
}

TEST_F(LogdirCheck, Steps_WhatXprofTakesForOne) {
  // event, stat, whether xprof's overview has a step: tests/xprof/test_check.py holds it against the converter.
  const std::tuple<const char*, const char*, bool> kCases[] = {
      {"work", "_r", true},         {"TraceContext", "x", true}, {"work", "step_name", true},
      {"FunctionRun", "_r", false}, {"train", "x", false},       {"work", "group_id", false}};
  for (const auto& [event, stat, found] : kCases) {
    PutRun(PlaneWith(event, stat));
    EXPECT_EQ(Check().ExitStatus(), found ? 0 : 1) << event << " " << stat;
  }
}

TEST_F(LogdirCheck, Steps_NotReadOrOfATpu_AreUnknown) {
  Put(kRun + "/h.xplane.riegeli", "not read");
  const LogdirFinding finding = Only(Check(), "run-steps-unknown");
  EXPECT_EQ(finding.level, FindingLevel::kNote);
  EXPECT_THAT(finding.what, HasSubstr("unknown"));
  std::filesystem::remove(logdir_ + "/" + kRun + "/h.xplane.riegeli");
  PutRun(ProfileWithoutSteps(Plane("/device:TPU:0")));
  EXPECT_THAT(Lines(Check()), ElementsAre("note run-steps-unknown plugins/profile/run"));
}

TEST_F(LogdirCheck, Steps_SearchedInvalidEvents_LeaveTheVerdictOnTheFile) {
  // The metadata names a marker, but the event that could be a marker is no valid message. The plane around it is
  // valid.
  const std::string metadata = Field(5, "\x08\x01" + Field(2, "\x08\x01" + Field(2, "_r")));
  PutRun(Plane("/host:CPU", Field(3, Field(4, "\xff\xff")) + metadata));
  EXPECT_THAT(Lines(Check()), ElementsAre("note run-steps-unknown plugins/profile/run"));
}

// ---- names

TEST_F(LogdirCheck, AProfileUnderAnotherName_IsRenamed) {
  Put(kRun + "/trace.pb", Profile(Field(4, "node7")));
  const LogdirFinding finding = Only(Check(), "profile-name");
  EXPECT_EQ(finding.command,
            StrCat("mv -nT -- ", logdir_, "/", kRun, "/trace.pb ", logdir_, "/", kRun, "/node7.xplane.pb"));
  // A file without the content of a profile keeps its name.
  std::filesystem::remove(logdir_ + "/" + kRun + "/trace.pb");
  Put(kRun + "/h.xplane.pb.bak", "something else");
  EXPECT_EQ(Only(Check(), "profile-name").command, "");
}

TEST_F(LogdirCheck, AnEventsFileUnderAnotherName_IsRenamed) {
  Put("train/log", Version() + Scalar("a", 1) + Scalar("a", 2));
  const LogdirReport alone = Check();
  EXPECT_EQ(Only(alone, "events-misnamed").level, FindingLevel::kProblem);
  ASSERT_EQ(system(Only(alone, "events-misnamed").command.c_str()), 0);
  EXPECT_EQ(Check().ExitStatus(), 0) << ReportText(Check());
  // Beside another events file it becomes a run of its own: TensorBoard would drop the steps that it repeats.
  Put("train/copy", Version() + Scalar("a", 1) + Scalar("a", 2));
  ASSERT_EQ(system(Only(Check(), "events-misnamed").command.c_str()), 0);
  EXPECT_EQ(Check().ExitStatus(), 0) << ReportText(Check());
  EXPECT_EQ(Check().events_runs.size(), 2u);
}

TEST_F(LogdirCheck, FilesAreReadUpToALimit_ThenTheReportIsUnknown) {
  for (int i = 0; i < 5; ++i) Put(StrCat("file", i), "x");
  ScanLimits limits;
  limits.unnamed = 2;
  EXPECT_THAT(Only(Check("", limits), "logdir-empty").what, HasSubstr("unknown"));
}

TEST_F(LogdirCheck, TraceExport_NoProfile_NamesProfilerOutdir) {
  const auto trace = [](const std::string& plugin) {
    return Record(Event(1, 0, Field(5, Value("t", Field(8, "tensor") + Field(9, Field(1, Field(1, plugin)))))));
  };
  Put(kEvents, Version() + trace("graph_run_metadata"));
  EXPECT_THAT(Only(Check(), "trace-without-profile").fix, HasSubstr("profiler_outdir"));
  EXPECT_EQ(Check().ExitStatus(), 1);
  PutRun();
  EXPECT_EQ(Check().ExitStatus(), 0) << ReportText(Check());
  Put("graph/" + kEvents, Version() + trace("graph_run_metadata_graph"));
  EXPECT_EQ(Only(Check(), "trace-graph-only").level, FindingLevel::kNote);
}

// ---- commands

TEST_F(LogdirCheck, Commands_TwoOfOneReport_NeverMakeTheSameName) {
  PutRun();
  Put(kRun + "/a,b.xplane.pb", Profile());
  Put(kRun + "/c,d.xplane.pb", Profile());
  Put(kRun + "/host1.xplane.pb", Profile());
  const LogdirReport report = Check();
  std::vector<std::string> commands;
  for (const LogdirFinding& finding : report.findings) {
    if (finding.id == "host-name") commands.push_back(finding.command);
  }
  ASSERT_EQ(commands.size(), 2u);
  EXPECT_THAT(commands[0] + commands[1],
              testing::AllOf(HasSubstr("host1_2.xplane.pb"), HasSubstr("host1_3.xplane.pb")));
}

TEST_F(LogdirCheck, Commands_ANameThatNoWordCanHold_HasAdviceAlone) {
  Put("a\n/plugin/profile/run\n/h.xplane.pb", Profile());
  for (const LogdirFinding& finding : Check().findings) {
    EXPECT_THAT(finding.command, testing::Not(HasSubstr("\n")));
    EXPECT_NE(finding.fix, "");
  }
}

TEST_F(LogdirCheck, Text_EachFindingIsOneLineOf100Columns) {
  const std::string deep(60, 'd');
  Put(deep + "/" + deep + "/plugins/profile/run/h.xplane.pb",
      Profile(Field(2, std::string(300, 'e')) + Field(3, std::string(300, 'w'))));
  Put(deep + "/" + deep + "/train/" + kEvents, Scalar(std::string(200, 't'), 0) + Scalar(std::string(200, 't'), 0));
  const std::string text = ReportText(Check());
  std::istringstream lines(text);
  size_t findings = 0;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("WARN") && !line.starts_with("NOTE") && !line.starts_with("FAIL")) continue;
    ++findings;
    EXPECT_LE(line.size(), 100u + 2 * std::count(line.begin(), line.end(), '\xe2')) << line;
  }
  EXPECT_GE(findings, 4u) << text;
  // The whole path is on a line of its own.
  EXPECT_THAT(text, HasSubstr("\n      in: " + deep + "/" + deep + "/plugins/profile/run/h.xplane.pb\n"));
  // So is a message of the profile that is too long for its line.
  EXPECT_THAT(text, HasSubstr("\n      whole: " + std::string(300, 'w') + "\n"));
}

TEST_F(LogdirCheck, Pass_NamesTheDoctor) {
  PutRun();
  Put("events.out.tfevents.1000.host.profile-empty", Version());
  EXPECT_THAT(ReportText(Check()), HasSubstr("tbprof doctor"));
  EXPECT_EQ(nlohmann::json::parse(ReportJson(Check()))["next"], "tbprof doctor");
}

}  // namespace
}  // namespace tbprof
