// SPDX-License-Identifier: Apache-2.0
// NVIDIA's management library, as far as `tbprof ab` asks it: SIMULATED_NVML has "DEVICES PROCESSES SLOWED_NS", of each
// device; `hangs` and `crashes` do so.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static unsigned devices, processes;
static unsigned long long slowed_ns;

int nvmlInit_v2(void) {
  const char* const text = getenv("SIMULATED_NVML");
  printf("the library says something\n");
  if (text == NULL) return 9;
  if (strcmp(text, "hangs") == 0) pause();
  if (strcmp(text, "crashes") == 0) abort();
  return sscanf(text, "%u %u %llu", &devices, &processes, &slowed_ns) == 3 ? 0 : 9;
}

int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = devices;
  return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = (void*)(size_t)(index + 1);
  return index < devices ? 0 : 2;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, void* infos) {
  (void)device, (void)infos;
  *count = processes;
  return 0;
}

int nvmlDeviceGetViolationStatus(void* device, int policy, unsigned long long times[2]) {
  (void)device;
  times[0] = 0;
  times[1] = policy == 1 ? slowed_ns : 0;
  return 0;
}
