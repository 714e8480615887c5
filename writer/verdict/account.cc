// SPDX-License-Identifier: Apache-2.0
#include "writer/verdict/account.h"

#include <algorithm>

namespace tbprof {

AccountRow Account::RowOf(StepPart part, const WaitSlice& wait, int64_t ps) const {
  const uint32_t frame = tags_.OwnFrameOf(wait.stack);
  return {part, tags_.TagOf(wait.stack), static_cast<int>(wait.kind), frame, wait.type, wait.call_site, ps};
}

void Account::AddWait(StepPart part, const WaitSlice& wait, int64_t ps) { Add(RowOf(part, wait, ps)); }

void Account::AddRunning(StepPart part, uint32_t stack, int64_t ps, int doing, StringId function) {
  Add({part, tags_.TagOf(stack), doing, tags_.OwnFrameOf(stack), 0, function, ps});
}

void Account::Add(AccountRow row) {
  if (row.ps <= 0) return;
  AddSaturating(&parts_[static_cast<size_t>(row.part)], row.ps);
  AccountRow& into = rows_[{row.part, row.tag, row.doing, row.frame, row.type, row.call_site}];
  AddSaturating(&row.ps, into.ps);
  into = row;
}

std::vector<AccountRow> Account::Sorted(const Merged& rows) {
  std::vector<AccountRow> sorted;
  for (const auto& [key, row] : rows) sorted.push_back(row.first);
  std::ranges::stable_sort(sorted, [](const AccountRow& a, const AccountRow& b) { return a.ps > b.ps; });
  return sorted;
}

}  // namespace tbprof
