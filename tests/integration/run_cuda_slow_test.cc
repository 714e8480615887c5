// SPDX-License-Identifier: Apache-2.0
// More device work than CUPTI or the buffers can handle: work that is not recorded is counted.
#include <gmock/gmock.h>

#include "cuda_harness.h"
#include "harness.h"

namespace tbprof::integration {
namespace {

class CudaLoad : public testing::Test {
 protected:
  void SetUp() override {
    if (access(Subject("launches").c_str(), X_OK) != 0) GTEST_SKIP() << "no CUDA headers or nvcc: no simulator";
  }
};

uint64_t KernelsRecorded(const RunResult& result) {
  uint64_t kernels = 0;
  for (const auto& gpu : result.summary["gpus"]) kernels += gpu.value("kernels", uint64_t{0});
  return kernels;
}

// Records lost by CUPTI, in the segment and on the way to the spool; and corrupt records.
uint64_t Lost(const RunResult& result) {
  const auto& records = result.summary["records"];
  uint64_t lost = records.value("not_kept", uint64_t{0}) + records.value("corrupt", uint64_t{0});
  for (const auto& [cause, count] : records["dropped"].items()) lost += count.get<uint64_t>();
  return lost;
}

void ExpectAllAccounted(const RunResult& result) {
  const auto launched = static_cast<uint64_t>(Reported(result, "kernels"));
  const uint64_t recorded = KernelsRecorded(result);
  EXPECT_LE(recorded, launched);
  // A dropped record may be that of a call or of a kernel.
  EXPECT_GE(recorded + Lost(result), launched) << result.AllPrinted();
  EXPECT_GT(recorded, launched / 10);
}

TEST_F(CudaLoad, MillionKernels_AllAreAccounted) {
  RunOptions options = On("cuda13");
  options.tbprof = {"--window=all"};
  const RunResult result = RunUnderTbprof({Subject("launches"), "4", "250000", "100"}, options);
  ASSERT_EQ(result.code(), 0) << result.err;
  ASSERT_NE(result.profile, nullptr);
  ExpectAllAccounted(result);
}

TEST_F(CudaLoad, MillionGraphNodes_AllAreAccounted) {
  RunOptions options = On("cuda13");
  options.tbprof = {"--window=all"};
  const std::vector<std::string> command = {Subject("large_graph"), "100000", "10", "10"};
  const RunResult nodes = RunUnderTbprof(command, options);
  ASSERT_EQ(nodes.code(), 0) << nodes.err;
  ASSERT_NE(nodes.profile, nullptr);
  ExpectAllAccounted(nodes);
  options.tbprof.push_back("--cuda-graphs=graph");
  const RunResult whole = RunUnderTbprof(command, options);
  ASSERT_EQ(whole.code(), 0) << whole.err;
  ASSERT_FALSE(whole.summary["gpus"].empty());
  EXPECT_EQ(whole.summary["gpus"][0].value("graphs", 0), 10);
  EXPECT_EQ(KernelsRecorded(whole), 0u);
}

}  // namespace
}  // namespace tbprof::integration
