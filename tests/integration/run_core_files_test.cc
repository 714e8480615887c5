// SPDX-License-Identifier: Apache-2.0
// Stacks in the kernel's core files of programs that crash. If this machine pipes core files to a program, or makes
// none, the tests check that the run reports this.
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <string>
#include <vector>

#include "harness.h"

namespace tbprof::integration {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kPython = "/usr/bin/python3";

// Whether the kernel writes core files to the working directory of the crashed program.
bool CoresAreFiles() {
  rlimit limit;
  const std::string pattern = ReadFile("/proc/sys/kernel/core_pattern");
  return getrlimit(RLIMIT_CORE, &limit) == 0 && limit.rlim_max > (1u << 30) && !pattern.empty() && pattern[0] != '|' &&
         pattern.find('/') == std::string::npos && pattern != "\n";
}

// Checks the report on any other machine: a state with its reason, or nothing if there was no core file.
void ExpectElsewhere(const RunResult& run) {
  for (const nlohmann::json& core : run.summary["cores"]) {
    EXPECT_NE(core["state"], "read") << core.dump();
    EXPECT_NE(core["path"].get<std::string>() + core["reason"].get<std::string>(), "");
    EXPECT_TRUE(run.Printed("core    ")) << run.AllPrinted();
  }
}

std::vector<std::string> Functions(const nlohmann::json& frames) {
  std::vector<std::string> names;
  for (const nlohmann::json& frame : frames) names.push_back(frame["function"]);
  return names;
}

bool HasInOrder(const std::vector<std::string>& names, const std::vector<std::string>& wanted) {
  auto at = names.begin();
  for (const std::string& name : wanted) {
    at = std::find(at, names.end(), name);
    if (at == names.end()) return false;
  }
  return true;
}

constexpr const char* kCrash = R"(import ctypes, os, resource, threading
hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
resource.setrlimit(resource.RLIMIT_CORE, (WANTED, hard))
def work():
    total = 0
    for i in range(3000000):
        total += i
    return total
def inner(address):
    return ctypes.string_at(address)
def middle():
    work()
    inner(0)
def main():
    thread = threading.Thread(target=middle, name="Loader")
    thread.start()
    thread.join()
main()
)";

RunResult RunPython(const std::string& limit, std::vector<std::string> options = {"--sample-rate=100"}) {
  std::string program = kCrash;
  program.replace(program.find("WANTED"), 6, limit);
  RunResult run = RunUnderTbprof({kPython, "-c", program}, {.tbprof = std::move(options)});
  EXPECT_EQ(run.signal(), SIGSEGV) << run.AllPrinted();
  return run;
}

class CoreFiles : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(access(kPython, X_OK), 0) << "no " << kPython; }
};

void ExpectCrashOfThread(const nlohmann::json& cores) {
  ASSERT_EQ(cores.size(), 1u);
  const nlohmann::json& core = cores[0];
  EXPECT_EQ(core["state"], "read") << core["reason"];
  EXPECT_EQ(core["reason"], "");
  EXPECT_EQ(core["signal"], SIGSEGV);
  EXPECT_EQ(core["fault_address"], "0x0");
  ASSERT_EQ(core["threads"].size(), 2u);
  EXPECT_EQ(core["thread_count"], 2);
  const nlohmann::json& crashed = core["threads"][0];
  EXPECT_EQ(crashed["got_signal"], true);
  EXPECT_EQ(crashed["main"], false);
  EXPECT_EQ(crashed["thread"], "Loader");
  const std::vector<std::string> functions = Functions(crashed["frames"]);
  EXPECT_TRUE(HasInOrder(functions, {"string_at", "inner", "middle"})) << crashed.dump();
  EXPECT_EQ(functions.at(0), "string_at");
  EXPECT_EQ(crashed["frames"][1]["line"], 10);
  EXPECT_EQ(crashed["frames"][2]["line"], 13);
  EXPECT_EQ(crashed["native_complete"], true) << crashed.dump();
  EXPECT_THAT(Functions(crashed["native_frames"]), Contains(HasSubstr("ffi_call")));
  EXPECT_THAT(crashed["native_frames"][0]["module"].get<std::string>(), HasSubstr("libc"));
  EXPECT_EQ(core["threads"][1]["main"], true);
  EXPECT_EQ(core["threads"][1]["got_signal"], false);
  EXPECT_TRUE(HasInOrder(Functions(core["threads"][1]["frames"]), {"main", "<module>"})) << core.dump();
}

TEST_F(CoreFiles, CrashInAThreadOfPython_ShowsItsStacksAndLeavesTheFile) {
  const RunResult run = RunPython("hard", {"--sample-rate=100", "--keep-spool"});
  ExpectSchema(run.summary);
  if (!CoresAreFiles()) return ExpectElsewhere(run);
  ExpectCrashOfThread(run.summary["cores"]);
  const nlohmann::json& last = run.summary["python"]["last_stacks"];
  ASSERT_EQ(last.size(), 2u) << last.dump();
  EXPECT_EQ(last[0]["source"], "core");
  EXPECT_EQ(last[0]["frames"][0]["function"], "string_at");
  EXPECT_EQ(last[0]["age_s"], 0);
  EXPECT_TRUE(run.Printed("killed by SIGSEGV at address 0x0; its stacks then, exact")) << run.AllPrinted();
  EXPECT_TRUE(run.Printed(" got the signal: string_at (")) << run.AllPrinted();
  EXPECT_FALSE(run.Printed("last samples of")) << run.AllPrinted();
  const std::string path = run.summary["cores"][0]["path"];
  struct stat status;
  ASSERT_EQ(stat(path.c_str(), &status), 0) << path;
  EXPECT_GT(status.st_size, 100'000);
  // The spool has all facts of the core file, which is not needed any more.
  unlink(path.c_str());
  const std::vector<std::string> spools = FilesBelow(run.logdir, ".spool");
  ASSERT_EQ(spools.size(), 1u);
  TemporaryDirectory again;
  const RunResult converted = RunTbprof({"convert", spools[0], "--logdir=" + again.path() + "/logs"});
  EXPECT_EQ(converted.code(), 0) << converted.AllPrinted();
  const std::vector<std::string> summaries = FilesBelow(again.path(), "summary.json");
  ASSERT_EQ(summaries.size(), 1u);
  ExpectCrashOfThread(nlohmann::json::parse(ReadFile(summaries[0]))["cores"]);
}

TEST_F(CoreFiles, WithoutSampling_TheCoreIsReadAllTheSame) {
  const RunResult run = RunPython("hard", {"--sample-rate=0"});
  if (!CoresAreFiles()) return ExpectElsewhere(run);
  ExpectCrashOfThread(run.summary["cores"]);
}

TEST_F(CoreFiles, CoreCutByItsLimit_ShowsWhatIsThereAndTheSamples) {
  const RunResult run = RunPython("65536");
  if (!CoresAreFiles()) return ExpectElsewhere(run);
  ASSERT_EQ(run.summary["cores"].size(), 1u) << run.AllPrinted();
  const nlohmann::json& core = run.summary["cores"][0];
  EXPECT_EQ(core["state"], "read") << core.dump();
  EXPECT_THAT(core["reason"].get<std::string>(), HasSubstr(" bytes (ulimit -c, or a full disk)"));
  EXPECT_EQ(core["threads"][0]["got_signal"], true);
  EXPECT_EQ(core["threads"][0]["native_complete"], false);
  EXPECT_EQ(run.summary["python"]["last_stacks"][0]["source"], "sample");
  EXPECT_TRUE(run.Printed("last samples of")) << run.AllPrinted();
}

TEST_F(CoreFiles, NoCoreFile_ShowsTheSamples) {
  const RunResult run = RunPython("0");
  if (CoresAreFiles()) EXPECT_THAT(run.summary["cores"], IsEmpty());
  EXPECT_EQ(run.summary["python"]["last_stacks"][0]["source"], "sample");
}

TEST_F(CoreFiles, WorkingDirectoryThatWasLeft_IsFoundOrReported) {
  // The program stays there long enough for the launcher to see the directory.
  const std::string program = R"(import os, resource, time, ctypes
hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
os.mkdir("below")
os.chdir("below")
time.sleep(2.5)
ctypes.string_at(0)
)";
  const RunResult run = RunUnderTbprof({kPython, "-c", program});
  if (!CoresAreFiles()) return ExpectElsewhere(run);
  ASSERT_EQ(run.summary["cores"].size(), 1u) << run.AllPrinted();
  EXPECT_EQ(run.summary["cores"][0]["state"], "read") << run.summary["cores"].dump();
  EXPECT_THAT(run.summary["cores"][0]["path"].get<std::string>(), HasSubstr("/below/core"));
}

TEST_F(CoreFiles, ChildOfTheCommand_IsNamedByItsOwnCore) {
  const std::string program = R"(import os, resource, ctypes
hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
def in_child():
    ctypes.string_at(0)
child = os.fork()
if child == 0:
    in_child()
print(child, os.WTERMSIG(os.waitpid(child, 0)[1]), flush=True)
)";
  const RunResult run = RunUnderTbprof({kPython, "-c", program});
  EXPECT_EQ(run.code(), 0) << run.AllPrinted();
  if (!CoresAreFiles()) return ExpectElsewhere(run);
  ASSERT_EQ(run.summary["cores"].size(), 1u) << run.AllPrinted();
  const nlohmann::json& core = run.summary["cores"][0];
  EXPECT_EQ(std::to_string(core["pid"].get<int>()) + " 11\n", run.out);
  EXPECT_TRUE(HasInOrder(Functions(core["threads"][0]["frames"]), {"string_at", "in_child", "<module>"}))
      << core.dump();
}

// The functions, without parameters, of the thread that got the signal.
std::vector<std::string> CrashedIn(const RunResult& run) {
  std::vector<std::string> plain;
  if (run.summary["cores"].size() != 1) return plain;
  for (const std::string& name : Functions(run.summary["cores"][0]["threads"].at(0)["native_frames"])) {
    const std::string function = name.substr(0, name.starts_with("(anonymous") ? name.rfind('(') : name.find('('));
    plain.push_back(function.substr(function.rfind(':') + 1));
  }
  return plain;
}

TEST(CoreFilesOfC, AbortInNestedFunctions_ShowsThem) {
  const RunResult run = RunUnderTbprof({Program("crashes"), "abort", "-1"});
  EXPECT_EQ(run.signal(), SIGABRT);
  if (!CoresAreFiles()) return ExpectElsewhere(run);
  EXPECT_TRUE(HasInOrder(CrashedIn(run), {"abort", "Inner", "Middle", "Outer", "main"})) << run.summary["cores"].dump();
  EXPECT_TRUE(run.summary["cores"][0]["fault_address"].is_null());
  EXPECT_EQ(run.summary["cores"][0]["threads"][0]["native_complete"], true);
  EXPECT_TRUE(run.Printed("main thread got the signal: ")) << run.AllPrinted();
}

TEST(CoreFilesOfC, CallOfAddressZero_HasItsCaller) {
  const RunResult run = RunUnderTbprof({Program("crashes"), "null", "-1"});
  EXPECT_EQ(run.signal(), SIGSEGV);
  if (!CoresAreFiles()) return ExpectElsewhere(run);
  EXPECT_TRUE(HasInOrder(CrashedIn(run), {"Inner", "Middle", "Outer", "main"})) << run.summary["cores"].dump();
  EXPECT_EQ(run.summary["cores"][0]["threads"][0]["native_complete"], true);
}

// faulthandler and PyTorch use such a handler.
TEST(CoreFilesOfC, AbortInAHandlerWithAStackOfItsOwn_ShowsWhatItInterrupted) {
  const RunResult run = RunUnderTbprof({Program("crashes"), "handler", "-1"});
  EXPECT_EQ(run.signal(), SIGABRT);
  if (!CoresAreFiles()) return ExpectElsewhere(run);
  const std::vector<std::string> functions = CrashedIn(run);
  EXPECT_TRUE(HasInOrder(functions, {"abort", "Handle", "Inner", "Middle", "Outer"})) << run.summary["cores"].dump();
}

TEST(CoreFilesOfC, FaultInAThread_HasItsAddress) {
  const RunResult run = RunUnderTbprof({Program("crashes"), "segfault", "-1", "thread"});
  EXPECT_EQ(run.signal(), SIGSEGV);
  if (!CoresAreFiles()) return ExpectElsewhere(run);
  ASSERT_EQ(run.summary["cores"].size(), 1u) << run.AllPrinted();
  const nlohmann::json& core = run.summary["cores"][0];
  EXPECT_EQ(core["fault_address"], "0x10");
  EXPECT_THAT(Functions(core["threads"][0]["native_frames"]).at(0), HasSubstr("Inner"));
  EXPECT_EQ(core["threads"][1]["main"], true);
}

}  // namespace
}  // namespace tbprof::integration
