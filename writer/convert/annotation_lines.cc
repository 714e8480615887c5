// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/annotation_lines.h"

#include <algorithm>

#include "writer/base/text.h"
#include "writer/base/utf8.h"
#include "writer/timeline/torch_names.h"

namespace tbprof {
namespace {

constexpr const char* kTooManyNames = "(more names than are kept)";
constexpr const char* kLostName = "(name lost)";
constexpr const char* kNumberedLine = "ranges by number";
constexpr const char* kTorchLine = "PyTorch";
constexpr size_t kMaxNumbered = 1u << 19;
constexpr size_t kTypesOfCalls = 8192;
constexpr size_t kMaxDomainTexts = 10'000;
constexpr size_t kMaxLanes = 32;

RangeOrigin OriginOf(const Annotations::Range& range, std::string_view name) {
  if (range.domain == kTensorFlowDomain) return RangeOrigin::kTensorFlow;
  if (range.domain != kTorchDomain) return RangeOrigin::kProgram;
  if (name.starts_with(kEvaluateNode)) return RangeOrigin::kTorchBackward;
  switch (static_cast<TorchScope>(range.category)) {
    case TorchScope::kBackward:
      return RangeOrigin::kTorchBackward;
    case TorchScope::kUser:
    case TorchScope::kPause:
      return RangeOrigin::kTorchUser;
    case TorchScope::kOperation:
      break;
  }
  return RangeOrigin::kTorchOperation;
}

ConservedKind KindOf(const Annotations::Range& range) {
  return range.domain == kTorchDomain ? ConservedKind::kTorch : ConservedKind::kAnnotation;
}

ValueKind ValueOf(const Annotations::Range& range) {
  if (range.payload_type == PayloadType{}) return ValueKind::kNone;
  if (range.domain == kTorchDomain) return ValueKind::kSequence;
  if (range.payload_type == PayloadType::kDouble) return ValueKind::kPayloadDouble;
  return range.payload_type == PayloadType::kUnsigned ? ValueKind::kPayloadUnsigned : ValueKind::kPayload;
}

}  // namespace

AnnotationLines::AnnotationLines(const std::string& step_marker, const CaptureWindow* window, const SpoolFacts* facts,
                                 const HostParts& host, Timeline* timeline)
    : window_(*window),
      facts_(*facts),
      host_(host),
      timeline_(*timeline),
      ranges_(PeriodsOf(facts->windows)),
      step_names_(step_marker) {}

void AnnotationLines::Finish() {
  ranges_.Finish(window_.close, take_);
  host_.conservation->Count(ConservedKind::kAnnotation, ConservedCause::kTooMany, ranges_.not_followed());
  AddNumbered();
}

void AnnotationLines::TakeRange(const Annotations::Range& range) {
  if (!range.end_lost) return TakeEnded(range);
  Annotations::Range ended = range;
  const auto thread = facts_.threads.find(range.thread);
  const auto process = facts_.processes.find(range.process);
  if (range.kind == Annotations::Kind::kRange && thread != facts_.threads.end() && thread->second.end_ticks != 0) {
    ended.end = std::min(ended.end, thread->second.end_ticks);
  }
  if (process != facts_.processes.end() && process->second.end_ticks != 0) {
    ended.end = std::min(ended.end, process->second.end_ticks);
  }
  ended.end = std::max(ended.end, ended.start);
  TakeEnded(ended);
}

void AnnotationLines::TakeEnded(const Annotations::Range& range) {
  const bool mark = range.kind == Annotations::Kind::kMark;
  const auto is_before = [&](uint64_t ticks) { return mark ? range.start < ticks : range.end <= ticks; };
  const auto leave_out = [&](ConservedCause cause) { host_.conservation->Count(KindOf(range), cause); };
  if (range.start >= window_.close || is_before(window_.totals_open)) return leave_out(ConservedCause::kOutsideWindow);
  const uint32_t owner = host_.model->IndexOfProcess(range.process);
  if (owner == kNoProcess) return leave_out(ConservedCause::kNotShown);
  const uint16_t type = TypeOf(range);
  if (type == kNoType) return leave_out(ConservedCause::kTooMany);
  CountRange(range, owner, type);
  if (is_before(window_.open)) return leave_out(ConservedCause::kOutsideWindow);
  ++timeline_.records;
  const RawEvent event = EventOf(range, type);
  if (range.kind == Annotations::Kind::kAcross) {
    if (numbered_.size() < kMaxNumbered) {
      numbered_.push_back({owner, event});
    } else {
      ++timeline_.events_over_budget;
      leave_out(ConservedCause::kTooMany);
    }
    return;
  }
  const uint32_t line = host_.model->IndexOfThread(range.thread);
  if (line == kNoLine) return leave_out(ConservedCause::kNotShown);
  host_.events->Keep(line, event);
}

void AnnotationLines::CountRange(const Annotations::Range& range, uint32_t owner, uint16_t type) {
  const bool mark = range.kind == Annotations::Kind::kMark;
  const uint64_t ticks = mark ? 0 : std::min(range.end, window_.close) - std::max(range.start, window_.totals_open);
  host_.totals->Count(range.process, owner, type, 0, {.ticks = ticks, .longest = ticks});
  if (range.kind != Annotations::Kind::kRange || !IsTorchWork(timeline_.types[type])) return;
  host_.totals->CountTorch(owner, facts_.processes.at(range.process).torch_sampling,
                           {type, range.start, ticks, ticks - std::min(ticks, range.inside)});
}

RawEvent AnnotationLines::EventOf(const Annotations::Range& range, uint16_t type) {
  RawEvent event;
  if (range.kind == Annotations::Kind::kMark) {
    event.start = range.start;
  } else {
    ClipTo(window_.open, window_.close, range.start, range.end, &event);
  }
  if (range.end_lost) event.flags |= Event::kClippedAtEnd;
  event.type = type;
  event.value = static_cast<int64_t>(range.payload);
  event.object = range.torch_thread;
  event.detail = DomainText(range);
  event.shapes = ShapesText(range, type);
  return event;
}

// The event type of a range, which names and counts the range.
uint16_t AnnotationLines::TypeOf(const Annotations::Range& range) {
  // This type is created first, so that it exists when the limit of types is reached.
  if (nameless_ == kNoType) {
    nameless_ = host_.types->Find(kTooManyNames, EventFamily::kAnnotation, ObjectKind::kNone, ValueKind::kNone);
  }
  Recent& last = recents_[(range.name ^ range.name >> 8 ^ range.category ^ uint64_t{range.domain} << 3) % kRecents];
  if (last.type != kNoType && last.name == range.name && last.category == range.category &&
      last.domain == range.domain && last.payload_type == range.payload_type) {
    return last.type;
  }
  const uint16_t type = FindType(range);
  if (range.name != 0) last = {range.name, range.category, range.domain, range.payload_type, type};
  return type;
}

uint16_t AnnotationLines::FindType(const Annotations::Range& range) {
  const auto name = facts_.annotations.names.find(range.name);
  if (range.name == 0) {
    names_left_out_ = true;
    return nameless_;
  }
  if (name == facts_.annotations.names.end()) {
    if (lost_name_ == kNoType) {
      lost_name_ = host_.types->Find(kLostName, EventFamily::kAnnotation, ObjectKind::kNone, ValueKind::kNone);
    }
    return lost_name_;
  }
  const std::string_view text = name->second.empty() ? std::string_view("(no name)") : std::string_view(name->second);
  const ValueKind value = ValueOf(range);
  const RangeOrigin origin = OriginOf(range, text);
  const auto [known, added] = types_.try_emplace({range.name, value, origin}, nameless_);
  if (!added) return known->second;
  // Keeps type numbers free for the calls of later processes.
  if (timeline_.types.size() >= kMaxEventTypes - kTypesOfCalls) {
    names_left_out_ = true;
    return nameless_;
  }
  const uint16_t type = host_.types->Find(text, EventFamily::kAnnotation, ObjectKind::kNone, value, origin);
  if (MakesTorchSteps(origin, text) || step_names_.Match(timeline_.types[type].name)) host_.events->MayBeSteps(type);
  return known->second = type;
}

const std::string* AnnotationLines::TextOf(Identity process,
                                           const std::map<std::pair<Identity, uint64_t>, std::string>& texts,
                                           uint64_t number) const {
  for (int depth = 0; depth < 64; ++depth) {
    const auto text = texts.find({process, number});
    if (text != texts.end()) return &text->second;
    const auto facts = facts_.processes.find(process);
    if (facts == facts_.processes.end() || facts->second.parent_serial == 0) return nullptr;
    process.serial = facts->second.parent_serial;
  }
  return nullptr;
}

// `domain/category`, or only one of them if the range has no other; empty if it has neither. A number replaces a
// missing name.
StringId AnnotationLines::DomainText(const Annotations::Range& range) {
  if ((range.domain == 0 && range.category == 0) || range.domain >= kTorchDomain) return 0;
  // Programs choose the numbers of categories freely, so the number of texts is limited.
  const uint32_t shown_category = domain_texts_.size() < kMaxDomainTexts ? range.category : 0;
  const auto [known, added] = domain_texts_.try_emplace({range.process, range.domain, shown_category}, StringId{0});
  if (!added) return known->second;
  std::string text;
  if (range.domain != 0) {
    const std::string* domain = TextOf(range.process, facts_.annotations.domains, range.domain);
    text = domain == nullptr ? StrCat("domain ", range.domain) : *domain;
  }
  const std::string* category =
      TextOf(range.process, facts_.annotations.categories, uint64_t{range.domain} << 32 | shown_category);
  if (category != nullptr) {
    StrAppend(&text, text.empty() ? "" : "/", *category);
  } else if (shown_category != 0) {
    StrAppend(&text, text.empty() ? "" : "/", "category ", shown_category);
  }
  return known->second = timeline_.strings.Intern(ValidUtf8(text));
}

StringId AnnotationLines::ShapesText(const Annotations::Range& range, uint16_t type) {
  if (range.shapes == 0 || timeline_.types[type].origin != RangeOrigin::kTorchOperation) return 0;
  const auto [known, added] = shapes_texts_.try_emplace(range.shapes, StringId{0});
  if (!added) return known->second;
  const auto text = facts_.annotations.names.find(range.shapes);
  // Accepts only texts that begin with `[`, as all texts of shapes do.
  if (text == facts_.annotations.names.end() || !text->second.starts_with('[')) return 0;
  return known->second = timeline_.strings.Intern(ValidUtf8(text->second));
}

// Ranges that begin and end by number do not nest: they are put on separate lines, as few as possible without two at a
// time on one line.
void AnnotationLines::AddNumbered() {
  std::sort(numbered_.begin(), numbered_.end(), [](const Numbered& a, const Numbered& b) {
    if (a.owner != b.owner) return a.owner < b.owner;
    return a.event.start != b.event.start ? a.event.start < b.event.start : a.event.duration > b.event.duration;
  });
  std::vector<uint64_t> ends;
  uint32_t owner = kNoProcess;
  for (const Numbered& range : numbered_) {
    if (range.owner != owner) ends.clear();
    owner = range.owner;
    if (IsTorchPause(timeline_.types[range.event.type])) {
      // Pauses never overlap each other. On a separate line they do not move the program's ranges.
      KeepOn(host_.model->LineOf(owner, kTorchLine), range.event);
      continue;
    }
    size_t lane = 0;
    while (lane < ends.size() && ends[lane] > range.event.start) ++lane;
    if (lane == ends.size() && lane < kMaxLanes) ends.push_back(0);
    const std::string name = lane == 0 ? std::string(kNumberedLine) : StrCat(kNumberedLine, " ", lane + 1);
    const uint32_t line = lane == ends.size() ? kNoLine : host_.model->LineOf(owner, name);
    if (KeepOn(line, range.event)) ends[lane] = range.event.end();
  }
  numbered_ = {};
}

// Returns false if there is no such line; the event then counts as not drawn.
bool AnnotationLines::KeepOn(uint32_t line, const RawEvent& event) {
  if (line == kNoLine) {
    ++timeline_.events_over_budget;
    host_.conservation->Count(ConservedKindOf(timeline_.types[event.type]), ConservedCause::kTooMany);
    return false;
  }
  host_.events->Keep(line, event);
  return true;
}

void AnnotationLines::AddWarnings() {
  std::vector<std::string>& warnings = timeline_.warnings;
  if (ranges_.not_followed() > 0) {
    warnings.push_back(StrCat(ranges_.not_followed(), " ranges (NVTX) are missing: too many were open at a time"));
  }
  if (names_left_out_ || facts_.annotations.left_out) {
    warnings.push_back(
        StrCat("the names of annotations (NVTX) were too many or too fast to be kept: those without are called `",
               kTooManyNames, "`"));
  }
  if (nameless_ != kNoType && window_.whole_run && !facts_.dropped.empty()) {
    warnings.push_back("annotations (NVTX) are counted in the timeline's part of the run only");
  }
}

void AnnotationLines::AddNotes() {
  // If a window opens while the program runs, ranges that were open before have only their ends in it.
  if (ranges_.unmatched() > 0) {
    timeline_.notes.push_back(
        StrCat(ranges_.unmatched(), " ends of ranges (NVTX) have no beginning in what was recorded"));
  }
}

}  // namespace tbprof
