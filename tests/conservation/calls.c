// SPDX-License-Identifier: Apache-2.0
// calls COUNTS SEED THREADS CALLS CHILDREN END AT [contend]: makes random calls and counts them itself, in the file
// COUNTS, which outlives it. Each of THREADS threads, the first one and CHILDREN fork children make CALLS calls; every
// second child becomes this program again by exec. END is how it ends, once AT calls have begun: return, exit, _exit,
// pthread_exit, kill, segv, term, abandon (_exit while threads run). tests/conservation/run.py compares.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what)            \
  do {                         \
    if (!(what)) {             \
      perror("calls: " #what); \
      _exit(99);               \
    }                          \
  } while (0)

// As run.py reads them.
struct Counts {
  uint64_t thread_calls, lock_waits, sleeps, io_calls, process_calls, large_allocation_calls, allocation_calls;
  uint64_t begun;    // calls of all kinds
  uint64_t threads;  // that have made one, of all processes
};
static struct Counts* g_counts;
static uint64_t g_end_at;
static const char* g_end = "return";
static int g_contend;
static pid_t g_root;
static pthread_mutex_t g_shared = PTHREAD_MUTEX_INITIALIZER;

static void Add(uint64_t* count, uint64_t calls) { __atomic_fetch_add(count, calls, __ATOMIC_RELAXED); }

static void EndNow(void) {
  if (strcmp(g_end, "kill") == 0) kill(getpid(), SIGKILL);
  if (strcmp(g_end, "term") == 0) kill(getpid(), SIGTERM);
  if (strcmp(g_end, "segv") == 0) *(volatile int*)(uintptr_t)8 = 0;
  if (strcmp(g_end, "abandon") == 0) _exit(7);
  if (strcmp(g_end, "exit") == 0) exit(5);
}

static uint32_t Random(uint64_t* state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(*state >> 33);
}

struct Worker {
  uint64_t random;
  long calls;
  int pipe[2];
};

static void Wait(uint64_t* random, pthread_mutex_t* mutex, pthread_cond_t* condition, sem_t* semaphore) {
  const struct timespec past = {1, 0};
  if (Random(random) % 2 != 0) {
    Add(&g_counts->lock_waits, 1);
    sem_timedwait(semaphore, &past);
    return;
  }
  pthread_mutex_lock(mutex);
  Add(&g_counts->lock_waits, 1);
  pthread_cond_timedwait(condition, mutex, &past);
  pthread_mutex_unlock(mutex);
}

static void Allocate(uint64_t* random) {
  if (Random(random) % 8 == 0) {
    Add(&g_counts->large_allocation_calls, 1);
    Add(&g_counts->allocation_calls, 1);
    volatile char* block = malloc((64u << 10) + Random(random) % (2u << 20));
    if (block == NULL) return;
    block[0] = 1;
    Add(&g_counts->large_allocation_calls, 1);
    Add(&g_counts->allocation_calls, 1);
    free((void*)block);
    return;
  }
  Add(&g_counts->allocation_calls, 1);
  volatile char* block = malloc(1 + Random(random) % 3000);
  if (block == NULL) return;
  block[0] = 1;
  if (Random(random) % 2 != 0) {
    Add(&g_counts->allocation_calls, 2);
    block = realloc((void*)block, 1 + Random(random) % 6000);
  }
  Add(&g_counts->allocation_calls, 1);
  free((void*)block);
}

static void MakeCalls(struct Worker* worker) {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
  sem_t semaphore;
  sem_init(&semaphore, 0, 0);
  Add(&g_counts->threads, 1);
  char byte = 'x';
  for (long i = 0; i < worker->calls; ++i) {
    if (__atomic_add_fetch(&g_counts->begun, 1, __ATOMIC_RELAXED) >= g_end_at && getpid() == g_root) EndNow();
    switch (Random(&worker->random) % 8) {
      case 0: {
        const struct timespec little = {0, Random(&worker->random) % 20000};
        Add(&g_counts->sleeps, 1);
        nanosleep(&little, NULL);
        break;
      }
      case 1:
        Add(&g_counts->sleeps, 1);
        usleep(1);
        break;
      case 2:
        Add(&g_counts->io_calls, 1);
        if (write(worker->pipe[1], &byte, 1) != 1) break;
        Add(&g_counts->io_calls, 1);
        if (read(worker->pipe[0], &byte, 1) != 1) break;
        break;
      case 3: {
        struct pollfd end = {worker->pipe[0], POLLIN, 0};
        Add(&g_counts->io_calls, 1);
        poll(&end, 1, 0);
        break;
      }
      case 4:
        Wait(&worker->random, &mutex, &condition, &semaphore);
        break;
      case 5:
        if (!g_contend) break;
        pthread_mutex_lock(&g_shared);
        for (volatile int spin = 0; spin < 200; ++spin) {
        }
        pthread_mutex_unlock(&g_shared);
        break;
      default:
        Allocate(&worker->random);
    }
  }
}

static void* Work(void* argument) {
  MakeCalls(argument);
  return NULL;
}

static void InitialiseWorker(struct Worker* worker, uint64_t random, long calls) {
  worker->random = random;
  worker->calls = calls;
  CHECK(pipe(worker->pipe) == 0);
}

static void RunChildren(char** arguments, uint64_t seed, long calls, int children) {
  char seed_text[32];
  pid_t pids[64];
  for (int i = 0; i < children; ++i) {
    Add(&g_counts->process_calls, 1);
    pids[i] = fork();
    CHECK(pids[i] >= 0);
    if (pids[i] != 0) continue;
    struct Worker worker;
    InitialiseWorker(&worker, seed + 100u + (uint64_t)i, calls);
    MakeCalls(&worker);
    if (i % 2 == 0) _exit(0);
    snprintf(seed_text, sizeof(seed_text), "%llu", (unsigned long long)(seed + 200u + (uint64_t)i));
    char* const next[] = {arguments[0], arguments[1], seed_text, "1", arguments[4], "0", "return", "0", NULL};
    Add(&g_counts->process_calls, 2);
    execv("/there/is/no/such/program", next);
    Add(&g_counts->process_calls, 1);
    execv("/proc/self/exe", next);
    _exit(9);
  }
  for (int i = 0; i < children; ++i) {
    Add(&g_counts->process_calls, 1);
    waitpid(pids[i], NULL, 0);
  }
}

int main(int argc, char** argv) {
  CHECK(argc >= 8);
  const int counts = open(argv[1], O_RDWR | O_CREAT, 0600);
  CHECK(counts >= 0 && ftruncate(counts, sizeof(struct Counts)) == 0);
  g_counts = mmap(NULL, sizeof(struct Counts), PROT_READ | PROT_WRITE, MAP_SHARED, counts, 0);
  CHECK(g_counts != MAP_FAILED);
  Add(&g_counts->io_calls, 1);  // open
  const uint64_t seed = strtoull(argv[2], NULL, 10);
  const int thread_count = atoi(argv[3]);
  const long calls = atol(argv[4]);
  g_end = argv[6];
  g_end_at = strtoull(argv[7], NULL, 10);
  if (g_end_at == 0) g_end_at = UINT64_MAX;
  g_contend = argc > 8;
  g_root = getpid();
  enum { kMostThreads = 64 };
  static struct Worker workers[kMostThreads + 1];
  pthread_t threads[kMostThreads];
  CHECK(thread_count <= kMostThreads);
  for (int i = 0; i <= thread_count; ++i) InitialiseWorker(&workers[i], seed + (uint64_t)i, calls);
  for (int i = 0; i < thread_count; ++i) {
    Add(&g_counts->thread_calls, 1);
    CHECK(pthread_create(&threads[i], NULL, Work, &workers[i]) == 0);
  }
  RunChildren(argv, seed, calls / 4 + 1, atoi(argv[5]));
  MakeCalls(&workers[thread_count]);
  if (strcmp(g_end, "pthread_exit") == 0) pthread_exit(NULL);
  for (int i = 0; i < thread_count; ++i) {
    Add(&g_counts->lock_waits, 1);
    pthread_join(threads[i], NULL);
  }
  if (strcmp(g_end, "_exit") == 0) _exit(3);
  return 0;
}
