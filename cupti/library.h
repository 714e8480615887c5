// SPDX-License-Identifier: Apache-2.0
//
// Finds and opens the CUPTI that suits this process.
//
// Two different copies in one process compete for one slot in the driver, so a copy that is mapped already comes first.
// Then follow the copy of the CUDA runtime in use, the copies of Python wheels, the toolkit of CUDA_HOME or CUDA_PATH,
// the loader's search, and /usr/local/cuda. A copy that is newer than the driver is not used: it would refuse to work.
//
// Process: target, inside the first cuInit. Takes the loader's lock and allocates in the program's heap, as any dlopen
// does.
#ifndef TBPROF_CUPTI_LIBRARY_H_
#define TBPROF_CUPTI_LIBRARY_H_

#include <stdint.h>

#include "cupti/cupti_abi.h"

namespace tbprof::cupti {

struct Library {
  static constexpr uint32_t kMostTried = 24;
  static constexpr uint32_t kTextBytes = 512;

  Functions functions;
  uint32_t version;  // as cuptiGetVersion returns
  char path[kTextBytes];
  // Each path that was tried, and the result: `PATH: no such file`.
  char tried[kMostTried][kTextBytes];
  uint32_t tried_count;
};

// The number of copies of CUPTI in this process. The driver refuses all but the first copy that records, until the end
// of the process: cuptiFinalize does not change that (H200, CUPTI 12.9 after 13.0).
uint32_t LoadedCopies();

// False: no copy is usable; `tried` has the reasons. `driver_version`: from cuDriverGetVersion, 0 if unknown.
bool OpenLibrary(int driver_version, Library* library);

}  // namespace tbprof::cupti

#endif  // TBPROF_CUPTI_LIBRARY_H_
