// SPDX-License-Identifier: Apache-2.0
//
// Messages on a session's control socket: from `tbprof capture` and `tbprof status` on this machine, and from the
// worker that serves the port. One JSON object per message; files are sent as descriptors with their answer.
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
inline constexpr size_t kMaxControlFiles = 64;  // per answer; the kernel's limit is 253
// Limit for all files of an answer together: the answer becomes one protobuf message of less than 2 GiB, and files may
// become longer than planned. TBPROF_TEST_MAX_REPLY sets it, because tests have no such large profile.
uint64_t MaxReplyBytes();
inline constexpr uint64_t kMaxWindowNs = 600'000'000'000;

// A requested window.
struct CaptureRequest {
  uint64_t duration_ns = 0;       // 0: --window-duration
  uint64_t start_unix_ns = 0;     // 0 or past: at once; several captures may have agreed on it
  uint64_t deadline_unix_ns = 0;  // the client waits until then; 0: forever
  uint32_t families = kFamilyAll;
  std::string run;              // the session_id of a stock client; empty: a name from the time
  std::string host;             // name of the file; empty: this machine
  std::string repository_root;  // <logdir>/plugins/profile as the client sees it
  std::string asked_by;         // description of the client
  std::string step_marker;      // --step-marker of the client; empty: that of the session
  std::vector<std::string> warnings;
  bool publish = false;  // into the run's own logdir; the answer then names it and has no files
  bool summary = false;  // the answer shall also have the window's summary.json; only tbprof's own clients ask for it
  bool shared = false;   // with `publish`: other launchers write into the same run, each a file with the name `host`
};

enum class AskKind {
  kCapture,
  kMonitor,    // like kCapture, but only the numbers are requested
  kTerminate,  // the capture with the name `capture.run` ends now, with its data so far
  kCancel,     // the client no longer waits for the answer to `id`
  kReceived,   // the answer to `id` has reached its recipient
  kStatus,
  kRefused,  // the port has refused `count` connections, the last one from `capture.asked_by`
};

struct ControlAsk {
  AskKind kind = AskKind::kStatus;
  uint64_t id = 0;         // chosen by the client; every answer repeats it
  CaptureRequest capture;  // kCapture, kMonitor, kTerminate
  uint64_t count = 0;      // kRefused
};

enum class AnswerState {
  kOpen,     // the window is open, or will be: opens_unix_ns, closes_unix_ns
  kWriting,  // the window is closed: `done` of `total`
  kDone,
  kFailed,  // see `status`
};

struct ControlAnswer {
  uint64_t id = 0;
  AnswerState state = AnswerState::kDone;
  absl::Status status;
  uint64_t opens_unix_ns = 0, closes_unix_ns = 0;
  uint64_t done = 0, total = 0;
  // kDone of a capture. A file's name is the suffix that a stock client appends to the address: `xplane.pb`, and
  // `r1.xplane.pb` for further ranks. The descriptors have the same order.
  std::vector<std::string> files;
  std::string directory;           // where it was published
  std::vector<std::string> lines;  // the summary
  std::string json;                // kMonitor: the summary; kStatus: the input of ParseSessionStatus
};

std::string ToText(const ControlAsk& ask);
std::string ToText(const ControlAnswer& answer);
// For untrusted input from any process of this user: every member is checked, unknown members are ignored.
absl::StatusOr<ControlAsk> ParseAsk(std::string_view text);
absl::StatusOr<ControlAnswer> ParseAnswer(std::string_view text);

// The data that `tbprof status` shows.
struct SessionStatus {
  int pid = 0;  // pid of the launcher
  std::string run, logdir, host, window;
  std::vector<std::string> command;
  uint64_t since_unix_ns = 0;
  std::string state;       // `recording`, `armed`, `capturing`, `writing`
  std::string capture_of;  // client of the open capture
  uint64_t capture_until_unix_ns = 0;
  uint64_t captures = 0, processes = 0, records = 0, dropped = 0;
  std::vector<int> pids;  // of the recorded processes
  std::vector<std::string> addresses;
  int rank = -1, world_size = -1;  // of the launcher, if a scheduler has started several
  bool sure_rank = false;          // true: the command starts no ranks itself
  std::string ranks;               // --ranks
};
std::string ToText(const SessionStatus& status);
absl::StatusOr<SessionStatus> ParseSessionStatus(std::string_view text);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_BASE_CONTROL_MESSAGES_H_
