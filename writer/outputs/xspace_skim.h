// SPDX-License-Identifier: Apache-2.0
//
// Facts about an xplane.pb of any writer, without decoding it: whether the outer structure is whole, the planes, the
// xprof tools that it leads to, and the messages in it. Events are skipped by their length, so that a file of any size
// costs little; a fault inside an event is not detected. If a plane names a step marker, its events are read up to the
// first marker.
//
//   XspaceFacts facts = SkimXspace(fd, size);
//   if (!facts.parsed) ...   // facts.cause
//
// Process: launcher. Any thread.
#ifndef TBPROF_WRITER_OUTPUTS_XSPACE_SKIM_H_
#define TBPROF_WRITER_OUTPUTS_XSPACE_SKIM_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tbprof {

// Whether xprof finds steps: it groups events below a root (`_r`), `TraceContext`, or events that are grouped already
// (`step_name`).
enum class StepMarkers { kUnknown, kNone, kFound };

struct XspaceFacts {
  bool parsed = false;
  bool truncated = false;  // not parsed because it ends in the middle of a field
  std::string cause;       // not parsed: the fault, and its position
  int error = 0;           // errno of a failed read
  bool cut = false;        // too many fields: not all were examined

  uint64_t planes = 0;
  uint64_t lines = 0;
  bool has_events = false;
  StepMarkers steps = StepMarkers::kUnknown;
  bool has_known_plane = false;  // /host:…, /device:…: a profile by its content, whatever its name
  std::vector<std::string> errors, warnings, hostnames;  // the first ones
  uint64_t error_count = 0, warning_count = 0;

  // The facts that decide xprof's list of tools.
  bool has_gpu = false;        // a plane /device:GPU:…
  bool has_hlo = false;        // the plane /host:metadata with the stat `Hlo Proto`
  bool has_megascale = false;  // events `MegaScale:…` in /host:CPU
  bool has_counters = false;   // a plane /device:TPU:… with the stat `counter_value`
};

XspaceFacts SkimXspace(int fd, uint64_t size);

// How the warnings of tbprof's own profiles begin that hold the verdict, and why the steps are not known. Of several
// ranks they begin `tbprof (rank 3): `.
inline constexpr std::string_view kVerdictWarning = "tbprof: verdict: ";
inline constexpr std::string_view kNoStepsWarning = "tbprof: steps unknown";
// The parts of the verdict's warning behind its place, each with its separator.
inline constexpr std::string_view kSplitPart = "; split: ", kNextPart = "; next: ", kChangePart = "; step length: ",
                                  kMemoryPart = "; memory: ";
inline constexpr std::string_view kNoCause = "what bounds the program is not known: ";

// What such warnings report, for whoever has the profile without its summary. Empty: no such warning.
struct NotedAnswers {
  std::string verdict;          // `59 % of the main loop (job.py:2): sleeps, at job.py:2 load`
  std::string unknown_because;  // the verdict is that the cause is not known
  std::string where;            // behind `where: ` or `blocker: `
  bool is_waited_for = false;   // behind `blocker: `
  std::string no_steps_because;
};
NotedAnswers ReadNotes(const std::vector<std::string>& warnings);

// Checks the events and their metadata as well. Returns the fault, or an empty text. Reads at most 8 million fields.
std::string FindEventFault(int fd, uint64_t size);

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_XSPACE_SKIM_H_
