// SPDX-License-Identifier: Apache-2.0
//
// In which order the runs of `tbprof ab` are made, and after which pairs the answer is looked for.
//
//   AbOrder order(seed);
//   const bool new_first = order.Next();
//   for (const Look& look : PlanLooks(40)) ...
//
// Process: launcher. Pure.
#ifndef TBPROF_LAUNCHER_GATE_AB_PLAN_H_
#define TBPROF_LAUNCHER_GATE_AB_PLAN_H_

#include <cstdint>
#include <random>
#include <vector>

namespace tbprof {

// ABBA or BAAB by chance, for each two pairs: what rises or falls evenly hits both sides alike.
class AbOrder {
 public:
  explicit AbOrder(uint64_t seed) : random_(seed) {}
  // Whether the next pair begins with the new side.
  bool Next();

 private:
  std::mt19937_64 random_;
  bool second_ = false, new_first_ = false;
};

// A look at the data that may end the runs. Each has a share of the chance of a wrong answer, the shares add up to 1:
// whoever looks often must not find by chance what is not there.
struct Look {
  uint64_t pairs = 0;
  double share = 0;
};

// Looks become rarer, and later ones have more of the budget. The last is at `pairs`.
std::vector<Look> PlanLooks(uint64_t pairs);

// Of the looks behind the first `taken`: for a last one before its time, when the runs must end.
double ShareLeft(const std::vector<Look>& looks, size_t taken);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_GATE_AB_PLAN_H_
