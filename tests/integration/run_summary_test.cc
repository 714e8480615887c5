// SPDX-License-Identifier: Apache-2.0
// Checks summary.json of many kinds of runs against its schema. ReadProfile checks the summary of every run of every
// test, so the tests of PyTorch, TensorFlow and CUDA check theirs.
#include <gmock/gmock.h>
#include <signal.h>

#include "harness.h"
#include "schema_check.h"

namespace tbprof::integration {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST(Summary, OfAPlainProgram_MatchesTheSchema) {
  const RunResult result = RunUnderTbprof({Program("ends"), "exit", "3"});
  ASSERT_THAT(result.run_directories, SizeIs(1)) << result.AllPrinted();
  ExpectSchema(result.summary);
  EXPECT_EQ(result.summary["schema_version"], 1);
  EXPECT_TRUE(result.summary["tbprof_version"].is_string());
  EXPECT_EQ(result.summary["command"]["exit_code"], 3);
  EXPECT_EQ(result.summary["processes"][0]["exit_code"], 3);
  EXPECT_GT(result.summary["overhead"]["before_command_s"], 0.0);
  EXPECT_GT(result.summary["overhead"]["after_command_s"], 0.0);
  EXPECT_THAT(result.AllPrinted(), HasSubstr(" after the command's end; tbprof's start took "));
}

TEST(Summary, OfThreadsAndEachBlock_MatchesTheSchema) {
  RunOptions options;
  options.tbprof = {"--malloc=exact", "--wait-threshold=0"};
  const RunResult result = RunUnderTbprof({Program("team"), "3", "4"}, options);
  ASSERT_THAT(result.run_directories, SizeIs(1)) << result.AllPrinted();
  ExpectSchema(result.summary);
  EXPECT_FALSE(result.summary["processes"][0]["exact_heap"].is_null());
}

TEST(Summary, OfAKilledProgram_MatchesTheSchema) {
  const RunResult result = RunUnderTbprof({"/bin/sh", "-c", "kill -9 $$"});
  ASSERT_THAT(result.run_directories, SizeIs(1)) << result.AllPrinted();
  ExpectSchema(result.summary);
  EXPECT_TRUE(result.summary["command"]["exit_code"].is_null());
  EXPECT_EQ(result.summary["command"]["exit_signal"], SIGKILL);
}

TEST(Summary, OfAStaticProgram_MatchesTheSchema) {
  const RunResult result = RunUnderTbprof({Program("static_program")});
  ASSERT_THAT(result.run_directories, SizeIs(1)) << result.AllPrinted();
  ExpectSchema(result.summary);
  EXPECT_TRUE(result.summary["steps"]["median_s"].is_null());
}

TEST(Summary, WithoutTheAllocator_HasNoZeros) {
  RunOptions options;
  options.tbprof = {"--trace=io,process"};
  const RunResult result = RunUnderTbprof({Program("ends"), "exit", "0"}, options);
  ASSERT_THAT(result.run_directories, SizeIs(1)) << result.AllPrinted();
  ExpectSchema(result.summary);
  EXPECT_TRUE(result.summary["processes"][0]["allocator"].is_null());
}

TEST(Summary, OfRanksAndSteps_MatchesTheSchema) {
  const RunResult result = RunUnderTbprof({"/bin/sh", "-c",
                                           "touch stop; for r in 0 1; do RANK=$r LOCAL_RANK=$r WORLD_SIZE=3 " +
                                               Program("marked_steps") + " 12 & done; wait"});
  ASSERT_THAT(result.run_directories, SizeIs(1)) << result.AllPrinted();
  ExpectSchema(result.summary);
  EXPECT_THAT(result.summary["missing_ranks"], ElementsAre(2));
  ASSERT_THAT(result.summary["by_rank"], SizeIs(3));
  EXPECT_EQ(result.summary["by_rank"][2]["state"], "missing");
  ASSERT_THAT(result.summary["steps"]["list"], SizeIs(12));
  EXPECT_EQ(result.summary["steps"]["list"][11]["number"], 11);
  EXPECT_EQ(result.summary["steps"]["distribution"]["count"], result.summary["steps"]["count"]);
}

TEST(Summary, OfACapture_MatchesTheSchema) {
  RunOptions options;
  options.tbprof = {"--window=none", "--window-duration=100ms"};
  const auto running = StartUnderTbprof({Program("waits_for_signals"), "60"}, options);
  ASSERT_TRUE(running->WaitForFact("warm "));
  running->Signal(SIGUSR1);
  ASSERT_TRUE(running->WaitForError("verified")) << running->Err();
  WriteFile(running->path() + "/stop", "");
  const RunResult result = running->Wait();
  ASSERT_THAT(result.run_directories, SizeIs(1)) << result.AllPrinted();
  ExpectSchema(result.summary);
  EXPECT_EQ(result.summary["command"]["running"], true);
  EXPECT_TRUE(result.summary["overhead"]["after_command_s"].is_null());
}

// The check itself must detect faults.
TEST(Summary, AFieldThatIsNotInTheSchema_IsAFault) {
  const nlohmann::json schema = {{"type", "object"},
                                 {"properties", {{"a", {{"type", {"integer", "null"}}}}}},
                                 {"required", {"a"}},
                                 {"additionalProperties", false}};
  EXPECT_THAT(SchemaFaults(schema, {{"a", 1}}), SizeIs(0));
  EXPECT_THAT(SchemaFaults(schema, {{"a", nullptr}}), SizeIs(0));
  EXPECT_THAT(SchemaFaults(schema, {{"a", 1}, {"b", 2}}), ElementsAre("$.b: not in the schema"));
  EXPECT_THAT(SchemaFaults(schema, nlohmann::json::object()), ElementsAre("$.a: missing"));
  EXPECT_THAT(SchemaFaults(schema, {{"a", 1.5}}), SizeIs(1));
  nlohmann::json loose = schema;
  loose.erase("additionalProperties");
  EXPECT_THAT(SchemaFaults(loose, {{"a", 1}, {"b", 2}}), SizeIs(2)) << "every object of the schema is closed";
}

}  // namespace
}  // namespace tbprof::integration
