// SPDX-License-Identifier: Apache-2.0
//
// The user of a connection: proven by the peer's own established socket, otherwise unknown.
#include "launcher/base/port_users.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <unistd.h>

#include "launcher/base/proc_files.h"
#include "writer/base/scoped.h"
#include "writer/base/text.h"

namespace tbprof {
namespace {

struct Connected {
  ScopedFd client, server;
  sockaddr_storage peer{}, own{};
};

// From `client_family` to a listener of `family`; IPv6 to an IPv4 listener goes by ::ffff:127.0.0.1.
Connected Connect(int family, int client_family) {
  Connected ends;
  sockaddr_storage address{};
  auto& v4 = reinterpret_cast<sockaddr_in&>(address);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(address);
  address.ss_family = static_cast<sa_family_t>(family);
  if (family == AF_INET) {
    v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  } else {
    v6.sin6_addr = in6addr_loopback;
  }
  const ScopedFd listener(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  socklen_t size = sizeof(address);
  if (bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(listener.get(), 4) != 0 ||
      getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return ends;
  }
  if (family == AF_INET && client_family == AF_INET6) {
    const in_port_t port = v4.sin_port;
    address = {};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = port;
    inet_pton(AF_INET6, "::ffff:127.0.0.1", &v6.sin6_addr);
  }
  ends.client.Reset(socket(client_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(ends.client.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) return ends;
  ends.server.Reset(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  size = sizeof(ends.peer);
  getpeername(ends.server.get(), reinterpret_cast<sockaddr*>(&ends.peer), &size);
  size = sizeof(ends.own);
  getsockname(ends.server.get(), reinterpret_cast<sockaddr*>(&ends.own), &size);
  return ends;
}

std::optional<uid_t> ByTables(const Connected& ends) {
  for (const char* path : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    if (const auto user = UserByTable(ReadText(path), ends.peer, ends.own)) return user;
  }
  return std::nullopt;
}

TEST(UserOfPeer, OwnConnection_IsProvenOverEachProtocol) {
  for (const auto& [family, client] : {std::pair{AF_INET, AF_INET}, {AF_INET, AF_INET6}, {AF_INET6, AF_INET6}}) {
    const Connected ends = Connect(family, client);
    if (family == AF_INET6 && !ends.server.valid()) continue;  // a machine without IPv6
    ASSERT_TRUE(ends.server.valid());
    const PeerUser peer = UserOfPeer(ends.server.get());
    EXPECT_TRUE(peer.on_this_machine);
    EXPECT_EQ(peer.user, geteuid()) << family << " from " << client;
    EXPECT_EQ(ByTables(ends), geteuid()) << "where the kernel has no diagnostics";
    bool answered = false;
    const auto diagnosed = UserByDiagnostics(ends.peer, ends.own, &answered);
    if (answered) {
      EXPECT_EQ(diagnosed, geteuid());
    }
  }
}

TEST(UserOfPeer, PeerThatHasClosed_ProvesNothing) {
  for (const bool reset : {false, true}) {
    Connected ends = Connect(AF_INET, AF_INET);
    ASSERT_TRUE(ends.server.valid());
    const linger at_once{1, 0};
    if (reset) setsockopt(ends.client.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    ends.client.Reset();
    pollfd entry{ends.server.get(), POLLIN, 0};
    poll(&entry, 1, -1);
    EXPECT_EQ(UserOfPeer(ends.server.get()).user, std::nullopt);
    EXPECT_EQ(ByTables(ends), std::nullopt);
  }
}

TEST(UserOfPeer, NoSocket_ProvesNothing) {
  EXPECT_TRUE(UserOfPeer(-1).on_this_machine);
  EXPECT_EQ(UserOfPeer(-1).user, std::nullopt);
  const ScopedFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(UserOfPeer(listener.get()).user, std::nullopt);
}

TEST(UserOfPeer, PeerWhoseSideIsHalfClosed_ProvesNothing) {
  const Connected ends = Connect(AF_INET, AF_INET);
  ASSERT_TRUE(ends.server.valid());
  shutdown(ends.client.get(), SHUT_WR);
  pollfd entry{ends.server.get(), POLLIN, 0};
  poll(&entry, 1, -1);
  EXPECT_EQ(UserOfPeer(ends.server.get()).user, std::nullopt);
}

sockaddr_storage Address(const char* host, int port) {
  sockaddr_storage address{};
  auto& v4 = reinterpret_cast<sockaddr_in&>(address);
  v4.sin_family = AF_INET;
  v4.sin_port = htons(static_cast<uint16_t>(port));
  inet_pton(AF_INET, host, &v4.sin_addr);
  return address;
}

// Rows as the kernel writes them.
std::string Row(const char* local, const char* remote, const char* state, int user, int inode) {
  return StrCat("   0: ", local, " ", remote, " ", state, " 00000000:00000000 00:00000000 00000000  ", user,
                "        0 ", inode, " 1 0000000000000000 20 4 30 10 -1\n");
}

TEST(UserByTableRows, RowsOfTheTable_OnlyTheEstablishedPeerCounts) {
  const sockaddr_storage peer = Address("127.0.0.1", 0xC000), own = Address("127.0.0.1", 0x1779);
  const char* const kPeer = "0100007F:C000";
  const char* const kOwn = "0100007F:1779";
  EXPECT_EQ(UserByTable(Row(kPeer, kOwn, "01", 33, 77), peer, own), 33u);
  EXPECT_EQ(UserByTable(Row(kPeer, kOwn, "01", 33, 0), peer, own), std::nullopt) << "no file";
  EXPECT_EQ(UserByTable(Row(kPeer, kOwn, "01", 0, 0), peer, own), std::nullopt);
  for (const char* state : {"02", "03", "04", "05", "06", "07", "08", "09", "0A", "0B", "0C"}) {
    EXPECT_EQ(UserByTable(Row(kPeer, kOwn, state, 0, 77), peer, own), std::nullopt) << state;
  }
  EXPECT_EQ(UserByTable(Row(kOwn, kPeer, "01", 0, 77), peer, own), std::nullopt) << "that is our end";
  EXPECT_EQ(UserByTable(Row("0100007F:C001", kOwn, "01", 0, 77), peer, own), std::nullopt);
  EXPECT_EQ(UserByTable(Row("0200007F:C000", kOwn, "01", 0, 77), peer, own), std::nullopt);
  // An older row of the same port, of another user, before the row that counts.
  EXPECT_EQ(UserByTable(Row(kPeer, kOwn, "06", 0, 0) + Row(kPeer, kOwn, "01", 33, 78), peer, own), 33u);
  // A client that connects by the IPv6 address ::ffff:127.0.0.1.
  EXPECT_EQ(
      UserByTable(Row("0000000000000000FFFF00000100007F:C000", "0000000000000000FFFF00000100007F:1779", "01", 34, 9),
                  peer, own),
      34u);
  for (const char* text : {"", "\n", " 0100007F:C000 0100007F:1779 ", " 0100007F:C000 0100007F:1779 01",
                           " 0100007F:C000 0100007F:1779 01 x:y z", "garbage"}) {
    EXPECT_EQ(UserByTable(text, peer, own), std::nullopt) << text;
  }
}

TEST(PortUsersText, EachForm_IsParsed) {
  EXPECT_EQ(ParsePortUsers("same")->ToText(), "same");
  EXPECT_EQ(ParsePortUsers("any")->ToText(), "any");
  EXPECT_EQ(ParsePortUsers("33, 1001")->ToText(), "same,33,1001");
  for (const char* bad : {"", "x", "33,", "-1", "4294967295", "99999999999", "any,33", "0x1", "33;34"}) {
    EXPECT_FALSE(ParsePortUsers(bad).ok()) << bad;
  }
}

TEST(PortUsersText, Allows_EachForm_ChecksTheUser) {
  const PortUsers same = *ParsePortUsers("same"), any = *ParsePortUsers("any"), more = *ParsePortUsers("33");
  EXPECT_TRUE(same.Allows(geteuid()) && same.Allows(0) && more.Allows(geteuid()) && more.Allows(33) && any.Allows(7));
  EXPECT_TRUE(any.Allows(std::nullopt));
  EXPECT_FALSE(same.Allows(std::nullopt) || more.Allows(std::nullopt));
  EXPECT_FALSE(same.Allows(geteuid() + 33) || more.Allows(geteuid() + 34));
}

}  // namespace
}  // namespace tbprof
