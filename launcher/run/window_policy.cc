// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/window_policy.h"

#include <algorithm>
#include <string>

#include "launcher/base/text.h"
#include "wire/clock.h"
#include "writer/base/utf8.h"
#include "writer/convert/event_budget.h"
#include "writer/convert/timeline_builder.h"

namespace tbprof {
namespace {

// --window=auto: with more calls per event of the budget than this, a profile of the whole run would show too little of
// the run and take too long to convert.
constexpr uint64_t kMaxCallsPerEvent = 64;
constexpr uint64_t kStepsLookNs = 1'000'000'000;
// Limits the windows: a range in each step of a long run would fill the disk with profiles.
constexpr uint32_t kMaxTriggered = 100;

// --window=none, all, last=TIME: one window, as long as the command runs.
class WholeRunWindow : public WindowPolicy {
 public:
  explicit WholeRunWindow(const Parts& parts) : WindowPolicy(parts) {}
  void Handle(uint64_t now) override {
    if (options_.window.kind == Window::Kind::kAll) CloseAtLimit(now);
  }
  std::optional<uint32_t> LastWindow() const override {
    if (options_.window.kind == Window::Kind::kNone) return std::nullopt;
    return WindowPolicy::LastWindow();
  }
  void Report() override {
    if (options_.window.kind == Window::Kind::kNone && captures_->count() == 0) {
      terminal_.Print("--window=none and no capture was asked for: nothing was recorded, no profile written");
    }
  }
};

// --window=DELAY+LENGTH.
class RangeWindow : public WindowPolicy {
 public:
  explicit RangeWindow(const Parts& parts) : WindowPolicy(parts) {}
  void Start(uint64_t now) override;
  uint64_t NextNs() const override { return next_ns_ == 0 ? UINT64_MAX : next_ns_; }
  void Handle(uint64_t now) override;
  std::optional<uint32_t> LastWindow() const override { return began_ ? WindowPolicy::LastWindow() : std::nullopt; }
  void Report() override;

 private:
  bool began_ = false;
  uint64_t next_ns_ = 0;  // when the window opens or closes; 0: it is over
};

// --window=steps=A:B: the converter reads the records so far to find the steps, so that they are the same steps that
// the profile shows.
class StepsWindow : public WindowPolicy {
 public:
  explicit StepsWindow(const Parts& parts) : WindowPolicy(parts) {}
  void Start(uint64_t now) override;
  uint64_t NextNs() const override { return steps_next_ns_ == 0 ? UINT64_MAX : steps_next_ns_; }
  void Handle(uint64_t now) override;
  void End() override;

 private:
  void LookForSteps(uint64_t now);
  void TakeSteps(const ConversionResult& result);
  uint64_t steps_next_ns_ = 0, steps_asked_ns_ = 0;  // when the next search starts, when the last one started
};

// --window=nvtx:NAME and cuda-profiler.
class TriggeredWindow : public WindowPolicy {
 public:
  explicit TriggeredWindow(const Parts& parts) : WindowPolicy(parts) {}
  void Handle(uint64_t) override { TakeTriggers(); }
  void TakeTriggers() override;
  std::optional<uint32_t> LastWindow() const override { return std::nullopt; }
  void Report() override;

 private:
  uint32_t triggered_ = 0;  // windows that the program began
  uint64_t not_triggered_ = 0;
  bool printed_most_triggered_ = false;
};

// --window=auto: all of the run if it fits one profile, else its start, a steady part and its end.
class AutoWindow : public WindowPolicy {
 public:
  explicit AutoWindow(const Parts& parts) : WindowPolicy(parts) {}
  void Start(uint64_t now) override;
  uint64_t NextNs() const override;
  void Handle(uint64_t now) override;
  void End() override;
  std::optional<uint32_t> LastWindow() const override { return split_ ? kEndWindow : 0; }
  bool is_open() const override { return open_ || steady_open_; }

 private:
  bool FitsOneProfile() const;
  uint64_t EndOfEverything() const;
  void PublishStart();
  void SplitRun();
  void MoveSteady(uint64_t now);
  void CloseSteady();

  bool split_ = false;  // the run became start, steady and end
  bool steady_open_ = false;
  uint64_t start_next_ns_ = 0;   // when the start ends; 0: it is published
  uint64_t steady_next_ns_ = 0;  // when the steady part opens or closes; 0: it is over
};

void RangeWindow::Start(uint64_t now) {
  WindowPolicy::Start(now);
  began_ = open_;
  next_ns_ = now + Nanoseconds(open_ ? options_.window.duration : options_.window.delay);
}

void RangeWindow::Report() {
  if (began_) return;
  const absl::Duration ran = absl::Nanoseconds(static_cast<int64_t>(context_.command_end_ns - start_ns_));
  terminal_.Print(StrCat("--window=", WindowText(options_.window), ": the command ended before it began, after ",
                         absl::FormatDuration(absl::Trunc(ran, absl::Milliseconds(1))),
                         captures_->count() > 0 ? "" : ": nothing was recorded, no profile written"));
}

void RangeWindow::Handle(uint64_t now) {
  if (next_ns_ == 0 || now < next_ns_) return;
  if (!open_) {
    session_->OpenWindow(0);
    open_ = began_ = true;
    next_ns_ = now + Nanoseconds(options_.window.duration);
  } else {
    next_ns_ = 0;
    open_ = false;
    converted_ = true;
    conversions_.CloseAndConvert(0);
  }
}

void StepsWindow::Start(uint64_t now) {
  WindowPolicy::Start(now);
  steps_next_ns_ = now + kStepsLookNs;
}

void StepsWindow::Handle(uint64_t now) {
  if (CloseAtLimit(now)) steps_next_ns_ = 0;
  LookForSteps(now);
}

void StepsWindow::End() {
  WindowPolicy::End();
  if (!converted_) conversions_.ShowSteps(options_.window.first_step, options_.window.last_step);
}

void StepsWindow::LookForSteps(uint64_t now) {
  if (steps_next_ns_ == 0 || now < steps_next_ns_ || !open_) return;
  steps_next_ns_ = 0;
  steps_asked_ns_ = now;
  if (!conversions_.FindSteps(options_.window.first_step, options_.window.last_step,
                              [this](const ConversionResult& result) { TakeSteps(result); })) {
    steps_next_ns_ = now + 10 * kStepsLookNs;
  }
}

void StepsWindow::TakeSteps(const ConversionResult& result) {
  const uint64_t now = ReadMonotonic();
  if (!open_ || context_.closed) return;
  if (!result.status.ok() || result.newest_step <= options_.window.last_step) {
    // Each search takes longer than the one before: the pause grows with it, so that all searches together stay cheap.
    steps_next_ns_ = now + std::max(kStepsLookNs, 4 * (now - steps_asked_ns_));
    return;
  }
  if (result.steps_from_ns < 0) {
    context_.Warn(StrCat("--window=", WindowText(options_.window),
                         ": the first step that was seen has a higher number; the run is recorded"));
    return;
  }
  session_->NarrowRun(session_->TicksInRun(static_cast<uint64_t>(result.steps_from_ns)),
                      session_->TicksInRun(static_cast<uint64_t>(result.steps_to_ns)));
  open_ = false;
  converted_ = true;
  conversions_.Convert(0);
}

void TriggeredWindow::TakeTriggers() {
  for (const TriggerChange& change : session_->TakeTriggers()) {
    if (!change.opens) {
      if (captures_->is_triggered_open()) captures_->EndTriggered(change);
    } else if (triggered_ < kMaxTriggered) {
      ++triggered_;
      captures_->BeginTriggered(change.ticks);
      continue;
    } else {
      ++not_triggered_;
    }
    if (triggered_ == kMaxTriggered && !captures_->is_triggered_open() && !printed_most_triggered_) {
      printed_most_triggered_ = true;
      session_->DisarmTriggers();
      context_.Warn(StrCat("--window=", WindowText(options_.window), ": ", kMaxTriggered,
                           " windows are recorded; further ranges are only counted"));
    }
  }
}

void TriggeredWindow::Report() {
  const uint64_t further = not_triggered_ + session_->triggers_missed();
  if (further > 0) {
    terminal_.Print(StrCat("--window=", PrintableUtf8(WindowText(options_.window)), ": ", further, " more range",
                           further == 1 ? "" : "s", " came, and were not recorded"));
  }
  if (triggered_ > 0) return;
  terminal_.Print(StrCat(
      "--window=", PrintableUtf8(WindowText(options_.window)), ": ",
      options_.window.kind == Window::Kind::kNvtx ? "no range of that name came" : "cudaProfilerStart was not called",
      captures_->count() > 0 ? "" : ": nothing was recorded, no profile written"));
}

void AutoWindow::Start(uint64_t now) {
  WindowPolicy::Start(now);
  start_next_ns_ = now + context_.times.start_ns;
  steady_next_ns_ = now + context_.times.steady_at_ns;
}

uint64_t AutoWindow::NextNs() const {
  uint64_t until = UINT64_MAX;
  for (const uint64_t next : {start_next_ns_, steady_next_ns_}) {
    if (next != 0) until = std::min(until, next);
  }
  return until;
}

void AutoWindow::Handle(uint64_t now) {
  if (open_) {
    if (!split_ && !FitsOneProfile()) SplitRun();
    if (start_next_ns_ != 0 && now >= start_next_ns_) PublishStart();
  }
  MoveSteady(now);
}

void AutoWindow::MoveSteady(uint64_t now) {
  if (steady_next_ns_ == 0 || now < steady_next_ns_) return;
  if (steady_open_) {
    CloseSteady();
  } else {
    steady_open_ = true;
    session_->OpenWindow(kSteadyWindow);
    session_->RequestFlush();
    steady_next_ns_ = now + context_.times.steady_ns;
  }
}

bool AutoWindow::FitsOneProfile() const {
  const SpoolWriter& spool = session_->spool();
  const uint64_t events = MostEvents(options_.max_profile_size);
  if (spool.stopped_ticks() != UINT64_MAX || spool.split_ticks() != UINT64_MAX) return false;
  return spool.long_spans() <= events && spool.spans() <= events * kMaxCallsPerEvent;
}

// Until this time the spool has all of the run.
uint64_t AutoWindow::EndOfEverything() const {
  return std::min(session_->spool().stopped_ticks(), session_->spool().split_ticks());
}

// Publishes the start of the run while the run goes on.
void AutoWindow::PublishStart() {
  session_->AddWindow(kStartWindow, session_->run_open_ticks(),
                      session_->run_open_ticks() + session_->TicksOf(context_.times.start_ns));
  start_next_ns_ = 0;
  conversions_.Convert(kStartWindow);
}

// Changes from one profile to several. The records of the start are still in the spool.
void AutoWindow::SplitRun() {
  split_ = true;
  const uint64_t start_to = std::min(
      {session_->Now(), session_->run_open_ticks() + session_->TicksOf(context_.times.start_ns), EndOfEverything()});
  session_->SplitRun(start_to, context_.times.end_ns, start_next_ns_ != 0);
  terminal_.Print("too much for one profile: its start, a steady part and its end get one each");
  if (start_next_ns_ == 0) return;
  start_next_ns_ = 0;
  conversions_.Convert(kStartWindow);
}

void AutoWindow::CloseSteady() {
  steady_open_ = false;
  steady_next_ns_ = 0;
  conversions_.CloseAndConvert(kSteadyWindow);
}

void AutoWindow::End() {
  if (steady_open_ && split_) {
    CloseSteady();
  } else if (steady_open_) {
    // The profile of the whole run already shows the steady part.
    session_->CloseWindow(kSteadyWindow);
    session_->Published(kSteadyWindow, false);
  }
  if (open_) session_->CloseWindow(split_ ? kEndWindow : 0);
}

}  // namespace

WindowPolicy::WindowPolicy(const Parts& parts)
    : context_(*parts.context),
      options_(parts.context->options),
      terminal_(parts.context->terminal),
      session_(parts.session),
      captures_(parts.captures),
      conversions_(*parts.conversions),
      open_(parts.session->armed()) {}

void WindowPolicy::End() {
  if (open_) session_->CloseWindow(0);
}

bool WindowPolicy::CloseAtLimit(uint64_t now) {
  const SpoolWriter& spool = session_->spool();
  if (!open_ || spool.stopped_ticks() == UINT64_MAX) return false;
  // Later records would follow a gap. Captures continue: a part of the limit is reserved for them.
  session_->CloseWindow(0, spool.stopped_ticks());
  open_ = false;
  context_.Warn(StrCat("the spool took no more after ",
                       absl::FormatDuration(absl::Seconds((now - start_ns_) / 1'000'000'000)), " (",
                       session_->SpoolError(), "): the run is recorded up to there"));
  return true;
}

std::unique_ptr<WindowPolicy> WindowPolicy::Make(const Parts& parts) {
  switch (parts.context->options.window.kind) {
    case Window::Kind::kAuto:
      return std::make_unique<AutoWindow>(parts);
    case Window::Kind::kRange:
      return std::make_unique<RangeWindow>(parts);
    case Window::Kind::kSteps:
      return std::make_unique<StepsWindow>(parts);
    case Window::Kind::kNvtx:
    case Window::Kind::kCudaProfiler:
      return std::make_unique<TriggeredWindow>(parts);
    case Window::Kind::kAll:
    case Window::Kind::kNone:
    case Window::Kind::kLast:
      break;
  }
  return std::make_unique<WholeRunWindow>(parts);
}

}  // namespace tbprof
