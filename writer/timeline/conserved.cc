// SPDX-License-Identifier: Apache-2.0
#include "writer/timeline/conserved.h"

#include <cstddef>
#include <iterator>

#include "writer/timeline/timeline.h"

namespace tbprof {
namespace {

constexpr std::string_view kKindNames[] = {
#define TBPROF_CONSERVED_KIND(id, text) text,
#include "writer/timeline/conserved.def"
};
constexpr std::string_view kCauseNames[] = {
#define TBPROF_CONSERVED_CAUSE(id, text) text,
#include "writer/timeline/conserved.def"
};

}  // namespace

std::string_view NameOf(ConservedKind kind) {
  const auto index = static_cast<size_t>(kind);
  return index < std::size(kKindNames) ? kKindNames[index] : "";
}

std::string_view NameOf(ConservedCause cause) {
  const auto index = static_cast<size_t>(cause);
  return index < std::size(kCauseNames) ? kCauseNames[index] : "";
}

ConservedKind ConservedKindOf(const EventType& type) {
  if (type.sampled) return ConservedKind::kNone;
  switch (type.family) {
    case EventFamily::kThread:
      return type.value == ValueKind::kFlowIn ? ConservedKind::kThreadStart : ConservedKind::kThreadCall;
    case EventFamily::kLock:
      return ConservedKind::kLock;
    case EventFamily::kSleep:
      return ConservedKind::kSleep;
    case EventFamily::kIo:
      return ConservedKind::kIo;
    case EventFamily::kProcess:
      return ConservedKind::kProcess;
    case EventFamily::kMemory:
      return ConservedKind::kLargeBlock;
    case EventFamily::kOther:
      return ConservedKind::kLibrary;
    case EventFamily::kGpu:
      if (type.value == ValueKind::kCorrelation) return ConservedKind::kGpuCall;
      // A copy by the host.
      return type.object == ObjectKind::kStream && type.value == ValueKind::kBytes ? ConservedKind::kGpuCopy
                                                                                   : ConservedKind::kNone;
    case EventFamily::kAnnotation:
      return type.origin == RangeOrigin::kProgram || type.origin == RangeOrigin::kTensorFlow
                 ? ConservedKind::kAnnotation
                 : ConservedKind::kTorch;
    case EventFamily::kStep:
      break;
  }
  return ConservedKind::kNone;
}

ConservedKind ConservedKindOf(const GpuEvent& event) {
  switch (event.kind) {
    case GpuEventKind::kKernel:
      return ConservedKind::kGpuKernel;
    case GpuEventKind::kCopy:
    case GpuEventKind::kSet:
      return ConservedKind::kGpuCopy;
    default:
      return ConservedKind::kNone;
  }
}

}  // namespace tbprof
