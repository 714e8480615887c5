// SPDX-License-Identifier: Apache-2.0
#include "harness.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "schema_check.h"

namespace tbprof::integration {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::string_view kPrefix = "tbprof: ";
constexpr auto kPollInterval = std::chrono::milliseconds(5);

std::string StatText(const tensorflow::profiler::XStat& stat, const tensorflow::profiler::XPlane& plane) {
  using tensorflow::profiler::XStat;
  switch (stat.value_case()) {
    case XStat::kDoubleValue:
      return std::to_string(stat.double_value());
    case XStat::kUint64Value:
      return std::to_string(stat.uint64_value());
    case XStat::kInt64Value:
      return std::to_string(stat.int64_value());
    case XStat::kStrValue:
      return stat.str_value();
    case XStat::kBytesValue:
      return stat.bytes_value();
    case XStat::kRefValue: {
      const auto found = plane.stat_metadata().find(static_cast<int64_t>(stat.ref_value()));
      return found == plane.stat_metadata().end() ? "?" : found->second.name();
    }
    default:
      return "";
  }
}

std::vector<char*> Pointers(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// This process's environment without tbprof's variables, and with the changes of `options`.
std::vector<std::string> EnvironmentFor(const RunOptions& options, const std::string& facts) {
  std::map<std::string, std::string> values;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const size_t equals = text.find('=');
    if (equals == std::string::npos || text.starts_with("TBPROF_") || text.starts_with("LD_PRELOAD=")) continue;
    values[text.substr(0, equals)] = text.substr(equals + 1);
  }
  values["TEST_FACTS"] = facts;
  for (const auto& [name, value] : options.environment) {
    if (value) {
      values[name] = *value;
    } else {
      values.erase(name);
    }
  }
  std::vector<std::string> environment;
  for (const auto& [name, value] : values) environment.push_back(name + "=" + value);
  return environment;
}

std::vector<std::string> Entries(const std::string& directory) {
  std::vector<std::string> names;
  if (DIR* listing = opendir(directory.c_str())) {
    while (const dirent* entry = readdir(listing)) {
      if (entry->d_name[0] != '.') names.push_back(directory + "/" + entry->d_name);
    }
    closedir(listing);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

std::string Tbprof() { return TBPROF_BUILD_DIR "/bin/tbprof"; }
std::string Program(std::string_view name) { return TBPROF_BUILD_DIR "/tests/programs/" + std::string(name); }
std::string ProgramSource(std::string_view name) {
  const std::string path = TBPROF_SOURCE_DIR "/tests/programs/" + std::string(name);
  return access(path.c_str(), R_OK) == 0 ? path : TBPROF_SOURCE_DIR "/tests/faults/programs/" + std::string(name);
}

int LineOf(std::string_view file, std::string_view mark) {
  const std::string wanted = "// here: " + std::string(mark);
  std::ifstream source(ProgramSource(file));
  std::string line;
  for (int number = 1; std::getline(source, line); ++number) {
    if (line.ends_with(wanted)) return number;
  }
  ADD_FAILURE() << file << " has no line that ends with `" << wanted << "`";
  return 0;
}

std::string SiteAt(std::string_view function, std::string_view file, std::string_view mark) {
  return std::string(function) + " (" + std::string(file) + ":" + std::to_string(LineOf(file, mark)) + ")";
}

TemporaryDirectory::TemporaryDirectory() {
  const char* base = getenv("TMPDIR");
  path_ = std::string(base != nullptr && *base == '/' ? base : "/tmp") + "/tbprof-it-XXXXXX";
  if (mkdtemp(path_.data()) == nullptr) {
    ADD_FAILURE() << "cannot make " << path_ << ": " << strerror(errno);
    abort();
  }
}

TemporaryDirectory::~TemporaryDirectory() {
  if (testing::Test::HasFailure()) {
    printf("kept: %s\n", path_.c_str());
    return;
  }
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void WriteFile(const std::string& path, std::string_view text, mode_t mode) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  chmod(path.c_str(), mode);
}

std::vector<std::string> Lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines.emplace_back(text.substr(0, end));
    text = end == std::string_view::npos ? "" : text.substr(end + 1);
  }
  return lines;
}

std::vector<std::string> FilesBelow(const std::string& directory, std::string_view suffix) {
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory, error)) {
    if (entry.path().string().ends_with(suffix)) files.push_back(entry.path());
  }
  return files;
}

// ---- a profile

std::string Event::Stat(const std::string& stat) const {
  const auto found = stats.find(stat);
  return found == stats.end() ? "" : found->second;
}

int64_t Event::Number(const std::string& stat) const {
  const auto found = stats.find(stat);
  return found == stats.end() ? -1 : strtoll(found->second.c_str(), nullptr, 0);
}

std::ostream& operator<<(std::ostream& out, const Event& event) {
  out << event.plane << " | " << event.line << " | " << event.name << " " << event.milliseconds() << " ms at "
      << static_cast<double>(event.start_ps) / 1e9;
  for (const auto& [name, value] : event.stats) out << ", " << name << "=" << value;
  return out;
}

std::unique_ptr<Profile> Profile::Parse(const std::string& xplane_path) {
  auto profile = std::make_unique<Profile>();
  if (!profile->space_.ParseFromString(ReadFile(xplane_path))) {
    ADD_FAILURE() << xplane_path << " does not parse";
    return nullptr;
  }
  return profile;
}

// The name that the viewer shows.
static const std::string& ShownName(const tensorflow::profiler::XEventMetadata& metadata) {
  return metadata.display_name().empty() ? metadata.name() : metadata.display_name();
}

const std::vector<Event>& Profile::events() const {
  if (flat_) return events_;
  flat_ = true;
  for (const auto& plane : space_.planes()) {
    for (const auto& line : plane.lines()) {
      for (const auto& event : line.events()) {
        Event& copy = events_.emplace_back();
        copy.plane = plane.name();
        copy.line = line.display_name().empty() ? line.name() : line.display_name();
        copy.line_id = line.id();
        const auto found = plane.event_metadata().find(event.metadata_id());
        copy.name = found == plane.event_metadata().end() ? "?" : ShownName(found->second);
        copy.start_ps = line.timestamp_ns() * 1000 + event.offset_ps();
        copy.duration_ps = event.duration_ps();
        for (const auto& stat : event.stats()) {
          const auto name = plane.stat_metadata().find(stat.metadata_id());
          copy.stats[name == plane.stat_metadata().end() ? "?" : name->second.name()] = StatText(stat, plane);
        }
      }
    }
  }
  return events_;
}

int64_t Profile::Count(std::string_view name) const {
  int64_t count = 0;
  for (const auto& plane : space_.planes()) {
    for (const auto& line : plane.lines()) {
      for (const auto& event : line.events()) {
        const auto found = plane.event_metadata().find(event.metadata_id());
        count += found != plane.event_metadata().end() && ShownName(found->second) == name;
      }
    }
  }
  return count;
}

std::vector<Event> Profile::Named(std::string_view name) const {
  std::vector<Event> found;
  for (const Event& event : events()) {
    if (event.name == name) found.push_back(event);
  }
  return found;
}

std::vector<Event> Profile::Named(std::string_view name, std::string_view function) const {
  std::vector<Event> found;
  for (const Event& event : events()) {
    const std::string site = event.Stat("call_site");
    // `main (a.c:3)`, `shop::Wait(int) (b.cc:7)`
    if (event.name != name || !site.starts_with(function)) continue;
    if (site.size() > function.size() && (site[function.size()] == ' ' || site[function.size()] == '(')) {
      found.push_back(event);
    }
  }
  return found;
}

std::vector<std::string> Profile::LineNames() const {
  std::vector<std::string> names;
  for (const auto& plane : space_.planes()) {
    for (const auto& line : plane.lines()) {
      const std::string& name = line.display_name().empty() ? line.name() : line.display_name();
      if (name != "steps" && name != "_counters_" && name != "memory") names.push_back(name);
    }
  }
  return names;
}

std::vector<std::string> Profile::PlaneNames() const {
  std::vector<std::string> names;
  for (const auto& plane : space_.planes()) names.push_back(plane.name());
  return names;
}

bool Profile::HasPlane(std::string_view part) const {
  for (const std::string& name : PlaneNames()) {
    if (name.find(part) != std::string::npos) return true;
  }
  return false;
}

bool Profile::HasWarning(std::string_view part) const {
  for (const std::string& warning : space_.warnings()) {
    if (warning.find(part) != std::string::npos) return true;
  }
  return false;
}

// ---- runs

bool RunResult::exited() const { return WIFEXITED(status); }
int RunResult::code() const { return WIFEXITED(status) ? WEXITSTATUS(status) : -1; }
int RunResult::signal() const { return WIFSIGNALED(status) ? WTERMSIG(status) : 0; }

bool RunResult::Printed(std::string_view part) const {
  return std::any_of(printed.begin(), printed.end(),
                     [&](const std::string& line) { return line.find(part) != std::string::npos; });
}

std::string RunResult::AllPrinted() const {
  std::string all;
  for (const std::string& line : printed) all += line + "\n";
  return all;
}

uint64_t RunResult::Fact(const std::string& name) const {
  const auto found = facts.find(name);
  if (found == facts.end()) {
    ADD_FAILURE() << "the program did not tell `" << name << "`; it told:\n" << facts_text;
    return 0;
  }
  return strtoull(found->second.c_str(), nullptr, 0);
}

int64_t Recorded(const RunResult& result, std::string_view wanted) {
  int64_t calls = 0;
  for (const auto& process : result.summary["processes"]) {
    for (const auto& operation : process["operations"]) {
      if (operation["operation"] == wanted) calls += operation["recorded"].get<int64_t>();
    }
  }
  return calls;
}

std::unique_ptr<Running> Running::Start(const std::vector<std::string>& command, const RunOptions& options) {
  auto running = std::make_unique<Running>();
  RunResult& result = running->result_;
  if (result.directory == nullptr) result.directory = std::make_shared<TemporaryDirectory>();
  if (result.logdir.empty()) result.logdir = *result.directory / "logs";
  running->timeout_s_ = options.timeout_s;
  std::vector<std::string> words = options.launcher;
  words.insert(words.end(), command.begin(), command.end());
  for (std::string& word : words) {
    const size_t at = word.find("@LOGDIR@");
    if (at != std::string::npos) word.replace(at, strlen("@LOGDIR@"), result.logdir);
  }
  const std::vector<std::string> environment = EnvironmentFor(options, *result.directory / "facts");
  const std::vector<char*> arguments = Pointers(words);
  const std::vector<char*> variables = Pointers(environment);
  const std::string out = *result.directory / "out", err = *result.directory / "err";
  const std::string in = options.standard_input.empty() ? "/dev/null" : options.standard_input;
  const std::string directory = options.directory.empty() ? result.directory->path() : options.directory;

  std::string slave;
  if (options.terminal) {
    running->terminal_ = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    grantpt(running->terminal_);
    unlockpt(running->terminal_);
    char name[64] = "";
    ptsname_r(running->terminal_, name, sizeof(name));
    slave = name;
  }
  fflush(nullptr);
  const pid_t pid = fork();
  if (pid < 0) {
    ADD_FAILURE() << "cannot fork: " << strerror(errno);
    abort();
  }
  if (pid == 0) {
    // A process group of its own, so that processes left by a failed test can be ended.
    if (options.terminal) {
      setsid();
    } else {
      setpgid(0, 0);
    }
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    signal(SIGPIPE, SIG_DFL);
    const int fds[] = {open(slave.empty() ? in.c_str() : slave.c_str(), slave.empty() ? O_RDONLY : O_RDWR),
                       open(out.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644),
                       open(err.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644)};
    for (int i = 0; i < 3; ++i) dup2(fds[i], i);
    syscall(SYS_close_range, 3, ~0u, 0);
    if (chdir(directory.c_str()) != 0) _exit(120);
    execve(arguments[0], arguments.data(), variables.data());
    _exit(121);
  }
  if (!options.terminal) setpgid(pid, pid);
  running->pid_ = pid;
  result.pid = pid;
  running->pidfd_ = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  return running;
}

Running::~Running() {
  if (!ended_) {
    kill(-pid_, SIGKILL);
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (pidfd_ >= 0) close(pidfd_);
  if (terminal_ >= 0) close(terminal_);
}

std::string Running::Out() const { return ReadFile(*result_.directory / "out"); }
std::string Running::Err() const { return ReadFile(*result_.directory / "err"); }
std::string Running::Facts() const { return ReadFile(*result_.directory / "facts"); }

bool Running::WaitForText(const std::string& file, std::string_view text, int timeout_s) {
  const auto limit = Clock::now() + std::chrono::seconds(timeout_s);
  for (;;) {
    const bool ended = Ended();
    if (ReadFile(file).find(text) != std::string::npos) return true;
    if (ended || Clock::now() > limit) return false;
    std::this_thread::sleep_for(kPollInterval);
  }
}

bool Running::WaitForFact(std::string_view text, int timeout_s) {
  return WaitForText(*result_.directory / "facts", text, timeout_s);
}
bool Running::WaitForError(std::string_view text, int timeout_s) {
  return WaitForText(*result_.directory / "err", text, timeout_s);
}

int64_t Running::WaitForNumber(const std::string& name, int timeout_s) {
  if (!WaitForFact(name + " ", timeout_s)) return -1;
  const auto limit = Clock::now() + std::chrono::seconds(timeout_s);
  while (Clock::now() < limit) {
    const std::string text = Facts();
    const size_t at = text.find(name + " ");
    if (text.find('\n', at) != std::string::npos) return strtoll(text.c_str() + at + name.size() + 1, nullptr, 0);
    std::this_thread::sleep_for(kPollInterval);
  }
  return -1;
}

void Running::Signal(int signo) const { kill(pid_, signo); }

void Running::Type(std::string_view keys) const {
  EXPECT_EQ(write(terminal_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
}

bool Running::Ended() {
  if (ended_) return true;
  pollfd entry{pidfd_, POLLIN, 0};
  return poll(&entry, 1, 0) > 0;
}

RunResult Running::Wait() {
  pollfd entry{pidfd_, POLLIN, 0};
  const auto limit = Clock::now() + std::chrono::seconds(timeout_s_);
  int ready = 0;
  while (ready <= 0 && Clock::now() < limit) ready = poll(&entry, 1, 1000);
  if (ready <= 0) {
    result_.timed_out = true;
    kill(-pid_, SIGKILL);
    kill(pid_, SIGKILL);
  }
  waitpid(pid_, &result_.status, 0);
  ended_ = true;
  EXPECT_FALSE(result_.timed_out) << "still running after " << timeout_s_ << " s:\n" << Err();
  result_.out = Out();
  const std::string err = Err();
  std::string_view rest = err;
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    const size_t size = end == std::string_view::npos ? rest.size() : end + 1;
    const std::string_view line = rest.substr(0, size);
    if (line.starts_with(kPrefix)) {
      result_.printed.emplace_back(
          rest.substr(kPrefix.size(), end == std::string_view::npos ? end : end - kPrefix.size()));
    } else {
      result_.err += line;
    }
    rest.remove_prefix(size);
  }
  result_.facts_text = Facts();
  for (const std::string& line : Lines(result_.facts_text)) {
    const size_t space = line.find(' ');
    if (space != std::string::npos) result_.facts[line.substr(0, space)] = line.substr(space + 1);
  }
  ReadProfile(&result_);
  return result_;
}

void ExpectSchema(const nlohmann::json& summary) {
  static const nlohmann::json schema =
      nlohmann::json::parse(ReadFile(TBPROF_SOURCE_DIR "/docs/summary.schema.json"), nullptr, false);
  EXPECT_TRUE(schema.is_object());
  std::vector<std::string> faults = SchemaFaults(schema, summary);
  // A fault of each process would be thousands.
  faults.resize(std::min<size_t>(faults.size(), 10));
  for (const std::string& fault : faults) ADD_FAILURE() << "summary.json: " << fault;
}

void ReadProfile(RunResult* result) {
  result->run_directories = Entries(result->logdir + "/plugins/profile");
  result->profile = nullptr;
  for (const std::string& directory : result->run_directories) {
    for (const std::string& file : Entries(directory)) {
      // A program of the test may have written it in any state.
      if (file.ends_with("summary.json")) {
        const auto summary = nlohmann::json::parse(ReadFile(file), nullptr, false);
        if (summary.is_object() && summary.contains("tbprof_version")) ExpectSchema(summary);
      }
      if (!file.ends_with(".xplane.pb") || result->profile != nullptr) continue;
      result->profile = Profile::Parse(file);
      result->summary = nlohmann::json::parse(ReadFile(directory + "/summary.json"), nullptr, false);
    }
  }
}

std::vector<std::string> UnderTbprof(const std::vector<std::string>& command, const RunOptions& options,
                                     const std::string& logdir) {
  std::vector<std::string> words = {Tbprof(), "run"};
  if (options.default_logdir) words.push_back("--logdir=" + logdir);
  // All tables, unless a test is about the short form: many tests check their content.
  words.push_back("--summary=full");
  words.insert(words.end(), options.tbprof.begin(), options.tbprof.end());
  words.push_back("--");
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

std::unique_ptr<Running> StartUnderTbprof(const std::vector<std::string>& command, const RunOptions& options) {
  return Running::Start(UnderTbprof(command, options, "@LOGDIR@"), options);
}

RunResult RunUnderTbprof(const std::vector<std::string>& command, const RunOptions& options) {
  return StartUnderTbprof(command, options)->Wait();
}

RunResult RunBare(const std::vector<std::string>& command, const RunOptions& options) {
  return Running::Start(command, options)->Wait();
}

RunResult RunTbprof(const std::vector<std::string>& words, RunOptions options) {
  std::vector<std::string> command = {Tbprof()};
  command.insert(command.end(), words.begin(), words.end());
  return RunBare(command, options);
}

namespace {

// The first lines in which two texts differ.
std::string Difference(const std::string& bare, const std::string& profiled) {
  const std::vector<std::string> a = Lines(bare), b = Lines(profiled);
  std::string text;
  int shown = 0;
  for (size_t i = 0; i < std::max(a.size(), b.size()) && shown < 8; ++i) {
    const std::string left = i < a.size() ? a[i] : "(end)", right = i < b.size() ? b[i] : "(end)";
    if (left == right) continue;
    text += "line " + std::to_string(i + 1) + "\n  bare:         " + left + "\n  under tbprof: " + right + "\n";
    ++shown;
  }
  return text;
}

}  // namespace

int Repetitions(int usual) {
  const char* const wanted = getenv("TBPROF_TEST_REPETITIONS");
  return wanted == nullptr ? usual : atoi(wanted);
}

testing::AssertionResult SameOutput(const RunResult& bare, const RunResult& profiled) {
  if (bare.status != profiled.status) {
    return testing::AssertionFailure() << "wait status " << bare.status << " bare, " << profiled.status
                                       << " under tbprof\n"
                                       << bare.err << "\n"
                                       << profiled.err << profiled.AllPrinted();
  }
  if (bare.out != profiled.out) {
    return testing::AssertionFailure() << "stdout differs, " << Difference(bare.out, profiled.out);
  }
  if (bare.err != profiled.err) {
    return testing::AssertionFailure() << "stderr differs, " << Difference(bare.err, profiled.err);
  }
  return testing::AssertionSuccess();
}

testing::AssertionResult Pair::Same() const {
  const testing::AssertionResult same = SameOutput(bare, profiled);
  if (!same) return same;
  if (profiled.profile == nullptr) {
    return testing::AssertionFailure() << "no profile in " << profiled.logdir << "\n" << profiled.AllPrinted();
  }
  return testing::AssertionSuccess();
}

Pair RunBoth(const std::vector<std::string>& command, const RunOptions& options) {
  return {RunBare(command, options), RunUnderTbprof(command, options)};
}

Pair RunBoth(const std::string& program, const std::vector<std::string>& arguments,
             const std::vector<std::string>& tbprof_options) {
  std::vector<std::string> command = {program};
  command.insert(command.end(), arguments.begin(), arguments.end());
  RunOptions options;
  options.tbprof = tbprof_options;
  return RunBoth(command, options);
}

}  // namespace tbprof::integration
