// SPDX-License-Identifier: Apache-2.0
#include "launcher/base/stack_limit.h"

#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tbprof {
namespace {

constexpr rlim_t kWanted = rlim_t{8} << 20, kLeast = rlim_t{512} << 10;

rlimit g_before = {RLIM_INFINITY, RLIM_INFINITY};
bool g_raised = false;

}  // namespace

void RaiseStackLimit() {
  if (getrlimit(RLIMIT_STACK, &g_before) != 0 || g_before.rlim_cur >= kWanted) return;
  // The main thread's stack grows up to the new limit. New threads have what the C library read at the start.
  const rlimit raised = {std::min(kWanted, g_before.rlim_max), g_before.rlim_max};
  if (setrlimit(RLIMIT_STACK, &raised) != 0) return;
  g_raised = true;
  pthread_attr_t standard;
  if (pthread_attr_init(&standard) != 0) return;
  if (pthread_attr_setstacksize(&standard, kWanted) == 0) pthread_setattr_default_np(&standard);
  pthread_attr_destroy(&standard);
}

void RestoreStackLimit() {
  if (g_raised) setrlimit(RLIMIT_STACK, &g_before);
}

absl::Status CheckStackLimit() {
  rlimit now;
  if (getrlimit(RLIMIT_STACK, &now) != 0 || now.rlim_cur >= kLeast) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("the stack is limited to ", now.rlim_cur >> 10,
                                                   " KiB (`ulimit -Hs`): tbprof needs ", kLeast >> 10, " KiB"));
}

}  // namespace tbprof
