// SPDX-License-Identifier: Apache-2.0
//
// Which windows of a session are open, what is recorded for each, and what of the spool they still need.
//
//   WindowLedger ledger(config, sliding_ticks);
//   ledger.Keep(1, ticks);                        // before anything is recorded for it
//   ledger.Open(1, kFamilyAll);
//   ... ledger.ArmedFamilies(), ledger.RetentionNow(late_ticks) ...
//   ledger.Close(1);
//   ledger.Published(1, true);
//
// Process: launcher, main thread. Books alone: reads no clock, touches no segment.
#ifndef TBPROF_LAUNCHER_SESSION_WINDOW_LEDGER_H_
#define TBPROF_LAUNCHER_SESSION_WINDOW_LEDGER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "launcher/session/session_config.h"
#include "launcher/session/spool_writer.h"

namespace tbprof {

class WindowLedger {
 public:
  WindowLedger() = default;
  WindowLedger(const SessionConfig& config, uint64_t sliding_ticks);

  // From `from` on, nothing that is drained may go. The run's own window needs that only where neither all of the run
  // is kept nor the last of it.
  void Keep(uint32_t number, uint64_t from);
  // The same for a window whose borders lie in the past.
  void KeepPast(uint32_t number, uint64_t from) { ranges_.push_back({number, {from, UINT64_MAX, true}, true}); }
  // And of which no more is wanted than what was drained in a range.
  void KeepRange(uint32_t number, const Retention::Range& range) { ranges_.push_back({number, range}); }
  void Open(uint32_t number, uint32_t families) { open_[number] = families; }
  void Close(uint32_t number);
  // The run's own window goes on as the window of its end; only its last `sliding_ticks` stay.
  void SplitRun(uint64_t sliding_ticks);
  // The run's own window is over, and only that part of it stays.
  void NarrowRun(uint64_t from);
  // Its profile is written. Not `ok`: its records go when room is short.
  void Published(uint32_t number, bool ok);
  // Everything of the windows that are closed is in the spool, drained before `now`.
  void Flushed(uint64_t now);
  // The session is closed: ranges of the program arm nothing.
  void EndSession() { trigger_families_ = 0; }

  bool armed() const { return !open_.empty(); }
  uint32_t ArmedFamilies() const;

  // While one of these is open, PyTorch's operations are not sampled.
  void AskFor(uint32_t number) { asked_for_.insert(number); }
  bool any_asked_for() const { return !asked_for_.empty(); }
  // For one that records GPUs and ends before the program does. False: it is none, or is open.
  bool OpenForGpus(uint32_t number, uint32_t families);
  bool is_asked_for(uint32_t number) const { return asked_for_.count(number) != 0; }
  bool is_open_for_gpus(uint32_t number) const { return gpu_windows_.count(number) != 0; }
  uint32_t gpu_windows() const;  // SegmentHeader::gpu_windows

  // `late_ticks`: how much later than it was recorded the last of a window may be seen.
  Retention RetentionNow(uint64_t late_ticks) const;
  // When the records of a window were drained.
  std::optional<Retention::Range> RangeOf(uint32_t number) const;

 private:
  struct WindowRange {
    uint32_t number;
    Retention::Range range;  // of when its records were drained
    bool closing = false;    // closed, and not all of it may be in the spool yet
  };
  // The run's own, all of it or the last of it, lasts as long as the program.
  bool LastsAsLongAsTheRun(uint32_t number) const {
    return number == kEndWindow || (number == 0 && (everything_ || sliding_ticks_ != 0));
  }

  uint32_t families_ = kFamilyAll;  // of the session
  uint32_t trigger_families_ = 0;   // armed between windows
  bool keep_spool_ = false;
  bool everything_ = true;
  uint64_t sliding_ticks_ = 0;
  std::map<uint32_t, uint32_t> open_;  // windows, and what is recorded for each
  std::set<uint32_t> asked_for_;       // of these, Session::OpenAskedWindow's
  std::set<uint32_t> gpu_windows_;     // of these, those that record GPUs and end before the program does
  uint32_t gpu_windows_opened_ = 0;
  std::vector<WindowRange> ranges_;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SESSION_WINDOW_LEDGER_H_
