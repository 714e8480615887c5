// SPDX-License-Identifier: Apache-2.0
//
// Memory of a device that tensors held at its peak, from reports made by hand.
#include "writer/convert/torch_memory.h"

#include <gmock/gmock.h>

#include <string_view>

namespace tbprof {
namespace {

class TorchMemoryTest : public testing::Test {
 protected:
  TorchMemoryTest() {
    timeline_.threads.resize(1);
    timeline_.types.resize(1);
    timeline_.types[0].origin = RangeOrigin::kTorchOperation;
  }
  void Operation(int64_t from, int64_t to, std::string_view name) {
    Event event{};
    event.start_ps = from;
    event.duration_ps = to - from;
    event.detail = timeline_.strings.Intern(name);
    timeline_.threads[0].events.push_back(event);
  }
  void Report(uint64_t ticks, uint64_t address, int64_t bytes) {
    TensorMemoryRecord record{};
    record.tag.kind = RecordKind::kTensorMemory;
    record.tag.aux = 2;
    record.ticks = ticks;
    record.address = address;
    record.bytes = bytes;
    allocated_ += bytes;
    record.allocated = static_cast<uint64_t>(allocated_);
    record.reserved = 1 << 20;
    record.device_type = 1;
    const RecordView view{record.tag, reinterpret_cast<const uint8_t*>(&record), sizeof(record)};
    EXPECT_TRUE(memory_.Take(0, 0, view));
  }
  DeviceMemory Finish() {
    std::vector<DeviceMemory> devices;
    memory_.Finish(
        timeline_, [](uint64_t ticks) { return static_cast<int64_t>(ticks); }, &devices);
    EXPECT_EQ(devices.size(), 1u);
    return devices.at(0);
  }

  Timeline timeline_;
  TorchMemory memory_;
  int64_t allocated_ = 0;
};

TEST_F(TorchMemoryTest, Peak_IsOfWhatWasThere) {
  Operation(0, 100, "aten::conv2d");
  Operation(100, 300, "aten::relu");
  Report(10, 0x1000, 700);
  Report(20, 0x2000, 100);
  Report(110, 0x3000, 300);
  Report(120, 0x2000, -100);
  Report(130, 0x4000, 500);  // the peak: 1500
  Report(140, 0x1000, -700);
  Report(150, 0x5000, 200);
  const DeviceMemory device = Finish();
  EXPECT_TRUE(device.by_torch);
  EXPECT_TRUE(device.complete);
  EXPECT_EQ(device.device, 2u);
  EXPECT_EQ(device.peak_bytes, 1500);
  EXPECT_EQ(device.peak_ps, 130);
  EXPECT_EQ(device.reserved_bytes, 1 << 20);
  ASSERT_EQ(device.at_peak.size(), 2u);
  EXPECT_EQ(timeline_.strings.Get(device.at_peak[0].frames.at(0)), "aten::relu");
  EXPECT_EQ(device.at_peak[0].bytes, 800);
  EXPECT_EQ(device.at_peak[0].blocks, 2);
  EXPECT_EQ(timeline_.strings.Get(device.at_peak[1].frames.at(0)), "aten::conv2d");
  EXPECT_EQ(device.at_peak[1].bytes, 700);
}

TEST_F(TorchMemoryTest, TensorsFromBefore_ArePartOfThePeak) {
  allocated_ = 5000;
  Report(10, 0x1000, 700);
  Report(20, 0x9000, -3000);
  const DeviceMemory device = Finish();
  EXPECT_EQ(device.peak_bytes, 5700);
  EXPECT_FALSE(device.complete);
  ASSERT_EQ(device.at_peak.size(), 1u);
  EXPECT_EQ(device.at_peak[0].bytes, 700);
}

}  // namespace
}  // namespace tbprof
