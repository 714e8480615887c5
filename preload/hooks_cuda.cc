// SPDX-License-Identifier: Apache-2.0
//
// Hooks on CUDA's driver interface, used where CUPTI is unavailable. Without an observer a hook is a load, a branch and
// the real call. cuda_lookup.cc decides which callers get a hook.
//
// Rules: RULES.md.
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>

#include "preload/cuda_functions.h"
#include "preload/cuda_stacks.h"
#include "preload/gpu.h"
#include "preload/state.h"
#include "preload/triggers.h"
#include "wire/cuda_observer.h"
#include "wire/raw.h"

namespace tbprof {
namespace {

const CudaObserver* g_observer;

// The observed call of this thread. CUDA calls its own functions: nested calls are part of the observed call.
struct Observed {
  uint64_t frame;  // the caller's stack pointer; 0: no call is observed
  const CudaOperation* operation;
  uint64_t mark;      // equals operation->mark as long as the operation is on the stack
  bool in_observer;   // the thread is in the observer, which bypasses the hooks
  ThreadPhase phase;  // phase and epoch: restored if the call was left in the observer
  CudaAction action;  // action, value and in_flight: passed to CudaObserver::left
  uint32_t epoch;
  uint32_t value, in_flight;
};
__thread Observed t_observed __attribute__((tls_model("initial-exec")));
__thread uint64_t t_marks __attribute__((tls_model("initial-exec")));

// ---- descriptions

constexpr uint64_t kNoStream = ~uint64_t{0};
constexpr uint8_t kMemoryPinned = 2, kMemoryDevice = 3, kMemoryManaged = 5;  // CUpti_ActivityMemoryKind

struct Descriptions {
  CudaOperation* operation;
  uint64_t default_stream;

  void Stream(const void* stream) const {
    operation->has_stream = true;
    const auto handle = reinterpret_cast<uint64_t>(stream);
    operation->stream = handle == 0 ? default_stream : handle;
  }
  void DefaultStream() const { Stream(nullptr); }
  void Act(CudaAction action) const { operation->action = action; }

  void Call() const { Act(CudaAction::kCall); }
  void Launch(void* function, void* stream, uint8_t type, unsigned grid_x, unsigned grid_y, unsigned grid_z,
              unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes) const {
    Act(CudaAction::kLaunch);
    Stream(stream);
    operation->object = reinterpret_cast<uint64_t>(function);
    operation->type = type;
    operation->grid_x = grid_x;
    operation->grid_y = NarrowDimension(grid_y);
    operation->grid_z = NarrowDimension(grid_z);
    operation->block_x = NarrowDimension(block_x);
    operation->block_y = NarrowDimension(block_y);
    operation->block_z = NarrowDimension(block_z);
    operation->shared_bytes = shared_bytes;
  }
  void LaunchBy(void* function, const CudaLaunchConfig* config) const {
    if (config == nullptr) return Call();
    Launch(function, config->stream, 0, config->grid_x, config->grid_y, config->grid_z, config->block_x,
           config->block_y, config->block_z, config->shared_bytes);
  }
  // Earlier calls have set the block's shape.
  void LaunchGrid(void* function, int width, int height, void* stream = nullptr) const {
    Launch(function, stream, 0, static_cast<unsigned>(width), static_cast<unsigned>(height), 1, 0, 0, 0, 0);
  }
  void LaunchMany(const CudaLaunch* launches, unsigned count) const {
    constexpr unsigned kMostDevices = 64;
    if (launches == nullptr || count > kMostDevices) return Call();
    Act(CudaAction::kLaunchMany);
    operation->object = reinterpret_cast<uint64_t>(launches);
    operation->bytes = count;
    operation->type = 2;  // CUpti_ActivityLaunchType
  }
  void Graph(void* graph, void* stream) const {
    Act(CudaAction::kGraph);
    Stream(stream);
    operation->object = reinterpret_cast<uint64_t>(graph);
  }

  void Copy(GpuCopyKind kind, uint64_t bytes) const {
    Act(CudaAction::kCopy);
    DefaultStream();
    operation->copy_kind = kind;
    operation->bytes = bytes;
  }
  void Copy(GpuCopyKind kind, uint64_t bytes, void* stream) const {
    Copy(kind, bytes);
    Stream(stream);
    operation->asynchronous = true;
  }
  void CopyByAddress(uint64_t destination, uint64_t source, uint64_t bytes) const {
    Copy(GpuCopyKind::kUnknown, bytes);
    operation->addresses[0] = destination;
    operation->addresses[1] = source;
  }
  void CopyByAddress(uint64_t destination, uint64_t source, uint64_t bytes, void* stream) const {
    CopyByAddress(destination, source, bytes);
    Stream(stream);
    operation->asynchronous = true;
  }
  void CopyPeer(void* destination, void* source, uint64_t bytes) const {
    Copy(GpuCopyKind::kPeerToPeer, bytes);
    operation->addresses[0] = reinterpret_cast<uint64_t>(destination);
    operation->addresses[1] = reinterpret_cast<uint64_t>(source);
  }
  void CopyPeer(void* destination, void* source, uint64_t bytes, void* stream) const {
    CopyPeer(destination, source, bytes);
    Stream(stream);
    operation->asynchronous = true;
  }
  static uint64_t BytesOf(const CudaCopy2d& copy) { return copy.width * copy.height; }
  static uint64_t BytesOf(const CudaCopy3d& copy) { return copy.width * copy.height * copy.depth; }
  template <typename Box>
  void CopyBox(const Box* copy) const {
    if (copy == nullptr) return Call();
    // CUmemorytype: 1 host, 2 device, 3 array, 4 by address.
    constexpr GpuCopyKind kKinds[3][3] = {{GpuCopyKind::kHostToHost, GpuCopyKind::kHostToDevice, GpuCopyKind{3}},
                                          {GpuCopyKind::kDeviceToHost, GpuCopyKind::kDeviceToDevice, GpuCopyKind{7}},
                                          {GpuCopyKind{4}, GpuCopyKind{6}, GpuCopyKind{5}}};
    const int source = copy->source_type - 1, destination = copy->destination_type - 1;
    if (source == 3 || destination == 3) {
      CopyByAddress(copy->destination_device, copy->source_device, BytesOf(*copy));
    } else if (source < 0 || source > 2 || destination < 0 || destination > 2) {
      Call();
    } else {
      Copy(kKinds[source][destination], BytesOf(*copy));
    }
  }
  template <typename Box>
  void CopyBox(const Box* copy, void* stream) const {
    CopyBox(copy);
    if (operation->action == CudaAction::kCall) return;
    Stream(stream);
    operation->asynchronous = true;
  }
  template <typename... Stream>
  void CopyBoxPeer(const CudaCopy3d* copy, Stream... stream) const {
    CopyBox(copy, stream...);
    if (operation->copy_kind == GpuCopyKind::kDeviceToDevice) operation->copy_kind = GpuCopyKind::kPeerToPeer;
  }
  // A batch is recorded as one operation, because events cannot separate its parts on the device's clock. Its kind is
  // the kind of its first part.
  void CopyBatch(const uint64_t* destinations, const uint64_t* sources, const size_t* sizes, size_t count,
                 void* stream) const {
    if (destinations == nullptr || sources == nullptr || sizes == nullptr || count == 0) return Call();
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; ++i) bytes += sizes[i];
    CopyByAddress(destinations[0], sources[0], bytes, stream);
  }
  // The extents of arrays are given in elements, whose size is not known here.
  void CopyBatch(const CudaBatchCopy3d* copies, size_t count, void* stream) const {
    if (copies == nullptr || count == 0) return Call();
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; ++i) bytes += copies[i].width * copies[i].height * copies[i].depth;
    const CudaBatchOperand &to = copies[0].destination, &from = copies[0].source;
    if (to.type == 2 || from.type == 2) return Copy(GpuCopyKind::kUnknown, bytes, stream);
    CopyByAddress(to.address, from.address, bytes, stream);
  }
  void Set(uint32_t value, uint64_t bytes) const {
    Copy(GpuCopyKind::kSet, bytes);
    Act(CudaAction::kSet);
    operation->value = value;
  }
  void Set(uint32_t value, uint64_t bytes, void* stream) const {
    Set(value, bytes);
    Stream(stream);
    operation->asynchronous = true;
  }

  template <typename Address>
  void Allocate(uint8_t kind, Address* address, uint64_t bytes) const {
    static_assert(sizeof(Address) == sizeof(uint64_t));
    Act(CudaAction::kAllocate);
    operation->type = kind;
    operation->bytes = bytes;
    operation->result = reinterpret_cast<const uint64_t*>(address);
  }
  void Allocate(uint8_t kind, const uint64_t* address, uint64_t bytes, void* stream) const {
    Allocate(kind, address, bytes);
    Stream(stream);
    operation->asynchronous = true;
  }
  // The pitch is known after the call: `bytes` holds the number of rows.
  void AllocatePitch(const uint64_t* address, const size_t* pitch, size_t height) const {
    Allocate(kMemoryDevice, address, height);
    operation->addresses[0] = reinterpret_cast<uint64_t>(pitch);
  }
  void Free(uint8_t kind, uint64_t address) const {
    Act(CudaAction::kFree);
    operation->type = kind;
    operation->object = address;
  }
  void Free(uint8_t kind, uint64_t address, void* stream) const {
    Free(kind, address);
    Stream(stream);
    operation->asynchronous = true;
  }

  // Physical memory, which is in use whether it is mapped or not.
  void Create(const uint64_t* handle, uint64_t bytes, const CudaMemoryProperties* properties) const {
    if (properties == nullptr) return Call();
    const bool on_device = properties->location.type == 1;
    Allocate(on_device ? kMemoryDevice : kMemoryPinned, handle, bytes);
    if (on_device) operation->value = static_cast<uint32_t>(properties->location.id) + 1;
  }
  void Release(uint64_t handle) const {
    Free(kMemoryDevice, handle);
    Act(CudaAction::kRelease);
  }

  void Wait(uint8_t type, const void* stream) const {
    Act(CudaAction::kWait);
    operation->type = type;
    Stream(stream);
  }
  void Wait(uint8_t type, uint64_t, const void* event = nullptr) const {
    Act(CudaAction::kWait);
    operation->type = type;
    operation->object = reinterpret_cast<uint64_t>(event);
  }

  void Named(CudaAction action, void** made, const void* from) const {
    Act(action);
    operation->object = reinterpret_cast<uint64_t>(from);
    operation->result = reinterpret_cast<const uint64_t*>(made);
  }
  void Function(void** function, const char* name) const { Named(CudaAction::kFunction, function, name); }
  void KernelOf(void** kernel, const char* name) const { Named(CudaAction::kKernel, kernel, name); }
  void FunctionOf(void** function, const void* kernel) const { Named(CudaAction::kFunctionOf, function, kernel); }

  void MakeGreen(void** green, int device) const {
    Named(CudaAction::kMakeGreen, green, nullptr);
    operation->value = static_cast<uint32_t>(device);
  }
  void ConvertGreen(void** context, const void* green) const { Named(CudaAction::kConvertGreen, context, green); }
  void EndGreen(const void* green) const { Named(CudaAction::kEndGreen, nullptr, green); }

  void EndContext(const void* context) const {
    Act(CudaAction::kEndContext);
    operation->object = reinterpret_cast<uint64_t>(context);
  }
  void EndDevice(int device) const {
    Act(CudaAction::kEndDevice);
    operation->value = static_cast<uint32_t>(device);
  }
  void ReleaseDevice(int device) const {
    EndDevice(device);
    Act(CudaAction::kReleaseDevice);
  }
};

// The alternate stack may lie within the thread's own stack, in a function's frame.
bool IsOnAlternateStack() {
  stack_t stack = {};
  return raw::Call(SYS_sigaltstack, 0, raw::Pointer(&stack)) == 0 && (stack.ss_flags & SS_ONSTACK) != 0;
}

// Whether the observed call was left by longjmp, an exception or a cancellation, so that it never ends and its thread
// would stay silent for good. This is certain for a call on the thread's own stack if the current call is not below it,
// or if the memory that held it is overwritten. On other stacks (alternate signal stacks, coroutines) nothing is
// certain: outside of the observer a call that the current one is not below is assumed to be gone, which at worst
// counts nested calls, too; in the middle of a record it is assumed to be still there.
__attribute__((noinline)) bool WasLeft(const CudaObserver* observer, uint64_t frame) {
  Observed* const left = &t_observed;
  ThreadState* const thread = &t_thread;
  const bool silent = thread->phase == ThreadPhase::kOwn;
  if (left->frame == 0 || (silent && !left->in_observer)) return false;
  bool certain = false;
  if (left->frame >= thread->stack_low && left->frame < thread->stack_top) {
    certain = left->operation->mark != left->mark ||
              (frame >= left->frame && frame < thread->stack_top && !IsOnAlternateStack());
  }
  if (!certain && (left->in_observer || frame < left->frame)) return false;
  if (silent) {
    thread->epoch = left->epoch;
    SignalFence();
    thread->phase = left->phase;
  }
  if (certain) {
    CudaOperation operation{};
    operation.action = left->action;
    operation.value = left->value;
    operation.work = left->in_flight;
    left->in_flight = 0;
    left->in_observer = true;
    SignalFence();
    const int saved = errno;
    observer->left(operation);
    errno = saved;
  }
  left->in_observer = false;
  SignalFence();
  left->frame = 0;
  return true;
}

// Not inlined: in 200 hooks the code would be larger than the rest of the library.
__attribute__((noinline)) bool Begin(const CudaObserver* observer, CudaOperation* operation, uint64_t frame) {
  Observed* const call = &t_observed;
  const ThreadState* const thread = &t_thread;
  if ((call->frame != 0 || thread->phase == ThreadPhase::kOwn) && !WasLeft(observer, frame)) return false;
  call->operation = operation;
  call->mark = operation->mark = ++t_marks * 0x9e3779b97f4a7c15;
  call->phase = thread->phase;
  call->epoch = thread->epoch;
  call->action = operation->action;
  call->value = operation->value;
  call->in_flight = 0;
  operation->in_flight = &call->in_flight;
  call->in_observer = true;
  SignalFence();
  call->frame = frame;
  const int saved = errno;
  const bool good = observer->begin(operation);
  errno = saved;
  call->value = operation->value;
  SignalFence();
  call->in_observer = false;
  if (!good) call->frame = 0;
  return good;
}
__attribute__((noinline)) void End(const CudaObserver* observer, CudaOperation* operation, int result) {
  t_observed.in_observer = true;
  SignalFence();
  const int saved = errno;
  observer->end(operation, result);
  errno = saved;
  SignalFence();
  t_observed.in_observer = false;
  t_observed.frame = 0;
}

}  // namespace

bool SetObserver(const CudaObserver* observer) {
  if ((g_attachment.segment.header->gpu_options & kGpuByHooks) == 0) return false;
  __atomic_store_n(&g_observer, observer, __ATOMIC_RELEASE);
  return true;
}

#define TBPROF_CUDA_HOOK(symbol, number, stream_of_default, parameters, arguments, description) \
  int Hook_##symbol parameters {                                                                \
    const CudaObserver* const observer = __atomic_load_n(&g_observer, __ATOMIC_ACQUIRE);        \
    if (__builtin_expect(observer == nullptr, 1)) {                                             \
      const uint64_t begin = BeginCudaCall();                                                   \
      if (__builtin_expect(begin == 0, 1)) return g_cuda.symbol arguments;                      \
      const int result = g_cuda.symbol arguments;                                               \
      EndCudaCall(begin);                                                                       \
      return result;                                                                            \
    }                                                                                           \
    CudaOperation operation{};                                                                  \
    operation.call = CudaCall::number;                                                          \
    const Descriptions describe{&operation, stream_of_default};                                 \
    describe.description;                                                                       \
    const auto frame = reinterpret_cast<uint64_t>(__builtin_dwarf_cfa());                       \
    if (!Begin(observer, &operation, frame)) return g_cuda.symbol arguments;                    \
    /* After the observer's begin, which takes microseconds and is not part of the call. */     \
    const uint64_t begin = BeginCudaCall();                                                     \
    const int result = g_cuda.symbol arguments;                                                 \
    End(observer, &operation, result);                                                          \
    EndCudaCall(begin);                                                                         \
    return result;                                                                              \
  }
#define TBPROF_CUDA_CALL(symbol, name, since, until, parameters, arguments, description) \
  TBPROF_CUDA_HOOK(symbol, symbol, kCudaLegacyStream, parameters, arguments, description)
#define TBPROF_CUDA_STREAM_CALL(symbol, name, since, until, suffix, suffix_since, parameters, arguments, description) \
  TBPROF_CUDA_HOOK(symbol, symbol, kCudaLegacyStream, parameters, arguments, description)                             \
  TBPROF_CUDA_HOOK(symbol##suffix, symbol, kCudaThreadStream, parameters, arguments, description)
#include "wire/cuda_calls.def"

// cudaProfilerStart and cudaProfilerStop call these two. The driver's work inside them belongs to the window.
int Hook_cuProfilerStart() {
  if (IsProfilerSwitchWanted()) SwitchCudaProfiler(true);
  return g_cuda.cuProfilerStart();
}
int Hook_cuProfilerStop() {
  const int result = g_cuda.cuProfilerStop();
  if (IsProfilerSwitchWanted()) SwitchCudaProfiler(false);
  return result;
}

}  // namespace tbprof
