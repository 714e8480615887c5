// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/python_collector.h"

#include <algorithm>
#include <cstring>

namespace tbprof {
namespace {

constexpr size_t kMostInterpreters = kMaxMemoryRanges / 2;

bool Contains(const std::vector<uint64_t>& values, uint64_t value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

}  // namespace

void PythonCollector::Read(const std::vector<uint64_t>& interpreters) {
  collecting_.clear();
  holders_.clear();
  const size_t count = std::min(interpreters.size(), kMostInterpreters);
  const bool one_collector = layout_.runtime_gc != kNoPythonMember,
             one_gil = layout_.interpreter_gil_holder == kNoPythonMember;
  // Layout of the copy: for each GIL 8 bytes (its holder), then for each collector 4 bytes (whether it collects).
  std::vector<iovec> ranges;
  for (size_t i = 0; i < (one_gil ? 1 : count); ++i) {
    ranges.push_back(MemoryRange(
        one_gil ? runtime_ + layout_.runtime_gil_holder : interpreters[i] + layout_.interpreter_gil_holder, 8));
  }
  const size_t gils = ranges.size();
  for (size_t i = 0; i < (one_collector ? 1 : count); ++i) {
    const uint64_t collector = one_collector ? runtime_ + layout_.runtime_gc : interpreters[i] + layout_.interpreter_gc;
    ranges.push_back(MemoryRange(collector + layout_.gc_collecting, 4));
  }
  const size_t collectors = ranges.size() - gils;
  std::vector<uint8_t> bytes(8 * gils + 4 * collectors);
  if (read_(bytes.data(), ranges) != static_cast<int64_t>(bytes.size())) return;
  for (size_t i = 0; i < collectors; ++i) {
    int32_t collecting = 0;
    std::memcpy(&collecting, &bytes[8 * gils + 4 * i], sizeof(collecting));
    if (collecting == 0) continue;
    if (!one_collector) collecting_.push_back(interpreters[i]);
    if (one_collector) collecting_ = interpreters;
  }
  for (size_t i = 0; i < gils && !collecting_.empty(); ++i) {
    uint64_t holder = 0;
    std::memcpy(&holder, &bytes[8 * i], sizeof(holder));
    holders_.push_back(holder);
  }
}

bool PythonCollector::IsCollecting(uint64_t interpreter, uint64_t thread_state) const {
  return Contains(collecting_, interpreter) && Contains(holders_, thread_state);
}

}  // namespace tbprof
