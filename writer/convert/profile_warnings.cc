// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/profile_warnings.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <vector>

#include "wire/ranks.h"
#include "writer/base/arguments.h"
#include "writer/base/summary_format.h"
#include "writer/base/text.h"
#include "writer/convert/conservation.h"
#include "writer/convert/diagnostics.h"

namespace tbprof {
namespace {

using Drops = std::array<uint64_t, kDropCauses>;

template <typename Fact>
void AddDropsOf(const Fact& first, const Fact& last, Drops* drops) {
  for (uint32_t cause = 0; cause < kDropCauses; ++cause) {
    // Only a hostile target has counters that run backwards.
    if (last.dropped[cause] > first.dropped[cause]) (*drops)[cause] += last.dropped[cause] - first.dropped[cause];
  }
}

void AddDrops(const ProcessModel& model, const SpoolFacts& facts, Timeline* timeline) {
  static_assert(kProcessSlots == 4096 && kThreadSlots == 4096, "the texts below");
  static constexpr const char* kCauses[kDropCauses] = {
      "no free chunk (the launcher could not keep up)",
      "more than 4096 threads at a time",
      "fork children without a free slot (of 4096; the launcher frees them when children end)",
      "thread past its last destructor",
      "record too long",
      "",
      "",
      "",
  };
  Drops drops{};
  for (const auto& [identity, thread] : facts.threads) {
    const bool shown = model.processes().contains({identity.segment, thread.process_serial});
    if (shown && thread.has_last) AddDropsOf(thread.first, thread.last, &drops);
  }
  // Each process of a segment has the counts of the whole segment.
  std::set<uint32_t> segments;
  for (const auto& [identity, index] : model.processes()) {
    const ProcessFacts& process = facts.processes.at(identity);
    if (segments.insert(identity.segment).second) AddDropsOf(process.first, process.last, &drops);
  }
  for (uint32_t cause = 0; cause < kDropCauses; ++cause) {
    if (drops[cause] > 0) timeline->drops.push_back({kCauses[cause], drops[cause]});
  }
  if (facts.lost_records > 0) {
    timeline->drops.push_back({"unfinished when its thread or process was killed", facts.lost_records});
  }
}

// Adds warnings about missing data of the spool.
void AddSpoolWarnings(const WarningsInput& input, const SpoolFacts& facts, Timeline* timeline) {
  std::vector<std::string>& warnings = timeline->warnings;
  for (const std::string& cut : input.window.cuts) warnings.push_back(cut);
  if (facts.missing_parts > 0) {
    warnings.push_back(StrCat(facts.missing_parts, " parts of the spool are not there: what they held is missing"));
  }
  if (input.window.whole_run && input.window.totals_open < input.window.open) {
    warnings.push_back(StrCat("totals are of the whole run, the timeline ",
                              facts.dropped.empty() ? "is" : "and sampled stacks are", " of its end"));
    if (facts.totals_drops < facts.dropped_parts) {
      warnings.push_back(StrCat("the calls of ", facts.dropped_parts - facts.totals_drops,
                                " dropped parts of the spool are not in the totals"));
    }
  }
  for (const std::string& note : facts.notes) warnings.push_back(note);
  // After the end of a session the spool contains the launcher's notes, too.
  for (const std::string& note : input.request.warnings) {
    if (std::find(warnings.begin(), warnings.end(), note) == warnings.end()) warnings.push_back(note);
  }
  if (facts.damaged_bytes > 0) {
    warnings.push_back(StrCat(facts.damaged_bytes, " bytes of the spool are unreadable and were passed over"));
  }
  if (facts.clock.breaks() > 0) {
    warnings.push_back(StrCat("the clock was off by more than 1 ms in ", facts.clock.breaks(),
                              " intervals (suspend or migration?); times there are interpolated"));
  }
  timeline->complete = facts.ended || !input.request.recovered;
  if (!timeline->complete) {
    warnings.push_back("recovered: the launcher was killed before the run ended; what came after is missing");
  }
}

void AddRankWarnings(const Ranks& ranks, Timeline* timeline) {
  std::vector<std::string>& warnings = timeline->warnings;
  if (!timeline->missing_ranks.empty()) {
    warnings.push_back(StrCat("missing ranks: ", RankList(timeline->missing_ranks), " of ", timeline->world_size,
                              ": no process of theirs was recorded"));
  }
  if (!ranks.unended().empty() && timeline->ranks.size() > 1) {
    warnings.push_back(StrCat("ranks that ran on when the command ended: ",
                              RankList({ranks.unended().begin(), ranks.unended().end()}), "; their files end there"));
  }
  RankChoice choice;
  if (ParseRankChoice(timeline->ranks_recorded.c_str(), &choice) && choice.kind == RankChoice::kAuto &&
      timeline->world_size > kManyRanks) {
    warnings.push_back(StrCat(timeline->world_size,
                              " ranks: only the first of each node is recorded; --ranks=all for all, --ranks=every:8 "
                              "for some"));
  }
}

void AddEmptinessWarnings(const WarningsInput& input, const SpoolFacts& facts, Timeline* timeline) {
  if (input.model.processes().empty()) {
    timeline->errors.push_back(StrCat("no process was recorded: ",
                                      facts.inert.empty() ? "the library was not loaded, or could not reach tbprof"
                                                          : "the library was loaded and had to stay out of the way"));
  } else if (timeline->records == 0 && input.request.window != 0 && facts.gaps.empty() && timeline->drops.empty()) {
    timeline->warnings.push_back(
        "no call that is recorded began or ended in this window: the threads computed, or waited all the time");
  }
}

}  // namespace

void AddProfileWarnings(const WarningsInput& input, AnnotationLines* annotations, GpuBuilder* gpu, SpoolFacts* facts,
                        Timeline* timeline) {
  AddDrops(input.model, *facts, timeline);
  timeline->corrupt_records += facts->corrupt_records + facts->unknown_records;
  AddSpoolWarnings(input, *facts, timeline);
  AddRankWarnings(input.ranks, timeline);
  const ExamineProgram& examine = input.request.examine;
  DiagnoseHooks(input.model.processes(), input.model.images(), input.families, examine, facts, timeline);
  timeline->unrecorded = FindUnrecorded(*facts, input.window.open, facts->close_ticks, facts->ended, examine);
  std::string unrecorded = UnrecordedText(timeline->unrecorded);
  if (!unrecorded.empty()) timeline->warnings.push_back(std::move(unrecorded));
  for (std::string& note : UnseenNotes(*facts, input.families)) timeline->notes.push_back(std::move(note));
  annotations->AddWarnings();
  AddEndDiagnoses(timeline);
  if (std::string text = SamplingText(*timeline); !text.empty()) timeline->warnings.push_back(std::move(text));
  if (facts->coarsest_sampling > 0) {
    timeline->notes.push_back(StrCat("heap sites: down to one sample per ",
                                     HumanBytes(static_cast<double>(facts->coarsest_sampling)),
                                     " allocated, to keep raw records under --spool-rate; totals are exact"));
  }
  if (std::string text = ConservationText(*timeline); !text.empty()) timeline->warnings.push_back(std::move(text));
  annotations->AddNotes();
  gpu->AddDiagnostics(input.model.processes());
  AddEmptinessWarnings(input, *facts, timeline);
}

}  // namespace tbprof
