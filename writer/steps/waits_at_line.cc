// SPDX-License-Identifier: Apache-2.0
#include "writer/steps/waits_at_line.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "writer/base/text.h"
#include "writer/timeline/python_place.h"

namespace tbprof {
namespace {

constexpr size_t kFewestWaits = 10;
// One call may wait several times in a row: what begins so soon, as a share of the usual distance, is the same turn.
constexpr double kSameTurn = 0.2;
// Above this share of the time in distances of over twice the usual one, the usual one is not that of turns.
constexpr double kMostLong = 1.0 / 3;
// Above this share of distances that are neither, what a turn is, is not known.
constexpr double kMostBetween = 0.1;
// Correlation of a distance with the next one below which they alternate, and the least relative variance that counts.
constexpr double kAlternating = -0.4, kAlike = 0.01;
// The line waits in each turn, as the user says; whether once, is inferred.
constexpr double kConfidence = 0.7;

// The waits at one line, by its text.
std::map<std::string, std::vector<int64_t>> WaitsByLine(const Timeline& timeline, const Thread& thread,
                                                        const StepNames& names) {
  std::map<std::string, std::vector<int64_t>> starts;
  absl::flat_hash_map<uint32_t, std::string> texts;  // by stack; empty: does not match
  for (const Event& event : thread.events) {
    if (event.python == 0 || event.python >= timeline.python.stacks.size() || event.duration_ps == 0) continue;
    const auto [text, added] = texts.try_emplace(event.python);
    if (added) {
      std::string line = PythonFrameText(timeline, timeline.python.stacks[event.python]);
      if (names.Match(line)) text->second = std::move(line);
    }
    if (!text->second.empty()) starts[text->second].push_back(event.start_ps);
  }
  return starts;
}

// True: a long distance follows a short one and the other way round, as where a turn waits twice.
bool Alternate(const std::vector<int64_t>& turns) {
  std::vector<double> lengths;
  double mean = 0;
  for (size_t i = 1; i < turns.size(); ++i) lengths.push_back(static_cast<double>(turns[i] - turns[i - 1]));
  for (const double length : lengths) mean += length / static_cast<double>(lengths.size());
  double variance = 0, with_next = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    variance += (lengths[i] - mean) * (lengths[i] - mean);
    if (i > 0) with_next += (lengths[i] - mean) * (lengths[i - 1] - mean);
  }
  return with_next < kAlternating * variance && variance > kAlike * mean * mean * static_cast<double>(lengths.size());
}

// The beginnings of turns. Empty: the distances are of more than two kinds.
std::vector<int64_t> TurnsOf(const std::vector<int64_t>& starts) {
  std::vector<int64_t> distances;
  for (size_t i = 1; i < starts.size(); ++i) distances.push_back(starts[i] - starts[i - 1]);
  std::vector<int64_t> sorted = distances;
  // The usual distance of turns: calls that wait twice have as many short ones.
  const auto high = sorted.begin() + static_cast<ptrdiff_t>(sorted.size() * 3 / 4);
  std::nth_element(sorted.begin(), high, sorted.end());
  const double usual = static_cast<double>(*high);
  // A line that waits often in each turn: the usual distance is that within a turn.
  double all = 0, long_ones = 0;
  for (const int64_t distance : distances) {
    all += static_cast<double>(distance);
    if (static_cast<double>(distance) > 2 * usual) long_ones += static_cast<double>(distance);
  }
  if (long_ones > kMostLong * all) return {};
  std::vector<int64_t> turns = {starts[0]};
  size_t between = 0;
  for (size_t i = 0; i < distances.size(); ++i) {
    const double share = static_cast<double>(distances[i]) / std::max(usual, 1.0);
    if (share < kSameTurn) continue;
    if (share < 0.5) ++between;
    turns.push_back(starts[i + 1]);
  }
  const bool is_mixed = static_cast<double>(between) > kMostBetween * static_cast<double>(distances.size());
  return is_mixed || Alternate(turns) ? std::vector<int64_t>() : turns;
}

}  // namespace

InferredSteps StepsBetweenWaits(const Timeline& timeline, uint32_t process, const StepNames& names) {
  InferredSteps found;
  for (uint32_t i = 0; i < timeline.threads.size(); ++i) {
    const Thread& thread = timeline.threads[i];
    if (thread.process != process || !thread.is_main) continue;
    for (const auto& [line, starts] : WaitsByLine(timeline, thread, names)) {
      if (starts.size() < kFewestWaits) continue;
      const std::vector<int64_t> turns = TurnsOf(starts);
      if (turns.size() <= found.steps.size() + 1 || turns.size() < kFewestWaits) continue;
      found.steps.clear();
      for (size_t turn = 0; turn + 1 < turns.size(); ++turn) {
        found.steps.push_back({turns[turn], turns[turn + 1], static_cast<int64_t>(turn), "step", i});
      }
      found.source = StrCat("Python line ", line);
      found.confidence = kConfidence;
    }
  }
  MarkOutliers(&found.steps);
  return found;
}

}  // namespace tbprof
