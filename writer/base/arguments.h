// SPDX-License-Identifier: Apache-2.0
//
// Command lines as they are shown: quoted, names shortened, ranks read.
//
// Process: converter. Pure functions.
#ifndef TBPROF_WRITER_BASE_ARGUMENTS_H_
#define TBPROF_WRITER_BASE_ARGUMENTS_H_

#include <map>
#include <string>
#include <vector>

#include "wire/ranks.h"

namespace tbprof {

// One line, words quoted where a shell would need it.
std::string CommandLine(const std::vector<std::string>& arguments);

// `train.py` for `/usr/bin/python3 -u train.py --x`; else the executable's basename.
std::string ProcessName(const std::string& executable, const std::vector<std::string>& arguments);

// From the variables of wire/ranks.h, and TF_CONFIG; rank -1 if none is set.
RankFacts RankOf(const std::map<std::string, std::string>& variables);

// `0-3,7`: what is sorted and has no doubles.
std::string RankList(const std::vector<int>& ranks);

}  // namespace tbprof

#endif  // TBPROF_WRITER_BASE_ARGUMENTS_H_
