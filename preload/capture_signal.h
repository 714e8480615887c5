// SPDX-License-Identifier: Apache-2.0
//
// The capture signal in the target (hooks_signal.cc).
//
// Process: target, in the constructor, with the segment in place. Rules: RULES.md.
#ifndef TBPROF_PRELOAD_CAPTURE_SIGNAL_H_
#define TBPROF_PRELOAD_CAPTURE_SIGNAL_H_

namespace tbprof {

// Installs a handler for `signo` (SIGUSR1 or SIGUSR2; for any other value nothing happens) if the signal has its
// default action. Instead of ending the program, the signal then increments the segment's capture_requests.
// `launcher_pid`: the launcher's pid as this process sees it, or 0.
void HandleCaptureSignal(int signo, int launcher_pid);

}  // namespace tbprof

#endif  // TBPROF_PRELOAD_CAPTURE_SIGNAL_H_
