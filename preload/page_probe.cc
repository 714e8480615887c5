// SPDX-License-Identifier: Apache-2.0
// Rules: RULES.md.
#include "preload/page_probe.h"

#include <errno.h>

#include "preload/seccomp.h"
#include "wire/raw.h"

namespace tbprof {

uint64_t g_probed_pages[kProbedPages];
bool g_probes_pages = true;

__attribute__((noinline)) bool ProbePage(uint64_t page, uint32_t second) {
  constexpr long kNoSuchHow = -1;
  // A null pointer means that no set is given: the kernel reads nothing.
  if (page == 0 || !g_probes_pages || g_has_filter) return false;
  const long result = raw::Call(SYS_rt_sigprocmask, kNoSuchHow, static_cast<long>(page * kPage), 0, 8);
  if (result != -EINVAL) return false;
  __atomic_store_n(&g_probed_pages[page % kProbedPages], page << 28 | (second & 0xfffffff), __ATOMIC_RELAXED);
  return true;
}

}  // namespace tbprof
