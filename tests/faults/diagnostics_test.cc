// SPDX-License-Identifier: Apache-2.0
// What was not recorded is named: programs that never sent a hello, allocators and locks that no hook sees.
#include <gmock/gmock.h>
#include <unistd.h>

#include "../integration/harness.h"

namespace tbprof::integration {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

// The entry of the summary's list of unrecorded programs with this path.
nlohmann::json Unrecorded(const RunResult& result, const std::string& path) {
  for (const auto& program : result.summary["unrecorded"]) {
    if (program["path"] == path) return program;
  }
  return nullptr;
}

class StartedBy : public testing::TestWithParam<const char*> {};

TEST_P(StartedBy, EnvironmentWithoutPreload_IsNamed) {
  const std::string how = GetParam();
  const Pair pair = RunBoth(Program("starts_program"), {how, "empty", "/bin/true"});
  ASSERT_TRUE(pair.Same());
  ASSERT_THAT(pair.profiled.summary["unrecorded"], SizeIs(1)) << pair.profiled.summary["unrecorded"];
  const nlohmann::json program = Unrecorded(pair.profiled, how == "system" ? "/bin/sh" : "/bin/true");
  ASSERT_FALSE(program.is_null()) << pair.profiled.summary["unrecorded"];
  EXPECT_EQ(program["reason"], "environment without tbprof's LD_PRELOAD");
  EXPECT_EQ(program["state"], "not_loaded");
  EXPECT_EQ(program["count"], 1);
  EXPECT_TRUE(pair.profiled.Printed("1 command ran unrecorded: ")) << pair.profiled.AllPrinted();
  EXPECT_TRUE(pair.profiled.profile->HasWarning("environment without tbprof's LD_PRELOAD"));
}

TEST_P(StartedBy, StaticProgram_IsNamed) {
  const std::string how = GetParam();
  if (how == "system") return;  // the shell is recorded; what it starts is fork's case
  const Pair pair = RunBoth(Program("starts_program"), {how, "whole", Program("static_program")});
  ASSERT_TRUE(pair.Same());
  const nlohmann::json program = Unrecorded(pair.profiled, Program("static_program"));
  ASSERT_FALSE(program.is_null()) << pair.profiled.summary["unrecorded"];
  EXPECT_EQ(program["reason"], "static program");
  EXPECT_TRUE(pair.profiled.Printed("static_program (static program)")) << pair.profiled.AllPrinted();
}

TEST_P(StartedBy, RecordedProgram_IsNotNamed) {
  const Pair pair = RunBoth(Program("starts_program"), {GetParam(), "whole", "/bin/true"});
  ASSERT_TRUE(pair.Same());
  EXPECT_TRUE(pair.profiled.summary["unrecorded"].empty()) << pair.profiled.summary["unrecorded"];
  EXPECT_FALSE(pair.profiled.Printed("unrecorded")) << pair.profiled.AllPrinted();
}

INSTANTIATE_TEST_SUITE_P(Ways, StartedBy, testing::Values("exec", "fork", "vfork", "spawn", "system"),
                         [](const auto& way) { return std::string(way.param); });

// libc starts the shell of popen by a name inside libc, and popen has no hook as system has: a shell that lost
// LD_PRELOAD is known to nobody.
TEST(Popen, EnvironmentWithoutPreload_RunsAndIsNotNamed) {
  const Pair pair = RunBoth(Program("starts_program"), {"popen", "empty", "/bin/true"});
  ASSERT_TRUE(pair.Same());
  EXPECT_TRUE(pair.profiled.summary["unrecorded"].empty()) << pair.profiled.summary["unrecorded"];
  EXPECT_EQ(pair.profiled.summary["process_count"], 1) << "neither the shell nor its child is recorded";
}

// A shell that keeps LD_PRELOAD is recorded, and so is what it starts.
TEST(Popen, WholeEnvironment_IsRecorded) {
  const Pair pair =
      RunBoth(Program("starts_program"), {"popen", "whole", Program("static_program") + "; /bin/true; exit 3"});
  ASSERT_TRUE(pair.Same());
  EXPECT_EQ(pair.profiled.code(), 3);
  EXPECT_FALSE(Unrecorded(pair.profiled, Program("static_program")).is_null()) << pair.profiled.summary["unrecorded"];
  EXPECT_EQ(pair.profiled.summary["process_count"], 3) << "the program, the shell, /bin/true";
}

// Readers show nothing of a profile without an event, not even the error that names the cause.
TEST(Unrecorded, StaticCommand_HasAnEventWithItsEnd) {
  const Pair pair = RunBoth(Program("static_program"));
  ASSERT_TRUE(pair.Same());
  EXPECT_EQ(pair.profiled.code(), 5);
  const Profile& profile = *pair.profiled.profile;
  const std::vector<Event> runs = profile.Named("command not recorded, exit status 5");
  ASSERT_THAT(runs, SizeIs(1));
  EXPECT_EQ(runs[0].line, "static_program");
  EXPECT_THAT(runs[0].Stat("detail"), HasSubstr("linked statically"));
  EXPECT_GT(runs[0].duration_ps, 0);
  ASSERT_EQ(profile.space().errors_size(), 1);
  EXPECT_THAT(profile.space().errors(0), HasSubstr("no process was recorded"));
  EXPECT_EQ(pair.profiled.summary["process_count"], 0) << "it is not recorded";
  EXPECT_EQ(pair.profiled.summary["processes"].size(), 0u);
  EXPECT_EQ(pair.profiled.summary["complete"], false);
}

TEST(Unrecorded, FollowNone_IsNotNamed) {
  RunOptions options;
  options.tbprof = {"--follow=none"};
  const RunResult result = RunUnderTbprof({Program("starts_program"), "spawn", "whole", "/bin/true"}, options);
  EXPECT_TRUE(result.summary["unrecorded"].empty()) << result.summary["unrecorded"];
}

TEST(Inert, Reason_IsReported) {
  const RunResult result =
      RunUnderTbprof({"/bin/sh", "-c",
                      "(ulimit -f 100; exec /bin/true); (ulimit -f 100; exec /bin/true); (ulimit -v 60000; exec env)"});
  ASSERT_EQ(result.code(), 0);
  uint64_t by_size = 0, by_addresses = 0;
  for (const auto& program : result.summary["unrecorded"]) {
    EXPECT_EQ(program["state"], "inert");
    if (program["reason"] == "ulimit -f leaves no room for records") by_size += program["count"].get<uint64_t>();
    if (program["reason"] == "ulimit -v leaves no room for records") by_addresses += program["count"].get<uint64_t>();
  }
  EXPECT_EQ(by_size, 2u) << result.summary["unrecorded"];
  EXPECT_EQ(by_addresses, 1u) << result.summary["unrecorded"];
  // Once per cause.
  EXPECT_TRUE(result.Printed("3 commands ran unrecorded")) << result.AllPrinted();
}

TEST(Allocator, OwnAllocatorOfTheProgram_IsNamed) {
  const Pair pair = RunBoth(Program("own_allocator"));
  ASSERT_TRUE(pair.Same());
  const nlohmann::json process = pair.profiled.summary["processes"][0];
  EXPECT_EQ(process["state"], "recorded_without_allocator");
  EXPECT_EQ(process["reason"], "allocator not observable: linked statically into the program");
  EXPECT_EQ(pair.profiled.profile->Count("usleep"), 1);
  EXPECT_TRUE(pair.profiled.Printed("allocator not observable")) << pair.profiled.AllPrinted();
}

TEST(Allocator, ObservedAllocator_IsRecorded) {
  const RunResult result = RunUnderTbprof({Program("allocations"), "10"});
  EXPECT_EQ(result.summary["processes"][0]["state"], "recorded");
  EXPECT_EQ(result.summary["processes"][0]["reason"], "");
}

TEST(Python, SmallObjects_AreNamedUnlessMallocServesThem) {
  constexpr char kPython[] = "/usr/bin/python3";
  if (access(kPython, X_OK) != 0) GTEST_SKIP() << kPython << " is not installed";
  RunOptions options;
  const RunResult plain = RunUnderTbprof({kPython, "-c", "pass"}, options);
  ASSERT_THAT(plain.summary["notes"], SizeIs(1)) << plain.summary["notes"];
  EXPECT_THAT(plain.summary["notes"][0].get<std::string>(), HasSubstr("pymalloc"));
  EXPECT_TRUE(plain.profile->HasWarning("pymalloc"));
  options.environment.emplace_back("PYTHONMALLOC", "malloc");
  const RunResult whole = RunUnderTbprof({kPython, "-c", "pass"}, options);
  EXPECT_TRUE(whole.summary["notes"].empty()) << whole.summary["notes"];
}

TEST(Exec, InvalidAddresses_GiveEfault) {
  const Pair pair = RunBoth(Program("bad_exec_pointers"));
  ASSERT_TRUE(pair.Same());
  EXPECT_EQ(pair.profiled.code(), 0);
  EXPECT_THAT(pair.profiled.out, HasSubstr("execve path: -1 EFAULT"));
  EXPECT_THAT(pair.profiled.out, HasSubstr("execve cut environment: -1 EFAULT"));
  EXPECT_THAT(pair.profiled.out, HasSubstr("vfork: 7"));
  EXPECT_TRUE(pair.profiled.summary["unrecorded"].empty()) << pair.profiled.summary["unrecorded"];
}

}  // namespace
}  // namespace tbprof::integration
