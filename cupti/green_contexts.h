// SPDX-License-Identifier: Apache-2.0
//
// Green contexts: parts of a device, whose streams accept events of the primary context.
//
// Process: target, the calling thread of the program.
#ifndef TBPROF_CUPTI_GREEN_CONTEXTS_H_
#define TBPROF_CUPTI_GREEN_CONTEXTS_H_

#include "cupti/observer_state.h"

namespace tbprof::cupti {

// Null: unknown.
GreenContext* GreenOf(uint64_t handle);
GreenContext* GreenBy(const void* context);
// `context`, `primary` null: unknown. If there is no room, the green context is treated as an ordinary context.
void RegisterGreen(uint64_t handle, void* context, void* primary, uint32_t device);
void UnregisterGreen(uint64_t handle);
// Returns the primary context if `context` is a green one; null: it is not, or the driver failed. `stream` is a stream
// of `context`.
void* PrimaryOfGreen(void* context, void* stream);

}  // namespace tbprof::cupti

#endif  // TBPROF_CUPTI_GREEN_CONTEXTS_H_
