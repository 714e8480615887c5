// SPDX-License-Identifier: Apache-2.0
//
// Decides who may use the port: --port-users. TCP carries no credentials, but for a peer on this machine the kernel
// reports the user of the peer's socket.
//
//   const PeerUser peer = UserOfPeer(connection);
//   if (peer.on_this_machine && !users.Allows(peer.user)) refuse(peer)
//
// Process: launcher and the worker of the port.
#ifndef TBPROF_LAUNCHER_BASE_PORT_USERS_H_
#define TBPROF_LAUNCHER_BASE_PORT_USERS_H_

#include <sys/socket.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace tbprof {

struct PortUsers {
  bool any = false;
  std::vector<uid_t> more;  // in addition to this process's user and root

  bool Allows(std::optional<uid_t> user) const;
  std::string Names() const;  // `user 1000, user 33 and root`
  std::string ToText() const;
};
// `same`, `any`, or numbers of users: `33`, `same,33,1001`.
absl::StatusOr<PortUsers> ParsePortUsers(std::string_view text);

struct PeerUser {
  bool on_this_machine = true;
  std::optional<uid_t> user;  // std::nullopt: not proven
};
// For a connection that was just accepted. Only the peer's own socket proves its user: it must be established and
// belong to a file (for a closed socket the kernel reports user 0), and this end must still be established after the
// query.
PeerUser UserOfPeer(int connection);

// The parts of UserOfPeer, for tests. `peer`: the end in question; `other`: the end that it is connected to.
std::optional<uid_t> UserByDiagnostics(const sockaddr_storage& peer, const sockaddr_storage& other, bool* answered);
// `table`: the content of /proc/net/tcp or tcp6.
std::optional<uid_t> UserByTable(std::string_view table, const sockaddr_storage& peer, const sockaddr_storage& other);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_BASE_PORT_USERS_H_
