// SPDX-License-Identifier: Apache-2.0
//
// Events of host lines that no record of their own stands for: where a thread started, with the arrow from the call
// that made it; what a thread still waited in at the end; the command where nothing of it was recorded.
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

// Before the events of the threads.
void AddThreadStarts(const SpoolFacts& facts, const CaptureWindow& window, const HostParts& host);

// Readers show nothing of a profile without an event, not even why there is none: the command has one, from its start
// to its end. Nothing where a process was recorded. `warnings`: the launcher's.
void AddUnrecordedCommand(const SpoolFacts& facts, const CaptureWindow& window, const std::string& command_name,
                          const std::vector<std::string>& warnings, const HostParts& host, Timeline* timeline);

// What a thread was blocked in when the window closed or its process died. Behind the events of the threads.
void AddOpenWaits(const SpoolFacts& facts, const CaptureWindow& window, const HostParts& host,
                  const Timeline& timeline);

// From pthread_create to the thread it made.
void LinkThreads(const SpoolFacts& facts, const HostParts& host, Timeline* timeline);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_DERIVED_EVENTS_H_
