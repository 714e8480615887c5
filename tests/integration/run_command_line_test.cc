// SPDX-License-Identifier: Apache-2.0
// `tbprof run`: the command line, exit statuses, signals, and messages for bad input.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "harness.h"

namespace tbprof::integration {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

bool IsRoot() { return geteuid() == 0; }

// ---- words

TEST(Words, OptionsOfTheCommand_AreUnchanged) {
  const std::vector<std::string> words = {"--logdir=/x", "-h", "--version", "--",       "--help",
                                          "--run=y",     "",   "a\nb",      "\xff\xc3("};
  std::vector<std::string> command = {Program("surroundings")};
  command.insert(command.end(), words.begin(), words.end());
  RunOptions options;
  options.directory = "/";
  const RunResult bare = RunBare(command, options);
  for (const bool dashes : {true, false}) {
    RunResult result;
    TemporaryDirectory directory;
    std::vector<std::string> line = {"run", "--logdir=" + (directory / "logs")};
    if (dashes) line.push_back("--");
    line.insert(line.end(), command.begin(), command.end());
    result = RunTbprof(line, options);
    EXPECT_EQ(result.status, bare.status);
    // The first lines are the arguments and the directory.
    const std::vector<std::string> a = Lines(bare.out), b = Lines(result.out);
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i <= words.size() + 2; ++i) EXPECT_EQ(a[i], b[i]);
    EXPECT_TRUE(std::filesystem::exists(directory / "logs/plugins/profile")) << result.AllPrinted();
    EXPECT_FALSE(std::filesystem::exists("/x"));
  }
}

TEST(Words, InvalidArguments_ProfileIsValid) {
  const RunResult result = RunUnderTbprof({Program("ends"), "exit", "0", "\xff\xfe", "", "new\nline"});
  ASSERT_NE(result.profile, nullptr);
  EXPECT_FALSE(result.summary.is_discarded());
  EXPECT_THAT(result.printed, SizeIs(testing::Gt(3u)));
}

TEST(Words, EnvironmentOnly_OptionsAreUsed) {
  RunOptions options;
  TemporaryDirectory directory;
  options.environment = {
      {"TBPROF_LOGDIR", directory / "from-environment"}, {"TBPROF_RUN", "named"}, {"TBPROF_QUIET", "1"}};
  const RunResult result = RunTbprof({"run", Program("ends"), "exit", "0"}, options);
  EXPECT_EQ(result.code(), 0);
  int profiles = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory / "from-environment/plugins/profile/named")) {
    profiles += entry.path().string().ends_with(".xplane.pb");
  }
  EXPECT_EQ(profiles, 1);
  EXPECT_TRUE(result.printed.empty()) << result.AllPrinted();
  EXPECT_EQ(result.err, "on stderr\n");
}

TEST(Words, StandardOutput_HasNoLinesOfTbprof) {
  const RunResult result = RunUnderTbprof({"/bin/true"});
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err, "");
  EXPECT_GE(result.printed.size(), 5u);
  EXPECT_LE(result.printed.size(), 25u);
  for (const std::string& line : result.printed)
    EXPECT_EQ(line.find('\x1b'), std::string::npos) << "no colours in a file";
}

TEST(Words, Quiet_PrintsErrorsOnly) {
  RunOptions options;
  options.tbprof = {"--quiet"};
  const RunResult result = RunUnderTbprof({"/bin/true"}, options);
  EXPECT_TRUE(result.printed.empty()) << result.AllPrinted();
  EXPECT_NE(result.profile, nullptr);
}

TEST(Words, Disabled_IsAPlainExec) {
  RunOptions options;
  options.environment = {{"TBPROF_DISABLE", "1"}};
  const RunResult result = RunUnderTbprof({Program("waits_for_signals"), "0"}, options);
  EXPECT_EQ(result.code(), 23);
  EXPECT_TRUE(result.printed.empty()) << result.AllPrinted();
  EXPECT_TRUE(result.run_directories.empty());
  EXPECT_EQ(result.Fact("pid"), static_cast<uint64_t>(result.pid)) << "a plain exec";
}

TEST(Words, SummaryJson_IsWritten) {
  TemporaryDirectory directory;
  RunOptions options;
  options.tbprof = {"--summary-json=" + (directory / "summary.json")};
  const RunResult result = RunUnderTbprof({Program("ends"), "signal", "9"}, options);
  const auto json = nlohmann::json::parse(ReadFile(directory / "summary.json"), nullptr, false);
  ASSERT_TRUE(json.is_object());
  EXPECT_EQ(json["command"]["exit_signal"], 9);
  EXPECT_EQ(json["published"], true);
}

// ---- exit status

class ExitCode : public testing::TestWithParam<int> {};
TEST_P(ExitCode, EachStatus_IsPassedOn) {
  const Pair pair = RunBoth(Program("ends"), {"exit", std::to_string(GetParam())});
  EXPECT_TRUE(pair.Same());
  EXPECT_EQ(pair.profiled.code(), GetParam());
}
INSTANTIATE_TEST_SUITE_P(All, ExitCode, testing::Values(0, 1, 3, 125, 126, 127, 255));

class EndBySignal : public testing::TestWithParam<int> {};
TEST_P(EndBySignal, EachSignal_IsPassedOn) {
  const Pair pair = RunBoth(Program("ends"), {"signal", std::to_string(GetParam())});
  EXPECT_TRUE(pair.Same());
  EXPECT_EQ(pair.profiled.signal(), GetParam());
}
INSTANTIATE_TEST_SUITE_P(All, EndBySignal,
                         testing::Values(SIGTERM, SIGKILL, SIGSEGV, SIGABRT, SIGUSR1, SIGINT, SIGPIPE, 40));

// ---- bad input: one line, and nothing started

void ExpectRefused(const RunResult& result, int status, const std::string& part) {
  EXPECT_EQ(result.code(), status) << result.AllPrinted() << result.err;
  ASSERT_THAT(result.printed, SizeIs(1)) << result.AllPrinted();
  EXPECT_THAT(result.printed[0], HasSubstr(part));
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(result.out, "") << "the command was started";
}

TEST(BadInput, CommandMissing_Is127) {
  ExpectRefused(RunUnderTbprof({"no-such-command-here"}), 127, "no-such-command-here");
  ExpectRefused(RunUnderTbprof({"/no/such/command"}), 127, "/no/such/command");
}

TEST(BadInput, CommandNotExecutable_Is126) {
  TemporaryDirectory directory;
  WriteFile(directory / "plain", "#!/bin/sh\necho started\n", 0644);
  ExpectRefused(RunUnderTbprof({directory / "plain"}), 126, directory / "plain");
  ExpectRefused(RunUnderTbprof({directory.path()}), 126, directory.path());
}

TEST(BadInput, UnknownOption_NearestIsNamed) {
  ExpectRefused(RunTbprof({"run", "--logdri=/tmp/x", "--", Program("ends"), "exit", "0"}), 125, "--logdir");
}

// The variable may belong to another tool: the command runs, and a line reports the variable.
TEST(BadInput, UnknownVariable_IsAWarning) {
  RunOptions options;
  options.environment = {{"TBPROF_LOGDRI", "/tmp/x"}};
  const RunResult result = RunUnderTbprof({Program("ends"), "exit", "5"}, options);
  EXPECT_EQ(result.code(), 5);
  EXPECT_NE(result.profile, nullptr);
  EXPECT_TRUE(result.Printed("TBPROF_LOGDRI, which is no option of tbprof")) << result.AllPrinted();
  EXPECT_TRUE(result.Printed("did you mean TBPROF_LOGDIR?")) << result.AllPrinted();
}

TEST(BadInput, NoCommand_Is125) {
  const RunResult result = RunTbprof({"run"});
  EXPECT_EQ(result.code(), 125);
}

TEST(BadInput, LogdirIsAFile_Is125) {
  TemporaryDirectory directory;
  WriteFile(directory / "file", "x");
  for (const std::string& logdir : {directory / "file", directory / "file/below"}) {
    ExpectRefused(RunTbprof({"run", "--logdir=" + logdir, Program("ends"), "exit", "0"}), 125, directory / "file");
  }
  // Relative: the line names the absolute path.
  RunOptions options;
  options.directory = directory.path();
  ExpectRefused(RunTbprof({"run", "--logdir=file", Program("ends"), "exit", "0"}, options), 125, directory / "file");
  EXPECT_EQ(ReadFile(directory / "file"), "x");
}

TEST(BadInput, LogdirNotWritable_Is125) {
  // On an ordinary file system root may write everywhere.
  ExpectRefused(RunTbprof({"run", "--logdir=/proc/logs", Program("ends"), "exit", "0"}), 125, "/proc/logs");
  if (!IsRoot()) {
    TemporaryDirectory directory;
    mkdir((directory / "closed").c_str(), 0555);
    ExpectRefused(RunTbprof({"run", "--logdir=" + (directory / "closed"), Program("ends"), "exit", "0"}), 125,
                  directory / "closed");
  }
}

TEST(BadInput, LogdirInTheCloud_Is125) {
  ExpectRefused(RunTbprof({"run", "--logdir=gs://bucket/logs", Program("ends"), "exit", "0"}), 125, "gs://");
}

TEST(BadInput, OnErrorRun_CommandRuns) {
  const RunResult result =
      RunTbprof({"run", "--on-error=run", "--logdir=/proc/logs", "--", Program("ends"), "exit", "4"});
  EXPECT_EQ(result.code(), 4);
  EXPECT_EQ(result.out, "exit 4\n");
  EXPECT_TRUE(result.Printed("/proc/logs"));
}

TEST(BadInput, DefaultLogdirUnusable_FallsBack) {
  TemporaryDirectory temporary;
  RunOptions options;
  options.default_logdir = false;
  options.directory = "/proc";
  options.environment = {{"TMPDIR", temporary.path()}};
  const RunResult result = RunUnderTbprof({Program("ends"), "exit", "0"}, options);
  EXPECT_EQ(result.code(), 0);
  EXPECT_TRUE(result.Printed(temporary.path())) << result.AllPrinted();
  EXPECT_FALSE(std::filesystem::is_empty(temporary.path()));
}

// ---- programs that cannot be recorded run, and the cause is printed

TEST(NotRecorded, StaticProgram_IsNamed) {
  if (access("/sbin/ldconfig", X_OK) != 0) GTEST_SKIP() << "no static program at hand: /sbin/ldconfig is missing";
  const Pair pair = RunBoth(std::vector<std::string>{"/sbin/ldconfig", "--version"}, RunOptions());
  EXPECT_TRUE(SameOutput(pair.bare, pair.profiled));
  EXPECT_TRUE(pair.profiled.Printed("static")) << pair.profiled.AllPrinted();
}

TEST(NotRecorded, SetuidProgram_IsNamed) {
  TemporaryDirectory directory;
  const std::string copy = directory / "setuid";
  std::filesystem::copy_file(Program("ends"), copy);
  std::string program = copy;
  if (IsRoot()) {
    ASSERT_EQ(chown(copy.c_str(), 65534, 65534), 0);
    ASSERT_EQ(chmod(copy.c_str(), 04755), 0);
    ASSERT_EQ(chmod(directory.path().c_str(), 0755), 0);
  } else {
    program = "/usr/bin/mount";
    struct stat status;
    if (stat(program.c_str(), &status) != 0 || (status.st_mode & S_ISUID) == 0)
      GTEST_SKIP() << "no setuid program at hand";
  }
  const std::vector<std::string> command =
      IsRoot() ? std::vector<std::string>{program, "exit", "6"} : std::vector<std::string>{program, "--version"};
  const Pair pair = RunBoth(command, RunOptions());
  EXPECT_TRUE(SameOutput(pair.bare, pair.profiled));
  EXPECT_TRUE(pair.profiled.Printed("setuid")) << pair.profiled.AllPrinted();
}

TEST(NotRecorded, OtherClassOrArchitecture_IsNamed) {
  TemporaryDirectory directory;
  // A shell executes a file whose format the kernel does not know, as with env and timeout.
  std::string elf = ReadFile(Program("ends"));
  elf[18] = 40;
  elf[19] = 0;
  WriteFile(directory / "foreign", elf, 0755);
  const RunResult bare = RunBare({"/usr/bin/env", directory / "foreign"});
  const RunResult profiled = RunUnderTbprof({directory / "foreign"});
  EXPECT_TRUE(SameOutput(bare, profiled));
  EXPECT_TRUE(profiled.Printed("another machine")) << profiled.AllPrinted();
}

TEST(NotRecorded, ScriptWithoutInterpreter_RunsInAShell) {
  TemporaryDirectory directory;
  WriteFile(directory / "script", "echo $((2 + 3)) \"$1\"\nexit 12\n", 0755);
  const RunResult result = RunUnderTbprof({directory / "script", "a b"});
  EXPECT_EQ(result.code(), 12);
  EXPECT_EQ(result.out, "5 a b\n");
}

TEST(NotRecorded, WrapperThatMovesTheWork_IsNamed) {
  TemporaryDirectory directory;
  for (const char* name : {"docker", "ssh", "srun", "sudo"}) {
    WriteFile(directory / name, "#!/bin/sh\necho \"wrapper $*\"\n", 0755);
    RunOptions options;
    options.environment = {{"PATH", directory.path() + ":/usr/bin:/bin"}};
    const std::vector<std::string> words =
        std::string(name) == "docker" ? std::vector<std::string>{name, "run", "image", "python3", "train.py"}
        : std::string(name) == "ssh"  ? std::vector<std::string>{name, "host", "python3", "train.py"}
                                      : std::vector<std::string>{name, "python3", "train.py"};
    const RunResult result = RunUnderTbprof(words, options);
    EXPECT_EQ(result.code(), 0);
    EXPECT_THAT(result.out, HasSubstr("wrapper "));
    EXPECT_TRUE(result.Printed(name)) << name << "\n" << result.AllPrinted();
  }
}

// A program says through a pipe that it is ready, closes it and goes on: its reader gets the end of the file at once.
TEST(Descriptors, PipeThatTheCommandCloses_Ends) {
  for (const std::string fd : {"1", "7"}) {
    TemporaryDirectory directory;
    WriteFile(directory / "command",
              "echo ready >&" + fd + "; exec " + fd + ">&-; read answer < fifo; echo $answer >&2\n");
    const std::string wrapped = Tbprof() + " run --quiet --logdir=logs -- sh command";
    WriteFile(directory / "outer", (fd == "1" ? "" : "exec 7>&1 >/dev/null\n") + ("exec " + wrapped) + "\n");
    RunOptions options;
    options.directory = directory.path();
    // The reader answers after the end of the file; the command waits for the answer.
    const RunResult result = RunBare({"/bin/sh", "-c", "mkfifo fifo; sh outer | { cat; echo seen > fifo; }"}, options);
    EXPECT_EQ(result.code(), 0) << fd;
    EXPECT_EQ(result.out, "ready\n") << fd;
    EXPECT_EQ(result.err, "seen\n") << fd;
  }
}

// Each program has a segment of its own, which the launcher maps, and keeps for a while after the program's end.
TEST(AddressSpace, ManyProgramsUnderALimit_AreRecorded) {
  RunOptions options;
  options.launcher = {"/bin/sh", "-c", "ulimit -v 3000000; exec \"$@\"", "sh"};
  const RunResult result = RunUnderTbprof(
      {"/bin/sh", "-c", "ulimit -v; i=0; while [ $i -lt 60 ]; do /bin/true; i=$((i + 1)); done"}, options);
  EXPECT_EQ(result.code(), 0);
  EXPECT_EQ(result.out, "3000000\n");
  EXPECT_FALSE(result.Printed("is not recorded")) << result.AllPrinted();
  EXPECT_EQ(result.summary["process_count"], 61);
}

TEST(Systemd, ServiceThatNotifies_IsToldWhatItsUnitNeeds) {
  for (const bool is_service : {true, false}) {
    RunOptions options;
    const std::string pid = is_service ? "$$" : "1";
    options.launcher = {"/bin/sh", "-c", "SYSTEMD_EXEC_PID=" + pid + " NOTIFY_SOCKET=/none exec \"$@\"", "sh"};
    const RunResult result = RunUnderTbprof({Program("ends"), "exit", "0"}, options);
    EXPECT_EQ(result.code(), 0);
    EXPECT_EQ(result.Printed("NotifyAccess=all"), is_service) << result.AllPrinted();
  }
}

TEST(Descriptors, SummaryToADescriptor_IsWritten) {
  TemporaryDirectory directory;
  RunOptions options;
  options.directory = directory.path();
  for (const std::string where : {"fd:7", "/dev/fd/7"}) {
    const RunResult result = RunBare(
        {"/bin/sh", "-c",
         Tbprof() + " run --quiet --logdir=logs --summary-json=" + where + " -- true 7>&1 >/dev/null | head -c 1"},
        options);
    EXPECT_EQ(result.out, "{") << where;
  }
}

// A mistyped path names the program itself.
TEST(SummaryFile, FileThatIsNoSummary_IsNotReplaced) {
  TemporaryDirectory directory;
  RunOptions options;
  options.directory = directory.path();
  WriteFile(directory / "train.py", "print('trains')\n");
  const std::string run = Tbprof() + " run --logdir=logs ";
  const RunResult refused = RunBare({"/bin/sh", "-c", run + "--summary-json=train.py -- echo ran"}, options);
  EXPECT_EQ(refused.code(), 125);
  EXPECT_EQ(refused.out, "");
  EXPECT_TRUE(refused.Printed("train.py: this file exists and is no summary of tbprof")) << refused.AllPrinted();
  const RunResult ran = RunBare({"/bin/sh", "-c", run + "--on-error=run --summary-json=train.py -- echo ran"}, options);
  EXPECT_EQ(ran.code(), 0);
  EXPECT_EQ(ran.out, "ran\n");
  EXPECT_EQ(ReadFile(directory / "train.py"), "print('trains')\n");
  // The command may make the file; an earlier summary is replaced.
  const RunResult late = RunBare({"/bin/sh", "-c", run + "--summary-json=new -- sh -c 'echo mine > new'"}, options);
  EXPECT_EQ(ReadFile(directory / "new"), "mine\n") << late.AllPrinted();
  EXPECT_TRUE(late.Printed("is not replaced")) << late.AllPrinted();
  WriteFile(directory / "kept.json", "{\n \"schema_ver");  // of a full disk
  for (const std::string command : {"true", "false"}) {
    const std::string both = run + "--run=again --summary-json=kept.json -- " + command;
    RunBare({"/bin/sh", "-c", both}, options);
    EXPECT_THAT(ReadFile(directory / "kept.json"), HasSubstr("\"line\": \"" + command)) << command;
  }
}

// Each spool has its own summary; the later ones do not replace the first.
TEST(SummaryFile, OfSeveralSpools_IsOneForEach) {
  TemporaryDirectory directory;
  RunOptions options;
  options.directory = directory.path();
  for (const std::string command : {"true", "false"}) {
    RunBare({"/bin/sh", "-c", Tbprof() + " run --quiet --logdir=logs --keep-spool -- " + command}, options);
  }
  const std::string convert = Tbprof() + " convert --keep-spool --logdir=again --summary-json=out.json logs";
  const RunResult converted = RunBare({"/bin/sh", "-c", convert}, options);
  EXPECT_EQ(converted.code(), 0) << converted.AllPrinted();
  EXPECT_TRUE(converted.Printed("out_2.json")) << converted.AllPrinted();
  const std::string first = ReadFile(directory / "out.json"), second = ReadFile(directory / "out_2.json");
  EXPECT_THAT(first + second, AllOf(HasSubstr("\"line\": \"true"), HasSubstr("\"line\": \"false")));
}

// The output of the command is in the same file.
TEST(SummaryFile, StandardOutput_IsAppendedTo) {
  TemporaryDirectory directory;
  RunOptions options;
  options.directory = directory.path();
  RunBare({"/bin/sh", "-c", Tbprof() + " run --quiet --logdir=logs --summary-json=/dev/stdout -- echo output > both"},
          options);
  const std::string both = ReadFile(directory / "both");
  EXPECT_TRUE(both.starts_with("output\n{")) << both.substr(0, 100);
}

// For a later tbprof, what an outer one has set for its command is no option.
TEST(Nested, NameOfTheOuterRun_IsNotTheInnerOnes) {
  TemporaryDirectory directory;
  RunOptions options;
  options.default_logdir = false;
  options.tbprof = {"--run=outer", "--logdir=" + (directory / "logs")};
  const std::string inner =
      "env -u TBPROF_SESSION -u LD_PRELOAD " + Tbprof() + " run --quiet --logdir=" + (directory / "inner") + " -- true";
  EXPECT_EQ(RunUnderTbprof({"/bin/sh", "-c", inner}, options).code(), 0);
  EXPECT_FALSE(std::filesystem::exists(directory / "inner/plugins/profile/outer"));
  EXPECT_TRUE(std::filesystem::exists(directory / "inner/plugins/profile"));
  EXPECT_EQ(RunUnderTbprof({"/bin/sh", "-c", "TBPROF_RUN=mine; export TBPROF_RUN; " + inner}, options).code(), 0);
  EXPECT_TRUE(std::filesystem::exists(directory / "inner/plugins/profile/mine"));
}

TEST(Nested, WhatIsIgnoredInside_IsNamed) {
  const RunResult result = RunUnderTbprof({Tbprof(), "run", "--require-gpu", "--", Program("ends"), "exit", "0"});
  EXPECT_TRUE(result.Printed("the outer one records; without --require-gpu")) << result.AllPrinted();
}

TEST(CommandLine, RulesWithoutABaseline_AreRefused) {
  const RunResult result = RunTbprof({"run", "--fail-on=step_time>+3%", "--", "true"});
  EXPECT_EQ(result.code(), 125);
  EXPECT_TRUE(result.Printed("--fail-on: there is nothing to compare with: add --baseline=NAME"));
}

TEST(Nested, InnerTbprof_RunsTheCommandOnly) {
  RunOptions options;
  const RunResult result =
      RunUnderTbprof({Tbprof(), "run", "--logdir=/proc/none", "--", Program("ends"), "exit", "9"}, options);
  EXPECT_EQ(result.code(), 9);
  EXPECT_EQ(result.out, "exit 9\n");
  EXPECT_THAT(result.run_directories, SizeIs(1));
  EXPECT_TRUE(result.Printed("already inside"));
}

TEST(Names, SameSecond_GivesTwoProfiles) {
  TemporaryDirectory directory;
  RunOptions options;
  options.default_logdir = false;
  options.tbprof = {"--logdir=" + (directory / "logs")};
  std::vector<std::unique_ptr<Running>> running;
  for (int i = 0; i < 4; ++i) running.push_back(StartUnderTbprof({Program("ends"), "exit", "0"}, options));
  for (auto& one : running) EXPECT_EQ(one->Wait().code(), 0);
  int profiles = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory / "logs/plugins")) {
    profiles += entry.path().string().ends_with(".xplane.pb");
  }
  EXPECT_EQ(profiles, 4);
  for (int i = 0; i < 2; ++i) {
    RunOptions named = options;
    named.tbprof.push_back("--run=same");
    EXPECT_EQ(RunUnderTbprof({Program("ends"), "exit", "0"}, named).code(), 0);
  }
  int shared = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory / "logs/plugins/profile/same")) {
    shared += entry.path().string().ends_with(".xplane.pb");
  }
  EXPECT_EQ(shared, 2) << "a given name is shared, no file is replaced";
}

// ---- signals

TEST(Signals, SentToTbprofAlone_AreForwardedOnce) {
  const auto running = StartUnderTbprof({Program("waits_for_signals"), "60", "handle"});
  ASSERT_GT(running->WaitForNumber("pid"), 0);
  for (const int signo : {SIGHUP, SIGINT, SIGUSR2, SIGWINCH, SIGTERM}) {
    running->Signal(signo);
    ASSERT_TRUE(running->WaitForFact("signal " + std::to_string(signo) + "\n")) << signo << "\n" << running->Err();
  }
  const RunResult result = running->Wait();
  EXPECT_EQ(result.code(), 23);
  EXPECT_EQ(result.out, "signal 1: 1\nsignal 2: 1\nsignal 12: 1\nsignal 15: 1\nsignal 28: 1\nfinished\n");
  EXPECT_NE(result.profile, nullptr);
}

TEST(Signals, SentToTheGroup_AreNotDoubled) {
  const auto running = StartUnderTbprof({Program("waits_for_signals"), "60", "handle"});
  ASSERT_GT(running->WaitForNumber("pid"), 0);
  for (const int signo : {SIGINT, SIGHUP, SIGTERM}) {
    // The harness starts each run in its own process group.
    kill(-running->pid(), signo);
    ASSERT_TRUE(running->WaitForFact("signal " + std::to_string(signo) + "\n")) << signo << "\n" << running->Err();
  }
  const RunResult result = running->Wait();
  EXPECT_EQ(result.code(), 23);
  EXPECT_EQ(result.out, "signal 1: 1\nsignal 2: 1\nsignal 15: 1\nfinished\n");
}

TEST(Signals, TypedOnTheTerminal_ArriveOnce) {
  RunOptions options;
  options.terminal = true;
  const auto running = StartUnderTbprof({Program("waits_for_signals"), "60", "handle"}, options);
  ASSERT_GT(running->WaitForNumber("pid"), 0);
  running->Type("\x03");
  ASSERT_TRUE(running->WaitForFact("signal 2\n")) << running->Err();
  running->Type("\x1c");
  ASSERT_TRUE(running->WaitForFact("signal 3\n")) << running->Err();
  running->Signal(SIGTERM);
  const RunResult result = running->Wait();
  EXPECT_EQ(result.code(), 23);
  EXPECT_EQ(result.out, "signal 2: 1\nsignal 3: 1\nsignal 15: 1\nfinished\n");
}

TEST(Signals, DefaultAction_EndsBoth) {
  const auto running = StartUnderTbprof({Program("waits_for_signals"), "60"});
  ASSERT_TRUE(running->WaitForFact("warm "));
  running->Signal(SIGTERM);
  const RunResult result = running->Wait();
  EXPECT_EQ(result.signal(), SIGTERM);
  ASSERT_NE(result.profile, nullptr) << result.AllPrinted();
  EXPECT_GE(result.profile->Count("usleep"), 49);
}

}  // namespace
}  // namespace tbprof::integration
