// SPDX-License-Identifier: Apache-2.0
#include "writer/timeline/timeline_gpu.h"

namespace tbprof {

std::string_view GpuRemedy(std::string_view cause) {
  static constexpr struct {
    std::string_view word, remedy;
  } kRemedies[] = {
      {"INSUFFICIENT_PRIVILEGES",
       "allow it with the driver's option NVreg_RestrictProfilingToAdminUsers=0, or CAP_SYS_ADMIN"},
      {"MULTIPLE_SUBSCRIBERS", "end that profiler, or run without tbprof"},
      {"MAX_LIMIT_REACHED", "end that profiler, or run without tbprof"},
      {"NOT_INITIALIZED", "CUPTI is newer than the driver: install the one of the driver's CUDA, or a newer driver"},
      {"CUPTI_ERROR_UNKNOWN", "see what nvidia-smi and `tbprof doctor` print"},
      {"no usable CUPTI",
       "install CUPTI, e.g. pip install nvidia-cuda-cupti (nvidia-cuda-cupti-cu12 for CUDA 12), or set CUDA_HOME"},
  };
  for (const auto& row : kRemedies) {
    if (cause.find(row.word) != std::string_view::npos) return row.remedy;
  }
  return "";
}

std::string_view GpuCopyName(uint8_t copy_kind) {
  // TensorBoard takes only names with one of three prefixes as transfers; all other events count as computing.
  switch (copy_kind) {
    case 1:
      return "MemcpyHToD";
    case 2:
      return "MemcpyDToH";
    case 3:
      return "MemcpyHToD (to array)";
    case 4:
      return "MemcpyDToH (from array)";
    case 5:
      return "MemcpyDToD (array to array)";
    case 6:
      return "MemcpyDToD (from array)";
    case 7:
      return "MemcpyDToD (to array)";
    case 8:
      return "MemcpyDToD";
    case 9:
      return "MemcpyHToH";
    case 10:
      return "MemcpyDToD (P2P)";
    case 255:
      return "Memset";
    default:
      return "Memcpy (unknown kind)";
  }
}

bool IsCollective(std::string_view kernel) { return kernel.starts_with("nccl") || kernel.starts_with("Nccl"); }

}  // namespace tbprof
