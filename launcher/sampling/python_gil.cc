// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/python_gil.h"

#include <algorithm>
#include <cstring>

namespace tbprof {
namespace {

constexpr size_t kMostInterpreters = kMaxMemoryRanges / 2;

}  // namespace

void PythonGil::Read(const std::vector<uint64_t>& interpreters) {
  collecting_.clear();
  gils_.clear();
  addresses_.clear();
  const size_t count = std::min(interpreters.size(), kMostInterpreters);
  const bool one_collector = layout_.runtime_gc != kNoPythonMember,
             one_gil = layout_.interpreter_gil_holder == kNoPythonMember;
  // Layout of the copy: each Gil, then for each collector 4 bytes (whether it collects).
  std::vector<iovec> ranges;
  for (size_t i = 0; i < (one_gil ? 1 : count); ++i) {
    addresses_.push_back(one_gil ? runtime_ + layout_.runtime_gil_holder
                                 : interpreters[i] + layout_.interpreter_gil_holder);
    ranges.push_back(MemoryRange(addresses_.back(), sizeof(Gil)));
  }
  for (size_t i = 0; i < (one_collector ? 1 : count); ++i) {
    const uint64_t collector = one_collector ? runtime_ + layout_.runtime_gc : interpreters[i] + layout_.interpreter_gc;
    ranges.push_back(MemoryRange(collector + layout_.gc_collecting, 4));
  }
  const size_t collectors = ranges.size() - addresses_.size(), of_gils = addresses_.size() * sizeof(Gil);
  std::vector<uint8_t> bytes(of_gils + 4 * collectors);
  if (read_(bytes.data(), ranges) != static_cast<int64_t>(bytes.size())) return;
  gils_.resize(addresses_.size());
  if (of_gils > 0) std::memcpy(gils_.data(), bytes.data(), of_gils);
  for (size_t i = 0; i < collectors; ++i) {
    int32_t collecting = 0;
    std::memcpy(&collecting, &bytes[of_gils + 4 * i], sizeof(collecting));
    if (collecting == 0) continue;
    if (!one_collector) collecting_.push_back(interpreters[i]);
    if (one_collector) collecting_ = interpreters;
  }
}

bool PythonGil::IsCollecting(uint64_t interpreter, uint64_t thread_state) const {
  return std::ranges::find(collecting_, interpreter) != collecting_.end() &&
         std::ranges::find(gils_, thread_state, &Gil::last_holder) != gils_.end();
}

bool PythonGil::IsHeldBy(uint64_t thread_state) const {
  const auto gil = std::ranges::find(gils_, thread_state, &Gil::last_holder);
  return gil != gils_.end() && gil->locked == 1;
}

// The GIL's conditions and mutexes follow the holder: 208 bytes in all with glibc.
bool PythonGil::IsFutexOf(uint64_t futex) const {
  constexpr uint64_t kGilBytes = 224;
  return std::ranges::any_of(addresses_,
                             [&](uint64_t address) { return futex >= address && futex - address < kGilBytes; });
}

bool PythonGil::IsStillHeldBy(uint64_t thread_state) const {
  const auto known = std::ranges::find(gils_, thread_state, &Gil::last_holder);
  if (known == gils_.end()) return false;
  Gil gil = {};
  const uint64_t address = addresses_[static_cast<size_t>(known - gils_.begin())];
  return ReadAt(read_, address, &gil, sizeof(gil)) && gil.last_holder == thread_state && gil.locked == 1;
}

}  // namespace tbprof
