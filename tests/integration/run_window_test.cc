// SPDX-License-Identifier: Apache-2.0
// The parts of a run that are kept: all of it, its start, steady part and end, or its last seconds; captures besides;
// and the data that survive the launcher.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <future>

#include "harness.h"

namespace tbprof::integration {
namespace {

using ::testing::SizeIs;

// A worker that runs beside the command gets only idle CPU time.
constexpr int kWorkerSeconds = 240;

void Stop(const Running& running) { WriteFile(running.path() + "/stop", ""); }

std::vector<std::string> FilesIn(const std::string& directory) {
  std::vector<std::string> found;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(directory, none)) found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}
std::vector<std::string> RunDirectories(const std::string& logdir) { return FilesIn(logdir + "/plugins/profile"); }
std::vector<std::string> SpoolFiles(const std::string& logdir) { return FilesIn(logdir + "/.tbprof"); }

bool WaitUntil(const std::function<bool()>& condition, int seconds = 60) {
  for (int i = 0; i < seconds * 200; ++i) {
    if (condition()) return true;
    usleep(5000);
  }
  return condition();
}

// Starts the program `phases` in a run that is split into start, steady part and end at `times`. The start is
// published.
std::unique_ptr<Running> StartSplit(const std::vector<std::string>& phases, const std::vector<std::string>& tbprof,
                                    const std::string& times) {
  RunOptions options;
  options.timeout_s = kWorkerSeconds + 30;
  options.tbprof = tbprof;
  options.environment = {{"TBPROF_TEST_AUTO", times}};
  std::vector<std::string> command = {Program("phases")};
  command.insert(command.end(), phases.begin(), phases.end());
  auto running = StartUnderTbprof(command, options);
  EXPECT_TRUE(running->WaitForError("start of the run: ", kWorkerSeconds)) << running->Err();
  return running;
}

// The path that ends in `end`, or "".
std::string Ending(const std::vector<std::string>& paths, std::string_view end) {
  for (const std::string& path : paths) {
    if (path.ends_with(end)) return path;
  }
  return "";
}

std::unique_ptr<Profile> ProfileIn(const std::string& run_directory) {
  for (const std::string& path : FilesIn(run_directory)) {
    if (path.ends_with(".xplane.pb")) return Profile::Parse(path);
  }
  return nullptr;
}

nlohmann::json SummaryIn(const std::string& run_directory) {
  return nlohmann::json::parse(ReadFile(run_directory + "/summary.json"), nullptr, false);
}

// The number of calls of a function in all processes.
uint64_t Calls(const nlohmann::json& summary, std::string_view operation) {
  uint64_t calls = 0;
  for (const auto& process : summary["processes"]) {
    for (const auto& total : process["operations"]) {
      if (total["operation"] == operation) calls += total["calls"].get<uint64_t>();
    }
  }
  return calls;
}

// There is no long gap without an event of some thread: a reader would take it for idle time.
void ExpectNoGap(const Profile& profile, double wall_ms, double longest_ms) {
  std::vector<std::pair<int64_t, int64_t>> spans;
  for (const Event& event : profile.Named("usleep")) spans.emplace_back(event.start_ps, event.end_ps());
  std::sort(spans.begin(), spans.end());
  ASSERT_FALSE(spans.empty());
  int64_t end = 0;
  for (const auto& [start, stop] : spans) {
    EXPECT_LT(static_cast<double>(start - end) / 1e9, longest_ms) << "at " << static_cast<double>(end) / 1e9 << " ms";
    end = std::max(end, stop);
  }
  EXPECT_LT(wall_ms - static_cast<double>(end) / 1e9, longest_ms);
}

TEST(Auto, SmallRun_IsOneProfile) {
  const auto running = StartUnderTbprof({Program("phases"), "10", "1", "1000"});
  ASSERT_TRUE(running->WaitForFact("warm "));
  Stop(*running);
  const RunResult result = running->Wait();
  EXPECT_EQ(result.code(), 5);
  ASSERT_THAT(result.run_directories, SizeIs(1)) << result.AllPrinted();
  EXPECT_EQ(result.summary["window"], "auto");
  EXPECT_TRUE(result.summary["totals_wall_s"].is_null());
  EXPECT_EQ(Calls(result.summary, "usleep"), result.Fact("naps"));
  EXPECT_EQ(static_cast<uint64_t>(result.profile->Count("usleep")), result.Fact("naps"));
  EXPECT_TRUE(SpoolFiles(result.logdir).empty());
}

TEST(Auto, LargeRun_IsStartSteadyAndEnd) {
  const auto running = StartSplit({"10", "4", "300"}, {"--max-profile-size=64KiB"}, "300,1000,300,400");
  // Two of the profiles are published while the program runs.
  ASSERT_TRUE(running->WaitForError("steady part of the run: ", kWorkerSeconds)) << running->Err();
  EXPECT_FALSE(running->Ended());
  EXPECT_THAT(RunDirectories(running->logdir()), SizeIs(2));
  EXPECT_THAT(SpoolFiles(running->logdir()), ::testing::Not(::testing::IsEmpty()));
  usleep(600000);  // the end begins behind the steady part
  Stop(*running);
  const RunResult result = running->Wait();
  EXPECT_EQ(result.code(), 5);
  ASSERT_THAT(result.run_directories, SizeIs(3)) << result.AllPrinted();
  const std::string start = Ending(result.run_directories, "_start"),
                    steady = Ending(result.run_directories, "_steady"), end = Ending(result.run_directories, "_end");
  for (const std::string& directory : {start, steady, end}) {
    ASSERT_NE(directory, "") << result.AllPrinted();
    const auto profile = ProfileIn(directory);
    ASSERT_NE(profile, nullptr) << directory;
    // Naps have nearly the same length: the number that the budget keeps depends on the scheduler.
    EXPECT_GT(profile->Count("usleep"), 0) << directory;
    EXPECT_GT(Calls(SummaryIn(directory), "usleep"), 20u) << directory;
  }
  EXPECT_LE(SummaryIn(start)["wall_s"].get<double>(), 0.31);
  EXPECT_GE(SummaryIn(steady)["wall_s"].get<double>(), 0.29);
  EXPECT_LE(SummaryIn(end)["wall_s"].get<double>(), 0.41);
  EXPECT_GE(SummaryIn(end)["wall_s"].get<double>(), 0.39);
  EXPECT_GE(SummaryIn(end)["totals_wall_s"].get<double>(), 1.3);
  EXPECT_EQ(SummaryIn(start)["window"], "start");
  EXPECT_EQ(SummaryIn(steady)["command"]["running"], true);
  // The totals are of the whole run, including dropped parts.
  EXPECT_EQ(Calls(SummaryIn(end), "usleep"), result.Fact("naps"));
  EXPECT_EQ(Calls(SummaryIn(end), "write"), 10u);
  EXPECT_TRUE(SpoolFiles(result.logdir).empty());
}

TEST(Auto, StartAndSteadyPart_ArePublishedDuringTheRun) {
  const auto running = StartSplit({"10", "4", "1000"}, {}, "300,800,300,400");
  ASSERT_TRUE(running->WaitForError("steady part of the run: ", kWorkerSeconds)) << running->Err();
  EXPECT_FALSE(running->Ended());
  EXPECT_THAT(RunDirectories(running->logdir()), SizeIs(2));
  Stop(*running);
  const RunResult result = running->Wait();
  EXPECT_EQ(result.code(), 5);
  ASSERT_THAT(result.run_directories, SizeIs(3)) << result.AllPrinted();
  const std::string start = Ending(result.run_directories, "_start"),
                    steady = Ending(result.run_directories, "_steady");
  std::string whole;
  for (const std::string& directory : result.run_directories) {
    if (directory != start && directory != steady) whole = directory;
  }
  const nlohmann::json of_start = SummaryIn(start), of_steady = SummaryIn(steady), of_whole = SummaryIn(whole);
  EXPECT_LE(of_start["wall_s"].get<double>(), 0.31);
  EXPECT_EQ(of_start["window"], "start");
  EXPECT_GE(of_steady["wall_s"].get<double>(), 0.29);
  EXPECT_EQ(of_steady["window"], "steady");
  EXPECT_EQ(of_whole["window"], "auto");
  EXPECT_GE(of_whole["wall_s"].get<double>(), 1.1);
  EXPECT_EQ(Calls(of_whole, "usleep"), result.Fact("naps"));
  EXPECT_EQ(static_cast<uint64_t>(ProfileIn(whole)->Count("usleep")), result.Fact("naps"));
  EXPECT_GT(ProfileIn(start)->Count("usleep"), 0);
  EXPECT_GT(ProfileIn(steady)->Count("usleep"), 0);
  EXPECT_TRUE(SpoolFiles(result.logdir).empty());
}

TEST(Auto, RunEndsInItsSteadyPart_HasNoSteadyProfile) {
  const auto running = StartSplit({"10", "4", "1000"}, {}, "300,300,600000,400");
  Stop(*running);
  const RunResult result = running->Wait();
  EXPECT_EQ(result.code(), 5);
  EXPECT_EQ(Ending(result.run_directories, "_steady"), "");
  EXPECT_THAT(result.run_directories, SizeIs(2)) << result.AllPrinted();
}

TEST(Auto, SpoolLimit_SplitsTheRun) {
  const auto running =
      StartSplit({"200000", "1", "1000"}, {"--spool-limit=8MiB", "--wait-threshold=0"}, "30000,120000,20000,30000");
  ASSERT_TRUE(running->WaitForFact("warm "));
  uint64_t bytes = 0;
  for (const std::string& path : SpoolFiles(running->logdir())) bytes += std::filesystem::file_size(path);
  EXPECT_LE(bytes, uint64_t{10} << 20);
  Stop(*running);
  const RunResult result = running->Wait();
  EXPECT_EQ(result.code(), 5);
  ASSERT_THAT(result.run_directories, SizeIs(2)) << result.AllPrinted();
  const std::string end = Ending(result.run_directories, "_end");
  ASSERT_NE(end, "");
  const nlohmann::json summary = SummaryIn(end);
  EXPECT_EQ(Calls(summary, "usleep"), result.Fact("naps"));
  // Either nothing is missing, or drops by a full spool during the writing of the start are reported.
  EXPECT_TRUE(Calls(summary, "write") == 200000 || result.Printed("records are missing")) << result.AllPrinted();
}

TEST(Last, LastSeconds_AreShown) {
  RunOptions options;
  options.tbprof = {"--window=last=400ms"};
  const auto running = StartUnderTbprof({Program("phases"), "10", "2", "300"}, options);
  ASSERT_TRUE(running->WaitForFact("warm "));
  // Waits until the first part has been dropped.
  ASSERT_TRUE(WaitUntil([&] {
    const std::vector<std::string> files = SpoolFiles(running->logdir());
    return files.size() > 2 && Ending(files, ".spool.000001").empty();
  })) << ::testing::PrintToString(SpoolFiles(running->logdir()));
  EXPECT_LT(SpoolFiles(running->logdir()).size(), 20u);
  Stop(*running);
  const RunResult result = running->Wait();
  EXPECT_EQ(result.code(), 5);
  ASSERT_THAT(result.run_directories, SizeIs(1)) << result.AllPrinted();
  const double wall = result.summary["wall_s"].get<double>();
  EXPECT_LE(wall, 0.41);
  EXPECT_GE(wall, 0.39);
  EXPECT_GT(result.summary["totals_wall_s"].get<double>(), wall);
  EXPECT_EQ(Calls(result.summary, "usleep"), result.Fact("naps"));
  ExpectNoGap(*result.profile, wall * 1e3, 200);
  EXPECT_TRUE(SpoolFiles(result.logdir).empty());
}

TEST(Last, Crash_SecondsBeforeItAreShown) {
  RunOptions options;
  options.tbprof = {"--window=last=500ms"};
  const auto running = StartUnderTbprof({Program("phases"), "10", "1", "1000"}, options);
  ASSERT_TRUE(running->WaitForFact("warm "));
  usleep(700000);
  WriteFile(running->path() + "/crash", "");
  const RunResult result = running->Wait();
  EXPECT_EQ(result.signal(), SIGSEGV);
  ASSERT_THAT(result.run_directories, SizeIs(1)) << result.AllPrinted();
  const double wall = result.summary["wall_s"].get<double>();
  EXPECT_LE(wall, 0.51);
  EXPECT_GE(wall, 0.49);
  ExpectNoGap(*result.profile, wall * 1e3, 250);
}

TEST(Last, Signal_PublishesTheSecondsBeforeIt) {
  RunOptions options;
  options.tbprof = {"--window=last=60s", "--wait-threshold=0"};
  const auto running = StartUnderTbprof({Program("phases"), "10", "1", "1000"}, options);
  ASSERT_TRUE(running->WaitForFact("warm "));
  for (int i = 1; i <= 2; ++i) {
    running->Signal(SIGUSR1);
    ASSERT_TRUE(running->WaitForError("capture " + std::to_string(i) + ": the last 1m")) << running->Err();
    ASSERT_TRUE(WaitUntil([&] { return RunDirectories(running->logdir()).size() == static_cast<size_t>(i); }))
        << running->Err();
  }
  EXPECT_FALSE(running->Ended());
  for (const std::string& directory : RunDirectories(running->logdir())) {
    const auto profile = ProfileIn(directory);
    ASSERT_NE(profile, nullptr);
    // The profile has the whole run so far, including its beginning.
    EXPECT_EQ(profile->Count("write"), 10);
    EXPECT_GE(profile->Count("usleep"), 20);
  }
  Stop(*running);
  const RunResult result = running->Wait();
  EXPECT_EQ(result.code(), 5);
  EXPECT_THAT(result.run_directories, SizeIs(3)) << result.AllPrinted();
}

TEST(All, SpoolFull_EndsAndCapturesContinue) {
  RunOptions options;
  options.tbprof = {"--window=all", "--spool-limit=4MiB", "--wait-threshold=0", "--window-duration=100ms"};
  const auto running = StartUnderTbprof({Program("phases"), "300000", "1", "1000"}, options);
  ASSERT_TRUE(running->WaitForError("the spool took no more")) << running->Err();
  ASSERT_TRUE(running->WaitForFact("warm "));
  for (int i = 1; i <= 3; ++i) {
    running->Signal(SIGUSR1);
    ASSERT_TRUE(WaitUntil([&] { return RunDirectories(running->logdir()).size() == static_cast<size_t>(i); }))
        << running->Err();
  }
  for (const std::string& directory : RunDirectories(running->logdir())) {
    const auto profile = ProfileIn(directory);
    ASSERT_NE(profile, nullptr);
    EXPECT_GT(profile->Count("usleep"), 10) << directory;
    EXPECT_EQ(SummaryIn(directory)["window"].get<std::string>().rfind("capture ", 0), 0u);
  }
  Stop(*running);
  const RunResult result = running->Wait();
  EXPECT_EQ(result.code(), 5);
  ASSERT_THAT(result.run_directories, SizeIs(4)) << result.AllPrinted();
  const auto run = std::find_if(result.run_directories.begin(), result.run_directories.end(),
                                [](const std::string& directory) { return SummaryIn(directory)["window"] == "all"; });
  ASSERT_NE(run, result.run_directories.end());
  const auto profile = ProfileIn(*run);
  EXPECT_TRUE(profile->HasWarning("the spool took no more")) << result.AllPrinted();
  // The profile ends with the records: no apparent idle time follows.
  int64_t end = 0;
  for (const Event& event : profile->Named("write")) end = std::max(end, event.end_ps());
  for (const Event& event : profile->Named("read")) end = std::max(end, event.end_ps());
  EXPECT_GT(end, 0);
  EXPECT_LT(SummaryIn(*run)["wall_s"].get<double>() - static_cast<double>(end) / 1e12, 0.5);
}

// A spool in parts: recover uses all that exists when the launcher is killed.
TEST(Recover, PartsOfAFlightRecorder_GiveAProfile) {
  RunOptions options;
  options.tbprof = {"--window=last=400ms", "--wait-threshold=0"};
  const auto running = StartUnderTbprof({Program("phases"), "10", "2", "300"}, options);
  ASSERT_TRUE(WaitUntil([&] { return !Ending(SpoolFiles(running->logdir()), ".spool.000008").empty(); }));
  running->Signal(SIGKILL);
  Stop(*running);
  const RunResult result = running->Wait();
  EXPECT_EQ(result.signal(), SIGKILL);
  ASSERT_TRUE(RunDirectories(result.logdir).empty());
  const RunResult recovered = RunTbprof({"recover", "--logdir=" + result.logdir});
  EXPECT_EQ(recovered.code(), 0) << recovered.AllPrinted();
  const std::vector<std::string> runs = RunDirectories(result.logdir);
  ASSERT_THAT(runs, SizeIs(1)) << recovered.AllPrinted();
  const nlohmann::json summary = SummaryIn(runs[0]);
  EXPECT_LE(summary["wall_s"].get<double>(), 0.41);
  EXPECT_GT(Calls(summary, "usleep"), 500u);
  EXPECT_EQ(Calls(summary, "write"), 10u) << "dropped, and still counted";
  const auto profile = ProfileIn(runs[0]);
  EXPECT_TRUE(profile->HasWarning("recover"));
  ExpectNoGap(*profile, summary["wall_s"].get<double>() * 1e3, 250);
  EXPECT_TRUE(SpoolFiles(result.logdir).empty());
}

TEST(Recover, TwoAtOnce_PublishItOnce) {
  const auto running = StartUnderTbprof({Program("waits_for_signals"), "60"});
  ASSERT_TRUE(running->WaitForFact("warm "));
  running->Signal(SIGKILL);
  Stop(*running);
  const RunResult result = running->Wait();
  const std::vector<std::string> words = {"recover", "--logdir=" + result.logdir};
  std::future<RunResult> other = std::async(std::launch::async, [&] { return RunTbprof(words); });
  const RunResult one = RunTbprof(words), two = other.get();
  EXPECT_EQ(one.code(), 0) << one.AllPrinted();
  EXPECT_EQ(two.code(), 0) << two.AllPrinted();
  EXPECT_THAT(RunDirectories(result.logdir), SizeIs(1)) << one.AllPrinted() << two.AllPrinted();
  EXPECT_TRUE(SpoolFiles(result.logdir).empty());
}

TEST(Recover, UnpublishedWindows_ArePublished) {
  const auto running =
      StartSplit({"10", "4", "300"}, {"--max-profile-size=64KiB", "--wait-threshold=0"}, "200,100000,300,400");
  usleep(800000);
  running->Signal(SIGKILL);
  Stop(*running);
  const RunResult result = running->Wait();
  const RunResult recovered = RunTbprof({"recover", "--logdir=" + result.logdir});
  EXPECT_EQ(recovered.code(), 0) << recovered.AllPrinted();
  const std::vector<std::string> runs = RunDirectories(result.logdir);
  ASSERT_THAT(runs, SizeIs(2)) << recovered.AllPrinted();
  const std::string end = Ending(runs, "_end");
  ASSERT_NE(end, "");
  EXPECT_EQ(Calls(SummaryIn(end), "write"), 10u);
  EXPECT_GT(Calls(SummaryIn(end), "usleep"), 2000u);
}

TEST(Convert, SpoolInParts_GivesTheSameProfile) {
  RunOptions options;
  options.tbprof = {"--window=last=60s", "--keep-spool"};
  const auto running = StartUnderTbprof({Program("phases"), "10", "2", "300"}, options);
  ASSERT_TRUE(running->WaitForFact("warm "));
  Stop(*running);
  const RunResult result = running->Wait();
  ASSERT_NE(result.profile, nullptr) << result.AllPrinted();
  const std::string spool = Ending(SpoolFiles(result.logdir), ".spool");
  ASSERT_NE(spool, "");
  ASSERT_NE(Ending(SpoolFiles(result.logdir), ".spool.000001"), "");
  TemporaryDirectory directory;
  const RunResult converted = RunTbprof({"convert", "--logdir=" + (directory / "again"), spool});
  ASSERT_EQ(converted.code(), 0) << converted.AllPrinted();
  ASSERT_THAT(RunDirectories(directory / "again"), SizeIs(1));
  const auto again = ProfileIn(RunDirectories(directory / "again")[0]);
  EXPECT_EQ(again->Count("usleep"), result.profile->Count("usleep"));
  // A missing part is reported, and the data of the main file are converted.
  std::filesystem::copy_file(spool, directory / "alone.spool");
  const RunResult alone = RunTbprof({"convert", "--logdir=" + (directory / "alone"), directory / "alone.spool"});
  ASSERT_EQ(alone.code(), 0) << alone.AllPrinted();
  EXPECT_TRUE(ProfileIn(RunDirectories(directory / "alone")[0])->HasWarning("not there")) << alone.AllPrinted();
  const RunResult part = RunTbprof({"convert", "--logdir=" + (directory / "part"), spool + ".000001"});
  EXPECT_EQ(part.code(), 1);
  EXPECT_TRUE(part.Printed("is part 1 of a spool")) << part.AllPrinted();
}

TEST(Spool, TmpfsLogdir_SpoolIsElsewhere) {
  struct statfs facts;
  if (statfs("/dev/shm", &facts) != 0 || facts.f_type != 0x01021994 || access("/dev/shm", W_OK) != 0) {
    GTEST_SKIP() << "no /dev/shm in memory";
  }
  if (statfs("/var/tmp", &facts) != 0 || facts.f_type == 0x01021994) GTEST_SKIP() << "/var/tmp is in memory too";
  const std::string logdir = "/dev/shm/tbprof-test-" + std::to_string(getpid());
  RunOptions options;
  options.default_logdir = false;
  options.tbprof = {"--logdir=" + logdir, "--window=all"};
  options.environment = {{"TMPDIR", std::nullopt}};
  const auto running = StartUnderTbprof({Program("phases"), "10", "1", "1000"}, options);
  EXPECT_TRUE(running->WaitForFact("warm "));
  const std::vector<std::string> links = SpoolFiles(logdir);
  std::error_code none;
  std::string real;
  if (links.size() == 1) real = std::filesystem::read_symlink(links[0], none);
  EXPECT_THAT(links, SizeIs(1));
  EXPECT_EQ(real.rfind("/var/tmp/tbprof-spool-", 0), 0u) << real;
  EXPECT_TRUE(std::filesystem::exists(real));
  // The spool is found by the logdir when the launcher has ended.
  running->Signal(SIGKILL);
  Stop(*running);
  running->Wait();
  const RunResult recovered = RunTbprof({"recover", "--logdir=" + logdir});
  EXPECT_EQ(recovered.code(), 0) << recovered.AllPrinted();
  EXPECT_THAT(RunDirectories(logdir), SizeIs(1)) << recovered.AllPrinted();
  EXPECT_FALSE(std::filesystem::exists(real));
  EXPECT_TRUE(SpoolFiles(logdir).empty());
  std::filesystem::remove_all(logdir);
}

TEST(Open, WaitThatHasNotReturned_IsShown) {
  RunOptions options;
  options.tbprof = {"--window=all", "--window-duration=200ms"};
  const auto running = StartUnderTbprof({Program("phases"), "10", "0", "2000000"}, options);
  ASSERT_TRUE(running->WaitForFact("fast "));
  running->Signal(SIGUSR1);
  ASSERT_TRUE(running->WaitForError("verified")) << running->Err();
  const auto profile = ProfileIn(RunDirectories(running->logdir()).at(0));
  ASSERT_NE(profile, nullptr);
  const std::vector<Event> sleeps = profile->Named("usleep");
  // The sleep may return in between, but the sleep that is in flight at the close is always recorded.
  ASSERT_FALSE(sleeps.empty());
  EXPECT_EQ(sleeps.back().Number("open"), 1) << sleeps.back();
  EXPECT_NE(sleeps.back().Stat("clipped").find("end"), std::string::npos) << sleeps.back();
  WriteFile(running->path() + "/crash", "");
  const RunResult result = running->Wait();
  EXPECT_EQ(result.signal(), SIGSEGV);
}

}  // namespace
}  // namespace tbprof::integration
