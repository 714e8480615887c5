// SPDX-License-Identifier: Apache-2.0
#include "launcher/session/session.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/magic.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "launcher/base/deadline.h"
#include "launcher/base/exit_status.h"
#include "launcher/base/version.h"
#include "launcher/session/own_cost.h"
#include "launcher/session/spools.h"
#include "writer/base/file_ops.h"
#include "writer/base/secrets.h"
#include "writer/base/trusted_path.h"
#include "writer/base/utf8.h"
#include "writer/logdir/logdir.h"

namespace tbprof {
namespace {

constexpr int kBacklog = 4096;
constexpr uint64_t kLookIntervalNs = 50'000'000;
constexpr uint64_t kIdleLookIntervalNs = 1'000'000'000;
constexpr uint64_t kDisarmedLookIntervalNs = 100'000'000;
constexpr uint64_t kClockIntervalNs = 1'000'000'000;
constexpr uint64_t kCallerPatienceNs = 10'000'000'000;
constexpr uint64_t kSoonNs = 100'000'000;  // a caller that has been silent for longer is looked at less often
constexpr int kSoonMs = 2, kLaterMs = 20;
// How often is looked where nothing is recorded. Each look wakes a core that the program may be waiting on.
constexpr int kIdleDrainMs = 100;
// And where nothing will be before we arm it. A capture that is asked for in a target begins so much later at most.
constexpr int kDisarmedDrainMs = 200;
// What has just done something will do more.
constexpr uint64_t kBusyNs = 1'000'000'000;
// Of so many processes the end is waited for where nothing happens; of more it is looked for.
constexpr size_t kMaxWatched = 16;
// A caller holds a descriptor. Beyond these, those who have been silent for longest are let go.
constexpr size_t kMaxCallers = 400;
constexpr size_t kMaxForeignCallers = 64;
constexpr uint64_t kLargeAllocation = 1u << 20;
constexpr uint64_t kSlowAllocationNs = 100'000;
// A fork child that has not recorded yet is unknown to us, and its segment may be that of a parent that is gone.
constexpr uint64_t kKeepDeadNs = 10'000'000'000;
constexpr size_t kKeepDead = 32;
constexpr std::string_view kDeleted = " (deleted)";

bool IsLimited(const ProcessSlot& slot) {
  return __atomic_load_n(&slot.state, __ATOMIC_RELAXED) == static_cast<uint32_t>(SlotState::kLive) &&
         __atomic_load_n(&slot.gpu_state, __ATOMIC_ACQUIRE) == static_cast<uint32_t>(GpuState::kLimited);
}
constexpr std::string_view kSocketSuffix = "/tbprof-XXXXXX/s";
constexpr uint32_t kMaxInert = 10000;
// Segments mapped at a time. Each costs this process what it reads of it in every pass (about 60 KiB), a descriptor for
// each process in it, and a share of the drain's time.
constexpr size_t kMaxTargets = 1024;
constexpr rlim_t kOtherDescriptors = 128;
// A plain flush takes a few ms; one that a lost device holds up must not hold up the window.
constexpr int kGpuFlushMs = 1000;
constexpr uint64_t kLateNs = 500'000'000;
// How long the records of a window that a program has begun wait for us to see it. Each profile that is made begins
// with a flush, which a slow disk or a GPU holds up.
constexpr uint64_t kTriggerPatienceNs = 5'000'000'000;
constexpr uint64_t kMaxPartBytes = 16u << 20;
constexpr uint64_t kMinPartBytes = 256u << 10;
// Without --spool-limit, where the spool can only lie in memory.
constexpr uint64_t kMemorySpoolLimit = 256u << 20;
// Of a run that becomes several profiles when it gets long: nothing in it needs more.
constexpr uint64_t kSplitSpoolLimit = uint64_t{2} << 30;

// The limit of descriptors may be raised while a session runs.
size_t MaxTargets() {
  rlimit descriptors{};
  if (getrlimit(RLIMIT_NOFILE, &descriptors) != 0 || descriptors.rlim_cur == RLIM_INFINITY) return kMaxTargets;
  const rlim_t room = descriptors.rlim_cur > 2 * kOtherDescriptors ? descriptors.rlim_cur - kOtherDescriptors
                                                                   : descriptors.rlim_cur / 2;
  return std::min<size_t>(kMaxTargets, room);
}

std::string FirstLine(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

bool CounterIsUsable() {
#if defined(__x86_64__)
  if (FirstLine("/sys/devices/system/clocksource/clocksource0/current_clocksource") != "tsc") return false;
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (line.compare(0, 5, "flags") != 0) continue;
    return line.find(" constant_tsc") != std::string::npos && line.find(" nonstop_tsc") != std::string::npos;
  }
  return false;
#else
  return true;
#endif
}

// Whether our number `pid` is a process with a segment mapped: a fork child in a pid namespace of its own gives a
// number that here is somebody else's. Its parent's number there is not the one here, so this is asked seldom.
bool MapsSegment(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/maps"));
  std::string line;
  while (std::getline(file, line)) {
    if (line.find("/memfd:tbprof") != std::string::npos) return true;
  }
  // Nothing is mapped in a process that has ended and waits to be reaped.
  const char state = SchedulerState(pid);
  return state == 0 || state == 'Z';
}

// Removes what killed launchers of this user left in `base`. A living one holds the lock on its directory.
void SweepAbandoned(const std::string& base) {
  DIR* listing = opendir(base.c_str());
  if (listing == nullptr) return;
  while (const dirent* entry = readdir(listing)) {
    const std::string name = entry->d_name;
    // As mkdtemp names them; tbprof-logs-0 is none.
    if (name.size() != 13 || name.compare(0, 7, "tbprof-") != 0 || name.find('-', 7) != std::string::npos) continue;
    const ScopedFd directory(openat(dirfd(listing), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    struct stat facts;
    if (!directory.valid() || fstat(directory.get(), &facts) != 0 || facts.st_uid != geteuid()) continue;
    if (flock(directory.get(), LOCK_EX | LOCK_NB) != 0) continue;
    unlinkat(directory.get(), "s", 0);
    unlinkat(directory.get(), kControlName, 0);
    unlinkat(dirfd(listing), name.c_str(), AT_REMOVEDIR);
  }
  closedir(listing);
}

// Counter and CLOCK_MONOTONIC at the same moment: the tightest of a few tries.
ClockFact ReadPair(ClockKind clock) {
  ClockFact best{};
  uint64_t best_width = UINT64_MAX;
  for (int i = 0; i < 5; ++i) {
    const uint64_t before = ReadTicks(clock);
    const uint64_t monotonic = ReadMonotonic();
    const uint64_t after = ReadTicks(clock);
    if (after - before >= best_width) continue;
    best_width = after - before;
    timespec real;
    clock_gettime(CLOCK_REALTIME, &real);
    const uint64_t monotonic_again = ReadMonotonic();
    best.ticks = clock == ClockKind::kMonotonic ? monotonic : before + (after - before) / 2;
    best.monotonic_ns = monotonic;
    best.realtime_ns = static_cast<uint64_t>(real.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(real.tv_nsec) -
                       (monotonic_again - monotonic);
  }
  return best;
}

// Whether what is mapped of the file stays there. Asked before anything else: this alone the kernel answers by itself,
// whatever file system the descriptor is of.
bool CannotShrink(int fd) {
  const int seals = fcntl(fd, F_GET_SEALS);  // -1: no memfd
  constexpr int kNeeded = F_SEAL_SHRINK | F_SEAL_GROW;
  struct statfs system;
  // Reading a page of hugetlbfs is SIGBUS where there is no huge page left.
  return seals >= 0 && (seals & kNeeded) == kNeeded && fstatfs(fd, &system) == 0 && system.f_type == TMPFS_MAGIC;
}

int PidfdOpen(pid_t pid) { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0)); }

// Of a link in /proc; no file system is asked, so that none can hold us.
std::string LinkText(const std::string& link) {
  char text[4096];
  const ssize_t length = readlink(link.c_str(), text, sizeof(text));
  return length > 0 ? std::string(text, static_cast<size_t>(length)) : "";
}

bool HasEnded(int pidfd) {
  pollfd entry{pidfd, POLLIN, 0};
  return poll(&entry, 1, 0) > 0;
}

// Whether another user can put something else in the place of a directory, or of one made in it.
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

}  // namespace

absl::StatusOr<std::unique_ptr<Session>> Session::Create(const SessionConfig& config) {
  std::unique_ptr<Session> session(new Session());
  session->config_ = config;
  if (getrandom(&session->nonce_, sizeof(session->nonce_), 0) != sizeof(session->nonce_)) {
    session->nonce_ = ReadMonotonic() ^ static_cast<uint64_t>(getpid()) << 32;
  }
  session->clock_ = CounterIsUsable() ? ClockKind::kCounter : ClockKind::kMonotonic;
  const ClockFact first = ReadPair(session->clock_);
  absl::Status status = session->MakeRendezvous();
  if (!status.ok()) return status;

  // Good to some ten parts in a million, for thresholds; times are converted by the pairs of the whole run.
  ClockFact second = ReadPair(session->clock_);
  while (second.monotonic_ns - first.monotonic_ns < 1'000'000) second = ReadPair(session->clock_);
  session->ticks_per_ns_ =
      static_cast<double>(second.ticks - first.ticks) / static_cast<double>(second.monotonic_ns - first.monotonic_ns);
  const OwnCost cost = MeasureOwnCost(session->clock_, session->ticks_per_ns_);
  status = session->MakeSpool(config);
  if (!status.ok()) return status;

  nlohmann::json facts;
  facts["tbprof"] = std::string(Version());
  facts["host"] = config.host;
  facts["logdir"] = ValidUtf8(config.logdir);
  facts["run"] = ValidUtf8(config.run);
  facts["run_exclusive"] = config.run_exclusive;
  facts["launcher_pid"] = getpid();
  facts["clock"] = static_cast<int>(session->clock_);
  facts["ticks_per_ns"] = session->ticks_per_ns_;
  facts["clock_cost_ns"] = cost.clock_ns;
  facts["record_cost_ns"] = cost.record_ns;
  facts["allocation_cost_ns"] = cost.allocation_ns;
  facts["page_cost_ns"] = cost.page_ns;
  facts["window"] = config.window;
  facts["families"] = config.families;
  facts["ranks"] = config.ranks;
  facts["rank"] = config.rank;
  facts["scheduler"] = config.scheduler;
  facts["wait_threshold_ns"] = config.wait_threshold_ns;
  facts["malloc_interval"] = config.malloc_interval;
  facts["malloc_stamp_every"] = config.malloc_stamp_every;
  facts["step_marker"] = ValidUtf8(config.step_marker);
  facts["max_profile_size"] = config.max_profile_size;
  facts["only_command"] = config.only_command;
  facts["also"] = config.also;
  facts["start_unix_ns"] = first.realtime_ns;
  facts["start_ticks"] = first.ticks;
  std::vector<std::string> command;
  if (config.record_arguments) {
    for (const std::string& word : MaskSecrets(config.command)) command.push_back(ValidUtf8(word));
  } else if (!config.command.empty()) {
    command.push_back(ValidUtf8(config.command[0]));
  }
  facts["command"] = command;
  const std::string text = facts.dump();
  session->drain_->Append(FrameType::kSession, 0, text.data(), text.size());
  session->drain_->Append(FrameType::kClock, 0, &first, sizeof(first));
  session->drain_->Start();
  if (config.armed_at_start) session->OpenWindow(0);
  return session;
}

absl::Status Session::MakeRendezvous() {
  const auto named = [](const char* variable) {
    const char* text = getenv(variable);
    return std::string(text != nullptr ? text : "");
  };
  std::vector<std::string> tried;
  absl::Status first;
  // Whether there is no more to try.
  const auto ends = [&](const std::string& base) {
    if (std::find(tried.begin(), tried.end(), base) != tried.end()) return false;
    tried.push_back(base);
    const absl::Status status = MakeRendezvousIn(base);
    if (first.ok()) first = status;
    return status.ok();
  };
  const auto ends_if_safe = [&](const std::string& base) {
    // The socket's path has to fit a sockaddr, and a variable whose fields `;` separates.
    if (!base.starts_with('/') || base.size() + kSocketSuffix.size() > kMaxSocketPath || base.find(';') != base.npos) {
      return false;
    }
    // And it must lead to our socket as long as the command runs.
    return !OthersCanReplace(base) && ends(base);
  };
  for (const std::string& base :
       {named("TMPDIR"), std::string("/tmp"), named("XDG_RUNTIME_DIR"), std::string("/dev/shm")}) {
    if (ends_if_safe(base)) return absl::OkStatus();
  }
  absl::StatusOr<SpoolDirectory> in_logdir = OpenLogdirsDirectory(config_);
  if (in_logdir.ok()) {
    rendezvous_parent_ = std::move(in_logdir->made);
    // A file server may know no sockets.
    const bool remote = StorageOf(in_logdir->fd.get()) == Storage::kRemote;
    if (!remote && ends_if_safe(in_logdir->path)) return absl::OkStatus();
    RemoveRendezvous();
    rendezvous_parent_ = {};
  }
  // In a root directory of somebody else's, no place is safe.
  if (ends("/tmp")) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("no place for the target's socket in TMPDIR, /tmp, XDG_RUNTIME_DIR, /dev/shm or the log directory",
                   first.ok() ? "" : absl::StrCat(": ", first.message())));
}

absl::Status Session::MakeRendezvousIn(const std::string& base) {
  // Between its making and its lock another launcher may take the directory for one that was left, and remove it.
  for (int attempt = 0;; ++attempt) {
    std::string made = absl::StrCat(base, "/tbprof-XXXXXX");
    if (mkdtemp(made.data()) == nullptr) {
      return absl::ErrnoToStatus(errno, absl::StrCat("cannot make a private directory in ", base));
    }
    directory_ = made;
    directory_lock_.Reset(open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    struct stat facts;
    if (directory_lock_.valid() && flock(directory_lock_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      // The other one is at it.
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
        // Whoever watches TMPDIR sees the directory come, and may take the name before us.
        Note(
            "another process has taken the name of a socket: programs in mount namespaces of their own are not "
            "recorded");
        continue;
      }
      listen_.Reset();
      RemoveRendezvous();
      return absl::ErrnoToStatus(
          error, fd.valid() ? absl::StrCat("cannot listen on ", socket_path_) : std::string("cannot make a socket"));
    }
    *listener = std::move(fd);
  }
  return absl::OkStatus();
}

void Session::RemoveRendezvous() {
  if (!directory_.empty()) {
    unlink(socket_path_.c_str());
    rmdir(directory_.c_str());
    directory_.clear();
  }
  // Fails, as it should, while a spool lies there.
  if (rendezvous_parent_.parent.valid()) {
    unlinkat(rendezvous_parent_.parent.get(), rendezvous_parent_.name.c_str(), AT_REMOVEDIR);
  }
}

// In a directory that others can write to, one of our own: nobody must put another spool in the place of ours.
absl::StatusOr<Session::SpoolDirectory> Session::OpenNamedDirectory(const std::string& path) {
  DirectoryWalk walk;
  walk.make = true;
  absl::StatusOr<FileDescriptor> named = OpenDirectoryTrusted(path, walk);
  if (!named.ok()) {
    return absl::Status(named.status().code(), absl::StrCat("the spool directory: ", named.status().message()));
  }
  SpoolDirectory chosen;
  chosen.path = path;
  struct stat facts;
  if (fstat(named->get(), &facts) != 0 || !OthersCanWrite(facts, /*sticky_is_safe=*/true)) {
    chosen.fd.Reset(named->Release());
    return chosen;
  }
  absl::StatusOr<FileDescriptor> hidden = OpenHiddenDirectory(named->get(), path, &chosen.made.name);
  if (!hidden.ok()) return hidden.status();
  chosen.path = absl::StrCat(path, "/", chosen.made.name);
  chosen.fd.Reset(hidden->Release());
  chosen.made.parent.Reset(named->Release());
  return chosen;
}

absl::StatusOr<Session::SpoolDirectory> Session::OpenLogdirsDirectory(const SessionConfig& config) {
  SpoolDirectory chosen;
  if (config.logdir_fd >= 0) {
    chosen.made.parent.Reset(fcntl(config.logdir_fd, F_DUPFD_CLOEXEC, 0));
  } else {
    absl::StatusOr<LogDirectory> logdir = LogDirectory::Open(config.logdir);
    if (!logdir.ok()) return logdir.status();
    chosen.made.parent.Reset(logdir->fd.Release());
  }
  absl::StatusOr<FileDescriptor> hidden =
      OpenHiddenDirectory(chosen.made.parent.get(), config.logdir, &chosen.made.name);
  if (!hidden.ok()) return hidden.status();
  chosen.path = absl::StrCat(config.logdir, "/", chosen.made.name);
  chosen.fd.Reset(hidden->Release());
  return chosen;
}

// Memory is the target's: a spool there could end it. A file server may hang, and is slow. Elsewhere there is a link to
// it in the logdir, for `recover`.
absl::StatusOr<Session::SpoolDirectory> Session::OpenSpoolDirectory(const SessionConfig& config) {
  link_directory_.Reset();
  made_directories_.clear();
  if (!config.spool_dir.empty()) return OpenNamedDirectory(config.spool_dir);
  absl::StatusOr<SpoolDirectory> in_logdir = OpenLogdirsDirectory(config);
  if (!in_logdir.ok()) return in_logdir.status();
  const Storage storage = StorageOf(in_logdir->fd.get());
  if (storage == Storage::kDisk) return in_logdir;
  in_logdir->in_memory = storage == Storage::kMemory;
  for (const std::string& base : LocalDirectories()) {
    const absl::StatusOr<FileDescriptor> parent = OpenDirectoryTrusted(base);
    if (!parent.ok()) continue;
    std::string name;
    absl::StatusOr<FileDescriptor> other =
        OpenPrivateDirectory(parent->get(), absl::StrCat("tbprof-spool-", geteuid()), &name);
    if (!other.ok() || StorageOf(other->get()) != Storage::kDisk) continue;
    link_directory_ = std::move(in_logdir->fd);
    made_directories_.push_back(std::move(in_logdir->made));
    SpoolDirectory chosen;
    chosen.path = absl::StrCat(base, "/", name);
    chosen.fd.Reset(other->Release());
    return chosen;
  }
  return in_logdir;
}

absl::Status Session::MakeSpool(const SessionConfig& config) {
  const std::string name = absl::StrFormat("%s-%d-%04x.spool", config.run, getpid(), nonce_ & 0xffff);
  SpoolDirectory directory;
  ScopedFd fd;
  int error = 0;
  // Another tbprof removes the hidden directory when it was the last to use it.
  for (int attempt = 0; attempt < 100 && !fd.valid(); ++attempt) {
    absl::StatusOr<SpoolDirectory> opened = OpenSpoolDirectory(config);
    if (!opened.ok()) return opened.status();
    directory = std::move(*opened);
    spool_path_ = absl::StrCat(directory.path, "/", name);
    fd.Reset(openat(directory.fd.get(), name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    error = errno;
    if (error != ENOENT) break;
  }
  if (!fd.valid()) return absl::ErrnoToStatus(error, absl::StrCat("cannot make the spool ", spool_path_));
  // Held while the launcher lives: what `recover` finds unlocked has lost its launcher.
  flock(fd.get(), LOCK_EX | LOCK_NB);
  const SpoolHeader header = MakeSpoolHeader(nonce_);
  if (write(fd.get(), &header, sizeof(header)) != static_cast<ssize_t>(sizeof(header))) {
    error = errno;
    unlink(spool_path_.c_str());
    return absl::ErrnoToStatus(error, absl::StrCat("cannot write the spool ", spool_path_));
  }
  spool_name_ = name;
  spool_directory_.Reset(fcntl(directory.fd.get(), F_DUPFD_CLOEXEC, 0));
  if (directory.made.parent.valid()) made_directories_.push_back(std::move(directory.made));
  if (link_directory_.valid() && symlinkat(spool_path_.c_str(), link_directory_.get(), name.c_str()) != 0) {
    link_directory_.Reset();
  }
  spool_link_ = LinkText(absl::StrCat("/proc/self/fd/", fd.get()));
  spool_limit_ = config.spool_limit;
  struct statvfs space;
  if (spool_limit_ == 0 && fstatvfs(fd.get(), &space) == 0) {
    spool_limit_ = static_cast<uint64_t>(space.f_bavail) * space.f_frsize / 2;
    if (config.split_ns != 0) spool_limit_ = std::min(spool_limit_, kSplitSpoolLimit);
    if (directory.in_memory) spool_limit_ = std::min(spool_limit_, kMemorySpoolLimit);
  }
  if (directory.in_memory) {
    Note(absl::StrCat("the spool is in memory (", directory.path, "), at most ", spool_limit_ >> 20,
                      " MiB of it; --spool-dir=DIR on a disk takes more"));
  }
  SpoolPlan plan;
  plan.path = spool_path_;
  plan.limit = spool_limit_;
  plan.reserve = spool_limit_ / 4;
  if (spool_limit_ != 0) plan.part_bytes = std::clamp(spool_limit_ / 16, kMinPartBytes, kMaxPartBytes);
  plan.parts_at_once = !config.everything;
  if (config.split_ns != 0) {
    plan.split_bytes = spool_limit_ / 8 * 5;
    plan.split_sliding_ticks = TicksOf(config.split_ns);
  }
  plan.session = nonce_;
  plan.long_ticks = std::max<uint64_t>(TicksOf(config.long_span_ns), 1);
  drain_ = std::make_unique<Drain>(std::move(fd), clock_, plan, std::move(directory.fd));
  governor_ = std::make_unique<SamplingGovernor>(config.malloc_interval, config.spool_rate);
  SetDrainInterval();
  sliding_ticks_ = TicksOf(config.trigger != TriggerKind::kNone ? kTriggerPatienceNs : config.last_ns);
  SetRetention();
  return absl::OkStatus();
}

Session::~Session() {
  if (hangs_) {
    (void)drain_.release();
  } else if (drain_ != nullptr) {
    drain_->Stop();
  }
  RemoveRendezvous();
}

std::string Session::Variable() const {
  const uint32_t chunks =
      static_cast<uint32_t>(std::clamp<uint64_t>(config_.segment_bytes / kChunkBytes, kMinChunks, kMaxChunks));
  const auto ticks = [&](uint64_t ns) { return static_cast<uint64_t>(static_cast<double>(ns) * ticks_per_ns_); };
  std::ifstream file("/proc/self/status");
  const std::string status((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return absl::StrFormat("%s=4;%s;%x;%d;%d;%d;%d;%d;%d;%d;%d;%d;%d;%d;%d;%d;%d;%x;%d", kSessionVariable, socket_path_,
                         nonce_, static_cast<int>(clock_), ArmedFamilies(), ticks(config_.wait_threshold_ns),
                         config_.malloc_interval, kLargeAllocation, ticks(kSlowAllocationNs), chunks,
                         config_.only_command ? getpid() : 0, config_.record_arguments ? 1 : 0, config_.capture_signal,
                         SeccompFilters(status.c_str()), config_.gpu_options, config_.malloc_stamp_every,
                         static_cast<int>(config_.trigger), config_.trigger_name, config_.families);
}

void Session::Handle() {
  TakeCallers();
  const uint64_t now = ReadMonotonic();
  if (now >= next_look_ns_) {
    if (drain_->TakeNews(now >= busy_until_ns_)) busy_until_ns_ = now + kBusyNs;
    size_t dead = 0;
    for (auto& target : targets_) {
      LookAfter(target.get(), now);
      dead += target->dead ? 1 : 0;
    }
    std::erase_if(targets_, [&](const std::unique_ptr<Target>& target) {
      if (!target->dead || (now - target->dead_since_ns < kKeepDeadNs && dead <= kKeepDead)) return false;
      // Give what a last fork child may still have written one more pass.
      if (now - target->dead_since_ns < 4 * kLookIntervalNs) return false;
      --dead;
      triggers_.ForgetSegment(target->mapped->number, Now());
      drain_->Remove(target->mapped->number);
      return true;
    });
    if (config_.capture_signal != 0) ReadCaptureRequests();
    if (config_.trigger != TriggerKind::kNone) ReadTriggers();
    next_look_ns_ = now + (now >= busy_until_ns_ ? kIdleLookIntervalNs
                           : armed()             ? kLookIntervalNs
                                                 : kDisarmedLookIntervalNs);
  }
  // At a look that is about then, to wake once for both.
  if (now + kIdleLookIntervalNs / 4 >= next_clock_ns_) {
    TakeClockPair();
    AdaptSampling(now);
    next_clock_ns_ = now + kClockIntervalNs;
  }
}

int Session::TimeoutMs() const {
  const uint64_t now = ReadMonotonic();
  uint64_t next = std::min(next_look_ns_, next_clock_ns_);
  if (!callers_.empty()) return now - callers_.back().since_ns < kSoonNs ? kSoonMs : kLaterMs;
  return next <= now ? 0 : static_cast<int>((next - now) / 1'000'000 + 1);
}

void Session::AppendWatched(std::vector<pollfd>* fds) const {
  fds->push_back({drain_->news_fd(), POLLIN, 0});
  if (ReadMonotonic() < busy_until_ns_) return;
  size_t watched = 0;
  for (const auto& target : targets_) {
    for (const Process& process : target->processes) {
      if (!process.pidfd.valid()) continue;
      if (++watched > kMaxWatched) return;
      fds->push_back({process.pidfd.get(), POLLIN, 0});
    }
  }
}

void Session::TakeCallers() {
  Accept(listen_.get());
  Accept(abstract_.get());
  TakeHellos();
}

void Session::Accept(int listener) {
  if (listener < 0) return;
  // Bounded, so that a storm of processes cannot keep us from signals.
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
      // What it has sent counts.
      ReceiveHello(oldest->connection.get());
      callers_.erase(oldest);
    }
    callers_.push_back({std::move(connection), ReadMonotonic(), foreign});
  }
}

// A target sends right after it connects, but between the two it may be preempted for long; nobody waits for it.
void Session::TakeHellos() {
  const uint64_t now = ReadMonotonic();
  std::erase_if(callers_, [&](const Caller& caller) {
    return ReceiveHello(caller.connection.get()) || now - caller.since_ns > kCallerPatienceNs;
  });
}

bool Session::ReceiveHello(int connection) {
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
  for (cmsghdr* entry = CMSG_FIRSTHDR(&message); entry != nullptr && size >= 0; entry = CMSG_NXTHDR(&message, entry)) {
    if (entry->cmsg_level != SOL_SOCKET || entry->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (entry->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      memcpy(&fd, CMSG_DATA(entry) + i * sizeof(int), sizeof(int));
      if (i == 0 && !segment_fd.valid()) {
        segment_fd.Reset(fd);
      } else {
        close(fd);
      }
    }
  }
  if (size < static_cast<ssize_t>(offsetof(Hello, segment_bytes)) || hello.nonce != nonce_) return true;
  if (hello.magic == kInertMagic && size == static_cast<ssize_t>(sizeof(InertNotice))) {
    InertNotice notice;
    memcpy(&notice, &hello, sizeof(notice));
    TakeInert(notice, peer.pid);
    return true;
  }
  if (hello.magic != kHelloMagic) return true;
  if (hello.abi != kAbiVersion) {
    Note(absl::StrCat("process ", peer.pid, " is not recorded: its library has ABI ", hello.abi, ", this tbprof ",
                      kAbiVersion, " (upgraded while it ran?)"));
    return true;
  }
  if (size != static_cast<ssize_t>(sizeof(hello))) return true;
  struct stat facts;
  if (!segment_fd.valid() || !CannotShrink(segment_fd.get()) || fstat(segment_fd.get(), &facts) != 0 ||
      static_cast<uint64_t>(facts.st_size) < sizeof(SegmentHeader) ||
      static_cast<uint64_t>(facts.st_size) > LayoutFor(kMaxChunks).bytes) {
    Note(absl::StrCat("process ", peer.pid, " is not recorded: what it sent is no sealed segment"));
    return true;
  }
  const auto bytes = static_cast<size_t>(facts.st_size);
  if (targets_.size() >= MaxTargets()) {
    Refuse(segment_fd.get(), bytes);
    return true;
  }
  auto mapped = std::make_unique<MappedSegment>();
  mapped->mapping = ScopedMapping(
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, segment_fd.get(), 0), bytes);
  if (!mapped->mapping.valid()) {
    Note(absl::StrCat("process ", peer.pid, " is not recorded: cannot map its segment: ", strerror(errno)));
    return true;
  }
  SegmentHeader header;
  memcpy(&header, mapped->mapping.data(), sizeof(header));
  if (CheckSegmentHeader(header, bytes) != SegmentFault::kNone || header.nonce != nonce_) {
    Note(absl::StrCat("process ", peer.pid, " is not recorded: its segment's header is not one of this version"));
    return true;
  }
  mapped->number = ++segments_seen_;
  mapped->pid = peer.pid;
  mapped->same_pids = peer.pid == hello.pid;
  mapped->segment = SegmentAt(mapped->mapping.data(), header.chunk_count);
  mapped->operation_count = header.operation_count;
  if (targets_.size() < MaxTargets() / 2) mapped->file = std::move(segment_fd);
  EndEarlierImage(peer.pid, hello.pid);
  SegmentFact fact{};
  fact.pid = peer.pid;
  fact.uid = peer.uid;
  fact.seen_ticks = Now();
  auto target = std::make_unique<Target>();
  target->mapped = drain_->Add(std::move(mapped), fact);
  if (triggers_disarmed_) {
    __atomic_store_n(&TriggersOf(target->mapped->segment.header)->families, 0u, __ATOMIC_SEQ_CST);
  }
  SetControl(target.get());
  SetSampling(target.get());
  LookAfter(target.get(), ReadMonotonic());
  targets_.push_back(std::move(target));
  return true;
}

bool Session::MayHold(const Target& target, pid_t pid, int32_t inner_pid) {
  for (const Process& process : target.processes) {
    if (process.pid == pid) return true;
  }
  const Segment& segment = target.mapped->segment;
  const uint32_t high = std::min(__atomic_load_n(&segment.header->process_high, __ATOMIC_ACQUIRE), kProcessSlots);
  for (uint32_t i = 0; i < high; ++i) {
    const ProcessSlot& slot = segment.process_slots[i];
    if (__atomic_load_n(&slot.state, __ATOMIC_ACQUIRE) == static_cast<uint32_t>(SlotState::kLive) &&
        __atomic_load_n(&slot.pid, __ATOMIC_RELAXED) == inner_pid) {
      return true;
    }
  }
  return false;
}

bool Session::HasOurNumbers(const Target& target, const ProcessSlot& slot) {
  const uint32_t parent = __atomic_load_n(&slot.parent_serial, __ATOMIC_RELAXED);
  const int32_t parent_pid = __atomic_load_n(&slot.parent_pid, __ATOMIC_RELAXED);
  if (parent == 1) return parent_pid == target.mapped->pid;
  return std::any_of(target.processes.begin(), target.processes.end(), [&](const Process& process) {
    return process.serial == parent && process.pid != 0 && process.pid == parent_pid;
  });
}

void Session::EndEarlierImage(pid_t pid, int32_t inner_pid) {
  for (auto& earlier : targets_) {
    // Each hello comes here: a look at every process of every segment would take longer than the processes live.
    if (!MayHold(*earlier, pid, inner_pid)) continue;
    // A child that execs right after its fork may not have been seen yet.
    LookAfter(earlier.get(), ReadMonotonic());
    std::erase_if(earlier->processes, [&](const Process& process) {
      const bool is_it = process.pid != 0 ? process.pid == pid : pid == inner_pid && process.inner_pid == pid;
      if (!is_it) return false;
      drain_->ProcessEnded(earlier->mapped->number, process.serial, process.pid);
      return true;
    });
  }
}

// A library that stays out of the way, and why.
void Session::TakeInert(const InertNotice& notice, pid_t pid) {
  if (inert_told_ == kMaxInert) return;
  ++inert_told_;
  // It goes on with its start; who it is can be had while it lives.
  char executable[4096];
  const ssize_t length = readlink(absl::StrCat("/proc/", pid, "/exe").c_str(), executable, sizeof(executable));
  InertFact fact{};
  fact.ticks = Now();
  fact.pid = pid;
  fact.inner_pid = notice.pid;
  fact.reason = notice.reason;
  fact.error = notice.error;
  std::string payload(reinterpret_cast<const char*>(&fact), sizeof(fact));
  if (length > 0) payload.append(executable, static_cast<size_t>(length));
  drain_->Append(FrameType::kInert, 0, payload.data(), payload.size());
}

// One too many: its library stays inert, which the control word tells it.
void Session::Refuse(int segment_fd, uint64_t bytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  if (bytes >= page && page >= kTriggersOffset + sizeof(Triggers)) {
    ScopedMapping header(mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_SHARED, segment_fd, 0), page);
    if (header.valid()) {
      auto* const refused = static_cast<SegmentHeader*>(header.data());
      __atomic_store_n(&TriggersOf(refused)->families, 0u, __ATOMIC_RELEASE);
      __atomic_store_n(&refused->control, 0u, __ATOMIC_RELEASE);
    }
  }
  if (targets_refused_++ == 0) {
    Note(absl::StrCat("more than ", targets_.size(), " programs at a time: further ones are not recorded",
                      targets_.size() < kMaxTargets ? " (ulimit -n)" : ""));
  }
}

void Session::RecordExit(uint32_t segment, const Process& process) {
  const std::optional<ExitStatus> status = ExitStatusOf(process.pidfd.get(), process.pid);
  if (!status.has_value()) return;
  ExitFact fact{};
  fact.ticks = Now();
  fact.process_serial = process.serial;
  fact.exit_code = status->code;
  fact.exit_signal = status->signal;
  if (status->signal == SIGKILL) {
    const std::optional<uint64_t> kills = OutOfMemoryKills();
    if (kills > out_of_memory_kills_) fact.flags |= kExitOutOfMemory;
    out_of_memory_kills_ = kills;
  }
  drain_->Append(FrameType::kExit, segment, &fact, sizeof(fact));
}

// Sees new processes of the segment and the end of known ones.
void Session::LookAfter(Target* target, uint64_t now_ns) {
  const MappedSegment* mapped = target->mapped;
  const Segment& segment = mapped->segment;
  const uint32_t high = std::min(__atomic_load_n(&segment.header->process_high, __ATOMIC_ACQUIRE), kProcessSlots);
  // Whose end cannot be seen, and whose slot has gone to another.
  std::erase_if(target->processes, [&](const Process& process) {
    return !process.pidfd.valid() &&
           __atomic_load_n(&segment.process_slots[process.slot].serial, __ATOMIC_RELAXED) != process.serial;
  });
  if (target->seen_serials.size() < high) target->seen_serials.resize(high);
  for (uint32_t i = 0; i < high; ++i) {
    const ProcessSlot& slot = segment.process_slots[i];
    if (__atomic_load_n(&slot.state, __ATOMIC_ACQUIRE) != static_cast<uint32_t>(SlotState::kLive)) continue;
    const uint32_t serial = __atomic_load_n(&slot.serial, __ATOMIC_RELAXED);
    if (serial == 0 || std::exchange(target->seen_serials[i], serial) == serial) continue;
    const int32_t inner = __atomic_load_n(&slot.pid, __ATOMIC_RELAXED);
    Process process{i, serial, 0, inner, ScopedFd()};
    bool gone = false;
    if (serial == 1) {
      process.pid = mapped->pid;
    } else if (mapped->same_pids) {
      // In a storm of children most have ended by now: one look tells.
      process.pidfd.Reset(PidfdOpen(inner));
      gone = !process.pidfd.valid() && errno == ESRCH;
      // One that is in the middle of its exec maps no segment.
      if (gone || HasOurNumbers(*target, slot) || MapsSegment(inner)) {
        process.pid = inner;
      } else {
        process.pidfd.Reset();
      }
    }
    if (process.pid > 0) {
      // A number is one process at a time: the earlier one has ended, or never was. A target that claims a thousand
      // processes of one number gets one descriptor of ours.
      std::erase_if(target->processes, [&](const Process& earlier) {
        if (earlier.pid != process.pid) return false;
        drain_->ProcessEnded(mapped->number, earlier.serial, earlier.pid);
        return true;
      });
      if (!gone && !process.pidfd.valid()) {
        process.pidfd.Reset(PidfdOpen(process.pid));
        gone = !process.pidfd.valid() && errno == ESRCH;
      }
      drain_->ProcessSeen(mapped->number, serial, process.pid);
      if (gone) {
        drain_->ProcessEnded(mapped->number, serial, process.pid);
        continue;
      }
    }
    target->dead = false;
    target->processes.push_back(std::move(process));
  }
  std::erase_if(target->processes, [&](const Process& process) {
    if (!process.pidfd.valid() || !HasEnded(process.pidfd.get())) return false;
    RecordExit(mapped->number, process);
    drain_->ProcessEnded(mapped->number, process.serial, process.pid);
    return true;
  });
  if (target->processes.empty() && !target->dead) {
    target->dead = true;
    target->dead_since_ns = now_ns;
  }
  const uint32_t missed = __atomic_load_n(&segment.header->modules_missed, __ATOMIC_RELAXED);
  if (missed != target->modules_missed && now_ns >= target->next_maps_ns && !target->dead) {
    target->modules_missed = missed;
    ReadMaps(target);
    target->next_maps_ns = now_ns + 1'000'000'000;
  }
}

void Session::ReadCaptureRequests() {
  for (const auto& target : targets_) {
    const SegmentHeader* header = target->mapped->segment.header;
    const uint32_t requests = __atomic_load_n(&header->capture_requests, __ATOMIC_RELAXED);
    capture_requests_ += requests - target->capture_requests;
    target->capture_requests = requests;
  }
}

bool Session::HandlesCaptureSignal(pid_t pid) const {
  // The last one is the image that the process runs.
  for (auto target = targets_.rbegin(); target != targets_.rend(); ++target) {
    if ((*target)->mapped->pid != pid) continue;
    const uint32_t flags = __atomic_load_n(&(*target)->mapped->segment.process_slots[0].flags, __ATOMIC_ACQUIRE);
    return (flags & kProcessHandlesSignal) != 0;
  }
  return false;
}

void Session::ReadMaps(Target* target) {
  std::ifstream file(absl::StrCat("/proc/", target->mapped->pid, "/maps"));
  std::ostringstream text;
  std::string line;
  // Code only; a process with a hundred thousand data mappings is no one's business here.
  while (std::getline(file, line) && text.tellp() < std::streamoff{4} << 20) {
    if (line.find('/') != std::string::npos) text << line << '\n';
  }
  const std::string all = text.str();
  if (!all.empty()) drain_->Append(FrameType::kMaps, target->mapped->number, all.data(), all.size());
  ++target->maps_read;
}

void Session::TakeClockPair() {
  const ClockFact pair = ReadPair(clock_);
  drain_->Append(FrameType::kClock, 0, &pair, sizeof(pair));
}

void Session::SetControl(Target* target) {
  SegmentHeader* const header = target->mapped->segment.header;
  __atomic_store_n(&header->torch_all, asked_for_.empty() ? 0u : 1u, __ATOMIC_SEQ_CST);
  __atomic_store_n(&header->gpu_windows, GpuWindows(), __ATOMIC_SEQ_CST);
  const uint32_t families = ArmedFamilies();
  // A range that begins in the program arms it: that is never taken away unseen, not for a moment. A segment that
  // changes all the time has its way.
  constexpr int kTries = 1000;
  uint32_t control = __atomic_load_n(&header->control, __ATOMIC_SEQ_CST);
  for (int i = 0; i < kTries; ++i) {
    // One that was taken may not have its window yet: that of the range before is closed first.
    const bool is_begun = config_.trigger != TriggerKind::kNone && !triggers_disarmed_ &&
                          (triggers_.is_open() ||
                           __atomic_load_n(&TriggersOf(header)->reported, __ATOMIC_SEQ_CST) != target->borders_seen);
    const uint32_t wanted = (control & ~uint32_t{kFamilyAll}) | (is_begun ? config_.families : families);
    if (__atomic_compare_exchange_n(&header->control, &control, wanted, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
      break;
  }
  AskGpus(target->mapped, nullptr);
}

void Session::SetSampling(Target* target) {
  SegmentHeader* const header = target->mapped->segment.header;
  const Sampling& sampling = governor_->sampling();
  __atomic_store_n(&header->sample_stack_bytes, sampling.stack_bytes, __ATOMIC_RELAXED);
  __atomic_store_n(&header->malloc_interval, sampling.interval, __ATOMIC_RELAXED);
}

void Session::AdaptSampling(uint64_t now_ns) {
  const SpoolWriter& spool = drain_->spool();
  if (!governor_->Update(now_ns, spool.sample_bytes(), spool.drained_bytes())) return;
  for (auto& target : targets_) SetSampling(target.get());
  const SamplingFact fact{Now(), governor_->sampling().interval, governor_->sampling().stack_bytes, 0};
  drain_->Append(FrameType::kSampling, 0, &fact, sizeof(fact));
}

void Session::ReadTriggers() {
  const uint64_t now = Now();
  const uint64_t patience = TicksOf(kTriggerPatienceNs);
  for (const auto& target : targets_) {
    const uint32_t segment = target->mapped->number;
    triggers_.Read(segment, *TriggersOf(target->mapped->segment.header), &target->borders_seen,
                   now > patience ? now - patience : 0, now);
    triggers_.Forget(
        segment,
        [&](uint32_t serial) {
          return std::any_of(target->processes.begin(), target->processes.end(),
                             [&](const Process& process) { return process.serial == serial; });
        },
        now);
    // One that armed itself for a border that was lost, or behind our back.
    SegmentHeader* const header = target->mapped->segment.header;
    const uint32_t control = __atomic_load_n(&header->control, __ATOMIC_RELAXED);
    if (!triggers_.is_open() && (control & kFamilyAll) != ArmedFamilies() &&
        __atomic_load_n(&TriggersOf(header)->reported, __ATOMIC_RELAXED) == target->borders_seen) {
      SetControl(target.get());
    }
  }
}

std::vector<TriggerChange> Session::TakeTriggers() {
  if (config_.trigger == TriggerKind::kNone) return {};
  return triggers_.Take();
}

void Session::DisarmTriggers() {
  triggers_disarmed_ = true;
  for (const auto& target : targets_) {
    __atomic_store_n(&TriggersOf(target->mapped->segment.header)->families, 0u, __ATOMIC_SEQ_CST);
    SetControl(target.get());
  }
}

void Session::AskGpus(MappedSegment* mapped, std::vector<GpuAnswer>* answers) {
  const Segment& segment = mapped->segment;
  const uint32_t high = std::min(__atomic_load_n(&segment.header->process_high, __ATOMIC_RELAXED), kProcessSlots);
  for (uint32_t i = 0; i < high; ++i) {
    ProcessSlot* const slot = &segment.process_slots[i];
    if (__atomic_load_n(&slot->state, __ATOMIC_RELAXED) != static_cast<uint32_t>(SlotState::kLive)) continue;
    const uint32_t state = __atomic_load_n(&slot->gpu_state, __ATOMIC_ACQUIRE);
    if (state == static_cast<uint32_t>(GpuState::kNone) || state == static_cast<uint32_t>(GpuState::kOff)) continue;
    const uint32_t wanted = __atomic_add_fetch(&slot->gpu_flush_requested, 1, __ATOMIC_ACQ_REL);
    syscall(SYS_futex, &slot->gpu_flush_requested, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
    if (answers != nullptr) answers->push_back({slot, wanted});
  }
}

void Session::FlushGpus(int limit_ms) {
  std::vector<GpuAnswer> answers;
  for (auto& target : targets_) {
    if (!target->dead) AskGpus(target->mapped, &answers);
  }
  const uint64_t until = ReadMonotonic() + static_cast<uint64_t>(limit_ms) * 1'000'000;
  for (const GpuAnswer& answer : answers) {
    for (;;) {
      const uint32_t done = __atomic_load_n(&answer.slot->gpu_flush_done, __ATOMIC_ACQUIRE);
      if (static_cast<int32_t>(done - answer.wanted) >= 0) break;
      const uint32_t state = __atomic_load_n(&answer.slot->gpu_state, __ATOMIC_RELAXED);
      if (state == static_cast<uint32_t>(GpuState::kNone) || state == static_cast<uint32_t>(GpuState::kOff)) break;
      if (ReadMonotonic() >= until) return;
      poll(nullptr, 0, 1);
    }
  }
}

uint32_t Session::ArmedFamilies() const {
  // The collector of annotations looks for ranges only where they are recorded.
  uint32_t families = config_.trigger == TriggerKind::kRange && !closed_ ? uint32_t{kFamilyAnnotation} : 0;
  for (const auto& [number, wanted] : open_) families |= wanted;
  return families & config_.families;
}

void Session::SetDrainInterval() {
  const bool may_record = armed() || config_.trigger != TriggerKind::kNone;
  drain_->SetIdleInterval(may_record ? kIdleDrainMs : kDisarmedDrainMs, may_record);
}

void Session::ArmAgain(uint32_t before) {
  SetDrainInterval();
  if (ArmedFamilies() == before) return;
  for (auto& target : targets_) SetControl(target.get());
}

void Session::WriteWindow(uint32_t number, WindowEvent event, uint64_t ticks, uint32_t length_ms, uint32_t families) {
  const WindowFact fact{ticks, number, event, config_.families & families, length_ms};
  drain_->Append(FrameType::kWindow, 0, &fact, sizeof(fact));
}

void Session::SetRetention() {
  Retention retention;
  retention.everything = config_.everything;
  // A window's end is the last that was recorded, which a busy machine lets us see later.
  retention.sliding_ticks = sliding_ticks_ == 0 ? 0 : sliding_ticks_ + TicksOf(kLateNs);
  retention.totals = config_.everything || sliding_ticks_ != 0;
  for (const WindowRange& window : ranges_) retention.ranges.push_back(window.range);
  drain_->SetRetention(std::move(retention));
}

uint64_t Session::OpenWindow(uint32_t number, uint32_t families, uint64_t from_ticks) {
  // The wall clock may have been set since the last.
  if (number != 0 && from_ticks == 0) TakeClockPair();
  const uint64_t ticks = from_ticks != 0 ? from_ticks : Now();
  if (number == 0) {
    run_open_ticks_ = ticks;
    run_open_ns_ = ReadMonotonic();
  }
  // Before anything is recorded for it. The run's own where all of it is kept, or the last of it, needs no range.
  if (number != 0 || (!config_.everything && sliding_ticks_ == 0))
    ranges_.push_back({number, {ticks, UINT64_MAX, true}});
  SetRetention();
  WriteWindow(number, WindowEvent::kOpened, ticks, number == 0 ? static_cast<uint32_t>(config_.last_ns / 1'000'000) : 0,
              families);
  const uint32_t before = ArmedFamilies();
  open_[number] = families;
  OpenGpuWindow(number, families);
  ArmAgain(before);
  return ticks;
}

uint32_t Session::GpuWindows() const {
  return gpu_windows_opened_ * 2 * kGpuWindowOpen + (gpu_windows_.empty() ? 0 : kGpuWindowOpen);
}

void Session::OpenGpuWindow(uint32_t number, uint32_t families) {
  // The run's own, all of it or the last of it, lasts as long as the program.
  const bool is_run = number == kEndWindow || (number == 0 && (config_.everything || sliding_ticks_ != 0));
  if (is_run || (families & config_.families & kFamilyGpu) == 0 || !gpu_windows_.insert(number).second) return;
  ++gpu_windows_opened_;
  SetGpuWindows();
}

void Session::SetGpuWindows() {
  for (auto& target : targets_) {
    __atomic_store_n(&target->mapped->segment.header->gpu_windows, GpuWindows(), __ATOMIC_SEQ_CST);
    AskGpus(target->mapped, nullptr);
  }
}

template <typename Visit>
void Session::VisitLimitedGpus(Visit visit) const {
  for (const auto& target : targets_) {
    if (target->dead) continue;
    const Segment& segment = target->mapped->segment;
    const uint32_t high = std::min(__atomic_load_n(&segment.header->process_high, __ATOMIC_RELAXED), kProcessSlots);
    for (uint32_t i = 0; i < high; ++i) {
      const ProcessSlot& slot = segment.process_slots[i];
      if (IsLimited(slot) && !visit(slot)) return;
    }
  }
}

// Until the recording of a window that was opened has begun in each.
void Session::WaitForLimitedGpus(int limit_ms) {
  const uint64_t until = ReadMonotonic() + static_cast<uint64_t>(limit_ms) * 1'000'000;
  VisitLimitedGpus([&](const ProcessSlot& slot) {
    while (IsLimited(slot)) {
      if (ReadMonotonic() >= until) return false;
      poll(nullptr, 0, 1);
    }
    return true;
  });
}

pid_t Session::FindLimitedGpu() const {
  pid_t found = 0;
  VisitLimitedGpus([&](const ProcessSlot& slot) {
    found = __atomic_load_n(&slot.pid, __ATOMIC_RELAXED);
    return false;
  });
  return found;
}

void Session::SetAllTorchOperations() {
  for (auto& target : targets_) {
    __atomic_store_n(&target->mapped->segment.header->torch_all, asked_for_.empty() ? 0u : 1u, __ATOMIC_SEQ_CST);
  }
}

// A process that runs no operation does not answer.
void Session::WaitForAllTorchOperations(int limit_ms) {
  const uint64_t until = ReadMonotonic() + static_cast<uint64_t>(limit_ms) * 1'000'000;
  for (auto& target : targets_) {
    if (target->dead) continue;
    const Segment& segment = target->mapped->segment;
    const uint32_t high = std::min(__atomic_load_n(&segment.header->process_high, __ATOMIC_RELAXED), kProcessSlots);
    for (uint32_t i = 0; i < high; ++i) {
      const ProcessSlot& slot = segment.process_slots[i];
      while (__atomic_load_n(&slot.state, __ATOMIC_RELAXED) == static_cast<uint32_t>(SlotState::kLive) &&
             __atomic_load_n(&slot.torch_recording, __ATOMIC_ACQUIRE) ==
                 static_cast<uint32_t>(TorchRecording::kSampled)) {
        if (ReadMonotonic() >= until) return;
        poll(nullptr, 0, 1);
      }
    }
  }
}

uint64_t Session::OpenAskedWindow(uint32_t number, uint32_t families) {
  constexpr int kPatienceMs = 50;
  asked_for_.insert(number);
  SetAllTorchOperations();
  // Where no window is open, operations begin to be recorded when this one opens.
  if ((ArmedFamilies() & kFamilyAnnotation) != 0) WaitForAllTorchOperations(kPatienceMs);
  OpenGpuWindow(number, families);
  if ((families & kFamilyGpu) != 0) WaitForLimitedGpus(kPatienceMs);
  return OpenWindow(number, families);
}

uint64_t Session::CloseWindow(uint32_t number, uint64_t at_ticks) {
  // Who has called by now lived in this window: a library's notice that it stays inert is dated when it is read.
  if (at_ticks == 0) TakeCallers();
  const uint64_t ticks = at_ticks != 0 ? at_ticks : Now();
  const uint32_t before = ArmedFamilies();
  open_.erase(number);
  if (asked_for_.erase(number) != 0) SetAllTorchOperations();
  if (gpu_windows_.erase(number) != 0) SetGpuWindows();
  ArmAgain(before);
  WriteWindow(number, WindowEvent::kClosed, ticks);
  for (WindowRange& window : ranges_) window.closing |= window.number == number;
  TakeClockPair();
  return ticks;
}

void Session::AddWindow(uint32_t number, uint64_t from_ticks, uint64_t to_ticks) {
  ranges_.push_back({number, {from_ticks, UINT64_MAX, true}, true});
  SetRetention();
  WriteWindow(number, WindowEvent::kOpened, from_ticks);
  WriteWindow(number, WindowEvent::kClosed, to_ticks);
}

void Session::SplitRun(uint64_t start_to, uint64_t end_ns, bool add_start) {
  // No further: what comes now must be able to go.
  if (add_start) ranges_.push_back({kStartWindow, {run_open_ticks_, start_to, true}});
  config_.everything = false;
  sliding_ticks_ = TicksOf(end_ns);
  if (auto run = open_.extract(0); !run.empty()) {
    run.key() = kEndWindow;
    open_.insert(std::move(run));
  }
  SetRetention();
  if (add_start) {
    WriteWindow(kStartWindow, WindowEvent::kOpened, run_open_ticks_);
    WriteWindow(kStartWindow, WindowEvent::kClosed, start_to);
  }
  WriteWindow(kEndWindow, WindowEvent::kOpened, start_to, static_cast<uint32_t>(end_ns / 1'000'000));
  WriteWindow(0, WindowEvent::kReplaced, start_to);
}

uint64_t Session::TicksInRun(uint64_t ns) const {
  const uint64_t passed_ns = ReadMonotonic() - run_open_ns_;
  if (passed_ns == 0) return run_open_ticks_;
  const double rate = static_cast<double>(Now() - run_open_ticks_) / static_cast<double>(passed_ns);
  return run_open_ticks_ + static_cast<uint64_t>(static_cast<double>(ns) * rate);
}

void Session::NarrowRun(uint64_t from_ticks, uint64_t to_ticks) {
  ranges_.push_back({0, {from_ticks, UINT64_MAX, true}, true});
  config_.everything = false;
  SetRetention();
  WriteWindow(0, WindowEvent::kOpened, from_ticks);
  const uint32_t before = ArmedFamilies();
  open_.erase(0);
  ArmAgain(before);
  WriteWindow(0, WindowEvent::kClosed, to_ticks);
  TakeClockPair();
}

void Session::Published(uint32_t number, bool ok) {
  if (ok) WriteWindow(number, WindowEvent::kPublished, Now());
  for (WindowRange& window : ranges_) {
    if (window.number == number) window.range.needed = false;
  }
  if (ok && !config_.keep_spool)
    std::erase_if(ranges_, [&](const WindowRange& window) { return window.number == number; });
  SetRetention();
}

SpoolExtent Session::ExtentOf(uint32_t number) const {
  SpoolExtent extent;
  for (const WindowRange& window : ranges_) {
    if (window.number == number) extent = drain_->spool().ExtentOf(window.range.from, window.range.to);
  }
  extent.main_bytes = sizeof(SpoolHeader) + drain_->spool().main_bytes();
  return extent;
}

bool Session::Flush(int limit_ms, bool rotate) {
  // Device work is told of when it is done, and later than it was: what a window still waits for comes now.
  if (armed() || rotate) FlushGpus(std::min(limit_ms, kGpuFlushMs));
  TakeClockPair();
  const uint64_t now = ReadMonotonic();
  for (auto& target : targets_) {
    LookAfter(target.get(), now);
    // Once per flush: what was loaded since, for stacks that pass through it.
    if (!target->dead && target->maps_read == 0) ReadMaps(target.get());
  }
  const bool flushed = drain_->Flush(limit_ms, rotate);
  // Of windows that are closed, everything is there.
  for (WindowRange& window : ranges_) {
    if (rotate && std::exchange(window.closing, false)) window.range.to = Now();
  }
  if (rotate) SetRetention();
  return flushed;
}

void Session::RequestFlush() { drain_->RequestFlush(); }

std::string Session::SpoolError() const {
  const int error = drain_->spool().write_error();
  if (error != 0) return strerror(error);
  return drain_->spool().full() ? "it reached --spool-limit" : "the disk was too slow";
}

void Session::LookForProcesses() {
  for (const auto& target : targets_) LookAfter(target.get(), ReadMonotonic());
}

size_t Session::live_processes() const {
  size_t count = 0;
  for (const auto& target : targets_) {
    // Of a process whose number we do not know, the end is not known either.
    for (const Process& process : target->processes) count += process.pidfd.valid() ? 1 : 0;
  }
  return count;
}

uint64_t Session::DroppedRecords() const {
  uint64_t dropped = 0;
  for (const auto& target : targets_) {
    const Segment& segment = target->mapped->segment;
    const uint32_t high = std::min(__atomic_load_n(&segment.header->thread_high, __ATOMIC_RELAXED), kThreadSlots);
    for (uint32_t cause = 0; cause < kDropCauses; ++cause) {
      dropped += __atomic_load_n(&segment.header->dropped[cause], __ATOMIC_RELAXED);
      for (uint32_t i = 0; i < high; ++i) {
        dropped += __atomic_load_n(&segment.thread_slots[i].dropped[cause], __ATOMIC_RELAXED);
      }
    }
  }
  return dropped;
}

std::vector<int> Session::LivePids() const {
  std::vector<int> pids;
  for (const auto& target : targets_) {
    for (const Process& process : target->processes) {
      if (process.pidfd.valid() && process.pid > 0) pids.push_back(process.pid);
    }
  }
  return pids;
}

void Session::ReleaseTargets() {
  if (!closed_ || hangs_) return;
  targets_.clear();
  drain_->ReleaseSegments();
}

bool Session::Close(const EndFact& end, int patience_ms) {
  if (closed_) return !hangs_;
  closed_ = true;
  TakeCallers();
  for (int i = 0; i < 50 && !callers_.empty(); ++i) {
    poll(nullptr, 0, 2);
    TakeHellos();
  }
  for (auto& target : targets_) {
    SegmentHeader* const header = target->mapped->segment.header;
    __atomic_store_n(&TriggersOf(header)->families, 0u, __ATOMIC_SEQ_CST);
    __atomic_store_n(&header->control, 0u, __ATOMIC_SEQ_CST);
  }
  Flush(patience_ms);
  for (std::string& note : notes_) drain_->Append(FrameType::kNote, 0, note.data(), note.size());
  drain_->Append(FrameType::kEnd, 0, &end, sizeof(end));
  hangs_ = !drain_->Stop(patience_ms);
  return !hangs_;
}

const std::string& Session::FindSpool() {
  const std::string place = absl::StrCat("/proc/", getpid(), "/fd/", drain_->spool().fd());
  const std::string now = LinkText(place);
  if (now.empty() || now == spool_link_) return spool_path_;
  spool_link_ = now;
  // While we live, a removed one can be read there.
  spool_path_ = now.ends_with(kDeleted) ? place : now;
  return spool_path_;
}

void Session::RemoveSpool() {
  FindSpool();
  RemoveSpoolFiles(spool_directory() < 0 ? spool_path_
                                         : absl::StrCat("/proc/self/fd/", spool_directory(), "/", spool_name_));
  if (link_directory_.valid()) unlinkat(link_directory_.get(), spool_name_.c_str(), 0);
  // Fails, as it should, while another session has a spool there.
  for (const MadeDirectory& made : made_directories_) unlinkat(made.parent.get(), made.name.c_str(), AT_REMOVEDIR);
}

void Session::Note(std::string text) { notes_.push_back(std::move(text)); }

std::vector<std::string> Session::TakeNotes() { return std::exchange(notes_, {}); }

}  // namespace tbprof
