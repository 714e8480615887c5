// SPDX-License-Identifier: Apache-2.0
//
// The CPython installations of this machine and commands to run them; if scripts/debian_root.sh has made a root, those
// in that root.
#ifndef TBPROF_TESTS_INTEGRATION_PYTHON_COMMANDS_H_
#define TBPROF_TESTS_INTEGRATION_PYTHON_COMMANDS_H_

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "harness.h"

namespace tbprof::integration {

// Empty: there is none. tests/python_releases/run.sh shows the build and the tests' own files within it.
inline std::string OtherRoot() {
  const char* const root = getenv("TBPROF_DEBIAN_ROOT");
  return root == nullptr ? "" : root;
}

// Paths outside of the root.
inline std::vector<std::string> InstalledPythons() {
  std::vector<std::string> found;
  std::vector<std::string> paths = {"/root/.pyenv/versions/3.8.18/bin/python3.8",
                                    "/root/.pyenv/versions/3.9.18/bin/python3.9",
                                    "/root/.pyenv/versions/3.10.13/bin/python3.10",
                                    "/root/.pyenv/versions/3.11.7/bin/python3.11",
                                    "/root/.pyenv/versions/3.12.1/bin/python3.12",
                                    "/root/.pyenv/versions/3.13.0/bin/python3.13",
                                    "/usr/bin/python3.11",
                                    "/usr/bin/python3.13"};
  if (const std::string root = OtherRoot(); !root.empty()) {
    paths.clear();
    for (int minor = 8; minor <= 15; ++minor) paths.push_back(root + "/usr/bin/python3." + std::to_string(minor));
  }
  for (const std::string& path : paths) {
    if (access(path.c_str(), X_OK) == 0) found.push_back(path);
  }
  return found;
}

inline int MinorOf(const std::string& python) { return atoi(python.c_str() + python.rfind('.') + 1); }

// For what does not depend on the version.
inline std::vector<std::string> OldestAndNewest(const std::vector<std::string>& pythons) {
  if (pythons.size() <= 2) return pythons;
  const auto older = [](const std::string& a, const std::string& b) { return MinorOf(a) < MinorOf(b); };
  const auto [oldest, newest] = std::minmax_element(pythons.begin(), pythons.end(), older);
  return {*oldest, *newest};
}

inline std::string PathWithinRoot(const std::string& path) {
  const std::string root = OtherRoot();
  return !root.empty() && path.starts_with(root + "/") ? path.substr(root.size()) : path;
}

// Converts a command for the root to a command that is run outside of it. The first word may be a path outside of it.
inline std::vector<std::string> WithinRoot(std::vector<std::string> command) {
  if (OtherRoot().empty()) return command;
  command[0] = PathWithinRoot(command[0]);
  const std::vector<std::string> enter = {"/usr/sbin/chroot", OtherRoot()};
  command.insert(command.begin(), enter.begin(), enter.end());
  return command;
}

// The path within the root of an interpreter's shared library; empty: it has none.
inline std::string LibraryOf(const std::string& python) {
  const std::string variables =
      "import sysconfig as s; print(s.get_config_var('LIBDIR') + '/' + s.get_config_var('INSTSONAME'), end='')";
  std::string library = RunBare(WithinRoot({python, "-c", variables})).out;
  if (!OtherRoot().empty()) {
    // Debian's programs contain the interpreter, so INSTSONAME is not its library.
    library = "/usr/lib/x86_64-linux-gnu/libpython3." + std::to_string(MinorOf(python)) + ".so.1.0";
  }
  return access((OtherRoot() + library).c_str(), R_OK) == 0 ? library : "";
}

// tests/programs/runs_python_script.c, linked with the library of an interpreter; empty: it has none. For another root,
// the script that runs the test has built it; else it is built in `directory`.
inline std::string ProgramLinkedWith(const std::string& python, const std::string& directory) {
  const char* const made = getenv("TBPROF_LINKED_PROGRAMS");
  const std::string name = "/python3." + std::to_string(MinorOf(python));
  if (made != nullptr) return access((made + name).c_str(), X_OK) == 0 ? made + name : "";
  const std::string library = LibraryOf(python), path = directory + name;
  if (library.empty()) return "";
  const std::string source = std::string(TBPROF_SOURCE_DIR) + "/tests/programs/runs_python_script.c";
  const std::string place = "-Wl,-rpath," + library.substr(0, library.rfind('/'));
  const RunResult linked = RunBare({"/usr/bin/cc", "-o", path, source, "-Wl,--no-as-needed", library, place, "-ldl"});
  EXPECT_EQ(linked.code(), 0) << linked.err;
  return path;
}

}  // namespace tbprof::integration

#endif  // TBPROF_TESTS_INTEGRATION_PYTHON_COMMANDS_H_
