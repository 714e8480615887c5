// SPDX-License-Identifier: Apache-2.0
#include "writer/steps/step_loops.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

#include "absl/strings/str_format.h"
#include "writer/base/median.h"
#include "writer/base/text.h"

namespace tbprof {
namespace {

// A step that is longer than the usual length by one of these factors may begin a turn of a loop around it. Other steps
// are also long by chance, many on a busy machine, but seldom as long.
constexpr double kLonger[] = {1.5, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144};
// Three long steps may have equal distances by chance.
constexpr size_t kFewestLonger = 4, kFewestBegins = 2;
// kMostCompared: distances are searched in at most this many steps. kNoChance: negative logarithm of the probability by
// chance; about kMostCompared squared combinations are tried.
constexpr size_t kMostCompared = 2048;
constexpr double kNoChance = 24;
// Share of the turns that must have the usual number of steps.
constexpr double kSameNumber = 0.75;
// Share of the time that is extra in the first steps of turns: from kSome or kMuch on, a turn may as well be the step.
constexpr double kSome = 0.05, kMuch = 0.15;
// With a smaller share there is no loop: recording the operations of every Nth step costs up to 1 %.
constexpr double kLeast = 0.02;
constexpr size_t kFewPerTurn = 64;

// Returns the usual number of steps in a turn. `begins`: indexes of the steps that begin a turn, in order.
std::optional<size_t> UsualNumber(const std::vector<size_t>& begins, size_t fewest) {
  if (begins.size() < fewest) return std::nullopt;
  std::map<size_t, size_t> numbers;
  for (size_t i = 1; i < begins.size(); ++i) ++numbers[begins[i] - begins[i - 1]];
  const auto usual =
      std::ranges::max_element(numbers, [](const auto& a, const auto& b) { return a.second < b.second; });
  const bool same = static_cast<double>(usual->second) >= kSameNumber * static_cast<double>(begins.size() - 1);
  if (usual->first < 2 || !same) return std::nullopt;
  // One distance is none that repeats, unless the first turn has the same.
  if (begins.size() == 2 && begins[0] != usual->first) return std::nullopt;
  return usual->first;
}

// Every Nth step, from `first` on. N: `number`.
struct Lattice {
  size_t first = 0, number = 0;
};

// Finds long steps at equal distances among others that are long by chance: more of them than chance explains.
std::optional<Lattice> FindLattice(const std::vector<int64_t>& lengths, double least) {
  const size_t count = std::min(lengths.size(), kMostCompared);
  std::vector<bool> is_long(count);
  size_t all = 0;
  for (size_t i = 0; i < count; ++i) {
    is_long[i] = static_cast<double>(lengths[i]) > least;
    all += is_long[i];
  }
  if (all < kFewestLonger || all > count / 2) return std::nullopt;
  const double by_chance = std::log(static_cast<double>(count) / static_cast<double>(all));
  for (size_t number = 2; number * kFewestLonger <= count; ++number) {
    for (size_t first = 0; first < number; ++first) {
      size_t turns = 0, begin_long = 0;
      for (size_t i = first; i < count; i += number) {
        ++turns;
        begin_long += is_long[i];
      }
      if (begin_long * 20 < turns * 19) continue;
      if (static_cast<double>(begin_long) * by_chance < kNoChance) continue;
      return Lattice{first, number};
    }
  }
  return std::nullopt;
}

// The steps before the first begin are also a turn, whose begin is not seen.
StepLoop Turns(std::string_view what, const std::vector<size_t>& begins, size_t number) {
  return {std::string(what), begins.size() + (begins[0] > 0 ? 1 : 0), static_cast<double>(number), false};
}

// `share`: of the time, the extra time in the first steps of turns.
StepLoop Iterations(size_t turns, size_t number, double share) {
  return {"iterations", turns, static_cast<double>(number), share >= (number <= kFewPerTurn ? kSome : kMuch)};
}

// Finds turns that begin with a longer step. `lengths`: of all steps, in picoseconds.
std::optional<StepLoop> FindLoopByLength(const std::vector<int64_t>& lengths) {
  double all = 0;
  for (const int64_t length : lengths) all += static_cast<double>(length);
  const auto usual = static_cast<double>(Median(lengths));
  if (const auto lattice = FindLattice(lengths, kLonger[0] * usual); lattice.has_value()) {
    std::vector<size_t> begins;
    std::vector<int64_t> of_begins;
    for (size_t i = lattice->first; i < lengths.size(); i += lattice->number) {
      begins.push_back(i);
      of_begins.push_back(lengths[i]);
    }
    const double more =
        (static_cast<double>(Median(std::move(of_begins))) - usual) * static_cast<double>(begins.size());
    if (more >= kLeast * all) return Iterations(begins.size() + (begins[0] > 0 ? 1 : 0), lattice->number, more / all);
  }
  for (const double longer : kLonger) {
    std::vector<size_t> begins;
    double more = 0;
    for (size_t i = 0; i < lengths.size(); ++i) {
      const auto length = static_cast<double>(lengths[i]);
      if (length <= longer * usual) continue;
      begins.push_back(i);
      more += length - usual;
    }
    const std::optional<size_t> number = UsualNumber(begins, kFewestLonger);
    if (!number.has_value() || more < kLeast * all) continue;
    // The begins of some turns are hidden.
    const size_t turns = (lengths.size() + *number - 1) / *number;
    return Iterations(turns, *number, more / all);
  }
  return std::nullopt;
}

}  // namespace

std::optional<StepLoop> FindOuterLoop(const std::vector<LoopStep>& steps) {
  if (steps.empty()) return std::nullopt;
  std::vector<size_t> data, evaluations;
  std::vector<int64_t> lengths;
  size_t with_batch = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].after_end_of_data) data.push_back(i);
    if (steps[i].after_evaluation) evaluations.push_back(i);
    with_batch += steps[i].has_batch;
    lengths.push_back(steps[i].length_ps);
  }
  if (static_cast<double>(with_batch) < kSameNumber * static_cast<double>(steps.size())) {
    if (auto by_length = FindLoopByLength(lengths); by_length.has_value()) return by_length;
  }
  if (const auto number = UsualNumber(data, kFewestBegins); number.has_value()) return Turns("epochs", data, *number);
  if (const auto number = UsualNumber(evaluations, kFewestBegins); number.has_value()) {
    return Turns("rounds between evaluations", evaluations, *number);
  }
  return std::nullopt;
}

std::string LoopText(const StepLoop& loop) {
  if (loop.steps_each >= 1) return absl::StrFormat("%d %s of %.3g steps", loop.count, loop.what, loop.steps_each);
  return absl::StrFormat("%d %s, %.3g in each step", loop.count, loop.what, 1 / loop.steps_each);
}

}  // namespace tbprof
