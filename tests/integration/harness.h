// SPDX-License-Identifier: Apache-2.0
//
// Runs programs bare and under `tbprof run`, and reads the profile that it leaves.
//
//   Pair pair = RunBoth(Program("mutex"), {}, {"--wait-threshold=0"});
//   ASSERT_TRUE(pair.Same());                              // status, stdout, stderr but for tbprof's lines
//   std::vector<Event> waits = pair.profiled.profile->Named("pthread_mutex_lock");
//
// Every run has its own directory with a new logdir in it. The directory is removed with the run's result, but kept if
// the test has failed. A program reports to a test what it did (addresses, counts) through the file named in TEST_FACTS
// (programs/facts.h), so that its output can be compared.
#ifndef TBPROF_TESTS_INTEGRATION_HARNESS_H_
#define TBPROF_TESTS_INTEGRATION_HARNESS_H_

#include <gtest/gtest.h>
#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "writer/proto/xplane.pb.h"

namespace tbprof::integration {

// ---- where things are

std::string Tbprof();                        // build/bin/tbprof
std::string Program(std::string_view name);  // build/tests/programs/<name>
std::string ProgramSource(std::string_view name);
// The line of tests/programs/<file> that holds `// here: <mark>`; 0 with a test failure if there is none.
int LineOf(std::string_view file, std::string_view mark);
// `function (file:line)` for that mark, as a call site is printed.
std::string SiteAt(std::string_view function, std::string_view file, std::string_view mark);

// A directory removed with its content at the end, unless the test has failed by then.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  std::string path_;
};

std::string ReadFile(const std::string& path);
void WriteFile(const std::string& path, std::string_view text, mode_t mode = 0644);
std::vector<std::string> Lines(std::string_view text);
// The files below a directory whose paths end in `suffix`; empty if the directory does not exist.
std::vector<std::string> FilesBelow(const std::string& directory, std::string_view suffix);

// ---- a profile

struct Event {
  std::string plane;
  std::string line;
  int64_t line_id = 0;
  std::string name;
  int64_t start_ps = 0;
  int64_t duration_ps = 0;
  std::map<std::string, std::string> stats;  // numbers as text

  int64_t end_ps() const { return start_ps + duration_ps; }
  bool Has(const std::string& stat) const { return stats.count(stat) != 0; }
  std::string Stat(const std::string& stat) const;  // "" if it has none
  int64_t Number(const std::string& stat) const;    // -1 if it has none
  double milliseconds() const { return static_cast<double>(duration_ps) / 1e9; }
};
std::ostream& operator<<(std::ostream& out, const Event& event);

class Profile {
 public:
  static std::unique_ptr<Profile> Parse(const std::string& xplane_path);

  const tensorflow::profiler::XSpace& space() const { return space_; }
  // Created at the first call: a million events take a gigabyte. Count does not need them.
  const std::vector<Event>& events() const;
  std::vector<Event> Named(std::string_view name) const;
  int64_t Count(std::string_view name) const;
  // The events whose call site is in `function`, which is given without parameters.
  std::vector<Event> Named(std::string_view name, std::string_view function) const;
  std::vector<std::string> LineNames() const;  // of all planes but counters, steps, memory
  std::vector<std::string> PlaneNames() const;
  bool HasPlane(std::string_view part) const;
  bool HasWarning(std::string_view part) const;

 private:
  tensorflow::profiler::XSpace space_;
  mutable bool flat_ = false;
  mutable std::vector<Event> events_;
};

// ---- runs

// Limits for hangs, not for slow runs: beside busy loops on every core, fsync has taken 90 s.
inline constexpr int kWaitSeconds = 150;
inline constexpr int kRunSeconds = 240;

struct RunOptions {
  std::vector<std::string> tbprof;                                              // options of `tbprof run`
  std::vector<std::pair<std::string, std::optional<std::string>>> environment;  // nullopt: unset
  std::string directory;                                                        // empty: the run's own
  std::string standard_input;                                                   // a path; empty: /dev/null
  bool default_logdir = true;                                                   // --logdir=<run directory>/logs
  bool terminal = false;  // a session of its own, a terminal on standard input
  int timeout_s = kRunSeconds;
  std::vector<std::string> launcher;  // put before everything, e.g. {"setsid"}
};

struct RunResult {
  std::shared_ptr<TemporaryDirectory> directory;
  std::string logdir;
  pid_t pid = 0;
  int status = -1;  // as waitpid gives it
  bool timed_out = false;
  std::string out;
  std::string err;                   // without tbprof's lines
  std::vector<std::string> printed;  // tbprof's lines, without `tbprof: `
  std::string facts_text;
  std::map<std::string, std::string> facts;
  std::vector<std::string> run_directories;  // <logdir>/plugins/profile/*, sorted
  std::shared_ptr<Profile> profile;          // of the only (or the first) run directory; null: none
  nlohmann::json summary;                    // null: none

  bool exited() const;
  int code() const;    // -1: killed
  int signal() const;  // 0: exited
  bool Printed(std::string_view part) const;
  std::string AllPrinted() const;
  uint64_t Fact(const std::string& name) const;  // fails the test if it is missing
};

// The number of recorded calls of an operation, in all processes.
int64_t Recorded(const RunResult& result, std::string_view operation);

// A running program. The destructor kills the program and its process group, and waits for it.
class Running {
 public:
  static std::unique_ptr<Running> Start(const std::vector<std::string>& command, const RunOptions& options);
  ~Running();
  pid_t pid() const { return pid_; }
  const std::string& path() const { return result_.directory->path(); }
  const std::string& logdir() const { return result_.logdir; }
  std::string Out() const;
  std::string Err() const;
  std::string Facts() const;
  // Waits until the facts (or stderr, stdout) hold the text. False: time is up or it has ended without.
  bool WaitForFact(std::string_view text, int timeout_s = kWaitSeconds);
  bool WaitForError(std::string_view text, int timeout_s = kWaitSeconds);
  // Waits for a fact and returns its value.
  int64_t WaitForNumber(const std::string& name, int timeout_s = kWaitSeconds);
  void Signal(int signo) const;
  void Type(std::string_view keys) const;  // on the terminal
  bool Ended();
  RunResult Wait();

 private:
  friend RunResult RunBare(const std::vector<std::string>&, const RunOptions&);
  bool WaitForText(const std::string& file, std::string_view text, int timeout_s);
  RunResult result_;
  pid_t pid_ = 0;
  int pidfd_ = -1;
  int terminal_ = -1;
  bool ended_ = false;
  int timeout_s_ = 0;
};

std::vector<std::string> UnderTbprof(const std::vector<std::string>& command, const RunOptions& options,
                                     const std::string& logdir);
std::unique_ptr<Running> StartUnderTbprof(const std::vector<std::string>& command, const RunOptions& options = {});
RunResult RunUnderTbprof(const std::vector<std::string>& command, const RunOptions& options = {});
RunResult RunBare(const std::vector<std::string>& command, const RunOptions& options = {});
// `tbprof` with exactly these words.
RunResult RunTbprof(const std::vector<std::string>& words, RunOptions options = {});
// Fails the test unless docs/summary.schema.json describes the summary, every field of it.
void ExpectSchema(const nlohmann::json& summary);
// Reads the current files of the logdir; each summary must match its schema.
void ReadProfile(RunResult* result);

struct Pair {
  RunResult bare;
  RunResult profiled;
  // Same status, stdout, stderr; a profile is there.
  testing::AssertionResult Same() const;
};
// How often a test that looks for rare faults repeats what it does: TBPROF_TEST_REPETITIONS, else `usual`.
int Repetitions(int usual);

testing::AssertionResult SameOutput(const RunResult& bare, const RunResult& profiled);
Pair RunBoth(const std::vector<std::string>& command, const RunOptions& options = {});
Pair RunBoth(const std::string& program, const std::vector<std::string>& arguments = {},
             const std::vector<std::string>& tbprof_options = {});

}  // namespace tbprof::integration

#endif  // TBPROF_TESTS_INTEGRATION_HARNESS_H_
