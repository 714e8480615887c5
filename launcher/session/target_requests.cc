// SPDX-License-Identifier: Apache-2.0
#include "launcher/session/target_requests.h"

#include <linux/futex.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <vector>

#include "wire/clock.h"

namespace tbprof {
namespace {

bool IsLimited(const ProcessSlot& slot) {
  return __atomic_load_n(&slot.state, __ATOMIC_RELAXED) == static_cast<uint32_t>(SlotState::kLive) &&
         __atomic_load_n(&slot.gpu_state, __ATOMIC_ACQUIRE) == static_cast<uint32_t>(GpuState::kLimited);
}

struct GpuAnswer {
  ProcessSlot* slot;
  uint32_t wanted;
};

void RequestGpuFlush(const MappedSegment& mapped, std::vector<GpuAnswer>* answers) {
  const Segment& segment = mapped.segment;
  const uint32_t high = std::min(__atomic_load_n(&segment.header->process_high, __ATOMIC_RELAXED), kProcessSlots);
  for (uint32_t i = 0; i < high; ++i) {
    ProcessSlot* const slot = &segment.process_slots[i];
    if (__atomic_load_n(&slot->state, __ATOMIC_RELAXED) != static_cast<uint32_t>(SlotState::kLive)) continue;
    const uint32_t state = __atomic_load_n(&slot->gpu_state, __ATOMIC_ACQUIRE);
    if (state == static_cast<uint32_t>(GpuState::kNone) || state == static_cast<uint32_t>(GpuState::kOff)) continue;
    const uint32_t wanted = __atomic_add_fetch(&slot->gpu_flush_requested, 1, __ATOMIC_ACQ_REL);
    syscall(SYS_futex, &slot->gpu_flush_requested, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
    if (answers != nullptr) answers->push_back({slot, wanted});
  }
}

template <typename Visit>
void VisitLimitedGpus(const Targets& targets, Visit visit) {
  for (const auto& target : targets) {
    if (target->dead) continue;
    const Segment& segment = target->mapped->segment;
    const uint32_t high = std::min(__atomic_load_n(&segment.header->process_high, __ATOMIC_RELAXED), kProcessSlots);
    for (uint32_t i = 0; i < high; ++i) {
      const ProcessSlot& slot = segment.process_slots[i];
      if (IsLimited(slot) && !visit(slot)) return;
    }
  }
}

}  // namespace

void RequestGpuFlush(const MappedSegment& mapped) { RequestGpuFlush(mapped, nullptr); }

void FlushGpus(const Targets& targets, int limit_ms) {
  std::vector<GpuAnswer> answers;
  for (auto& target : targets) {
    if (!target->dead) RequestGpuFlush(*target->mapped, &answers);
  }
  const uint64_t until = ReadMonotonic() + static_cast<uint64_t>(limit_ms) * 1'000'000;
  for (const GpuAnswer& answer : answers) {
    for (;;) {
      const uint32_t done = __atomic_load_n(&answer.slot->gpu_flush_done, __ATOMIC_ACQUIRE);
      if (static_cast<int32_t>(done - answer.wanted) >= 0) break;
      const uint32_t state = __atomic_load_n(&answer.slot->gpu_state, __ATOMIC_RELAXED);
      if (state == static_cast<uint32_t>(GpuState::kNone) || state == static_cast<uint32_t>(GpuState::kOff)) break;
      if (ReadMonotonic() >= until) return;
      poll(nullptr, 0, 1);
    }
  }
}

void SetGpuWindows(const Targets& targets, uint32_t windows) {
  for (auto& target : targets) {
    __atomic_store_n(&target->mapped->segment.header->gpu_windows, windows, __ATOMIC_SEQ_CST);
    RequestGpuFlush(*target->mapped);
  }
}

void WaitForLimitedGpus(const Targets& targets, int limit_ms) {
  const uint64_t until = ReadMonotonic() + static_cast<uint64_t>(limit_ms) * 1'000'000;
  VisitLimitedGpus(targets, [&](const ProcessSlot& slot) {
    while (IsLimited(slot)) {
      if (ReadMonotonic() >= until) return false;
      poll(nullptr, 0, 1);
    }
    return true;
  });
}

pid_t FindLimitedGpu(const Targets& targets) {
  pid_t found = 0;
  VisitLimitedGpus(targets, [&](const ProcessSlot& slot) {
    found = __atomic_load_n(&slot.pid, __ATOMIC_RELAXED);
    return false;
  });
  return found;
}

void SetAllTorchOperations(const Targets& targets, bool all) {
  for (auto& target : targets) {
    __atomic_store_n(&target->mapped->segment.header->torch_all, all ? 1u : 0u, __ATOMIC_SEQ_CST);
  }
}

void WaitForAllTorchOperations(const Targets& targets, int limit_ms) {
  const uint64_t until = ReadMonotonic() + static_cast<uint64_t>(limit_ms) * 1'000'000;
  for (auto& target : targets) {
    if (target->dead) continue;
    const Segment& segment = target->mapped->segment;
    const uint32_t high = std::min(__atomic_load_n(&segment.header->process_high, __ATOMIC_RELAXED), kProcessSlots);
    for (uint32_t i = 0; i < high; ++i) {
      const ProcessSlot& slot = segment.process_slots[i];
      while (__atomic_load_n(&slot.state, __ATOMIC_RELAXED) == static_cast<uint32_t>(SlotState::kLive) &&
             __atomic_load_n(&slot.torch_recording, __ATOMIC_ACQUIRE) ==
                 static_cast<uint32_t>(TorchRecording::kSampled)) {
        if (ReadMonotonic() >= until) return;
        poll(nullptr, 0, 1);
      }
    }
  }
}

}  // namespace tbprof
