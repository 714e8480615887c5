// SPDX-License-Identifier: Apache-2.0
//
// Keeps which windows of a session are open, which families are recorded for each, and which records in the spool they
// still need.
//
//   WindowLedger ledger(config, sliding_ticks);
//   ledger.Keep(1, ticks);                        // before anything is recorded for it
//   ledger.Open(1, kFamilyAll);
//   ... ledger.ArmedFamilies(), ledger.RetentionNow(late_ticks) ...
//   ledger.Close(1);
//   ledger.Published(1, true);
//
// Process: launcher, main thread. Bookkeeping only: reads no clock, accesses no segment.
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

  // Records that are drained after `from` must not be dropped. For the run's own window (0) a range is added only if
  // neither everything nor a sliding part of the run is kept.
  void Keep(uint32_t number, uint64_t from);
  // Like Keep, for a window that lies in the past.
  void KeepPast(uint32_t number, uint64_t from) { ranges_.push_back({number, {from, UINT64_MAX, true}, true}); }
  // Like Keep, for a window that needs only the records that were drained in a range.
  void KeepRange(uint32_t number, const Retention::Range& range) { ranges_.push_back({number, range}); }
  void Open(uint32_t number, uint32_t families) { open_[number] = families; }
  void Close(uint32_t number);
  // The run's own window continues as kEndWindow; only its last `sliding_ticks` are kept.
  void SplitRun(uint64_t sliding_ticks);
  // The run's own window is over, and only the records from `from` on are kept.
  void NarrowRun(uint64_t from);
  // The profile of a window is written: its records may be dropped. Not `ok`: only when the spool is short of room.
  void Published(uint32_t number, bool ok);
  // All records of closed windows are in the spool, drained before `now`.
  void Flushed(uint64_t now);
  // The session is closed: ranges of the program no longer arm a family.
  void EndSession() { trigger_families_ = 0; }

  bool armed() const { return !open_.empty(); }
  uint32_t ArmedFamilies() const;

  // Marks a requested window: while one is open, all PyTorch operations are recorded instead of samples.
  void AskFor(uint32_t number) { asked_for_.insert(number); }
  bool any_asked_for() const { return !asked_for_.empty(); }
  // Marks a window that records GPUs and ends before the program does. False: not such a window, or already marked.
  bool OpenForGpus(uint32_t number, uint32_t families);
  bool is_asked_for(uint32_t number) const { return asked_for_.count(number) != 0; }
  bool is_open_for_gpus(uint32_t number) const { return gpu_windows_.count(number) != 0; }
  uint32_t gpu_windows() const;  // SegmentHeader::gpu_windows

  // `late_ticks`: how long after recording the last records of a window may be drained.
  Retention RetentionNow(uint64_t late_ticks) const;
  // The ticks between which the records of a window were drained.
  std::optional<Retention::Range> RangeOf(uint32_t number) const;

 private:
  struct WindowRange {
    uint32_t number;
    Retention::Range range;  // when its records were drained
    bool closing = false;    // closed, but not yet flushed to the spool
  };
  // The run's own window lasts as long as the program if all of the run or its last part is kept.
  bool LastsAsLongAsTheRun(uint32_t number) const {
    return number == kEndWindow || (number == 0 && (everything_ || sliding_ticks_ != 0));
  }

  uint32_t families_ = kFamilyAll;  // enabled in the session
  uint32_t trigger_families_ = 0;   // armed between windows
  bool keep_spool_ = false;
  bool everything_ = true;
  uint64_t sliding_ticks_ = 0;
  std::map<uint32_t, uint32_t> open_;  // number and families of each open window
  std::set<uint32_t> asked_for_;       // those of Session::OpenAskedWindow
  std::set<uint32_t> gpu_windows_;     // those that record GPUs and end before the program does
  uint32_t gpu_windows_opened_ = 0;
  std::vector<WindowRange> ranges_;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SESSION_WINDOW_LEDGER_H_
