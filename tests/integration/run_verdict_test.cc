// SPDX-License-Identifier: Apache-2.0
// The verdict of real programs in the terminal, summary.json and the profile. Checks only what also holds on a busy
// machine; tests/verdict/ has programs for a quiet machine.
#include <gmock/gmock.h>

#include <set>
#include <string>
#include <vector>

#include "harness.h"

namespace tbprof::integration {
namespace {

using testing::HasSubstr;

// A sleeping thread fills a queue; the loop itself does not sleep.
constexpr char kPrefetch[] = R"(import queue, threading, time, zlib
ready = queue.Queue(maxsize=1)
def fetch():
    for number in range(60):
        time.sleep(0.03)
        ready.put(bytes(1000))
def train():
    total = 0
    for _ in range(60):
        batch = ready.get()
        total += len(zlib.compress(batch))
    return total
threading.Thread(target=fetch, name='fetcher').start()
print(train())
)";

void ExpectWhole(const RunResult& result) {
  const auto& verdict = result.summary["verdict"];
  double sum = 0;
  for (const auto& part : verdict["split"]["parts"]) sum += part["share"].get<double>();
  if (!verdict["split"]["steps_s"].is_null()) EXPECT_NEAR(sum, 1, 0.001) << verdict.dump(1);
  EXPECT_EQ(verdict["cause"].is_null(), !verdict["unknown_because"].is_null()) << verdict.dump(1);
  // The first lines have the answer, and few lines follow. Only lines with paths and commands are wider than a
  // terminal.
  ASSERT_GE(result.printed.size(), 4u) << result.AllPrinted();
  size_t lead = 0;
  while (lead < result.printed.size() && !result.printed[lead].starts_with("verdict: ")) ++lead;
  ASSERT_LE(lead + 4, result.printed.size()) << result.AllPrinted();
  EXPECT_THAT(result.printed[lead + 1], HasSubstr("steps")) << result.AllPrinted();
  EXPECT_THAT(result.printed[lead + 2],
              testing::AnyOf(testing::StartsWith("blocker: "), testing::StartsWith("where: ")))
      << result.AllPrinted();
  const bool has_next = lead + 4 < result.printed.size() && result.printed[lead + 3].starts_with("next: ");
  EXPECT_EQ(has_next, !verdict["next"].is_null()) << result.AllPrinted();
  EXPECT_THAT(result.printed[lead + (has_next ? 4 : 3)], testing::StartsWith("view: tensorboard"))
      << result.AllPrinted();
  EXPECT_LE(result.printed.size() - lead, 16u) << result.AllPrinted();
}

TEST(RunVerdict, LoopThatWaitsForAThread_NamesItAndItsLine) {
  TemporaryDirectory directory;
  const std::string script = directory.path() + "/prefetch.py";
  WriteFile(script, kPrefetch);
  RunOptions options;
  options.tbprof = {"--summary=short"};
  const RunResult result = RunUnderTbprof({"/usr/bin/python3", script}, options);
  ASSERT_EQ(result.code(), 0) << result.AllPrinted();
  ExpectWhole(result);
  const auto& verdict = result.summary["verdict"];
  // The loop waits nearly all the time on any machine, because the thread sleeps most of the time.
  EXPECT_EQ(verdict["cause"], "prefetch_thread") << verdict.dump(1);
  EXPECT_GT(verdict["share"].get<double>(), 0.5) << verdict.dump(1);
  std::set<int> lines;
  for (const auto& where : verdict["where"]) {
    if (where["file"] == script && where["line"].is_number()) lines.insert(where["line"].get<int>());
  }
  EXPECT_TRUE(lines.contains(10)) << verdict.dump(1);  // ready.get()
  EXPECT_TRUE(lines.contains(5)) << verdict.dump(1);   // time.sleep()
  EXPECT_TRUE(result.Printed("blocker: thread fetcher")) << result.AllPrinted();
  ASSERT_NE(result.profile, nullptr);
  EXPECT_TRUE(result.profile->HasWarning("verdict: ")) << "not on the overview page";
}

// Without Python: the function of the program itself is named, if stacks may be sampled here.
TEST(RunVerdict, ProgramInC_NamesItsFunction) {
  RunOptions options;
  options.tbprof = {"--summary=short"};
  const RunResult result = RunUnderTbprof({Program("burns"), "plain", "1500"}, options);
  ASSERT_EQ(result.code(), 0) << result.AllPrinted();
  ExpectWhole(result);
  if (result.summary["native"]["processes"][0]["state"] == "refused") {
    EXPECT_TRUE(result.summary["verdict"]["where"].empty());
    return;
  }
  // On a busy machine it waits for a CPU there.
  EXPECT_TRUE(result.Printed("burns.c")) << result.AllPrinted();
  EXPECT_TRUE(result.Printed(" Heavy")) << result.AllPrinted();
  const auto& where = result.summary["verdict"]["where"];
  ASSERT_FALSE(where.empty()) << result.AllPrinted();
  EXPECT_EQ(where[0]["function"], "Heavy");
  EXPECT_TRUE(where[0]["file"].get<std::string>().ends_with("burns.c")) << where[0].dump();
}

// Its child stops it for over a second, and lets it go on.
constexpr char kStopped[] = R"(import os, signal, time
pid = os.getpid()
child = os.fork()
if child == 0:
    time.sleep(0.4)
    os.kill(pid, signal.SIGSTOP)
    time.sleep(1.2)
    os.kill(pid, signal.SIGCONT)
    os._exit(0)
sums = 0
while os.waitpid(child, os.WNOHANG)[0] == 0:
    sums += sum(range(100000))
for _ in range(100):
    sums += sum(range(100000))
print('done')
)";

TEST(RunVerdict, StoppedProgram_IsNotJudgedByTheStop) {
  // Stopped while it computes, and while it waits in a call.
  const std::string computes = kStopped;
  std::string waits = computes;
  waits.replace(waits.find("while os"), waits.find("for _") - waits.find("while os"), "os.waitpid(child, 0)\n");
  for (const std::string& program : {computes, waits}) {
    RunOptions options;
    options.tbprof = {"--summary=short"};
    const RunResult result = RunUnderTbprof({"/usr/bin/python3", "-c", program}, options);
    ASSERT_EQ(result.code(), 0) << result.AllPrinted();
    EXPECT_EQ(result.out, "done\n");
    EXPECT_TRUE(result.Printed("stopped by a signal or a debugger for ")) << program << result.AllPrinted();
    EXPECT_FALSE(result.Printed("memory pages")) << result.AllPrinted();
  }
}

TEST(RunVerdict, ProgramThatDoesNothing_IsUnknownWithAReason) {
  RunOptions options;
  options.tbprof = {"--summary=short"};
  const RunResult result = RunUnderTbprof({"/bin/true"}, options);
  ASSERT_EQ(result.code(), 0) << result.AllPrinted();
  ExpectWhole(result);
  EXPECT_TRUE(result.summary["verdict"]["cause"].is_null());
  ASSERT_NE(result.profile, nullptr);
  EXPECT_FALSE(result.profile->HasWarning("verdict: "));
}

TEST(RunVerdict, FullSummary_HasTheTables) {
  RunOptions options;
  options.tbprof = {"--summary=full"};
  TemporaryDirectory directory;
  const std::string script = directory.path() + "/prefetch.py";
  WriteFile(script, kPrefetch);
  const RunResult result = RunUnderTbprof({"/usr/bin/python3", script}, options);
  EXPECT_TRUE(result.Printed("waits      total   longest     calls  where")) << result.AllPrinted();
}

}  // namespace
}  // namespace tbprof::integration
