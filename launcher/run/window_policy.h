// SPDX-License-Identifier: Apache-2.0
//
// When the run's own windows open and close, a policy for each kind of --window: all of the run, the last of it, a
// range of time, steps, ranges that the program marks; or as much as fits one profile, else its start, a steady part
// and its end.
//
//   std::unique_ptr<WindowPolicy> policy = WindowPolicy::Make({&context, &session, &captures, &queue});
//   policy->Start(ReadMonotonic());                  // the command has started
//   while (...) { ppoll(..., policy->NextNs()); policy->Handle(ReadMonotonic()); }
//   policy->TakeTriggers();
//   policy->End();                                   // it has ended
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
  // When Handle wants to be called; UINT64_MAX: at no certain time.
  virtual uint64_t NextNs() const { return UINT64_MAX; }
  virtual void Handle(uint64_t /*now*/) {}
  // Windows that the program has begun and ended.
  virtual void TakeTriggers() {}
  // The command has ended.
  virtual void End();
  // Whose profile is written at the end; nothing: it was written before, or nobody wants one.
  virtual std::optional<uint32_t> LastWindow() const { return converted_ ? std::nullopt : std::optional<uint32_t>(0); }
  // At the end: what became of the window, where it is not what the user may expect.
  virtual void Report() {}
  virtual bool is_open() const { return open_; }

 protected:
  explicit WindowPolicy(const Parts& parts);
  // The spool takes no more: what came later would lie behind a gap. True: so it is closed now.
  bool CloseAtLimit(uint64_t now);

  RunContext& context_;
  const Options& options_;
  Terminal& terminal_;
  Session* const session_;
  CaptureManager* const captures_;
  ConversionQueue& conversions_;
  uint64_t start_ns_ = 0;
  bool open_ = false;       // the run's own window
  bool converted_ = false;  // or its conversion has begun
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_RUN_WINDOW_POLICY_H_
