// SPDX-License-Identifier: Apache-2.0
//
// Finds the CPython interpreter in a process: the module that contains it, its version, the address of its _PyRuntime,
// and the layout of its structures.
//
//   PythonRuntime python = FindPythonRuntime(pid, ProcessMemory(pid));
//   if (python.found && python.state == kPythonSampled) PythonReader(python.layout, python.address, ...);
//
// The module is the executable, or a library with `libpython` in its name. Its file is opened through /proc/PID, which
// also works for a file in a container.
//
// Process: launcher, the sampler's thread. Reads /proc and files. Untrusted: all input.
#ifndef TBPROF_LAUNCHER_SAMPLING_PYTHON_RUNTIME_H_
#define TBPROF_LAUNCHER_SAMPLING_PYTHON_RUNTIME_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/sampling/mappings.h"
#include "launcher/sampling/target_memory.h"
#include "wire/python_layout.h"
#include "writer/spool/spool.h"

namespace tbprof {

struct PythonRuntime {
  bool found = false;  // false: no Python is mapped (yet)
  PythonState state = kPythonSampled;
  std::string reason;  // one line, empty for kPythonSampled
  int error = 0;       // errno for kPythonNoPermission
  uint16_t minor = 0;
  uint64_t address = 0;  // of _PyRuntime
  PythonLayout layout = {};
};

// Facts from the file of a module; 0: not in the file.
struct PythonModule {
  uint64_t runtime = 0;  // virtual addresses in the file
  uint64_t version = 0;
  uint64_t lowest = 0;  // address of the first segment minus its file offset
  uint16_t minor = 0;   // from a version string in the file
};
PythonModule ReadPythonModule(const std::string& path);

// 11 for `python3.11`, `libpython3.11.so.1.0`, `libpython3.13t.so`; 0: none. `free_threaded`: a `t` follows.
uint16_t MinorOfPythonName(std::string_view path, bool* free_threaded);

// Completes the decision from the process's memory. The version comes from Py_Version if `version` is not 0, else from
// `minor`.
PythonRuntime DecidePythonRuntime(uint64_t runtime, uint64_t version, uint16_t minor, bool free_threaded,
                                  const ReadMemory& read);

// Finds the interpreter in one mapped file, which is opened as `path`; std::nullopt: it contains none. `file` is the
// first mapping of the file.
std::optional<PythonRuntime> FindRuntimeIn(const std::string& path, const FileMapping& file, const ReadMemory& read);

PythonRuntime FindPythonRuntime(pid_t pid, const ReadMemory& read);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_PYTHON_RUNTIME_H_
