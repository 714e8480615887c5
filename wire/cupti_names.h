// SPDX-License-Identifier: Apache-2.0
//
// The names under which the loader finds CUPTI, newest first. Up to CUDA 11 the name contained the minor version.
#ifndef TBPROF_WIRE_CUPTI_NAMES_H_
#define TBPROF_WIRE_CUPTI_NAMES_H_

namespace tbprof {

struct CuptiName {
  const char* file;
  int major;  // of CUDA
};

inline constexpr CuptiName kCuptiNames[] = {
    {"libcupti.so.13", 13},   {"libcupti.so.12", 12},   {"libcupti.so.11.8", 11}, {"libcupti.so.11.7", 11},
    {"libcupti.so.11.6", 11}, {"libcupti.so.11.5", 11}, {"libcupti.so.11.4", 11}, {"libcupti.so.11.3", 11},
    {"libcupti.so.11.2", 11}, {"libcupti.so.11.1", 11}, {"libcupti.so.11.0", 11},
};

}  // namespace tbprof

#endif  // TBPROF_WIRE_CUPTI_NAMES_H_
