// SPDX-License-Identifier: Apache-2.0
//
// Finds and opens the CUPTI that suits this process.
//
// Two different copies in one process compete for one slot in the driver, so a copy that is mapped already comes first;
// then the one that belongs to the CUDA runtime in use, those of Python wheels, the toolkit, the loader's own search.
// Not one that is newer than the driver: it would refuse.
//
// Process: target, inside the first cuInit. Takes the loader's lock and allocates (in the program's heap, as any
// dlopen).
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
  // What was tried, and what came of it: `PATH: no such file`.
  char tried[kMostTried][kTextBytes];
  uint32_t tried_count;
};

// How many there are in this process already. The driver refuses all but the first that records, until the end of the
// process: cuptiFinalize changes nothing (H200, CUPTI 12.9 after 13.0).
uint32_t LoadedCopies();

// False: none will do; `tried` has the reasons. `driver_version`: as cuDriverGetVersion gives it, 0 if not known.
bool OpenLibrary(int driver_version, Library* library);

}  // namespace tbprof::cupti

#endif  // TBPROF_CUPTI_LIBRARY_H_
