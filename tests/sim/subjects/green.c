// SPDX-License-Identifier: Apache-2.0
//
// Work in green contexts: by streams of theirs under the primary context, and with one of them current, in its default
// stream and others; on the first device and on the second. At the end of each round the second device's primary
// context goes with its green one.
//
//   green [ROUNDS [LAUNCHES]]
#include <cuda.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common.h"

static const char kImage[] =
    ".version 8.0\n.target sm_90\n.address_size 64\n"
    ".visible .entry part_for_nanoseconds(.param .u64 d) { ret; }\n";
static const unsigned long long kDuration = 5000;
enum { kTurns = 20 };

static CUkernel kernel;
static int launches, kernels[2];

static void Launch(int device, CUstream stream) {
  unsigned long long duration = kDuration;
  void* arguments[] = {&duration};
  MUST(cuLaunchKernel((CUfunction)kernel, 4, 1, 1, 64, 1, 1, 0, stream, arguments, NULL));
  __atomic_fetch_add(&kernels[device], 1, __ATOMIC_RELAXED);
}

static void Make(int device, int count, CUgreenCtx* made) {
  CUdevResource all, parts[2];
  unsigned groups = 2;
  MUST(cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM));
  MUST(cuDevSmResourceSplitByCount(parts, &groups, &all, NULL, 0, 16));
  if (groups != 2) exit(1);
  for (int i = 0; i < count; ++i) {
    CUdevResourceDesc description;
    MUST(cuDevResourceGenerateDesc(&description, &parts[i], 1));
    MUST(cuGreenCtxCreate(&made[i], description, device, CU_GREEN_CTX_DEFAULT_STREAM));
  }
}

// Takes it and gives it back, again and again: another thread must never have it meanwhile.
static void* Current(void* argument) {
  CUcontext context = argument, popped;
  for (int i = 0; i < kTurns; ++i) {
    CUstream stream;
    CUdeviceptr memory;
    MUST(cuCtxPushCurrent(context));
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(cuMemAlloc(&memory, 4096));
    MUST(cuMemsetD8Async(memory, 1, 4096, stream));
    for (int j = 0; j < launches; ++j) Launch(0, j % 2 == 0 ? stream : NULL);
    MUST(cuStreamSynchronize(stream));
    MUST(cuCtxSynchronize());
    MUST(cuMemFree(memory));
    MUST(cuStreamDestroy(stream));
    MUST(cuCtxPopCurrent(&popped));
    if (popped != context) exit(1);
    usleep(2000);
  }
  return NULL;
}

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? atoi(argv[1]) : 2;
  launches = argc > 2 ? atoi(argv[2]) : 10;
  MUST(cuInit(0));
  CUcontext first;
  CUlibrary library;
  MUST(cuDevicePrimaryCtxRetain(&first, 0));
  MUST(cuCtxSetCurrent(first));
  MUST(cuLibraryLoadData(&library, kImage, NULL, NULL, 0, NULL, NULL, 0));
  MUST(cuLibraryGetKernel(&kernel, library, "part_for_nanoseconds"));
  Launch(0, NULL);
  for (int round = 0; round < rounds; ++round) {
    CUgreenCtx here[2], there;
    CUstream by_stream, far;
    CUcontext context, second;
    pthread_t thread;
    Make(0, 2, here);
    Make(1, 1, &there);
    MUST(cuGreenCtxStreamCreate(&by_stream, here[0], CU_STREAM_NON_BLOCKING, 0));
    MUST(cuGreenCtxStreamCreate(&far, there, CU_STREAM_NON_BLOCKING, 0));
    MUST(cuCtxFromGreenCtx(&context, here[1]));
    if (pthread_create(&thread, NULL, Current, context) != 0) return 1;
    for (int i = 0; i < launches; ++i) {
      Launch(0, by_stream);
      Launch(1, far);
      Launch(0, NULL);
    }
    MUST(cuStreamSynchronize(by_stream));
    MUST(cuStreamSynchronize(far));
    MUST(cuDevicePrimaryCtxRetain(&second, 1));
    MUST(cuCtxPushCurrent(second));
    Launch(1, far);
    Launch(1, NULL);
    MUST(cuCtxSynchronize());
    MUST(cuCtxPopCurrent(&second));
    MUST(cuDevicePrimaryCtxRelease(1));
    pthread_join(thread, NULL);
    for (int i = 0; i < launches; ++i) Launch(1, far);
    MUST(cuStreamSynchronize(far));
    MUST(cuStreamDestroy(by_stream));
    MUST(cuStreamDestroy(far));
    MUST(cuGreenCtxDestroy(here[0]));
    MUST(cuGreenCtxDestroy(here[1]));
    MUST(cuGreenCtxDestroy(there));
    unsigned flags;
    int active;
    MUST(cuDevicePrimaryCtxGetState(1, &flags, &active));
    if (active) return 1;
  }
  Launch(0, NULL);
  MUST(cuCtxSynchronize());
  printf("kernels=%d\nfirst=%d\nsecond=%d\nsets=%d\nkernel_ns=%lld\n", kernels[0] + kernels[1], kernels[0], kernels[1],
         rounds * kTurns, (kernels[0] + kernels[1]) * (long long)kDuration);
  return 0;
}
