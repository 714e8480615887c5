// SPDX-License-Identifier: Apache-2.0
//
// Copies from host to host: the host makes them in the call, and CUPTI reports them like work of the device.
#include <algorithm>

#include <gtest/gtest.h>

#include "tests/unit/writer/gpu_spool.h"

namespace tbprof {
namespace {

// On an H200, copies of 8 bytes took 0.4 ms each: the call waits first, and kernels of the same stream run meanwhile.
SpoolMaker SpoolWithHostCopy() {
  SpoolMaker spool = GpuProcess();
  spool.Api(kLaunchCallback, kMainTid, Gpu(10 * kMs), kMs, 11);
  spool.Kernel(0, 7, kGemm, Gpu(12 * kMs), Gpu(14 * kMs), 11);
  spool.Api(kCopyCallback, kMainTid, Gpu(11 * kMs), 8 * kMs, 12);
  spool.Copy(0, 7, GpuCopyKind::kHostToHost, 8, Gpu(11 * kMs + 1000), Gpu(19 * kMs - 1000), 12);
  spool.GpuClock(50 * kMs, Gpu(50 * kMs), 100).EndChunk();
  spool.End(101 * kMs);
  return spool;
}

TEST(GpuHostCopies, CopyFromHostToHost_IsInItsCallAndNotOnTheDevice) {
  const auto timeline = SpoolWithHostCopy().Build({});
  ASSERT_TRUE(timeline.ok()) << timeline.status();
  ASSERT_EQ(timeline->gpu_streams.size(), 1u);
  ASSERT_EQ(timeline->gpu_streams[0].events.size(), 1u);
  EXPECT_EQ(timeline->gpu_streams[0].events[0].kind, GpuEventKind::kKernel);
  const Event* call = nullptr;
  const Event* copy = nullptr;
  const Thread* thread = nullptr;
  for (const Thread& one : timeline->threads) {
    for (const Event& event : one.events) {
      const EventType& type = timeline->types[event.type];
      if (type.name == "cudaMemcpyAsync") call = &event;
      if (type.name != "copy from host to host") continue;
      copy = &event;
      thread = &one;
      EXPECT_EQ(type.value, ValueKind::kBytes);
      EXPECT_EQ(ConservedKindOf(type), ConservedKind::kGpuCopy);
    }
  }
  ASSERT_NE(call, nullptr);
  ASSERT_NE(copy, nullptr);
  EXPECT_EQ(thread->tid, kMainTid);
  EXPECT_EQ(copy->value, 8);
  EXPECT_EQ(copy->object, 7u);
  EXPECT_GE(copy->start_ps, call->start_ps);
  EXPECT_LE(copy->start_ps + copy->duration_ps, call->start_ps + call->duration_ps);
  // The call caused no work of the device.
  EXPECT_EQ(call->value, 0);
}

TEST(GpuHostCopies, CopyFromHostToHost_IsCountedAndDoesNotKeepTheDeviceBusy) {
  const auto timeline = SpoolWithHostCopy().Build({});
  ASSERT_TRUE(timeline.ok()) << timeline.status();
  const GpuDevice& device = timeline->gpu_devices[0];
  EXPECT_EQ(device.busy_ps, 2'000'000'000);
  ASSERT_EQ(device.copy_totals.size(), 1u);
  EXPECT_EQ(device.copy_totals[0].name, "MemcpyHToH");
  EXPECT_EQ(device.copy_totals[0].calls, 1u);
  EXPECT_EQ(device.copy_totals[0].bytes, 8u);
  const auto row = std::ranges::find(timeline->conservation, ConservedKind::kGpuCopy, &ConservedRow::kind);
  ASSERT_NE(row, timeline->conservation.end());
  EXPECT_EQ(row->published, 1u);
  for (const uint64_t count : row->rest) EXPECT_EQ(count, 0u);
}

}  // namespace
}  // namespace tbprof
