// SPDX-License-Identifier: Apache-2.0
//
// What can be told of anybody's xplane.pb without decoding it: whether the outer structure is whole, the planes, which
// of xprof's tools it leads to, the messages in it. Events are stepped over by their length, so that a file of any size
// costs little; a fault inside them is not seen. Only where a plane names a step marker are its events read, up to the
// first that is one.
//
//   XspaceFacts facts = SkimXspace(fd, size);
//   if (!facts.parsed) ...   // facts.cause
//
// Process: launcher. Any thread.
#ifndef TBPROF_WRITER_OUTPUTS_XSPACE_SKIM_H_
#define TBPROF_WRITER_OUTPUTS_XSPACE_SKIM_H_

#include <cstdint>
#include <string>
#include <vector>

namespace tbprof {

// Whether xprof finds steps: it groups events below a root (`_r`), `TraceContext`, or those that are grouped
// already (`step_name`).
enum class StepMarkers { kUnknown, kNone, kFound };

struct XspaceFacts {
  bool parsed = false;
  bool truncated = false;  // not parsed because it ends in the middle of a field
  std::string cause;       // not parsed: what is wrong, and where
  int error = 0;           // errno where it could not be read
  bool cut = false;        // too many fields to look at all of them

  uint64_t planes = 0;
  uint64_t lines = 0;
  bool has_events = false;
  StepMarkers steps = StepMarkers::kUnknown;
  bool has_known_plane = false;  // /host:…, /device:…: by its content a profile, whatever its name
  std::vector<std::string> errors, warnings, hostnames;  // the first ones
  uint64_t error_count = 0, warning_count = 0;

  // What xprof's list of tools depends on.
  bool has_gpu = false;        // a plane /device:GPU:…
  bool has_hlo = false;        // the plane /host:metadata with the stat `Hlo Proto`
  bool has_megascale = false;  // events `MegaScale:…` in /host:CPU
  bool has_counters = false;   // a plane /device:TPU:… with the stat `counter_value`
};

XspaceFacts SkimXspace(int fd, uint64_t size);

// The events and their metadata as well: what is wrong in them, empty where nothing is. At most 8 million fields.
std::string FindEventFault(int fd, uint64_t size);

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_XSPACE_SKIM_H_
