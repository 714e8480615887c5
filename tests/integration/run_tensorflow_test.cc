// SPDX-License-Identifier: Apache-2.0
// TensorFlow's operations and functions, with a simulated library that is linked as in its wheels.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "harness.h"

namespace tbprof::integration {
namespace {

using ::testing::SizeIs;

std::vector<std::string> Arguments(const std::string& steps) {
  return {std::string(TBPROF_BUILD_DIR) + "/tests/sim/tensorflow/libpywrap.so", steps};
}

TEST(TensorFlow, OperationsAndFunctions_AreRanges) {
  const Pair pair = RunBoth(Program("executes"), Arguments("60"));
  ASSERT_TRUE(pair.Same());
  const Profile& profile = *pair.profiled.profile;
  const std::vector<Event> functions = profile.Named("__inference_one_step_on_iterator_1234");
  ASSERT_THAT(functions, SizeIs(60));
  for (const Event& function : functions) {
    EXPECT_GE(function.milliseconds(), 2);
    EXPECT_EQ(function.Stat("tf_op"), "one_step_on_iterator:one_step_on_iterator");
    EXPECT_FALSE(function.Has("detail"));
  }
  EXPECT_THAT(profile.Named("AddV2"), SizeIs(6));
  ASSERT_THAT(profile.Named("MatMul"), SizeIs(1)) << "one that fails is there, too";
  EXPECT_EQ(profile.Named("MatMul")[0].Stat("tf_op"), "MatMul:MatMul");
  EXPECT_THAT(profile.Named("(no name)"), SizeIs(1));
}

TEST(TensorFlow, FunctionOfATraining_IsItsStep) {
  const RunResult result = RunUnderTbprof({Program("executes"), Arguments("60")[0], "60"});
  const auto& steps = result.summary["steps"];
  EXPECT_EQ(steps["source"], "repeated operations") << result.AllPrinted();
  EXPECT_GE(steps["count"].get<int>(), 50);
  EXPECT_LE(steps["count"].get<int>(), 60);
  EXPECT_LE(steps["confidence"].get<double>(), 0.8);
}

// A function takes its batch on a thread of tf.data, through nested iterators.
TEST(TensorFlow, BatchesOfAFunction_AreItsInput) {
  std::vector<std::string> arguments = Arguments("60");
  arguments.push_back("6000");
  const Pair pair = RunBoth(Program("executes"), arguments);
  ASSERT_TRUE(pair.Same());
  const Profile& profile = *pair.profiled.profile;
  const std::vector<Event> batches = profile.Named("IteratorGetNext");
  ASSERT_THAT(batches, SizeIs(60)) << "the outermost of each nest";
  const auto& steps = pair.profiled.summary["steps"];
  EXPECT_EQ(steps["input_wait"]["state"], "measured") << pair.profiled.AllPrinted();
  EXPECT_EQ(steps["input_wait"]["loader"], "tf.data");
  // The values that TensorBoard computes, without the markers before and after the steps.
  double input = 0, whole = 0;
  const std::vector<Event> waits = profile.Named("wait for input");
  for (const Event& step : profile.Named("step")) {
    if (step.Has("iter_num")) continue;
    whole += step.milliseconds();
    for (const Event& wait : waits) {
      if (wait.start_ps >= step.start_ps && wait.end_ps() <= step.end_ps()) input += wait.milliseconds();
    }
  }
  EXPECT_GT(input, 0);
  EXPECT_NEAR(steps["input_wait_share"].get<double>(), input / whole, 0.001);
}

// Without records of tf.data's iterators, it is unknown when a function takes its batches.
TEST(TensorFlow, FunctionWithoutABatch_InputIsUnknown) {
  const RunResult result = RunUnderTbprof({Program("executes"), Arguments("60")[0], "60"});
  const auto& steps = result.summary["steps"];
  EXPECT_EQ(steps["input_wait"]["state"], "unknown") << result.AllPrinted();
  EXPECT_EQ(steps["input_wait"]["cause"], "batches taken within a function");
  EXPECT_TRUE(steps["input_wait_share"].is_null());
}

TEST(TensorFlow, AnnotationsNotRecorded_HasNoOperations) {
  const Pair pair = RunBoth(Program("executes"), Arguments("5"), {"--trace=thread,io"});
  ASSERT_TRUE(pair.Same());
  EXPECT_THAT(pair.profiled.profile->Named("__inference_one_step_on_iterator_1234"), SizeIs(0));
}

}  // namespace
}  // namespace tbprof::integration
