// SPDX-License-Identifier: Apache-2.0
// `tbprof capture`, `tbprof status`, `tbprof merge`: by the session's own socket and by its port.
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "harness.h"

namespace tbprof::integration {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

std::vector<std::string> NamesIn(const std::string& directory, const std::string& suffix) {
  std::vector<std::string> names;
  for (const std::string& path : FilesBelow(directory, suffix)) {
    names.push_back(std::filesystem::path(path).filename().string());
  }
  return names;
}

struct Job {
  std::unique_ptr<Running> running;
  std::string address;  // of its port; empty: none
};

Job StartJob(std::vector<std::string> options, const std::vector<std::string>& command = {}) {
  RunOptions run;
  run.tbprof = std::move(options);
  Job job;
  job.running =
      StartUnderTbprof(command.empty() ? std::vector<std::string>{Program("phases"), "10", "2", "1000"} : command, run);
  EXPECT_TRUE(job.running->WaitForFact("warm "));
  const std::string printed = job.running->Err();
  const std::string mark = "profiler service on ";
  const size_t at = printed.find(mark);
  if (at != std::string::npos) {
    job.address = printed.substr(at + mark.size(), printed.find_first_of(" \n", at + mark.size()) - at - mark.size());
  }
  return job;
}

RunResult End(const Job& job) {
  WriteFile(job.running->path() + "/stop", "");
  return job.running->Wait();
}

nlohmann::json StatusOf(pid_t pid) {
  const RunResult result = RunTbprof({"status", "--json"});
  EXPECT_EQ(result.code(), 0);
  for (const auto& session : nlohmann::json::parse(result.out)) {
    if (session["pid"] == pid) return session;
  }
  return nullptr;
}

// The pid of the recorded program.
pid_t TargetOf(const Job& job) {
  const nlohmann::json status = StatusOf(job.running->pid());
  return status.is_object() && !status["pids"].empty() ? status["pids"][0].get<pid_t>() : 0;
}

TEST(CaptureCommand, PidOfTheLauncher_ProfileIsInTheRunsLogdir) {
  const Job job = StartJob({"--window=none"});
  const RunResult capture = RunTbprof({"capture", std::to_string(job.running->pid()), "--duration=300ms"});
  EXPECT_EQ(capture.code(), 0) << capture.AllPrinted();
  EXPECT_THAT(capture.AllPrinted(), HasSubstr(job.running->logdir() + "/plugins/profile/"));
  const std::vector<std::string> files = FilesBelow(job.running->logdir(), ".xplane.pb");
  ASSERT_THAT(files, SizeIs(1));
  const std::unique_ptr<Profile> profile = Profile::Parse(files[0]);
  EXPECT_GT(profile->Count("usleep"), 30);
  const RunResult result = End(job);
  EXPECT_EQ(result.code(), 5);
  EXPECT_THAT(result.AllPrinted(), HasSubstr("asked for by tbprof capture"));
}

TEST(CaptureCommand, PidOfTheProgram_ProfileIsInTheGivenLogdir) {
  const Job job = StartJob({"--window=none"});
  const pid_t target = TargetOf(job);
  ASSERT_GT(target, 0);
  TemporaryDirectory own;
  const RunResult capture =
      RunTbprof({"capture", std::to_string(target), "--duration=200ms", "--logdir", own.path(), "--run=mine"});
  EXPECT_EQ(capture.code(), 0) << capture.AllPrinted();
  EXPECT_THAT(FilesBelow(own / "plugins/profile/mine", ".xplane.pb"), SizeIs(1));
  EXPECT_THAT(FilesBelow(job.running->logdir() + "/plugins", ".xplane.pb"), IsEmpty());
  End(job);
  EXPECT_THAT(FilesBelow(job.running->logdir(), ""), ::testing::Not(::testing::Contains(HasSubstr(".capture-"))));
}

TEST(CaptureCommand, RunName_AmongSeveralRuns_IsFound) {
  const Job job = StartJob({"--window=none", "--run=job_17"});
  const Job other = StartJob({"--window=none"});
  const RunResult capture = RunTbprof({"capture", "job_17", "--duration=100ms"});
  EXPECT_EQ(capture.code(), 0) << capture.AllPrinted();
  EXPECT_THAT(FilesBelow(job.running->logdir() + "/plugins", ".xplane.pb"), SizeIs(1));
  EXPECT_THAT(FilesBelow(other.running->logdir() + "/plugins", ".xplane.pb"), IsEmpty());
  const RunResult which = RunTbprof({"capture", "--duration=100ms"});
  EXPECT_EQ(which.code(), 125);
  EXPECT_THAT(which.AllPrinted(), HasSubstr("which one?"));
  End(job);
  End(other);
}

TEST(CaptureCommand, TwoWorkersAndADeadOne_BothAreCaptured) {
  const Job first = StartJob({"--window=none", "--port=0"});
  const Job second = StartJob({"--window=none", "--port=0"});
  ASSERT_FALSE(first.address.empty());
  TemporaryDirectory logs;
  const RunResult capture = RunTbprof({"capture", first.address + "," + second.address + ",127.0.0.1:1",
                                       "--duration=300ms", "--retries=0", "--run=all", "--logdir", logs.path()});
  EXPECT_EQ(capture.code(), 1) << capture.AllPrinted();
  EXPECT_THAT(capture.AllPrinted(), HasSubstr("127.0.0.1:1: no reply"));
  const auto stem = [](std::string address) {
    address[address.find(':')] = '_';
    return address;
  };
  EXPECT_THAT(NamesIn(logs / "plugins/profile/all", ".xplane.pb"),
              UnorderedElementsAre(stem(first.address) + ".xplane.pb", stem(second.address) + ".xplane.pb"));
  for (const std::string& path : FilesBelow(logs / "plugins/profile/all", ".xplane.pb")) {
    const std::unique_ptr<Profile> profile = Profile::Parse(path);
    EXPECT_GT(profile->Count("usleep"), 30);
    ASSERT_EQ(profile->space().hostnames_size(), 1);
    EXPECT_THAT(path, HasSubstr("/" + profile->space().hostnames(0) + ".xplane.pb"));
    // The times of both profiles count from the start in the request, and their events begin after it.
    EXPECT_GT(profile->events().at(0).start_ps, 0);
  }
  EXPECT_EQ(RunTbprof({"capture", "127.0.0.1:1", "--retries=0", "--logdir", logs.path()}).code(), 2);
  End(first);
  End(second);
}

// Accepts connections, sends `greeting` on each, and nothing more.
class SilentServer {
 public:
  explicit SilentServer(std::string greeting) : greeting_(std::move(greeting)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener_, 16), 0);
    EXPECT_EQ(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] {
      for (int fd; (fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;) {
        (void)!send(fd, greeting_.data(), greeting_.size(), MSG_NOSIGNAL);
        connections_.push_back(fd);
      }
    });
  }
  ~SilentServer() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    for (const int fd : connections_) close(fd);
    close(listener_);
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  const std::string greeting_;
  const int listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int port_ = 0;
  std::vector<int> connections_;
  std::thread thread_;
};

TEST(CaptureCommand, ServerThatSendsNoAnswer_IsAnError) {
  const std::pair<std::string, std::string> servers[] = {
      {std::string("\0\0\0\4\0\0\0\0\0", 9), "HTTP/2 is spoken there, but no gRPC call answered in 5s"},
      {"", "the port accepts connections, but sends no HTTP/2 in 5s"}};
  for (const auto& [greeting, cause] : servers) {
    const SilentServer server(greeting);
    TemporaryDirectory logs;
    const auto begin = std::chrono::steady_clock::now();
    const RunResult capture = RunTbprof({"capture", server.address(), "--duration=200ms", "--logdir", logs.path()});
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(15));
    EXPECT_EQ(capture.code(), 2) << capture.AllPrinted();
    EXPECT_THAT(capture.AllPrinted(), HasSubstr(server.address() + ": no answer in time: " + cause));
    EXPECT_THAT(capture.AllPrinted(), HasSubstr("ss -ltnp 'sport = :"));
    EXPECT_THAT(capture.AllPrinted(), testing::Not(HasSubstr("trying again")));
  }
}

// The capture lasts longer than the time limit for a silent server.
TEST(CaptureCommand, LongCapture_IsWaitedFor) {
  const Job job = StartJob({"--window=none", "--port=0"});
  ASSERT_FALSE(job.address.empty());
  TemporaryDirectory logs;
  const RunResult capture = RunTbprof({"capture", job.address, "--duration=7s", "--logdir", logs.path()});
  EXPECT_EQ(capture.code(), 0) << capture.AllPrinted();
  EXPECT_THAT(FilesBelow(logs.path(), ".xplane.pb"), SizeIs(1));
  End(job);
}

TEST(CaptureCommand, EachRank_HasAFile) {
  const std::string ranks =
      "for r in 0 1 2; do RANK=$r LOCAL_RANK=$r WORLD_SIZE=3 TEST_FACTS=$TEST_FACTS.$r " + Program("phases") +
      " 10 1 1000 & done; while ! test -f $TEST_FACTS.0; do sleep 0.05; done; "
      "while ! grep -q warm $TEST_FACTS.2; do sleep 0.05; done; cat $TEST_FACTS.2 > $TEST_FACTS; wait";
  const Job job = StartJob({"--window=none", "--port=0"}, {"/bin/bash", "-c", ranks});
  TemporaryDirectory logs;
  const RunResult capture =
      RunTbprof({"capture", job.address, "--duration=300ms", "--run=three", "--logdir", logs.path()});
  EXPECT_EQ(capture.code(), 0) << capture.AllPrinted();
  const std::string stem = "127.0.0.1_" + job.address.substr(job.address.find(':') + 1);
  EXPECT_THAT(NamesIn(logs / "plugins/profile/three", ".xplane.pb"),
              UnorderedElementsAre(stem + ".xplane.pb", stem + ".r1.xplane.pb", stem + ".r2.xplane.pb"));
  End(job);
}

// Children of a process that run this program.
std::vector<pid_t> ChildrenOf(pid_t parent, const std::string& program) {
  std::vector<pid_t> found;
  const std::string id = std::to_string(parent);
  std::istringstream children(ReadFile("/proc/" + id + "/task/" + id + "/children"));
  for (pid_t child; children >> child;) {
    if (ReadFile("/proc/" + std::to_string(child) + "/cmdline").starts_with(program)) found.push_back(child);
  }
  return found;
}

// --follow=all: recording does not end with the command.
TEST(CaptureCommand, ProcessesThatOutliveTheCommand_AreCaptured) {
  TemporaryDirectory directory;
  RunOptions options;
  options.tbprof = {"--window=none", "--follow=all", "--window-duration=300ms"};
  const auto running = StartUnderTbprof({Program("daemonises"), directory / "stop"}, options);
  const auto daemon = static_cast<pid_t>(running->WaitForNumber("daemon"));
  ASSERT_GT(daemon, 0);
  // The command has been reaped, and the daemon is the launcher's child.
  for (int i = 0; i < 3000 && ChildrenOf(running->pid(), Program("daemonises")) != std::vector<pid_t>{daemon}; ++i) {
    usleep(10000);
  }
  ASSERT_THAT(ChildrenOf(running->pid(), Program("daemonises")), ElementsAre(daemon));
  EXPECT_EQ(StatusOf(running->pid())["state"], "armed");
  const RunResult capture = RunTbprof(
      {"capture", std::to_string(running->pid()), "--duration=300ms", "--run=asked", "--logdir", directory.path()});
  EXPECT_EQ(capture.code(), 0) << capture.AllPrinted();
  const std::vector<std::string> asked = FilesBelow(directory / "plugins/profile/asked", ".xplane.pb");
  ASSERT_THAT(asked, SizeIs(1));
  EXPECT_GT(Profile::Parse(asked[0])->Count("usleep"), 0);
  running->Signal(SIGUSR1);
  EXPECT_TRUE(running->WaitForError("verified")) << running->Err();
  EXPECT_THAT(FilesBelow(running->logdir() + "/plugins", ".xplane.pb"), SizeIs(1));
  WriteFile(directory / "stop", "");
  EXPECT_EQ(running->Wait().code(), 3);
}

// One rank is in another capture, and one rank was never started.
TEST(CaptureCommand, LateAndMissingRanks_AreNamed) {
  TemporaryDirectory logs;
  const std::string run = "job_late_" + std::to_string(getpid());
  const auto start = [&](const std::string& rank) {
    RunOptions options;
    options.tbprof = {"--window=none", "--run=" + run,         "--logdir",
                      logs.path(),     "--window-duration=3s", "--print-ranks=all"};
    options.environment = {
        {"SLURM_JOB_ID", "5"}, {"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", rank}, {"SLURM_NTASKS", "3"}};
    auto running = StartUnderTbprof({Program("phases"), "10", "2", "1000"}, options);
    EXPECT_TRUE(running->WaitForFact("warm "));
    return running;
  };
  const auto first = start("0");
  const auto second = start("2");
  second->Signal(SIGUSR1);
  ASSERT_TRUE(second->WaitForError("capture 1"));
  TemporaryDirectory own;
  const RunResult capture =
      RunTbprof({"capture", run, "--duration=300ms", "--retries=5", "--run=both", "--logdir", own.path()});
  EXPECT_EQ(capture.code(), 1);
  EXPECT_THAT(capture.AllPrinted(), HasSubstr("missing ranks: 1: no launcher of theirs"));
  EXPECT_THAT(capture.AllPrinted(), HasSubstr("rank 2 (process " + std::to_string(second->pid()) + "): capture 1 of"));
  const std::vector<std::string> files = FilesBelow(own / "plugins/profile/both", ".xplane.pb");
  ASSERT_THAT(files, SizeIs(2)) << capture.AllPrinted();
  int64_t late_ps = -1, first_ps = -1;
  for (const std::string& path : files) {
    const std::unique_ptr<Profile> profile = Profile::Parse(path);
    const bool late = path.ends_with("_r2.xplane.pb");
    // On a busy machine the other rank may be late, too.
    EXPECT_TRUE(!late || profile->HasWarning("this window began ")) << path;
    EXPECT_EQ(path.ends_with("_r0.xplane.pb"), !late) << path;
    (late ? late_ps : first_ps) = profile->events().at(0).start_ps;
  }
  // The late rank's events still lie behind the other rank's events.
  EXPECT_GT(late_ps, first_ps);
  EXPECT_THAT(capture.AllPrinted(),
              ::testing::ContainsRegex("_r2.xplane.pb: this window began [0-9.]+ s after the start"));
  const nlohmann::json status = StatusOf(second->pid());
  EXPECT_EQ(status["rank"], 2);
  EXPECT_EQ(status["world_size"], 3);
  // If a single pid is given, the other ranks do not count as missing.
  TemporaryDirectory one;
  const RunResult single =
      RunTbprof({"capture", std::to_string(first->pid()), "--duration=100ms", "--logdir", one.path()});
  EXPECT_EQ(single.code(), 0) << single.AllPrinted();
  EXPECT_THAT(single.AllPrinted(), ::testing::Not(HasSubstr("missing")));
  // A session that never answers is named with its rank.
  second->Signal(SIGUSR1);
  ASSERT_TRUE(second->WaitForError("capture 3"));
  const RunResult again = RunTbprof({"capture", run, "--duration=100ms", "--retries=0"});
  EXPECT_EQ(again.code(), 1);
  EXPECT_THAT(again.AllPrinted(),
              HasSubstr("1 worker answered, 1 did not: rank 2 (process " + std::to_string(second->pid()) + ")"));
  for (const auto& running : {first.get(), second.get()}) {
    WriteFile(running->path() + "/stop", "");
    running->Wait();
  }
}

TEST(CaptureCommand, SecondCapture_ErrorNamesTheFirst) {
  const Job job = StartJob({"--window=none", "--window-duration=10m"});
  job.running->Signal(SIGUSR1);
  ASSERT_TRUE(job.running->WaitForError("capture 1"));
  const nlohmann::json status = StatusOf(job.running->pid());
  EXPECT_EQ(status["state"], "capturing");
  EXPECT_EQ(status["capture_of"], "a signal");
  const RunResult capture =
      RunTbprof({"capture", std::to_string(job.running->pid()), "--duration=100ms", "--retries=0"});
  EXPECT_EQ(capture.code(), 2);
  EXPECT_THAT(capture.AllPrinted(), HasSubstr("capture 1 of a signal is open until"));
  // The command's end closes the first, with its data.
  const RunResult result = End(job);
  EXPECT_EQ(result.code(), 5);
  EXPECT_THAT(result.AllPrinted(), HasSubstr(" wall; ended, which closed the window"));
  EXPECT_THAT(FilesBelow(job.running->logdir() + "/plugins", ".xplane.pb"), SizeIs(1));
}

TEST(CaptureCommand, ClientThatDies_WindowIsPublishedByTheRun) {
  const Job job = StartJob({"--window=none"});
  TemporaryDirectory own;
  {
    RunOptions options;
    options.directory = own.path();
    const auto client = Running::Start(
        {Tbprof(), "capture", std::to_string(job.running->pid()), "--duration=10m", "--logdir", own.path()}, options);
    ASSERT_TRUE(job.running->WaitForError("capture 1: recording"));
    client->Signal(SIGKILL);
    ASSERT_TRUE(job.running->WaitForError("verified")) << job.running->Err();
  }
  const std::vector<std::string> files = FilesBelow(job.running->logdir() + "/plugins", ".xplane.pb");
  ASSERT_THAT(files, SizeIs(1));
  EXPECT_TRUE(Profile::Parse(files[0])->HasWarning("the client went away"));
  EXPECT_EQ(StatusOf(job.running->pid())["state"], "armed");
  End(job);
}

TEST(CaptureCommand, Interrupted_RunPublishesWhatWasRecorded) {
  for (const int signo : {SIGINT, SIGTERM}) {
    const Job job = StartJob({"--window=none"});
    TemporaryDirectory own;
    RunOptions options;
    options.directory = own.path();
    const auto client =
        Running::Start({Tbprof(), "capture", std::to_string(job.running->pid()), "--duration=1m"}, options);
    ASSERT_TRUE(job.running->WaitForError("capture 1: recording"));
    client->Signal(signo);
    const RunResult result = client->Wait();
    EXPECT_TRUE(WIFSIGNALED(result.status) && WTERMSIG(result.status) == signo) << result.status;
    EXPECT_THAT(result.AllPrinted(),
                HasSubstr("interrupted: a job under tbprof ends an open window now, and writes the profile to " +
                          job.running->logdir() + "; its terminal names the run"));
    ASSERT_TRUE(job.running->WaitForError("verified")) << job.running->Err();
    End(job);
  }
}

// A marker that matches nothing is reported in the profile: the session's own was empty.
TEST(CaptureCommand, StepMarker_IsThatOfTheWindow) {
  const Job job = StartJob({"--window=none", "--port=0"});
  for (const std::string& worker : {std::to_string(job.running->pid()), job.address}) {
    TemporaryDirectory own;
    const RunResult capture =
        RunTbprof({"capture", worker, "--duration=300ms", "--step-marker=no_such_step", "--logdir", own.path()});
    ASSERT_EQ(capture.code(), 0) << capture.AllPrinted();
    const std::vector<std::string> files = FilesBelow(own.path() + "/plugins", ".xplane.pb");
    ASSERT_THAT(files, SizeIs(1));
    EXPECT_TRUE(Profile::Parse(files[0])->HasWarning("--step-marker=no_such_step")) << worker;
  }
  End(job);
}

TEST(CaptureCommand, WrongArguments_AreOneErrorLine) {
  for (const auto& [words, text] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"capture", "::1:6009"}, "an IPv6 address goes in brackets"},
           {{"capture", "host:99999"}, "no HOST:PORT"},
           {{"capture", "no-such-run"}, "has that run"},
           {{"capture", "999999999"}, "has that process"},
           {{"capture", "127.0.0.1:1", "--duration=0"}, "1ms to 10m"},
           {{"capture", "127.0.0.1:1", "--duration=11m"}, "1ms to 10m"},
           {{"capture", "127.0.0.1:1", "--run=../x"}, "--run"},
           {{"capture", "127.0.0.1:1", "--step-marker=("}, "a regular expression"},
           {{"status", "x"}, "takes no operand"},
           {{"merge", "/nowhere"}, "two run directories"}}) {
    const RunResult result = RunTbprof(words);
    EXPECT_EQ(result.code(), 125) << words[1];
    EXPECT_THAT(result.AllPrinted(), HasSubstr(text));
  }
}

TEST(CaptureCommand, PortInUse_CommandRuns) {
  const Job job = StartJob({"--window=none", "--port=0"});
  const std::string port = job.address.substr(job.address.find(':') + 1);
  const RunResult other = RunUnderTbprof({"/bin/sh", "-c", "exit 7"}, {.tbprof = {"--window=none", "--port=" + port}});
  EXPECT_EQ(other.code(), 7);
  EXPECT_THAT(other.AllPrinted(), HasSubstr("--port=0 takes one that is free"));
  const RunResult strict =
      RunUnderTbprof({"/bin/sh", "-c", "exit 7"}, {.tbprof = {"--window=none", "--strict", "--port=" + port}});
  EXPECT_EQ(strict.code(), 125);
  End(job);
}

TEST(CaptureCommand, Endpoints_AreInTheLogdirDuringTheRun) {
  const Job job = StartJob({"--window=none", "--port=0", "--run=known"});
  const std::vector<std::string> files = FilesBelow(job.running->logdir() + "/.tbprof", ".endpoints.json");
  ASSERT_THAT(files, SizeIs(1));
  const auto endpoints = nlohmann::json::parse(ReadFile(files[0]));
  EXPECT_EQ(endpoints["addresses"][0], job.address);
  EXPECT_EQ(endpoints["run"], "known");
  End(job);
  EXPECT_FALSE(std::filesystem::exists(job.running->logdir() + "/.tbprof"));
}

TEST(Merge, SeparateCaptures_AreAligned) {
  const Job job = StartJob({"--window=none", "--port=0"});
  TemporaryDirectory logs;
  for (const char* run : {"--run=one", "--run=two"}) {
    ASSERT_EQ(RunTbprof({"capture", job.address, "--duration=200ms", run, "--logdir", logs.path()}).code(), 0);
    usleep(300'000);
  }
  End(job);
  const RunResult merge = RunTbprof(
      {"merge", logs / "plugins/profile/one", logs / "plugins/profile/two", "--run=both", "--logdir", logs.path()});
  EXPECT_EQ(merge.code(), 0) << merge.AllPrinted();
  EXPECT_THAT(merge.AllPrinted(), HasSubstr("has no moment in common"));
  const std::vector<std::string> files = FilesBelow(logs / "plugins/profile/both", ".xplane.pb");
  ASSERT_THAT(files, SizeIs(2));
  std::vector<int64_t> first, starts;
  for (const std::string& path : files) {
    const std::unique_ptr<Profile> profile = Profile::Parse(path);
    int64_t earliest = INT64_MAX;
    for (const Event& event : profile->Named("usleep")) earliest = std::min(earliest, event.start_ps);
    first.push_back(earliest);
    EXPECT_THAT(path, HasSubstr("/" + profile->space().hostnames(0) + ".xplane.pb"));
    for (const auto& plane : profile->space().planes()) {
      if (plane.name() != "Task Environment") continue;
      for (const auto& stat : plane.stats()) {
        if (plane.stat_metadata().at(stat.metadata_id()).name() == "profile_start_time") {
          starts.push_back(static_cast<int64_t>(stat.uint64_value()));
        }
      }
    }
  }
  std::sort(first.begin(), first.end());
  EXPECT_GT(first[1] - first[0], int64_t{400'000'000'000}) << "half a second lay between them";
  EXPECT_LT(first[1] - first[0], int64_t{60'000'000'000'000});
  ASSERT_THAT(starts, SizeIs(2));
  EXPECT_EQ(starts[0], starts[1]);
}

}  // namespace
}  // namespace tbprof::integration
