// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/sampled_waits.h"

#include <sys/syscall.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "writer/base/text.h"
#include "writer/base/text_match.h"
#include "writer/convert/event_budget.h"
#include "writer/timeline/python_place.h"

namespace tbprof {
namespace {

// Between two samples of a thread without Python.
constexpr int64_t kPeriodPs = 10'000'000'000;
constexpr uint64_t kBytesOfEvent = 2 * kBytesPerEvent;  // with the stats of its stack

struct CallName {
  int64_t number;
  std::string_view name;
};
constexpr CallName kCalls[] = {
    {SYS_read, "read"},
    {SYS_write, "write"},
    {SYS_readv, "readv"},
    {SYS_writev, "writev"},
    {SYS_pread64, "pread"},
    {SYS_pwrite64, "pwrite"},
    {SYS_preadv, "preadv"},
    {SYS_pwritev, "pwritev"},
    {SYS_sendfile, "sendfile"},
    {SYS_splice, "splice"},
    {SYS_copy_file_range, "copy_file_range"},
    {SYS_close, "close"},
    {SYS_fsync, "fsync"},
    {SYS_fdatasync, "fdatasync"},
    {SYS_sync_file_range, "sync_file_range"},
    {SYS_sync, "sync"},
    {SYS_syncfs, "syncfs"},
    {SYS_msync, "msync"},
    {SYS_ftruncate, "ftruncate"},
    {SYS_fallocate, "fallocate"},
    {SYS_getdents64, "getdents64"},
    {SYS_fstat, "fstat"},
    {SYS_newfstatat, "fstatat"},
    {SYS_statx, "statx"},
    {SYS_openat, "openat"},
    {SYS_flock, "flock"},
    {SYS_fcntl, "fcntl"},
    {SYS_sendto, "sendto"},
    {SYS_sendmsg, "sendmsg"},
    {SYS_sendmmsg, "sendmmsg"},
    {SYS_recvfrom, "recvfrom"},
    {SYS_recvmsg, "recvmsg"},
    {SYS_recvmmsg, "recvmmsg"},
    {SYS_connect, "connect"},
    {SYS_accept, "accept"},
    {SYS_accept4, "accept4"},
    {SYS_futex, "futex"},
    {SYS_ppoll, "ppoll"},
    {SYS_pselect6, "pselect"},
    {SYS_epoll_pwait, "epoll_wait"},
    {SYS_wait4, "wait4"},
    {SYS_waitid, "waitid"},
    {SYS_nanosleep, "nanosleep"},
    {SYS_clock_nanosleep, "clock_nanosleep"},
#ifdef SYS_poll
    {SYS_poll, "poll"},
    {SYS_select, "select"},
    {SYS_epoll_wait, "epoll_wait"},
    {SYS_open, "open"},
    {SYS_stat, "stat"},
    {SYS_lstat, "lstat"},
#endif
};

// The name for calls that the table lacks.
std::string_view NameOfKind(BlockedIn kind) {
  switch (kind) {
    case BlockedIn::kFile:
      return "file call";
    case BlockedIn::kPipe:
    case BlockedIn::kTerminal:
      return "read";
    case BlockedIn::kSocket:
      return "recvmsg";
    case BlockedIn::kFutex:
      return "futex";
    // As the exact events of this wait are called.
    case BlockedIn::kGil:
      return "pthread_cond_timedwait";
    case BlockedIn::kPoll:
      return "poll";
    case BlockedIn::kChild:
      return "wait4";
    case BlockedIn::kSleep:
      return "clock_nanosleep";
    case BlockedIn::kFileLock:
      return "flock";
    case BlockedIn::kOther:
    case BlockedIn::kPageFault:
    case BlockedIn::kStopped:
      break;
  }
  return "";
}

// The functions of the C library that wait on a futex, as hooks call them. Its own functions have longer names:
// `__pthread_cond_wait_common`, `__new_sem_wait_slow64`.
std::string_view NameOfLock(std::string_view function) {
  struct Row {
    std::string_view part, name;
  };
  constexpr Row kRows[] = {{"mutex", "pthread_mutex_lock"},
                           {"lll_lock", "pthread_mutex_lock"},
                           {"rwlock", "pthread_rwlock_wrlock"},
                           {"cond_", "pthread_cond_wait"},
                           {"sem_", "sem_wait"},
                           {"barrier", "pthread_barrier_wait"},
                           {"join", "pthread_join"}};
  const Row* const row =
      std::ranges::find_if(kRows, [&](const Row& candidate) { return ContainsAny(function, {candidate.part}); });
  return row == std::end(kRows) ? "" : row->name;
}

std::string_view NameOf(const BlockedRun& run, std::string_view function) {
  if (run.kind == BlockedIn::kGil) return NameOfKind(run.kind);
  const std::string_view lock = run.kind == BlockedIn::kFutex ? NameOfLock(function) : "";
  if (!lock.empty()) return lock;
  const CallName* const call = std::ranges::find(kCalls, int64_t{run.call} - 1, &CallName::number);
  return call != std::end(kCalls) ? call->name : NameOfKind(run.kind);
}

EventFamily FamilyOf(BlockedIn kind) {
  switch (kind) {
    case BlockedIn::kFutex:
    case BlockedIn::kGil:
    case BlockedIn::kFileLock:
      return EventFamily::kLock;
    case BlockedIn::kSleep:
      return EventFamily::kSleep;
    case BlockedIn::kChild:
      return EventFamily::kProcess;
    case BlockedIn::kFile:
    case BlockedIn::kPipe:
    case BlockedIn::kSocket:
    case BlockedIn::kTerminal:
    case BlockedIn::kPoll:
      return EventFamily::kIo;
    case BlockedIn::kOther:
    case BlockedIn::kPageFault:
    case BlockedIn::kStopped:
      break;
  }
  return EventFamily::kOther;
}

// Walks the runs of a thread's Python samples in order of time.
class StacksOfThread {
 public:
  explicit StacksOfThread(const PythonThread* python) : python_(python) {}

  // The run that was sampled at this time; null: none.
  const PythonRun* At(int64_t at_ps) {
    if (python_ == nullptr) return nullptr;
    const std::vector<PythonRun>& runs = python_->runs;
    while (next_ < runs.size() && runs[next_].to_ps <= at_ps) ++next_;
    return next_ < runs.size() && runs[next_].from_ps <= at_ps ? &runs[next_] : nullptr;
  }

 private:
  const PythonThread* const python_;
  size_t next_ = 0;
};

class SampledWaits {
 public:
  SampledWaits(uint64_t most_bytes, EventTypes* types, Timeline* timeline)
      : most_bytes_(most_bytes), types_(*types), timeline_(*timeline) {}

  void Add(const ThreadBlocked& blocked) {
    StacksOfThread stacks(timeline_.python.OfThread(blocked.thread));
    std::vector<Event> added;
    int64_t free_from = 0;
    int64_t period = kPeriodPs;
    for (size_t i = 0; i < blocked.runs.size();) {
      BlockedRun run = blocked.runs[i];
      for (++i; i < blocked.runs.size() && Continues(blocked.runs[i], run, period); ++i) {
        run.last_ps = blocked.runs[i].last_ps;
      }
      if (bytes_ + kBytesOfEvent > most_bytes_) break;
      // Python may be found later than the wait begins.
      const PythonRun* python = stacks.At(run.first_ps + (run.last_ps - run.first_ps) / 2);
      if (python == nullptr) python = stacks.At(run.last_ps);
      if (python != nullptr && python->period_ps > 0) period = python->period_ps;
      const int64_t start = std::max(run.first_ps - period / 2, free_from);
      const int64_t end = std::min(run.last_ps + period / 2, timeline_.duration_ps);
      const std::optional<Event> event = EventOf(run, {start, end}, python == nullptr ? 0 : python->stack);
      if (!event.has_value()) continue;
      free_from = end;
      bytes_ += kBytesOfEvent;
      added.push_back(*event);
    }
    // Nobody hooks the calls of such a thread: those of a damaged spool might lie across these.
    if (FirstCallOf(blocked.thread) == INT64_MAX) Insert(blocked.thread, added);
  }

  // The call in which the thread is when the window begins, up to the first that was recorded.
  void AddFirst(const ThreadBlocked& blocked) {
    // Threads that do not run are looked at less often.
    constexpr int64_t kLatestPs = 1'000'000'000'000, kFarPs = 150'000'000'000;
    if (blocked.runs.empty() || blocked.runs.front().first_ps > kLatestPs) return;
    Thread& thread = timeline_.threads[blocked.thread];
    if (timeline_.processes[thread.process].start_ps > 0 || bytes_ + kBytesOfEvent > most_bytes_) return;
    BlockedRun run = blocked.runs.front();
    for (size_t i = 1; i < blocked.runs.size(); ++i) {
      const BlockedRun& next = blocked.runs[i];
      if (!IsSameCall(next, run) || (!next.goes_on && next.first_ps - run.last_ps > kFarPs)) break;
      run.last_ps = next.last_ps;
    }
    StacksOfThread stacks(timeline_.python.OfThread(blocked.thread));
    const PythonRun* const python = stacks.At(run.last_ps);
    const TimeSpan span = {0,
                           std::min({run.last_ps + kPeriodPs / 2, timeline_.duration_ps, FirstCallOf(blocked.thread)})};
    if (span.end_ps - span.start_ps < 2 * kPeriodPs || !IsOneCall(blocked.thread, run, span)) return;
    const std::optional<Event> event = EventOf(run, span, python == nullptr ? 0 : python->stack);
    if (!event.has_value()) return;
    bytes_ += kBytesOfEvent;
    thread.start_ps = std::min<int64_t>(thread.start_ps, 0);  // nothing was recorded of it before
    Insert(blocked.thread, {*event});
  }

  uint64_t bytes() const { return bytes_; }

 private:
  // A thread that runs in between makes several calls. A run with a function was sampled only until the thread ran.
  bool IsOneCall(uint32_t thread, const BlockedRun& run, const TimeSpan& span) const {
    constexpr int64_t kMostCpuPart = 200;
    const ThreadUsage* const usage = timeline_.UsageOfThread(thread);
    if (usage == nullptr) return run.site != 0 || run.function != 0;
    if (usage->points.size() < 2) return true;  // a row is written when it has run
    const auto at = [&](int64_t time_ps) {
      const auto point = std::ranges::lower_bound(usage->points, time_ps, {}, &UsagePoint::at_ps);
      return (point == usage->points.end() ? std::prev(point) : point)->cpu_ps;
    };
    return at(span.end_ps) - at(span.start_ps) <= (span.end_ps - span.start_ps) / kMostCpuPart;
  }

  int64_t FirstCallOf(uint32_t thread) const {
    const std::vector<Event>& events = timeline_.threads[thread].events;
    const auto first = std::ranges::find_if(events, [](const Event& event) { return event.duration_ps > 0; });
    return first == events.end() ? INT64_MAX : first->start_ps;
  }

  void Insert(uint32_t thread, const std::vector<Event>& added) {
    std::vector<Event>& events = timeline_.threads[thread].events;
    events.insert(events.end(), added.begin(), added.end());
    std::ranges::stable_sort(events, [](const Event& a, const Event& b) {
      return a.start_ps != b.start_ps ? a.start_ps < b.start_ps : a.duration_ps > b.duration_ps;
    });
  }

  // The launcher cuts long runs.
  static bool Continues(const BlockedRun& next, const BlockedRun& run, int64_t period_ps) {
    return next.goes_on && IsSameCall(next, run) && next.first_ps - run.last_ps <= 2 * period_ps;
  }
  static bool IsSameCall(const BlockedRun& next, const BlockedRun& run) {
    return next.kind == run.kind && next.call == run.call && next.fd == run.fd && next.futex == run.futex &&
           next.site == run.site && next.function == run.function;
  }

  // Nothing: no call that waits.
  std::optional<Event> EventOf(const BlockedRun& run, const TimeSpan& span, uint32_t stack) {
    const std::string_view name = NameOf(run, timeline_.strings.Get(run.function));
    if (FamilyOf(run.kind) == EventFamily::kOther || name.empty() || span.end_ps <= span.start_ps) return std::nullopt;
    Event event;
    event.start_ps = span.start_ps;
    event.duration_ps = span.end_ps - span.start_ps;
    event.type = TypeOf(run, name);
    if (event.type == kNoType) return std::nullopt;
    event.object = run.futex != 0 ? run.futex : run.fd >= 0 ? static_cast<uint64_t>(run.fd) : 0;
    event.python = stack;
    event.call_site = SiteOf(run, stack);
    // How many bytes came, or whether a descriptor was ready, is not known: 0 would be an answer.
    event.value = -1;
    return event;
  }

  uint16_t TypeOf(const BlockedRun& run, std::string_view name) {
    const ObjectKind object = run.futex != 0 ? ObjectKind::kAddress
                              : run.fd >= 0  ? ObjectKind::kDescriptor
                                             : ObjectKind::kNone;
    const uint16_t type = types_.Find(StrCat(name, " (sampled)"), FamilyOf(run.kind), object, ValueKind::kNone);
    if (type != kNoType) timeline_.types[type].sampled = true;
    return type;
  }

  // The native function that made the call, else the line of Python. Waits for the GIL have the function of CPython
  // that all of them are in.
  StringId SiteOf(const BlockedRun& run, uint32_t stack) {
    if (run.kind == BlockedIn::kGil) return timeline_.strings.Intern("take_gil");
    if (run.site != 0) return run.site;
    if (stack == 0 || stack >= timeline_.python.stacks.size()) return 0;
    return timeline_.strings.Intern(PythonFrameText(timeline_, timeline_.python.stacks[stack]));
  }

  const uint64_t most_bytes_;
  EventTypes& types_;
  Timeline& timeline_;
  uint64_t bytes_ = 0;
};

}  // namespace

uint64_t AddSampledWaits(uint64_t most_bytes, EventTypes* types, Timeline* timeline) {
  SampledWaits waits(most_bytes, types, timeline);
  for (const ThreadBlocked& blocked : timeline->blocked) {
    timeline->attached ? waits.Add(blocked) : waits.AddFirst(blocked);
  }
  return waits.bytes();
}

}  // namespace tbprof
