// SPDX-License-Identifier: Apache-2.0
//
// If accept fails because descriptors or memory have run out, the listening socket stays readable, and poll would
// return at once in a loop. The caller therefore ignores the socket for a moment; new connections wait in its queue.
//
//   if (pause.over()) fds.push_back({listener, POLLIN, 0});
//   ... if (accept4(...) < 0) pause.Failed(errno);
//
// Process: launcher and the worker of the port. One thread; does not allocate.
#ifndef TBPROF_LAUNCHER_BASE_LISTENER_PAUSE_H_
#define TBPROF_LAUNCHER_BASE_LISTENER_PAUSE_H_

#include <cerrno>
#include <cstdint>

#include "wire/clock.h"

namespace tbprof {

class ListenerPause {
 public:
  static constexpr uint64_t kLengthNs = 200'000'000;
  void Failed(int error) {
    const bool lasting = error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
    if (lasting) until_ns_ = ReadMonotonic() + kLengthNs;
  }
  bool over() const { return until_ns_ == 0 || ReadMonotonic() >= until_ns_; }

 private:
  uint64_t until_ns_ = 0;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_BASE_LISTENER_PAUSE_H_
