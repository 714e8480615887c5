// SPDX-License-Identifier: Apache-2.0
//
// Names and attributes of kernels, by the handles that the program launches them with.
//
// Process: target, the calling thread of the program.
#ifndef TBPROF_CUPTI_KERNEL_NAMES_H_
#define TBPROF_CUPTI_KERNEL_NAMES_H_

#include "cupti/observer_state.h"

namespace tbprof::cupti {

// Null: too many are near it.
Function* FunctionOf(uint64_t handle);
// The handle of a module that is gone may come again for another function.
void NameFunction(ChunkWriter* writer, uint64_t handle, const char* text, bool is_kernel);
void ShareName(uint64_t from, uint64_t to);
// The number of the launched kernel's name. `context` null: not known.
uint32_t LaunchedName(ChunkWriter* writer, uint64_t handle, const Context* context);

}  // namespace tbprof::cupti

#endif  // TBPROF_CUPTI_KERNEL_NAMES_H_
