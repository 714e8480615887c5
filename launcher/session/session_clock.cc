// SPDX-License-Identifier: Apache-2.0
#include "launcher/session/session_clock.h"

#include <ctime>
#include <fstream>
#include <string>

namespace tbprof {
namespace {

std::string FirstLine(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

bool CounterIsUsable() {
#if defined(__x86_64__)
  if (FirstLine("/sys/devices/system/clocksource/clocksource0/current_clocksource") != "tsc") return false;
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (line.compare(0, 5, "flags") != 0) continue;
    return line.find(" constant_tsc") != std::string::npos && line.find(" nonstop_tsc") != std::string::npos;
  }
  return false;
#else
  return true;
#endif
}

}  // namespace

ClockKind ChooseClock() { return CounterIsUsable() ? ClockKind::kCounter : ClockKind::kMonotonic; }

ClockFact ReadClockPair(ClockKind clock) {
  ClockFact best{};
  uint64_t best_width = UINT64_MAX;
  for (int i = 0; i < 5; ++i) {
    const uint64_t before = ReadTicks(clock);
    const uint64_t monotonic = ReadMonotonic();
    const uint64_t after = ReadTicks(clock);
    if (after - before >= best_width) continue;
    best_width = after - before;
    timespec real;
    clock_gettime(CLOCK_REALTIME, &real);
    const uint64_t monotonic_again = ReadMonotonic();
    best.ticks = clock == ClockKind::kMonotonic ? monotonic : before + (after - before) / 2;
    best.monotonic_ns = monotonic;
    best.realtime_ns = static_cast<uint64_t>(real.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(real.tv_nsec) -
                       (monotonic_again - monotonic);
  }
  return best;
}

double MeasureTickRate(ClockKind clock, const ClockFact& first) {
  ClockFact second = ReadClockPair(clock);
  while (second.monotonic_ns - first.monotonic_ns < 1'000'000) second = ReadClockPair(clock);
  return static_cast<double>(second.ticks - first.ticks) /
         static_cast<double>(second.monotonic_ns - first.monotonic_ns);
}

}  // namespace tbprof
