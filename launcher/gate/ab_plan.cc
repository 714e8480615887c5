// SPDX-License-Identifier: Apache-2.0
#include "launcher/gate/ab_plan.h"

#include <algorithm>

namespace tbprof {
namespace {

constexpr uint64_t kFirstLook = 4;
constexpr double kGrowth = 1.45;

}  // namespace

bool AbOrder::Next() {
  new_first_ = second_ ? !new_first_ : (random_() & 1) != 0;
  second_ = !second_;
  return new_first_;
}

std::vector<Look> PlanLooks(uint64_t pairs) {
  std::vector<Look> looks;
  for (uint64_t at = std::min(kFirstLook, pairs); at < pairs;) {
    looks.push_back({at, 0});
    at = std::max(at + 1, static_cast<uint64_t>(static_cast<double>(at) * kGrowth + 0.5));
  }
  looks.push_back({pairs, 0});
  double sum = 0;
  for (const Look& look : looks) sum += static_cast<double>(look.pairs);
  for (Look& look : looks) look.share = static_cast<double>(look.pairs) / sum;
  return looks;
}

double ShareLeft(const std::vector<Look>& looks, size_t taken) {
  double left = 0;
  for (size_t i = taken; i < looks.size(); ++i) left += looks[i].share;
  return left;
}

}  // namespace tbprof
