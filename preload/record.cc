// SPDX-License-Identifier: Apache-2.0
// Rules: RULES.md.
#include "preload/record.h"

#include "preload/exponential.h"
#include "preload/modules.h"
#include "preload/python.h"
#include "wire/compact_span.h"

namespace tbprof {
namespace {

constexpr size_t kMaxText = 8 * 1024;

void CopyBytes(void* to, const void* from, size_t size) {
  auto* out = static_cast<unsigned char*>(to);
  const auto* in = static_cast<const unsigned char*>(from);
  for (size_t i = 0; i < size; ++i) out[i] = in[i];
}

}  // namespace

size_t TextLength(const char* text, size_t limit) {
  size_t length = 0;
  while (length < limit && text[length] != '\0') ++length;
  return length;
}

void BeginTimedAs(WaitScope* wait, uint32_t operation, uint64_t object, const void* call_site) {
  BeginWait(wait, static_cast<uint16_t>(operation), static_cast<uint8_t>(operation >> 16), object, call_site);
}

__attribute__((noinline)) void CountLeft(ThreadState* thread) {
  ThreadSlot* const slot = thread->writer.thread;
  if (__atomic_load_n(&slot->wait_since, __ATOMIC_RELAXED) == 0 || slot->wait_operation >= kOperationCount) return;
  AddThisThread(&slot->left[kCountedAs[slot->wait_operation]], uint64_t{1});
}

void EndTimed(WaitScope* wait, int64_t result, int error) { EndWait(wait, result, error); }

__attribute__((noinline)) void RecordSpan(ThreadState* thread, const WaitScope& wait, uint64_t ticks, int64_t result,
                                          int error, bool with_python) {
  // May find an interpreter, so it precedes PythonStackOf.
  NoteCodeAddress(thread, wait.call_site);
  const bool is_long = ticks >= __atomic_load_n(&g_control->python_wait_ticks, __ATOMIC_RELAXED);
  const uint32_t python_stack = is_long || with_python ? PythonStackOf(thread, wait.start + ticks) : 0;
  Reservation reservation;
  if (__builtin_expect(
          python_stack == 0 && FitsCompactSpan(wait.start, ticks, wait.object, wait.call_site, result, error), 1)) {
    if (!BeginRecord(g_attachment.segment, &thread->writer, 1, &reservation)) {
      return CountNoRoom(thread, wait.counted_as);
    }
    const uint8_t flags = PackSpan(reinterpret_cast<CompactSpanRecord*>(reservation.slots), wait.start, ticks,
                                   wait.object, wait.call_site, result, error);
    CommitRecord(g_attachment.segment, &thread->writer, reservation, RecordKind::kCompactSpan, flags, wait.operation);
    return;
  }
  if (!BeginRecord(g_attachment.segment, &thread->writer, 2, &reservation)) {
    return CountNoRoom(thread, wait.counted_as);
  }
  auto* span = reinterpret_cast<SpanRecord*>(reservation.slots);
  span->start = wait.start;
  span->ticks = ticks;
  span->object = wait.object;
  span->call_site = wait.call_site;
  span->result = result;
  span->error = error;
  span->python_stack = python_stack;
  span->reserved1 = 0;
  CommitRecord(g_attachment.segment, &thread->writer, reservation, RecordKind::kSpan, error != 0 ? kRecordFailed : 0,
               wait.operation);
}

void RecordThreadStart(ThreadState* thread, const ThreadSlot* slot, uint8_t flags) {
  Reservation reservation;
  if (!BeginRecord(g_attachment.segment, &thread->writer, 2, &reservation)) return;
  auto* record = reinterpret_cast<ThreadStartRecord*>(reservation.slots);
  record->ticks = slot->start_ticks;
  record->start_routine = slot->start_routine;
  record->creator_serial = slot->creator_serial;
  record->tid = slot->tid;
  record->created_ticks = slot->creator_serial == 0 ? 0 : thread->created_ticks;
  CommitRecord(g_attachment.segment, &thread->writer, reservation, RecordKind::kThreadStart, flags, 0);
}

void RecordThreadExit(ThreadState* thread) {
  Reservation reservation;
  if (!BeginRecord(g_attachment.segment, &thread->writer, 1, &reservation)) return;
  reinterpret_cast<ThreadExitRecord*>(reservation.slots)->ticks = Ticks();
  CommitRecord(g_attachment.segment, &thread->writer, reservation, RecordKind::kThreadExit, 0, 0);
}

void RecordThreadName(ThreadState* thread, const char* name, size_t length, int tid) {
  Reservation reservation;
  if (!BeginRecord(g_attachment.segment, &thread->writer, 1 + SlotsFor(length), &reservation)) return;
  auto* record = reinterpret_cast<ThreadNameRecord*>(reservation.slots);
  record->ticks = Ticks();
  record->thread_serial = tid == 0 ? thread->writer.thread->serial : 0;
  record->tid = tid;
  record->text_length = length;
  CopyBytes(record + 1, name, length);
  CommitRecord(g_attachment.segment, &thread->writer, reservation, RecordKind::kThreadName, 0, 0);
}

void RecordProcessInfo(ThreadState* thread, ProcessInfoKey key, const char* text, size_t length) {
  const size_t kept = length < kMaxText ? length : kMaxText;
  Reservation reservation;
  if (!BeginRecord(g_attachment.segment, &thread->writer, 1 + SlotsFor(kept), &reservation)) return;
  auto* record = reinterpret_cast<ProcessInfoRecord*>(reservation.slots);
  record->ticks = Ticks();
  record->text_length = length;
  CopyBytes(record + 1, text, kept);
  CommitRecord(g_attachment.segment, &thread->writer, reservation, RecordKind::kProcessInfo, 0,
               static_cast<uint16_t>(key));
}

void RecordExec(ThreadState* thread, uint16_t operation, const char* path, size_t length, uint8_t flags, int32_t pid) {
  const size_t kept = length < kMaxText ? length : kMaxText;
  constexpr uint8_t kCounted = CountedKindOf(kFamilyProcess);
  CountMade(thread, kCounted);
  Reservation reservation;
  if (!BeginRecord(g_attachment.segment, &thread->writer, 1 + SlotsFor(kept), &reservation)) {
    return CountNoRoom(thread, kCounted);
  }
  auto* record = reinterpret_cast<ExecRecord*>(reservation.slots);
  record->ticks = Ticks();
  record->text_length = length;
  record->pid = pid;
  record->reserved = 0;
  CopyBytes(record + 1, path, kept);
  CommitRecord(g_attachment.segment, &thread->writer, reservation, RecordKind::kExec, flags, operation);
}

int64_t NextSampleDistance(ThreadState* thread) {
  // xorshift64*
  uint64_t x = thread->random;
  x ^= x >> 12;
  x ^= x << 25;
  x ^= x >> 27;
  thread->random = x;
  const uint64_t bits = (x * 0x2545f4914f6cdd1dull) >> (64 - kExponentialBits);
  const uint64_t interval = __atomic_load_n(&g_control->malloc_interval, __ATOMIC_RELAXED);
  thread->sample_interval = interval < 1 ? 1 : static_cast<int64_t>(interval);
  const double distance = ExponentialOf(bits | 1) * static_cast<double>(thread->sample_interval);
  return distance < 1 ? 1 : static_cast<int64_t>(distance);
}

}  // namespace tbprof
