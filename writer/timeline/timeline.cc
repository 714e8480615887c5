// SPDX-License-Identifier: Apache-2.0
#include "writer/timeline/timeline.h"

#include <algorithm>
#include <utility>

#include "writer/base/utf8.h"

namespace tbprof {

StringId StringTable::Intern(std::string_view text) {
  std::string valid = ValidUtf8(text);
  const auto [it, inserted] = ids_.try_emplace(std::move(valid), static_cast<StringId>(texts_.size()));
  if (inserted) texts_.push_back(&it->first);
  return it->second;
}

uint64_t Timeline::ProcessCount() const {
  return static_cast<uint64_t>(std::count_if(processes.begin(), processes.end(), [](const Process& process) {
    return !process.replaced && !process.is_unrecorded;
  }));
}

uint64_t Timeline::ThreadCount() const {
  return static_cast<uint64_t>(std::count_if(threads.begin(), threads.end(), [&](const Thread& thread) {
    return !thread.is_line && !(thread.is_main && processes[thread.process].replaced);
  }));
}

const ThreadUsage* Timeline::UsageOfThread(uint32_t thread) const {
  const auto found = std::lower_bound(usage.begin(), usage.end(), thread,
                                      [](const ThreadUsage& known, uint32_t index) { return known.thread < index; });
  return found != usage.end() && found->thread == thread ? &*found : nullptr;
}

bool Timeline::Runs() const {
  if (exit_code >= 0 || exit_signal != 0) return false;
  return !attached ||
         std::ranges::any_of(processes, [this](const Process& process) { return process.end_ps >= duration_ps; });
}

const ThreadBlocked* Timeline::BlockedOfThread(uint32_t thread) const {
  const auto found = std::lower_bound(blocked.begin(), blocked.end(), thread,
                                      [](const ThreadBlocked& known, uint32_t index) { return known.thread < index; });
  return found != blocked.end() && found->thread == thread ? &*found : nullptr;
}

}  // namespace tbprof
