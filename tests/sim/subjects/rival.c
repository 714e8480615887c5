// SPDX-License-Identifier: Apache-2.0
//
// A program that uses CUPTI itself, as torch.profiler and JAX do: it subscribes, records its own kernels, and leaves.
// Built twice: linked to libcupti (rival_linked) and opening it (rival_opened).
//
//   rival [VERSION] [ROUNDS] [END]   VERSION 1: cuptiSubscribe, 2: cuptiSubscribe_v2, 3: the same in the structure of
//                                    CUDA 13.2, allowing others; twice at once
//                                    END: finalize, or fork: a child that calls CUPTI
//
//   RIVAL_GATES   a directory: each round first makes `ready-ROUND` there, waits for `go-ROUND`, and launches five
//                 kernels that it does not record
//   RIVAL_KEEPS   milliseconds that it keeps CUPTI after each round's kernels
//   RIVAL_WORKS   milliseconds that it goes on launching kernels when it is done with CUPTI
//   RIVAL_CUPTI   what rival_opened opens (libcupti.so.13)
//   RIVAL_ALSO    another copy, opened and left alone
//   RIVAL_LATE    rival_opened opens its copy after it has started CUDA
#include <cuda.h>
#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef RIVAL_OPENS
static void* cupti;
static void* Find(const char* name) {
  void* function = dlsym(cupti, name);
  if (function == NULL) exit(3);
  return function;
}
#define CUPTI(name) ((__typeof__(&name))Find(#name))
#else
#define CUPTI(name) name
#endif

static const char kImage[] =
    ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry rival_for_nanoseconds(.param .u64 d) {\n"
    ".reg .u64 %t<4>;\n.reg .pred %p;\nld.param.u64 %t0, [d];\nmov.u64 %t1, %globaltimer;\nagain:\n"
    "mov.u64 %t2, %globaltimer;\nsub.u64 %t3, %t2, %t1;\nsetp.lt.u64 %p, %t3, %t0;\n@%p bra again;\nret;\n}\n";
static long long kernels, kernel_ns, calls;

static void CUPTIAPI Request(uint8_t** buffer, size_t* size, size_t* records) {
  *size = 65536;
  *buffer = aligned_alloc(8, *size);
  *records = 0;
}

static void CUPTIAPI Complete(CUcontext context, uint32_t stream, uint8_t* buffer, size_t size, size_t valid) {
  CUpti_Activity* record = NULL;
  while (CUPTI(cuptiActivityGetNextRecord)(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) continue;
    const CUpti_ActivityKernel4* kernel = (const CUpti_ActivityKernel4*)record;
    ++kernels;
    kernel_ns += (long long)(kernel->end - kernel->start);
  }
  free(buffer);
}

// CUpti_SubscriberParams of CUDA 13.2 and later.
struct Parameters132 {
  CUpti_SubscriberParams parameters;
  uint8_t allow_multiple_subscribers;
  uint8_t padding[7];
};

static void WaitForGate(int round) {
  char path[4096];
  if (getenv("RIVAL_GATES") == NULL) return;
  snprintf(path, sizeof(path), "%s/ready-%d", getenv("RIVAL_GATES"), round);
  fclose(fopen(path, "we"));
  snprintf(path, sizeof(path), "%s/go-%d", getenv("RIVAL_GATES"), round);
  while (access(path, F_OK) != 0) usleep(2000);
}

static int LaunchFive(CUfunction function) {
  for (int i = 0; i < 5; ++i) {
    unsigned long long duration = 30000;
    void* arguments[] = {&duration};
    if (cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, arguments, NULL) != CUDA_SUCCESS) return 0;
  }
  return cuCtxSynchronize() == CUDA_SUCCESS;
}

static long Milliseconds(const char* variable) {
  const char* const value = getenv(variable);
  return value == NULL ? 0 : atol(value);
}

static void CUPTIAPI OnCall(void* data, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* info) { ++calls; }

int main(int argc, char** argv) {
  const int version = argc > 1 ? atoi(argv[1]) : 1, rounds = argc > 2 ? atoi(argv[2]) : 1;
#ifdef RIVAL_OPENS
  const char *library = getenv("RIVAL_CUPTI"), *also = getenv("RIVAL_ALSO");
  if (also != NULL && dlopen(also, RTLD_NOW) == NULL) return 2;
  if (getenv("RIVAL_LATE") == NULL) cupti = dlopen(library == NULL ? "libcupti.so.13" : library, RTLD_NOW);
  if (getenv("RIVAL_LATE") == NULL && cupti == NULL) return 2;
#endif
  CUdevice device;
  CUcontext context;
  CUmodule module;
  CUfunction function;
  if (cuInit(0) != CUDA_SUCCESS || cuDeviceGet(&device, 0) != CUDA_SUCCESS) return 1;
  if (cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS || cuCtxSetCurrent(context) != CUDA_SUCCESS) return 1;
  if (cuModuleLoadData(&module, kImage) != CUDA_SUCCESS) return 1;
  if (cuModuleGetFunction(&function, module, "rival_for_nanoseconds") != CUDA_SUCCESS) return 1;
#ifdef RIVAL_OPENS
  if (cupti == NULL) cupti = dlopen(library == NULL ? "libcupti.so.13" : library, RTLD_NOW);
  if (cupti == NULL) return 2;
#endif
  const int gated = getenv("RIVAL_GATES") != NULL, each = gated ? 10 : 5;
  int subscribed = 0, result = 0;
  char old[CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN] = "";
  for (int round = 0; round < rounds; ++round) {
    CUpti_SubscriberHandle subscriber = NULL;
    WaitForGate(round);
    if (gated && !LaunchFive(function)) return 1;
    if (version >= 2) {
      struct Parameters132 newest;
      memset(&newest, 0, sizeof(newest));
      newest.allow_multiple_subscribers = 1;
      CUpti_SubscriberParams* parameters = &newest.parameters;
      parameters->structSize = version == 2 ? CUpti_SubscriberParams_STRUCT_SIZE : sizeof(newest);
      parameters->subscriberName = "rival";
      parameters->oldSubscriberName = old;
      parameters->oldSubscriberSize = sizeof(old);
      result = CUPTI(cuptiSubscribe_v2)(&subscriber, OnCall, NULL, parameters);
      if (version == 3) {
        CUpti_SubscriberHandle second = NULL;
        printf("second_result=%d\n", (int)CUPTI(cuptiSubscribe_v2)(&second, OnCall, NULL, parameters));
        printf("first_version_result=%d\n", (int)CUPTI(cuptiSubscribe)(&second, OnCall, NULL));
      }
    } else {
      result = CUPTI(cuptiSubscribe)(&subscriber, OnCall, NULL);
    }
    if (result == CUPTI_SUCCESS) {
      ++subscribed;
      CUPTI(cuptiEnableDomain)(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API);
      CUPTI(cuptiActivityRegisterCallbacks)(Request, Complete);
      CUPTI(cuptiActivityEnable)(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    }
    if (!LaunchFive(function)) return 1;
    usleep((useconds_t)(1000 * Milliseconds("RIVAL_KEEPS")));
    if (result == CUPTI_SUCCESS) {
      CUPTI(cuptiActivityDisable)(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
      CUPTI(cuptiActivityFlushAll)(0);
      CUPTI(cuptiUnsubscribe)(subscriber);
    }
  }
  for (long left = Milliseconds("RIVAL_WORKS"); left > 0; --left) {
    if (!LaunchFive(function)) return 1;
    usleep(1000);
  }
  fflush(stdout);
  if (argc > 3 && strcmp(argv[3], "finalize") == 0) printf("finalize=%d\n", (int)CUPTI(cuptiFinalize)());
  if (argc > 3 && strcmp(argv[3], "fork") == 0) {
    int status = 0;
    const pid_t child = fork();
    if (child == 0) {
      alarm(1);
      _exit(CUPTI(cuptiActivityFlushAll)(0));
    }
    waitpid(child, &status, 0);
    printf("child_signal=%d\nchild_result=%d\n", WIFSIGNALED(status) ? WTERMSIG(status) : 0,
           WIFEXITED(status) ? WEXITSTATUS(status) : -1);
  }
  printf(
      "subscribe_result=%d\nsubscribed=%d\nold_subscriber=%s\nown_kernels=%lld\nown_kernel_ns=%lld\nown_calls=%lld\n",
      result, subscribed, old, kernels, kernel_ns, calls);
  printf("kernels=%d\nkernel_ns=%d\n", rounds * each, rounds * each * 30000);
  return 0;
}
