// SPDX-License-Identifier: Apache-2.0
//
// Reads the answers from a summary.json (docs/summary.md).
//
// Process: launcher, for `tbprof report`. Content is untrusted: an absent field is unknown, a field with the wrong type
// is an error that names its place.
#ifndef TBPROF_LAUNCHER_REPORT_REPORT_ANSWERS_H_
#define TBPROF_LAUNCHER_REPORT_REPORT_ANSWERS_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "launcher/report/report.h"
#include "launcher/report/report_fields.h"

namespace tbprof {

// `path`: the summary's path, for messages. Sets all fields except `kind`, `path`, `ranks` and `profile`. Adds a line
// to `missing` if the summary has no verdict.
absl::Status ReadAnswers(const nlohmann::json& summary, const std::string& path, Report* report);

// The ranks in a summary, the summary's own rank first. That rank has no number if the summary has none.
absl::StatusOr<std::vector<RankAnswer>> ReadRanks(const nlohmann::json& summary, const std::string& path);

// Whether it is the summary of a launcher that has the run for itself, whatever its ranks.
inline bool IsMainSummary(std::string_view path) { return path.substr(path.rfind('/') + 1) == "summary.json"; }

// The process that makes the steps, as far as the verdict has it.
std::optional<int64_t> StepsPid(const Fields& root);

// Whether one rank's median step is longer than another's by more than noise: ranks that work in step are equal.
inline bool IsSlowerRank(double median_s, double than_s) { return median_s > 1.02 * than_s; }

// Parts of ReadAnswers, in report_tables.cc.
std::vector<PythonThreads> ReadPython(const Fields& root);
std::vector<NativeThreads> ReadNative(const Fields& root);
std::vector<WaitRow> ReadWaits(const Fields& root);
std::vector<GilAnswer> ReadGil(const Fields& root);

// For a section of `by_rank`, which has no split.
VerdictAnswer ReadVerdictOfRank(const Fields& section);
std::vector<GpuAnswer> ReadGpus(const Fields& root);
MemoryAnswer ReadMemory(const Fields& root);

// `exit status 3`, `killed by signal 9`; empty: unknown.
std::string EndText(std::optional<int64_t> exit_code, std::optional<int64_t> exit_signal);

// The command line without secrets: the writer of the summary may not have masked them.
std::string MaskedLine(const std::string& line);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_REPORT_REPORT_ANSWERS_H_
