// SPDX-License-Identifier: Apache-2.0
// Unwinding of every kind past our frames: exceptions, pthread_exit, cancellation with destructors, thread_local
// destructors, longjmp out of a signal handler that interrupted a hooked call, a signal handler that makes hooked
// calls.
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "facts.h"

struct Says {
  const char* what;
  ~Says() { printf("destroyed %s\n", what); }
};
struct Local {
  std::string text = "a text that is long enough for the heap to hold it";
  ~Local() {
    char* volatile block = static_cast<char*>(malloc(1000));
    free(block);
    printf("thread_local destroyed\n");
  }
};
static thread_local Local local;

static void* Exits(void*) {
  local.text += "!";
  Says says{"by pthread_exit"};
  pthread_exit(reinterpret_cast<void*>(7));
}

static volatile int tid;
static void* IsCancelled(void*) {
  local.text += "!";
  Says says{"by cancellation"};
  __atomic_store_n(&tid, ThreadId(), __ATOMIC_RELEASE);
  try {
    usleep(1000000000);
  } catch (...) {
    printf("seen by catch (...)\n");
    throw;
  }
  return nullptr;
}

static sigjmp_buf place;
static int ends[2];
static volatile sig_atomic_t handled;
static void Jump(int) { siglongjmp(place, 1); }
static void Work(int) {
  handled = handled + 1;
  (void)!write(ends[1], "h", 1);
  char byte;
  (void)!read(ends[0], &byte, 1);
  usleep(1);
}

static void Alarm(int microseconds, int interval) {
  itimerval timer = {};
  timer.it_value.tv_usec = microseconds;
  timer.it_interval.tv_usec = interval;
  setitimer(ITIMER_REAL, &timer, nullptr);
}

int main() {
  setvbuf(stdout, nullptr, _IONBF, 0);
  try {
    std::vector<int> values(100);
    std::sort(values.begin(), values.end(), [](int, int) -> bool { throw std::runtime_error("thrown"); });
  } catch (const std::exception& error) {
    printf("caught %s\n", error.what());
  }
  std::thread([] {
    try {
      Says says{"by an exception in a thread"};
      throw 5;
    } catch (int value) {
      printf("caught %d\n", value);
    }
  }).join();
  pthread_t thread;
  void* value = nullptr;
  pthread_create(&thread, nullptr, Exits, nullptr);
  pthread_join(thread, &value);
  printf("exited with %d\n", static_cast<int>(reinterpret_cast<intptr_t>(value)));
  pthread_create(&thread, nullptr, IsCancelled, nullptr);
  WaitUntilAsleep(WaitForValue(&tid));
  pthread_cancel(thread);
  pthread_join(thread, &value);
  printf("cancelled %d\n", value == PTHREAD_CANCELED);

  if (pipe(ends) != 0) return 1;
  struct sigaction action = {};
  action.sa_handler = Jump;
  sigaction(SIGALRM, &action, nullptr);
  static int i;
  for (i = 0; i < 10; ++i) {
    if (sigsetjmp(place, 1) == 0) {
      Alarm(2000, 0);
      char byte;
      (void)!read(ends[0], &byte, 1);
      printf("came back\n");
    }
  }
  printf("jumped ten times\n");

  // A handler that reads and writes itself, inside calls that are restarted, and between them.
  action.sa_handler = Work;
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, nullptr);
  int other[2];
  if (pipe(other) != 0) return 1;
  Alarm(500, 500);
  long bytes = 0;
  while (handled < 50) {
    char byte = 'x';
    bytes += write(other[1], &byte, 1);
    bytes -= read(other[0], &byte, 1);
    free(malloc(100));
  }
  Alarm(0, 0);
  printf("bytes %ld\n", bytes);
  return 0;
}
