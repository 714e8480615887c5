// SPDX-License-Identifier: Apache-2.0
//
// What the surroundings of a run would take from it without a word: a /proc of other processes, a false clock, a small
// address space, a log directory that no viewer can show.
//
// Process: launcher, main thread.
#ifndef TBPROF_LAUNCHER_RUN_SURROUNDINGS_H_
#define TBPROF_LAUNCHER_RUN_SURROUNDINGS_H_

#include <sys/resource.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/cli/options.h"

namespace tbprof {

// True if /proc shows the processes of another PID namespace, so that it has another process under this one's number.
bool IsProcOfOthers();

// `address_space`: RLIMIT_AS before the launcher raised its own. `segment_bytes`: what each program of the command
// shares with tbprof at most. One line each.
std::vector<std::string> WarningsOfSurroundings(const Environment& environment, std::string_view logdir,
                                                const std::optional<rlimit>& address_space, uint64_t segment_bytes);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_RUN_SURROUNDINGS_H_
