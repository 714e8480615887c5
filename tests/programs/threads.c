// SPDX-License-Identifier: Apache-2.0
// Threads that name themselves, are named by others, have names that are no UTF-8, and are joined.
#include <pthread.h>

#include "facts.h"

static volatile int named_tid, named, ready;

static void* NamesItself(void* argument) {
  char name[16];
  snprintf(name, sizeof(name), "worker-%d", (int)(intptr_t)argument);
  pthread_setname_np(pthread_self(), name);
  SleepUnseen(2);
  return argument;
}

static void* IsNamed(void* argument) {
  __atomic_store_n(&named_tid, ThreadId(), __ATOMIC_RELEASE);
  WaitForValue(&named);
  return argument;
}

static void* HasABadName(void* argument) {
  pthread_setname_np(pthread_self(), "bad-\xff\xc3(\x80");
  return argument;
}

static void* Sleeps(void* argument) {
  __atomic_store_n(&ready, 1, __ATOMIC_RELEASE);
  WaitUntilAsleep(*(int*)argument);
  SleepUnseen(30);
  return argument;
}

int main(void) {
  int main_tid = ThreadId();
  pthread_t threads[6];
  for (int i = 0; i < 3; ++i) pthread_create(&threads[i], NULL, NamesItself, (void*)(intptr_t)i);
  pthread_create(&threads[3], NULL, IsNamed, NULL);
  Report("named_tid", (uint64_t)WaitForValue(&named_tid));
  printf("setname: %d\n", pthread_setname_np(threads[3], "named-by-main"));
  printf("too long: %d\n", pthread_setname_np(threads[3], "a name of more than fifteen bytes"));
  __atomic_store_n(&named, 1, __ATOMIC_RELEASE);
  pthread_create(&threads[4], NULL, HasABadName, NULL);
  for (int i = 0; i < 5; ++i) {
    void* value = NULL;
    pthread_join(threads[i], &value);
    if (i < 3) printf("joined %d\n", (int)(intptr_t)value);
  }
  pthread_create(&threads[5], NULL, Sleeps, &main_tid);
  WaitForValue(&ready);
  Report("joined", (uint64_t)threads[5]);
  pthread_join(threads[5], NULL);  // here: slow join
  return 0;
}
