// SPDX-License-Identifier: Apache-2.0
//
// The checks of `tbprof doctor`, one row each. A check reads and reports; it removes everything that it creates for a
// test (a file in the log directory, a run of tbprof).
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

// kFail: recording is impossible, or nothing of the command would be recorded. kWarn: recording works, with a loss that
// is named. kNote: recording is not affected (other machines, viewing). The exit status is not 0 for kFail, and under
// --strict for kWarn and kNote: docs/cli.md.
enum class DoctorVerdict { kPass, kNote, kWarn, kFail };

struct Finding {
  DoctorVerdict verdict = DoctorVerdict::kPass;
  std::string found;
  std::string fix;  // the remedy; empty: none needed
};

inline Finding Pass(std::string found) { return {DoctorVerdict::kPass, std::move(found), ""}; }
inline Finding Note(std::string found, std::string fix) {
  return {DoctorVerdict::kNote, std::move(found), std::move(fix)};
}
inline Finding Warn(std::string found, std::string fix) {
  return {DoctorVerdict::kWarn, std::move(found), std::move(fix)};
}
inline Finding Fail(std::string found, std::string fix) {
  return {DoctorVerdict::kFail, std::move(found), std::move(fix)};
}

struct DoctorContext {
  const Options& options;
  const Environment& environment;
  std::string logdir;  // absolute
  GpuProbe* gpu = nullptr;
};

struct DoctorRow {
  std::string_view name;
  std::optional<Finding> (*check)(const DoctorContext& context);  // std::nullopt: does not apply here
};

absl::Span<const DoctorRow> DoctorRows();

// Directories from which the Python of --python, of the command, or the active one imports.
std::vector<std::string> PythonPackages(const Options& options, const Environment& environment);

// Rows in doctor_gpu_rows.cc.
std::optional<Finding> CheckDriver(const DoctorContext& context);
std::optional<Finding> CheckCuda(const DoctorContext& context);
std::optional<Finding> CheckCupti(const DoctorContext& context);
// In doctor_stacks.cc.
std::optional<Finding> CheckStacks(const DoctorContext& context);
// In doctor_self_test.cc.
std::optional<Finding> CheckSelfTest(const DoctorContext& context);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_DOCTOR_DOCTOR_ROWS_H_
