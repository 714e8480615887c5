// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/xspace_totals.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "launcher/base/text.h"
#include "writer/base/file_window.h"
#include "writer/base/median.h"
#include "writer/base/utf8.h"
#include "writer/outputs/xspace_skim.h"

namespace tbprof {
namespace {

constexpr size_t kMostPlanes = 200, kMostNames = 50, kMostNameBytes = 512;
constexpr uint64_t kMostEvents = 50'000'000;
constexpr size_t kMostKinds = 1'000'000;  // different events per plane
constexpr size_t kMostSteps = 1'000'000;
constexpr double kPsPerSecond = 1e12;
constexpr std::string_view kOwnStepLine = "steps", kOwnStep = "step";

struct Field {
  uint32_t number = 0;
  int type = 0;
  uint64_t value = 0, begin = 0, end = 0;
};

struct Kind {
  uint64_t calls = 0;
  double total_ps = 0;
};

class Totals {
 public:
  Totals(int fd, uint64_t size) : file_(fd, size) {}

  // False: the structure breaks at byte at().
  bool Read(ProfileAnswer* profile) {
    Field field;
    for (uint64_t at = 0; at < file_.size();) {
      if (!Next(&at, file_.size(), &field)) return false;
      if (field.number != 1 || field.type != 2) continue;
      ++profile->plane_count;
      PlaneAnswer plane;
      if (!Plane(field, &plane)) return false;
      profile->lines += plane.lines;
      profile->events += plane.events;
      if (profile->planes.size() < kMostPlanes) profile->planes.push_back(std::move(plane));
    }
    return true;
  }

  uint64_t at() const { return fault_; }
  int error() const { return file_.error(); }
  bool cut() const { return events_ >= kMostEvents; }
  std::vector<int64_t>& steps() { return steps_; }

 private:
  bool Next(uint64_t* at, uint64_t end, Field* field) {
    const std::string_view bytes = file_.Read(*at, static_cast<size_t>(std::min<uint64_t>(end - *at, 20)));
    size_t used = 0;
    uint64_t tag = 0, length = 0;
    fault_ = *at;
    if (!FieldReader::Varint(bytes, &used, &tag) || tag >> 3 == 0 || tag >> 3 > 0x1FFFFFFF) return false;
    field->number = static_cast<uint32_t>(tag >> 3);
    field->type = static_cast<int>(tag & 7);
    if (field->type == 0) {
      if (!FieldReader::Varint(bytes, &used, &field->value)) return false;
    } else if (field->type == 2) {
      if (!FieldReader::Varint(bytes, &used, &length)) return false;
    } else if (field->type == 1 || field->type == 5) {
      length = field->type == 1 ? 8 : 4;
    } else {
      return false;
    }
    field->begin = *at + used;
    if (field->begin > end || length > end - field->begin) return false;
    *at = field->end = field->begin + length;
    return true;
  }

  std::string Text(const Field& field) {
    const uint64_t length = std::min<uint64_t>(field.end - field.begin, kMostNameBytes);
    return PrintableUtf8(file_.Read(field.begin, static_cast<size_t>(length)));
  }

  bool Plane(const Field& whole, PlaneAnswer* plane) {
    kinds_.clear();
    plane_steps_.clear();
    own_steps_ = false;
    step_kind_ = 0;
    Field field;
    for (uint64_t at = whole.begin; at < whole.end;) {
      if (!Next(&at, whole.end, &field)) return false;
      if (field.type != 2) continue;
      if (field.number == 2) plane->name = Text(field);
      if (field.number != 3) continue;
      ++plane->lines;
      if (!Line(field, plane)) return false;
    }
    if (!TopNames(whole, plane)) return false;
    KeepSteps();
    return true;
  }

  // Each device may have a line with the same steps: the plane with the most steps is used. tbprof's own line also has
  // events for the thread's work within the steps: only events of kind step_kind_ are steps.
  void KeepSteps() {
    std::vector<int64_t> steps;
    for (const auto& [kind, duration] : plane_steps_) {
      if (!own_steps_ || kind == step_kind_) steps.push_back(duration);
    }
    if (steps.size() > steps_.size()) steps_ = std::move(steps);
  }

  bool Line(const Field& line, PlaneAnswer* plane) {
    Field field;
    bool is_steps = false;
    for (uint64_t at = line.begin; at < line.end;) {
      if (!Next(&at, line.end, &field)) return false;
      if (field.type != 2) continue;
      if (field.number == 2) {
        const std::string name = Text(field);
        is_steps = name == "Steps" || name == kOwnStepLine;
        own_steps_ = own_steps_ || name == kOwnStepLine;
      }
      if (field.number != 4) continue;
      ++plane->events;
      if (++events_ < kMostEvents) Event(field, is_steps);
    }
    return true;
  }

  void Event(const Field& event, bool is_step) {
    FieldReader reader(file_.Read(event.begin, static_cast<size_t>(std::min<uint64_t>(event.end - event.begin, 4096))),
                       event.end - event.begin);
    uint64_t kind = 0, duration = 0, occurrences = 1;
    while (reader.Next()) {
      if (reader.type() != 0) continue;
      if (reader.number() == 1) kind = reader.value();
      if (reader.number() == 3) duration = reader.value();
      if (reader.number() == 5) occurrences = reader.value();
    }
    duration = std::min<uint64_t>(duration, INT64_MAX);
    if (is_step && plane_steps_.size() < kMostSteps) plane_steps_.emplace_back(kind, static_cast<int64_t>(duration));
    if (kinds_.size() >= kMostKinds && !kinds_.contains(kind)) return;
    Kind& total = kinds_[kind];
    total.calls += occurrences;
    total.total_ps += static_cast<double>(duration);
  }

  // Finds the names of the kinds with the most time. Names may follow the events that use them.
  bool TopNames(const Field& whole, PlaneAnswer* plane) {
    std::vector<std::pair<double, uint64_t>> order;
    for (const auto& [kind, total] : kinds_) order.emplace_back(total.total_ps, kind);
    const size_t count = std::min(order.size(), kMostNames);
    std::ranges::partial_sort(order, order.begin() + static_cast<std::ptrdiff_t>(count), std::greater<>());
    absl::flat_hash_map<uint64_t, size_t> wanted;
    for (size_t i = 0; i < count; ++i) {
      const Kind& total = kinds_[order[i].second];
      wanted[order[i].second] = i;
      plane->top.push_back({"", total.calls, total.total_ps / kPsPerSecond, std::nullopt});
    }
    Field field;
    for (uint64_t at = whole.begin; at < whole.end;) {
      if (!Next(&at, whole.end, &field)) return false;
      if (field.number == 4 && field.type == 2 && !Name(field, wanted, plane)) return false;
    }
    return true;
  }

  // An entry of event_metadata: {key, value {id, name, ...}}.
  bool Name(const Field& entry, const absl::flat_hash_map<uint64_t, size_t>& wanted, PlaneAnswer* plane) {
    uint64_t key = 0;
    Field field, part;
    for (uint64_t at = entry.begin; at < entry.end;) {
      if (!Next(&at, entry.end, &field)) return false;
      if (field.number == 1 && field.type == 0) key = field.value;
      const auto found = wanted.find(key);
      if (field.number != 2 || field.type != 2 || (found == wanted.end() && !own_steps_)) continue;
      for (uint64_t inner = field.begin; inner < field.end;) {
        if (!Next(&inner, field.end, &part)) return false;
        if (part.number != 2 || part.type != 2) continue;
        std::string name = Text(part);
        if (name == kOwnStep) step_kind_ = key;
        if (found != wanted.end()) plane->top[found->second].name = std::move(name);
      }
    }
    return true;
  }

  FileWindow file_;
  absl::flat_hash_map<uint64_t, Kind> kinds_;
  std::vector<std::pair<uint64_t, int64_t>> plane_steps_;  // kind and duration
  bool own_steps_ = false;                                 // the plane has tbprof's line of steps
  uint64_t step_kind_ = 0;
  std::vector<int64_t> steps_;
  uint64_t events_ = 0, fault_ = 0;
};

}  // namespace

absl::Status ReadXspaceTotals(int fd, uint64_t size, const std::string& path, Report* report) {
  const auto damaged = [&](std::string_view what) {
    return absl::DataLossError(StrCat(PrintableUtf8(path), ": ", what));
  };
  if (size == 0) return damaged("byte 0: the file is empty");
  const XspaceFacts facts = SkimXspace(fd, size);
  if (facts.error != 0) return damaged(StrCat("cannot be read: ", strerror(facts.error)));
  if (!facts.parsed) return damaged(facts.cause);
  if (facts.planes == 0) return damaged("byte 0: no profile: it has no plane");
  Totals totals(fd, size);
  ProfileAnswer profile;
  if (!totals.Read(&profile)) return damaged(StrCat("byte ", totals.at(), " begins no field of a profile"));
  if (totals.error() != 0) return damaged(StrCat("cannot be read: ", strerror(totals.error())));
  if (totals.cut()) report->warnings.push_back(StrCat("times: of the first ", kMostEvents, " events alone"));
  for (const std::string& text : facts.errors) report->errors.push_back(PrintableUtf8(text));
  for (const std::string& text : facts.warnings) report->warnings.push_back(PrintableUtf8(text));
  if (!facts.hostnames.empty()) report->host = PrintableUtf8(facts.hostnames[0]);
  report->file = PrintableUtf8(path);
  std::vector<int64_t>& steps = totals.steps();
  const NotedAnswers notes = ReadNotes(report->warnings);
  if (!notes.verdict.empty()) {
    report->verdict.known = true;
    report->verdict.text = notes.verdict;
    report->verdict.is_waited_for = notes.is_waited_for;
    report->verdict.is_text_alone = notes.unknown_because.empty();
    report->verdict.blocker = !notes.where.empty() ? notes.where : "not known: the profile's warning is cut";
    report->verdict.unknown_because = !notes.unknown_because.empty()
                                          ? notes.unknown_because
                                          : "without summary.json, the sentence of the verdict is all there is";
  }
  report->steps.known = !steps.empty() && notes.no_steps_because.empty();
  if (!report->steps.known) {
    report->steps.unknown_because =
        notes.no_steps_because.empty() ? "the profile has no line of steps" : notes.no_steps_because;
  } else {
    const auto [shortest, longest] = std::ranges::minmax(steps);
    report->steps.count = steps.size();
    report->steps.source = "the profile's line of steps, regular or not";
    report->steps.shortest_s = static_cast<double>(shortest) / kPsPerSecond;
    report->steps.longest_s = static_cast<double>(longest) / kPsPerSecond;
    report->steps.median_s = static_cast<double>(Median(steps)) / kPsPerSecond;
  }
  report->profile = std::move(profile);
  return absl::OkStatus();
}

}  // namespace tbprof
