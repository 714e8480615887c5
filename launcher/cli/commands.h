// SPDX-License-Identifier: Apache-2.0
//
// The subcommands: each has a row in commands.cc and a file cmd_<name>.cc. Their functions return the exit status.
//
// Process: launcher, main thread.
#ifndef TBPROF_LAUNCHER_CLI_COMMANDS_H_
#define TBPROF_LAUNCHER_CLI_COMMANDS_H_

#include <string>
#include <string_view>

#include "absl/types/span.h"
#include "launcher/cli/options.h"

namespace tbprof {

struct Command {
  std::string_view name;
  std::string_view usage;    // `tbprof run [options] [--] COMMAND [ARGUMENT...]`
  std::string_view summary;  // one line
  std::string_view text;     // the long text of `tbprof help NAME`, wrapped, ending in a newline
  int (*run)(const Options& options);
};

absl::Span<const Command> Commands();
const Command* FindCommand(std::string_view name);

// The body of main().
int RunTbprof(int argc, char** argv);

int CommandRun(const Options& options);       // cmd_run.cc
int CommandConvert(const Options& options);   // cmd_convert.cc
int CommandRecover(const Options& options);   // cmd_convert.cc
int CommandCheck(const Options& options);     // cmd_check.cc
int CommandReport(const Options& options);    // cmd_report.cc
int CommandBaseline(const Options& options);  // cmd_baseline.cc
int CommandAb(const Options& options);        // cmd_ab.cc
int CommandCompare(const Options& options);   // cmd_compare.cc
int CommandCapture(const Options& options);   // cmd_capture.cc
int CommandAttach(const Options& options);    // cmd_attach.cc
int CommandStatus(const Options& options);    // cmd_status.cc
int CommandMerge(const Options& options);     // cmd_merge.cc
int CommandConfig(const Options& options);    // commands.cc
int CommandDoctor(const Options& options);    // cmd_doctor.cc
int CommandHelp(const Options& options);      // cmd_help.cc

// Writes to standard output. False: writing failed, and an error was printed.
bool PrintOut(std::string_view text);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_CLI_COMMANDS_H_
