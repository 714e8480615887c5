// SPDX-License-Identifier: Apache-2.0
//
// Command lines for display (quoted, with short process names), and ranks from environment variables.
//
// Process: converter. Pure functions.
#ifndef TBPROF_WRITER_BASE_ARGUMENTS_H_
#define TBPROF_WRITER_BASE_ARGUMENTS_H_

#include <map>
#include <string>
#include <vector>

#include "wire/ranks.h"

namespace tbprof {

// The command on one line; words are quoted where a shell needs it.
std::string CommandLine(const std::vector<std::string>& arguments);

// `/usr/bin/python3 -u train.py --x` gives `train.py`, a process that multiprocessing has started its module's name;
// other commands give the basename of the executable.
std::string ProcessName(const std::string& executable, const std::vector<std::string>& arguments);

// From the variables of wire/ranks.h, and TF_CONFIG; rank -1 if none is set.
RankFacts RankOf(const std::map<std::string, std::string>& variables);

// `0-3,7`. `ranks` is sorted and has no duplicates.
std::string RankList(const std::vector<int>& ranks);

}  // namespace tbprof

#endif  // TBPROF_WRITER_BASE_ARGUMENTS_H_
