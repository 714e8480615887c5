// SPDX-License-Identifier: Apache-2.0
//
// libcuda.so.1: the exported functions, cuGetProcAddress, and our table in place of the private ones.
//
// An exported function reports its entry and exit to the tool when one is attached, and costs one load when none is.
#include <cuda.h>
// generated_cuda_meta.h also describes the calls of CUDA 2, with types that cuda.h shows to NVIDIA's own sources alone.
using CUdeviceptr_v1 = unsigned int;
struct CUDA_MEMCPY2D_v1;
struct CUDA_MEMCPY3D_v1;
struct CUDA_ARRAY_DESCRIPTOR_v1;
struct CUDA_ARRAY3D_DESCRIPTOR_v1;
#include <cupti_driver_cbid.h>
#include <generated_cuda_meta.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <unordered_map>

#include "tests/sim/driver.h"
#include "tests/sim/modes.h"

namespace tbprof::sim {
namespace {

void Enter(ApiCall* call) {
  ThreadState& state = thread_state();
  call->outer = state.call;
  call->symbol = nullptr;
  call->correlation = call->outer == nullptr ? 0 : call->outer->correlation;
  call->correlation_data = 0;
  call->seen = false;
  state.call = call;
  const Hooks* hooks = TheHooks();
  if (hooks != nullptr && Usable() != CUDA_ERROR_DEINITIALIZED) hooks->enter(call);
}

void Exit(ApiCall* call) {
  const Hooks* hooks = TheHooks();
  if (hooks != nullptr) hooks->exit(call);
  if (call->outer != nullptr && call->outer->symbol == nullptr) call->outer->symbol = call->symbol;
  thread_state().call = call->outer;
}

// The scope of a _ptsz or _ptds body.
class PerThreadDefault {
 public:
  PerThreadDefault() : before_(thread_state().per_thread_default) { thread_state().per_thread_default = true; }
  ~PerThreadDefault() { thread_state().per_thread_default = before_; }
  PerThreadDefault(const PerThreadDefault&) = delete;
  PerThreadDefault& operator=(const PerThreadDefault&) = delete;

 private:
  bool before_;
};

class LegacyDefault {
 public:
  LegacyDefault() : before_(thread_state().per_thread_default) { thread_state().per_thread_default = false; }
  ~LegacyDefault() { thread_state().per_thread_default = before_; }
  LegacyDefault(const LegacyDefault&) = delete;
  LegacyDefault& operator=(const LegacyDefault&) = delete;

 private:
  bool before_;
};

// A wiped word means a forked child: there the tool is as dead as the driver.
bool Traced() { return Wants(kWantsDriverCalls) && (engine().alive == nullptr || engine().alive->load() == 1); }

template <typename Body>
CUresult TracedCall(uint32_t cbid, const char* name, const void* parameters, const Body& body) {
  CUresult result = CUDA_SUCCESS;
  ApiCall call;
  call.domain = Domain::kDriver;
  call.cbid = cbid;
  call.name = name;
  call.parameters = parameters;
  call.result = &result;
  call.result_value = 0;
  Enter(&call);
  result = body();
  call.result_value = static_cast<uint32_t>(result);
  Exit(&call);
  return result;
}

}  // namespace
}  // namespace tbprof::sim

// Calls without parameters have no structure for them.
struct cuCtxSynchronize_params {};
struct cuProfilerStart_params {};
struct cuProfilerStop_params {};

#define SIM_EXPORT extern "C" __attribute__((visibility("default")))
#define SIM_UNPACK(...) __VA_ARGS__

#define SIM_BODY(exported, symbol, arguments)                                                          \
  {                                                                                                    \
    if (__builtin_expect(!tbprof::sim::Traced(), 1)) return tbprof::sim::Driver::symbol arguments;     \
    exported##_params parameters_of_call = {SIM_UNPACK arguments};                                     \
    return tbprof::sim::TracedCall(CUPTI_DRIVER_TRACE_CBID_##exported, #exported, &parameters_of_call, \
                                   [&] { return tbprof::sim::Driver::symbol arguments; });             \
  }

#define SIM_DRIVER(symbol, base, version, parameters, arguments) \
  SIM_EXPORT CUresult symbol parameters SIM_BODY(symbol, symbol, arguments)
#define SIM_DRIVER_STREAM(symbol, base, version, suffix, suffix_version, parameters, arguments) \
  SIM_EXPORT CUresult symbol parameters {                                                       \
    tbprof::sim::LegacyDefault stream_zero_is_legacy;                                           \
    SIM_BODY(symbol, symbol, arguments)                                                         \
  }                                                                                             \
  SIM_EXPORT CUresult symbol##suffix parameters {                                               \
    tbprof::sim::PerThreadDefault stream_zero_is_the_threads;                                   \
    SIM_BODY(symbol##suffix, symbol, arguments)                                                 \
  }
#include "tests/sim/driver.def"

namespace tbprof::sim {
namespace {

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#define SIM_ADDRESS(symbol) reinterpret_cast<void*>(&::symbol)
#include "tests/sim/driver_entries.inc"
};

const std::unordered_map<std::string, std::vector<const Entry*>>& Entries() {
  static const auto* entries = [] {
    auto* made = new std::unordered_map<std::string, std::vector<const Entry*>>;
    for (const Entry& entry : kEntries) (*made)[entry.base].push_back(&entry);
    return made;
  }();
  return *entries;
}

CUresult Find(const char* symbol, void** pfn, int version, cuuint64_t flags, CUdriverProcAddressQueryResult* status) {
  const cuuint64_t known = CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  if (symbol == nullptr || pfn == nullptr || (flags & ~known) != 0 || flags == known) return CUDA_ERROR_INVALID_VALUE;
  if (version > DriverVersion()) return CUDA_ERROR_INVALID_VALUE;
  *pfn = nullptr;
  const bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  const auto found = Entries().find(symbol);
  if (found == Entries().end()) {
    if (status != nullptr) *status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return status != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
  }
  const Entry* best = nullptr;
  for (const Entry* entry : found->second) {
    if (entry->version > version || entry->version > DriverVersion() || (entry->per_thread && !per_thread)) continue;
    const bool better = best == nullptr || (entry->per_thread && !best->per_thread) ||
                        (entry->per_thread == best->per_thread && entry->version > best->version);
    if (better) best = entry;
  }
  if (best == nullptr) {
    if (status != nullptr) *status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    return status != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
  }
  *pfn = best->function;
  if (status != nullptr) *status = CU_GET_PROC_ADDRESS_SUCCESS;
  return CUDA_SUCCESS;
}

// ---- the table

std::atomic<const void*> tool{nullptr};
bool ClaimTool(const void* copy) {
  const void* none = nullptr;
  return tool.compare_exchange_strong(none, copy) || none == copy;
}
void UnclaimTool(const void* copy) { tool.compare_exchange_strong(copy, nullptr); }
void Install(const Hooks* hooks) { engine().hooks.store(hooks, std::memory_order_release); }
void SetWants(uint32_t wants) { engine().wants.store(wants); }

// Unlike Usable: before cuInit it returns what cuInit would.
CUresult State() {
  if (engine().initialised.load()) {
    if (engine().alive->load() != 1) return CUDA_ERROR_NOT_INITIALIZED;
    if (engine().deinitialised.load()) return CUDA_ERROR_DEINITIALIZED;
    return engine().init_result;
  }
  if (mode::init_fails() != 0) return static_cast<CUresult>(mode::init_fails());
  return mode::no_device() != 0 ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}

int DeviceCount() { return static_cast<int>(engine().devices.size()); }

bool DescribeDevice(int ordinal, DeviceDescription* out) {
  if (ordinal < 0 || ordinal >= DeviceCount()) return false;
  *out = engine().devices[static_cast<size_t>(ordinal)]->description;
  return true;
}

CUcontext CurrentContextOrNull() {
  const ThreadState& state = thread_state();
  CUcontext context = state.depth == 0 ? nullptr : state.stack[state.depth - 1];
  return context != nullptr && context->alive.load() ? context : nullptr;
}

bool ContextIds(CUcontext context, uint32_t* context_id, uint32_t* device) {
  if (context == nullptr) context = CurrentContextOrNull();
  if (!Valid(context, Magic::kContext)) return false;
  if (context_id != nullptr) *context_id = context->id;
  if (device != nullptr) *device = static_cast<uint32_t>(context->device->ordinal);
  return true;
}

bool StreamId(CUcontext context, CUstream stream, bool per_thread, uint32_t* id) {
  if (context == nullptr) context = CurrentContextOrNull();
  if (!Valid(context, Magic::kContext)) return false;
  if (stream == nullptr && per_thread) stream = CU_STREAM_PER_THREAD;
  CUstream found = nullptr;
  if (FindStream(context, stream, &found) != CUDA_SUCCESS) return false;
  *id = found->id;
  return true;
}

bool GraphId(CUgraph graph, uint32_t* id) {
  if (!Valid(graph, Magic::kGraph)) return false;
  *id = graph->id;
  return true;
}

bool ExecId(CUgraphExec exec, uint32_t* id) {
  if (!Valid(exec, Magic::kExec)) return false;
  *id = exec->id;
  return true;
}

bool NodeId(CUgraphNode node, uint64_t* id) {
  if (!Valid(node, Magic::kNode)) return false;
  *id = node->id;
  return true;
}

void Enumerate(void (*each)(const ResourceEvent&, void*), void* data) {
  std::vector<CUcontext> contexts;
  {
    Guard guard(engine().lock);
    contexts = engine().contexts;
  }
  for (CUcontext context : contexts) {
    ResourceEvent event{};
    event.what = Resource::kContextCreated;
    event.context = context;
    event.context_id = context->id;
    event.device_id = static_cast<uint32_t>(context->device->ordinal);
    event.stream_id = context->legacy->id;
    event.parent_id = context->green == nullptr ? 0 : context->parent->id;
    event.processors = context->green == nullptr ? 0 : context->green->processors;
    each(event, data);
    event.what = Resource::kStreamCreated;
    Guard guard(context->lock);
    for (CUstream stream : context->streams) {
      event.stream = stream;
      event.stream_id = stream->id;
      event.stream_flags = stream->flags;
      event.priority = stream->priority;
      each(event, data);
    }
  }
}

const Table kTable = {
    sizeof(Table), kTableVersion, &engine().wants, Enter,
    Exit,          Install,       ClaimTool,       UnclaimTool,
    SetWants,      Now,           State,           [] { return engine().initialised.load(); },
    DriverVersion, DeviceCount,   DescribeDevice,  CurrentContextOrNull,
    Correlation,   ContextIds,    StreamId,        GraphId,
    ExecId,        NodeId,        Enumerate,
};

}  // namespace

CUresult Driver::cuGetProcAddress(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags) {
  return Find(symbol, pfn, cudaVersion, flags, nullptr);
}

CUresult Driver::cuGetProcAddress_v2(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags,
                                     CUdriverProcAddressQueryResult* symbolStatus) {
  return Find(symbol, pfn, cudaVersion, flags, symbolStatus);
}

// Every other table is NVIDIA's own business.
CUresult Driver::cuGetExportTable(const void** ppExportTable, const CUuuid* pExportTableId) {
  if (ppExportTable == nullptr || pExportTableId == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (memcmp(pExportTableId, &kTableId, sizeof(kTableId)) != 0) return CUDA_ERROR_NOT_FOUND;
  *ppExportTable = &kTable;
  return CUDA_SUCCESS;
}

}  // namespace tbprof::sim
