// SPDX-License-Identifier: Apache-2.0
//
// Calls of CUPTI in random order, by two threads.
//
//   cupti_calls SEQUENCES SEED [together]
//
// The threads take turns: what each call answers and which kernels the program's own records show depends on the seed
// alone, and is printed as a digest. together: both call at any time, and nothing but the end is printed. Under tbprof
// every fourth sequence begins while it records, and it may come back at once at any point where nothing is in use.
#include "cupti/futex.h"
#include "wire/gpu_bridge.h"

#include <cuda.h>
#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <atomic>

#include "tests/sim/subjects/must.h"

namespace {

constexpr char kImage[] =
    ".version 7.0\n.target sm_75\n.address_size 64\n"
    ".visible .entry own_for_nanoseconds(.param .u64 d) {\nret;\n}\n";
constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_DRIVER,
                                         CUPTI_ACTIVITY_KIND_MEMSET};

CUcontext context;
CUfunction own;
std::atomic<long> kernels{0}, launched{0}, sequences{0};
uint64_t digest = 0xcbf29ce484222325;

struct Random {
  uint64_t state;
  uint32_t Below(uint32_t bound) {
    state = state * 6364136223846793005 + 1442695040888963407;
    return static_cast<uint32_t>(state >> 33) % bound;
  }
};

void Add(uint64_t value) { digest = (digest ^ value) * 0x100000001b3; }

void CUPTIAPI Request(uint8_t** buffer, size_t* size, size_t* records) {
  *size = 16384;
  *buffer = static_cast<uint8_t*>(aligned_alloc(8, *size));
  *records = 0;
}

void CUPTIAPI Complete(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    kernels += record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  }
  free(buffer);
}

void CUPTIAPI OnCall(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}

// tbprof in this process; null: bare.
const tbprof::GpuBridge* Tbprof(tbprof::GpuSession* session) {
  const auto* const bridge = static_cast<const tbprof::GpuBridge*>(dlsym(RTLD_DEFAULT, tbprof::kGpuBridgeName));
  return bridge != nullptr && bridge->get_session(session) ? bridge : nullptr;
}

void LetTbprofCome(bool await) {
  tbprof::GpuSession session;
  const tbprof::GpuBridge* const bridge = Tbprof(&session);
  if (bridge == nullptr) return;
  bridge->cupti_use->quiet_ns = 0;
  const auto recording = static_cast<uint32_t>(tbprof::GpuState::kRecording);
  tbprof::cupti::WakeOwnThread(session.process);
  sched_yield();
  while (await && __atomic_load_n(&session.process->gpu_state, __ATOMIC_ACQUIRE) != recording) {
    tbprof::cupti::WakeOwnThread(session.process);
    usleep(100);
  }
}

int Attributes() {
  uint8_t zeroed = 0;
  size_t size = sizeof(zeroed);
  CUpti_ActivityThreadIdType type = CUPTI_ACTIVITY_THREAD_ID_TYPE_DEFAULT;
  const int result = cuptiActivityGetAttribute(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &size, &zeroed) |
                     cuptiGetThreadIdType(&type);
  return result | zeroed << 16 | static_cast<int>(type) << 17;
}

int Launch() {
  unsigned long long duration = 1000;
  void* arguments[] = {&duration};
  ++launched;
  const int result = cuLaunchKernel(own, 1, 1, 1, 32, 1, 1, 0, nullptr, arguments, nullptr);
  return result | cuCtxSynchronize();
}

int Step(uint32_t what, uint32_t which, CUpti_SubscriberHandle* subscriber) {
  const CUpti_ActivityKind kind = kKinds[which % 3];
  switch (what) {
    case 0:
      return cuptiSubscribe(subscriber, OnCall, nullptr);
    case 1: {
      CUpti_SubscriberHandle const held = *subscriber;
      *subscriber = nullptr;
      return held == nullptr ? -1 : cuptiUnsubscribe(held);
    }
    case 2:
    case 3:
      return cuptiActivityEnable(kind);
    case 4:
    case 5:
      return cuptiActivityDisable(kind);
    case 6:
      return cuptiActivityRegisterCallbacks(Request, Complete);
    case 7:
      return cuptiActivityFlushAll(which % 2);
    case 8:
      *subscriber = nullptr;
      return cuptiFinalize();
    case 9:
      return Attributes();
    case 10:
      LetTbprofCome(false);
      return 0;
    default:
      return Launch();
  }
}

void CleanUp() {
  for (const CUpti_ActivityKind kind : kKinds) cuptiActivityDisable(kind);
  cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  cuptiFinalize();
}

// ---- in turns

struct Turn {
  std::atomic<int> thread{-1};  // whose turn it is; -1: the main thread's
  uint32_t what = 0, which = 0;
  int result = 0;
  CUpti_SubscriberHandle subscriber = nullptr;
};
Turn turn;

void* TakeTurns(void* number) {
  const int own_number = static_cast<int>(reinterpret_cast<intptr_t>(number));
  MUST(cuCtxSetCurrent(context));
  for (;;) {
    int now = turn.thread.load();
    while (now != own_number && now != -2) {
      turn.thread.wait(now);
      now = turn.thread.load();
    }
    if (now == -2) return nullptr;
    turn.result = Step(turn.what, turn.which, &turn.subscriber);
    turn.thread = -1;
    turn.thread.notify_all();
  }
}

void RunInTurns(long count, uint64_t seed) {
  pthread_t threads[2];
  for (intptr_t i = 0; i < 2; ++i) pthread_create(&threads[i], nullptr, TakeTurns, reinterpret_cast<void*>(i));
  for (long sequence = 0; sequence < count; ++sequence) {
    Random random{seed + static_cast<uint64_t>(sequence) * 7919};
    random.Below(2);
    if (sequence % 4 == 0) LetTbprofCome(true);
    const uint32_t steps = 4 + random.Below(9);
    for (uint32_t step = 0; step < steps; ++step) {
      // Two of three begin as a profiler does.
      const bool begins = sequence % 3 != 0 && step < 2;
      turn.what = random.Below(16);
      turn.which = random.Below(6);
      if (begins) turn.what = step == 0 ? 6 : 2;
      if (begins) turn.which = 0;
      turn.thread = static_cast<int>(random.Below(2));
      turn.thread.notify_all();
      for (int now = turn.thread.load(); now != -1; now = turn.thread.load()) turn.thread.wait(now);
      Add(static_cast<uint64_t>(turn.result));
    }
    CleanUp();
    turn.subscriber = nullptr;
    Add(static_cast<uint64_t>(kernels.load()));
    ++sequences;
  }
  turn.thread = -2;
  turn.thread.notify_all();
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  printf("own_kernels=%ld\ndigest=%016llx\n", kernels.load(), static_cast<unsigned long long>(digest));
}

// ---- at any time

struct Share {
  long count;
  uint64_t seed;
};

void* RunShare(void* argument) {
  const Share share = *static_cast<Share*>(argument);
  MUST(cuCtxSetCurrent(context));
  CUpti_SubscriberHandle subscriber = nullptr;
  for (long sequence = 0; sequence < share.count; ++sequence) {
    Random random{share.seed + static_cast<uint64_t>(sequence) * 7919};
    const uint32_t steps = 4 + random.Below(9);
    for (uint32_t step = 0; step < steps; ++step) {
      const uint32_t what = random.Below(16);
      // Of a subscriber that another thread's finalize has ended, CUPTI reports nothing.
      if (what != 8) Step(what, random.Below(6), &subscriber);
    }
    ++sequences;
  }
  if (subscriber != nullptr) cuptiUnsubscribe(subscriber);
  return nullptr;
}

void RunTogether(long count, uint64_t seed) {
  Share shares[2] = {{count / 2, seed}, {count - count / 2, seed + 104729}};
  pthread_t threads[2];
  for (int i = 0; i < 2; ++i) pthread_create(&threads[i], nullptr, RunShare, &shares[i]);
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  CleanUp();
  LetTbprofCome(true);
}

}  // namespace

int main(int argc, char** argv) {
  const long count = argc > 1 ? atol(argv[1]) : 100;
  const uint64_t seed = argc > 2 ? strtoull(argv[2], nullptr, 10) : 1;
  CUdevice device;
  CUmodule module;
  MUST(cuInit(0));
  MUST(cuDeviceGet(&device, 0));
  MUST(cuDevicePrimaryCtxRetain(&context, device));
  MUST(cuCtxSetCurrent(context));
  MUST(cuModuleLoadData(&module, kImage));
  MUST(cuModuleGetFunction(&own, module, "own_for_nanoseconds"));
  if (argc > 3 && strcmp(argv[3], "together") == 0) {
    RunTogether(count, seed);
  } else {
    RunInTurns(count, seed);
  }
  printf("sequences=%ld\nlaunched=%ld\n", sequences.load(), launched.load());
  return 0;
}
