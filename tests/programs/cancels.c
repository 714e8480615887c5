// SPDX-License-Identifier: Apache-2.0
// Threads cancelled inside hooked calls: their cleanup handlers run, in order, and the program goes on.
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/socket.h>

#include "facts.h"

static int ends[2];
static sem_t semaphore;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static volatile int tid;
static char log_text[400];

static void Log(const char* text) { strncat(log_text, text, sizeof(log_text) - strlen(log_text) - 1); }
static void First(void* text) { Log((const char*)text); }
static void Unlock(void* text) {
  Log((const char*)text);
  pthread_mutex_unlock(&mutex);
}

static void Block(int kind) {
  char byte;
  struct pollfd entry = {ends[0], POLLIN, 0};
  const struct timespec long_time = {1000, 0};
  struct timespec late;
  switch (kind) {
    case 0:
      (void)!read(ends[0], &byte, 1);
      break;
    case 1:
      nanosleep(&long_time, NULL);
      break;
    case 2:
      sem_wait(&semaphore);
      break;
    case 3:
      pthread_mutex_lock(&mutex);
      pthread_cleanup_push(Unlock, " unlock");
      while (1) pthread_cond_wait(&condition, &mutex);
      pthread_cleanup_pop(0);
      break;
    case 4:
      pthread_mutex_lock(&mutex);
      pthread_cleanup_push(Unlock, " unlock");
      clock_gettime(CLOCK_REALTIME, &late);
      late.tv_sec += 1000;
      pthread_cond_timedwait(&condition, &mutex, &late);
      pthread_cleanup_pop(0);
      break;
    case 5:
      poll(&entry, 1, -1);
      break;
    case 6:
      sleep(1000);
      break;
    case 7:
      clock_nanosleep(CLOCK_MONOTONIC, 0, &long_time, NULL);
      break;
    default:
      break;
  }
}

struct Way {
  int kind, asynchronous;
};

static void* Blocks(void* argument) {
  const struct Way* way = argument;
  int old;
  if (way->asynchronous) pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
  pthread_cleanup_push(First, " outer");
  pthread_cleanup_push(First, " inner");
  __atomic_store_n(&tid, ThreadId(), __ATOMIC_RELEASE);
  Block(way->kind);
  Log(" came back");
  pthread_cleanup_pop(0);
  pthread_cleanup_pop(0);
  return NULL;
}

// A cancel that is pending when the call is made, in a function that allocates and locks before.
static void* Pending(void* argument) {
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
  __atomic_store_n(&tid, ThreadId(), __ATOMIC_RELEASE);
  WaitForValue((int*)argument);
  pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
  for (int i = 0; i < 1000; ++i) free(malloc(100000));
  pthread_mutex_lock(&mutex);
  pthread_mutex_unlock(&mutex);
  Log(" no point yet");
  char byte;
  (void)!read(ends[0], &byte, 1);
  Log(" came back");
  return NULL;
}

int main(void) {
  if (pipe(ends) != 0) return 1;
  sem_init(&semaphore, 0, 0);
  for (int asynchronous = 0; asynchronous < 2; ++asynchronous) {
    for (int kind = 0; kind < 8; ++kind) {
      struct Way way = {kind, asynchronous};
      pthread_t thread;
      void* value = NULL;
      tid = 0;
      log_text[0] = '\0';
      pthread_create(&thread, NULL, Blocks, &way);
      WaitUntilAsleep(WaitForValue(&tid));
      pthread_cancel(thread);
      pthread_join(thread, &value);
      printf("%d %s:%s, cancelled %d, lock free %d\n", kind, asynchronous ? "async" : "deferred", log_text,
             value == PTHREAD_CANCELED, pthread_mutex_trylock(&mutex) == 0);
      pthread_mutex_unlock(&mutex);
    }
  }
  static volatile int go;
  pthread_t thread;
  void* value = NULL;
  tid = 0;
  log_text[0] = '\0';
  pthread_create(&thread, NULL, Pending, (void*)&go);
  WaitForValue(&tid);
  pthread_cancel(thread);
  __atomic_store_n(&go, 1, __ATOMIC_RELEASE);
  pthread_join(thread, &value);
  printf("pending:%s, cancelled %d\n", log_text, value == PTHREAD_CANCELED);
  usleep(1000);  // here: afterwards
  return 0;
}
