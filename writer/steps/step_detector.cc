// SPDX-License-Identifier: Apache-2.0
#include "writer/steps/step_detector.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "writer/base/median.h"
#include "writer/steps/launch_detector.h"

namespace tbprof {
namespace launch_steps {

StepDetection Detector::Run() {
  if (launches_.size() < kFewestOccurrences) return {};
  const int64_t origin = ClampTime(launches_[0].start_ps);
  for (const StepLaunch& launch : launches_) {
    losses_ += (launch.flags & StepLaunch::kAfterLoss) != 0;
    span_ = std::max(span_, static_cast<uint64_t>(std::max<int64_t>(ClampTime(launch.start_ps) - origin, 0)));
  }
  if (span_ == 0) return {};
  CountTypes();
  CollectCandidates();
  FormClasses();
  candidates_ = {};
  if (classes_.empty()) return std::move(result_);
  Alternate();
  Judge();
  const std::optional<uint32_t> chosen = Choose();
  if (!chosen) return std::move(result_);
  const double confidence = Confidence(*chosen);
  if (confidence >= kLeastConfidence) {
    Cut(*chosen);
    if (every_) KeepEvery(classes_[*chosen].outer, classes_[*chosen].length);
    FindUnseen();
    MakeSteps();
  }
  if (result_.steps.empty()) {
    StepDetection none;
    none.capped = result_.capped;
    return none;
  }
  result_.confidence = std::min(confidence, 0.99);
  result_.cut_known = by_optimizer_ || classes_[*chosen].executable;
  result_.source = classes_[*chosen].executable ? "an executable launched again and again"
                   : by_optimizer_              ? "repeated launches, cut behind the optimizer"
                                                : "repeated launches";
  return std::move(result_);
}

}  // namespace launch_steps

UsualLengths UsualLengthsOf(const std::vector<double>& lengths) {
  UsualLengths usual;
  usual.median = Median(lengths);
  std::vector<double> deviations;
  deviations.reserve(lengths.size());
  for (const double length : lengths) deviations.push_back(std::abs(length - usual.median));
  usual.least = 0.25 * usual.median;
  usual.most = usual.median + std::max(8 * Median(std::move(deviations)), 0.5 * usual.median);
  return usual;
}

bool NameLooksLikeOptimizer(std::string_view name) {
  constexpr std::string_view kWords[] = {
      "adam", "sgd", "lamb", "lion", "adafactor", "rmsprop", "muon", "foreach", "multi_tensor_apply", "fused_optim"};
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  for (std::string_view word : kWords) {
    for (auto from = name.begin();;) {
      const auto found =
          std::search(from, name.end(), word.begin(), word.end(), [&](char a, char b) { return lower(a) == b; });
      if (found == name.end()) break;
      from = found + 1;
      // About half of PyTorch's kernels have "lambda" in their names.
      const std::string_view rest(found + static_cast<ptrdiff_t>(word.size()), name.end());
      if (word == "lamb" && rest.starts_with("da")) continue;
      // Excludes "million" and "medallion".
      if (word == "lion" && found != name.begin() && found[-1] >= 'a' && found[-1] <= 'z') continue;
      return true;
    }
  }
  return false;
}

StepDetection DetectSteps(std::span<const StepLaunch> launches) { return launch_steps::Detector(launches).Run(); }

StepDetection DetectLongSteps(std::span<const StepLaunch> launches) {
  if (launches.size() < kFewestLaunches) return {};
  StepDetection found = DetectSteps(launches);
  if (found.period_ps < kShortestStepPs) found.steps.clear();
  return found;
}

}  // namespace tbprof
