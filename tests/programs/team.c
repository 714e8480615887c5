// SPDX-License-Identifier: Apache-2.0
// A loop of steps that no thread begins: four threads meet at two barriers in each, and lock and wait in between as
// often, and in such an order, as chance has it. The main thread waits for their end. `team STEPS MILLISECONDS
// [alone]`; alone: they do the same and never meet.
#include <pthread.h>

#include "facts.h"

enum { kThreads = 4, kLocks = 5, kMostSteps = 4000 };

static int steps;
static double step_ms;
static int alone;
static pthread_barrier_t begin, end;
static pthread_mutex_t locks[kLocks];
static uint64_t begins[kMostSteps + 1];

static unsigned Random(unsigned* state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

static void Work(double milliseconds) {
  const double until = Milliseconds() + milliseconds;
  while (Milliseconds() < until) {
  }
}

static uint64_t Nanoseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void* Member(void* argument) {
  unsigned random = (unsigned)(uintptr_t)argument * 77u + 5u;
  for (int step = 0; step < steps; ++step) {
    if (argument == (void*)0) begins[step] = Nanoseconds();
    if (!alone) pthread_barrier_wait(&begin);
    const double until = Milliseconds() + step_ms;
    while (Milliseconds() < until) {
      pthread_mutex_t* lock = &locks[Random(&random) % kLocks];
      if (Random(&random) % 3 == 0) {
        pthread_mutex_lock(lock);
        SleepUnseen(1);
        pthread_mutex_unlock(lock);
      } else {
        Work(Random(&random) % 100 / 400.0);
      }
      if (Random(&random) % 4 == 0) SleepUnseen(1);
    }
    if (!alone) pthread_barrier_wait(&end);
  }
  return argument;
}

int main(int count, char** arguments) {
  steps = count > 1 ? atoi(arguments[1]) : 100;
  step_ms = count > 2 ? atof(arguments[2]) : 20;
  alone = count > 3;
  if (steps > kMostSteps) return 2;
  pthread_barrier_init(&begin, NULL, kThreads);
  pthread_barrier_init(&end, NULL, kThreads);
  for (int i = 0; i < kLocks; ++i) pthread_mutex_init(&locks[i], NULL);
  pthread_t threads[kThreads];
  for (uintptr_t i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, Member, (void*)i);
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  begins[steps] = Nanoseconds();
  for (int i = 0; i <= steps; ++i) Report("begin", begins[i]);
  printf("%d steps\n", steps);
  return 0;
}
