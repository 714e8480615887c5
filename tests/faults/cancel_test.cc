// SPDX-License-Identifier: Apache-2.0
// Cancellation in every hooked call: the thread ends where it would, its cleanup runs, and no lock stays held.
#include <gmock/gmock.h>

#include <set>

#include "../integration/harness.h"

namespace tbprof::integration {
namespace {

TEST(Cancel, EachHook_IsACancellationPointAsBare) {
  RunOptions options;
  options.tbprof = {"--wait-threshold=0"};
  const Pair pair = RunBoth({Program("cancels_everywhere")}, options);
  ASSERT_TRUE(pair.Same());
  EXPECT_EQ(pair.bare.out.find("lock free 0"), std::string::npos);
  EXPECT_NE(pair.bare.out.find("\nend\n"), std::string::npos);
  EXPECT_EQ(pair.profiled.summary["records"]["corrupt"], 0);

  // The program's list is the table's: a row without a line in it is not tested.
  std::set<std::string> tested;
  for (const std::string& line : Lines(pair.bare.out)) tested.insert(line.substr(0, line.find(' ')));
  const std::set<std::string> others = {
      // They allocate or end the program; none waits. exec is in exec_test.
      "reallocarray", "posix_memalign", "aligned_alloc", "memalign", "valloc", "pvalloc", "free", "longjmp", "_longjmp",
      "siglongjmp", "__longjmp_chk", "prctl", "execve", "execv", "execvp", "execvpe", "fexecve", "execveat", "execl",
      "execlp", "execle", "_exit", "_Exit", "quick_exit", "setrlimit", "setrlimit64", "getrlimit", "getrlimit64",
      "prlimit", "prlimit64",
      // Nor is there NCCL.
      "ncclAllReduce", "ncclReduce", "ncclBroadcast", "ncclBcast", "ncclAllGather", "ncclReduceScatter", "ncclAlltoAll",
      "ncclSend", "ncclRecv", "ncclGroupStart", "ncclGroupEnd",
      // Nor XGBoost and LightGBM.
      "XGBoosterUpdateOneIter", "XGBoosterTrainOneIter", "XGBoosterBoostOneIter", "LGBM_BoosterUpdateOneIter",
      "LGBM_BoosterUpdateOneIterCustom",
      // Nor TensorFlow.
      "TFE_Execute",
      "_ZN10tensorflow4data19DatasetBaseIterator7GetNextEPNS0_15IteratorContextEPSt6vectorINS_6TensorESaIS5_EEPb"};
  for (const std::string& line : Lines(ReadFile(std::string(TBPROF_SOURCE_DIR) + "/preload/hooks.def"))) {
    if (!line.starts_with("TBPROF_")) continue;
    const size_t from = line.find(", ") + 2;
    const std::string name = line.substr(from, line.find(',', from) - from);
    // CUPTI's own: no call of ours in them is a cancellation point, and there is no CUPTI here.
    if (name.starts_with("cupti")) continue;
    EXPECT_TRUE(tested.count(name) != 0 || others.count(name) != 0) << name << " is not in cancels_everywhere.c";
  }
}

}  // namespace
}  // namespace tbprof::integration
