// SPDX-License-Identifier: Apache-2.0
//
// The part of CUPTI's binary interface that tbprof uses, written out so that one binary serves every CUPTI from 11.0 on
// and no toolkit is needed to build: numbers that never changed their meaning, the prefix of each record, which never
// changed its layout, and the fields behind it with the CUDA version that added them.
// tests/unit/cupti/cupti_abi_test.cc compares all of it with NVIDIA's headers where they are installed.
//
// Source: cupti_activity.h, cupti_result.h, cupti_callbacks.h of CUDA 13.0, cupti_activity_deprecated.h for the earlier
// versions of records.
//
// Process: target; plain structs, read only. A record may be shorter than the struct here: check CUPTI's version before
// reading a field behind the prefix.
#ifndef TBPROF_CUPTI_CUPTI_ABI_H_
#define TBPROF_CUPTI_CUPTI_ABI_H_

#include <stddef.h>
#include <stdint.h>

namespace tbprof::cupti {

using Result = int32_t;
inline constexpr Result kSuccess = 0;
inline constexpr Result kErrorInvalidParameter = 1;
inline constexpr Result kErrorMaxLimitReached = 12;
inline constexpr Result kErrorNotReady = 13;
inline constexpr Result kErrorNotInitialized = 15;
inline constexpr Result kErrorNotSupported = 27;
inline constexpr Result kErrorInsufficientPrivileges = 35;
inline constexpr Result kErrorMultipleSubscribers = 39;
inline constexpr Result kErrorUnknown = 999;

enum ActivityKind : uint32_t {
  kActivityMemcpy = 1,
  kActivityMemset = 2,
  kActivityDriver = 4,
  kActivityRuntime = 5,
  kActivityDevice = 8,
  kActivityContext = 9,
  kActivityConcurrentKernel = 10,
  kActivityName = 11,
  kActivityOverhead = 17,
  kActivityMemcpy2 = 22,
  kActivityUnifiedMemory = 25,
  kActivityStream = 37,
  kActivitySynchronization = 38,
  kActivityMemory2 = 49,
  kActivityGraphTrace = 51,
};

enum CallbackDomain : uint32_t { kDomainDriver = 1, kDomainRuntime = 2, kDomainResource = 3 };
inline constexpr uint32_t kResourceContextCreated = 1, kResourceInitFinished = 5;
inline constexpr uint32_t kResourceGraphNodeCreated = 13, kResourceGraphNodeCloned = 20;

inline constexpr uint32_t kAttributeZeroedOut = 5;
inline constexpr uint32_t kThreadIdDefault = 0, kThreadIdSystem = 1;
inline constexpr uint32_t kFlushForced = 1;

// cuptiGetVersion: small numbers up to CUDA 12, then 13.0.1 as 130001.
inline constexpr uint32_t kVersionCuda111 = 14;
inline constexpr uint32_t kVersionCuda116 = 16;
inline constexpr uint32_t kVersionCuda118 = 17;
inline constexpr uint32_t kVersionCuda129 = 27;      // since then a refused buffer drops records and never crashes
inline constexpr uint32_t kVersionCuda130 = 130000;  // since then each thread that makes records has its own buffer

// Every record begins with its kind. Records are aligned to 8 bytes.
struct Activity {
  uint32_t kind;
};

struct Kernel {
  uint32_t kind;
  uint8_t cache_config, shared_memory_config;
  uint16_t registers_per_thread;
  uint32_t partition_requested, partition_executed;
  uint64_t start, end, completed;
  uint32_t device, context, stream;
  int32_t grid_x, grid_y, grid_z;
  int32_t block_x, block_y, block_z;
  int32_t static_shared_memory, dynamic_shared_memory;
  uint32_t local_memory_per_thread, local_memory_total;
  uint32_t correlation;
  int64_t grid_id;
  const char* name;
  void* reserved;
  uint64_t queued, submitted;
  uint8_t launch_type, is_shared_memory_carveout_requested, shared_memory_carveout_requested, padding;
  uint32_t shared_memory_executed;
  // CUDA 11.0
  uint64_t graph_node;
  uint32_t shared_memory_limit_config;
  uint32_t graph;  // 11.1; padding before
  // 11.2, 11.6
  void* access_policy_window;
  uint32_t channel, channel_type;
  // 11.8
  uint32_t cluster_x, cluster_y, cluster_z;
};
inline constexpr size_t kKernelPrefix = offsetof(Kernel, graph_node);

struct Memcpy {
  uint32_t kind;
  uint8_t copy_kind, source_kind, destination_kind, flags;
  uint64_t bytes, start, end;
  uint32_t device, context, stream, correlation, runtime_correlation, padding;
  void* reserved;
  uint64_t graph_node;  // 11.0
  uint32_t graph;       // 11.1
};

struct MemcpyPeer {
  uint32_t kind;
  uint8_t copy_kind, source_kind, destination_kind, flags;
  uint64_t bytes, start, end;
  uint32_t device, context, stream;
  uint32_t source_device, source_context, destination_device, destination_context;
  uint32_t correlation;
  void* reserved;
  uint64_t graph_node;  // 11.0
  uint32_t graph;       // 11.1
};

struct Memset {
  uint32_t kind;
  uint32_t value;
  uint64_t bytes, start, end;
  uint32_t device, context, stream, correlation;
  uint16_t flags, memory_kind;
  uint32_t padding;
  void* reserved;
  uint64_t graph_node;  // 11.0
  uint32_t graph;       // 11.1
};

struct Api {
  uint32_t kind;
  uint32_t callback;
  uint64_t start, end;
  uint32_t process, thread, correlation, result;
};

struct Synchronization {
  uint32_t kind;
  uint32_t type;
  uint64_t start, end;
  uint32_t correlation, context, stream, event;
};

struct Overhead {
  uint32_t kind;
  uint32_t overhead_kind;
  uint32_t object_kind;
  uint32_t object[3];  // of a thread: process, thread
  uint64_t start, end;
  uint32_t correlation;  // 12.2
};
inline constexpr uint32_t kObjectThread = 2;
inline constexpr uint32_t kObjectDevice = 3, kObjectContext = 4, kObjectStream = 5;

struct GraphTrace {
  uint32_t kind;
  uint32_t correlation;
  uint64_t start, end;
  uint32_t device, graph, context, stream;
};

struct Memory {
  uint32_t kind;
  uint32_t operation, memory_kind, correlation;
  uint64_t address, bytes, timestamp, pc;
  uint32_t process, device, context, stream;
  const char* name;
  uint32_t is_asynchronous;
};

// The layout of CUDA 12.8 and before. Later versions append a mask of devices, which is not read.
struct UnifiedMemory {
  uint32_t kind;
  uint32_t counter;
  uint64_t value, start, end, address;
  uint32_t source, destination, stream, process, flags, padding;
};
inline constexpr uint32_t kUnifiedOfAllDevices = 2;
inline constexpr uint32_t kUnifiedOnHost = 1;  // in the flags of thrashing and throttling

struct UnifiedMemoryConfig {
  uint32_t scope, counter, device, enable;
};

struct Device {
  uint32_t kind;
  uint32_t flags;
  uint64_t memory_bandwidth, memory_bytes;
  uint32_t constant_bytes, l2_bytes, threads_per_warp, core_clock_khz, copy_engines, multiprocessors, max_ipc;
  uint32_t warps_per_multiprocessor, blocks_per_multiprocessor, shared_bytes_per_multiprocessor;
  uint32_t registers_per_multiprocessor, registers_per_block, shared_bytes_per_block, threads_per_block;
  uint32_t max_block[3], max_grid[3];
  uint32_t compute_major, compute_minor, id, ecc;
  uint8_t uuid[16];
  const char* name;  // the header makes the client free it; tbprof does not
  // 11.6
  uint8_t is_visible, is_mig, reserved[6];
};

struct Context {
  uint32_t kind;
  uint32_t context, device;
  uint16_t api, null_stream;
};

struct Stream {
  uint32_t kind;
  uint32_t context, stream, priority, flag, correlation;
};

struct Name {
  uint32_t kind;
  uint32_t object_kind;
  uint32_t object[3];  // of a stream: device, context, stream
  uint32_t padding;
  const char* name;
};

// The data of a callback of the resource domain. For a graph node, `descriptor` points to a GraphData.
struct ResourceData {
  void* context;
  void* handle;
  void* descriptor;
};
struct GraphData {
  void* graph;
  void* original_graph;
  void* node;
  void* original_node;  // of a clone
  uint32_t node_type;   // CUgraphNodeType
};
inline constexpr uint32_t kNodeKernel = 0;

using Subscriber = void*;
using Callback = void (*)(void* user, uint32_t domain, uint32_t callback, const void* data);
using BufferRequested = void (*)(uint8_t** buffer, size_t* size, size_t* max_records);
using BufferCompleted = void (*)(void* context, uint32_t stream, uint8_t* buffer, size_t size, size_t valid_size);

// X(member, exported name, result, parameters, required)
#define TBPROF_CUPTI_FUNCTIONS(X)                                                                                     \
  X(get_version, cuptiGetVersion, Result, (uint32_t * version), true)                                                 \
  X(get_timestamp, cuptiGetTimestamp, Result, (uint64_t * timestamp), true)                                           \
  X(get_result_string, cuptiGetResultString, Result, (Result result, const char** text), false)                       \
  X(get_callback_name, cuptiGetCallbackName, Result, (uint32_t domain, uint32_t callback, const char** name), true)   \
  X(subscribe, cuptiSubscribe, Result, (Subscriber * subscriber, Callback callback, void* user), true)                \
  X(unsubscribe, cuptiUnsubscribe, Result, (Subscriber subscriber), true)                                             \
  X(enable, cuptiActivityEnable, Result, (uint32_t kind), true)                                                       \
  X(enable_and_dump, cuptiActivityEnableAndDump, Result, (uint32_t kind), false)                                      \
  X(disable, cuptiActivityDisable, Result, (uint32_t kind), true)                                                     \
  X(enable_driver_call, cuptiActivityEnableDriverApi, Result, (uint32_t callback, uint8_t enable), false)             \
  X(enable_runtime_call, cuptiActivityEnableRuntimeApi, Result, (uint32_t callback, uint8_t enable), false)           \
  X(register_callbacks, cuptiActivityRegisterCallbacks, Result,                                                       \
    (BufferRequested requested, BufferCompleted completed), true)                                                     \
  X(flush_all, cuptiActivityFlushAll, Result, (uint32_t flags), true)                                                 \
  X(next_record, cuptiActivityGetNextRecord, Result, (uint8_t * buffer, size_t valid_size, Activity * *record), true) \
  X(dropped_records, cuptiActivityGetNumDroppedRecords, Result, (void* context, uint32_t stream, size_t* dropped),    \
    true)                                                                                                             \
  X(get_attribute, cuptiActivityGetAttribute, Result, (uint32_t attribute, size_t * size, void* value), false)        \
  X(set_attribute, cuptiActivitySetAttribute, Result, (uint32_t attribute, size_t * size, void* value), false)        \
  X(get_thread_id_type, cuptiGetThreadIdType, Result, (uint32_t * type), false)                                       \
  X(set_thread_id_type, cuptiSetThreadIdType, Result, (uint32_t type), false)                                         \
  X(configure_unified_memory, cuptiActivityConfigureUnifiedMemoryCounter, Result,                                     \
    (UnifiedMemoryConfig * configurations, uint32_t count), false)                                                    \
  X(get_device, cuptiGetDeviceId, Result, (void* context, uint32_t* device), false)                                   \
  X(get_stream, cuptiGetStreamIdEx, Result, (void* context, void* stream, uint8_t per_thread, uint32_t* number),      \
    false)                                                                                                            \
  X(enable_callback, cuptiEnableCallback, Result,                                                                     \
    (uint32_t enable, Subscriber subscriber, uint32_t domain, uint32_t callback), false)                              \
  X(get_graph_node, cuptiGetGraphNodeId, Result, (void* node, uint64_t* id), false)

struct Functions {
#define TBPROF_MEMBER(member, name, result, parameters, required) result(*member) parameters;
  TBPROF_CUPTI_FUNCTIONS(TBPROF_MEMBER)
#undef TBPROF_MEMBER
};

}  // namespace tbprof::cupti

#endif  // TBPROF_CUPTI_CUPTI_ABI_H_
