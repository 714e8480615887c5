// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/capture_window.h"

#include <algorithm>
#include <cstring>

#include "writer/base/saturating.h"
#include "writer/base/summary_format.h"
#include "writer/base/text.h"

namespace tbprof {
namespace {

constexpr double kDrainLagNs = 250e6;

class WindowFinder {
 public:
  WindowFinder(const SessionFacts& session, const TimelineRequest& request, SpoolFacts* facts, Timeline* timeline)
      : session_(session), request_(request), facts_(*facts), timeline_(*timeline) {}

  CaptureWindow Find() {
    FindBorders();
    const uint64_t drained = FindDrained();
    window_.drained = drained;
    CutToWhatIsThere(drained);
    CutToPart();
    if (!window_.whole_run) window_.totals_open = window_.open;
    facts_.clock.SetOrigin(window_.open);
    timeline_.origin_unix_ns = facts_.clock.UnixNs(window_.open);
    AddLateStart();
    timeline_.duration_ps = std::max<int64_t>(facts_.clock.ToPs(window_.close), 1000);
    if (window_.totals_open < window_.open) {
      timeline_.totals_ps = timeline_.duration_ps;
      AddSaturating(&timeline_.totals_ps, facts_.clock.DurationPs(window_.open - window_.totals_open));
    }
    AddSlowDisk(drained);
    timeline_.window = request_.window == 0 ? session_.window : WindowName(request_.window);
    timeline_.command_ended = request_.command_ended;
    if (facts_.ended) {
      timeline_.exit_code = facts_.end.exit_code;
      timeline_.exit_signal = facts_.end.exit_signal;
      // The launcher has no status or usage of processes that it has not started.
      if (session_.attached) return window_;
      timeline_.user_cpu_seconds = static_cast<double>(facts_.end.user_cpu_us) / 1e6;
      timeline_.system_cpu_seconds = static_cast<double>(facts_.end.system_cpu_us) / 1e6;
    }
    return window_;
  }

 private:
  void FindBorders() {
    if (!facts_.window_found) {
      // The window never opened: the spool has only records that no window requested. They are shown.
      const uint64_t start = facts_.segments.empty() ? 0 : facts_.segments.begin()->second.fact.seen_ticks;
      facts_.open_ticks = start;
    }
    window_.open = facts_.open_ticks;
    window_.close = std::min(facts_.close_ticks, std::max(facts_.last_ticks, window_.open));
    if (facts_.ended && facts_.end.ticks > window_.open) window_.close = std::min(window_.close, facts_.end.ticks);
    window_.totals_open = window_.open;
    if (facts_.length_ms != 0) {
      window_.whole_run = true;
      if (facts_.run_open_ticks != 0) window_.totals_open = std::min(facts_.run_open_ticks, window_.open);
      const auto length =
          static_cast<uint64_t>(std::min(static_cast<double>(facts_.length_ms) * 1e6 * session_.ticks_per_ns, 9e18));
      if (window_.close > length) window_.open = std::max(window_.open, window_.close - length);
    }
  }

  // The latest time at which records of the window may have been drained.
  uint64_t FindDrained() {
    // A gap is dated when records were drained, which is after they were made: records from before the close may be
    // lost in a gap after it. At the end of a session all records are drained.
    const uint64_t behind = BehindDrain(window_.close);
    const bool is_last = facts_.close_ticks == UINT64_MAX || (facts_.ended && facts_.end.ticks <= behind);
    window_.closed_by_end = is_last;
    return is_last ? UINT64_MAX : behind;
  }
  uint64_t BehindDrain(uint64_t ticks) const {
    return ticks + static_cast<uint64_t>(kDrainLagNs * session_.ticks_per_ns);
  }

  void CutToPart() {
    if (request_.part_to_ns != 0) {
      const auto ticks = [&](uint64_t ns) { return facts_.clock.Ticks(static_cast<double>(ns)); };
      window_.close = std::min(window_.close, window_.open + ticks(request_.part_to_ns));
      window_.open = std::min(window_.close, window_.open + ticks(request_.part_from_ns));
      window_.drained = std::min(window_.drained, BehindDrain(window_.close));
    }
  }

  void AddLateStart() {
    constexpr uint64_t kMostLateNs = 60'000'000'000;
    constexpr uint64_t kLateNs = 100'000'000;
    const uint64_t agreed = request_.agreed_start_unix_ns;
    if (agreed != 0 && timeline_.origin_unix_ns > agreed && timeline_.origin_unix_ns - agreed < kMostLateNs) {
      timeline_.after_agreed_start_ns = timeline_.origin_unix_ns - agreed;
      if (timeline_.after_agreed_start_ns >= kLateNs) {
        timeline_.warnings.push_back(StrCat(kBeganLate,
                                            HumanTime(static_cast<int64_t>(timeline_.after_agreed_start_ns) * 1000),
                                            " after the start that was asked for, by the asker's clock"));
      }
    }
  }

  void AddSlowDisk(uint64_t drained) {
    GapFact slow{UINT64_MAX, 0, 0, GapCause::kSlowDisk, 0};
    for (const GapFact& gap : facts_.gaps) {
      if (gap.last_ticks >= window_.totals_open && gap.first_ticks <= drained)
        timeline_.records_not_kept += gap.records;
      if (gap.cause != GapCause::kSlowDisk || gap.last_ticks < window_.open || gap.first_ticks > drained) continue;
      slow.first_ticks = std::min(slow.first_ticks, gap.first_ticks);
      slow.last_ticks = std::max(slow.last_ticks, gap.last_ticks);
      slow.records += gap.records;
    }
    if (slow.records > 0) {
      window_.cuts.push_back(
          StrCat(slow.records, " records are missing between ", At(std::min(slow.first_ticks, window_.close)), " and ",
                 At(std::min(slow.last_ticks, window_.close)), ": the disk of the spool could not keep up"));
    }
  }

  // A part that was dropped or not written would look like a time without activity. The window therefore begins after
  // it or ends before it.
  void CutToWhatIsThere(uint64_t drained) {
    uint64_t begin = window_.open, end = window_.close, until = drained, records = 0;
    const char* begin_cause = "its records were dropped for the spool's limit (--spool-limit)";
    const char* end_cause = "";
    for (const PartFact& part : facts_.dropped) {
      if (part.records > 0 && part.last_ticks > begin && part.first_ticks < end) begin = part.last_ticks;
    }
    for (const GapFact& gap : facts_.gaps) {
      if (gap.cause == GapCause::kSlowDisk || gap.first_ticks >= until || gap.last_ticks <= begin) continue;
      const char* cause =
          gap.cause == GapCause::kLimit ? "the spool reached its limit (--spool-limit)" : strerror(gap.error);
      records += gap.records;
      if (gap.first_ticks >= end) continue;
      // A sliding window (length_ms != 0) shows its end.
      if ((gap.first_ticks <= begin || facts_.length_ms != 0) && gap.last_ticks < end) {
        begin = gap.last_ticks;
        begin_cause = cause;
      } else {
        end = until = std::max(gap.first_ticks, begin);
        end_cause = cause;
      }
    }
    if (begin > window_.open) {
      window_.cuts.push_back(
          StrCat("the first ", Length(begin - window_.open), " of this window are not shown: ", begin_cause));
    }
    if (end < window_.close) {
      window_.cuts.push_back(
          StrCat("the last ", Length(window_.close - end), " of this window are not shown: ", end_cause));
    }
    if (records > 0) window_.cuts.push_back(StrCat(records, " records that belong there were not kept"));
    window_.open = std::min(begin, window_.close);
    window_.close = std::max(end, window_.open);
  }

  std::string Length(uint64_t ticks) const {
    return StrCat(static_cast<uint64_t>(static_cast<double>(ticks) / session_.ticks_per_ns / 1e6), " ms");
  }
  std::string At(uint64_t ticks) const {
    return StrCat(std::max<int64_t>(facts_.clock.ToPs(ticks), 0) / 1'000'000'000, " ms");
  }

  const SessionFacts& session_;
  const TimelineRequest& request_;
  SpoolFacts& facts_;
  Timeline& timeline_;
  CaptureWindow window_;
};

}  // namespace

CaptureWindow FindCaptureWindow(const SessionFacts& session, const TimelineRequest& request, SpoolFacts* facts,
                                Timeline* timeline) {
  return WindowFinder(session, request, facts, timeline).Find();
}

}  // namespace tbprof
