// SPDX-License-Identifier: Apache-2.0
#include "launcher/session/triggers.h"

#include <algorithm>
#include <utility>

namespace tbprof {
namespace {

// How often a process is looked for: one that has reported a border may not be registered yet.
constexpr int kLooks = 3;
constexpr size_t kMaxProcesses = 100'000;
constexpr size_t kMostOpen = 2;  // a range may begin before the end of the one before it is reported

}  // namespace

void TriggerReader::Read(uint32_t segment, const Triggers& triggers, uint32_t reported, uint32_t* seen, uint64_t from,
                         uint64_t now) {
  if (reported - *seen > kRangeBorders) {
    const uint32_t lost = reported - *seen - kRangeBorders;
    missed_ += (lost + 1) / 2;
    *seen += lost;
    EndAll(segment, now);
  }
  while (*seen != reported) {
    const uint32_t number = *seen + 1;
    const RangeBorder& border = triggers.borders[number % kRangeBorders];
    const uint32_t turn = __atomic_load_n(&border.turn, __ATOMIC_ACQUIRE);
    const uint64_t ticks = __atomic_load_n(&border.ticks, __ATOMIC_RELAXED);
    const Key key{segment, __atomic_load_n(&border.process_serial, __ATOMIC_RELAXED)};
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    const bool torn = __atomic_load_n(&border.turn, __ATOMIC_RELAXED) != turn;
    if (torn || turn >> 1 != (number & (UINT32_MAX >> 1))) {
      // The border was overwritten, or is unfinished: its thread is still writing it or was killed while writing.
      if (reported - *seen < kRangeBorders / 2 && ++unwritten_[segment] < kLooks) return;
      ++*seen;
      ++missed_;
      EndAll(segment, now);
      continue;
    }
    ++*seen;
    unwritten_.erase(segment);
    const bool begins = (turn & 1) == 0;
    Add(key, begins, std::clamp(ticks, std::min(from, now), now));
  }
}

// An end is never earlier than a begin that was reported before it: the threads of a process read their clocks on
// different CPUs, so that the end of a range can have the earlier ticks. Sorted before its begin, the end would close
// the range of another process.
void TriggerReader::Add(const Key& key, bool begins, uint64_t ticks) {
  auto found = open_.find(key);
  // A border without its counterpart: the other one was missed.
  if (begins) {
    if (found == open_.end() && open_.size() >= kMaxProcesses) return;
    if (found == open_.end()) found = open_.emplace(key, std::vector<uint64_t>()).first;
    std::vector<uint64_t>* const begun = &found->second;
    if (begun->size() >= kMostOpen) return;
    begun->insert(std::upper_bound(begun->begin(), begun->end(), ticks), ticks);
  } else {
    if (found == open_.end()) return;
    std::vector<uint64_t>* const begun = &found->second;
    ticks = std::max(ticks, begun->front());
    begun->erase(begun->begin());
    if (begun->empty()) {
      open_.erase(found);
      looked_for_.erase(key);
    }
  }
  borders_.push_back({ticks, key, begins, false});
}

// Ends all ranges of the segment after a lost border, which may have been the end of any of them: a window that closes
// too early is reported, a window that never closes would record forever.
void TriggerReader::EndAll(uint32_t segment, uint64_t now) {
  for (auto at = open_.lower_bound({segment, 0}); at != open_.end() && at->first.segment == segment;) {
    for (size_t i = 0; i < at->second.size(); ++i) borders_.push_back({now, at->first, false, false});
    looked_for_.erase(at->first);
    at = open_.erase(at);
  }
}

void TriggerReader::Forget(uint32_t segment, const std::function<bool(uint32_t)>& is_alive, uint64_t now) {
  for (auto at = open_.lower_bound({segment, 0}); at != open_.end() && at->first.segment == segment;) {
    const Key key = at->first;
    if (is_alive(key.process_serial)) {
      looked_for_[key] = kLooks;
      ++at;
      continue;
    }
    if (++looked_for_[key] < kLooks) {
      ++at;
      continue;
    }
    for (size_t i = 0; i < at->second.size(); ++i) borders_.push_back({now, key, false, true});
    looked_for_.erase(key);
    at = open_.erase(at);
  }
}

void TriggerReader::ForgetSegment(uint32_t segment, uint64_t now) {
  for (int i = 0; i < kLooks; ++i) {
    Forget(
        segment, [](uint32_t) { return false; }, now);
  }
  unwritten_.erase(segment);
}

std::vector<TriggerChange> TriggerReader::Take() {
  std::vector<TriggerChange> changes;
  // Stable: borders with equal times, such as clamped ones, keep the order in which they were reported, so that an end
  // stays after its begin.
  std::stable_sort(borders_.begin(), borders_.end(),
                   [](const Border& a, const Border& b) { return a.ticks < b.ticks; });
  for (const Border& border : borders_) {
    open_count_ += border.begins ? 1 : -1;
    if (border.begins && open_count_ == 1) changes.push_back({true, border.ticks, false});
    if (!border.begins && open_count_ == 0) changes.push_back({false, border.ticks, border.process_ended});
  }
  borders_.clear();
  return changes;
}

}  // namespace tbprof
