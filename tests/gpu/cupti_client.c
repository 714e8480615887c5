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
//   and
//                   with `finalize` calls cuptiFinalize
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
static const CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_DEVICE,
                                            CUPTI_ACTIVITY_KIND_CONTEXT,
                                            CUPTI_ACTIVITY_KIND_STREAM,
                                            CUPTI_ACTIVITY_KIND_NAME,
                                            CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                            CUPTI_ACTIVITY_KIND_MEMCPY,
                                            CUPTI_ACTIVITY_KIND_MEMCPY2,
                                            CUPTI_ACTIVITY_KIND_MEMSET,
                                            CUPTI_ACTIVITY_KIND_RUNTIME,
                                            CUPTI_ACTIVITY_KIND_SYNCHRONIZATION,
                                            CUPTI_ACTIVITY_KIND_OVERHEAD,
                                            CUPTI_ACTIVITY_KIND_MEMORY2};
static const char* const kDriverCalls[] = {
    "cuLaunch",     "cuGraphLaunch",       "cuMemcpy",         "cuMemset",           "cuMemAlloc",
    "cuMemFree",    "cuStreamSynchronize", "cuCtxSynchronize", "cuEventSynchronize", "cuModuleLoad",
    "cuLibraryLoad"};
static void* library;
static CUpti_SubscriberHandle subscriber;

#define FIND(type, function) type function = (type)dlsym(library, #function)
typedef CUptiResult (*ChangeKind)(CUpti_ActivityKind);
typedef CUptiResult (*EnableCall)(CUpti_CallbackId, uint8_t);
typedef CUptiResult (*CallbackName)(CUpti_CallbackDomain, uint32_t, const char**);

// Whether one of them could be.
static int SetDriverCalls(uint8_t on) {
  FIND(EnableCall, cuptiActivityEnableDriverApi);
  FIND(CallbackName, cuptiGetCallbackName);
  int any = 0;
  for (uint32_t id = 1; id < kMostCallbacks; ++id) {
    const char* call = NULL;
    if (cuptiGetCallbackName(CUPTI_CB_DOMAIN_DRIVER_API, id, &call) != CUPTI_SUCCESS || call == NULL) continue;
    for (size_t i = 0; i < sizeof(kDriverCalls) / sizeof(kDriverCalls[0]); ++i) {
      if (strncmp(call, kDriverCalls[i], strlen(kDriverCalls[i])) != 0) continue;
      if (cuptiActivityEnableDriverApi != NULL) any |= cuptiActivityEnableDriverApi(id, on) == CUPTI_SUCCESS;
    }
  }
  return any;
}

static void Stop(const char* how) {
  typedef CUptiResult (*Unsubscribe)(CUpti_SubscriberHandle);
  typedef CUptiResult (*Finalize)(void);
  FIND(ChangeKind, cuptiActivityDisable);
  FIND(Unsubscribe, cuptiUnsubscribe);
  FIND(Finalize, cuptiFinalize);
  for (size_t i = 0; i < sizeof(kKinds) / sizeof(kKinds[0]); ++i) cuptiActivityDisable(kKinds[i]);
  SetDriverCalls(0);
  cuptiActivityDisable(CUPTI_ACTIVITY_KIND_DRIVER);
  flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  if (strcmp(how, "disable") != 0) cuptiUnsubscribe(subscriber);
  if (strcmp(how, "finalize") == 0) cuptiFinalize();
}

static void* Flusher(void* unused) {
  const char* const how = getenv("CLIENT_STOP");
  char stop[4200] = "";
  if (how != NULL) snprintf(stop, sizeof(stop), "%s.stop", getenv("CLIENT_OUT"));
  for (;;) {
    usleep(kFlushMs * 1000);
    if (how != NULL && access(stop, F_OK) == 0) break;
    flush_all(0);
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

static int Failed(const char* what, int result) {
  FILE* file = fopen(out_path, "we");
  if (file != NULL) {
    fprintf(file, "failed=%d\nwhat=%s\n", result, what);
    fclose(file);
  }
  return 1;
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
  FIND(ChangeKind, cuptiActivityEnable);
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
  for (size_t i = 0; i < sizeof(kKinds) / sizeof(kKinds[0]); ++i) {
    result = cuptiActivityEnable(kKinds[i]);
    if (result != CUPTI_SUCCESS && kKinds[i] == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
      return Failed("cuptiActivityEnable of kernels", (int)result);
    }
  }
  if (!SetDriverCalls(1)) cuptiActivityEnable(CUPTI_ACTIVITY_KIND_DRIVER);
  if (getenv("CLIENT_GRAPHS") != NULL) cuptiActivityEnable(CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
  atexit(AtExit);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  if (pthread_create(&thread, NULL, Flusher, NULL) == 0) pthread_detach(thread);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return 1;
}
