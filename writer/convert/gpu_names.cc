// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/gpu_names.h"

#include <iterator>

namespace tbprof {
namespace {

constexpr UnifiedMemoryKind kUnifiedMemoryKinds[] = {
    {GpuUnifiedKind::kToDevice, "unified memory HtoD", "to", true},
    {GpuUnifiedKind::kToHost, "unified memory DtoH", "from", true},
    {GpuUnifiedKind::kHostFault, "CPU page fault", "faults", false},
    {GpuUnifiedKind::kDeviceFault, "GPU page fault", "faults of", false},
    {GpuUnifiedKind::kThrashing, "unified memory thrashing", "thrashing", true},
    {GpuUnifiedKind::kThrottling, "unified memory throttling", "throttling", false},
    {GpuUnifiedKind::kRemoteMap, "unified memory remote map", "remote maps", true},
    {GpuUnifiedKind::kBetweenDevices, "unified memory DtoD", "from another to", true},
};

}  // namespace

std::string WithoutVersion(std::string_view name) {
  const size_t mark = name.rfind("_v");
  if (mark == std::string_view::npos || mark == 0 || mark + 2 == name.size()) return std::string(name);
  const std::string_view digits = name.substr(mark + 2);
  // `cuMemAlloc_v2` is the real name of a driver function: the suffix is not a version of parameters.
  if (digits.size() < 4 || digits.find_first_not_of("0123456789") != std::string_view::npos) return std::string(name);
  return std::string(name.substr(0, mark));
}

std::string_view SynchronizationName(uint32_t type) {
  switch (type) {
    case 1:
      return "event synchronization";
    case 2:
      return "stream wait for event";
    case 3:
      return "stream synchronization";
    case 4:
      return "context synchronization";
    default:
      return "synchronization";
  }
}

std::string_view OverheadName(uint32_t type) {
  switch (type) {
    case 1:
      return "driver compiler";
    case 1u << 16:
      return "CUPTI buffer flush";
    case 2u << 16:
      return "CUPTI instrumentation";
    case 3u << 16:
      return "CUPTI resource";
    case 4u << 16:
      return "module loading";
    case 5u << 16:
      return "lazy function loading";
    case 6u << 16:
      return "command buffer full";
    case 7u << 16:
      return "CUPTI buffer request";
    case 8u << 16:
      return "unified memory initialization";
    default:
      return "overhead";
  }
}

const UnifiedMemoryKind* FindUnifiedMemoryKind(GpuUnifiedKind kind) {
  for (const UnifiedMemoryKind& known : kUnifiedMemoryKinds) {
    if (known.kind == kind) return &known;
  }
  return nullptr;
}

std::string_view UnifiedMemoryCause(GpuUnifiedKind kind, uint32_t cause) {
  static constexpr std::string_view kMigrations[] = {"",
                                                     "asked for by the program",
                                                     "page fault",
                                                     "fetched ahead by the driver",
                                                     "evicted for want of room",
                                                     "accessed often"};
  static constexpr std::string_view kAccesses[] = {"", "read", "write", "atomic", "prefetch"};
  static constexpr std::string_view kMaps[] = {"",          "coherence",     "against thrashing",
                                               "by policy", "out of memory", "evicted"};
  const auto pick = [cause](const auto& names) { return cause < std::size(names) ? names[cause] : std::string_view(); };
  switch (kind) {
    case GpuUnifiedKind::kToDevice:
    case GpuUnifiedKind::kToHost:
    case GpuUnifiedKind::kBetweenDevices:
      return pick(kMigrations);
    case GpuUnifiedKind::kDeviceFault:
    case GpuUnifiedKind::kHostFault:
      return pick(kAccesses);
    case GpuUnifiedKind::kRemoteMap:
      return pick(kMaps);
    default:
      return "";
  }
}

}  // namespace tbprof
