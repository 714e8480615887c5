// SPDX-License-Identifier: Apache-2.0
#include "writer/annotations.h"

#include <algorithm>
#include <tuple>

namespace tbprof {

ArmedPeriods PeriodsOf(const std::vector<WindowFact>& windows) {
  ArmedPeriods periods;
  std::vector<WindowFact> borders;
  for (const WindowFact& window : windows) {
    if (window.event == WindowEvent::kOpened || window.event == WindowEvent::kClosed) borders.push_back(window);
  }
  std::stable_sort(borders.begin(), borders.end(),
                   [](const WindowFact& a, const WindowFact& b) { return a.ticks < b.ticks; });
  int open = 0;
  for (const WindowFact& border : borders) {
    if (border.event == WindowEvent::kOpened) {
      if (open++ == 0) periods.emplace_back(border.ticks, UINT64_MAX);
    } else if (open > 0 && --open == 0) {
      periods.back().second = border.ticks;
    }
  }
  return periods;
}

uint32_t Annotations::PeriodAt(uint64_t ticks) const {
  // A thread that has seen the order to record may see the order to stop a little later: what it says then belongs to
  // the period before.
  const auto above = std::upper_bound(periods_.begin(), periods_.end(), ticks,
                                      [](uint64_t value, const auto& period) { return value < period.first; });
  return static_cast<uint32_t>(above - periods_.begin());
}

void Annotations::EndLost(Open* open, uint64_t end, const Consume& consume) {
  open->range.end = std::max(end, open->range.start);
  open->range.end_lost = true;
  ++ends_lost_;
  consume(open->range);
}

// What was open when a period closed ended somewhere behind it.
void Annotations::EndEarlier(std::vector<Open>* stack, uint32_t period, const Consume& consume) {
  while (!stack->empty() && stack->back().period != period) {
    const uint32_t number = stack->back().period;
    EndLost(&stack->back(), number > 0 ? periods_[number - 1].second : stack->back().range.start, consume);
    stack->pop_back();
    --open_count_;
  }
}

void Annotations::Pop(std::vector<Open>* stack, const AnnotationRecord& record, const Consume& consume) {
  size_t at = stack->size();
  // The levels of a domain rise; below the pop's there is none that it could end.
  while (at > 0 && static_cast<int16_t>((*stack)[at - 1].level - record.level) > 0) --at;
  if (at == 0 || (*stack)[at - 1].level != record.level) {
    ++unmatched_;
    return;
  }
  while (stack->size() > at) {
    EndLost(&stack->back(), record.ticks, consume);
    stack->pop_back();
    --open_count_;
  }
  Range range = stack->back().range;
  stack->pop_back();
  --open_count_;
  range.end = std::max(record.ticks, range.start);
  consume(range);
}

bool Annotations::Take(const Identity& thread, const Identity& process, const RecordView& view,
                       const Consume& consume) {
  AnnotationRecord record;
  if (!view.Read(&record)) return false;
  AnnotationPayload payload{};
  if (view.size >= sizeof(record) + sizeof(payload)) {
    __builtin_memcpy(&payload, view.bytes + sizeof(record), sizeof(payload));
  }
  const uint32_t period = PeriodAt(record.ticks);
  Open open;
  open.period = period;
  open.level = record.level;
  Range& range = open.range;
  range.domain = record.tag.aux;
  range.category = record.category;
  range.start = range.end = record.ticks;
  range.name = record.name;
  range.payload_type = payload.type;
  range.payload = payload.bits;
  if (range.domain == kTorchDomain) range.torch_thread = payload.name;
  range.thread = thread;
  range.process = process;
  switch (static_cast<AnnotationAction>(record.tag.flags)) {
    case AnnotationAction::kMark:
      range.kind = Kind::kMark;
      consume(range);
      return true;
    case AnnotationAction::kPush: {
      std::vector<Open>& stack = stacks_[{thread, record.tag.aux}];
      EndEarlier(&stack, period, consume);
      if (open_count_ >= kMaxOpen || stack.size() >= kMaxDepth) {
        ++not_followed_;
        return true;
      }
      stack.push_back(open);
      ++open_count_;
      return true;
    }
    case AnnotationAction::kPop: {
      const auto stack = stacks_.find({thread, record.tag.aux});
      if (stack == stacks_.end()) {
        ++unmatched_;
        return true;
      }
      EndEarlier(&stack->second, period, consume);
      Pop(&stack->second, record, consume);
      if (stack->second.empty() && stack->second.capacity() > kKeptDepth) stack->second = {};
      return true;
    }
    case AnnotationAction::kStart: {
      if (open_count_ >= kMaxOpen) {
        ++not_followed_;
        return true;
      }
      range.kind = Kind::kAcross;
      range.name = payload.name;
      const auto [known, added] = across_.try_emplace({process, record.name}, open);
      if (added) {
        ++open_count_;
      } else {
        // A number twice: the earlier range never ended.
        EndLost(&known->second, record.ticks, consume);
        known->second = open;
      }
      return true;
    }
    case AnnotationAction::kEnd: {
      const auto known = across_.find({process, record.name});
      if (known == across_.end()) {
        ++unmatched_;
        return true;
      }
      // Its number is its own: that it ended is known, whatever was not recorded in between.
      Range ended = known->second.range;
      across_.erase(known);
      --open_count_;
      ended.end = std::max(record.ticks, ended.start);
      consume(ended);
      return true;
    }
  }
  return false;
}

void Annotations::Finish(uint64_t close, const Consume& consume) {
  const auto end_of = [&](const Open& open) {
    return open.period > 0 ? std::min(periods_[open.period - 1].second, close) : close;
  };
  std::vector<Open> rest;
  for (auto& [key, stack] : stacks_) rest.insert(rest.end(), stack.begin(), stack.end());
  for (auto& [key, open] : across_) rest.push_back(open);
  stacks_.clear();
  across_.clear();
  open_count_ = 0;
  // In an order that does not depend on a table's.
  std::sort(rest.begin(), rest.end(), [](const Open& a, const Open& b) {
    const auto key = [](const Open& open) {
      return std::make_tuple(open.range.start, open.range.thread, open.range.domain, open.range.name);
    };
    return key(a) < key(b);
  });
  for (Open& open : rest) {
    if (open.range.start < close) EndLost(&open, end_of(open), consume);
  }
}

}  // namespace tbprof
