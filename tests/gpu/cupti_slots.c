// SPDX-License-Identifier: Apache-2.0
//
// Two copies of CUPTI in one process, by turns: what each records, and what the driver lets it.
//
//   cupti_slots LIBRARY_A LIBRARY_B STEP...
//
//   init      cuInit, a context and a kernel
//   a:open    opens the library
//   a:on      subscribes, registers buffers, records kernels; a:on- the same without a subscription
//   a:off     stops, flushes, unsubscribes
//   a:end     cuptiFinalize
//   run       ten kernels, waited for
//   a:count   flushes and prints how many kernels it handed over since the last count
//   b:...     the other library
//
// A line for each step: what it did and CUPTI's results, 0 where all is well.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int (*Any)();

static const char kImage[] =
    ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry slots_for_nanoseconds(.param .u64 d) {\n"
    ".reg .u64 %t<4>;\n.reg .pred %p;\nld.param.u64 %t0, [d];\nmov.u64 %t1, %globaltimer;\nagain:\n"
    "mov.u64 %t2, %globaltimer;\nsub.u64 %t3, %t2, %t1;\nsetp.lt.u64 %p, %t3, %t0;\n@%p bra again;\nret;\n}\n";

enum { kConcurrentKernel = 10 };

static struct Copy {
  const char* path;
  void* handle;
  void* subscriber;
  int subscribed;
  long kernels;
} copies[2];
static void *driver, *function;

static Any Driver(const char* name) { return (Any)dlsym(driver, name); }
static Any Cupti(const struct Copy* copy, const char* name) { return (Any)dlsym(copy->handle, name); }

static void Request(uint8_t** buffer, size_t* size, size_t* records) {
  *size = 65536;
  *buffer = aligned_alloc(8, *size);
  *records = 0;
}

static void Count(struct Copy* copy, uint8_t* buffer, size_t valid) {
  void* record = NULL;
  while (valid > 0 && Cupti(copy, "cuptiActivityGetNextRecord")(buffer, valid, &record) == 0) {
    if (*(uint32_t*)record == kConcurrentKernel) ++copy->kernels;
  }
  free(buffer);
}
static void CompleteA(void* context, uint32_t stream, uint8_t* buffer, size_t size, size_t valid) {
  Count(&copies[0], buffer, valid);
}
static void CompleteB(void* context, uint32_t stream, uint8_t* buffer, size_t size, size_t valid) {
  Count(&copies[1], buffer, valid);
}
static void OnCall(void* data, int domain, uint32_t id, const void* info) {}

static int Init(void) {
  void *context = NULL, *module = NULL;
  int device = 0, result = Driver("cuInit")(0);
  if (result == 0) result = Driver("cuDeviceGet")(&device, 0);
  if (result == 0) result = Driver("cuDevicePrimaryCtxRetain")(&context, device);
  if (result == 0) result = Driver("cuCtxSetCurrent")(context);
  if (result == 0) result = Driver("cuModuleLoadData")(&module, kImage);
  if (result == 0) result = Driver("cuModuleGetFunction")(&function, module, "slots_for_nanoseconds");
  return result;
}

static int Run(void) {
  for (int i = 0; i < 10; ++i) {
    unsigned long long duration = 20000;
    void* arguments[] = {&duration};
    const int result =
        ((int (*)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
                  void**))Driver("cuLaunchKernel"))(function, 1, 1, 1, 32, 1, 1, 0, NULL, arguments, NULL);
    if (result != 0) return result;
  }
  return Driver("cuCtxSynchronize")();
}

static void Step(struct Copy* copy, const char* what) {
  const int a = copy == &copies[0];
  if (strcmp(what, "open") == 0) {
    copy->handle = dlopen(copy->path, RTLD_NOW | RTLD_LOCAL);
    printf(" %s", copy->handle == NULL ? dlerror() : "0");
  } else if (strncmp(what, "on", 2) == 0) {
    copy->subscribed = what[2] != '-' && printf(" %d", Cupti(copy, "cuptiSubscribe")(&copy->subscriber, OnCall, NULL));
    printf(" %d", Cupti(copy, "cuptiActivityRegisterCallbacks")(Request, a ? CompleteA : CompleteB));
    printf(" %d", Cupti(copy, "cuptiActivityEnable")(kConcurrentKernel));
  } else if (strcmp(what, "off") == 0) {
    printf(" %d", Cupti(copy, "cuptiActivityDisable")(kConcurrentKernel));
    printf(" %d", Cupti(copy, "cuptiActivityFlushAll")(1));
    if (copy->subscribed) printf(" %d", Cupti(copy, "cuptiUnsubscribe")(copy->subscriber));
  } else if (strcmp(what, "end") == 0) {
    printf(" %d", Cupti(copy, "cuptiFinalize")());
  } else if (strcmp(what, "count") == 0) {
    printf(" %d", Cupti(copy, "cuptiActivityFlushAll")(1));
    printf(" kernels=%ld", copy->kernels);
    copy->kernels = 0;
  } else {
    printf(" unknown");
  }
}

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  setvbuf(stdout, NULL, _IONBF, 0);
  copies[0].path = argv[1];
  copies[1].path = argv[2];
  driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (driver == NULL) return 3;
  for (int i = 3; i < argc; ++i) {
    printf("%s:", argv[i]);
    if (strcmp(argv[i], "init") == 0) {
      printf(" %d", Init());
    } else if (strcmp(argv[i], "run") == 0) {
      printf(" %d", Run());
    } else {
      Step(&copies[argv[i][0] == 'b'], argv[i] + 2);
    }
    printf("\n");
  }
  return 0;
}
