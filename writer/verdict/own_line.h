// SPDX-License-Identifier: Apache-2.0
//
// The line or function of the program whose calls take most of the time, whatever they do: a cause has only what it
// explains.
//
// Process: converter. Pure functions of the timeline.
#ifndef TBPROF_WRITER_VERDICT_OWN_LINE_H_
#define TBPROF_WRITER_VERDICT_OWN_LINE_H_

#include <optional>
#include <string>

#include "writer/verdict/account.h"
#include "writer/verdict/python_tags.h"
#include "writer/verdict/step_span.h"
#include "writer/verdict/verdict.h"

namespace tbprof {

struct OwnLineFact {
  std::string text;  // `train.py:23 Monitor.on_batch_end with all that it calls: 72 %`
  Where line;        // its file and line; line -1: a function
};
// Empty if nothing stands out, or if `verdict` says so already. What only calls other functions of the program
// (`trainer.fit()`) does not count. Needs the verdict's places.
OwnLineFact FactOfOwnLine(const Timeline& timeline, const PythonTags& tags, const Account& account,
                          const Verdict& verdict);

// The function that runs between the steps, and not in them.
struct BetweenSteps {
  std::string fact;  // `58 % of this time is between the steps: of it 91 % in evaluate (train.py:30)`; empty: none
  bool has_function = false;  // `fact` names one
  std::optional<Where> own;   // the program's own function there, and its line if one takes nearly all; without a share
};
BetweenSteps FindBetweenSteps(const Timeline& timeline, const StepSpan& span);

}  // namespace tbprof

#endif  // TBPROF_WRITER_VERDICT_OWN_LINE_H_
