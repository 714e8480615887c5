// SPDX-License-Identifier: Apache-2.0
//
// What the parts of the recorder share: one of it in a process.
//
// Process: target. Written by the start, inside the program's cuInit, then by tbprof's own thread, unless stated
// otherwise.
#ifndef TBPROF_CUPTI_RECORDER_STATE_H_
#define TBPROF_CUPTI_RECORDER_STATE_H_

#include "cupti/buffers.h"
#include "cupti/decode.h"
#include "cupti/library.h"
#include "cupti/restarts.h"
#include "cupti/text.h"
#include "wire/gpu_bridge.h"

namespace tbprof::cupti {

enum class Phase : uint32_t { kNone, kRunning, kEnding, kEnded };

inline constexpr char kAside[] = "program: the program uses CUPTI itself";
inline constexpr char kNoWindow[] = "window: no window is open";
inline constexpr char kLimited[] =
    "limited: CUPTI gave kernels no valid times again after 8 restarts, and records only in windows";
static_assert(Restarts::kMost == 8);

struct Recorder {
  const GpuBridge* bridge;
  GpuSession session;
  Library library;
  Buffers buffers;
  Pace pace;
  Decoder decoder;
  ChunkWriter* writer;
  CuptiShare share;           // of CUPTI, while it is held
  bool recording;             // kinds are on
  bool by_hooks;              // and not by CUPTI: observer.h
  bool init_is_over;          // atomic: cuInit has returned
  bool init_end_is_reported;  // a call reports that cuInit has returned
  uint64_t started_ns;
  Restarts restarts;
  uint64_t hooks_clock_offset;
  uint32_t phase;            // Phase, atomic
  uint32_t abandoned;        // atomic: detached by a thread of the program, after our own has ended
  uint32_t pending_written;  // atomic: what came up before there was a thread that writes
  bool flush_is_reported;
  uint64_t unknown_reported;
  const char* paused_for;   // the last that was reported; null: nothing, or that it records
  CuptiLeft left_reported;  // in this pause, of the program's use of CUPTI
  CuptiUse::FirstCall first_reported;

  // Reports from before the library had a thread that writes.
  static constexpr uint32_t kMostPending = 48;
  struct Pending {
    GpuInfoKey key;
    uint64_t ticks;
    Text<512> text;
  };
  Pending pending[kMostPending];
  uint32_t pending_count;
};
extern Recorder g_recorder;

inline bool IsHeld() { return g_recorder.bridge->cupti_use->IsHeld(); }
// Only this process: a fork child has none of the threads, and CUDA is dead in it.
inline bool IsOurProcess() { return g_recorder.bridge->epoch() == g_recorder.session.epoch; }

}  // namespace tbprof::cupti

#endif  // TBPROF_CUPTI_RECORDER_STATE_H_
