// SPDX-License-Identifier: Apache-2.0
//
// Programs on the simulator of CUDA (tests/sim), and what a profile has of their work on devices.
#ifndef TBPROF_TESTS_INTEGRATION_CUDA_HARNESS_H_
#define TBPROF_TESTS_INTEGRATION_CUDA_HARNESS_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <string>

#include "harness.h"

namespace tbprof::integration {

inline std::string Sim(std::string_view what) {
  return std::string(TBPROF_BUILD_DIR) + "/tests/sim/" + std::string(what);
}
inline std::string Subject(std::string_view name) { return Sim("subjects/" + std::string(name)); }

inline RunOptions On(const std::string& libraries, const std::string& modes = "", const std::string& cuda = "") {
  RunOptions options;
  options.environment = {{"LD_LIBRARY_PATH", Sim(libraries)},
                         {"CUDA_VISIBLE_DEVICES", std::nullopt},
                         {"CUDA_INJECTION64_PATH", std::nullopt}};
  if (!modes.empty()) options.environment.push_back({"CUDASIM_CUPTI", modes});
  if (!cuda.empty()) options.environment.push_back({"CUDASIM_CUDA", cuda});
  return options;
}

// `name=number` lines, as subjects print them.
inline int64_t Told(const RunResult& result, const std::string& name) {
  for (const std::string& line : Lines(result.out)) {
    if (line.starts_with(name + "=")) return std::stoll(line.substr(name.size() + 1));
  }
  ADD_FAILURE() << "no " << name << " in: " << result.out;
  return -1;
}

struct OnDevice {
  int64_t kernels = 0, kernel_ps = 0, to_device = 0, from_device = 0, sets = 0;
  std::set<std::string> correlations;
};

inline OnDevice DeviceWork(const Profile& profile) {
  OnDevice work;
  for (const Event& event : profile.events()) {
    if (event.plane.find("/device:GPU:") == std::string::npos || !event.Has("correlation_id")) continue;
    if (event.Has("kernel_details")) {
      ++work.kernels;
      work.kernel_ps += event.duration_ps;
      work.correlations.insert(event.Stat("correlation_id"));
    }
    if (event.name.starts_with("MemcpyHToD")) ++work.to_device;
    if (event.name.starts_with("MemcpyDToH")) ++work.from_device;
    if (event.name.starts_with("Memset")) ++work.sets;
  }
  return work;
}

class Cuda : public testing::Test {
 protected:
  void SetUp() override {
    if (access(Subject("train").c_str(), X_OK) != 0) GTEST_SKIP() << "no CUDA headers or nvcc: no simulator";
  }
};

}  // namespace tbprof::integration

#endif  // TBPROF_TESTS_INTEGRATION_CUDA_HARNESS_H_
