// SPDX-License-Identifier: Apache-2.0
#include "writer/outputs/summary_steps.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "writer/base/json_values.h"
#include "writer/base/median.h"
#include "writer/base/utf8.h"
#include "writer/convert/input_wait.h"
#include "writer/outputs/step_change_text.h"

namespace tbprof {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kPercentiles[] = {1, 5, 10, 25, 50, 75, 90, 95, 99};

// Nearest rank: the smallest length that at least `percent` percent of the steps do not exceed.
int64_t Percentile(const std::vector<int64_t>& sorted, int percent) {
  const size_t rank = (sorted.size() * static_cast<size_t>(percent) + 99) / 100;
  return sorted[std::max<size_t>(rank, 1) - 1];
}

Json DistributionJson(const std::vector<int64_t>& sorted) {
  if (sorted.empty()) return nullptr;
  Json out = {{"count", sorted.size()}, {"min_s", Seconds(sorted.front())}};
  for (const int percent : kPercentiles) {
    out["p" + std::to_string(percent) + "_s"] = Seconds(Percentile(sorted, percent));
  }
  out["max_s"] = Seconds(sorted.back());
  return out;
}

Json ListJson(const Timeline& timeline) {
  if (timeline.steps.size() > kMaxListedSteps) return nullptr;
  Json list = Json::array();
  for (const Step& step : timeline.steps) {
    list.push_back({{"number", step.number},
                    {"start_s", Seconds(step.start_ps)},
                    {"duration_s", Seconds(step.end_ps - step.start_ps)},
                    {"regular", step.is_regular}});
  }
  return list;
}

// Only of steps that are not listed.
Json BlocksJson(const Timeline& timeline) {
  if (timeline.steps.size() <= kMaxListedSteps || timeline.step_source == StepSource::kWholeCapture) return nullptr;
  std::vector<double> lengths;
  for (const Step& step : timeline.steps) {
    if (step.is_regular) lengths.push_back(Seconds(step.end_ps - step.start_ps));
  }
  const size_t block = (lengths.size() + kMaxStepBlocks - 1) / kMaxStepBlocks;
  if (block == 0) return nullptr;
  return {{"steps", block}, {"medians_s", BlockMedians(lengths, block)}, {"means_s", BlockMeans(lengths, block)}};
}

Json LoopsJson(const Timeline& timeline) {
  Json list = Json::array();
  for (const StepLoop& loop : timeline.step_loops) {
    list.push_back({{"what", loop.what},
                    {"count", loop.count},
                    {"steps_each", loop.steps_each},
                    {"may_be_step", loop.may_be_step}});
  }
  return list;
}

std::string_view StateName(InputWaitState state) {
  switch (state) {
    case InputWaitState::kUnknown:
      return "unknown";
    case InputWaitState::kNone:
      return "none";
    case InputWaitState::kMeasured:
      return "measured";
  }
  return "";
}

std::string_view CauseName(InputUnknown cause) {
  switch (cause) {
    case InputUnknown::kNoSteps:
      return "no steps";
    case InputUnknown::kNotRecorded:
      return "waits not recorded";
    case InputUnknown::kNotDrawn:
      return "waits too short to be drawn";
    case InputUnknown::kInFunction:
      return "batches taken within a function";
    case InputUnknown::kWaits:
      return "waits for an unknown purpose";
    case InputUnknown::kReads:
      return "steps read data";
  }
  return "";
}

Json InputWaitJson(const InputWait& input) {
  const bool measured = input.state == InputWaitState::kMeasured;
  Json out = {{"state", StateName(input.state)},
              {"share", measured ? Json(input.share) : Json(nullptr)},
              {"loader", measured ? Json(input.loader) : Json(nullptr)},
              {"at_most", input.state == InputWaitState::kNone ? Json(input.share) : Json(nullptr)},
              {"cause", input.state == InputWaitState::kUnknown ? Json(CauseName(input.cause)) : Json(nullptr)},
              {"unknown_waits_share", input.unknown_share},
              {"unknown_waits", Json::array()}};
  for (const NamedWait& wait : input.unknown) {
    out["unknown_waits"].push_back({{"wait", ValidUtf8(wait.name)}, {"share", wait.share}});
  }
  return out;
}

}  // namespace

std::vector<double> BlockMeans(std::span<const double> lengths, size_t block) {
  std::vector<double> means;
  for (size_t first = 0; first + block <= lengths.size(); first += block) {
    double sum = 0;
    for (const double length : lengths.subspan(first, block)) sum += length;
    means.push_back(sum / static_cast<double>(block));
  }
  return means;
}

std::vector<double> BlockMedians(std::span<const double> lengths, size_t block) {
  std::vector<double> medians;
  for (size_t first = 0; first + block <= lengths.size(); first += block) {
    const auto of_block = lengths.subspan(first, block);
    medians.push_back(Median(std::vector<double>(of_block.begin(), of_block.end())));
  }
  return medians;
}

Json StepsJson(const Timeline& timeline) {
  std::vector<int64_t> lengths;
  double sum = 0, irregular_s = 0;
  for (const Step& step : timeline.steps) {
    const int64_t length = step.end_ps - step.start_ps;
    if (step.is_regular) lengths.push_back(length);
    (step.is_regular ? sum : irregular_s) += Seconds(length);
  }
  std::sort(lengths.begin(), lengths.end());
  // Without recognised steps, the profile shows the whole capture as one step, which is not a step of the program.
  const bool recognised = timeline.step_source != StepSource::kWholeCapture;
  if (!recognised) lengths.clear();
  const bool any = !lengths.empty();
  const auto known = [&](double seconds) { return any ? Json(seconds) : Json(nullptr); };
  const bool in_part = timeline.steps_in_detail;
  const InputWait input = MeasureInputWait(timeline);
  return {{"known", recognised},
          {"unknown_because", recognised ? Json(nullptr) : Json(ValidUtf8(timeline.steps_unknown))},
          {"count", recognised ? Json(lengths.size()) : Json(nullptr)},
          {"irregular", recognised ? Json(timeline.steps.size() - lengths.size()) : Json(nullptr)},
          {"irregular_s", recognised ? Json(irregular_s) : Json(nullptr)},
          {"source", timeline.steps.empty() ? Json(nullptr) : Json(ValidUtf8(timeline.step_source_text))},
          {"confidence", timeline.step_confidence},
          {"searched_from_s", KnownOrNull(in_part, Seconds(timeline.full_detail.start_ps))},
          {"searched_to_s", KnownOrNull(in_part, Seconds(timeline.full_detail.end_ps))},
          {"other_loops", LoopsJson(timeline)},
          {"shortest_s", known(any ? Seconds(lengths.front()) : 0)},
          // As in the terminal: for an even count, the upper of the two middle lengths.
          {"median_s", known(any ? Seconds(lengths[lengths.size() / 2]) : 0)},
          {"longest_s", known(any ? Seconds(lengths.back()) : 0)},
          {"mean_s", known(any ? sum / static_cast<double>(lengths.size()) : 0)},
          {"change", StepChangeJson(timeline)},
          {"distribution", DistributionJson(lengths)},
          {"list", ListJson(timeline)},
          {"list_omitted", timeline.steps.size() > kMaxListedSteps ? timeline.steps.size() : 0},
          {"blocks", BlocksJson(timeline)},
          {"input_wait_share", input.state == InputWaitState::kMeasured ? Json(input.share) : Json(nullptr)},
          {"input_wait", InputWaitJson(input)}};
}

}  // namespace tbprof
