// SPDX-License-Identifier: Apache-2.0
#include "writer/steps/step_markers.h"

#include <algorithm>
#include <cctype>
#include <exception>
#include <map>
#include <regex>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "writer/base/median.h"
#include "writer/base/text.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

// Without --step-marker, fewer marks could mean anything.
constexpr size_t kFewestMarkedSteps = 3;
// If ranges called `forward` and `backward` are beside a range called `step`, it is the optimizer's, not the whole
// step.
constexpr double kLeastCoverage = 0.8;
// A few steps that last so many times the median, or so small a part of it, are warm-up, a pause, or the end of the
// last step: they would hide the others. Many such steps are what the program does.
constexpr double kTimesMedian = 10, kMostOutliers = 0.1;
constexpr size_t kFewestForMedian = 10;
constexpr double kNamedConfidence = 1, kGuessedConfidence = 0.9;
constexpr char kUsualNames[] =
    R"(^(ProfilerStep#|((global|training|train)[ _]?)?(step|iteration|iter|batch))[ _#:=]*\d*$)";
constexpr size_t kMaxTitle = 64;

// The name without the number at its end, and that number; -1: none.
std::pair<std::string, int64_t> TitleAndNumber(const std::string& name) {
  size_t digits = name.size();
  while (digits > 0 && std::isdigit(static_cast<unsigned char>(name[digits - 1])) != 0) --digits;
  const std::string number = name.substr(digits);
  std::string title = name.substr(0, digits);
  while (!title.empty() && std::string_view(" _#:=").find(title.back()) != std::string_view::npos) title.pop_back();
  if (number.empty() || number.size() > 15 || title.empty()) return {name, -1};
  return {title, std::stoll(number)};
}

// libstdc++ matches without backtracking: no expression can take exponential time.
constexpr auto kSyntax = std::regex::ECMAScript | std::regex_constants::__polynomial;
// The compiler of std::regex recurses for nested parentheses.
constexpr size_t kMaxExpression = 256;
constexpr size_t kMaxName = 256;

// The converter prefixes names that the profile's reader would interpret with `call `. Returns the program's own name.
std::string_view NameGiven(std::string_view name) {
  if (name.starts_with("call train") || name.starts_with("call test")) name.remove_prefix(sizeof("call ") - 1);
  return name;
}

std::vector<Step> StepsOfLine(const Timeline& timeline, uint32_t thread, const std::vector<bool>& matches) {
  std::vector<Step> steps;
  std::vector<const Event*> marks;
  int64_t free_from = 0;
  const auto add = [&](const Event& event, int64_t end) {
    const auto [title, number] = TitleAndNumber(std::string(NameGiven(timeline.types[event.type].name)));
    Step step;
    step.start_ps = event.start_ps;
    step.end_ps = end;
    step.number = number >= 0 ? number : static_cast<int64_t>(steps.size());
    step.name = TruncateUtf8(title, kMaxTitle);
    step.thread = thread;
    steps.push_back(std::move(step));
  };
  for (const Event& event : timeline.threads[thread].events) {
    if (!matches[event.type]) continue;
    if (event.duration_ps == 0) {
      marks.push_back(&event);
      continue;
    }
    // A nested range is a part of the outer one. A range that the window has clipped is not a whole step.
    if (event.start_ps < free_from) continue;
    free_from = event.start_ps + event.duration_ps;
    if ((event.flags & (Event::kClippedAtStart | Event::kClippedAtEnd)) == 0) add(event, free_from);
  }
  // A mark ends one step and begins the next; the last mark has no end.
  if (steps.empty()) {
    for (size_t i = 0; i + 1 < marks.size(); ++i) {
      if (marks[i + 1]->start_ps > marks[i]->start_ps) add(*marks[i], marks[i + 1]->start_ps);
    }
  }
  // If the numbers fall, as when batches are numbered from 0 again in each epoch, the steps are numbered by their
  // order.
  const bool rise =
      std::is_sorted(steps.begin(), steps.end(), [](const Step& a, const Step& b) { return a.number <= b.number; });
  for (size_t i = 0; !rise && i < steps.size(); ++i) steps[i].number = static_cast<int64_t>(i);
  return steps;
}

bool CoverTheirTime(const std::vector<Step>& steps) {
  int64_t covered = 0;
  for (const Step& step : steps) covered += step.end_ps - step.start_ps;
  const int64_t whole = steps.back().end_ps - steps.front().start_ps;
  return static_cast<double>(covered) >= kLeastCoverage * static_cast<double>(whole);
}

}  // namespace

void MarkOutliers(std::vector<Step>* steps) {
  if (steps->size() < kFewestForMedian) return;
  std::vector<int64_t> lengths;
  for (const Step& step : *steps) lengths.push_back(step.end_ps - step.start_ps);
  const auto median = static_cast<double>(Median(std::move(lengths)));
  const auto is_outlier = [median](const Step& step) {
    const auto length = static_cast<double>(step.end_ps - step.start_ps);
    return length > median * kTimesMedian || length * kTimesMedian < median;
  };
  const auto outliers = static_cast<double>(std::ranges::count_if(*steps, is_outlier));
  if (outliers > kMostOutliers * static_cast<double>(steps->size())) return;
  for (Step& step : *steps) step.is_regular = !is_outlier(step);
}

namespace {

constexpr uint64_t kMostStates = 10'000;

// The end of the character class that begins at `at`.
size_t EndOfClass(std::string_view expression, size_t at) {
  size_t end = at + 1;
  while (end < expression.size() && expression[end] != ']') end += expression[end] == '\\' ? 2 : 1;
  return std::min(end, expression.size());
}

// The largest number up to the end of a count.
uint64_t LargestIn(std::string_view count) {
  uint64_t most = 1, number = 0;
  for (const char c : count) {
    const bool is_digit = absl::ascii_isdigit(static_cast<unsigned char>(c));
    number = is_digit ? std::min(kMostStates, number * 10 + static_cast<uint64_t>(c - '0')) : 0;
    most = std::max(most, number);
  }
  return most;
}

// About how many states the compiled expression has: a count repeats what is before it, also another count.
uint64_t StatesOf(std::string_view expression) {
  struct Group {
    uint64_t all = 0, last = 0;  // of all its parts; of the last one, which a count repeats
    void Add(uint64_t states) { all = std::min(kMostStates + 1, all + states); }
  };
  std::vector<Group> groups(1);
  const auto add_part = [&](uint64_t states) {
    groups.back().last = states;
    groups.back().Add(states);
  };
  for (size_t at = 0; at < expression.size(); ++at) {
    switch (expression[at]) {
      case '\\':
        ++at;
        add_part(1);
        break;
      case '[':
        at = EndOfClass(expression, at);
        add_part(1);
        break;
      case '(':
        groups.emplace_back();
        break;
      case ')':
        if (groups.size() > 1) {
          const uint64_t inner = groups.back().all + 2;
          groups.pop_back();
          add_part(inner);
        }
        break;
      case '*':
      case '+':
      case '?':
        groups.back().last += 2;
        groups.back().Add(2);
        break;
      case '{': {
        const size_t end = std::min(expression.find('}', at), expression.size());
        const uint64_t last = groups.back().last;
        const uint64_t repeated = std::min(kMostStates + 1, last * LargestIn(expression.substr(at + 1, end - at - 1)));
        groups.back().Add(repeated - last);
        groups.back().last = repeated;
        at = end;
        break;
      }
      default:
        add_part(1);
    }
  }
  return groups.front().all;
}

}  // namespace

absl::Status CheckStepMarker(const std::string& expression) {
  if (expression.size() > kMaxExpression) {
    return absl::InvalidArgumentError(StrCat("a regular expression of at most ", kMaxExpression, " characters"));
  }
  // A count repeats its part in the compiled expression, and matching recurses once for each state: others may choose
  // the expression.
  if (StatesOf(expression) > kMostStates) {
    return absl::InvalidArgumentError("a regular expression with smaller counts `{N}`");
  }
  try {
    const std::regex compiled(expression, kSyntax);
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(StrCat("a regular expression (", error.what(), ")"));
  }
  return absl::OkStatus();
}

StepNames::StepNames(const std::string& expression)
    : wanted_(expression.empty() ? kUsualNames : expression,
              expression.empty() ? kSyntax | std::regex::icase : kSyntax) {}

bool StepNames::Match(std::string_view name) const {
  name = NameGiven(name);
  return name.size() <= kMaxName && std::regex_search(name.begin(), name.end(), wanted_);
}

namespace {

// Steps from each launch of a kernel with a matching name to the thread's next one.
MarkedSteps StepsOfKernels(const Timeline& timeline, uint32_t process, const StepNames& names_of_steps) {
  MarkedSteps found;
  absl::flat_hash_map<StringId, bool> known;
  absl::flat_hash_map<uint64_t, StringId> launched;  // by correlation
  for (const GpuStream& stream : timeline.gpu_streams) {
    if (stream.process != process) continue;
    for (const GpuEvent& event : stream.events) {
      if (event.kind != GpuEventKind::kKernel) continue;
      const auto [matches, added] = known.try_emplace(event.name, false);
      if (added) matches->second = names_of_steps.Match(timeline.strings.Get(event.name));
      if (matches->second) launched.emplace(event.correlation, event.name);
    }
  }
  if (launched.empty()) return found;
  for (uint32_t i = 0; i < timeline.threads.size(); ++i) {
    if (timeline.threads[i].process != process) continue;
    std::vector<Step> steps;
    for (const Event& event : timeline.threads[i].events) {
      if (timeline.types[event.type].value != ValueKind::kCorrelation || event.value <= 0) continue;
      const auto kernel = launched.find(static_cast<uint64_t>(event.value));
      if (kernel == launched.end()) continue;
      if (!steps.empty()) steps.back().end_ps = event.start_ps;
      Step step;
      step.start_ps = event.start_ps;
      step.number = static_cast<int64_t>(steps.size());
      step.name = TruncateUtf8(timeline.strings.Get(kernel->second), kMaxTitle);
      step.thread = i;
      steps.push_back(std::move(step));
    }
    if (!steps.empty()) steps.pop_back();  // the last has no end
    std::erase_if(steps, [](const Step& step) { return step.end_ps <= step.start_ps; });
    if (steps.size() > found.steps.size()) found.steps = std::move(steps);
  }
  if (found.steps.empty()) return found;
  MarkOutliers(&found.steps);
  found.source = StrCat("kernel `", found.steps[0].name, "`");
  found.confidence = kNamedConfidence;
  return found;
}

// Ranges that a program ends by their number are on a line of their own, which is no thread that could wait or work:
// the steps are those of the main thread.
void MoveToMainThread(const Timeline& timeline, std::vector<Step>* steps) {
  const Thread& line = timeline.threads[steps->front().thread];
  if (!line.is_line) return;
  const auto main = std::ranges::find_if(timeline.threads, [&](const Thread& thread) {
    return thread.is_main && !thread.is_line && thread.process == line.process;
  });
  if (main == timeline.threads.end()) return;
  for (Step& step : *steps) step.thread = static_cast<uint32_t>(main - timeline.threads.begin());
}

}  // namespace

MarkedSteps FindMarkedSteps(const Timeline& timeline, uint32_t process, const std::string& expression) {
  MarkedSteps found;
  const StepNames names_of_steps(expression);
  std::vector<bool> matches(timeline.types.size());
  for (size_t i = 0; i < matches.size(); ++i) {
    matches[i] = timeline.types[i].family == EventFamily::kAnnotation && names_of_steps.Match(timeline.types[i].name);
  }
  bool of_process = false;
  for (uint32_t i = 0; i < timeline.threads.size(); ++i) {
    std::vector<Step> steps = StepsOfLine(timeline, i, matches);
    if (steps.size() < (expression.empty() ? kFewestMarkedSteps : 1)) continue;
    if (expression.empty() && !CoverTheirTime(steps)) continue;
    const bool here = timeline.threads[i].process == process;
    // `process` comes first, however many steps another process has.
    if (here != of_process ? !here : steps.size() <= found.steps.size()) continue;
    of_process = here;
    found.steps = std::move(steps);
  }
  if (found.steps.empty()) {
    return expression.empty() ? found : StepsOfKernels(timeline, process, names_of_steps);
  }
  std::map<std::string, size_t> names;
  for (const Step& step : found.steps) ++names[step.name];
  const auto usual =
      std::max_element(names.begin(), names.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  MarkOutliers(&found.steps);
  MoveToMainThread(timeline, &found.steps);
  found.source = StrCat("annotation `", usual->first, "`");
  found.confidence = expression.empty() ? kGuessedConfidence : kNamedConfidence;
  return found;
}

}  // namespace tbprof
