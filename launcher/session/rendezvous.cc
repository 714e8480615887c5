// SPDX-License-Identifier: Apache-2.0
#include "launcher/session/rendezvous.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "launcher/base/control_socket.h"
#include "launcher/base/message_descriptors.h"
#include "launcher/session/spools.h"
#include "wire/clock.h"
#include "wire/segment.h"
#include "writer/base/scoped.h"
#include "writer/base/trusted_path.h"

namespace tbprof {
namespace {

constexpr int kBacklog = 4096;
constexpr uint64_t kCallerPatienceNs = 10'000'000'000;
constexpr uint64_t kSoonNs = 100'000'000;  // a caller that is silent for longer is checked less often
constexpr int kSoonMs = 2, kLaterMs = 20;
// Each waiting caller holds a descriptor. Beyond these limits the oldest caller is disconnected.
constexpr size_t kMaxCallers = 400;
constexpr size_t kMaxForeignCallers = 64;
constexpr std::string_view kSocketSuffix = "/tbprof-XXXXXX/s";

// Removes directories that killed launchers of this user left in `base`. A live launcher holds the lock of its
// directory.
void SweepAbandoned(const std::string& base) {
  const ScopedDirectory listing(opendir(base.c_str()));
  if (listing == nullptr) return;
  while (const dirent* entry = readdir(listing.get())) {
    const std::string name = entry->d_name;
    // Only names that mkdtemp made, so not tbprof-logs-0.
    if (name.size() != 13 || name.compare(0, 7, "tbprof-") != 0 || name.find('-', 7) != std::string::npos) continue;
    const ScopedFd directory(
        openat(dirfd(listing.get()), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    struct stat facts;
    if (!directory.valid() || fstat(directory.get(), &facts) != 0 || facts.st_uid != geteuid()) continue;
    if (flock(directory.get(), LOCK_EX | LOCK_NB) != 0) continue;
    unlinkat(directory.get(), "s", 0);
    unlinkat(directory.get(), kControlName, 0);
    unlinkat(dirfd(listing.get()), name.c_str(), AT_REMOVEDIR);
  }
}

// Whether the file cannot shrink while it is mapped. This check is the first: the kernel answers it itself, without
// asking the file system of the descriptor, which may hang.
bool CannotShrink(int fd) {
  const int seals = fcntl(fd, F_GET_SEALS);  // -1: not a memfd
  constexpr int kNeeded = F_SEAL_SHRINK | F_SEAL_GROW;
  struct statfs system;
  // hugetlbfs is refused: reading a page raises SIGBUS when no huge page is left.
  return seals >= 0 && (seals & kNeeded) == kNeeded && fstatfs(fd, &system) == 0 && system.f_type == TMPFS_MAGIC;
}

// Whether another user can replace a directory, or a directory that is created in it.
bool OthersCanReplace(const std::string& directory) {
  DirectoryWalk walk;
  bool others = false;
  walk.visit = [&](int fd, const std::string&) {
    struct stat facts;
    others |= fstat(fd, &facts) != 0 || OthersCanWrite(facts, /*sticky_is_safe=*/true, S_IWOTH);
    return absl::OkStatus();
  };
  return !OpenDirectoryTrusted(directory, walk).ok() || others;
}

// The first descriptor of a message is the segment. Closes all others.
ScopedFd SegmentOf(msghdr* message) {
  std::vector<ScopedFd> descriptors = TakeDescriptors(message);
  return descriptors.empty() ? ScopedFd() : std::move(descriptors.front());
}

}  // namespace

std::string SessionVariableStart(const std::string& socket_path) {
  return absl::StrCat(kSessionVariable, "=4;", socket_path, ";");
}

std::string FormatSessionVariable(const SessionVariable& variable) {
  std::string text = SessionVariableStart(variable.socket_path);
  text.pop_back();  // each number brings one
  VisitNumbers(variable, [&text](uint64_t number, uint32_t base, uint64_t, uint64_t) {
    absl::StrAppend(&text, ";");
    base == 16 ? absl::StrAppend(&text, absl::Hex(number)) : absl::StrAppend(&text, number);
    return true;
  });
  return text;
}

absl::Status Rendezvous::Open(const std::string& logdir, int logdir_fd) {
  const auto named = [](const char* variable) {
    const char* text = getenv(variable);
    return std::string(text != nullptr ? text : "");
  };
  std::vector<std::string> tried;
  absl::Status first;
  // Tries one base directory; true: the sockets are open there.
  const auto ends = [&](const std::string& base) {
    if (std::find(tried.begin(), tried.end(), base) != tried.end()) return false;
    tried.push_back(base);
    const absl::Status status = OpenIn(base);
    if (first.ok()) first = status;
    return status.ok();
  };
  const auto ends_if_safe = [&](const std::string& base) {
    // The path of the socket must fit a sockaddr, and the session variable, whose fields are separated by `;`.
    if (!base.starts_with('/') || base.size() + kSocketSuffix.size() > kMaxSocketPath || base.find(';') != base.npos) {
      return false;
    }
    // No other user may be able to replace the directory while the command runs.
    return !OthersCanReplace(base) && ends(base);
  };
  for (const std::string& base :
       {named("TMPDIR"), std::string("/tmp"), named("XDG_RUNTIME_DIR"), std::string("/dev/shm")}) {
    if (ends_if_safe(base)) return absl::OkStatus();
  }
  absl::StatusOr<SpoolDirectory> in_logdir = OpenLogdirsDirectory(logdir, logdir_fd);
  if (in_logdir.ok()) {
    parent_ = std::move(in_logdir->made);
    // A remote file system may not support sockets.
    const bool remote = StorageOf(in_logdir->fd.get()) == Storage::kRemote;
    if (!remote && ends_if_safe(in_logdir->path)) return absl::OkStatus();
    Remove();
    parent_ = {};
  }
  // If the root directory belongs to another user, no directory is safe: uses /tmp all the same.
  if (ends("/tmp")) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("no place for the target's socket in TMPDIR, /tmp, XDG_RUNTIME_DIR, /dev/shm or the log directory",
                   first.ok() ? "" : absl::StrCat(": ", first.message())));
}

absl::Status Rendezvous::OpenIn(const std::string& base) {
  // Between mkdtemp and flock another launcher may take the directory for an abandoned one and remove it.
  for (int attempt = 0;; ++attempt) {
    std::string made = absl::StrCat(base, "/tbprof-XXXXXX");
    if (mkdtemp(made.data()) == nullptr) {
      return absl::ErrnoToStatus(errno, absl::StrCat("cannot make a private directory in ", base));
    }
    directory_ = made;
    directory_lock_.Reset(open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    struct stat facts;
    if (directory_lock_.valid() && flock(directory_lock_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      // Another launcher is removing the directory.
    } else if (stat(directory_.c_str(), &facts) == 0) {
      break;
    }
    if (attempt == 100) return absl::UnavailableError(absl::StrCat("cannot keep a private directory in ", base));
  }
  SweepAbandoned(base);
  socket_path_ = absl::StrCat(directory_, "/s");
  for (ScopedFd* listener : {&listen_, &abstract_}) {
    const bool abstract = listener == &abstract_;
    ScopedFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    memcpy(address.sun_path + (abstract ? 1 : 0), socket_path_.c_str(), socket_path_.size() + 1);
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_path_.size() + 1);
    if (!fd.valid() || bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        listen(fd.get(), kBacklog) != 0) {
      const int error = errno;
      if (abstract && error == EADDRINUSE) {
        // A process that watches TMPDIR sees the new directory and may bind the abstract name first.
        notes_.push_back(
            "another process has taken the name of a socket: programs in mount namespaces of their own are not "
            "recorded");
        continue;
      }
      listen_.Reset();
      Remove();
      return absl::ErrnoToStatus(
          error, fd.valid() ? absl::StrCat("cannot listen on ", socket_path_) : std::string("cannot make a socket"));
    }
    *listener = std::move(fd);
  }
  return absl::OkStatus();
}

void Rendezvous::Remove() {
  if (!directory_.empty()) {
    unlink(socket_path_.c_str());
    rmdir(directory_.c_str());
    directory_.clear();
  }
  if (parent_.parent.valid()) parent_.Remove();
}

void Rendezvous::Receive() {
  Accept(listen_.get());
  Accept(abstract_.get());
  TakeHellos();
}

void Rendezvous::ReceiveLast() {
  Receive();
  for (int i = 0; i < 50 && !callers_.empty(); ++i) {
    poll(nullptr, 0, 2);
    TakeHellos();
  }
}

int Rendezvous::TimeoutMs(uint64_t now_ns) const {
  if (callers_.empty()) return -1;
  return now_ns - callers_.back().since_ns < kSoonNs ? kSoonMs : kLaterMs;
}

void Rendezvous::Accept(int listener) {
  if (listener < 0) return;
  // Bounded, so that many starting processes cannot delay the handling of signals.
  for (int i = 0; i < 256; ++i) {
    ScopedFd connection(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!connection.valid()) {
      if ((errno != EMFILE && errno != ENFILE) || callers_.empty()) return pause_.Failed(errno);
      callers_.erase(callers_.begin());
      continue;
    }
    ucred peer{};
    socklen_t size = sizeof(peer);
    const bool foreign =
        getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.uid != geteuid();
    const auto is_like_it = [&](const Caller& caller) { return caller.foreign == foreign; };
    const auto like_it = static_cast<size_t>(std::count_if(callers_.begin(), callers_.end(), is_like_it));
    if (like_it >= (foreign ? kMaxForeignCallers : kMaxCallers)) {
      const auto oldest = std::find_if(callers_.begin(), callers_.end(), is_like_it);
      // A message that it has already sent still counts.
      ReceiveHello(oldest->connection.get());
      callers_.erase(oldest);
    }
    callers_.push_back({std::move(connection), ReadMonotonic(), foreign});
  }
}

// A target sends right after it connects, but it may be preempted in between; the launcher does not wait for it.
void Rendezvous::TakeHellos() {
  const uint64_t now = ReadMonotonic();
  std::erase_if(callers_, [&](const Caller& caller) {
    return ReceiveHello(caller.connection.get()) || now - caller.since_ns > kCallerPatienceNs;
  });
}

bool Rendezvous::ReceiveHello(int connection) {
  ucred peer{};
  socklen_t peer_size = sizeof(peer);
  if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &peer_size) != 0) return true;
  Hello hello{};
  iovec part{&hello, sizeof(hello)};
  alignas(cmsghdr) char control[CMSG_SPACE(4 * sizeof(int))];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t size = recvmsg(connection, &message, MSG_CMSG_CLOEXEC);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  ScopedFd segment_fd;
  if (size >= 0) segment_fd = SegmentOf(&message);
  if (size < static_cast<ssize_t>(offsetof(Hello, segment_bytes)) || hello.nonce != nonce_) return true;
  Introduction introduction{peer.pid, peer.uid, hello.pid, std::nullopt, ScopedFd(), 0};
  if (hello.magic == kInertMagic && size == static_cast<ssize_t>(sizeof(InertNotice))) {
    introduction.notice.emplace();
    memcpy(&*introduction.notice, &hello, sizeof(InertNotice));
    handler_(std::move(introduction));
    return true;
  }
  if (hello.magic != kHelloMagic) return true;
  if (hello.abi != kAbiVersion) {
    notes_.push_back(absl::StrCat("process ", peer.pid, " is not recorded: its library has ABI ", hello.abi,
                                  ", this tbprof ", kAbiVersion, " (upgraded while it ran?)"));
    return true;
  }
  if (size != static_cast<ssize_t>(sizeof(hello))) return true;
  struct stat facts;
  if (!segment_fd.valid() || !CannotShrink(segment_fd.get()) || fstat(segment_fd.get(), &facts) != 0 ||
      static_cast<uint64_t>(facts.st_size) < sizeof(SegmentHeader) ||
      static_cast<uint64_t>(facts.st_size) > LayoutFor(kMaxChunks).bytes) {
    notes_.push_back(absl::StrCat("process ", peer.pid, " is not recorded: what it sent is no sealed segment"));
    return true;
  }
  introduction.segment = std::move(segment_fd);
  introduction.segment_bytes = static_cast<size_t>(facts.st_size);
  handler_(std::move(introduction));
  return true;
}

}  // namespace tbprof
