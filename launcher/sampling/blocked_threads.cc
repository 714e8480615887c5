// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/blocked_threads.h"

#include <fcntl.h>

#include <algorithm>
#include <string>

#include "launcher/base/proc_files.h"
#include "launcher/sampling/thread_ids.h"
#include "writer/base/symbol_text.h"
#include "writer/base/text.h"
#include "writer/base/text_match.h"

namespace tbprof {
namespace {

constexpr std::chrono::milliseconds kListingInterval(100);
// The C library's frames above a system call, and the first one of its caller.
constexpr int kMaxFrames = 12;
constexpr size_t kStackBytes = 4096;
constexpr uint64_t kPageBytes = 4096;

bool IsLibc(std::string_view path) {
  const std::string_view name = BaseName(path);
  return IsCLibraryFile(name) || name.starts_with("linux-vdso");
}

}  // namespace

void BlockedThreads::ListThreads(Time now, const Rows& rows) {
  if (now < next_listing_ || (scope_ == Scope::kFirst && !threads_.empty())) return;
  next_listing_ = now + kListingInterval;
  for (auto& [tid, thread] : threads_) thread.seen = false;
  const std::vector<pid_t> tasks = TasksOf(pid_);
  if (tasks.empty()) return;
  for (const int32_t tid : tasks) {
    const auto known = threads_.find(tid);
    if (known != threads_.end()) {
      known->second.seen = true;
      continue;
    }
    if (threads_.size() >= kMaxThreads) continue;
    Thread& thread = threads_[tid];
    bool nested = false;
    const int32_t inner = InnermostId(StrCat("/proc/", pid_, "/task/", tid, "/status"), &nested);
    thread.inner = inner > 0 ? inner : tid;
    if (threads_.size() > kMaxOpen) continue;
    thread.schedstat.Reset(open(SchedulePath(pid_, tid).c_str(), O_RDONLY | O_CLOEXEC));
    thread.syscall.Reset(open(SyscallPath(pid_, tid).c_str(), O_RDONLY | O_CLOEXEC));
  }
  for (auto at = threads_.begin(); at != threads_.end();) {
    if (at->second.seen) {
      ++at;
      continue;
    }
    at->second.track.Finish(rows.blocked);
    if (rows.usage != nullptr) at->second.usage.Finish(rows.usage);
    at = threads_.erase(at);
  }
}

bool BlockedThreads::IsInLibc(uint64_t address) const {
  const Module* const module = modules_.map().Find(address);
  return module != nullptr && IsLibc(module->path);
}

BlockedThreads::Call BlockedThreads::CallOf(const Blocked& blocked, Time now) {
  if (blocked.stack_pointer == 0) return {};
  // Ends at a page's border: what follows may be no memory.
  const uint64_t end = (blocked.stack_pointer + kStackBytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  stack_.resize(end - blocked.stack_pointer);
  const iovec range = MemoryRange(blocked.stack_pointer, stack_.size());
  const int64_t got = read_(stack_.data(), {&range, 1});
  if (got <= 0) return {};
  if (modules_.map().Find(blocked.program_counter) == nullptr && !modules_.ReadForUnknown(now)) return {};
  // Only these two registers are known of a thread that is blocked.
  constexpr int kStackPointer = 6, kProgramCounter = 7, kRegisters = 8;
  StackSnapshot snapshot;
  snapshot.registers[kStackPointer] = blocked.stack_pointer;
  snapshot.registers[kProgramCounter] = blocked.program_counter;
  snapshot.register_count = kRegisters;
  snapshot.stack_address = blocked.stack_pointer;
  snapshot.stack = stack_.data();
  snapshot.stack_size = static_cast<size_t>(got);
  const std::vector<uint64_t> addresses = unwinder_.Unwind(modules_.map(), snapshot, kMaxFrames);
  Call call;
  for (const uint64_t address : addresses) {
    if (!IsInLibc(address - 1)) {
      call.site = address;
      return call;
    }
    call.function = address;
  }
  return {};
}

// glibc's mutex begins with the futex word; its third word is the owner's thread id. Whatever else has this address,
// the number is seldom that of a thread of this process.
int32_t BlockedThreads::HolderOf(uint64_t futex) const {
  constexpr uint64_t kOwner = 8;
  int32_t owner = 0;
  if (futex == 0 || !ReadAt(read_, futex + kOwner, &owner, sizeof(owner)) || owner <= 0) return 0;
  const bool is_thread = std::ranges::any_of(threads_, [&](const auto& entry) { return entry.second.inner == owner; });
  return is_thread ? owner : 0;
}

std::optional<Blocked> BlockedThreads::Look(int32_t tid, Thread* thread, Time now, const IsGil& is_gil, bool* is_new) {
  const auto read_schedule = [&] {
    return thread->schedstat.valid() ? ReadSchedule(thread->schedstat.get()) : ReadScheduleOnce(pid_, tid);
  };
  // Read before the call: if the thread runs in between, the next sample looks again.
  const auto schedule = read_schedule();
  const bool same = schedule && thread->schedule && *schedule == *thread->schedule;
  *is_new = schedule && !same;
  thread->schedule = schedule;
  if (same && thread->last) {
    // The mutex changes hands while the thread sleeps.
    if (thread->last->holder != 0) thread->last->holder = HolderOf(thread->last->futex);
    return thread->last;
  }
  const ScopedFd once(thread->syscall.valid() ? -1 : open(SyscallPath(pid_, tid).c_str(), O_RDONLY | O_CLOEXEC));
  thread->last = ReadBlocked(pid_, once.valid() ? once.get() : thread->syscall.get());
  if (!thread->last) return std::nullopt;
  if (thread->last->futex != 0 && is_gil(thread->last->futex)) thread->last->kind = BlockedIn::kGil;
  const Call call = CallOf(*thread->last, now);
  const int32_t holder = thread->last->kind == BlockedIn::kFutex ? HolderOf(thread->last->futex) : 0;
  // The stack is that of the call only if the thread is still in it.
  const auto after = read_schedule();
  if (after && schedule && *after == *schedule) {
    thread->last->site = call.site;
    thread->last->function = call.function;
    thread->last->holder = holder;
  }
  return thread->last;
}

void BlockedThreads::Sample(Time now, uint64_t ticks, const IsGil& is_gil, const Rows& rows) {
  ListThreads(now, rows);
  // A signal stops all threads.
  if (is_stopped_ || ++looks_ % kSamplesPerState == 0) {
    is_stopped_ = !threads_.empty() && IsStopped(threads_.begin()->second.syscall.get());
  }
  for (auto& [tid, thread] : threads_) {
    if (thread.done || tid == rows.without_tid) continue;
    bool is_new = false;
    std::optional<Blocked> blocked = Look(tid, &thread, now, is_gil, &is_new);
    // The first reading of the schedule is new in any case.
    if (scope_ == Scope::kFirst && (!blocked || (is_new && thread.looks > 0))) {
      End(&thread, rows);
      continue;
    }
    ++thread.looks;
    if (blocked && is_stopped_) blocked = Blocked{.kind = BlockedIn::kStopped};
    thread.track.Take(blocked, thread.inner, ticks, rows.blocked, is_new);
    if (!thread.schedule || rows.usage == nullptr) continue;
    if (thread.usage.WantsFaults(*thread.schedule, now, tid == pid_ ? kFaultsOfMain : kFaultsOfOthers)) {
      thread.usage.SetFaults(ReadFaults(pid_, tid));
    }
    thread.usage.Take(*thread.schedule, thread.inner, ticks, now, rows.usage);
  }
}

void BlockedThreads::End(Thread* thread, const Rows& rows) {
  thread->track.Finish(rows.blocked);
  thread->schedstat.Reset();
  thread->syscall.Reset();
  thread->done = true;
}

bool BlockedThreads::IsDone() const {
  return scope_ == Scope::kFirst && !threads_.empty() &&
         std::ranges::all_of(threads_, [](const auto& entry) { return entry.second.done; });
}

void BlockedThreads::Cut(std::vector<BlockedCallRow>* rows) {
  for (auto& [tid, thread] : threads_) thread.track.Cut(rows);
}

void BlockedThreads::Finish(const Rows& rows) {
  for (auto& [tid, thread] : threads_) {
    thread.track.Finish(rows.blocked);
    if (rows.usage != nullptr) thread.usage.Finish(rows.usage);
    thread.last.reset();
  }
  if (scope_ != Scope::kFirst) return;
  // The next window begins anew.
  threads_.clear();
  next_listing_ = {};
}

}  // namespace tbprof
