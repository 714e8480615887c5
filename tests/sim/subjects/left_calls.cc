// SPDX-License-Identifier: Apache-2.0
//
// Calls that are left in the middle, and launches after them.
//
//   left_calls jump|stack|threads|contexts|handler|inside [COUNT]
//
// jump: by siglongjmp from a handler; stack: from a handler on a stack of its own; threads: on threads that end then,
// with destructors that launch, too; contexts: launches, that wait for room (queue_depth=4), and then their context
// ends; handler: not left, but launched in from a handler, whose stack is an array in main; inside: where an event is
// recorded. Launches follow from where the call was, from deeper and from nearer to main.
//
// The simulator raises the signals where it holds no lock: for `inside` with event_signal, else with wait_signal.
#include <cuda.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <atomic>

#include "common.h"

static const char kImage[] =
    ".version 8.0\n.target sm_90\n.address_size 64\n"
    ".visible .entry left_for_nanoseconds(.param .u64 d) { ret; }\n";

static CUcontext context;
static CUfunction function;
static std::atomic<int> kernels{0};

__attribute__((noinline)) static void Launch(unsigned long long duration) {
  void* arguments[] = {&duration};
  MUST(cuLaunchKernel(function, 4, 1, 1, 64, 1, 1, 0, nullptr, arguments, nullptr));
  ++kernels;
}

__attribute__((noinline)) static void LaunchDeeper() {
  char room[4096];
  memset(room, 0x5a, sizeof(room));
  __asm__ volatile("" : : "r"(room) : "memory");
  Launch(1000);
  __asm__ volatile("" : : "r"(room) : "memory");
}

// ---- left while the device is waited for

static volatile sig_atomic_t armed;
static sigjmp_buf after;

// Not for each wait: some must not be left, such as the last one.
static void JumpIfArmed(int) {
  if (armed == 0) return;
  armed = 0;
  siglongjmp(after, 1);
}

__attribute__((noinline)) static void LeaveOnce() {
  volatile bool left = false;
  while (!left) {
    if (sigsetjmp(after, 1) == 0) {
      Launch(20'000'000);
      armed = 1;
      MUST(cuStreamSynchronize(nullptr));
      armed = 0;  // the kernel was over before the wait: there was no signal
    } else {
      left = true;
    }
  }
}

// Sooner or later there is no room until an earlier one is over.
__attribute__((noinline)) static void LeaveLaunch() {
  volatile bool left = false;
  while (!left) {
    if (sigsetjmp(after, 1) == 0) {
      armed = 1;
      for (;;) Launch(5'000'000);
    } else {
      left = true;
    }
  }
}

static void Begin() {
  CUmodule module;
  MUST(cuDevicePrimaryCtxRetain(&context, 0));
  MUST(cuCtxSetCurrent(context));
  MUST(cuModuleLoadData(&module, kImage));
  MUST(cuModuleGetFunction(&function, module, "left_for_nanoseconds"));
}

static void Handle(int signal, void (*handler)(int), int flags) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigaction(signal, &action, nullptr);
}

// ---- not left

static volatile int nested;
static void LaunchInside(int) {
  if (armed == 0) return;
  armed = 0;
  Launch(1000);
  nested = nested + 1;
}

__attribute__((noinline)) static void LaunchAround(int count) {
  while (nested < count) {
    armed = 1;
    for (const int before = nested; nested == before;) Launch(5'000'000);
  }
}

// ---- left by the end of their thread

struct AtEnd {
  ~AtEnd() { Launch(1000); }
};

static void* Ending(void*) {
  MUST(cuCtxSetCurrent(context));
  const AtEnd at_end;
  LeaveOnce();
  LaunchDeeper();
  LeaveOnce();
  pthread_exit(nullptr);
}

// ---- left wherever an event is recorded

// A launch that was left is made again: what is counted has returned.
__attribute__((noinline)) static void LaunchAnyhow(bool deeper) {
  volatile bool done = false;
  while (!done) {
    if (sigsetjmp(after, 1) == 0) {
      armed = 1;
      deeper ? LaunchDeeper() : Launch(1000);
      armed = 0;
      done = true;
    }
    armed = 0;
  }
}

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "jump";
  const int count = argc > 2 ? atoi(argv[2]) : 5;
  const bool threads = strcmp(mode, "threads") == 0, contexts = strcmp(mode, "contexts") == 0;
  MUST(cuInit(0));
  Begin();
  if (strcmp(mode, "inside") == 0) {
    Handle(SIGUSR2, JumpIfArmed, 0);
    for (int i = 0; i < 40 * count; ++i) LaunchAnyhow(i % 3 == 1);
  } else {
    char room[65536];
    stack_t other = {};
    other.ss_sp = room;
    other.ss_size = sizeof(room);
    const bool handler = strcmp(mode, "handler") == 0, elsewhere = handler || strcmp(mode, "stack") == 0;
    if (elsewhere) sigaltstack(&other, nullptr);
    Handle(SIGUSR1, handler ? LaunchInside : JumpIfArmed, elsewhere ? SA_ONSTACK : 0);
    if (handler) LaunchAround(count);
    for (int i = 0; i < count && !handler; ++i) {
      if (threads) {
        pthread_t thread;
        if (pthread_create(&thread, nullptr, Ending, nullptr) != 0) return 1;
        pthread_join(thread, nullptr);
        continue;
      }
      if (contexts) {
        LeaveLaunch();
        LaunchDeeper();
        MUST(cuCtxSynchronize());
        MUST(cuDevicePrimaryCtxReset(0));
        Begin();
        continue;
      }
      LeaveOnce();
      switch (i % 3) {
        case 0:
          LaunchDeeper();
          break;
        case 1:
          Launch(1000);
          break;
        default:
          LeaveOnce();
          break;
      }
    }
  }
  MUST(cuCtxSynchronize());
  // In bare runs and others the same number is left, if not the same calls.
  printf("launches=%d\nnested=%d\n", kernels.load(), nested);
  return 0;
}
