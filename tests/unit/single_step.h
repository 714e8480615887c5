// SPDX-License-Identifier: Apache-2.0
//
// A child that the test single-steps through a piece of code.
//
//   const pid_t child = StartStopped([&] { buffers->Request(); });   // stopped before it
//   while (StepOnce(child)) {...}                                    // until it is stopped behind it
//   EndStopped(child);
#ifndef TBPROF_TESTS_UNIT_SINGLE_STEP_H_
#define TBPROF_TESTS_UNIT_SINGLE_STEP_H_

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace tbprof {

// Whether the child stopped by this signal.
inline bool AwaitStop(pid_t child, int signal) {
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFSTOPPED(status) && WSTOPSIG(status) == signal;
}

// Starts a child that stops by SIGSTOP before `part` and after it. -1: it could not be started.
inline pid_t StartStopped(const std::function<void()>& part) {
  const pid_t child = fork();
  if (child == 0) {
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    raise(SIGSTOP);
    part();
    raise(SIGSTOP);
    _exit(0);
  }
  return AwaitStop(child, SIGSTOP) ? child : -1;
}

// False: the child did not stop by SIGTRAP. `other`: the signal that stopped it instead, 0 if it ended.
inline bool StepOnce(pid_t child, int* other = nullptr) {
  int status = 0;
  if (ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr) != 0 || waitpid(child, &status, 0) != child) return false;
  const int signal = WIFSTOPPED(status) ? WSTOPSIG(status) : 0;
  if (signal != SIGTRAP && other != nullptr) *other = signal;
  return signal == SIGTRAP;
}

inline void EndStopped(pid_t child) {
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

}  // namespace tbprof

#endif  // TBPROF_TESTS_UNIT_SINGLE_STEP_H_
