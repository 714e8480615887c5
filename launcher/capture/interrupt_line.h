// SPDX-License-Identifier: Apache-2.0
//
// While it lives, a signal that ends the process (SIGINT, SIGTERM, SIGHUP) first prints a line; then the process dies
// by that signal.
//
//   const InterruptLine line([&] { terminal.Print("interrupted: ..."); });
//
// Process: launcher's clients. Construct it before other threads start: they inherit the blocked signals.
#ifndef TBPROF_LAUNCHER_CAPTURE_INTERRUPT_LINE_H_
#define TBPROF_LAUNCHER_CAPTURE_INTERRUPT_LINE_H_

#include <signal.h>

#include <atomic>
#include <functional>
#include <thread>

namespace tbprof {

class InterruptLine {
 public:
  // `print` is called in a thread of its own.
  explicit InterruptLine(std::function<void()> print);
  ~InterruptLine();
  InterruptLine(const InterruptLine&) = delete;
  InterruptLine& operator=(const InterruptLine&) = delete;

 private:
  void Wait();

  std::function<void()> print_;
  sigset_t signals_;  // those that were not ignored, as `nohup` and a shell's background jobs do
  sigset_t before_;
  std::atomic<bool> ended_ = false;
  std::thread thread_;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_CAPTURE_INTERRUPT_LINE_H_
