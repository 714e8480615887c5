// SPDX-License-Identifier: Apache-2.0
#include "launcher/gate/blame.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "launcher/gate/bootstrap.h"
#include "launcher/gate/statistics.h"

namespace tbprof {
namespace {

// That one row of a kind is significant by chance.
constexpr double kFalseRowLevel = 0.05;
constexpr size_t kMostRowsOfKind = 30;
// Of the base's step: smaller differences are left out, but for parts.
constexpr double kLeastShare = 0.001;
// Of the difference of a part, what its cause has.
constexpr double kLeastOfPart = 0.5, kMostOfPart = 1.6;
// What a row varies by from run to run at least, as a share of it: few runs may agree by chance, and samples are few.
constexpr double kRowFloor = 0.01, kSampledRowFloor = 0.05;

// Of a function's time on each side, what lines have that the other side does not: it has moved.
constexpr double kMovedShare = 0.5;

// The values of one name in the runs of both sides.
struct Row {
  std::vector<double> base, now;
};
using Rows = std::map<std::string, Row>;

void Add(const std::vector<double>& values, std::vector<double>* sums) {
  sums->resize(std::max(sums->size(), values.size()));
  for (size_t i = 0; i < values.size(); ++i) (*sums)[i] += values[i];
}

bool IsNone(const std::vector<double>& values) {
  return std::ranges::all_of(values, [](double value) { return value == 0; });
}

// Of the lines of one function: time of those that one side alone has, and of all.
struct FunctionTimes {
  double base_alone = 0, base = 0, now_alone = 0, now = 0;
  // A line that was seen once is no line that moved.
  bool moved() const { return base_alone > kMovedShare * base && now_alone > kMovedShare * now; }
};

bool Has(const RunNumbers& run, AmountKind kind) {
  return std::ranges::any_of(run.amounts, [&](const Amount& amount) { return amount.kind == kind; });
}

// Nothing where a run does not have this kind at all: it was not measured. Of waits there may be none.
Rows RowsOf(const Comparison& comparison, AmountKind kind) {
  Rows rows;
  for (const bool of_base : {true, false}) {
    const std::vector<RunNumbers>& runs = of_base ? comparison.base.runs : comparison.now.runs;
    for (size_t i = 0; i < runs.size(); ++i) {
      if (kind != AmountKind::kWait && !Has(runs[i], kind)) return {};
      for (const Amount& amount : runs[i].amounts) {
        if (amount.kind != kind) continue;
        Row& row = rows[amount.name];
        row.base.resize(comparison.base.runs.size());
        row.now.resize(comparison.now.runs.size());
        (of_base ? row.base : row.now)[i] += amount.per_step;
      }
    }
  }
  return rows;
}

// Where most of a function's time is at lines of one side alone, on both sides, its lines have moved: they are one row.
Rows JoinMoved(Rows rows) {
  std::map<std::string, FunctionTimes> functions;
  for (const auto& [name, row] : rows) {
    FunctionTimes& times = functions[WithoutLineNumbers(name)];
    times.base += Mean(row.base);
    times.now += Mean(row.now);
    if (IsNone(row.now)) times.base_alone += Mean(row.base);
    if (IsNone(row.base)) times.now_alone += Mean(row.now);
  }
  Rows out;
  for (auto& [name, row] : rows) {
    const std::string function = WithoutLineNumbers(name);
    Row& joined = out[functions[function].moved() ? function : name];
    Add(row.base, &joined.base);
    Add(row.now, &joined.now);
  }
  return out;
}

double Change(const BlameRow& row) { return row.now - row.base; }
bool IsLarger(const BlameRow& a, const BlameRow& b) { return std::abs(Change(a)) > std::abs(Change(b)); }

std::vector<BlameRow> BlameOfKind(const Comparison& comparison, AmountKind kind, double base_step_s) {
  const bool in_time = kind != AmountKind::kAllocationSite;
  const bool sampled = kind == AmountKind::kPythonLine || kind == AmountKind::kAllocationSite;
  std::vector<BlameRow> out;
  std::vector<double> p;
  const Rows rows = kind == AmountKind::kPart ? RowsOf(comparison, kind) : JoinMoved(RowsOf(comparison, kind));
  for (const auto& [name, values] : rows) {
    BlameRow row;
    row.kind = kind;
    row.name = name;
    row.base = Mean(values.base);
    row.now = Mean(values.now);
    if (in_time && comparison.difference_s != 0) row.share = Change(row) / comparison.difference_s;
    p.push_back(
        WelchP(values.base, values.now, (sampled ? kSampledRowFloor : kRowFloor) * std::max(row.base, row.now)));
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

// What shows the cause of a part that takes longer, best first. Nothing: the part says it itself.
std::vector<AmountKind> CausesOf(std::string_view part) {
  using enum AmountKind;
  if (part == "python") return {kPythonLine};
  if (part == "operations") return {kOperation, kPythonLine};
  if (part == "launch") return {kOperation, kPythonLine};
  if (part == "kernels" || part == "collectives" || part == "copies") return {kKernel, kPythonLine};
  for (const std::string_view waits : {"input", "locks", "disk", "network", "child", "sleep"}) {
    if (part == waits) return {kWait, kPythonLine};
  }
  if (part == "rest") return {kPythonLine, kWait, kOperation};
  return {};
}

// The row of a kind with the largest difference of this direction that the part's can come from; the end: none.
using RowIterator = std::vector<BlameRow>::iterator;
RowIterator CauseOfKind(std::vector<BlameRow>* rows, AmountKind kind, double of_part) {
  RowIterator found = rows->end();
  for (RowIterator row = rows->begin(); row != rows->end(); ++row) {
    if (row->kind != kind) continue;
    const double share = Change(*row) / of_part;
    if (share < kLeastOfPart || share > kMostOfPart) continue;
    if (found == rows->end() || IsLarger(*row, *found)) found = row;
  }
  return found;
}

// Moves the row of the first cause to the front. With one row of parts at least the part itself.
void PutFirstCause(double difference_s, std::vector<BlameRow>* rows) {
  RowIterator part = rows->end();
  const auto in_direction = [&](const BlameRow& row) { return difference_s < 0 ? -Change(row) : Change(row); };
  for (RowIterator row = rows->begin(); row != rows->end(); ++row) {
    if (row->kind != AmountKind::kPart || in_direction(*row) <= 0) continue;
    if (part == rows->end() || in_direction(*row) > in_direction(*part)) part = row;
  }
  std::vector<AmountKind> kinds = {AmountKind::kOperation, AmountKind::kKernel, AmountKind::kPythonLine,
                                   AmountKind::kWait};
  double of_part = difference_s;
  if (part != rows->end()) {
    kinds = CausesOf(part->name);
    of_part = Change(*part);
  }
  RowIterator first = part;
  for (const AmountKind kind : kinds) {
    const RowIterator cause = CauseOfKind(rows, kind, of_part);
    if (cause == rows->end()) continue;
    first = cause;
    break;
  }
  if (first != rows->end()) std::rotate(rows->begin(), first, std::next(first));
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

void Blame(Comparison* comparison) {
  // The parts are of all the time from the first regular step to the last where a side was split so.
  const auto is_split = [](const RunNumbers& run) { return run.split_step_s > 0; };
  const bool split =
      std::ranges::all_of(comparison->base.runs, is_split) && std::ranges::all_of(comparison->now.runs, is_split);
  const auto wider = [](const RunNumbers& run) { return run.split_step_s > 1.02 * run.mean_step_s; };
  const bool with_gaps =
      split && (std::ranges::any_of(comparison->base.runs, wider) || std::ranges::any_of(comparison->now.runs, wider));
  const auto step_s = [&](const RunNumbers& run) { return with_gaps ? run.split_step_s : run.mean_step_s; };
  const double base_step_s = MeanOf(comparison->base, step_s);
  comparison->difference_s = MeanOf(comparison->now, step_s) - base_step_s;
  for (const AmountKind kind : kAmountKinds) {
    if (kind == AmountKind::kPart && !split) continue;
    std::ranges::move(BlameOfKind(*comparison, kind, base_step_s), std::back_inserter(comparison->blame));
  }
  comparison->unexplained_s = comparison->difference_s;
  for (const BlameRow& row : comparison->blame) {
    if (row.kind == AmountKind::kPart) comparison->unexplained_s -= Change(row);
  }
  // Bytes have no place among seconds: they follow, by their own size.
  std::ranges::stable_sort(comparison->blame, [](const BlameRow& a, const BlameRow& b) {
    const bool a_bytes = a.kind == AmountKind::kAllocationSite, b_bytes = b.kind == AmountKind::kAllocationSite;
    return a_bytes != b_bytes ? b_bytes : IsLarger(a, b);
  });
  PutFirstCause(comparison->difference_s, &comparison->blame);
}

}  // namespace tbprof
