// SPDX-License-Identifier: Apache-2.0
//
// The interface by which the hooks on CUDA's driver interface (libtbprof_preload.so) report to the recorder without
// CUPTI (libtbprof_cupti.so): each call of wire/cuda_calls.def, before and after the real call.
//
// Process: target. Any thread that calls CUDA, also inside a signal handler if the program does that. The structures
// are prefixes of the corresponding ones in cuda.h; tests/unit/cupti/cuda_calls_test.cc compares them.
#ifndef TBPROF_WIRE_CUDA_OBSERVER_H_
#define TBPROF_WIRE_CUDA_OBSERVER_H_

#include <stddef.h>
#include <stdint.h>

#include "wire/records.h"

namespace tbprof {

// CUlaunchConfig.
struct CudaLaunchConfig {
  unsigned grid_x, grid_y, grid_z;
  unsigned block_x, block_y, block_z;
  unsigned shared_bytes;
  void* stream;
};

// CUDA_LAUNCH_PARAMS.
struct CudaLaunch {
  void* function;
  unsigned grid_x, grid_y, grid_z;
  unsigned block_x, block_y, block_z;
  unsigned shared_bytes;
  void* stream;
  void** parameters;
};

// CUDA_MEMCPY2D and CUDA_MEMCPY3D; CUDA_MEMCPY3D_PEER is the latter with contexts in the reserved members.
// CUmemorytype: 1 host, 2 device, 3 array, 4 by address.
struct CudaCopy2d {
  size_t source_x, source_y;
  int source_type;
  const void* source_host;
  uint64_t source_device;
  void* source_array;
  size_t source_pitch;
  size_t destination_x, destination_y;
  int destination_type;
  void* destination_host;
  uint64_t destination_device;
  void* destination_array;
  size_t destination_pitch;
  size_t width, height;
};
struct CudaCopy3d {
  size_t source_x, source_y, source_z, source_level;
  int source_type;
  const void* source_host;
  uint64_t source_device;
  void* source_array;
  void* source_reserved;
  size_t source_pitch, source_height;
  size_t destination_x, destination_y, destination_z, destination_level;
  int destination_type;
  void* destination_host;
  uint64_t destination_device;
  void* destination_array;
  void* destination_reserved;
  size_t destination_pitch, destination_height;
  size_t width, height, depth;
};

// CUDA_MEMCPY3D_BATCH_OP; CUmemcpy3DOperandType: 1 by address, 2 array.
struct CudaBatchOperand {
  int type;
  uint64_t address;
  uint64_t place[3];
};
struct CudaBatchCopy3d {
  CudaBatchOperand source, destination;
  size_t width, height, depth;
  int order;
  unsigned flags;
};

// CUmemLocation; CUmemLocationType: 1 a device, anything else the host.
struct CudaLocation {
  int type, id;
};
// CUmemAllocationProp.
struct CudaMemoryProperties {
  int type, handle_types;
  CudaLocation location;
  void* reserved;
  uint64_t flags;
};

enum class CudaCall : uint16_t {
#define TBPROF_CUDA_CALL(symbol, ...) symbol,
#define TBPROF_CUDA_STREAM_CALL(symbol, ...) symbol,
#include "wire/cuda_calls.def"
  kCount,
};

enum class CudaAction : uint8_t {
  kCall,           // only takes host time
  kLaunch,         // object: CUfunction or CUkernel
  kLaunchMany,     // object: `bytes` elements of CudaLaunch, each for a different device
  kGraph,          // object: CUgraphExec
  kCopy,           // bytes; copy_kind
  kSet,            // bytes; value
  kAllocate,       // bytes; result: the address
  kFree,           // object: the address
  kRelease,        // object: a handle, from cuMemCreate or obtained otherwise
  kWait,           // type
  kFunction,       // object: the name; result: a CUfunction
  kKernel,         // object: the name; result: a CUkernel
  kFunctionOf,     // object: a CUkernel; result: its CUfunction
  kMakeGreen,      // value: the device; result: a green context
  kConvertGreen,   // object: a green context; result: its context
  kEndGreen,       // object: a green context, which holds a reference to the primary context
  kEndContext,     // object: the context
  kEndDevice,      // value: the device, whose primary context ends
  kReleaseDevice,  // value: the device, whose primary context loses a reference
};

// CU_STREAM_LEGACY, CU_STREAM_PER_THREAD.
inline constexpr uint64_t kCudaLegacyStream = 1;
inline constexpr uint64_t kCudaThreadStream = 2;

// For all dimensions but a grid's x: CUDA accepts none above 65535, a launch with more fails.
inline uint16_t NarrowDimension(unsigned value) {
  return static_cast<uint16_t>(value > UINT16_MAX ? UINT16_MAX : value);
}

struct CudaOperation {
  CudaCall call;
  CudaAction action;
  bool has_stream;
  bool asynchronous;
  GpuCopyKind copy_kind;  // kUnknown: determined by the two addresses
  uint8_t type;           // of memory or of a wait
  uint8_t source_kind, destination_kind;
  uint64_t stream;  // a default stream has its constant
  uint64_t object;
  uint64_t bytes;
  uint64_t addresses[2];   // destination, source
  const uint64_t* result;  // where the call stores its result
  uint32_t value;
  uint32_t grid_x;
  uint16_t grid_y, grid_z;
  uint16_t block_x, block_y, block_z;
  uint32_t shared_bytes;

  // Used by the observer between begin and end.
  uint64_t start;
  uint32_t correlation;
  uint32_t work;

  // Used by the hooks. Through `in_flight` the observer notes the work that this thread holds and that is in no list.
  uint64_t mark;
  uint32_t* in_flight;
};

struct CudaObserver {
  // False: this call is not recorded, and `end` is not called.
  bool (*begin)(CudaOperation* operation);
  void (*end)(CudaOperation* operation, int result);
  // Called in place of `end`, some time later, if the call was left by longjmp, an exception or a cancellation. Only
  // these members of the operation are set: action, value, and work, which is the value of *in_flight.
  void (*left)(const CudaOperation& operation);
};

}  // namespace tbprof

#endif  // TBPROF_WIRE_CUDA_OBSERVER_H_
