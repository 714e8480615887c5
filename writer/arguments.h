// SPDX-License-Identifier: Apache-2.0
//
// Command lines as they are shown: secrets masked, names shortened, ranks read.
//
// Process: converter. Pure functions.
#ifndef TBPROF_WRITER_ARGUMENTS_H_
#define TBPROF_WRITER_ARGUMENTS_H_

#include <map>
#include <string>
#include <vector>

namespace tbprof {

// `--token=abc`, `--api-key abc`, `PASSWORD=abc` and the like become `--token=***`.
std::vector<std::string> MaskSecrets(const std::vector<std::string>& arguments);

// One line, words quoted where a shell would need it.
std::string CommandLine(const std::vector<std::string>& arguments);

// `train.py` for `/usr/bin/python3 -u train.py --x`; else the executable's basename.
std::string ProcessName(const std::string& executable, const std::vector<std::string>& arguments);

enum RankKind { kRank, kLocalRank, kWorldSize };
// From the variables of wire/rendezvous.h; -1 if none is set. RANK wins over Slurm's where both are: under srun with
// torchrun the latter numbers nodes.
int RankOf(const std::map<std::string, std::string>& variables, RankKind kind);

}  // namespace tbprof

#endif  // TBPROF_WRITER_ARGUMENTS_H_
