// SPDX-License-Identifier: Apache-2.0
// annotations nest|across|unbalanced|odd|killed|many COUNT|domains COUNT|forks|short|loop COUNT: ranges and marks of
// NVTX, by its own header. What the calls return is printed.
#include <nvtx3/nvToolsExt.h>

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <wchar.h>

#include "facts.h"

static nvtxEventAttributes_t Attributes(int message_type) {
  nvtxEventAttributes_t attributes;
  memset(&attributes, 0, sizeof(attributes));
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = message_type;
  return attributes;
}

static void Nest(void) {
  nvtxNameOsThreadA((uint32_t)ThreadId(), "main of nest");
  nvtxDomainHandle_t domain = nvtxDomainCreateA("library");
  nvtxDomainNameCategoryA(domain, 7, "loading");
  nvtxStringHandle_t fetch = nvtxDomainRegisterStringA(domain, "fetch");
  int depths = 0;
  for (int step = 0; step < 100; ++step) {
    depths += nvtxRangePushA("iteration");
    {
      nvtxEventAttributes_t attributes = Attributes(NVTX_MESSAGE_TYPE_REGISTERED);
      attributes.message.registered = fetch;
      attributes.category = 7;
      attributes.payloadType = NVTX_PAYLOAD_TYPE_INT64;
      attributes.payload.llValue = -step;
      depths += nvtxDomainRangePushEx(domain, &attributes);
      SleepUnseen(1);
      // Ends in its own domain before what was begun later in the other.
      depths += nvtxRangePushW(L"w\u00efde");
      depths += nvtxDomainRangePop(domain);
      depths += nvtxRangePop();
    }
    nvtxEventAttributes_t attributes = Attributes(NVTX_MESSAGE_TYPE_ASCII);
    attributes.message.ascii = "loss";
    attributes.payloadType = NVTX_PAYLOAD_TYPE_DOUBLE;
    attributes.payload.dValue = 0.5 * step;
    nvtxMarkEx(&attributes);
    depths += nvtxRangePop();
  }
  nvtxDomainDestroy(domain);
  printf("%d\n", depths);
}

static void* EndIt(void* range) {
  SleepUnseen(20);
  nvtxRangeEnd(*(nvtxRangeId_t*)range);
  return NULL;
}

static void Across(void) {
  for (int turn = 0; turn < 5; ++turn) {
    nvtxRangeId_t first = nvtxRangeStartA("request");
    nvtxRangeId_t second = nvtxRangeStartA("answer");
    pthread_t thread;
    pthread_create(&thread, NULL, EndIt, &first);
    pthread_join(thread, NULL);
    SleepUnseen(5);
    nvtxRangeEnd(second);
  }
  nvtxRangeEnd(nvtxRangeStartA("short"));
  nvtxRangeEnd(4711);
  nvtxRangeStartA("never ended");
  puts("across");
}

static void Unbalanced(void) {
  int depths = 0;
  for (int i = 0; i < 10; ++i) depths += nvtxRangePop();
  for (int i = 0; i < 3; ++i) depths += nvtxRangePushA("left open");
  depths += nvtxRangePushA("closed");
  SleepUnseen(2);
  depths += nvtxRangePop();
  printf("%d\n", depths);
}

static void Odd(void) {
  static char huge[1 << 20];
  memset(huge, 'x', sizeof(huge) - 1);
  nvtxRangePushA(huge);
  nvtxRangePushA("bad \xff\xfe utf-8");
  nvtxRangePushA("");
  nvtxRangePushA("train");
  nvtxRangePushA(NULL);
  SleepUnseen(1);
  for (int i = 0; i < 5; ++i) nvtxRangePop();
  nvtxEventAttributes_t attributes = Attributes(NVTX_MESSAGE_UNKNOWN);
  nvtxMarkEx(&attributes);
  attributes.size = 8;
  nvtxMarkEx(&attributes);
  nvtxDomainMarkEx((nvtxDomainHandle_t)(uintptr_t)123456, NULL);
  nvtxDomainHandle_t xla = nvtxDomainCreateA("TSL");
  printf("%d\n", xla == NULL);
}

static void Many(int count) {
  char name[32];
  for (int i = 0; i < count; ++i) {
    snprintf(name, sizeof(name), "name %d", i);
    nvtxRangePushA(name);
    nvtxRangePop();
  }
  puts("many");
}

static void Domains(int count) {
  char name[32];
  int zero = 0;
  for (int i = 0; i < count; ++i) {
    snprintf(name, sizeof(name), "domain %d", i);
    nvtxDomainHandle_t domain = nvtxDomainCreateA(name);
    snprintf(name, sizeof(name), "string %d", i);
    nvtxEventAttributes_t attributes = Attributes(NVTX_MESSAGE_TYPE_REGISTERED);
    attributes.message.registered = nvtxDomainRegisterStringA(domain, name);
    zero += nvtxDomainRangePushEx(domain, &attributes) + 2;
    zero += nvtxDomainRangePop(domain) + 2;
  }
  printf("%d\n", zero);
}

static void Spin(int microseconds) {
  struct timespec start, now;
  clock_gettime(CLOCK_MONOTONIC, &start);
  do {
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while ((now.tv_sec - start.tv_sec) * 1000000L + (now.tv_nsec - start.tv_nsec) / 1000 < microseconds);
}

// Steps that are shorter than all else.
static void Short(void) {
  for (int i = 0; i < 30; ++i) {
    nvtxRangePushA("iteration");
    Spin(2);
    nvtxRangePop();
  }
  for (int i = 0; i < 20000; ++i) {
    nvtxRangePushA("longer");
    Spin(12);
    nvtxRangePop();
  }
  puts("short");
}

static void Loop(int count) {
  for (int i = 0; i < count; ++i) {
    nvtxRangePushA("iteration");
    nvtxRangePop();
  }
  puts("loop");
}

static void Forks(void) {
  nvtxRangePushA("of the parent");
  for (int i = 0; i < 4; ++i) {
    pid_t child = fork();
    if (child == 0) {
      nvtxRangePushA("of a child");
      SleepUnseen(1);
      nvtxRangePop();
      nvtxRangePop();  // the parent's, which this process never began
      char name[32];
      snprintf(name, sizeof(name), "of child %d", i);
      nvtxDomainHandle_t domain = nvtxDomainCreateA(name);  // of each the first
      nvtxEventAttributes_t attributes = Attributes(NVTX_MESSAGE_TYPE_ASCII);
      attributes.message.ascii = "in its domain";
      nvtxDomainMarkEx(domain, &attributes);
      _exit(0);
    }
    waitpid(child, NULL, 0);
  }
  nvtxRangePop();
  puts("forks");
}

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "nest";
  const int count = argc > 2 ? atoi(argv[2]) : 1000;
  if (strcmp(mode, "nest") == 0) Nest();
  if (strcmp(mode, "across") == 0) Across();
  if (strcmp(mode, "unbalanced") == 0) Unbalanced();
  if (strcmp(mode, "odd") == 0) Odd();
  if (strcmp(mode, "many") == 0) Many(count);
  if (strcmp(mode, "domains") == 0) Domains(count);
  if (strcmp(mode, "forks") == 0) Forks();
  if (strcmp(mode, "short") == 0) Short();
  if (strcmp(mode, "loop") == 0) Loop(count);
  if (strcmp(mode, "killed") == 0) {
    nvtxRangePushA("epoch");
    nvtxRangePushA("done");
    SleepUnseen(5);
    nvtxRangePop();
    SleepUnseen(30);
    fflush(stdout);
    kill(getpid(), SIGKILL);
  }
  return 0;
}
