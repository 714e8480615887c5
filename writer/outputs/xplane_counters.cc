// SPDX-License-Identifier: Apache-2.0
#include "writer/outputs/xplane_counters.h"

#include <algorithm>

#include "writer/base/text.h"
#include "writer/base/utf8.h"
#include "writer/timeline/schema.h"

namespace tbprof {
namespace {

constexpr size_t kExpectedSampleBytes = 26;
constexpr int64_t kLeastRepeatPs = 100'000'000'000;
constexpr int64_t kMostRepeats = 300;  // of a track
// Of all tracks together; if events were left out, a tenth of the file.
constexpr uint64_t kMostOfAll = 20'000;
constexpr uint64_t kEventBytesOfARepeat = 10 * kExpectedSampleBytes;

int64_t RepeatsOfATrack(const Timeline& timeline) {
  const uint64_t by_size = timeline.expected_bytes / kEventBytesOfARepeat;
  const uint64_t all = timeline.events_over_budget > 0 ? std::min(by_size, kMostOfAll) : kMostOfAll;
  return std::clamp(static_cast<int64_t>(all / std::max<size_t>(timeline.counters.size(), 1)), int64_t{1},
                    kMostRepeats);
}

}  // namespace

// A series with the name of a stat of schema.def would be read as that stat.
std::string SeriesName(const CounterTrack& track) {
  std::string name = ValidUtf8(track.series.empty() ? "value" : track.series);
  for (const StatRow& row : kStats) {
    if (row.name == name) return StrCat("counted ", name);
  }
  for (std::string_view forbidden : kForbiddenStats) {
    if (forbidden == name) return StrCat("counted ", name);
  }
  return name;
}

std::vector<CounterSample> ShownSamples(const Timeline& timeline, const CounterTrack& track) {
  const int64_t every = std::max(kLeastRepeatPs, timeline.duration_ps / RepeatsOfATrack(timeline));
  std::vector<CounterSample> shown;
  for (const CounterSample& sample : track.samples) {
    while (!shown.empty() && sample.time_ps - shown.back().time_ps > every) {
      shown.push_back({shown.back().time_ps + every, shown.back().value});
    }
    shown.push_back(sample);
  }
  if (shown.empty() || track.process >= timeline.processes.size()) return shown;
  const int64_t end_ps = timeline.processes[track.process].end_ps;
  while (end_ps > shown.back().time_ps) {
    shown.push_back({std::min(shown.back().time_ps + every, end_ps), shown.back().value});
  }
  return shown;
}

void WriteCounters(const Timeline& timeline, const HostPlane& host_plane, uint64_t& line_id, PlaneBuilder& plane) {
  struct Sample {
    int64_t time_ps;
    double value;
    uint32_t event_id, stat_id;
  };
  std::vector<Sample> samples;
  for (uint32_t process : host_plane.processes) {
    for (const CounterTrack& track : timeline.counters) {
      if (track.process != process || track.device >= 0 || track.samples.empty()) continue;
      const std::string name = ValidUtf8(track.name);
      const uint32_t event_id =
          plane.EventId(host_plane.merged ? StrCat(name, " [", timeline.processes[process].pid, "]") : name);
      const uint32_t stat_id = plane.StatId(SeriesName(track));
      for (const CounterSample& sample : ShownSamples(timeline, track)) {
        samples.push_back({sample.time_ps, sample.value, event_id, stat_id});
      }
    }
  }
  if (samples.empty()) return;
  std::stable_sort(samples.begin(), samples.end(),
                   [](const Sample& a, const Sample& b) { return a.time_ps < b.time_ps; });
  LineBuilder& line = plane.AddLine(line_id++, kCountersLine);
  line.ReserveEvents(samples.size(), kExpectedSampleBytes);
  for (const Sample& sample : samples) {
    line.Begin(sample.event_id, sample.time_ps, 0);
    line.Double(sample.stat_id, sample.value);
    line.End();
  }
}

}  // namespace tbprof
