// SPDX-License-Identifier: Apache-2.0
#include "launcher/base/start_thread.h"

#include <csignal>
#include <system_error>
#include <utility>

#include "launcher/base/text.h"

namespace tbprof {

absl::Status StartThread(std::thread* thread, std::function<void()> body) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  absl::Status status;
  try {
    *thread = std::thread(std::move(body));
  } catch (const std::system_error& error) {
    status = absl::ResourceExhaustedError(
        StrCat("cannot start a thread: ", error.code().message(), "; ", kLimitOfProcesses));
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return status;
}

}  // namespace tbprof
