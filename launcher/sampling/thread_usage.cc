// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/thread_usage.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "writer/base/scoped.h"
#include "writer/base/text.h"

namespace tbprof {
namespace {

constexpr std::chrono::milliseconds kRowInterval(50);
constexpr int kFieldsBehindName = 7;  // of stat, between name and minor faults: state, ppid, ..., flags

bool IsSame(const ThreadUsageRow& a, const ThreadUsageRow& b) {
  return a.cpu_ns == b.cpu_ns && a.run_delay_ns == b.run_delay_ns && a.major_faults == b.major_faults;
}

}  // namespace

std::string SchedulePath(pid_t pid, int32_t tid) { return StrCat("/proc/", pid, "/task/", tid, "/schedstat"); }

std::optional<ScheduleReading> ReadScheduleOnce(pid_t pid, int32_t tid) {
  const ScopedFd file(open(SchedulePath(pid, tid).c_str(), O_RDONLY | O_CLOEXEC));
  return file.valid() ? ReadSchedule(file.get()) : std::nullopt;
}

std::optional<ScheduleReading> ReadSchedule(int fd) {
  char text[96];
  const ssize_t got = pread(fd, text, sizeof(text) - 1, 0);
  if (got <= 0) return std::nullopt;
  text[got] = '\0';
  ScheduleReading reading;
  char* end = text;
  reading.run_ns = strtoull(end, &end, 10);
  reading.delay_ns = strtoull(end, &end, 10);
  reading.slices = strtoull(end, &end, 10);
  if (reading.slices == 0) return std::nullopt;
  return reading;
}

// The name in parentheses may contain any character.
std::optional<FaultCounts> ParseFaults(std::string_view text) {
  const size_t name_end = text.rfind(')');
  if (name_end == std::string_view::npos) return std::nullopt;
  const std::string rest(text.substr(name_end + 1));
  const char* at = rest.c_str();
  for (int field = 0; field < kFieldsBehindName; ++field) {
    while (*at == ' ') ++at;
    if (*at == '\0') return std::nullopt;
    while (*at != ' ' && *at != '\0') ++at;
  }
  char* end = nullptr;
  FaultCounts faults;
  faults.minor = strtoull(at, &end, 10);
  if (end == at) return std::nullopt;
  strtoull(at = end, &end, 10);  // minor faults of children that were waited for
  if (end == at) return std::nullopt;
  faults.major = strtoull(at = end, &end, 10);
  if (end == at) return std::nullopt;
  return faults;
}

std::optional<FaultCounts> ReadFaults(pid_t pid, int32_t tid) {
  const ScopedFd file(open(StrCat("/proc/", pid, "/task/", tid, "/stat").c_str(), O_RDONLY | O_CLOEXEC));
  char text[1024];
  const ssize_t got = file.valid() ? read(file.get(), text, sizeof(text)) : -1;
  if (got <= 0) return std::nullopt;
  return ParseFaults({text, static_cast<size_t>(got)});
}

bool UsageTrack::WantsFaults(const ScheduleReading& reading, Time now, std::chrono::milliseconds delay) {
  if (now < next_faults_ || reading.slices == slices_at_faults_) return false;
  slices_at_faults_ = reading.slices;
  next_faults_ = now + delay;
  return true;
}

void UsageTrack::SetFaults(std::optional<FaultCounts> faults) {
  if (!faults) return;
  major_faults_ = static_cast<uint32_t>(std::min<uint64_t>(faults->major, UINT32_MAX));
  minor_faults_ = static_cast<uint32_t>(std::min<uint64_t>(faults->minor, UINT32_MAX));
}

void UsageTrack::Take(const ScheduleReading& reading, int32_t tid, uint64_t ticks, Time now,
                      std::vector<ThreadUsageRow>* rows) {
  const ThreadUsageRow row = {ticks, reading.run_ns, reading.delay_ns, tid, major_faults_, minor_faults_, 0};
  const ThreadUsageRow before = latest_;
  latest_ = row;
  if (emitted_.ticks != 0) {
    if (IsSame(row, emitted_) || now < next_row_) return;
    if (before.ticks > emitted_.ticks && IsSame(before, emitted_)) rows->push_back(before);
  }
  rows->push_back(row);
  emitted_ = row;
  next_row_ = now + kRowInterval;
}

void UsageTrack::Finish(std::vector<ThreadUsageRow>* rows) {
  if (latest_.ticks > emitted_.ticks) rows->push_back(latest_);
  *this = {};
}

}  // namespace tbprof
