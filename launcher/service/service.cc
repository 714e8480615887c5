// SPDX-License-Identifier: Apache-2.0
#include "launcher/service/service.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "launcher/base/text.h"
#include "launcher/target/worker_process.h"
#include "wire/clock.h"
#include "writer/base/utf8.h"

extern char** environ;

namespace tbprof {
namespace {

constexpr int kBacklog = 128;
constexpr int kTriesForAFreePort = 50;
constexpr uint64_t kRestartNs = 1'000'000'000;
constexpr int kEndPatienceMs = 500;  // a killed worker loses the last bytes of a reply

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
  int family = AF_UNSPEC;
};

absl::StatusOr<Address> ResolvedAddress(const std::string& host, int port) {
  Address address;
  auto* const v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  auto* const v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  if (inet_pton(AF_INET, host.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(static_cast<uint16_t>(port));
    address.size = sizeof(*v4);
    address.family = AF_INET;
  } else if (inet_pton(AF_INET6, host.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(static_cast<uint16_t>(port));
    address.size = sizeof(*v6);
    address.family = AF_INET6;
  } else {
    return InvalidArgument(StrCat("--listen: ", PrintableUtf8(host), " is no IPv4 or IPv6 address"));
  }
  return address;
}

int PortOf(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return 0;
  return ntohs(storage.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port
                                             : reinterpret_cast<sockaddr_in*>(&storage)->sin_port);
}

// Returns errno, or 0.
int ListenOn(const Address& address, ScopedFd* listener) {
  ScopedFd fd(socket(address.family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return errno;
  // SO_REUSEADDR allows binding while old connections of the port linger after a restart; another listener still
  // prevents it. SO_REUSEPORT is not set: two programs would share the port and each get half of the calls.
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (address.family == AF_INET6) setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.size) != 0) return errno;
  if (listen(fd.get(), kBacklog) != 0) return errno;
  *listener = std::move(fd);
  return 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Service>> Service::Listen(const std::vector<std::string>& hosts, int port,
                                                         const PortUsers& users, std::string tls_identity) {
  for (int attempt = 0;; ++attempt) {
    std::unique_ptr<Service> service(new Service(users, tls_identity));
    service->port_ = port;
    int error = 0;
    bool again = false;
    for (const std::string& host : hosts) {
      absl::StatusOr<Address> address = ResolvedAddress(host, service->port_);
      if (!address.ok()) return address.status();
      ScopedFd listener;
      error = ListenOn(*address, &listener);
      if (error == EADDRNOTAVAIL || error == EAFNOSUPPORT) continue;
      if (error != 0) {
        // The port was free at the first address but is taken at another: tries the next free port.
        again = port == 0 && error == EADDRINUSE && attempt < kTriesForAFreePort;
        break;
      }
      if (service->port_ == 0) service->port_ = PortOf(listener.get());
      service->addresses_.push_back(address->family == AF_INET6 ? StrCat("[", host, "]:", service->port_)
                                                                : StrCat(host, ":", service->port_));
      service->listeners_.push_back(std::move(listener));
    }
    if (again) continue;
    if (service->listeners_.empty() || (error != 0 && error != EADDRNOTAVAIL && error != EAFNOSUPPORT)) {
      std::string text = StrCat("--port=", port, ": cannot listen: ", strerror(error));
      if (error == EADDRINUSE) text += "; --port=0 takes one that is free";
      if (error == EACCES) text += "; ports below 1024 are root's";
      return Unavailable(text);
    }
    return service;
  }
}

Service::~Service() {
  if (worker_ <= 0) return;
  pollfd entry{worker_end_.get(), POLLIN, 0};
  poll(&entry, 1, kEndPatienceMs);
  kill(worker_, SIGKILL);
  while (waitpid(worker_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Service::AppendWatched(std::vector<pollfd>* fds) const {
  if (worker_ > 0) {
    fds->push_back({worker_end_.get(), POLLIN, 0});
  } else if (ReadMonotonic() >= not_before_ns_) {
    for (const ScopedFd& listener : listeners_) fds->push_back({listener.get(), POLLIN, 0});
  }
}

void Service::Handle(ControlServer* control) {
  if (worker_ > 0) {
    pollfd entry{worker_end_.get(), POLLIN, 0};
    if (worker_end_.valid() && poll(&entry, 1, 0) <= 0) return;
    int status = 0;
    // Without a pidfd the end of the worker is checked whenever the launcher wakes.
    if (!worker_end_.valid() && waitpid(worker_, &status, WNOHANG | WNOWAIT) == 0) return;
    while (waitpid(worker_, &status, 0) < 0 && errno == EINTR) {
    }
    worker_ = 0;
    worker_end_.Reset();
    if (status != 0) {
      // gRPC aborts if an allocation fails.
      const bool much = WIFSIGNALED(status) ? WTERMSIG(status) == SIGABRT : WEXITSTATUS(status) == kServiceTookTooMuch;
      const std::string how = much                  ? std::string("what arrived there took too much memory")
                              : WIFSIGNALED(status) ? StrCat("signal ", WTERMSIG(status))
                                                    : StrCat("status ", WEXITSTATUS(status));
      note_ = StrCat("the process that serves the port has ended (", how, "); the next connection starts another");
      not_before_ns_ = ReadMonotonic() + kRestartNs;
    }
  }
  if (ReadMonotonic() < not_before_ns_) return;
  std::vector<pollfd> fds;
  for (const ScopedFd& listener : listeners_) fds.push_back({listener.get(), POLLIN, 0});
  if (poll(fds.data(), fds.size(), 0) <= 0) return;
  if (const absl::Status status = Start(control); !status.ok()) {
    note_ = std::string(status.message());
    not_before_ns_ = ReadMonotonic() + kRestartNs;
  }
}

void Service::ContinueWorker() {
  siginfo_t info{};
  if (worker_ <= 0 || waitid(P_PID, static_cast<id_t>(worker_), &info, WSTOPPED | WNOHANG) != 0 || info.si_pid == 0) {
    return;
  }
  kill(worker_, SIGCONT);
  if (!std::exchange(printed_stopped_, true)) note_ = "the process that serves the port was stopped; it goes on";
}

absl::Status Service::Start(ControlServer* control) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return absl::ErrnoToStatus(errno, "cannot serve the port");
  }
  ScopedFd ours(ends[0]);
  ScopedFd theirs(ends[1]);
  std::vector<WorkerDescriptor> descriptors = {{theirs.get(), kServiceControlFd}};
  int listener_fd = kServiceListenerFd;
  for (const ScopedFd& listener : listeners_) descriptors.push_back({listener.get(), listener_fd++});
  // Passes the identity that was read at the start: the files may have been removed or replaced.
  ScopedFd identity;
  if (!tls_identity_.empty()) {
    identity.Reset(memfd_create("tbprof-tls", MFD_CLOEXEC));
    if (!identity.valid() || pwrite(identity.get(), tls_identity_.data(), tls_identity_.size(), 0) !=
                                 static_cast<ssize_t>(tls_identity_.size())) {
      return absl::ErrnoToStatus(errno, "cannot serve the port");
    }
    descriptors.push_back({identity.get(), listener_fd});
  }
  // Blocks all signals: the launcher handles signals of the terminal to the process group, and the worker ends with the
  // launcher.
  sigset_t mask;
  sigfillset(&mask);
  const absl::StatusOr<pid_t> pid = StartWorker({kServiceWorkerArgument, std::to_string(listeners_.size()),
                                                 users_.ToText(), tls_identity_.empty() ? "plain" : "tls"},
                                                descriptors, mask, "cannot serve the port");
  if (!pid.ok()) return pid.status();
  worker_ = *pid;
  printed_stopped_ = false;
  worker_end_.Reset(static_cast<int>(syscall(SYS_pidfd_open, worker_, 0)));
  control->AddClient(std::move(ours));
  return absl::OkStatus();
}

}  // namespace tbprof
