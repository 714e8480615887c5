// SPDX-License-Identifier: Apache-2.0
// The end of an interpreter beside daemon threads, whose stacks are read all the time: it frees their states, and freed
// memory is overwritten. Tests each version; TBPROF_TEST_REPETITIONS sets the number of ends.
#include <sched.h>

#include <cstdlib>
#include <string>

#include "harness.h"
#include "python_commands.h"

namespace tbprof::integration {
namespace {

class PythonEnds : public testing::TestWithParam<std::string> {
 protected:
  // On one CPU each thread may be interrupted anywhere, for a long time.
  void SetUp() override {
    ASSERT_EQ(sched_getaffinity(0, sizeof(before_), &before_), 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu) {
      if (CPU_ISSET(cpu, &before_)) CPU_SET(cpu, &one);
    }
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  }
  void TearDown() override { sched_setaffinity(0, sizeof(before_), &before_); }

 private:
  cpu_set_t before_;
};

INSTANTIATE_TEST_SUITE_P(Installed, PythonEnds, testing::ValuesIn(InstalledPythons()), [](const auto& python) {
  std::string name = python.param;
  for (char& c : name) {
    if (!isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
});
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(PythonEnds);

constexpr char kProgram[] = R"(
import ctypes, sys, threading, time
library = ctypes.CDLL(sys.argv[1])
def f(n): return g(n - 1) if n else library.allocate_forever()
def g(n): return f(n - 1) if n else library.allocate_forever()
for n in range(6): threading.Thread(target=f, args=(n,), daemon=True).start()
time.sleep(0.01)
)";

TEST_P(PythonEnds, AmidThreadsWhoseStacksAreRead_IsNoFault) {
  const std::string ends = std::to_string(Repetitions(15));
  const TemporaryDirectory directory;
  WriteFile(directory / "ends.py", kProgram);
  RunOptions options;
  options.tbprof = {"--malloc=exact", "--sample-rate=100"};
  // With 168, each word of a freed state is a multiple of 8 that is no valid address.
  options.environment = {{"MALLOC_PERTURB_", "168"}};
  const std::string loop =
      "i=0; while [ $i -lt " + ends + " ]; do \"$@\" || echo status $?; i=$((i + 1)); done; echo $i ends";
  const RunResult run =
      RunUnderTbprof(WithinRoot({"/bin/sh", "-c", loop, "sh", PathWithinRoot(GetParam()), directory / "ends.py",
                                 std::string(TBPROF_BUILD_DIR) + "/tests/programs/liballocates_forever.so"}),
                     options);
  EXPECT_EQ(run.code(), 0) << run.AllPrinted();
  EXPECT_EQ(run.out, ends + " ends\n") << run.err;
}

}  // namespace
}  // namespace tbprof::integration
