// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/gpu_call_stacks.h"

#include <algorithm>

#include "writer/base/text.h"

namespace tbprof {
namespace {

// A hook reads the clock right before the driver's function begins: within the runtime's call, or at most this long
// before the driver's (with cold caches, after a wait).
constexpr double kEntryNs = 1000;
// The error between the clocks of hooks and calls is less than this.
constexpr double kClockNs = 300;

struct StackCall {
  uint64_t start, end;  // ticks
  size_t index;         // in HostEvents::Of
};

std::vector<StackCall> CallsOf(const std::vector<RawEvent>& events, const std::vector<EventType>& types) {
  std::vector<StackCall> calls;
  for (size_t i = 0; i < events.size(); ++i) {
    if (types[events[i].type].value == ValueKind::kCorrelation) calls.push_back({events[i].start, events[i].end(), i});
  }
  std::ranges::sort(calls, {}, &StackCall::start);
  return calls;
}

}  // namespace

void GpuCallStacks::Take(uint32_t line, uint64_t ticks, uint32_t reference) {
  if (reference == 0) return;
  if (count_ >= most_) {
    ++left_out_;
    return;
  }
  ++count_;
  lines_[line].push_back({ticks, reference});
}

void GpuCallStacks::Finish(HostEvents* events, Timeline* timeline) {
  const uint64_t entry = facts_.clock.Ticks(kEntryNs), clock = facts_.clock.Ticks(kClockNs);
  for (auto& [line, stacks] : lines_) {
    const std::vector<StackCall> calls = CallsOf(events->Of(line), timeline->types);
    std::ranges::stable_sort(stacks, {}, &CallStack::ticks);
    auto call = calls.begin();
    for (const CallStack& stack : stacks) {
      while (call != calls.end() && call->end < stack.ticks) ++call;
      if (call == calls.end()) break;
      const uint64_t until = stack.ticks > UINT64_MAX - entry ? UINT64_MAX : stack.ticks + entry;
      const bool is_it = call->start <= until;
      const bool is_in_it = call->start <= stack.ticks && call->end - stack.ticks > clock;
      const bool may_be_next =
          !is_in_it && call->start <= stack.ticks && call + 1 != calls.end() && (call + 1)->start <= until;
      if (is_it && !may_be_next && !events->SetPython(line, call->index, stack.reference)) ++left_out_;
    }
    stacks = {};
  }
  if (left_out_ > 0) {
    timeline->notes.push_back(
        StrCat("Python lines: ", left_out_, " calls of CUDA have none (the converter's limits, --max-profile-size)"));
  }
}

}  // namespace tbprof
