// SPDX-License-Identifier: Apache-2.0
//
// Records of the program's calls, of its work on the device, and of devices and contexts.
//
// Process: target, the thread whose writer is given.
#ifndef TBPROF_CUPTI_WORK_RECORDS_H_
#define TBPROF_CUPTI_WORK_RECORDS_H_

#include "cupti/observer_state.h"

namespace tbprof::cupti {

void RecordCall(ChunkWriter* writer, const CudaOperation& operation, uint64_t now, int result);
void RecordMemory(ChunkWriter* writer, const CudaOperation& operation, uint64_t now, const Context* context);
void RecordWait(ChunkWriter* writer, const CudaOperation& operation, uint64_t now, const Context* context);
// `start` 0: unknown; `end` 0: not over.
void RecordWork(ChunkWriter* writer, const CudaOperation& operation, const Context* context, uint32_t name,
                uint64_t start, uint64_t end);
// Records the context once. Called by tbprof's own thread.
void RecordContext(Context* context);

}  // namespace tbprof::cupti

#endif  // TBPROF_CUPTI_WORK_RECORDS_H_
