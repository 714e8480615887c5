// SPDX-License-Identifier: Apache-2.0
//
// Visits a thread's calls, including those that the budget left out, and recognizes waits for threads that compute.
//
// Process: converter. Pure functions of the timeline.
#ifndef TBPROF_WRITER_TIMELINE_WAIT_SITES_H_
#define TBPROF_WRITER_TIMELINE_WAIT_SITES_H_

#include <string_view>

#include "writer/base/text_match.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

// Returns whether a call site is in a library whose threads compute for the waiting one.
inline bool IsInComputing(std::string_view site) {
  return ContainsAny(site, {"libgomp", "libiomp", "libomp", "openblas", "libmkl", "libtbb", "libdnnl", "libtorch",
                            "libc10", "libtensorflow", "xla_extension", "libjax"});
}

// A wait for Python's global interpreter lock, a mutex with a condition, has such a type and such a call site: take_gil
// and drop_gil, or, if Python has no symbols, its module, which uses conditions only for this lock.
inline bool MayBeForGil(const EventType& type) { return StartsWithAny(type.name, {"pthread_cond_", "pthread_mutex_"}); }
inline bool IsGilSite(std::string_view site) {
  return StartsWithAny(site, {"take_gil", "drop_gil", "python3.", "libpython3."});
}
// Returns whether calls of the type wait for a GPU.
inline bool IsGpuWait(const EventType& type) {
  return type.family == EventFamily::kGpu && ContainsAny(type.name, {"Synchronize"});
}

// Calls `visit(const Event&)` for each event of the thread and each wait that is not drawn, in order of their start.
template <typename Visit>
void ForEachCall(const Thread& thread, Visit&& visit) {
  const auto take = [&](const CutWait& wait) {
    Event event;
    event.start_ps = wait.start_ps;
    event.duration_ps = wait.duration_ps;
    event.call_site = wait.call_site;
    event.type = wait.type;
    event.value = -1;  // not kept: 0 would mean a poll that found nothing
    visit(event);
  };
  auto cut = thread.cut_waits.begin();
  for (const Event& event : thread.events) {
    for (; cut != thread.cut_waits.end() && cut->start_ps < event.start_ps; ++cut) take(*cut);
    visit(event);
  }
  for (; cut != thread.cut_waits.end(); ++cut) take(*cut);
}

}  // namespace tbprof

#endif  // TBPROF_WRITER_TIMELINE_WAIT_SITES_H_
