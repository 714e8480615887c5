// SPDX-License-Identifier: Apache-2.0
//
// The summary of a capture, as text for the terminal and as JSON. Pure functions of the timeline and of what was
// published.
#ifndef TBPROF_WRITER_SUMMARY_H_
#define TBPROF_WRITER_SUMMARY_H_

#include <string>
#include <vector>

#include "writer/logdir.h"
#include "writer/timeline.h"

namespace tbprof {

struct SummaryOptions {
  std::string logdir;  // absolute
  bool color = false;
  int width = 100;
  int max_lines = 25;
};

// Lines without the `tbprof: ` prefix and without newline, at most max_lines of them.
std::vector<std::string> SummaryText(const Timeline& timeline, const std::vector<RunDirectory::File>& files,
                                     const SummaryOptions& options);

// Schema in docs/cli.md; `"schema": 1`.
std::string SummaryJson(const Timeline& timeline, const std::vector<RunDirectory::File>& files,
                        const SummaryOptions& options);

}  // namespace tbprof

#endif  // TBPROF_WRITER_SUMMARY_H_
