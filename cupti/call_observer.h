// SPDX-License-Identifier: Apache-2.0
//
// Observes the program's driver calls: records the calls, and records CUDA events before and after the submitted work.
//
// Process: target, the calling thread of the program.
#ifndef TBPROF_CUPTI_CALL_OBSERVER_H_
#define TBPROF_CUPTI_CALL_OBSERVER_H_

#include "wire/cuda_observer.h"

namespace tbprof::cupti {

extern const CudaObserver kCallObserver;

}  // namespace tbprof::cupti

#endif  // TBPROF_CUPTI_CALL_OBSERVER_H_
