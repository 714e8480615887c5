// SPDX-License-Identifier: Apache-2.0
#include "writer/outputs/xplane_gpu.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_format.h"
#include "writer/base/text.h"
#include "writer/base/utf8.h"
#include "writer/outputs/kernel_operations.h"
#include "writer/outputs/xplane_counters.h"
#include "writer/timeline/schema.h"

namespace tbprof {
namespace {

constexpr uint64_t kCountersLineId = 2'000'000;
constexpr uint64_t kOutsideLineId = kCountersLineId - 1;
constexpr size_t kMaxSharedDetails = 1 << 16;
constexpr int64_t kIdlePlaneIds = 100;  // the viewer uses 0 to 199 for such planes

// Names that the converters do not take for a kernel: names of their own host events, and `x:Type`, a TensorFlow
// operation. Kernels of C++ contain `::`, and blanks make any other name harmless.
std::string DeviceEventName(const std::string& name) {
  static constexpr std::string_view kKnown[] = {"TraceContext", "SessionRun",       "FunctionRun",
                                                "RunGraph",     "MemoryAllocation", "MemoryDeallocation"};
  bool misread =
      name.empty() || std::find(std::begin(kKnown), std::end(kKnown), name) != std::end(kKnown) ||
      std::find(std::begin(kForbiddenEvents), std::end(kForbiddenEvents), name) != std::end(kForbiddenEvents);
  const size_t colon = name.find(':');
  misread = misread || (colon != std::string::npos && name.substr(colon, 2) != "::" && name.find(' ') > colon);
  return misread ? StrCat("kernel ", name) : name;
}

// The reader takes kernels for 16-bit ones by the words `half` and `fp16` in the name, or by `half` in the stat
// `shape`.
bool IsBrainFloat(std::string_view kernel) {
  return kernel.find("bf16") != std::string_view::npos || kernel.find("bfloat16") != std::string_view::npos ||
         kernel.find("BFloat16") != std::string_view::npos;
}
constexpr std::string_view kCountsAsHalf = "bf16 (half precision)";

std::string KindLabel(const GpuEvent& event) {
  switch (event.kind) {
    case GpuEventKind::kKernel:
      return "Compute";
    case GpuEventKind::kSet:
      return "Memset";
    case GpuEventKind::kGraph:
      return "CudaGraph";
    case GpuEventKind::kCopy:
      break;
  }
  switch (event.copy_kind) {
    case 1:
      return "MemcpyH2D";
    case 2:
      return "MemcpyD2H";
    case 8:
      return "MemcpyD2D";
    case 10:
      return "MemcpyP2P";
    default:
      return "MemcpyOther";
  }
}

bool SharedByProcesses(const Timeline& timeline, uint32_t device) {
  std::set<uint32_t> processes;
  for (const GpuStream& stream : timeline.gpu_streams) {
    if (stream.device == device) processes.insert(stream.process);
  }
  return processes.size() > 1;
}

class DeviceEventWriter {
 public:
  DeviceEventWriter(const Timeline& timeline, uint32_t device, const GpuCalls& calls, const FlowIds& flows,
                    PlaneBuilder* plane)
      : timeline_(timeline),
        calls_(calls),
        flows_(flows),
        plane_(plane),
        operations_(timeline, device),
        precisions_(timeline.strings.size()),
        event_ids_(timeline.strings.size()),
        kernel_ids_(timeline.strings.size()),
        operation_ids_(timeline.strings.size()),
        launch_ids_(timeline.gpu_launches.size()) {}

  void Write(LineBuilder& line, const GpuEvent& event) {
    line.Begin(EventId(event), event.start_ps, event.duration_ps);
    if (calls_.IsOutside(event.correlation)) {
      line.Uint64(Stat::kFlow, flows_.ValueOfCall(event.correlation, /*begins=*/false));
    } else {
      line.Uint64(Stat::kCorrelationId, event.correlation);
    }
    switch (event.kind) {
      case GpuEventKind::kKernel:
        Kernel(line, event);
        break;
      case GpuEventKind::kCopy:
        Details(line, Stat::kMemcpyDetails, CopyDetails(event));
        break;
      case GpuEventKind::kSet:
        Details(line, Stat::kMemsetDetails,
                StrCat("num_bytes:", event.value, "\nvalue:", event.detail, "\nkind_dst:",
                       MemoryKindName(event.destination_kind), "\nasync:", event.asynchronous != 0 ? 1 : 0));
        break;
      case GpuEventKind::kGraph:
        line.Uint64(Stat::kCudaGraphExecId, event.graph);
        break;
    }
    if (event.kind != GpuEventKind::kGraph && event.graph != 0) line.Uint64(Stat::kCudaGraphId, event.graph);
    line.Text(Stat::kTfOp, event.operation != 0 ? OperationId(event.operation) : UnattributedId(event));
    if (event.flags != 0) Flags(line, event.flags);
    line.End();
  }

 private:
  uint32_t EventId(const GpuEvent& event) {
    if (event.kind != GpuEventKind::kKernel) return plane_->EventId(GpuEventName(timeline_, event));
    uint32_t& id = event_ids_[event.name];
    if (id == 0) {
      id = plane_->EventId(DeviceEventName(timeline_.strings.Get(event.name)));
      const auto mangled = timeline_.mangled_names.find(event.name);
      if (mangled != timeline_.mangled_names.end()) {
        plane_->EventText(id, Stat::kMangledName, timeline_.strings.Get(mangled->second));
      }
    }
    return id;
  }

  void Kernel(LineBuilder& line, const GpuEvent& event) {
    uint32_t& details = launch_ids_[event.launch];
    if (details == 0) details = plane_->TextId(KernelDetails(timeline_.gpu_launches[event.launch]));
    line.Text(Stat::kKernelDetails, details);
    if (event.graph != 0) line.Uint64(Stat::kCudaGraphNodeId, event.value);
    Precision& precision = precisions_[event.name];
    if (precision == Precision::kNotKnown) {
      precision = IsBrainFloat(timeline_.strings.Get(event.name)) ? Precision::kBrainFloat : Precision::kByName;
    }
    if (precision == Precision::kBrainFloat) line.Text(Stat::kShape, plane_->TextId(kCountsAsHalf));
  }

  uint32_t OperationId(StringId operation) {
    uint32_t& id = operation_ids_[operation];
    if (id == 0) id = plane_->TextId(timeline_.strings.Get(operation));
    return id;
  }

  // The table of operations counts work without an operation as idle time.
  uint32_t UnattributedId(const GpuEvent& event) {
    switch (event.kind) {
      case GpuEventKind::kKernel: {
        uint32_t& id = kernel_ids_[event.name];
        if (id == 0) id = plane_->TextId(operations_.Of(event.name));
        return id;
      }
      case GpuEventKind::kGraph:
        return plane_->TextId("CudaGraphExec:Graph");
      case GpuEventKind::kCopy:
      case GpuEventKind::kSet:
        break;
    }
    uint32_t& id = copy_ids_[event.copy_kind];
    if (id == 0) {
      // `MemcpyHToD (to array)` is a copy to the device.
      const std::string_view name = GpuCopyName(event.copy_kind);
      id = plane_->TextId(StrCat(name.substr(0, name.find(' ')), ":Memory"));
    }
    return id;
  }

  static std::string CopyDetails(const GpuEvent& event) {
    std::string text = StrCat("num_bytes:", event.value, "\nkind_src:", MemoryKindName(event.source_kind),
                              "\nkind_dst:", MemoryKindName(event.destination_kind));
    if (event.copy_kind == 10) StrAppend(&text, "\nsource:", event.detail & 0xFFFF, "\ndest:", event.detail >> 16);
    return StrCat(text, "\nasync:", event.asynchronous != 0 ? 1 : 0);
  }

  void Details(LineBuilder& line, Stat stat, const std::string& text) {
    if (plane_->HasText(text)) return line.Text(stat, plane_->TextId(text));
    if (shared_details_ >= kMaxSharedDetails) return line.InlineText(stat, text);
    ++shared_details_;
    line.Text(stat, plane_->TextId(text));
  }

  static void Flags(LineBuilder& line, uint8_t flags) {
    const bool start = flags & GpuEvent::kClippedAtStart, end = flags & GpuEvent::kClippedAtEnd;
    if (start || end) line.InlineText(Stat::kClipped, start && end ? "start and end" : start ? "start" : "end");
    if (flags & GpuEvent::kUnfinished) line.Int64(Stat::kOpen, 1);
    if (flags & GpuEvent::kUncertain) line.InlineText(Stat::kTiming, "uncertain: the GPU clock jumped");
    if (flags & GpuEvent::kApproximate) line.InlineText(Stat::kTiming, "approximate: from CUDA events");
  }

  enum class Precision : uint8_t { kNotKnown, kByName, kBrainFloat };

  const Timeline& timeline_;
  const GpuCalls& calls_;
  const FlowIds& flows_;
  PlaneBuilder* plane_;
  const KernelOperations operations_;
  std::vector<Precision> precisions_;  // by name
  std::vector<uint32_t> event_ids_, kernel_ids_, operation_ids_, launch_ids_;
  uint32_t copy_ids_[UINT8_MAX + 1] = {};
  size_t shared_details_ = 0;
};

void WriteFacts(const GpuDevice& device, PlaneBuilder& plane) {
  // The overview page needs this stat to show the GPU's model and to know its peak rates.
  plane.PlaneText(Stat::kDeviceVendor, "Nvidia");
  if (!device.uuid.empty()) plane.PlaneText(Stat::kDeviceUuid, device.uuid);
  if (!device.has_facts) return;
  if (!device.name.empty()) plane.PlaneText(Stat::kGpuDeviceName, ValidUtf8(device.name));
  plane.PlaneInt64(Stat::kClockRate, device.core_clock_khz);
  plane.PlaneInt64(Stat::kCoreCount, device.multiprocessors);
  plane.PlaneUint64(Stat::kMemoryBandwidth, device.memory_bandwidth);
  plane.PlaneUint64(Stat::kMemorySize, device.memory_bytes);
  plane.PlaneInt64(Stat::kComputeCapMajor, device.compute_major);
  plane.PlaneInt64(Stat::kComputeCapMinor, device.compute_minor);
}

// Each of these ends the step before it, and is a group without computing, which the reader leaves out.
void WriteOutside(const std::vector<OutsideSpan>& spans, PlaneBuilder& plane) {
  if (spans.empty()) return;
  LineBuilder& line = plane.AddLine(kOutsideLineId, kOutsideLine);
  const uint32_t event_id = plane.EventId(kOutsideEvent);
  int64_t number = 0;
  for (const OutsideSpan& span : spans) {
    line.Begin(event_id, span.start_ps, span.end_ps - span.start_ps);
    line.Int64(Stat::kRoot, kOutsideLevel);
    line.Int64(Stat::kStepNumber, ++number);
    line.End();
  }
}

}  // namespace

std::string_view MemoryKindName(uint8_t kind) {
  static constexpr std::string_view kNames[] = {"unknown", "pageable", "pinned",        "device",
                                                "array",   "managed",  "device_static", "managed_static"};
  return kind < std::size(kNames) ? kNames[kind] : kNames[0];
}

std::string CudaErrorText(int error) {
  std::string_view what;
  switch (error) {
    case 1:
      what = "invalid value";
      break;
    case 2:
      what = "out of memory";
      break;
    case 100:
      what = "no device";
      break;
    case 400:
      what = "invalid handle";
      break;
    case 600:
      what = "not ready";
      break;
    case 700:
      what = "illegal address";
      break;
    case 701:
      what = "out of resources for the launch";
      break;
    case 719:
      what = "launch failed";
      break;
    case 900:
    case 901:
      what = "not allowed while capturing a stream";
      break;
    default:
      return StrCat("CUDA error ", error);
  }
  return StrCat("CUDA error ", error, " (", what, ")");
}

std::string StreamName(const Timeline& timeline, const GpuStream& stream, bool with_process) {
  std::set<std::string> kinds;
  for (const GpuEvent& event : stream.events) kinds.insert(KindLabel(event));
  std::string name = stream.number == UINT32_MAX ? "Further streams(" : StrCat("Stream #", stream.number, "(");
  const char* separator = "";
  for (const std::string& kind : kinds) {
    StrAppend(&name, separator, kind);
    separator = ",";
  }
  name += ")";
  if (!stream.name.empty()) StrAppend(&name, " ", PrintableUtf8(stream.name));
  if (stream.lane > 0) StrAppend(&name, " overlapping ", stream.lane);
  if (with_process && stream.process < timeline.processes.size()) {
    const Process& process = timeline.processes[stream.process];
    StrAppend(&name, " ", TruncateUtf8(PrintableUtf8(process.name), 64), " [", process.pid, "]");
  }
  return name;
}

std::string GpuEventName(const Timeline& timeline, const GpuEvent& event) {
  switch (event.kind) {
    case GpuEventKind::kKernel:
      return timeline.strings.Get(event.name);
    case GpuEventKind::kGraph:
      return StrCat("CudaGraphExec:", event.graph);
    default:
      return std::string(GpuCopyName(event.copy_kind));
  }
}

std::string KernelDetails(const GpuLaunch& launch) {
  const auto three = [](const uint32_t* numbers) { return StrCat(numbers[0], ",", numbers[1], ",", numbers[2]); };
  std::string text = StrCat("regs:", launch.registers, " static_shared:", launch.static_shared_bytes,
                            " dynamic_shared:", launch.dynamic_shared_bytes, " grid:", three(launch.grid),
                            " block:", three(launch.block));
  if (launch.occupancy >= 0) absl::StrAppendFormat(&text, " occ_pct:%.4g", launch.occupancy * 100);
  // The page ignores unknown tokens.
  if (launch.local_bytes != 0) StrAppend(&text, " local:", launch.local_bytes);
  if (launch.cluster[0] != 0) StrAppend(&text, " cluster:", three(launch.cluster));
  if (launch.cooperative) text += " cooperative:1";
  return text;
}

XplaneCounts GpuPlaneCounts(const Timeline& timeline, uint32_t device, const GpuCalls& calls) {
  XplaneCounts counts;
  const auto add = [&](uint64_t events) {
    if (events == 0) return;
    counts.planes = 1;
    ++counts.lines;
    counts.events += events;
  };
  for (const GpuStream& stream : timeline.gpu_streams) {
    if (stream.device == device) add(stream.events.size());
  }
  uint64_t samples = 0;
  for (const CounterTrack& track : timeline.counters) {
    if (track.device == static_cast<int>(device)) samples += track.samples.size();
  }
  add(samples);
  add(calls.OutsideOf(device).size());
  return counts;
}

absl::Status WriteGpuPlane(const Timeline& timeline, uint32_t device, const GpuCalls& calls, const FlowIds& flows,
                           XSpaceWriter& writer) {
  if (GpuPlaneCounts(timeline, device, calls).planes == 0) return absl::OkStatus();
  const GpuDevice& of = timeline.gpu_devices[device];
  const bool counted = calls.HasSteps(device);
  PlaneBuilder plane(counted ? of.number : kIdlePlaneIds + of.number % kIdlePlaneIds,
                     counted ? StrCat(kGpuPlane, of.number) : StrCat(kIdleGpuPlane, of.number, " (outside of steps)"));
  WriteFacts(of, plane);
  const bool shared = SharedByProcesses(timeline, device);
  DeviceEventWriter events(timeline, device, calls, flows, &plane);
  for (const GpuStream& stream : timeline.gpu_streams) {
    if (stream.device != device || stream.events.empty()) continue;
    LineBuilder& line = plane.AddLine(stream.line_id, StreamName(timeline, stream, shared));
    line.ReserveEvents(stream.events.size(), 48);
    for (const GpuEvent& event : stream.events) events.Write(line, event);
  }
  WriteOutside(calls.OutsideOf(device), plane);
  LineBuilder* counters = nullptr;
  struct Sample {
    int64_t time_ps;
    double value;
    uint32_t event_id, stat_id;
  };
  std::vector<Sample> samples;
  for (const CounterTrack& track : timeline.counters) {
    if (track.device != static_cast<int>(device) || track.samples.empty()) continue;
    const uint32_t event_id = plane.EventId(ValidUtf8(track.name)), stat_id = plane.StatId(SeriesName(track));
    for (const CounterSample& sample : track.samples) {
      samples.push_back({sample.time_ps, sample.value, event_id, stat_id});
    }
  }
  std::stable_sort(samples.begin(), samples.end(),
                   [](const Sample& a, const Sample& b) { return a.time_ps < b.time_ps; });
  for (const Sample& sample : samples) {
    if (counters == nullptr) counters = &plane.AddLine(kCountersLineId, kCountersLine);
    counters->Begin(sample.event_id, sample.time_ps, 0);
    counters->Double(sample.stat_id, sample.value);
    counters->End();
  }
  return writer.Write(plane);
}

}  // namespace tbprof
