// SPDX-License-Identifier: Apache-2.0
//
// Contexts of the program, from their first work to their end: which threads may use their events.
//
// Process: target, the calling thread of the program unless stated otherwise.
#ifndef TBPROF_CUPTI_CONTEXTS_H_
#define TBPROF_CUPTI_CONTEXTS_H_

#include "cupti/observer_state.h"

namespace tbprof::cupti {

void SetHandle(Context* context, void* handle);  // null: the context no longer exists

bool PushContext(void* handle);  // makes the context current to the calling thread
void PopContext();

// The current context of the calling thread. Null: none, or no room.
Context* CurrentContext();
// Work may be submitted to a stream of another context than the current one. Null: a default stream, or unknown.
Context* ContextOfStream(uint64_t stream);
Context* ContextOf(const CudaOperation& operation);

inline bool IsLive(const Context* context) { return __atomic_load_n(&context->state, __ATOMIC_ACQUIRE) == kLive; }

// CloseContexts: before a call that ends contexts. PauseContexts and ResumeContexts: before and after a call that drops
// a reference to one.
void CloseContexts(const CudaOperation& operation);
void PauseContexts(const CudaOperation& operation);
void ResumeContexts(const CudaOperation& operation);

}  // namespace tbprof::cupti

#endif  // TBPROF_CUPTI_CONTEXTS_H_
