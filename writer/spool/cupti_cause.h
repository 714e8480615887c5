// SPDX-License-Identifier: Apache-2.0
//
// Why tbprof did not use CUPTI while the program did: which call came first, from which module, what was left of the
// program's use, and what helps.
//
//   const CuptiCause cause = FindCuptiCause(facts.cupti_uses, gap);
//   CuptiCauseText(cause, module);  // `first call cuptiSubscribe from libtorch_cpu.so; kept open by activity kinds
//   ...` CuptiRemedy(cause.left);
//
// Process: converter, and the launcher for `--require-gpu`. Untrusted: every address, time and name.
#ifndef TBPROF_WRITER_SPOOL_CUPTI_CAUSE_H_
#define TBPROF_WRITER_SPOOL_CUPTI_CAUSE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "wire/records.h"

namespace tbprof {

// One CuptiLeftFact.
struct CuptiUseAt {
  uint64_t ticks = 0;
  CuptiLeft left = CuptiLeft::kNothing;
  uint64_t caller = 0;
  std::string first_call;  // empty: not known
};

struct CuptiCause {
  CuptiLeft left = CuptiLeft::kNothing;  // not known
  uint64_t caller = 0;
  std::string first_call;  // empty: not known
};

// In ticks. `from`, `until`: the part of it that a window shows.
struct CuptiGap {
  uint64_t start = 0;
  uint64_t from = 0, until = 0;
  bool is_open = false;  // it had not ended then
};

// `uses`: by time. Of an open gap, what keeps it open; of others, and where that would have passed by itself, what was
// left for the longest time.
CuptiCause FindCuptiCause(const std::vector<CuptiUseAt>& uses, const CuptiGap& gap);

// Of a run whose gaps are not known: the latest that does not pass by itself, if there is one.
CuptiCause LatestCuptiCause(const std::vector<CuptiUseAt>& uses);

// Empty: nothing is known of it. `module`: its file name; null: it is not looked for, empty: it is not known.
std::string CuptiCauseText(const CuptiCause& cause, const std::string* module);
// `activity_kinds`, as summary.json has it; empty: not known.
std::string_view CuptiLeftName(CuptiLeft left);
std::string_view CuptiRemedy(CuptiLeft left);

// Why recording paused, as the text begins that the recorder gives (cupti/recorder_state.h, cupti/recorder.cc).
enum class PauseCause : uint8_t {
  kOther,
  kEnd,      // the process ends: nothing is missing
  kProgram,  // it uses CUPTI itself
  kWindow,   // nothing was to be recorded then
  kRestart,  // tbprof restarts CUPTI
  kLimited,  // CUPTI gives no valid times
};
PauseCause ParsePauseCause(std::string_view text);

// Of gaps that tbprof makes by itself.
inline constexpr std::string_view kInvalidTimesRemedy =
    "ask for captures (tbprof capture), update CUPTI, or use --cuda=hooks";
// Empty: none is known.
std::string_view OwnGapRemedy(PauseCause cause);

}  // namespace tbprof

#endif  // TBPROF_WRITER_SPOOL_CUPTI_CAUSE_H_
