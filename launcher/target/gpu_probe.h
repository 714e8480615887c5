// SPDX-License-Identifier: Apache-2.0
//
// What of CUDA there is on this machine: driver, devices, runtime, and the CUPTI that a recorded program would get. It
// takes opening libraries that are not ours, any of which may hang or end a process, so a child does it. Opened are
// those of the loader's own search and of /usr/local/cuda alone. Of a library that lies where somebody named it, in
// Python's packages or a CUDA_HOME, the names of files tell the version: a cloned repository may hold it.
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
#include "launcher/base/scoped.h"

namespace tbprof {

struct GpuFindings {
  std::string failed;  // what gave no answer in time, or ended the child; empty: all was answered

  // A directory at or below the working directory, named in LD_LIBRARY_PATH, that holds libraries: the loader would
  // take them, so none was opened. Empty: there is none.
  std::string withheld;

  std::string driver_error;  // why libcuda.so.1 cannot be opened; empty: it can
  int driver_version = 0;    // as cuDriverGetVersion says; 0: not known
  int init_result = -1;      // of cuInit; -1: not known
  std::string init_text;
  std::vector<std::string> devices;  // their names

  std::string runtime;  // path of the CUDA runtime that is found first; empty: none
  int runtime_version = 0;
  std::string runtime_read;  // its version where names of files tell it; empty: it was asked

  std::string cupti;  // path; empty: none
  uint32_t cupti_version = 0;
  std::string cupti_read;  // CUDA's version, likewise
  int cupti_read_version = 0;
  std::vector<std::string> tried;  // for CUPTI, and what came of each
};

class GpuProbe {
 public:
  // A first cuInit without persistence mode takes seconds: that is an answer, too.
  static constexpr absl::Duration kLimit = absl::Milliseconds(1500);

  // `packages`: where Python imports from; its wheels bring a runtime and a CUPTI.
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

// Whether a program would find a working driver and a device here, in one line, and what to do if not.
struct DriverAnswer {
  bool works = false;
  bool absent = false;  // nothing of NVIDIA's is here: a machine without a GPU
  std::string found, fix;
};
DriverAnswer AnswerOf(const GpuFindings& findings);

// `13.0` for 13000.
std::string CudaVersionText(int version);
// The CUDA version that a CUPTI belongs to, as 1000 * major + 10 * minor; of those before 13, which only count up, the
// newest that it is not older than.
int CudaVersionOfCupti(uint32_t version);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_TARGET_GPU_PROBE_H_
