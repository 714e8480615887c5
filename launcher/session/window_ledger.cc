// SPDX-License-Identifier: Apache-2.0
#include "launcher/session/window_ledger.h"

#include <algorithm>
#include <utility>

namespace tbprof {

WindowLedger::WindowLedger(const SessionConfig& config, uint64_t sliding_ticks)
    : families_(config.families),
      // The annotation collector detects ranges only while annotations are recorded.
      trigger_families_(config.trigger == TriggerKind::kRange ? uint32_t{kFamilyAnnotation} : 0),
      keep_spool_(config.keep_spool),
      everything_(config.everything),
      sliding_ticks_(sliding_ticks) {}

void WindowLedger::Keep(uint32_t number, uint64_t from) {
  if (number != 0 || (!everything_ && sliding_ticks_ == 0)) ranges_.push_back({number, {from, UINT64_MAX, true}});
}

void WindowLedger::Close(uint32_t number) {
  open_.erase(number);
  asked_for_.erase(number);
  gpu_windows_.erase(number);
  for (WindowRange& window : ranges_) window.closing |= window.number == number;
}

void WindowLedger::SplitRun(uint64_t sliding_ticks) {
  everything_ = false;
  sliding_ticks_ = sliding_ticks;
  if (auto run = open_.extract(0); !run.empty()) {
    run.key() = kEndWindow;
    open_.insert(std::move(run));
  }
}

void WindowLedger::NarrowRun(uint64_t from) {
  KeepPast(0, from);
  everything_ = false;
  open_.erase(0);
}

void WindowLedger::Published(uint32_t number, bool ok) {
  for (WindowRange& window : ranges_) {
    if (window.number == number) window.range.needed = false;
  }
  if (ok && !keep_spool_) std::erase_if(ranges_, [&](const WindowRange& window) { return window.number == number; });
}

void WindowLedger::Flushed(uint64_t now) {
  for (WindowRange& window : ranges_) {
    if (std::exchange(window.closing, false)) window.range.to = now;
  }
}

uint32_t WindowLedger::ArmedFamilies() const {
  uint32_t families = trigger_families_;
  for (const auto& [number, wanted] : open_) families |= wanted;
  return families & families_;
}

bool WindowLedger::OpenForGpus(uint32_t number, uint32_t families) {
  if (LastsAsLongAsTheRun(number) || (families & families_ & kFamilyGpu) == 0) return false;
  if (!gpu_windows_.insert(number).second) return false;
  ++gpu_windows_opened_;
  return true;
}

uint32_t WindowLedger::gpu_windows() const {
  return gpu_windows_opened_ * 2 * kGpuWindowOpen + (gpu_windows_.empty() ? 0 : kGpuWindowOpen);
}

Retention WindowLedger::RetentionNow(uint64_t late_ticks) const {
  Retention retention;
  retention.everything = everything_;
  retention.sliding_ticks = sliding_ticks_ == 0 ? 0 : sliding_ticks_ + late_ticks;
  retention.totals = everything_ || sliding_ticks_ != 0;
  for (const WindowRange& window : ranges_) retention.ranges.push_back(window.range);
  return retention;
}

std::optional<Retention::Range> WindowLedger::RangeOf(uint32_t number) const {
  std::optional<Retention::Range> range;
  for (const WindowRange& window : ranges_) {
    if (window.number == number) range = window.range;
  }
  return range;
}

}  // namespace tbprof
