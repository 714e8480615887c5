// SPDX-License-Identifier: Apache-2.0
//
// The four forms of a report, and the words that they share. Texts of a Report are printable already; none of these
// adds a control character but newlines.
//
// Process: launcher, for `tbprof report`. Pure functions.
#ifndef TBPROF_LAUNCHER_REPORT_REPORT_OUTPUT_H_
#define TBPROF_LAUNCHER_REPORT_REPORT_OUTPUT_H_

#include <cstddef>
#include <string>
#include <vector>

#include "launcher/report/report.h"

namespace tbprof {

inline constexpr size_t kReportColumns = 100, kReportLines = 60;
inline constexpr int kReportSchemaVersion = 1;

// For a terminal: at most kReportLines lines of at most kReportColumns columns.
std::string ReportAsText(const Report& report);
// docs/report.schema.json.
std::string ReportAsJson(const Report& report);
// A header and a row for each row of each table (RFC 4180).
std::string ReportAsCsv(const Report& report);
// At most `tokens`, counted as 3 bytes each: what is least important is cut first, and a line names it.
std::string ReportAsMarkdown(const Report& report, size_t tokens);

// ---- words, in report_words.cc

// `60 steps, median 52.1 ms and 2 irregular (confidence 0.95, found by Optimizer.step)`, as the end block has it.
std::string StepsLine(const Report& report);
// `input 62 %, operations 30 %`; empty: no split.
std::string SplitLine(const VerdictAnswer& verdict);
// The lead of the end block: verdict, steps, blocker, split, next.
std::vector<std::string> LeadLines(const Report& report);
// `rank 3, ` where the report is of one of several ranks.
std::string RankPrefix(const Report& report);
// `train.py, main thread, in steps`; else `whole profile`.
template <typename Row>
std::string ThreadsText(const ThreadRows<Row>& threads);
extern template std::string ThreadsText(const PythonThreads&);
extern template std::string ThreadsText(const NativeThreads&);
// `train.py:41 main`.
std::string PythonPlace(const PythonRow& row);
// `sem_wait in train.py:41 main, via PyThread_acquire_lock_timed (…)`.
std::string WaitPlace(const WaitRow& row);
std::string NativeName(const NativeRow& row);
// `3 wait sites, 12.3 s, in OpenBLAS, CUDA`; empty: there are none.
std::string IdlePoolsText(const Report& report);
// `14 threads`: threads of Python that only wait; empty: none.
std::string IdleThreadsText(const Report& report);
// `rank 3: 62 % of the step: …; step median 12 ms, 60 steps`.
std::string RankLine(const RankAnswer& rank);
// `window auto, 6.6 s wall; exit status 0; train.py`.
std::string WindowLine(const Report& report);
std::string AsHumanBytes(double bytes);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_REPORT_REPORT_OUTPUT_H_
