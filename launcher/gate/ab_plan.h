// SPDX-License-Identifier: Apache-2.0
//
// The order of the runs of `tbprof ab`, and the numbers of pairs after which it computes the answer.
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

// Random order ABBA or BAAB for each two pairs: a steady drift of the machine affects both sides equally.
class AbOrder {
 public:
  explicit AbOrder(uint64_t seed) : random_(seed) {}
  // True: the next pair begins with the new side.
  bool Next();

 private:
  std::mt19937_64 random_;
  bool second_ = false, new_first_ = false;
};

// A look computes the answer from the pairs so far, and may end the runs. Each look has a share of the permitted
// probability of a wrong answer. The shares add up to 1, so that frequent looks do not find a difference by chance.
struct Look {
  uint64_t pairs = 0;
  double share = 0;
};

// The distance between looks grows, and later looks have a larger share. The last look is at `pairs`.
std::vector<Look> PlanLooks(uint64_t pairs);

// The shares of the looks behind the first `taken` together. The last look takes them if the runs end early.
double ShareLeft(const std::vector<Look>& looks, size_t taken);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_GATE_AB_PLAN_H_
