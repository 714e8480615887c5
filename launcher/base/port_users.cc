// SPDX-License-Identifier: Apache-2.0
#include "launcher/base/port_users.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "launcher/base/proc_files.h"
#include "launcher/base/text.h"
#include "writer/base/parse_number.h"
#include "writer/base/scoped.h"

namespace tbprof {
namespace {

constexpr int kEstablished = 1;  // TCP_ESTABLISHED of the kernel

bool IsMapped(const sockaddr_storage& address) {
  return address.ss_family == AF_INET6 &&
         IN6_IS_ADDR_V4MAPPED(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}

// Converts `::ffff:127.0.0.1` to `127.0.0.1`.
sockaddr_storage Plain(const sockaddr_storage& address) {
  if (!IsMapped(address)) return address;
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  sockaddr_storage plain{};
  auto& v4 = reinterpret_cast<sockaddr_in&>(plain);
  v4.sin_family = AF_INET;
  v4.sin_port = v6.sin6_port;
  memcpy(&v4.sin_addr, v6.sin6_addr.s6_addr + 12, 4);
  return plain;
}

uint16_t PortOf(const sockaddr_storage& address) {
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

// Copies the address as four words; IPv4 uses only the first.
size_t CopyAddress(const sockaddr_storage& address, uint32_t (&words)[4]) {
  const bool v6 = address.ss_family == AF_INET6;
  const size_t size = v6 ? 16 : 4;
  memset(words, 0, sizeof(words));
  if (v6) {
    memcpy(words, &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, size);
  } else {
    memcpy(words, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, size);
  }
  return size;
}

bool IsLoopback(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET6) {
    return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
  }
  return (ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr) >> 24) == 127;
}

// True: the address belongs to this machine, or this could not be determined.
bool IsOfThisMachine(sockaddr_storage address) {
  if (IsLoopback(address)) return true;
  const ScopedFd probe(socket(address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  socklen_t size = sizeof(sockaddr_in);
  if (address.ss_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6&>(address).sin6_port = 0;
    size = sizeof(sockaddr_in6);
  } else {
    reinterpret_cast<sockaddr_in&>(address).sin_port = 0;
  }
  return !probe.valid() || bind(probe.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0 ||
         errno != EADDRNOTAVAIL;
}

// True for the overflow user: a user namespace shows it for all users that it does not map.
bool IsAmbiguous(uid_t user) {
  unsigned overflow = 65534;
  (void)sscanf(ReadText("/proc/sys/kernel/overflowuid").c_str(), "%u", &overflow);
  if (user != overflow) return false;
  unsigned inside = 1, outside = 1, count = 0;
  const bool read = sscanf(ReadText("/proc/self/uid_map").c_str(), "%u %u %u", &inside, &outside, &count) == 3;
  return !(read && inside == 0 && outside == 0 && count == UINT32_MAX);
}

std::optional<uid_t> UserByTables(const sockaddr_storage& peer, const sockaddr_storage& other) {
  for (const char* path : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    if (const std::optional<uid_t> user = UserByTable(ReadText(path), peer, other)) return user;
  }
  return std::nullopt;
}

}  // namespace

bool PortUsers::Allows(std::optional<uid_t> user) const {
  if (any) return true;
  if (!user) return false;
  return *user == 0 || *user == geteuid() || std::find(more.begin(), more.end(), *user) != more.end();
}

std::string PortUsers::Names() const {
  if (any) return "any user";
  std::string names;
  if (geteuid() != 0) StrAppend(&names, "user ", geteuid());
  for (const uid_t user : more) {
    if (user != 0 && user != geteuid()) StrAppend(&names, names.empty() ? "" : ", ", "user ", user);
  }
  return names.empty() ? "root" : names + " and root";
}

std::string PortUsers::ToText() const {
  if (any) return "any";
  std::string text = "same";
  for (const uid_t user : more) StrAppend(&text, ",", user);
  return text;
}

absl::StatusOr<PortUsers> ParsePortUsers(std::string_view text) {
  PortUsers users;
  if (Strip(text) == "any") {
    users.any = true;
    return users;
  }
  for (std::string_view word : Split(text, ',')) {
    word = Strip(word);
    if (word == "same") continue;
    const uid_t user = ParseNumber<uid_t>(word).value_or(UINT32_MAX);
    if (user == UINT32_MAX) return InvalidArgument("expected same, any, or the numbers of users: 33,1001");
    users.more.push_back(user);
  }
  return users;
}

std::optional<uid_t> UserByDiagnostics(const sockaddr_storage& peer, const sockaddr_storage& other, bool* answered) {
  *answered = false;
  const ScopedFd netlink(socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!netlink.valid()) return std::nullopt;
  const timeval patience{1, 0};
  setsockopt(netlink.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  struct {
    nlmsghdr header;
    inet_diag_req_v2 request;
  } message{};
  message.header.nlmsg_len = sizeof(message);
  message.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  message.header.nlmsg_flags = NLM_F_REQUEST;
  message.request.sdiag_family = static_cast<uint8_t>(peer.ss_family);
  message.request.sdiag_protocol = IPPROTO_TCP;
  message.request.idiag_states = ~0u;
  inet_diag_sockid& id = message.request.id;
  id.idiag_sport = htons(PortOf(peer));
  id.idiag_dport = htons(PortOf(other));
  CopyAddress(peer, id.idiag_src);
  CopyAddress(other, id.idiag_dst);
  id.idiag_cookie[0] = id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  sockaddr_nl kernel{};
  kernel.nl_family = AF_NETLINK;
  if (sendto(netlink.get(), &message, sizeof(message), 0, reinterpret_cast<sockaddr*>(&kernel), sizeof(kernel)) < 0) {
    return std::nullopt;
  }
  alignas(nlmsghdr) char buffer[8192];
  sockaddr_nl from{};
  socklen_t from_size = sizeof(from);
  const ssize_t size =
      recvfrom(netlink.get(), buffer, sizeof(buffer), 0, reinterpret_cast<sockaddr*>(&from), &from_size);
  const auto* header = reinterpret_cast<const nlmsghdr*>(buffer);
  if (size < static_cast<ssize_t>(sizeof(*header)) || from.nl_pid != 0 ||
      !NLMSG_OK(header, static_cast<unsigned>(size))) {
    return std::nullopt;
  }
  if (header->nlmsg_type == NLMSG_ERROR) {
    const auto* error = static_cast<const nlmsgerr*>(NLMSG_DATA(header));
    // ENOENT: there is no such socket. Other errors: the kernel or a system call filter does not answer the query.
    *answered = header->nlmsg_len >= NLMSG_LENGTH(sizeof(*error)) && error->error == -ENOENT;
    return std::nullopt;
  }
  if (header->nlmsg_type != SOCK_DIAG_BY_FAMILY || header->nlmsg_len < NLMSG_LENGTH(sizeof(inet_diag_msg))) {
    return std::nullopt;
  }
  *answered = true;
  const auto* found = static_cast<const inet_diag_msg*>(NLMSG_DATA(header));
  if (found->idiag_state != kEstablished || found->idiag_inode == 0 || found->id.idiag_sport != id.idiag_sport ||
      found->id.idiag_dport != id.idiag_dport) {
    return std::nullopt;
  }
  return found->idiag_uid;
}

std::optional<uid_t> UserByTable(std::string_view table, const sockaddr_storage& peer, const sockaddr_storage& other) {
  // `127.0.0.1:6009` is `0100007F:1779`: each word of the address in host byte order, the port as a number.
  const auto text_of = [](const sockaddr_storage& address, bool mapped) {
    uint32_t words[4];
    const bool v6 = CopyAddress(address, words) == 16;
    char text[48];
    if (v6) {
      snprintf(text, sizeof(text), "%08X%08X%08X%08X:%04X", words[0], words[1], words[2], words[3], PortOf(address));
    } else if (mapped) {
      snprintf(text, sizeof(text), "%08X%08X%08X%08X:%04X", 0u, 0u, htonl(0xffffu), words[0], PortOf(address));
    } else {
      snprintf(text, sizeof(text), "%08X:%04X", words[0], PortOf(address));
    }
    return std::string(text);
  };
  for (const bool mapped : {false, true}) {
    const std::string ends = StrCat(" ", text_of(peer, mapped), " ", text_of(other, mapped), " ");
    for (size_t at = 0; (at = table.find(ends, at)) != std::string_view::npos; ++at) {
      const std::string row(table.substr(at + ends.size(), 256).substr(0, table.substr(at + ends.size()).find('\n')));
      unsigned state = 0;
      uid_t user = 0;
      uint64_t inode = 0;
      // st tx_queue:rx_queue tr:tm->when retrnsmt uid timeout inode
      if (sscanf(row.c_str(), "%x %*x:%*x %*x:%*x %*x %u %*d %" SCNu64, &state, &user, &inode) != 3) continue;
      if (state == kEstablished && inode != 0) return user;
    }
  }
  return std::nullopt;
}

PeerUser UserOfPeer(int connection) {
  sockaddr_storage peer{}, own{};
  socklen_t size = sizeof(peer);
  if (getpeername(connection, reinterpret_cast<sockaddr*>(&peer), &size) != 0) return {};
  size = sizeof(own);
  if (getsockname(connection, reinterpret_cast<sockaddr*>(&own), &size) != 0) return {};
  peer = Plain(peer);
  own = Plain(own);
  PeerUser result;
  result.on_this_machine = IsOfThisMachine(peer);
  if (!result.on_this_machine) return result;
  bool answered = false;
  std::optional<uid_t> user = UserByDiagnostics(peer, own, &answered);
  if (!answered) user = UserByTables(peer, own);
  // A peer that has closed may have left its port to another process; then this end is no longer established.
  tcp_info info{};
  size = sizeof(info);
  const bool stands =
      getsockopt(connection, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 && info.tcpi_state == kEstablished;
  if (user && stands && !IsAmbiguous(*user)) result.user = user;
  return result;
}

}  // namespace tbprof
