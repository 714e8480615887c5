// SPDX-License-Identifier: Apache-2.0
#include "launcher/gate/gpu_load.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "writer/base/scoped.h"

namespace tbprof {
namespace {

constexpr int kAnswerMs = 5000;
constexpr uint32_t kMostDevices = 64, kMostProcesses = 256;
// Constants of nvml.h.
constexpr int kSuccess = 0, kInsufficientSize = 7;
constexpr int kPolicyPower = 0, kPolicyThermal = 1;

using Device = void*;
struct ProcessInfo {  // nvmlProcessInfo_v2_t
  unsigned pid;
  unsigned long long used;
  unsigned gpu_instance, compute_instance;
};
struct ViolationTime {  // nvmlViolationTime_t
  unsigned long long reference_us, violation_ns;
};

template <typename Function>
bool Find(void* library, const char* name, Function** function) {
  *function = reinterpret_cast<Function*>(dlsym(library, name));
  return *function != nullptr;
}

// Runs in the child process.
bool Ask(const char* name, GpuReading* reading) {
  void* const library = dlopen(name, RTLD_NOW);
  int (*init)(), (*count)(unsigned*), (*handle)(unsigned, Device*);
  int (*processes)(Device, unsigned*, ProcessInfo*), (*violation)(Device, int, ViolationTime*);
  if (library == nullptr || !Find(library, "nvmlInit_v2", &init) || !Find(library, "nvmlDeviceGetCount_v2", &count) ||
      !Find(library, "nvmlDeviceGetHandleByIndex_v2", &handle)) {
    return false;
  }
  const bool has_processes = Find(library, "nvmlDeviceGetComputeRunningProcesses_v3", &processes);
  const bool has_violation = Find(library, "nvmlDeviceGetViolationStatus", &violation);
  unsigned devices = 0;
  if (init() != kSuccess || count(&devices) != kSuccess) return false;
  reading->devices = std::min(devices, kMostDevices);
  for (unsigned i = 0; i < reading->devices; ++i) {
    Device device = nullptr;
    if (handle(i, &device) != kSuccess) continue;
    static ProcessInfo infos[kMostProcesses];
    unsigned running = kMostProcesses;
    const int status = has_processes ? processes(device, &running, infos) : -1;
    if (status == kSuccess || status == kInsufficientSize) reading->processes += running;
    for (const int policy : {kPolicyPower, kPolicyThermal}) {
      ViolationTime time = {};
      if (has_violation && violation(device, policy, &time) == kSuccess) reading->slowed_ns += time.violation_ns;
    }
  }
  return true;
}

}  // namespace

GpuReading GpuLoadReader::Read() {
  int ends[2];
  if (!answers_ || pipe2(ends, O_CLOEXEC) != 0) return {};
  const ScopedFd from(ends[0]);
  ScopedFd to(ends[1]);
  const pid_t child = fork();
  if (child == 0) {
    // Hides output of the library from the user.
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(null, 1);
    dup2(null, 2);
    GpuReading reading;
    const bool asked = Ask(library_.c_str(), &reading);
    _exit(asked && write(to.get(), &reading, sizeof(reading)) == sizeof(reading) ? 0 : 1);
  }
  to.Reset();
  GpuReading reading;
  pollfd waits = {from.get(), POLLIN, 0};
  const bool answered = child > 0 && poll(&waits, 1, kAnswerMs) > 0 &&
                        read(from.get(), &reading, sizeof(reading)) == static_cast<ssize_t>(sizeof(reading));
  if (child > 0) {
    if (!answered) kill(child, SIGKILL);
    while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  answers_ = answered && reading.devices > 0;
  return answers_ ? reading : GpuReading();
}

}  // namespace tbprof
