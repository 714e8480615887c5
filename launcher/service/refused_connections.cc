// SPDX-License-Identifier: Apache-2.0
#include "launcher/service/refused_connections.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "wire/clock.h"

namespace tbprof {
namespace {

// The part of HTTP/2 (RFC 9113) that an answer needs.
constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
constexpr size_t kFrameHeader = 9;
constexpr size_t kMostReceived = 256 << 10;
enum FrameType : uint8_t { kHeaders = 1, kResetStream = 3, kSettings = 4, kPing = 6 };
constexpr uint8_t kAcknowledged = 1, kEndStream = 1, kEndHeaders = 4;

std::string Frame(FrameType type, uint8_t flags, uint32_t stream, std::string_view payload) {
  const auto size = static_cast<uint32_t>(payload.size());
  std::string frame;
  for (const int shift : {16, 8, 0}) frame += static_cast<char>(size >> shift);
  frame += static_cast<char>(type);
  frame += static_cast<char>(flags);
  for (const int shift : {24, 16, 8, 0}) frame += static_cast<char>(stream >> shift);
  frame += payload;
  return frame;
}

// HPACK (RFC 7541): a string without Huffman coding.
void AppendText(std::string_view text, std::string* block) {
  size_t size = text.size();
  if (size < 127) {
    *block += static_cast<char>(size);
  } else {
    *block += '\x7f';
    for (size -= 127; size >= 128; size >>= 7) *block += static_cast<char>(0x80 | (size & 0x7f));
    *block += static_cast<char>(size);
  }
  *block += text;
}

void AppendField(std::string_view name, std::string_view value, std::string* block) {
  *block += '\0';  // a literal that is not indexed, with a new name
  AppendText(name, block);
  AppendText(value, block);
}

std::string PercentEncoded(std::string_view text) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    if (c >= ' ' && c <= '~' && c != '%') {
      encoded += c;
      continue;
    }
    encoded += '%';
    encoded += kDigits[static_cast<uint8_t>(c) >> 4];
    encoded += kDigits[static_cast<uint8_t>(c) & 15];
  }
  return encoded;
}

// A response that consists of trailers only.
std::string Denial(uint32_t stream, std::string_view message) {
  std::string block = "\x88";  // :status 200
  AppendField("content-type", "application/grpc", &block);
  AppendField("grpc-status", "7", &block);  // PERMISSION_DENIED
  AppendField("grpc-message", PercentEncoded(message), &block);
  return Frame(kHeaders, kEndStream | kEndHeaders, stream, block) +
         Frame(kResetStream, 0, stream, std::string_view("\0\0\0\0", 4));  // the request is not read
}

bool Send(int fd, std::string_view bytes) {
  // Does not wait for a client that does not read.
  return send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(bytes.size());
}

}  // namespace

void RefusedConnections::Add(ScopedFd connection, std::string message) {
  if (connections_.size() >= kMost || !Send(connection.get(), Frame(kSettings, 0, 0, ""))) return;
  Connection refused;
  refused.fd = std::move(connection);
  refused.message = std::move(message);
  refused.since_ns = ReadMonotonic();
  connections_.push_back(std::move(refused));
}

void RefusedConnections::AppendWatched(std::vector<pollfd>* fds) const {
  for (const Connection& connection : connections_) fds->push_back({connection.fd.get(), POLLIN, 0});
}

void RefusedConnections::Handle() {
  const uint64_t now = ReadMonotonic();
  std::erase_if(connections_,
                [&](Connection& connection) { return now > connection.since_ns + kLifeNs || !Receive(&connection); });
}

// False: the connection has ended.
bool RefusedConnections::Receive(Connection* connection) {
  for (;;) {
    char buffer[4096];
    const ssize_t size = recv(connection->fd.get(), buffer, sizeof(buffer), MSG_DONTWAIT);
    if (size < 0) return errno == EAGAIN || errno == EINTR;
    if (size == 0) return false;
    connection->received += static_cast<size_t>(size);
    if (connection->received > kMostReceived) return false;
    connection->input.append(buffer, static_cast<size_t>(size));
    if (!TakeFrames(connection)) return false;
  }
}

bool RefusedConnections::TakeFrames(Connection* connection) {
  std::string& input = connection->input;
  if (!connection->greeted) {
    const size_t common = std::min(input.size(), kPreface.size());
    if (input.compare(0, common, kPreface.substr(0, common)) != 0) return false;
    if (input.size() < kPreface.size()) return true;
    connection->greeted = true;
    input.erase(0, kPreface.size());
  }
  for (;;) {
    const size_t skipped = std::min(connection->skip, input.size());
    input.erase(0, skipped);
    connection->skip -= skipped;
    if (connection->skip > 0 || input.size() < kFrameHeader) return true;
    const auto byte = [&](size_t at) { return static_cast<uint32_t>(static_cast<uint8_t>(input[at])); };
    const uint32_t length = byte(0) << 16 | byte(1) << 8 | byte(2);
    const auto type = static_cast<uint8_t>(byte(3));
    const auto flags = static_cast<uint8_t>(byte(4));
    const uint32_t stream = (byte(5) << 24 | byte(6) << 16 | byte(7) << 8 | byte(8)) & 0x7fffffffu;
    if (type == kPing && length == 8 && input.size() < kFrameHeader + length) return true;
    std::string reply;
    if (type == kSettings && (flags & kAcknowledged) == 0) reply = Frame(kSettings, kAcknowledged, 0, "");
    if (type == kPing && length == 8 && (flags & kAcknowledged) == 0) {
      reply = Frame(kPing, kAcknowledged, 0, std::string_view(input).substr(kFrameHeader, length));
    }
    if (type == kHeaders && stream != 0) reply = Denial(stream, connection->message);
    if (!reply.empty() && !Send(connection->fd.get(), reply)) return false;
    input.erase(0, kFrameHeader);
    connection->skip = length;
  }
}

}  // namespace tbprof
