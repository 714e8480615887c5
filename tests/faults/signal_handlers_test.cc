// SPDX-License-Identifier: Apache-2.0
// What signal handlers of the program do in the middle of hooked calls.
#include <gmock/gmock.h>
#include <signal.h>

#include "../integration/harness.h"

namespace tbprof::integration {
namespace {

using ::testing::SizeIs;

class NestedWait : public testing::TestWithParam<const char*> {};

// The handler's own wait does not hide the one that it interrupted: a hang is seen.
TEST_P(NestedWait, InterruptedWait_IsRecorded) {
  RunOptions options;
  options.tbprof = {"--wait-threshold=0"};
  const auto running = StartUnderTbprof({Program("nested_waits"), GetParam()}, options);
  const int64_t pid = running->WaitForNumber("pid");
  ASSERT_GT(pid, 0);
  ASSERT_TRUE(running->WaitForFact("handled")) << running->Err();
  kill(static_cast<pid_t>(pid), SIGKILL);
  const RunResult result = running->Wait();
  EXPECT_EQ(result.signal(), SIGKILL);
  ASSERT_NE(result.profile, nullptr) << result.AllPrinted();
  EXPECT_THAT(result.profile->Named("usleep"), SizeIs(1)) << "the handler's";
  const std::vector<Event> reads = result.profile->Named("read", "ReadForEver");
  if (std::string(GetParam()) == "jump") {
    EXPECT_THAT(reads, SizeIs(0)) << "it is over";
  } else {
    ASSERT_THAT(reads, SizeIs(1));
    EXPECT_GE(reads[0].milliseconds(), 50) << "from its call to the end";
  }
}
INSTANTIATE_TEST_SUITE_P(All, NestedWait, testing::Values("handler", "alternate", "jump"),
                         [](const auto& kind) { return std::string(kind.param); });

// A handler that forks in the middle of a hook: every record of every process is there, and nothing else.
TEST(ForkInHandler, EachProcess_HasItsRecords) {
  const Pair pair = RunBoth(Program("forks_in_handler"), {"200"}, {"--wait-threshold=0", "--max-profile-size=1GiB"});
  ASSERT_TRUE(pair.Same());
  EXPECT_EQ(pair.profiled.facts.count("bad_child"), 0u);
  int64_t made = 0, dropped = 0;
  int children = 0;
  for (const std::string& line : Lines(pair.profiled.facts_text)) {
    if (line.starts_with("writes ") || line.starts_with("child_writes ")) made += atoll(line.c_str() + line.find(' '));
    children += line.starts_with("child_writes ");
  }
  EXPECT_EQ(children, 200);
  const nlohmann::json records = pair.profiled.summary["records"];
  for (const auto& [cause, count] : records["dropped"].items()) dropped += count.get<int64_t>();
  EXPECT_EQ(records["corrupt"], 0);
  // The write that a handler has interrupted may be in the child, which has not counted it, as well as in the parent.
  const int64_t seen = pair.profiled.profile->Count("write") + dropped;
  EXPECT_GE(seen, made);
  EXPECT_LE(seen, made + children);
}

}  // namespace
}  // namespace tbprof::integration
