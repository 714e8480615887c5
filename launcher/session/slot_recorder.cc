// SPDX-License-Identifier: Apache-2.0
#include "launcher/session/slot_recorder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace tbprof {
namespace {

// Names per call: in all segments together, and the least in each segment. Each name takes three system calls.
constexpr uint32_t kMaxKernelNames = 256;
constexpr uint32_t kLeastKernelNames = 4;

uint64_t DroppedBy(const ThreadSlot& slot) {
  uint64_t dropped = 0;
  for (const auto& count : slot.dropped) dropped += __atomic_load_n(&count, __ATOMIC_RELAXED);
  return dropped;
}

// The next owner must find the counters at 0. Low slots are reused first, as with chunks. Counters that are 0 are not
// written: most threads count few operations, and the next owner's core would have to fetch each cache line written
// here.
void FreeThreadSlot(MappedSegment* mapped, uint32_t index) {
  const Segment& segment = mapped->segment;
  ThreadSlot* slot = &segment.thread_slots[index];
  mapped->dropped_by_ended.fetch_add(DroppedBy(*slot), std::memory_order_relaxed);
  memset(reinterpret_cast<uint8_t*>(slot) + sizeof(slot->state), 0,
         offsetof(ThreadSlot, reserved1) - sizeof(slot->state));
  const auto clear = [](auto& counts) {
    for (uint64_t& count : counts) {
      if (__atomic_load_n(&count, __ATOMIC_RELAXED) != 0) __atomic_store_n(&count, 0, __ATOMIC_RELAXED);
    }
  };
  clear(slot->made);
  clear(slot->no_room);
  clear(slot->left);
  __atomic_store_n(&slot->not_large, 0, __ATOMIC_RELAXED);
  for (CallCount& count : slot->short_calls) {
    if (__atomic_load_n(&count.calls, __ATOMIC_RELAXED) != 0) __atomic_store_n(&count.calls, 0, __ATOMIC_RELAXED);
    if (__atomic_load_n(&count.ticks, __ATOMIC_RELAXED) != 0) __atomic_store_n(&count.ticks, 0, __ATOMIC_RELAXED);
  }
  __atomic_store_n(&slot->state, static_cast<uint32_t>(SlotState::kFree), __ATOMIC_RELEASE);
  if (index < __atomic_load_n(&segment.header->thread_hint, __ATOMIC_RELAXED)) {
    __atomic_store_n(&segment.header->thread_hint, index, __ATOMIC_RELAXED);
  }
}

// The kernel's name of a thread; empty: the thread does not exist.
std::array<char, 16> KernelName(pid_t pid, pid_t tid) {
  std::array<char, 16> name{};
  const ScopedFd file(open(absl::StrCat("/proc/", pid, "/task/", tid, "/comm").c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return name;
  const ssize_t size = read(file.get(), name.data(), name.size());
  if (size <= 0) return {};
  // Replaces the newline; a name has at most 15 bytes, so the newline is at most the 16th.
  name[static_cast<size_t>(size) - 1] = '\0';
  return name;
}

SlotState StateOf(const uint32_t& word) { return static_cast<SlotState>(__atomic_load_n(&word, __ATOMIC_ACQUIRE)); }

}  // namespace

uint64_t DroppedRecords(const MappedSegment& mapped) {
  const Segment& segment = mapped.segment;
  uint64_t dropped = mapped.dropped_by_ended.load(std::memory_order_relaxed);
  for (const auto& count : segment.header->dropped) dropped += __atomic_load_n(&count, __ATOMIC_RELAXED);
  const uint32_t high = std::min(__atomic_load_n(&segment.header->thread_high, __ATOMIC_RELAXED), kThreadSlots);
  for (uint32_t i = 0; i < high; ++i) dropped += DroppedBy(segment.thread_slots[i]);
  return dropped;
}

bool SlotRecorder::HasSlotsToFree(const MappedSegment& mapped) {
  const uint32_t exited = __atomic_load_n(&mapped.segment.header->threads_exited, __ATOMIC_ACQUIRE);
  return exited - mapped.threads_exited >= kThreadSlots / 16;
}

void SlotRecorder::Forget(uint32_t number) {
  std::erase_if(last_live_, [&](const auto& entry) { return entry.first.number == number; });
  std::erase_if(outer_pids_, [&](const auto& entry) { return entry.first.number == number; });
}

void SlotRecorder::EndProcesses(MappedSegment* mapped, const std::set<ProcessKey>& dead, FrameBuffer* frames) {
  const auto first = dead.lower_bound({mapped->number, 0});
  if (first == dead.end() || first->number != mapped->number) return;
  const auto is_dead = [&](uint32_t serial) { return dead.count({mapped->number, serial}) != 0; };
  const Segment& segment = mapped->segment;
  const uint32_t thread_high = std::min(__atomic_load_n(&segment.header->thread_high, __ATOMIC_ACQUIRE), kThreadSlots);
  for (uint32_t i = 0; i < thread_high; ++i) {
    const ThreadSlot& slot = segment.thread_slots[i];
    if (StateOf(slot.state) == SlotState::kFree) continue;
    if (!is_dead(__atomic_load_n(&slot.process_serial, __ATOMIC_RELAXED))) continue;
    AppendThreadFact(mapped, slot, true, frames);
    FreeThreadSlot(mapped, i);
  }
  const uint32_t process_high =
      std::min(__atomic_load_n(&segment.header->process_high, __ATOMIC_ACQUIRE), kProcessSlots);
  for (uint32_t i = 0; i < process_high; ++i) {
    ProcessSlot* slot = &segment.process_slots[i];
    if (StateOf(slot->state) == SlotState::kFree) continue;
    if (!is_dead(__atomic_load_n(&slot->serial, __ATOMIC_RELAXED))) continue;
    AppendProcessFact(mapped, *slot, ReadTicks(clock_), frames);
    slot->serial = 0;
    __atomic_store_n(&slot->state, static_cast<uint32_t>(SlotState::kFree), __ATOMIC_RELEASE);
    if (i < __atomic_load_n(&segment.header->process_hint, __ATOMIC_RELAXED)) {
      __atomic_store_n(&segment.header->process_hint, i, __ATOMIC_RELAXED);
    }
  }
  for (auto ended = first; ended != dead.end() && ended->number == mapped->number; ++ended) {
    last_live_.erase(*ended);
    outer_pids_.erase(*ended);
  }
}

void SlotRecorder::AppendThreadFact(MappedSegment* mapped, const ThreadSlot& shared, bool last,
                                    FrameBuffer* frames) const {
  const ThreadSlot slot = Snapshot(shared, offsetof(ThreadSlot, reserved2));
  if (slot.serial == 0) return;
  ThreadFact fact{};
  fact.serial = slot.serial;
  fact.process_serial = slot.process_serial;
  fact.tid = slot.tid;
  fact.state = slot.state;
  fact.start_ticks = slot.start_ticks;
  fact.end_ticks = slot.end_ticks;
  fact.start_routine = slot.start_routine;
  fact.creator_serial = slot.creator_serial;
  fact.wait_operation = slot.wait_operation;
  fact.taken_ticks = ReadTicks(clock_);
  memcpy(fact.name, slot.name, sizeof(fact.name));
  if (slot.name[0] == '\0') {
    const auto known = mapped->kernel_names.find(slot.serial);
    if (known != mapped->kernel_names.end()) memcpy(fact.name, known->second.data(), sizeof(fact.name));
  }
  if (last) mapped->kernel_names.erase(slot.serial);
  fact.wait_since = slot.wait_since;
  fact.wait_object = slot.wait_object;
  fact.wait_site = slot.wait_site;
  fact.wait_resumed = slot.wait_resumed;
  fact.allocations = slot.allocations;
  fact.frees = slot.frees;
  fact.allocated_bytes = slot.allocated_bytes;
  fact.freed_bytes = slot.freed_bytes;
  fact.records = slot.records;
  memcpy(fact.dropped, slot.dropped, sizeof(fact.dropped));
  CountFact counts[kMaxOperations];
  for (uint32_t i = 0; i < mapped->operation_count; ++i) {
    const uint64_t calls = __atomic_load_n(&shared.short_calls[i].calls, __ATOMIC_RELAXED);
    if (calls == 0) continue;
    counts[fact.count_facts++] = {i, 0, calls, __atomic_load_n(&shared.short_calls[i].ticks, __ATOMIC_RELAXED)};
  }
  const uint32_t count_bytes = fact.count_facts * static_cast<uint32_t>(sizeof(CountFact));
  uint8_t* payload = frames->Begin(FrameType::kThread, mapped->number,
                                   static_cast<uint32_t>(sizeof(fact)) + count_bytes, last ? kFrameLasting : 0);
  memcpy(payload, &fact, sizeof(fact));
  memcpy(payload + sizeof(fact), counts, count_bytes);
  frames->Seal();
  AppendCallCounts(mapped->number, slot, fact, last, frames);
}

void SlotRecorder::AppendCallCounts(uint32_t number, const ThreadSlot& slot, const ThreadFact& thread, bool last,
                                    FrameBuffer* frames) {
  const bool any = std::ranges::any_of(slot.made, [](uint64_t count) { return count != 0; }) ||
                   std::ranges::any_of(slot.no_room, [](uint64_t count) { return count != 0; });
  if (!any) return;
  CallCountsFact fact{};
  fact.serial = thread.serial;
  fact.process_serial = thread.process_serial;
  fact.start_ticks = thread.start_ticks;
  fact.taken_ticks = thread.taken_ticks;
  memcpy(fact.made, slot.made, sizeof(fact.made));
  memcpy(fact.no_room, slot.no_room, sizeof(fact.no_room));
  memcpy(fact.left, slot.left, sizeof(fact.left));
  fact.not_large = slot.not_large;
  frames->AppendFact(FrameType::kCallCounts, number, fact, last ? kFrameLasting : 0);
}

void SlotRecorder::AppendProcessFact(MappedSegment* mapped, const ProcessSlot& shared, uint64_t end_ticks,
                                     FrameBuffer* frames) const {
  const ProcessSlot slot = Snapshot(shared);
  if (slot.serial == 0) return;
  ProcessFact fact{};
  fact.serial = slot.serial;
  fact.parent_serial = slot.parent_serial;
  fact.pid = slot.pid;
  fact.parent_pid = slot.parent_pid;
  fact.taken_ticks = ReadTicks(clock_);
  const auto outer = outer_pids_.find({mapped->number, slot.serial});
  if (outer != outer_pids_.end()) fact.outer_pid = outer->second;
  fact.state = slot.state;
  fact.flags = slot.flags;
  fact.start_cost = slot.start_cost;
  fact.start_ticks = slot.start_ticks;
  fact.end_ticks = end_ticks;
  fact.live_bytes = slot.live_bytes;
  fact.peak_bytes = slot.peak_bytes;
  fact.late_frees = slot.late_frees;
  fact.late_freed_bytes = slot.late_freed_bytes;
  fact.late_allocations = slot.late_allocations;
  fact.late_allocated_bytes = slot.late_allocated_bytes;
  fact.inherited_bytes = slot.inherited_bytes;
  const SegmentHeader* header = mapped->segment.header;
  for (uint32_t i = 0; i < kDropCauses; ++i) {
    fact.dropped[i] = __atomic_load_n(&header->dropped[i], __ATOMIC_RELAXED);
  }
  frames->AppendFact(FrameType::kProcess, mapped->number, fact, end_ticks != 0 ? kFrameLasting : 0);
  if (end_ticks == 0 || slot.gpu_state == static_cast<uint32_t>(GpuState::kNone)) return;
  frames->AppendFact(FrameType::kGpuHeld, mapped->number, GpuHeldFact{slot.gpu_held_since, slot.serial, 0},
                     kFrameLasting);
}

// Reads names that were set without a hook: by a system call or through /proc. A new thread inherits its creator's
// name, so a name equal to the first thread's counts as none.
void SlotRecorder::ReadKernelNames(MappedSegment* mapped, size_t segments) {
  if (!mapped->same_pids) return;
  const Segment& segment = mapped->segment;
  const uint32_t high = std::min(__atomic_load_n(&segment.header->thread_high, __ATOMIC_ACQUIRE), kThreadSlots);
  std::map<uint32_t, std::array<char, 16>> of_processes;
  const uint32_t most = std::max(kMaxKernelNames / static_cast<uint32_t>(segments), kLeastKernelNames);
  uint32_t read = 0;
  const uint32_t begin = mapped->next_kernel_name;
  for (uint32_t i = 0; i < high && read < most; ++i) {
    const uint32_t at = (begin + i) % high;
    const ThreadSlot& slot = segment.thread_slots[at];
    if (StateOf(slot.state) != SlotState::kLive || __atomic_load_n(&slot.name[0], __ATOMIC_RELAXED) != '\0') continue;
    const uint32_t process = __atomic_load_n(&slot.process_serial, __ATOMIC_RELAXED);
    const auto outer = outer_pids_.find({mapped->number, process});
    const pid_t tid = __atomic_load_n(&slot.tid, __ATOMIC_RELAXED);
    if (outer == outer_pids_.end() || outer->second == tid || tid <= 0) continue;
    const pid_t pid = outer->second;
    const auto [first, added] = of_processes.try_emplace(process);
    if (added) first->second = KernelName(pid, pid);
    const std::array<char, 16> name = KernelName(pid, tid);
    ++read;
    if (name[0] != '\0' && name != first->second) {
      mapped->kernel_names[__atomic_load_n(&slot.serial, __ATOMIC_RELAXED)] = name;
    }
    mapped->next_kernel_name = at + 1;
  }
}

void SlotRecorder::Append(MappedSegment* mapped, FrameBuffer* frames) {
  const Segment& segment = mapped->segment;
  mapped->threads_exited = __atomic_load_n(&segment.header->threads_exited, __ATOMIC_ACQUIRE);
  const uint32_t high = std::min(__atomic_load_n(&segment.header->thread_high, __ATOMIC_ACQUIRE), kThreadSlots);
  for (uint32_t i = 0; i < high; ++i) {
    ThreadSlot* slot = &segment.thread_slots[i];
    const SlotState state = StateOf(slot->state);
    if (state != SlotState::kLive && state != SlotState::kExited) continue;
    AppendThreadFact(mapped, *slot, state == SlotState::kExited, frames);
    if (state == SlotState::kExited) FreeThreadSlot(mapped, i);
  }
  const uint32_t process_high =
      std::min(__atomic_load_n(&segment.header->process_high, __ATOMIC_ACQUIRE), kProcessSlots);
  for (uint32_t i = 0; i < process_high; ++i) {
    if (StateOf(segment.process_slots[i].state) == SlotState::kLive) {
      AppendProcessFact(mapped, segment.process_slots[i], 0, frames);
    }
  }
}

bool SlotRecorder::AppendCounters(MappedSegment* mapped, uint64_t ticks, FrameBuffer* frames) {
  bool changed = false;
  const Segment& segment = mapped->segment;
  const uint32_t high = std::min(__atomic_load_n(&segment.header->process_high, __ATOMIC_ACQUIRE), kProcessSlots);
  for (uint32_t i = 0; i < high; ++i) {
    const ProcessSlot& slot = segment.process_slots[i];
    if (StateOf(slot.state) != SlotState::kLive) continue;
    const ProcessKey key{mapped->number, slot.serial};
    const int64_t live = __atomic_load_n(&slot.live_bytes, __ATOMIC_RELAXED);
    const int64_t peak = __atomic_load_n(&slot.peak_bytes, __ATOMIC_RELAXED);
    const auto [known, is_new] = last_live_.try_emplace(key, Heap{live, peak});
    if (!is_new && known->second.live == live && known->second.peak >= peak) continue;
    // A peak between two samples: recorded one tick before this sample.
    if (!is_new && known->second.peak < peak && peak > live) {
      frames->AppendFact(FrameType::kCounters, mapped->number, CounterFact{ticks - 1, slot.serial, 0, peak});
    }
    known->second = {live, peak};
    frames->AppendFact(FrameType::kCounters, mapped->number, CounterFact{ticks, slot.serial, 0, live});
    changed = true;
  }
  return changed;
}

}  // namespace tbprof
