// SPDX-License-Identifier: Apache-2.0
//
// Programs with other drivers than one plain libcuda.so.1 (tests/sim), and the commands to run them.
#ifndef TBPROF_TESTS_INTEGRATION_CUDA_NEIGHBOURS_H_
#define TBPROF_TESTS_INTEGRATION_CUDA_NEIGHBOURS_H_

#include <string>
#include <utility>
#include <vector>

#include "cuda_harness.h"

namespace tbprof::integration {

struct Neighbour {
  std::string name;
  std::vector<std::string> command;
  std::string libraries = "cuda13";
  std::vector<std::pair<std::string, std::optional<std::string>>> environment = {};
  int64_t kernels = 0;  // run by the driver that the program chose; fewer may be recorded if hooks do not reach it
};

inline std::vector<Neighbour> Neighbours() {
  const std::string real = Sim("cuda13/libcuda.so.1"), other = Sim("cuda12/libcuda.so.1");
  const std::string plugin = Subject("libsim_driver_plugin.so");
  std::vector<Neighbour> neighbours = {
      {"a copy beside the driver", {Subject("drivers"), other}},
      {"a copy in a scope of its own", {Subject("drivers"), other, "deep"}},
      {"a copy in a namespace of its own", {Subject("drivers"), other, "namespace"}},
      {"copies alone", {Subject("drivers"), "copies", other}},
      {"a plugin that is linked", {Subject("opens_plugin"), plugin}},
      {"a plugin bound at once", {Subject("opens_plugin"), plugin, "now"}},
      {"a plugin that binds to its own", {Subject("opens_plugin"), plugin, "deep"}},
  };
  neighbours.push_back({"a driver newer than all we know", {Subject("train"), "5"}});
  neighbours.back().environment = {{"CUDASIM_DRIVER_VERSION", "99000"}};
  neighbours[0].kernels = 5;
  neighbours[4].kernels = neighbours[5].kernels = 4;
  for (const std::string early : {"0", "1"}) {
    for (const std::string answer : {"own", "real"}) {
      const auto add = [&](const std::string& what, std::vector<std::string> command, int64_t kernels) {
        Neighbour one{what + ", forwarded, early=" + early + ", answer=" + answer, std::move(command), "forward"};
        one.environment = {
            {"CUDASIM_FORWARD_EARLY", early}, {"CUDASIM_FORWARD_ANSWER", answer}, {"CUDASIM_DRIVER_VERSION", "13010"}};
        one.kernels = kernels;
        neighbours.push_back(std::move(one));
      };
      add("by address", {Subject("drivers")}, 5);
      add("by address with a copy", {Subject("drivers"), real}, 5);
      add("linked", {Subject("driver_linked")}, 5);
      add("a linked plugin", {Subject("opens_plugin"), plugin, "now"}, 4);
      add("the runtime", {Subject("train"), "5"}, 0);
      add("host functions in two versions", {Subject("host_functions"), "5"}, 0);
    }
  }
  return neighbours;
}

inline RunOptions OptionsOf(const Neighbour& neighbour, const std::string& mode, bool is_open) {
  RunOptions options = On(neighbour.libraries);
  options.environment.insert(options.environment.end(), neighbour.environment.begin(), neighbour.environment.end());
  options.tbprof = {"--cuda=" + mode};
  if (!is_open) options.tbprof.push_back("--window=none");
  options.timeout_s = 30;
  return options;
}

}  // namespace tbprof::integration

#endif  // TBPROF_TESTS_INTEGRATION_CUDA_NEIGHBOURS_H_
