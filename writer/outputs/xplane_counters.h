// SPDX-License-Identifier: Apache-2.0
//
// The counters of processes in the xplane file: live bytes of the heap, resident memory.
//
// Process: converter. Pure functions of the timeline.
#ifndef TBPROF_WRITER_OUTPUTS_XPLANE_COUNTERS_H_
#define TBPROF_WRITER_OUTPUTS_XPLANE_COUNTERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "writer/outputs/xplane.h"
#include "writer/outputs/xspace_builder.h"

namespace tbprof {

// The samples of a process's track, and repetitions up to the process's end: a view of the viewer without a sample in
// it is blank. Not for a device's plane, where a sample lengthens the step before it.
std::vector<CounterSample> ShownSamples(const Timeline& timeline, const CounterTrack& track);

// The name of a counter's series. A series with the name of a stat of schema.def would be read as that stat.
std::string SeriesName(const CounterTrack& track);

void WriteCounters(const Timeline& timeline, const HostPlane& host_plane, uint64_t& line_id, PlaneBuilder& plane);

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_XPLANE_COUNTERS_H_
