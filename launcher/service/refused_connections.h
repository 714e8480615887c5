// SPDX-License-Identifier: Apache-2.0
//
// Connections to the port that only get one gRPC error status. gRPC never gets them: a user who may not use the port
// must not be able to fill gRPC's memory or connections.
//
//   refused.Add(std::move(connection), "this port serves ...");
//   refused.AppendWatched(&fds); poll(...); refused.Handle();
//
// Process: the worker of the port, main thread.
#ifndef TBPROF_LAUNCHER_SERVICE_REFUSED_CONNECTIONS_H_
#define TBPROF_LAUNCHER_SERVICE_REFUSED_CONNECTIONS_H_

#include <poll.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "writer/base/scoped.h"

namespace tbprof {

class RefusedConnections {
 public:
  static constexpr size_t kMost = 16;  // a further one is closed at once
  static constexpr uint64_t kLifeNs = 3'000'000'000;

  // Answers every call on the connection with PERMISSION_DENIED and this message.
  void Add(ScopedFd connection, std::string message);
  void AppendWatched(std::vector<pollfd>* fds) const;
  // Reads, answers, and closes connections that have ended or are older than kLifeNs.
  void Handle();
  bool empty() const { return connections_.empty(); }

 private:
  struct Connection {
    ScopedFd fd;
    std::string message;
    std::string input;
    size_t received = 0;
    size_t skip = 0;  // remaining bytes of a frame's payload
    bool greeted = false;
    uint64_t since_ns = 0;
  };
  static bool Receive(Connection* connection);
  static bool TakeFrames(Connection* connection);

  std::vector<Connection> connections_;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SERVICE_REFUSED_CONNECTIONS_H_
