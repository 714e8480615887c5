// SPDX-License-Identifier: Apache-2.0
#include "launcher/capture/interrupt_line.h"

#include <pthread.h>

#include <utility>

#include "launcher/base/start_thread.h"

namespace tbprof {
namespace {

constexpr int kEnding[] = {SIGINT, SIGTERM, SIGHUP};
constexpr int kWake = SIGUSR1;  // sent to the waiting thread alone

}  // namespace

InterruptLine::InterruptLine(std::function<void()> print) : print_(std::move(print)) {
  sigemptyset(&signals_);
  for (const int signo : kEnding) {
    struct sigaction action;
    if (sigaction(signo, nullptr, &action) == 0 && action.sa_handler == SIG_DFL) sigaddset(&signals_, signo);
  }
  sigset_t blocked = signals_;
  sigaddset(&blocked, kWake);
  pthread_sigmask(SIG_BLOCK, &blocked, &before_);
  // Without the thread the process dies without a line.
  if (!StartThread(&thread_, [this] { Wait(); }).ok()) pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

InterruptLine::~InterruptLine() {
  if (!thread_.joinable()) return;
  ended_ = true;
  pthread_kill(thread_.native_handle(), kWake);
  thread_.join();
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void InterruptLine::Wait() {
  sigset_t awaited = signals_;
  sigaddset(&awaited, kWake);
  for (int signo = 0; !ended_;) {
    if (sigwait(&awaited, &signo) != 0 || signo == kWake) continue;
    // A second signal ends the process at once, also while the line cannot be written.
    for (const int ending : kEnding) {
      if (sigismember(&signals_, ending) == 1) signal(ending, SIG_DFL);
    }
    pthread_sigmask(SIG_UNBLOCK, &signals_, nullptr);
    print_();
    raise(signo);
  }
}

}  // namespace tbprof
