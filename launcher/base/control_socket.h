// SPDX-License-Identifier: Apache-2.0
//
// A session's control socket, beside the socket for targets: both ends of it, and the search for sessions on this
// machine.
//
//   auto server = ControlServer::Listen(directory + "/control");      // the launcher
//   for (ControlMessage& message : (*server)->Take()) (*server)->Send(message.client, ToText(answer), descriptors);
//
//   auto connection = ControlConnection::Connect(path);               // `tbprof capture`, `tbprof status`, the worker
//   connection->Send(ToText(ask));
//   auto received = connection->Receive(absl::Seconds(5));
//
// Process: launcher (ControlServer, main thread); its clients (ControlConnection, one reader and one writer thread).
// Never blocks, except Receive. Accepts only the same user and root.
#ifndef TBPROF_LAUNCHER_BASE_CONTROL_SOCKET_H_
#define TBPROF_LAUNCHER_BASE_CONTROL_SOCKET_H_

#include <poll.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "launcher/base/control_messages.h"
#include "launcher/base/listener_pause.h"
#include "writer/base/scoped.h"

namespace tbprof {

inline constexpr char kControlName[] = "control";  // in the session's private directory

struct ControlMessage {
  uint32_t client = 0;
  pid_t pid = 0;      // of the client, when it connected
  bool gone = false;  // the client has closed its end: no message reaches it any more
  std::string text;
};

class ControlServer {
 public:
  static absl::StatusOr<std::unique_ptr<ControlServer>> Listen(const std::string& path);
  ~ControlServer();  // removes the socket

  // Adds a client that is connected already: the worker that serves the port.
  uint32_t AddClient(ScopedFd connection);
  void AppendWatched(std::vector<pollfd>* fds) const;
  // Messages since the last call. The end of a client is reported once, after all its messages.
  std::vector<ControlMessage> Take();
  // False: the client is gone, or has not read for too long.
  bool Send(uint32_t client, std::string_view text, const std::vector<int>& descriptors = {});

 private:
  ControlServer() = default;
  struct Client {
    uint32_t number;
    pid_t pid;
    ScopedFd connection;
  };
  std::string path_;
  ScopedFd listen_;
  ListenerPause pause_;
  std::vector<Client> clients_;
  uint32_t numbers_ = 0;
};

class ControlConnection {
 public:
  static absl::StatusOr<ControlConnection> Connect(const std::string& path);
  explicit ControlConnection(ScopedFd connected) : socket_(std::move(connected)) {}

  absl::Status Send(std::string_view text) const;
  struct Received {
    std::string text;
    std::vector<ScopedFd> descriptors;
  };
  // DeadlineExceeded: no message came within the limit. Unavailable: the other end is gone.
  absl::StatusOr<Received> Receive(absl::Duration limit) const;
  // Sends one request and waits for one answer.
  absl::StatusOr<ControlAnswer> Ask(const ControlAsk& ask, absl::Duration limit) const;
  int fd() const { return socket_.get(); }

 private:
  ScopedFd socket_;
};

// Paths of the control sockets of this machine's live sessions, from the kernel's list, which does not depend on
// TMPDIR. Includes those of other users, which Connect refuses.
std::vector<std::string> FindControlSockets();

struct FoundSession {
  std::string socket;
  SessionStatus status;
};
std::vector<FoundSession> FindSessions();

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_BASE_CONTROL_SOCKET_H_
