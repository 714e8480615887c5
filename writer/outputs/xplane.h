// SPDX-License-Identifier: Apache-2.0
//
// The output TensorBoard reads: <host>.xplane.pb. docs/xspace-mapping.md says why it has the shape it has.
//
// Process: converter. Single-threaded; holds one encoded plane in memory.
#ifndef TBPROF_WRITER_OUTPUTS_XPLANE_H_
#define TBPROF_WRITER_OUTPUTS_XPLANE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "writer/outputs/outputs.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

struct XplaneCounts {
  uint64_t planes = 0;
  uint64_t lines = 0;
  uint64_t events = 0;
  bool operator==(const XplaneCounts&) const = default;
};

absl::Status WriteXplane(const Timeline& timeline, Sink& sink);

// What a file made of this timeline has to contain.
XplaneCounts ExpectedXplane(const Timeline& timeline);

// Reads a file in bounded memory, with protobuf's own reader, and checks the rules of the format that a parser does
// not: ids resolve, names unique, events in order and properly nested, texts valid, stats in the arm their readers
// want, no forbidden names, times in range, one host name equal to `host`.
absl::StatusOr<XplaneCounts> LintXplane(const std::string& path, const std::string& host);

// LintXplane, and the counts compared with the timeline's. The text is for the user.
absl::StatusOr<std::string> VerifyXplane(const std::string& path, const Timeline& timeline);

// XSpace.errors and warnings: what TensorBoard's overview page shows. Bounded in number and length, printable.
std::vector<std::string> XplaneErrors(const Timeline& timeline);
std::vector<std::string> XplaneWarnings(const Timeline& timeline);

// Whose steps are known, else the command.
uint32_t CountedProcess(const Timeline& timeline);

// Which processes share a plane, in the order of the viewer. The first plane is the counted one, `/host:CPU`: it holds
// CountedProcess.
struct HostPlane {
  std::string name;
  std::vector<uint32_t> processes;  // indexes into Timeline::processes
  std::vector<uint32_t> threads;    // indexes into Timeline::threads; those with events, main threads first
  bool merged = false;              // several processes: line names say which
};
std::vector<HostPlane> HostPlanes(const Timeline& timeline);

// The line `steps`: markers, and nested in each what the step's thread did. Only what is nested in a marker on its line
// counts for the step pages, so the writer decides here what they show; the threads' own lines stay ungrouped.
struct StepEvent {
  int64_t start_ps = 0;
  int64_t end_ps = 0;
  bool is_marker = false;  // else `running`, or
  bool is_input = false;   // `wait for input`
  bool is_sum = false;     // stands for all such pieces of its step, which would be too many
  int64_t number = 0;
  std::string title;  // markers: unique within the file together with the number
};
std::vector<StepEvent> StepEvents(const Timeline& timeline);

// What is labelled beside the steps, on a line of its own: no step to the reader. In order, disjoint.
struct PhaseEvent {
  int64_t start_ps = 0;
  int64_t end_ps = 0;
  std::string title;
};
std::vector<PhaseEvent> PhaseEvents(const Timeline& timeline);

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_XPLANE_H_
