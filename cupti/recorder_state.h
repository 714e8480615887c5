// SPDX-License-Identifier: Apache-2.0
//
// The state that the parts of the recorder share, one per process.
//
// Process: target. The start writes it inside the program's cuInit, then tbprof's own thread, unless stated otherwise.
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
static_assert(HasPauseCause(kAside, kPauseProgram) && HasPauseCause(kNoWindow, kPauseWindow) &&
              HasPauseCause(kLimited, kPauseLimited));

struct Recorder {
  const GpuBridge* bridge;
  GpuSession session;
  Library library;
  Buffers buffers;
  Pace pace;
  Decoder decoder;
  ChunkWriter* writer;
  CuptiShare share;           // of CUPTI, while it is held
  bool recording;             // activity is being recorded
  bool by_hooks;              // recorded by hooks, not by CUPTI: observer.h
  bool init_is_over;          // atomic: cuInit has returned
  bool init_end_is_reported;  // a callback will set init_is_over
  uint64_t started_ns;
  Restarts restarts;
  uint64_t hooks_clock_offset;
  const void* own_thread;    // thread pointer of tbprof's own thread
  bool flushing;             // atomic: tbprof's own thread is in a flush
  uint32_t phase;            // Phase, atomic
  uint32_t abandoned;        // atomic: a thread of the program detaches, as tbprof's own thread has ended
  uint32_t pending_written;  // atomic: tbprof's own thread has written `pending`, or cannot write
  bool flush_is_reported;
  uint64_t unknown_reported;
  const char* paused_for;   // the reason that was reported last; null: none, or recording was reported
  CuptiLeft left_reported;  // the last report, in this pause, of the program's use of CUPTI
  CuptiUse::FirstCall first_reported;

  // Reports made before tbprof's own thread could write records.
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
// False in a fork child: it has none of the threads, and CUDA does not work in it.
inline bool IsOurProcess() { return g_recorder.bridge->epoch() == g_recorder.session.epoch; }

}  // namespace tbprof::cupti

#endif  // TBPROF_CUPTI_RECORDER_STATE_H_
