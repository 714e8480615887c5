// SPDX-License-Identifier: Apache-2.0
//
// Setters for the options of commands that compare runs; rows of option_rows.cc use them.
//
// Process: launcher. Pure.
#ifndef TBPROF_LAUNCHER_CLI_OPTION_GATE_H_
#define TBPROF_LAUNCHER_CLI_OPTION_GATE_H_

#include <string_view>

#include "launcher/cli/options.h"

namespace tbprof {

absl::Status SetMargin(Options& options, std::string_view value);
absl::Status SetUnclear(Options& options, std::string_view value);
absl::Status SetMaxTime(Options& options, std::string_view value);
absl::Status SetBaseline(Options& options, std::string_view value);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_CLI_OPTION_GATE_H_
