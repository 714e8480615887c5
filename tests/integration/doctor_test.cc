// SPDX-License-Identifier: Apache-2.0
// `tbprof doctor`: each row has PASS here and changes where its condition is provoked.
#include <gmock/gmock.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "cuda_harness.h"
#include "harness.h"

namespace tbprof::integration {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

struct Row {
  std::string verdict, found, fix;
};

class Doctor : public testing::Test {
 protected:
  // `tbprof doctor --json` with a log directory that can be made, in an environment without tbprof's variables.
  RunResult Ask(std::vector<std::string> words, RunOptions options = {}) {
    options.default_logdir = false;
    for (const char* name : {"http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "grpc_proxy",
                             "LD_PRELOAD", "VIRTUAL_ENV"}) {
      bool given = false;
      for (const auto& [variable, value] : options.environment) given |= variable == name;
      if (!given) options.environment.emplace_back(name, std::nullopt);
    }
    words.insert(words.begin(), {"doctor", "--json", "--logdir=" + logdir_});
    RunResult result = RunTbprof(words, options);
    rows_.clear();
    const auto json = nlohmann::json::parse(result.out, nullptr, false);
    EXPECT_TRUE(json.is_object()) << result.out << result.err;
    if (!json.is_object()) return result;
    verdict_ = json["verdict"];
    for (const auto& row : json["rows"]) rows_[row["name"]] = {row["verdict"], row["found"], row["fix"]};
    // Only a FAIL gives an exit status other than 0; with --strict, NOTE and WARN do, too.
    const std::vector<std::string> levels = {"PASS", "NOTE", "WARN", "FAIL"};
    size_t worst = 0;
    for (const auto& [name, row] : rows_) {
      const auto level = std::find(levels.begin(), levels.end(), row.verdict);
      EXPECT_NE(level, levels.end()) << name << ": " << row.verdict;
      worst = std::max(worst, static_cast<size_t>(level - levels.begin()));
    }
    EXPECT_EQ(verdict_, levels[worst]);
    const bool strict = json["strict"];
    EXPECT_EQ(result.code(), worst == 3 ? 2 : strict && worst > 0 ? 1 : 0) << result.out;
    EXPECT_EQ(json["exit_status"], result.code());
    EXPECT_EQ(json["schema"], 2);
    return result;
  }
  void Expect(const std::string& name, const std::string& verdict, const std::string& part = "") {
    ASSERT_TRUE(rows_.count(name)) << name;
    const Row& row = rows_[name];
    EXPECT_EQ(row.verdict, verdict) << name << ": " << row.found;
    EXPECT_THAT(row.found, HasSubstr(part));
    // Each warning has its remedy.
    EXPECT_EQ(row.fix.empty(), verdict == "PASS") << name << ": " << row.found;
  }

  TemporaryDirectory directory_;
  std::string logdir_ = directory_ / "logs";
  std::map<std::string, Row> rows_;
  std::string verdict_;
};

TEST_F(Doctor, TestEnvironment_EachRowPasses) {
  Ask({});
  for (const char* name : {"system", "library", "filter", "stacks", "memfd", "limits", "preload", "logdir", "leftovers",
                           "proxy", "self-test"}) {
    Expect(name, "PASS");
  }
  EXPECT_EQ(rows_.count("command"), 0u);
  // Nothing is left behind.
  EXPECT_NE(access(logdir_.c_str(), F_OK), 0);
  EXPECT_THAT(rows_["self-test"].found, HasSubstr("allocator calls"));
}

TEST_F(Doctor, Exit_NothingPreventsRecording_Is0AndStrictIs1) {
  // A Python without TensorBoard: a note for certain.
  const std::string root = directory_ / "bare";
  std::filesystem::create_directories(root + "/bin");
  WriteFile(root + "/pyvenv.cfg", "home = /usr/bin\n");
  WriteFile(root + "/bin/python3", "#!/bin/false\n", 0755);
  const std::string python = "--python=" + root + "/bin/python3";
  EXPECT_EQ(Ask({python, "--", "/bin/true"}).code(), 0);
  Expect("viewer", "NOTE", "no TensorBoard");
  EXPECT_EQ(Ask({python, "--strict", "--", "/bin/true"}).code(), 1);
  EXPECT_EQ(Ask({python, "--strict", "--", Program("static_program")}).code(), 2);
}

TEST_F(Doctor, ClockSync_IsANoteOnOneMachineAndAWarningOnSeveral) {
  Ask({});
  ASSERT_TRUE(rows_.count("clock-sync"));
  if (rows_["clock-sync"].verdict == "PASS") return Expect("clock-sync", "PASS");  // synchronised, or unknown
  Expect("clock-sync", "NOTE", "several machines");
  for (const std::vector<std::pair<std::string, std::optional<std::string>>>& job :
       std::vector<std::vector<std::pair<std::string, std::optional<std::string>>>>{
           {{"SLURM_NNODES", "2"}}, {{"WORLD_SIZE", "16"}, {"LOCAL_WORLD_SIZE", "8"}}}) {
    RunOptions options;
    options.environment = job;
    Ask({}, options);
    Expect("clock-sync", "WARN", "machines of this job");
  }
  RunOptions options;
  options.environment = {{"WORLD_SIZE", "8"}, {"LOCAL_WORLD_SIZE", "8"}};
  Ask({}, options);
  Expect("clock-sync", "NOTE");
}

TEST_F(Doctor, Text_EachRowIsALine) {
  RunOptions options;
  options.default_logdir = false;
  const RunResult result = RunTbprof({"doctor", "--logdir=" + logdir_, "--", "/bin/true"}, options);
  const std::vector<std::string> lines = Lines(result.out);
  ASSERT_GT(lines.size(), 12u);
  for (const std::string& line : lines) {
    EXPECT_THAT(line.substr(0, 6), AnyOf("PASS  ", "NOTE  ", "WARN  ", "FAIL  ")) << line;
    if (!line.starts_with("PASS")) {
      EXPECT_THAT(line, HasSubstr("; fix: "));
    }
  }
  EXPECT_THAT(result.out, HasSubstr("PASS  command     /bin/true can be recorded"));
  EXPECT_EQ(result.err, "");
}

TEST_F(Doctor, Commands_EachKind_HasItsVerdict) {
  Ask({"--", "/bin/true"});
  Expect("command", "PASS", "/bin/true");
  Ask({"--", Program("static_program")});
  Expect("command", "FAIL", "linked statically");
  Ask({"--", Program("own_allocator"), "--logdir=/no/such"});
  Expect("command", "WARN", "allocator of its own");
  Ask({"no-such-command-anywhere"});
  Expect("command", "FAIL", "cannot find");
}

TEST_F(Doctor, KernelWithoutPerfEvents_IsANoteWithARemedy) {
  RunOptions options;
  options.launcher = {Program("seccomp_filter"), "perf"};
  if (Ask({}, options).code() == 77) GTEST_SKIP() << "no seccomp here";
  Expect("perf", "NOTE", "--sample-rate samples no native stacks");
  EXPECT_FALSE(rows_["perf"].fix.empty());
}

TEST_F(Doctor, Proxies_AreWarnings) {
  RunOptions options;
  options.environment = {{"http_proxy", "http://proxy:3128"}, {"no_proxy", "example.org"}};
  Ask({}, options);
  Expect("proxy", "WARN", "http_proxy");
  EXPECT_THAT(rows_["proxy"].fix, HasSubstr("no_proxy="));
  options.environment = {{"http_proxy", "http://proxy:3128"}, {"no_proxy", "example.org, localhost"}};
  Ask({}, options);
  Expect("proxy", "PASS");
}

TEST_F(Doctor, PreloadedLibraries_EachKind_HasItsVerdict) {
  RunOptions options;
  options.environment = {{"LD_PRELOAD", "/no/such/library.so"}};
  Ask({}, options);
  Expect("preload", "WARN", "/no/such/library.so");
  Expect("self-test", "PASS");
  // The names alone decide; the loader reports that it does not find them.
  options.environment = {{"LD_PRELOAD", "libasan.so.8"}};
  Ask({}, options);
  Expect("preload", "FAIL", "libasan.so.8");
  options.environment = {{"LD_PRELOAD", "libjemalloc.so.2"}};
  Ask({}, options);
  Expect("preload", "PASS", "libjemalloc.so.2");
}

TEST_F(Doctor, Limits_AreReportedAndTried) {
  RunOptions options;
  // 2000 blocks of 512 bytes (POSIX) or 1024 (bash): less than any segment takes.
  options.launcher = {"/bin/sh", "-c", "ulimit -f 2000; exec \"$@\"", "sh"};
  Ask({}, options);
  Expect("limits", "FAIL", "ulimit -f");
  Expect("self-test", "FAIL", "ulimit -f leaves no room for records");
}

TEST_F(Doctor, LogDirectories_EachKind_HasItsVerdict) {
  WriteFile(directory_ / "file", "");
  logdir_ = directory_ / "file";
  Ask({});
  Expect("logdir", "FAIL", "no directory");
  logdir_ = "/proc/tbprof-logs";
  Ask({});
  Expect("logdir", "FAIL", "/proc");
  logdir_ = directory_ / "made";
  ASSERT_EQ(mkdir(logdir_.c_str(), 0755), 0);
  Ask({});
  Expect("logdir", "PASS", logdir_);
}

TEST_F(Doctor, LeftOverSpools_AreReported) {
  ASSERT_EQ(mkdir(logdir_.c_str(), 0755), 0);
  const std::string place = logdir_ + "/.tbprof";
  ASSERT_EQ(mkdir(place.c_str(), 0755), 0);
  const std::string spool = place + "/run-1-abcd.spool";
  WriteFile(spool, "x");
  Ask({});
  Expect("leftovers", "WARN", "run-1-abcd.spool");
  EXPECT_THAT(rows_["leftovers"].fix, HasSubstr("tbprof recover " + place));
  // A spool that is being written is no leftover.
  FILE* file = fopen(spool.c_str(), "r");
  ASSERT_NE(file, nullptr);
  ASSERT_EQ(flock(fileno(file), LOCK_EX), 0);
  Ask({});
  Expect("leftovers", "PASS");
  fclose(file);
}

TEST_F(Doctor, SpoolsInMemory_AreAWarning) {
  if (access("/dev/shm", W_OK) != 0) GTEST_SKIP() << "no tmpfs at /dev/shm";
  Ask({"--spool-dir=/dev/shm"});
  Expect("spool", "WARN", "tmpfs");
}

TEST_F(Doctor, Viewer_IsFoundWithoutRunningPython) {
  // The files of a virtual environment; its python would fail if it was run.
  const std::string root = directory_ / "venv";
  const std::string packages = root + "/lib/python3.11/site-packages";
  for (const std::string& path : {root, root + "/bin", root + "/lib", root + "/lib/python3.11", packages}) {
    ASSERT_EQ(mkdir(path.c_str(), 0755), 0);
  }
  WriteFile(root + "/pyvenv.cfg", "home = /usr/bin\n");
  WriteFile(root + "/bin/python3", "#!/bin/false\n", 0755);
  const std::string python = "--python=" + root + "/bin/python3";
  Ask({python});
  Expect("viewer", "NOTE", "no TensorBoard");
  ASSERT_EQ(mkdir((packages + "/tensorboard-2.21.0.dist-info").c_str(), 0755), 0);
  Ask({python});
  Expect("viewer", "NOTE", "without its profile plugin");
  ASSERT_EQ(mkdir((packages + "/tensorboard_plugin_profile-2.13.0.dist-info").c_str(), 0755), 0);
  Ask({python});
  Expect("viewer", "NOTE", "older");
  ASSERT_EQ(mkdir((packages + "/xprof-2.24.2.dist-info").c_str(), 0755), 0);
  Ask({python});
  Expect("viewer", "NOTE", "same pages");
  ASSERT_EQ(rmdir((packages + "/tensorboard_plugin_profile-2.13.0.dist-info").c_str()), 0);
  Ask({python});
  Expect("viewer", "PASS", "TensorBoard 2.21.0, xprof 2.24.2");
}

// A virtual environment: `python` that is a shell, and the directory of its packages.
std::string MakeVenv(const std::string& root) {
  const std::string packages = root + "/lib/python3.11/site-packages";
  std::filesystem::create_directories(packages);
  std::filesystem::create_directories(root + "/bin");
  WriteFile(root + "/pyvenv.cfg", "home = /usr/bin\n");
  WriteFile(root + "/bin/python", "#!/bin/sh\nexit 0\n", 0755);
  WriteFile(root + "/bin/torchrun", "#!" + root + "/bin/python\n", 0755);
  return packages;
}

TEST_F(Doctor, Viewer_OfTheCommandsPython_IsFound) {
  const std::string root = directory_ / "venv";
  const std::string packages = MakeVenv(root);
  for (const char* program : {"/bin/python", "/bin/torchrun"}) {
    Ask({"--", root + program, "x.py"});
    Expect("viewer", "NOTE", "no TensorBoard for " + root + "/bin/python");
  }
  std::filesystem::create_directories(packages + "/tensorboard-2.21.0.dist-info");
  std::filesystem::create_directories(packages + "/xprof-2.24.2.dist-info");
  Ask({"--", root + "/bin/torchrun", "x.py"});
  Expect("viewer", "PASS", root + "/bin/python");
}

TEST_F(Doctor, Run_CommandsPythonLacksAViewer_IsNamed) {
  const std::string root = directory_ / "venv";
  const std::string packages = MakeVenv(root);
  const std::string missing = "view needs: " + root + "/bin/python -m pip install tensorboard";
  EXPECT_TRUE(RunUnderTbprof({root + "/bin/python", "x.py"}).Printed(missing + " xprof"));
  EXPECT_FALSE(RunUnderTbprof({"/bin/true"}).Printed("view needs"));
  std::filesystem::create_directories(packages + "/xprof-2.24.2.dist-info");
  const RunResult without = RunUnderTbprof({root + "/bin/python", "x.py"});
  EXPECT_TRUE(without.Printed(missing)) << without.AllPrinted();
  EXPECT_FALSE(without.Printed("xprof")) << without.AllPrinted();
  std::filesystem::create_directories(packages + "/tensorboard-2.21.0.dist-info");
  EXPECT_FALSE(RunUnderTbprof({root + "/bin/python", "x.py"}).Printed("view needs"));
}

TEST_F(Doctor, MissingLibrary_Fails) {
  RunOptions options;
  options.environment = {{"TBPROF_LIBRARY_DIR", directory_.path()}};
  Ask({}, options);
  Expect("library", "FAIL", "libtbprof_preload.so");
  Expect("self-test", "FAIL", "libtbprof_preload.so");
}

TEST_F(Doctor, InsideARun_PreloadIsAWarning) {
  RunOptions options;
  const RunResult result = RunUnderTbprof({Tbprof(), "doctor", "--json", "--logdir=" + logdir_}, options);
  const auto json = nlohmann::json::parse(result.out, nullptr, false);
  ASSERT_TRUE(json.is_object()) << result.out;
  for (const auto& row : json["rows"]) {
    if (row["name"] == "preload") {
      EXPECT_EQ(row["verdict"], "WARN");
    }
  }
}

// ---- driver, CUDA, CUPTI, on the simulator

class DoctorOfGpus : public Doctor {
 protected:
  void SetUp() override {
    if (access(Sim("cuda13/libcuda.so.1").c_str(), R_OK) != 0) GTEST_SKIP() << "no CUDA headers: no simulator";
    // A Python without packages.
    const std::string root = directory_ / "python";
    std::filesystem::create_directories(root + "/bin");
    WriteFile(root + "/pyvenv.cfg", "home = /usr/bin\n");
    WriteFile(root + "/bin/python3", "#!/bin/false\n", 0755);
    python_ = "--python=" + root + "/bin/python3";
  }
  void AskOn(const std::string& libraries, const std::string& cupti = "", const std::string& cuda = "",
             std::vector<std::pair<std::string, std::string>> more = {}) {
    RunOptions options = On("cuda13", cupti, cuda);
    Replace(&options, "LD_LIBRARY_PATH", libraries.starts_with("/") ? libraries : Sim(libraries));
    for (const auto& [name, value] : more) Replace(&options, name, value);
    Ask({python_}, options);
  }
  static void Replace(RunOptions* options, const std::string& name, const std::string& value) {
    std::erase_if(options->environment, [&](const auto& entry) { return entry.first == name; });
    options->environment.emplace_back(name, value);
  }
  std::string python_;
};

TEST_F(DoctorOfGpus, EachPart_IsNamedWithItsVersion) {
  AskOn("cuda13");
  Expect("driver", "PASS", "driver of CUDA 13.0, 1 GPU: NVIDIA H200 (simulated)");
  Expect("cuda", "PASS", "runtime 13.0 (" + Sim("cuda13/libcudart.so.13"));
  Expect("cupti", "PASS", "CUPTI of CUDA 13.0 (" + Sim("cuda13/libcupti.so.13"));
  AskOn("cuda12");
  Expect("driver", "PASS", "driver of CUDA 12.4");
  Expect("cupti", "PASS", "CUPTI of CUDA 12.4 or newer (" + Sim("cuda12/libcupti.so.12"));
}

TEST_F(DoctorOfGpus, MachineWithoutAGpu_Passes) {
  if (access("/proc/driver/nvidia/version", F_OK) == 0) GTEST_SKIP() << "this machine has a GPU";
  AskOn("nodriver");
  Expect("driver", "PASS", "no GPU to record: no NVIDIA driver (libcuda.so.1");
  Expect("cupti", "PASS", "without a driver none is needed");
}

TEST_F(DoctorOfGpus, BrokenDriver_IsAWarning) {
  AskOn("cuda13", "", "no_device");
  Expect("driver", "WARN", "cuInit answers 100: no CUDA-capable device is detected");
  AskOn("cuda13", "", "", {{"CUDA_VISIBLE_DEVICES", ""}});
  Expect("driver", "WARN", "(CUDA_VISIBLE_DEVICES=)");
  EXPECT_THAT(rows_["driver"].fix, HasSubstr("unset CUDA_VISIBLE_DEVICES"));
  AskOn("cuda13", "", "init_fails=802");
  Expect("driver", "WARN", "cuInit answers 802");
  EXPECT_THAT(rows_["driver"].fix, HasSubstr("nvidia-fabricmanager"));
  // Facts that were found before the hang are kept.
  AskOn("cuda13", "", "init_hangs");
  Expect("driver", "WARN", "driver of CUDA 13.0: cuInit gave no answer");
  Expect("cupti", "PASS", Sim("cuda13/libcupti.so.13"));
  AskOn("cuda13", "", "init_crashes");
  Expect("driver", "WARN", "driver of CUDA 13.0: cuInit ended the process");
  Expect("cupti", "PASS", Sim("cuda13/libcupti.so.13"));
}

TEST_F(DoctorOfGpus, UnsuitableCupti_IsAWarning) {
  AskOn("cuda13", "version=130100");
  Expect("cupti", "WARN", "CUPTI of CUDA 13.1");
  EXPECT_THAT(rows_["cupti"].found, HasSubstr("newer than the driver, of CUDA 13.0"));
  AskOn("cuda13", "", "", {{"CUDASIM_DRIVER_VERSION", "11040"}});
  Expect("cupti", "WARN", Sim("cuda13/libcupti.so.13") + ": newer than the driver");
  EXPECT_THAT(rows_["cupti"].fix, HasSubstr("pip install nvidia-cuda-cupti"));
  Expect("cuda", "WARN", "newer than the driver, of CUDA 11.4");
  Libraries mixed;
  mixed.Add(Sim("cuda13/libcuda.so.1"));
  mixed.Add(Sim("cuda13/libcudart.so.13"));
  mixed.Add(Sim("cuda12/libcupti.so.12"));
  AskOn(mixed.path());
  Expect("cupti", "WARN", mixed.path() + "/libcupti.so.12): older than the driver, of CUDA 13.0");
}

TEST_F(DoctorOfGpus, MissingCupti_EachTriedPathIsNamed) {
  Libraries lacking;
  lacking.Add(Sim("cuda13/libcuda.so.1"));
  lacking.Add(Sim("cuda13/libcudart.so.13"));
  RunOptions options = On("cuda13");
  Replace(&options, "LD_LIBRARY_PATH", lacking.path());
  Replace(&options, "CUDA_HOME", "/no/such/toolkit");
  if (!HideToolkit(&options)) GTEST_SKIP() << "a CUPTI in /usr/local/cuda that cannot be hidden";
  Ask({python_}, options);
  Expect("cupti", "WARN", "no CUPTI that suits the driver; tried ");
  for (const std::string& path : {lacking.path() + "/libcupti.so.13", lacking.path() + "/libcupti.so.12",
                                  std::string("/no/such/toolkit/extras/CUPTI/lib64/libcupti.so.13"),
                                  std::string("/usr/local/cuda/lib64/libcupti.so.13")}) {
    EXPECT_THAT(rows_["cupti"].found, HasSubstr(path));
  }
}

TEST_F(DoctorOfGpus, PythonWheels_AreFound) {
  const std::string lib = directory_ / "python/lib/python3.11/site-packages/nvidia/cu13/lib";
  std::filesystem::create_directories(lib);
  std::filesystem::copy(Sim("cuda13/libcudart.so.13"), lib + "/libcudart.so.13");
  std::filesystem::copy(Sim("cuda13/libcupti.so.13"), lib + "/libcupti.so.13");
  Libraries driver;
  driver.Add(Sim("cuda13/libcuda.so.1"));
  AskOn(driver.path());
  Expect("cuda", "PASS", lib + "/libcudart.so.13");
  Expect("cupti", "PASS", lib + "/libcupti.so.13");
}

// Libraries of a cloned repository would run as the user who runs doctor.
TEST_F(DoctorOfGpus, LibrariesOfACommandsPython_AreReadNotLoaded) {
  const std::string packages = directory_ / "python/lib/python3.11/site-packages";
  const std::string lib = packages + "/nvidia/cu13/lib", home = directory_ / "cuda";
  std::filesystem::create_directories(lib);
  std::filesystem::create_directories(packages + "/nvidia_cuda_runtime-13.0.96.dist-info");
  std::filesystem::create_directories(packages + "/nvidia_cuda_cupti-13.0.85.dist-info");
  std::filesystem::create_directories(home + "/extras/CUPTI/lib64");
  for (const std::string& to : {lib + "/libcudart.so.13", lib + "/libcupti.so.13"}) {
    std::filesystem::copy(Sim("cuda13/" + to.substr(to.rfind('/') + 1)), to);
  }
  std::filesystem::copy(Sim("cuda13/libcupti.so.13"), home + "/extras/CUPTI/lib64/libcupti.so.13");
  Libraries driver;
  driver.Add(Sim("cuda13/libcuda.so.1"));
  const auto opened = [&](const std::string& library) {
    bool found = false;
    for (const auto& entry : std::filesystem::directory_iterator(std::string(directory_ / "."))) {
      const std::string path = entry.path();
      if (path.find("/loader.") != std::string::npos)
        found = found || ReadFile(path).find(library) != std::string::npos;
    }
    return found;
  };
  const std::string log = directory_ / "loader";
  AskOn(driver.path(), "", "", {{"LD_DEBUG", "files"}, {"LD_DEBUG_OUTPUT", log}, {"CUDA_HOME", home}});
  Expect("cuda", "PASS", "runtime 13.0.96 (" + lib + "/libcudart.so.13; by its name, not loaded)");
  Expect("cupti", "PASS", "CUPTI of CUDA 13.0.85 (" + lib + "/libcupti.so.13; by its name, not loaded)");
  EXPECT_TRUE(opened(driver.path() + "/libcuda.so.1"));
  EXPECT_FALSE(opened(packages));
  std::filesystem::remove(lib + "/libcupti.so.13");
  AskOn(driver.path(), "", "", {{"LD_DEBUG", "files"}, {"LD_DEBUG_OUTPUT", log}, {"CUDA_HOME", home}});
  Expect("cupti", "PASS", "CUPTI of CUDA 13 (" + home + "/extras/CUPTI/lib64/libcupti.so.13; by its name, not loaded)");
  EXPECT_FALSE(opened(home));
}

TEST_F(DoctorOfGpus, LibrariesOfTheWorkingDirectory_AreNotLoaded) {
  const std::string here = directory_ / "here";
  std::filesystem::create_directories(here + "/lib");
  std::filesystem::copy(Sim("cuda13/libcuda.so.1"), here + "/lib/libcuda.so.1");
  for (const std::string& path : {here + "/lib", std::string("lib")}) {
    RunOptions options = On("cuda13");
    Replace(&options, "LD_LIBRARY_PATH", path);
    options.directory = here;
    Ask({python_}, options);
    Expect("driver", "WARN", "not asked: LD_LIBRARY_PATH leads to libraries in " + here + "/lib");
    Expect("cupti", "WARN", "the driver was not asked");
  }
}

TEST_F(DoctorOfGpus, OwnGpuLibraryMissing_Fails) {
  const std::string libraries = directory_ / "half";
  std::filesystem::create_directories(libraries);
  std::filesystem::create_symlink(std::string(TBPROF_BUILD_DIR) + "/lib/tbprof/libtbprof_preload.so",
                                  libraries + "/libtbprof_preload.so");
  AskOn("cuda13", "", "", {{"TBPROF_LIBRARY_DIR", libraries}});
  Expect("cupti", "FAIL", "no libtbprof_cupti.so");
}

}  // namespace
}  // namespace tbprof::integration
