// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/thread_usage.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "writer/convert/thread_rows.h"

namespace tbprof {
namespace {

constexpr uint64_t kMostNs = uint64_t{1} << 62;
constexpr uint64_t kPsPerNs = 1000;
constexpr int64_t kPsPerUs = 1'000'000;
constexpr size_t kMostUnknown = 1u << 16;  // threads
constexpr double kFirstDistanceNs = 1e8;   // twice the launcher's distance

int64_t PsOf(uint64_t ns) {
  return static_cast<int64_t>(std::min<uint64_t>(ns, static_cast<uint64_t>(INT64_MAX) / kPsPerNs) * kPsPerNs);
}

uint64_t Between(uint64_t a, uint64_t b, double share) {
  return b <= a ? a : a + static_cast<uint64_t>(static_cast<double>(b - a) * share);
}

}  // namespace

void UsageLines::Take(const Frame& frame) {
  if (frame.type != FrameType::kThreadUsage) return;
  if (known_.empty()) ListKnown();
  ForEachThreadRow<ThreadUsageRow>(
      frame, &model_, &corrupt_, [this](uint32_t owner, const ThreadUsageRow& row) { TakeRow(owner, row); },
      [this](const Identity& of, const ThreadUsageRow& row) { TakeRowOfOthers(of, row); });
}

void UsageLines::TakeRowOfOthers(const Identity& process, const ThreadUsageRow& row) {
  if (row.ticks < window_.open || row.ticks >= window_.close || row.cpu_ns >= kMostNs || row.run_delay_ns >= kMostNs)
    return;
  const std::pair key{process, row.tid};
  if (others_.size() >= kMostUnknown && !others_.contains(key)) return;
  const Point point = {row.ticks, row.cpu_ns, row.run_delay_ns, 0, 0};
  const auto [other, added] = others_.try_emplace(key, point, point);
  if (added) return;
  auto& [first, last] = other->second;
  if (point.ticks < first.ticks) first = point;
  if (point.ticks > last.ticks) last = point;
}

void UsageLines::AddOthers() {
  CpuOfOthers& out = timeline_.cpu_of_others;
  for (const auto& [key, points] : others_) {
    const auto& [first, last] = points;
    if (last.cpu_ns < first.cpu_ns || last.run_delay_ns < first.run_delay_ns) continue;  // the tid was used again
    const auto add = [](uint64_t grown_ns, int64_t* sum) {
      if (__builtin_add_overflow(*sum, PsOf(grown_ns), sum)) *sum = INT64_MAX;
    };
    add(last.cpu_ns - first.cpu_ns, &out.cpu_ps);
    add(last.run_delay_ns - first.run_delay_ns, &out.run_delay_ps);
  }
}

void UsageLines::ListKnown() {
  for (const auto& [identity, index] : model_.threads()) {
    const auto facts = facts_.threads.find(identity);
    if (facts != facts_.threads.end()) known_.insert({timeline_.threads[index].process, facts->second.tid});
  }
}

UsageLines::Line* UsageLines::FindLine(uint32_t owner, const ThreadUsageRow& row) {
  if (known_.contains({owner, row.tid})) {
    const uint32_t thread = model_.LineOfThread(owner, row.tid, row.ticks);
    return thread == kNoLine ? nullptr : &lines_[thread];
  }
  if (unknown_.size() >= kMostUnknown && !unknown_.contains({owner, row.tid})) return nullptr;
  return &unknown_[{owner, row.tid}];
}

void UsageLines::TakeRow(uint32_t owner, const ThreadUsageRow& row) {
  if (row.tid <= 0 || row.ticks == 0 || row.ticks >= kLatestTicks || row.cpu_ns >= kMostNs ||
      row.run_delay_ns >= kMostNs) {
    ++corrupt_;
    return;
  }
  Line* const found = FindLine(owner, row);
  if (found == nullptr) return;
  Line& line = *found;
  const Point point = {row.ticks, row.cpu_ns, row.run_delay_ns, row.major_faults, row.minor_faults};
  if (row.ticks < window_.open) {
    if (row.ticks > line.before.ticks) line.before = point;
  } else if (row.ticks >= window_.close) {
    if (line.after.ticks == 0 || row.ticks < line.after.ticks) line.after = point;
  } else if (points_ < 2 * most_points_) {  // exceeds most_points_ only with very many threads
    Add(point, &line.points);
    if (points_ > most_points_) Thin();
  }
}

// After thinning: a point that is too near to the last but one replaces the last; a point that is older than the last
// is discarded.
void UsageLines::Add(const Point& point, std::vector<Point>* points) {
  const size_t size = points->size();
  if (distance_ > 0 && size >= 2) {
    if (point.ticks < points->back().ticks) return;
    if (point.ticks - (*points)[size - 2].ticks < distance_) {
      points->back() = point;
      return;
    }
  }
  points->push_back(point);
  ++points_;
}

void UsageLines::Thin() {
  const uint64_t longest = std::max<uint64_t>(window_.close - window_.open, 1);
  while (points_ > most_points_ / 2 && distance_ < longest) {
    distance_ = distance_ == 0 ? std::max<uint64_t>(1, facts_.clock.Ticks(kFirstDistanceNs)) : distance_ * 2;
    points_ = 0;
    const auto thin = [this](std::vector<Point>* points) {
      std::vector<Point> all;
      all.swap(*points);
      for (const Point& point : all) Add(point, points);
    };
    for (auto& [thread, line] : lines_) thin(&line.points);
    for (auto& [thread, line] : unknown_) thin(&line.points);
  }
}

std::vector<UsageLines::Point> UsageLines::TakePoints(Line* line) const {
  std::vector<Point> all;
  if (line->before.ticks != 0) all.push_back(line->before);
  all.insert(all.end(), line->points.begin(), line->points.end());
  if (line->after.ticks != 0) all.push_back(line->after);
  *line = {};
  std::stable_sort(all.begin(), all.end(), [](const Point& a, const Point& b) { return a.ticks < b.ticks; });
  // Two samplers may read one thread, and one may be delayed between reading the count and reading the time.
  std::vector<Point> rising;
  for (const Point& point : all) {
    if (!rising.empty() &&
        (point.ticks == rising.back().ticks || point.cpu_ns < rising.back().cpu_ns ||
         point.run_delay_ns < rising.back().run_delay_ns || point.major_faults < rising.back().major_faults ||
         point.minor_faults < rising.back().minor_faults)) {
      continue;
    }
    rising.push_back(point);
  }
  const auto cut = [&](size_t first, uint64_t at) {
    const Point &a = rising[first], &b = rising[first + 1];
    const double share = static_cast<double>(at - a.ticks) / static_cast<double>(b.ticks - a.ticks);
    return Point{at, Between(a.cpu_ns, b.cpu_ns, share), Between(a.run_delay_ns, b.run_delay_ns, share), a.major_faults,
                 a.minor_faults};
  };
  // A first or last point outside of the window is interpolated to its border.
  if (rising.size() >= 2 && rising.front().ticks < window_.open) rising.front() = cut(0, window_.open);
  if (rising.size() >= 2 && rising.back().ticks >= window_.close) {
    rising.back() = cut(rising.size() - 2, std::max(window_.close - 1, rising[rising.size() - 2].ticks));
  }
  return rising;
}

void UsageLines::FinishLine(uint32_t thread, Line* line) {
  ThreadUsage usage;
  usage.thread = thread;
  for (const Point& point : TakePoints(line)) {
    if (point.ticks < window_.open || point.ticks >= window_.close) continue;
    usage.points.push_back({PsInWindow(facts_, timeline_, point.ticks), PsOf(point.cpu_ns), PsOf(point.run_delay_ns),
                            point.major_faults, point.minor_faults});
  }
  if (!usage.points.empty()) timeline_.usage.push_back(std::move(usage));
}

namespace {

// The CPUs that were allowed for most of the window, and those before.
void AddAllowed(const std::vector<CpuLimitsFact>& facts, const CaptureWindow& window, CpuLimits* out) {
  uint64_t most = 0, current = 0;
  int before = 0;
  for (size_t i = 0; i < facts.size(); ++i) {
    const bool is_same = i > 0 && facts[i].cpus_allowed == facts[i - 1].cpus_allowed;
    if (i > 0 && !is_same) before = facts[i - 1].cpus_allowed;
    // What was read first held before, too.
    const uint64_t from = i == 0 ? window.open : std::max(facts[i].ticks, window.open);
    const uint64_t to = i + 1 < facts.size() ? std::min(facts[i + 1].ticks, window.close) : window.close;
    current = (is_same ? current : 0) + (to > from ? to - from : 0);
    if (current <= most && i > 0) continue;
    most = current;
    out->cpus_allowed = facts[i].cpus_allowed;
    out->cpus_before = before;
  }
}

}  // namespace

void UsageLines::AddLimits() {
  const std::vector<CpuLimitsFact>* limits = nullptr;
  for (const auto& [identity, index] : model_.processes()) {
    const Process& process = timeline_.processes[index];
    if (!process.is_command) continue;
    // The latest image of the command that has limits.
    if (const auto* its = facts_.cpu_limits.Of(identity.segment, identity.serial); its != nullptr) limits = its;
  }
  if (limits == nullptr) return;
  const auto first_after = [&](uint64_t ticks) {
    return std::find_if(limits->begin(), limits->end(),
                        [ticks](const CpuLimitsFact& fact) { return fact.ticks >= ticks; });
  };
  const auto opens = first_after(window_.open + 1), closes = first_after(window_.close);
  const CpuLimitsFact& first = opens == limits->begin() ? *opens : *std::prev(opens);
  const CpuLimitsFact& last = closes == limits->end() ? limits->back() : *closes;
  CpuLimits& out = timeline_.cpu_limits;
  AddAllowed(*limits, window_, &out);
  const CpuLimitsFact& quota = first.quota_us == -2 ? last : first;
  if (quota.quota_us > 0) out.quota_cpus = static_cast<double>(quota.quota_us) / static_cast<double>(quota.period_us);
  if (first.throttled_us < 0 || last.throttled_us < first.throttled_us) return;
  const int64_t us = last.throttled_us - first.throttled_us;
  out.throttled_ps = us > INT64_MAX / kPsPerUs ? INT64_MAX : us * kPsPerUs;
}

void UsageLines::Finish() {
  for (uint32_t i = 0; i < timeline_.threads.size() && !unknown_.empty(); ++i) {
    const Thread& thread = timeline_.threads[i];
    constexpr std::string_view kName = "thread ";  // as ProcessModel names it
    if (!thread.is_line || !thread.name.starts_with(kName)) continue;
    const auto unknown = unknown_.find({thread.process, atoi(thread.name.c_str() + kName.size())});
    if (unknown == unknown_.end() || lines_.contains(i)) continue;
    lines_.emplace(i, std::move(unknown->second));
    unknown_.erase(unknown);
  }
  for (auto& [thread, line] : lines_) FinishLine(thread, &line);
  AddOthers();
  AddLimits();
  timeline_.corrupt_records += corrupt_ + facts_.cpu_limits.corrupt();
}

}  // namespace tbprof
