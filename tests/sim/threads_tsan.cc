// SPDX-License-Identifier: Apache-2.0
//
// Four threads use all that the engine's fast path and its queue share, while a fifth flushes: built with
// ThreadSanitizer, together with driver and CUPTI. Ends with status 1 when a kernel or a host function is missing.
#include <cuda.h>
#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <stdio.h>
#include <stdlib.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace {

constexpr int kThreads = 4, kRounds = 10, kLaunches = 50;
constexpr char kImage[] = ".version 8.0\n.visible .entry k_for_nanoseconds(.param .u64 d) {}\n";

std::atomic<int> kernels{0};
std::atomic<int> host_functions{0};

void Must(int result, const char* what) {
  if (result == 0) return;
  fprintf(stderr, "%s: %d\n", what, result);
  exit(1);
}
#define MUST(call) Must(call, #call)

void Request(uint8_t** buffer, size_t* size, size_t* records) {
  *size = 16384;
  *buffer = static_cast<uint8_t*>(aligned_alloc(8, *size));
  *records = 0;
}

void Complete(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) ++kernels;
  }
  free(buffer);
}

void OnCall(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}
void OnHost(void*) { ++host_functions; }

void Work(CUcontext context, CUfunction function, bool blocking) {
  MUST(cuCtxSetCurrent(context));
  for (int round = 0; round < kRounds; ++round) {
    CUstream stream = nullptr;
    CUdeviceptr memory = 0;
    CUevent event = nullptr;
    char host[64] = {};
    MUST(cuStreamCreate(&stream, blocking ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
    MUST(cuMemAlloc(&memory, 4096));
    MUST(cuEventCreate(&event, CU_EVENT_DEFAULT));
    for (int i = 0; i < kLaunches; ++i) {
      unsigned long long duration = 2000;
      void* arguments[] = {&duration};
      CUstream where = i % 7 == 0 ? nullptr : stream;
      MUST(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, where, arguments, nullptr));
      if (i % 10 == 3) MUST(cuLaunchHostFunc(stream, OnHost, nullptr));
      if (i % 10 == 5) MUST(cuEventRecord(event, stream));
      if (i % 10 == 5) MUST(cuStreamWaitEvent(nullptr, event, 0));
      if (i % 10 == 6) MUST(cuMemcpyHtoDAsync(memory, host, sizeof(host), stream));
    }
    MUST(cuStreamSynchronize(stream));
    MUST(cuEventSynchronize(event));
    MUST(cuMemFree(memory));
    MUST(cuEventDestroy(event));
    MUST(cuStreamDestroy(stream));
  }
}

}  // namespace

int main() {
  CUpti_SubscriberHandle subscriber = nullptr;
  MUST(cuptiSubscribe(&subscriber, OnCall, nullptr));
  MUST(cuptiActivityRegisterCallbacks(Request, Complete));
  for (const auto kind :
       {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_DRIVER, CUPTI_ACTIVITY_KIND_MEMCPY,
        CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, CUPTI_ACTIVITY_KIND_MEMORY2, CUPTI_ACTIVITY_KIND_STREAM}) {
    MUST(cuptiActivityEnable(kind));
  }
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  MUST(cuInit(0));
  MUST(cuDevicePrimaryCtxRetain(&context, 0));
  MUST(cuCtxSetCurrent(context));
  MUST(cuModuleLoadData(&module, kImage));
  MUST(cuModuleGetFunction(&function, module, "k_for_nanoseconds"));
  std::atomic<bool> stop{false};
  std::thread flusher([&stop] {
    while (!stop) {
      cuptiActivityFlushAll(0);
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
    }
  });
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(Work, context, function, i % 2 == 0);
  for (std::thread& thread : threads) thread.join();
  MUST(cuCtxSynchronize());
  stop = true;
  flusher.join();
  MUST(cuptiActivityFlushAll(0));
  printf("kernels=%d\nhost_functions=%d\n", kernels.load(), host_functions.load());
  const bool all = kernels == kThreads * kRounds * kLaunches && host_functions == kThreads * kRounds * kLaunches / 10;
  return all ? 0 : 1;
}
