// SPDX-License-Identifier: Apache-2.0
#include "writer/verdict/library_pools.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "writer/base/text_match.h"
#include "writer/verdict/library_waits.h"
#include "writer/verdict/lock_waits.h"

namespace tbprof {
namespace {

// Shorter waits do not change the verdict.
constexpr double kLeastOfTime = 0.05;
constexpr double kBusy = 0.6;

// Locks of Python, and waits for a GPU or for other ranks.
bool IsOfOthers(std::string_view site) {
  return ContainsAny(site, {"PyThread_", "_PySemaphore", "PyMutex", "_PyParkingLot", "_PyRawMutex", "python3.",
                            "libcuda", "libnccl", "librccl"});
}

struct Site {
  std::vector<WaitSlice> waits;
  int64_t ps = 0;
  std::map<uint64_t, int64_t> objects;  // time of the waits
};

}  // namespace

std::vector<StringId> FindLibraryPools(const Timeline& timeline, const PythonTags& tags, const WaitClasses& classes,
                                       const GpuTime& gpu, uint32_t thread, const std::vector<TimeSpan>& spans) {
  std::vector<StringId> pools;
  if (timeline.python.OfThread(thread) == nullptr) return pools;
  const ThreadTime time(timeline, classes, thread, spans);
  std::map<StringId, Site> sites;
  for (const WaitSlice& wait : time.waits()) {
    if (wait.kind != WaitClass::kLock || classes.IsOwned(wait.type) || wait.call_site == 0) continue;
    if (tags.TagOf(wait.stack) != PythonTag::kNone || IsOfOthers(timeline.strings.Get(wait.call_site))) continue;
    Site& site = sites[wait.call_site];
    site.waits.push_back(wait);
    site.ps += wait.end_ps - wait.start_ps;
    // Of waits that the budget left out the object is not known.
    if (wait.object != 0) site.objects[wait.object] += wait.end_ps - wait.start_ps;
  }
  const double total = static_cast<double>(LengthOf(spans));
  for (const auto& [call_site, site] : sites) {
    if (static_cast<double>(site.ps) < kLeastOfTime * total) continue;
    // All conditions of C++ have this call site: those of the ranks of a job, too.
    if (classes.has_peers() && ContainsAny(timeline.strings.Get(call_site), {"libstdc++"})) continue;
    if (BusyBeside(timeline, thread, site.waits).value_or(0) < kBusy || IsForGpu(gpu, site.waits)) continue;
    // What another thread waits for, too, is a lock.
    const auto most = std::ranges::max_element(site.objects, {}, [](const auto& entry) { return entry.second; });
    const bool is_lock = most != site.objects.end() && OthersThatWaitFor(timeline, classes, thread, most->first) > 0;
    if (!is_lock) pools.push_back(call_site);
  }
  return pools;
}

}  // namespace tbprof
