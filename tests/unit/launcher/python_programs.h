// SPDX-License-Identifier: Apache-2.0
//
// The CPythons of this machine, and programs of Python run by them while a test reads their memory.
#ifndef TBPROF_TESTS_UNIT_LAUNCHER_PYTHON_PROGRAMS_H_
#define TBPROF_TESTS_UNIT_LAUNCHER_PYTHON_PROGRAMS_H_

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace tbprof {

// Interpreters of 3.8 to 3.13 that are installed.
inline std::vector<std::string> InstalledPythons() {
  std::vector<std::string> paths;
  for (const char* path : {"/root/.pyenv/versions/3.8.18/bin/python3.8", "/root/.pyenv/versions/3.9.18/bin/python3.9",
                           "/root/.pyenv/versions/3.10.13/bin/python3.10", "/root/.pyenv/versions/3.11.7/bin/python3.11",
                           "/root/.pyenv/versions/3.12.1/bin/python3.12", "/root/.pyenv/versions/3.13.0/bin/python3.13",
                           "/usr/bin/python3.11", "/usr/bin/python3.13"}) {
    if (access(path, X_OK) == 0) paths.push_back(path);
  }
  return paths;
}

// Runs until it is destroyed, or its standard input ends.
class PythonProgram {
 public:
  PythonProgram(const std::string& python, const std::string& source) {
    int in[2], out[2];
    if (pipe(in) != 0 || pipe(out) != 0) return;
    pid_ = fork();
    if (pid_ == 0) {
      dup2(in[0], 0);
      dup2(out[1], 1);
      for (int fd : {in[0], in[1], out[0], out[1]}) close(fd);
      execl(python.c_str(), python.c_str(), "-I", "-c", source.c_str(), nullptr);
      _exit(127);
    }
    close(in[0]);
    close(out[1]);
    input_ = in[1];
    output_ = fdopen(out[0], "r");
  }
  ~PythonProgram() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    if (input_ >= 0) close(input_);
    if (output_ != nullptr) fclose(output_);
  }
  PythonProgram(const PythonProgram&) = delete;
  PythonProgram& operator=(const PythonProgram&) = delete;

  // A line of its output without the end of line; empty when it has ended.
  std::string ReadLine() {
    char line[4096];
    if (output_ == nullptr || fgets(line, sizeof(line), output_) == nullptr) return "";
    std::string text(line);
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text;
  }
  void CloseInput() {
    close(input_);
    input_ = -1;
  }
  void Wait() {
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  int input_ = -1;
  FILE* output_ = nullptr;
};

// f0 calls f1 calls f2 ..., g0 calls g1 ...; f and g never mix. The innermost calls spin, some 20 us. Prints `NAME TID` of each thread, then `ready`.
inline constexpr char kFamilies[] = R"(
import sys, threading
depth = 24
source = "def spin(n):\n    for _ in range(1000): n += 1\n    return n\n"
for family in "fg":
    for i in range(depth):
        source += "def %s%d(n):\n" % (family, i)
        if i + 1 < depth:
            source += "    if n == 0: return spin(n)\n    a = n + 1\n    return %s%d(n - 1) + a\n" % (family, i + 1)
        else:
            source += "    return spin(n)\n"
exec(compile(source, "families.py", "exec"))
def both():
    while True:
        for n in (3, 23, 11, 23, 7):
            f0(n)
            g0(n)
def work():
    print("worker", threading.get_native_id(), flush=True)
    both()
print("main", threading.get_native_id(), flush=True)
for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
print("ready", flush=True)
sys.stdin.read()
)";

}  // namespace tbprof

#endif  // TBPROF_TESTS_UNIT_LAUNCHER_PYTHON_PROGRAMS_H_
