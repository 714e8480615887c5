// SPDX-License-Identifier: Apache-2.0
//
// Finds the CPython interpreter in a process: the module that holds it, its version, the address of its _PyRuntime and
// how its structures are laid out.
//
//   PythonRuntime python = FindPythonRuntime(pid, ProcessMemory(pid));
//   if (python.found && python.state == kPythonSampled) PythonReader(python.layout, python.address, ...);
//
// The module is the executable, or a library with `libpython` in its name; its file is opened through /proc/PID, so
// that a container's is found as well.
//
// Process: launcher, the sampler's thread. Reads /proc and files; hostile input throughout.
#ifndef TBPROF_LAUNCHER_SAMPLING_PYTHON_RUNTIME_H_
#define TBPROF_LAUNCHER_SAMPLING_PYTHON_RUNTIME_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/sampling/target_memory.h"
#include "wire/python_layout.h"
#include "writer/spool/spool.h"

namespace tbprof {

struct PythonRuntime {
  bool found = false;  // false: no Python is mapped, yet
  PythonState state = kPythonSampled;
  std::string reason;  // one line, empty for kPythonSampled
  int error = 0;       // of kPythonNoPermission
  uint16_t minor = 0;
  uint64_t address = 0;  // of _PyRuntime
  PythonLayout layout = {};
};

// One file mapped into a process, by its first mapping.
struct MappedFile {
  uint64_t start = 0, end = 0, offset = 0, inode = 0;
  std::string path;
};
// From the text of /proc/PID/maps; files only, each once.
std::vector<MappedFile> ParseMappedFiles(std::string_view maps);

// What a module's file says; 0 or empty where it does not.
struct PythonModule {
  uint64_t runtime = 0;  // virtual addresses of the file
  uint64_t version = 0;
  uint64_t lowest = 0;  // of its first segment, less that segment's file offset
  uint16_t minor = 0;   // by a version string within
};
PythonModule ReadPythonModule(const std::string& path);

// 11 for `python3.11`, `libpython3.11.so.1.0`, `libpython3.13t.so`; 0: none. `free_threaded`: by a `t` behind it.
uint16_t MinorOfPythonName(std::string_view path, bool* free_threaded);

// The rest of the decision, from the process's memory: the version by Py_Version where there is one, else `minor`.
PythonRuntime DecidePythonRuntime(uint64_t runtime, uint64_t version, uint16_t minor, bool free_threaded,
                                  const ReadMemory& read);

// Of the interpreter in one mapped file, which is opened as `path`; nothing where it holds none. By a file's first
// mapping.
std::optional<PythonRuntime> FindRuntimeIn(const std::string& path, const MappedFile& file, const ReadMemory& read);

PythonRuntime FindPythonRuntime(pid_t pid, const ReadMemory& read);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_PYTHON_RUNTIME_H_
