// SPDX-License-Identifier: Apache-2.0
#include "writer/outputs/xspace_skim.h"

#include <algorithm>

#include "writer/base/file_window.h"
#include "writer/base/text.h"

namespace tbprof {
namespace {

// Limits the time for a file that contains only empty fields, which are two bytes each.
constexpr uint64_t kMaxFields = 1 << 20;
constexpr uint64_t kMaxMarkerFields = 8 << 20;  // for events, until a step marker is found
constexpr size_t kMaxTexts = 16;
constexpr size_t kMaxTextBytes = 4096;
constexpr size_t kMaxNameBytes = 256;
// Roots of TensorFlow's executor that xprof never takes for a step.
constexpr std::string_view kImplicitRoots[] = {"FunctionRun", "SessionRun", "RunGraph", "ExecutorState::Process"};

struct Field {
  uint32_t number = 0;
  int type = 0;
  uint64_t value = 0;  // type 0
  uint64_t begin = 0;  // type 2: position of its bytes in the file
  uint64_t end = 0;    // position after the field
};

class Skim {
 public:
  Skim(int fd, uint64_t size) : file_(fd, size) {}

  XspaceFacts Read() {
    uint64_t at = 0;
    Field field;
    while (!stopped_ && Next(&at, file_.size(), &field)) {
      if (field.type != 2) continue;
      if (field.number == 1) Plane(field);
      if (field.number == 2) Text(field, &facts_.errors, &facts_.error_count);
      if (field.number == 3) Text(field, &facts_.warnings, &facts_.warning_count);
      uint64_t hostnames = 0;
      if (field.number == 4) Text(field, &facts_.hostnames, &hostnames);
    }
    if (!stopped_ && facts_.steps == StepMarkers::kUnknown && !steps_unknown_) facts_.steps = StepMarkers::kNone;
    facts_.error = file_.error();
    facts_.parsed = facts_.cause.empty() && facts_.error == 0;
    return std::move(facts_);
  }

  std::string FaultInMessages() {
    limit_ = kMaxMarkerFields;
    uint64_t at = 0;
    Field field;
    while (Next(&at, file_.size(), &field)) {
      if (field.number == 1 && field.type == 2) Walk(field, Message::kPlane);
    }
    return facts_.cause;
  }

 private:
  // Reads the field at `at` of a message that ends at `end`. Returns false at the end, or if reading cannot continue.
  bool Next(uint64_t* at, uint64_t end, Field* field) {
    if (stopped_ || *at >= end) return false;
    if (++fields_ > limit_) {
      facts_.cut = stopped_ = true;
      return false;
    }
    const std::string_view bytes = file_.Read(*at, static_cast<size_t>(std::min<uint64_t>(end - *at, 20)));
    size_t used = 0;
    uint64_t tag, value = 0;
    if (!FieldReader::Varint(bytes, &used, &tag) || tag >> 3 == 0 || tag >> 3 > 0x1FFFFFFF) {
      return Stop(*at, end, bytes.size() < 10);
    }
    field->number = static_cast<uint32_t>(tag >> 3);
    field->type = static_cast<int>(tag & 7);
    uint64_t length = 0;
    switch (field->type) {
      case 0:
        if (!FieldReader::Varint(bytes, &used, &value)) return Stop(*at, end, used >= bytes.size());
        field->value = value;
        break;
      case 1:
        length = 8;
        break;
      case 5:
        length = 4;
        break;
      case 2:
        if (!FieldReader::Varint(bytes, &used, &length)) return Stop(*at, end, used >= bytes.size());
        break;
      default:
        return Stop(*at, end, false);
    }
    field->begin = *at + used;
    if (length > end - field->begin) return Stop(*at, end, true);
    field->end = field->begin + length;
    *at = field->end;
    return true;
  }

  bool Stop(uint64_t at, uint64_t end, bool short_of_bytes) {
    if (stopped_) return false;
    stopped_ = true;
    facts_.truncated = short_of_bytes && end == file_.size();
    facts_.cause = facts_.truncated ? StrCat("it ends in the middle of a field that begins at byte ", at)
                                    : StrCat("byte ", at, " begins no field of a profile");
    return false;
  }

  std::string Bytes(const Field& field, size_t limit) {
    return std::string(
        file_.Read(field.begin, static_cast<size_t>(std::min<uint64_t>(field.end - field.begin, limit))));
  }

  void Text(const Field& field, std::vector<std::string>* texts, uint64_t* count) {
    ++*count;
    if (texts->size() < kMaxTexts) texts->push_back(Bytes(field, kMaxTextBytes));
  }

  void Plane(const Field& plane) {
    ++facts_.planes;
    std::string name;
    bool hlo = false, megascale = false, counters = false;
    Markers markers;
    uint64_t at = plane.begin;
    Field field;
    while (Next(&at, plane.end, &field)) {
      if (field.type != 2) continue;
      switch (field.number) {
        case 2:
          name = Bytes(field, kMaxNameBytes);
          break;
        case 3:
          ++facts_.lines;
          if (!facts_.has_events) facts_.has_events = HoldsField(field, 4);
          break;
        case 4: {
          uint64_t id = 0;
          const std::string event = MetadataName(field, &id);
          megascale = megascale || event.starts_with("MegaScale:");
          if (event == "TraceContext") markers.context = id;
          for (std::string_view implicit : kImplicitRoots) {
            if (event == implicit) markers.implicit.push_back(id);
          }
          break;
        }
        case 5: {
          uint64_t id = 0;
          const std::string stat = MetadataName(field, &id);
          if (stat == "_r") markers.root = id;
          if (stat == "step_name") markers.step_name = id;
          hlo = hlo || stat == "Hlo Proto";
          counters = counters || stat == "counter_value";
          break;
        }
        default:
          break;
      }
    }
    steps_unknown_ = steps_unknown_ || name.starts_with("/device:TPU:");
    facts_.has_known_plane = facts_.has_known_plane || name.starts_with("/host:") || name.starts_with("/device:");
    if (facts_.steps == StepMarkers::kUnknown && markers.Any() && !stopped_) FindMarker(plane, markers);
    facts_.has_gpu = facts_.has_gpu || name.starts_with("/device:GPU:");
    facts_.has_hlo = facts_.has_hlo || (hlo && name == "/host:metadata");
    facts_.has_megascale = facts_.has_megascale || (megascale && name == "/host:CPU");
    facts_.has_counters = facts_.has_counters || (counters && name.starts_with("/device:TPU:"));
  }

  bool HoldsField(const Field& message, uint32_t number) {
    uint64_t at = message.begin;
    Field field;
    while (Next(&at, message.end, &field)) {
      if (field.number == number) return true;
    }
    return false;
  }

  // Ids of the metadata that make an event a step; 0: not in this plane.
  struct Markers {
    uint64_t context = 0, root = 0, step_name = 0;
    std::vector<uint64_t> implicit;
    bool Any() const { return context != 0 || root != 0 || step_name != 0; }
  };

  enum class Message { kOther, kPlane, kLine, kEvent, kEntry, kMetadata, kStat };

  // The kind of message in a field; kOther if the field holds none.
  static Message Inner(Message message, uint32_t number) {
    switch (message) {
      case Message::kPlane:
        if (number == 6) return Message::kStat;
        return number == 3 ? Message::kLine : number == 4 || number == 5 ? Message::kEntry : Message::kOther;
      case Message::kLine:
        return number == 4 ? Message::kEvent : Message::kOther;
      case Message::kEntry:
        return number == 2 ? Message::kMetadata : Message::kOther;
      case Message::kEvent:
        return number == 4 ? Message::kStat : Message::kOther;
      case Message::kMetadata:  // of an event; the metadata of a stat has no such field
        return number == 5 ? Message::kStat : Message::kOther;
      case Message::kStat:
      case Message::kOther:
        break;
    }
    return Message::kOther;
  }

  void Walk(const Field& message, Message kind) {
    uint64_t at = message.begin;
    Field field;
    while (Next(&at, message.end, &field)) {
      const Message inner = field.type == 2 ? Inner(kind, field.number) : Message::kOther;
      if (inner != Message::kOther) Walk(field, inner);
    }
  }

  // Uses a limit of its own, and reports no fault that it finds in the events.
  void FindMarker(const Field& plane, const Markers& markers) {
    const uint64_t fields = fields_;
    const bool truncated = facts_.truncated;
    fields_ = marker_fields_;
    limit_ = kMaxMarkerFields;
    if (HoldsMarker(plane, markers)) facts_.steps = StepMarkers::kFound;
    if (stopped_ && facts_.steps != StepMarkers::kFound) steps_unknown_ = true;
    marker_fields_ = fields_;
    fields_ = fields;
    limit_ = kMaxFields;
    stopped_ = facts_.cut = false;
    facts_.truncated = truncated;
    facts_.cause.clear();
  }

  // Metadata comes after the lines that use it, so the plane is read again.
  bool HoldsMarker(const Field& plane, const Markers& markers) {
    uint64_t at = plane.begin;
    Field line, event;
    while (Next(&at, plane.end, &line)) {
      if (line.number != 3 || line.type != 2) continue;
      uint64_t inner = line.begin;
      while (Next(&inner, line.end, &event)) {
        if (event.number == 4 && event.type == 2 && IsMarker(event, markers)) return true;
      }
    }
    return false;
  }

  bool IsMarker(const Field& event, const Markers& markers) {
    uint64_t at = event.begin, id = 0;
    bool root = false;
    Field field;
    while (Next(&at, event.end, &field)) {
      if (field.number == 1 && field.type == 0) id = field.value;
      if (field.number != 4 || field.type != 2) continue;
      uint64_t inner = field.begin, stat = 0;
      Field part;
      while (Next(&inner, field.end, &part)) {
        if (part.number == 1 && part.type == 0) stat = part.value;
      }
      root = root || (stat != 0 && (stat == markers.step_name || stat == markers.root));
    }
    if (id != 0 && id == markers.context) return true;
    return root && std::find(markers.implicit.begin(), markers.implicit.end(), id) == markers.implicit.end();
  }

  // An entry of event_metadata or stat_metadata: {key, value {id, name, ...}}.
  std::string MetadataName(const Field& entry, uint64_t* id) {
    uint64_t at = entry.begin;
    Field field;
    while (Next(&at, entry.end, &field)) {
      if (field.number == 1 && field.type == 0) *id = field.value;
      if (field.number != 2 || field.type != 2) continue;
      uint64_t inner = field.begin;
      Field part;
      while (Next(&inner, field.end, &part)) {
        if (part.number == 2 && part.type == 2) return Bytes(part, kMaxNameBytes);
      }
    }
    return "";
  }

  FileWindow file_;
  XspaceFacts facts_;
  uint64_t fields_ = 0, limit_ = kMaxFields;
  uint64_t marker_fields_ = 0;
  bool stopped_ = false;
  bool steps_unknown_ = false;  // a TPU, whose steps come from its own lines; or not all events were read
};

}  // namespace

XspaceFacts SkimXspace(int fd, uint64_t size) { return Skim(fd, size).Read(); }
std::string FindEventFault(int fd, uint64_t size) { return Skim(fd, size).FaultInMessages(); }

NotedAnswers ReadNotes(const std::vector<std::string>& warnings) {
  NotedAnswers answers;
  // `tbprof: ` for `tbprof (rank 3): `.
  const auto without_rank = [](std::string text) {
    constexpr std::string_view kRank = "tbprof (rank ";
    const size_t end = text.starts_with(kRank) ? text.find("): ") : std::string::npos;
    if (end != std::string::npos) text.replace(kRank.find(' '), end + 1 - kRank.find(' '), "");
    return text;
  };
  const auto take_to = [](std::string_view end, std::string_view* text) {
    const std::string_view taken = text->substr(0, text->find(end));
    text->remove_prefix(std::min(text->size(), taken.size() + end.size()));
    return std::string(taken);
  };
  for (const std::string& warning : warnings) {
    const std::string own = without_rank(warning);
    std::string_view text = own;
    if (answers.verdict.empty() && text.starts_with(kVerdictWarning)) {
      text.remove_prefix(kVerdictWarning.size());
      answers.is_waited_for = text.find("; where: ") > text.find("; blocker: ");
      answers.verdict = take_to(answers.is_waited_for ? "; blocker: " : "; where: ", &text);
      size_t end = text.size();
      for (const std::string_view part : {kSplitPart, kNextPart, kChangePart, kMemoryPart}) {
        end = std::min(end, text.find(part));
      }
      answers.where = std::string(text.substr(0, end));
      if (const size_t at = answers.verdict.find(kNoCause); at != std::string::npos) {
        answers.unknown_because = answers.verdict.substr(at + kNoCause.size());
      }
    } else if (answers.no_steps_because.empty() && text.starts_with(kNoStepsWarning)) {
      text.remove_prefix(kNoStepsWarning.size());
      if (text.starts_with(": ")) text.remove_prefix(2);
      answers.no_steps_because = take_to("; the one step shown is synthetic", &text);
      if (answers.no_steps_because.empty()) answers.no_steps_because = "none were recognised";
    }
  }
  return answers;
}

}  // namespace tbprof
