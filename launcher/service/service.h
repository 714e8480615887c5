// SPDX-License-Identifier: Apache-2.0
//
// The port (--port): TensorFlow's profiler service, for TensorBoard's capture dialog, tf.profiler.experimental.client,
// jax.collect_profile and `tbprof capture`. The launcher listens; gRPC runs in a worker, a process of its own that is
// started when a client connects and ends after a while without one: until then the port costs nothing, and whatever
// comes through it can only end the worker. The worker uses the control socket as any client does.
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
#include "launcher/base/scoped.h"

namespace tbprof {

inline constexpr char kServiceWorkerArgument[] = "--service-worker";
// What it exits with when what arrives at the port has cost it too much memory.
inline constexpr int kServiceTookTooMuch = 3;
inline constexpr int kServiceControlFd = 3;
inline constexpr int kServiceListenerFd = 4;  // and the following

class Service {
 public:
  // On each of `hosts` (numeric), at the same port; 0: one that is free on all of them. A host that this machine does
  // not have is left out, as long as there is another.
  static absl::StatusOr<std::unique_ptr<Service>> Listen(const std::vector<std::string>& hosts, int port,
                                                         const PortUsers& users, std::string tls_identity = "");
  // Ends the worker: at once by itself, if its connection to us is closed by then.
  ~Service();

  int port() const { return port_; }
  const std::vector<std::string>& addresses() const { return addresses_; }  // `127.0.0.1:6009`, `[::1]:6009`

  void AppendWatched(std::vector<pollfd>* fds) const;
  // Starts the worker when a client connects, reports its end.
  void Handle(ControlServer* control);
  pid_t worker() const { return worker_; }
  // After a SIGCHLD: a stopped worker is continued. Without it the port would be dead and look alive.
  void ContinueWorker();
  // What went wrong since the last call, for the terminal.
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
  ScopedFd worker_end_;         // readable when the worker has ended
  uint64_t not_before_ns_ = 0;  // a worker that fails at once is not started again and again
  std::string note_;
  bool said_stopped_ = false;  // of this worker
};

bool IsServiceWorker(int argc, char** argv);
int ServiceWorker(const char* listener_count, const char* users, const char* tls);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SERVICE_SERVICE_H_
