// SPDX-License-Identifier: Apache-2.0
//
// Lanes of streams, and the numbers of devices and lines.
#include "writer/convert/gpu_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tbprof {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class GpuLinesTest : public testing::Test {
 protected:
  static GpuEvent At(int64_t start, int64_t duration) {
    GpuEvent event;
    event.start_ps = start;
    event.duration_ps = duration;
    return event;
  }
  GpuStream& AddStream(uint32_t device, uint32_t process, uint32_t number) {
    GpuStream& stream = timeline_.gpu_streams.emplace_back();
    stream.device = device;
    stream.process = process;
    stream.number = number;
    return stream;
  }
  void AddDevice(uint32_t number, uint32_t bus = 0, bool is_used = true) {
    GpuDevicePlace& place = places_.emplace_back();
    place.number = number;
    place.record.pci_bus = bus;
    place.is_used = is_used;
    timeline_.gpu_devices.emplace_back().name = std::to_string(places_.size() - 1);
  }
  // The names that the devices were added with, in the order of their numbers.
  std::vector<std::string> DevicesInOrder() const {
    std::vector<std::string> names;
    for (const GpuDevice& device : timeline_.gpu_devices) names.push_back(device.name);
    return names;
  }

  Timeline timeline_;
  std::vector<GpuDevicePlace> places_;
};

TEST_F(GpuLinesTest, NestedAndTouchingWork_StaysOnOneLane) {
  AddStream(0, 0, 7).events = {At(10, 5), At(0, 10), At(0, 4), At(15, 5)};
  SplitGpuLanes(&timeline_);
  ASSERT_THAT(timeline_.gpu_streams, SizeIs(1));
  const std::vector<GpuEvent>& events = timeline_.gpu_streams[0].events;
  ASSERT_THAT(events, SizeIs(4));
  EXPECT_EQ(events[0].duration_ps, 10);  // the outer one first
  EXPECT_EQ(events[1].duration_ps, 4);
}

TEST_F(GpuLinesTest, OverlappingWork_GetsALaneOfItsOwn) {
  AddStream(0, 0, 7).events = {At(0, 10), At(9, 10), At(19, 5)};
  AddStream(0, 0, 8).events = {At(0, 10)};
  SplitGpuLanes(&timeline_);
  ASSERT_THAT(timeline_.gpu_streams, SizeIs(3));
  EXPECT_THAT(timeline_.gpu_streams[0].events, SizeIs(2));
  EXPECT_EQ(timeline_.gpu_streams[1].lane, 1u);
  EXPECT_EQ(timeline_.gpu_streams[1].number, 7u);
  EXPECT_THAT(timeline_.gpu_streams[1].events, SizeIs(1));
  EXPECT_EQ(timeline_.gpu_streams[2].number, 8u);
}

TEST_F(GpuLinesTest, StreamWithoutWork_HasNoLine) {
  AddStream(0, 0, 7);
  SplitGpuLanes(&timeline_);
  EXPECT_THAT(timeline_.gpu_streams, IsEmpty());
}

TEST_F(GpuLinesTest, MoreThanTheLanes_IsCountedAsNotDrawn) {
  GpuStream& stream = AddStream(0, 0, 7);
  for (int64_t i = 0; i < 40; ++i) stream.events.push_back(At(i, 100));
  SplitGpuLanes(&timeline_);
  EXPECT_THAT(timeline_.gpu_streams, SizeIs(32));
  EXPECT_EQ(timeline_.events_over_budget, 8u);
}

TEST_F(GpuLinesTest, DevicesOfOneNumber_GetNumbersByTheirPlace) {
  AddDevice(0, 9);
  AddDevice(0, 3);
  AddDevice(1, 1);
  NumberGpuDevices(places_, &timeline_);
  EXPECT_THAT(DevicesInOrder(), ElementsAre("1", "0", "2"));
  EXPECT_EQ(timeline_.gpu_devices[2].number, 2u);
}

TEST_F(GpuLinesTest, UnusedDevice_IsLeftOutAndOthersKeepTheirStreams) {
  AddDevice(0, 0, false);
  AddDevice(5);
  AddStream(1, 0, 7);
  timeline_.counters.resize(2);
  timeline_.counters[0].device = 1;
  NumberGpuDevices(places_, &timeline_);
  EXPECT_THAT(DevicesInOrder(), ElementsAre("1"));
  EXPECT_EQ(timeline_.gpu_devices[0].number, 5u);
  EXPECT_EQ(timeline_.gpu_streams[0].device, 0u);
  EXPECT_EQ(timeline_.counters[0].device, 0);
  EXPECT_EQ(timeline_.counters[1].device, -1);
}

TEST_F(GpuLinesTest, NumberThatViewersCannotShow_BecomesAFreeOne) {
  AddDevice(kMaxDevices);
  AddDevice(UINT32_MAX);
  AddDevice(0);
  NumberGpuDevices(places_, &timeline_);
  EXPECT_THAT(timeline_.gpu_devices, SizeIs(3));
  for (uint32_t i = 0; i < 3; ++i) EXPECT_EQ(timeline_.gpu_devices[i].number, i);
}

TEST_F(GpuLinesTest, LineIds_AreUniqueOnADevice) {
  AddDevice(0);
  AddDevice(1);
  AddStream(0, 0, 7);
  AddStream(0, 1, 7);  // another process's
  AddStream(1, 0, 7);  // on another device
  AddStream(0, 0, 0);
  AddStream(0, 0, UINT32_MAX);
  NumberGpuDevices(places_, &timeline_);
  std::set<std::pair<uint32_t, uint64_t>> ids;
  for (const GpuStream& stream : timeline_.gpu_streams) {
    EXPECT_GT(stream.line_id, 0u);
    EXPECT_TRUE(ids.emplace(stream.device, stream.line_id).second);
    if (stream.number == 7 && stream.process == 0) {
      EXPECT_EQ(stream.line_id, 7u);
    }
  }
}

}  // namespace
}  // namespace tbprof
