// SPDX-License-Identifier: Apache-2.0
//
// How the three simulated libraries of a process reach each other: libcuda.so.1 owns the engine and hands out one table
// through cuGetExportTable under an id of our own, so that the copies of libcudart and libcupti that happen to be
// loaded find the same engine in whatever order they come. (The real libraries use private tables in the same way;
// NVIDIA's ids are refused.)
#ifndef TBPROF_TESTS_SIM_TOOLS_H_
#define TBPROF_TESTS_SIM_TOOLS_H_

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tbprof::sim {

// As version.cc has it: of the driver, the runtime or CUPTI, whichever library this is.
extern const int kLibraryVersion;

// "tbprof-simulator".
inline constexpr CUuuid kTableId = {{'t', 'b', 'p', 'r', 'o', 'f', '-', 's', 'i', 'm', 'u', 'l', 'a', 't', 'o', 'r'}};

// The numbers of CUpti_CallbackDomain.
enum class Domain : uint32_t { kDriver = 1, kRuntime = 2 };

// A call on the caller's stack, between its entry and its exit.
struct ApiCall {
  Domain domain;
  uint32_t cbid;
  const char* name;
  const void* parameters;
  const char* symbol;  // the kernel's name for a launch
  const void* result;  // points to the CUresult or cudaError_t at exit
  uint32_t result_value;
  ApiCall* outer;  // the runtime call that this driver call serves
  uint32_t correlation;
  uint64_t correlation_data;
  int64_t start;
  bool seen;  // the tool was called at the entry
};

enum class WorkKind : uint8_t {
  kKernel,
  kMemcpy,
  kMemset,
  kHostFunction,
  kEventRecord,
  kEventWait,
  kGraph,
  kEmpty,
  kFree,
  kPrefetch,
};

// Something the device does. Times are CLOCK_MONOTONIC nanoseconds. They are known as soon as everything before it on
// its stream has a known length, which may be before it has happened.
struct Work {
  WorkKind kind;
  int64_t queued;
  int64_t submitted;
  int64_t start;
  int64_t end;
  uint32_t device;
  uint32_t context;
  uint32_t stream;
  uint32_t correlation;
  uint32_t channel;
  uint32_t graph;       // executable graph it came from; 0: none
  uint64_t graph_node;  // 0: none
  union {
    struct {
      const char* name;
      int64_t grid_id;
      uint32_t grid[3];
      uint32_t block[3];
      uint32_t cluster[3];
      uint32_t dynamic_shared;
      uint32_t static_shared;
      uint16_t registers;
      uint8_t launch_type;  // CUpti_ActivityLaunchType
    } kernel;
    struct {
      uint64_t bytes;
      uint64_t count;
      uint8_t kind;         // CUpti_ActivityMemcpyKind
      uint8_t source;       // CUpti_ActivityMemoryKind
      uint8_t destination;  // CUpti_ActivityMemoryKind
      bool asynchronous;
      uint32_t source_device;
      uint32_t source_context;
      uint32_t destination_device;
      uint32_t destination_context;
    } copy;
    struct {
      uint64_t bytes;
      uint32_t value;
      uint8_t memory;
      bool asynchronous;
    } set;
    struct {
      uint32_t id;
      uint64_t sync_id;
    } event;
  };
};

struct Synchronization {
  uint32_t type;  // CUpti_ActivitySynchronizationType
  uint32_t context;
  uint32_t stream;
  uint32_t event;
  uint64_t sync_id;
  int64_t start;
  int64_t end;
  uint32_t correlation;
  uint32_t result;
  CUcontext context_handle;
  CUstream stream_handle;
};

struct MemoryEvent {
  uint8_t pool_operation;  // CUpti_ActivityMemoryPoolOperationType; 0: an allocation or a release of memory
  bool allocation;
  uint8_t kind;  // CUpti_ActivityMemoryKind
  bool asynchronous;
  bool pool;
  uint64_t address;
  uint64_t bytes;
  uint64_t pool_size;
  int64_t time;
  uint32_t device;
  uint32_t context;
  uint32_t stream;
  uint32_t correlation;
};

// What the driver does for managed memory, but for prefetches, which are work.
struct UnifiedEvent {
  uint32_t counter;  // CUpti_ActivityUnifiedMemoryCounterKind
  uint32_t flags;
  uint64_t value;
  uint64_t address;
  int64_t start;
  int64_t end;
  int source;  // a device; -1: the host
  int destination;
};

struct Overhead {
  uint32_t kind;  // CUpti_ActivityOverheadKind
  int64_t start;
  int64_t end;
  uint32_t correlation;
  uint32_t thread;
};

// The numbers of CUpti_CallbackIdResource.
enum class Resource : uint32_t {
  kContextCreated = 1,
  kContextDestroyStarting = 2,
  kStreamCreated = 3,
  kStreamDestroyStarting = 4,
  kInitFinished = 5,
  kModuleLoaded = 6,
  kModuleUnloadStarting = 7,
  kGraphCreated = 9,
  kGraphDestroyStarting = 10,
  kGraphCloned = 11,
  kNodeCreated = 13,
  kExecCreated = 18,
  kExecDestroyStarting = 19,
  kNodeCloned = 20,
};

struct ResourceEvent {
  Resource what;
  CUcontext context;
  CUstream stream;
  CUgraph graph;
  CUgraphNode node;
  CUgraphNode original_node;  // of a clone
  CUgraphNodeType node_type;
  CUgraphExec exec;
  uint32_t device_id;
  uint32_t context_id;
  uint32_t stream_id;
  uint32_t module_id;
  uint32_t stream_flags;
  int32_t priority;
  uint32_t correlation;
  uint32_t parent_id;   // of a green context; 0: it is none
  uint32_t processors;  // of a green context
};

// What the profiler library installs. Called on the thread that made the call, or on the engine's own thread for work
// that stood behind a host function.
struct Hooks {
  void (*enter)(ApiCall*);
  void (*exit)(ApiCall*);
  void (*work)(const Work&);
  void (*synchronized)(const Synchronization&);
  void (*memory)(const MemoryEvent&);
  void (*overhead)(const Overhead&);
  void (*resource)(const ResourceEvent&);
  void (*unified)(const UnifiedEvent&);
};

enum Wants : uint32_t {
  kWantsDriverCalls = 1u << 0,
  kWantsRuntimeCalls = 1u << 1,
  kWantsWork = 1u << 2,
  kWantsSynchronization = 1u << 3,
  kWantsMemory = 1u << 4,
  kWantsResources = 1u << 5,
  kWantsOverhead = 1u << 6,
  kWantsUnifiedMemory = 1u << 8,
  kWantsGraphTrace = 1u << 7,  // one Work for a graph launch in place of one for each node
};

struct DeviceDescription {
  uint32_t ordinal;
  char name[96];
  CUuuid uuid;
  uint64_t memory_bytes;
  uint32_t processors;
  uint32_t major;
  uint32_t minor;
  uint32_t clock_khz;
  uint32_t l2_bytes;
  uint64_t bandwidth_kb;
};

// Bumped with every change of the structures above: copies of the libraries from two builds must not meet.
inline constexpr uint32_t kTableVersion = 6;

struct Table {
  size_t size;
  uint32_t version;
  // Read before every call; 0 means that no tool is registered.
  const std::atomic<uint32_t>* wants;

  void (*enter)(ApiCall*);
  void (*exit)(ApiCall*);

  // For the profiler library.
  void (*install)(const Hooks*);
  // Of two copies of the profiler library the first that records: `copy` is any address of its own.
  bool (*claim)(const void* copy);
  void (*unclaim)(const void* copy);
  void (*set_wants)(uint32_t wants);
  int64_t (*now)();
  // CUDA_SUCCESS while the driver is usable; what cuInit would return otherwise. Does not initialise.
  CUresult (*state)();
  bool (*initialised)();  // cuInit has returned
  int (*driver_version)();
  int (*device_count)();
  bool (*describe_device)(int ordinal, DeviceDescription* out);
  CUcontext (*current_context)();
  uint32_t (*current_correlation)();
  bool (*context_ids)(CUcontext context, uint32_t* context_id, uint32_t* device);
  bool (*stream_id)(CUcontext context, CUstream stream, bool per_thread, uint32_t* id);
  bool (*graph_id)(CUgraph graph, uint32_t* id);
  bool (*exec_id)(CUgraphExec exec, uint32_t* id);
  bool (*node_id)(CUgraphNode node, uint64_t* id);
  // Calls back for each context and stream that exists.
  void (*enumerate)(void (*each)(const ResourceEvent&, void* data), void* data);
};

}  // namespace tbprof::sim

#endif  // TBPROF_TESTS_SIM_TOOLS_H_
