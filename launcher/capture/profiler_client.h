// SPDX-License-Identifier: Apache-2.0
//
// A client of profiler services, as the stock one of TensorFlow and xprof is one: one Profile call to every address at
// the same time, aligned by a start in each request. What comes back goes to the disk as it is read.
//
//   std::vector<RemoteWorker> workers = {{.address = "host:6009"}};
//   CaptureFromWorkers(request, &workers, [](RemoteWorker& worker, SourceReader& data) { ... });
//
// Process: `tbprof capture`. Starts a thread for each address; `take` is called by one of them at a time.
#ifndef TBPROF_LAUNCHER_CAPTURE_PROFILER_CLIENT_H_
#define TBPROF_LAUNCHER_CAPTURE_PROFILER_CLIENT_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace tbprof {

class TlsContext;

// HOST:PORT, [IPv6]:PORT.
absl::Status CheckAddress(std::string_view address);
// What the file of an address is called: `127.0.0.1_6009`.
std::string StemOfAddress(std::string_view address);

struct RemoteCapture {
  absl::Duration duration;
  absl::Time start;  // of all of them
  int attempts = 1;
  std::string session_id;
  std::string repository_root;  // the client's
};

struct RemoteWorker {
  std::string address;
  std::string name;  // in messages
  std::string stem;  // what its file is called
  enum class State : int { kCalling, kRetrying, kDone, kFailed };
  State state = State::kCalling;
  absl::Status status;
  int attempts = 0;
  uint64_t bytes = 0;
  absl::Duration took;
  absl::Duration late;        // the last call, behind the start that was agreed on
  bool empty = false;         // it reports that nothing was recorded
  bool wrote_itself = false;  // success without data: it has written into what it takes for the log directory
};

// One entry of an answer, in pieces. False: it is over.
using PieceReader = std::function<bool(std::string_view* piece)>;
// Writes an entry called `name` (`xplane.pb`) of `worker`.
using TakeEntry = std::function<absl::Status(const RemoteWorker& worker, const std::string& name, const PieceReader&)>;
// After each change of a worker's state. Like TakeEntry under one lock.
using WorkerChanged = std::function<void(const RemoteWorker& worker)>;

// Returns when all have answered or given up. Retries as the stock client does, but waits a little in between: where
// another capture is open, a request within milliseconds gets the same answer. `tls`: for all but loopback.
void CaptureFromWorkers(const RemoteCapture& request, std::vector<RemoteWorker>* workers, const TakeEntry& take,
                        const WorkerChanged& changed, TlsContext* tls = nullptr);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_CAPTURE_PROFILER_CLIENT_H_
