// SPDX-License-Identifier: Apache-2.0
//
// Who may use the port: --port-users. TCP carries no credentials, but of a peer on this machine the kernel has the
// socket's user.
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
  std::vector<uid_t> more;  // beside the user of this process and root

  bool Allows(std::optional<uid_t> user) const;
  std::string Names() const;  // `user 1000, user 33 and root`
  std::string ToText() const;
};
// `same`, `any`, or numbers of users: `33`, `same,33,1001`.
absl::StatusOr<PortUsers> ParsePortUsers(std::string_view text);

struct PeerUser {
  bool on_this_machine = true;
  std::optional<uid_t> user;  // empty: not proven
};
// Of a connection that was just accepted. A user is proven by the peer's own socket alone: it is established, belongs
// to a file (of a socket that was closed the kernel reports user 0), and our end still stands after it was looked at.
PeerUser UserOfPeer(int connection);

// The parts, for tests. `peer` is the end in question, `other` the one it is connected to.
std::optional<uid_t> UserByDiagnostics(const sockaddr_storage& peer, const sockaddr_storage& other, bool* answered);
// `table`: what /proc/net/tcp or tcp6 holds.
std::optional<uid_t> UserByTable(std::string_view table, const sockaddr_storage& peer, const sockaddr_storage& other);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_BASE_PORT_USERS_H_
