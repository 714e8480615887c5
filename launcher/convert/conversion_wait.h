// SPDX-License-Identifier: Apache-2.0
//
// Runs a conversion and waits for it, with a progress bar on the terminal.
//
// Process: launcher, main thread of a command that does nothing else meanwhile.
#ifndef TBPROF_LAUNCHER_CONVERT_CONVERSION_WAIT_H_
#define TBPROF_LAUNCHER_CONVERT_CONVERSION_WAIT_H_

#include <string>

#include "absl/status/statusor.h"
#include "launcher/cli/terminal.h"
#include "launcher/convert/conversion.h"

namespace tbprof {

// `what`: the activity, for the progress bar. An error of the conversion names the spool.
absl::StatusOr<ConversionResult> ConvertAndWait(const ConversionRequest& request, std::string what, Terminal* terminal);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_CONVERT_CONVERSION_WAIT_H_
