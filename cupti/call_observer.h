// SPDX-License-Identifier: Apache-2.0
//
// Around the program's calls of the driver: events before and after its work, records of the calls.
//
// Process: target, the calling thread of the program.
#ifndef TBPROF_CUPTI_CALL_OBSERVER_H_
#define TBPROF_CUPTI_CALL_OBSERVER_H_

#include "wire/cuda_observer.h"

namespace tbprof::cupti {

extern const CudaObserver kCallObserver;

}  // namespace tbprof::cupti

#endif  // TBPROF_CUPTI_CALL_OBSERVER_H_
