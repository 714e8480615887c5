// SPDX-License-Identifier: Apache-2.0
#include "launcher/base/control_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <set>

#include "launcher/base/message_descriptors.h"
#include "launcher/base/text.h"
#include "wire/clock.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

constexpr size_t kMaxClients = 64;
constexpr size_t kMaxMessagesAtOnce = 64;  // per client, so that many messages do not delay the handling of signals
constexpr absl::Duration kStatusPatience = absl::Seconds(2);

absl::StatusOr<sockaddr_un> AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return InvalidArgument(StrCat("the path of the control socket is too long: ", PrintableUtf8(path)));
  }
  memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

bool SendMessage(int socket, std::string_view text, const std::vector<int>& descriptors, int flags) {
  iovec part{const_cast<char*>(text.data()), text.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxControlFiles * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!descriptors.empty() && descriptors.size() <= kMaxControlFiles) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(descriptors.size() * sizeof(int));
    cmsghdr* const entry = CMSG_FIRSTHDR(&message);
    entry->cmsg_level = SOL_SOCKET;
    entry->cmsg_type = SCM_RIGHTS;
    entry->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
    memcpy(CMSG_DATA(entry), descriptors.data(), descriptors.size() * sizeof(int));
  }
  ssize_t sent;
  do {
    sent = sendmsg(socket, &message, MSG_NOSIGNAL | flags);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(text.size());
}

// Returns the size; -1 with errno on failure; 0 if the peer has closed. A message over kMaxControlMessage bytes does
// not come from tbprof: it is truncated to one byte more than the limit, so that the caller can reject it.
ssize_t ReceiveMessage(int socket, std::string* text, std::vector<ScopedFd>* descriptors, int flags) {
  text->resize(kMaxControlMessage + 1);
  iovec part{text->data(), text->size()};
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxControlFiles * sizeof(int))];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ssize_t size;
  do {
    size = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | flags);
  } while (size < 0 && errno == EINTR);
  text->resize(size > 0 ? static_cast<size_t>(size) : 0);
  if (size < 0) return size;
  std::vector<ScopedFd> received = TakeDescriptors(&message);
  if (descriptors != nullptr) *descriptors = std::move(received);
  return size;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ControlServer>> ControlServer::Listen(const std::string& path) {
  absl::StatusOr<sockaddr_un> address = AddressOf(path);
  if (!address.ok()) return address.status();
  std::unique_ptr<ControlServer> server(new ControlServer());
  server->listen_.Reset(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!server->listen_.valid() ||
      bind(server->listen_.get(), reinterpret_cast<sockaddr*>(&*address), sizeof(*address)) != 0 ||
      listen(server->listen_.get(), static_cast<int>(kMaxClients)) != 0) {
    return absl::ErrnoToStatus(errno, StrCat("cannot listen on ", path));
  }
  server->path_ = path;
  return server;
}

ControlServer::~ControlServer() {
  if (!path_.empty()) unlink(path_.c_str());
}

uint32_t ControlServer::AddClient(ScopedFd connection) {
  clients_.push_back({++numbers_, 0, std::move(connection)});
  return numbers_;
}

void ControlServer::AppendWatched(std::vector<pollfd>* fds) const {
  if (clients_.size() < kMaxClients && pause_.over()) fds->push_back({listen_.get(), POLLIN, 0});
  for (const Client& client : clients_) fds->push_back({client.connection.get(), POLLIN, 0});
}

std::vector<ControlMessage> ControlServer::Take() {
  while (clients_.size() < kMaxClients) {
    ScopedFd connection(accept4(listen_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!connection.valid()) {
      pause_.Failed(errno);
      break;
    }
    ucred peer{};
    socklen_t size = sizeof(peer);
    if (getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) continue;
    if (peer.uid != geteuid() && peer.uid != 0) continue;
    clients_.push_back({++numbers_, peer.pid, std::move(connection)});
  }
  std::vector<ControlMessage> messages;
  std::erase_if(clients_, [&](const Client& client) {
    for (size_t i = 0; i < kMaxMessagesAtOnce; ++i) {
      ControlMessage message{client.number, client.pid, false, ""};
      const ssize_t size = ReceiveMessage(client.connection.get(), &message.text, nullptr, MSG_DONTWAIT);
      if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
      message.gone = size <= 0 || message.text.size() > kMaxControlMessage;
      messages.push_back(std::move(message));
      if (messages.back().gone) return true;
    }
    return false;
  });
  return messages;
}

bool ControlServer::Send(uint32_t client, std::string_view text, const std::vector<int>& descriptors) {
  for (const Client& known : clients_) {
    if (known.number == client) return SendMessage(known.connection.get(), text, descriptors, MSG_DONTWAIT);
  }
  return false;
}

absl::StatusOr<ControlConnection> ControlConnection::Connect(const std::string& path) {
  absl::StatusOr<sockaddr_un> address = AddressOf(path);
  if (!address.ok()) return address.status();
  // Non-blocking: does not wait if the backlog is full.
  ScopedFd connection(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!connection.valid() || connect(connection.get(), reinterpret_cast<sockaddr*>(&*address), sizeof(*address)) != 0) {
    return absl::ErrnoToStatus(errno, StrCat("cannot reach ", path));
  }
  fcntl(connection.get(), F_SETFL, 0);
  // The path may come from /proc/net/unix, which lists sockets of all users under any name.
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.uid != geteuid()) {
    return absl::PermissionDeniedError(StrCat(path, " is another user's"));
  }
  return ControlConnection(std::move(connection));
}

absl::Status ControlConnection::Send(std::string_view text) const {
  if (SendMessage(socket_.get(), text, {}, 0)) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, "tbprof's launcher is not reached");
}

absl::StatusOr<ControlConnection::Received> ControlConnection::Receive(absl::Duration limit) const {
  const uint64_t begun = ReadMonotonic();
  for (;;) {
    const absl::Duration left = limit - absl::Nanoseconds(ReadMonotonic() - begun);
    pollfd entry{socket_.get(), POLLIN, 0};
    const int ready =
        poll(&entry, 1, static_cast<int>(std::clamp<int64_t>(absl::ToInt64Milliseconds(left), 0, 60'000)));
    if (ready > 0) {
      Received received;
      const ssize_t size = ReceiveMessage(socket_.get(), &received.text, &received.descriptors, 0);
      if (size <= 0) return Unavailable("tbprof's launcher has ended");
      return received;
    }
    if (left <= absl::ZeroDuration()) return absl::DeadlineExceededError("tbprof's launcher does not answer");
  }
}

absl::StatusOr<ControlAnswer> ControlConnection::Ask(const ControlAsk& ask, absl::Duration limit) const {
  if (const absl::Status status = Send(ToText(ask)); !status.ok()) return status;
  absl::StatusOr<Received> received = Receive(limit);
  if (!received.ok()) return received.status();
  return ParseAnswer(received->text);
}

std::vector<std::string> FindControlSockets() {
  std::set<std::string> paths;
  std::ifstream list("/proc/net/unix");
  const std::string suffix = StrCat("/", kControlName);
  for (std::string line; std::getline(list, line);) {
    const size_t at = line.find(" /");
    if (at == std::string::npos) continue;
    const std::string path = line.substr(at + 1);
    if (path.ends_with(suffix) && path.find("/tbprof-") != std::string::npos) paths.insert(path);
  }
  return {paths.begin(), paths.end()};
}

std::vector<FoundSession> FindSessions() {
  std::vector<FoundSession> sessions;
  for (const std::string& path : FindControlSockets()) {
    const absl::StatusOr<ControlConnection> connection = ControlConnection::Connect(path);
    if (!connection.ok()) continue;
    const absl::StatusOr<ControlAnswer> answer = connection->Ask(ControlAsk{AskKind::kStatus, 1, {}}, kStatusPatience);
    if (!answer.ok() || answer->state != AnswerState::kDone) continue;
    absl::StatusOr<SessionStatus> status = ParseSessionStatus(answer->json);
    if (status.ok()) sessions.push_back({path, *std::move(status)});
  }
  return sessions;
}

}  // namespace tbprof
