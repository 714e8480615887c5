// SPDX-License-Identifier: Apache-2.0
//
// Emits the stacks of a core file as frames of the spool.
//
// Process: launcher, the thread of CoreReader.
#ifndef TBPROF_LAUNCHER_SAMPLING_EMIT_CORE_H_
#define TBPROF_LAUNCHER_SAMPLING_EMIT_CORE_H_

#include <string>

#include "launcher/sampling/core_stacks.h"
#include "launcher/sampling/sampled_process.h"
#include "writer/spool/spool.h"

namespace tbprof {

// Emits code objects and stack nodes first, then the core file. Sets the counts of `fact`.
void EmitCore(const EmitFrame& emit, const SampledProcess& process, CoreFact fact, const std::string& path,
              const std::string& reason, const CoreStacks& stacks);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_EMIT_CORE_H_
