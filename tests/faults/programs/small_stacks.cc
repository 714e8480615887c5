// SPDX-License-Identifier: Apache-2.0
// Calls of every family on the smallest stacks there are: threads with PTHREAD_STACK_MIN, coroutines (makecontext) with
// 16 KiB, an alternate signal stack; and an exception through all of a coroutine. A byte pattern below each stack shows
// whether one overflowed.
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <stdexcept>

#include "facts.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int ends[2];

static void Calls() {
  char byte = 'x';
  pthread_mutex_lock(&mutex);
  pthread_mutex_unlock(&mutex);
  if (write(ends[1], &byte, 1) != 1 || read(ends[0], &byte, 1) != 1) abort();
  usleep(10);
  for (int i = 0; i < 20; ++i) free(malloc(static_cast<size_t>(100) << i));
  sem_t semaphore;
  sem_init(&semaphore, 0, 1);
  sem_wait(&semaphore);
}

constexpr size_t kStack = 16384;
constexpr size_t kGuard = 4096;
static ucontext_t here, there;
static unsigned char* memory;
static int caught;

static void Deep(int depth) {
  Calls();
  if (depth == 0) throw std::runtime_error("thrown");
  Deep(depth - 1);
}

static void Coroutine() {
  Calls();
  swapcontext(&there, &here);
  try {
    Deep(3);
  } catch (const std::runtime_error&) {
    ++caught;
  }
  Calls();
}

static void* Thread(void*) {
  Calls();
  return nullptr;
}

static volatile sig_atomic_t handled;
static void Handler(int) {
  char byte = 'h';
  if (write(ends[1], &byte, 1) != 1 || read(ends[0], &byte, 1) != 1) abort();
  handled = handled + 1;
}

int main() {
  if (pipe(ends) != 0) return 1;
  memory = static_cast<unsigned char*>(
      mmap(nullptr, kGuard + kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  memset(memory, 0x5a, kGuard);
  for (int i = 0; i < 50; ++i) {
    getcontext(&there);
    there.uc_stack.ss_sp = memory + kGuard;
    there.uc_stack.ss_size = kStack;
    there.uc_link = &here;
    makecontext(&there, Coroutine, 0);
    swapcontext(&here, &there);
    Calls();
    swapcontext(&here, &there);
  }
  size_t spoiled = 0;
  for (size_t i = 0; i < kGuard; ++i) spoiled += memory[i] != 0x5a;
  printf("caught %d, spoiled %zu\n", caught, spoiled);

  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN);
  int joined = 0;
  for (int i = 0; i < 50; ++i) {
    pthread_t thread;
    if (pthread_create(&thread, &attributes, Thread, nullptr) != 0) return 1;
    joined += pthread_join(thread, nullptr) == 0;
  }
  printf("joined %d\n", joined);

  stack_t alternate = {};
  alternate.ss_sp = memory + kGuard;
  alternate.ss_size = kStack;
  sigaltstack(&alternate, nullptr);
  struct sigaction action = {};
  action.sa_handler = Handler;
  action.sa_flags = SA_ONSTACK;
  sigaction(SIGUSR2, &action, nullptr);
  for (int i = 0; i < 50; ++i) raise(SIGUSR2);
  for (size_t i = 0; i < kGuard; ++i) spoiled += memory[i] != 0x5a;
  printf("handled %d, spoiled %zu\n", static_cast<int>(handled), spoiled);
  return 0;
}
