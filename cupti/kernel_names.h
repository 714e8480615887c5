// SPDX-License-Identifier: Apache-2.0
//
// Names and attributes of kernels, found by the handles with which the program launches them.
//
// Process: target, the calling thread of the program.
#ifndef TBPROF_CUPTI_KERNEL_NAMES_H_
#define TBPROF_CUPTI_KERNEL_NAMES_H_

#include "cupti/observer_state.h"

namespace tbprof::cupti {

// Null: the table has no room for the handle.
Function* FunctionOf(uint64_t handle);
// May rename a handle: after a module is unloaded, the driver may reuse its handles for other functions.
void NameFunction(ChunkWriter* writer, uint64_t handle, const char* text, bool is_kernel);
void ShareName(uint64_t from, uint64_t to);
// The number of the launched kernel's name; 0: no room. `context` null: unknown.
uint32_t LaunchedName(ChunkWriter* writer, uint64_t handle, const Context* context);

}  // namespace tbprof::cupti

#endif  // TBPROF_CUPTI_KERNEL_NAMES_H_
