// SPDX-License-Identifier: Apache-2.0
//
// The summary that a launcher sends with the profile of a capture. It names the launcher's own directory and files; it
// is rewritten for the place where the command puts the profile.
//
//   absl::StatusOr<FetchedSummary> summary = RewriteSummary(text, {run, logdir, stem, directory->written()});
//
// Process: `tbprof capture`. Pure functions. The text comes from another process or machine and is not trusted.
#ifndef TBPROF_LAUNCHER_CAPTURE_FETCHED_SUMMARY_H_
#define TBPROF_LAUNCHER_CAPTURE_FETCHED_SUMMARY_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "writer/outputs/published_file.h"

namespace tbprof {

// Longer summaries are not kept.
inline constexpr size_t kMostFetchedSummaryBytes = size_t{64} << 20;

struct SummaryPlace {
  std::string run, logdir, stem;
  std::vector<PublishedFile> files;  // of the whole run; those of `stem` are named in the summary
};

struct FetchedSummary {
  std::string json;                // the text of the file
  std::vector<std::string> lines;  // verdict, steps, where, split, next and evidence
};

// DataLoss if the text is no summary that this version reads.
absl::StatusOr<FetchedSummary> RewriteSummary(const std::string& text, const SummaryPlace& place);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_CAPTURE_FETCHED_SUMMARY_H_
