// SPDX-License-Identifier: Apache-2.0
//
// The summary of a capture, as text for the terminal and as JSON. Pure functions of the timeline and of the published
// files.
#ifndef TBPROF_WRITER_OUTPUTS_SUMMARY_H_
#define TBPROF_WRITER_OUTPUTS_SUMMARY_H_

#include <string>
#include <vector>

#include "writer/outputs/published_file.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

struct SummaryOptions {
  std::string logdir;                  // absolute
  std::string version;                 // tbprof's version; empty: unknown
  std::string viewer = "tensorboard";  // as a shell starts it
  bool color = false;
  int width = 100;
  int max_lines = 30;
  // For a run that has ended: the time that tbprof took before the command, and since the command's end; negative:
  // unknown.
  double seconds_before = -1, seconds_after = -1;
};

// Lines without the `tbprof: ` prefix and without newline, at most max_lines of them.
std::vector<std::string> SummaryText(const Timeline& timeline, const std::vector<PublishedFile>& files,
                                     const SummaryOptions& options);

// Incremented if a field is removed or changes its meaning, but not if a field is added.
inline constexpr int kSummarySchemaVersion = 1;

// The fields are documented in docs/summary.md and docs/summary.schema.json: a field that is not in the schema fails
// the test of summaries.
std::string SummaryJson(const Timeline& timeline, const std::vector<PublishedFile>& files,
                        const SummaryOptions& options);

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_SUMMARY_H_
