// SPDX-License-Identifier: Apache-2.0
//
// The end of a run: what becomes of the raw records, which lines explain what is missing, and the exit status.
//
//   SettleSpool(&terminal, session.get(), settlement);
//   NameMissingViewer(&terminal, options.command);
//   if (const std::optional<int> status = StatusInsteadOf(facts, &terminal)) return *status;
//
// Process: launcher, main thread.
#ifndef TBPROF_LAUNCHER_RUN_OUTCOME_H_
#define TBPROF_LAUNCHER_RUN_OUTCOME_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/cli/options.h"
#include "launcher/cli/terminal.h"
#include "launcher/session/session.h"
#include "launcher/target/target_process.h"
#include "writer/spool/gpu_facts.h"

namespace tbprof {

struct SpoolFate {
  bool keep = false;
  bool failed = false;  // a profile that was asked for
  bool hangs = false;   // the log directory: removing may, too
};
void SettleSpool(Terminal* terminal, Session* session, const SpoolFate& fate);

// The line with the viewing command is of no use where the command's own Python has no viewer.
void NameMissingViewer(Terminal* terminal, const std::vector<std::string>& command);

struct RunFacts {
  TargetEnd end;             // of the command
  bool failed = false;       // something that was asked for
  uint64_t kernels = 0;      // recorded
  GpuFacts gpu;              // what was reported of recording GPUs
  bool captured = false;     // a capture was asked for
  std::string not_recorded;  // why the command cannot be, known before its start
};
// Why no kernel was recorded: in one line, with what to do.
std::string WhyNoKernel(const Options& options, const RunFacts& facts);
// The exit status where the command has succeeded and something that was asked for has not; nothing: the command's own.
std::optional<int> StatusInsteadOf(const Options& options, const RunFacts& facts, Terminal* terminal);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_RUN_OUTCOME_H_
