// SPDX-License-Identifier: Apache-2.0
//
// Records of GPU activity to timelines, on spools made by hand; each also goes through the outputs and their checks.
// TBPROF_WRITE_GPU_SPOOL=PATH: the training's spool is left there, for tests/xprof/test_gpu.py.
#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/writer/gpu_spool.h"
#include "writer/outputs/xplane.h"
#include "writer/outputs/xplane_gpu.h"

namespace tbprof {
namespace {

using testing::HasSubstr;

class FileSink : public Sink {
 public:
  absl::Status Append(std::string_view bytes) override {
    bytes_ += bytes;
    return absl::OkStatus();
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// Every output takes it, and finds in the file what it wrote.
void ExpectOutputs(const Timeline& timeline) {
  for (const Output& output : Outputs()) {
    FileSink sink;
    ASSERT_TRUE(output.write(timeline, sink).ok()) << output.name;
    if (output.verify == nullptr) continue;
    const TemporaryPath file("output");
    file.Write(sink.bytes());
    const auto verified = output.verify(file.path(), timeline);
    ASSERT_TRUE(verified.ok()) << output.name << ": " << verified.status();
  }
}

Timeline Build(const SpoolMaker& spool, TimelineRequest request = {}) {
  auto timeline = spool.Build(std::move(request));
  EXPECT_TRUE(timeline.ok()) << timeline.status();
  ExpectOutputs(*timeline);
  return std::move(*timeline);
}

const GpuStream* StreamNumber(const Timeline& timeline, uint32_t number) {
  for (const GpuStream& stream : timeline.gpu_streams) {
    if (stream.number == number && stream.lane == 0) return &stream;
  }
  return nullptr;
}

TEST(GpuBuilder, TrainingOnOneDevice) {
  const SpoolMaker spool = GpuTraining();
  if (const char* path = getenv("TBPROF_WRITE_GPU_SPOOL")) {
    std::ofstream(path, std::ios::binary) << spool.Bytes();
  }
  const Timeline timeline = Build(spool);
  ASSERT_EQ(timeline.gpu_devices.size(), 1u);
  const GpuDevice& device = timeline.gpu_devices[0];
  EXPECT_EQ(device.name, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(device.kernels, 6u);
  EXPECT_EQ(device.kernel_ps, 12'000'000'000);
  // Copy in, kernels and copy out touch, and cover 5.5 ms of each iteration.
  EXPECT_EQ(device.busy_ps, 3 * 5'500'000'000);
  EXPECT_EQ(device.waits, 3u);
  EXPECT_EQ(device.waited_ps, 3 * 4'998'000'000);
  ASSERT_EQ(device.kernel_totals.size(), 2u);
  EXPECT_EQ(timeline.strings.Get(device.kernel_totals[0].name), "void gemm<float>(float*, int)");
  EXPECT_EQ(device.kernel_totals[0].calls, 3u);
  EXPECT_EQ(device.kernel_totals[0].total_ps, 9'000'000'000);
  ASSERT_EQ(device.copy_totals.size(), 2u);
  EXPECT_EQ(device.copy_totals[0].name, "MemcpyHToD");
  EXPECT_EQ(device.copy_totals[0].bytes, 3u << 20);

  const GpuStream* compute = StreamNumber(timeline, 7);
  ASSERT_NE(compute, nullptr);
  EXPECT_EQ(compute->line_id, 7u);
  EXPECT_EQ(StreamName(timeline, *compute, false), "Stream #7(Compute)");
  ASSERT_EQ(compute->events.size(), 6u);
  EXPECT_EQ(compute->events[0].start_ps, 11'000'000'000);
  EXPECT_EQ(compute->events[0].duration_ps, 3'000'000'000);
  EXPECT_THAT(KernelDetails(timeline.gpu_launches[compute->events[0].launch]),
              HasSubstr("regs:64 static_shared:8192 dynamic_shared:0 grid:128,1,1 block:256,1,1 occ_pct:50"));

  // The library's own thread is none of the program's.
  ASSERT_EQ(timeline.threads.size(), 1u);
  std::map<int64_t, std::string> calls;
  for (const Event& event : timeline.threads[0].events) {
    if (timeline.types[event.type].value != ValueKind::kCorrelation || event.value == 0) continue;
    EXPECT_TRUE(calls.emplace(event.value, timeline.types[event.type].name).second) << "one call for a number";
  }
  for (const GpuEvent& event : compute->events) {
    EXPECT_EQ(calls[static_cast<int64_t>(event.correlation)], "cudaLaunchKernel");
  }
}

}  // namespace
}  // namespace tbprof
