// SPDX-License-Identifier: Apache-2.0
// The Python stacks of calls of the CUDA driver. Rules: RULES.md.
#include "preload/cuda_stacks.h"

#include "preload/record.h"
#include "wire/python_current.h"
#include "wire/records.h"

namespace tbprof {

__attribute__((noinline)) void RecordCudaCallStack(uint64_t begin) {
  ThreadState* const thread = CurrentThread();
  if (thread == nullptr) return;
  const uint64_t now = Ticks();
  // Waits carry a stack from 100 us on (Session::Variable): half of that is 50 us.
  if (now - thread->cuda_stack_ticks < g_control->python_wait_ticks / 2) return;
  thread->cuda_stack_ticks = now;
  const uint32_t number = PythonStackOf(thread, now);
  if (number == 0) return;
  Reservation reservation;
  CountMade(thread, kCountedPythonStack);
  if (!BeginRecord(g_attachment.segment, &thread->writer, 1, &reservation)) {
    return CountNoRoom(thread, kCountedPythonStack);
  }
  auto* const record = reinterpret_cast<PythonStackRecord*>(reservation.slots);
  record->ticks = begin;
  record->number = number;
  record->frames = 0;
  record->flags = kPythonStackCall;
  record->reserved = 0;
  CommitRecord(g_attachment.segment, &thread->writer, reservation, RecordKind::kPythonStack, 0, 0);
}

}  // namespace tbprof
