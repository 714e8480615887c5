// SPDX-License-Identifier: Apache-2.0
// Other allocators than libc's: preloaded and linked. One in the program itself: diagnostics_test.
#include <gmock/gmock.h>
#include <unistd.h>

#include "../integration/harness.h"

namespace tbprof::integration {
namespace {

std::string Library(const std::string& name) {
  for (const char* directory :
       {"/usr/lib/x86_64-linux-gnu/", "/usr/lib/aarch64-linux-gnu/", "/usr/lib64/", "/usr/lib/"}) {
    if (access((directory + name).c_str(), R_OK) == 0) return directory + name;
  }
  return "";
}

class Allocator : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    library_ = Library(GetParam());
    if (library_.empty()) GTEST_SKIP() << GetParam() << " is not installed";
  }
  void ExpectSeen(const Pair& pair) {
    ASSERT_TRUE(pair.Same());
    const auto allocator = pair.profiled.summary["processes"][0]["allocator"];
    // Eight functions, a thousand calls each; realloc is one more.
    EXPECT_GE(allocator["allocations"], 8000) << allocator;
    EXPECT_GE(allocator["frees"], 8000) << allocator;
    EXPECT_GE(allocator["live_bytes"], 0) << allocator;
  }
  std::string library_;
};

TEST_P(Allocator, Preloaded_CallsAreCounted) {
  RunOptions options;
  options.environment = {{"LD_PRELOAD", library_}};
  const Pair pair = RunBoth({Program("allocations"), "1000"}, options);
  ExpectSeen(pair);
  // Its operator new would not be counted.
  EXPECT_EQ(pair.profiled.summary["memory"]["processes"][0]["peak_is"], "lower_bound");
}

TEST_P(Allocator, PreloadedExact_EachBlockIsCounted) {
  RunOptions options;
  options.environment = {{"LD_PRELOAD", library_}};
  options.tbprof = {"--malloc=exact"};
  const Pair pair = RunBoth({Program("allocations"), "1000"}, options);
  ExpectSeen(pair);
  const auto process = pair.profiled.summary["processes"][0];
  EXPECT_EQ(process["exact_heap"]["allocations"], process["allocator"]["allocations"]);
  EXPECT_EQ(process["exact_heap"]["releases"], process["allocator"]["frees"]);
  EXPECT_EQ(process["exact_heap"]["live_bytes"], process["allocator"]["live_bytes"]);
}

TEST_P(Allocator, Linked_CallsAreCounted) {
  TemporaryDirectory directory;
  const std::string source = std::string(TBPROF_SOURCE_DIR) + "/tests/programs/allocations.c";
  const RunResult built = RunBare({"/usr/bin/env", "cc", "-fno-builtin", "-D_GNU_SOURCE", source, "-o",
                                   directory / "linked", "-Wl,--no-as-needed", library_});
  ASSERT_EQ(built.code(), 0) << built.err;
  ExpectSeen(RunBoth({directory / "linked", "1000"}, RunOptions()));
}
INSTANTIATE_TEST_SUITE_P(Libraries, Allocator,
                         testing::Values("libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libmimalloc.so.2"),
                         [](const auto& name) { return std::string(name.param).substr(3, 5); });

}  // namespace
}  // namespace tbprof::integration
