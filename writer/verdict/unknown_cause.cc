// SPDX-License-Identifier: Apache-2.0
#include "writer/verdict/unknown_cause.h"

#include <algorithm>
#include <string_view>

#include "writer/base/summary_format.h"
#include "writer/base/text.h"

namespace tbprof {

StepPart LargestPartOf(const Verdict& verdict) {
  return static_cast<StepPart>(std::ranges::max_element(verdict.part_ps) - verdict.part_ps.begin());
}

int64_t LargestWaitPs(const Verdict& verdict) {
  int64_t most = 0;
  for (const StepPart part :
       {StepPart::kInput, StepPart::kCollectives, StepPart::kLocks, StepPart::kGil, StepPart::kDisk, StepPart::kNetwork,
        StepPart::kChild, StepPart::kSleep, StepPart::kStarvation}) {
    most = std::max(most, verdict.part_ps[static_cast<size_t>(part)]);
  }
  return most;
}

std::string ReasonOfUnknown(const Verdict& verdict, double polls, double most_unknown, double least) {
  const double rest = verdict.ShareOf(StepPart::kRest);
  if (rest > most_unknown) {
    if (polls < rest / 2) return StrCat(HumanPercent(rest), " of the time is not explained by what was recorded");
    return StrCat(HumanPercent(polls), " waits for any of several descriptors, and for which was not recorded");
  }
  // A part can be large without a cause: the main thread waits for locks, and no thread is known to hold them.
  const StepPart part = LargestPartOf(verdict);
  if (verdict.ShareOf(part) < least) return "no part of the time stands out";
  const std::string_view missing = part == StepPart::kLocks ? "what it waits for" : "its cause";
  return StrCat(HumanPercent(verdict.ShareOf(part)), " is ", StepPartTitle(part), ", and ", missing,
                " was not recorded");
}

}  // namespace tbprof
