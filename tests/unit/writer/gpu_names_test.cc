// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/gpu_names.h"

#include <gtest/gtest.h>

#include "writer/timeline/timeline_gpu.h"

namespace tbprof {
namespace {

TEST(GpuNames, CallWithAVersion_LosesIt) {
  EXPECT_EQ(WithoutVersion("cudaLaunchKernel_v7000"), "cudaLaunchKernel");
  EXPECT_EQ(WithoutVersion("cudaLaunchKernelExC_v11060"), "cudaLaunchKernelExC");
  EXPECT_EQ(WithoutVersion("cuMemAlloc_v2"), "cuMemAlloc_v2");
  EXPECT_EQ(WithoutVersion("cuLaunchKernel"), "cuLaunchKernel");
  EXPECT_EQ(WithoutVersion("_v7000"), "_v7000");
  EXPECT_EQ(WithoutVersion("f_v70a0"), "f_v70a0");
  EXPECT_EQ(WithoutVersion("f_v"), "f_v");
  EXPECT_EQ(WithoutVersion(""), "");
}

TEST(GpuNames, UnknownNumber_HasTheCommonName) {
  EXPECT_EQ(SynchronizationName(3), "stream synchronization");
  EXPECT_EQ(SynchronizationName(77), "synchronization");
  EXPECT_EQ(OverheadName(4u << 16), "module loading");
  EXPECT_EQ(OverheadName(77), "overhead");
  EXPECT_EQ(GpuCopyName(1), "MemcpyHToD");
  EXPECT_EQ(GpuCopyName(77), "Memcpy (unknown kind)");
}

TEST(GpuNames, UnifiedMemoryKind_HasNameAndCause) {
  const UnifiedMemoryKind* const kind = FindUnifiedMemoryKind(GpuUnifiedKind::kToDevice);
  ASSERT_NE(kind, nullptr);
  EXPECT_EQ(kind->name, "unified memory HtoD");
  EXPECT_TRUE(kind->is_bytes);
  EXPECT_EQ(FindUnifiedMemoryKind(static_cast<GpuUnifiedKind>(200)), nullptr);
  EXPECT_EQ(UnifiedMemoryCause(GpuUnifiedKind::kToHost, 2), "page fault");
  EXPECT_EQ(UnifiedMemoryCause(GpuUnifiedKind::kDeviceFault, 2), "write");
  EXPECT_EQ(UnifiedMemoryCause(GpuUnifiedKind::kRemoteMap, 4), "out of memory");
  EXPECT_EQ(UnifiedMemoryCause(GpuUnifiedKind::kToHost, 99), "");
  EXPECT_EQ(UnifiedMemoryCause(GpuUnifiedKind::kThrashing, 1), "");
}

TEST(GpuNames, KnownError_HasARemedy) {
  EXPECT_NE(GpuRemedy("cuptiSubscribe: CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED").find("end that profiler"),
            std::string_view::npos);
  EXPECT_EQ(GpuRemedy("something else"), "");
}

}  // namespace
}  // namespace tbprof
