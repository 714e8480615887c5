// SPDX-License-Identifier: Apache-2.0
//
// The error for a value that an option cannot have.
//
// Process: launcher. Pure.
#ifndef TBPROF_LAUNCHER_CLI_OPTION_VALUES_H_
#define TBPROF_LAUNCHER_CLI_OPTION_VALUES_H_

#include <string_view>

#include "absl/status/status.h"

namespace tbprof {

// `expected a size from 1 to 5 bytes`.
absl::Status Expected(std::string_view what);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_CLI_OPTION_VALUES_H_
