// SPDX-License-Identifier: Apache-2.0
//
// The facts that identify the machine of a run, compared with the texts of the kernel.
#include "launcher/session/machine_facts.h"
#include "launcher/base/proc_files.h"

#include <gtest/gtest.h>

namespace tbprof {
namespace {

TEST(MachineFacts, ThisMachine_IsTheKernels) {
  const MachineFacts facts = ReadMachineFacts();
  EXPECT_GT(facts.cpus, 0);
  EXPECT_GT(facts.memory_bytes, uint64_t{1} << 20);
  EXPECT_EQ(facts.kernel + "\n", ReadText("/proc/sys/kernel/osrelease"));
#if defined(__x86_64__)
  ASSERT_NE(facts.cpu_model, "");
  EXPECT_NE(ReadText("/proc/cpuinfo").find("model name\t: " + facts.cpu_model + "\n"), std::string::npos)
      << facts.cpu_model;
#endif
}

}  // namespace
}  // namespace tbprof
