// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "writer/base/text.h"
#include "writer/base/utf8.h"
#include "writer/convert/input_wait.h"
#include "writer/outputs/xplane.h"
#include "writer/timeline/schema.h"

namespace tbprof {
namespace {

constexpr size_t kMarkersBeforeTrimming = 6;
constexpr int64_t kShortestPs = 1000;

// Limits of the pieces of all steps, without the markers. A piece has 20 to 30 bytes: if events were left out, all
// pieces are at most a fourth of the file.
constexpr uint64_t kEventBytesOfAPiece = 100;
constexpr uint64_t kFewestPieces = 2'000, kMostPieces = 600'000, kPiecesOfASmallFile = 20'000;

bool IsUsable(const Timeline& timeline, const Step& step) {
  return step.thread < timeline.threads.size() && step.start_ps >= 0 && step.end_ps > step.start_ps;
}

// In order, without overlaps: a marker inside another one would be lost.
std::vector<Step> UsableSteps(const Timeline& timeline) {
  std::vector<Step> steps;
  for (const Step& step : timeline.steps) {
    if (step.is_regular && IsUsable(timeline, step)) {
      steps.push_back(step);
    }
  }
  std::stable_sort(steps.begin(), steps.end(), [](const Step& a, const Step& b) { return a.start_ps < b.start_ps; });
  int64_t free_from = 0;
  for (Step& step : steps) {
    step.start_ps = std::max(step.start_ps, free_from);
    free_from = std::max(free_from, step.end_ps);
  }
  std::erase_if(steps, [](const Step& step) { return step.start_ps >= step.end_ps; });
  return steps;
}

struct Marker {
  Step step;
  std::optional<int64_t> beside;  // as in StepEvent
};

// From six markers on, the reader leaves the first and the last out of its statistics, as steps that the capture cut.
// The time before and after the steps, where there is any, takes the place of these two.
std::vector<Marker> WithOuterMarkers(const Timeline& timeline, const std::vector<Step>& steps) {
  std::vector<Marker> markers;
  const std::string_view where = timeline.steps_in_detail ? "steps not searched " : "";
  const bool trims = steps.size() >= kMarkersBeforeTrimming;
  if (trims && steps.front().start_ps > 0) {
    const Step& first = steps.front();
    markers.push_back(
        {{0, first.start_ps, first.number - 1, StrCat(where, "before step"), first.thread}, first.number});
  }
  for (const Step& step : steps) markers.push_back({step, std::nullopt});
  if (trims && steps.back().end_ps < timeline.duration_ps) {
    const Step& last = steps.back();
    markers.push_back(
        {{last.end_ps, timeline.duration_ps, last.number + 1, StrCat(where, "after step"), last.thread}, last.number});
  }
  return markers;
}

// Writes the steps in order.
class StepWriter {
 public:
  explicit StepWriter(const Timeline& timeline) : timeline_(timeline) {}

  void Add(const Marker& marker) {
    const Step& step = marker.step;
    AddMarker(step, marker.beside);
    if (waits_of_ != step.thread) {
      waits_ = StepWaits(timeline_, step.thread);
      waits_of_ = step.thread;
      next_wait_ = 0;
    }
    const size_t first = out_.size();
    const Thread& thread = timeline_.threads[step.thread];
    int64_t at = std::max(step.start_ps, thread.start_ps);
    const int64_t end = thread.end_ps > 0 ? std::min(step.end_ps, thread.end_ps) : step.end_ps;
    while (next_wait_ < waits_.size() && waits_[next_wait_].end_ps <= at) ++next_wait_;
    for (; next_wait_ < waits_.size() && waits_[next_wait_].start_ps < end; ++next_wait_) {
      const StepWait& wait = waits_[next_wait_];
      AddPiece(at, wait.start_ps, /*is_input=*/false);
      if (wait.purpose == WaitPurpose::kInput) {
        AddPiece(std::max(wait.start_ps, at), std::min(wait.end_ps, end), /*is_input=*/true);
      }
      at = std::max(at, wait.end_ps);
      if (at >= end) break;
    }
    AddPiece(at, end, /*is_input=*/false);
    pieces_ += out_.size() - first;
    const auto is_running = [](const StepEvent& event) { return !event.is_marker && !event.is_input; };
    if (!std::any_of(out_.begin() + static_cast<ptrdiff_t>(first), out_.end(), is_running)) AddLeastRunning(step);
  }

  size_t pieces() const { return pieces_; }
  std::vector<StepEvent>& events() { return out_; }

 private:
  void AddMarker(const Step& step, std::optional<int64_t> beside) {
    // The viewer shows title and number, and would merge two steps with the same text.
    std::string title = ValidUtf8(step.name.empty() ? timeline_.step_source_text : step.name);
    if (title.empty()) title = kStepEvent;
    if (const size_t before = titles_[{title, step.number}]++; before > 0) StrAppend(&title, " (", before + 1, ")");
    StepEvent& marker = out_.emplace_back();
    marker.start_ps = step.start_ps;
    marker.end_ps = step.end_ps;
    marker.is_marker = true;
    marker.number = step.number;
    marker.beside = beside;
    marker.title = std::move(title);
  }

  void AddPiece(int64_t start, int64_t end, bool is_input) {
    if (end <= start) return;
    StepEvent& event = out_.emplace_back();
    event.start_ps = start;
    event.end_ps = end;
    event.is_input = is_input;
  }

  // The reader does not accept a marker without computing as a step.
  void AddLeastRunning(const Step& step) {
    int64_t from = step.start_ps;
    if (out_.back().is_input) {
      StepEvent& input = out_.back();
      from = input.end_ps = std::max(std::min(input.end_ps, step.end_ps - kShortestPs), input.start_ps);
      if (input.start_ps == input.end_ps) out_.pop_back();
    }
    AddPiece(from, std::min(from + kShortestPs, step.end_ps), /*is_input=*/false);
  }

  const Timeline& timeline_;
  std::vector<StepEvent> out_;
  std::vector<StepWait> waits_;
  size_t next_wait_ = 0;
  size_t pieces_ = 0;
  std::optional<uint32_t> waits_of_;
  std::map<std::pair<std::string, int64_t>, size_t> titles_;
};

// If a step has several pieces of a kind, all its pieces of one kind become one piece with their total length.
std::vector<StepEvent> Summed(const std::vector<StepEvent>& events) {
  std::vector<StepEvent> out;
  for (size_t i = 0; i < events.size();) {
    out.push_back(events[i]);
    const int64_t start = events[i].start_ps;
    int64_t sums[2] = {0, 0};
    size_t counts[2] = {0, 0};
    const size_t first = ++i;
    for (; i < events.size() && !events[i].is_marker; ++i) {
      sums[events[i].is_input] += events[i].end_ps - events[i].start_ps;
      ++counts[events[i].is_input];
    }
    if (counts[0] <= 1 && counts[1] <= 1) {
      out.insert(out.end(), events.begin() + static_cast<ptrdiff_t>(first), events.begin() + static_cast<ptrdiff_t>(i));
      continue;
    }
    int64_t at = start;
    for (const bool is_input : {true, false}) {
      if (counts[is_input] == 0) continue;
      StepEvent& sum = out.emplace_back();
      sum.start_ps = at;
      sum.end_ps = at += sums[is_input];
      sum.is_input = is_input;
      sum.is_sum = true;
    }
  }
  return out;
}

// The share of time that the reader would show as neither input nor computing, without the steps that it leaves out.
double ShareOfOthers(const std::vector<StepEvent>& events) {
  const auto markers = static_cast<size_t>(
      std::count_if(events.begin(), events.end(), [](const auto& event) { return event.is_marker; }));
  const bool trims = markers >= kMarkersBeforeTrimming;
  int64_t whole = 0, shown = 0;
  size_t marker = 0;
  for (const StepEvent& event : events) {
    marker += event.is_marker;
    if (trims && (marker == 1 || marker == markers)) continue;
    (event.is_marker ? whole : shown) += event.end_ps - event.start_ps;
  }
  return whole > 0 ? static_cast<double>(whole - shown) / static_cast<double>(whole) : 0;
}

// The reader calls a program "not input-bound" if it neither waits for input nor does anything else but compute. Where
// waiting for input is unknown, computing is unknown as well.
std::vector<StepEvent> WithoutRunning(const std::vector<StepEvent>& events) {
  std::vector<StepEvent> out;
  for (const StepEvent& event : events) {
    if (!event.is_marker) continue;
    out.push_back(event);
    StepEvent& least = out.emplace_back();
    least.start_ps = event.start_ps;
    least.end_ps = std::min(event.start_ps + kShortestPs, event.end_ps);
  }
  return out;
}

}  // namespace

std::vector<StepEvent> StepEvents(const Timeline& timeline) {
  StepWriter writer(timeline);
  for (const Marker& marker : WithOuterMarkers(timeline, UsableSteps(timeline))) writer.Add(marker);
  std::vector<StepEvent>& events = writer.events();
  // If there are events of a device, the reader ignores these events.
  if (timeline.gpu_devices.empty() && ShareOfOthers(events) < kMuchWaiting &&
      MeasureInputWait(timeline).state == InputWaitState::kUnknown) {
    return WithoutRunning(events);
  }
  const uint64_t fewest = timeline.events_over_budget > 0 ? kFewestPieces : kPiecesOfASmallFile;
  const uint64_t most = std::clamp(timeline.expected_bytes / kEventBytesOfAPiece, fewest, kMostPieces);
  return writer.pieces() > most ? Summed(events) : std::move(events);
}

std::vector<PhaseEvent> PhaseEvents(const Timeline& timeline) {
  std::vector<PhaseEvent> phases;
  for (const Step& step : timeline.steps) {
    if (!step.is_regular && IsUsable(timeline, step)) {
      phases.push_back({step.start_ps, step.end_ps, StrCat(ValidUtf8(step.name), " ", step.number)});
    }
  }
  std::stable_sort(phases.begin(), phases.end(),
                   [](const PhaseEvent& a, const PhaseEvent& b) { return a.start_ps < b.start_ps; });
  int64_t free_from = 0;
  for (PhaseEvent& phase : phases) {
    phase.start_ps = std::max(phase.start_ps, free_from);
    free_from = std::max(free_from, phase.end_ps);
  }
  std::erase_if(phases, [](const PhaseEvent& phase) { return phase.start_ps >= phase.end_ps; });
  return phases;
}

}  // namespace tbprof
