// SPDX-License-Identifier: Apache-2.0
//
// The options: one row per option in option_rows.cc gives the flag, the environment name, the configuration key, the
// help and docs/cli.md. Precedence: flag, TBPROF_<OPTION>, --config FILE or $TBPROF_CONFIG, ./tbprof.toml,
// $XDG_CONFIG_HOME/tbprof/config.toml, default.
//
//   absl::StatusOr<Options> options = ParseOptions(args, CurrentEnvironment(), working_directory);
//   if (!options.ok()) { /* one line, exit 125 */ }
//   if (options->malloc == MallocMode::kSampled) ...
//
// Process: launcher. Pure functions, except that configuration files are read.
#ifndef TBPROF_LAUNCHER_CLI_OPTIONS_H_
#define TBPROF_LAUNCHER_CLI_OPTIONS_H_

#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "launcher/base/port_users.h"
#include "writer/convert/session_facts.h"

namespace tbprof {

inline constexpr int kExitCondition = 3;        // the command succeeded, but a requested condition did not hold
inline constexpr int kExitUsage = 125;          // wrong usage or failed set-up of tbprof
inline constexpr int kExitNotExecutable = 126;  // the command was found but can't be executed
inline constexpr int kExitNotFound = 127;

inline constexpr uint64_t kDefaultSegmentSize = uint64_t{256} << 20;
inline constexpr uint32_t kDefaultSampleRate = 100;
inline constexpr uint64_t kDefaultSpoolRate = uint64_t{100} << 20;

// Names of families of hooks (wire/layout.h): `thread,lock` for kFamilyThread | kFamilyLock; `all`; `none`.
std::string FamilyNames(uint32_t families);

struct Window {
  enum class Kind { kAuto, kAll, kNone, kRange, kLast, kSteps, kNvtx, kCudaProfiler };
  Kind kind = Kind::kAuto;
  absl::Duration delay;                   // kRange: from the target's start
  absl::Duration duration;                // kRange, kLast
  int64_t first_step = 0, last_step = 0;  // kSteps: numbers as in the profile, both included
  std::string range = {};                 // kNvtx: name of the range
  // The program itself opens these windows; each is a capture.
  bool is_triggered() const { return kind == Kind::kNvtx || kind == Kind::kCudaProfiler; }
};

enum class MallocMode { kSampled, kExact, kOff };
enum class Follow { kChildren, kAll, kNone };
enum class OnError { kStop, kRun };

enum class OptionSource {
  kDefault,
  kCommandLine,
  kEnvironment,
  kConfigFile,   // a file that the user named, or the one in the user's own directory
  kProjectFile,  // ./tbprof.toml, which others may have written: decision 026
};

struct OptionValue {
  std::string text;  // as given by the user
  OptionSource source = OptionSource::kDefault;
  std::string source_name;  // for messages: `default`, `--logdir`, `TBPROF_LOGDIR`, `/abs/tbprof.toml`
};

enum class Cuda { kAuto, kCupti, kHooks, kOff };
enum class Torch { kOperations, kAll, kSteps, kOff };

inline constexpr uint64_t kFewestPairs = 3, kMostPairs = 200;  // ab --pairs

// The fields of SessionOptions are rows of wire/settings.def.
struct Options : SessionOptions {
  std::string subcommand;            // as in commands.cc; empty for `--version` and `--help`
  bool version = false;              // --version / -V
  bool help = false;                 // --help / -h
  std::vector<std::string> command;  // run, doctor: the command, byte for byte
  // baseline: save, list or show, and their operands; convert, recover: spools; check: a logdir; capture: addresses, a
  // pid or a run; merge: runs; report: a profile, spool, log directory or run; compare: the two sides; help: a
  // subcommand
  std::vector<std::string> operands;
  bool disabled = false;  // TBPROF_DISABLE=1: run is a plain exec

  std::string logdir = "./tbprof-logs";  // as given; NormaliseLogdir (writer/logdir/logdir.h) makes it absolute
  bool logdir_named = false;             // false: the default
  bool logdir_required = false;          // named by the user, not by ./tbprof.toml: no other directory is used instead
  std::string logdir_base;               // not empty: below this directory the path may have no symbolic links
  std::string run;                       // empty: the job's number, else a name from the time
  std::string print_ranks;               // --print-ranks as given, checked; empty: the lowest recorded rank
  absl::Duration rank_wait = absl::Seconds(5);
  absl::Duration publish_timeout = absl::Seconds(30);
  Window window;
  absl::Duration window_duration = absl::Seconds(3);
  absl::Duration capture_duration = absl::Seconds(2);  // capture --duration
  absl::Duration capture_delay = absl::ZeroDuration();
  int retries = 3;
  Cuda cuda = Cuda::kAuto;
  bool whole_cuda_graphs = false;
  bool cuda_unified_memory = false;
  bool xla_annotations = false;
  Torch torch = Torch::kOperations;
  bool torch_shapes = false;
  bool require_gpu = false;
  MallocMode malloc = MallocMode::kSampled;  // kOff: `families` has no kFamilyMalloc
  std::string spool_dir;                     // empty: chosen by the session
  uint64_t spool_limit = 0;                  // 0: chosen by the session
  uint64_t spool_rate = kDefaultSpoolRate;   // bytes per minute; 0: no limit
  bool keep_spool = false;
  std::string summary_json;  // a path; empty: only the one in the run directory
  int summary_json_fd = -1;  // `fd:N`
  Follow follow = Follow::kChildren;
  bool full_summary = false;  // all tables at the end
  bool quiet = false;
  std::string log_file;
  OnError on_error = OnError::kStop;
  int capture_signal = SIGUSR1;                            // 0: none
  int port = -1;                                           // of the profiler service; 0: a free port, -1: none
  std::vector<std::string> listen = {"127.0.0.1", "::1"};  // numeric addresses
  PortUsers port_users;
  std::string tls_cert, tls_key;  // for the port, beyond loopback; empty: no TLS
  std::string tls_ca;             // capture: trusted certificates beyond loopback; empty: no TLS
  bool record_argv = true;        // --no-argv
  bool strict = false;
  uint64_t segment_size = kDefaultSegmentSize;
  bool segment_size_named = false;  // false: smaller if a memory limit is small (launcher/target/memory_limit.h)

  std::vector<std::string> base_runs, new_runs;  // compare --base, --new; ab: one command each
  uint64_t pairs = 40;                           // ab: maximum
  absl::Duration max_time;                       // ab; zero: no limit
  std::string baseline;                          // run: baseline for the comparison; empty: none
  double margin = 0.03;                          // compare, ab, run: for the step time
  bool unclear_passes = false;                   // compare, ab: --unclear=pass
  bool unclear_fails = false;                    // run: --unclear=fail
  std::vector<std::string> fail_on;              // compare, ab, run: rules, as given by the user
  bool annotations = false;                      // compare, ab
  bool any_program = false;                      // compare

  bool json = false;       // check, doctor, status, report, compare, ab, baseline
  bool csv = false;        // report
  bool markdown = false;   // --md of report, compare, ab
  uint64_t tokens = 2000;  // report --md: maximum
  int64_t rank = -1;       // report, compare, baseline; -1: the slowest
  std::string python;      // doctor; empty: the Python in use
  std::string store;       // baseline, compare, run: path of the store of baselines
  bool add = false;        // baseline save
  uint64_t keep = 100;     // baseline save: runs that a baseline has at most

  // One value per row of OptionRows(), in the same order.
  std::vector<OptionValue> values;
  std::vector<std::string> config_files;  // files that were used
  std::vector<std::string> warnings;      // about files and variables that are not used, one line each
};

// Whether an option may come from ./tbprof.toml, which a cloned repository may contain: decision 026. Not permitted are
// options that suppress or reduce recording, take memory or disk, change the program's behaviour, write outside the log
// directory, open the network, start a program or hide tbprof's lines.
enum class InProject {
  kNever,
  kAllowed,
  kOnlyOn,     // only the value that keeps something out of the profile
  kOnlyBelow,  // only a path below the file's directory
  kOnlyMore,   // only values that record at least as much as the default: OptionRow::records_enough
};

// One row of the table.
struct OptionRow {
  std::string_view name;          // without dashes: the configuration key; TBPROF_<NAME> with _ for -
  std::string_view value_name;    // empty: a switch
  std::string_view default_text;  // in the option's format
  std::string_view help;          // one sentence, no full stop
  uint32_t commands;              // kFor… bits
  absl::Status (*set)(Options& options, std::string_view value);
  InProject in_project = InProject::kNever;
  bool (*records_enough)(const Options& options) = nullptr;
  bool repeatable = false;  // `set` gets all values of the command line in one text, separated by kBetweenValues
};
inline constexpr char kBetweenValues = '\0';  // cannot occur in an argument
inline constexpr uint32_t kForRun = 1u << 0;
inline constexpr uint32_t kForConvert = 1u << 1;
inline constexpr uint32_t kForRecover = 1u << 2;
inline constexpr uint32_t kForConfig = 1u << 3;
inline constexpr uint32_t kForCheck = 1u << 4;
inline constexpr uint32_t kForDoctor = 1u << 5;
inline constexpr uint32_t kForCapture = 1u << 6;
inline constexpr uint32_t kForStatus = 1u << 7;
inline constexpr uint32_t kForMerge = 1u << 8;
inline constexpr uint32_t kForReport = 1u << 9;
inline constexpr uint32_t kForCompare = 1u << 10;
inline constexpr uint32_t kForAb = 1u << 11;
inline constexpr uint32_t kForBaseline = 1u << 12;
inline constexpr uint32_t kForAttach = 1u << 13;

absl::Span<const OptionRow> OptionRows();
// `TBPROF_SPOOL_DIR` for `spool-dir`.
std::string EnvironmentName(std::string_view option);
// Where the value of an option comes from. kDefault if `options` have no values yet.
OptionSource SourceOf(const Options& options, std::string_view option);

// `NAME=value` strings, as in environ.
using Environment = std::vector<std::string>;
Environment CurrentEnvironment();
std::string WorkingDirectory();  // `/` if it has been removed or is unknown
std::optional<std::string_view> Lookup(const Environment& environment, std::string_view name);

// `args` without argv[0]. An error is one line for the user, without prefix; the exit status is kExitUsage.
absl::StatusOr<Options> ParseOptions(const std::vector<std::string>& args, const Environment& environment,
                                     const std::string& working_directory);

// `500ms`, `2s`, `1m30s`, `0`; a number without unit is an error.
absl::StatusOr<absl::Duration> ParseDuration(std::string_view text);
// `4096`, `64KB` (1000), `64KiB` (1024), `64MB`, `1GiB`; `64M` and `64m` are binary as in dd.
absl::StatusOr<uint64_t> ParseSize(std::string_view text);

// Returns the name in `names` that is most similar to `word`; empty: no name is similar.
std::string NearestName(std::string_view word, const std::vector<std::string>& names);

// Text for the terminal (`tbprof run --help`), and the table of docs/cli.md.
std::string OptionHelp(std::string_view subcommand, int width);
std::string OptionMarkdown();
// `tbprof config`: one line per option, with value and source.
std::string ExplainOptions(const Options& options);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_CLI_OPTIONS_H_
