// SPDX-License-Identifier: Apache-2.0
//
// The answers in a summary.json (docs/summary.md).
//
// Process: launcher, for `tbprof report`. Content is taken as hostile: what is absent is unknown, what has another type
// than it should is an error that names its place.
#ifndef TBPROF_LAUNCHER_REPORT_REPORT_ANSWERS_H_
#define TBPROF_LAUNCHER_REPORT_REPORT_ANSWERS_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "launcher/report/report.h"
#include "launcher/report/report_fields.h"

namespace tbprof {

// `path`: of the summary, for messages. Fills in all but `kind`, `path` and `missing`.
absl::Status ReadAnswers(const nlohmann::json& summary, const std::string& path, Report* report);

// The ranks that a summary reports of, `summary.rank` first; one without a number where the summary has no rank.
absl::StatusOr<std::vector<RankAnswer>> ReadRanks(const nlohmann::json& summary, const std::string& path);

// Parts of ReadAnswers, in report_tables.cc.
std::vector<PythonThreads> ReadPython(const Fields& root);
std::vector<NativeThreads> ReadNative(const Fields& root);
std::vector<WaitRow> ReadWaits(const Fields& root);

// Of a section of `by_rank`: without a split.
VerdictAnswer ReadVerdictOfRank(const Fields& section);
std::vector<GpuAnswer> ReadGpus(const Fields& root);
MemoryAnswer ReadMemory(const Fields& root);

// `exit status 3`, `killed by signal 9`; empty: not known.
std::string EndText(std::optional<int64_t> exit_code, std::optional<int64_t> exit_signal);

// The command line without secrets: whoever wrote the summary may have left them in.
std::string MaskedLine(const std::string& line);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_REPORT_REPORT_ANSWERS_H_
