// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/gpu_gaps.h"

#include <map>
#include <string_view>

#include "writer/base/summary_format.h"
#include "writer/base/text.h"

namespace tbprof {
namespace {

constexpr size_t kMaxCauses = 8;
constexpr int64_t kPsPerMillisecond = 1'000'000'000;

std::string MoreGaps(size_t count) { return StrCat(count, count == 1 ? " more gap" : " more gaps"); }

}  // namespace

std::vector<std::string> GapWarnings(const std::string& process, const std::vector<GpuGap>& gaps) {
  struct CauseOfGaps {
    const GpuGap* first = nullptr;
    size_t gaps = 0;
    int64_t ps = 0;
  };
  std::vector<CauseOfGaps> causes;
  CauseOfGaps others;
  std::map<std::string_view, size_t> places;
  for (const GpuGap& gap : gaps) {
    const size_t place = places.emplace(gap.reason, places.size()).first->second;
    if (place == causes.size() && place < kMaxCauses) causes.push_back({&gap});
    CauseOfGaps& cause = place < causes.size() ? causes[place] : others;
    ++cause.gaps;
    // Gaps do not overlap: their sum is at most the window.
    cause.ps += gap.end_ps - gap.start_ps;
  }
  std::vector<std::string> warnings;
  for (const CauseOfGaps& cause : causes) {
    const GpuGap& gap = *cause.first;
    warnings.push_back(StrCat(
        process, ": its GPU activity is missing for ", HumanTime(gap.end_ps - gap.start_ps), " from ",
        gap.start_ps / kPsPerMillisecond, " ms (", gap.reason, ")",
        cause.gaps > 1 ? StrCat(", and in ", MoreGaps(cause.gaps - 1), ", ", HumanTime(cause.ps), " in all") : "",
        gap.remedy.empty() ? "" : "; ", gap.remedy));
  }
  if (others.gaps > 0) {
    warnings.push_back(StrCat(process, ": its GPU activity is missing in ", MoreGaps(others.gaps), " of other causes, ",
                              HumanTime(others.ps), " in all (summary.json lists them)"));
  }
  return warnings;
}

}  // namespace tbprof
