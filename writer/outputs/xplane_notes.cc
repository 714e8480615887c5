// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "absl/strings/str_format.h"
#include "writer/base/text.h"
#include "writer/base/utf8.h"
#include "writer/convert/input_pipeline.h"
#include "writer/convert/input_wait.h"
#include "writer/outputs/memory_text.h"
#include "writer/outputs/step_change_text.h"
#include "writer/outputs/summary_lines.h"
#include "writer/outputs/summary_verdict.h"
#include "writer/outputs/xplane.h"
#include "writer/outputs/xspace_skim.h"
#include "writer/steps/step_detector.h"
#include "writer/steps/step_loops.h"

namespace tbprof {
namespace {

// The overview page shows the notes as a list that moves its content down.
constexpr size_t kMaxNotes = 10;
constexpr size_t kMaxNoteBytes = 500, kMaxSharedNoteBytes = 2000;

// The page shows the notes of all files in no order, and does not say from which file each is.
class Notes {
 public:
  explicit Notes(const Timeline& timeline) {
    const bool several = timeline.ranks.size() > 1 || timeline.world_size > 1;
    if (several && timeline.rank >= 0) rank_ = StrCat("tbprof (rank ", timeline.rank, "): ");
  }
  void Add(std::string_view text, size_t most_bytes = kMaxNoteBytes) {
    if (text.empty()) return;
    if (texts_.size() >= kMaxNotes) {
      ++left_out_;
      return;
    }
    open_ = false;
    std::string printable = PrintableUtf8(text);
    if (!rank_.empty()) printable.replace(0, text.starts_with(kOwn) ? kOwn.size() : 0, rank_);
    if (printable.size() > most_bytes) printable = StrCat(TruncateUtf8(printable, most_bytes - 3), "…");
    texts_.push_back(std::move(printable));
  }
  // Adds a fact that is no loss and holds for every run of such a program. Facts share as few entries as possible,
  // after all other notes.
  void AddFact(std::string_view text) {
    const std::string printable = PrintableUtf8(text);
    if (open_ && texts_.back().size() + printable.size() + 2 <= kMaxSharedNoteBytes) {
      StrAppend(&texts_.back(), "; ", printable);
      return;
    }
    const size_t before = texts_.size();
    Add(StrCat(kOwn, text));
    open_ = texts_.size() > before;
  }
  std::vector<std::string> Take() {
    if (left_out_ > 0) texts_.push_back(StrCat(rank_.empty() ? kOwn : rank_, left_out_, " more are in summary.json"));
    return std::move(texts_);
  }

 private:
  static constexpr std::string_view kOwn = "tbprof: ";

  std::string rank_;  // in place of kOwn; empty: there is one rank
  std::vector<std::string> texts_;
  size_t left_out_ = 0;
  bool open_ = false;  // the last entry can take more facts
};

std::string ProcessLabel(const Process& process) {
  const std::string& name = process.name.empty() ? process.executable : process.name;
  return StrCat("process ", process.pid, name.empty() ? "" : " (", name, name.empty() ? "" : ")");
}

// What the end block of the terminal says first.
std::string VerdictNote(const Timeline& timeline) {
  std::string note =
      StrCat(kVerdictWarning, VerdictSentence(timeline), "; ", BlockerLabel(timeline), VerdictBlocker(timeline));
  const auto add = [&](std::string_view label, std::string_view text) {
    if (!text.empty()) StrAppend(&note, label, text);
  };
  add(kSplitPart, VerdictSplit(timeline));
  add(kNextPart, NextStep(timeline.verdict));
  for (const std::string& text : timeline.verdict.hangs) add("; hangs: ", text);
  add(kChangePart, StepChangeText(timeline));
  const MemoryText memory = MemoryOf(timeline);
  for (const auto* const texts : {&memory.growth, &memory.levels}) {
    for (const std::string& text : *texts) add(kMemoryPart, text);
  }
  return note;
}

uint64_t CountClipped(const Timeline& timeline) {
  uint64_t clipped = 0;
  for (const Thread& thread : timeline.threads) {
    for (const Event& event : thread.events) {
      clipped += (event.flags & (Event::kClippedAtStart | Event::kClippedAtEnd)) != 0;
    }
  }
  for (const GpuStream& stream : timeline.gpu_streams) {
    for (const GpuEvent& event : stream.events) {
      clipped += (event.flags & (GpuEvent::kClippedAtStart | GpuEvent::kClippedAtEnd)) != 0;
    }
  }
  return clipped;
}

// Adds a note if the page's own number for the input differs from what is known.
void AddInputNote(const Timeline& timeline, Notes* notes) {
  const InputWait input = MeasureInputWait(timeline);
  const std::string text = InputWaitText(input);
  switch (input.state) {
    case InputWaitState::kUnknown:
      // If there are no steps, another note reports that.
      if (text.empty()) break;
      notes->AddFact(StrCat(text, "; whether the program is input-bound is not known"));
      break;
    case InputWaitState::kMeasured:
      if (!timeline.gpu_devices.empty()) {
        notes->Add(StrCat("tbprof: ", text, "; with a GPU this page counts copies to the device alone"));
      } else if (input.unknown_share >= kMuchWaiting) {
        notes->Add(StrCat("tbprof: ", text));
      }
      break;
    case InputWaitState::kNone:
      break;
  }
  for (const InputLine& line : InputLines(timeline, CountedProcess(timeline))) {
    if (line.batches_each <= 1) continue;
    notes->AddFact(
        StrCat("the input page counts each ", line.batches_each, " batches as one (their times are complete)"));
    break;
  }
}

std::string BudgetNote(const Timeline& timeline) {
  std::string text =
      StrCat("tbprof: ", timeline.events_over_budget, " events are counted in the totals but not drawn (size budget)");
  if (timeline.shortest_shown_ps > 0) {
    StrAppend(&text, "; the shortest drawn takes ",
              absl::StrFormat("%.3g us", static_cast<double>(timeline.shortest_shown_ps) / 1e6));
  }
  if (timeline.shortest_gpu_shown_ps > 0) {
    StrAppend(&text, ", on a GPU ",
              absl::StrFormat("%.3g us", static_cast<double>(timeline.shortest_gpu_shown_ps) / 1e6));
  }
  return text + FullDetailText(timeline);
}

}  // namespace

std::vector<std::string> XplaneErrors(const Timeline& timeline) {
  Notes notes(timeline);
  for (const std::string& text : timeline.errors) notes.Add(text);
  return notes.Take();
}

std::vector<std::string> XplaneWarnings(const Timeline& timeline) {
  Notes notes(timeline);
  // The verdict, because it answers the main question of a reader of the page, and why there are no steps. What has the
  // profile without its summary reads both (ReadNotes).
  if (timeline.verdict.cause != Cause::kUnknown || timeline.verdict.steps > 0) {
    notes.Add(VerdictNote(timeline), kMaxSharedNoteBytes);
  }
  if (timeline.step_source == StepSource::kWholeCapture && !timeline.steps.empty()) {
    notes.Add(StrCat(kNoStepsWarning, timeline.steps_unknown.empty() ? "" : ": ", timeline.steps_unknown,
                     "; the one step shown is synthetic and covers the capture, "
                     "its input wait is unknown"));
  }
  if (!timeline.complete) {
    notes.Add("tbprof: the launcher ended before the program; this is what could be recovered");
  }
  for (const DropCount& drop : timeline.drops) {
    if (drop.records > 0) notes.Add(StrCat("tbprof: ", drop.records, " records lost: ", drop.cause));
  }
  if (timeline.corrupt_records > 0) {
    notes.Add(StrCat("tbprof: ", timeline.corrupt_records, " records were corrupt and are left out"));
  }
  if (timeline.events_over_budget > 0) notes.Add(BudgetNote(timeline));
  for (const std::string& text : timeline.rank_warnings) notes.Add(text);
  for (const std::string& text : timeline.warnings) notes.Add(text);
  for (const Process& process : timeline.processes) {
    std::string_view what;
    switch (process.state) {
      case ProcessState::kRecorded:
        continue;
      case ProcessState::kRecordedWithoutAllocator:
        what = " is recorded without its allocator";
        break;
      case ProcessState::kInert:
      case ProcessState::kNotLoaded:
        what = " is not recorded";
        break;
    }
    notes.Add(StrCat("tbprof: ", ProcessLabel(process), what, process.reason.empty() ? "" : ": ", process.reason));
  }
  AddInputNote(timeline, &notes);
  if (timeline.step_source != StepSource::kWholeCapture && timeline.step_source != StepSource::kNone &&
      timeline.step_confidence > 0 && timeline.step_confidence < 1) {
    std::string steps = absl::StrFormat("steps are inferred (%s), confidence %.0f %%", timeline.step_source_text,
                                        timeline.step_confidence * 100);
    if (timeline.steps_in_detail) steps += ", and are those of the part that has all events";
    if (timeline.step_confidence > kSureConfidence) {
      notes.AddFact(steps);
    } else {
      notes.Add(StrCat("tbprof: ", steps));
    }
  }
  for (const StepLoop& loop : timeline.step_loops) {
    const std::string text = StrCat("another loop than that of the steps: ", LoopText(loop));
    if (loop.may_be_step) {
      notes.Add(StrCat("tbprof: ", text, "; either may be the step"));
    } else {
      notes.AddFact(text);
    }
  }
  for (const std::string& text : timeline.notes) notes.AddFact(text);
  if (const uint64_t clipped = CountClipped(timeline); clipped > 0) {
    const bool one = clipped == 1;
    notes.AddFact(StrCat(clipped, one ? " event goes" : " events go", " on beyond the border of the capture and ",
                         one ? "is" : "are", " cut there (stat `clipped`)"));
  }
  return notes.Take();
}

}  // namespace tbprof
