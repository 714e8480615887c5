// SPDX-License-Identifier: Apache-2.0
//
// The verdict for people and machines: lines of the terminal, a note of TensorBoard's overview page, `verdict` of
// summary.json.
//
// Process: converter. Pure functions of the timeline.
#ifndef TBPROF_WRITER_OUTPUTS_SUMMARY_VERDICT_H_
#define TBPROF_WRITER_OUTPUTS_SUMMARY_VERDICT_H_

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "writer/outputs/summary_lines.h"

namespace tbprof {

nlohmann::ordered_json VerdictJson(const Timeline& timeline);

// What a short line leaves out.
struct VerdictDetails {
  bool place = true;       // `, at train.py:41 main`
  bool loop_lines = true;  // ` (train.py:31-47)`
};
// `62 % of the step: waits for a thread that prepares its data, at train.py:41 main`;
// `92 % of the main loop (train.py:31-47): garbage collection, at train.py:35 main`.
std::string VerdictSentence(const Timeline& timeline, VerdictDetails details = {});
// `native stacks: not sampled, ...`: missing data that makes the split less certain; empty: none is missing.
std::string VerdictLimits(const Timeline& timeline);
// `thread prefetch, in sleep at data.py:17 fetch`: the thread that is waited for, else the place where the time is
// spent.
std::string VerdictBlocker(const Timeline& timeline);
// The label of VerdictBlocker: `blocker: ` if a thread or rank is waited for, else `where: `.
inline constexpr std::string_view kWhereLabel = "where: ";
std::string_view BlockerLabel(const Timeline& timeline);
// `input 62 %, operations 30 %, Python 5 %`; empty: no split.
std::string VerdictSplit(const Timeline& timeline);

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_SUMMARY_VERDICT_H_
