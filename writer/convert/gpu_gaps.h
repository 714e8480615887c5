// SPDX-License-Identifier: Apache-2.0
//
// Warnings for the parts of a window in which a process was not recorded on its GPUs.
//
// Process: converter.
#ifndef TBPROF_WRITER_CONVERT_GPU_GAPS_H_
#define TBPROF_WRITER_CONVERT_GPU_GAPS_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "writer/base/utf8.h"
#include "writer/spool/gpu_facts.h"
#include "writer/timeline/timeline_gpu.h"

namespace tbprof {

// The launcher notices an exit within this time.
inline constexpr double kExitMs = 200;
// The time of a process's other exit handlers after tbprof's last flush: on an H200 a driver needs 200 to 280 ms.
inline constexpr double kExitHandlersMs = 1000;
inline constexpr char kExitHandlers[] = "exit handlers of the process ran on after tbprof's last look at CUPTI";

// The pauses of one process, from its changes of state.
class GapFinder {
 public:
  using Add =
      std::function<void(uint64_t since, uint64_t from, uint64_t to, PauseCause cause, const std::string& text)>;
  GapFinder(uint64_t open, uint64_t end, double ns_per_tick, Add add)
      : open_(open), end_(end), ns_per_tick_(ns_per_tick), add_(std::move(add)) {}

  void Take(const GpuStateChange& change) {
    switch (change.kind) {
      case GpuStateChange::kRecording:
        if (paused_) Close(change.ticks);
        recorded_ = true;
        ended_in_order_ = false;
        break;
      case GpuStateChange::kPaused:
        ended_in_order_ = true;
        if (paused_) {
          // A program may acquire CUPTI while no window is open, and keep it.
          if (change.cause == PauseCause::kEnd || change.text == text_) break;
          Close(change.ticks);
        }
        paused_ = true;
        since_ = change.ticks;
        cause_ = change.cause;
        text_ = PrintableUtf8(change.text);
        break;
      case GpuStateChange::kUnavailable:
        unavailable_ = PrintableUtf8(change.text);
        break;
    }
  }

  // Changes after `ticks` were not kept. An unknown state is not reported as a gap up to the end.
  void LeaveOut(uint64_t ticks, GpuStateChange::Kind last) {
    if (paused_) Close(ticks);
    recorded_ = recorded_ || last == GpuStateChange::kRecording;
    ended_in_order_ = last == GpuStateChange::kPaused;
  }

  void Finish() {
    if (paused_) Close(end_);
  }

  bool recorded() const { return recorded_; }
  bool ended_in_order() const { return ended_in_order_; }
  const std::string& unavailable() const { return unavailable_; }

 private:
  void Close(uint64_t until) {
    const uint64_t from = std::max(since_, open_), to = std::min(until, end_);
    paused_ = false;
    // No recording was requested while no window was open.
    if (cause_ == PauseCause::kWindow || to <= from) return;
    // After the last flush only other exit handlers run, which seldom launch anything. Any other gap is reported
    // however short: in half a millisecond a program can run and record a dozen kernels.
    if (cause_ == PauseCause::kEnd && static_cast<double>(to - from) * ns_per_tick_ < kExitHandlersMs * 1e6) return;
    add_(since_, from, to, cause_, cause_ == PauseCause::kEnd ? kExitHandlers : text_);
  }

  const uint64_t open_, end_;
  const double ns_per_tick_;
  const Add add_;
  bool recorded_ = false, paused_ = false, ended_in_order_ = false;
  uint64_t since_ = 0;
  PauseCause cause_ = PauseCause::kOther;
  std::string text_, unavailable_;
};

// One warning per cause, in the order of the first gaps; the causes beyond 8 share one. `process`: its name for people.
std::vector<std::string> GapWarnings(const std::string& process, const std::vector<GpuGap>& gaps);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_GPU_GAPS_H_
