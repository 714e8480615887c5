// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/gpu_builder.h"

#include <algorithm>
#include <cstring>

#include "writer/base/clip.h"
#include "writer/base/saturating.h"
#include "writer/base/text.h"
#include "writer/base/utf8.h"
#include "writer/convert/gpu_names.h"
#include "writer/convert/gpu_occupancy.h"
#include "writer/convert/gpu_status.h"
#include "writer/symbols/demangle.h"

namespace tbprof {
namespace {

constexpr uint32_t kFurtherStreams = UINT32_MAX;  // the number of the line for further streams
constexpr size_t kMaxLaunches = 1u << 18;
constexpr size_t kMaxHostSpans = 1u << 20;
constexpr size_t kMaxKernelName = 2048;

}  // namespace

bool GpuBuilder::IsGpu(RecordKind kind) {
  return kind >= RecordKind::kGpuKernel && kind <= RecordKind::kGpuUnifiedMemory;
}

GpuBuilder::ProcessState& GpuBuilder::StateOf(const Identity& process) {
  if (last_state_ != nullptr && *last_process_ == process) return *last_state_;
  const auto [entry, added] = states_.try_emplace(process);
  if (added) {
    const auto gpu = facts_->gpus.find(process);
    const auto known = facts_->processes.find(process);
    entry->second.facts = gpu == facts_->gpus.end() ? nullptr : &gpu->second;
    entry->second.process = known == facts_->processes.end() ? nullptr : &known->second;
  }
  last_process_ = &entry->first;
  last_state_ = &entry->second;
  return entry->second;
}

void GpuBuilder::Take(const Identity& process, uint32_t owner, const RecordView& record) {
  ProcessState& state = StateOf(process);
  if (state.facts == nullptr) return;
  if (owner != kNoProcess) ++timeline_->processes[owner].gpu.records;
  switch (record.tag.kind) {
    case RecordKind::kGpuKernel:
      return TakeKernel(&state, owner, record);
    case RecordKind::kGpuCopy:
      return TakeCopy(&state, owner, record);
    case RecordKind::kGpuApi:
      return TakeApi(process, &state, owner, record);
    case RecordKind::kGpuSpan:
      return TakeSpan(&state, owner, record);
    case RecordKind::kGpuMemory: {
      GpuMemoryRecord memory;
      if (record.Read(&memory)) TakeMemory(&state, owner, memory, /*dropped=*/false);
      return;
    }
    case RecordKind::kGpuUnifiedMemory:
      return TakeUnifiedMemory(process, &state, owner, record);
    case RecordKind::kGpuClock: {
      GpuClockRecord pair;
      if (record.Read(&pair) && pair.ticks_after >= pair.ticks_before) {
        state.pairs_passed = state.facts->clock.PassPair(pair);
      }
      return;
    }
    default:
      return;
  }
}

GpuBuilder::Timing GpuBuilder::TimesOf(const ProcessState& state, uint64_t start_ns, uint64_t end_ns, bool may_be_open,
                                       Span* span) const {
  if (start_ns == 0) return Timing::kUntimed;
  if (end_ns == 0 ? !may_be_open : end_ns < start_ns) return Timing::kCorrupt;
  const GpuClockMap& clock = state.facts->clock;
  if (!clock.usable()) return Timing::kUntimed;
  const GpuTicks start = clock.ToTicks(start_ns, state.pairs_passed);
  const uint64_t begun = state.process != nullptr ? state.process->start_ticks : 0;
  if (IsFarBehind(start.ticks, facts_->last_ticks) ||
      (begun > kPlausibleTicks && start.ticks < begun - kPlausibleTicks)) {
    return Timing::kCorrupt;
  }
  span->start = start.ticks;
  span->uncertain = start.uncertain;
  if (end_ns == 0) {
    span->unfinished = true;
    span->end = window_.close;
    if (state.process != nullptr && state.process->end_ticks != 0) {
      span->end = std::min(span->end, state.process->end_ticks);
    }
    span->end = std::max(span->end, span->start + 1);
    return Timing::kGood;
  }
  const GpuTicks end = clock.ToTicks(end_ns, state.pairs_passed);
  span->uncertain |= end.uncertain;
  span->end = end.ticks;
  if (span->uncertain || span->end < span->start) {
    const double ticks = static_cast<double>(end_ns - start_ns) / facts_->clock.ns_per_tick();
    span->end = ticks < static_cast<double>(UINT64_MAX / 2 - span->start / 2)
                    ? span->start + static_cast<uint64_t>(ticks)
                    : UINT64_MAX;
  }
  if (IsFarBehind(span->end, facts_->last_ticks)) return Timing::kCorrupt;
  span->end = std::max(span->end, span->start + 1);
  return Timing::kGood;
}

uint32_t GpuBuilder::DeviceOf(ProcessState* state, uint16_t number) {
  const auto known = state->devices.find(number);
  if (known != state->devices.end()) return known->second;
  const auto facts = state->facts->devices.find(number);
  const uint32_t index = devices_.Find(number, facts == state->facts->devices.end() ? nullptr : &facts->second);
  if (index != kNoLine) state->devices.emplace(number, index);
  return index;
}

// Null: the program gave the stream no name.
const std::string* GpuBuilder::StreamName(const ProcessState& state, uint32_t device, uint32_t stream) {
  for (const auto& [number, index] : state.devices) {
    if (index != device) continue;
    const std::string* const name = state.facts->Name(GpuNameKind::kStream, StreamOnDevice(number, stream));
    if (name != nullptr) return name;
  }
  return state.facts->Name(GpuNameKind::kStream, stream);
}

uint32_t GpuBuilder::StreamOf(uint32_t owner, uint32_t device, uint32_t stream, const ProcessState& state) {
  const auto known = stream_ids_.find({uint64_t{owner} << 32 | stream, device});
  if (known != stream_ids_.end()) return known->second;
  if (timeline_->gpu_streams.size() >= kMaxStreams && stream != kFurtherStreams) {
    return StreamOf(owner, device, kFurtherStreams, state);
  }
  if (timeline_->gpu_streams.size() >= 2 * kMaxStreams) return kNoLine;
  const auto index = static_cast<uint32_t>(timeline_->gpu_streams.size());
  stream_ids_.emplace(std::make_pair(uint64_t{owner} << 32 | stream, device), index);
  GpuStream& line = timeline_->gpu_streams.emplace_back();
  line.device = device;
  line.process = owner;
  line.number = stream;
  if (const std::string* name = StreamName(state, device, stream)) {
    line.name = TruncateUtf8(PrintableUtf8(*name), 64);
  }
  const auto given = state.facts->streams.find(stream);
  if (given != state.facts->streams.end()) line.priority = given->second.priority;
  return index;
}

StringId GpuBuilder::KernelName(ProcessState* state, uint32_t id) {
  const auto known = state->names.find(id);
  if (known != state->names.end()) return known->second;
  const std::string* mangled = state->facts->Name(GpuNameKind::kKernel, id);
  if (mangled == nullptr) return timeline_->strings.Intern("kernel without a name");
  std::string shown = Demangle(*mangled);
  // The name of a template's kernel begins with the return type, where TensorBoard looks for `nccl`.
  if (shown.starts_with("void ") && IsCollective(std::string_view(shown).substr(5))) shown.erase(0, 5);
  shown = TruncateUtf8(shown, kMaxKernelName);
  const StringId name = timeline_->strings.Intern(shown);
  if (shown != *mangled) timeline_->mangled_names.try_emplace(name, timeline_->strings.Intern(*mangled));
  state->names.emplace(id, name);
  return name;
}

uint32_t GpuBuilder::LaunchOf(uint32_t device, const GpuKernelRecord& kernel) {
  if (timeline_->gpu_launches.empty()) timeline_->gpu_launches.emplace_back();
  const uint32_t numbers[] = {device,
                              kernel.grid_x,
                              kernel.grid_y,
                              kernel.grid_z,
                              kernel.block_x,
                              kernel.block_y,
                              kernel.block_z,
                              kernel.registers,
                              kernel.static_shared_bytes,
                              kernel.dynamic_shared_bytes,
                              kernel.local_bytes,
                              kernel.cluster_x,
                              kernel.cluster_y,
                              kernel.cluster_z,
                              kernel.launch_type};
  const std::string key(reinterpret_cast<const char*>(numbers), sizeof(numbers));
  const auto known = launch_ids_.find(key);
  if (known != launch_ids_.end()) return known->second;
  if (timeline_->gpu_launches.size() >= kMaxLaunches) return 0;
  const auto index = static_cast<uint32_t>(timeline_->gpu_launches.size());
  timeline_->gpu_launches.push_back(tbprof::LaunchOf(kernel, devices_.record(device)));
  launch_ids_.emplace(key, index);
  return index;
}

bool GpuBuilder::FindWork(ProcessState* state, uint16_t device, uint64_t start_ns, uint64_t end_ns, Work* work) {
  work->device = DeviceOf(state, device);
  work->ns = end_ns - start_ns;
  const Timing timing =
      work->device == kNoLine ? Timing::kCorrupt : TimesOf(*state, start_ns, end_ns, true, &work->span);
  if (timing == Timing::kCorrupt) {
    ++timeline_->corrupt_records;
    return false;
  }
  if (timing == Timing::kUntimed) {
    ++timeline_->gpu_devices[work->device].untimed;
    return false;
  }
  state->last_work_ticks = std::max(state->last_work_ticks, work->span.end);
  return InTotals(work->span);
}

int64_t GpuBuilder::CountWork(uint32_t owner, const Work& work) {
  const int64_t counted = CountedPs(work.span, work.ns);
  GpuDevice& device = timeline_->gpu_devices[work.device];
  device.unfinished += work.span.unfinished;
  device.uncertain += work.span.uncertain;
  if (owner != kNoProcess) AddSaturating(&device_ps_[owner], counted);
  devices_.AddBusy(work.device, std::max(work.span.start, window_.totals_open), std::min(work.span.end, window_.close));
  return counted;
}

bool GpuBuilder::Place(uint32_t owner, const Work& work, uint32_t flags, GpuEvent* event) const {
  const Span& span = work.span;
  if (span.end <= window_.open || owner == kNoProcess) return false;
  ClipTo(window_.open, window_.close, span.start, span.end, event);
  if (span.unfinished) event->flags |= GpuEvent::kUnfinished | GpuEvent::kClippedAtEnd;
  if (span.uncertain) event->flags |= GpuEvent::kUncertain;
  if ((flags & kRecordApproximate) != 0) event->flags |= GpuEvent::kApproximate;
  return true;
}

bool GpuBuilder::PlaceOnHost(uint32_t line, uint16_t type, const Span& span, RawEvent* event) {
  if (line == kNoLine || type == kNoType) {
    ++timeline_->corrupt_records;
    return false;
  }
  ++timeline_->records;
  ClipTo(window_.open, window_.close, span.start, span.end, event);
  event->type = type;
  return true;
}

int64_t GpuBuilder::CountedPs(const Span& span, uint64_t ns) const {
  if (!span.unfinished && span.start >= window_.totals_open && span.end <= window_.close) {
    int64_t ps = 0;
    return __builtin_mul_overflow(ns, 1000, &ps) ? INT64_MAX : ps;
  }
  const uint64_t start = std::max(span.start, window_.totals_open), end = std::min(span.end, window_.close);
  return end > start ? facts_->clock.DurationPs(end - start) : 0;
}

void GpuBuilder::CountWaits(ProcessState* state, uint32_t context, uint64_t calls, int64_t ps) {
  const auto known = state->facts->contexts.find(context);
  if (known == state->facts->contexts.end()) return;
  const uint32_t device = DeviceOf(state, known->second.device);
  if (device == kNoLine) return;
  AddSaturating(&timeline_->gpu_devices[device].waits, calls);
  AddSaturating(&timeline_->gpu_devices[device].waited_ps, ps);
}

void GpuBuilder::Keep(const ProcessState& state, uint32_t owner, const Work& work, uint32_t stream,
                      const GpuEvent& event) {
  const uint32_t line = StreamOf(owner, work.device, stream, state);
  if (line == kNoLine) return;
  ++timeline_->records;
  host_.events->KeepOnDevice(line, event);
}

void GpuBuilder::TakeKernel(ProcessState* state, uint32_t owner, const RecordView& record) {
  GpuKernelRecord kernel;
  Work work;
  if (!record.Read(&kernel)) return;
  state->in_flight.Work(kernel.correlation);
  if (!FindWork(state, record.tag.aux, kernel.start, kernel.end, &work)) return;
  const StringId name = KernelName(state, kernel.name);
  const int64_t counted = CountWork(owner, work);
  devices_.CountKernels(work.device, name, 1, counted, counted);
  GpuEvent event;
  if (!Place(owner, work, record.tag.flags, &event)) return;
  event.correlation = kernel.correlation;
  event.value = kernel.graph_node;
  event.graph = kernel.graph;
  event.name = name;
  event.launch = LaunchOf(work.device, kernel);
  Keep(*state, owner, work, kernel.stream, event);
}

void GpuBuilder::KeepHostSpan(const GpuHostSpan& span) {
  if (host_spans_.size() >= kMaxHostSpans) {
    ++timeline_->events_over_budget;
    return;
  }
  ++timeline_->records;
  host_spans_.push_back(span);
}

void GpuBuilder::TakeHostCopy(uint32_t owner, const Work& work, const GpuCopyRecord& copy) {
  devices_.CountCopies(work.device, static_cast<uint8_t>(copy.copy_kind), 1, copy.bytes, CountedPs(work.span, work.ns));
  if (work.span.end <= window_.open || owner == kNoProcess) return;
  KeepHostSpan({owner, work.span.start, work.span.end, copy.correlation, copy.stream, 0, /*is_copy=*/true, copy.bytes});
}

void GpuBuilder::TakeCopy(ProcessState* state, uint32_t owner, const RecordView& record) {
  GpuCopyRecord copy;
  Work work;
  if (!record.Read(&copy) || !FindWork(state, record.tag.aux, copy.start, copy.end, &work)) return;
  if (copy.copy_kind == GpuCopyKind::kHostToHost) return TakeHostCopy(owner, work, copy);
  devices_.CountCopies(work.device, static_cast<uint8_t>(copy.copy_kind), 1, copy.bytes, CountWork(owner, work));
  GpuEvent event;
  if (!Place(owner, work, record.tag.flags, &event)) return;
  event.kind = copy.copy_kind == GpuCopyKind::kSet ? GpuEventKind::kSet : GpuEventKind::kCopy;
  event.correlation = copy.correlation;
  event.value = copy.bytes;
  event.graph = copy.graph;
  event.detail = copy.value;
  event.copy_kind = static_cast<uint8_t>(copy.copy_kind);
  event.source_kind = copy.source_kind;
  event.destination_kind = copy.destination_kind;
  event.asynchronous = copy.asynchronous;
  Keep(*state, owner, work, copy.stream, event);
}

uint16_t GpuBuilder::CallType(ProcessState* state, uint16_t callback, bool driver) {
  uint16_t& type = state->call_types.try_emplace(callback | uint32_t{driver} << 16, kNoType).first->second;
  if (type == kNoType) {
    const std::string* name =
        state->facts->Name(driver ? GpuNameKind::kDriverCallback : GpuNameKind::kRuntimeCallback, callback);
    type = host_.types->Find(name != nullptr ? TruncateUtf8(PrintableUtf8(WithoutVersion(*name)), 128)
                                             : StrCat("CUDA ", driver ? "driver" : "runtime", " call ", callback),
                             EventFamily::kGpu, ObjectKind::kNone, ValueKind::kCorrelation);
  }
  return type;
}

bool GpuBuilder::IsLaunch(uint16_t type) const {
  const std::string& name = timeline_->types[type].name;
  return name.find("Launch") != std::string::npos && name.find("HostFunc") == std::string::npos;
}

void GpuBuilder::CountCalls(const Identity& process, uint32_t owner, uint16_t type, bool is_launch, uint64_t calls,
                            uint64_t ticks, uint64_t longest) {
  host_.totals->Count(process, owner, type, 0, {calls, ticks, longest});
  // A launch of the runtime does not count again as one of the driver: CUPTI gives no records of calls that the runtime
  // makes.
  if (is_launch && owner != kNoProcess) AddSaturating(&timeline_->processes[owner].gpu.launches, calls);
}

void GpuBuilder::TakeApi(const Identity& process, ProcessState* state, uint32_t owner, const RecordView& record) {
  GpuApiRecord api;
  if (!record.Read(&api)) return;
  const bool driver = (record.tag.flags & kRecordDriver) != 0;
  const uint64_t ns = api.duration_and_result >> 16;
  Span span;
  const Timing timing =
      api.start > UINT64_MAX - ns ? Timing::kCorrupt : TimesOf(*state, api.start, api.start + ns, false, &span);
  const uint16_t type = CallType(state, record.tag.aux, driver);
  if (timing != Timing::kGood || type == kNoType) {
    ++timeline_->corrupt_records;
    return;
  }
  state->last_call_ticks = std::max(state->last_call_ticks, span.end);
  const bool is_launch = IsLaunch(type);
  if (is_launch && (record.tag.flags & kRecordFailed) == 0) state->in_flight.Launch(api.correlation, span.start);
  if (!InTotals(span)) return;
  const uint64_t counted = std::min(span.end, window_.close) - std::max(span.start, window_.totals_open);
  CountCalls(process, owner, type, is_launch, 1, counted, counted);
  if (span.end <= window_.open || owner == kNoProcess) return;
  const uint32_t line = host_.model->LineOfThread(owner, api.tid, span.start);
  RawEvent event;
  if (!PlaceOnHost(line, type, span, &event)) return;
  // CorrelateGpu replaces this value by the id that is unique in the file.
  event.value = static_cast<int64_t>(uint64_t{driver} << 32 | api.correlation);
  if ((record.tag.flags & kRecordFailed) != 0) {
    event.flags |= Event::kFailed;
    event.error = static_cast<int32_t>(api.duration_and_result & 0xFFFF);
  }
  host_.events->Keep(line, event);
}

void GpuBuilder::TakeGraph(ProcessState* state, uint32_t owner, const RecordView& record, const GpuSpanRecord& graph) {
  Work work;
  state->in_flight.Work(graph.correlation);
  if (!FindWork(state, record.tag.aux, graph.start, graph.end, &work)) return;
  ++timeline_->gpu_devices[work.device].graphs;
  CountWork(owner, work);
  GpuEvent event;
  if (!Place(owner, work, record.tag.flags, &event)) return;
  event.kind = GpuEventKind::kGraph;
  event.correlation = graph.correlation;
  event.graph = graph.object;
  Keep(*state, owner, work, graph.stream, event);
}

void GpuBuilder::TakeSpan(ProcessState* state, uint32_t owner, const RecordView& record) {
  GpuSpanRecord given;
  if (!record.Read(&given)) return;
  if (given.span_kind == GpuSpanKind::kGraph) return TakeGraph(state, owner, record, given);
  Span span;
  const Timing timing = TimesOf(*state, given.start, given.end, false, &span);
  if (timing == Timing::kCorrupt) {
    ++timeline_->corrupt_records;
    return;
  }
  if (timing == Timing::kUntimed || !InTotals(span)) return;
  switch (given.span_kind) {
    case GpuSpanKind::kSynchronization: {
      if (IsHostWait(given.type)) CountWaits(state, given.context, 1, CountedPs(span, given.end - given.start));
      if (span.end <= window_.open || owner == kNoProcess) return;
      return KeepHostSpan({owner, span.start, span.end, given.correlation, given.stream, given.type});
    }
    case GpuSpanKind::kOverhead: {
      if (span.end <= window_.open || owner == kNoProcess) return;
      const uint32_t line = host_.model->LineOf(
          owner, given.object == 0 ? std::string("CUPTI overhead") : StrCat("CUPTI overhead/", given.object));
      const uint16_t type =
          host_.types->Find(OverheadName(given.type), EventFamily::kGpu, ObjectKind::kNone, ValueKind::kNone);
      RawEvent event;
      if (!PlaceOnHost(line, type, span, &event)) return;
      host_.events->Keep(line, event);
      return;
    }
    case GpuSpanKind::kGraph:
      break;
  }
  ++timeline_->corrupt_records;
}

void GpuBuilder::TakeTotal(const Identity& process, uint32_t owner, const GpuTotalRow& row) {
  ProcessState& state = StateOf(process);
  if (state.facts == nullptr) return;
  const double most_ns =
      static_cast<double>(window_.close - window_.totals_open + kPlausibleTicks) * facts_->clock.ns_per_tick();
  int64_t ps = 0;
  const bool times_fit = row.kind == GpuTotalKind::kBusy
                             ? static_cast<double>(row.ns) <= most_ns
                             : static_cast<double>(row.longest) <= most_ns &&
                                   static_cast<double>(row.ns) <= most_ns * static_cast<double>(row.calls);
  // A row of unified memory has no device if the host had the fault.
  const bool on_device =
      row.kind != GpuTotalKind::kCall && row.kind != GpuTotalKind::kWait && row.kind != GpuTotalKind::kUnifiedMemory;
  const uint32_t device = on_device ? DeviceOf(&state, row.device) : kNoLine;
  if (!times_fit || __builtin_mul_overflow(row.ns, 1000, &ps) || (on_device && device == kNoLine)) {
    ++timeline_->corrupt_records;
    return;
  }
  if (on_device) {
    AddSaturating(&timeline_->gpu_devices[device].untimed, row.untimed);
    AddSaturating(&timeline_->gpu_devices[device].unfinished, row.unfinished);
    const bool by_host = row.kind == GpuTotalKind::kCopy && row.id == static_cast<uint32_t>(GpuCopyKind::kHostToHost);
    if (owner != kNoProcess && row.kind != GpuTotalKind::kBusy && !by_host) AddSaturating(&device_ps_[owner], ps);
  }
  switch (row.kind) {
    case GpuTotalKind::kKernel:
      if (row.calls == 0) return;
      return devices_.CountKernels(
          device, row.id == 0 ? timeline_->strings.Intern("other kernels") : KernelName(&state, row.id), row.calls, ps,
          static_cast<int64_t>(row.longest * 1000));
    case GpuTotalKind::kCopy:
      if (row.calls == 0) return;
      return devices_.CountCopies(device, static_cast<uint8_t>(row.id), row.calls, row.bytes, ps);
    case GpuTotalKind::kGraph:
      AddSaturating(&timeline_->gpu_devices[device].graphs, row.calls);
      return;
    case GpuTotalKind::kCall: {
      const bool driver = (row.id >> 16) != 0;
      const uint16_t type = CallType(&state, static_cast<uint16_t>(row.id), driver);
      if (type == kNoType) break;
      const auto ticks = [&](uint64_t ns) { return facts_->clock.Ticks(static_cast<double>(ns)); };
      return CountCalls(process, owner, type, IsLaunch(type), row.calls, ticks(row.ns), ticks(row.longest));
    }
    case GpuTotalKind::kWait:
      return CountWaits(&state, row.id, row.calls, ps);
    case GpuTotalKind::kUnifiedMemory:
      if (row.id > UINT8_MAX) break;
      return CountUnifiedMemory(&state, owner, row.device, static_cast<GpuUnifiedKind>(row.id), row.calls, row.bytes,
                                ps);
    case GpuTotalKind::kBusy:
      devices_.AddDroppedBusy(device, ps);
      return;
  }
  ++timeline_->corrupt_records;
}

void GpuBuilder::TakeDroppedMemory(const Identity& process, uint32_t owner, const GpuMemoryRecord& memory) {
  ProcessState& state = StateOf(process);
  if (state.facts != nullptr) TakeMemory(&state, owner, memory, /*dropped=*/true);
}

void GpuBuilder::TakeMemory(ProcessState* state, uint32_t owner, const GpuMemoryRecord& memory, bool dropped) {
  if (!IsDeviceMemory(memory.memory_kind) || owner == kNoProcess) return;
  const uint32_t device = DeviceOf(state, memory.tag.aux);
  Span span;
  const bool known =
      memory.operation == GpuMemoryOperation::kAllocation || memory.operation == GpuMemoryOperation::kRelease;
  if (device == kNoLine || !known || TimesOf(*state, memory.time, memory.time, false, &span) != Timing::kGood) {
    ++timeline_->corrupt_records;
    return;
  }
  if (span.start >= window_.close) return;
  if (!dropped && span.start >= window_.open) ++timeline_->records;
  if (!devices_.memory(device).Add(
          {span.start, memory.address, memory.bytes, owner, memory.operation == GpuMemoryOperation::kRelease})) {
    ++timeline_->events_over_budget;
  }
}

void GpuBuilder::CountUnifiedMemory(ProcessState* state, uint32_t owner, uint16_t device, GpuUnifiedKind kind,
                                    uint64_t calls, uint64_t value, int64_t ps) {
  if (device == kNoDevice) {
    if (owner != kNoProcess && kind == GpuUnifiedKind::kHostFault) {
      AddSaturating(&timeline_->processes[owner].gpu.host_page_faults, calls);
    }
    return;
  }
  const uint32_t index = DeviceOf(state, device);
  if (index == kNoLine || FindUnifiedMemoryKind(kind) == nullptr) {
    ++timeline_->corrupt_records;
    return;
  }
  devices_.CountUnified(index, kind, calls, value, ps);
}

// Drawn on host lines: TensorBoard takes everything on a device's line for the device's work.
void GpuBuilder::TakeUnifiedMemory(const Identity& process, ProcessState* state, uint32_t owner,
                                   const RecordView& record) {
  GpuUnifiedMemoryRecord given;
  if (!record.Read(&given)) return;
  const UnifiedMemoryKind* const kind = FindUnifiedMemoryKind(given.unified_kind);
  Span span;
  const bool instant = given.end == 0;
  const Timing timing = TimesOf(*state, given.start, instant ? given.start : given.end, false, &span);
  if (timing == Timing::kCorrupt || kind == nullptr) {
    ++timeline_->corrupt_records;
    return;
  }
  if (timing == Timing::kUntimed || !InTotals(span)) return;
  const bool has_sum = given.unified_kind != GpuUnifiedKind::kHostFault;
  CountUnifiedMemory(state, owner, record.tag.aux, given.unified_kind, 1, has_sum ? given.value : 0,
                     instant ? 0 : CountedPs(span, given.end - given.start));
  if (span.end <= window_.open || owner == kNoProcess) return;
  const std::string line_name = record.tag.aux == kNoDevice
                                    ? StrCat("unified memory/host ", kind->line)
                                    : StrCat("unified memory/", kind->line, " GPU ", record.tag.aux);
  const uint32_t line = host_.model->LineOf(owner, line_name);
  const uint16_t type = host_.types->Find(kind->name, EventFamily::kGpu, ObjectKind::kAddress,
                                          kind->is_bytes ? ValueKind::kBytes : ValueKind::kNone);
  RawEvent event;
  if (!PlaceOnHost(line, type, span, &event)) return;
  if (instant) event.duration = 0;
  event.object = given.address;
  if (kind->is_bytes) event.value = static_cast<int64_t>(std::min<uint64_t>(given.value, INT64_MAX));
  std::string detail;
  if (given.unified_kind == GpuUnifiedKind::kDeviceFault) {
    detail = StrCat(given.value, given.value == 1 ? " fault" : " faults", " of this page");
  }
  const std::string_view cause = UnifiedMemoryCause(given.unified_kind, given.cause);
  if (!cause.empty()) detail += StrCat(detail.empty() ? "" : ", ", cause);
  event.detail = timeline_->strings.Intern(detail);
  // Names are looked up for the instruction before a return address.
  if (given.unified_kind == GpuUnifiedKind::kHostFault && given.value != 0) {
    event.site = host_.totals->SiteOf(process, type, given.value + 1);
  }
  host_.events->Keep(line, event);
}

void GpuBuilder::Finish() {
  CorrelateGpu(host_spans_, window_, host_, timeline_);
  host_spans_ = {};
}

void GpuBuilder::FinishTimes() {
  for (GpuStream& stream : timeline_->gpu_streams) {
    for (GpuEvent& event : stream.events) {
      const auto start = static_cast<uint64_t>(event.start_ps);
      const auto end = start + static_cast<uint64_t>(event.duration_ps);
      event.start_ps = PsInWindow(*facts_, *timeline_, start);
      event.duration_ps = PsInWindow(*facts_, *timeline_, end) - event.start_ps;
      // Readers do not take an event without a length for a kernel.
      if (event.duration_ps > 0) continue;
      event.start_ps = std::min(event.start_ps, timeline_->duration_ps - 1);
      event.duration_ps = 1;
    }
  }
  SplitGpuLanes(timeline_);
  devices_.Finish(window_);
  NumberGpuDevices(devices_.Places(), timeline_);
}

void GpuBuilder::AddDiagnostics(const std::map<Identity, uint32_t>& index) {
  std::map<Identity, GpuActivity> activity;
  const uint64_t second = facts_->clock.Ticks(1e9);
  for (const auto& [identity, state] : states_) {
    const uint64_t since = state.last_call_ticks > second ? state.last_call_ticks - second : 0;
    activity[identity] = {state.last_call_ticks, state.last_work_ticks, state.in_flight.EarliestTicks(since),
                          !state.devices.empty()};
  }
  AddGpuStatus(*facts_, window_, activity, index, host_.modules, timeline_);
}

}  // namespace tbprof
