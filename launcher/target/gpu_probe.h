// SPDX-License-Identifier: Apache-2.0
//
// Finds the CUDA parts of this machine: driver, devices, runtime, and the CUPTI that a recorded program would load. A
// child process opens the libraries, because any of them may hang or end the process. The child opens only libraries
// that the loader finds itself, and libraries in /usr/local/cuda. A library in Python's packages or in a CUDA_HOME is
// not opened, because it may come from a cloned repository: its version is taken from file names.
//
//   GpuProbe probe({"/opt/venv/lib/python3.11/site-packages"});
//   const GpuFindings& findings = probe.Wait();   // at most kLimit after the constructor
//
// Process: launcher, main thread, while it has no other thread.
#ifndef TBPROF_LAUNCHER_TARGET_GPU_PROBE_H_
#define TBPROF_LAUNCHER_TARGET_GPU_PROBE_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "writer/base/scoped.h"

namespace tbprof {

struct GpuFindings {
  std::string failed;  // the step that timed out or ended the child; empty: all steps finished

  // A directory in LD_LIBRARY_PATH, at or below the working directory, that contains libraries. The loader would load
  // them, so no library was opened. Empty: there is no such directory.
  std::string withheld;

  std::string driver_error;  // why libcuda.so.1 cannot be opened; empty: it can
  int driver_version = 0;    // from cuDriverGetVersion; 0: not known
  int init_result = -1;      // result of cuInit; -1: not known
  std::string init_text;
  std::vector<std::string> devices;  // their names

  std::string runtime;  // path of the CUDA runtime that is found first; empty: none
  int runtime_version = 0;
  std::string runtime_read;  // its version from file names; empty: the runtime itself reported its version

  std::string cupti;  // path; empty: none
  uint32_t cupti_version = 0;
  std::string cupti_read;  // CUDA's version from file names; empty: CUPTI itself reported its version
  int cupti_read_version = 0;
  std::vector<std::string> tried;  // paths that were tried for CUPTI, each with the result
};

class GpuProbe {
 public:
  // Without persistence mode the first cuInit takes seconds: the probe then reports the timeout.
  static constexpr absl::Duration kLimit = absl::Milliseconds(1500);

  // `packages`: the directories from which Python imports; wheels in them contain a CUDA runtime and CUPTI.
  explicit GpuProbe(const std::vector<std::string>& packages);
  GpuProbe(const GpuProbe&) = delete;
  GpuProbe& operator=(const GpuProbe&) = delete;
  ~GpuProbe();

  const GpuFindings& Wait();

 private:
  GpuFindings findings_;
  ScopedFd reader_;
  pid_t pid_ = -1;
  uint64_t until_ns_ = 0;
};

// Whether a program would find a working driver and a device on this machine. `found`: one line; `fix`: the remedy.
struct DriverAnswer {
  bool works = false;
  bool absent = false;  // no part of NVIDIA's driver is here: a machine without a GPU
  std::string found, fix;
};
DriverAnswer AnswerOf(const GpuFindings& findings);

// `13.0` for 13000.
std::string CudaVersionText(int version);
// The CUDA version of a CUPTI, as 1000 * major + 10 * minor. Before CUDA 13, CUPTI versions are consecutive numbers:
// the result is the newest known CUDA version whose CUPTI is not newer.
int CudaVersionOfCupti(uint32_t version);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_TARGET_GPU_PROBE_H_
