// SPDX-License-Identifier: Apache-2.0
//
// Decides when the run's own windows open and close; one policy for each kind of --window: all of the run, its last
// part, a time range, steps, ranges that the program marks; or all of the run if it fits one profile, else its start, a
// steady part and its end.
//
//   std::unique_ptr<WindowPolicy> policy = WindowPolicy::Make({&context, &session, &captures, &queue});
//   policy->Start(ReadMonotonic());                  // the command has started
//   while (...) { ppoll(..., policy->NextNs()); policy->Handle(ReadMonotonic()); }
//   policy->TakeTriggers();
//   policy->End();                                   // the command has ended
//   if (const auto window = policy->LastWindow()) queue.Enqueue(*window);
//
// Process: launcher, main thread.
#ifndef TBPROF_LAUNCHER_RUN_WINDOW_POLICY_H_
#define TBPROF_LAUNCHER_RUN_WINDOW_POLICY_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "launcher/capture/capture_manager.h"
#include "launcher/run/conversion_queue.h"
#include "launcher/run/run_context.h"
#include "launcher/session/session.h"

namespace tbprof {

class WindowPolicy {
 public:
  struct Parts {
    RunContext* context;
    Session* session;
    CaptureManager* captures;
    ConversionQueue* conversions;
  };
  static std::unique_ptr<WindowPolicy> Make(const Parts& parts);
  virtual ~WindowPolicy() = default;

  // The command started at `now`.
  virtual void Start(uint64_t now) { start_ns_ = now; }
  // When Handle has to be called (CLOCK_MONOTONIC); UINT64_MAX: no fixed time.
  virtual uint64_t NextNs() const { return UINT64_MAX; }
  virtual void Handle(uint64_t /*now*/) {}
  // Handles windows that the program has begun and ended.
  virtual void TakeTriggers() {}
  // The command has ended.
  virtual void End();
  // The window whose profile is written at the end; nullopt: it was written before, or none is wanted.
  virtual std::optional<uint32_t> LastWindow() const { return converted_ ? std::nullopt : std::optional<uint32_t>(0); }
  // At the end: prints how the window differs from what the user may expect.
  virtual void Report() {}
  virtual bool is_open() const { return open_; }

 protected:
  explicit WindowPolicy(const Parts& parts);
  // Closes the run's window if the spool has stopped keeping the run, since later records would follow a gap. True:
  // closed now.
  bool CloseAtLimit(uint64_t now);

  RunContext& context_;
  const Options& options_;
  Terminal& terminal_;
  Session* const session_;
  CaptureManager* const captures_;
  ConversionQueue& conversions_;
  uint64_t start_ns_ = 0;
  bool open_ = false;       // the run's own window is open
  bool converted_ = false;  // the run's own window is converted, or its conversion has begun
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_RUN_WINDOW_POLICY_H_
