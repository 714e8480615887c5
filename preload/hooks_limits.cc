// SPDX-License-Identifier: Apache-2.0
// Hooks on the calls for resource limits: address_limit.h. Rules: RULES.md.
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <sys/resource.h>
#include <unistd.h>

#include "preload/address_limit.h"
#include "preload/hooks.h"
#include "preload/page_probe.h"
#include "preload/seccomp.h"
#include "preload/state.h"
#include "wire/raw.h"

extern "C" __attribute__((visibility("hidden"))) const ElfW(Ehdr) __ehdr_start;
extern "C" __attribute__((visibility("hidden"))) const char _end[];

namespace tbprof {
namespace {

static_assert(sizeof(rlimit) == sizeof(rlimit64) && sizeof(rlim_t) == sizeof(uint64_t));

// The last limit that this library made larger. Valid if g_raises_address_limit. Fork children inherit it with the
// kernel's limit. If the kernel has another one, somebody else has set it, and it is shown as it is.
struct RaisedLimit {
  rlimit program;  // as the program set it
  rlimit kernel;
};
RaisedLimit g_raised;

bool IsSame(const rlimit& a, const rlimit& b) { return a.rlim_cur == b.rlim_cur && a.rlim_max == b.rlim_max; }

long Exchange(const rlimit* wanted, rlimit* old) {
  return raw::Call(SYS_prlimit64, 0, RLIMIT_AS, raw::Pointer(wanted), raw::Pointer(old));
}

void ShowProgramsOwn(rlimit* limit) {
  if (__atomic_load_n(&g_raises_address_limit, __ATOMIC_ACQUIRE) && IsSame(*limit, g_raised.kernel)) {
    *limit = g_raised.program;
  }
}

// Whether this process maps the segment and has limits of its own, also if it records nothing. A vfork child has its
// own limits, but shares this memory, and will exec.
bool IsOwnProcess() {
  if (g_attachment.segment.header == nullptr) return false;
  const uint32_t epoch = __atomic_load_n(&g_fork_page->epoch, __ATOMIC_ACQUIRE);
  if (epoch == 0 || epoch == kEpochRegistering) return true;  // a fork child that is not registered, or does not record
  return g_attachment.segment.process_slots[g_fork_page->process_slot].pid == raw::GetPid();
}

// An invalid address makes the real function fail, and must not crash the program here.
bool IsReadable(const rlimit* limit) { return !IsFaultingWord(&limit->rlim_cur) && !IsFaultingWord(&limit->rlim_max); }

// Address space that the kernel counts for this library.
uint64_t LibraryBytes() {
  const uint64_t from = reinterpret_cast<uint64_t>(&__ehdr_start) / kPage * kPage;
  const uint64_t to = (reinterpret_cast<uint64_t>(_end) + kPage - 1) / kPage * kPage;
  return to - from;
}

// The last bits of a limit that this library made larger: a program that another one starts by posix_spawn, system or
// popen inherits the kernel's limit, and must not take it for a limit without the share.
constexpr uint64_t kMark = 0x5b5;

rlim_t Raised(rlim_t bytes) {
  const uint64_t own = g_attachment.segment.header->segment_bytes + kPage + LibraryBytes();
  if (bytes >= RLIM_INFINITY - own - 2 * kPage) return RLIM_INFINITY;
  return (bytes + own) / kPage * kPage + kMark;
}

// Whether SetAddressLimit is to set the limit, and not the real function alone.
bool IsToBeRaised(int resource, const rlimit* wanted) {
  if (resource != RLIMIT_AS || wanted == nullptr || g_has_filter) return false;
  if (!IsOwnProcess()) {
    PassOnAddressLimit(nullptr);
    return false;
  }
  return IsReadable(wanted) && wanted->rlim_cur <= wanted->rlim_max;
}

// `real(limit)` sets the limit and returns what the program's call would. `wanted` is a copy: the old limit may be
// written into the program's.
template <typename Real>
int SetAddressLimit(rlimit wanted, Real real) {
  rlimit before;
  if (Exchange(nullptr, &before) != 0) return real(&wanted);
  rlimit shown = before;
  ShowProgramsOwn(&shown);
  const int error = errno;
  rlimit raised{Raised(wanted.rlim_cur), Raised(wanted.rlim_max)};
  int result = real(&raised);
  if (result != 0 && errno == EPERM && wanted.rlim_max <= shown.rlim_max) {
    // Without privileges the hard limit cannot grow. The program's call does not make it grow, so it must succeed.
    raised.rlim_max = before.rlim_max;
    if (raised.rlim_cur > raised.rlim_max) raised.rlim_cur = raised.rlim_max;
    errno = error;
    result = real(&raised);
  }
  if (result != 0) return result;
  __atomic_store_n(&g_raises_address_limit, false, __ATOMIC_RELEASE);
  g_raised.program = wanted;
  g_raised.kernel = raised;
  __atomic_store_n(&g_raises_address_limit, !IsSame(raised, wanted), __ATOMIC_RELEASE);
  return result;
}

// The real functions are not known yet: an allocator of the program asks for a limit while they are looked up.
int AskKernel(pid_t pid, int resource, const rlimit* wanted, rlimit* old) {
  const long result = raw::Call(SYS_prlimit64, pid, resource, raw::Pointer(wanted), raw::Pointer(old));
  if (result == 0) return 0;
  errno = static_cast<int>(-result);
  return -1;
}

int SetLimit(int (*real)(int, const rlimit*), int resource, const rlimit* wanted) {
  if (real == nullptr) return AskKernel(0, resource, wanted, nullptr);
  if (!IsToBeRaised(resource, wanted)) return real(resource, wanted);
  return SetAddressLimit(*wanted, [&](const rlimit* limit) { return real(resource, limit); });
}

int GetLimit(int (*real)(int, rlimit*), int resource, rlimit* limit) {
  if (real == nullptr) return AskKernel(0, resource, nullptr, limit);
  const int result = real(resource, limit);
  if (resource == RLIMIT_AS && result == 0) ShowProgramsOwn(limit);
  return result;
}

int ProcessLimit(int (*real)(pid_t, int, const rlimit*, rlimit*), pid_t pid, int resource, const rlimit* wanted,
                 rlimit* old) {
  if (real == nullptr) return AskKernel(pid, resource, wanted, old);
  if (resource != RLIMIT_AS || (pid != 0 && pid != raw::GetPid())) return real(pid, resource, wanted, old);
  int result;
  const rlimit before_kernels = g_raised.kernel, before_programs = g_raised.program;
  const bool was_raised = __atomic_load_n(&g_raises_address_limit, __ATOMIC_ACQUIRE);
  if (IsToBeRaised(resource, wanted)) {
    result = SetAddressLimit(*wanted, [&](const rlimit* limit) { return real(pid, resource, limit, old); });
  } else {
    result = real(pid, resource, wanted, old);
  }
  if (result == 0 && old != nullptr && was_raised && IsSame(*old, before_kernels)) *old = before_programs;
  return result;
}

}  // namespace

bool g_raises_address_limit;

bool PassOnRaisedLimit(const char* file) {
  if (g_has_filter) return false;
  if (file != nullptr && raw::Call(SYS_faccessat, AT_FDCWD, raw::Pointer(file), X_OK) != 0) return false;
  rlimit now;
  return Exchange(nullptr, &now) == 0 && IsSame(now, g_raised.kernel) && Exchange(&g_raised.program, nullptr) == 0;
}

void RaiseInheritedAddressLimit() {
  rlimit now;
  if (g_has_filter || Exchange(nullptr, &now) != 0 || now.rlim_cur == RLIM_INFINITY) return;
  if (now.rlim_cur % kPage == kMark) return;
  rlimit raised{Raised(now.rlim_cur), Raised(now.rlim_max)};
  if (Exchange(&raised, nullptr) != 0) {
    // Without privileges the hard limit cannot grow.
    raised.rlim_max = now.rlim_max;
    if (raised.rlim_cur > raised.rlim_max) raised.rlim_cur = raised.rlim_max;
    if (IsSame(raised, now) || Exchange(&raised, nullptr) != 0) return;
  }
  g_raised.program = now;
  g_raised.kernel = raised;
  __atomic_store_n(&g_raises_address_limit, true, __ATOMIC_RELEASE);
}

void KeepAddressLimit() {
  if (!IsOwnProcess()) return;  // a vfork child tries the next file
  if (Exchange(&g_raised.kernel, nullptr) == 0) return;
  // Without privileges a hard limit cannot be raised again: the program loses this library's share of it.
  const rlimit all{g_raised.program.rlim_max, g_raised.program.rlim_max};
  const rlimit kept{all.rlim_max < g_raised.kernel.rlim_cur ? all.rlim_max : g_raised.kernel.rlim_cur, all.rlim_max};
  if (Exchange(&kept, nullptr) == 0) g_raised.kernel = kept;
}

int Hook_setrlimit(int resource, const rlimit* wanted) {
  TBPROF_RESOLVED(setrlimit);
  return SetLimit(g_real.setrlimit, resource, wanted);
}
int Hook_setrlimit64(int resource, const rlimit* wanted) {
  TBPROF_RESOLVED(setrlimit64);
  return SetLimit(g_real.setrlimit64, resource, wanted);
}
int Hook_getrlimit(int resource, rlimit* limit) {
  TBPROF_RESOLVED(getrlimit);
  return GetLimit(g_real.getrlimit, resource, limit);
}
int Hook_getrlimit64(int resource, rlimit* limit) {
  TBPROF_RESOLVED(getrlimit64);
  return GetLimit(g_real.getrlimit64, resource, limit);
}
int Hook_prlimit(pid_t pid, int resource, const rlimit* wanted, rlimit* old) {
  TBPROF_RESOLVED(prlimit);
  return ProcessLimit(g_real.prlimit, pid, resource, wanted, old);
}
int Hook_prlimit64(pid_t pid, int resource, const rlimit* wanted, rlimit* old) {
  TBPROF_RESOLVED(prlimit64);
  return ProcessLimit(g_real.prlimit64, pid, resource, wanted, old);
}

}  // namespace tbprof
