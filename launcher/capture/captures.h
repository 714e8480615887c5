// SPDX-License-Identifier: Apache-2.0
//
// The captures of a session: who requested each, when its window opens and closes, who waits for the answer. At most
// one capture at a time, and beside it one Monitor request.
//
//   absl::StatusOr<Capture*> capture = captures.Ask(request, asker, times);
//   for (Capture& capture : captures.all()) if (now >= capture.closes_ns) ...
//
// Process: launcher, main thread. Bookkeeping only: CaptureManager and the run open windows and start conversions.
#ifndef TBPROF_LAUNCHER_CAPTURE_CAPTURES_H_
#define TBPROF_LAUNCHER_CAPTURE_CAPTURES_H_

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "launcher/base/control_messages.h"
#include "writer/logdir/logdir.h"

namespace tbprof {

// The client that waits for an answer. Client 0: none, for example for a signal.
struct Asker {
  uint32_t client = 0;
  uint64_t id = 0;
  bool monitor = false;
};

struct CaptureTimes {
  uint64_t now_ns = 0;       // CLOCK_MONOTONIC
  uint64_t now_unix_ns = 0;  // at the same moment
};

// A hidden log directory, removed when its profile has arrived at the client.
struct PrivateDirectory {
  LogDirectory logdir;
  ScopedFd parent;
  std::string name;  // in `parent`
};

struct Capture {
  enum class State {
    kAgreed,  // accepted, opens later
    kOpen,
    kWriting,    // closed; its conversion waits or runs
    kDelivered,  // the answer is sent; the records stay until the client has received it
  };
  uint32_t number = 0;  // number of the window
  CaptureRequest request;
  Asker asker;
  State state = State::kAgreed;
  uint64_t opens_ns = 0, closes_ns = 0;  // CLOCK_MONOTONIC
  uint64_t gives_up_ns = UINT64_MAX;     // when the client stops waiting
  bool by_program = false;               // begun by a trigger, not requested by a client
  bool ended_by_command = false;         // the command's end closed the window
  uint64_t records_before = 0;           // the session's record count at its opening
  // For a profile that is sent to the client; null: it is written to the logdir.
  std::shared_ptr<PrivateDirectory> directory;
  uint64_t answered_ns = 0;  // when the last message was sent to the client
  uint64_t sent_bytes = 0;   // kDelivered

  bool waited_for() const { return asker.client != 0; }
};

class Captures {
 public:
  // Adds a requested capture. AlreadyExists if another one is open or agreed; the message has its requester and end.
  absl::StatusOr<Capture*> Ask(CaptureRequest request, const Asker& asker, const CaptureTimes& times);
  // Adds a capture whose window is already closed, or is managed by the caller.
  Capture* Add(CaptureRequest request);

  std::list<Capture>& all() { return captures_; }
  const std::list<Capture>& all() const { return captures_; }
  std::vector<uint32_t> Numbers() const;
  Capture* Find(uint32_t number);
  Capture* Find(uint32_t client, uint64_t id);
  // The capture that is open or agreed, monitors excluded; null: none.
  const Capture* Current() const;
  void Remove(uint32_t number);

  uint32_t count() const { return count_; }  // granted so far, without monitors
  // Ends the captures of run `run` now. A name that is not requested yet is remembered: a Terminate may arrive before
  // its Profile.
  void Terminate(const std::string& run, uint64_t now_ns);

  // The next opening or closing (CLOCK_MONOTONIC); UINT64_MAX: none.
  uint64_t NextNs() const;

 private:
  std::list<Capture> captures_;
  uint32_t numbers_ = 0, count_ = 0;
  std::string terminated_;  // the last terminated name without an open capture
  uint64_t terminated_ns_ = 0;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_CAPTURE_CAPTURES_H_
