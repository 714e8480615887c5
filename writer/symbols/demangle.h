// SPDX-License-Identifier: Apache-2.0
//
// Names of functions as the source has them.
//
// Process: the converter. Names are untrusted.
#ifndef TBPROF_WRITER_SYMBOLS_DEMANGLE_H_
#define TBPROF_WRITER_SYMBOLS_DEMANGLE_H_

#include <cstddef>
#include <string>

namespace tbprof {

// The most bytes of a name in a file that are read.
inline constexpr size_t kMaxNameLength = 4096;

// The demangled name, printable; the name itself if it is not mangled.
std::string Demangle(std::string name);

}  // namespace tbprof

#endif  // TBPROF_WRITER_SYMBOLS_DEMANGLE_H_
