// SPDX-License-Identifier: Apache-2.0
#include "launcher/glibc/newer_symbols.h"

#include <link.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <cerrno>

#ifndef TBPROF_NEWER_SYMBOLS_TEST
// glibc before 2.32 does not report that a process has only one thread. With 0, the standard library uses atomics, as
// it does for several threads.
extern "C" char __libc_single_threaded;
char __libc_single_threaded = 0;
#endif

// Called by std::random_device.
uint32_t TBPROF_NEWER(arc4random)() noexcept {
  uint32_t value;
  ssize_t size;
  do {
    size = getrandom(&value, sizeof(value), 0);
  } while (size < 0 && errno == EINTR);
  if (size != static_cast<ssize_t>(sizeof(value))) abort();
  return value;
}

namespace {

struct Search {
  uintptr_t address;
  dl_find_object* result;
};

int IsObject(dl_phdr_info* info, size_t, void* context) {
  const Search& search = *static_cast<const Search*>(context);
  uintptr_t low = UINTPTR_MAX, high = 0, frames = 0;
  bool inside = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    const uintptr_t start = info->dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_GNU_EH_FRAME) frames = start;
    if (header.p_type != PT_LOAD) continue;
    if (start < low) low = start;
    if (start + header.p_memsz > high) high = start + header.p_memsz;
    inside = inside || (search.address >= start && search.address - start < header.p_memsz);
  }
  if (!inside || frames == 0) return 0;
  *search.result = {};
  search.result->dlfo_map_start = reinterpret_cast<void*>(low);
  search.result->dlfo_map_end = reinterpret_cast<void*>(high);
  search.result->dlfo_eh_frame = reinterpret_cast<void*>(frames);
  return 1;
}

}  // namespace

// Called by gcc 12's unwinder, which has no fallback: if this function fails, a thrown exception ends the process.
int TBPROF_NEWER(_dl_find_object)(void* address, dl_find_object* result) noexcept {
  Search search{reinterpret_cast<uintptr_t>(address), result};
  return dl_iterate_phdr(&IsObject, &search) == 1 ? 0 : -1;
}

const char* TBPROF_NEWER(strerrorname_np)(int error) noexcept {
  switch (error) {
    case 0:
      return "0";
#define X(name) \
  case name:    \
    return #name;
      // clang-format off
    X(EPERM) X(ENOENT) X(ESRCH) X(EINTR) X(EIO) X(ENXIO) X(E2BIG) X(ENOEXEC) X(EBADF) X(ECHILD) X(EAGAIN)
    X(ENOMEM) X(EACCES) X(EFAULT) X(ENOTBLK) X(EBUSY) X(EEXIST) X(EXDEV) X(ENODEV) X(ENOTDIR) X(EISDIR)
    X(EINVAL) X(ENFILE) X(EMFILE) X(ENOTTY) X(ETXTBSY) X(EFBIG) X(ENOSPC) X(ESPIPE) X(EROFS) X(EMLINK) X(EPIPE)
    X(EDOM) X(ERANGE) X(EDEADLK) X(ENAMETOOLONG) X(ENOLCK) X(ENOSYS) X(ENOTEMPTY) X(ELOOP) X(ENOMSG) X(EIDRM)
    X(ECHRNG) X(EL2NSYNC) X(EL3HLT) X(EL3RST) X(ELNRNG) X(EUNATCH) X(ENOCSI) X(EL2HLT) X(EBADE) X(EBADR)
    X(EXFULL) X(ENOANO) X(EBADRQC) X(EBADSLT) X(EBFONT) X(ENOSTR) X(ENODATA) X(ETIME) X(ENOSR) X(ENONET)
    X(ENOPKG) X(EREMOTE) X(ENOLINK) X(EADV) X(ESRMNT) X(ECOMM) X(EPROTO) X(EMULTIHOP) X(EDOTDOT) X(EBADMSG)
    X(EOVERFLOW) X(ENOTUNIQ) X(EBADFD) X(EREMCHG) X(ELIBACC) X(ELIBBAD) X(ELIBSCN) X(ELIBMAX) X(ELIBEXEC)
    X(EILSEQ) X(ERESTART) X(ESTRPIPE) X(EUSERS) X(ENOTSOCK) X(EDESTADDRREQ) X(EMSGSIZE) X(EPROTOTYPE)
    X(ENOPROTOOPT) X(EPROTONOSUPPORT) X(ESOCKTNOSUPPORT) X(EOPNOTSUPP) X(EPFNOSUPPORT) X(EAFNOSUPPORT)
    X(EADDRINUSE) X(EADDRNOTAVAIL) X(ENETDOWN) X(ENETUNREACH) X(ENETRESET) X(ECONNABORTED) X(ECONNRESET)
    X(ENOBUFS) X(EISCONN) X(ENOTCONN) X(ESHUTDOWN) X(ETOOMANYREFS) X(ETIMEDOUT) X(ECONNREFUSED) X(EHOSTDOWN)
    X(EHOSTUNREACH) X(EALREADY) X(EINPROGRESS) X(ESTALE) X(EUCLEAN) X(ENOTNAM) X(ENAVAIL) X(EISNAM) X(EREMOTEIO)
    X(EDQUOT) X(ENOMEDIUM) X(EMEDIUMTYPE) X(ECANCELED) X(ENOKEY) X(EKEYEXPIRED) X(EKEYREVOKED) X(EKEYREJECTED)
    X(EOWNERDEAD) X(ENOTRECOVERABLE) X(ERFKILL) X(EHWPOISON)
      // clang-format on
#undef X
                                                                                              default : return nullptr;
  }
}

// The text is not translated: the launcher sets no locale.
const char* TBPROF_NEWER(strerrordesc_np)(int error) noexcept {
  return TBPROF_NEWER(strerrorname_np)(error) != nullptr ? strerror(error) : nullptr;
}

const char* TBPROF_NEWER(sigabbrev_np)(int signal) noexcept {
  switch (signal) {
#define X(name)   \
  case SIG##name: \
    return #name;
    // clang-format off
    X(HUP) X(INT) X(QUIT) X(ILL) X(TRAP) X(ABRT) X(BUS) X(FPE) X(KILL) X(USR1) X(SEGV) X(USR2) X(PIPE) X(ALRM)
    X(TERM) X(STKFLT) X(CHLD) X(CONT) X(STOP) X(TSTP) X(TTIN) X(TTOU) X(URG) X(XCPU) X(XFSZ) X(VTALRM) X(PROF)
    X(WINCH) X(POLL) X(PWR) X(SYS)
    // clang-format on
#undef X
                default : return nullptr;
  }
}

namespace {

// By default, the standard library's condition variables wait by CLOCK_REALTIME. If the real time steps by more than
// the wait, the caller wakes early, detects this with its own clock, and waits once more.
int WaitByRealtime(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, const timespec* until) {
  timespec now, real;
  clock_gettime(clock, &now);
  clock_gettime(CLOCK_REALTIME, &real);
  real.tv_sec += until->tv_sec - now.tv_sec;
  real.tv_nsec += until->tv_nsec - now.tv_nsec;
  if (real.tv_nsec >= 1'000'000'000) ++real.tv_sec, real.tv_nsec -= 1'000'000'000;
  if (real.tv_nsec < 0) --real.tv_sec, real.tv_nsec += 1'000'000'000;
  return pthread_cond_timedwait(condition, mutex, &real);
}

using ClockWait = int (*)(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec*);

}  // namespace

int TBPROF_NEWER(pthread_cond_clockwait)(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                                         const timespec* until) {
#ifdef TBPROF_NEWER_SYMBOLS_TEST
  static const ClockWait newer = nullptr;
#else
  // RTLD_DEFAULT would return this function itself.
  static const auto newer = reinterpret_cast<ClockWait>(dlsym(RTLD_NEXT, "pthread_cond_clockwait"));
#endif
  return newer != nullptr ? newer(condition, mutex, clock, until) : WaitByRealtime(condition, mutex, clock, until);
}
