// SPDX-License-Identifier: Apache-2.0
//
// A client of profiler services, equivalent to the stock client of TensorFlow and xprof: one Profile call to every
// address at the same time, aligned by a start in each request. Answers are passed on in pieces while they are read.
//
//   std::vector<RemoteWorker> workers = {{.address = "host:6009"}};
//   CaptureFromWorkers(
//       request, &workers,
//       [](const RemoteWorker& worker, const std::string& name, const PieceReader& pieces) { ... },
//       [](const RemoteWorker& worker) { ... });
//
// Process: `tbprof capture`. Starts a thread for each address; `take` and `changed` are called by one thread at a time.
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

// Checks HOST:PORT or [IPv6]:PORT.
absl::Status CheckAddress(std::string_view address);
// The file stem of an address: `127.0.0.1_6009`.
std::string StemOfAddress(std::string_view address);

struct RemoteCapture {
  absl::Duration duration;
  absl::Time start;  // the same for all workers
  int attempts = 1;
  std::string session_id;
  std::string repository_root;  // the client's path; empty: the caller writes the files
  std::string step_marker;      // --step-marker; empty: that of the worker
};

struct RemoteWorker {
  std::string address;
  std::string name;  // in messages
  std::string stem;  // name of its file without suffix
  enum class State : int { kCalling, kRetrying, kDone, kFailed };
  State state = State::kCalling;
  absl::Status status;
  int attempts = 0;
  uint64_t bytes = 0;
  absl::Duration took;
  absl::Duration late;        // how long after the agreed start the last call was made
  bool empty = false;         // it reports that nothing was recorded
  bool has_summary = false;   // it sent a summary
  bool wrote_itself = false;  // success without data: it wrote into a directory of its own machine
};

// Reads one entry of an answer in pieces. False: end of the entry.
using PieceReader = std::function<bool(std::string_view* piece)>;
// Writes an entry called `name` (`xplane.pb`) of `worker`.
using TakeEntry = std::function<absl::Status(const RemoteWorker& worker, const std::string& name, const PieceReader&)>;
// Called after each change of a worker's state, under the same lock as TakeEntry.
using WorkerChanged = std::function<void(const RemoteWorker& worker)>;

// Returns when all workers have answered or failed. Retries like the stock client, but waits in between: while another
// capture is open, a request within milliseconds gets the same answer. `tls`: used for all addresses except loopback.
void CaptureFromWorkers(const RemoteCapture& request, std::vector<RemoteWorker>* workers, const TakeEntry& take,
                        const WorkerChanged& changed, TlsContext* tls = nullptr);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_CAPTURE_PROFILER_CLIENT_H_
