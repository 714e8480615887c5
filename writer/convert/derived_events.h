// SPDX-License-Identifier: Apache-2.0
//
// Events of host lines that have no record: the start of a thread, with the arrow from the call that created it; the
// call in which a thread still waited at the end; the command, if nothing of it was recorded.
//
// Process: converter, one thread.
#ifndef TBPROF_WRITER_CONVERT_DERIVED_EVENTS_H_
#define TBPROF_WRITER_CONVERT_DERIVED_EVENTS_H_

#include <string>
#include <vector>

#include "writer/convert/capture_window.h"
#include "writer/convert/host_parts.h"
#include "writer/spool/spool_facts.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

// Call before the events of the threads are added.
void AddThreadStarts(const SpoolFacts& facts, const CaptureWindow& window, const HostParts& host);

// Adds one event for the command, from its start to its end, if no process was recorded: readers show nothing of a
// profile without an event, not even the reason. `warnings`: the launcher's.
void AddUnrecordedCommand(const SpoolFacts& facts, const CaptureWindow& window, const std::string& command_name,
                          const std::vector<std::string>& warnings, const HostParts& host, Timeline* timeline);

// Adds the calls in which threads were blocked when the window closed or their process died. Call after the events of
// the threads are added.
void AddOpenWaits(const SpoolFacts& facts, const CaptureWindow& window, const HostParts& host,
                  const Timeline& timeline);

// Links each pthread_create call with the thread that it created.
void LinkThreads(const SpoolFacts& facts, const HostParts& host, Timeline* timeline);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_DERIVED_EVENTS_H_
