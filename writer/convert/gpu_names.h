// SPDX-License-Identifier: Apache-2.0
//
// Names for CUPTI's numbers of calls, waits, overheads and kinds of unified memory.
//
// Process: converter. Pure functions.
#ifndef TBPROF_WRITER_CONVERT_GPU_NAMES_H_
#define TBPROF_WRITER_CONVERT_GPU_NAMES_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "wire/records.h"

namespace tbprof {

// `cudaLaunchKernel_v7000` to `cudaLaunchKernel`: the number is the version of the callback's parameters.
std::string WithoutVersion(std::string_view name);

std::string_view SynchronizationName(uint32_t type);  // CUpti_ActivitySynchronizationType
std::string_view OverheadName(uint32_t type);         // CUpti_ActivityOverheadKind

// A kind of CUPTI's unified memory records. The names are those of CUDA's own tools; `line`: part of the name of its
// line.
struct UnifiedMemoryKind {
  GpuUnifiedKind kind;
  std::string_view name, line;
  bool is_bytes;  // its value is in bytes
};
// Null: the kind is not known.
const UnifiedMemoryKind* FindUnifiedMemoryKind(GpuUnifiedKind kind);
// CUpti_ActivityUnifiedMemoryMigrationCause, ...AccessType, ...RemoteMapCause. Empty: not known.
std::string_view UnifiedMemoryCause(GpuUnifiedKind kind, uint32_t cause);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_GPU_NAMES_H_
