// SPDX-License-Identifier: Apache-2.0
//
// Samples one process until its standard input has a line: `python_sampling PID RATE`. Prints `ready`, then the stacks
// read, the CPU nanoseconds of the sampler's thread, and the stacks torn. For python_sampling.py.
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "launcher/sampling/stack_sampler.h"

using namespace tbprof;

static int64_t CpuNs() {
  timespec used = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return int64_t{used.tv_sec} * 1'000'000'000 + used.tv_nsec;
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  PythonStatusFact status = {};
  const auto emit = [&](FrameType type, uint32_t, const void* payload, size_t size) {
    if (type == FrameType::kPythonStatus && size >= sizeof(status)) std::memcpy(&status, payload, sizeof(status));
  };
  StackSampler sampler({.rate = static_cast<uint32_t>(std::atoi(argv[2])), .max_cpu_share = 1}, emit);
  sampler.AddProcess({.segment = 1, .serial = 1, .pid = std::atoi(argv[1])});
  sampler.SetArmed(true);
  sampler.Flush(std::chrono::seconds(10));
  puts("ready");
  fflush(stdout);
  const int64_t before = CpuNs();
  char line[16];
  if (fgets(line, sizeof(line), stdin) == nullptr) return 1;
  sampler.SetArmed(false);
  sampler.Flush(std::chrono::seconds(10));
  printf("%llu %lld %llu\n", static_cast<unsigned long long>(status.samples), static_cast<long long>(CpuNs() - before),
         static_cast<unsigned long long>(status.torn));
  return 0;
}
