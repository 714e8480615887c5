// SPDX-License-Identifier: Apache-2.0
#include "writer/steps/clock_waits.h"

#include <algorithm>
#include <cerrno>
#include <string_view>

namespace tbprof {

bool WaitsForAClock(const EventType& type, const Event& event) {
  if (type.family == EventFamily::kSleep) return true;
  if ((event.flags & Event::kFailed) != 0 && (event.error == ETIMEDOUT || event.error == EAGAIN)) return true;
  constexpr std::string_view kPolls[] = {"poll", "__poll_chk", "ppoll", "__ppoll_chk", "select", "pselect"};
  const bool polls = type.name.starts_with("epoll_") || std::ranges::find(kPolls, type.name) != std::end(kPolls);
  return polls && event.value == 0;
}

}  // namespace tbprof
