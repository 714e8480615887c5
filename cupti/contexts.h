// SPDX-License-Identifier: Apache-2.0
//
// Contexts of the program: who may use their events, from the first work in one to its end.
//
// Process: target, the calling thread of the program unless stated otherwise.
#ifndef TBPROF_CUPTI_CONTEXTS_H_
#define TBPROF_CUPTI_CONTEXTS_H_

#include "cupti/observer_state.h"

namespace tbprof::cupti {

void SetHandle(Context* context, void* handle);  // null: it is no more

bool PushContext(void* handle);  // makes it current to the calling thread
void PopContext();

// Of the calling thread. Null: none, or no room.
Context* CurrentContext();
// Work may go into a stream of another context than the current one. Null: the stream has none, or none that is known.
Context* ContextOfStream(uint64_t stream);
Context* ContextOf(const CudaOperation& operation);

inline bool IsLive(const Context* context) { return __atomic_load_n(&context->state, __ATOMIC_ACQUIRE) == kLive; }

// Before a call that ends contexts, or drops a reference to one, and after it.
void CloseContexts(const CudaOperation& operation);
void PauseContexts(const CudaOperation& operation);
void ResumeContexts(const CudaOperation& operation);

}  // namespace tbprof::cupti

#endif  // TBPROF_CUPTI_CONTEXTS_H_
