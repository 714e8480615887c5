// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/surroundings.h"

#include <unistd.h>

#include <algorithm>

#include "launcher/base/proc_files.h"
#include "launcher/base/text.h"
#include "launcher/check/logdir_paths.h"
#include "writer/base/summary_format.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

// libfaketime gives every program that it is in other times, tbprof's launcher too.
bool HasFakeTime(const Environment& environment) {
  const std::string_view preloaded = Lookup(environment, "LD_PRELOAD").value_or("");
  return preloaded.find("libfaketime") != std::string_view::npos;
}

// The program's share of a small address space; empty: tbprof's share is added to the limit.
std::string AddressSpaceWarning(const std::optional<rlimit>& before, uint64_t segment_bytes) {
  rlimit now;
  if (!before.has_value() || getrlimit(RLIMIT_AS, &now) != 0 || now.rlim_max == RLIM_INFINITY) return "";
  const uint64_t own = std::min<uint64_t>(segment_bytes, before->rlim_cur / 8);  // as a program maps it
  if (before->rlim_cur + own <= before->rlim_max) return "";
  return StrCat("the address space is limited to ", HumanBytes(static_cast<double>(before->rlim_cur)),
                " (`ulimit -v`), and tbprof takes up to ", HumanBytes(static_cast<double>(own)),
                " of it in each program, which may run out of memory sooner; --buffer-size=4MiB takes the least");
}

}  // namespace

bool IsProcOfOthers() {
  const std::string own = LinkText("/proc/self");
  return !own.empty() && own != StrCat(getpid());
}

std::vector<std::string> WarningsOfSurroundings(const Environment& environment, std::string_view logdir,
                                                const std::optional<rlimit>& address_space, uint64_t segment_bytes) {
  std::vector<std::string> warnings;
  if (IsProcOfOthers()) {
    warnings.push_back(
        "/proc belongs to another PID namespace: no stacks, and no CPU times of threads; mount it in this one "
        "(unshare --mount-proc)");
  }
  if (HasFakeTime(environment)) {
    warnings.push_back(
        "libfaketime gives tbprof false times, too: no stacks; put it behind tbprof (tbprof run -- faketime ...)");
  }
  if (std::string warning = AddressSpaceWarning(address_space, segment_bytes); !warning.empty()) {
    warnings.push_back(std::move(warning));
  }
  if (HiddenEnd(logdir) != std::string_view::npos) {
    warnings.push_back(StrCat("TensorBoard shows nothing of ", PrintableUtf8(std::string(logdir)),
                              ": its path has a pattern (`[...]`) or is no UTF-8; choose another --logdir"));
  }
  return warnings;
}

}  // namespace tbprof
