// SPDX-License-Identifier: Apache-2.0
//
// A CUPTI that is another one, and writes down each record before its client sees it: what tbprof was given, beside its
// profile, of one and the same run. Preloaded; its soname has tbprof find it mapped.
//
//   TEE_CUPTI   the real library's path
//   TEE_OUT     `OUT.PID` gets the records of device work (cupti_text.h)
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cupti_text.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static void* library;
static FILE* out;
static CUpti_BuffersCallbackCompleteFunc complete;

static void Open(void) {
  const char *path = getenv("TEE_CUPTI"), *to = getenv("TEE_OUT");
  // Bound to itself: what it calls of its own is not to come by here.
  if (path != NULL) library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  if (library == NULL) {
    fprintf(stderr, "cupti_tee: no library: %s\n", path == NULL ? "TEE_CUPTI is not set" : dlerror());
    return;
  }
  char name[4096];
  snprintf(name, sizeof(name), "%s.%d", to == NULL ? "/dev/null" : to, (int)getpid());
  if (to != NULL) out = fopen(name, "we");
}

typedef long (*Any)(long, long, long, long, long, long);

static Any Find(const char* name) {
  pthread_once(&once, Open);
  return library == NULL ? NULL : (Any)dlsym(library, name);
}

// All of CUPTI's arguments are pointers and integers, and go in registers: six are handed on whatever they are.
#define PASS(name)                                                                                \
  __attribute__((visibility("default"))) long Pass_##name(long a, long b, long c, long d, long e, \
                                                          long f) __asm__(#name);                 \
  long Pass_##name(long a, long b, long c, long d, long e, long f) {                              \
    static Any real;                                                                              \
    if (real == NULL) real = Find(#name);                                                         \
    return real == NULL ? CUPTI_ERROR_UNKNOWN : real(a, b, c, d, e, f);                           \
  }
// What tbprof looks for (TBPROF_CUPTI_FUNCTIONS in cupti/cupti_abi.h), but for the one below.
PASS(cuptiGetVersion)
PASS(cuptiGetTimestamp)
PASS(cuptiGetResultString)
PASS(cuptiGetCallbackName)
PASS(cuptiSubscribe)
PASS(cuptiUnsubscribe)
PASS(cuptiActivityEnable)
PASS(cuptiActivityDisable)
PASS(cuptiActivityEnableDriverApi)
PASS(cuptiActivityFlushAll)
PASS(cuptiActivityGetNextRecord)
PASS(cuptiActivityGetNumDroppedRecords)
PASS(cuptiActivitySetAttribute)
PASS(cuptiSetThreadIdType)
PASS(cuptiActivityConfigureUnifiedMemoryCounter)

static void CUPTIAPI OnComplete(CUcontext context, uint32_t stream, uint8_t* buffer, size_t size, size_t valid) {
  static Any next;
  if (next == NULL) next = Find("cuptiActivityGetNextRecord");
  CUpti_Activity* record = NULL;
  pthread_mutex_lock(&mutex);
  while (out != NULL && (int)next((long)buffer, (long)valid, (long)&record, 0, 0, 0) == CUPTI_SUCCESS) {
    WriteRecord(out, record);
  }
  // A program that is killed keeps what was delivered.
  if (out != NULL) fflush(out);
  pthread_mutex_unlock(&mutex);
  complete(context, stream, buffer, size, valid);
}

__attribute__((visibility("default"))) long RegisterCallbacks(long requested,
                                                              long completed) __asm__("cuptiActivityRegisterCallbacks");
long RegisterCallbacks(long requested, long completed) {
  const Any real = Find("cuptiActivityRegisterCallbacks");
  complete = (CUpti_BuffersCallbackCompleteFunc)completed;
  return real == NULL ? CUPTI_ERROR_UNKNOWN : real(requested, (long)OnComplete, 0, 0, 0, 0);
}
