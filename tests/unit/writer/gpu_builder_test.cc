// SPDX-License-Identifier: Apache-2.0
//
// Timelines from records of GPU activity, in spools made by hand; each timeline also goes through the outputs and their
// checks. TBPROF_WRITE_GPU_SPOOLS=DIRECTORY: writes some of the spools there, for tests/xprof/test_gpu.py.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/unit/writer/gpu_spool.h"
#include "tests/unit/writer/string_sink.h"
#include "writer/convert/event_budget.h"
#include "writer/outputs/summary.h"
#include "writer/outputs/xplane.h"
#include "writer/outputs/xplane_gpu.h"

namespace tbprof {
namespace {

using testing::HasSubstr;

// Every output accepts the timeline, and its check finds all of it in the file.
void ExpectOutputs(const Timeline& timeline) {
  for (const Output& output : Outputs()) {
    StringSink sink;
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

TEST(GpuBuilder, GraphNodes_AreOrderedByThreadAndTime) {
  SpoolMaker spool = GpuProcess();
  spool.EndChunk();
  spool.Thread(1, 3, 1, 103, 20);
  spool.Chunk(1, 1, 3).GraphNode(4 * kMs, 41).EndChunk();
  // Before the window, out of order, no number, behind the window.
  spool.Chunk(1, 1, 1).GraphNode(kMs / 2, 10).GraphNode(9 * kMs, 12, 11).GraphNode(8 * kMs, 11).GraphNode(9 * kMs, 0);
  spool.GraphNode(UINT64_MAX, 13).EndChunk();
  const Timeline timeline = Build(spool);
  ASSERT_EQ(timeline.graph_nodes.size(), 3u);
  EXPECT_EQ(timeline.graph_nodes[0].node, 11u);
  EXPECT_EQ(timeline.graph_nodes[0].original, 0u);
  EXPECT_EQ(timeline.graph_nodes[0].at_ps, 7'000'000'000);
  EXPECT_EQ(timeline.graph_nodes[1].node, 12u);
  EXPECT_EQ(timeline.graph_nodes[1].original, 11u);
  EXPECT_EQ(timeline.graph_nodes[2].node, 41u);
  EXPECT_EQ(timeline.threads[timeline.graph_nodes[0].thread].tid, kMainTid);
  EXPECT_EQ(timeline.threads[timeline.graph_nodes[2].thread].tid, 103);
  EXPECT_EQ(timeline.corrupt_records, 0u);
}

TEST(GpuBuilder, TrainingOnOneDevice_HasPlaneStreamsAndLaunches) {
  const Timeline timeline = Build(GpuTraining());
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

  // The library's own thread does not count as a thread of the program.
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

TEST(GpuBuilder, SpoolsForOtherTests_AreWritten) {
  const char* directory = getenv("TBPROF_WRITE_GPU_SPOOLS");
  const auto leave = [&](const char* name, const SpoolMaker& spool) {
    Build(spool);
    if (directory == nullptr) return;
    std::ofstream(std::string(directory) + "/" + name + ".spool", std::ios::binary) << spool.Bytes();
  };
  SpoolMaker training = GpuTraining();
  training.Chunk(1, 1, 2);
  training.GpuMemory(0, GpuMemoryOperation::kAllocation, 0x1, 1 << 20, Gpu(6 * kMs));
  training.GpuMemory(0, GpuMemoryOperation::kAllocation, 0x2, 1 << 21, Gpu(7 * kMs));
  training.GpuMemory(0, GpuMemoryOperation::kRelease, 0x1, 1 << 20, Gpu(8 * kMs)).EndChunk();
  leave("training", training);

  SpoolMaker copies = GpuProcess();
  copies.Api(kCopyCallback, kMainTid, Gpu(9 * kMs), kMs / 10, 1);
  copies.Copy(0, 14, GpuCopyKind::kHostToDevice, 1 << 20, Gpu(10 * kMs), Gpu(12 * kMs), 1).EndChunk();
  leave("copies", copies.End(50 * kMs));

  // A second device with a kernel whose name looks like a step, and a helper process that uses the first device.
  SpoolMaker two = GpuTraining(1);
  two.Chunk(1, 1, 2).GpuDevice(1, "NVIDIA H100 80GB HBM3", 2).GpuName(GpuNameKind::kKernel, 4, "train_step_kernel");
  for (uint32_t i = 0; i < 3; ++i) {
    two.Api(kLaunchCallback, kMainTid, Gpu(20 * kMs + i * kMs), kMs / 10, 50 + i);
    two.Kernel(1, 9, 4, Gpu(21 * kMs + i * kMs), Gpu(22 * kMs + i * kMs), 50 + i);
  }
  two.EndChunk();
  two.Segment(2, {}).Process(2, SpoolMaker::MakeProcess(1, 200, 10)).Thread(2, 1, 1, 200, 10);
  two.Chunk(2, 1, 1).Info(ProcessInfoKey::kExecutable, "/usr/bin/helper").GpuClock(kMs, Gpu(kMs)).GpuDevice(0);
  two.GpuName(GpuNameKind::kKernel, 9, "triton_kernel").GpuName(GpuNameKind::kDriverCallback, 307, "cuLaunchKernel");
  two.Api(307, 200, Gpu(15 * kMs), 1000, 12, true).Kernel(0, 7, 9, Gpu(16 * kMs), Gpu(17 * kMs), 12).EndChunk();
  leave("two", two);

  // Sets a step for each iteration except the first and the last; the launches of one step are on a second thread.
  Timeline steps = Build(GpuTraining(8));
  steps.steps.clear();
  for (int i = 1; i < 7; ++i) {
    Step step;
    step.start_ps = (8 + 20 * i) * 1'000'000'000LL;
    step.end_ps = step.start_ps + 19'000'000'000;
    step.number = 100 + i;
    step.name = "iteration";
    steps.steps.push_back(step);
  }
  steps.step_source = StepSource::kMarked;
  steps.step_source_text = "test";
  Thread other = steps.threads[0];
  other.line_id = 2;
  other.is_main = false;
  const auto in_fourth = [](const Event& event) { return event.start_ps / 1'000'000'000 / 20 == 3; };
  std::erase_if(other.events, [&](const Event& event) { return !in_fourth(event); });
  std::erase_if(steps.threads[0].events, in_fourth);
  steps.threads.push_back(other);
  ExpectOutputs(steps);
  if (directory == nullptr) return;
  StringSink sink;
  ASSERT_TRUE(WriteXplane(steps, sink).ok());
  std::filesystem::create_directories(std::string(directory) + "/steps");
  std::ofstream(std::string(directory) + "/steps/node1.xplane.pb", std::ios::binary) << sink.bytes();
}

TEST(GpuBuilder, WrappedCorrelationNumbers_AreSeparatedByTime) {
  SpoolMaker spool = GpuProcess();
  for (const uint64_t at : {10 * kMs, 30 * kMs}) {
    spool.Api(kLaunchCallback, kMainTid, Gpu(at), kMs, 77);
    spool.Kernel(0, 7, kGemm, Gpu(at + 2 * kMs), Gpu(at + 3 * kMs), 77);
  }
  // A kernel with the number of an unknown call, and a kernel without a number.
  spool.Kernel(0, 7, kGemm, Gpu(40 * kMs), Gpu(41 * kMs), 78).Kernel(0, 7, kGemm, Gpu(42 * kMs), Gpu(43 * kMs), 0);
  const Timeline timeline = Build(spool.EndChunk().End(50 * kMs));
  std::map<int64_t, int64_t> calls;
  for (const Event& event : timeline.threads[0].events) {
    if (timeline.types[event.type].value == ValueKind::kCorrelation) calls[event.value] = event.start_ps;
  }
  ASSERT_EQ(calls.size(), 2u);
  const GpuStream* stream = StreamNumber(timeline, 7);
  ASSERT_EQ(stream->events.size(), 4u);
  std::set<uint64_t> numbers;
  for (const GpuEvent& event : stream->events) numbers.insert(event.correlation);
  EXPECT_EQ(numbers.size(), 4u);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(calls[static_cast<int64_t>(stream->events[static_cast<size_t>(i)].correlation)],
              stream->events[static_cast<size_t>(i)].start_ps - 2'000'000'000);
  }
}

TEST(GpuBuilder, TwoProcessesOnOneDevice_ShareItsPlane) {
  SpoolMaker spool = GpuTraining(1);
  spool.Segment(2, {}).Process(2, SpoolMaker::MakeProcess(1, 200, 10)).Thread(2, 1, 1, 200, 10);
  spool.Chunk(2, 1, 1).Info(ProcessInfoKey::kExecutable, "/usr/bin/helper");
  // The same device under another number, and the same stream and correlation numbers.
  spool.GpuClock(kMs, Gpu(kMs)).GpuDevice(3).GpuName(GpuNameKind::kKernel, 9, "triton_kernel");
  spool.Api(211, 200, Gpu(15 * kMs), 1000, 12).Kernel(3, 7, 9, Gpu(16 * kMs), Gpu(17 * kMs), 12).EndChunk();
  const Timeline timeline = Build(spool);
  ASSERT_EQ(timeline.gpu_devices.size(), 1u);
  EXPECT_EQ(timeline.gpu_devices[0].number, 0u);
  std::set<uint64_t> lines, numbers;
  size_t events = 0;
  for (const GpuStream& stream : timeline.gpu_streams) {
    lines.insert(stream.line_id);
    for (const GpuEvent& event : stream.events) numbers.insert(event.correlation), ++events;
    EXPECT_THAT(StreamName(timeline, stream, true), HasSubstr(stream.process == 0 ? "trainer [100]" : "helper [200]"));
  }
  EXPECT_EQ(lines.size(), 3u);
  EXPECT_EQ(numbers.size(), events);
}

TEST(GpuBuilder, DevicesOfOneNumber_AreSeparatedByIdentity) {
  SpoolMaker spool = GpuTraining(1);
  spool.Segment(2, {}).Process(2, SpoolMaker::MakeProcess(1, 200, 10)).Thread(2, 1, 1, 200, 10);
  // With CUDA_VISIBLE_DEVICES each process numbers its own device 0.
  spool.Chunk(2, 1, 1).GpuClock(kMs, Gpu(kMs)).GpuDevice(0, "other", 2);
  spool.Kernel(0, 7, 9, Gpu(16 * kMs), Gpu(17 * kMs), 12).EndChunk();
  const Timeline timeline = Build(spool);
  ASSERT_EQ(timeline.gpu_devices.size(), 2u);
  EXPECT_NE(timeline.gpu_devices[0].number, timeline.gpu_devices[1].number);
  EXPECT_EQ(timeline.gpu_devices[1].name, "other");
}

TEST(GpuBuilder, WorkThatOverlapsOnAStream_HasALineOfItsOwn) {
  SpoolMaker spool = GpuProcess();
  spool.Kernel(0, 7, kGemm, Gpu(10 * kMs), Gpu(14 * kMs), 1).Kernel(0, 7, kGemm, Gpu(12 * kMs), Gpu(16 * kMs), 2);
  spool.Kernel(0, 7, kRelu, Gpu(12 * kMs), Gpu(13 * kMs), 3).Kernel(0, 7, kRelu, Gpu(13 * kMs), Gpu(20 * kMs), 4);
  const Timeline timeline = Build(spool.EndChunk().End(50 * kMs));
  ASSERT_EQ(timeline.gpu_streams.size(), 3u);
  EXPECT_EQ(timeline.gpu_streams[0].line_id, 7u);
  EXPECT_EQ(timeline.gpu_devices[0].busy_ps, 10'000'000'000);
}

TEST(GpuBuilder, WorkWithoutTimesOrEnd_IsAWarning) {
  SpoolMaker spool = GpuProcess();
  spool.Kernel(0, 7, kGemm, 0, 0, 1).Kernel(0, 7, kGemm, 0, 0, 2);
  spool.Kernel(0, 7, kGemm, Gpu(10 * kMs), Gpu(12 * kMs), 3).Kernel(0, 7, kRelu, Gpu(40 * kMs), 0, 4);
  const Timeline timeline = Build(spool.EndChunk().End(50 * kMs));
  const GpuDevice& device = timeline.gpu_devices[0];
  EXPECT_EQ(device.untimed, 2u);
  EXPECT_EQ(device.unfinished, 1u);
  EXPECT_EQ(device.kernels, 2u);
  const GpuStream* stream = StreamNumber(timeline, 7);
  ASSERT_EQ(stream->events.size(), 2u);
  EXPECT_EQ(stream->events[1].duration_ps, 10'000'000'000) << "to the end of the window";
  EXPECT_EQ(stream->events[1].flags, GpuEvent::kUnfinished | GpuEvent::kClippedAtEnd);
  EXPECT_THAT(timeline.warnings, testing::Contains(HasSubstr("2 kernels, copies or graphs ran without time stamps")));
  EXPECT_THAT(timeline.warnings, testing::Contains(HasSubstr("1 had not ended")));
}

TEST(GpuBuilder, UnknownThreadsSynchronizationAndOverhead_HaveLines) {
  SpoolMaker spool = GpuProcess();
  spool.Api(kSyncCallback, 4711, Gpu(10 * kMs), 5 * kMs, 5, false, 2);
  spool.GpuSpan(GpuSpanKind::kSynchronization, 4, Gpu(10 * kMs + 10), Gpu(15 * kMs - 10), 5, 0, UINT32_MAX);
  spool.GpuSpan(GpuSpanKind::kSynchronization, 2, Gpu(20 * kMs), Gpu(21 * kMs), 99);
  spool.GpuSpan(GpuSpanKind::kOverhead, 5u << 16, Gpu(22 * kMs), Gpu(23 * kMs), 0, 4711);
  const Timeline timeline = Build(spool.EndChunk().End(50 * kMs));
  std::map<std::string, std::vector<std::string>> lines;
  for (const Thread& thread : timeline.threads) {
    for (const Event& event : thread.events) lines[thread.name].push_back(timeline.types[event.type].name);
    if (thread.name == "thread 4711") {
      EXPECT_EQ(thread.events[0].error, 2);
      EXPECT_TRUE(thread.events[0].flags & Event::kFailed);
    }
  }
  EXPECT_EQ(lines["thread 4711"], (std::vector<std::string>{"cudaStreamSynchronize", "context synchronization"}));
  EXPECT_EQ(lines["CUDA synchronization"], std::vector<std::string>{"stream wait for event"});
  EXPECT_EQ(lines["CUPTI overhead/4711"], std::vector<std::string>{"lazy function loading"});
}

// Memory in use was allocated, or memory was freed, in a part that the spool has dropped.
TEST(GpuBuilder, DroppedParts_DeviceMemoryIsCarriedOver) {
  SpoolMaker spool = GpuProcess();
  spool.GpuMemory(0, GpuMemoryOperation::kAllocation, 0x1, 1 << 20, Gpu(10 * kMs)).EndChunk();
  const PartFact dropped{1, 0, 20 * kMs, 60 * kMs, 4, 1000};
  const WindowFact opened{2 * kMs, kEndWindow, WindowEvent::kOpened, kFamilyAll, 10};  // the last 10 ms
  spool.Raw(FrameType::kWindow, 0, std::string_view(reinterpret_cast<const char*>(&opened), sizeof(opened)));
  spool.Raw(FrameType::kDropped, 0, std::string_view(reinterpret_cast<const char*>(&dropped), sizeof(dropped)));
  const auto row = [](uint32_t process, GpuMemoryOperation operation, uint64_t address, uint64_t bytes, uint64_t time) {
    GpuMemoryRow made{1, process, {}};
    made.memory.time = time;
    made.memory.address = address;
    made.memory.bytes = bytes;
    made.memory.operation = operation;
    made.memory.memory_kind = 3;
    return made;
  };
  std::string rows;
  const auto add = [&](const GpuMemoryRow& made) { rows.append(reinterpret_cast<const char*>(&made), sizeof(made)); };
  add(row(1, GpuMemoryOperation::kAllocation, 0x2, 5 << 20, Gpu(30 * kMs)));
  add(row(1, GpuMemoryOperation::kRelease, 0x1, 0, Gpu(40 * kMs)));
  add(row(9, GpuMemoryOperation::kAllocation, 0x7, 7 << 20, Gpu(40 * kMs)));
  const TotalsFact fact{1, 3, 2};
  spool.Raw(FrameType::kGpuMemory, 0, std::string(reinterpret_cast<const char*>(&fact), sizeof(fact)) + rows);
  spool.Chunk(1, 1, 2);
  spool.GpuMemory(0, GpuMemoryOperation::kAllocation, 0x3, 1 << 10, Gpu(70 * kMs)).EndChunk();
  spool.Window(kEndWindow, WindowEvent::kClosed, 100 * kMs).End(100 * kMs);
  TimelineRequest request;
  request.window = kEndWindow;
  const Timeline timeline = Build(spool, request);
  ASSERT_EQ(timeline.gpu_devices.size(), 1u);
  EXPECT_EQ(timeline.gpu_devices[0].live_bytes, (5 << 20) + (1 << 10));
  EXPECT_EQ(timeline.gpu_devices[0].peak_bytes, 6 << 20);
  const auto notes = testing::PrintToString(timeline.notes);
  EXPECT_THAT(notes, HasSubstr("leaves out 2 allocations and releases"));
}

// All kinds are on lines of the host, and in the totals by device.
TEST(GpuBuilder, UnifiedMemory_IsOnLinesOfTheHostAndInTotals) {
  SpoolMaker spool = GpuProcess();
  spool.GpuUnified(GpuUnifiedKind::kToDevice, 0, 4096, Gpu(10 * kMs), Gpu(11 * kMs), 2);
  spool.GpuUnified(GpuUnifiedKind::kToDevice, 0, 8192, Gpu(12 * kMs), Gpu(13 * kMs), 1);
  spool.GpuUnified(GpuUnifiedKind::kToHost, 0, 65536, Gpu(12 * kMs), Gpu(14 * kMs), 4);
  spool.GpuUnified(GpuUnifiedKind::kHostFault, kNoDevice, 0x1234, Gpu(15 * kMs), 0, 1);
  spool.GpuUnified(GpuUnifiedKind::kDeviceFault, 0, 3, Gpu(10 * kMs), Gpu(11 * kMs), 2);
  spool.GpuUnified(GpuUnifiedKind::kThrottling, kNoDevice, 0, Gpu(16 * kMs), Gpu(17 * kMs), 1);
  spool.GpuUnified(GpuUnifiedKind::kThrashing, 0, 4096, Gpu(18 * kMs), 0);
  // Records that CUPTI cannot have made.
  spool.GpuUnified(static_cast<GpuUnifiedKind>(77), 0, 1, Gpu(18 * kMs), 0);
  spool.GpuUnified(GpuUnifiedKind::kToDevice, 0, 1, Gpu(18 * kMs), Gpu(17 * kMs));
  const Timeline timeline = Build(spool.EndChunk().End(50 * kMs));
  EXPECT_EQ(timeline.corrupt_records, 2u);
  EXPECT_TRUE(timeline.gpu_streams.empty());
  std::map<std::string, std::vector<Event>> lines;
  for (const Thread& thread : timeline.threads) {
    if (thread.name.starts_with("unified")) lines[thread.name] = thread.events;
  }
  const auto said = [&](const std::string& line, size_t index) {
    const Event& event = lines.at(line).at(index);
    return timeline.types[event.type].name + ": " + timeline.strings.Get(event.detail);
  };
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_EQ(said("unified memory/to GPU 0", 0), "unified memory HtoD: page fault");
  EXPECT_EQ(said("unified memory/to GPU 0", 1), "unified memory HtoD: asked for by the program");
  EXPECT_EQ(lines["unified memory/to GPU 0"][1].value, 8192);
  EXPECT_EQ(lines["unified memory/to GPU 0"][0].duration_ps, 1'000'000'000);
  EXPECT_EQ(lines["unified memory/to GPU 0"][0].object, 0x7f0000010000u);
  EXPECT_EQ(said("unified memory/from GPU 0", 0), "unified memory DtoH: evicted for want of room");
  EXPECT_EQ(said("unified memory/host faults", 0), "CPU page fault: read");
  EXPECT_EQ(lines["unified memory/host faults"][0].duration_ps, 0);
  EXPECT_NE(lines["unified memory/host faults"][0].call_site, 0u);
  EXPECT_EQ(said("unified memory/faults of GPU 0", 0), "GPU page fault: 3 faults of this page, write");
  EXPECT_EQ(said("unified memory/host throttling", 0), "unified memory throttling: ");
  ASSERT_EQ(timeline.gpu_devices.size(), 1u) << "though nothing ran on it";
  const GpuDevice& device = timeline.gpu_devices[0];
  EXPECT_EQ(device.busy_ps, 0) << "the driver's business";
  ASSERT_EQ(device.unified_totals.size(), 4u);
  EXPECT_EQ(device.unified_totals[0].name, "unified memory HtoD");
  EXPECT_EQ(device.unified_totals[0].calls, 2u);
  EXPECT_EQ(device.unified_totals[0].value, 12288u);
  EXPECT_EQ(device.unified_totals[0].total_ps, 2'000'000'000);
  EXPECT_EQ(device.unified_totals[2].name, "GPU page fault");
  EXPECT_EQ(device.unified_totals[2].value, 3u);
  EXPECT_EQ(timeline.processes[0].gpu.host_page_faults, 1u);
  EXPECT_TRUE(timeline.wait_sites.empty()) << "an instant is no wait";
}

TEST(GpuBuilder, GraphsSetsAndStreams_AreNamed) {
  SpoolMaker spool = GpuProcess();
  spool.GpuName(GpuNameKind::kStream, 7, "forward");
  spool.GpuSpan(GpuSpanKind::kGraph, 0, Gpu(10 * kMs), Gpu(15 * kMs), 5, 3);
  spool.Copy(0, 8, GpuCopyKind::kSet, 4096, Gpu(20 * kMs), Gpu(21 * kMs), 6);
  spool.Copy(0, 8, GpuCopyKind::kPeerToPeer, 4096, Gpu(22 * kMs), Gpu(23 * kMs), 7);
  spool.Kernel(0, 9, kAllReduce, Gpu(22 * kMs), Gpu(24 * kMs), 8);
  const Timeline timeline = Build(spool.EndChunk().End(50 * kMs));
  EXPECT_EQ(timeline.gpu_devices[0].graphs, 1u);
  EXPECT_EQ(timeline.gpu_devices[0].collective_ps, 2'000'000'000);
  const GpuStream* named = StreamNumber(timeline, 7);
  EXPECT_EQ(StreamName(timeline, *named, false), "Stream #7(CudaGraph) forward");
  EXPECT_EQ(GpuEventName(timeline, named->events[0]), "CudaGraphExec:3");
  const GpuStream* copies = StreamNumber(timeline, 8);
  EXPECT_EQ(GpuEventName(timeline, copies->events[0]), "Memset");
  EXPECT_EQ(GpuEventName(timeline, copies->events[1]), "MemcpyDToD (P2P)");
  // TensorBoard looks for the name at the start, so the template's return type is removed.
  EXPECT_THAT(GpuEventName(timeline, StreamNumber(timeline, 9)->events[0]), testing::StartsWith("ncclDevKernel"));
}

TEST(GpuBuilder, StreamNames_BelongToTheirDevice) {
  SpoolMaker spool = GpuProcess();
  spool.GpuName(GpuNameKind::kStream, StreamOnDevice(0, 7), "of the first");
  spool.GpuName(GpuNameKind::kStream, StreamOnDevice(1, 7), "of the second");
  spool.GpuName(GpuNameKind::kStream, StreamOnDevice(1, 8), "of the second alone");
  for (const uint32_t device : {0u, 1u}) {
    spool.Copy(device, 7, GpuCopyKind::kSet, 4096, Gpu(20 * kMs), Gpu(21 * kMs), 6 + 2 * device);
    spool.Copy(device, 8, GpuCopyKind::kSet, 4096, Gpu(20 * kMs), Gpu(21 * kMs), 7 + 2 * device);
  }
  const Timeline timeline = Build(spool.EndChunk().End(50 * kMs));
  std::map<std::pair<uint32_t, uint32_t>, std::string> names;
  for (const GpuStream& stream : timeline.gpu_streams) names[{stream.device, stream.number}] = stream.name;
  const std::map<std::pair<uint32_t, uint32_t>, std::string> expected = {
      {{0, 7}, "of the first"}, {{1, 7}, "of the second"}, {{0, 8}, ""}, {{1, 8}, "of the second alone"}};
  EXPECT_EQ(names, expected);
}

TEST(GpuBuilder, MemoryInUse_IsACounterOfItsDevice) {
  SpoolMaker spool = GpuTraining(1);
  spool.Chunk(1, 1, 2);
  spool.GpuMemory(0, GpuMemoryOperation::kRelease, 0x9, 77, Gpu(5 * kMs));
  spool.GpuMemory(0, GpuMemoryOperation::kAllocation, 0x1, 1 << 20, Gpu(6 * kMs));
  spool.GpuMemory(0, GpuMemoryOperation::kAllocation, 0x2, 1 << 21, Gpu(7 * kMs));
  spool.GpuMemory(0, GpuMemoryOperation::kRelease, 0x1, 1 << 20, Gpu(8 * kMs));
  spool.GpuMemory(0, GpuMemoryOperation::kAllocation, 0x3, 1 << 10, Gpu(8 * kMs), 2).EndChunk();  // pinned: no device's
  const Timeline timeline = Build(spool);
  EXPECT_EQ(timeline.gpu_devices[0].peak_bytes, 3 << 20);
  EXPECT_EQ(timeline.gpu_devices[0].live_bytes, 2 << 20);
  const auto track = std::find_if(timeline.counters.begin(), timeline.counters.end(),
                                  [](const CounterTrack& counter) { return counter.device == 0; });
  ASSERT_NE(track, timeline.counters.end());
  EXPECT_EQ(track->samples.size(), 4u);
}

TEST(GpuBuilder, OverBudget_KernelsAreCutLastAndTotalsStayWhole) {
  SpoolMaker spool = GpuProcess();
  constexpr uint64_t kCount = 3000;
  for (uint64_t i = 0; i < kCount; ++i) {
    const uint64_t at = 10 * kMs + i * 10'000;
    spool.Api(kLaunchCallback, kMainTid, Gpu(at), 3000 + i % 100, static_cast<uint32_t>(i + 1));
    spool.Kernel(0, 7, kGemm, Gpu(at + 4000), Gpu(at + 6000 + i), static_cast<uint32_t>(i + 1));
    if (i % 300 == 299) spool.EndChunk().Chunk(1, 1, 2);
  }
  spool.EndChunk();
  spool.Chunk(1, 1, 1);
  for (uint64_t i = 0; i < 1500; ++i) spool.Span(0, 50 * kMs + i * 3000, 2000 + i);
  spool.EndChunk().End(100 * kMs);
  for (const uint64_t size : {4000 * kBytesPerEvent, 8000 * kBytesPerEvent, 100'000 * kBytesPerEvent}) {
    TimelineRequest request;
    request.max_profile_size = size;
    const Timeline timeline = Build(spool, request);
    uint64_t work = 0, others = 0;
    for (const GpuStream& stream : timeline.gpu_streams) work += stream.events.size();
    for (const Thread& thread : timeline.threads) others += thread.events.size();
    EXPECT_LE(2 * work + others, size / kBytesPerEvent);
    EXPECT_GE(work, std::min<uint64_t>(size / kBytesPerEvent / 5, kCount)) << size;
    EXPECT_EQ(timeline.shortest_gpu_shown_ps > 0, work < kCount);
    EXPECT_EQ(timeline.gpu_devices[0].kernels, kCount);
    EXPECT_EQ(timeline.gpu_devices[0].kernel_ps,
              1000 * static_cast<int64_t>(2000 * kCount + kCount * (kCount - 1) / 2));
    for (const OperationTotal& total : timeline.processes[0].operations) {
      if (timeline.types[total.type].name == "cudaLaunchKernel") {
        EXPECT_EQ(total.calls, kCount);
      }
    }
  }
}

TEST(GpuBuilder, KernelsOfOneLength_BudgetKeepsAnEvenPart) {
  SpoolMaker spool = GpuProcess();
  constexpr uint64_t kCount = 6000;
  for (uint64_t i = 0; i < kCount; ++i) {
    const uint64_t at = 10 * kMs + i * 10'000;
    spool.Kernel(0, 7, kGemm, Gpu(at), Gpu(at + 2000), static_cast<uint32_t>(i + 1));
    if (i % 300 == 299) spool.EndChunk().Chunk(1, 1, 2);
  }
  spool.EndChunk().End(100 * kMs);
  TimelineRequest request;
  request.max_profile_size = 4000 * kBytesPerEvent;
  const Timeline timeline = Build(spool, request);
  ASSERT_EQ(timeline.gpu_streams.size(), 1u);
  const std::vector<GpuEvent>& events = timeline.gpu_streams[0].events;
  EXPECT_LE(events.size(), 2000u);
  EXPECT_GE(events.size(), 1300u);
  // Kernels begin at 10 of 100 ms and end at 70: about as many of each 10 ms that has no full detail.
  constexpr int64_t kPart = 10 * static_cast<int64_t>(kMs) * 1000;
  std::array<int, 6> parts{};
  for (const GpuEvent& event : events)
    ++parts[static_cast<size_t>(std::clamp<int64_t>(event.start_ps / kPart - 1, 0, 5))];
  int compared = 0;
  for (size_t part = 0; part < parts.size(); ++part) {
    const int64_t begin = static_cast<int64_t>(part + 1) * kPart;
    if (begin < timeline.full_detail.end_ps && timeline.full_detail.start_ps < begin + kPart) continue;
    EXPECT_NEAR(parts[part], 210, 40) << part;
    ++compared;
  }
  EXPECT_GE(compared, 4);
  EXPECT_EQ(timeline.gpu_devices[0].kernels, kCount);
}

// Processes that ended before the window and records of dropped parts count in the totals.
TEST(GpuBuilder, DroppedPartsAndEndedProcesses_AreInTheTotals) {
  SpoolMaker spool = GpuProcess();
  const auto raw = [&](FrameType type, const auto& fact, const std::vector<GpuTotalRow>& rows = {}) {
    std::string payload(reinterpret_cast<const char*>(&fact), sizeof(fact));
    payload.append(reinterpret_cast<const char*>(rows.data()), rows.size() * sizeof(GpuTotalRow));
    spool.Raw(type, 0, payload);
  };
  raw(FrameType::kWindow, WindowFact{2 * kMs, kEndWindow, WindowEvent::kOpened, kFamilyAll, 10});  // the last 10 ms
  spool.Kernel(0, 7, kGemm, Gpu(95 * kMs), Gpu(97 * kMs), 5).Api(kLaunchCallback, kMainTid, Gpu(94 * kMs), kMs, 5);
  spool.GpuClock(100 * kMs, Gpu(100 * kMs), 100).EndChunk();
  spool.Process(1, SpoolMaker::MakeProcess(2, 300, 3 * kMs, 50 * kMs)).Thread(1, 3, 2, 301, 3 * kMs);
  spool.Chunk(1, 2, 3).OwnThread(3 * kMs, 301).GpuDevice(0).GpuContext(0, 1);
  spool.GpuName(GpuNameKind::kKernel, kGemm, "_Z4gemmIfEvPT_i").GpuClock(4 * kMs, Gpu(4 * kMs), 100);
  spool.Kernel(0, 7, kGemm, Gpu(20 * kMs), Gpu(24 * kMs), 5);
  spool.Copy(0, 7, GpuCopyKind::kHostToDevice, 100, Gpu(24 * kMs), Gpu(25 * kMs), 6).EndChunk();
  raw(FrameType::kDropped, PartFact{1, 0, 2 * kMs, 60 * kMs, 4, 1000});
  const std::vector<GpuTotalRow> rows = {
      {1, 1, GpuTotalKind::kKernel, 0, kGemm, 10, 0, 20 * kMs, 5 * kMs, 2, 1},
      {1, 1, GpuTotalKind::kKernel, 0, kAllReduce, 4, 0, 8 * kMs, 3 * kMs, 0, 0},
      {1, 1, GpuTotalKind::kKernel, 0, 0, 3, 0, 6 * kMs, 2 * kMs, 0, 0},
      {1, 1, GpuTotalKind::kCopy, 0, 1, 7, 7000, 7 * kMs, kMs, 0, 0},
      {1, 1, GpuTotalKind::kGraph, 0, 0, 2, 0, 2 * kMs, kMs, 0, 0},
      {1, 1, GpuTotalKind::kCall, 0, kLaunchCallback, 17, 0, 17000, 2000, 0, 0},
      {1, 1, GpuTotalKind::kCall, 0, 307 | 1 << 16, 17, 0, 1700, 200, 0, 0},
      {1, 1, GpuTotalKind::kWait, 0, 1, 5, 0, 9 * kMs, 4 * kMs, 0, 0},
      {1, 1, GpuTotalKind::kBusy, 0, 0, 0, 0, 30 * kMs, 0, 0, 0},
      {1, 2, GpuTotalKind::kKernel, 0, kGemm, 6, 0, 6 * kMs, kMs, 0, 0},
      // Invalid: longer than the run, a time without calls, unknown kind, process without a GPU.
      {1, 1, GpuTotalKind::kKernel, 0, kRelu, 1, 0, 3'600'000 * kMs, 3'600'000 * kMs, 0, 0},
      {1, 1, GpuTotalKind::kKernel, 0, kRelu, 0, 0, 5, 0, 0, 0},
      {1, 1, static_cast<GpuTotalKind>(77), 0, kRelu, 1, 0, 1, 1, 0, 0},
      {9, 9, GpuTotalKind::kKernel, 0, kRelu, 1, 0, 1, 1, 0, 0},
  };
  raw(FrameType::kGpuTotals, TotalsFact{1, static_cast<uint32_t>(rows.size()), 0}, rows);
  // These totals count a part that still exists.
  raw(FrameType::kGpuTotals, TotalsFact{2, 1, 0}, {{1, 1, GpuTotalKind::kKernel, 0, kGemm, 1000, 0, 0, 0, 0, 0}});
  spool.Window(kEndWindow, WindowEvent::kClosed, 100 * kMs).End(100 * kMs);
  TimelineRequest request;
  request.window = kEndWindow;
  const Timeline timeline = Build(spool, request);
  ASSERT_EQ(timeline.gpu_devices.size(), 1u);
  const GpuDevice& device = timeline.gpu_devices[0];
  EXPECT_EQ(device.kernels, 10u + 4 + 3 + 6 + 2);
  EXPECT_EQ(device.kernel_ps, 46'000'000'000);
  EXPECT_EQ(device.collective_ps, 8'000'000'000);
  EXPECT_EQ(device.busy_ps, 37'000'000'000);
  EXPECT_EQ(device.graphs, 2u);
  EXPECT_EQ(device.untimed, 2u);
  EXPECT_EQ(device.unfinished, 1u);
  EXPECT_EQ(device.waits, 5u);
  EXPECT_EQ(device.waited_ps, 9'000'000'000);
  std::map<std::string, GpuKernelTotal> kernels;
  for (const GpuKernelTotal& total : device.kernel_totals) kernels[timeline.strings.Get(total.name)] = total;
  ASSERT_EQ(kernels.size(), 3u);
  EXPECT_EQ(kernels["void gemm<float>(float*, int)"].calls, 18u);
  EXPECT_EQ(kernels["void gemm<float>(float*, int)"].longest_ps, 5'000'000'000);
  EXPECT_EQ(kernels["other kernels"].calls, 3u);
  ASSERT_EQ(device.copy_totals.size(), 1u);
  EXPECT_EQ(device.copy_totals[0].calls, 8u);
  EXPECT_EQ(device.copy_totals[0].bytes, 7100u);
  EXPECT_EQ(timeline.processes[0].gpu.launches, 35u) << "of the runtime and of the driver";
  EXPECT_EQ(timeline.corrupt_records, 3u);
  ASSERT_EQ(timeline.gpu_streams.size(), 1u) << "drawn is what the window has";
  EXPECT_EQ(timeline.gpu_streams[0].events.size(), 1u);
}

TEST(GpuBuilder, ClockJump_KernelsStayBehindTheirCalls) {
  SpoolMaker spool = GpuProcess();
  constexpr uint64_t kJump = 100 * kMs;
  spool.GpuClock(10 * kMs, Gpu(10 * kMs));
  // The call was made after the clock was set back; by the device's time, its kernel ran before that.
  spool.Api(kLaunchCallback, kMainTid, Gpu(18 * kMs - kJump), kMs, 5);
  spool.Kernel(0, 7, kGemm, Gpu(12 * kMs), Gpu(14 * kMs), 5);
  spool.GpuClock(20 * kMs, Gpu(20 * kMs - kJump));
  const Timeline timeline = Build(spool.EndChunk().End(50 * kMs));
  ASSERT_EQ(timeline.gpu_devices.size(), 1u);
  EXPECT_EQ(timeline.gpu_devices[0].uncertain, 1u);
  const GpuEvent& kernel = StreamNumber(timeline, 7)->events.at(0);
  EXPECT_TRUE(kernel.flags & GpuEvent::kUncertain);
  const Event* call = nullptr;
  for (const Event& event : timeline.threads[0].events) {
    if (timeline.types[event.type].value == ValueKind::kCorrelation) call = &event;
  }
  ASSERT_NE(call, nullptr);
  EXPECT_GE(kernel.start_ps, call->start_ps);
  EXPECT_EQ(kernel.duration_ps, 2'000'000'000) << "never smeared";
  EXPECT_THAT(timeline.warnings, testing::Contains(HasSubstr("the GPU clock jumped 1 times")));
}

TEST(GpuBuilder, NoGpuRecords_CauseIsReported) {
  SpoolMaker spool;
  spool.Session(kMs).Segment(1, {}).Process(1, SpoolMaker::MakeProcess(1, 100, 10)).Thread(1, 1, 1, 100, 10);
  spool.Chunk(1, 1, 1).Info(ProcessInfoKey::kExecutable, "/usr/bin/trainer");
  spool.GpuInfo(GpuInfoKey::kTried, 30, "/opt/libcupti.so.13: cannot open");
  spool.GpuInfo(GpuInfoKey::kUnavailable, 40, "no usable CUPTI was found").EndChunk().End(50 * kMs);
  const Timeline timeline = Build(spool);
  EXPECT_EQ(timeline.processes[0].gpu.recording, GpuRecording::kUnavailable);
  ASSERT_EQ(timeline.errors.size(), 1u);
  EXPECT_EQ(
      timeline.errors[0],
      "trainer (100): no GPU activity: no usable CUPTI was found; install CUPTI, e.g. pip install nvidia-cuda-cupti "
      "(nvidia-cuda-cupti-cu12 for CUDA 12), or set CUDA_HOME; tried /opt/libcupti.so.13: cannot open");
  EXPECT_TRUE(timeline.gpu_devices.empty());
}

TEST(GpuBuilder, PausesAndKill_AreGapsAndWarnings) {
  SpoolMaker spool = GpuProcess();
  // The end of a kernel does not prove that later launches were recorded.
  spool.Kernel(0, 7, kGemm, Gpu(10 * kMs), Gpu(60 * kMs), 3).Api(kLaunchCallback, kMainTid, Gpu(49 * kMs), kMs, 3);
  spool.GpuInfo(GpuInfoKey::kPaused, 20 * kMs, "program: the program uses CUPTI itself");
  spool.GpuInfo(GpuInfoKey::kRecording, 30 * kMs, "");
  spool.GpuInfo(GpuInfoKey::kPaused, 40 * kMs, "window: none is open");
  spool.GpuInfo(GpuInfoKey::kRecording, 45 * kMs, "");
  spool.GpuInfo(GpuInfoKey::kDropped, 46 * kMs, "12").GpuInfo(GpuInfoKey::kDropped, 47 * kMs, "3");
  spool.GpuInfo(GpuInfoKey::kMissingKind, 47 * kMs, "GRAPH_TRACE: CUPTI_ERROR_NOT_COMPATIBLE");
  spool.GpuClock(50 * kMs, Gpu(50 * kMs)).EndChunk();
  spool.Process(1, SpoolMaker::MakeProcess(1, kMainTid, 10, 900 * kMs)).End(1000 * kMs);
  const Timeline timeline = Build(spool);
  const ProcessGpu& gpu = timeline.processes[0].gpu;
  EXPECT_EQ(gpu.recording, GpuRecording::kPaused);
  ASSERT_EQ(gpu.gaps.size(), 1u);
  EXPECT_EQ(gpu.gaps[0].start_ps, 19'000'000'000);
  EXPECT_EQ(gpu.gaps[0].end_ps, 29'000'000'000);
  EXPECT_EQ(gpu.dropped, 15u);
  EXPECT_THAT(timeline.warnings,
              testing::Contains(HasSubstr("missing for 10.0 ms from 19 ms (program: the program uses CUPTI itself)")));
  EXPECT_THAT(timeline.warnings, testing::Contains(HasSubstr("GPU records of up to its last 850 ms, which are lost")));
  EXPECT_EQ(gpu.lost_at_end_ps, 850'000'000'000);
  EXPECT_THAT(timeline.warnings, testing::Contains(HasSubstr("GRAPH_TRACE")));
}

// Each gap by the program's own use of CUPTI has its own cause, and a line with the remedy.
TEST(GpuBuilder, GapsOfTheProgram_DifferentCauses_EachIsNamed) {
  constexpr char kProgram[] = "program: the program uses CUPTI itself";
  SpoolMaker spool = GpuProcess();
  spool.Module(0x7f0000000000, 0x7f0000001000, "/opt/lib/libkineto.so").Module(0x10000, 0x20000, "/usr/bin/trainer");
  spool.Kernel(0, 7, kGemm, Gpu(10 * kMs), Gpu(11 * kMs), 3).Api(kLaunchCallback, kMainTid, Gpu(9 * kMs), kMs, 3);
  const auto session = [&](uint64_t at) {
    spool.GpuInfo(GpuInfoKey::kPaused, at, kProgram);
    spool.CuptiUse(at, CuptiLeft::kCall, "cuptiSubscribe",
                   0x7f0000001000);  // the call is the module's last instruction
    spool.CuptiUse(at + kMs, CuptiLeft::kKinds, "cuptiSubscribe", 0x7f0000001000);
    spool.CuptiUse(at + 5 * kMs, CuptiLeft::kQuietTime, "cuptiSubscribe", 0x7f0000001000);
    spool.GpuInfo(GpuInfoKey::kRecording, at + 7 * kMs, "");
  };
  session(20 * kMs);
  session(30 * kMs);
  spool.GpuInfo(GpuInfoKey::kPaused, 40 * kMs, kProgram);
  spool.CuptiUse(40 * kMs, CuptiLeft::kCall, "cuptiActivityEnable", 0x10010);
  spool.CuptiUse(41 * kMs, CuptiLeft::kKinds, "cuptiActivityEnable", 0x10010);
  spool.CuptiUse(48 * kMs, CuptiLeft::kUnflushed, "cuptiActivityEnable", 0x10010);
  spool.GpuClock(50 * kMs, Gpu(50 * kMs)).EndChunk().End(50 * kMs);
  const Timeline timeline = Build(spool);
  const std::vector<GpuGap>& gaps = timeline.processes[0].gpu.gaps;
  ASSERT_EQ(gaps.size(), 3u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(gaps[i].first_call, "cuptiSubscribe");
    EXPECT_EQ(gaps[i].caller_module, "libkineto.so");
    EXPECT_EQ(gaps[i].left, "activity_kinds") << "for the longest time";
  }
  EXPECT_EQ(gaps[2].first_call, "cuptiActivityEnable");
  EXPECT_EQ(gaps[2].caller_module, "trainer");
  EXPECT_EQ(gaps[2].left, "unflushed_records") << "for it the gap has not ended";
  std::vector<std::string> lines;
  for (const std::string& line : timeline.warnings) {
    if (line.find("GPU activity is missing") != std::string::npos) lines.push_back(line);
  }
  EXPECT_THAT(lines, testing::ElementsAre(
                         "trainer (100): its GPU activity is missing for 7.00 ms from 19 ms (program: the program uses "
                         "CUPTI itself, first call cuptiSubscribe from libkineto.so; kept open by activity kinds that "
                         "are enabled), and in 1 more gap, 14.0 ms in all; end its profiling (torch.profiler: stop, "
                         "jax.profiler: stop_trace) or turn it off for the window",
                         "trainer (100): its GPU activity is missing for 10.0 ms from 39 ms (program: the program uses "
                         "CUPTI itself, first call cuptiActivityEnable from trainer; kept open by records that are not "
                         "flushed); have it call cuptiActivityFlushAll after its last cuptiActivityDisable"));
}

TEST(GpuBuilder, GapOfTheProgram_CauseOrCallerNotKnown_IsSaid) {
  for (const bool caller : {false, true}) {
    SpoolMaker spool = GpuProcess();
    spool.Kernel(0, 7, kGemm, Gpu(10 * kMs), Gpu(11 * kMs), 3).Api(kLaunchCallback, kMainTid, Gpu(9 * kMs), kMs, 3);
    spool.GpuInfo(GpuInfoKey::kPaused, 20 * kMs, "program: the program uses CUPTI itself");
    if (caller) spool.CuptiUse(20 * kMs, CuptiLeft::kSubscriberV2, "cuptiSubscribe_v2", 0x99990000);
    spool.GpuClock(50 * kMs, Gpu(50 * kMs)).EndChunk().End(50 * kMs);
    EXPECT_THAT(
        Build(spool).warnings,
        testing::Contains(HasSubstr(
            caller ? "itself, first call cuptiSubscribe_v2 from an unknown module; kept open by a subscriber "
                     "of cuptiSubscribe_v2); have it call cuptiUnsubscribe"
                   : "(program: the program uses CUPTI itself); to avoid it, turn the program's profiler off")));
  }
}

// The cause as --require-gpu prints it.
TEST(GpuBuilder, LatestCuptiCause_SessionThatEnded_IsWhatItHad) {
  EXPECT_EQ(CuptiCauseText(LatestCuptiCause({}), nullptr), "");
  std::vector<CuptiUseAt> uses = {{1, CuptiLeft::kCall, 9, "cuptiSubscribe"}};
  EXPECT_EQ(LatestCuptiCause(uses).left, CuptiLeft::kCall);
  uses.push_back({2, CuptiLeft::kKinds, 9, "cuptiSubscribe"});
  uses.push_back({3, CuptiLeft::kQuietTime, 9, "cuptiSubscribe"});
  EXPECT_EQ(CuptiCauseText(LatestCuptiCause(uses), nullptr),
            "first call cuptiSubscribe; kept open by activity kinds that are enabled");
}

// The gap begins with the program's call; no call came while the window was open.
TEST(GpuBuilder, ProgramUsesCuptiBeforeTheWindow_IsAGapOfTheWindow) {
  for (const bool given_back : {false, true}) {
    SpoolMaker spool = GpuProcess();
    spool.Kernel(0, 7, kGemm, Gpu(10 * kMs), Gpu(11 * kMs), 3).Api(kLaunchCallback, kMainTid, Gpu(9 * kMs), kMs, 3);
    spool.GpuInfo(GpuInfoKey::kPaused, 20 * kMs, "window: none is open");
    spool.GpuInfo(GpuInfoKey::kPaused, 25 * kMs, "program: the program uses CUPTI itself");
    if (given_back) spool.GpuInfo(GpuInfoKey::kPaused, 25 * kMs + 200, "window: none is open");
    spool.GpuInfo(GpuInfoKey::kRecording, 40 * kMs, "").GpuClock(50 * kMs, Gpu(50 * kMs)).EndChunk().End(60 * kMs);
    const ProcessGpu gpu = Build(spool).processes[0].gpu;
    ASSERT_EQ(gpu.gaps.size(), 1u) << "a gap is told however short it is";
    EXPECT_EQ(gpu.gaps[0].start_ps, 24'000'000'000);
    EXPECT_EQ(gpu.gaps[0].end_ps, given_back ? 24'000'200'000 : 39'000'000'000);
  }
}

// There are more changes than are kept. The later states are unknown: neither a gap to the end nor an orderly end.
TEST(GpuBuilder, MoreStateChangesThanKept_AreAWarning) {
  SpoolMaker spool = GpuProcess();
  spool.Kernel(0, 7, kGemm, Gpu(10 * kMs), Gpu(11 * kMs), 3).Api(kLaunchCallback, kMainTid, Gpu(9 * kMs), kMs, 3);
  constexpr uint64_t kTimes = 6000, kEach = 1000;
  for (uint64_t time = 0; time < kTimes; ++time) {
    const uint64_t at = 20 * kMs + time * kEach;
    if (time % 100 == 0) spool.EndChunk().Chunk(1, 1, 2);
    spool.GpuInfo(GpuInfoKey::kPaused, at, "program: the program uses CUPTI itself");
    spool.GpuInfo(GpuInfoKey::kRecording, at + kEach / 2, "");
  }
  spool.GpuClock(50 * kMs, Gpu(50 * kMs)).EndChunk();
  spool.Process(1, SpoolMaker::MakeProcess(1, kMainTid, 10, 900 * kMs)).End(1000 * kMs);
  const Timeline timeline = Build(spool);
  const ProcessGpu& gpu = timeline.processes[0].gpu;
  ASSERT_EQ(gpu.gaps.size(), 5000u);
  for (const GpuGap& gap : gpu.gaps) EXPECT_EQ(gap.end_ps - gap.start_ps, 500'000);
  EXPECT_THAT(timeline.warnings,
              testing::Contains(HasSubstr("began and paused 12001 times, which is more than is kept; "
                                          "gaps after 23 ms are not recorded")));
  EXPECT_THAT(timeline.warnings, testing::Contains(HasSubstr("killed")));
}

// With hooks, all calls up to the kill are recorded, but not the work that the last calls submitted.
TEST(GpuBuilder, KilledByHooks_LossCountsFromTheLastWork) {
  SpoolMaker spool = GpuProcess();
  spool.GpuInfo(GpuInfoKey::kByHooks, 5 * kMs, "as asked for by --cuda=hooks");
  spool.Kernel(0, 7, kGemm, Gpu(10 * kMs), Gpu(60 * kMs), 3).Api(kLaunchCallback, kMainTid, Gpu(9 * kMs), kMs, 3);
  spool.Api(kLaunchCallback, kMainTid, Gpu(890 * kMs), kMs, 4);
  spool.GpuClock(50 * kMs, Gpu(50 * kMs)).EndChunk();
  spool.Process(1, SpoolMaker::MakeProcess(1, kMainTid, 10, 900 * kMs)).End(1000 * kMs);
  const Timeline timeline = Build(spool);
  EXPECT_EQ(timeline.processes[0].gpu.lost_at_end_ps, 840'000'000'000);
  EXPECT_THAT(timeline.warnings, testing::Contains(HasSubstr("killed 840 ms after the last GPU work")));
}

// CUPTI delivers calls before their work, and the work of one stream before the work of another stream.
TEST(GpuBuilder, KilledWithCallsButNoWork_LossCountsFromTheFirstLaunchWithout) {
  SpoolMaker spool = GpuProcess();
  for (uint32_t i = 0; i < 8; ++i) {
    spool.Api(kLaunchCallback, kMainTid, Gpu((100 + i * 100) * kMs), kMs, 10 + i);
    // The sixth and seventh have no work; the eighth is on a stream whose buffer was delivered.
    if (i != 5 && i != 6) spool.Kernel(0, 7, kGemm, Gpu((110 + i * 100) * kMs), Gpu((120 + i * 100) * kMs), 10 + i);
  }
  spool.GpuClock(50 * kMs, Gpu(50 * kMs)).EndChunk();
  spool.Process(1, SpoolMaker::MakeProcess(1, kMainTid, 10, 900 * kMs)).End(1000 * kMs);
  const Timeline timeline = Build(spool);
  EXPECT_EQ(timeline.processes[0].gpu.lost_at_end_ps, 300'000'000'000);
}

// What CUPTI held when the process ended: a buffer may be older than those that were delivered.
TEST(GpuBuilder, KilledWithWhatCuptiHeldKnown_LossCountsFromItsOldestBuffer) {
  struct Case {
    uint64_t held_ms;
    bool launch_without_work;
    int64_t lost_ms;  // of an end at 900 ms; -1: none
  };
  for (const Case& c : {Case{600, false, 300}, {600, true, 300}, {850, true, 101}, {0, true, 101}, {0, false, -1}}) {
    SpoolMaker spool = GpuProcess();
    spool.Api(kLaunchCallback, kMainTid, Gpu(700 * kMs), kMs, 10);
    spool.Kernel(0, 7, kGemm, Gpu(710 * kMs), Gpu(720 * kMs), 10);
    if (c.launch_without_work) spool.Api(kLaunchCallback, kMainTid, Gpu(799 * kMs), kMs, 11);
    spool.GpuClock(50 * kMs, Gpu(50 * kMs)).EndChunk();
    spool.Process(1, SpoolMaker::MakeProcess(1, kMainTid, 10, 900 * kMs));
    const Timeline timeline = Build(spool.GpuHeld(1, c.held_ms * kMs).End(1000 * kMs));
    EXPECT_EQ(timeline.processes[0].gpu.lost_at_end_ps, c.lost_ms < 0 ? -1 : c.lost_ms * 1'000'000'000)
        << c.held_ms << " " << c.launch_without_work;
    EXPECT_EQ(timeline.warnings.empty(), c.lost_ms < 0) << testing::PrintToString(timeline.warnings);
  }
}

// Killed before the first buffer was taken.
TEST(GpuBuilder, KilledWithoutAnyRecord_LossIsReported) {
  SpoolMaker spool = GpuProcess();
  spool.GpuClock(50 * kMs, Gpu(50 * kMs)).EndChunk();
  spool.Process(1, SpoolMaker::MakeProcess(1, kMainTid, 10, 90 * kMs));
  const Timeline timeline = Build(spool.GpuHeld(1, 40 * kMs).End(1000 * kMs));
  EXPECT_THAT(timeline.warnings, testing::Contains(HasSubstr("GPU records of up to its last 50 ms, which are lost")));
}

// An old launch without work does not count for the kill: CUPTI dropped its record, or an empty graph has no work.
TEST(GpuBuilder, LaunchOfLongAgoWithoutWork_IsNotWhatTheKillCost) {
  SpoolMaker spool = GpuProcess();
  spool.Api(kLaunchCallback, kMainTid, Gpu(20 * kMs), kMs, 9);
  spool.Api(kLaunchCallback, kMainTid, Gpu(2000 * kMs), kMs, 10);
  spool.Kernel(0, 7, kGemm, Gpu(2010 * kMs), Gpu(2020 * kMs), 10).GpuClock(50 * kMs, Gpu(50 * kMs)).EndChunk();
  spool.Process(1, SpoolMaker::MakeProcess(1, kMainTid, 10, 2101 * kMs)).End(2200 * kMs);
  const Timeline timeline = Build(spool);
  EXPECT_EQ(timeline.processes[0].gpu.lost_at_end_ps, 100'000'000'000);
}

// The time between the last flush and the end of the process is the program's exit, not a gap.
TEST(GpuBuilder, Exit_IsNoGap) {
  for (const uint64_t end_ms : {70, 400, 1400}) {
    SpoolMaker spool = GpuProcess();
    spool.Kernel(0, 7, kGemm, Gpu(10 * kMs), Gpu(12 * kMs), 3).GpuClock(50 * kMs, Gpu(50 * kMs));
    spool.Api(kLaunchCallback, kMainTid, Gpu(9 * kMs), kMs, 3);
    spool.GpuInfo(GpuInfoKey::kPaused, 50 * kMs, "end").EndChunk();
    spool.Process(1, SpoolMaker::MakeProcess(1, kMainTid, 10, end_ms * kMs)).End(1500 * kMs);
    const Timeline timeline = Build(spool);
    EXPECT_EQ(timeline.processes[0].gpu.gaps.empty(), end_ms < 1000);
    EXPECT_EQ(timeline.processes[0].gpu.lost_at_end_ps, -1);
    EXPECT_EQ(timeline.warnings.empty(), end_ms < 1000) << testing::PrintToString(timeline.warnings);
  }
}

TEST(GpuBuilder, Steps_CallsAcrossTheirBorder_AreTied) {
  Timeline timeline = Build(GpuTraining(2));
  Thread& thread = timeline.threads[0];
  // Two steps, and a wait that contains the last call of one step and ends after it.
  timeline.steps.clear();
  for (int i = 0; i < 2; ++i) {
    Step step;
    step.start_ps = i * 25'000'000'000;
    step.end_ps = (i + 1) * 25'000'000'000;
    step.number = i;
    timeline.steps.push_back(step);
  }
  std::vector<StepEvent> steps = StepEvents(timeline);
  const GpuCalls calls(timeline, HostPlanes(timeline)[0], steps);
  const ThreadSteps tied = StepsOfThread(timeline, thread, calls);
  EXPECT_EQ(tied.bars.size(), 2u);
  EXPECT_TRUE(tied.tied.empty());
  ExpectOutputs(timeline);
  // An event around everything: the bars lie inside it.
  Event outer = thread.events[0];
  outer.start_ps = 0;
  outer.duration_ps = timeline.duration_ps;
  thread.events.insert(thread.events.begin(), outer);
  EXPECT_EQ(StepsOfThread(timeline, thread, calls).bars.size(), 2u);
  ExpectOutputs(timeline);
  // An event from the middle of one step's calls to the middle of the other's calls: the second calls belong to their
  // own step.
  thread.events.erase(thread.events.begin());
  const auto middle = std::find_if(thread.events.begin(), thread.events.end(),
                                   [](const Event& event) { return event.start_ps > 9'150'000'000; });
  Event across = *thread.events.begin();
  across.start_ps = 9'150'000'000;
  across.duration_ps = 29'350'000'000 - across.start_ps;
  thread.events.insert(middle, across);
  const ThreadSteps mixed = StepsOfThread(timeline, thread, calls);
  EXPECT_EQ(mixed.bars.size(), 1u);
  EXPECT_EQ(mixed.tied.size(), 4u);
  ExpectOutputs(timeline);
}

// Without it, TensorBoard's overview advises a training in bf16 to compute in 16 bits.
TEST(GpuBuilder, KernelOfBrainFloat_CountsAsHalfPrecision) {
  for (const auto& [name, is_half] : {std::pair("sm90_xmma_gemm_bf16bf16_bf16f32", true), {"gemm_f32f32", false}}) {
    SpoolMaker spool = GpuProcess();
    spool.GpuName(GpuNameKind::kKernel, 9, name);
    spool.Api(kLaunchCallback, kMainTid, Gpu(9 * kMs), kMs, 3);
    spool.Kernel(0, 7, 9, Gpu(10 * kMs), Gpu(12 * kMs), 3).GpuClock(50 * kMs, Gpu(50 * kMs), 100).EndChunk();
    spool.End(101 * kMs);
    StringSink sink;
    ASSERT_TRUE(WriteXplane(Build(spool), sink).ok());
    EXPECT_EQ(sink.bytes().find("bf16 (half precision)") != std::string::npos, is_half) << name;
  }
}

TEST(GpuBuilder, Summary_HasTotalsOfTheGpu) {
  const Timeline timeline = Build(GpuTraining());
  SummaryOptions options;
  options.logdir = "/logs";
  std::string text;
  for (const std::string& line : SummaryText(timeline, {}, options)) text += line + "\n";
  EXPECT_THAT(text, HasSubstr("GPU 0 NVIDIA H100 80GB HBM3: 24 % busy, 6 kernels for 12.0 ms"));
  EXPECT_THAT(text, HasSubstr("MemcpyHToD 3.00 MiB in 3.00 ms (1000 MiB/s)"));
  EXPECT_THAT(text, HasSubstr("host waited 15.0 ms in 3 synchronizations"));
  EXPECT_THAT(text, HasSubstr("9.00 ms   3.00 ms         3  void gemm<float>(float*, int)"));
  EXPECT_THAT(text, HasSubstr("1 process, 1 thread,"));
  const auto json = nlohmann::json::parse(SummaryJson(timeline, {}, options));
  ASSERT_EQ(json["gpus"].size(), 1u);
  EXPECT_EQ(json["gpus"][0]["kernels"], 6);
  EXPECT_EQ(json["gpus"][0]["top_kernels"][0]["mangled"], "_Z4gemmIfEvPT_i");
  EXPECT_EQ(json["gpus"][0]["copies"][0]["bytes"], 3 << 20);
  EXPECT_NEAR(json["gpus"][0]["busy_share"].get<double>(), 16.5 / 70, 0.001);
  EXPECT_EQ(json["processes"][0]["gpu"]["state"], "recorded");
  EXPECT_EQ(json["processes"][0]["gpu"]["launches"], 9);
  EXPECT_EQ(json["processes"][0]["gpu"]["library"], "/usr/lib/libcupti.so.13");
}

TEST(GpuBuilder, HostileRecords_GiveAValidTimeline) {
  std::mt19937_64 random(7);
  const uint64_t odd[] = {0,
                          1,
                          kMs,
                          10 * kMs,
                          Gpu(0),
                          Gpu(20 * kMs),
                          Gpu(40 * kMs),
                          UINT64_MAX,
                          UINT64_MAX - 1,
                          UINT32_MAX,
                          1u << 31,
                          Gpu(uint64_t{1} << 62)};
  const auto any = [&] { return random() % 5 == 0 ? random() : odd[random() % std::size(odd)]; };
  for (int round = 0; round < 60; ++round) {
    SpoolMaker spool = GpuProcess();
    for (int i = 0; i < 400; ++i) {
      const auto device = static_cast<uint16_t>(random() % 4 == 0 ? any() : 0);
      const auto small = static_cast<uint32_t>(random() % 3 == 0 ? any() : random() % 4);
      switch (random() % 9) {
        case 0:
          spool.Kernel(device, small, small, any(), any(), small, static_cast<uint8_t>(any()));
          break;
        case 1:
          spool.Copy(device, small, static_cast<GpuCopyKind>(any()), any(), any(), any(), small);
          break;
        case 2:
          spool.Api(static_cast<uint16_t>(any()), static_cast<int32_t>(any()), any(), any(), small, any() % 2 == 0,
                    static_cast<uint16_t>(any()));
          break;
        case 3:
          spool.GpuSpan(static_cast<GpuSpanKind>(any() % 5), small, any(), any(), small, small, small, device);
          break;
        case 4:
          spool.GpuMemory(device, static_cast<GpuMemoryOperation>(any() % 4), small, any(), any(),
                          static_cast<uint8_t>(any() % 9));
          break;
        case 5:
          spool.GpuName(static_cast<GpuNameKind>(any()), small, std::string(random() % 200, static_cast<char>(any())));
          break;
        case 6:
          spool.GpuInfo(static_cast<GpuInfoKey>(any() % 14), any(), "\xff" + std::to_string(any()));
          spool.CuptiUse(any(), static_cast<CuptiLeft>(any() % 12), "\xff\n", any());
          break;
        case 7:
          spool.GpuClock(any(), any(), random() % 1000);
          break;
        default:
          spool.Kernel(0, 7, kGemm, Gpu(random() % (50 * kMs)), Gpu(random() % (50 * kMs)), small);
      }
    }
    spool.EndChunk().End(50 * kMs);
    auto timeline = spool.Build();
    ASSERT_TRUE(timeline.ok());
    for (const GpuStream& stream : timeline->gpu_streams) {
      ASSERT_LT(stream.device, timeline->gpu_devices.size());
      ASSERT_FALSE(stream.events.empty());
      for (const GpuEvent& event : stream.events) {
        ASSERT_GE(event.start_ps, 0);
        ASSERT_GT(event.duration_ps, 0);
        ASSERT_LE(event.duration_ps, timeline->duration_ps - event.start_ps);
        ASSERT_NE(event.correlation, 0u);
        ASSERT_LT(event.launch, std::max<size_t>(timeline->gpu_launches.size(), 1));
      }
    }
    ExpectOutputs(*timeline);
  }
}

TEST(GpuBuilder, ThousandsOfStreamsDevicesAndThreads_AreBounded) {
  SpoolMaker spool = GpuProcess();
  for (uint32_t i = 0; i < 12'000; ++i) {
    spool.Kernel(static_cast<uint16_t>(i % 900), i, kGemm, Gpu(10 * kMs + i), Gpu(20 * kMs + i * 7), i + 1);
    spool.Api(kLaunchCallback, static_cast<int32_t>(i), Gpu(9 * kMs + i), 500, i + 1);
    if (i % 200 == 199) spool.EndChunk().Chunk(1, 1, 2);
  }
  const Timeline timeline = Build(spool.EndChunk().End(50 * kMs));
  EXPECT_LE(timeline.gpu_devices.size(), 400u);
  EXPECT_LE(timeline.gpu_streams.size(), 4u * 4096);
  EXPECT_LE(timeline.threads.size(), 1100u);
  EXPECT_GT(timeline.corrupt_records, 0u);
}

}  // namespace
}  // namespace tbprof
