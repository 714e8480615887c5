// SPDX-License-Identifier: Apache-2.0
// fork, exec and spawn where they are unusual.
#include <gmock/gmock.h>

#include "../integration/harness.h"

namespace tbprof::integration {
namespace {

nlohmann::json ProcessOf(const RunResult& result, uint64_t pid) {
  for (const auto& process : result.summary["processes"]) {
    if (process["pid"] == pid) return process;
  }
  return nullptr;
}

// A fork child has its parent's blocks: it may free them, and what it does not free is still there.
TEST(Fork, Child_HasTheBlocksOfItsParent) {
  constexpr int64_t kBytes = 1000 * 10000;
  const Pair pair = RunBoth(Program("inherited_blocks"));
  ASSERT_TRUE(pair.Same());
  const nlohmann::json frees = ProcessOf(pair.profiled, pair.profiled.Fact("frees"));
  const nlohmann::json keeps = ProcessOf(pair.profiled, pair.profiled.Fact("keeps"));
  ASSERT_TRUE(frees.is_object() && keeps.is_object()) << pair.profiled.summary;
  EXPECT_GE(frees["allocator"]["live_bytes"], 10000);
  EXPECT_LT(frees["allocator"]["live_bytes"], kBytes / 10);
  EXPECT_GE(frees["allocator"]["peak_bytes"], kBytes);
  EXPECT_EQ(frees["allocator"]["frees"], 1000);
  EXPECT_GE(keeps["allocator"]["live_bytes"], kBytes);
  EXPECT_EQ(keeps["allocator"]["frees"], 0);
  for (const Event& event : pair.profiled.profile->events()) {
    if (event.Has("bytes") && event.name.find("live") != std::string::npos) {
      EXPECT_GE(event.Number("bytes"), 0) << event;
    }
  }
}

// Children that run in their parent's memory, by system calls of the program's own: while the parent waits, their
// records are written with its state, one after the other. Beside it (no CLONE_VFORK) both would write at once, on one
// thread's state: what is recorded then may be lost, and nothing else.
TEST(Clone, ChildInTheParentsMemory_IsRecorded) {
  const Pair pair = RunBoth(Program("shares_memory"), {}, {"--wait-threshold=0"});
  ASSERT_TRUE(pair.Same());
  EXPECT_EQ(pair.profiled.code(), 3);
  EXPECT_EQ(pair.profiled.profile->Named("write", "Before").size(), 100u);
  EXPECT_EQ(pair.profiled.profile->Named("write", "InChild").size(), 200u) << "by clone and by clone3";
  EXPECT_EQ(pair.profiled.profile->Named("write", "After").size(), 100u);
  EXPECT_EQ(pair.profiled.summary["records"]["corrupt"], 0);
  const Pair beside = RunBoth(Program("shares_memory"), {"beside"}, {"--wait-threshold=0"});
  ASSERT_TRUE(beside.Same());
  EXPECT_EQ(beside.profiled.code(), 3);
}

// posix_spawn as programs linked before glibc 2.15 have it gives a script without `#!` to the shell.
TEST(Spawn, OldSymbolVersion_CallsTheOldCode) {
  TemporaryDirectory directory;
  WriteFile(directory / "script", "echo script \"$1\"\nexit 7\n", 0755);
  const Pair pair = RunBoth(Program("old_spawn"), {directory / "script"}, {"--wait-threshold=0"});
  ASSERT_TRUE(pair.Same());
  EXPECT_EQ(pair.profiled.profile->Named("posix_spawn", "main").size(), 2u) << "both versions are recorded";
}

}  // namespace
}  // namespace tbprof::integration
