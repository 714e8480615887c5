// SPDX-License-Identifier: Apache-2.0
//
// A cause that may be the verdict, with the rows of the account that show it.
//
// Process: converter.
#ifndef TBPROF_WRITER_VERDICT_CAUSE_CANDIDATE_H_
#define TBPROF_WRITER_VERDICT_CAUSE_CANDIDATE_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>

#include "writer/verdict/account.h"
#include "writer/verdict/blockers.h"

namespace tbprof {

using Wanted = std::function<bool(const AccountRow&)>;

struct CauseCandidate {
  Cause cause;
  StepPart part;
  int64_t ps;
  Wanted rows;
  bool moves = false;                                // its time is shown as `part`, whatever it was
  std::optional<BlockerScope> scope = std::nullopt;  // who may be waited for; nothing: as the cause says
};

// Whether a GPU that computes nearly all the time may still be slowed by it.
inline bool LimitsBusyGpu(Cause cause) { return cause == Cause::kStraggler || cause == Cause::kTinyKernels; }

// Its threads wait for locks of each other: only this convoy has a scope.
inline bool IsAtLocks(const CauseCandidate& one) { return one.cause == Cause::kLockConvoy && one.scope.has_value(); }

inline bool IsTag(const AccountRow& row, std::initializer_list<PythonTag> tags) {
  return std::ranges::find(tags, row.tag) != tags.end();
}
// Such time has a cause of its own, whatever the thread does in it.
inline bool IsSpecial(const AccountRow& row) {
  return IsTag(row, {PythonTag::kLogging, PythonTag::kCheckpoint, PythonTag::kModelLoad});
}
inline bool IsDoing(const AccountRow& row, std::initializer_list<WaitClass> kinds) {
  return std::ranges::any_of(kinds, [&](WaitClass kind) { return row.doing == static_cast<int>(kind); });
}

}  // namespace tbprof

#endif  // TBPROF_WRITER_VERDICT_CAUSE_CANDIDATE_H_
