// SPDX-License-Identifier: Apache-2.0
//
// What `tbprof doctor` looks at: one row per check. A check reads and says; what it has to try (a file in the log
// directory, a run of tbprof) it takes away again.
//
//   for (const DoctorRow& row : DoctorRows()) {
//     if (const std::optional<Finding> finding = row.check(context)) ...
//   }
//
// Process: launcher, main thread.
#ifndef TBPROF_LAUNCHER_DOCTOR_ROWS_H_
#define TBPROF_LAUNCHER_DOCTOR_ROWS_H_

#include <optional>
#include <string>
#include <string_view>

#include "absl/types/span.h"
#include "launcher/options.h"

namespace tbprof {

enum class Verdict { kPass, kWarn, kFail };

struct Finding {
  Verdict verdict = Verdict::kPass;
  std::string found;
  std::string fix;  // what to do; empty when there is nothing to do
};

struct DoctorContext {
  const Options& options;
  const Environment& environment;
  std::string logdir;  // absolute
};

struct DoctorRow {
  std::string_view name;
  std::optional<Finding> (*check)(const DoctorContext& context);  // nothing: does not apply here
};

absl::Span<const DoctorRow> DoctorRows();

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_DOCTOR_ROWS_H_
