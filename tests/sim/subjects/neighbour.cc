// SPDX-License-Identifier: Apache-2.0
//
// A program with a profiler of its own, in the order of calls that real ones have. Built three times: linked to
// libcupti (neighbour_linked), opening it (neighbour_opened), and as a library that does (neighbour_plugged opens it).
//
//   neighbour ORDER [SESSIONS]
//
//   xla               jax.profiler, TensorFlow: subscribe, register, enable; unsubscribe, disable, flush, finalize
//                     (CuptiTracer::Disable, xla/backends/profiler/gpu/cupti_tracer.cc, openxla/xla)
//   kineto_subscribed torch.profiler before August 2026: subscribes once and never unsubscribes; per session the
//                     attribute of buffers by thread, register, enable; disable, flush
//                     (CuptiActivityApi.cpp, CuptiCallbackApi.cpp, pytorch/kineto)
//   kineto            since then (kineto 7a3ba363): the same without a subscriber
//   kineto_clock      the same; a timestamp callback that reads the counter of the CPU is registered first
//   kineto_teardown   TEARDOWN_CUPTI=1: a thread enables the callbacks of all calls and flushes, and the next call's
//                     callback unsubscribes and finalizes (CuptiActivityApi::teardownContext)
//   collector         a subscriber of cuptiSubscribe_v2 that is held as long as PyTorch's CUPTI monitor lives
//                     (torch/profiler/_cupti/monitor.py, pytorch#186439), without its calls of CUPTI 13.2
//   registered_once   registers its buffers in the first session alone
//   leaves_kinds, leaves_callbacks, leaves_unflushed, leaves_subscriber_v2
//                     the same, and after the last session so much is left for good
//
//   NEIGHBOUR_AWAITS    under tbprof: before and after each session waits until device activity is recorded
//   NEIGHBOUR_QUIET_MS  and has tbprof come back after so long without a call of CUPTI, not after a second
//
// Prints what it launched, and what its own profiler saw of it: own_* in its sessions, outside_* between them.
// Before cuda.h, whose macros rename what it names.
#include "cupti/futex.h"
#include "wire/gpu_bridge.h"

#include <cuda.h>
#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <cupti_driver_cbid.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <atomic>
#include <string>

#include "tests/sim/subjects/must.h"

namespace {

#ifdef NEIGHBOUR_OPENS
void* cupti;
void* Find(const char* name) {
  void* const function = dlsym(cupti, name);
  if (function == nullptr) exit(3);
  return function;
}
#define CUPTI(name) reinterpret_cast<decltype(&name)>(Find(#name))
#else
#define CUPTI(name) name
#endif

constexpr char kImage[] =
    ".version 7.0\n.target sm_75\n.address_size 64\n"
    ".visible .entry own_for_nanoseconds(.param .u64 d) {\nret;\n}\n"
    ".visible .entry between_for_nanoseconds(.param .u64 d) {\nret;\n}\n"
    ".visible .entry outside_for_nanoseconds(.param .u64 d) {\nret;\n}\n";
constexpr int kOwn = 20, kBetween = 3, kOutside = 5;
constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                                         CUPTI_ACTIVITY_KIND_MEMSET, CUPTI_ACTIVITY_KIND_RUNTIME,
                                         CUPTI_ACTIVITY_KIND_OVERHEAD};

CUfunction own, between, outside;
CUpti_SubscriberHandle subscriber;
long own_launched, between_launched, outside_launched, own_seen, between_seen, outside_seen, buffers, dirty_buffers,
    untimed, calls_seen;
std::atomic<bool> tear_down;

void CUPTIAPI Request(uint8_t** buffer, size_t* size, size_t* records) {
  *size = 65536;
  *buffer = static_cast<uint8_t*>(aligned_alloc(8, *size));
  memset(*buffer, 0xa5, *size);
  *records = 0;
}

void CUPTIAPI Complete(CUcontext, uint32_t, uint8_t* buffer, size_t size, size_t valid) {
  CUpti_Activity* record = nullptr;
  ++buffers;
  while (CUPTI(cuptiActivityGetNextRecord)(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) continue;
    const auto* const kernel = reinterpret_cast<const CUpti_ActivityKernel4*>(record);
    ++(strncmp(kernel->name, "own", 3) == 0 ? own_seen : *kernel->name == 'b' ? between_seen : outside_seen);
    untimed += kernel->end <= kernel->start;
  }
  // CUPTI zeroes a buffer before it writes to it, unless its client has set that it does so.
  bool dirty = false;
  for (size_t at = valid; at < size; ++at) dirty = dirty || buffer[at] != 0;
  dirty_buffers += dirty;
  free(buffer);
}

void CUPTIAPI OnCall(void*, CUpti_CallbackDomain domain, CUpti_CallbackId, const void* data) {
  ++calls_seen;
  if (domain != CUPTI_CB_DOMAIN_DRIVER_API && domain != CUPTI_CB_DOMAIN_RUNTIME_API) return;
  if (static_cast<const CUpti_CallbackData*>(data)->callbackSite != CUPTI_API_EXIT) return;
  if (!tear_down.exchange(false)) return;
  MUST(CUPTI(cuptiUnsubscribe)(subscriber));
  MUST(CUPTI(cuptiFinalize)());
  subscriber = nullptr;
}

uint64_t CUPTIAPI Counter() { return tbprof::ReadCounter(); }

void Launch(CUfunction function, int count, long* launched, unsigned long long duration = 3000) {
  for (int i = 0; i < count; ++i) {
    void* arguments[] = {&duration};
    MUST(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, nullptr, arguments, nullptr));
    ++*launched;
  }
  MUST(cuCtxSynchronize());
}

// Only under tbprof; in the end the process is ended by the one that waits for it.
void AwaitRecording() {
  if (getenv("NEIGHBOUR_AWAITS") == nullptr) return;
  const auto* const bridge = static_cast<const tbprof::GpuBridge*>(dlsym(RTLD_DEFAULT, tbprof::kGpuBridgeName));
  tbprof::GpuSession session;
  if (bridge == nullptr || !bridge->get_session(&session)) return;
  const char* const quiet = getenv("NEIGHBOUR_QUIET_MS");
  if (quiet != nullptr) bridge->cupti_use->quiet_ns = strtoull(quiet, nullptr, 10) * 1'000'000;
  const auto* const state = &session.process->gpu_state;
  while (__atomic_load_n(state, __ATOMIC_ACQUIRE) != static_cast<uint32_t>(tbprof::GpuState::kRecording)) {
    if (quiet != nullptr) tbprof::cupti::WakeOwnThread(session.process);
    usleep(500);
  }
}

struct Order {
  std::string name;
  bool Is(const char* other) const { return name == other; }
  bool IsKineto() const { return name.starts_with("kineto"); }
  bool Leaves() const { return name.starts_with("leaves_"); }
};

void Subscribe(const Order& order) {
  if (order.Is("collector") || order.Is("leaves_subscriber_v2")) {
    char old[CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN] = "";
    CUpti_SubscriberParams parameters;
    memset(&parameters, 0, sizeof(parameters));
    parameters.structSize = CUpti_SubscriberParams_STRUCT_SIZE;
    parameters.subscriberName = "monitor";
    parameters.oldSubscriberName = old;
    parameters.oldSubscriberSize = sizeof(old);
    MUST(CUPTI(cuptiSubscribe_v2)(&subscriber, OnCall, nullptr, &parameters));
    return;
  }
  MUST(CUPTI(cuptiSubscribe)(&subscriber, OnCall, nullptr));
  if (order.Is("xla")) {
    for (const CUpti_CallbackId id :
         {CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoD_v2}) {
      MUST(CUPTI(cuptiEnableCallback)(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, id));
    }
  } else if (order.Is("leaves_callbacks")) {
    MUST(CUPTI(cuptiEnableDomain)(1, subscriber, CUPTI_CB_DOMAIN_RUNTIME_API));
  } else {
    MUST(CUPTI(cuptiEnableCallback)(1, subscriber, CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_CONTEXT_CREATED));
  }
}

bool Subscribes(const Order& order, bool is_last) {
  if (order.Leaves()) return is_last && (order.Is("leaves_callbacks") || order.Is("leaves_subscriber_v2"));
  return !order.Is("kineto") && !order.Is("kineto_clock") && !order.Is("registered_once");
}

void Begin(const Order& order, int session, bool is_last) {
  const bool subscribes = Subscribes(order, is_last);
  if (subscribes && subscriber == nullptr) Subscribe(order);
  if (order.IsKineto()) {
    uint8_t value = 1;
    size_t size = sizeof(value);
    // Refused once callbacks are registered, which Kineto only logs.
    CUPTI(cuptiActivitySetAttribute)(CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER, &size, &value);
  }
  if (order.Is("kineto_clock") && session == 0) MUST(CUPTI(cuptiActivityRegisterTimestampCallback)(Counter));
  const bool registers_once = order.Is("registered_once") || order.Leaves();
  if (!registers_once || session == 0) MUST(CUPTI(cuptiActivityRegisterCallbacks)(Request, Complete));
  for (const CUpti_ActivityKind kind : kKinds) MUST(CUPTI(cuptiActivityEnable)(kind));
}

// In a thread of its own, as Kineto does.
void* TearDown(void*) {
  MUST(CUPTI(cuptiEnableDomain)(1, subscriber, CUPTI_CB_DOMAIN_RUNTIME_API));
  MUST(CUPTI(cuptiEnableDomain)(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API));
  MUST(CUPTI(cuptiActivityFlushAll)(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
  tear_down = true;
  return nullptr;
}

void End(const Order& order, bool is_last) {
  if (order.Is("xla")) {
    for (const CUpti_CallbackId id :
         {CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoD_v2}) {
      MUST(CUPTI(cuptiEnableCallback)(0, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, id));
    }
    MUST(CUPTI(cuptiUnsubscribe)(subscriber));
    subscriber = nullptr;
    // A client that subscribes now takes the records that are still in it.
    Launch(between, kBetween, &between_launched, 1'000'000);
  }
  if (!is_last || !order.Is("leaves_kinds")) {
    for (const CUpti_ActivityKind kind : kKinds) MUST(CUPTI(cuptiActivityDisable)(kind));
  }
  if (is_last && order.Is("leaves_unflushed")) return;
  MUST(CUPTI(cuptiActivityFlushAll)(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
  if (order.Is("xla")) MUST(CUPTI(cuptiFinalize)());
  if (order.Is("kineto_teardown")) {
    pthread_t thread;
    pthread_create(&thread, nullptr, TearDown, nullptr);
    pthread_join(thread, nullptr);
    // Its callback finalizes.
    MUST(cuCtxSynchronize());
  }
}

}  // namespace

#ifdef NEIGHBOUR_IN_LIBRARY
extern "C" int RunNeighbour(int argc, char** argv) {
#else
int main(int argc, char** argv) {
#endif
  const Order order = {argc > 1 ? argv[1] : "xla"};
  const int sessions = argc > 2 ? atoi(argv[2]) : 3;
#ifdef NEIGHBOUR_OPENS
  cupti = dlopen("libcupti.so.13", RTLD_NOW);
  if (cupti == nullptr) return 2;
#endif
  CUdevice device;
  CUcontext context;
  CUmodule module;
  MUST(cuInit(0));
  MUST(cuDeviceGet(&device, 0));
  MUST(cuDevicePrimaryCtxRetain(&context, device));
  MUST(cuCtxSetCurrent(context));
  MUST(cuModuleLoadData(&module, kImage));
  MUST(cuModuleGetFunction(&own, module, "own_for_nanoseconds"));
  MUST(cuModuleGetFunction(&between, module, "between_for_nanoseconds"));
  MUST(cuModuleGetFunction(&outside, module, "outside_for_nanoseconds"));
  for (int session = 0; session < sessions; ++session) {
    // The collector keeps CUPTI.
    if (!order.Is("collector") || session == 0) AwaitRecording();
    Launch(outside, kOutside, &outside_launched);
    const bool is_last = session == sessions - 1;
    Begin(order, session, is_last);
    Launch(own, kOwn, &own_launched);
    End(order, is_last);
  }
  if (order.Is("collector")) MUST(CUPTI(cuptiUnsubscribe)(subscriber));
  if (!order.Leaves()) AwaitRecording();
  Launch(outside, kOutside, &outside_launched);
  printf("own_launched=%ld\nown_seen=%ld\nbetween_seen=%ld\n", own_launched, own_seen, between_seen);
  printf("outside_launched=%ld\noutside_seen=%ld\n", outside_launched, outside_seen);
  printf("buffers=%d\ndirty_buffers=%ld\nuntimed=%ld\n", buffers > 0, dirty_buffers, untimed);
  return 0;
}
