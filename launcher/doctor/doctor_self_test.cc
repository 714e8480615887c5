// SPDX-License-Identifier: Apache-2.0
//
// The row that tests recording from end to end: a recorded run of tbprof itself.
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "launcher/base/proc_files.h"
#include "launcher/base/text.h"
#include "launcher/doctor/doctor_rows.h"
#include "wire/clock.h"
#include "writer/base/file_ops.h"
#include "writer/base/scoped.h"

namespace tbprof {
namespace {

// Runs tbprof with these arguments in the directory. Returns its standard error, and the exit status in *status; -1: it
// did not end in time.
std::string RunOurselves(const std::vector<std::string>& words, const Environment& environment,
                         const std::string& directory, int* status) {
  constexpr int kPatienceMs = 10'000;
  *status = -1;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return strerror(errno);
  const ScopedFd reader(ends[0]);
  ScopedFd writer(ends[1]);
  std::vector<char*> arguments, variables;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  for (const std::string& entry : environment) variables.push_back(const_cast<char*>(entry.c_str()));
  arguments.push_back(nullptr);
  variables.push_back(nullptr);
  const ScopedFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  const pid_t pid = null.valid() ? fork() : -1;
  if (pid < 0) return strerror(errno);
  if (pid == 0) {
    // Not posix_spawn: glibc before 2.29 has no file action that sets the working directory.
    dup2(null.get(), 0);
    dup2(null.get(), 1);
    dup2(writer.get(), 2);
    if (chdir(directory.c_str()) == 0) execve("/proc/self/exe", arguments.data(), variables.data());
    _exit(127);
  }
  writer.Reset();
  std::string text;
  const uint64_t until = ReadMonotonic() + uint64_t{kPatienceMs} * 1'000'000;
  for (;;) {
    const uint64_t now = ReadMonotonic();
    pollfd entry{reader.get(), POLLIN, 0};
    if (now >= until || poll(&entry, 1, static_cast<int>((until - now) / 1'000'000) + 1) < 0) break;
    char buffer[4096];
    const ssize_t size = entry.revents != 0 ? read(reader.get(), buffer, sizeof(buffer)) : -1;
    if (size == 0) break;
    if (size > 0) text.append(buffer, static_cast<size_t>(size));
  }
  if (ReadMonotonic() >= until) kill(pid, SIGKILL);
  int ended = 0;
  if (waitpid(pid, &ended, 0) == pid && WIFEXITED(ended)) *status = WEXITSTATUS(ended);
  return text;
}

}  // namespace

std::optional<Finding> CheckSelfTest(const DoctorContext& context) {
  const std::string_view base = Lookup(context.environment, "TMPDIR").value_or("");
  std::string directory = StrCat(base.starts_with("/") ? base : "/tmp", "/tbprof-doctor-XXXXXX");
  if (mkdtemp(directory.data()) == nullptr) {
    return Fail(StrCat("cannot make a directory like ", directory, ": ", strerror(errno)),
                "set TMPDIR to one you may write");
  }
  Environment environment;
  for (const std::string& entry : context.environment) {
    // Keeps the environment of the user's commands, but removes tbprof's options.
    if (entry.starts_with("TBPROF_") && !entry.starts_with("TBPROF_LIBRARY_DIR=")) continue;
    if (!entry.starts_with("XDG_CONFIG_HOME=")) environment.push_back(entry);
  }
  // The test run must read no configuration file of the user: `directory` has none, and the run also starts there.
  environment.push_back(StrCat("XDG_CONFIG_HOME=", directory));
  const std::string own = LinkText("/proc/self/exe");
  if (own.empty()) {
    RemoveTree(AT_FDCWD, directory);
    return Fail("/proc is not mounted", "mount it");
  }
  const std::string json = StrCat(directory, "/summary.json");
  int status = -1;
  const std::string output =
      RunOurselves({"tbprof", "run", "--quiet", "--capture-signal=none", StrCat("--logdir=", directory, "/logs"),
                    StrCat("--summary-json=", json), "--", own, "--version"},
                   environment, directory, &status);
  const nlohmann::json summary = nlohmann::json::parse(ReadText(json), nullptr, false);
  RemoveTree(AT_FDCWD, directory);
  // The dynamic loader may have printed a line before tbprof's lines.
  constexpr std::string_view kPrefix = "tbprof: ";
  std::string line;
  for (const std::string_view part : Split(output, '\n')) {
    if (line.empty() && part.starts_with(kPrefix)) line = part.substr(kPrefix.size());
  }
  if (status != 0 || !summary.is_object()) {
    const std::string cause = status == -1 ? "it did not end in 10 s" : line.empty() ? StrCat("status ", status) : line;
    return Fail(StrCat("a recorded run of tbprof itself failed: ", cause),
                "see the other lines; TBPROF_LOG=debug prints more");
  }
  for (const auto& program : summary.value("unrecorded", nlohmann::json::array())) {
    return Fail(StrCat("the library was loaded and recorded nothing: ", program.value("reason", "")),
                "see the other lines");
  }
  const auto processes = summary.value("processes", nlohmann::json::array());
  if (processes.empty()) {
    const auto errors = summary.value("errors", nlohmann::json::array());
    return Fail(errors.empty() ? std::string("no process was recorded") : errors[0].get<std::string>(),
                "see the other lines");
  }
  const nlohmann::json& allocator = processes[0]["allocator"];
  if (!allocator.is_object()) return Pass("a run was recorded and its profile verified (the allocator is not counted)");
  const uint64_t allocations = allocator.value("allocations", uint64_t{0});
  if (allocations == 0) {
    return Fail("the library was loaded, and no record came through",
                "another preloaded library takes the calls: unset LD_PRELOAD");
  }
  return Pass(StrCat("a run was recorded and its profile verified (", allocations, " allocator calls)"));
}

}  // namespace tbprof
