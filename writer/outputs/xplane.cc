// SPDX-License-Identifier: Apache-2.0
#include "writer/outputs/xplane.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_format.h"
#include "writer/base/text.h"
#include "writer/base/utf8.h"
#include "writer/convert/cpu_delay.h"
#include "writer/convert/input_pipeline.h"
#include "writer/convert/torch_estimates.h"
#include "writer/convert/torch_links.h"
#include "writer/convert/torch_operations.h"
#include "writer/outputs/flow_ids.h"
#include "writer/outputs/gpu_calls.h"
#include "writer/outputs/memory_events.h"
#include "writer/outputs/summary_conservation.h"
#include "writer/outputs/xplane_counters.h"
#include "writer/outputs/xplane_gpu.h"
#include "writer/outputs/xplane_native.h"
#include "writer/outputs/xplane_python.h"
#include "writer/outputs/xspace_builder.h"
#include "writer/timeline/schema.h"
#include "writer/timeline/torch_names.h"
#include "writer/timeline/wait_sites.h"

namespace tbprof {
namespace {

// Number of objects whose hex text is shared. A program may create millions of locks: further addresses are written
// inline.
constexpr size_t kMaxSharedObjects = 1 << 14;
constexpr size_t kExpectedEventBytes = 26;
constexpr std::string_view kForGil = " (GIL)", kGilWaitShown = "wait for the GIL";

std::string Hex(uint64_t value) { return absl::StrFormat("0x%x", value); }

// If an interned text equals a stat name that a reader knows, it counts as that stat's metadata. Those names are words;
// call sites, paths and shapes contain one of these characters.
bool MayIntern(std::string_view text) { return text.find_first_of("(/+[") != std::string_view::npos; }

// Writes events of the timeline to lines of one plane.
class EventWriter {
 public:
  // `counted`: the calls of this plane belong to steps.
  EventWriter(const Timeline& timeline, PlaneBuilder* plane, FlowIds* flows, const TorchLinks* links,
              const GpuCalls& calls, bool counted)
      : timeline_(timeline),
        plane_(plane),
        flows_(flows),
        links_(links),
        calls_(calls),
        counted_(counted),
        python_(timeline, plane),
        event_ids_(timeline.types.size()),
        gil_ids_(timeline.types.size()),
        text_ids_(timeline.strings.size()) {
    for (const EventType& type : timeline.types) may_be_for_gil_.push_back(MayBeForGil(type));
  }

  // `tied`: the call itself carries its step. `link`: from TorchLinks.
  void Write(LineBuilder& line, const Event& event, bool tied, uint32_t link) {
    const EventType& type = timeline_.types[event.type];
    const bool of_gil = event.call_site != 0 && may_be_for_gil_[event.type] && IsForGil(event.call_site);
    uint32_t& event_id = of_gil ? gil_ids_[event.type] : event_ids_[event.type];
    if (event_id == 0) {
      event_id = plane_->EventId(of_gil ? StrCat(type.name, kForGil) : type.name);
      if (of_gil) plane_->ShowAs(event_id, kGilWaitShown);
      const ConservedKind kind = ConservedKindOf(type);
      // `tbprof check` compares the events of host planes with what was published; most copies are on GPU planes.
      if (kind != ConservedKind::kNone && kind != ConservedKind::kGpuCopy) kinds_[event_id].insert(kind);
    }
    line.Begin(event_id, event.start_ps, event.duration_ps);
    if (event.call_site != 0) {
      Text(line, IsFrameworkWork(type) ? Stat::kInputDims : Stat::kCallSite, event.call_site);
    }
    if ((event.object != 0 || type.object == ObjectKind::kDescriptor) && HasObjectToShow(type, event)) {
      Object(line, type.object, event.object);
    }
    if (event.flags != 0 || event.error != 0) Flags(line, event, type.family);
    if (type.value == ValueKind::kCorrelation) {
      Call(line, event, tied);
    } else if (HasValueToShow(type, event)) {
      Value(line, type.value, event.value);
    }
    if (event.detail != 0) Text(line, IsFrameworkWork(type) ? Stat::kTfOp : Stat::kDetail, event.detail);
    if (event.python != 0) python_.Write(event.python, line);
    if (type.family == EventFamily::kAnnotation && !IsFrameworkWork(type)) Operation(line, event.type);
    // Flows of the timeline have ids above 0, so links get negative ids.
    if (link != 0) Flow(line, -static_cast<int64_t>(link), !EndsTorchLink(type));
    line.End();
  }

  // Called after all lines of threads.
  void WriteKinds() {
    for (const auto& [event_id, kinds] : kinds_) {
      std::string text;
      for (const ConservedKind kind : kinds) StrAppend(&text, text.empty() ? "" : ",", NameOf(kind));
      plane_->EventText(event_id, Stat::kKind, text);
    }
  }

  void Write(LineBuilder& line, const LaunchBar& bar) {
    line.Begin(plane_->EventId(kLaunchesEvent), bar.start_ps, bar.end_ps - bar.start_ps);
    Step(line, bar.marker);
    line.End();
  }

  void WriteAll(LineBuilder& line, uint32_t index) {
    const Thread& thread = timeline_.threads[index];
    const ThreadSteps steps = counted_ ? StepsOfThread(timeline_, thread, calls_) : ThreadSteps{};
    auto bar = steps.bars.begin();
    auto tied = steps.tied.begin();
    for (uint32_t i = 0; i < thread.events.size(); ++i) {
      const Event& event = thread.events[i];
      for (; bar != steps.bars.end() &&
             (bar->start_ps < event.start_ps ||
              (bar->start_ps == event.start_ps && bar->end_ps - bar->start_ps >= event.duration_ps));
           ++bar) {
        Write(line, *bar);
      }
      while (tied != steps.tied.end() && *tied < i) ++tied;
      Write(line, event, tied != steps.tied.end() && *tied == i, links_->Of(index, i));
    }
  }

 private:
  static void Step(LineBuilder& line, uint64_t marker) {
    line.Int64(Stat::kConsumerType, 0);
    line.Uint64(Stat::kConsumerId, marker);
  }

  bool IsForGil(StringId call_site) {
    if (gil_sites_.empty()) gil_sites_.resize(timeline_.strings.size());
    Answer& answer = gil_sites_[call_site];
    if (answer == Answer::kUnknown) {
      answer = IsGilSite(timeline_.strings.Get(call_site)) ? Answer::kYes : Answer::kNo;
    }
    return answer == Answer::kYes;
  }

  static constexpr uint32_t kInline = ~uint32_t{0};

  void Text(LineBuilder& line, Stat stat, StringId id) {
    uint32_t& text_id = text_ids_[id];
    if (text_id == 0)
      text_id = MayIntern(timeline_.strings.Get(id)) ? plane_->TextId(timeline_.strings.Get(id)) : kInline;
    if (text_id == kInline) {
      line.InlineText(stat, timeline_.strings.Get(id));
    } else {
      line.Text(stat, text_id);
    }
  }

  // For a name that would be taken for another operation's.
  void Operation(LineBuilder& line, uint16_t type) {
    if (operation_ids_.empty()) operation_ids_.resize(timeline_.types.size());
    uint32_t& id = operation_ids_[type];
    if (id == 0) {
      const std::string operation = OperationOfName(timeline_.types[type].name);
      id = operation.empty() ? kInline : plane_->TextId(operation);
    }
    if (id != kInline) line.Text(Stat::kTfOp, id);
  }

  void Address(LineBuilder& line, Stat stat, uint64_t object) {
    CachedObject& cached = cache_[(object >> 3) % kCacheSize];
    if (cached.object != object) {
      const auto it = object_ids_.find(object);
      if (it != object_ids_.end()) {
        cached = {object, it->second};
      } else if (object_ids_.size() < kMaxSharedObjects) {
        const uint32_t id = plane_->TextId(Hex(object));
        object_ids_.emplace(object, id);
        cached = {object, id};
      } else {
        line.InlineText(stat, Hex(object));
        return;
      }
    }
    line.Text(stat, cached.text_id);
  }

  void Object(LineBuilder& line, ObjectKind kind, uint64_t object) {
    switch (kind) {
      case ObjectKind::kNone:
        return;
      case ObjectKind::kAddress:
        return Address(line, Stat::kObject, object);
      case ObjectKind::kThread:
        return Address(line, Stat::kThreadOf, object);
      case ObjectKind::kDescriptor:
        return line.Int64(Stat::kDescriptor, static_cast<int64_t>(object));
      case ObjectKind::kProcessId:
        return line.Int64(Stat::kProcessOf, static_cast<int64_t>(object));
      case ObjectKind::kStream:
        return line.Int64(Stat::kStreamOf, static_cast<int64_t>(object));
    }
  }

  void Call(LineBuilder& line, const Event& event, bool tied) {
    if (event.value == 0) return;
    const auto correlation = static_cast<uint64_t>(event.value);
    if (calls_.IsOutside(correlation)) {
      line.Uint64(Stat::kFlow, flows_->ValueOfCall(correlation, /*begins=*/true));
    } else {
      line.Uint64(Stat::kCorrelationId, correlation);
    }
    if (tied) Step(line, calls_.MarkerAt(event.start_ps));
  }

  void Value(LineBuilder& line, ValueKind kind, int64_t value) {
    switch (kind) {
      case ValueKind::kNone:
      case ValueKind::kCorrelation:
        return;
      case ValueKind::kBytes:
        return line.Int64(Stat::kBytes, value);
      case ValueKind::kResult:
        return line.Int64(Stat::kResult, value);
      case ValueKind::kProcessId:
        return line.Int64(Stat::kProcessOf, value);
      case ValueKind::kSignal:
        return line.Int64(Stat::kSignal, value);
      case ValueKind::kPayload:
        return line.Int64(Stat::kPayload, value);
      case ValueKind::kPayloadUnsigned:
        return line.Uint64(Stat::kPayload, static_cast<uint64_t>(value));
      case ValueKind::kSequence:
        return line.Int64(Stat::kSequence, value);
      case ValueKind::kPayloadDouble:
        return line.Double(Stat::kPayloadValue, DoubleOf(value));
      case ValueKind::kFlowOut:
      case ValueKind::kFlowIn:
        if (value == 0) return;
        return Flow(line, value, kind == ValueKind::kFlowOut);
    }
  }

  void Flow(LineBuilder& line, int64_t flow, bool begins) { line.Uint64(Stat::kFlow, flows_->Value(flow, begins)); }

  void Flags(LineBuilder& line, const Event& event, EventFamily family) {
    if (event.error != 0 && family == EventFamily::kGpu) {
      line.InlineText(Stat::kError, CudaErrorText(event.error));
    } else if (event.error != 0) {
      const uint32_t text_id = ErrorText(event.error);
      if (text_id != kInline) {
        line.Text(Stat::kError, text_id);
      } else {
        line.InlineText(Stat::kError, StrCat("errno ", event.error));
      }
    }
    const bool start = event.flags & Event::kClippedAtStart;
    const bool end = event.flags & Event::kClippedAtEnd;
    if (start || end) line.InlineText(Stat::kClipped, start && end ? "start and end" : start ? "start" : "end");
    if (event.flags & Event::kOpen) line.Int64(Stat::kOpen, 1);
  }

  // kInline: the number has no name. Names such as EAGAIN are not stat names.
  uint32_t ErrorText(int32_t error) {
    if (error < 0 || static_cast<size_t>(error) >= kErrors) return kInline;
    uint32_t& text_id = error_ids_[error];
    if (text_id == 0) {
      const char* name = strerrorname_np(error);
      text_id = name != nullptr ? plane_->TextId(name) : kInline;
    }
    return text_id;
  }

  static constexpr size_t kErrors = 256;  // Linux has 133
  static constexpr size_t kCacheSize = 256;
  struct CachedObject {
    uint64_t object = 0;
    uint32_t text_id = 0;
  };

  const Timeline& timeline_;
  PlaneBuilder* plane_;
  FlowIds* flows_;
  const TorchLinks* links_;
  const GpuCalls& calls_;
  const bool counted_;
  PythonTexts python_;
  enum class Answer : uint8_t { kUnknown, kNo, kYes };
  std::vector<bool> may_be_for_gil_;           // by event type
  std::vector<Answer> gil_sites_;              // by call site
  std::vector<uint32_t> event_ids_, gil_ids_;  // by event type
  std::vector<uint32_t> text_ids_;
  std::vector<uint32_t> operation_ids_;                // by event type
  std::map<uint32_t, std::set<ConservedKind>> kinds_;  // by event name
  absl::flat_hash_map<uint64_t, uint32_t> object_ids_;
  CachedObject cache_[kCacheSize];
  uint32_t error_ids_[kErrors] = {};
};

std::string LineName(const Timeline& timeline, const Thread& thread, bool with_process) {
  const Process& process = timeline.processes[thread.process];
  const std::string name = ValidUtf8(thread.name.empty() ? process.name : thread.name);
  const std::string line =
      thread.is_line ? (name.empty() ? "line" : name) : StrCat(name.empty() ? "thread" : name, "/", thread.tid);
  return with_process ? StrCat(ValidUtf8(process.name), " [", process.pid, "] ", line) : line;
}

// The table of stages shows the event's name.
struct StageText {
  std::string_view name, category;
};
const StageText& StageOf(InputStage stage) {
  static constexpr StageText kTexts[kInputStages] = {
      {"dataloader", "unknown"}, {"dataloader fetch", "preprocessing"},
      {"loader read", "read"},   {"worker decode+collate", "preprocessing"},
      {"h2d", "enqueue"},        {"pin memory", "preprocessing"}};
  return kTexts[static_cast<size_t>(stage)];
}
// Above all ids of events: the time of an event with the same id would count for the stage.
constexpr int64_t kFirstStageId = int64_t{1} << 31;

std::string_view StepEventName(const StepEvent& event, bool lacks_cpu) {
  if (event.is_marker) return kStepEvent;
  if (event.is_input) return event.is_sum ? kInputWaitSumEvent : kInputWaitEvent;
  if (lacks_cpu) return event.is_sum ? kRunningOrWaitingSumEvent : kRunningOrWaitingEvent;
  return event.is_sum ? kRunningSumEvent : kRunningEvent;
}

// There may be hundreds of thousands of events: their texts are references.
void WriteSteps(const Timeline& timeline, const std::vector<StepEvent>& steps, const GpuCalls& calls, uint64_t line_id,
                PlaneBuilder& plane) {
  if (steps.empty()) return;
  LineBuilder& line = plane.AddLine(line_id, kStepsLine);
  const uint32_t loader = plane.TextId(StageOf(InputStage::kWait).name);
  const uint32_t source = plane.TextId(ValidUtf8(timeline.step_source_text));
  // The reader numbers events of a higher level first: steps keep the numbers 0, 1, 2.
  const int64_t level = calls.AnyOutside() ? kOutsideLevel + 1 : 1;
  const bool lacks_cpu = DelayShareOfSteps(timeline) >= kMuchDelay;
  uint64_t markers = 0;
  for (const StepEvent& event : steps) {
    line.Begin(plane.EventId(StepEventName(event, lacks_cpu)), event.start_ps, event.end_ps - event.start_ps);
    // Without an id of a stage: the stages have lines of their own.
    if (event.is_input) line.Text(Stat::kInputStageName, loader);
    if (event.is_marker) {
      line.Int64(Stat::kRoot, level);
      line.Int64(Stat::kStepNumber, event.number);
      if (event.beside) line.Int64(Stat::kIterationNumber, *event.beside);
      line.Text(Stat::kGraphType, plane.TextId(event.title));
      line.Int64(Stat::kProducerType, 0);
      line.Uint64(Stat::kProducerId, ++markers);
      if (!timeline.step_source_text.empty()) line.Text(Stat::kStepSource, source);
    }
    line.End();
  }
}

void WriteInput(const std::vector<InputLine>& lines, uint64_t& line_id, PlaneBuilder& plane) {
  for (const InputLine& input : lines) {
    if (input.events.empty()) continue;
    LineBuilder& line = plane.AddLine(line_id++, input.name);
    for (const InputEvent& event : input.events) {
      const StageText& stage = StageOf(event.stage);
      line.Begin(plane.EventId(stage.name), event.start_ps, event.end_ps - event.start_ps);
      line.Int64(Stat::kInputStageId, kFirstStageId + static_cast<int64_t>(event.stage));
      line.Text(Stat::kInputStageName, plane.TextId(stage.name));
      line.Text(Stat::kInputStageCategory, plane.TextId(stage.category));
      line.End();
    }
  }
}

void WriteEstimates(const Timeline& timeline, uint32_t process, uint64_t& line_id, PlaneBuilder& plane) {
  for (const EstimateLine& estimates : TorchEstimates(timeline, process)) {
    LineBuilder& line = plane.AddLine(line_id++, kEstimatesLine);
    const uint32_t event_id = plane.EventId(kEstimateEvent);
    bool is_noted = estimates.note.empty();
    const auto note = [&] {
      if (is_noted) return;
      is_noted = true;
      line.Begin(event_id, 0, 0);
      line.InlineText(Stat::kTfOp, estimates.note);
      line.End();
    };
    for (const EstimateBar& bar : estimates.bars) {
      // Of two events that begin together, the longer one comes first.
      if (bar.start_ps > 0) note();
      line.Begin(event_id, bar.start_ps, bar.duration_ps);
      line.Text(Stat::kTfOp, plane.TextId(timeline.strings.Get(bar.operation)));
      line.End();
    }
    note();
  }
}

void WritePhases(const std::vector<PhaseEvent>& phases, uint64_t line_id, PlaneBuilder& plane) {
  if (phases.empty()) return;
  LineBuilder& line = plane.AddLine(line_id, kPhasesLine);
  for (const PhaseEvent& phase : phases) {
    line.Begin(plane.EventId(phase.title), phase.start_ps, phase.end_ps - phase.start_ps);
    line.End();
  }
}

}  // namespace

absl::Status WriteXplane(const Timeline& timeline, Sink& sink) {
  XSpaceWriter writer(&sink, timeline.after_agreed_start_ns);
  FlowIds flows(timeline.host);
  const TorchLinks links(timeline);
  // The viewer shows rows in the order of their ids, and merges two lines with one id.
  uint64_t line_id = 1;
  bool counted = true;
  const std::vector<StepEvent> steps = StepEvents(timeline);
  const std::vector<HostPlane> host_planes = HostPlanes(timeline);
  const GpuCalls calls(timeline, host_planes[0], steps);
  for (const HostPlane& host_plane : host_planes) {
    PlaneBuilder plane(0, host_plane.name);
    if (counted) {
      WriteSteps(timeline, steps, calls, line_id++, plane);
      WritePhases(PhaseEvents(timeline), line_id++, plane);
    }
    EventWriter events(timeline, &plane, &flows, &links, calls, counted);
    PythonLineWriter python(timeline, &plane);
    NativeLineWriter native(timeline, &plane);
    for (const uint32_t process : host_plane.processes) {
      if (!host_plane.merged) python.WriteGil(process, &line_id);
    }
    for (uint32_t index : host_plane.threads) {
      const Thread& thread = timeline.threads[index];
      const std::string name = LineName(timeline, thread, host_plane.merged);
      if (!thread.events.empty()) {
        LineBuilder& line = plane.AddLine(line_id++, name);
        line.ReserveEvents(thread.events.size(), kExpectedEventBytes);
        events.WriteAll(line, index);
      }
      python.Write(index, name, &line_id);
      native.Write(index, name, &line_id);
    }
    events.WriteKinds();
    for (const uint32_t process : host_plane.processes) WriteEstimates(timeline, process, line_id, plane);
    if (counted) WriteInput(InputLines(timeline, CountedProcess(timeline)), line_id, plane);
    WriteCounters(timeline, host_plane, line_id, plane);
    if (counted) WriteMemoryEvents(timeline, line_id, plane);
    counted = false;
    if (absl::Status status = writer.Write(plane); !status.ok()) return status;
  }
  for (uint32_t device = 0; device < timeline.gpu_devices.size(); ++device) {
    if (absl::Status status = WriteGpuPlane(timeline, device, calls, flows, writer); !status.ok()) return status;
  }

  PlaneBuilder environment(0, kTaskEnvironmentPlane);
  environment.PlaneUint64(Stat::kProfileStartTime, timeline.origin_unix_ns - timeline.after_agreed_start_ns);
  environment.PlaneUint64(Stat::kProfileStopTime,
                          timeline.origin_unix_ns + static_cast<uint64_t>(timeline.duration_ps / 1000));
  if (!timeline.command_line.empty()) environment.PlaneText(Stat::kCommandLine, ValidUtf8(timeline.command_line));
  if (!timeline.window.empty()) environment.PlaneText(Stat::kWindow, ValidUtf8(timeline.window));
  if (const std::string text = ConservationStat(timeline); !text.empty()) {
    environment.PlaneText(Stat::kConservation, text);
  }
  if (absl::Status status = writer.Write(environment); !status.ok()) return status;
  return writer.Finish(timeline.host, XplaneErrors(timeline), XplaneWarnings(timeline));
}

}  // namespace tbprof
