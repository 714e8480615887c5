// SPDX-License-Identifier: Apache-2.0
//
// The port (--port): TensorFlow's profiler service, for TensorBoard's capture dialog, tf.profiler.experimental.client,
// jax.collect_profile and `tbprof capture`. The launcher listens; gRPC runs in a worker, a separate process that starts
// when a client connects and ends after kIdleWorkerNs without one. So an unused port costs nothing, and input from the
// port can crash only the worker. The worker uses the control protocol like any other client.
//
//   absl::StatusOr<std::unique_ptr<Service>> service = Service::Listen({"127.0.0.1", "::1"}, 6009);
//   ... ppoll with AppendWatched ...
//   service->Handle(control);
//
// Process: launcher, main thread; ServiceWorker is the other process.
#ifndef TBPROF_LAUNCHER_SERVICE_SERVICE_H_
#define TBPROF_LAUNCHER_SERVICE_SERVICE_H_

#include <poll.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "launcher/base/control_socket.h"
#include "launcher/base/port_users.h"
#include "writer/base/scoped.h"

namespace tbprof {

inline constexpr char kServiceWorkerArgument[] = "--service-worker";
// The worker's exit status if input from the port took too much memory.
inline constexpr int kServiceTookTooMuch = 3;
inline constexpr int kServiceControlFd = 3;
inline constexpr int kServiceListenerFd = 4;  // and the following numbers

class Service {
 public:
  // Listens on each of `hosts` (numeric) at the same port; port 0: one that is free on all of them. Addresses that this
  // machine does not have are skipped, as long as one remains.
  static absl::StatusOr<std::unique_ptr<Service>> Listen(const std::vector<std::string>& hosts, int port,
                                                         const PortUsers& users, std::string tls_identity = "");
  // Ends the worker. If the control connection is closed before, the worker ends by itself; else it is killed after
  // kEndPatienceMs.
  ~Service();

  int port() const { return port_; }
  const std::vector<std::string>& addresses() const { return addresses_; }  // `127.0.0.1:6009`, `[::1]:6009`

  void AppendWatched(std::vector<pollfd>* fds) const;
  // Starts the worker when a client connects; reports its end by TakeNote.
  void Handle(ControlServer* control);
  pid_t worker() const { return worker_; }
  // To be called after a SIGCHLD: continues a stopped worker, which would leave the port open but unresponsive.
  void ContinueWorker();
  // An error since the last call, for the terminal; empty: none.
  std::string TakeNote() { return std::exchange(note_, ""); }

 private:
  Service(PortUsers users, std::string tls_identity)
      : users_(std::move(users)), tls_identity_(std::move(tls_identity)) {}
  absl::Status Start(ControlServer* control);

  const PortUsers users_;
  const std::string tls_identity_;  // empty: no TLS
  std::vector<ScopedFd> listeners_;
  std::vector<std::string> addresses_;
  int port_ = 0;
  pid_t worker_ = 0;
  ScopedFd worker_end_;         // pidfd: readable when the worker has ended
  uint64_t not_before_ns_ = 0;  // delays the restart of a worker that fails at once
  std::string note_;
  bool printed_stopped_ = false;  // reported for this worker
};

bool IsServiceWorker(int argc, char** argv);
int ServiceWorker(const char* listener_count, const char* users, const char* tls);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SERVICE_SERVICE_H_
