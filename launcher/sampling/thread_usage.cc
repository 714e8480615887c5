// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/thread_usage.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "launcher/base/proc_stat.h"
#include "writer/base/scoped.h"
#include "writer/base/text.h"

namespace tbprof {
namespace {

constexpr std::chrono::milliseconds kRowInterval(50);

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

std::optional<FaultCounts> ReadFaults(pid_t pid, int32_t tid) {
  const std::optional<ProcStat> stat = ReadProcStat(pid, tid);
  if (!stat) return std::nullopt;
  return FaultCounts{stat->major_faults, stat->minor_faults};
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
