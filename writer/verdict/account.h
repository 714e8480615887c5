// SPDX-License-Identifier: Apache-2.0
//
// The account of the step thread's time: by part of the step, by the tag of the Python stack, and by the program's own
// line.
//
// Process: converter.
#ifndef TBPROF_WRITER_VERDICT_ACCOUNT_H_
#define TBPROF_WRITER_VERDICT_ACCOUNT_H_

#include <array>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "writer/base/saturating.h"
#include "writer/verdict/python_tags.h"
#include "writer/verdict/thread_time.h"
#include "writer/verdict/verdict.h"

namespace tbprof {

// AccountRow::doing: a WaitClass (0 and above), kRunning, or kBlocked (blocked in a call that is not recorded).
inline constexpr int kRunning = -1, kBlocked = -2;

struct AccountRow {
  StepPart part = StepPart::kRest;
  PythonTag tag = PythonTag::kNone;
  int doing = kRunning;    // WaitClass, kRunning or kBlocked
  uint32_t frame = 0;      // the program's own frame: index into PythonTimeline::stacks; 0: unknown
  uint16_t type = 0;       // event type of a wait
  StringId call_site = 0;  // of a row without a frame: call site of a wait, or the native function that runs
  int64_t ps = 0;
};

class Account {
 public:
  explicit Account(const PythonTags& tags) : tags_(tags) {}

  AccountRow RowOf(StepPart part, const WaitSlice& wait, int64_t ps) const;
  void AddWait(StepPart part, const WaitSlice& wait, int64_t ps);
  // `function`: of native code, if there is no Python stack.
  void AddRunning(StepPart part, uint32_t stack, int64_t ps, int doing = kRunning, StringId function = 0);

  const std::array<int64_t, kStepParts>& parts() const { return parts_; }

  // The time of the rows for which `wanted(row)` is true, by part.
  template <typename Wanted>
  std::array<int64_t, kStepParts> PartsOf(Wanted&& wanted) const {
    std::array<int64_t, kStepParts> parts{};
    for (const auto& [key, row] : rows_) {
      if (wanted(row)) AddSaturating(&parts[static_cast<size_t>(row.part)], row.ps);
    }
    return parts;
  }

  // Each row. Those of one line with different callers are apart.
  template <typename Visit>
  void ForEach(Visit&& visit) const {
    for (const auto& [key, row] : rows_) visit(row);
  }

  // Rows for which `wanted(row)` is true, longest first. Rows of the same line and call are merged into one.
  template <typename Wanted>
  std::vector<AccountRow> RowsOf(Wanted&& wanted) const {
    Merged merged;
    for (const auto& [key, row] : rows_) {
      if (!wanted(row)) continue;
      // The longest of the merged rows supplies the frame.
      auto& [into, largest] = merged[{tags_.LineOf(row.frame), row.doing, row.frame == 0 ? row.call_site : 0}];
      int64_t sum = into.ps;
      AddSaturating(&sum, row.ps);
      if (row.ps > largest) {
        into = row;
        largest = row.ps;
      }
      into.ps = sum;
    }
    return Sorted(merged);
  }

 private:
  using Merged = std::map<std::tuple<uint32_t, int, StringId>, std::pair<AccountRow, int64_t>>;
  using Key = std::tuple<StepPart, PythonTag, int, uint32_t, uint16_t, StringId>;
  static std::vector<AccountRow> Sorted(const Merged& rows);
  void Add(AccountRow row);

  const PythonTags& tags_;
  std::array<int64_t, kStepParts> parts_{};
  std::map<Key, AccountRow> rows_;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_VERDICT_ACCOUNT_H_
