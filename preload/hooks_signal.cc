// SPDX-License-Identifier: Apache-2.0
// The capture signal. If the program leaves it at the default action, which would end the program, tbprof installs a
// handler that counts the signal as a capture request. The program still sees the default action. Rules: RULES.md.
//
// A signal that the program sends to itself, or that one of its processes sends to another, is not a request: `timeout
// -s USR1` and a parent that ends its workers need the default action, which the handler restores.
#include <errno.h>
#include <fcntl.h>

#include "preload/capture_signal.h"
#include "preload/hooks.h"
#include "preload/seccomp.h"
#include "preload/state.h"
#include "wire/raw.h"

#if defined(__x86_64__)
// The same bytes as libc's restorer: unwinders recognise a signal frame by them.
asm(R"(
  .pushsection .text
  .hidden tbprof_restore_signal
  .globl tbprof_restore_signal
  .type tbprof_restore_signal, @function
  nop
tbprof_restore_signal:
  mov $15, %rax
  syscall
  .size tbprof_restore_signal, .-tbprof_restore_signal
  .popsection
)");
extern "C" void tbprof_restore_signal();
#endif

namespace tbprof {
namespace {

constexpr unsigned long kRestorerFlag = 0x04000000;  // SA_RESTORER, which libc's headers do not define
constexpr int kHandlerFlags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
constexpr int kMaxGenerations = 64;

// The kernel's layout of struct sigaction.
struct KernelAction {
  void (*handler)(int, siginfo_t*, void*);
  unsigned long flags;
#if defined(__x86_64__)
  void (*restorer)();
#endif
  uint64_t mask;
};

int g_signal;        // 0: none is handled
int g_launcher_pid;  // as this process sees it; 0: not visible
// The flags that the program set with SIG_DFL, to be returned later.
int g_default_flags;
bool g_has_restorer;

long SetKernelAction(int signo, const KernelAction* action, KernelAction* old) {
  return raw::Call(SYS_rt_sigaction, signo, raw::Pointer(action), raw::Pointer(old), sizeof(uint64_t));
}

// Reads the parent of `pid` from /proc; 0: not known. Closes its descriptor before it returns.
int ParentOf(int pid) {
  char path[32] = "/proc/";
  char digits[12];
  int count = 0;
  for (int left = pid; left > 0 && count < 11; left /= 10) digits[count++] = static_cast<char>('0' + left % 10);
  int length = 6;
  while (count > 0) path[length++] = digits[--count];
  for (const char* end = "/stat"; *end != '\0'; ++end) path[length++] = *end;
  path[length] = '\0';
  const long fd = raw::Call(SYS_openat, AT_FDCWD, raw::Pointer(path), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  // `PID (NAME) STATE PPID`: NAME may contain any byte, so the search for `)` begins at the end.
  char text[128];
  const long size = raw::Call(SYS_read, fd, raw::Pointer(text), sizeof(text));
  raw::Close(static_cast<int>(fd));
  long at = size - 1;
  while (at >= 0 && text[at] != ')') --at;
  if (at < 0) return 0;
  int parent = 0;
  for (at += 4; at < size && text[at] >= '0' && text[at] <= '9'; ++at) parent = parent * 10 + (text[at] - '0');
  return parent;
}

// Whether a process belongs to the target: this process, its parent, or a descendant of the launcher.
bool IsOfTarget(int pid) {
  if (pid <= 0 || pid == g_launcher_pid) return false;
  if (pid == raw::GetPid() || pid == static_cast<int>(raw::Call(SYS_getppid))) return true;
  if (g_launcher_pid == 0 || g_has_filter) return false;
  for (int i = 0; i < kMaxGenerations && pid > 1; ++i) {
    pid = ParentOf(pid);
    if (pid == g_launcher_pid) return true;
  }
  return false;
}

void OnCaptureSignal(int signo, siginfo_t* info, void*) {
  const bool sent = info->si_code == SI_USER || info->si_code == SI_QUEUE || info->si_code == SI_TKILL;
  // Timers, message queues and descriptors send only signals that the program requested.
  if (!sent || IsOfTarget(info->si_pid)) {
    const KernelAction default_action{};
    SetKernelAction(signo, &default_action, nullptr);
    // The signal stays blocked until this handler returns.
    raw::Call(SYS_tgkill, raw::GetPid(), raw::GetTid(), signo);
    return;
  }
  __atomic_fetch_add(&g_attachment.segment.header->capture_requests, 1, __ATOMIC_RELAXED);
}

// Reports to the launcher whose handler is installed; /proc only shows that the signal is caught. Only the process that
// was exec'ed reports: the launcher needs this for the command alone. A vfork child has another pid.
void ReportHandler(bool ours) {
  const Segment& segment = g_attachment.segment;
  if (raw::GetPid() != segment.header->pid) return;
  uint32_t* flags = &segment.process_slots[0].flags;
  if (ours) {
    __atomic_fetch_or(flags, kProcessHandlesSignal, __ATOMIC_RELEASE);
  } else {
    __atomic_fetch_and(flags, ~uint32_t{kProcessHandlesSignal}, __ATOMIC_RELEASE);
  }
}

bool IsOurs(const struct sigaction& action) { return action.sa_sigaction == OnCaptureSignal; }

void KeepDefault(int flags) {
  __atomic_store_n(&g_default_flags, flags, __ATOMIC_RELAXED);
  __atomic_store_n(&g_has_restorer, true, __ATOMIC_RELAXED);
}

// Makes `action` look as if the default action were installed.
void ShowDefault(struct sigaction* action, int flags, bool has_restorer) {
  action->sa_handler = SIG_DFL;
  action->sa_flags = flags;
#if defined(__x86_64__)
  if (!has_restorer) action->sa_restorer = nullptr;
#else
  (void)has_restorer;
#endif
}

#if defined(__x86_64__)
constexpr int kLibcFlags = static_cast<int>(kRestorerFlag);
#else
constexpr int kLibcFlags = 0;
#endif

int SetAction(int (*real)(int, const struct sigaction*, struct sigaction*), int signo, const struct sigaction* action,
              struct sigaction* old) {
  if (signo != g_signal || signo == 0) return real(signo, action, old);
  const int default_flags = __atomic_load_n(&g_default_flags, __ATOMIC_RELAXED);
  const bool has_restorer = __atomic_load_n(&g_has_restorer, __ATOMIC_RELAXED);
  int result;
  if (action != nullptr && action->sa_handler == SIG_DFL) {
    struct sigaction ours = *action;
    const int flags = action->sa_flags;
    ours.sa_sigaction = OnCaptureSignal;
    ours.sa_flags = kHandlerFlags;
    ReportHandler(true);
    result = real(signo, &ours, old);
    if (result == 0) KeepDefault(flags | kLibcFlags);
  } else {
    const bool replaces = action != nullptr;
    result = real(signo, action, old);
    if (result == 0 && replaces) ReportHandler(false);
  }
  if (result == 0 && old != nullptr && IsOurs(*old)) ShowDefault(old, default_flags, has_restorer);
  return result;
}

// If signal() or a related function has installed the default action, replaces it with tbprof's handler.
sighandler_t Replace(int signo, sighandler_t wanted, sighandler_t before) {
  if (signo != g_signal || signo == 0) return before;
  const int error = errno;
  if (before != SIG_ERR && wanted == SIG_DFL) {
    struct sigaction now;
    if (g_real.sigaction(signo, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) {
      KeepDefault(now.sa_flags);
      now.sa_sigaction = OnCaptureSignal;
      now.sa_flags = kHandlerFlags;
      ReportHandler(true);
      g_real.sigaction(signo, &now, nullptr);
    }
  } else if (before != SIG_ERR) {
    struct sigaction now;
    // sigset's SIG_HOLD leaves the handler as it is.
    if (g_real.sigaction(signo, nullptr, &now) == 0 && !IsOurs(now)) ReportHandler(false);
  }
  errno = error;
  return reinterpret_cast<void*>(before) == reinterpret_cast<void*>(&OnCaptureSignal) ? SIG_DFL : before;
}

}  // namespace

void HandleCaptureSignal(int signo, int launcher_pid) {
  if (signo != SIGUSR1 && signo != SIGUSR2) return;
  KernelAction now{};
  if (SetKernelAction(signo, nullptr, &now) != 0 || now.handler != nullptr) return;
  g_launcher_pid = launcher_pid;
  g_default_flags = static_cast<int>(now.flags);
  g_signal = signo;
  ReportHandler(true);
  KernelAction ours{};
  ours.handler = OnCaptureSignal;
  ours.flags = kHandlerFlags;
#if defined(__x86_64__)
  ours.flags |= kRestorerFlag;
  ours.restorer = tbprof_restore_signal;
#endif
  if (SetKernelAction(signo, &ours, nullptr) == 0) return;
  g_signal = 0;
  ReportHandler(false);
}

#define TBPROF_ACTION(name)                                                           \
  int Hook_##name(int signo, const struct sigaction* action, struct sigaction* old) { \
    TBPROF_RESOLVED(name);                                                            \
    return SetAction(g_real.name, signo, action, old);                                \
  }
TBPROF_ACTION(sigaction)
TBPROF_ACTION(__sigaction)

#define TBPROF_SIGNAL(name)                                      \
  sighandler_t Hook_##name(int signo, sighandler_t handler) {    \
    TBPROF_RESOLVED(name);                                       \
    return Replace(signo, handler, g_real.name(signo, handler)); \
  }
TBPROF_SIGNAL(signal)
TBPROF_SIGNAL(bsd_signal)
TBPROF_SIGNAL(ssignal)
TBPROF_SIGNAL(sysv_signal)
TBPROF_SIGNAL(__sysv_signal)
TBPROF_SIGNAL(sigset)

}  // namespace tbprof
