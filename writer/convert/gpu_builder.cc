// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/gpu_builder.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "absl/container/flat_hash_set.h"
#include "writer/base/clip.h"
#include "writer/base/nearly_sorted.h"
#include "writer/base/summary_format.h"
#include "writer/base/text.h"
#include "writer/base/utf8.h"
#include "writer/convert/gpu_gaps.h"
#include "writer/convert/gpu_occupancy.h"
#include "writer/symbols/symbolize.h"

namespace tbprof {
namespace {

constexpr size_t kMaxDevices = 400;  // the viewer collapses numbers from 500 up
constexpr size_t kMaxStreams = 4096;
constexpr uint32_t kFurtherStreams = UINT32_MAX;  // the number of the line for what is beyond
constexpr size_t kMaxLanes = 32;                  // of a stream
constexpr size_t kMaxLines = 4 * kMaxStreams;
constexpr size_t kMaxLaunches = 1u << 18;
constexpr size_t kMaxSyncs = 1u << 20;
constexpr size_t kMaxKernelName = 2048;
constexpr size_t kMaxCounterSamples = 4000;
constexpr uint16_t kNoType = 65535;
constexpr size_t kMaxTriedShown = 3;
constexpr int64_t kPsPerMs = 1'000'000'000;
constexpr double kNotableErrorUs = 50;
constexpr double kExitMs = 200;
// Why recording paused.
constexpr std::string_view kEnd = "end";  // nothing is missing
constexpr std::string_view kProgram = "program:";

void AddTo(int64_t* sum, int64_t more) {
  if (__builtin_add_overflow(*sum, more, sum)) *sum = INT64_MAX;
}
void AddTo(uint64_t* sum, uint64_t more) {
  if (__builtin_add_overflow(*sum, more, sum)) *sum = UINT64_MAX;
}

// `cudaLaunchKernel_v7000` to `cudaLaunchKernel`: the number is the version of the callback's parameters.
std::string WithoutVersion(std::string_view name) {
  const size_t mark = name.rfind("_v");
  if (mark == std::string_view::npos || mark == 0 || mark + 2 == name.size()) return std::string(name);
  const std::string_view digits = name.substr(mark + 2);
  // The driver's `cuMemAlloc_v2` is the function's own name.
  if (digits.size() < 4 || digits.find_first_not_of("0123456789") != std::string_view::npos) return std::string(name);
  return std::string(name.substr(0, mark));
}

std::string_view SynchronizationName(uint32_t type) {
  switch (type) {
    case 1:
      return "event synchronization";
    case 2:
      return "stream wait for event";
    case 3:
      return "stream synchronization";
    case 4:
      return "context synchronization";
    default:
      return "synchronization";
  }
}

std::string_view OverheadName(uint32_t type) {
  switch (type) {
    case 1:
      return "driver compiler";
    case 1u << 16:
      return "CUPTI buffer flush";
    case 2u << 16:
      return "CUPTI instrumentation";
    case 3u << 16:
      return "CUPTI resource";
    case 4u << 16:
      return "module loading";
    case 5u << 16:
      return "lazy function loading";
    case 6u << 16:
      return "command buffer full";
    case 7u << 16:
      return "CUPTI buffer request";
    case 8u << 16:
      return "unified memory initialization";
    default:
      return "overhead";
  }
}

// What CUPTI tells of unified memory. The names are those of CUDA's own tools; `line`: where it is drawn.
struct UnifiedMemoryKind {
  GpuUnifiedKind kind;
  std::string_view name, line;
  bool is_bytes;  // its value
};
constexpr UnifiedMemoryKind kUnifiedMemoryKinds[] = {
    {GpuUnifiedKind::kToDevice, "unified memory HtoD", "to", true},
    {GpuUnifiedKind::kToHost, "unified memory DtoH", "from", true},
    {GpuUnifiedKind::kHostFault, "CPU page fault", "faults", false},
    {GpuUnifiedKind::kDeviceFault, "GPU page fault", "faults of", false},
    {GpuUnifiedKind::kThrashing, "unified memory thrashing", "thrashing", true},
    {GpuUnifiedKind::kThrottling, "unified memory throttling", "throttling", false},
    {GpuUnifiedKind::kRemoteMap, "unified memory remote map", "remote maps", true},
    {GpuUnifiedKind::kBetweenDevices, "unified memory DtoD", "from another to", true},
};

const UnifiedMemoryKind* FindUnifiedMemoryKind(GpuUnifiedKind kind) {
  for (const UnifiedMemoryKind& known : kUnifiedMemoryKinds) {
    if (known.kind == kind) return &known;
  }
  return nullptr;
}

// CUpti_ActivityUnifiedMemoryMigrationCause, ...AccessType, ...RemoteMapCause.
std::string_view UnifiedMemoryCause(GpuUnifiedKind kind, uint32_t cause) {
  static constexpr std::string_view kMigrations[] = {"",
                                                     "asked for by the program",
                                                     "page fault",
                                                     "fetched ahead by the driver",
                                                     "evicted for want of room",
                                                     "accessed often"};
  static constexpr std::string_view kAccesses[] = {"", "read", "write", "atomic", "prefetch"};
  static constexpr std::string_view kMaps[] = {"",          "coherence",     "against thrashing",
                                               "by policy", "out of memory", "evicted"};
  const auto pick = [cause](const auto& names) { return cause < std::size(names) ? names[cause] : std::string_view(); };
  switch (kind) {
    case GpuUnifiedKind::kToDevice:
    case GpuUnifiedKind::kToHost:
    case GpuUnifiedKind::kBetweenDevices:
      return pick(kMigrations);
    case GpuUnifiedKind::kDeviceFault:
    case GpuUnifiedKind::kHostFault:
      return pick(kAccesses);
    case GpuUnifiedKind::kRemoteMap:
      return pick(kMaps);
    default:
      return "";
  }
}

std::string Hexadecimal(const uint8_t* bytes, size_t size) {
  std::string text;
  for (size_t i = 0; i < size; ++i) {
    text += "0123456789abcdef"[bytes[i] >> 4];
    text += "0123456789abcdef"[bytes[i] & 15];
  }
  return text;
}

}  // namespace

std::string_view GpuRemedy(std::string_view cause) {
  static constexpr struct {
    std::string_view word, remedy;
  } kRemedies[] = {
      {"INSUFFICIENT_PRIVILEGES",
       "allow it with the driver's option NVreg_RestrictProfilingToAdminUsers=0, or CAP_SYS_ADMIN"},
      {"MULTIPLE_SUBSCRIBERS", "end that profiler, or run without tbprof"},
      {"MAX_LIMIT_REACHED", "end that profiler, or run without tbprof"},
      {"NOT_INITIALIZED", "CUPTI is newer than the driver: install the one of the driver's CUDA, or a newer driver"},
      {"CUPTI_ERROR_UNKNOWN", "see what nvidia-smi and `tbprof doctor` say"},
      {"no usable CUPTI",
       "install CUPTI, e.g. pip install nvidia-cuda-cupti (nvidia-cuda-cupti-cu12 for CUDA 12), or set CUDA_HOME"},
  };
  for (const auto& row : kRemedies) {
    if (cause.find(row.word) != std::string_view::npos) return row.remedy;
  }
  return "";
}

std::string_view GpuCopyName(uint8_t copy_kind) {
  // Only names that begin with one of three are transfers to TensorBoard; all else counts as computing.
  switch (copy_kind) {
    case 1:
      return "MemcpyHToD";
    case 2:
      return "MemcpyDToH";
    case 3:
      return "MemcpyHToD (to array)";
    case 4:
      return "MemcpyDToH (from array)";
    case 5:
      return "MemcpyDToD (array to array)";
    case 6:
      return "MemcpyDToD (from array)";
    case 7:
      return "MemcpyDToD (to array)";
    case 8:
      return "MemcpyDToD";
    case 9:
      return "MemcpyHToH";
    case 10:
      return "MemcpyDToD (P2P)";
    case 255:
      return "Memset";
    default:
      return "Memcpy (unknown kind)";
  }
}

bool IsCollective(std::string_view kernel) { return kernel.starts_with("nccl") || kernel.starts_with("Nccl"); }

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
      return TakeSpan(process, &state, owner, record);
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
  const GpuTime start = clock.ToTicks(start_ns, state.pairs_passed);
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
  const GpuTime end = clock.ToTicks(end_ns, state.pairs_passed);
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
  const GpuDeviceFacts* said = facts == state->facts->devices.end() ? nullptr : &facts->second;
  // CUDA_VISIBLE_DEVICES gives two processes the same number for different devices, and the other way round.
  const std::string key = said != nullptr && said->has_uuid()
                              ? Hexadecimal(said->record.uuid, sizeof(said->record.uuid))
                              : StrCat("number ", number);
  const auto same = std::find(device_keys_.begin(), device_keys_.end(), key);
  auto index = static_cast<uint32_t>(same - device_keys_.begin());
  if (same == device_keys_.end()) {
    if (device_keys_.size() >= kMaxDevices) return kNoLine;
    device_keys_.push_back(key);
    device_records_.emplace_back();
    device_numbers_.push_back(number);
    busy_.emplace_back();
    dropped_busy_ps_.push_back(0);
    memory_.emplace_back();
    timeline_->gpu_devices.emplace_back();
  }
  GpuDevice& device = timeline_->gpu_devices[index];
  if (said != nullptr && !device.has_facts) {
    const GpuDeviceRecord& record = said->record;
    device_records_[index] = record;
    device.has_facts = true;
    device.name = TruncateUtf8(PrintableUtf8(said->name), 128);
    if (said->has_uuid()) device.uuid = key;
    device.is_partition = (record.flags & 1) != 0;
    device.memory_bytes = record.memory_bytes;
    if (__builtin_mul_overflow(record.memory_bandwidth, uint64_t{1000}, &device.memory_bandwidth)) {
      device.memory_bandwidth = 0;
    }
    device.core_clock_khz = record.core_clock_khz;
    device.multiprocessors = record.multiprocessors;
    device.compute_major = record.compute_major;
    device.compute_minor = record.compute_minor;
  }
  state->devices.emplace(number, index);
  return index;
}

// Null: the program gave it none.
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
  const auto said = state.facts->streams.find(stream);
  if (said != state.facts->streams.end()) line.priority = said->second.priority;
  return index;
}

StringId GpuBuilder::KernelName(ProcessState* state, uint32_t id) {
  const auto known = state->names.find(id);
  if (known != state->names.end()) return known->second;
  const std::string* mangled = state->facts->Name(GpuNameKind::kKernel, id);
  if (mangled == nullptr) return timeline_->strings.Intern("kernel without a name");
  std::string shown = Demangle(*mangled);
  // A template's return type stands before its name, where TensorBoard looks for `nccl`.
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
  GpuLaunch launch;
  const auto set = [](uint32_t* to, uint32_t x, uint32_t y, uint32_t z) { to[0] = x, to[1] = y, to[2] = z; };
  set(launch.grid, kernel.grid_x, kernel.grid_y, kernel.grid_z);
  set(launch.block, kernel.block_x, kernel.block_y, kernel.block_z);
  set(launch.cluster, kernel.cluster_x, kernel.cluster_y, kernel.cluster_z);
  launch.registers = kernel.registers;
  launch.static_shared_bytes = kernel.static_shared_bytes;
  launch.dynamic_shared_bytes = kernel.dynamic_shared_bytes;
  launch.local_bytes = kernel.local_bytes;
  launch.cooperative = kernel.launch_type != 0;
  launch.occupancy = Occupancy(device_records_[device], launch);
  const auto index = static_cast<uint32_t>(timeline_->gpu_launches.size());
  timeline_->gpu_launches.push_back(launch);
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
  if (owner != kNoProcess) AddTo(&device_ps_[owner], counted);
  busy_[work.device].Add(std::max(work.span.start, window_.totals_open), std::min(work.span.end, window_.close));
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

bool GpuBuilder::PlaceOnHost(uint32_t line, uint16_t type, const Span& span, Event* event) {
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

void GpuBuilder::CountKernels(uint32_t device, StringId name, uint64_t calls, int64_t ps, int64_t longest_ps) {
  GpuKernelTotal& total = kernel_totals_[{device, name}];
  total.name = name;
  AddTo(&total.calls, calls);
  AddTo(&total.total_ps, ps);
  total.longest_ps = std::max(total.longest_ps, longest_ps);
  GpuDevice& of = timeline_->gpu_devices[device];
  AddTo(&of.kernels, calls);
  AddTo(&of.kernel_ps, ps);
  if (IsCollective(timeline_->strings.Get(name))) AddTo(&of.collective_ps, ps);
}

void GpuBuilder::CountCopies(uint32_t device, uint8_t copy_kind, uint64_t calls, uint64_t bytes, int64_t ps) {
  GpuCopyTotal& total = copy_totals_[{device, copy_kind}];
  AddTo(&total.calls, calls);
  AddTo(&total.bytes, bytes);
  AddTo(&total.total_ps, ps);
}

void GpuBuilder::CountWaits(ProcessState* state, uint32_t context, uint64_t calls, int64_t ps) {
  const auto known = state->facts->contexts.find(context);
  if (known == state->facts->contexts.end()) return;
  const uint32_t device = DeviceOf(state, known->second.device);
  if (device == kNoLine) return;
  AddTo(&timeline_->gpu_devices[device].waits, calls);
  AddTo(&timeline_->gpu_devices[device].waited_ps, ps);
}

void GpuBuilder::Keep(const ProcessState& state, uint32_t owner, const Work& work, uint32_t stream,
                      const GpuEvent& event) {
  const uint32_t line = StreamOf(owner, work.device, stream, state);
  if (line == kNoLine) return;
  ++timeline_->records;
  if (!cut_.Keeps(static_cast<uint64_t>(event.duration_ps), static_cast<uint64_t>(event.start_ps))) {
    ++timeline_->events_over_budget;
    return;
  }
  timeline_->gpu_streams[line].events.push_back(event);
  ++kept_;
  host_->DeviceEventKept();
}

LengthCut GpuBuilder::CutTo(uint64_t most) {
  LengthHistogram histogram;
  for (const GpuStream& stream : timeline_->gpu_streams) {
    for (const GpuEvent& event : stream.events) histogram.Add(static_cast<uint64_t>(event.duration_ps), 1);
  }
  cut_ = histogram.CutTo(most, cut_);
  kept_ = 0;
  for (GpuStream& stream : timeline_->gpu_streams) {
    timeline_->events_over_budget += std::erase_if(stream.events, [&](const GpuEvent& event) {
      return !cut_.Keeps(static_cast<uint64_t>(event.duration_ps), static_cast<uint64_t>(event.start_ps));
    });
    kept_ += stream.events.size();
  }
  return cut_;
}

void GpuBuilder::TakeKernel(ProcessState* state, uint32_t owner, const RecordView& record) {
  GpuKernelRecord kernel;
  Work work;
  if (!record.Read(&kernel) || !FindWork(state, record.tag.aux, kernel.start, kernel.end, &work)) return;
  const StringId name = KernelName(state, kernel.name);
  const int64_t counted = CountWork(owner, work);
  CountKernels(work.device, name, 1, counted, counted);
  GpuEvent event;
  if (!Place(owner, work, record.tag.flags, &event)) return;
  event.correlation = kernel.correlation;
  event.value = kernel.graph_node;
  event.graph = kernel.graph;
  event.name = name;
  event.launch = LaunchOf(work.device, kernel);
  Keep(*state, owner, work, kernel.stream, event);
}

void GpuBuilder::TakeCopy(ProcessState* state, uint32_t owner, const RecordView& record) {
  GpuCopyRecord copy;
  Work work;
  if (!record.Read(&copy) || !FindWork(state, record.tag.aux, copy.start, copy.end, &work)) return;
  CountCopies(work.device, static_cast<uint8_t>(copy.copy_kind), 1, copy.bytes, CountWork(owner, work));
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
    type = host_->TypeOf(name != nullptr ? TruncateUtf8(PrintableUtf8(WithoutVersion(*name)), 128)
                                         : StrCat("CUDA ", driver ? "driver" : "runtime", " call ", callback),
                         ObjectKind::kNone, ValueKind::kCorrelation);
  }
  return type;
}

void GpuBuilder::CountCalls(const Identity& process, ProcessState* state, uint32_t owner, uint16_t type, bool driver,
                            uint64_t calls, uint64_t ticks, uint64_t longest) {
  host_->CountCalls(process, owner, type, calls, ticks, longest);
  const std::string& name = timeline_->types[type].name;
  if (name.find("Launch") == std::string::npos || name.find("HostFunc") != std::string::npos) return;
  // Nearly each launch of the runtime is one of the driver, too.
  AddTo(driver ? &state->driver_launches : &state->runtime_launches, calls);
  if (owner == kNoProcess) return;
  timeline_->processes[owner].gpu.launches = std::max(state->driver_launches, state->runtime_launches);
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
  if (!InTotals(span)) return;
  const uint64_t counted = std::min(span.end, window_.close) - std::max(span.start, window_.totals_open);
  CountCalls(process, state, owner, type, driver, 1, counted, counted);
  if (span.end <= window_.open || owner == kNoProcess) return;
  const uint32_t line = host_->ThreadOf(process, owner, api.tid, span.start);
  Event event;
  if (!PlaceOnHost(line, type, span, &event)) return;
  // What Correlate needs; it leaves the id that is unique in the file.
  event.value = static_cast<int64_t>(uint64_t{driver} << 32 | api.correlation);
  if ((record.tag.flags & kRecordFailed) != 0) {
    event.flags |= Event::kFailed;
    event.error = static_cast<int32_t>(api.duration_and_result & 0xFFFF);
  }
  host_->KeepCall(line, event);
}

void GpuBuilder::TakeGraph(ProcessState* state, uint32_t owner, const RecordView& record, const GpuSpanRecord& graph) {
  Work work;
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

void GpuBuilder::TakeSpan(const Identity& process, ProcessState* state, uint32_t owner, const RecordView& record) {
  GpuSpanRecord said;
  if (!record.Read(&said)) return;
  if (said.span_kind == GpuSpanKind::kGraph) return TakeGraph(state, owner, record, said);
  Span span;
  const Timing timing = TimesOf(*state, said.start, said.end, false, &span);
  if (timing == Timing::kCorrupt) {
    ++timeline_->corrupt_records;
    return;
  }
  if (timing == Timing::kUntimed || !InTotals(span)) return;
  switch (said.span_kind) {
    case GpuSpanKind::kSynchronization: {
      if (IsHostWait(said.type)) CountWaits(state, said.context, 1, CountedPs(span, said.end - said.start));
      if (span.end <= window_.open || owner == kNoProcess) return;
      if (syncs_.size() >= kMaxSyncs) {
        ++timeline_->events_over_budget;
        return;
      }
      syncs_.push_back({process, owner, span.start, span.end, said.correlation, said.stream, said.context, said.type});
      return;
    }
    case GpuSpanKind::kOverhead: {
      if (span.end <= window_.open || owner == kNoProcess) return;
      const uint32_t line = host_->LineOf(
          owner, said.object == 0 ? std::string("CUPTI overhead") : StrCat("CUPTI overhead/", said.object));
      const uint16_t type = host_->TypeOf(OverheadName(said.type), ObjectKind::kNone, ValueKind::kNone);
      Event event;
      if (!PlaceOnHost(line, type, span, &event)) return;
      host_->KeepCall(line, event);
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
  const double ns_per_tick = facts_->clock.ns_per_tick();
  const double most_ns = static_cast<double>(window_.close - window_.totals_open + kPlausibleTicks) * ns_per_tick;
  int64_t ps = 0;
  const bool times_fit = row.kind == GpuTotalKind::kBusy
                             ? static_cast<double>(row.ns) <= most_ns
                             : static_cast<double>(row.longest) <= most_ns &&
                                   static_cast<double>(row.ns) <= most_ns * static_cast<double>(row.calls);
  // A row of unified memory names none where the host had the fault.
  const bool on_device =
      row.kind != GpuTotalKind::kCall && row.kind != GpuTotalKind::kWait && row.kind != GpuTotalKind::kUnifiedMemory;
  const uint32_t device = on_device ? DeviceOf(&state, row.device) : kNoLine;
  if (!times_fit || __builtin_mul_overflow(row.ns, 1000, &ps) || (on_device && device == kNoLine)) {
    ++timeline_->corrupt_records;
    return;
  }
  if (on_device) {
    AddTo(&timeline_->gpu_devices[device].untimed, row.untimed);
    AddTo(&timeline_->gpu_devices[device].unfinished, row.unfinished);
    if (owner != kNoProcess && row.kind != GpuTotalKind::kBusy) AddTo(&device_ps_[owner], ps);
  }
  switch (row.kind) {
    case GpuTotalKind::kKernel:
      if (row.calls == 0) return;
      return CountKernels(device, row.id == 0 ? timeline_->strings.Intern("other kernels") : KernelName(&state, row.id),
                          row.calls, ps, static_cast<int64_t>(row.longest * 1000));
    case GpuTotalKind::kCopy:
      if (row.calls == 0) return;
      return CountCopies(device, static_cast<uint8_t>(row.id), row.calls, row.bytes, ps);
    case GpuTotalKind::kGraph:
      AddTo(&timeline_->gpu_devices[device].graphs, row.calls);
      return;
    case GpuTotalKind::kCall: {
      const bool driver = (row.id >> 16) != 0;
      const uint16_t type = CallType(&state, static_cast<uint16_t>(row.id), driver);
      if (type == kNoType) break;
      const auto ticks = [&](uint64_t ns) { return static_cast<uint64_t>(static_cast<double>(ns) / ns_per_tick); };
      return CountCalls(process, &state, owner, type, driver, row.calls, ticks(row.ns), ticks(row.longest));
    }
    case GpuTotalKind::kWait:
      return CountWaits(&state, row.id, row.calls, ps);
    case GpuTotalKind::kUnifiedMemory:
      if (row.id > UINT8_MAX) break;
      return CountUnifiedMemory(&state, owner, row.device, static_cast<GpuUnifiedKind>(row.id), row.calls, row.bytes,
                                ps);
    case GpuTotalKind::kBusy:
      AddTo(&dropped_busy_ps_[device], ps);
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
  if (!memory_[device].Add(
          {span.start, memory.address, memory.bytes, owner, memory.operation == GpuMemoryOperation::kRelease})) {
    ++timeline_->events_over_budget;
  }
}

void GpuBuilder::CountUnifiedMemory(ProcessState* state, uint32_t owner, uint16_t device, GpuUnifiedKind kind,
                                    uint64_t calls, uint64_t value, int64_t ps) {
  if (device == kNoDevice) {
    if (owner != kNoProcess && kind == GpuUnifiedKind::kHostFault) {
      AddTo(&timeline_->processes[owner].gpu.host_page_faults, calls);
    }
    return;
  }
  const uint32_t index = DeviceOf(state, device);
  if (index == kNoLine || FindUnifiedMemoryKind(kind) == nullptr) {
    ++timeline_->corrupt_records;
    return;
  }
  GpuUnifiedTotal& total = unified_totals_[{index, kind}];
  AddTo(&total.calls, calls);
  AddTo(&total.value, kind == GpuUnifiedKind::kThrottling ? calls : value);
  AddTo(&total.total_ps, ps);
}

// On lines of the host's: all that is on a device's is its work to TensorBoard.
void GpuBuilder::TakeUnifiedMemory(const Identity& process, ProcessState* state, uint32_t owner,
                                   const RecordView& record) {
  GpuUnifiedMemoryRecord said;
  if (!record.Read(&said)) return;
  const UnifiedMemoryKind* const kind = FindUnifiedMemoryKind(said.unified_kind);
  Span span;
  const bool instant = said.end == 0;
  const Timing timing = TimesOf(*state, said.start, instant ? said.start : said.end, false, &span);
  if (timing == Timing::kCorrupt || kind == nullptr) {
    ++timeline_->corrupt_records;
    return;
  }
  if (timing == Timing::kUntimed || !InTotals(span)) return;
  const bool has_sum = said.unified_kind != GpuUnifiedKind::kHostFault;
  CountUnifiedMemory(state, owner, record.tag.aux, said.unified_kind, 1, has_sum ? said.value : 0,
                     instant ? 0 : CountedPs(span, said.end - said.start));
  if (span.end <= window_.open || owner == kNoProcess) return;
  const std::string line_name = record.tag.aux == kNoDevice
                                    ? StrCat("unified memory/host ", kind->line)
                                    : StrCat("unified memory/", kind->line, " GPU ", record.tag.aux);
  const uint32_t line = host_->LineOf(owner, line_name);
  const uint16_t type =
      host_->TypeOf(kind->name, ObjectKind::kAddress, kind->is_bytes ? ValueKind::kBytes : ValueKind::kNone);
  Event event;
  if (!PlaceOnHost(line, type, span, &event)) return;
  if (instant) event.duration_ps = 0;
  event.object = said.address;
  if (kind->is_bytes) event.value = static_cast<int64_t>(std::min<uint64_t>(said.value, INT64_MAX));
  std::string detail;
  if (said.unified_kind == GpuUnifiedKind::kDeviceFault) {
    detail = StrCat(said.value, said.value == 1 ? " fault" : " faults", " of this page");
  }
  const std::string_view cause = UnifiedMemoryCause(said.unified_kind, said.cause);
  if (!cause.empty()) detail += StrCat(detail.empty() ? "" : ", ", cause);
  event.detail = timeline_->strings.Intern(detail);
  // Names are found for what lies before a return address.
  if (said.unified_kind == GpuUnifiedKind::kHostFault && said.value != 0) {
    event.call_site = host_->SiteOf(process, type, said.value + 1);
  }
  host_->KeepCall(line, event);
}

void GpuBuilder::Correlate() {
  const auto key_of = [](uint32_t owner, uint64_t correlation) { return uint64_t{owner} << 32 | correlation; };
  absl::flat_hash_set<uint64_t> wanted;
  for (const GpuStream& stream : timeline_->gpu_streams) {
    for (const GpuEvent& event : stream.events) {
      if (event.correlation != 0) wanted.insert(key_of(stream.process, event.correlation));
    }
  }
  for (const PendingSync& sync : syncs_) {
    if (sync.correlation != 0) wanted.insert(key_of(sync.owner, sync.correlation));
  }
  // A call of the runtime and the driver's call in it share a number: they are one, the runtime's. Two that do not
  // overlap share it because 32 bits wrapped.
  struct Call {
    uint64_t key;
    int64_t start, end;
    uint32_t thread;
    uint32_t index;
    bool driver;
    uint64_t unique;
  };
  std::vector<Call> calls;
  const bool any = std::any_of(timeline_->types.begin(), timeline_->types.end(),
                               [](const EventType& type) { return type.value == ValueKind::kCorrelation; });
  for (uint32_t t = 0; any && t < timeline_->threads.size(); ++t) {
    Thread& thread = timeline_->threads[t];
    for (uint32_t i = 0; i < thread.events.size(); ++i) {
      Event& event = thread.events[i];
      if (timeline_->types[event.type].value != ValueKind::kCorrelation) continue;
      const auto value = static_cast<uint64_t>(std::exchange(event.value, 0));
      const uint64_t key = key_of(thread.process, value & UINT32_MAX);
      if ((value & UINT32_MAX) == 0 || !wanted.contains(key)) continue;
      calls.push_back({key, event.start_ps, event.start_ps + event.duration_ps, t, i, (value >> 32) != 0, 0});
    }
  }
  std::sort(calls.begin(), calls.end(), [](const Call& a, const Call& b) {
    if (a.key != b.key) return a.key < b.key;
    if (a.start != b.start) return a.start < b.start;
    return a.driver < b.driver;
  });
  size_t count = 0;
  for (const Call& call : calls) {
    if (count > 0 && calls[count - 1].key == call.key && call.start < calls[count - 1].end) {
      Call& group = calls[count - 1];
      group.end = std::max(group.end, call.end);
      if (group.driver && !call.driver) {
        group.driver = false;
        group.thread = call.thread;
        group.index = call.index;
      }
    } else {
      calls[count++] = call;
    }
  }
  calls.resize(count);
  // The latest of that number that had begun; the first of it where clocks disagree by a little.
  const auto find = [&](uint64_t key, int64_t start) -> Call* {
    auto above = std::upper_bound(calls.begin(), calls.end(), std::make_pair(key, start),
                                  [](const std::pair<uint64_t, int64_t>& value, const Call& call) {
                                    return value.first != call.key ? value.first < call.key : value.second < call.start;
                                  });
    if (above != calls.begin() && std::prev(above)->key == key) return &*std::prev(above);
    return above != calls.end() && above->key == key ? &*above : nullptr;
  };
  uint64_t next = 0;
  absl::flat_hash_map<uint64_t, uint64_t> without_call;
  for (GpuStream& stream : timeline_->gpu_streams) {
    for (GpuEvent& event : stream.events) {
      const uint64_t key = key_of(stream.process, event.correlation);
      Call* call = event.correlation == 0 ? nullptr : find(key, event.start_ps);
      if (call != nullptr) {
        if (call->unique == 0) call->unique = ++next;
        // Between two pairs with a jump all that is sure is the order.
        if ((event.flags & GpuEvent::kUncertain) != 0 && event.start_ps < call->start) {
          event.start_ps = call->start;
          const auto close = static_cast<int64_t>(window_.close);
          event.duration_ps = std::max<int64_t>(std::min(event.duration_ps, close - event.start_ps), 1);
        }
        event.correlation = call->unique;
      } else if (event.correlation == 0) {
        event.correlation = ++next;
      } else {
        uint64_t& unique = without_call[key];
        if (unique == 0) unique = ++next;
        event.correlation = unique;
      }
    }
  }
  for (const Call& call : calls) {
    timeline_->threads[call.thread].events[call.index].value = static_cast<int64_t>(call.unique);
  }
  for (const PendingSync& sync : syncs_) {
    const Call* call = sync.correlation == 0 ? nullptr
                                             : find(key_of(sync.owner, sync.correlation),
                                                    static_cast<int64_t>(std::max(sync.start, window_.open)));
    const uint32_t line = call != nullptr ? call->thread : host_->LineOf(sync.owner, "CUDA synchronization");
    const uint16_t type = host_->TypeOf(SynchronizationName(sync.type), ObjectKind::kStream, ValueKind::kNone);
    if (line == kNoLine || type == kNoType) continue;
    ++timeline_->records;
    Event event;
    ClipTo(window_.open, window_.close, sync.start, sync.end, &event);
    event.type = type;
    if (sync.stream != UINT32_MAX) event.object = sync.stream;
    host_->KeepCall(line, event);
  }
  syncs_ = {};
}

void GpuBuilder::Finish() { Correlate(); }

void GpuBuilder::TrackMemory() {
  for (uint32_t i = 0; i < memory_.size(); ++i) {
    const std::vector<GpuMemoryTrack::Sample> all = memory_[i].Samples();
    if (all.empty()) continue;
    GpuDevice& device = timeline_->gpu_devices[i];
    CounterTrack track;
    track.name = "GPU memory in use";
    track.series = "bytes";
    track.device = static_cast<int>(i);
    int64_t at_open = 0;
    std::vector<GpuMemoryTrack::Sample> shown;
    for (const GpuMemoryTrack::Sample& sample : all) {
      device.live_bytes = sample.bytes;
      if (sample.ticks >= window_.totals_open) device.peak_bytes = std::max(device.peak_bytes, sample.bytes);
      if (sample.ticks < window_.open) {
        at_open = sample.bytes;
      } else {
        shown.push_back(sample);
      }
    }
    device.peak_bytes = std::max(device.peak_bytes, at_open);
    track.samples.push_back({0, static_cast<double>(at_open)});
    // Of each bucket the highest: a burst must not fall through.
    const size_t stride = shown.size() / kMaxCounterSamples + 1;
    for (size_t from = 0; from < shown.size(); from += stride) {
      const auto begin = shown.begin() + static_cast<ptrdiff_t>(from);
      const auto end = shown.begin() + static_cast<ptrdiff_t>(std::min(from + stride, shown.size()));
      const auto highest = std::max_element(begin, end, [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
      track.samples.push_back({host_->PsOf(highest->ticks), static_cast<double>(highest->bytes)});
    }
    if (!shown.empty() && stride > 1) {
      track.samples.push_back({host_->PsOf(shown.back().ticks), static_cast<double>(shown.back().bytes)});
    }
    timeline_->counters.push_back(std::move(track));
  }
}

void GpuBuilder::SplitLanes() {
  std::vector<GpuStream> lines;
  for (GpuStream& stream : timeline_->gpu_streams) {
    SortNearlySorted(&stream.events, [](const GpuEvent& a, const GpuEvent& b) {
      return a.start_ps != b.start_ps ? a.start_ps < b.start_ps : a.duration_ps > b.duration_ps;
    });
    std::vector<GpuEvent> events = std::move(stream.events);
    stream.events.clear();
    const size_t first = lines.size();
    std::vector<std::vector<int64_t>> ends;
    for (GpuEvent& event : events) {
      const int64_t end = event.start_ps + event.duration_ps;
      size_t lane = 0;
      for (; lane < ends.size(); ++lane) {
        while (!ends[lane].empty() && ends[lane].back() <= event.start_ps) ends[lane].pop_back();
        if (ends[lane].empty() || end <= ends[lane].back()) break;
      }
      if (lane == ends.size()) {
        if (lane == kMaxLanes || lines.size() >= kMaxLines) {
          ++timeline_->events_over_budget;
          continue;
        }
        ends.emplace_back();
        lines.push_back(stream);
        lines.back().lane = static_cast<uint32_t>(lane);
      }
      ends[lane].push_back(end);
      lines[first + lane].events.push_back(event);
    }
  }
  timeline_->gpu_streams = std::move(lines);
}

// Devices that nothing happened on are left out; numbers are those of the processes where they do not collide.
void GpuBuilder::NumberDevices() {
  std::vector<bool> used(timeline_->gpu_devices.size());
  for (const GpuStream& stream : timeline_->gpu_streams) used[stream.device] = true;
  for (uint32_t i = 0; i < used.size(); ++i) {
    const GpuDevice& device = timeline_->gpu_devices[i];
    used[i] =
        used[i] || device.kernels != 0 || device.untimed != 0 || device.graphs != 0 || !memory_[i].empty() ||
        std::any_of(copy_totals_.begin(), copy_totals_.end(), [&](const auto& row) { return row.first.first == i; }) ||
        std::any_of(unified_totals_.begin(), unified_totals_.end(),
                    [&](const auto& row) { return row.first.first == i; });
  }
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < used.size(); ++i) {
    if (used[i]) order.push_back(i);
  }
  const auto place = [&](uint32_t i) {
    const GpuDeviceRecord& record = device_records_[i];
    return std::make_tuple(device_numbers_[i], record.pci_domain, record.pci_bus, record.pci_device, i);
  };
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return place(a) < place(b); });
  std::set<uint32_t> numbers;
  std::vector<GpuDevice> devices;
  std::vector<uint32_t> index(used.size(), kNoLine);
  for (const uint32_t i : order) {
    uint32_t number = device_numbers_[i] < kMaxDevices ? device_numbers_[i] : 0;
    while (!numbers.insert(number).second) ++number;
    timeline_->gpu_devices[i].number = number;
  }
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return timeline_->gpu_devices[a].number < timeline_->gpu_devices[b].number;
  });
  for (const uint32_t i : order) {
    index[i] = static_cast<uint32_t>(devices.size());
    devices.push_back(std::move(timeline_->gpu_devices[i]));
  }
  timeline_->gpu_devices = std::move(devices);
  for (GpuStream& stream : timeline_->gpu_streams) stream.device = index[stream.device];
  for (CounterTrack& track : timeline_->counters) {
    if (track.device >= 0) track.device = static_cast<int>(index[static_cast<size_t>(track.device)]);
  }
  // The number of a stream is its line's id where no other process has it.
  std::stable_sort(
      timeline_->gpu_streams.begin(), timeline_->gpu_streams.end(), [](const GpuStream& a, const GpuStream& b) {
        return std::tie(a.device, a.process, a.number, a.lane) < std::tie(b.device, b.process, b.number, b.lane);
      });
  constexpr uint32_t kOwnNumbers = 1'000'000;
  std::set<std::pair<uint32_t, uint64_t>> taken;
  for (GpuStream& stream : timeline_->gpu_streams) {
    if (stream.lane == 0 && stream.number > 0 && stream.number < kOwnNumbers &&
        taken.emplace(stream.device, stream.number).second) {
      stream.line_id = stream.number;
    }
  }
  std::map<uint32_t, uint64_t> next;
  for (GpuStream& stream : timeline_->gpu_streams) {
    if (stream.line_id == 0) stream.line_id = kOwnNumbers + ++next[stream.device];
  }
  std::stable_sort(timeline_->gpu_streams.begin(), timeline_->gpu_streams.end(),
                   [](const GpuStream& a, const GpuStream& b) {
                     return std::tie(a.device, a.line_id) < std::tie(b.device, b.line_id);
                   });
}

void GpuBuilder::FinishTimes() {
  for (GpuStream& stream : timeline_->gpu_streams) {
    for (GpuEvent& event : stream.events) {
      const auto start = static_cast<uint64_t>(event.start_ps);
      const auto end = start + static_cast<uint64_t>(event.duration_ps);
      event.start_ps = host_->PsOf(start);
      event.duration_ps = host_->PsOf(end) - event.start_ps;
      // The readers take what has no length for no kernel.
      if (event.duration_ps > 0) continue;
      event.start_ps = std::min(event.start_ps, timeline_->duration_ps - 1);
      event.duration_ps = 1;
    }
  }
  SplitLanes();
  for (uint32_t i = 0; i < timeline_->gpu_devices.size(); ++i) {
    GpuDevice& device = timeline_->gpu_devices[i];
    device.busy_ps = facts_->clock.DurationPs(busy_[i].Length());
    AddTo(&device.busy_ps, dropped_busy_ps_[i]);
    // What lies on both sides of a dropped part's border, or comes from two processes, is in both.
    device.busy_ps = std::min(device.busy_ps, std::max(timeline_->totals_ps, timeline_->duration_ps));
    for (const auto& [key, total] : kernel_totals_) {
      if (key.first == i) device.kernel_totals.push_back(total);
    }
    for (auto& [key, total] : copy_totals_) {
      if (key.first != i) continue;
      total.name = GpuCopyName(key.second);
      device.copy_totals.push_back(total);
    }
    for (auto& [key, total] : unified_totals_) {
      if (key.first != i) continue;
      const UnifiedMemoryKind& kind = *FindUnifiedMemoryKind(key.second);
      total.name = kind.name;
      total.is_bytes = kind.is_bytes;
      device.unified_totals.push_back(total);
    }
    const auto longer = [](const auto& a, const auto& b) { return a.total_ps > b.total_ps; };
    std::stable_sort(device.kernel_totals.begin(), device.kernel_totals.end(), longer);
    std::stable_sort(device.copy_totals.begin(), device.copy_totals.end(), longer);
  }
  TrackMemory();
  NumberDevices();
}

void GpuBuilder::ExplainGap(const Identity& identity, const std::vector<CuptiUseAt>& uses, const CuptiGap& ticks,
                            GpuGap* gap) {
  if (!gap->reason.starts_with(kProgram)) {
    gap->remedy = OwnGapRemedy(gap->reason);
    return;
  }
  const CuptiCause cause = FindCuptiCause(uses, ticks);
  gap->remedy = CuptiRemedy(cause.left);
  gap->left = CuptiLeftName(cause.left);
  gap->first_call = PrintableUtf8(cause.first_call);
  if (cause.caller != 0) gap->caller_module = host_->ModuleOf(identity, cause.caller);
  const std::string text = CuptiCauseText(cause, &gap->caller_module);
  if (!text.empty()) StrAppend(&gap->reason, ", ", text);
}

void GpuBuilder::JudgeProcess(const Identity& identity, const GpuFacts& facts, const ProcessFacts& process,
                              Process* shown) {
  ProcessGpu& gpu = shown->gpu;
  gpu.library = PrintableUtf8(facts.library);
  gpu.versions = PrintableUtf8(facts.versions);
  for (const std::string& path : facts.tried) gpu.tried.push_back(PrintableUtf8(path));
  for (const std::string& kind : facts.missing_kinds) gpu.missing_kinds.push_back(PrintableUtf8(kind));
  gpu.dropped = facts.dropped;
  gpu.unknown = facts.unknown;
  gpu.unread_bytes = facts.unread_bytes;

  std::vector<GpuStateChange> changes = facts.changes;
  std::stable_sort(changes.begin(), changes.end(),
                   [](const GpuStateChange& a, const GpuStateChange& b) { return a.ticks < b.ticks; });
  std::vector<CuptiUseAt> uses = facts.cupti_uses;
  std::ranges::stable_sort(uses, {}, &CuptiUseAt::ticks);
  const uint64_t end = process.end_ticks != 0 ? std::min(process.end_ticks, window_.close) : window_.close;
  bool recorded = false, paused = false, by_window = false;
  uint64_t since = 0;
  std::string cause;
  const auto close_gap = [&](uint64_t until) {
    const uint64_t from = std::max(since, window_.open), to = std::min(until, end);
    paused = false;
    if (by_window || to <= from) return;
    const double ns = static_cast<double>(to - from) * facts_->clock.ns_per_tick();
    // The last flush is followed by the exit handlers of others, which seldom launch anything. Any other gap is told
    // however short: in half a millisecond a program runs and records a dozen kernels.
    if (cause == kEnd && ns < kExitMs * 1e6) return;
    gpu.gaps.push_back({host_->PsOf(from), host_->PsOf(to), cause, "", "", "", ""});
    ExplainGap(identity, uses, {since, from, to, until >= end}, &gpu.gaps.back());
  };
  for (const GpuStateChange& change : changes) {
    switch (change.kind) {
      case GpuStateChange::kRecording:
        if (paused) close_gap(change.ticks);
        recorded = true;
        gpu.ended_in_order = false;
        break;
      case GpuStateChange::kPaused:
        gpu.ended_in_order = true;
        if (paused) {
          // A program may take CUPTI while no window is open, and keep it.
          if (change.text == kEnd || change.text == cause) break;
          close_gap(change.ticks);
        }
        paused = true;
        since = change.ticks;
        cause = PrintableUtf8(change.text);
        // Nothing was to be recorded then.
        by_window = cause.starts_with("window");
        break;
      case GpuStateChange::kUnavailable:
        gpu.reason = PrintableUtf8(change.text);
        break;
    }
  }
  if (facts.changes_left_out > 0) {
    // What is not known is no gap that lasts to the end.
    if (paused) close_gap(facts.left_out_from_ticks);
    recorded = recorded || facts.last_left_out == GpuStateChange::kRecording;
    gpu.ended_in_order = facts.last_left_out == GpuStateChange::kPaused;
  }
  if (paused) close_gap(end);
  const auto with_remedy = [](const std::string& why) {
    const std::string_view remedy = GpuRemedy(why);
    return remedy.empty() ? why : StrCat(why, "; ", remedy);
  };
  if (!facts.by_hooks.empty()) gpu.approximate = with_remedy(PrintableUtf8(facts.by_hooks));
  // What is in CUPTI's way is in CUDA's own where the hooks have seen nothing either.
  const bool in_vain = !facts.by_hooks.empty() && !facts.hooks_asked_for() && gpu.records == 0;
  if (in_vain && gpu.reason.empty()) gpu.reason = PrintableUtf8(facts.by_hooks);
  if (!gpu.reason.empty() && (!recorded || in_vain)) {
    gpu.recording = GpuRecording::kUnavailable;
    gpu.reason = with_remedy(gpu.reason);
  } else if (!gpu.gaps.empty()) {
    gpu.recording = GpuRecording::kPaused;
  } else if (recorded || gpu.records > 0) {
    gpu.recording = GpuRecording::kRecorded;
  }
}

// Of a process that was to use a GPU, by what is loaded into it, and did not get to; empty: there is nothing to say.
std::string_view GpuBuilder::WhyUnused(const Identity& identity, const ProcessFacts& process) const {
  const auto found = facts_->gpus.find(identity);
  if (found != facts_->gpus.end()) {
    const GpuFacts& facts = found->second;
    const bool recorded = std::any_of(facts.changes.begin(), facts.changes.end(), [](const GpuStateChange& change) {
      return change.kind == GpuStateChange::kRecording;
    });
    const auto state = states_.find(identity);
    const bool idle = facts.contexts.empty() && (state == states_.end() || state->second.devices.empty());
    return recorded && idle ? "CUDA was started and no GPU was opened: none was needed, or none is visible "
                              "(CUDA_VISIBLE_DEVICES; `tbprof doctor`)"
                            : "";
  }
  bool runtime = false;
  for (const Module& module : process.modules) {
    const std::string_view name = BaseName(module.path);
    if (name.starts_with("libcuda.so")) return "";
    runtime = runtime || name.starts_with("libcudart.so");
  }
  // A framework that misses one of its own libraries (cuDNN, cuBLAS) never asks for the driver either.
  return runtime ? "the CUDA runtime is loaded and no GPU was used: libcuda.so.1 was not loaded, since there is no "
                   "driver, another GPU library is missing (the program's output names it), or no call needed it "
                   "(`tbprof doctor`)"
                 : "";
}

void GpuBuilder::AddHonesty(const std::map<Identity, uint32_t>& index) {
  std::vector<std::string>& warnings = timeline_->warnings;
  std::map<std::string, std::pair<std::string, uint64_t>> unavailable, approximate;
  uint64_t dropped = 0, unknown = 0, names_left_out = 0;
  std::set<std::string> missing;
  for (const auto& [identity, owner] : index) {
    const auto found = facts_->gpus.find(identity);
    const auto known = facts_->processes.find(identity);
    if (found == facts_->gpus.end() || known == facts_->processes.end()) continue;
    const GpuFacts& facts = found->second;
    Process& process = timeline_->processes[owner];
    JudgeProcess(identity, facts, known->second, &process);
    const ProcessGpu& gpu = process.gpu;
    const std::string who = StrCat(PrintableUtf8(process.name), " (", process.pid, ")");
    // Of workers that are alike the first speaks for all.
    const auto add = [&](const std::string& reason, std::map<std::string, std::pair<std::string, uint64_t>>* causes) {
      std::string text = reason;
      for (size_t i = 0; i < std::min(gpu.tried.size(), kMaxTriedShown); ++i) {
        StrAppend(&text, i == 0 ? "; tried " : ", ", gpu.tried[i]);
      }
      auto& [first, count] = (*causes)[text];
      if (count++ == 0) first = who;
    };
    if (gpu.recording == GpuRecording::kUnavailable) add(gpu.reason, &unavailable);
    if (!gpu.approximate.empty() && gpu.records > 0) add(gpu.approximate, &approximate);
    for (std::string& warning : GapWarnings(who, gpu.gaps)) warnings.push_back(std::move(warning));
    if (facts.changes_left_out > 0 && facts.left_out_from_ticks < window_.close) {
      warnings.push_back(
          StrCat(who, ": recording of its GPUs began and paused ", facts.changes.size() + facts.changes_left_out,
                 " times, which is more than is kept; gaps after ",
                 host_->PsOf(std::max(facts.left_out_from_ticks, window_.open)) / kPsPerMs, " ms are not told"));
    }
    if (facts.clock.breaks() > 0) {
      warnings.push_back(
          StrCat(who, ": the GPU clock jumped ", facts.clock.breaks(),
                 " times (was the system's time set?); what ran then is marked, its place is uncertain"));
    }
    if (facts.clock.replaced() > 0 && gpu.records > 0) {
      timeline_->notes.push_back(StrCat(who,
                                        ": the program gave CUPTI a clock of its own (torch.profiler does so); device "
                                        "times are converted by its rate"));
    }
    if (facts.unread_bytes > 0) {
      warnings.push_back(StrCat(who, ": ", (facts.unread_bytes + 1023) / 1024,
                                " KiB of GPU activity could not be read (", PrintableUtf8(facts.unread_cause),
                                "): kernels and calls are missing; install the CUPTI of the driver's CUDA version"));
    }
    if (facts.clock_assumed && gpu.records > 0 && gpu.recording != GpuRecording::kUnavailable) {
      warnings.push_back(
          StrCat(who, ": no reading of its GPU clock was recorded; device times are taken for wall time"));
    }
    const double error_us = static_cast<double>(facts.clock.error_ticks()) * facts_->clock.ns_per_tick() / 1000;
    if (error_us > kNotableErrorUs && gpu.records > 0) {
      timeline_->notes.push_back(StrCat(who, ": its device times may be off from those of its threads by up to ",
                                        static_cast<int64_t>(std::min(error_us, 1e15)), " us"));
    }
    dropped += gpu.dropped;
    unknown += gpu.unknown;
    names_left_out += facts.names_left_out;
    missing.insert(gpu.missing_kinds.begin(), gpu.missing_kinds.end());
    // Whoever is killed takes along what CUPTI holds. Of a thread that is what came after its last record.
    const uint64_t end = known->second.end_ticks;
    const auto state = states_.find(identity);
    uint64_t last = state == states_.end() ? 0 : state->second.last_call_ticks;
    // By hooks a call is known when it is over, and what it began only when our thread has looked at its events.
    const bool by_hooks = !facts.by_hooks.empty();
    if (by_hooks && last > state->second.last_work_ticks) last = state->second.last_work_ticks;
    if (gpu.recording == GpuRecording::kUnavailable || gpu.ended_in_order || gpu.records == 0) continue;
    // An end is seen some ten milliseconds late, and the end of the command may be that of the window.
    const auto late = static_cast<uint64_t>(kExitMs * 1e6 / facts_->clock.ns_per_tick());
    if (end == 0 || end > window_.close + late || last == 0 || last >= end) continue;
    process.gpu.lost_at_end_ps = facts_->clock.DurationPs(end - last);
    warnings.push_back(
        StrCat(who, ": killed ", process.gpu.lost_at_end_ps / kPsPerMs,
               by_hooks ? " ms after the last GPU work whose events had been looked at; what came later is lost"
                        : " ms after the last GPU record that CUPTI had handed over; what it still held is lost"));
  }
  // One line for all that are alike.
  std::map<std::string_view, std::pair<std::string, uint64_t>> unused;
  for (const auto& [identity, owner] : index) {
    const auto known = facts_->processes.find(identity);
    if (known == facts_->processes.end()) continue;
    const std::string_view why = WhyUnused(identity, known->second);
    if (why.empty()) continue;
    const Process& process = timeline_->processes[owner];
    auto& [first, count] = unused[why];
    if (count++ == 0) first = StrCat(PrintableUtf8(process.name), " (", process.pid, ")");
  }
  for (const auto& [text, who] : unused) {
    warnings.push_back(StrCat(who.first, who.second > 1 ? StrCat(" and ", who.second - 1, " more") : "", ": ", text));
  }
  const auto names = [](const std::pair<std::string, uint64_t>& who) {
    return who.second > 1 ? StrCat(who.first, " and ", who.second - 1, " more") : who.first;
  };
  for (const auto& [text, who] : unavailable) {
    timeline_->errors.push_back(StrCat(names(who), ": no GPU activity: ", text));
  }
  for (const auto& [text, who] : approximate) {
    warnings.push_back(StrCat(names(who), ": device times are approximate, by events around each piece of work, and ",
                              "graphs are shown whole: ", text));
  }
  if (dropped > 0) timeline_->drops.push_back({"CUPTI had no buffer for them", dropped});
  if (unknown > 0)
    timeline_->notes.push_back(StrCat(unknown, " GPU activity records of kinds that were not asked for"));
  if (names_left_out > 0)
    warnings.push_back(StrCat(names_left_out, " names of kernels were too many and are left out"));
  for (const std::string& kind : missing) warnings.push_back(StrCat("GPU activity that is not recorded: ", kind));
  if (facts_->gpu_memory_left_out > 0) {
    timeline_->notes.push_back(StrCat("GPU memory in use leaves out ", facts_->gpu_memory_left_out,
                                      " allocations and releases in dropped parts of the spool (--spool-limit)"));
  }
  for (const GpuDevice& device : timeline_->gpu_devices) {
    const std::string gpu = StrCat("GPU ", device.number, ": ");
    if (device.untimed > 0) {
      warnings.push_back(
          StrCat(gpu, device.untimed,
                 " kernels, copies or graphs ran without time stamps (no buffer or event was left for them); "
                 "they are not drawn and in no total"));
    }
    if (device.unfinished > 0) {
      warnings.push_back(StrCat(gpu, device.unfinished,
                                " had not ended when last looked at; they are drawn to the end of the window or of "
                                "their process"));
    }
  }
}

}  // namespace tbprof
