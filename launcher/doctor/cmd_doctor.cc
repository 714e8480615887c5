// SPDX-License-Identifier: Apache-2.0
//
// `tbprof doctor`: checks before a run whether recording would work on this machine.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "launcher/base/text.h"
#include "launcher/base/version.h"
#include "launcher/cli/commands.h"
#include "launcher/cli/terminal.h"
#include "launcher/doctor/doctor_rows.h"
#include "writer/base/utf8.h"
#include "writer/logdir/logdir.h"

namespace tbprof {
namespace {

std::string_view VerdictName(DoctorVerdict verdict) {
  switch (verdict) {
    case DoctorVerdict::kPass:
      return "PASS";
    case DoctorVerdict::kNote:
      return "NOTE";
    case DoctorVerdict::kWarn:
      return "WARN";
    case DoctorVerdict::kFail:
      return "FAIL";
  }
  return "";
}

int ExitStatus(DoctorVerdict worst, bool strict) {
  switch (worst) {
    case DoctorVerdict::kPass:
      return 0;
    case DoctorVerdict::kNote:
    case DoctorVerdict::kWarn:
      return strict ? 1 : 0;
    case DoctorVerdict::kFail:
      return 2;
  }
  return 2;
}

std::string Padded(std::string_view text, size_t columns) {
  std::string padded(text);
  padded.resize(std::max(padded.size(), columns), ' ');
  return padded;
}

}  // namespace

int CommandDoctor(const Options& options) {
  const Environment environment = CurrentEnvironment();
  const absl::StatusOr<std::string> logdir = NormaliseLogdir(options.logdir, WorkingDirectory());
  if (!logdir.ok()) {
    Terminal().Error(std::string(logdir.status().message()));
    return kExitUsage;
  }
  // The probe runs while the other rows are checked, and the last rows read its result: a driver that hangs costs no
  // extra time.
  GpuProbe probe(PythonPackages(options, environment));
  const DoctorContext context{options, environment, *logdir, &probe};
  DoctorVerdict worst = DoctorVerdict::kPass;
  std::string text;
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const DoctorRow& row : DoctorRows()) {
    const std::optional<Finding> finding = row.check(context);
    if (!finding) continue;
    worst = std::max(worst, finding->verdict);
    text += StrCat(VerdictName(finding->verdict), "  ", Padded(row.name, 12), PrintableUtf8(finding->found),
                   finding->fix.empty() ? "" : StrCat("; fix: ", PrintableUtf8(finding->fix)), "\n");
    rows.push_back({{"name", row.name},
                    {"verdict", VerdictName(finding->verdict)},
                    {"found", ValidUtf8(finding->found)},
                    {"fix", ValidUtf8(finding->fix)}});
  }
  if (options.json) {
    const nlohmann::ordered_json all = {{"schema", 2},
                                        {"tbprof", Version()},
                                        {"verdict", VerdictName(worst)},
                                        {"strict", options.strict},
                                        {"exit_status", ExitStatus(worst, options.strict)},
                                        {"rows", std::move(rows)}};
    text = all.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  }
  if (!PrintOut(text)) return kExitUsage;
  return ExitStatus(worst, options.strict);
}

}  // namespace tbprof
