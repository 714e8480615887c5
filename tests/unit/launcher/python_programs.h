// SPDX-License-Identifier: Apache-2.0
//
// The CPython installations of this machine, and Python programs that run while a test reads their memory.
#ifndef TBPROF_TESTS_UNIT_LAUNCHER_PYTHON_PROGRAMS_H_
#define TBPROF_TESTS_UNIT_LAUNCHER_PYTHON_PROGRAMS_H_

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace tbprof {

// The root directory of another system, made by scripts/debian_root.sh; empty: none.
inline std::string OtherRoot() {
  const char* root = getenv("TBPROF_DEBIAN_ROOT");
  return root == nullptr ? "" : root;
}

// The installed interpreters of 3.8 to 3.15; if there is another root, the interpreters in that root.
inline std::vector<std::string> InstalledPythons() {
  std::vector<std::string> paths;
  const auto add = [&](const std::string& path) {
    if (access(path.c_str(), X_OK) == 0) paths.push_back(path);
  };
  if (const std::string root = OtherRoot(); !root.empty()) {
    for (int minor = 8; minor <= 15; ++minor) add(root + "/usr/bin/python3." + std::to_string(minor));
    return paths;
  }
  for (const char* path :
       {"/root/.pyenv/versions/3.8.18/bin/python3.8", "/root/.pyenv/versions/3.9.18/bin/python3.9",
        "/root/.pyenv/versions/3.10.13/bin/python3.10", "/root/.pyenv/versions/3.11.7/bin/python3.11",
        "/root/.pyenv/versions/3.12.1/bin/python3.12", "/root/.pyenv/versions/3.13.0/bin/python3.13",
        "/usr/bin/python3.11", "/usr/bin/python3.13"}) {
    add(path);
  }
  return paths;
}

// Interpreters that are not CPython.
inline std::vector<std::string> InstalledPyPys() {
  const std::string path = OtherRoot() + "/usr/bin/pypy3";
  return access(path.c_str(), X_OK) == 0 ? std::vector{path} : std::vector<std::string>();
}

// The interpreters in the other root that Debian's module greenlet supports.
inline std::vector<std::string> PythonsWithGreenlets() {
  std::vector<std::string> paths;
  for (const std::string& path : OtherRoot().empty() ? std::vector<std::string>() : InstalledPythons()) {
    const std::string module = OtherRoot() + "/usr/lib/python3/dist-packages/greenlet/_greenlet.cpython-3" +
                               path.substr(path.rfind('.') + 1) + "-x86_64-linux-gnu.so";
    if (access(module.c_str(), R_OK) == 0) paths.push_back(path);
  }
  return paths;
}

// A program that runs until this object is destroyed or its standard input ends. A program of another root runs in it.
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
      std::string path = python;
      if (const std::string root = OtherRoot(); !root.empty() && path.starts_with(root + "/")) {
        if (chroot(root.c_str()) != 0 || chdir("/") != 0) _exit(126);
        path.erase(0, root.size());
      }
      execl(path.c_str(), path.c_str(), "-I", "-c", source.c_str(), nullptr);
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
  // Reads up to the line `ready`; false if the program ended before.
  bool WaitUntilReady() {
    for (std::string line = ReadLine(); !line.empty(); line = ReadLine()) {
      if (line == "ready") return true;
    }
    return false;
  }
  void CloseInput() {
    close(input_);
    input_ = -1;
  }
  void Wait() {
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  // Does not reap the process, so its pid is not reused.
  bool HasEnded() const {
    siginfo_t end = {};
    return waitid(P_PID, static_cast<id_t>(pid_), &end, WEXITED | WNOHANG | WNOWAIT) == 0 && end.si_pid == pid_;
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  int input_ = -1;
  FILE* output_ = nullptr;
};

// f0 calls f1 calls f2 ..., g0 calls g1 ...; f and g never mix. The innermost calls spin, some 20 us. Prints `NAME TID`
// of each thread, then `ready`.
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

// The same with another body of f0 (`%s%d` is the next function) and of the innermost function.
inline std::string FamiliesWith(const std::string& call, const std::string& leaf,
                                const std::string& use = "f0(n)\n            g0(n)") {
  std::string source = kFamilies;
  const auto replace = [&](const std::string& from, const std::string& to) {
    source.replace(source.find(from), from.size(), to);
  };
  replace("if n == 0: return spin(n)\\n    a = n + 1\\n    return %s%d(n - 1) + a", call);
  replace("return spin(n)", leaf);
  replace("f0(n)\n            g0(n)", use);
  return source;
}

// Blocks in nested functions, and prints its frames as `instruction first_line table name file`, the innermost first,
// then `ready`. The other thread prints it when the main thread has called read(), and stays, so that the list
// of threads does not change.
inline constexpr char kBlocked[] = R"(
import dis, sys, threading
source = """
import sys
def block():
    return sys.stdin.read()
def generator():
    yield block()
class Kind:
    def method(self, n):
        return [x for x in generator()]
def \u00e4\u03b1\u4e2d(n):
    return Kind().method(n)
def through_c():
    return list(map(\u00e4\u03b1\u4e2d, [1]))
through_c()
"""
main = threading.main_thread().ident
def report():
    while True:
        frame = sys._current_frames()[main]
        code = frame.f_code
        if code.co_name == "block" and dis.opname[code.co_code[frame.f_lasti]].startswith("CALL"): break
    while frame is not None:
        code = frame.f_code
        table = code.co_lnotab if sys.version_info < (3, 10) else code.co_linetable
        name = code.co_qualname if sys.version_info >= (3, 11) else code.co_name
        line = "%d %d %s %s %s" % (frame.f_lasti, code.co_firstlineno, table.hex(), name, code.co_filename)
        print(ascii(line)[1:-1], flush=True)
        frame = frame.f_back
    print("ready", flush=True)
    threading.Event().wait()
threading.Thread(target=report, daemon=True).start()
exec(compile(source, "\u4e2d folder/file.py", "exec"))
)";

}  // namespace tbprof

#endif  // TBPROF_TESTS_UNIT_LAUNCHER_PYTHON_PROGRAMS_H_
