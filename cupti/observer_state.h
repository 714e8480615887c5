// SPDX-License-Identifier: Apache-2.0
//
// The state that the parts of the observer share, one per process. Each part is a pair of files; observer.h is the
// interface for the rest of the library.
//
// Process: target. Members that several threads write are accessed atomically.
#ifndef TBPROF_CUPTI_OBSERVER_STATE_H_
#define TBPROF_CUPTI_OBSERVER_STATE_H_

#include "cupti/context_state.h"
#include "cupti/driver_api.h"
#include "cupti/futex.h"
#include "cupti/name_record.h"
#include "cupti/text.h"
#include "wire/counted.h"
#include "wire/gpu_bridge.h"

namespace tbprof::cupti {

inline constexpr uint32_t kMostContexts = 32;
inline constexpr uint32_t kWorks = 1024;  // per context
inline constexpr uint32_t kAnchors = 8;
inline constexpr uint32_t kFunctions = 16384;
inline constexpr uint32_t kStreams = 4096;
inline constexpr uint32_t kGreens = 64;
inline constexpr uint32_t kAnyDevice = UINT32_MAX;
// The observer's numbers begin above CUPTI's own numbers: one process may have records of both.
inline constexpr uint32_t kFirstCall = 8192;
inline constexpr uint32_t kFirstName = 1u << 24;
inline constexpr uint32_t kFirstStream = 16;

// One moment on both clocks; an event marks it on the device.
struct ClockAnchor {
  void* event;
  uint64_t ns;     // CLOCK_MONOTONIC; 0: none
  uint32_t users;  // number of works whose times refer to it
};

struct Work {
  void *before, *after;
  uint32_t next;  // index + 1 of the next work in its list
  uint32_t anchor;
  uint32_t name;      // of a kernel
  uint64_t ended_ns;  // 0: the second event marks the end
  CudaOperation operation;
};

struct Context {
  uint32_t state;  // ContextState
  int device;
  void* handle;
  void* stream;  // for the events of the anchors
  bool is_recorded;
  uint64_t legacy_end;  // Stream::last_end of the legacy default stream
  ClockAnchor anchors[kAnchors];
  uint32_t anchor;  // index of the latest
  uint64_t unused;  // free works: index + 1 | number of changes << 32
  uint32_t available;
  uint32_t made;
  uint32_t ready;           // submitted, latest first: index + 1
  uint32_t oldest, newest;  // submitted, in order: index + 1; only for tbprof's own thread
  uint32_t pending;
  Work works[kWorks];
};

struct Function {
  uint64_t handle;
  uint64_t text;  // hash of its name
  uint32_t name;
  uint32_t is_kernel;
  uint32_t known;  // the members below are set
  int registers, shared, local;
};

struct Stream {
  uint64_t handle;
  uint64_t last_end;  // end of its latest work; only for tbprof's own thread
  uint32_t number;
};

// A part of a device, whose streams accept events of the primary context ("from the same primary context", cuda.h on
// cuGreenCtxRecordEvent). It may be current to only one thread at a time, so tbprof never makes it current.
struct GreenContext {
  uint64_t handle;  // CUgreenCtx; 0: free
  void* context;    // the result of its conversion; null: no conversion was observed
  void* primary;    // null: not queried yet
  uint32_t device;
};

struct Observer {
  const GpuBridge* bridge;
  GpuSession session;
  Driver driver;
  ChunkWriter* writer;  // of tbprof's own thread
  uint64_t offset;      // clock of the records minus CLOCK_MONOTONIC, in ns
  uint32_t active;      // calls are recorded
  uint32_t thread_gone;
  uint32_t correlation;
  uint32_t names;
  uint32_t low;  // atomic: tbprof's own thread was woken because few events are available
  uint64_t recorded_devices;
  void* handles[kMostContexts];  // of the contexts, close together for the search
  Context contexts[kMostContexts];
  Function functions[kFunctions];
  Stream streams[kStreams];
  uint32_t stream_count;
  uint32_t green_end;  // only places below this index were ever used
  GreenContext greens[kGreens];
};
extern Observer g_observer;

inline void WakeCollector() { WakeOwnThread(g_observer.session.process); }

inline uint64_t Now() { return ReadMonotonic() + g_observer.offset; }

// Hooks do not record the calls that CUDA makes for the observer.
class ScopedHookBypass {
 public:
  ScopedHookBypass() : state_(g_observer.bridge->begin_bypass()) {}
  ~ScopedHookBypass() { g_observer.bridge->end_bypass(state_); }

 private:
  uint64_t state_;
};

// Permits the observer's CUDA calls while another thread captures a graph in global mode: they would end that capture.
class ScopedRelaxedCapture {
 public:
  ScopedRelaxedCapture() {
    if (g_observer.driver.cuThreadExchangeStreamCaptureMode != nullptr)
      g_observer.driver.cuThreadExchangeStreamCaptureMode(&mode_);
  }
  ~ScopedRelaxedCapture() {
    if (g_observer.driver.cuThreadExchangeStreamCaptureMode != nullptr)
      g_observer.driver.cuThreadExchangeStreamCaptureMode(&mode_);
  }

 private:
  int mode_ = kCaptureRelaxed;
};

// Begins a zeroed record of the calling thread. Null: no room.
template <typename Record>
Record* BeginFor(ChunkWriter* writer, Reservation* reservation) {
  const bool has_room = BeginRecord(g_observer.session.segment, writer, sizeof(Record) / kSlotBytes, reservation);
  CountRecord<Record>(writer->thread, has_room);
  if (!has_room) return nullptr;
  auto* const record = reinterpret_cast<Record*>(reservation->slots);
  *record = {};
  return record;
}
inline void Commit(ChunkWriter* writer, const Reservation& reservation, RecordKind kind, uint32_t aux, uint8_t flags) {
  CommitRecord(g_observer.session.segment, writer, reservation, kind, flags, static_cast<uint16_t>(aux));
}

inline bool WriteName(ChunkWriter* writer, GpuNameKind kind, uint64_t id, const char* text) {
  return RecordName(g_observer.session.segment, writer, kind, id, text, TextLength(text, kMaxName));
}

inline uint32_t NumberOf(const Context* context) {
  return context == nullptr ? 0 : static_cast<uint32_t>(context - g_observer.contexts) + 1;
}
inline uint32_t DeviceOf(const Context* context) {
  return context == nullptr ? 0 : static_cast<uint32_t>(context->device);
}

}  // namespace tbprof::cupti

#endif  // TBPROF_CUPTI_OBSERVER_STATE_H_
