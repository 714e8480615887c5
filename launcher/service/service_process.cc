// SPDX-License-Identifier: Apache-2.0
#include "launcher/service/service_process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <malloc.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <mutex>

#include "launcher/base/text.h"
#include "writer/base/scoped.h"

namespace tbprof {
namespace {

constexpr rlim_t kDescriptors = 512;
constexpr size_t kThreadStack = size_t{512} << 10;  // counts as data even if unused

}  // namespace

void LimitServiceProcess() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur > kDescriptors) {
    limit.rlim_cur = kDescriptors;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  // Blocks of a reply are mmapped, so that they return to the system when freed, whatever was allocated after them.
  mallopt(M_MMAP_THRESHOLD, 128 << 10);
  // If memory runs out, the worker is the least loss.
  if (const ScopedFd score(open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC)); score.valid()) {
    (void)!write(score.get(), "1000", 4);
  }
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kThreadStack);
  pthread_setattr_default_np(&attributes);
  pthread_attr_destroy(&attributes);
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
}

void LeaveOtherDescriptors(int end) {
  // A system call, since close_range() needs glibc 2.34; the call needs Linux 5.9.
  if (syscall(SYS_close_range, static_cast<unsigned>(end), ~0u, 0u) != 0) {
    for (int fd = end; fd < 1024; ++fd) close(fd);
  }
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd = 0; fd <= 2; ++fd) dup2(null, fd);
  if (null > 2) close(null);
}

Memory MemoryNow(int statm) {
  char text[128] = {};
  Memory pages;
  if (pread(statm, text, sizeof(text) - 1, 0) <= 0 ||
      sscanf(text, "%*u %" SCNu64 " %*u %*u %*u %" SCNu64, &pages.resident, &pages.data) != 2) {
    return {};
  }
  const auto bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return {pages.resident * bytes, pages.data * bytes};
}

void AllowData(uint64_t more) {
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  static const ScopedFd* const statm = new ScopedFd(open("/proc/self/statm", O_RDONLY | O_CLOEXEC));
  static uint64_t allowed = 0;
  const uint64_t data = MemoryNow(statm->get()).data;
  rlimit limit{};
  if (data == 0 || data + more <= allowed || getrlimit(RLIMIT_DATA, &limit) != 0) return;
  allowed = data + more;
  limit.rlim_cur = std::min<rlim_t>(allowed, limit.rlim_max);
  setrlimit(RLIMIT_DATA, &limit);
}

std::string AddressOf(int connection) {
  sockaddr_storage peer{};
  socklen_t size = sizeof(peer);
  if (getpeername(connection, reinterpret_cast<sockaddr*>(&peer), &size) != 0) return "";
  char host[INET6_ADDRSTRLEN] = {};
  if (peer.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(peer);
    inet_ntop(AF_INET6, &v6.sin6_addr, host, sizeof(host));
    return StrCat("[", std::string_view(host), "]:", ntohs(v6.sin6_port));
  }
  const auto& v4 = reinterpret_cast<const sockaddr_in&>(peer);
  inet_ntop(AF_INET, &v4.sin_addr, host, sizeof(host));
  return StrCat(std::string_view(host), ":", ntohs(v4.sin_port));
}

bool IsToLoopback(int connection) {
  sockaddr_storage own{};
  socklen_t size = sizeof(own);
  if (getsockname(connection, reinterpret_cast<sockaddr*>(&own), &size) != 0) return false;
  if (own.ss_family == AF_INET) {
    return (ntohl(reinterpret_cast<const sockaddr_in&>(own).sin_addr.s_addr) >> 24) == 127;
  }
  const in6_addr& address = reinterpret_cast<const sockaddr_in6&>(own).sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&address) || (IN6_IS_ADDR_V4MAPPED(&address) && address.s6_addr[12] == 127);
}

bool HasConnections(int first) {
  for (int fd = first; fd <= kHighestConnection; ++fd) {
    int listening = 0;
    sockaddr_storage address;
    socklen_t size = sizeof(address);
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) continue;
    size = sizeof(listening);
    if (address.ss_family == AF_UNIX) continue;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) == 0 && listening == 0) return true;
  }
  return false;
}

}  // namespace tbprof
