// SPDX-License-Identifier: Apache-2.0
//
// The capture signal in the target (hooks_signal.cc).
//
// Process: target, in the constructor, with the segment in place. Rules: RULES.md.
#ifndef TBPROF_PRELOAD_CAPTURE_SIGNAL_H_
#define TBPROF_PRELOAD_CAPTURE_SIGNAL_H_

namespace tbprof {

// From here on, `signo` (SIGUSR1 or SIGUSR2; anything else: nothing happens) adds to the segment's capture_requests
// where it would have ended the program. Over the default action only. `launcher_pid`: as this process sees it, or 0.
void HandleCaptureSignal(int signo, int launcher_pid);

}  // namespace tbprof

#endif  // TBPROF_PRELOAD_CAPTURE_SIGNAL_H_
