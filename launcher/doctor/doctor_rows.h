// SPDX-License-Identifier: Apache-2.0
//
// What `tbprof doctor` looks at: one row per check. A check reads and reports; what it has to try (a file in the log
// directory, a run of tbprof) it takes away again.
//
//   for (const DoctorRow& row : DoctorRows()) {
//     if (const std::optional<Finding> finding = row.check(context)) ...
//   }
//
// Process: launcher, main thread.
#ifndef TBPROF_LAUNCHER_DOCTOR_DOCTOR_ROWS_H_
#define TBPROF_LAUNCHER_DOCTOR_DOCTOR_ROWS_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "launcher/cli/options.h"
#include "launcher/target/gpu_probe.h"

namespace tbprof {

// kFail: recording is prevented, or nothing of the command would be recorded. kWarn: it works, with a loss that is
// named. kNote: recording is not touched (other machines, viewing). Only kFail ends with another status than 0, the
// others under --strict: docs/cli.md.
enum class DoctorVerdict { kPass, kNote, kWarn, kFail };

struct Finding {
  DoctorVerdict verdict = DoctorVerdict::kPass;
  std::string found;
  std::string fix;  // what to do; empty when there is nothing to do
};

struct DoctorContext {
  const Options& options;
  const Environment& environment;
  std::string logdir;  // absolute
  GpuProbe* gpu = nullptr;
};

struct DoctorRow {
  std::string_view name;
  std::optional<Finding> (*check)(const DoctorContext& context);  // nothing: does not apply here
};

absl::Span<const DoctorRow> DoctorRows();

// Where the Python of --python, or the active one, imports from.
std::vector<std::string> PythonPackages(const Options& options, const Environment& environment);

// Rows of doctor_gpu_rows.cc.
std::optional<Finding> CheckDriver(const DoctorContext& context);
std::optional<Finding> CheckCuda(const DoctorContext& context);
std::optional<Finding> CheckCupti(const DoctorContext& context);
// Of doctor_stacks.cc.
std::optional<Finding> CheckStacks(const DoctorContext& context);
// Of doctor_self_test.cc.
std::optional<Finding> CheckSelfTest(const DoctorContext& context);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_DOCTOR_DOCTOR_ROWS_H_
