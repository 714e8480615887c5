// SPDX-License-Identifier: Apache-2.0
//
// The barest client of CUPTI that records what tbprof does: the yardstick for its counts, times and cost. Injected by
// CUDA_INJECTION64_PATH; the same kinds, the same calls of the driver interface, buffers of the same size, a plain
// flush as often, and nothing made of the records but counts.
//
//   CLIENT_OUT      `OUT.PID` gets the counts as `key=value` lines at exit
//   CLIENT_RECORDS  set: `OUT.PID.records` gets each record of device work (cupti_text.h)
//   CLIENT_CUPTI    the library (libcupti.so.13)
//   CLIENT_GRAPHS   set: a graph as a whole, not its nodes
//   CLIENT_STOP     when OUT.stop is there it disables all kinds, and with `unsubscribe` or `finalize` unsubscribes,
//                   and with `finalize` calls cuptiFinalize
//   CLIENT_LATE     set: kinds are enabled when OUT.start is there
//   CLIENT_WITHOUT  names of kinds (kKinds, `driver`) that are left out, each followed by a comma
//   CLIENT_LIKE     what else is done as tbprof does it: `callbacks`, of nodes of graphs; `dump`, of records of what
//                   there is; `left`, calls of the runtime that come with each operation of PyTorch; `early`, all kinds
//                   on and off again in cuInit, or with `context` off when OUT.off is there
#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cupti_text.h"

enum { kBufferBytes = 384 * 1024, kFlushMs = 200, kMostCallbacks = 2048 };

static CUptiResult (*get_next_record)(uint8_t*, size_t, CUpti_Activity**);
static CUptiResult (*flush_all)(uint32_t);
static CUptiResult (*get_num_dropped)(CUcontext, uint32_t, size_t*);

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uint8_t* spare;  // each begins with the next
static long long counts[CUPTI_ACTIVITY_KIND_COUNT], unknown, dropped, buffers;
static FILE* records;
static char out_path[4096];
static pid_t owner;

static void CUPTIAPI Request(uint8_t** buffer, size_t* size, size_t* most_records) {
  pthread_mutex_lock(&mutex);
  *buffer = spare;
  if (spare != NULL) {
    memcpy(&spare, spare, sizeof(spare));
    memset(*buffer, 0, sizeof(void*));
  }
  pthread_mutex_unlock(&mutex);
  // Zeroed, as was set for all in CUPTI.
  if (*buffer == NULL) *buffer = calloc(1, kBufferBytes);
  *size = *buffer == NULL ? 0 : kBufferBytes;
  *most_records = 0;
}

static void CUPTIAPI Complete(CUcontext context, uint32_t stream, uint8_t* buffer, size_t size, size_t valid) {
  CUpti_Activity* record = NULL;
  size_t lost = 0;
  pthread_mutex_lock(&mutex);
  ++buffers;
  while (get_next_record(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (record->kind < CUPTI_ACTIVITY_KIND_COUNT) {
      ++counts[record->kind];
    } else {
      ++unknown;
    }
    if (records != NULL) WriteRecord(records, record);
  }
  if (get_num_dropped(context, stream, &lost) == CUPTI_SUCCESS) dropped += (long long)lost;
  memset(buffer, 0, valid);
  memcpy(buffer, &spare, sizeof(spare));
  spare = buffer;
  pthread_mutex_unlock(&mutex);
}

static void CUPTIAPI OnCallback(void* user, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data) {}

// As kWanted and kKeptDriverCalls in cupti/activities.cc.
static const struct {
  CUpti_ActivityKind kind;
  const char* name;
} kKinds[] = {{CUPTI_ACTIVITY_KIND_DEVICE, "device,"},
              {CUPTI_ACTIVITY_KIND_CONTEXT, "context,"},
              {CUPTI_ACTIVITY_KIND_STREAM, "stream,"},
              {CUPTI_ACTIVITY_KIND_NAME, "name,"},
              {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, "kernel,"},
              {CUPTI_ACTIVITY_KIND_MEMCPY, "memcpy,"},
              {CUPTI_ACTIVITY_KIND_MEMCPY2, "memcpy2,"},
              {CUPTI_ACTIVITY_KIND_MEMSET, "memset,"},
              {CUPTI_ACTIVITY_KIND_RUNTIME, "runtime,"},
              {CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, "synchronization,"},
              {CUPTI_ACTIVITY_KIND_OVERHEAD, "overhead,"},
              {CUPTI_ACTIVITY_KIND_MEMORY2, "memory2,"}};
static const char* const kDriverCalls[] = {
    "cuLaunch",     "cuGraphLaunch",       "cuMemcpy",         "cuMemset",           "cuMemAlloc",
    "cuMemFree",    "cuStreamSynchronize", "cuCtxSynchronize", "cuEventSynchronize", "cuModuleLoad",
    "cuLibraryLoad"};
static const char* const kLeftCalls[] = {"cudaGetDevice",       "cudaDeviceGetAttribute", "cudaGetLastError",
                                         "cudaPeekAtLastError", "cudaStreamIsCapturing",  "cudaStreamGetCaptureInfo"};
static void* library;
static CUpti_SubscriberHandle subscriber;

#define FIND(type, function) type function = (type)dlsym(library, #function)
typedef CUptiResult (*ChangeKind)(CUpti_ActivityKind);
typedef CUptiResult (*EnableCall)(CUpti_CallbackId, uint8_t);
typedef CUptiResult (*EnableCallback)(uint32_t, CUpti_SubscriberHandle, CUpti_CallbackDomain, CUpti_CallbackId);
typedef CUptiResult (*CallbackName)(CUpti_CallbackDomain, uint32_t, const char**);

static int IsListed(const char* variable, const char* name) {
  const char* const text = getenv(variable);
  return text != NULL && strstr(text, name) != NULL;
}

// Whether one of them could be set.
static int SetCalls(CUpti_CallbackDomain domain, const char* const* calls, size_t count, uint8_t on) {
  FIND(CallbackName, cuptiGetCallbackName);
  EnableCall enable = (EnableCall)dlsym(
      library, domain == CUPTI_CB_DOMAIN_DRIVER_API ? "cuptiActivityEnableDriverApi" : "cuptiActivityEnableRuntimeApi");
  int any = 0;
  for (uint32_t id = 1; id < kMostCallbacks; ++id) {
    const char* call = NULL;
    if (cuptiGetCallbackName(domain, id, &call) != CUPTI_SUCCESS || call == NULL) continue;
    for (size_t i = 0; i < count; ++i) {
      if (strncmp(call, calls[i], strlen(calls[i])) != 0) continue;
      if (enable != NULL) any |= enable(id, on) == CUPTI_SUCCESS;
    }
  }
  return any;
}
static int SetDriverCalls(uint8_t on) {
  return SetCalls(CUPTI_CB_DOMAIN_DRIVER_API, kDriverCalls, sizeof(kDriverCalls) / sizeof(kDriverCalls[0]), on);
}
static void SetLeftCalls(uint8_t on) {
  SetCalls(CUPTI_CB_DOMAIN_RUNTIME_API, kLeftCalls, sizeof(kLeftCalls) / sizeof(kLeftCalls[0]), on);
}

static int Failed(const char* what, int result) {
  FILE* file = fopen(out_path, "we");
  if (file != NULL) {
    fprintf(file, "failed=%d\nwhat=%s\n", result, what);
    fclose(file);
  }
  return 1;
}

static void Start(void) {
  FIND(ChangeKind, cuptiActivityEnable);
  FIND(ChangeKind, cuptiActivityEnableAndDump);
  FIND(EnableCallback, cuptiEnableCallback);
  if (IsListed("CLIENT_LIKE", "callbacks")) {
    cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED);
    cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED);
  }
  for (size_t i = 0; i < sizeof(kKinds) / sizeof(kKinds[0]); ++i) {
    if (IsListed("CLIENT_WITHOUT", kKinds[i].name)) continue;
    const int dumped = i < 3 && IsListed("CLIENT_LIKE", "dump") && cuptiActivityEnableAndDump != NULL;
    const CUptiResult result = (dumped ? cuptiActivityEnableAndDump : cuptiActivityEnable)(kKinds[i].kind);
    if (result != CUPTI_SUCCESS && kKinds[i].kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
      Failed("cuptiActivityEnable of kernels", (int)result);
    }
    if (kKinds[i].kind == CUPTI_ACTIVITY_KIND_RUNTIME && IsListed("CLIENT_LIKE", "left")) SetLeftCalls(0);
  }
  if (!IsListed("CLIENT_WITHOUT", "driver,") && !SetDriverCalls(1)) cuptiActivityEnable(CUPTI_ACTIVITY_KIND_DRIVER);
  if (getenv("CLIENT_GRAPHS") != NULL) cuptiActivityEnable(CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
}

static void Disable(void) {
  FIND(ChangeKind, cuptiActivityDisable);
  if (IsListed("CLIENT_LIKE", "left")) SetLeftCalls(1);
  for (size_t i = 0; i < sizeof(kKinds) / sizeof(kKinds[0]); ++i) cuptiActivityDisable(kKinds[i].kind);
  SetDriverCalls(0);
  cuptiActivityDisable(CUPTI_ACTIVITY_KIND_DRIVER);
}

static void Stop(const char* how) {
  typedef CUptiResult (*Unsubscribe)(CUpti_SubscriberHandle);
  typedef CUptiResult (*Finalize)(void);
  FIND(Unsubscribe, cuptiUnsubscribe);
  FIND(Finalize, cuptiFinalize);
  Disable();
  flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  if (strcmp(how, "disable") != 0) cuptiUnsubscribe(subscriber);
  if (strcmp(how, "finalize") == 0) cuptiFinalize();
}

static int IsAsked(const char* what) {
  char path[4200];
  snprintf(path, sizeof(path), "%s.%s", getenv("CLIENT_OUT"), what);
  return access(path, F_OK) == 0;
}

static void* Flusher(void* unused) {
  const char* const how = getenv("CLIENT_STOP");
  int started = getenv("CLIENT_LATE") == NULL, off = !IsListed("CLIENT_LIKE", "context");
  for (;;) {
    usleep(kFlushMs * 1000);
    if (!off && IsAsked("off")) Disable(), off = 1;
    if (!started && IsAsked("start")) Start(), started = 1;
    if (how != NULL && IsAsked("stop")) break;
    if (started) flush_all(0);
  }
  Stop(how);
  return unused;
}

static void AtExit(void) {
  if (getpid() != owner) return;
  flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  pthread_mutex_lock(&mutex);
  FILE* file = fopen(out_path, "we");
  if (file != NULL) {
    for (int kind = 0; kind < CUPTI_ACTIVITY_KIND_COUNT; ++kind) {
      if (counts[kind] != 0) fprintf(file, "kind_%d=%lld\n", kind, counts[kind]);
    }
    fprintf(file, "unknown=%lld\ndropped=%lld\nbuffers=%lld\n", unknown, dropped, buffers);
    fclose(file);
  }
  if (records != NULL) fclose(records);
  records = NULL;
  pthread_mutex_unlock(&mutex);
}

__attribute__((visibility("default"))) int InitializeInjection(void) {
  const char *name = getenv("CLIENT_CUPTI"), *out = getenv("CLIENT_OUT");
  if (out == NULL) return 1;
  owner = getpid();
  snprintf(out_path, sizeof(out_path), "%s.%d", out, (int)owner);
  library = dlopen(name == NULL ? "libcupti.so.13" : name, RTLD_NOW);
  if (library == NULL) return Failed(dlerror(), -1);
  typedef CUptiResult (*Subscribe)(CUpti_SubscriberHandle*, CUpti_CallbackFunc, void*);
  typedef CUptiResult (*SetAttribute)(CUpti_ActivityAttribute, size_t*, void*);
  typedef CUptiResult (*Register)(CUpti_BuffersCallbackRequestFunc, CUpti_BuffersCallbackCompleteFunc);
  typedef CUptiResult (*SetThreadIds)(CUpti_ActivityThreadIdType);
  FIND(Subscribe, cuptiSubscribe);
  FIND(SetAttribute, cuptiActivitySetAttribute);
  FIND(Register, cuptiActivityRegisterCallbacks);
  FIND(SetThreadIds, cuptiSetThreadIdType);
  get_next_record = (CUptiResult(*)(uint8_t*, size_t, CUpti_Activity**))dlsym(library, "cuptiActivityGetNextRecord");
  flush_all = (CUptiResult(*)(uint32_t))dlsym(library, "cuptiActivityFlushAll");
  get_num_dropped = (CUptiResult(*)(CUcontext, uint32_t, size_t*))dlsym(library, "cuptiActivityGetNumDroppedRecords");
  CUptiResult result = cuptiSubscribe(&subscriber, OnCallback, NULL);
  if (result != CUPTI_SUCCESS) return Failed("cuptiSubscribe", (int)result);
  cuptiSetThreadIdType(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
  uint8_t zeroed = 1;
  size_t size = sizeof(zeroed);
  cuptiActivitySetAttribute(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &size, &zeroed);
  result = cuptiActivityRegisterCallbacks(Request, Complete);
  if (result != CUPTI_SUCCESS) return Failed("cuptiActivityRegisterCallbacks", (int)result);
  if (getenv("CLIENT_RECORDS") != NULL) {
    char path[4200];
    snprintf(path, sizeof(path), "%s.records", out_path);
    records = fopen(path, "we");
  }
  const int early = IsListed("CLIENT_LIKE", "early");
  if (early || getenv("CLIENT_LATE") == NULL) Start();
  if (early && !IsListed("CLIENT_LIKE", "context")) Disable();
  atexit(AtExit);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  if (pthread_create(&thread, NULL, Flusher, NULL) == 0) pthread_detach(thread);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return 1;
}
