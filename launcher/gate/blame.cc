// SPDX-License-Identifier: Apache-2.0
#include "launcher/gate/blame.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "launcher/base/text.h"
#include "launcher/gate/bootstrap.h"
#include "launcher/gate/gate_output.h"
#include "launcher/gate/moved_lines.h"
#include "launcher/gate/statistics.h"
#include "launcher/gate/window_error.h"
#include "writer/base/parse_number.h"

namespace tbprof {
namespace {

// Probability that any row of a kind is significant by chance.
constexpr double kFalseRowLevel = 0.05;
constexpr size_t kMostRowsOfKind = 30;
// Share of the base's step time. Rows with smaller differences are left out, except parts.
constexpr double kLeastShare = 0.001;
// Least assumed variation of a row between runs, as a share of its value: few runs may agree by chance, and sampled
// values have few samples.
constexpr double kRowFloor = 0.01, kSampledRowFloor = 0.05;

// A function has moved if more than this share of its time, on each side, is in lines that the other side lacks.
constexpr double kMovedShare = 0.5;

// The values of one name in the runs of both sides.
struct Row {
  std::vector<double> base, now;
  std::vector<double> base_samples, now_samples;
};
using Rows = std::map<std::string, Row>;

void Add(const std::vector<double>& values, std::vector<double>* sums) {
  sums->resize(std::max(sums->size(), values.size()));
  for (size_t i = 0; i < values.size(); ++i) (*sums)[i] += values[i];
}

bool IsNone(const std::vector<double>& values) {
  return std::ranges::all_of(values, [](double value) { return value == 0; });
}

// Times of the lines of one function: of the lines that only one side has, and of all lines.
struct FunctionTimes {
  double base_alone = 0, base = 0, now_alone = 0, now = 0;
  // A share of the time, not the number of lines: a line with a single sample does not prove a move.
  bool moved() const { return base_alone > kMovedShare * base && now_alone > kMovedShare * now; }
};

bool Has(const RunNumbers& run, AmountKind kind) {
  return std::ranges::any_of(run.amounts, [&](const Amount& amount) { return amount.kind == kind; });
}

// Empty if a run has no amount of this kind, because it was not measured. Runs may have no waits and no other threads.
Rows RowsOf(const Comparison& comparison, AmountKind kind) {
  Rows rows;
  const Side &base = comparison.BaseOf(kind), &now = comparison.NowOf(kind);
  for (const bool of_base : {true, false}) {
    const std::vector<RunNumbers>& runs = of_base ? base.runs : now.runs;
    for (size_t i = 0; i < runs.size(); ++i) {
      // Other threads are sampled wherever the thread of the steps is.
      const AmountKind measured = kind == AmountKind::kOtherLine ? AmountKind::kPythonLine : kind;
      if (kind != AmountKind::kWait && !Has(runs[i], measured)) return {};
      for (const Amount& amount : runs[i].amounts) {
        if (amount.kind != kind) continue;
        Row& row = rows[amount.name];
        row.base.resize(base.runs.size());
        row.now.resize(now.runs.size());
        row.base_samples.resize(base.runs.size());
        row.now_samples.resize(now.runs.size());
        (of_base ? row.base : row.now)[i] += amount.per_step;
        (of_base ? row.base_samples : row.now_samples)[i] += amount.samples;
      }
    }
  }
  return rows;
}

// The number in `train.py:42 step`; -1: it has none.
int64_t LineNumberOf(std::string_view name) {
  const size_t colon = name.find(':');
  if (colon == std::string_view::npos) return -1;
  const std::optional<int64_t> line = LeadingNumber<int64_t>(name.substr(colon + 1));
  return line.value_or(-1);
}

// For each line of the base that an edit has moved: the name that it has on the new side.
std::map<std::string, std::string> MovedNames(const Rows& rows) {
  std::map<std::string, std::vector<std::pair<LineTimes, std::string>>> functions;
  for (const auto& [name, row] : rows) {
    const int64_t line = LineNumberOf(name);
    if (line < 0) continue;
    functions[WithoutLineNumbers(name)].push_back({{line, Mean(row.base), Mean(row.now)}, name});
  }
  std::map<std::string, std::string> moved;
  for (auto& [function, lines] : functions) {
    std::ranges::sort(lines, {}, [](const auto& line) { return line.first.line; });
    std::vector<LineTimes> times;
    for (const auto& [line, name] : lines) times.push_back(line);
    for (const auto& [base, now] : MatchMovedLines(times)) moved[lines[base].second] = lines[now].second;
  }
  return moved;
}

// If on both sides most of a function's time is at lines that the other side lacks, its lines have moved: they become
// one row. If some have moved, those of the base get the numbers of the new side.
Rows JoinMoved(Rows rows, bool are_lines) {
  const std::map<std::string, std::string> moved = are_lines ? MovedNames(rows) : std::map<std::string, std::string>();
  std::map<std::string, FunctionTimes> functions;
  for (const auto& [name, row] : rows) {
    FunctionTimes& times = functions[WithoutLineNumbers(name)];
    times.base += Mean(row.base);
    times.now += Mean(row.now);
    if (IsNone(row.now)) times.base_alone += Mean(row.base);
    if (IsNone(row.base)) times.now_alone += Mean(row.now);
  }
  std::set<std::string> targets;
  for (const auto& [base, now] : moved) targets.insert(now);
  const size_t base_runs = rows.empty() ? 0 : rows.begin()->second.base.size();
  const size_t now_runs = rows.empty() ? 0 : rows.begin()->second.now.size();
  Rows out;
  for (auto& [name, row] : rows) {
    const std::string function = WithoutLineNumbers(name);
    const bool all = functions[function].moved();
    const auto renamed = moved.find(name);
    // Another line has this number now, and this one is gone.
    const bool replaced = renamed == moved.end() && targets.contains(name) && !IsNone(row.base);
    Row& of_base = out[all                      ? function
                       : renamed != moved.end() ? renamed->second
                       : replaced               ? StrCat(name, " (gone)")
                                                : name];
    Add(row.base, &of_base.base);
    Add(row.base_samples, &of_base.base_samples);
    Row& of_now = out[all ? function : name];
    Add(row.now, &of_now.now);
    Add(row.now_samples, &of_now.now_samples);
  }
  for (auto& [name, row] : out) {
    row.base.resize(base_runs);
    row.base_samples.resize(base_runs);
    row.now.resize(now_runs);
    row.now_samples.resize(now_runs);
  }
  // A line of the base that has another name now, and nothing else, leaves an empty row.
  std::erase_if(out, [](const auto& entry) { return IsNone(entry.second.base) && IsNone(entry.second.now); });
  return out;
}

// The most that an amount may be that no run of the side lists. 0: no list is full, so that the amount is 0.
double MostUnlisted(const Side& side, AmountKind kind) {
  double most = 0;
  for (const RunNumbers& run : side.runs) most = std::max(most, LeastListed(run, kind));
  return most;
}

// Parts in which the step waits for other threads or processes.
bool IsWaitForOthers(std::string_view part) { return part == "input" || part == "locks" || part == "gil"; }

double ErrorOfDifference(const Row& row) { return std::sqrt(VarianceOfMean(row.base) + VarianceOfMean(row.now)); }

// Squared error of the mean of one row, for windows of one process.
std::optional<double> WindowVariance(const Side& side, AmountKind kind, const std::vector<double>& values,
                                     const std::vector<double>& samples) {
  double sum = 0;
  for (size_t i = 0; i < side.runs.size(); ++i) {
    const std::optional<double> error = AmountError(side.runs[i], kind, values[i], samples[i]);
    if (!error.has_value()) return std::nullopt;
    sum += *error * *error;
  }
  const auto count = static_cast<double>(side.runs.size());
  return std::max(sum / (count * count), VarianceOfMean(values));
}

// For windows of one process: the error from within the windows. std::nullopt: not known.
std::optional<double> ErrorOfWindows(const Comparison& comparison, AmountKind kind, const Row& row) {
  if (!comparison.one_process) return std::nullopt;
  const auto base = WindowVariance(comparison.BaseOf(kind), kind, row.base, row.base_samples);
  const auto now = WindowVariance(comparison.NowOf(kind), kind, row.now, row.now_samples);
  if (!base.has_value() || !now.has_value()) return std::nullopt;
  return std::sqrt(*base + *now);
}

double Change(const BlameRow& row) { return row.now - row.base; }
bool IsLarger(const BlameRow& a, const BlameRow& b) { return std::abs(Change(a)) > std::abs(Change(b)); }

std::vector<BlameRow> BlameOfKind(const Comparison& comparison, AmountKind kind, double base_step_s) {
  const double difference_s = comparison.difference_s.value_or(0);
  const bool in_time = kind != AmountKind::kAllocationSite;
  const bool sampled = IsSampled(kind);
  const double base_floor = MostUnlisted(comparison.BaseOf(kind), kind);
  const double now_floor = MostUnlisted(comparison.NowOf(kind), kind);
  std::vector<BlameRow> out;
  std::vector<double> p;
  // In one process no line has moved.
  const bool join = kind != AmountKind::kPart && !comparison.one_process;
  const bool are_lines = kind == AmountKind::kOwnLine || kind == AmountKind::kPythonLine;
  const Rows rows = join ? JoinMoved(RowsOf(comparison, kind), are_lines) : RowsOf(comparison, kind);
  for (const auto& [name, values] : rows) {
    BlameRow row;
    row.kind = kind;
    row.name = name;
    row.base = Mean(values.base);
    row.now = Mean(values.now);
    const std::optional<double> of_windows = ErrorOfWindows(comparison, kind, values);
    row.error = of_windows.value_or(ErrorOfDifference(values));
    row.base_listed = row.base != 0 || base_floor == 0;
    row.now_listed = row.now != 0 || now_floor == 0;
    if (!row.base_listed) row.error += base_floor;
    if (!row.now_listed) row.error += now_floor;
    if (in_time && difference_s != 0) row.share = Change(row) / difference_s;
    if (of_windows.has_value()) {
      const double error = std::hypot(row.error, kSampledRowFloor * std::max(row.base, row.now));
      p.push_back(error > 0 ? StudentP(Change(row) / error, kAmountDegrees) : 1);
    } else {
      p.push_back(WelchP(row.base_listed ? values.base : std::vector(values.base.size(), base_floor),
                         row.now_listed ? values.now : std::vector(values.now.size(), now_floor),
                         (sampled ? kSampledRowFloor : kRowFloor) * std::max(row.base, row.now)));
    }
    out.push_back(std::move(row));
  }
  const std::vector<bool> significant = Holm(p, kFalseRowLevel);
  for (size_t i = 0; i < out.size(); ++i) out[i].significant = significant[i];
  std::ranges::stable_sort(out, IsLarger);
  if (kind == AmountKind::kPart) return out;
  std::erase_if(out, [&](const BlameRow& row) { return in_time && std::abs(Change(row)) < kLeastShare * base_step_s; });
  if (out.size() > kMostRowsOfKind) out.resize(kMostRowsOfKind);
  return out;
}

// True: a row of this kind can explain a longer part by being most of it. False for all kinds: the part explains
// itself.
bool CanBeMostOf(std::string_view part, AmountKind kind) {
  using enum AmountKind;
  const auto any = [&](std::initializer_list<AmountKind> kinds) {
    return std::ranges::find(kinds, kind) != kinds.end();
  };
  if (part == "python") return any({kPythonLine, kOwnLine});
  if (part == "operations" || part == "launch")
    return any({kOperation, kPythonLine, kOwnLine, kFunction, kOwnFunction});
  if (part == "kernels" || part == "collectives" || part == "copies") return any({kKernel, kPythonLine, kOwnLine});
  if (part == "rest") return any({kPythonLine, kOwnLine, kWait, kOperation, kFunction, kOwnFunction});
  if (IsWaitForOthers(part)) return any({kWait, kPythonLine, kOwnLine, kOtherLine, kOwnFunction});
  return (part == "disk" || part == "network" || part == "child" || part == "sleep") &&
         any({kWait, kPythonLine, kOwnLine});
}

// Chooses the first row: the one with the largest relative change, not the largest row. Noise and slower machines
// change all rows by about the same ratio; code that a change of the program adds took little or no time before.
class FirstCause {
 public:
  // `direction`: 1 slower, -1 faster, 0 unknown.
  FirstCause(double difference_s, double base_step_s, int direction, bool has_errors, std::vector<BlameRow>* rows)
      : direction_(direction), has_errors_(has_errors), rows_(*rows) {
    const bool with_parts = std::ranges::find(rows_, AmountKind::kPart, &BlameRow::kind) != rows_.end();
    whole_ = std::abs(difference_s);
    for (RowIterator row = rows_.begin(); row != rows_.end(); ++row) {
      if (row->kind != AmountKind::kPart || Toward(*row) <= 0) continue;
      if (part_ == rows_.end() || Toward(*row) > Toward(*part_)) part_ = row;
    }
    if (direction_ == 0 && part_ != rows_.end()) whole_ = std::max(whole_, Toward(*part_));
    has_parts_ = with_parts;
    ratio_ = whole_ / std::max(2 * base_step_s + difference_s, 1e-12);
  }

  // Returns the end of the rows if no row stands out and there is no part.
  std::vector<BlameRow>::iterator Find() {
    double best = 0;
    for (const BlameRow& row : rows_) best = std::max(best, ScoreOf(row));
    if (best <= 0) return part_;
    // Among rows with similar scores, an operation is more specific than the line that calls it, and the cause of a
    // wait than the wait.
    for (const AmountKind kind :
         {AmountKind::kKernel, AmountKind::kOperation, AmountKind::kOtherLine, AmountKind::kWait,
          AmountKind::kPythonLine, AmountKind::kOwnLine, AmountKind::kOwnFunction, AmountKind::kFunction}) {
      RowIterator found = rows_.end();
      double score = kAlike * best;
      for (RowIterator row = rows_.begin(); row != rows_.end(); ++row) {
        if (row->kind != kind || ScoreOf(*row) < score) continue;
        score = ScoreOf(*row);
        found = row;
      }
      if (found != rows_.end()) return found;
    }
    return part_;
  }

 private:
  using RowIterator = std::vector<BlameRow>::iterator;
  double Toward(const BlameRow& row) const {
    return direction_ == 0 ? std::abs(Change(row)) : direction_ * Change(row);
  }
  // 0: the row is not a cause.
  double ScoreOf(const BlameRow& row) const {
    if (row.kind == AmountKind::kPart || row.kind == AmountKind::kAllocationSite) return 0;
    const std::string_view part = part_ == rows_.end() ? "" : std::string_view(part_->name);
    if (row.kind == AmountKind::kOtherLine && !IsWaitForOthers(part)) return 0;
    // Several worker threads may each get slower by as much as the step.
    const bool of_threads = row.kind == AmountKind::kOtherLine || row.kind == AmountKind::kOwnFunction;
    if (!of_threads && Toward(row) > kMostOfWhole * whole_) return 0;
    const double sure = Toward(row) - row.error;
    if (sure < kLeastOfWhole * whole_) return 0;
    const double ratio = sure / std::max(row.base + row.now, 1e-12);
    // With one run per side the error is unknown: a few more samples of a line may be chance.
    const bool stands_out = ratio >= kStandsOut * ratio_ && (has_errors_ || !IsSampled(row.kind));
    const bool is_most = sure >= kMuchOfWhole * whole_ && (!has_parts_ || CanBeMostOf(part, row.kind));
    return stands_out || is_most ? sure * ratio * ratio : 0;
  }

  // A cause has at least and at most these shares of the whole difference; time of idle threads may grow by more than
  // the step.
  static constexpr double kLeastOfWhole = 0.08, kMostOfWhole = 1.6;
  static constexpr double kMuchOfWhole = 0.3;
  // Factor of the relative change of the whole step.
  static constexpr double kStandsOut = 1.5;
  static constexpr double kAlike = 0.5;

  int direction_;
  bool has_errors_;
  std::vector<BlameRow>& rows_;
  RowIterator part_ = rows_.end();  // the part with the largest difference
  bool has_parts_ = false;
  double whole_ = 0, ratio_ = 0;
};

int DirectionOf(const Comparison& comparison) {
  const QuantityResult* const steps = StepTime(comparison);
  const bool is_known = steps == nullptr || steps->answer == Answer::kWorse || steps->answer == Answer::kBetter;
  if (!is_known) return 0;
  return comparison.difference_s.value_or(0) < 0 ? -1 : 1;
}

// A line of the program that calls nothing outside is the same in both views.
void DropDoubles(std::vector<BlameRow>* rows) {
  constexpr double kSame = 0.1;
  const std::vector<BlameRow> all = *rows;
  std::erase_if(*rows, [&](const BlameRow& row) {
    return row.kind == AmountKind::kOwnLine && std::ranges::any_of(all, [&](const BlameRow& other) {
             return other.kind == AmountKind::kPythonLine && other.name == row.name &&
                    std::abs(Change(other) - Change(row)) <= kSame * std::abs(Change(row));
           });
  });
}

double MeanOf(const Side& side, const std::function<double(const RunNumbers&)>& value) {
  std::vector<double> values;
  for (const RunNumbers& run : side.runs) values.push_back(value(run));
  return Mean(values);
}

}  // namespace

std::string WithoutLineNumbers(std::string_view name) {
  std::string out;
  for (size_t i = 0; i < name.size(); ++i) {
    size_t end = i + 1;
    while (name[i] == ':' && end < name.size() && std::isdigit(static_cast<unsigned char>(name[end])) != 0) ++end;
    const bool is_line = end > i + 1 && (end == name.size() || name[end] == ' ' || name[end] == ')');
    if (is_line) {
      i = end - 1;
    } else {
      out += name[i];
    }
  }
  return out;
}

void BlameTimes(Comparison* comparison) {
  // The parts cover all the time from the first regular step to the last, gaps included, if any run was split that way.
  const auto is_split = [](const RunNumbers& run) { return run.split_step_s > 0; };
  const bool split =
      std::ranges::all_of(comparison->base.runs, is_split) && std::ranges::all_of(comparison->now.runs, is_split);
  const auto wider = [](const RunNumbers& run) { return run.split_step_s > 1.02 * run.mean_step_s; };
  const bool with_gaps =
      split && (std::ranges::any_of(comparison->base.runs, wider) || std::ranges::any_of(comparison->now.runs, wider));
  const auto step_s = [&](const RunNumbers& run) { return with_gaps ? run.split_step_s : run.mean_step_s; };
  const double base_step_s = MeanOf(comparison->base, step_s);
  const double difference_s = MeanOf(comparison->now, step_s) - base_step_s;
  comparison->difference_s = difference_s;
  for (const AmountKind kind : kAmountKinds) {
    if (kind == AmountKind::kAllocationSite || (kind == AmountKind::kPart && !split)) continue;
    std::ranges::move(BlameOfKind(*comparison, kind, base_step_s), std::back_inserter(comparison->blame));
  }
  if (split) {
    double unexplained_s = difference_s;
    for (const BlameRow& row : comparison->blame) {
      if (row.kind == AmountKind::kPart) unexplained_s -= Change(row);
    }
    comparison->unexplained_s = unexplained_s;
  }
  DropDoubles(&comparison->blame);
  std::ranges::stable_sort(comparison->blame, IsLarger);
  const bool has_errors =
      comparison->one_process || (comparison->base.runs.size() > 1 && comparison->now.runs.size() > 1);
  const auto first =
      FirstCause(difference_s, base_step_s, DirectionOf(*comparison), has_errors, &comparison->blame).Find();
  if (first == comparison->blame.end()) return;
  comparison->has_first_cause = true;
  std::rotate(comparison->blame.begin(), first, std::next(first));
}

void BlameAllocations(Comparison* comparison) {
  std::ranges::move(BlameOfKind(*comparison, AmountKind::kAllocationSite, 0), std::back_inserter(comparison->blame));
}

}  // namespace tbprof
