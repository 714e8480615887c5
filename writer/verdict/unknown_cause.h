// SPDX-License-Identifier: Apache-2.0
//
// Why a verdict names no cause, from the parts of its time.
//
// Process: converter. Pure functions.
#ifndef TBPROF_WRITER_VERDICT_UNKNOWN_CAUSE_H_
#define TBPROF_WRITER_VERDICT_UNKNOWN_CAUSE_H_

#include <string>

#include "writer/verdict/verdict.h"

namespace tbprof {

StepPart LargestPartOf(const Verdict& verdict);
// The longest of the parts that are waits, whatever the cause.
int64_t LargestWaitPs(const Verdict& verdict);

// `72 % is locks, and what it waits for was not recorded`. `polls`: share of the time in waits for one of several
// descriptors. `most_unknown`: above this share of time without a known part, nothing else is said; `least`: a smaller
// part does not stand out.
std::string ReasonOfUnknown(const Verdict& verdict, double polls, double most_unknown, double least);

}  // namespace tbprof

#endif  // TBPROF_WRITER_VERDICT_UNKNOWN_CAUSE_H_
