// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/spool_summary.h"

#include <utility>

#include "launcher/base/text.h"
#include "launcher/convert/conversion_wait.h"
#include "launcher/session/spools.h"
#include "writer/convert/timeline_builder.h"
#include "writer/logdir/logdir.h"

namespace tbprof {
namespace {

// Chooses the run's own window, or without it the window that was opened last.
SpoolSummary::SpoolWindow ChosenWindow(const std::vector<SpoolSummary::SpoolWindow>& windows) {
  SpoolSummary::SpoolWindow chosen{0};
  for (const auto& window : windows) {
    if (window.replaced) continue;
    chosen = window;
    if (window.number == 0) break;
  }
  return chosen;
}

}  // namespace

absl::StatusOr<SpoolText> SummaryOfSpool(const std::string& spool, const Options& options, Terminal* terminal) {
  const absl::StatusOr<SpoolSummary> facts = ReadSpoolSummary(spool);
  if (!facts.ok()) return facts.status();
  ConversionRequest request;
  request.spool = spool;
  request.host = facts->host.empty() ? HostName() : HostNameFrom(facts->host);
  request.window = ChosenWindow(facts->windows).number;
  request.max_profile_size = facts->max_profile_size != 0 ? facts->max_profile_size : options.max_profile_size;
  request.summary_only = true;
  SpoolText text;
  size_t others = 0;
  for (const auto& window : facts->windows) others += !window.replaced && window.number != request.window;
  if (others > 0)
    text.remarks.push_back(StrCat(others, " more windows of this spool: `tbprof convert` makes a run of each"));
  if (IsSpoolInUse(spool))
    text.remarks.emplace_back("it is still written or being recovered: this is what it holds so far");
  absl::StatusOr<ConversionResult> result = ConvertAndWait(request, "reading the records", terminal);
  if (!result.ok()) return result.status();
  text.summary = std::move(result->summary_json);
  return text;
}

}  // namespace tbprof
