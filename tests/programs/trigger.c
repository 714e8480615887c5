// SPDX-License-Identifier: Apache-2.0
// trigger ranges COUNT|threads|starts|killed|child|none|short COUNT|calls COUNT|registered|named NAME: ranges called
// `hot` of NVTX, with recorded sleeps in and around them.
#include <nvtx3/nvToolsExt.h>

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "facts.h"

// The function of a sleep shows where it lies.
__attribute__((noinline)) static void Outside(void) {
  usleep(30000);
  asm volatile("");
}
__attribute__((noinline)) static void Inside(void) {
  usleep(20000);
  asm volatile("");
}

static void Ranges(int count) {
  for (int i = 0; i < count; ++i) {
    nvtxRangePushA("other");
    Outside();
    nvtxRangePop();
    nvtxRangePushA("hot");
    nvtxMarkA("first");
    nvtxRangePushA("hot");
    Inside();
    nvtxRangePop();
    nvtxMarkA("last");
    nvtxRangePop();
    nvtxMarkA("after");
    Outside();
    SleepUnseen(150);
  }
}

static void* InThread(void* argument) {
  SleepUnseen(*(int*)argument);
  nvtxRangePushA("hot");
  nvtxMarkA("began");
  SleepUnseen(200);
  nvtxMarkA("ends");
  nvtxRangePop();
  return NULL;
}

static void Threads(void) {
  int delays[2] = {0, 100};
  pthread_t threads[2];
  for (int i = 0; i < 2; ++i) pthread_create(&threads[i], NULL, InThread, &delays[i]);
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  nvtxMarkA("after");
}

static void* End(void* range) {
  nvtxRangeEnd(*(nvtxRangeId_t*)range);
  return NULL;
}

static void Starts(void) {
  nvtxMarkA("before");
  nvtxRangeId_t other = nvtxRangeStartA("other");
  nvtxRangeId_t hot = nvtxRangeStartA("hot");
  nvtxMarkA("inside");
  Inside();
  nvtxRangeEnd(other);
  nvtxMarkA("still inside");
  pthread_t thread;
  pthread_create(&thread, NULL, End, &hot);
  pthread_join(thread, NULL);
  nvtxMarkA("after");
}

static void Child(void) {
  nvtxMarkA("before");
  const pid_t child = fork();
  if (child == 0) {
    nvtxRangePushA("hot");
    nvtxMarkA("in the child");
    Inside();
    nvtxRangePop();
    _exit(0);
  }
  waitpid(child, NULL, 0);
  nvtxMarkA("after");
  SleepUnseen(200);
  // Killed in its range: that ends there, too.
  const pid_t killed = fork();
  if (killed == 0) {
    nvtxRangePushA("hot");
    nvtxMarkA("in the killed child");
    Inside();
    raise(SIGKILL);
  }
  waitpid(killed, NULL, 0);
  SleepUnseen(2500);
  nvtxMarkA("long after");
}

static void Registered(void) {
  nvtxDomainHandle_t domain = nvtxDomainCreateA("library");
  nvtxEventAttributes_t attributes;
  memset(&attributes, 0, sizeof(attributes));
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  attributes.message.registered = nvtxDomainRegisterStringA(domain, "hot");
  nvtxMarkA("before");
  nvtxDomainRangePushEx(domain, &attributes);
  nvtxRangePushA("of another domain");
  nvtxRangePop();
  nvtxRangePop();
  nvtxMarkA("inside");
  nvtxDomainRangePop(domain);
  nvtxMarkA("after");
}

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "ranges";
  const int count = argc > 2 ? atoi(argv[2]) : 1;
  if (strcmp(mode, "ranges") == 0) Ranges(count);
  if (strcmp(mode, "threads") == 0) Threads();
  if (strcmp(mode, "starts") == 0) Starts();
  if (strcmp(mode, "child") == 0) Child();
  if (strcmp(mode, "registered") == 0) Registered();
  if (strcmp(mode, "none") == 0) {
    nvtxRangePushA("other");
    Outside();
    nvtxRangePop();
  }
  if (strcmp(mode, "short") == 0) {
    for (int i = 0; i < count; ++i) {
      nvtxRangePushA("hot");
      nvtxRangePop();
      SleepUnseen(2);
    }
  }
  if (strcmp(mode, "calls") == 0) {
    for (int i = 0; i < count; ++i) {
      nvtxRangePushA("hot");
      for (int call = 0; call < 40; ++call) usleep(50);
      nvtxRangePop();
      SleepUnseen(20);
    }
  }
  if (strcmp(mode, "named") == 0 && argc > 2) {
    nvtxRangePushA("hot");
    nvtxRangePop();
    nvtxRangePushA(argv[2]);
    nvtxRangePop();
  }
  if (strcmp(mode, "killed") == 0) {
    Outside();
    nvtxRangePushA("hot");
    nvtxMarkA("first");
    Inside();
    fflush(stdout);
    raise(SIGKILL);
  }
  puts(mode);
  return 0;
}
