// SPDX-License-Identifier: Apache-2.0
//
// Whose function a Python frame is, by its file and name: the program's own, a library's, or one that only starts
// others and so contains everything.
//
// Process: converter. Pure function.
#ifndef TBPROF_WRITER_TIMELINE_PYTHON_ORIGIN_H_
#define TBPROF_WRITER_TIMELINE_PYTHON_ORIGIN_H_

#include <cstdint>
#include <string_view>

namespace tbprof {

enum class PythonOrigin : uint8_t {
  kProgram,
  kLibrary,  // the standard library, installed packages
  kStarter,  // of `runpy`, and of what runs a thread's or a worker's function
  kImport,   // of `importlib`: what it contains is the import of a module
};

PythonOrigin PythonOriginOf(std::string_view file, std::string_view name);

}  // namespace tbprof

#endif  // TBPROF_WRITER_TIMELINE_PYTHON_ORIGIN_H_
