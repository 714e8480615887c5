// SPDX-License-Identifier: Apache-2.0
// The bridge to libtbprof_cupti.so (wire/gpu_bridge.h). Rules: RULES.md.
#include "wire/gpu_bridge.h"

#include <signal.h>

#include "preload/gpu.h"
#include "preload/hooks.h"
#include "preload/record.h"
#include "preload/state.h"
#include "wire/cupti_use.h"
#include "wire/raw.h"

namespace tbprof {
namespace {

// CUPTI's own functions run on this stack.
constexpr size_t kStackBytes = 1024 * 1024;

bool GetSession(GpuSession* session) {
  if (!g_attachment.attached || CurrentThread() == nullptr) return false;
  session->segment = g_attachment.segment;
  session->clock = g_attachment.clock;
  session->epoch = g_fork_page->epoch;
  session->process = &g_attachment.segment.process_slots[g_fork_page->process_slot];
  return true;
}

uint32_t Epoch() { return __atomic_load_n(&g_fork_page->epoch, __ATOMIC_ACQUIRE); }

struct OwnThread {
  void* (*routine)(void*);
  void* argument;
};
OwnThread g_own_thread;

void* RunOwnThread(void* argument) {
  // Set before the first call that a hook might record.
  t_thread.phase = ThreadPhase::kOwn;
  SignalFence();
  const OwnThread own = *static_cast<OwnThread*>(argument);
  return own.routine(own.argument);
}

bool StartOwnThread(void* (*routine)(void*), void* argument) {
  g_own_thread = {routine, argument};
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  // A new thread inherits its creator's signal mask, and no handler of the program may run on this thread. libc's own
  // two signals stay unblocked: setuid waits until each thread has handled its signal. In the kernel's set, signal N is
  // bit N - 1.
  const uint64_t all = ~(uint64_t{3} << 31);
  uint64_t before = 0;
  raw::Call(SYS_rt_sigprocmask, SIG_SETMASK, raw::Pointer(&all), raw::Pointer(&before), 8);
  pthread_t thread;
  const bool started = g_real.pthread_create(&thread, &attributes, RunOwnThread, &g_own_thread) == 0;
  raw::Call(SYS_rt_sigprocmask, SIG_SETMASK, raw::Pointer(&before), 0, 8);
  pthread_attr_destroy(&attributes);
  return started;
}

ChunkWriter* EnterOwnThread() {
  ThreadState* thread = &t_thread;
  if (thread->phase != ThreadPhase::kOwn || !RegisterOwnThread(thread)) return nullptr;
  return &thread->writer;
}

ChunkWriter* WriterOfThread() {
  ThreadState* thread = CurrentThread();
  return thread != nullptr && thread->phase == ThreadPhase::kLive ? &thread->writer : nullptr;
}

uint64_t BeginHookBypass() {
  ThreadState* thread = &t_thread;
  const uint64_t previous = static_cast<uint64_t>(thread->phase) << 32 | thread->epoch;
  thread->phase = ThreadPhase::kOwn;
  SignalFence();
  thread->epoch = kEpochNone;
  return previous;
}

void EndHookBypass(uint64_t previous) {
  ThreadState* thread = &t_thread;
  thread->epoch = static_cast<uint32_t>(previous);
  SignalFence();
  thread->phase = static_cast<ThreadPhase>(previous >> 32);
}

void (*g_name_stream)(void* stream, const char* name);
void SetStreamNamer(void (*routine)(void* stream, const char* name)) {
  __atomic_store_n(&g_name_stream, routine, __ATOMIC_RELEASE);
}

void SetAtEnd(void (*routine)()) { __atomic_store_n(&g_gpu_at_end, routine, __ATOMIC_RELEASE); }

}  // namespace

void (*g_gpu_at_end)();

void CallGpuAtEnd() {
  auto* const routine = __atomic_load_n(&g_gpu_at_end, __ATOMIC_ACQUIRE);
  if (routine == nullptr || !g_attachment.attached) return;
  // After vfork a child runs in this process's memory: the child ends, not this process.
  if (g_attachment.segment.process_slots[g_fork_page->process_slot].pid != raw::GetPid()) return;
  routine();
}

void NameGpuStream(void* stream, const char* name) {
  auto* const routine = __atomic_load_n(&g_name_stream, __ATOMIC_ACQUIRE);
  // Handles 0 to 2 are the default streams, which belong to no particular context.
  if (routine != nullptr && name != nullptr && reinterpret_cast<uint64_t>(stream) > 2) routine(stream, name);
}

extern "C" __attribute__((visibility("default"))) const GpuBridge tbprof_gpu_bridge = {
    .abi = kAbiVersion,
    .get_session = GetSession,
    .epoch = Epoch,
    .start_thread = StartOwnThread,
    .enter_thread = EnterOwnThread,
    .begin_bypass = BeginHookBypass,
    .end_bypass = EndHookBypass,
    .at_end = SetAtEnd,
    .cupti_use = &g_cupti_use,
    .set_yield = SetYield,
    .writer_of_thread = WriterOfThread,
    .set_observer = SetObserver,
    .set_stream_namer = SetStreamNamer,
};

}  // namespace tbprof
