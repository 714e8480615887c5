// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/tick_clock.h"

#include <sstream>
#include <string>

#include "launcher/base/proc_files.h"

namespace tbprof {
namespace {

constexpr uint64_t kFirstDistanceNs = 1'000'000;
constexpr uint64_t kUpdateNs = 1'000'000'000;

// `monotonic SECONDS NANOSECONDS`.
int64_t OffsetOfTimeNamespace() {
  // Closed on exec: this thread may read it while another one starts the command.
  int ignored = 0;
  std::istringstream file(ReadProcFile("/proc/self/timens_offsets", &ignored));
  std::string name;
  int64_t seconds = 0, nanoseconds = 0;
  while (file >> name >> seconds >> nanoseconds) {
    if (name == "monotonic") return seconds * 1'000'000'000 + nanoseconds;
  }
  return 0;
}

}  // namespace

TickClock::TickClock(ClockKind kind) : kind_(kind), offset_ns_(OffsetOfTimeNamespace()), first_(Read()), last_(first_) {
  while (kind_ != ClockKind::kMonotonic && last_.ns - first_.ns < kFirstDistanceNs) last_ = Read();
  if (last_.ns > first_.ns) {
    ticks_per_ns_ = static_cast<double>(last_.ticks - first_.ticks) / static_cast<double>(last_.ns - first_.ns);
  }
}

uint64_t TickClock::ReadKernels() const { return ReadMonotonic() - static_cast<uint64_t>(offset_ns_); }

// Reads both clocks three times, and returns the pair that took the shortest time.
TickClock::Pair TickClock::Read() const {
  Pair best;
  uint64_t narrowest = UINT64_MAX;
  for (int i = 0; i < 3; ++i) {
    const uint64_t before = ReadTicks(kind_);
    const uint64_t ns = ReadKernels();
    const uint64_t after = ReadTicks(kind_);
    if (after - before >= narrowest) continue;
    narrowest = after - before;
    best = {before + narrowest / 2, ns};
  }
  return best;
}

void TickClock::Update() {
  if (kind_ == ClockKind::kMonotonic || ReadKernels() - last_.ns < kUpdateNs) return;
  const Pair now = Read();
  if (now.ns <= last_.ns || now.ticks <= last_.ticks) return;
  ticks_per_ns_ = static_cast<double>(now.ticks - first_.ticks) / static_cast<double>(now.ns - first_.ns);
  last_ = now;
}

uint64_t TickClock::TicksAt(uint64_t monotonic_ns) const {
  if (kind_ == ClockKind::kMonotonic) return monotonic_ns + static_cast<uint64_t>(offset_ns_);
  const auto distance = static_cast<double>(static_cast<int64_t>(monotonic_ns - last_.ns));
  return last_.ticks + static_cast<uint64_t>(static_cast<int64_t>(distance * ticks_per_ns_));
}

}  // namespace tbprof
