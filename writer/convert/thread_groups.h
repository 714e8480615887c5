// SPDX-License-Identifier: Apache-2.0
//
// Threads that do the same: main threads, or threads whose names differ only in numbers, of processes with one name.
//
// Process: converter. Pure functions of the timeline.
#ifndef TBPROF_WRITER_CONVERT_THREAD_GROUPS_H_
#define TBPROF_WRITER_CONVERT_THREAD_GROUPS_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "writer/timeline/timeline.h"

namespace tbprof {

struct ThreadGroupKey {
  std::string process;   // its name
  bool forked = false;   // its processes are fork children: workers of a loader
  bool is_main = false;  // main threads
  std::string threads;   // `main`, else the stem of their names
  auto operator<=>(const ThreadGroupKey&) const = default;
};
ThreadGroupKey GroupOfThread(const Timeline& timeline, uint32_t thread);

// `Worker-12`, `Worker_3` and `Worker` give `Worker`. `Thread-3 (load)`, Python's name for a thread of `load`, gives
// `Thread (load)`.
std::string StemOfThreadName(std::string_view name);

// `2 forked processes python3`, `threads Loader (4)`.
std::string ThreadGroupText(const ThreadGroupKey& key, size_t count);

// `Samples`: PythonThread, NativeThread.
template <typename Samples>
struct ThreadGroup : ThreadGroupKey {
  std::vector<const Samples*> members;
};

// In the order of their first members. `threads` must outlive the groups.
template <typename Samples>
std::vector<ThreadGroup<Samples>> GroupThreads(const Timeline& timeline, const std::vector<Samples>& threads) {
  std::vector<ThreadGroup<Samples>> groups;
  std::map<ThreadGroupKey, size_t> index;
  for (const Samples& samples : threads) {
    ThreadGroupKey key = GroupOfThread(timeline, samples.thread);
    const auto [group, added] = index.try_emplace(key, groups.size());
    if (added) groups.push_back({std::move(key), {}});
    groups[group->second].members.push_back(&samples);
  }
  return groups;
}

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_THREAD_GROUPS_H_
