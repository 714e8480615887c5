// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/cpu_limits.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include "launcher/base/proc_files.h"
#include "writer/base/text.h"

namespace tbprof {
namespace {

constexpr int kMostCpus = 1 << 16;

// Finds a line `key 123` in the text.
bool FindNumber(std::string_view text, std::string_view key, int64_t* value) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (!line.starts_with(key) || line.size() <= key.size() || line[key.size()] != ' ') continue;
    const std::string_view digits = line.substr(key.size() + 1);
    return std::from_chars(digits.data(), digits.data() + digits.size(), *value).ec == std::errc();
  }
  return false;
}

// Parses `100000 100000`. False: `max 100000`, or an invalid text.
bool ParseQuota(std::string_view text, int64_t* quota, int64_t* period) {
  const char* const end = text.data() + text.size();
  const auto [behind, error] = std::from_chars(text.data(), end, *quota);
  if (error != std::errc() || behind == end || *behind != ' ') return false;
  return std::from_chars(behind + 1, end, *period).ec == std::errc() && *quota > 0 && *period > 0;
}

struct CpuMask {
  std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set{nullptr,
                                                       [](cpu_set_t* it) { CPU_FREE(it); }};  // null: not known
  size_t bytes = 0;
};

CpuMask MaskOf(pid_t thread) {
  for (int cpus = 1024; cpus <= kMostCpus; cpus *= 4) {
    CpuMask mask;
    mask.set.reset(CPU_ALLOC(cpus));
    mask.bytes = CPU_ALLOC_SIZE(cpus);
    CPU_ZERO_S(mask.bytes, mask.set.get());
    if (sched_getaffinity(thread, mask.bytes, mask.set.get()) == 0) return mask;
    if (errno != EINVAL) break;
  }
  return {};
}

}  // namespace

int AllowedCpus(pid_t pid) {
  const CpuMask mask = MaskOf(pid);
  return mask.set == nullptr ? 0 : CPU_COUNT_S(mask.bytes, mask.set.get());
}

int AllowedCpusOfThreads(pid_t pid) {
  constexpr size_t kMostThreads = 64;
  CpuMask all = MaskOf(pid);
  if (all.set == nullptr) return 0;
  std::vector<pid_t> threads = TasksOf(pid);
  if (threads.size() > kMostThreads) threads.resize(kMostThreads);
  for (const pid_t thread : threads) {
    const CpuMask its = MaskOf(thread);
    if (its.set != nullptr && its.bytes == all.bytes) CPU_OR_S(all.bytes, all.set.get(), all.set.get(), its.set.get());
  }
  return CPU_COUNT_S(all.bytes, all.set.get());
}

void CpuLimitsReader::FindCgroup(std::string_view membership) {
  // Format: a line `0::/path`. A path with `/..` is outside of the hierarchy that is mounted here.
  std::string path;
  while (!membership.empty()) {
    const std::string_view line = membership.substr(0, membership.find('\n'));
    membership.remove_prefix(std::min(membership.size(), line.size() + 1));
    if (line.starts_with("0::/")) path = line.substr(3);
  }
  if (path.empty()) return;  // the process has ended, or there is no cgroup v2
  limiting_.clear();
  fact_.quota_us = -2;
  fact_.period_us = 0;
  if (path.find("/..") != std::string::npos) return;
  // If cgroup v1 controls the CPUs, cgroup v2 is mounted elsewhere.
  if (access((cgroups_ + "/cgroup.controllers").c_str(), R_OK) != 0) return;
  if (path.back() == '/') path.pop_back();
  if (access((cgroups_ + path).c_str(), X_OK) == 0) FindQuota(path);
}

void CpuLimitsReader::FindQuota(const std::string& path) {
  fact_.quota_us = -1;
  limiting_ = cgroups_ + path;
  double least = 0;
  for (std::string at = path;; at.resize(at.rfind('/'))) {
    int ignored = 0;
    int64_t quota = 0, period = 0;
    const std::string directory = cgroups_ + at;
    if (ParseQuota(ReadProcFile(directory + "/cpu.max", &ignored), &quota, &period)) {
      const double cpus = static_cast<double>(quota) / static_cast<double>(period);
      if (fact_.quota_us < 0 || cpus < least) {
        least = cpus;
        fact_.quota_us = quota;
        fact_.period_us = period;
        limiting_ = directory;
      }
    }
    if (at.empty()) return;
  }
}

void CpuLimitsReader::CountThrottled() {
  if (limiting_.empty()) return;
  int ignored = 0;
  const std::string text = ReadProcFile(limiting_ + "/cpu.stat", &ignored);
  int64_t throttled = 0, periods = 0;
  if (FindNumber(text, "throttled_usec", &throttled) && FindNumber(text, "nr_throttled", &periods)) {
    fact_.throttled_us = std::max<int64_t>(throttled, 0);
    fact_.throttled_periods = static_cast<uint64_t>(std::max<int64_t>(periods, 0));
  } else if (fact_.throttled_us < 0 && fact_.quota_us == -1) {
    fact_.throttled_us = 0;  // without a quota the process is never throttled
  }
}

bool CpuLimitsReader::Report(CpuLimitsFact* fact) {
  fact->cpus_allowed = fact_.cpus_allowed;
  fact->quota_us = fact_.quota_us;
  fact->period_us = fact_.period_us;
  fact->throttled_us = fact_.throttled_us;
  fact->throttled_periods = fact_.throttled_periods;
  if (std::memcmp(&reported_, &fact_, sizeof(fact_)) == 0) return false;
  reported_ = fact_;
  return true;
}

bool CpuLimitsReader::Read(CpuLimitsFact* fact) {
  int ignored = 0;
  // The process may move to another cgroup while it runs.
  FindCgroup(ReadProcFile(StrCat("/proc/", pid_, "/cgroup"), &ignored));
  CountThrottled();
  // Libraries bind each of their threads to other CPUs, the main thread as well (OMP_PROC_BIND): no CPU is taken from
  // the process then.
  const int cpus = fact_.cpus_allowed == 0 ? AllowedCpusOfThreads(pid_) : AllowedCpus(pid_);
  if (cpus > 0 && (cpus >= fact_.cpus_allowed || AllowedCpusOfThreads(pid_) == cpus)) fact_.cpus_allowed = cpus;
  return Report(fact);
}

bool CpuLimitsReader::ReadThrottled(CpuLimitsFact* fact) {
  CountThrottled();
  return Report(fact);
}

}  // namespace tbprof
