// SPDX-License-Identifier: Apache-2.0
//
// The line of the program whose calls take most of the time, whatever they do: a cause has only what it explains.
//
// Process: converter. Pure function of the timeline.
#ifndef TBPROF_WRITER_VERDICT_OWN_LINE_H_
#define TBPROF_WRITER_VERDICT_OWN_LINE_H_

#include <string>

#include "writer/verdict/account.h"
#include "writer/verdict/python_tags.h"
#include "writer/verdict/verdict.h"

namespace tbprof {

// `train.py:23 Monitor.on_batch_end with all that it calls: 72 %`; empty if no line stands out, or if `verdict` says so
// already. A line that only calls the program's other lines (`trainer.fit()`) is none. Needs the verdict's places.
std::string FactOfOwnLine(const Timeline& timeline, const PythonTags& tags, const Account& account,
                          const Verdict& verdict);

}  // namespace tbprof

#endif  // TBPROF_WRITER_VERDICT_OWN_LINE_H_
