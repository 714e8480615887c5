// SPDX-License-Identifier: Apache-2.0
//
// Gives Python code of notebook cells the names of the notebook and its cell (writer/symbols/notebook_cells.h). The
// notebooks are sought in the working directory of the process, and among the arguments of all programs.
//
// Process: converter, one thread, between the two passes over the spool. Reads files of the program.
#ifndef TBPROF_WRITER_CONVERT_NOTEBOOK_NAMES_H_
#define TBPROF_WRITER_CONVERT_NOTEBOOK_NAMES_H_

#include <string>
#include <vector>

#include "writer/spool/spool_facts.h"

namespace tbprof {

// `command`: the command of the session, whose arguments may be notebooks.
void NameNotebookCells(const std::vector<std::string>& command, SpoolFacts* facts);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_NOTEBOOK_NAMES_H_
