// SPDX-License-Identifier: Apache-2.0
//
// Common parts of the tests with simulated CUDA libraries (tests/sim): the paths of the libraries, and the device work
// in a profile.
#ifndef TBPROF_TESTS_INTEGRATION_CUDA_HARNESS_H_
#define TBPROF_TESTS_INTEGRATION_CUDA_HARNESS_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>

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
inline int64_t Reported(const RunResult& result, const std::string& name) {
  for (const std::string& line : Lines(result.out)) {
    if (line.starts_with(name + "=")) return std::stoll(line.substr(name.size() + 1));
  }
  ADD_FAILURE() << "no " << name << " in: " << result.out;
  return -1;
}

// What a call and its work have in common: a number, or outside of the steps an arrow. Empty: nothing.
inline std::string LinkOf(const Event& event) {
  if (event.Has("correlation_id")) return event.Stat("correlation_id");
  if (!event.Has("flow")) return "";
  // The lowest two bits are the end of the arrow.
  return "arrow " + std::to_string(std::stoull(event.Stat("flow")) >> 2);
}

struct OnDevice {
  int64_t kernels = 0, kernel_ps = 0, to_device = 0, from_device = 0, sets = 0;
  std::set<std::string> links;
};

inline OnDevice DeviceWork(const Profile& profile) {
  OnDevice work;
  for (const Event& event : profile.events()) {
    if (event.plane.find("/device:GPU:") == std::string::npos || LinkOf(event).empty()) continue;
    if (event.Has("kernel_details")) {
      ++work.kernels;
      work.kernel_ps += event.duration_ps;
      work.links.insert(LinkOf(event));
    }
    if (event.name.starts_with("MemcpyHToD")) ++work.to_device;
    if (event.name.starts_with("MemcpyDToH")) ++work.from_device;
    if (event.name.starts_with("Memset")) ++work.sets;
  }
  return work;
}

// Any later call may report a fault of the device: removes the call from a subject's last message, and keeps the error.
inline void LeaveOutThePlace(Pair* pair) {
  for (RunResult* result : {&pair->bare, &pair->profiled}) {
    const size_t at = result->err.rfind(": ");
    if (at != std::string::npos) result->err.erase(0, at + 2);
  }
}

// The texts of TensorBoard's overview page.
inline std::string PageText(const Profile& profile) {
  std::string text;
  for (const std::string& line : profile.space().errors()) text += line + "\n";
  for (const std::string& line : profile.space().warnings()) text += line + "\n";
  return text;
}

// A directory of links to simulated libraries, for machines that lack some libraries or mix versions.
class Libraries {
 public:
  void Add(const std::string& path, std::string_view name = "") {
    std::filesystem::create_directories(directory_.path());
    std::filesystem::create_symlink(
        path, directory_ / (name.empty() ? std::filesystem::path(path).filename().string() : std::string(name)));
  }
  const std::string& path() const { return directory_.path(); }

 private:
  TemporaryDirectory directory_;
};

// Hides the toolkit's own libraries. False: they cannot be hidden here.
inline bool HideToolkit(RunOptions* options) {
  const std::string place = "/usr/local/cuda/lib64";
  if (access(place.c_str(), F_OK) != 0) return true;
  options->launcher = {"/usr/bin/unshare",
                       geteuid() == 0 ? "-m" : "-Urm",
                       "/bin/sh",
                       "-c",
                       "mount -t tmpfs none \"$(realpath " + place + ")\" && exec \"$@\"",
                       "sh"};
  RunOptions probe;
  probe.launcher = options->launcher;
  return RunUnderTbprof({"/bin/true"}, probe).code() == 0;
}

class Cuda : public testing::Test {
 protected:
  void SetUp() override {
    if (access(Subject("train").c_str(), X_OK) != 0) GTEST_SKIP() << "no CUDA headers or nvcc: no simulator";
  }
};

}  // namespace tbprof::integration

#endif  // TBPROF_TESTS_INTEGRATION_CUDA_HARNESS_H_
