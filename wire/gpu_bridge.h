// SPDX-License-Identifier: Apache-2.0
//
// What libtbprof_preload.so lends libtbprof_cupti.so in the same process: the segment, a thread of the library's own,
// and a bypass of the hooks while CUPTI is called. Found by dlsym under kGpuBridgeName; both libraries come from one
// build, which `abi` proves.
//
// Process: target. The functions may be called by any thread outside of signal handlers; none allocates or waits.
#ifndef TBPROF_WIRE_GPU_BRIDGE_H_
#define TBPROF_WIRE_GPU_BRIDGE_H_

#include <stdint.h>

#include "wire/chunk.h"
#include "wire/cuda_observer.h"
#include "wire/cupti_use.h"
#include "wire/segment.h"

namespace tbprof {

struct GpuSession {
  Segment segment;
  ClockKind clock;
  uint32_t epoch;  // of this process: after a fork it is another one, and CUDA is gone
  ProcessSlot* process;
};

struct GpuBridge {
  uint32_t abi;  // kAbiVersion
  // False: nothing is recorded in this process.
  bool (*get_session)(GpuSession* session);
  // Of the calling process, as in GpuSession.
  uint32_t (*epoch)();
  // A detached thread that no hook records, with all signals blocked. False: it could not be made.
  bool (*start_thread)(void* (*routine)(void*), void* argument);
  // On such a thread: what it writes records with. Null: no slot is free.
  ChunkWriter* (*enter_thread)();
  // Between the two no hook records what the calling thread does. The second takes what the first returned.
  uint64_t (*begin_bypass)();
  void (*end_bypass)(uint64_t previous);
  // Called when the process is about to end or to become another program without exit handlers.
  void (*at_end)(void (*routine)());
  // What the program has of CUPTI; who may use it now.
  CuptiUse* cupti_use;
  // Called before a call of the program's to CUPTI is handed on while tbprof holds it. Returns when it does not.
  void (*set_yield)(void (*suspend)());
  // What the calling thread of the program records with. Null: it cannot now.
  ChunkWriter* (*writer_of_thread)();
  // Receives CUDA's calls from now on. False: no hooks in this session.
  bool (*set_observer)(const CudaObserver* observer);
  // Called with the names that the program gives to streams by NVTX, on the thread that does, with the stream's handle.
  void (*set_stream_namer)(void (*routine)(void* stream, const char* name));
};

inline constexpr char kGpuBridgeName[] = "tbprof_gpu_bridge";
inline constexpr char kCuptiFileName[] = "libtbprof_cupti.so";

// Set by the launcher where CUDA_INJECTION64_PATH, which names one library, had a value already.
inline constexpr char kInjectionVariable[] = "CUDA_INJECTION64_PATH";
inline constexpr char kNextInjectionVariable[] = "TBPROF_NEXT_CUDA_INJECTION64_PATH";

}  // namespace tbprof

#endif  // TBPROF_WIRE_GPU_BRIDGE_H_
