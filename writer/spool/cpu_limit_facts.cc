// SPDX-License-Identifier: Apache-2.0
#include "writer/spool/cpu_limit_facts.h"

#include <algorithm>

namespace tbprof {

bool CpuLimitFacts::Take(const Frame& frame) {
  if (frame.type != FrameType::kCpuLimits) return false;
  CpuLimitsFact fact;
  if (!frame.Read(&fact) || frame.segment == 0 || fact.process_serial == 0 || fact.ticks >= kLatestTicks ||
      fact.cpus_allowed < 0 || fact.quota_us < -2 || fact.throttled_us < -1 ||
      (fact.quota_us >= 0 && fact.period_us <= 0)) {
    ++corrupt_;
    return true;
  }
  if (count_ >= kMostCpuLimits) return true;
  ++count_;
  std::vector<CpuLimitsFact>& facts = facts_[{frame.segment, fact.process_serial}];
  const auto at = std::upper_bound(facts.begin(), facts.end(), fact.ticks,
                                   [](uint64_t ticks, const CpuLimitsFact& each) { return ticks < each.ticks; });
  facts.insert(at, fact);
  return true;
}

const std::vector<CpuLimitsFact>* CpuLimitFacts::Of(uint32_t segment, uint32_t process_serial) const {
  const auto found = facts_.find({segment, process_serial});
  return found == facts_.end() ? nullptr : &found->second;
}

}  // namespace tbprof
