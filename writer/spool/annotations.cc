// SPDX-License-Identifier: Apache-2.0
#include "writer/spool/annotations.h"

#include <algorithm>
#include <iterator>
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

Annotations::Open::Open(const Identity& thread, const Identity& process, const AnnotationRecord& record,
                        const AnnotationPayload& payload, uint32_t begun_in)
    : range{.kind = Kind::kRange,
            .end_lost = false,
            .domain = record.tag.aux,
            .category = record.category,
            .start = record.ticks,
            .end = record.ticks,
            .inside = 0,
            .name = record.name,
            .payload_type = payload.type,
            .payload = payload.bits,
            .torch_thread = record.tag.aux == kTorchDomain ? payload.name : 0,
            .shapes = record.tag.aux == kTorchDomain ? payload.shapes : 0,
            .thread = thread,
            .process = process},
      level(record.level),
      period(begun_in) {}

uint32_t Annotations::PeriodAt(uint64_t ticks) {
  if (ticks >= period_from_ && ticks < period_to_) return period_;
  // A thread may see the order to stop a little late: what it reports until then belongs to the period before.
  const auto above = std::upper_bound(periods_.begin(), periods_.end(), ticks,
                                      [](uint64_t value, const auto& period) { return value < period.first; });
  period_ = static_cast<uint32_t>(above - periods_.begin());
  period_from_ = period_ > 0 ? periods_[period_ - 1].first : 0;
  period_to_ = above != periods_.end() ? above->first : UINT64_MAX;
  return period_;
}

std::vector<Annotations::Open>* Annotations::StackOf(const Identity& thread, uint16_t domain, bool make) {
  if (last_stack_ != nullptr && last_key_.first == thread && last_key_.second == domain) return last_stack_;
  const StackKey key{thread, domain};
  const auto found = make ? stacks_.try_emplace(key).first : stacks_.find(key);
  if (found == stacks_.end()) return nullptr;
  last_key_ = key;
  return last_stack_ = &found->second;
}

void Annotations::EndLost(Open* open, uint64_t end, const Consume& consume) {
  open->range.end = std::max(end, open->range.start);
  open->range.end_lost = true;
  ++ends_lost_;
  consume(open->range);
}

// Ends ranges that were open when their period closed: their own ends were not recorded.
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
  // Levels rise within a domain: ranges below the pop's level cannot be the one that it ends.
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
  Range& range = stack->back().range;
  range.end = std::max(record.ticks, range.start);
  if (at > 1) (*stack)[at - 2].range.inside += range.end - range.start;
  consume(range);
  stack->pop_back();
  --open_count_;
}

// Threads are read one after the other: an end may be read before its beginning, and a number may be used again before
// the end of its first range is read.
void Annotations::StartAcross(const Number& number, const Open& open, const Consume& consume) {
  const auto early = early_ends_.find(number);
  if (early != early_ends_.end()) {
    const auto end = early->second.lower_bound(open.range.start);
    if (end != early->second.end()) {
      Range ended = open.range;
      ended.end = *end;
      early->second.erase(end);
      --early_count_;
      if (early->second.empty()) early_ends_.erase(early);
      consume(ended);
      return;
    }
  }
  if (open_count_ >= kMaxOpen) {
    ++not_followed_;
    return;
  }
  ++open_count_;
  std::multimap<uint64_t, Open>& opens = across_[number];
  const auto added = opens.emplace(open.range.start, open);
  if (const auto next = std::next(added); next != opens.end()) added->second.again = next->first;
  if (added != opens.begin()) std::prev(added)->second.again = open.range.start;
}

void Annotations::EndAcross(const Number& number, uint64_t ticks, const Consume& consume) {
  const auto known = across_.find(number);
  std::multimap<uint64_t, Open>::iterator open;
  bool found = false;
  if (known != across_.end()) {
    open = known->second.upper_bound(ticks);
    if (open != known->second.begin()) {
      --open;
      found = open->second.again == 0 || ticks < open->second.again;
    }
  }
  if (!found) {
    if (early_count_ >= kMaxEarly) {
      ++unmatched_;
      return;
    }
    ++early_count_;
    early_ends_[number].insert(ticks);
    return;
  }
  // The end is known, even if there was no recording in between.
  Range ended = open->second.range;
  ended.end = ticks;
  known->second.erase(open);
  --open_count_;
  if (known->second.empty()) across_.erase(known);
  consume(ended);
}

bool Annotations::Take(const Identity& thread, const Identity& process, const RecordView& view,
                       const Consume& consume) {
  AnnotationRecord record;
  if (!view.Read(&record)) return false;
  const uint32_t period = PeriodAt(record.ticks);
  if (static_cast<AnnotationAction>(record.tag.flags) == AnnotationAction::kPop) {
    std::vector<Open>* stack = StackOf(thread, record.tag.aux, /*make=*/false);
    if (stack == nullptr) {
      ++unmatched_;
      return true;
    }
    if (!stack->empty() && stack->back().period != period) EndEarlier(stack, period, consume);
    Pop(stack, record, consume);
    if (stack->empty() && stack->capacity() > kKeptDepth) *stack = {};
    return true;
  }
  AnnotationPayload payload{};
  if (view.size >= sizeof(record) + sizeof(payload)) {
    __builtin_memcpy(&payload, view.bytes + sizeof(record), sizeof(payload));
  }
  switch (static_cast<AnnotationAction>(record.tag.flags)) {
    case AnnotationAction::kMark: {
      Open mark(thread, process, record, payload, period);
      mark.range.kind = Kind::kMark;
      consume(mark.range);
      return true;
    }
    case AnnotationAction::kPush: {
      std::vector<Open>& stack = *StackOf(thread, record.tag.aux, /*make=*/true);
      if (!stack.empty() && stack.back().period != period) EndEarlier(&stack, period, consume);
      if (open_count_ >= kMaxOpen || stack.size() >= kMaxDepth) {
        ++not_followed_;
        return true;
      }
      stack.emplace_back(thread, process, record, payload, period);
      ++open_count_;
      return true;
    }
    case AnnotationAction::kPop:
      break;
    case AnnotationAction::kStart: {
      Open open(thread, process, record, payload, period);
      open.range.kind = Kind::kAcross;
      open.range.name = payload.name;
      StartAcross({process, record.name}, open, consume);
      return true;
    }
    case AnnotationAction::kEnd:
      EndAcross({process, record.name}, record.ticks, consume);
      return true;
  }
  return false;
}

void Annotations::Finish(uint64_t close, const Consume& consume) {
  const auto end_of = [&](const Open& open) {
    return open.period > 0 ? std::min(periods_[open.period - 1].second, close) : close;
  };
  std::vector<std::pair<Open, uint64_t>> rest;  // open ranges and their ends
  for (const auto& [key, stack] : stacks_) {
    for (const Open& open : stack) rest.emplace_back(open, end_of(open));
  }
  for (const auto& [key, opens] : across_) {
    for (const auto& [start, open] : opens) rest.emplace_back(open, open.again != 0 ? open.again : end_of(open));
  }
  for (const auto& [key, ends] : early_ends_) unmatched_ += ends.size();
  stacks_.clear();
  last_stack_ = nullptr;
  across_.clear();
  early_ends_.clear();
  open_count_ = early_count_ = 0;
  // Sorted, since the iteration order of a hash table is not deterministic.
  std::sort(rest.begin(), rest.end(), [](const auto& a, const auto& b) {
    const auto key = [](const Range& range) {
      return std::make_tuple(range.start, range.thread, range.domain, range.name);
    };
    return key(a.first.range) < key(b.first.range);
  });
  for (auto& [open, end] : rest) {
    if (open.range.start < close) EndLost(&open, end, consume);
  }
}

}  // namespace tbprof
