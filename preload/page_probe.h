// SPDX-License-Identifier: Apache-2.0
//
// Checks whether memory is readable, for pointers that may be invalid.
//
// rt_sigprocmask copies the given set before it checks `how`: with an invalid `how` it returns EFAULT if the set is not
// readable, else EINVAL, and the mask stays unchanged. This takes 90 ns. Readable pages are remembered for up to a
// second.
//
// Process: target, any thread, any signal handler. Rules: RULES.md.
#ifndef TBPROF_PRELOAD_PAGE_PROBE_H_
#define TBPROF_PRELOAD_PAGE_PROBE_H_

#include <errno.h>
#include <stdint.h>

#include "wire/layout.h"
#include "wire/raw.h"

namespace tbprof {

inline constexpr uint32_t kProbedPages = 1024;
// page:36 | second:28
extern __attribute__((visibility("hidden"))) uint64_t g_probed_pages[kProbedPages];

// False: no page is readable. Valgrind takes the call for a mistake of the program: it prints it, and with
// --error-exitcode changes the exit status.
extern __attribute__((visibility("hidden"))) bool g_probes_pages;

bool ProbePage(uint64_t page, uint32_t second);

// Whether a system call would return EFAULT for the eight bytes at `word`. For rare calls: nothing is remembered. In
// the header, because a fork child that execs has no page of page_probe.cc mapped.
inline bool IsFaultingWord(const void* word) {
  return raw::Call(SYS_rt_sigprocmask, -1, raw::Pointer(word), 0, 8) == -EFAULT;
}

// `second`: a number that changes about every second. False: the range is on two pages, or the page is not remembered.
inline bool IsKnownPage(uint64_t address, uint64_t bytes, uint32_t second) {
  const uint64_t page = address / kPage;
  const uint64_t known = __atomic_load_n(&g_probed_pages[page % kProbedPages], __ATOMIC_RELAXED);
  return known == (page << 28 | (second & 0xfffffff)) && (address + bytes - 1) / kPage == page && page >> 36 == 0;
}

inline bool IsReadable(uint64_t address, uint64_t bytes, uint32_t second) {
  if (__builtin_expect((address | (address + bytes)) >> 48 != 0, 0)) return false;
  const uint64_t last = (address + bytes - 1) / kPage;
  for (uint64_t page = address / kPage; page <= last; ++page) {
    const uint64_t known = __atomic_load_n(&g_probed_pages[page % kProbedPages], __ATOMIC_RELAXED);
    if (__builtin_expect(known == (page << 28 | (second & 0xfffffff)), 1)) continue;
    if (!ProbePage(page, second)) return false;
  }
  return true;
}

}  // namespace tbprof

#endif  // TBPROF_PRELOAD_PAGE_PROBE_H_
