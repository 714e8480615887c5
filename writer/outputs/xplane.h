// SPDX-License-Identifier: Apache-2.0
//
// The output that TensorBoard reads: <host>.xplane.pb. docs/xspace-mapping.md explains its structure.
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

// The counts that a file made from this timeline must have.
XplaneCounts ExpectedXplane(const Timeline& timeline);

// Reads a file in bounded memory, with protobuf's own reader, and checks the rules of the format that a parser does not
// check: ids resolve, names are unique, events are in order and properly nested, texts are valid, stats are in the arm
// that their readers want, no forbidden names, times in range, one host name equal to `host`.
absl::StatusOr<XplaneCounts> LintXplane(const std::string& path, const std::string& host);

// LintXplane, and a comparison of the counts with the timeline's. The text is for the user.
absl::StatusOr<std::string> VerifyXplane(const std::string& path, const Timeline& timeline);

// XSpace.errors and warnings, which TensorBoard's overview page shows. Bounded in number and length, printable.
std::vector<std::string> XplaneErrors(const Timeline& timeline);
std::vector<std::string> XplaneWarnings(const Timeline& timeline);

// The process whose steps are known, else the command.
uint32_t CountedProcess(const Timeline& timeline);

// The processes that share a plane, in the order of the viewer. The first plane, `/host:CPU`, is the counted one: it
// holds CountedProcess.
struct HostPlane {
  std::string name;
  std::vector<uint32_t> processes;  // indexes into Timeline::processes
  std::vector<uint32_t> threads;    // indexes into Timeline::threads; those with events, main threads first
  bool merged = false;              // several processes: line names contain the process
};
std::vector<HostPlane> HostPlanes(const Timeline& timeline);

// The line `steps`: markers, and nested in each marker the activity of the step's thread. The step pages count only
// what is nested in a marker on its line, so the writer decides here what they show; the threads' own lines stay
// ungrouped.
struct StepEvent {
  int64_t start_ps = 0;
  int64_t end_ps = 0;
  bool is_marker = false;         // else `running`, or
  bool is_input = false;          // `wait for input`
  bool is_sum = false;            // stands for all such pieces of its step, because they are too many
  int64_t number = 0;             // markers: unique within the file
  std::optional<int64_t> beside;  // markers before and after the steps: the number of the step beside them
  std::string title;
};
std::vector<StepEvent> StepEvents(const Timeline& timeline);

// Labelled phases outside the steps, on a line of their own: the reader does not take them for steps. In order,
// disjoint.
struct PhaseEvent {
  int64_t start_ps = 0;
  int64_t end_ps = 0;
  std::string title;
};
std::vector<PhaseEvent> PhaseEvents(const Timeline& timeline);

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_XPLANE_H_
