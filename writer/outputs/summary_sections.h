// SPDX-License-Identifier: Apache-2.0
//
// Sections of the terminal's texts that both the end block and the full summary show.
//
// Process: converter. Pure functions of the timeline.
#ifndef TBPROF_WRITER_OUTPUTS_SUMMARY_SECTIONS_H_
#define TBPROF_WRITER_OUTPUTS_SUMMARY_SECTIONS_H_

#include <string>
#include <string_view>
#include <vector>

#include "writer/outputs/summary.h"
#include "writer/outputs/summary_lines.h"

namespace tbprof {

// The terminal's escape sequence; empty: none.
std::string_view EscapeOf(Style style);
// `60 steps, median 52.1 ms, 2 more irregular (found by Optimizer.step)`, `steps unknown: why`; empty: no steps to
// report.
std::string StepsText(const Timeline& timeline);
// Wall and CPU time, how the command ended, ranks, processes, steps, input.
Section HeadlineSection(const Timeline& timeline, size_t columns);
Section GpuSection(const Timeline& timeline, size_t columns);
// Errors, losses, processes that were not recorded, warnings.
Section NoteSection(const Timeline& timeline, size_t columns);
Section CostSection(const Timeline& timeline, const SummaryOptions& options);
Section FileSection(const std::vector<PublishedFile>& files);
// How to view the profile.
Section ViewSection(const Timeline& timeline, const std::vector<PublishedFile>& files, const SummaryOptions& options);

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_SUMMARY_SECTIONS_H_
