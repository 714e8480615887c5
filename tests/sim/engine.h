// SPDX-License-Identifier: Apache-2.0
//
// The virtual GPUs of a process: contexts, streams, events, memory, and when the work on them runs.
//
// Time is real: a kernel of N nanoseconds starts when its stream is free and ends N nanoseconds later, and who waits
// for it sleeps until then. No thread runs the work. Since the length of all work is known when it is submitted, so are
// its start and its end, and Submit computes them on the spot under the stream's lock: that is what makes a launch cost
// well under a microsecond. Bytes are moved at the same moment, on the calling thread; the order of submission is one
// of the orders that streams and events allow. The exception is a host function, whose length is unknown: it, and
// what depends on it, goes to a queue that the engine's one thread works off (deferred.cc).
//
// Runs in programs under test, on their threads. Handles are pointers to the structures below; they are never freed,
// so that a stale one is answered with an error. Nothing here is destroyed at exit.
#ifndef TBPROF_TESTS_SIM_ENGINE_H_
#define TBPROF_TESTS_SIM_ENGINE_H_

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/lock.h"
#include "tests/sim/tools.h"

namespace tbprof::sim {

enum class Magic : uint32_t {
  kContext = 0x74637478,
  kStream = 0x7473746d,
  kEvent = 0x74657674,
  kFunction = 0x74666e63,
  kModule = 0x746d6f64,
  kGraph = 0x74677068,
  kNode = 0x746e6f64,
  kExec = 0x74657863,
  kPool = 0x74706f6c,
  kPhysical = 0x74706879,
  kGreen = 0x7467726e,
  kDead = 0,
};

// A copy of up to three dimensions: rows of `width` bytes.
struct Copy {
  char* destination;
  const char* source;
  size_t width;
  size_t height;
  size_t depth;
  size_t destination_pitch;
  size_t source_pitch;
  size_t destination_slice;
  size_t source_slice;
};

// What is submitted to a stream or kept in a graph node.
struct Op {
  Work work;
  int64_t duration;
  CUresult fault;  // raised when a kernel ends
  union {
    Copy copy;
    struct {
      const Copy* parts;  // if work.copy.count is more than one
    } batch;
    struct {
      char* destination;
      size_t width;  // elements
      size_t height;
      size_t pitch;
      uint32_t element;  // bytes
    } set;
    struct {
      CUhostFn function;
      void* data;
    } host;
    CUevent event;
    CUgraphExec exec;
    void* free;
  };
};

struct Allocation {
  size_t bytes;
  size_t mapped;
  uint8_t kind;  // CUpti_ActivityMemoryKind
  bool registered;
  bool asynchronous;
  unsigned flags;
  CUcontext context;  // null: memory that was mapped (driver_virtual.cc)
  int device;
  int resident = -1;  // of managed memory the device that has its pages; -1: the host
};

struct Device {
  int ordinal = 0;  // as the program counts
  int physical = 0;
  DeviceDescription description{};
  std::atomic<size_t> used{0};
  std::atomic<int64_t> copy_engine[3] = {};  // to the device, from it, within it
  CUcontext primary = nullptr;
  int primary_references = 0;
  unsigned primary_flags = 0;
  CUmemoryPool default_pool = nullptr;
  CUmemoryPool pool = nullptr;
};

// A stream capture in progress; all streams that were drawn in share it.
struct Capture {
  CUgraph graph;
  CUstream origin;
  CUstreamCaptureMode mode;
  uint64_t id;
  bool invalid;
  int streams;
  uint32_t broken_before;  // Engine::captures_broken at its begin
};

// Behind something whose end is not known yet.
struct Deferred {
  Op op;
  uint64_t event_sequence;
  std::vector<std::pair<CUstream, uint64_t>> waits;  // until that stream has resolved so many
};

}  // namespace tbprof::sim

// ---- what the handles of cuda.h point to

struct CUctx_st {
  tbprof::sim::Magic magic;
  uint32_t id;
  tbprof::sim::Device* device;
  unsigned flags;
  bool primary;
  CUgreenCtx green;                // this context is what it was converted to; null: a regular one
  CUcontext parent;                // of a green one: the primary context
  std::atomic<int> green_thread;   // a green one is on the stack of one thread at most
  std::atomic<int> green_entries;  // how often it is
  std::atomic<bool> alive;
  std::atomic<int> fault_code;
  std::atomic<int64_t> fault_at;
  std::atomic<int64_t> legacy_end;    // of the legacy stream's work
  std::atomic<int64_t> blocking_end;  // of the work of all streams that wait for the legacy stream
  std::atomic<uint32_t> deferred;     // operations that have no known end yet
  std::atomic<int> captures;
  tbprof::sim::Lock lock;  // the members below
  std::vector<CUstream> streams;
  std::map<int, CUstream> thread_streams;  // by thread id
  CUstream legacy;
  uint32_t next_stream_id;
  std::map<int, size_t> limits;
  std::vector<CUmodule> modules;
};

struct CUgreenCtx_st {
  tbprof::sim::Magic magic;
  CUcontext context;
  unsigned processors;
  std::atomic<bool> converted;
};

struct CUstream_st {
  tbprof::sim::Magic magic;
  uint32_t id;
  CUcontext context;
  unsigned flags;
  int priority;
  bool legacy;
  bool per_thread;
  bool blocking;  // waits for the legacy stream, and it for this one
  tbprof::sim::Lock lock;
  std::atomic<int64_t> end;  // of the last work whose end is known
  uint64_t launches;
  int64_t* ring;  // ends of the last launches: the queue to the device is finite
  // Under deferred_lock. The counters are read without it.
  std::deque<tbprof::sim::Deferred> pending;
  std::atomic<uint64_t> submitted;
  std::atomic<uint64_t> resolved;
  // Stream capture: by the thread that captures.
  std::atomic<tbprof::sim::Capture*> capture;
  std::vector<CUgraphNode> capture_last;
};

struct CUevent_st {
  tbprof::sim::Magic magic;
  uint32_t id;
  CUcontext context;
  unsigned flags;
  std::atomic<bool> recorded;
  std::atomic<int64_t> done_at;
  std::atomic<uint64_t> sync_id;
  std::atomic<uint32_t> unresolved;  // records behind a host function
  CUstream pending_stream;           // under deferred_lock, like the next
  uint64_t pending_sequence;
  tbprof::sim::Capture* capture;
  std::vector<CUgraphNode> capture_nodes;
};

struct CUmod_st {
  tbprof::sim::Magic magic;
  uint32_t id;
  CUcontext context;
  bool text;          // PTX: the names in it are known
  std::string image;  // the text, if it is one
  tbprof::sim::Lock lock;
  std::map<std::string, CUfunction> functions;
};
struct CUlib_st : CUmod_st {};

struct CUfunc_st {
  tbprof::sim::Magic magic;
  CUmodule module;
  const char* name;
  bool timed;  // its first argument is its length
  // For launches without arguments of their own.
  unsigned block[3];
  int64_t first_parameter;
  CUresult fault;  // it always ends with this
  std::atomic<bool> loaded;
  int attributes[CU_FUNC_ATTRIBUTE_MAX];
};
struct CUkern_st : CUfunc_st {};

struct CUgraphNode_st {
  tbprof::sim::Magic magic;
  uint64_t id;
  CUgraph graph;
  CUgraphNodeType type;
  tbprof::sim::Op op;
  std::vector<CUgraphNode> after;
};

struct CUgraph_st {
  tbprof::sim::Magic magic;
  uint32_t id;
  tbprof::sim::Lock lock;
  std::vector<CUgraphNode> nodes;
};

struct CUgraphExec_st {
  tbprof::sim::Magic magic;
  uint32_t id;
  CUcontext context;
  unsigned long long flags;
  bool has_host_function;
  struct Step {
    tbprof::sim::Op op;
    CUgraphNodeType type;
    uint64_t id;
    std::vector<uint32_t> after;
    int64_t end;
  };
  tbprof::sim::Lock lock;
  std::vector<Step> steps;  // in an order that the edges allow
};

struct CUmemPoolHandle_st {
  tbprof::sim::Magic magic;
  tbprof::sim::Device* device;
  std::atomic<size_t> used;
  std::atomic<size_t> high;
  std::map<int, uint64_t> attributes;
};

namespace tbprof::sim {

struct Engine {
  std::atomic<bool> initialised{false};
  std::atomic<bool> deinitialised{false};
  const std::atomic<uint32_t>* alive = nullptr;  // wiped by fork
  CUresult init_result = CUDA_ERROR_NOT_INITIALIZED;
  int64_t submit_ns = 0;
  int64_t kernel_ns = 0;
  uint64_t queue_depth = 0;
  std::vector<Device*> devices;

  std::atomic<uint32_t> wants{0};
  std::atomic<const Hooks*> hooks{nullptr};

  std::atomic<uint32_t> next_context{1};
  std::atomic<uint32_t> next_event{1};
  std::atomic<uint32_t> next_graph{1};
  std::atomic<uint32_t> next_module{1};
  std::atomic<uint64_t> next_sync{1};
  std::atomic<int> global_captures{0};       // under way
  std::atomic<uint32_t> captures_broken{0};  // how often all of them were
  std::atomic<int64_t> next_grid{1};
  std::atomic<int64_t> kernels{0};

  Lock lock;  // contexts and the memory map
  std::vector<CUcontext> contexts;
  std::map<uintptr_t, Allocation> memory;
};

Engine& engine();

// ---- state of the driver

CUresult Init();    // cuInit
CUresult Usable();  // CUDA_SUCCESS after cuInit, in the process that called it, before exit
int DriverVersion();

// ---- the calling thread

struct ThreadState {
  CUcontext stack[12];
  uint32_t depth;
  bool per_thread_default;  // inside a _ptsz or _ptds body
  ApiCall* call;
  CUcontext stream_context;
  CUstream stream;  // this thread's own stream of stream_context
  CUstreamCaptureMode capture_mode;
};
ThreadState& thread_state();

// The current context, usable: CUDA_ERROR_INVALID_CONTEXT without one, the sticky error after a fault.
CUresult CurrentContext(CUcontext* out);
CUresult CheckFault(CUcontext context);
uint32_t Correlation();

inline bool Wants(uint32_t what) { return (engine().wants.load(std::memory_order_relaxed) & what) != 0; }
inline const Hooks* TheHooks() { return engine().hooks.load(std::memory_order_acquire); }

// ---- contexts and streams

CUcontext NewContext(Device* device, unsigned flags, bool primary, CUgreenCtx green = nullptr);
// The primary context of a green one; any other is its own. Memory, events and faults are the primary one's.
inline CUcontext Root(CUcontext context) { return context->parent == nullptr ? context : context->parent; }
void DestroyContext(CUcontext context);
CUstream NewStream(CUcontext context, unsigned flags, int priority);
void DestroyStream(CUstream stream);
// Stream 0 and the two special handles are resolved for the calling thread.
CUresult FindStream(CUcontext context, CUstream handle, CUstream* out);
CUresult FindStream(CUstream handle, CUstream* out);

// ---- work

Op NewOp(WorkKind kind);
CUresult Submit(CUstream stream, Op& op);
// Both wait for the device, not for the host alone.
CUresult SynchronizeStream(CUstream stream);
CUresult SynchronizeContext(CUcontext context);
CUresult SynchronizeEvent(CUevent event);
bool StreamIdle(CUstream stream);
int64_t StreamEnd(CUstream stream);  // with what the legacy stream must wait for

void RunCopy(const Copy& copy);
int64_t CopyDuration(const Work& work, bool pageable);

// Under the stream's lock: sets the times, moves the bytes.
void Resolve(CUstream stream, Op& op, int64_t now, std::vector<Work>* nodes);
void Report(const Op& op, const std::vector<Work>& nodes);

// deferred.cc
CUresult SubmitDeferred(CUstream stream, const Op& op);
void WaitResolved(CUstream stream, uint64_t sequence);
void WaitEventResolved(CUevent event);

// graph.cc
CUresult CaptureOp(CUstream stream, Op& op);
CUresult EndCapture(CUstream stream, CUgraph* graph);
CUgraphNode AddNode(CUgraph graph, CUgraphNodeType type, const Op& op, const CUgraphNode* after, size_t count);
CUgraph NewGraph();
void ReportCloned(CUgraphNode node, CUgraphNode original);
CUgraphExec Instantiate(CUgraph graph, unsigned long long flags);
void ResolveGraph(CUstream stream, Op& op, int64_t begin, std::vector<Work>* nodes);

// ---- memory (memory.cc)

CUresult Allocate(CUcontext context, size_t bytes, uint8_t kind, unsigned flags, bool asynchronous, void** out);
CUresult Free(void* address, bool device_side);
// What is known about an address; false for pageable host memory.
bool FindAllocation(const void* address, uintptr_t* base, Allocation* out);
void ForgetMemoryOf(CUcontext context);
CUmemoryPool NewPool(Device* device);

// ---- resources, reported to the tool

void Report(const ResourceEvent& event);

template <typename Handle>
bool Valid(Handle handle, Magic magic) {
  return handle != nullptr && handle->magic == magic;
}

}  // namespace tbprof::sim

#endif  // TBPROF_TESTS_SIM_ENGINE_H_
