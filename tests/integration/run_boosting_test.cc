// SPDX-License-Identifier: Apache-2.0
// The rounds of XGBoost and LightGBM, with a simulated library that is looked up by name as in their packages.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "harness.h"

namespace tbprof::integration {
namespace {

using ::testing::SizeIs;

std::vector<std::string> Arguments(const std::string& rounds) {
  return {std::string(TBPROF_BUILD_DIR) + "/tests/programs/libsimulated_booster.so", rounds};
}

TEST(Boosting, NamesAndResults_AreTheSame) {
  const Pair pair = RunBoth(Program("boosts"), Arguments("5"));
  ASSERT_TRUE(pair.Same());
  const Profile& profile = *pair.profiled.profile;
  EXPECT_THAT(profile.Named("XGBoosterUpdateOneIter"), SizeIs(5));
  for (const char* name : {"XGBoosterBoostOneIter", "XGBoosterTrainOneIter", "LGBM_BoosterUpdateOneIter",
                           "LGBM_BoosterUpdateOneIterCustom"}) {
    EXPECT_THAT(profile.Named(name), SizeIs(1)) << name;
  }
}

TEST(Boosting, RoundsOfATraining_AreItsSteps) {
  std::vector<std::string> command = {Program("boosts")};
  for (const std::string& argument : Arguments("60")) command.push_back(argument);
  const RunResult result = RunUnderTbprof(command);
  const auto& steps = result.summary["steps"];
  EXPECT_EQ(steps["source"], "rounds of XGBoost") << result.AllPrinted();
  EXPECT_EQ(steps["count"].get<int>() + steps["irregular"].get<int>(), 62) << "with the calls of other functions";
  EXPECT_GE(steps["median_s"].get<double>(), 0.005);
}

}  // namespace
}  // namespace tbprof::integration
