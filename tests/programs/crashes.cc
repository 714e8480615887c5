// SPDX-License-Identifier: Apache-2.0
//
// Ends by a signal in nested functions.
//   crashes MODE LIMIT [thread]     LIMIT: of core files, in bytes, -1: as far as it goes
//
// MODE: abort; segfault; null, a call of address 0; handler, an abort within the handler of a fault, on its own stack.
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace {

const char* g_mode;
volatile int g_sink;
void (*volatile g_nothing)() = nullptr;

void Handle(int) { abort(); }

void HandleOnOwnStack() {
  stack_t own = {};
  own.ss_size = 64 << 10;
  own.ss_sp = malloc(own.ss_size);
  sigaltstack(&own, nullptr);
  struct sigaction action = {};
  action.sa_handler = Handle;
  action.sa_flags = SA_ONSTACK;
  sigaction(SIGSEGV, &action, nullptr);
}

__attribute__((noinline)) void Inner(int* at) {
  if (strcmp(g_mode, "abort") == 0) abort();
  if (strcmp(g_mode, "null") == 0) g_nothing();
  *at = 1;
  g_sink = 1;
}

__attribute__((noinline)) void Middle(int* at) {
  Inner(at);
  g_sink = 2;
}

__attribute__((noinline)) void Outer(int* at) {
  Middle(at);
  g_sink = 3;
}

void* Run(void*) {
  Outer(reinterpret_cast<int*>(uintptr_t{0x10}));
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  g_mode = argv[1];
  if (strcmp(g_mode, "handler") == 0) HandleOnOwnStack();
  rlimit limit;
  getrlimit(RLIMIT_CORE, &limit);
  const long wanted = atol(argv[2]);
  limit.rlim_cur = wanted < 0 ? limit.rlim_max : static_cast<rlim_t>(wanted);
  setrlimit(RLIMIT_CORE, &limit);
  if (argc > 3) {
    pthread_t thread;
    if (pthread_create(&thread, nullptr, Run, nullptr) != 0) return 2;
    pthread_join(thread, nullptr);
  } else {
    Run(nullptr);
  }
  return 0;
}
