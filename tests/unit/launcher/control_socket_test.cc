// SPDX-License-Identifier: Apache-2.0
#include "launcher/base/control_socket.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>

#include "absl/time/clock.h"

namespace tbprof {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

size_t OpenDescriptors() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

class ControlSocketTest : public testing::Test {
 protected:
  ControlSocketTest() {
    char name[] = "/tmp/tbprof-control-XXXXXX";
    directory_ = mkdtemp(name);
    path_ = directory_ + "/control";
    absl::StatusOr<std::unique_ptr<ControlServer>> server = ControlServer::Listen(path_);
    EXPECT_TRUE(server.ok()) << server.status();
    if (server.ok()) server_ = *std::move(server);
  }
  ~ControlSocketTest() override {
    server_.reset();
    std::filesystem::remove_all(directory_);
  }

  ControlConnection Connected() {
    absl::StatusOr<ControlConnection> connection = ControlConnection::Connect(path_);
    EXPECT_TRUE(connection.ok()) << connection.status();
    return connection.ok() ? *std::move(connection) : ControlConnection(ScopedFd());
  }
  // A connection and its number in the server.
  std::pair<ControlConnection, uint32_t> Known() {
    ControlConnection connection = Connected();
    EXPECT_TRUE(connection.Send("hello").ok());
    const std::vector<ControlMessage> messages = server_->Take();
    EXPECT_EQ(messages.size(), 1u);
    return {std::move(connection), messages.empty() ? 0 : messages[0].client};
  }

  std::string directory_, path_;
  std::unique_ptr<ControlServer> server_;
};

TEST_F(ControlSocketTest, Messages_ArriveBothWays) {
  const ControlConnection connection = Connected();
  ASSERT_TRUE(connection.Send("one").ok());
  ASSERT_TRUE(connection.Send("two").ok());
  const std::vector<ControlMessage> messages = server_->Take();
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[0].text, "one");
  EXPECT_EQ(messages[1].text, "two");
  EXPECT_EQ(messages[0].client, messages[1].client);
  EXPECT_EQ(messages[0].pid, getpid());
  EXPECT_FALSE(messages[0].gone);
  EXPECT_TRUE(server_->Take().empty());
  EXPECT_TRUE(server_->Send(messages[0].client, "three"));
  const absl::StatusOr<ControlConnection::Received> received = connection.Receive(absl::Seconds(5));
  ASSERT_TRUE(received.ok()) << received.status();
  EXPECT_EQ(received->text, "three");
  EXPECT_TRUE(received->descriptors.empty());
  EXPECT_FALSE(server_->Send(messages[0].client + 1, "nobody"));
}

TEST_F(ControlSocketTest, Descriptors_ArriveAtTheClient) {
  const auto [connection, client] = Known();
  std::vector<int> descriptors;
  for (size_t i = 0; i < kMaxControlFiles; ++i) {
    const int fd = memfd_create("file", 0);
    const std::string text = "file " + std::to_string(i);
    ASSERT_EQ(write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    descriptors.push_back(fd);
  }
  EXPECT_TRUE(server_->Send(client, "files", descriptors));
  for (const int fd : descriptors) close(fd);
  absl::StatusOr<ControlConnection::Received> received = connection.Receive(absl::Seconds(5));
  ASSERT_TRUE(received.ok()) << received.status();
  EXPECT_EQ(received->text, "files");
  ASSERT_EQ(received->descriptors.size(), kMaxControlFiles);
  for (size_t i = 0; i < kMaxControlFiles; ++i) {
    char text[32] = {};
    ASSERT_GT(pread(received->descriptors[i].get(), text, sizeof(text) - 1, 0), 0);
    EXPECT_EQ(std::string(text), "file " + std::to_string(i));
    EXPECT_EQ(fcntl(received->descriptors[i].get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  }
}

// Descriptors that a client sends must not fill the launcher's table.
TEST_F(ControlSocketTest, DescriptorsOfAClient_AreClosed) {
  const auto [connection, client] = Known();
  const size_t before = OpenDescriptors();
  for (int round = 0; round < 10; ++round) {
    int fds[10];
    for (int& fd : fds) fd = STDERR_FILENO;
    char byte = 'x';
    iovec part{&byte, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(fds))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* const entry = CMSG_FIRSTHDR(&message);
    entry->cmsg_level = SOL_SOCKET;
    entry->cmsg_type = SCM_RIGHTS;
    entry->cmsg_len = CMSG_LEN(sizeof(fds));
    memcpy(CMSG_DATA(entry), fds, sizeof(fds));
    ASSERT_EQ(sendmsg(connection.fd(), &message, 0), 1);
    EXPECT_EQ(server_->Take().size(), 1u);
  }
  EXPECT_EQ(OpenDescriptors(), before);
}

TEST_F(ControlSocketTest, ClientThatLeft_IsReportedOnceAfterItsMessages) {
  uint32_t number = 0;
  {
    const auto [connection, client] = Known();
    number = client;
    ASSERT_TRUE(connection.Send("last words").ok());
  }
  const std::vector<ControlMessage> messages = server_->Take();
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[0].text, "last words");
  EXPECT_FALSE(messages[0].gone);
  EXPECT_TRUE(messages[1].gone);
  EXPECT_EQ(messages[1].client, number);
  EXPECT_TRUE(server_->Take().empty());
  EXPECT_FALSE(server_->Send(number, "anybody?"));
  std::vector<pollfd> fds;
  server_->AppendWatched(&fds);
  EXPECT_EQ(fds.size(), 1u);
  // Its number is not used again.
  EXPECT_NE(Known().second, number);
}

TEST_F(ControlSocketTest, MessageTooLong_EndsItsClient) {
  const auto [connection, client] = Known();
  const auto [other, other_client] = Known();
  ASSERT_TRUE(connection.Send(std::string(kMaxControlMessage, 'x')).ok());
  std::vector<ControlMessage> messages = server_->Take();
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_FALSE(messages[0].gone);
  EXPECT_EQ(messages[0].text.size(), kMaxControlMessage);
  ASSERT_TRUE(connection.Send(std::string(kMaxControlMessage + 1, 'x')).ok());
  messages = server_->Take();
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_TRUE(messages[0].gone);
  EXPECT_EQ(messages[0].client, client);
  EXPECT_TRUE(absl::IsUnavailable(connection.Receive(absl::Seconds(5)).status()));
  EXPECT_TRUE(server_->Send(other_client, "you stay"));
  EXPECT_TRUE(other.Receive(absl::Seconds(5)).ok());
}

// With SEQPACKET, an empty message looks like the end.
TEST_F(ControlSocketTest, EmptyMessage_IsAnEnd) {
  const auto [connection, client] = Known();
  ASSERT_TRUE(connection.Send("").ok());
  const std::vector<ControlMessage> messages = server_->Take();
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_TRUE(messages[0].gone);
}

TEST_F(ControlSocketTest, ManyMessagesOfOneClient_AreTakenInParts) {
  const auto [connection, client] = Known();
  const auto [other, other_client] = Known();
  size_t sent = 0;
  while (send(connection.fd(), "storm", 5, MSG_DONTWAIT | MSG_NOSIGNAL) == 5) ++sent;
  ASSERT_TRUE(other.Send("calm").ok());
  ASSERT_GT(sent, 64u);
  const std::vector<ControlMessage> messages = server_->Take();
  EXPECT_EQ(messages.size(), 65u);
  EXPECT_EQ(messages.back().text, "calm");
  size_t taken = messages.size() - 1;
  for (size_t more = 1; more > 0; taken += more) more = server_->Take().size();
  EXPECT_EQ(taken, sent);
}

TEST_F(ControlSocketTest, MoreClientsThanAllowed_Wait) {
  std::vector<ControlConnection> connections;
  size_t messages = 0;
  for (int i = 0; i < 64 + 10; ++i) {
    connections.push_back(Connected());
    ASSERT_TRUE(connections.back().Send(std::to_string(i)).ok());
    // The server takes clients before the backlog is full: connect would wait then.
    if (i % 32 == 31) messages += server_->Take().size();
  }
  EXPECT_EQ(messages, 64u);
  EXPECT_TRUE(server_->Take().empty());
  std::vector<pollfd> fds;
  server_->AppendWatched(&fds);
  // The listener is not watched: clients wait on it, so poll would never sleep.
  EXPECT_EQ(fds.size(), 64u);
  EXPECT_LE(poll(fds.data(), fds.size(), 0), 0);
  connections.erase(connections.begin(), connections.begin() + 10);
  size_t gone = 0, new_ones = 0;
  for (int i = 0; i < 3; ++i) {
    for (const ControlMessage& message : server_->Take()) (message.gone ? gone : new_ones)++;
  }
  EXPECT_EQ(gone, 10u);
  EXPECT_EQ(new_ones, 10u);
}

TEST_F(ControlSocketTest, AddClient_Connection_SendsAndReceives) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  const uint32_t client = server_->AddClient(ScopedFd(ends[0]));
  std::optional<ControlConnection> worker(std::in_place, ScopedFd(ends[1]));
  EXPECT_NE(client, 0u);
  ASSERT_TRUE(worker->Send("from the worker").ok());
  std::vector<ControlMessage> messages = server_->Take();
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0].client, client);
  EXPECT_TRUE(server_->Send(client, "to the worker"));
  EXPECT_TRUE(worker->Receive(absl::Seconds(5)).ok());
  worker.reset();
  messages = server_->Take();
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_TRUE(messages[0].gone);
}

// The launcher's only thread must not wait for a client that does not read.
TEST_F(ControlSocketTest, ClientThatDoesNotRead_DoesNotBlock) {
  const auto [connection, client] = Known();
  const std::string text(kMaxControlMessage, 'x');
  const absl::Time begin = absl::Now();
  size_t taken = 0;
  while (taken < 10'000 && server_->Send(client, text)) ++taken;
  EXPECT_LT(taken, 10'000u);
  EXPECT_LT(absl::Now() - begin, absl::Seconds(30));
  EXPECT_TRUE(connection.Receive(absl::Seconds(5)).ok());
  EXPECT_TRUE(server_->Send(client, "room again"));
}

TEST_F(ControlSocketTest, Receive_Timeout_IsKept) {
  const ControlConnection connection = Connected();
  const absl::Time begin = absl::Now();
  EXPECT_TRUE(absl::IsDeadlineExceeded(connection.Receive(absl::Milliseconds(50)).status()));
  EXPECT_GE(absl::Now() - begin, absl::Milliseconds(50));
  server_.reset();
  EXPECT_TRUE(absl::IsUnavailable(connection.Receive(absl::Seconds(30)).status()));
  EXPECT_FALSE(connection.Send("anybody?").ok());
  EXPECT_FALSE(connection.Ask(ControlAsk{}, absl::Seconds(30)).ok());
}

TEST_F(ControlSocketTest, NoDescriptorLeft_DoesNotSpin) {
  const ControlConnection connection = Connected();
  ASSERT_TRUE(connection.Send("hello").ok());
  rlimit limit;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const ScopedFd next(dup(connection.fd()));
  const rlimit none{static_cast<rlim_t>(next.get()) + 1, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const std::vector<ControlMessage> nothing = server_->Take();
  std::vector<pollfd> fds;
  server_->AppendWatched(&fds);
  setrlimit(RLIMIT_NOFILE, &limit);
  EXPECT_TRUE(nothing.empty());
  EXPECT_TRUE(fds.empty()) << "the listener is readable, and nothing can be done about it";
  // After the pause all clients are served.
  absl::SleepFor(absl::Nanoseconds(ListenerPause::kLengthNs));
  server_->AppendWatched(&fds);
  ASSERT_EQ(fds.size(), 1u);
  EXPECT_EQ(poll(fds.data(), 1, 0), 1);
  const std::vector<ControlMessage> messages = server_->Take();
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0].text, "hello");
}

TEST_F(ControlSocketTest, Path_IsRemovedWithTheServer) {
  EXPECT_TRUE(std::filesystem::exists(path_));
  // The server must not replace a file that is not its own.
  EXPECT_FALSE(ControlServer::Listen(path_).ok());
  EXPECT_TRUE(std::filesystem::exists(path_));
  server_.reset();
  EXPECT_FALSE(std::filesystem::exists(path_));
  EXPECT_FALSE(ControlConnection::Connect(path_).ok());
  const std::string longer = directory_ + "/" + std::string(sizeof(sockaddr_un::sun_path), 'x');
  for (const absl::Status& status :
       {ControlConnection::Connect(longer).status(), ControlServer::Listen(longer).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("too long"));
  }
}

TEST_F(ControlSocketTest, FindControlSockets_OwnSocket_IsFound) {
  EXPECT_THAT(FindControlSockets(), Contains(path_));
  const std::string elsewhere = directory_ + "/other";
  const auto server = ControlServer::Listen(elsewhere);
  ASSERT_TRUE(server.ok());
  EXPECT_THAT(FindControlSockets(), Not(Contains(elsewhere)));
}

}  // namespace
}  // namespace tbprof
