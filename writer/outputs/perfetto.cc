// SPDX-License-Identifier: Apache-2.0
#include "writer/outputs/perfetto.h"

#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_format.h"
#include "writer/base/text.h"
#include "writer/base/utf8.h"
#include "writer/convert/torch_links.h"
#include "writer/outputs/gzip_sink.h"
#include "writer/outputs/xplane_gpu.h"
#include "writer/outputs/xplane_native.h"
#include "writer/outputs/xplane_python.h"
#include "writer/timeline/python_place.h"
#include "writer/timeline/schema.h"
#include "writer/timeline/torch_names.h"

namespace tbprof {
namespace {

// A JSON string, with its quotes. The input must be valid UTF-8.
std::string Quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<uint8_t>(c) < 0x20) {
      absl::StrAppendFormat(&out, "\\u%04x", c);
    } else {
      out += c;
    }
  }
  out += '"';
  return out;
}

std::string_view FamilyName(EventFamily family) {
  switch (family) {
    case EventFamily::kThread:
      return "thread";
    case EventFamily::kLock:
      return "lock";
    case EventFamily::kSleep:
      return "sleep";
    case EventFamily::kIo:
      return "io";
    case EventFamily::kProcess:
      return "process";
    case EventFamily::kMemory:
      return "memory";
    case EventFamily::kStep:
      return "step";
    case EventFamily::kGpu:
      return "cuda";
    case EventFamily::kAnnotation:
      return "annotation";
    case EventFamily::kOther:
      return "other";
  }
  return "other";
}

// Appends to a buffer that the caller keeps large enough.
class Text {
 public:
  explicit Text(Sink* sink) : sink_(sink), buffer_(kSize + kMargin, '\0') {}

  void Put(std::string_view text) {
    if (text.size() > kMargin / 2) {
      Flush();
      if (status_.ok()) status_ = sink_->Append(text);
      return;
    }
    std::memcpy(buffer_.data() + used_, text.data(), text.size());
    used_ += text.size();
    if (used_ > kSize) Flush();
  }
  void Put(char c) { buffer_[used_++] = c; }
  void Number(int64_t value) {
    if (value < 0) {
      Put('-');
      Unsigned(~static_cast<uint64_t>(value) + 1);
    } else {
      Unsigned(static_cast<uint64_t>(value));
    }
  }
  void Unsigned(uint64_t value) {
    char digits[20];
    int at = 20;
    do {
      digits[--at] = static_cast<char>('0' + value % 10);
      value /= 10;
    } while (value != 0);
    std::memcpy(buffer_.data() + used_, digits + at, static_cast<size_t>(20 - at));
    used_ += static_cast<size_t>(20 - at);
  }
  // Microseconds with three decimals.
  void Time(int64_t ns) {
    Number(ns / 1000);
    const int64_t rest = ns % 1000;
    if (rest == 0) return;
    Put('.');
    Put(static_cast<char>('0' + rest / 100));
    Put(static_cast<char>('0' + rest / 10 % 10));
    Put(static_cast<char>('0' + rest % 10));
  }
  // Called between events: the numbers of one event fit into the margin.
  void Flush() {
    if (status_.ok() && used_ > 0) status_ = sink_->Append({buffer_.data(), used_});
    used_ = 0;
  }
  const absl::Status& status() const { return status_; }

 private:
  static constexpr size_t kSize = 1 << 17, kMargin = 1 << 15;
  Sink* sink_;
  std::string buffer_;
  size_t used_ = 0;
  absl::Status status_;
};

class PerfettoWriter {
 public:
  PerfettoWriter(const Timeline& timeline, Sink* sink)
      : timeline_(timeline), out_(sink), quoted_(timeline.strings.size()) {}

  absl::Status Write() {
    out_.Put("{\"displayTimeUnit\":\"ns\",\"otherData\":{\"producer\":\"tbprof\"");
    Field("host", timeline_.host);
    Field("run", timeline_.run);
    Field("window", timeline_.window);
    Field("command", timeline_.command_line);
    out_.Put(",\"origin_unix_ns\":\"");
    out_.Unsigned(timeline_.origin_unix_ns);
    out_.Put("\"},\"traceEvents\":[\n");
    ChoosePids();
    Names();
    Types();
    for (uint32_t index = 0; index < timeline_.threads.size(); ++index) {
      const Thread& thread = timeline_.threads[index];
      if (thread.process >= timeline_.processes.size()) continue;
      const std::string where = StrCat(",\"pid\":", pids_[thread.process], ",\"tid\":", thread.tid);
      for (size_t i = 0; i < thread.events.size(); ++i) {
        WriteEvent(thread.events[i], where, links_.Of(index, i));
        if (!out_.status().ok()) return out_.status();
      }
    }
    for (const GpuStream& stream : timeline_.gpu_streams) {
      const std::string where = StrCat(",\"pid\":", GpuPid(stream.device), ",\"tid\":", stream.line_id);
      for (const GpuEvent& event : stream.events) {
        WriteGpuEvent(event, where);
        if (!out_.status().ok()) return out_.status();
      }
    }
    for (const PythonThread& thread : timeline_.python.threads) {
      WritePython(thread);
      if (!out_.status().ok()) return out_.status();
    }
    for (const NativeThread& thread : timeline_.native.threads) {
      WriteNative(thread);
      if (!out_.status().ok()) return out_.status();
    }
    Steps();
    Counters();
    out_.Put("\n]}\n");
    out_.Flush();
    return out_.status();
  }

 private:
  void Field(std::string_view name, const std::string& value) {
    out_.Put(StrCat(",", Quoted(name), ":", Quoted(ValidUtf8(value))));
  }

  void Begin() {
    if (!first_) out_.Put(",\n");
    first_ = false;
  }

  // A pid is only a label here: namespaces and reuse can give several processes the same pid.
  void ChoosePids() {
    std::set<int64_t> taken;
    for (const Process& process : timeline_.processes) {
      int64_t pid = process.pid;
      while (!taken.insert(pid).second) pid += 100'000'000;
      pids_.push_back(pid);
    }
  }

  void Metadata(std::string_view kind, int64_t pid, int64_t tid, const std::string& args) {
    Begin();
    out_.Put(
        StrCat("{\"ph\":\"M\",\"name\":\"", kind, "\",\"pid\":", pid, ",\"tid\":", tid, ",\"args\":{", args, "}}"));
  }

  void Names() {
    for (size_t i = 0; i < timeline_.processes.size(); ++i) {
      const std::string name = ValidUtf8(timeline_.processes[i].name);
      Metadata("process_name", pids_[i], 0, StrCat("\"name\":", Quoted(name)));
      Metadata("process_sort_index", pids_[i], 0, StrCat("\"sort_index\":", i));
    }
    for (const Thread& thread : timeline_.threads) {
      if (thread.process >= timeline_.processes.size()) continue;
      const std::string& name = thread.name.empty() ? timeline_.processes[thread.process].name : thread.name;
      Metadata("thread_name", pids_[thread.process], thread.tid, StrCat("\"name\":", Quoted(ValidUtf8(name))));
    }
    for (uint32_t i = 0; i < timeline_.gpu_devices.size(); ++i) {
      const GpuDevice& device = timeline_.gpu_devices[i];
      Metadata("process_name", GpuPid(i), 0,
               StrCat("\"name\":",
                      Quoted(StrCat("GPU ", device.number, device.name.empty() ? "" : " ", ValidUtf8(device.name)))));
      Metadata("process_sort_index", GpuPid(i), 0, StrCat("\"sort_index\":", 1'000'000 + i));
    }
    for (const GpuStream& stream : timeline_.gpu_streams) {
      Metadata("thread_name", GpuPid(stream.device), static_cast<int64_t>(stream.line_id),
               StrCat("\"name\":", Quoted(StreamName(timeline_, stream, true))));
    }
    if (!timeline_.steps.empty()) {
      steps_pid_ = 2'000'000'000;
      Metadata("process_name", steps_pid_, 0, "\"name\":\"steps\"");
      Metadata("process_sort_index", steps_pid_, 0, "\"sort_index\":-1");
    }
  }

  void Types() {
    for (const EventType& type : timeline_.types) {
      types_.push_back(
          StrCat(",\"name\":", Quoted(ValidUtf8(type.name)), ",\"cat\":\"", FamilyName(type.family), "\""));
    }
  }

  void Arg(std::string_view quoted_name) {
    out_.Put(first_arg_ ? ",\"args\":{" : ",");
    first_arg_ = false;
    out_.Put(quoted_name);
  }
  void TextArg(std::string_view quoted_name, StringId id) {
    Arg(quoted_name);
    std::string& text = quoted_[id];
    if (text.empty()) text = Quoted(timeline_.strings.Get(id));
    out_.Put(text);
  }
  void HexArg(std::string_view quoted_name, uint64_t value) {
    Arg(quoted_name);
    char digits[20] = "\"0x";
    int at = 3;
    int shift = value == 0 ? 0 : (63 - __builtin_clzll(value)) / 4 * 4;
    for (; shift >= 0; shift -= 4) digits[at++] = "0123456789abcdef"[value >> shift & 15];
    digits[at++] = '"';
    out_.Put({digits, static_cast<size_t>(at)});
  }
  void NumberArg(std::string_view quoted_name, int64_t value) {
    Arg(quoted_name);
    out_.Number(value);
  }

  void WriteEvent(const Event& event, const std::string& where, uint32_t link) {
    const EventType& type = timeline_.types[event.type];
    const int64_t start_ns = event.start_ps / 1000;
    const int64_t end_ns = (event.start_ps + event.duration_ps) / 1000;
    Begin();
    out_.Put(event.duration_ps != 0 ? "{\"ph\":\"X\",\"ts\":" : "{\"ph\":\"i\",\"s\":\"t\",\"ts\":");
    out_.Time(start_ns);
    if (event.duration_ps != 0) {
      out_.Put(",\"dur\":");
      out_.Time(end_ns - start_ns);
    }
    out_.Put(where);
    out_.Put(types_[event.type]);
    first_arg_ = true;
    if (event.call_site != 0) {
      TextArg(IsFrameworkWork(type) ? "\"Input Dims\":" : "\"call_site\":", event.call_site);
    }
    if (HasObjectToShow(type, event)) Object(type.object, event.object);
    if (HasValueToShow(type, event)) Value(type.value, event.value);
    if (event.error != 0 && type.family == EventFamily::kGpu) {
      Arg("\"error\":");
      out_.Put(Quoted(CudaErrorText(event.error)));
    } else if (event.error != 0) {
      const char* name = strerrorname_np(event.error);
      Arg("\"error\":\"");
      out_.Put(name != nullptr ? name : "errno ");
      if (name == nullptr) out_.Number(event.error);
      out_.Put('"');
    }
    if (event.flags & Event::kClippedAtStart) NumberArg("\"clipped_at_start\":", 1);
    if (event.flags & Event::kClippedAtEnd) NumberArg("\"clipped_at_end\":", 1);
    if (event.flags & Event::kOpen) NumberArg("\"open\":", 1);
    if (event.detail != 0) TextArg(IsFrameworkWork(type) ? "\"operation\":" : "\"detail\":", event.detail);
    if (event.python != 0) PythonArgs(event.python);
    out_.Put(first_arg_ ? "}" : "}}");
    if (type.value == ValueKind::kCorrelation && event.value != 0) Flow("s", start_ns, event.value, where, kLaunches);
    if (type.value == ValueKind::kFlowOut && event.value != 0) Flow("s", start_ns, event.value, where);
    if (type.value == ValueKind::kFlowIn && event.value != 0) Flow("f\",\"bp\":\"e", start_ns, event.value, where);
    if (link != 0) Flow(EndsTorchLink(type) ? "f\",\"bp\":\"e" : "s", start_ns, link, where, kBackward);
  }

  // The same texts as the stats of the xplane file.
  void PythonArgs(uint32_t stack) {
    std::string& text = python_[stack];
    const PythonStack& frame = timeline_.python.stacks[stack];
    if (text.empty()) {
      text = StrCat("\"python\":", Quoted(PythonFrameText(timeline_, frame)));
      if (frame.parent != 0 && python_.size() <= PythonTexts::kMostStacks) {
        StrAppend(&text, ",\"python stack\":", Quoted(PythonStackText(timeline_, stack, PythonTexts::kCallers)));
      }
    }
    Arg(text);
  }

  void Object(ObjectKind kind, uint64_t object) {
    if (object == 0 && kind != ObjectKind::kDescriptor) return;
    switch (kind) {
      case ObjectKind::kNone:
        return;
      case ObjectKind::kAddress:
        return HexArg("\"object\":", object);
      case ObjectKind::kThread:
        return HexArg("\"thread\":", object);
      case ObjectKind::kDescriptor:
        return NumberArg("\"fd\":", static_cast<int64_t>(object));
      case ObjectKind::kProcessId:
        return NumberArg("\"process\":", static_cast<int64_t>(object));
      case ObjectKind::kStream:
        return NumberArg("\"stream\":", static_cast<int64_t>(object));
    }
  }

  void Value(ValueKind kind, int64_t value) {
    switch (kind) {
      case ValueKind::kNone:
      case ValueKind::kFlowOut:
      case ValueKind::kFlowIn:
      case ValueKind::kCorrelation:
        return;
      case ValueKind::kBytes:
        return NumberArg("\"bytes\":", value);
      case ValueKind::kResult:
        return NumberArg("\"result\":", value);
      case ValueKind::kProcessId:
        return NumberArg("\"process\":", value);
      case ValueKind::kSignal:
        return NumberArg("\"signal\":", value);
      case ValueKind::kPayload:
        return NumberArg("\"payload\":", value);
      case ValueKind::kSequence:
        return NumberArg("\"sequence\":", value);
      case ValueKind::kPayloadUnsigned:
        Arg("\"payload\":");
        return out_.Put(StrCat(static_cast<uint64_t>(value)));
      case ValueKind::kPayloadDouble: {
        const double number = DoubleOf(value);
        Arg("\"payload\":");
        // JSON has no NaN and no infinity.
        return out_.Put(std::isfinite(number) ? absl::StrFormat("%.17g", number) : std::string("null"));
      }
    }
  }

  // Python samples have a track of their own: sampled spans do not nest with exact events.
  void WritePython(const PythonThread& samples) {
    if (PythonSpanCount(timeline_, samples.thread) == 0) return;
    const std::string where = SampledTrack(samples.thread, 1'000'000'000, kPythonLine, "python");
    for (const PythonSpan& span : samples.spans) {
      SampledSpan(span.start_ps, span.duration_ps, where);
      const StringId label = timeline_.python.functions[span.function].label;
      std::string& text = quoted_[label];
      if (text.empty()) text = Quoted(timeline_.strings.Get(label));
      out_.Put(text);
      first_arg_ = true;
      NumberArg("\"samples\":", span.samples);
      if (span.line >= 0) NumberArg("\"line\":", span.line);
      out_.Put("}}");
    }
  }

  void WriteNative(const NativeThread& samples) {
    if (NativeSpanCount(timeline_, samples.thread) == 0) return;
    const std::string where = SampledTrack(samples.thread, 1'400'000'000, kNativeLine, "native");
    for (const NativeSpan& span : samples.spans) {
      const NativeStack& stack = timeline_.native.stacks[span.stack];
      SampledSpan(span.start_ps, span.duration_ps, where);
      std::string& text = native_labels_[{stack.function, stack.module}];
      if (text.empty()) text = Quoted(NativeLabel(timeline_, stack));
      out_.Put(text);
      first_arg_ = true;
      NumberArg("\"samples\":", span.samples);
      out_.Put("}}");
    }
  }

  // Names the track; returns the fields that assign spans to it. `first`: the first number for such tracks.
  std::string SampledTrack(uint32_t index, int64_t first, std::string_view line, std::string_view category) {
    const Thread& thread = timeline_.threads[index];
    const int64_t tid = first + int64_t{index};
    const std::string& name = thread.name.empty() ? timeline_.processes[thread.process].name : thread.name;
    Metadata("thread_name", pids_[thread.process], tid,
             StrCat("\"name\":", Quoted(StrCat(line, ValidUtf8(name), "/", thread.tid, kSampledLine))));
    return StrCat(",\"pid\":", pids_[thread.process], ",\"tid\":", tid, ",\"cat\":\"", category, "\"");
  }

  // Writes a span up to its name.
  void SampledSpan(int64_t start_ps, int64_t duration_ps, const std::string& where) {
    Begin();
    out_.Put("{\"ph\":\"X\",\"ts\":");
    out_.Time(start_ps / 1000);
    out_.Put(",\"dur\":");
    out_.Time((start_ps + duration_ps) / 1000 - start_ps / 1000);
    out_.Put(where);
    out_.Put(",\"name\":");
  }

  static int64_t GpuPid(uint32_t device) { return 1'900'000'000 + int64_t{device}; }

  void WriteGpuEvent(const GpuEvent& event, const std::string& where) {
    const int64_t start_ns = event.start_ps / 1000;
    Begin();
    out_.Put("{\"ph\":\"X\",\"ts\":");
    out_.Time(start_ns);
    out_.Put(",\"dur\":");
    out_.Time((event.start_ps + event.duration_ps) / 1000 - start_ns);
    out_.Put(where);
    if (event.kind == GpuEventKind::kKernel) {
      out_.Put(",\"cat\":\"kernel\",\"name\":");
      std::string& text = quoted_[event.name];
      if (text.empty()) text = Quoted(timeline_.strings.Get(event.name));
      out_.Put(text);
    } else {
      out_.Put(event.kind == GpuEventKind::kGraph ? ",\"cat\":\"graph\",\"name\":" : ",\"cat\":\"memory\",\"name\":");
      out_.Put(Quoted(GpuEventName(timeline_, event)));
    }
    first_arg_ = true;
    if (event.kind == GpuEventKind::kKernel) {
      Arg("\"details\":");
      out_.Put(Quoted(KernelDetails(timeline_.gpu_launches[event.launch])));
    } else if (event.kind != GpuEventKind::kGraph) {
      Arg("\"bytes\":");
      out_.Unsigned(event.value);
      Arg("\"from\":");
      out_.Put(Quoted(MemoryKindName(event.source_kind)));
      Arg("\"to\":");
      out_.Put(Quoted(MemoryKindName(event.destination_kind)));
    }
    if (event.operation != 0) TextArg("\"operation\":", event.operation);
    if (event.graph != 0) NumberArg("\"graph\":", event.graph);
    if (event.flags & GpuEvent::kClippedAtStart) NumberArg("\"clipped_at_start\":", 1);
    if (event.flags & GpuEvent::kClippedAtEnd) NumberArg("\"clipped_at_end\":", 1);
    if (event.flags & GpuEvent::kUnfinished) NumberArg("\"open\":", 1);
    if (event.flags & GpuEvent::kUncertain) NumberArg("\"uncertain\":", 1);
    if (event.flags & GpuEvent::kApproximate) NumberArg("\"approximate\":", 1);
    out_.Put(first_arg_ ? "}" : "}}");
    Flow("f\",\"bp\":\"e", start_ns, static_cast<int64_t>(event.correlation), where, kLaunches);
  }

  static constexpr std::string_view kStarts = "\",\"cat\":\"flow\",\"name\":\"starts\",\"id\":";
  static constexpr std::string_view kLaunches = "\",\"cat\":\"cuda\",\"name\":\"launches\",\"id\":";

  static constexpr std::string_view kBackward = "\",\"cat\":\"autograd\",\"name\":\"backward\",\"id\":";

  void Flow(std::string_view phase, int64_t ns, int64_t id, const std::string& where, std::string_view kind = kStarts) {
    Begin();
    out_.Put("{\"ph\":\"");
    out_.Put(phase);
    out_.Put(kind);
    out_.Number(id);
    out_.Put(",\"ts\":");
    out_.Time(ns);
    out_.Put(where);
    out_.Put("}");
  }

  void Steps() {
    for (const Step& step : timeline_.steps) {
      Begin();
      out_.Put("{\"ph\":\"X\",\"ts\":");
      out_.Time(step.start_ps / 1000);
      out_.Put(",\"dur\":");
      out_.Time(step.end_ps / 1000 - step.start_ps / 1000);
      out_.Put(StrCat(",\"pid\":", steps_pid_, ",\"tid\":0,\"cat\":\"step\",\"name\":",
                      Quoted(StrCat(ValidUtf8(step.name), step.name.empty() ? "" : " ", step.number)), "}"));
    }
  }

  void Counters() {
    for (const CounterTrack& track : timeline_.counters) {
      if (!IsShown(timeline_, track)) continue;
      const int64_t pid = track.device >= 0 ? GpuPid(static_cast<uint32_t>(track.device)) : pids_[track.process];
      const std::string head = StrCat(",\"pid\":", pid, ",\"name\":", Quoted(ValidUtf8(track.name)), ",\"args\":{",
                                      Quoted(ValidUtf8(track.series.empty() ? "value" : track.series)), ":");
      for (const CounterSample& sample : track.samples) {
        Begin();
        out_.Put("{\"ph\":\"C\",\"ts\":");
        out_.Time(sample.time_ps / 1000);
        out_.Put(head);
        // JSON has no NaN and no infinity.
        const double value = std::isfinite(sample.value) ? sample.value : 0;
        if (value == std::trunc(value) && std::abs(value) < 9e15) {
          out_.Number(static_cast<int64_t>(value));
        } else {
          out_.Put(absl::StrFormat("%.17g", value));
        }
        out_.Put("}}");
      }
    }
  }

  const Timeline& timeline_;
  const TorchLinks links_{timeline_};
  Text out_;
  std::vector<int64_t> pids_;
  std::vector<std::string> types_;
  std::vector<std::string> quoted_;
  absl::flat_hash_map<uint32_t, std::string> python_;                   // arguments, by stack
  std::map<std::pair<StringId, StringId>, std::string> native_labels_;  // by function and module
  int64_t steps_pid_ = 0;
  bool first_ = true;
  bool first_arg_ = true;
};

}  // namespace

absl::Status WritePerfetto(const Timeline& timeline, Sink& sink) {
  GzipSink gzip(&sink);
  if (absl::Status status = PerfettoWriter(timeline, &gzip).Write(); !status.ok()) return status;
  return gzip.Finish();
}

}  // namespace tbprof
