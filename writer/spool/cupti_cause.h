// SPDX-License-Identifier: Apache-2.0
//
// Explains why tbprof did not use CUPTI while the program did: the program's first CUPTI call, the module of its
// caller, what kept the use open, and the remedy.
//
//   const CuptiCause cause = FindCuptiCause(facts.cupti_uses, gap);
//   CuptiCauseText(cause, module);  // `first call cuptiSubscribe from libtorch_cpu.so; kept open by ...`
//   CuptiRemedy(cause.left);
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

// A gap in recording, in ticks. `from`, `until`: the part of the gap that a window shows.
struct CuptiGap {
  uint64_t start = 0;
  uint64_t from = 0, until = 0;
  bool is_open = false;  // it had not ended at `until`
};

// `uses`: in order of time. For an open gap, returns what keeps it open; for other gaps, or if that passes by itself,
// what lasted for the longest time.
CuptiCause FindCuptiCause(const std::vector<CuptiUseAt>& uses, const CuptiGap& gap);

// For a run whose gaps are not known: the latest use that does not pass by itself; if there is none, the latest use.
CuptiCause LatestCuptiCause(const std::vector<CuptiUseAt>& uses);

// Empty: nothing is known. `module`: file name of the caller's module; null: the text omits it; empty: not known.
std::string CuptiCauseText(const CuptiCause& cause, const std::string* module);
// E.g. `activity_kinds`, as in summary.json; empty: not known.
std::string_view CuptiLeftName(CuptiLeft left);
std::string_view CuptiRemedy(CuptiLeft left);

// The cause of a pause, by the prefix of the text from the recorder (cupti/recorder_state.h, cupti/recorder.cc).
enum class PauseCause : uint8_t {
  kOther,
  kEnd,      // the process ends: nothing is missing
  kProgram,  // the program uses CUPTI itself
  kWindow,   // no window is recorded
  kRestart,  // tbprof restarts CUPTI
  kLimited,  // CUPTI gives no valid times
};
PauseCause ParsePauseCause(std::string_view text);

// For gaps that tbprof itself causes.
inline constexpr std::string_view kInvalidTimesRemedy =
    "ask for captures (tbprof capture), update CUPTI, or use --cuda=hooks";
// Empty: none is known.
std::string_view OwnGapRemedy(PauseCause cause);

}  // namespace tbprof

#endif  // TBPROF_WRITER_SPOOL_CUPTI_CAUSE_H_
