// SPDX-License-Identifier: Apache-2.0
//
// GreenContext contexts: parts of a device, whose streams take the primary context's events.
//
// Process: target, the calling thread of the program.
#ifndef TBPROF_CUPTI_GREEN_CONTEXTS_H_
#define TBPROF_CUPTI_GREEN_CONTEXTS_H_

#include "cupti/observer_state.h"

namespace tbprof::cupti {

// Null: not known.
GreenContext* GreenOf(uint64_t handle);
GreenContext* GreenBy(const void* context);
// `context`, `primary` null: not known. Where there is no room it is taken for a context of its own.
void RegisterGreen(uint64_t handle, void* context, void* primary, uint32_t device);
void UnregisterGreen(uint64_t handle);
// Of a context that is not known: the primary one, where it is green. `stream` is in it. Null: it is not green.
void* PrimaryOfGreen(void* context, void* stream);

}  // namespace tbprof::cupti

#endif  // TBPROF_CUPTI_GREEN_CONTEXTS_H_
