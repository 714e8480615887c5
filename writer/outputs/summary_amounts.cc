// SPDX-License-Identifier: Apache-2.0
#include "writer/outputs/summary_amounts.h"

#include "writer/base/json_values.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

Json MachineJson(const Timeline& timeline) {
  const Machine& machine = timeline.machine;
  return {{"cpu_model", TextOrNull(machine.cpu_model)},
          {"cpus", machine.cpus > 0 ? Json(machine.cpus) : Json(nullptr)},
          {"memory_bytes", machine.memory_bytes > 0 ? Json(machine.memory_bytes) : Json(nullptr)},
          {"kernel", TextOrNull(machine.kernel)}};
}

Json StepCountsJson(const Timeline& timeline) {
  Json list = Json::array();
  const StepAmounts& amounts = timeline.step_amounts;
  for (const StepCount& count : amounts.counts) {
    list.push_back({{"name", count.name},
                    {"total", count.total},
                    {"per_step", count.total / static_cast<double>(amounts.steps)},
                    {"basis", "run"}});
  }
  return list;
}

Json StepOperationsJson(const Timeline& timeline) {
  Json list = Json::array();
  const StepAmounts& amounts = timeline.step_amounts;
  const auto steps = static_cast<double>(amounts.steps);
  for (const StepOperation& operation : amounts.operations) {
    list.push_back({{"name", ValidUtf8(timeline.strings.Get(operation.name))},
                    {"calls_per_step", operation.calls / steps},
                    {"s_per_step", Seconds(operation.self_ps) / steps}});
  }
  return list;
}

}  // namespace tbprof
