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

Annotations::Stack* Annotations::StackOf(const Identity& thread, uint16_t domain, bool make) {
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
void Annotations::EndEarlier(Stack* stack, uint32_t period, const Consume& consume) {
  std::vector<Open>& opens = stack->opens;
  while (!opens.empty() && opens.back().period != period) {
    const uint32_t number = opens.back().period;
    EndLost(&opens.back(), number > 0 ? periods_[number - 1].second : opens.back().range.start, consume);
    opens.pop_back();
    --open_count_;
  }
}

// Levels rise within a domain: a range at this level or above it ended before this, and its end was lost. When is not
// known: records may be missing for many seconds.
void Annotations::EndFromLevel(Stack* stack, uint16_t level, const Consume& consume) {
  std::vector<Open>& opens = stack->opens;
  while (!opens.empty() && static_cast<int16_t>(opens.back().level - level) >= 0) {
    EndLost(&opens.back(), stack->last_ticks, consume);
    opens.pop_back();
    --open_count_;
  }
}

// Before a push: ends what cannot be open any more. False: too many ranges are open to follow this one.
bool Annotations::HasRoom(Stack* stack, uint16_t level, uint32_t period, const Consume& consume) {
  const std::vector<Open>& opens = stack->opens;
  if (!opens.empty() && opens.back().period != period) EndEarlier(stack, period, consume);
  if (level != kNoLevel) EndFromLevel(stack, level, consume);
  if (open_count_ < kMaxOpen && opens.size() < kMaxDepth) return true;
  ++not_followed_;
  return false;
}

void Annotations::Pop(Stack* stack, const AnnotationRecord& record, const Consume& consume) {
  std::vector<Open>& opens = stack->opens;
  if (record.level != kNoLevel) EndFromLevel(stack, static_cast<uint16_t>(record.level + 1), consume);
  if (opens.empty() || opens.back().level != record.level) {
    ++unmatched_;
    return;
  }
  Range& range = opens.back().range;
  range.end = std::max(record.ticks, range.start);
  if (opens.size() > 1) opens[opens.size() - 2].range.inside += range.end - range.start;
  consume(range);
  opens.pop_back();
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
    Stack* const stack = StackOf(thread, record.tag.aux, /*make=*/false);
    if (stack == nullptr) {
      ++unmatched_;
      return true;
    }
    if (!stack->opens.empty() && stack->opens.back().period != period) EndEarlier(stack, period, consume);
    Pop(stack, record, consume);
    stack->last_ticks = record.ticks;
    if (stack->opens.empty() && stack->opens.capacity() > kKeptDepth) stack->opens = {};
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
      Stack* const stack = StackOf(thread, record.tag.aux, /*make=*/true);
      if (HasRoom(stack, record.level, period, consume)) {
        stack->opens.emplace_back(thread, process, record, payload, period);
        ++open_count_;
      }
      stack->last_ticks = record.ticks;
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
    for (const Open& open : stack.opens) rest.emplace_back(open, end_of(open));
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
