// SPDX-License-Identifier: Apache-2.0
//
// A mark in each of the target's libraries, by which the launcher finds from the file alone which wire format it uses.
//
//   [[gnu::used]] constexpr LibraryMark kMark;
#ifndef TBPROF_WIRE_LIBRARY_MARK_H_
#define TBPROF_WIRE_LIBRARY_MARK_H_

#include <stdint.h>

#include "wire/layout.h"

namespace tbprof {

struct LibraryMark {
  char text[16] = {'t', 'b', 'p', 'r', 'o', 'f', ' ', 'l', 'i', 'b', 'r', 'a', 'r', 'y', ':', ' '};
  uint32_t abi = kAbiVersion;
};

}  // namespace tbprof

#endif  // TBPROF_WIRE_LIBRARY_MARK_H_
