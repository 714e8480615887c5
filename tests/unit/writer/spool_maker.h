// SPDX-License-Identifier: Apache-2.0
//
// Spools made by hand, record by record, in the form that the drain writes. Ticks are nanoseconds.
//
//   SpoolMaker spool;
//   spool.Session().Segment(1, {{"read", kFamilyIo, ObjectRole::kDescriptor, ResultRole::kBytes}}).Process(1, 1, 100,
//   10); spool.Thread(1, 1, 1, 100, 10).Chunk(1, 1, 1).Span(0, 20, 5).EndChunk(); auto timeline = spool.Build();
#ifndef TBPROF_TESTS_UNIT_WRITER_SPOOL_MAKER_H_
#define TBPROF_TESTS_UNIT_WRITER_SPOOL_MAKER_H_

#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "wire/compact_span.h"
#include "wire/records.h"
#include "writer/convert/timeline_builder.h"
#include "writer/spool/chunk_summary.h"
#include "writer/spool/spool.h"
#include "writer/spool/spool_facts.h"

namespace tbprof {

// A path that is removed at the end.
class TemporaryPath {
 public:
  explicit TemporaryPath(const std::string& stem)
      : path_(std::filesystem::temp_directory_path() /
              ("tbprof_" + stem + "_" + std::to_string(getpid()) + "_" + std::to_string(++count_))) {}
  TemporaryPath(const TemporaryPath&) = delete;
  TemporaryPath& operator=(const TemporaryPath&) = delete;
  ~TemporaryPath() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }
  void Write(std::string_view bytes) const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }

 private:
  static inline int count_ = 0;
  std::string path_;
};

struct OperationRow {
  std::string name;
  uint32_t family = kFamilyIo;
  ObjectRole object = ObjectRole::kNone;
  ResultRole result = ResultRole::kNone;
};

class SpoolMaker {
 public:
  SpoolMaker() : frames_(1u << 16) {}

  SpoolMaker& Raw(FrameType type, uint32_t segment, std::string_view payload) {
    frames_.Append(type, segment, payload.data(), payload.size());
    return *this;
  }
  // Adds the session frame, clock pairs at 0 and at 1000 s, and the run's own window, opened at `open`.
  SpoolMaker& Session(uint64_t open = 1000, const std::string& json = kSession) {
    Raw(FrameType::kSession, 0, json);
    Clock(1, 1);
    if (open != 0) Window(0, WindowEvent::kOpened, open);
    return *this;
  }
  SpoolMaker& Clock(uint64_t ticks, uint64_t monotonic_ns) {
    const ClockFact pair{ticks, monotonic_ns, 1'700'000'000'000'000'000 + monotonic_ns};
    frames_.AppendFact(FrameType::kClock, 0, pair);
    return *this;
  }
  SpoolMaker& GpuHeld(uint32_t process, uint64_t since) {
    frames_.AppendFact(FrameType::kGpuHeld, 1, GpuHeldFact{since, process, 0});
    return *this;
  }
  SpoolMaker& Window(uint32_t number, WindowEvent event, uint64_t ticks) {
    const WindowFact fact{ticks, number, event, kFamilyAll, 0};
    frames_.AppendFact(FrameType::kWindow, 0, fact);
    return *this;
  }
  SpoolMaker& Segment(uint32_t number, const std::vector<OperationRow>& rows, uint64_t seen_ticks = 1) {
    std::vector<uint8_t> payload(sizeof(SegmentFact) + sizeof(SegmentHeader) + rows.size() * sizeof(Operation));
    SegmentFact fact{};
    fact.pid = 100;
    fact.seen_ticks = seen_ticks;
    memcpy(payload.data(), &fact, sizeof(fact));
    for (size_t i = 0; i < rows.size(); ++i) {
      Operation operation{};
      memcpy(operation.name, rows[i].name.data(), std::min(rows[i].name.size(), sizeof(operation.name)));
      operation.family = rows[i].family;
      operation.object = rows[i].object;
      operation.result = rows[i].result;
      memcpy(&payload[sizeof(SegmentFact) + sizeof(SegmentHeader) + i * sizeof(operation)], &operation,
             sizeof(operation));
    }
    frames_.Append(FrameType::kSegment, number, payload.data(), payload.size());
    return *this;
  }

  static ProcessFact MakeProcess(uint32_t serial, int32_t pid, uint64_t start, uint64_t end = 0, uint32_t parent = 0) {
    ProcessFact fact{};
    fact.serial = serial;
    fact.parent_serial = parent;
    fact.pid = pid;
    fact.state = static_cast<uint32_t>(SlotState::kLive);
    fact.start_ticks = start;
    fact.end_ticks = end;
    fact.taken_ticks = end != 0 ? end : start;
    return fact;
  }
  SpoolMaker& Process(uint32_t segment, const ProcessFact& fact) {
    frames_.AppendFact(FrameType::kProcess, segment, fact);
    return *this;
  }
  SpoolMaker& Process(uint32_t segment, uint32_t serial, int32_t pid, uint64_t start, uint64_t end = 0) {
    return Process(segment, MakeProcess(serial, pid, start, end));
  }

  static ThreadFact MakeThread(uint32_t serial, uint32_t process, int32_t tid, uint64_t start, uint64_t end = 0) {
    ThreadFact fact{};
    fact.serial = serial;
    fact.process_serial = process;
    fact.tid = tid;
    fact.state = static_cast<uint32_t>(end == 0 ? SlotState::kLive : SlotState::kExited);
    fact.start_ticks = start;
    fact.end_ticks = end;
    fact.taken_ticks = end != 0 ? end : start;
    return fact;
  }
  SpoolMaker& Thread(uint32_t segment, ThreadFact fact, const std::vector<CountFact>& counts = {}) {
    fact.count_facts = static_cast<uint32_t>(counts.size());
    std::string payload(reinterpret_cast<const char*>(&fact), sizeof(fact));
    if (!counts.empty())
      payload.append(reinterpret_cast<const char*>(counts.data()), counts.size() * sizeof(CountFact));
    return Raw(FrameType::kThread, segment, payload);
  }
  SpoolMaker& Thread(uint32_t segment, uint32_t serial, uint32_t process, int32_t tid, uint64_t start,
                     uint64_t end = 0) {
    return Thread(segment, MakeThread(serial, process, tid, start, end));
  }

  // Records until EndChunk go into one chunk frame.
  SpoolMaker& Chunk(uint32_t segment, uint32_t process, uint32_t thread, uint32_t lost = 0) {
    chunk_segment_ = segment;
    chunk_ = ChunkFact{};
    chunk_.lost = lost;
    chunk_.generation = 1;
    chunk_.process_serial = process;
    chunk_.thread_serial = thread;
    slots_.clear();
    return *this;
  }
  // The time at which the launcher read the chunk.
  SpoolMaker& Taken(uint64_t ticks) {
    chunk_.taken_ticks = ticks;
    return *this;
  }
  // A record: its fixed part (the tag is made here) and a variable part behind it.
  template <typename Record>
  SpoolMaker& Add(RecordKind kind, Record record, uint16_t aux = 0, uint8_t flags = 0, std::string_view variable = {}) {
    record.tag = {1, kind, flags, static_cast<uint16_t>(SlotsFor(sizeof(record) + variable.size())), aux};
    const size_t at = slots_.size();
    slots_.resize(at + size_t{record.tag.slots} * kSlotBytes);
    memcpy(&slots_[at], &record, sizeof(record));
    if (!variable.empty()) memcpy(&slots_[at + sizeof(record)], variable.data(), variable.size());
    return *this;
  }
  // A span in one of two record sizes, as a target makes it.
  SpoolMaker& Span(uint16_t operation, uint64_t start, uint64_t ticks, uint64_t object = 0, int64_t result = 0,
                   int error = 0, uint64_t call_site = 0) {
    if (FitsCompactSpan(start, ticks, object, call_site, result, error)) {
      CompactSpanRecord compact{};
      const uint8_t flags = PackSpan(&compact, start, ticks, object, call_site, result, error);
      return Add(RecordKind::kCompactSpan, compact, operation, flags);
    }
    SpanRecord span{};
    span.start = start;
    span.ticks = ticks;
    span.object = object;
    span.result = result;
    span.error = error;
    span.call_site = call_site;
    return Add(RecordKind::kSpan, span, operation, error != 0 ? kRecordFailed : 0);
  }
  SpoolMaker& ThreadStart(uint64_t ticks, int32_t tid, uint32_t creator, uint64_t created) {
    ThreadStartRecord start{};
    start.ticks = ticks;
    start.tid = tid;
    start.creator_serial = creator;
    start.created_ticks = created;
    return Add(RecordKind::kThreadStart, start);
  }
  SpoolMaker& ThreadExit(uint64_t ticks) {
    ThreadExitRecord exit{};
    exit.ticks = ticks;
    return Add(RecordKind::kThreadExit, exit);
  }
  SpoolMaker& ThreadName(uint64_t ticks, std::string_view name, uint32_t serial = 0, int32_t tid = 0) {
    ThreadNameRecord record{};
    record.ticks = ticks;
    record.thread_serial = serial;
    record.tid = tid;
    record.text_length = name.size();
    return Add(RecordKind::kThreadName, record, static_cast<uint16_t>(name.size()), 0, name);
  }
  SpoolMaker& Info(ProcessInfoKey key, std::string_view text) {
    ProcessInfoRecord info{};
    info.text_length = text.size();
    return Add(RecordKind::kProcessInfo, info, static_cast<uint16_t>(key), 0, text);
  }
  SpoolMaker& Module(uint64_t start, uint64_t end, std::string_view path) {
    ModuleRecord module{};
    module.load_bias = module.start = start;
    module.end = end;
    module.path_length = static_cast<uint32_t>(path.size());
    return Add(RecordKind::kModule, module, 0, 0, path);
  }
  SpoolMaker& Exec(uint16_t operation, uint64_t ticks, std::string_view path, uint8_t flags = 0) {
    ExecRecord exec{};
    exec.ticks = ticks;
    exec.text_length = path.size();
    return Add(RecordKind::kExec, exec, operation, flags, path);
  }
  SpoolMaker& Sample(uint64_t ticks, uint64_t weight, uint64_t call_site) {
    AllocationSampleRecord sample{};
    sample.ticks = ticks;
    sample.weight = weight;
    sample.size = weight;
    sample.call_site = call_site;
    return Add(RecordKind::kAllocationSample, sample);
  }

  // ---- GPU. Times are ns of the GPU clock.

  SpoolMaker& GpuClock(uint64_t ticks, uint64_t gpu_ns, uint64_t width = 0) {
    GpuClockRecord pair{};
    pair.ticks_before = ticks - width / 2;
    pair.gpu_ns = gpu_ns;
    pair.ticks_after = pair.ticks_before + width;
    return Add(RecordKind::kGpuClock, pair);
  }
  SpoolMaker& GpuName(GpuNameKind kind, uint64_t id, std::string_view name) {
    GpuNameRecord record{};
    record.id = id;
    record.text_length = name.size();
    return Add(RecordKind::kGpuName, record, static_cast<uint16_t>(kind), 0, name);
  }
  SpoolMaker& GpuInfo(GpuInfoKey key, uint64_t ticks, std::string_view text) {
    GpuInfoRecord record{};
    record.ticks = ticks;
    record.text_length = text.size();
    return Add(RecordKind::kGpuInfo, record, static_cast<uint16_t>(key), 0, text);
  }
  SpoolMaker& CuptiUse(uint64_t ticks, CuptiLeft left, std::string_view first_call, uint64_t caller) {
    CuptiLeftFact fact{};
    fact.caller = caller;
    fact.left = left;
    std::string bytes(sizeof(fact), '\0');
    memcpy(bytes.data(), &fact, sizeof(fact));
    bytes.append(first_call);
    return GpuInfo(GpuInfoKey::kLeft, ticks, bytes);
  }
  static GpuDeviceRecord MakeDevice(uint8_t uuid = 1) {  // an H100, with the members that tests use
    GpuDeviceRecord device{};
    device.memory_bytes = uint64_t{80} << 30;
    device.memory_bandwidth = 3'352'000'000;
    device.core_clock_khz = 1'980'000;
    device.memory_clock_khz = 2'619'000;
    device.compute_major = 9;
    device.multiprocessors = 132;
    device.warps_per_multiprocessor = 64;
    device.blocks_per_multiprocessor = 32;
    device.threads_per_block = 1024;
    device.threads_per_warp = 32;
    device.shared_bytes_per_multiprocessor = 233'472;
    device.registers_per_multiprocessor = 65'536;
    device.shared_bytes_per_block = 49'152;
    device.registers_per_block = 65'536;
    for (uint8_t& byte : device.uuid) byte = uuid;
    return device;
  }
  SpoolMaker& GpuDevice(uint16_t number, std::string_view name = "NVIDIA H100 80GB HBM3", uint8_t uuid = 1) {
    GpuDeviceRecord device = MakeDevice(uuid);
    device.name_length = static_cast<uint32_t>(name.size());
    device.visible_index = number;
    return Add(RecordKind::kGpuDevice, device, number, 0, name);
  }
  SpoolMaker& GpuContext(uint16_t device, uint32_t context) {
    GpuContextRecord record{};
    record.context = context;
    return Add(RecordKind::kGpuContext, record, device);
  }
  SpoolMaker& Kernel(uint16_t device, uint32_t stream, uint32_t name, uint64_t start, uint64_t end,
                     uint32_t correlation, uint8_t flags = 0) {
    GpuKernelRecord kernel{};
    kernel.start = start;
    kernel.end = end;
    kernel.correlation = correlation;
    kernel.context = 1;
    kernel.stream = stream;
    kernel.name = name;
    kernel.grid_x = 128;
    kernel.grid_y = kernel.grid_z = 1;
    kernel.block_x = 256;
    kernel.block_y = kernel.block_z = 1;
    kernel.registers = 64;
    kernel.static_shared_bytes = 8192;
    return Add(RecordKind::kGpuKernel, kernel, device, flags);
  }
  SpoolMaker& Copy(uint16_t device, uint32_t stream, GpuCopyKind kind, uint64_t bytes, uint64_t start, uint64_t end,
                   uint32_t correlation) {
    GpuCopyRecord copy{};
    copy.start = start;
    copy.end = end;
    copy.bytes = bytes;
    copy.correlation = correlation;
    copy.context = 1;
    copy.stream = stream;
    copy.copy_kind = kind;
    copy.source_kind = kind == GpuCopyKind::kHostToDevice ? 2 : 3;
    copy.destination_kind = kind == GpuCopyKind::kDeviceToHost ? 2 : 3;
    copy.asynchronous = 1;
    return Add(RecordKind::kGpuCopy, copy, device);
  }
  SpoolMaker& Api(uint16_t callback, int32_t tid, uint64_t start, uint64_t ns, uint32_t correlation,
                  bool driver = false, uint16_t result = 0) {
    GpuApiRecord api{};
    api.start = start;
    api.duration_and_result = ns << 16 | result;
    api.correlation = correlation;
    api.tid = tid;
    return Add(RecordKind::kGpuApi, api, callback,
               static_cast<uint8_t>((driver ? kRecordDriver : 0) | (result != 0 ? kRecordFailed : 0)));
  }
  SpoolMaker& GpuSpan(GpuSpanKind kind, uint32_t type, uint64_t start, uint64_t end, uint32_t correlation = 0,
                      uint32_t object = 0, uint32_t stream = 7, uint16_t device = 0) {
    GpuSpanRecord span{};
    span.start = start;
    span.end = end;
    span.correlation = correlation;
    span.context = 1;
    span.stream = stream;
    span.span_kind = kind;
    span.type = type;
    span.object = object;
    return Add(RecordKind::kGpuSpan, span, device);
  }
  SpoolMaker& GpuMemory(uint16_t device, GpuMemoryOperation operation, uint64_t address, uint64_t bytes, uint64_t time,
                        uint8_t kind = 3) {
    GpuMemoryRecord memory{};
    memory.time = time;
    memory.address = address;
    memory.bytes = bytes;
    memory.context = 1;
    memory.operation = operation;
    memory.memory_kind = kind;
    return Add(RecordKind::kGpuMemory, memory, device);
  }
  SpoolMaker& GraphNode(uint64_t ticks, uint64_t node, uint64_t original = 0) {
    GpuGraphNodeRecord made{};
    made.ticks = ticks;
    made.node = node;
    made.original = original;
    return Add(RecordKind::kGpuGraphNode, made);
  }
  SpoolMaker& GpuUnified(GpuUnifiedKind kind, uint16_t device, uint64_t value, uint64_t start, uint64_t end,
                         uint32_t cause = 0) {
    GpuUnifiedMemoryRecord unified{};
    unified.start = start;
    unified.end = end;
    unified.address = 0x7f0000010000;
    unified.value = value;
    unified.cause = cause;
    unified.unified_kind = kind;
    return Add(RecordKind::kGpuUnifiedMemory, unified, device);
  }
  SpoolMaker& OwnThread(uint64_t ticks, int32_t tid) {
    ThreadStartRecord start{};
    start.ticks = ticks;
    start.tid = tid;
    return Add(RecordKind::kThreadStart, start, 0, kRecordOwn);
  }

  // Adds a summary if the test sets one, as the launcher does for longer chunks.
  SpoolMaker& EndChunk() {
    chunk_.slots = static_cast<uint32_t>(slots_.size() / kSlotBytes);
    Frame frame{};
    std::string payload(reinterpret_cast<const char*>(&chunk_), sizeof(chunk_));
    payload.append(reinterpret_cast<const char*>(slots_.data()), slots_.size());
    frame.payload = payload;
    ChunkFact chunk{};
    uint64_t corrupt = 0;
    ChunkSummarizer summarizer(chunk_, chunk_.taken_ticks);
    ForEachRecord(frame, &chunk, &corrupt, [&](const RecordView& record) { summarizer.Take(record); });
    const bool whole = corrupt == 0 && summarizer.whole();
    if (whole) {
      ChunkSummary summary = summarizer.summary();
      summary.crc = SummaryCrc(summary);
      payload.append(reinterpret_cast<const char*>(&summary), sizeof(summary));
    }
    const auto size = static_cast<uint32_t>(payload.size());
    memcpy(frames_.Begin(FrameType::kChunk, chunk_segment_, size, whole ? kFrameSummary : 0), payload.data(), size);
    frames_.Seal();
    return *this;
  }
  SpoolMaker& Counters(uint32_t segment, uint32_t process, uint64_t ticks, int64_t live) {
    const CounterFact fact{ticks, process, 0, live};
    frames_.AppendFact(FrameType::kCounters, segment, fact);
    return *this;
  }

  // ---- Python stacks

  static std::string PythonCodeBytes(const PythonCodeFact& fact, std::string_view texts) {
    std::string payload(reinterpret_cast<const char*>(&fact), sizeof(fact));
    return payload.append(texts);
  }
  // Code of 3.11 with one instruction per line from the first line on: instruction 2 * n is line first + n.
  SpoolMaker& PythonCode(uint32_t segment, uint32_t process, uint32_t code, std::string_view name,
                         std::string_view file, int32_t first_line) {
    // Entries without columns, of one unit each; the line changes by 0, then by +1 each.
    const std::string table = std::string("\xe8\x00", 2) + "\xe8\x02\xe8\x02\xe8\x02";
    PythonCodeFact fact{process, code, first_line, 11, 0, 0, 0, 0, 0};
    fact.name_bytes = static_cast<uint32_t>(name.size());
    fact.file_bytes = static_cast<uint32_t>(file.size());
    fact.table_bytes = static_cast<uint32_t>(table.size());
    return Raw(FrameType::kPythonCode, segment, PythonCodeBytes(fact, std::string(name) + std::string(file) + table));
  }
  SpoolMaker& Notebook(uint32_t segment, uint32_t process, const std::string& directory) {
    const NotebookFact fact{process, static_cast<uint32_t>(directory.size())};
    const std::string payload(reinterpret_cast<const char*>(&fact), sizeof(fact));
    return Raw(FrameType::kNotebook, segment, payload + directory);
  }
  template <typename Fact, typename Row>
  SpoolMaker& PythonRows(FrameType type, uint32_t segment, uint32_t process, const std::vector<Row>& rows) {
    const Fact fact{process, static_cast<uint32_t>(rows.size())};
    std::string payload(reinterpret_cast<const char*>(&fact), sizeof(fact));
    for (const Row& row : rows) payload.append(reinterpret_cast<const char*>(&row), sizeof(row));
    return Raw(type, segment, payload);
  }
  SpoolMaker& PythonNodes(uint32_t segment, uint32_t process, const std::vector<PythonNode>& nodes) {
    return PythonRows<PythonStacksFact>(FrameType::kPythonStacks, segment, process, nodes);
  }
  SpoolMaker& PythonSamples(uint32_t segment, uint32_t process, const std::vector<PythonSample>& samples) {
    return PythonRows<PythonSamplesFact>(FrameType::kPythonSamples, segment, process, samples);
  }
  SpoolMaker& PythonCollecting(uint32_t segment, uint32_t process, const std::vector<PythonSample>& samples) {
    return PythonRows<PythonSamplesFact>(FrameType::kPythonCollecting, segment, process, samples);
  }
  SpoolMaker& BlockedCalls(uint32_t segment, uint32_t process, const std::vector<BlockedCallRow>& rows) {
    return PythonRows<ThreadUsageFact>(FrameType::kBlockedCalls, segment, process, rows);
  }
  SpoolMaker& ThreadBlocked(uint32_t segment, uint32_t process, const std::vector<ThreadBlockedRow>& rows) {
    return PythonRows<ThreadUsageFact>(FrameType::kThreadBlocked, segment, process, rows);
  }
  SpoolMaker& GilHolders(uint32_t segment, uint32_t process, const std::vector<GilHolderRow>& rows) {
    return PythonRows<ThreadUsageFact>(FrameType::kGilHolders, segment, process, rows);
  }
  SpoolMaker& Resident(uint32_t segment, uint32_t process, const std::vector<ResidentRow>& rows) {
    return PythonRows<ThreadUsageFact>(FrameType::kResidentMemory, segment, process, rows);
  }
  SpoolMaker& ThreadUsage(uint32_t segment, uint32_t process, const std::vector<ThreadUsageRow>& rows) {
    return PythonRows<ThreadUsageFact>(FrameType::kThreadUsage, segment, process, rows);
  }
  SpoolMaker& CpuLimits(uint32_t segment, const CpuLimitsFact& fact) {
    frames_.AppendFact(FrameType::kCpuLimits, segment, fact);
    return *this;
  }
  SpoolMaker& PythonStatus(uint32_t segment, uint32_t process, uint64_t ticks, PythonState state,
                           uint32_t interval_us = 10'000, std::string_view reason = {}) {
    PythonStatusFact fact{};
    fact.ticks = ticks;
    fact.process_serial = process;
    fact.minor = 11;
    fact.state = state;
    fact.interval_us = interval_us;
    std::string payload(reinterpret_cast<const char*>(&fact), sizeof(fact));
    return Raw(FrameType::kPythonStatus, segment, payload.append(reason));
  }

  // ---- native stacks

  SpoolMaker& NativeNodes(uint32_t segment, uint32_t process, const std::vector<NativeNode>& nodes) {
    return PythonRows<NativeStacksFact>(FrameType::kNativeStacks, segment, process, nodes);
  }
  SpoolMaker& NativeSamples(uint32_t segment, uint32_t process, const std::vector<NativeSample>& samples) {
    return PythonRows<NativeSamplesFact>(FrameType::kNativeSamples, segment, process, samples);
  }
  SpoolMaker& NativeStatus(uint32_t segment, const NativeStatusFact& fact, std::string_view reason = {}) {
    std::string payload(reinterpret_cast<const char*>(&fact), sizeof(fact));
    return Raw(FrameType::kNativeStatus, segment, payload.append(reason));
  }
  SpoolMaker& End(uint64_t ticks, int exit_code = 0, int exit_signal = 0) {
    const EndFact fact{ticks, exit_code, exit_signal, 1000, 2000};
    frames_.AppendFact(FrameType::kEnd, 0, fact);
    return *this;
  }

  // The content of the whole file.
  std::string Bytes() const {
    const SpoolHeader header = MakeSpoolHeader();
    std::string bytes(reinterpret_cast<const char*>(&header), sizeof(header));
    bytes.append(reinterpret_cast<const char*>(frames_.bytes().data()), frames_.size());
    return bytes;
  }
  absl::StatusOr<Timeline> Build(TimelineRequest request = {}) const {
    const TemporaryPath file("spool");
    file.Write(Bytes());
    request.spool = file.path();
    return BuildTimeline(request, [](uint64_t, uint64_t) {});
  }

  static constexpr const char* kSession =
      R"({"host":"node1","run":"2026_01_02_03_04_05","command":["python","train.py","--token","s3cret"],)"
      R"("families":63,"clock_cost_ns":15.0,"wait_threshold_ns":1000,"logdir":"/tmp/x","run_exclusive":true,)"
      R"("launcher_pid":1,"start_unix_ns":5,"max_profile_size":1000000,"also":["summary"]})";

 private:
  FrameBuffer frames_;
  uint32_t chunk_segment_ = 0;
  ChunkFact chunk_{};
  std::vector<uint8_t> slots_;
};

}  // namespace tbprof

#endif  // TBPROF_TESTS_UNIT_WRITER_SPOOL_MAKER_H_
