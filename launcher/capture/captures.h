// SPDX-License-Identifier: Apache-2.0
//
// The captures of a session: who has asked for which, when its window opens and closes, who waits for the answer. One
// at a time; one look of a monitor beside it.
//
//   absl::StatusOr<Capture*> capture = captures.Ask(request, asker, times);
//   for (Capture& capture : captures.all()) if (capture.DueToOpen(now)) ...
//
// Process: launcher, main thread. Only keeps the books: windows and conversions are the run's (cmd_run.cc).
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

// Who waits for an answer. Client 0: no client, e.g. of a signal.
struct Asker {
  uint32_t client = 0;
  uint64_t id = 0;
  bool monitor = false;
};

struct CaptureTimes {
  uint64_t now_ns = 0;       // CLOCK_MONOTONIC
  uint64_t now_unix_ns = 0;  // at the same moment
};

// A log directory that is not shown, removed when its profile has arrived.
struct PrivateDirectory {
  LogDirectory logdir;
  FileDescriptor parent;
  std::string name;  // in it
};

struct Capture {
  enum class State {
    kAgreed,  // opens later
    kOpen,
    kWriting,    // closed; waits for its conversion or is in it
    kDelivered,  // the answer is sent; its records stay until it has arrived
  };
  uint32_t number = 0;  // of the window
  CaptureRequest request;
  Asker asker;
  State state = State::kAgreed;
  uint64_t opens_ns = 0, closes_ns = 0;  // CLOCK_MONOTONIC
  uint64_t gives_up_ns = UINT64_MAX;     // when the client waits no longer
  bool by_program = false;               // by a trigger: not requested by a client
  uint64_t records_before = 0;           // that the session had when it opened
  // Of what is to be delivered; null: it goes to the logdir.
  std::shared_ptr<PrivateDirectory> directory;
  uint64_t answered_ns = 0;  // of the last word to the client
  uint64_t sent_bytes = 0;   // kDelivered

  bool waited_for() const { return asker.client != 0; }
};

class Captures {
 public:
  // AlreadyExists, with who and until when: one is open or agreed.
  absl::StatusOr<Capture*> Ask(CaptureRequest request, const Asker& asker, const CaptureTimes& times);
  // One that lies behind us: its window is closed.
  Capture* Add(CaptureRequest request);

  std::list<Capture>& all() { return captures_; }
  const std::list<Capture>& all() const { return captures_; }
  std::vector<uint32_t> Numbers() const;
  Capture* Find(uint32_t number);
  Capture* Find(uint32_t client, uint64_t id);
  // Open or agreed, no monitor's. Null: none is.
  const Capture* Current() const;
  void Remove(uint32_t number);

  uint32_t count() const { return count_; }  // requested so far, without monitors
  // Of a name that is not requested yet: a Terminate may come before its Profile, and counts.
  void Terminate(const std::string& run, uint64_t now_ns);

  // When something is due: an opening or a closing. UINT64_MAX: nothing is.
  uint64_t NextNs() const;

 private:
  std::list<Capture> captures_;
  uint32_t numbers_ = 0, count_ = 0;
  std::string terminated_;  // the last name of which none was open
  uint64_t terminated_ns_ = 0;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_CAPTURE_CAPTURES_H_
