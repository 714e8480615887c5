// SPDX-License-Identifier: Apache-2.0
//
// Prints a report in four formats; declares the texts that they share. Texts of a Report are printable already; the
// formats add no control characters except newlines.
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
// Format: docs/report.schema.json.
std::string ReportAsJson(const Report& report);
// A header, and one line for each row of each table (RFC 4180).
std::string ReportAsCsv(const Report& report);
// At most `tokens` tokens, counted as 3 bytes each: the least important rows are cut first, and a line names their
// sections.
std::string ReportAsMarkdown(const Report& report, size_t tokens);

// ---- words, in report_words.cc

// `60 steps, median 52.1 ms, 2 more irregular (confidence 0.95, found by Optimizer.step)`, as in the end block.
std::string StepsLine(const Report& report);
// `input 62 %, operations 30 %`; empty: no split.
std::string SplitLine(const VerdictAnswer& verdict);
// At most 999 %.
std::string Percent(double share);
// The lead of the end block: verdict, steps, blocker, split, next.
std::vector<std::string> LeadLines(const Report& report);
// `rank 3, `, or `host NAME, ` without a rank number, if there are several ranks; else empty.
std::string RankPrefix(const Report& report);
// `train.py, main thread, in steps`, or `…, whole profile`.
template <typename Row>
std::string ThreadsText(const ThreadRows<Row>& threads);
extern template std::string ThreadsText(const PythonThreads&);
extern template std::string ThreadsText(const NativeThreads&);
// `train.py:41 main`.
std::string PythonPlace(const PythonRow& row);
// `sem_wait in train.py:41 main, via PyThread_acquire_lock_timed (…)`.
std::string WaitPlace(const WaitRow& row);
std::string NativeName(const NativeRow& row);
// `12.3 s in 3 wait sites of OpenBLAS, CUDA`; empty: there are none.
std::string IdlePoolsText(const Report& report);
// `14 threads of Python only wait`; empty: none.
std::string IdleThreadsText(const Report& report);
// `rank 3 (node1): 60 steps, median 12 ms; 62 % of the step: …`.
std::string RankLine(const RankAnswer& rank);
// `run NAME; host NAME; window auto; 6.6 s wall; exit status 0; train.py (42)`.
std::string WindowLine(const Report& report);
std::string AsHumanBytes(double bytes);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_REPORT_REPORT_OUTPUT_H_
