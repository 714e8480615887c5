// SPDX-License-Identifier: Apache-2.0
//
// The interface that libtbprof_preload.so offers to libtbprof_cupti.so in the same process: the segment, a thread of
// the library's own, and a bypass of the hooks while CUPTI is called. libtbprof_cupti.so finds it by dlsym under
// kGpuBridgeName. Both libraries must come from one build, which `abi` verifies.
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
  uint32_t epoch;  // of this process; another one after a fork, where CUDA is unusable
  ProcessSlot* process;
};

struct GpuBridge {
  uint32_t abi;  // kAbiVersion
  // False: nothing is recorded in this process.
  bool (*get_session)(GpuSession* session);
  // The epoch of the calling process, as in GpuSession.
  uint32_t (*epoch)();
  // Starts a detached thread that no hook records, with all signals blocked. False: it could not be started.
  bool (*start_thread)(void* (*routine)(void*), void* argument);
  // Call this on such a thread: returns the writer for its records. Null: no slot is free.
  ChunkWriter* (*enter_thread)();
  // Between these two calls no hook records the calling thread. end_bypass takes the result of begin_bypass.
  uint64_t (*begin_bypass)();
  void (*end_bypass)(uint64_t previous);
  // Sets the function that is called when the process is about to end without exit handlers or to execute another
  // program.
  void (*at_end)(void (*routine)());
  // The program's use of CUPTI, and who may use CUPTI now.
  CuptiUse* cupti_use;
  // Sets the function that is called before a CUPTI call of the program while tbprof holds CUPTI. It returns when
  // tbprof has released CUPTI.
  void (*set_yield)(void (*suspend)());
  // Returns the writer for records of the calling thread of the program. Null: the thread cannot record now.
  ChunkWriter* (*writer_of_thread)();
  // Sets the observer that receives CUDA's calls from now on. False: this session has no hooks on them.
  bool (*set_observer)(const CudaObserver* observer);
  // Sets the function that is called when the program names a stream by NVTX, on the same thread, with the stream's
  // handle.
  void (*set_stream_namer)(void (*routine)(void* stream, const char* name));
};

inline constexpr char kGpuBridgeName[] = "tbprof_gpu_bridge";
inline constexpr char kCuptiFileName[] = "libtbprof_cupti.so";

// CUDA_INJECTION64_PATH names one library. If it already had a value, the launcher passes that value in the second
// variable.
inline constexpr char kInjectionVariable[] = "CUDA_INJECTION64_PATH";
inline constexpr char kNextInjectionVariable[] = "TBPROF_NEXT_CUDA_INJECTION64_PATH";

}  // namespace tbprof

#endif  // TBPROF_WIRE_GPU_BRIDGE_H_
