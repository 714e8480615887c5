// SPDX-License-Identifier: Apache-2.0
//
// Classifies a Python frame by its file and name: a function of the program, of a library, or one that only starts
// others and therefore contains everything.
//
// Process: converter. Pure function.
#ifndef TBPROF_WRITER_TIMELINE_PYTHON_ORIGIN_H_
#define TBPROF_WRITER_TIMELINE_PYTHON_ORIGIN_H_

#include <cstdint>
#include <string_view>

namespace tbprof {

enum class PythonOrigin : uint8_t {
  kProgram,
  kLibrary,     // the standard library, installed packages
  kStarter,     // `runpy`, and code that runs the function of a thread or a worker
  kImport,      // `importlib`, where it imports a module
  kImportTool,  // the rest of `importlib`: within an import, or called by itself, as py_compile does
};

inline bool IsOfImportlib(PythonOrigin origin) {
  return origin == PythonOrigin::kImport || origin == PythonOrigin::kImportTool;
}

// Whether the function is the outermost of a process of multiprocessing, or of its copy that pathos and Hugging Face's
// datasets have.
bool BeginsWorker(std::string_view file, std::string_view name);

// Both `Queue.get` and `get` give `get`.
inline std::string_view LastName(std::string_view qualified) { return qualified.substr(qualified.rfind('.') + 1); }

PythonOrigin PythonOriginOf(std::string_view file, std::string_view name);

}  // namespace tbprof

#endif  // TBPROF_WRITER_TIMELINE_PYTHON_ORIGIN_H_
