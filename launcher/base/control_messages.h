// SPDX-License-Identifier: Apache-2.0
//
// What is said on a session's control socket: by `tbprof capture` and `tbprof status` on this machine, and by the
// worker that serves the port. One JSON object a message; files travel as descriptors beside their answer.
//
//   ControlAsk ask{.kind = AskKind::kCapture, .id = 1};
//   ask.capture.duration_ns = 2'000'000'000;
//   connection.Send(ToText(ask));
//   ... absl::StatusOr<ControlAnswer> answer = ParseAnswer(text): kOpen, kWriting..., kDone or kFailed.
//
// Process: launcher, its clients and the worker. Pure functions.
#ifndef TBPROF_LAUNCHER_BASE_CONTROL_MESSAGES_H_
#define TBPROF_LAUNCHER_BASE_CONTROL_MESSAGES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "wire/layout.h"

namespace tbprof {

inline constexpr size_t kMaxControlMessage = 64 << 10;
inline constexpr size_t kMaxControlFiles = 64;  // of an answer; the kernel takes 253
// Of the files of an answer together: it becomes one message of protobuf, of less than 2 GiB, and files can turn out
// longer than they were meant to be. TBPROF_TEST_MAX_REPLY sets it: tests have no such profile.
uint64_t MaxReplyBytes();
inline constexpr uint64_t kMaxWindowNs = 600'000'000'000;

// A requested window.
struct CaptureRequest {
  uint64_t duration_ns = 0;       // 0: --window-duration
  uint64_t start_unix_ns = 0;     // 0 or past: at once; several captures may have agreed on it
  uint64_t deadline_unix_ns = 0;  // when it is no longer waited for; 0: never
  uint32_t families = kFamilyAll;
  std::string run;              // the session_id of a stock client; empty: by time
  std::string host;             // what the file is called; empty: this machine
  std::string repository_root;  // <logdir>/plugins/profile as the client sees it
  std::string asked_by;         // in words
  std::vector<std::string> warnings;
  bool publish = false;  // into the run's own logdir; the answer then names it, and carries no file
  bool shared = false;   // with `publish`: other launchers write into the same run, each a file called `host`
};

enum class AskKind {
  kCapture,
  kMonitor,    // the same, but only its numbers are requested
  kTerminate,  // the capture called `capture.run` ends now, with what there is
  kCancel,     // the answer to `id` is no longer waited for
  kReceived,   // the answer to `id` has arrived where it belongs
  kStatus,
  kRefused,  // the port has refused `count` connections, the last of `capture.asked_by`
};

struct ControlAsk {
  AskKind kind = AskKind::kStatus;
  uint64_t id = 0;         // the asker's own; every answer repeats it
  CaptureRequest capture;  // kCapture, kMonitor, kTerminate
  uint64_t count = 0;      // kRefused
};

enum class AnswerState {
  kOpen,     // the window is open, or will be: opens_unix_ns, closes_unix_ns
  kWriting,  // it is closed: done of total
  kDone,
  kFailed,  // status
};

struct ControlAnswer {
  uint64_t id = 0;
  AnswerState state = AnswerState::kDone;
  absl::Status status;
  uint64_t opens_unix_ns = 0, closes_unix_ns = 0;
  uint64_t done = 0, total = 0;
  // kDone of a capture. A file's name is what a stock client appends to the address: `xplane.pb`, and
  // `r1.xplane.pb` of further ranks. The descriptors come in this order.
  std::vector<std::string> files;
  std::string directory;           // where it was published
  std::vector<std::string> lines;  // the summary
  std::string json;                // kMonitor: the summary; kStatus: what ParseSessionStatus reads
};

std::string ToText(const ControlAsk& ask);
std::string ToText(const ControlAnswer& answer);
// Of what may come from anybody of this user: every member is checked, unknown ones are left alone.
absl::StatusOr<ControlAsk> ParseAsk(std::string_view text);
absl::StatusOr<ControlAnswer> ParseAnswer(std::string_view text);

// What `tbprof status` shows.
struct SessionStatus {
  int pid = 0;  // the launcher's
  std::string run, logdir, host, window;
  std::vector<std::string> command;
  uint64_t since_unix_ns = 0;
  std::string state;       // `recording`, `armed`, `capturing`, `writing`
  std::string capture_of;  // who has requested the open one
  uint64_t capture_until_unix_ns = 0;
  uint64_t captures = 0, processes = 0, records = 0, dropped = 0;
  std::vector<int> pids;  // of recorded processes
  std::vector<std::string> addresses;
  int rank = -1, world_size = -1;  // of the launcher, where a scheduler has started several
  bool sure_rank = false;          // the command has no ranks of its own
  std::string ranks;               // --ranks
};
std::string ToText(const SessionStatus& status);
absl::StatusOr<SessionStatus> ParseSessionStatus(std::string_view text);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_BASE_CONTROL_MESSAGES_H_
