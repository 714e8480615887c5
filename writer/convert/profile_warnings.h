// SPDX-License-Identifier: Apache-2.0
//
// The warnings of a profile: missing data and its causes, cut data, and activity that tbprof could not see.
//
// Process: converter, one thread.
#ifndef TBPROF_WRITER_CONVERT_PROFILE_WARNINGS_H_
#define TBPROF_WRITER_CONVERT_PROFILE_WARNINGS_H_

#include <cstdint>

#include "writer/convert/annotation_lines.h"
#include "writer/convert/capture_window.h"
#include "writer/convert/gpu_builder.h"
#include "writer/convert/process_model.h"
#include "writer/convert/ranks.h"
#include "writer/convert/timeline_builder.h"
#include "writer/spool/spool_facts.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

struct WarningsInput {
  const TimelineRequest& request;
  const CaptureWindow& window;
  const ProcessModel& model;
  const Ranks& ranks;
  uint32_t families;  // the recorded ones
};

// Fills Timeline::drops, warnings, notes, errors, unrecorded, and the state of each process. Everything else in the
// timeline must be finished.
void AddProfileWarnings(const WarningsInput& input, AnnotationLines* annotations, GpuBuilder* gpu, SpoolFacts* facts,
                        Timeline* timeline);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_PROFILE_WARNINGS_H_
