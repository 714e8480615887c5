// SPDX-License-Identifier: Apache-2.0
// Ranges that open windows. Rules: RULES.md.
#include "preload/triggers.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>

#include "preload/gpu.h"
#include "preload/state.h"
#include "wire/raw.h"

namespace tbprof {
namespace {

constexpr uint64_t kNoName = UINT64_MAX;

ProcessSlot* OwnSlot() { return &g_attachment.segment.process_slots[g_fork_page->process_slot]; }

void ReportBorder(uint64_t ticks, uint32_t end) {
  Triggers* const triggers = TriggersOf(g_attachment.segment.header);
  const uint32_t number = __atomic_add_fetch(&triggers->reported, 1, __ATOMIC_SEQ_CST);
  RangeBorder* const border = &triggers->borders[number % kRangeBorders];
  border->ticks = ticks;
  border->process_serial = g_fork_page->epoch;
  __atomic_store_n(&border->turn, number * 2 + end, __ATOMIC_RELEASE);
}

// Called after the report: a launcher that is about to disarm families first reads whether something was reported and
// then compare-and-exchanges the control word. The word changes even if all families are armed, so that this exchange
// fails.
void Arm() {
  SegmentHeader* const header = g_attachment.segment.header;
  const uint32_t families = __atomic_load_n(&TriggersOf(header)->families, __ATOMIC_RELAXED);
  if (families == 0) return;
  __atomic_fetch_add(&header->control, kControlTurn, __ATOMIC_SEQ_CST);
  __atomic_fetch_or(&header->control, families, __ATOMIC_SEQ_CST);
  // If CUDA is used, the thread that turns device activity on sleeps on this futex.
  if (__atomic_load_n(&g_gpu_at_end, __ATOMIC_ACQUIRE) == nullptr) return;
  ProcessSlot* const process = OwnSlot();
  __atomic_fetch_add(&process->gpu_flush_requested, 1, __ATOMIC_ACQ_REL);
  raw::Call(SYS_futex, raw::Pointer(&process->gpu_flush_requested), FUTEX_WAKE, INT_MAX);
}

}  // namespace

uint64_t g_waited_for = kNoName;

void SetTrigger(SegmentHeader* header, const SessionVariable& session) {
  Triggers* const triggers = TriggersOf(header);
  triggers->kind = session.trigger_kind;
  triggers->name = session.trigger_name;
  triggers->families = session.trigger_families & kFamilyAll;
  if (session.trigger_kind == static_cast<uint32_t>(TriggerKind::kRange)) g_waited_for = session.trigger_name;
}

void BeginWaitedFor() {
  if (!g_attachment.attached) return;
  const uint64_t ticks = Ticks();
  if (__atomic_fetch_add(&OwnSlot()->ranges_open, 1, __ATOMIC_SEQ_CST) != 0) return;
  ReportBorder(ticks, 0);
  Arm();
}

void EndWaitedFor() {
  if (!g_attachment.attached) return;
  uint32_t* const open = &OwnSlot()->ranges_open;
  // The count must never be below zero, not even for a moment: a range that began then would be taken for a further one
  // and not be reported. An end too many is e.g. of a range that the parent process began.
  constexpr int kTries = 1000;
  uint32_t before = __atomic_load_n(open, __ATOMIC_SEQ_CST);
  for (int i = 0; i < kTries && before != 0; ++i) {
    if (__atomic_compare_exchange_n(open, &before, before - 1, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
      if (before == 1) ReportBorder(Ticks(), 1);
      return;
    }
  }
}

bool IsCudaProfilerWaitedFor() {
  return g_attachment.attached &&
         TriggersOf(g_attachment.segment.header)->kind == static_cast<uint32_t>(TriggerKind::kCudaProfiler);
}

void SwitchCudaProfiler(bool on) {
  if (!IsCudaProfilerWaitedFor() || CurrentThread() == nullptr) return;
  const uint64_t ticks = Ticks();
  const uint32_t before = __atomic_exchange_n(&OwnSlot()->ranges_open, on ? 1u : 0u, __ATOMIC_SEQ_CST);
  if (on && before == 0) {
    ReportBorder(ticks, 0);
    Arm();
  }
  // Read again: another thread may have begun the range since, and an end must not be earlier than its begin.
  if (!on && before != 0) ReportBorder(Ticks(), 1);
}

}  // namespace tbprof
