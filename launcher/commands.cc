// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/commands.h"
#include "launcher/base/version.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "launcher/base/text.h"
#include "launcher/cli/terminal.h"
#include "launcher/target/target_process.h"
#include "wire/layout.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

constexpr Command kCommands[] = {
    {"run", "tbprof run [options] [--] COMMAND [ARGUMENT...]", "Run a command and record it",
     R"(Runs COMMAND with a small library in each of its processes, and leaves a profile that TensorBoard opens:
<logdir>/plugins/profile/<run>/<host>.xplane.pb. The first word that is no option starts the command, with or
without `--`; from there on no word is touched.

The command sees what it would see without tbprof: output, exit status, signals, descriptors. If anything of
tbprof's fails, the command still runs, and tbprof prints the reason.

A capture while it runs: `kill -USR1 PID`, PID being tbprof's, which the first line prints.

Exit status: the command's own; killed by a signal, tbprof ends by the same signal. 125: tbprof's own usage or
set-up failed, and the command was not started. 126: the command can't be executed. 127: it was not found.
With --strict, 125 also when the profile could not be written though the command succeeded; with --require-gpu, 3
when it succeeded and no GPU kernel was recorded.

Signals sent to tbprof go to the command, each once; a signal of the terminal or to the whole process group has
reached the command already. A second interrupt after the command's end stops the conversion and keeps the raw
records for `tbprof recover`.

Library in LD_PRELOAD: children inherit it, as they inherit any environment. TBPROF_DISABLE=1 makes `run` a
plain exec.
)",
     CommandRun},
    {"convert", "tbprof convert [options] SPOOL...", "Make the profile of a spool again",
     R"(Converts raw records (kept by --keep-spool, or by a run whose conversion was stopped) into a profile, as `run`
does at its end. The spool stays as it is.
)",
     CommandConvert},
    {"recover", "tbprof recover [options] [SPOOL...]", "Save what a killed tbprof left behind",
     R"(Finds spools whose tbprof is gone, takes the longest valid part of each, and converts it. Without SPOOL the
usual places are searched; a spool that is still being written is left alone.
)",
     CommandRecover},
    {"capture", "tbprof capture [options] [HOST:PORT[,HOST:PORT...] | PID | RUN]", "Take a profile of a running job",
     R"(Opens a window in programs that run under `tbprof run`, and leaves what they did in it for TensorBoard.

  HOST:PORT,...  workers at their ports (`tbprof run --port`), or any other profiler service. All record at the same
                 time; each file goes to <logdir>/plugins/profile/<run>/<host>_<port>.xplane.pb, on this machine.
  PID            a `tbprof run` of this machine, or one of its processes: no port is needed. The profile goes to that
                 run's own log directory, or to --logdir where it is given.
  RUN            all workers of a run: those on this machine, and those whose ports --logdir knows.

Without an operand: the one `tbprof run` of this machine.

Exit status: 0 all workers have answered, 1 some, 2 none, 125 wrong usage.
)",
     CommandCapture},
    {"attach", "tbprof attach [options] PID...", "Sample a job that was started without tbprof",
     R"(Samples processes that run already, and their descendants, for --duration: the Python line and the native function
of each thread, its CPU time, the system call in which it is blocked, and the memory. Then a profile is written, as
after `run`. The processes are neither stopped nor changed, and go on. Ctrl-C ends the sampling sooner.

Waits, files, allocations, steps by PyTorch and GPUs need tbprof's library in the process: restart the job under
`tbprof run` for these.

It needs the right to read the memory of the processes, as a debugger does: same user and kernel.yama.ptrace_scope=0,
or root; in a container --cap-add=SYS_PTRACE.

Exit status: 0 a profile was written, 125 wrong usage, no such process, no right to read it, or no profile.
)",
     CommandAttach},
    {"status", "tbprof status [--json]", "List the running jobs of this machine",
     R"(A block for each `tbprof run` of this user: what it does, its command and log directory, how many processes and
records, what was dropped (of threads that live), and how to take a capture.
)",
     CommandStatus},
    {"merge", "tbprof merge [options] RUN_DIRECTORY...", "Join captures that were made apart",
     R"(Copies the profiles of several run directories (of machines or ranks) into one run of --logdir, which TensorBoard
then shows as one run with several hosts. The run directories stay as they are.
)",
     CommandMerge},
    {"check", "tbprof check [--json] [LOGDIR]", "Report what TensorBoard shows of a log directory, and why not",
     R"(Replays TensorBoard's rules over LOGDIR (without it, --logdir): the runs, hosts and tools of the Profile page, the
runs with scalars. Then a line for each thing that stands in the way: what, where, and the command that repairs it.
Profiles and events files of any program are looked at, not only tbprof's. Nothing is changed. docs/check.md lists
the findings.

Exit status: 0 nothing in the way, 1 warnings, 2 something is not shown, 125 wrong usage.
)",
     CommandCheck},
    {"report", "tbprof report [options] [PROFILE | SPOOL | LOGDIR | RUN]", "Print the answers of a profile again",
     R"(The verdict of a run, and the tables behind it: Python lines, native functions, waits, GPUs, memory, ranks, losses.

  PROFILE  an .xplane.pb, or the summary.json beside it
  SPOOL    raw records: they are read, and nothing is written
  LOGDIR   its newest run, or that of --run; without an operand, --logdir
  RUN      a run directory, or the name of a run below --logdir

Of several ranks: a line for each, and the details of the one that the terminal showed, or of --rank. A profile that
has no summary.json beside it is shown as far as its own structure goes. docs/report.md describes --json and --csv.

Exit status: 0 answered, 1 in part (a line names what is missing), 2 no answer, 125 wrong usage.
)",
     CommandReport},
    {"compare", "tbprof compare [options] BASE NEW", "Report whether runs are slower than others, and why",
     R"(Compares the step time, memory and counts of recorded runs, and names where a difference comes from.

  BASE, NEW  a profile, its summary.json, a run directory, or a log directory: all of its runs
  --base=PATH --new=PATH  the same, each as often as there are runs: several runs a side decide about time

The run is the unit: with one run a side only counts (kernels, allocations, ... in a step) are decided. An answer of
three: worse; equivalent within --margin, or better; cannot tell, with the number of runs that are missing.
docs/gate.md has the method and its error rates.

Exit status: 0 equivalent or better, 1 worse or a rule of --fail-on fails, 2 cannot tell (--unclear=pass: 0), 125 wrong
usage or nothing to read.
)",
     CommandCompare},
    {"ab", "tbprof ab [options] --base 'CMD A' --new 'CMD B'",
     "Run two commands in turns until it is known which is slower",
     R"(Runs both commands under `tbprof run`, in pairs whose order is drawn by chance, and compares them as `compare` does.
It looks at the data after 4, 6, 9, ... pairs and stops as soon as the answer is known, at --pairs or --max-time.

  --base, --new  command lines for /bin/sh -c

What the commands print goes into a file for each run, below the log directory. The first profile of each side stays
there; of the others the summaries. Other programs, a hypervisor or heat that go with one side make it `cannot tell`.

Exit status: 0 equivalent or better, 1 worse or a rule of --fail-on fails, 2 cannot tell (--unclear=pass: 0), also where
a command fails; 125 wrong usage.
)",
     CommandAb},
    {"baseline", "tbprof baseline [options] save NAME RUN... | list | show NAME",
     "Keep runs to compare later ones with",
     R"(Keeps the step times, counts and amounts of runs under a name: `tbprof compare baseline:NAME NEW` compares with
them, and more than two runs show how much the step time differs from run to run.

  save NAME RUN...  the runs replace those of the baseline NAME, or with --add are added to them; the newest
                    --keep=N stay. RUN: a summary.json, a profile, a run's directory or a log directory, as
                    for `tbprof report`
  list              each baseline: runs, step time, when it was saved
  show NAME         its runs, and what must be equal for a comparison: command, machine, devices, versions

The store is a directory with a file for each baseline, or one file that ends in .json: --store. Jobs that save at
the same time lose nothing. docs/gate.md.

Exit status: 0 done, 2 no such baseline or one that cannot be read, 125 wrong usage, or nothing was saved.
)",
     CommandBaseline},
    {"config", "tbprof config [--explain] [options]", "Show each option, its value and where it comes from",
     R"(Options come from, nearest first: the command line; TBPROF_<OPTION> in the environment; the file named by
--config or TBPROF_CONFIG; ./tbprof.toml; $XDG_CONFIG_HOME/tbprof/config.toml (~/.config); the default.

A file holds `option = "value"` lines; below [run], [report] or another subcommand's name they count for that subcommand alone.
An unknown option or key is an error; an unknown TBPROF_ variable, and whatever is wrong in ./tbprof.toml, is a warning.
./tbprof.toml counts only if you or root own it and nobody else can write on its path. docs/cli.md lists what it may set.
)",
     CommandConfig},
    {"doctor", "tbprof doctor [options] [[--] COMMAND [ARGUMENT...]]", "Check that recording works here",
     R"(Looks at what recording needs: system, limits, memory, clocks, preloaded libraries, directories, left-over raw
records, TensorBoard and its plugin, proxies, NVIDIA's driver, the CUDA runtime and CUPTI; then records a run of
tbprof itself into a temporary directory. With COMMAND, whether that command can be recorded; it is not started.
Nothing is changed.

A line each on standard output: PASS, NOTE, WARN or FAIL, what was found, and what to do. Exit status: 2 with a
FAIL, else 0; with --strict, 1 with a NOTE or WARN.
)",
     CommandDoctor},
    {"help", "tbprof help [SUBCOMMAND]", "This text, or that of a subcommand", "", CommandHelp},
};

// Prevents files that tbprof opens from getting descriptor 0, 1 or 2 and receiving terminal output. Close-on-exec: the
// target finds them closed, as tbprof did.
void OccupyStandardDescriptors() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null >= 0 && null != fd) close(null);
  }
}

int Fail(std::string_view line) {
  Terminal().Error(line);
  return kExitUsage;
}

int PlainExec(const Options& options) {
  SpawnRequest request{options.command, CurrentEnvironment(), OriginalSignals::Capture()};
  const int error = TargetProcess::Exec(request);
  Terminal().Error(StrCat("cannot run ", PrintableUtf8(options.command[0]), ": ", strerror(error)));
  return ExecFailureStatus(error);
}

}  // namespace

absl::Span<const Command> Commands() { return kCommands; }

const Command* FindCommand(std::string_view name) {
  for (const Command& command : kCommands) {
    if (command.name == name) return &command;
  }
  return nullptr;
}

bool PrintOut(std::string_view text) {
  if (fwrite(text.data(), 1, text.size(), stdout) == text.size() && fflush(stdout) == 0) return true;
  const int cause = errno;
  Terminal().Error(StrCat("cannot write to standard output: ", strerror(cause)));
  return false;
}

int CommandConfig(const Options& options) {
  if (!options.operands.empty()) {
    return Fail(StrCat("tbprof config takes options only, got `", PrintableUtf8(options.operands[0]), "`"));
  }
  return PrintOut(ExplainOptions(options)) ? 0 : kExitUsage;
}

int RunTbprof(int argc, char** argv) {
  OccupyStandardDescriptors();
  const std::vector<std::string> args(argv + (argc > 0 ? 1 : 0), argv + argc);
  const absl::StatusOr<Options> options = ParseOptions(args, CurrentEnvironment(), WorkingDirectory());
  if (!options.ok()) return Fail(std::string(options.status().message()));
  if (options->version) return PrintOut(VersionLine() + "\n") ? 0 : kExitUsage;
  if (options->help) return CommandHelp(*options);
  if (options->disabled) return PlainExec(*options);
  if (options->subcommand != "run" && !options->quiet) {
    // `run` prints the warnings later, when the printing rank is known.
    for (const std::string& warning : options->warnings) Terminal().Warn(warning);
  }
  return FindCommand(options->subcommand)->run(*options);
}

}  // namespace tbprof
