// SPDX-License-Identifier: Apache-2.0
// The input wait of a training with simulated PyTorch libraries (tests/sim/torch): summary.json has the same value as
// TensorBoard computes, independent of the events that are drawn. With real trainings: tests/xprof/test_input.py.
#include <gmock/gmock.h>

#include <filesystem>
#include <string>
#include <vector>

#include "harness.h"
#include "writer/base/text.h"

namespace tbprof::integration {
namespace {

// The values that TensorBoard computes from the `steps` line, without the markers before and after the steps.
struct Page {
  int steps = 0;
  double whole = 0, input = 0, running = 0;

  explicit Page(const Profile& profile) {
    const auto sum_within = [](const std::vector<Event>& pieces, const Event& step) {
      double sum = 0;
      for (const Event& piece : pieces) {
        if (piece.start_ps >= step.start_ps && piece.end_ps() <= step.end_ps()) sum += piece.milliseconds();
      }
      return sum;
    };
    const auto both = [&](const std::string& name) {
      std::vector<Event> pieces = profile.Named(name), sums = profile.Named(name + " (sum)");
      pieces.insert(pieces.end(), sums.begin(), sums.end());
      return pieces;
    };
    const std::vector<Event> waits = both("wait for input");
    std::vector<Event> runs = both("running");
    // On a busy machine.
    if (runs.empty()) runs = both("running or waiting for a CPU");
    for (const Event& step : profile.Named("step")) {
      if (step.Has("iter_num")) continue;  // before and after the steps
      ++steps;
      whole += step.milliseconds();
      input += sum_within(waits, step);
      running += sum_within(runs, step);
    }
  }
};

TEST(Input, WaitsNotDrawn_PageEqualsTheTerminal) {
  const TemporaryDirectory directory;
  const std::string torch = directory / "torch";
  std::filesystem::create_directories(torch + "/lib");
  for (const char* library : {"/libc10.so", "/libtorch_cpu.so"}) {
    std::filesystem::copy_file(StrCat(TBPROF_BUILD_DIR "/tests/sim/torch/plain", library),
                               StrCat(torch, "/lib", library));
  }
  WriteFile(torch + "/version.py", "__version__ = '2.13.0+cpu'\ndebug = False\n");
  const Pair pair = RunBoth(Program("input_steps"), {torch, "300", "2000", "100", "40"},
                            {"--max-profile-size=160KiB", "--window=all"});
  const auto& summary = pair.profiled.summary;
  EXPECT_GT(summary["records"]["over_budget"].get<int>(), 1000) << pair.profiled.AllPrinted();
  const Page page(*pair.profiled.profile);
  EXPECT_EQ(page.steps, summary["steps"]["count"].get<int>());
  const auto& input = summary["steps"]["input_wait"];
  EXPECT_EQ(input["state"], "measured");
  EXPECT_NEAR(input["share"].get<double>(), page.input / page.whole, 0.01);
  EXPECT_NEAR(input["unknown_waits_share"].get<double>(), 1 - (page.input + page.running) / page.whole, 0.01);
  // Nearly all of the remaining time is sleeps, drawn or not.
  EXPECT_GT(input["unknown_waits_share"].get<double>(), 0.8 * (1 - input["share"].get<double>()));
}

}  // namespace
}  // namespace tbprof::integration
