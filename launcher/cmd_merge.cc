// SPDX-License-Identifier: Apache-2.0
//
// `tbprof merge`: one run of several.
#include "launcher/commands.h"
#include "launcher/terminal.h"

namespace tbprof {

int CommandMerge(const Options&) {
  Terminal().Error("merge is not there yet");
  return kExitUsage;
}

}  // namespace tbprof
