// SPDX-License-Identifier: Apache-2.0
//
// The end of a run: keeps or removes the raw records, prints lines that explain missing data, and chooses the exit
// status.
//
//   SettleSpool(&terminal, session.get(), fate);
//   NameMissingViewer(&terminal, options.command);
//   if (const std::optional<int> status = StatusInsteadOf(options, facts, &terminal)) return *status;
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
  bool failed = false;  // a requested profile failed
  bool hangs = false;   // the log directory hangs: removing may hang too
};
void SettleSpool(Terminal* terminal, Session* session, const SpoolFate& fate);

// Prints how to install a viewer if neither the Python of the command nor that beside tbprof has one: without it the
// printed viewing command fails.
void NameMissingViewer(Terminal* terminal, const std::vector<std::string>& command);

struct RunFacts {
  TargetEnd end;             // of the command
  bool failed = false;       // something that was requested failed
  uint64_t kernels = 0;      // recorded GPU kernels
  GpuFacts gpu;              // reported facts about recording GPUs
  bool captured = false;     // a capture was requested
  std::string not_recorded;  // why the command cannot be recorded, known before its start
};
// Why no kernel was recorded, in one line with a remedy.
std::string WhyNoKernel(const Options& options, const RunFacts& facts);
// The exit status if the command succeeded but something that was requested failed; nullopt: the command's own status.
std::optional<int> StatusInsteadOf(const Options& options, const RunFacts& facts, Terminal* terminal);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_RUN_OUTCOME_H_
