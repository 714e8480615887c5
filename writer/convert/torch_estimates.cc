// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/torch_estimates.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_format.h"
#include "writer/base/text.h"
#include "writer/timeline/torch_names.h"

namespace tbprof {
namespace {

// The limits of the bars in the file: 1 MB, and no more bars than recorded operations.
constexpr size_t kFewestBars = 64, kMostBars = 40'000;
// A line holds one bar at a time: operations that threads run at the same time need several lines. If more than this
// many threads run operations at the same time, on average, all bars are shortened by one factor to fit, and add up to
// less than the estimate.
constexpr size_t kMostLines = 64;

struct Missing {
  StringId operation = 0;
  double ps = 0;
};
struct Pause {
  int64_t start_ps = 0, length_ps = 0;
};

double WeightAt(const std::vector<TorchWeight>& weights, int64_t ps) {
  const auto above = std::ranges::upper_bound(weights, ps, {}, &TorchWeight::at_ps);
  return above == weights.begin() ? 1 : std::prev(above)->weight;
}

// By operation, the longest first. `events`: the number of recorded events that they come from.
std::vector<Missing> MissingTimes(const Timeline& timeline, uint32_t process, size_t* events) {
  const std::vector<TorchWeight>& weights = timeline.processes[process].torch.weights;
  absl::flat_hash_map<StringId, double> times;
  for (const Thread& thread : timeline.threads) {
    if (thread.process != process || thread.is_line) continue;
    for (const Event& event : thread.events) {
      if (event.detail == 0 || !IsTorchWork(timeline.types[event.type])) continue;
      const double more = WeightAt(weights, event.start_ps) - 1;
      ++*events;
      if (more > 0) times[event.detail] += more * static_cast<double>(event.duration_ps);
    }
  }
  std::vector<Missing> missing;
  for (const auto& [operation, ps] : times) missing.push_back({operation, ps});
  std::ranges::sort(missing, [](const Missing& a, const Missing& b) {
    return a.ps != b.ps ? a.ps > b.ps : a.operation < b.operation;
  });
  return missing;
}

std::vector<Pause> PausesOf(const Timeline& timeline, uint32_t process, size_t most) {
  std::vector<Pause> pauses;
  for (const Thread& thread : timeline.threads) {
    if (thread.process != process || !thread.is_line) continue;
    for (const Event& event : thread.events) {
      if (IsTorchPause(timeline.types[event.type])) pauses.push_back({event.start_ps, event.duration_ps});
    }
  }
  if (pauses.size() > most) {
    std::ranges::nth_element(pauses, pauses.begin() + static_cast<ptrdiff_t>(most), std::greater{}, &Pause::length_ps);
    pauses.resize(most);
  }
  std::ranges::sort(pauses, {}, &Pause::start_ps);
  // Those of two lines may overlap, and the bars of a line may not.
  int64_t end_ps = 0;
  for (Pause& pause : pauses) {
    const int64_t start_ps = std::max(pause.start_ps, end_ps);
    pause.length_ps = std::max<int64_t>(pause.start_ps + pause.length_ps - start_ps, 0);
    pause.start_ps = start_ps;
    end_ps = start_ps + pause.length_ps;
  }
  std::erase_if(pauses, [](const Pause& pause) { return pause.length_ps == 0; });
  return pauses;
}

}  // namespace

std::vector<EstimateLine> TorchEstimates(const Timeline& timeline, uint32_t process) {
  const TorchSampled& torch = timeline.processes[process].torch;
  if (torch.skipped == 0) return {};
  size_t events = 0;
  const std::vector<Missing> missing = MissingTimes(timeline, process, &events);
  const size_t most = std::clamp(events, kFewestBars, kMostBars);
  const std::vector<Pause> pauses =
      PausesOf(timeline, process, std::max<size_t>(1, most / std::max<size_t>(1, missing.size())));
  double all = 0, room = 0;
  for (const Missing& each : missing) all += each.ps;
  for (const Pause& pause : pauses) room += static_cast<double>(pause.length_ps);
  if (all <= 0 || room <= 0) return {};
  // Work of several threads at the same time, and pauses beyond the limit, need further lines.
  const auto count = static_cast<size_t>(std::min<double>(kMostLines, std::ceil(all / room)));
  std::vector<EstimateLine> lines(count);
  const double fit = std::min(1.0, static_cast<double>(count) * room / all);
  for (const Pause& pause : pauses) {
    const double share = static_cast<double>(pause.length_ps) / room;
    size_t line = 0;
    double at = 0;
    for (const Missing& each : missing) {
      double rest = each.ps * fit * share;
      while (rest >= 1 && line < count) {
        const double length = std::min(rest, static_cast<double>(pause.length_ps) - at);
        const auto from = static_cast<int64_t>(at), to = static_cast<int64_t>(at + length);
        if (to > from) lines[line].bars.push_back({each.operation, pause.start_ps + from, to - from});
        at += length;
        rest -= length;
        if (static_cast<double>(pause.length_ps) - at >= 1) continue;
        at = 0;
        ++line;
      }
    }
  }
  const double share = static_cast<double>(torch.recorded) / static_cast<double>(torch.recorded + torch.skipped);
  // Only characters that are allowed in the name of an operation.
  lines[0].note = absl::StrFormat(
      "PyTorch_operations_are_sampled/%.*f_percent_recorded/times_are_extrapolated/occurrences_are_not:Sampled",
      share < 0.1 ? 1 : 0, 100 * share);
  return lines;
}

}  // namespace tbprof
