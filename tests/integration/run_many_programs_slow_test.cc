// SPDX-License-Identifier: Apache-2.0
// Very many programs at a time: the launcher's memory has a bound.
#include <unistd.h>

#include <algorithm>

#include "harness.h"

namespace tbprof::integration {
namespace {

// `VmRSS`, `VmHWM` of a process; 0 when it has ended.
uint64_t StatusOf(pid_t pid, const std::string& name) {
  for (const std::string& line : Lines(ReadFile("/proc/" + std::to_string(pid) + "/status"))) {
    if (line.rfind(name + ":", 0) == 0) return strtoull(line.c_str() + name.size() + 1, nullptr, 10);
  }
  return 0;
}

TEST(Programs, ThreeHundredAtATime_AreRecorded) {
  RunOptions options;
  options.tbprof = {"--wait-threshold=0"};
  options.timeout_s = 200;
  // Each program writes and reads 20000 times (more than a megabyte of records), and then stays.
  const auto running = StartUnderTbprof(
      {"/bin/sh", "-c",
       "i=0; while [ $i -lt 300 ]; do " + Program("phases") + " 20000 0 20000 & i=$((i+1)); done; wait; exit 7"},
      options);
  const auto warm = [&] {
    const std::string facts = running->Facts();
    size_t count = 0;
    for (size_t at = 0; (at = facts.find("warm ", at)) != std::string::npos; ++at) ++count;
    return count;
  };
  uint64_t highest = 0;
  for (int i = 0; i < 12000 && warm() < 300 && !running->Ended(); ++i) {
    highest = std::max(highest, StatusOf(running->pid(), "VmRSS"));
    usleep(10000);
  }
  ASSERT_EQ(warm(), 300u) << running->Err();
  highest = std::max(highest, StatusOf(running->pid(), "VmHWM"));
  RecordProperty("rss_kib", static_cast<int>(highest));
  EXPECT_LE(highest, 256u * 1024);
  WriteFile(running->path() + "/stop", "");
  const RunResult result = running->Wait();
  EXPECT_EQ(result.code(), 7);
  ASSERT_FALSE(result.summary.is_null()) << result.AllPrinted();
  uint64_t writes = 0;
  for (const auto& process : result.summary["processes"]) {
    for (const auto& total : process["operations"]) {
      if (total["operation"] == "write") writes += total["calls"].get<uint64_t>();
    }
  }
  uint64_t lost = result.summary["records"]["not_kept"].get<uint64_t>();
  for (const auto& [cause, count] : result.summary["records"]["dropped"].items()) lost += count.get<uint64_t>();
  EXPECT_GE(writes + lost, 300u * 20000u) << result.AllPrinted();
}

}  // namespace
}  // namespace tbprof::integration
