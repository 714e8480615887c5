// SPDX-License-Identifier: Apache-2.0
//
// Refused connections get one answer, with bounded cost whatever they send. run_port_users_test and
// xprof/test_service_faults.py show that real gRPC clients understand the answer.
#include "launcher/service/refused_connections.h"

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

namespace tbprof {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

std::string Frame(size_t length, int type, int flags, int stream) {
  std::string frame;
  frame += static_cast<char>(length >> 16);
  frame += static_cast<char>(length >> 8);
  frame += static_cast<char>(length);
  frame += static_cast<char>(type);
  frame += static_cast<char>(flags);
  frame += std::string(3, '\0');
  frame += static_cast<char>(stream);
  return frame + std::string(length, 'x');
}

class Refused : public testing::Test {
 protected:
  int Add(const std::string& message) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    refused_.Add(ScopedFd(ends[0]), message);
    clients_.emplace_back(ends[1]);
    return ends[1];
  }
  static void Send(int fd, std::string_view bytes) { (void)!send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  static std::string Read(int fd) {
    std::string text;
    char buffer[4096];
    for (ssize_t size; (size = recv(fd, buffer, sizeof(buffer), MSG_DONTWAIT)) > 0;) {
      text.append(buffer, static_cast<size_t>(size));
    }
    return text;
  }
  RefusedConnections refused_;
  std::vector<ScopedFd> clients_;
};

TEST_F(Refused, EachCall_IsDenied) {
  const int fd = Add("of user 33; 100 % sure\n");
  Send(fd, std::string(kPreface) + Frame(6, 4, 0, 0) + Frame(40, 1, 4, 1) + Frame(500, 0, 1, 1) + Frame(40, 1, 4, 3));
  refused_.Handle();
  const std::string answer = Read(fd);
  EXPECT_THAT(answer, HasSubstr("grpc-status\x01"
                                "7"));
  EXPECT_THAT(answer, HasSubstr("of user 33; 100 %25 sure%0A"));
  EXPECT_NE(answer.find("grpc-status"), answer.rfind("grpc-status")) << "both calls";
  EXPECT_FALSE(refused_.empty()) << "the client reads it first";
}

TEST_F(Refused, ByteByByte_IsTheSame) {
  const int fd = Add("no");
  for (const char c : std::string(kPreface) + Frame(3, 4, 0, 0) + Frame(8, 6, 0, 0) + Frame(9, 1, 4, 1)) {
    Send(fd, std::string(1, c));
    refused_.Handle();
  }
  EXPECT_THAT(Read(fd), HasSubstr("grpc-message\x02no"));
}

TEST_F(Refused, WhatIsNoHttp2_IsClosed) {
  for (const std::string text : {"GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01", "PRI * HTTP/1"}) {
    const int fd = Add("no");
    Send(fd, text);
    refused_.Handle();
    EXPECT_TRUE(refused_.empty());
    EXPECT_THAT(Read(fd), Not(HasSubstr("grpc-status")));
  }
}

TEST_F(Refused, Flood_IsClosed) {
  const int fd = Add("no");
  Send(fd, kPreface);
  const std::string frames = Frame(16000, 0, 0, 1) + Frame(0, 4, 0, 0);
  for (int i = 0; i < 100 && !refused_.empty(); ++i) {
    Send(fd, frames);
    refused_.Handle();
    Read(fd);
  }
  EXPECT_TRUE(refused_.empty());
  // A client that makes calls and does not read the answers.
  const int deaf = Add(std::string(1000, 'n'));
  Send(deaf, kPreface);
  for (int i = 0; i < 20'000 && !refused_.empty(); ++i) {
    Send(deaf, Frame(1, 1, 4, 1));
    refused_.Handle();
  }
  EXPECT_TRUE(refused_.empty());
}

TEST_F(Refused, OneConnectionTooMany_IsClosedAtOnce) {
  for (size_t i = 0; i < RefusedConnections::kMost; ++i) Add("no");
  const int fd = Add("no");
  char byte;
  EXPECT_EQ(recv(fd, &byte, 1, MSG_DONTWAIT), 0);
  std::vector<pollfd> watched;
  refused_.AppendWatched(&watched);
  EXPECT_EQ(watched.size(), RefusedConnections::kMost);
  clients_.clear();
  refused_.Handle();
  EXPECT_TRUE(refused_.empty());
}

}  // namespace
}  // namespace tbprof
