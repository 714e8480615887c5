// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/blocked_in.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "launcher/base/proc_files.h"
#include "launcher/base/proc_stat.h"
#include "writer/base/text.h"

namespace tbprof {
namespace {

enum class CallKind {
  kDescriptor,  // the call waits for the descriptor in its first argument
  kFile,
  kSocket,
  kFutex,
  kPoll,    // the number of descriptors is the second argument
  kSelect,  // it is the first
  kEpoll,
  kChild,
  kSleep,
  kFileLock,
};

struct KnownCall {
  int64_t number;
  CallKind kind;
};

// Calls that the kernel headers do not define are left out.
constexpr KnownCall kCalls[] = {
    {SYS_read, CallKind::kDescriptor},
    {SYS_write, CallKind::kDescriptor},
    {SYS_readv, CallKind::kDescriptor},
    {SYS_writev, CallKind::kDescriptor},
    {SYS_pread64, CallKind::kDescriptor},
    {SYS_pwrite64, CallKind::kDescriptor},
    {SYS_preadv, CallKind::kDescriptor},
    {SYS_pwritev, CallKind::kDescriptor},
    {SYS_preadv2, CallKind::kDescriptor},
    {SYS_pwritev2, CallKind::kDescriptor},
    {SYS_sendfile, CallKind::kDescriptor},
    {SYS_splice, CallKind::kDescriptor},
    {SYS_copy_file_range, CallKind::kDescriptor},
    {SYS_close, CallKind::kDescriptor},
    {SYS_fsync, CallKind::kFile},
    {SYS_fdatasync, CallKind::kFile},
    {SYS_sync_file_range, CallKind::kFile},
    {SYS_sync, CallKind::kFile},
    {SYS_syncfs, CallKind::kFile},
    {SYS_msync, CallKind::kFile},
    {SYS_ftruncate, CallKind::kFile},
    {SYS_fallocate, CallKind::kFile},
    {SYS_getdents64, CallKind::kFile},
    {SYS_fstat, CallKind::kFile},
    {SYS_newfstatat, CallKind::kFile},
    {SYS_statx, CallKind::kFile},
    {SYS_openat, CallKind::kFile},
    {SYS_renameat2, CallKind::kFile},
    {SYS_unlinkat, CallKind::kFile},
    {SYS_mkdirat, CallKind::kFile},
    {SYS_flock, CallKind::kFileLock},
    {SYS_fcntl, CallKind::kFileLock},  // waits for nothing else
#ifdef SYS_open
    {SYS_open, CallKind::kFile},
    {SYS_stat, CallKind::kFile},
    {SYS_lstat, CallKind::kFile},
    {SYS_rename, CallKind::kFile},
    {SYS_unlink, CallKind::kFile},
    {SYS_mkdir, CallKind::kFile},
#endif
    {SYS_sendto, CallKind::kSocket},
    {SYS_sendmsg, CallKind::kSocket},
    {SYS_sendmmsg, CallKind::kSocket},
    {SYS_recvfrom, CallKind::kSocket},
    {SYS_recvmsg, CallKind::kSocket},
    {SYS_recvmmsg, CallKind::kSocket},
    {SYS_connect, CallKind::kSocket},
    {SYS_accept, CallKind::kSocket},
    {SYS_accept4, CallKind::kSocket},
    {SYS_futex, CallKind::kFutex},
#ifdef SYS_poll
    {SYS_poll, CallKind::kPoll},
    {SYS_select, CallKind::kSelect},
    {SYS_epoll_wait, CallKind::kEpoll},
#endif
    {SYS_ppoll, CallKind::kPoll},
    {SYS_pselect6, CallKind::kSelect},
    {SYS_epoll_pwait, CallKind::kEpoll},
    {SYS_wait4, CallKind::kChild},
    {SYS_waitid, CallKind::kChild},
    {SYS_nanosleep, CallKind::kSleep},
    {SYS_clock_nanosleep, CallKind::kSleep},
};

BlockedIn KindOf(CallKind kind) {
  switch (kind) {
    case CallKind::kFile:
      return BlockedIn::kFile;
    case CallKind::kSocket:
      return BlockedIn::kSocket;
    case CallKind::kFutex:
      return BlockedIn::kFutex;
    case CallKind::kPoll:
    case CallKind::kSelect:
    case CallKind::kEpoll:
      return BlockedIn::kPoll;
    case CallKind::kChild:
      return BlockedIn::kChild;
    case CallKind::kSleep:
      return BlockedIn::kSleep;
    case CallKind::kFileLock:
      return BlockedIn::kFileLock;
    case CallKind::kDescriptor:
      break;
  }
  return BlockedIn::kOther;
}

// The hexadecimal word at this place from the end, -1 being the last; 0: there is none.
uint64_t Word(std::string_view text, int from_end) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  for (; from_end < -1 && !text.empty(); ++from_end) text = text.substr(0, text.rfind(' '));
  const size_t space = text.rfind(' ');
  return space == std::string_view::npos ? 0 : strtoull(std::string(text.substr(space + 1)).c_str(), nullptr, 16);
}

}  // namespace

bool IsStopped(int syscall_fd) {
  const std::string path = LinkText(StrCat("/proc/self/fd/", syscall_fd));
  if (path.empty()) return false;
  const std::optional<ProcStat> stat = ReadProcStat(StrCat(path.substr(0, path.rfind('/')), "/stat").c_str());
  return stat && (stat->state == 'T' || stat->state == 't');
}

std::string SyscallPath(pid_t pid, int32_t tid) { return StrCat("/proc/", pid, "/task/", tid, "/syscall"); }

// Format: `running`, `-1 SP PC` outside of a call, or `NUMBER ARGUMENTS... SP PC` with hexadecimal arguments.
std::optional<Blocked> ParseSyscall(std::string_view text) {
  const std::string terminated(text);
  const char* const at = terminated.c_str();
  char* end = nullptr;
  const int64_t number = strtoll(at, &end, 10);
  if (end == at) return std::nullopt;
  Blocked blocked;
  blocked.stack_pointer = Word(text, -2);
  blocked.program_counter = Word(text, -1);
  blocked.kind = number < 0 ? BlockedIn::kPageFault : BlockedIn::kOther;
  if (number < 0) return blocked;
  if (number < UINT16_MAX) blocked.call = static_cast<uint16_t>(number + 1);
  for (const KnownCall& call : kCalls) {
    if (call.number != number) continue;
    blocked.kind = KindOf(call.kind);
    char* rest = nullptr;
    const uint64_t first = strtoull(end, &rest, 16), second = strtoull(rest, nullptr, 16);
    // A wait for none of no descriptors is a sleep: `select` was Python's.
    const bool is_empty = (call.kind == CallKind::kSelect && static_cast<int32_t>(first) == 0) ||
                          (call.kind == CallKind::kPoll && second == 0);
    if (is_empty) blocked.kind = BlockedIn::kSleep;
    if (call.kind == CallKind::kDescriptor) blocked.fd = static_cast<int32_t>(first);
    if (call.kind == CallKind::kFutex) blocked.futex = first;
    break;
  }
  return blocked;
}

BlockedIn KindOfDescriptor(std::string_view link) {
  if (link.starts_with("pipe:")) return BlockedIn::kPipe;
  if (link.starts_with("socket:")) return BlockedIn::kSocket;
  if (link.starts_with("/dev/pts/") || link.starts_with("/dev/tty") || link == "/dev/console") {
    return BlockedIn::kTerminal;
  }
  // Other devices are kOther, and so are eventfd and the like, whose links do not begin with `/`.
  if (link.starts_with("/dev/") && !link.starts_with("/dev/shm/")) return BlockedIn::kOther;
  return link.starts_with("/") ? BlockedIn::kFile : BlockedIn::kOther;
}

std::optional<Blocked> ReadBlocked(pid_t pid, int syscall_fd) {
  char text[256];
  const ssize_t got = syscall_fd < 0 ? -1 : pread(syscall_fd, text, sizeof(text), 0);
  if (got <= 0) return std::nullopt;
  std::optional<Blocked> blocked = ParseSyscall({text, static_cast<size_t>(got)});
  if (blocked && blocked->kind == BlockedIn::kPageFault && IsStopped(syscall_fd)) blocked->kind = BlockedIn::kStopped;
  if (!blocked || blocked->fd < 0) return blocked;
  const ssize_t length = readlink(StrCat("/proc/", pid, "/fd/", blocked->fd).c_str(), text, sizeof(text));
  if (length > 0) blocked->kind = KindOfDescriptor({text, static_cast<size_t>(length)});
  return blocked;
}

void BlockedTrack::Take(const std::optional<Blocked>& blocked, int32_t tid, uint64_t ticks,
                        std::vector<BlockedCallRow>* rows, bool is_new) {
  const bool same_call = !is_new && blocked && row_.samples != 0 && row_.kind == blocked->kind &&
                         row_.fd == blocked->fd && row_.call == blocked->call && row_.futex == blocked->futex &&
                         row_.site == blocked->site && row_.function == blocked->function;
  const bool same = same_call && row_.holder == blocked->holder;
  if (same_call && !same) {
    Cut(rows);
  } else if (!same && row_.samples != 0) {
    Finish(rows);
  }
  if (!blocked) {
    cut_ = false;
    return;
  }
  if (!same)
    row_ = {ticks,
            ticks,
            tid,
            0,
            blocked->fd,
            blocked->kind,
            blocked->call,
            blocked->futex,
            blocked->site,
            blocked->function,
            blocked->holder,
            !is_new && cut_ ? 1u : 0u};
  cut_ = false;
  row_.last_ticks = ticks;
  ++row_.samples;
}

void BlockedTrack::Finish(std::vector<BlockedCallRow>* rows) {
  cut_ = false;
  if (row_.samples != 0) rows->push_back(row_);
  row_ = {};
}

void BlockedTrack::Cut(std::vector<BlockedCallRow>* rows) {
  const bool is_open = row_.samples != 0;
  Finish(rows);
  cut_ = is_open;
}

}  // namespace tbprof
