// SPDX-License-Identifier: Apache-2.0
// Python in unusual forms with --sample-rate: the program's output is the same as without tbprof, and its functions are
// named or a line has the reason why not.
#include <gmock/gmock.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "harness.h"

namespace tbprof::integration {
namespace {

constexpr const char* kPython = "/usr/bin/python3.11";
constexpr const char* kLibrary = "libpython3.11.so.1.0";

// A function that computes for some 0.3 s.
std::string Heavy(const std::string& name) {
  return "def " + name + "():\n  total = 0\n  for i in range(6000000): total += i\n  return total\n";
}

class PythonFaults : public testing::Test {
 protected:
  void SetUp() override {
    if (access(kPython, X_OK) != 0) GTEST_SKIP() << "no " << kPython;
  }
  // Runs the command bare and under tbprof, and compares the results.
  RunResult Run(const std::vector<std::string>& command, RunOptions options = {}) {
    options.tbprof.emplace_back("--sample-rate=1000");
    const RunResult bare = RunBare(command);
    RunResult run = RunUnderTbprof(command, options);
    EXPECT_EQ(run.status, bare.status) << run.AllPrinted();
    EXPECT_EQ(run.out, bare.out) << run.AllPrinted();
    EXPECT_EQ(run.err, bare.err) << run.AllPrinted();
    EXPECT_TRUE(run.summary["python"].is_object()) << run.AllPrinted();
    EXPECT_EQ(run.summary["records"]["corrupt"], 0) << run.AllPrinted();
    return run;
  }
  static bool Names(const RunResult& run, const std::string& function) {
    for (const auto& group : run.summary["python"]["groups"]) {
      for (const auto& row : group["top_total"]) {
        if (row["function"] == function) return true;
      }
      for (const auto& row : group["top_self"]) {
        if (row["function"] == function) return true;
      }
    }
    return false;
  }
  static std::string Groups(const RunResult& run) { return run.summary["python"].dump(); }
};

TEST_F(PythonFaults, ThreadsOfSubinterpreters_AreSampled) {
  const RunResult run = Run({kPython, "-c",
                             "import _xxsubinterpreters as sub, threading\n"
                             "def work(n):\n"
                             "  number = sub.create()\n"
                             "  sub.run_string(number, '''" +
                                 Heavy("inside_%d") +
                                 "inside_%d()''' % (n, n))\n"
                                 "  sub.destroy(number)\n"
                                 "threads = [threading.Thread(target=work, args=(n,)) for n in range(2)]\n"
                                 "for thread in threads: thread.start()\n"
                                 "for thread in threads: thread.join()\n"
                                 "print('joined')\n"});
  EXPECT_EQ(run.out, "joined\n") << run.err;
  EXPECT_TRUE(Names(run, "inside_0") && Names(run, "inside_1")) << Groups(run);
}

TEST_F(PythonFaults, EmbeddedInterpreterThatIsMadeTwice_IsSampledBothTimes) {
  const RunResult run =
      Run({Program("embeds_python"), kLibrary, Heavy("first") + "first()\n", Heavy("second") + "second()\n"});
  ASSERT_EQ(run.out, "ran 1\nran 2\n") << run.code();
  EXPECT_TRUE(Names(run, "first")) << Groups(run);
  EXPECT_TRUE(Names(run, "second")) << Groups(run);
}

TEST_F(PythonFaults, PythonThatExecsPython_IsSampledBeforeAndAfter) {
  for (const std::string next : {"/usr/bin/python3.11", "/root/.pyenv/versions/3.12.1/bin/python3.12"}) {
    if (access(next.c_str(), X_OK) != 0) continue;
    const std::string after = Heavy("after") + "print(after())\n";
    const RunResult run =
        Run({kPython, "-c",
             "import os, sys\n" + Heavy("before") + "print(before(), flush=True)\nos.execv(sys.argv[1], " +
                 "[sys.argv[1], '-c', sys.argv[2]])\n",
             next, after});
    EXPECT_TRUE(Names(run, "before")) << next << Groups(run);
    EXPECT_TRUE(Names(run, "after")) << next << Groups(run);
  }
}

TEST_F(PythonFaults, ChildrenByVfork_RunAsBefore) {
  const RunResult run = Run({kPython, "-c",
                             "import subprocess\n" + Heavy("between") +
                                 "for i in range(20): print(subprocess.run(['/bin/echo', str(i)], "
                                 "stdout=subprocess.PIPE).stdout)\nprint(between())\n"});
  EXPECT_TRUE(Names(run, "between")) << Groups(run);
}

TEST_F(PythonFaults, DaemonThreadsAtTheEnd_DoNotDisturb) {
  const RunResult run = Run({kPython, "-c",
                             Heavy("last") + "import atexit, threading\n"
                                             "def busy():\n  while True: last()\n"
                                             "for _ in range(4): threading.Thread(target=busy, daemon=True).start()\n"
                                             "atexit.register(lambda: print('exit', last()))\n"
                                             "last()\n"});
  EXPECT_TRUE(Names(run, "last")) << Groups(run);
  EXPECT_EQ(run.summary["python"]["processes"][0]["state"], "sampled") << Groups(run);
}

// Root without CAP_SYS_PTRACE, as in a container.
TEST_F(PythonFaults, ProcessThatAllowsNoDebugger_IsNamedAndRunsOn) {
  RunOptions options;
  options.launcher = {"/usr/bin/setpriv", "--bounding-set", "-sys_ptrace"};
  const RunResult run = Run({kPython, "-c",
                             "import ctypes\nprint(ctypes.CDLL(None).prctl(4, 0, 0, 0, 0), flush=True)\n" +
                                 Heavy("hidden") + "print(hidden())\n"},
                            options);
  EXPECT_EQ(run.summary["python"]["processes"][0]["state"], "refused") << Groups(run);
  const std::string reason = run.summary["python"]["processes"][0]["reason"];
  EXPECT_THAT(reason, testing::HasSubstr("allows no debugger"));
  EXPECT_THAT(reason, testing::HasSubstr("SYS_PTRACE"));
  EXPECT_TRUE(run.Printed("allows no debugger")) << run.AllPrinted();
}

}  // namespace
}  // namespace tbprof::integration
