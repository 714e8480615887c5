// SPDX-License-Identifier: Apache-2.0
//
// The client's buffers. One is requested on the thread whose record does not fit, without one the record is dropped. A
// buffer goes back when it is full and its last record is final (by the worker thread), or with a flush.
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "tests/sim/cupti.h"
#include "tests/sim/modes.h"

namespace tbprof::sim::cupti {
namespace {

struct Buffer {
  uint8_t* data = nullptr;
  size_t size = 0;
  size_t used = 0;
  size_t records = 0;
  size_t max_records = 0;
  int64_t final_at = 0;
};

// Where a thread writes; in global mode there is one for all. Never freed: a thread's exit leaves its buffer to the
// next thread, or to a flush.
struct Slot {
  Lock lock;
  Buffer buffer;
  std::atomic<bool> owned{false};
};

std::atomic<CUpti_BuffersCallbackRequestFunc> request_function{nullptr};
std::atomic<CUpti_BuffersCallbackCompleteFunc> complete_function{nullptr};
std::atomic<bool> zeroed{false};
std::atomic<int> per_thread{-1};
std::atomic<uint32_t> dropped{0};
std::atomic<uint64_t> appended{0};
std::atomic<uint32_t> period_ms{0};

Slot global_slot;
Lock slots_lock;
std::vector<Slot*>& Slots() {
  static auto* slots = new std::vector<Slot*>;
  return *slots;
}

Lock full_lock;
std::vector<Buffer>& Full() {
  static auto* full = new std::vector<Buffer>;
  return *full;
}

std::atomic<uint32_t> kick{0};
std::atomic<bool> worker_started{false};

int64_t LateNs() {
  static const int64_t late = mode::late_ms() * 1000000;
  return late;
}

bool Final(const Buffer& buffer) { return buffer.final_at == 0 || buffer.final_at + LateNs() <= Now(); }

// ---- giving back

struct DeviceTimes {
  size_t start;
  size_t end;
};

bool TimesOf(uint32_t kind, DeviceTimes* out) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
    case CUPTI_ACTIVITY_KIND_MEMCPY:
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
    case CUPTI_ACTIVITY_KIND_MEMSET:
      *out = {16, 24};
      return true;
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
      *out = {8, 16};
      return true;
    default:
      return false;
  }
}

// A forced flush returns what is not over as it stands: no end, and no start if it has not begun.
void CutUnfinished(const Buffer& buffer) {
  const uint64_t now = ToTimestamp(Now() - LateNs());
  for (size_t at = 0; at + sizeof(uint32_t) <= buffer.used;) {
    uint32_t kind = 0;
    memcpy(&kind, buffer.data + at, sizeof(kind));
    const size_t size = RecordSize(kind);
    if (size == 0) return;
    DeviceTimes times;
    if (TimesOf(kind, &times)) {
      uint64_t start = 0, end = 0;
      memcpy(&start, buffer.data + at + times.start, sizeof(start));
      memcpy(&end, buffer.data + at + times.end, sizeof(end));
      const uint64_t none = 0;
      if (end > now) memcpy(buffer.data + at + times.end, &none, sizeof(none));
      if (start > now) memcpy(buffer.data + at + times.start, &none, sizeof(none));
    }
    at += size;
  }
}

// Records from one end and from the other in turn: kernels come before and after their calls.
void Shuffle(const Buffer& buffer) {
  std::vector<std::pair<size_t, size_t>> records;
  for (size_t at = 0; at + sizeof(uint32_t) <= buffer.used;) {
    uint32_t kind = 0;
    memcpy(&kind, buffer.data + at, sizeof(kind));
    const size_t size = RecordSize(kind);
    if (size == 0) return;
    records.emplace_back(at, size);
    at += size;
  }
  std::vector<uint8_t> other;
  other.reserve(buffer.used);
  for (size_t first = 0, last = records.size(); first < last;) {
    const auto add = [&](const std::pair<size_t, size_t>& record) {
      other.insert(other.end(), buffer.data + record.first, buffer.data + record.first + record.second);
    };
    add(records[--last]);
    if (first < last) add(records[first++]);
  }
  memcpy(buffer.data, other.data(), other.size());
}

// Held while buffers are given back: when a flush returns, what the worker had taken before is there, too.
Lock deliver_lock;

void Deliver(const Buffer& buffer) {
  const auto complete = complete_function.load();
  if (complete == nullptr) return;
  if (mode::unordered() != 0) Shuffle(buffer);
  complete(nullptr, 0, buffer.data, buffer.size, buffer.used);
}

// Full buffers whose records are all final.
std::vector<Buffer> TakeFinal(bool all) {
  std::vector<Buffer> taken;
  Guard guard(full_lock);
  auto& full = Full();
  for (auto it = full.begin(); it != full.end();) {
    if (!all && !Final(*it)) {
      ++it;
      continue;
    }
    taken.push_back(*it);
    it = full.erase(it);
  }
  return taken;
}

int64_t NextFinal() {
  int64_t next = INT64_MAX;
  Guard guard(full_lock);
  for (const Buffer& buffer : Full()) next = std::min(next, buffer.final_at + LateNs());
  return next;
}

void* Work(void*) {
  pthread_setname_np(pthread_self(), "cupti-worker");
  for (;;) {
    const uint32_t seen = kick.load();
    {
      Guard guard(deliver_lock);
      for (const Buffer& buffer : TakeFinal(false)) Deliver(buffer);
    }
    int64_t next = NextFinal();
    const uint32_t period = period_ms.load();
    if (period != 0) next = std::min(next, Now() + period * 1000000L);
    FutexWait(&kick, seen, next == INT64_MAX ? -1 : next);
  }
  return nullptr;
}

void StartWorker() {
  if (worker_started.exchange(true)) return;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  if (pthread_create(&thread, nullptr, Work, nullptr) == 0) {
    pthread_detach(thread);
  } else {
    worker_started.store(false);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Kick() {
  kick.fetch_add(1);
  FutexWake(&kick);
}

// ---- filling

// The thread's slot is given free when it ends.
pthread_key_t exit_key;
thread_local Slot* thread_slot = nullptr;

Slot* OwnSlot() {
  if (!PerThread()) return &global_slot;
  if (thread_slot != nullptr) return thread_slot;
  static const bool ready =
      pthread_key_create(&exit_key, [](void* slot) { static_cast<Slot*>(slot)->owned.store(false); }) == 0;
  Slot* slot = nullptr;
  {
    Guard guard(slots_lock);
    for (Slot* other : Slots()) {
      bool no = false;
      if (other->owned.compare_exchange_strong(no, true)) {
        slot = other;
        break;
      }
    }
    if (slot == nullptr) {
      slot = new Slot;
      slot->owned.store(true);
      Slots().push_back(slot);
    }
  }
  thread_slot = slot;
  if (ready) pthread_setspecific(exit_key, slot);
  return slot;
}

bool Room(const Buffer& buffer, size_t size) {
  return buffer.data != nullptr && buffer.used + size <= buffer.size &&
         (buffer.max_records == 0 || buffer.records < buffer.max_records);
}

// Under the slot's lock, on the application's thread.
bool Ask(Slot* slot) {
  const auto request = request_function.load();
  if (request == nullptr) return false;
  Buffer fresh;
  request(&fresh.data, &fresh.size, &fresh.max_records);
  if (fresh.data == nullptr || fresh.size == 0) {
    static const int64_t crashes = mode::null_buffer_crashes();
    if (crashes == 1 || (crashes == -1 && !AtLeast(27))) raise(SIGSEGV);
    return false;
  }
  if (!zeroed.load(std::memory_order_relaxed)) memset(fresh.data, 0, fresh.size);
  slot->buffer = fresh;
  return true;
}

void Write(Slot* slot, const void* record, size_t size, int64_t final_at) {
  memcpy(slot->buffer.data + slot->buffer.used, record, size);
  slot->buffer.used += size;
  ++slot->buffer.records;
  slot->buffer.final_at = std::max(slot->buffer.final_at, final_at);
}

bool MakeRoom(Slot* slot, size_t size, bool* filled) {
  if (Room(slot->buffer, size)) return true;
  if (slot->buffer.data != nullptr) {
    Guard guard(full_lock);
    Full().push_back(slot->buffer);
    slot->buffer = Buffer();
    *filled = true;
  }
  return Ask(slot) && Room(slot->buffer, size);
}

}  // namespace

void SetCallbacks(CUpti_BuffersCallbackRequestFunc request, CUpti_BuffersCallbackCompleteFunc complete) {
  request_function.store(request);
  complete_function.store(complete);
  StartWorker();
}

bool HaveCallbacks() { return request_function.load() != nullptr; }

void SetPerThread(bool on) { per_thread.store(on ? 1 : 0); }

bool PerThread() {
  int on = per_thread.load(std::memory_order_relaxed);
  if (on < 0) {
    const int64_t wanted = mode::per_thread();
    on = wanted >= 0 ? static_cast<int>(wanted) : AtLeast(130000) ? 1 : 0;
    per_thread.store(on);
  }
  return on != 0;
}

void SetZeroed(bool on) { zeroed.store(on); }
bool Zeroed() { return zeroed.load(); }
void SetPeriod(uint32_t milliseconds) {
  period_ms.store(milliseconds);
  Kick();
}

void Append(const void* record, size_t size, int64_t final_at) {
  static const auto drop = static_cast<uint64_t>(mode::drop());
  static const auto incomplete = static_cast<uint64_t>(mode::incomplete());
  static const auto unknown = static_cast<uint64_t>(incomplete != 0 ? incomplete : mode::unknown_kind());
  const uint64_t number = drop + unknown == 0 ? 0 : appended.fetch_add(1) + 1;
  if (drop != 0 && number % drop == 0) {
    dropped.fetch_add(1);
    return;
  }
  Slot* slot = OwnSlot();
  bool filled = false;
  {
    Guard guard(slot->lock);
    if (!MakeRoom(slot, size, &filled)) {
      dropped.fetch_add(1);
    } else {
      Write(slot, record, size, final_at);
      if (unknown != 0 && number % unknown == 0) {
        struct {
          uint32_t kind;
          uint8_t rest[44];
        } odd = {incomplete != 0 ? static_cast<uint32_t>(CUPTI_ACTIVITY_KIND_INVALID) : kUnknownKind, {}};
        if (MakeRoom(slot, sizeof(odd), &filled)) Write(slot, &odd, sizeof(odd), 0);
      }
    }
  }
  if (filled) Kick();
}

void Flush(bool forced) {
  static std::atomic<int64_t> flushes{0};
  const int64_t number = flushes.fetch_add(1) + 1;
  if (mode::flush_crashes_at() == number) raise(SIGSEGV);
  if (mode::slow_flush_ms() != 0) WaitUntil(Now() + mode::slow_flush_ms() * 1000000);
  RefreshClock();
  Guard delivering(deliver_lock);
  std::vector<Buffer> taken = TakeFinal(forced);
  std::vector<Slot*> slots;
  {
    Guard guard(slots_lock);
    slots = Slots();
  }
  slots.push_back(&global_slot);
  for (Slot* slot : slots) {
    Guard guard(slot->lock);
    if (slot->buffer.data == nullptr || slot->buffer.used == 0) continue;
    if (!forced && !Final(slot->buffer)) continue;
    taken.push_back(slot->buffer);
    slot->buffer = Buffer();
  }
  for (const Buffer& buffer : taken) {
    if (forced && !Final(buffer)) CutUnfinished(buffer);
    Deliver(buffer);
  }
}

uint32_t TakeDropped() { return dropped.exchange(0); }

void ResetBuffers() {
  request_function.store(nullptr);
  complete_function.store(nullptr);
  period_ms.store(0);
  {
    Guard guard(full_lock);
    Full().clear();
  }
  std::vector<Slot*> slots;
  {
    Guard guard(slots_lock);
    slots = Slots();
  }
  slots.push_back(&global_slot);
  for (Slot* slot : slots) {
    Guard guard(slot->lock);
    slot->buffer = Buffer();
  }
}

}  // namespace tbprof::sim::cupti
