// SPDX-License-Identifier: Apache-2.0
//
// A spool made by hand (simulated, without a device) of a small training on one GPU: three iterations of copy, kernels,
// copy back. Ticks are nanoseconds, and the GPU clock is ahead of them by kGpuAhead.
#ifndef TBPROF_TESTS_UNIT_WRITER_GPU_SPOOL_H_
#define TBPROF_TESTS_UNIT_WRITER_GPU_SPOOL_H_

#include "tests/unit/writer/spool_maker.h"

namespace tbprof {

inline constexpr uint64_t kGpuAhead = 1'700'000'000'000'000'000;
inline constexpr uint64_t kMs = 1'000'000;
inline constexpr int kMainTid = 100;
inline constexpr uint16_t kLaunchCallback = 211, kCopyCallback = 41, kSyncCallback = 131;
// Kernel names by number.
inline constexpr uint32_t kGemm = 1, kRelu = 2, kAllReduce = 3;

// The GPU clock's time at these ticks of the session.
inline constexpr uint64_t Gpu(uint64_t ticks) { return kGpuAhead + ticks; }

// A session and process 1 with its main thread and the library's own thread, which has an open chunk with all GPU
// facts.
inline SpoolMaker GpuProcess(uint64_t open = kMs) {
  SpoolMaker spool;
  spool.Session(open).Segment(1, {{"read", kFamilyIo, ObjectRole::kDescriptor, ResultRole::kBytes}});
  spool.Clock(1000 * kMs, 1000 * kMs);
  spool.Process(1, SpoolMaker::MakeProcess(1, kMainTid, 10)).Thread(1, 1, 1, kMainTid, 10).Thread(1, 2, 1, 101, 20);
  spool.Chunk(1, 1, 1).Info(ProcessInfoKey::kExecutable, "/usr/bin/trainer").Span(0, 2 * kMs, kMs).EndChunk();
  spool.Chunk(1, 1, 2).OwnThread(20, 101);
  spool.GpuInfo(GpuInfoKey::kLibrary, 30, "/usr/lib/libcupti.so.13").GpuInfo(GpuInfoKey::kRecording, 40, "");
  spool.GpuClock(kMs / 2, Gpu(kMs / 2), 100).GpuDevice(0).GpuContext(0, 1);
  spool.GpuName(GpuNameKind::kKernel, kGemm, "_Z4gemmIfEvPT_i");
  spool.GpuName(GpuNameKind::kKernel, kRelu, "_ZN2at4reluEPf");
  spool.GpuName(GpuNameKind::kKernel, kAllReduce, "_Z18ncclDevKernel_RingIiEvi");
  spool.GpuName(GpuNameKind::kRuntimeCallback, kLaunchCallback, "cudaLaunchKernel_v7000");
  spool.GpuName(GpuNameKind::kRuntimeCallback, kCopyCallback, "cudaMemcpyAsync_v3020");
  spool.GpuName(GpuNameKind::kRuntimeCallback, kSyncCallback, "cudaStreamSynchronize_v3020");
  spool.GpuName(GpuNameKind::kDriverCallback, 307, "cuLaunchKernel");
  return spool;
}

// Each iteration has 1 ms of copy in, 3 ms of gemm, 1 ms of relu, and half a ms of copy out.
inline SpoolMaker GpuTraining(int iterations = 3) {
  SpoolMaker spool = GpuProcess();
  uint32_t id = 10;
  for (int i = 0; i < iterations; ++i) {
    const uint64_t at = (10 + 20 * static_cast<uint64_t>(i)) * kMs;
    spool.Api(kCopyCallback, kMainTid, Gpu(at), kMs / 10, ++id);
    spool.Copy(0, 14, GpuCopyKind::kHostToDevice, 1 << 20, Gpu(at + kMs), Gpu(at + 2 * kMs), id);
    // The runtime call and the driver call inside it share a number.
    spool.Api(kLaunchCallback, kMainTid, Gpu(at + kMs / 5), kMs / 10, ++id);
    spool.Api(307, kMainTid, Gpu(at + kMs / 5 + 1000), kMs / 20, id, true);
    spool.Kernel(0, 7, kGemm, Gpu(at + 2 * kMs), Gpu(at + 5 * kMs), id);
    spool.Api(kLaunchCallback, kMainTid, Gpu(at + kMs / 2), kMs / 10, ++id);
    spool.Kernel(0, 7, kRelu, Gpu(at + 5 * kMs), Gpu(at + 6 * kMs), id);
    spool.Api(kCopyCallback, kMainTid, Gpu(at + kMs), kMs / 10, ++id);
    spool.Copy(0, 14, GpuCopyKind::kDeviceToHost, 1 << 10, Gpu(at + 6 * kMs), Gpu(at + 6 * kMs + kMs / 2), id);
    spool.Api(kSyncCallback, kMainTid, Gpu(at + 2 * kMs), 5 * kMs, ++id);
    spool.GpuSpan(GpuSpanKind::kSynchronization, 3, Gpu(at + 2 * kMs + 1000), Gpu(at + 7 * kMs - 1000), id);
  }
  const uint64_t end = (10 + 20 * static_cast<uint64_t>(iterations)) * kMs;
  spool.GpuClock(end, Gpu(end), 100).EndChunk();
  spool.End(end + kMs);
  return spool;
}

}  // namespace tbprof

#endif  // TBPROF_TESTS_UNIT_WRITER_GPU_SPOOL_H_
