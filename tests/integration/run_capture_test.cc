// SPDX-License-Identifier: Apache-2.0
// Windows: captures on request, delayed ones; spools that are kept, converted again, recovered.
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>

#include "harness.h"

namespace tbprof::integration {
namespace {

using ::testing::SizeIs;

// Stops waits_for_signals, which polls for that file.
void Stop(const Running& running) { WriteFile(running.path() + "/stop", ""); }

std::unique_ptr<Profile> ProfileIn(const std::string& run_directory) {
  for (const auto& entry : std::filesystem::directory_iterator(run_directory)) {
    if (entry.path().string().ends_with(".xplane.pb")) return Profile::Parse(entry.path());
  }
  return nullptr;
}

std::vector<std::string> RunDirectories(const std::string& logdir) {
  std::vector<std::string> found;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(logdir + "/plugins/profile", none)) {
    found.push_back(entry.path());
  }
  return found;
}

std::vector<std::string> Spools(const std::string& logdir) {
  std::vector<std::string> found;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(logdir + "/.tbprof", none)) {
    if (entry.path().string().ends_with(".spool")) found.push_back(entry.path());
  }
  return found;
}

TEST(Capture, Signal_ProgramRuns_IsPublished) {
  RunOptions options;
  options.tbprof = {"--window=none", "--window-duration=300ms"};
  const auto running = StartUnderTbprof({Program("waits_for_signals"), "60"}, options);
  ASSERT_TRUE(running->WaitForFact("warm "));
  EXPECT_TRUE(RunDirectories(running->logdir()).empty());
  running->Signal(SIGUSR1);
  ASSERT_TRUE(running->WaitForError("verified")) << running->Err();
  // Published at once, while the program goes on.
  EXPECT_FALSE(running->Ended());
  const std::vector<std::string> first = RunDirectories(running->logdir());
  ASSERT_THAT(first, SizeIs(1));
  const std::unique_ptr<Profile> profile = ProfileIn(first[0]);
  ASSERT_NE(profile, nullptr);
  EXPECT_GT(profile->Count("usleep"), 3);
  const auto summary = nlohmann::json::parse(ReadFile(first[0] + "/summary.json"), nullptr, false);
  EXPECT_GE(summary["wall_s"].get<double>(), 0.25);
  EXPECT_EQ(summary["command"]["running"], true);
  Stop(*running);
  const RunResult result = running->Wait();
  EXPECT_EQ(result.code(), 23);
  EXPECT_EQ(result.out, "finished\n") << "the signal was for tbprof alone";
  EXPECT_THAT(result.run_directories, SizeIs(1)) << "--window=none: nothing but the capture";
}

TEST(Capture, TwoCapturesAndTheRun_AreThreeProfiles) {
  RunOptions options;
  options.tbprof = {"--window-duration=200ms"};
  const auto running = StartUnderTbprof({Program("waits_for_signals"), "60"}, options);
  ASSERT_TRUE(running->WaitForFact("warm "));
  running->Signal(SIGUSR1);
  ASSERT_TRUE(running->WaitForError("verified"));
  running->Signal(SIGUSR1);
  ASSERT_TRUE(running->WaitForError("capture 2"));
  Stop(*running);
  const RunResult result = running->Wait();
  EXPECT_EQ(result.code(), 23);
  EXPECT_THAT(result.run_directories, SizeIs(3)) << result.AllPrinted();
}

TEST(Capture, SecondSignalDuringACapture_IsRefused) {
  RunOptions options;
  options.tbprof = {"--window=none", "--window-duration=500ms"};
  const auto running = StartUnderTbprof({Program("waits_for_signals"), "60"}, options);
  ASSERT_TRUE(running->WaitForFact("warm "));
  running->Signal(SIGUSR1);
  ASSERT_TRUE(running->WaitForError("capture 1"));
  running->Signal(SIGUSR1);
  ASSERT_TRUE(running->WaitForError("still open"));
  ASSERT_TRUE(running->WaitForError("verified"));
  Stop(*running);
  const RunResult result = running->Wait();
  EXPECT_EQ(result.code(), 23);
  EXPECT_THAT(result.run_directories, SizeIs(1));
}

TEST(Capture, Signal_ProgramHasAHandler_IsForwarded) {
  RunOptions options;
  options.tbprof = {"--window=none", "--window-duration=100ms", "--capture-signal=USR2"};
  const auto running = StartUnderTbprof({Program("waits_for_signals"), "60", "handle"}, options);
  ASSERT_TRUE(running->WaitForFact("warm "));
  running->Signal(SIGUSR2);
  ASSERT_TRUE(running->WaitForError("verified"));
  ASSERT_TRUE(running->WaitForFact("signal 12\n"));
  Stop(*running);
  const RunResult result = running->Wait();
  EXPECT_EQ(result.out, "signal 12: 1\nfinished\n");
}

TEST(Capture, ProgramEnds_CaptureIsPublished) {
  RunOptions options;
  options.tbprof = {"--window=none", "--window-duration=60s"};
  const auto running = StartUnderTbprof({Program("waits_for_signals"), "60"}, options);
  ASSERT_TRUE(running->WaitForFact("warm "));
  running->Signal(SIGUSR1);
  ASSERT_TRUE(running->WaitForError("capture 1"));
  Stop(*running);
  const RunResult result = running->Wait();
  EXPECT_EQ(result.code(), 23);
  ASSERT_THAT(result.run_directories, SizeIs(1)) << result.AllPrinted();
}

TEST(Window, None_WithoutACapture_LeavesNoFiles) {
  RunOptions options;
  options.tbprof = {"--window=none"};
  const RunResult result = RunUnderTbprof({Program("ends"), "exit", "2"}, options);
  EXPECT_EQ(result.code(), 2);
  EXPECT_TRUE(result.run_directories.empty());
  EXPECT_TRUE(result.Printed("nothing was recorded")) << result.AllPrinted();
  EXPECT_TRUE(Spools(result.logdir).empty());
}

TEST(Window, DelayAndDuration_AreKept) {
  RunOptions options;
  options.tbprof = {"--window=200ms+300ms"};
  const auto running = StartUnderTbprof({Program("waits_for_signals"), "60"}, options);
  ASSERT_TRUE(running->WaitForError("verified")) << running->Err();
  EXPECT_FALSE(running->Ended()) << "a window that closes ends nothing";
  Stop(*running);
  const RunResult result = running->Wait();
  EXPECT_EQ(result.code(), 23);
  ASSERT_THAT(result.run_directories, SizeIs(1)) << result.AllPrinted();
  EXPECT_GE(result.summary["wall_s"].get<double>(), 0.29);
  EXPECT_GT(result.profile->Count("usleep"), 3);
  EXPECT_LT(result.profile->Count("usleep"), static_cast<int64_t>(result.Fact("pieces")));
}

TEST(Window, ProgramEndsBeforeItOpens_IsReported) {
  RunOptions options;
  options.tbprof = {"--window=100s+1s"};
  const RunResult result = RunUnderTbprof({Program("ends"), "exit", "2"}, options);
  EXPECT_EQ(result.code(), 2);
  EXPECT_FALSE(result.printed.empty());
  // Never silently empty: either no profile and a line, or a profile with a warning.
  EXPECT_TRUE(result.run_directories.empty() ||
              (result.profile != nullptr && result.profile->space().warnings_size() > 0))
      << result.AllPrinted();
}

std::vector<std::string> AllEvents(const Profile& profile) {
  std::vector<std::string> all;
  for (const Event& event : profile.events()) {
    std::ostringstream text;
    text << event << " " << event.duration_ps;
    all.push_back(text.str());
  }
  std::sort(all.begin(), all.end());
  return all;
}

TEST(Spool, Convert_GivesTheSameProfile) {
  RunOptions options;
  options.tbprof = {"--keep-spool", "--wait-threshold=0"};
  const RunResult result = RunUnderTbprof({Program("forks")}, options);
  ASSERT_NE(result.profile, nullptr);
  const std::vector<std::string> spools = Spools(result.logdir);
  ASSERT_THAT(spools, SizeIs(1));
  TemporaryDirectory directory;
  const RunResult converted = RunTbprof({"convert", "--logdir=" + (directory / "again"), spools[0]});
  ASSERT_EQ(converted.code(), 0) << converted.AllPrinted();
  const std::vector<std::string> runs = RunDirectories(directory / "again");
  ASSERT_THAT(runs, SizeIs(1));
  const std::unique_ptr<Profile> again = ProfileIn(runs[0]);
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(AllEvents(*result.profile), AllEvents(*again));
}

TEST(Spool, ProfilePublished_SpoolIsRemoved) {
  const RunResult result = RunUnderTbprof({Program("ends"), "exit", "0"});
  EXPECT_TRUE(Spools(result.logdir).empty());
}

TEST(Spool, Recover_LauncherKilled_GivesTheProfile) {
  const auto running = StartUnderTbprof({Program("waits_for_signals"), "60"});
  ASSERT_TRUE(running->WaitForFact("warm "));
  const auto target = static_cast<pid_t>(running->WaitForNumber("pid"));
  ASSERT_GT(target, 0);
  const std::string path = running->path();
  // Records that are older than the launcher's drain interval are in the spool.
  ASSERT_FALSE(Spools(running->logdir()).empty());
  usleep(300000);
  running->Signal(SIGKILL);
  WriteFile(path + "/stop", "");
  // The target runs to its end, with its whole output.
  const auto ended = [target] {
    const std::string stat = ReadFile("/proc/" + std::to_string(target) + "/stat");
    return stat.empty() || stat.find(") Z") != std::string::npos;
  };
  for (int i = 0; i < 2000 && !ended(); ++i) usleep(5000);
  EXPECT_TRUE(ended()) << "the target hangs";
  const RunResult result = running->Wait();
  EXPECT_EQ(result.signal(), SIGKILL);
  EXPECT_EQ(result.out, "finished\n");
  EXPECT_TRUE(result.run_directories.empty());
  // A cloned repository may have a link at the default path, which is not followed; a link in a given path is followed.
  const TemporaryDirectory clone, other;
  RunOptions in_clone, in_other;
  in_clone.default_logdir = in_other.default_logdir = false;
  in_clone.directory = clone.path();
  in_other.directory = other.path();
  std::filesystem::create_directory_symlink(result.logdir, clone / "tbprof-logs");
  const RunResult refused = RunTbprof({"recover"}, in_clone);
  EXPECT_EQ(refused.code(), 125) << refused.AllPrinted();
  EXPECT_TRUE(refused.Printed("tbprof-logs is a symbolic link")) << refused.AllPrinted();
  std::filesystem::create_directory(other / "tbprof-logs");
  std::filesystem::create_directory_symlink(result.logdir + "/.tbprof", other / "tbprof-logs/.tbprof");
  EXPECT_TRUE(RunTbprof({"recover"}, in_other).Printed("no spool found"));
  EXPECT_THAT(Spools(result.logdir), SizeIs(1));
  const RunResult recovered = RunTbprof({"recover", "tbprof-logs"}, in_clone);
  EXPECT_EQ(recovered.code(), 0) << recovered.AllPrinted();
  const std::vector<std::string> runs = RunDirectories(result.logdir);
  ASSERT_THAT(runs, SizeIs(1)) << recovered.AllPrinted();
  const std::unique_ptr<Profile> profile = ProfileIn(runs[0]);
  ASSERT_NE(profile, nullptr);
  EXPECT_GE(profile->Count("usleep"), 49);
  EXPECT_TRUE(profile->HasWarning("recover")) << "the file says what it is";
  EXPECT_TRUE(Spools(result.logdir).empty());
}

TEST(Spool, Recover_SpoolInUse_IsLeft) {
  const auto running = StartUnderTbprof({Program("waits_for_signals"), "60"});
  ASSERT_TRUE(running->WaitForFact("warm "));
  const RunResult recovered = RunTbprof({"recover", "--logdir=" + running->logdir()});
  EXPECT_TRUE(recovered.Printed("left alone")) << recovered.AllPrinted();
  EXPECT_THAT(Spools(running->logdir()), SizeIs(1));
  Stop(*running);
  EXPECT_EQ(running->Wait().code(), 23);
}

TEST(Spool, Convert_DamagedSpool_GivesTheRest) {
  RunOptions options;
  options.tbprof = {"--keep-spool", "--wait-threshold=0"};
  const RunResult result = RunUnderTbprof({Program("survive"), "20000", "return"}, options);
  const std::vector<std::string> spools = Spools(result.logdir);
  ASSERT_THAT(spools, SizeIs(1));
  std::string text = ReadFile(spools[0]);
  TemporaryDirectory directory;
  WriteFile(directory / "cut.spool", text.substr(0, text.size() / 2));
  for (size_t i = text.size() / 2; i < text.size() / 2 + 1000; ++i) text[i] = static_cast<char>(text[i] ^ 0x55);
  WriteFile(directory / "broken.spool", text);
  WriteFile(directory / "empty.spool", "");
  WriteFile(directory / "other.spool", "not a spool at all, by any means");
  for (const char* name : {"cut", "broken"}) {
    const std::string logdir = directory / name;
    const RunResult converted =
        RunTbprof({"convert", "--logdir=" + logdir, directory / (std::string(name) + ".spool")});
    EXPECT_EQ(converted.code(), 0) << converted.AllPrinted();
    const std::vector<std::string> runs = RunDirectories(logdir);
    ASSERT_THAT(runs, SizeIs(1)) << name;
    const std::unique_ptr<Profile> profile = ProfileIn(runs[0]);
    ASSERT_NE(profile, nullptr);
    EXPECT_GT(profile->Count("read"), 1000);
    EXPECT_GT(profile->space().warnings_size(), 0);
  }
  for (const char* name : {"empty", "other"}) {
    const RunResult converted =
        RunTbprof({"convert", "--logdir=" + (directory / name), directory / (std::string(name) + ".spool")});
    EXPECT_EQ(converted.code(), 1) << converted.AllPrinted();
    EXPECT_TRUE(RunDirectories(directory / name).empty());
  }
}

}  // namespace
}  // namespace tbprof::integration
