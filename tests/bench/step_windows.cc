// SPDX-License-Identifier: Apache-2.0
//
// Which steps are shown of a run, and of parts of it, as captures of it would have them.
//
//   step_windows SPOOL [BEGINS] [--parts=N]
//
// BEGINS: as for hidden_steps; then the true number and length of the part's steps are printed, too.
// Parts are of a half to a sixteenth of the run, at places that depend on N alone. Prints one line for each in which
// steps are shown, and a line of sums. Of a program that is no training there should be none.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "writer/convert/timeline_builder.h"
#include "writer/steps/step_evidence.h"

namespace tbprof {
namespace {

struct Part {
  uint64_t from_ns = 0, to_ns = 0;
};

void PrintTruth(const Timeline& timeline, const std::vector<int64_t>& begins_ns) {
  std::vector<int64_t> lengths;
  for (size_t i = 1; i < begins_ns.size(); ++i) {
    const int64_t from = (begins_ns[i - 1] - static_cast<int64_t>(timeline.origin_unix_ns)) * 1000;
    const int64_t to = (begins_ns[i] - static_cast<int64_t>(timeline.origin_unix_ns)) * 1000;
    if (from >= 0 && to <= timeline.duration_ps) lengths.push_back(to - from);
  }
  std::ranges::sort(lengths);
  std::printf("    true: %zu steps of %.3f ms\n", lengths.size(),
              lengths.empty() ? 0.0 : static_cast<double>(lengths[lengths.size() / 2]) / 1e9);
}

bool PrintSteps(const TimelineRequest& request, const std::vector<int64_t>& begins_ns) {
  const auto timeline = BuildTimeline(request, [](uint64_t, uint64_t) {});
  if (!timeline.ok() || timeline->steps.empty() || timeline->step_source == StepSource::kWholeCapture) return false;
  std::vector<int64_t> lengths;
  int64_t covered = 0;
  for (const Step& step : timeline->steps) {
    if (!step.is_regular) continue;
    lengths.push_back(step.end_ps - step.start_ps);
    covered += lengths.back();
  }
  std::ranges::sort(lengths);
  std::printf("  %.2f-%.2f s: %zu steps of %.3f ms, %.0f %% of the time, confidence %.2f, %s\n",
              static_cast<double>(request.part_from_ns) / 1e9, static_cast<double>(request.part_to_ns) / 1e9,
              lengths.size(), lengths.empty() ? 0.0 : static_cast<double>(lengths[lengths.size() / 2]) / 1e9,
              100.0 * static_cast<double>(covered) / static_cast<double>(timeline->duration_ps),
              timeline->step_confidence, timeline->step_source_text.c_str());
  if (!begins_ns.empty()) PrintTruth(*timeline, begins_ns);
  const uint32_t process = timeline->threads[timeline->steps[0].thread].process;
  StepDetection found;
  for (const Step& step : timeline->steps) {
    found.steps.push_back(
        {step.start_ps, step.end_ps, step.is_regular ? DetectedStep::Kind::kRegular : DetectedStep::Kind::kIrregular});
  }
  const StepEvidence e = MeasureSteps(*timeline, process, found);
  std::printf(
      "    library %d, covered %.2f, dense %.2f, processes %.2f, files %.2f, writes %.2f, reads %.2f, sockets %.2f, "
      "waiting %.2f, meeting %.2f, alike %.2f\n",
      static_cast<int>(e.library), e.covered, e.dense, e.with_processes, e.with_files, e.with_writes, e.with_reads,
      e.with_sockets, e.waiting, e.meeting, e.alike);
  return true;
}

int Main(int count, char** arguments) {
  TimelineRequest request;
  int parts = 20;
  std::vector<int64_t> begins_ns;
  for (int i = 1; i < count; ++i) {
    const std::string_view argument = arguments[i];
    if (argument.starts_with("--parts=")) {
      parts = std::atoi(arguments[i] + sizeof("--parts=") - 1);
    } else if (request.spool.empty()) {
      request.spool = argument;
    } else {
      std::ifstream file(arguments[i]);
      for (int64_t begin = 0; file >> begin;) begins_ns.push_back(begin);
    }
  }
  if (request.spool.empty()) return 2;
  const auto whole = BuildTimeline(request, [](uint64_t, uint64_t) {});
  if (!whole.ok()) return 1;
  const auto length_ns = static_cast<double>(whole->duration_ps) / 1000;
  int shown = PrintSteps(request, begins_ns) ? 1 : 0;
  std::mt19937 random(1);
  std::uniform_real_distribution<double> share(0, 1);
  for (int i = 0; i < parts; ++i) {
    const double part = length_ns / static_cast<double>(2 << (i % 4));
    const double from = share(random) * (length_ns - part);
    request.part_from_ns = static_cast<uint64_t>(from) + 1;
    request.part_to_ns = static_cast<uint64_t>(from + part);
    if (PrintSteps(request, begins_ns)) ++shown;
  }
  std::printf("%d of %d with steps: %s\n", shown, parts + 1, request.spool.c_str());
  return 0;
}

}  // namespace
}  // namespace tbprof

int main(int count, char** arguments) { return tbprof::Main(count, arguments); }
