// SPDX-License-Identifier: Apache-2.0
// The stand-in of libtorch_cpu.so: the observers' interface, with the names and the layout of the release that the
// tests write into version.py, and nothing to observe but what a program requests (torch.h). What PyTorch would not
// survive ends the process: a callback that is added or changed under PyTorch's own lock, or while it is being changed.
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "torch.h"

#define SIM_TORCH_EXPORT extern "C" __attribute__((visibility("default")))

namespace c10 {
void* alloc_cpu(size_t bytes);
void free_cpu(void* block);
int64_t Reported();
int64_t Reports();
class UndefinedTensorImpl {
 public:
  static SimTorchTensorImpl _singleton;
};
}  // namespace c10

namespace at {

class __attribute__((visibility("default"))) RecordFunction {
 public:
  const char* name() const;
  size_t num_inputs() const;

  // As at::RecordFunction of 2.13.0 has its fields.
  struct Fields {
    char first[88];
    uint64_t thread;
    char second[104];
    int64_t sequence;
    const void* inputs;
    uint64_t given;
    char third[80];
    uint64_t forward_thread;
    char fourth[8];
    bool asynchronous;
    const char* name;
    uint64_t arguments;
    uint32_t callbacks;  // those whose end is to be called, by bits
    void* contexts[8];
  } fields;
};
static_assert(offsetof(RecordFunction::Fields, thread) == 88 && offsetof(RecordFunction::Fields, sequence) == 200 &&
              offsetof(RecordFunction::Fields, inputs) == 208 &&
              offsetof(RecordFunction::Fields, forward_thread) == 304 &&
              offsetof(RecordFunction::Fields, asynchronous) == 320);

const char* RecordFunction::name() const { return fields.name; }
size_t RecordFunction::num_inputs() const { return fields.arguments; }

// Returned through memory, as a std::unique_ptr is.
struct Context {
  void* pointer = nullptr;
  Context() = default;
  Context(Context&& other) : pointer(other.pointer) { other.pointer = nullptr; }
  ~Context() {
    if (pointer != nullptr) abort();
  }
};

struct RecordFunctionCallback {
  Context (*start)(const RecordFunction&);
  void (*end)(const RecordFunction&, void*);
  double probability;
  bool scopes[10];
  bool needs_inputs, needs_outputs, needs_ids;
};
static_assert(sizeof(RecordFunctionCallback) == 40);

namespace {

constexpr uint32_t kMost = 8;
RecordFunctionCallback g_callbacks[kMost];
uint32_t g_enabled, g_count;
pthread_mutex_t g_mutex = PTHREAD_MUTEX_INITIALIZER;
uint64_t g_counts[4];
uint64_t g_threads;
__thread uint32_t t_until_sampled;  // calls of a callback that is not called each time
__thread uint64_t t_thread;
__thread int64_t t_sequence;
// What the next operation is given.
struct Given {
  const void* values;
  uint64_t given, arguments;
};
__thread Given t_given;

// So long a change takes: SIM_TORCH_CHANGE_US, or no time.
void SpinInChange() {
  const char* const text = getenv("SIM_TORCH_CHANGE_US");
  if (text == nullptr) return;
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const int64_t end = now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec + atol(text) * int64_t{1000};
  do {
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while (now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec < end);
}

class Change {
 public:
  explicit Change(int what) {
    if (pthread_mutex_trylock(&g_mutex) != 0) abort();
    __atomic_fetch_add(&g_counts[what], 1, __ATOMIC_RELAXED);
    SpinInChange();
  }
  ~Change() { pthread_mutex_unlock(&g_mutex); }
};

uint64_t ThreadNumber() {
  if (t_thread == 0) t_thread = __atomic_add_fetch(&g_threads, 1, __ATOMIC_RELAXED);
  return t_thread;
}

void SetEnabled(uint64_t handle, bool enabled) {
  if (handle == 0 || handle > g_count) abort();
  const uint32_t bit = 1u << (handle - 1);
  // A callback is enabled or disabled once.
  if (((__atomic_load_n(&g_enabled, __ATOMIC_RELAXED) & bit) != 0) == enabled) abort();
  __atomic_xor_fetch(&g_enabled, bit, __ATOMIC_RELEASE);
}

// Every Nth, chosen by chance in the release.
bool IsSampled(double probability) {
  if (t_until_sampled == 0) t_until_sampled = static_cast<uint32_t>(1 / probability);
  return --t_until_sampled == 0;
}

void Begin(RecordFunction* function, const SimTorchOperation& operation, uint32_t enabled) {
  memset(&function->fields, 0x5a, sizeof(function->fields));
  function->fields.thread = ThreadNumber();
  function->fields.sequence = operation.sequence;
  function->fields.forward_thread = operation.forward_thread;
  function->fields.asynchronous = operation.asynchronous != 0;
  function->fields.name = operation.name;
  function->fields.callbacks = 0;
  // Arguments are made values only for callbacks that need them.
  bool needed = false;
  for (uint32_t i = 0; i < kMost; ++i) {
    needed |= (enabled & (1u << i)) != 0 && g_callbacks[i].scopes[operation.scope] && g_callbacks[i].needs_inputs;
  }
  const Given given = t_given;
  t_given = {};
  function->fields.inputs = needed ? given.values : nullptr;
  function->fields.given = needed ? given.given : 0;
  function->fields.arguments = given.arguments;
  for (uint32_t i = 0; i < kMost; ++i) {
    if ((enabled & (1u << i)) == 0 || !g_callbacks[i].scopes[operation.scope]) continue;
    if (g_callbacks[i].probability < 1 && !IsSampled(g_callbacks[i].probability)) continue;
    function->fields.callbacks |= 1u << i;
    Context context = g_callbacks[i].start(*function);
    function->fields.contexts[i] = context.pointer;
  }
  if (function->fields.callbacks != 0) __atomic_fetch_add(&g_counts[3], 1, __ATOMIC_RELAXED);
}

void End(RecordFunction* function) {
  for (uint32_t i = 0; i < kMost; ++i) {
    if ((function->fields.callbacks & (1u << i)) != 0) g_callbacks[i].end(*function, function->fields.contexts[i]);
  }
}

}  // namespace

__attribute__((visibility("default"))) uint64_t addGlobalCallback(RecordFunctionCallback callback) {
  Change change(0);
  if (g_count == kMost || callback.start == nullptr || callback.end == nullptr || callback.probability <= 0 ||
      callback.probability > 1) {
    abort();
  }
  g_callbacks[g_count] = callback;
  __atomic_or_fetch(&g_enabled, 1u << g_count, __ATOMIC_RELEASE);
  return ++g_count;
}

__attribute__((visibility("default"))) void disableCallback(uint64_t handle) {
  Change change(1);
  SetEnabled(handle, false);
}

__attribute__((visibility("default"))) void reenableCallback(uint64_t handle) {
  Change change(2);
  SetEnabled(handle, true);
}

#ifndef SIM_TORCH_OLD_STRINGS
// Its name shows which std::string a build has.
__attribute__((abi_tag("cxx11"), visibility("default"))) void show_config() {}
#endif

class Tensor {
 public:
  const SimTorchTensorImpl* implementation;
};
namespace native {
__attribute__((visibility("default"))) int64_t size(const Tensor& tensor, int64_t dimension) {
  if ((tensor.implementation->policy >> 2 & 3) == 2 || dimension < 0 ||
      dimension >= static_cast<int64_t>(tensor.implementation->told_rank)) {
    abort();
  }
  return tensor.implementation->told[dimension];
}
}  // namespace native

#ifndef SIM_TORCH_LACKS_PEEK
namespace sequence_number {
__attribute__((visibility("default"))) int64_t peek() { return t_sequence; }
}  // namespace sequence_number
#endif

__attribute__((noinline, visibility("default"))) void* empty(uint64_t bytes) {
  void* const block = c10::alloc_cpu(bytes);
  asm volatile("" : : "r"(block) : "memory");
  return block;
}

}  // namespace at

SIM_TORCH_EXPORT void sim_torch_run(const SimTorchOperation* operation, void (*body)(void*), void* argument) {
  const uint32_t enabled = __atomic_load_n(&at::g_enabled, __ATOMIC_ACQUIRE);
  // No callback: no object is made.
  if (enabled == 0) {
    if (body != nullptr) body(argument);
    return;
  }
  at::RecordFunction function;
  at::Begin(&function, *operation, enabled);
  if (body != nullptr) body(argument);
  at::End(&function);
}

SIM_TORCH_EXPORT void* sim_torch_begin(const SimTorchOperation* operation) {
  auto* const function = static_cast<at::RecordFunction*>(malloc(sizeof(at::RecordFunction)));
  at::Begin(function, *operation, __atomic_load_n(&at::g_enabled, __ATOMIC_ACQUIRE));
  return function;
}

SIM_TORCH_EXPORT void sim_torch_end(void* function) {
  at::End(static_cast<at::RecordFunction*>(function));
  free(function);
}

SIM_TORCH_EXPORT void sim_torch_tensor(uint64_t bytes) { c10::free_cpu(at::empty(bytes)); }
SIM_TORCH_EXPORT int64_t sim_torch_reported(int what) { return what == 0 ? c10::Reported() : c10::Reports(); }
SIM_TORCH_EXPORT void sim_torch_set_sequence(int64_t sequence) { at::t_sequence = sequence; }
SIM_TORCH_EXPORT const SimTorchTensorImpl* sim_torch_undefined() { return &c10::UndefinedTensorImpl::_singleton; }
SIM_TORCH_EXPORT void sim_torch_give(const SimTorchValue* values, uint64_t given, uint64_t arguments) {
  at::t_given = {values, given, arguments};
}
SIM_TORCH_EXPORT uint64_t sim_torch_thread() { return at::ThreadNumber(); }
SIM_TORCH_EXPORT int sim_torch_is_locked() {
  if (pthread_mutex_trylock(&at::g_mutex) != 0) return 1;
  pthread_mutex_unlock(&at::g_mutex);
  return 0;
}
SIM_TORCH_EXPORT uint64_t sim_torch_count(int what) { return __atomic_load_n(&at::g_counts[what], __ATOMIC_RELAXED); }
