// SPDX-License-Identifier: Apache-2.0
//
//   make_seeds SPOOL DIRECTORY
//
// Writes what a real spool holds as inputs of the fuzzers: DIRECTORY/spool, a list of frames, and DIRECTORY/segment,
// the writes of a target that would leave that. Made where the fuzzing is done: spools name this machine's paths.
// Prints which records of frameworks are in the first: a seed is cut, and may have lost what it is for.
// DIRECTORY/profiler_request and DIRECTORY/control_message: what stock clients and the worker send.
// DIRECTORY/core_file: a small core file.
#include <signal.h>
#include <sys/procfs.h>
#include <sys/user.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/base/control_messages.h"
#include "launcher/service/profiler_request.h"
#include "tests/unit/launcher/core_maker.h"
#include "wire/layout.h"
#include "writer/spool/gpu_totals.h"
#include "writer/spool/spool_facts.h"

namespace {

using namespace tbprof;

constexpr size_t kMaxSeed = 100 << 10;
constexpr size_t kMaxPart = 8 << 10;  // of one frame: what is behind is more of the same

template <typename T>
void Put(std::string* to, T value) {
  to->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void PutWrite(std::string* to, uint8_t operation, size_t index, size_t offset, std::string_view bytes) {
  bytes = bytes.substr(0, 0xffff);
  if (to->size() + bytes.size() > kMaxSeed) return;
  Put(to, operation);
  Put(to, static_cast<uint16_t>(index));
  Put(to, static_cast<uint16_t>(offset));
  Put(to, static_cast<uint16_t>(bytes.size()));
  to->append(bytes);
}

template <typename T>
std::string_view Bytes(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

void AddToSegmentSeed(const Frame& frame, std::string* seed) {
  if (frame.segment != 1) return;
  ChunkFact chunk;
  ThreadFact thread;
  ProcessFact process;
  if (frame.type == FrameType::kSegment && frame.payload.size() >= sizeof(SegmentFact) + sizeof(SegmentHeader)) {
    SegmentHeader header;
    memcpy(&header, frame.payload.data() + sizeof(SegmentFact), sizeof(header));
    // What follows the layout: that is the fuzzer's own.
    constexpr size_t kFirst = offsetof(SegmentHeader, attach_ticks);
    PutWrite(seed, 0, 0, kFirst, Bytes(header).substr(kFirst));
    PutWrite(seed, 0, 0, offsetof(SegmentHeader, operation_count), Bytes(header.operation_count));
    const std::string_view operations = frame.payload.substr(sizeof(SegmentFact) + sizeof(SegmentHeader));
    for (size_t i = 0; i < operations.size() / sizeof(Operation); ++i) {
      PutWrite(seed, 5, i, 0, operations.substr(i * sizeof(Operation), sizeof(Operation)));
    }
  } else if (frame.type == FrameType::kChunk && frame.Read(&chunk)) {
    const std::string_view slots = frame.payload.substr(sizeof(chunk));
    PutWrite(seed, 2, chunk.chunk, static_cast<size_t>(chunk.first_slot) * kSlotBytes, slots.substr(0, kMaxPart));
    PutWrite(seed, 1, chunk.chunk, 0, Bytes(ChunkWord(ChunkState::kOwned, chunk.generation, chunk.thread_serial - 1)));
  } else if (frame.type == FrameType::kThread && frame.Read(&thread)) {
    ThreadSlot slot;
    memset(&slot, 0, sizeof(slot));
    slot.state = static_cast<uint32_t>(SlotState::kLive);
    slot.serial = thread.serial;
    slot.process_serial = thread.process_serial;
    slot.tid = thread.tid;
    slot.start_ticks = thread.start_ticks;
    slot.end_ticks = thread.end_ticks;
    memcpy(slot.name, thread.name, sizeof(slot.name));
    PutWrite(seed, 3, thread.serial - 1, 0, Bytes(slot).substr(0, offsetof(ThreadSlot, reserved1)));
  } else if (frame.type == FrameType::kProcess && frame.Read(&process)) {
    ProcessSlot slot;
    memset(&slot, 0, sizeof(slot));
    slot.state = static_cast<uint32_t>(SlotState::kLive);
    slot.serial = process.serial;
    slot.parent_serial = process.parent_serial;
    slot.pid = process.pid;
    slot.parent_pid = process.parent_pid;
    slot.start_ticks = process.start_ticks;
    slot.live_bytes = process.live_bytes;
    PutWrite(seed, 4, process.serial - 1, 0, Bytes(slot).substr(0, offsetof(ProcessSlot, reserved)));
    PutWrite(seed, 7, 0, 0, "");  // the launcher looks
  }
}

// By scope, or by domain where that is not PyTorch's, or by kind.
std::string FrameworkOf(const RecordView& record) {
  if (record.tag.kind == RecordKind::kTensorMemory) return "memory of tensors";
  AnnotationRecord annotation;
  if (record.tag.kind != RecordKind::kAnnotation || !record.Read(&annotation)) return "";
  if (record.tag.aux == kTensorFlowDomain) return "TensorFlow";
  if (record.tag.aux != kTorchDomain) return "";
  switch (static_cast<TorchScope>(annotation.category)) {
    case TorchScope::kOperation:
      return "PyTorch's operations";
    case TorchScope::kBackward:
      return "PyTorch's backward nodes";
    case TorchScope::kUser:
      return "PyTorch's ranges";
    case TorchScope::kPause:
      break;
  }
  return "";
}

// Of a part of a chunk, as the spool's fuzzer will have it.
void FindFrameworks(Frame frame, std::set<std::string>* found) {
  ChunkFact chunk;
  if (frame.type != FrameType::kChunk || !frame.Read(&chunk)) return;
  chunk.slots = static_cast<uint32_t>((frame.payload.size() - sizeof(chunk)) / kSlotBytes);
  std::string payload(frame.payload);
  memcpy(payload.data(), &chunk, sizeof(chunk));
  frame.payload = payload;
  uint64_t corrupt = 0;
  ForEachRecord(frame, &chunk, &corrupt, [&](const RecordView& record) { found->insert(FrameworkOf(record)); });
}

void AddToSpoolSeed(const Frame& frame, std::string* seed, std::set<std::string>* frameworks = nullptr) {
  const std::string_view payload = frame.payload.substr(0, kMaxPart);
  if (seed->size() + payload.size() > kMaxSeed) return;
  if (frameworks != nullptr) FindFrameworks({frame.type, frame.segment, frame.part, payload}, frameworks);
  Put(seed, static_cast<uint8_t>(frame.type));
  Put(seed, static_cast<uint8_t>(std::min<uint32_t>(frame.segment, 3)));
  Put(seed, static_cast<uint16_t>(payload.size()));
  seed->append(payload);
}

// As if a part that held the same again had been dropped.
void AddTotalsToSpoolSeed(const std::vector<GpuTotalRow>& rows, std::string* seed) {
  const PartFact part{};
  AddToSpoolSeed({FrameType::kDropped, 0, 0, Bytes(part)}, seed);
  const TotalsFact fact{1, static_cast<uint32_t>(rows.size()), 0};
  std::string payload(Bytes(fact));
  for (const GpuTotalRow& row : rows) payload += Bytes(row);
  AddToSpoolSeed({FrameType::kGpuTotals, 0, 0, payload}, seed);
}

void AddMemoryToSpoolSeed(const std::vector<GpuMemoryRow>& rows, std::string* seed) {
  const TotalsFact fact{1, static_cast<uint32_t>(rows.size()), 0};
  std::string payload(Bytes(fact));
  for (const GpuMemoryRow& row : rows) payload += Bytes(row);
  AddToSpoolSeed({FrameType::kGpuMemory, 0, 0, payload}, seed);
}

// Two functions, one of which calls the other, sampled on the first thread of the first process.
void AddPythonToSpoolSeed(uint64_t ticks, int32_t tid, std::string* seed) {
  PythonCodeFact code{1, 1, 10, 11, 0, 1, 4, 4, 0};
  const auto add = [&](FrameType type, std::initializer_list<std::string_view> parts) {
    std::string payload;
    for (const std::string_view part : parts) payload += part;
    AddToSpoolSeed({type, 1, 0, payload, nullptr}, seed);
  };
  add(FrameType::kPythonCode, {Bytes(code), "ff.py", std::string_view("\xe8\x00\xe8\x02", 4)});
  code.code = 2;
  code.minor = 9;
  add(FrameType::kPythonCode, {Bytes(code), "gf.py", "\x02\x01\x02\x01"});
  const NotebookFact notebook{1, 8};
  add(FrameType::kNotebook, {Bytes(notebook), "/nowhere"});
  const PythonStacksFact stacks{1, 2};
  const PythonNode nodes[] = {{1, 0, 1, 0}, {2, 1, 2, 2}};
  add(FrameType::kPythonStacks, {Bytes(stacks), Bytes(nodes)});
  PythonStatusFact status{};
  status.ticks = ticks;
  status.process_serial = 1;
  status.minor = 11;
  status.state = kPythonSampled;
  status.interval_us = 10'000;
  add(FrameType::kPythonStatus, {Bytes(status)});
  const PythonSamplesFact fact{1, 2};
  const PythonSample samples[] = {{ticks, ticks + 90, tid, 2, 10, 5}, {ticks + 100, ticks + 100, tid, 1, 1, 0}};
  add(FrameType::kPythonSamples, {Bytes(fact), Bytes(samples)});
}

// Likewise, of native code.
void AddNativeToSpoolSeed(uint64_t ticks, int32_t tid, std::string* seed) {
  const auto add = [&](FrameType type, std::initializer_list<std::string_view> parts) {
    std::string payload;
    for (const std::string_view part : parts) payload += part;
    AddToSpoolSeed({type, 1, 0, payload, nullptr}, seed);
  };
  const NativeStacksFact stacks{1, 3};
  const NativeNode nodes[] = {{1, 0, 0x1001}, {2, 1, 0x1010}, {3, 0, 0}};
  add(FrameType::kNativeStacks, {Bytes(stacks), Bytes(nodes)});
  NativeStatusFact status{};
  status.ticks = ticks;
  status.process_serial = 1;
  status.state = kNativeSampled;
  status.interval_us = 10'100;
  add(FrameType::kNativeStatus, {Bytes(status)});
  const NativeSamplesFact fact{1, 3};
  const NativeSample samples[] = {
      {ticks, tid, 2, 10'100, 0}, {ticks + 90, tid, 1, 10'100, 0}, {ticks + 95, tid, 3, 1, 0}};
  add(FrameType::kNativeSamples, {Bytes(fact), Bytes(samples)});
}

// Of the same process: a collection, what its threads used, and its limits.
void AddUsageToSpoolSeed(uint64_t ticks, int32_t tid, std::string* seed) {
  const auto add = [&](FrameType type, std::initializer_list<std::string_view> parts) {
    std::string payload;
    for (const std::string_view part : parts) payload += part;
    AddToSpoolSeed({type, 1, 0, payload, nullptr}, seed);
  };
  const PythonSamplesFact fact{1, 1};
  const PythonSample samples[] = {{ticks + 92, ticks + 96, tid, 2, 3, 3}};
  add(FrameType::kPythonCollecting, {Bytes(fact), Bytes(samples)});
  const ThreadUsageFact usage{1, 3};
  const ThreadUsageRow rows[] = {
      {ticks, 1000, 10, tid, 0}, {ticks + 50, 3000, 20, tid, 1}, {ticks + 90, 1000, 5, 77, 0}};
  add(FrameType::kThreadUsage, {Bytes(usage), Bytes(rows)});
  const ThreadUsageFact holder{1, 3};
  const GilHolderRow holders[] = {{ticks + 10, tid, 2}, {ticks + 20, tid, 1}, {ticks + 30, 77, 9}};
  add(FrameType::kGilHolders, {Bytes(holder), Bytes(holders)});
  const ThreadUsageFact memory{1, 2};
  const ResidentRow resident[] = {{ticks + 10, 1 << 20, 2 << 20, 0, 0, 3 << 20},
                                  {ticks + 60, 9 << 20, 2 << 20, 1 << 20, 4096, 12 << 20}};
  add(FrameType::kResidentMemory, {Bytes(memory), Bytes(resident)});
  const GpuHeldFact held{ticks + 95, 1, 0};
  add(FrameType::kGpuHeld, {Bytes(held)});
  CpuLimitsFact limits{ticks, 1, 2, 150'000, 100'000, 40, 1};
  add(FrameType::kCpuLimits, {Bytes(limits)});
  limits.ticks += 100;
  limits.throttled_us = 90;
  add(FrameType::kCpuLimits, {Bytes(limits)});
}

void Save(const std::string& directory, const std::string& name, const std::string& seed) {
  std::filesystem::create_directories(directory);
  std::ofstream(directory + "/" + name, std::ios::binary) << seed;
}

// Two threads on one stack, whose functions have frame pointers, and this program as the only file.
void SaveCore(const std::string& directory) {
  constexpr uint64_t kStack = 0x10000, kCode = 0x400000;
  user_regs_struct all = {};
#if defined(__x86_64__)
  all.rbp = all.rsp = kStack;
  all.rip = kCode + 0x1000;
#else
  all.sp = all.regs[29] = kStack;
  all.pc = kCode + 0x1000;
#endif
  elf_gregset_t registers = {};
  memcpy(&registers, &all, sizeof(all));
  std::string stack;
  for (uint64_t frame = kStack + 32; frame < kStack + 512; frame += 32) {
    for (const uint64_t word : {frame, kCode + 0x1100, uint64_t{0}, uint64_t{0}}) Put(&stack, word);
  }
  CoreMaker core(100);
  core.Thread(101, SIGSEGV, registers).Thread(100, SIGSEGV, registers).Fault(SIGSEGV, SEGV_MAPERR, 0x10);
  core.Entry(kCode + 0x1000).Memory(kStack, stack).Memory(kCode, "", 0x10000, PF_R | PF_X);
  core.File(kCode, kCode + 0x10000, 0, "/proc/self/exe");
  Save(directory + "/core_file", "small", core.Bytes());
}

void SaveRequests(const std::string& directory) {
  tensorflow::ProfileRequest profile;
  profile.set_duration_ms(500);
  profile.set_max_events(1000000);
  profile.add_tools("xplane.pb");
  profile.set_host_name("127.0.0.1:6009");
  profile.set_session_id("2026_11_22_20_44_30");
  profile.set_repository_root("/logs/plugins/profile");
  Save(directory + "/profiler_request", "plain", std::string(1, '\2') + profile.SerializeAsString());
  tensorflow::ProfileOptions* const options = profile.mutable_opts();
  options->set_version(1);
  options->set_duration_ms(500);
  options->set_host_tracer_level(2);
  options->set_device_tracer_level(1);
  options->set_python_tracer_level(1);
  options->set_start_timestamp_ns(1'795'000'003'000'000'000);
  options->set_session_id("name");
  options->set_override_hostname("[::1]:6009");
  (*options->mutable_advanced_configuration())["override_hostname"].set_string_value("host");
  (*options->mutable_advanced_configuration())["unknown"].set_int64_value(-1);
  Save(directory + "/profiler_request", "options", std::string(1, '\2') + profile.SerializeAsString());
  tensorflow::MonitorRequest monitor;
  monitor.set_duration_ms(500);
  monitor.set_monitoring_level(2);
  monitor.set_timestamp(true);
  Save(directory + "/profiler_request", "monitor", std::string(1, '\0') + monitor.SerializeAsString());
  Save(
      directory + "/profiler_request", "summary",
      std::string(1, '\0') +
          R"({"wall_s":2.0,"gpus":[{"busy_share":0.5}],"steps":{"count":12,"mean_s":0.1,"shortest_s":0.05,)"
          R"("longest_s":0.25,"source":"optimizer","input_wait_share":0.1},"records":{"decoded":30,"dropped":{"x":3}}})");

  ControlAsk ask{AskKind::kCapture, 1, {}};
  if (auto capture = CaptureOf(profile, {1'795'000'000'000'000'000, 0}, "127.0.0.1:5"); capture.ok()) {
    ask.capture = *std::move(capture);
  }
  for (const auto& [name, kind] : {std::pair{"capture", AskKind::kCapture},
                                   {"monitor", AskKind::kMonitor},
                                   {"terminate", AskKind::kTerminate},
                                   {"cancel", AskKind::kCancel}}) {
    ask.kind = kind;
    Save(directory + "/control_message", name, ToText(ask));
  }
  ControlAnswer answer;
  answer.files = {"xplane.pb", "r1.xplane.pb"};
  answer.lines = {"a line"};
  for (const auto& [name, state] : {std::pair{"open", AnswerState::kOpen},
                                    {"writing", AnswerState::kWriting},
                                    {"done", AnswerState::kDone},
                                    {"failed", AnswerState::kFailed}}) {
    answer.state = state;
    if (state == AnswerState::kFailed) answer.status = absl::UnavailableError("why");
    Save(directory + "/control_message", name, ToText(answer));
  }
  SessionStatus status;
  status.command = {"python3", "train.py"};
  status.pids = {4711};
  status.addresses = {"127.0.0.1:6009"};
  Save(directory + "/control_message", "status", ToText(status));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  auto reader = SpoolReader::Open(argv[1]);
  if (!reader.ok()) {
    fprintf(stderr, "%s\n", reader.status().ToString().c_str());
    return 1;
  }
  std::string spool(1, '\0');
  std::string segment(1, '\xff');
  GpuTotals totals;
  std::set<std::string> frameworks;
  bool sampled = false;
  Frame frame;
  while ((*reader)->Next(&frame)) {
    AddToSpoolSeed(frame, &spool, &frameworks);
    if (ThreadFact thread; !sampled && frame.type == FrameType::kThread && frame.Read(&thread)) {
      AddPythonToSpoolSeed(thread.start_ticks, thread.tid, &spool);
      AddNativeToSpoolSeed(thread.start_ticks, thread.tid, &spool);
      AddUsageToSpoolSeed(thread.start_ticks, thread.tid, &spool);
      sampled = true;
    }
    AddToSegmentSeed(frame, &segment);
    if (frame.type != FrameType::kChunk) continue;
    ChunkFact chunk;
    uint64_t corrupt = 0;
    ForEachRecord(frame, &chunk, &corrupt,
                  [&](const RecordView& record) { totals.Add(frame.segment, chunk.process_serial, record); });
  }
  const std::vector<GpuTotalRow> rows = totals.Rows();
  if (!rows.empty()) AddTotalsToSpoolSeed(rows, &spool);
  if (!totals.memory().empty()) AddMemoryToSpoolSeed(totals.memory(), &spool);
  const std::string name = std::filesystem::path(argv[1]).filename();
  const std::string directory = argv[2];
  Save(directory + "/spool", name, spool);
  Save(directory + "/segment", name, segment);
  frameworks.erase("");
  for (const std::string& framework : frameworks) printf("%s\n", framework.c_str());
  SaveRequests(directory);
  SaveCore(directory);
  return 0;
}
