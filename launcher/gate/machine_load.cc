// SPDX-License-Identifier: Apache-2.0
#include "launcher/gate/machine_load.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <string>

#include "absl/strings/str_format.h"
#include "launcher/base/proc_files.h"
#include "launcher/base/text.h"
#include "launcher/gate/bootstrap.h"
#include "launcher/gate/statistics.h"

namespace tbprof {
namespace {

// Shares of the CPU time. With a larger load beside either side, or a larger difference between the sides, there is no
// answer.
constexpr double kMostOthers = 0.4, kMostSteal = 0.15, kMostBetween = 0.05;
constexpr double kByChance = 0.05;
constexpr double kSmallestLoad = 0.01, kSmallestSlowed = 0.1;
constexpr int kMostCpus = 4096;

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

uint64_t CountThrottles() {
  uint64_t sum = 0;
  const auto cpus = static_cast<int>(std::clamp<int64_t>(sysconf(_SC_NPROCESSORS_CONF), 0, kMostCpus));
  for (int cpu = 0; cpu < cpus; ++cpu) {
    const std::string text =
        ReadText(StrCat("/sys/devices/system/cpu/cpu", cpu, "/thermal_throttle/core_throttle_count"));
    if (text.empty() && cpu == 0) return 0;  // a machine without such counters
    sum += strtoull(text.c_str(), nullptr, 10);
  }
  return sum;
}

template <typename Field>
std::vector<double> FieldsOf(absl::Span<const RunLoad> runs, Field field) {
  std::vector<double> values;
  for (const RunLoad& run : runs) values.push_back(static_cast<double>(run.*field));
  return values;
}

struct Kind {
  double RunLoad::*field;
  double most;
  const char* text;
};
constexpr Kind kKinds[] = {{&RunLoad::others, kMostOthers, "other programs used"},
                           {&RunLoad::steal, kMostSteal, "the hypervisor took"}};

}  // namespace

bool ParseStat(std::string_view text, double ticks_per_s, LoadReading* reading) {
  constexpr std::string_view kAll = "cpu ";
  if (!text.starts_with(kAll) || ticks_per_s <= 0) return false;
  const std::string line(text.substr(kAll.size(), text.find('\n') - kAll.size()));
  // user nice system idle iowait irq softirq steal; guest time is in user time already.
  std::array<double, 8> fields{};
  const char* at = line.c_str();
  for (double& field : fields) {
    char* end = nullptr;
    field = static_cast<double>(strtoull(at, &end, 10)) / ticks_per_s;
    if (end == at) return false;
    at = end;
  }
  const auto& [user, nice, system, idle, iowait, irq, softirq, steal] = fields;
  reading->busy_s = user + nice + system + irq + softirq;
  reading->steal_s = steal;
  reading->all_s = reading->busy_s + steal + idle + iowait;
  return true;
}

LoadReading ReadLoad(GpuLoadReader* gpus) {
  LoadReading reading;
  ParseStat(ReadText("/proc/stat"), static_cast<double>(sysconf(_SC_CLK_TCK)), &reading);
  rusage usage = {};
  if (getrusage(RUSAGE_CHILDREN, &usage) == 0) reading.own_s = Seconds(usage.ru_utime) + Seconds(usage.ru_stime);
  reading.throttles = CountThrottles();
  reading.gpus = gpus->Read();
  return reading;
}

RunLoad LoadBetween(const LoadReading& before, const LoadReading& after) {
  RunLoad load;
  load.throttles = after.throttles - std::min(after.throttles, before.throttles);
  load.gpu_processes = before.gpus.processes;
  load.gpu_slowed_s =
      static_cast<double>(after.gpus.slowed_ns - std::min(after.gpus.slowed_ns, before.gpus.slowed_ns)) * 1e-9;
  const double all = after.all_s - before.all_s;
  if (all <= 0) return load;
  const double own = after.own_s - before.own_s;
  load.others = std::clamp((after.busy_s - before.busy_s - own) / all, 0.0, 1.0);
  load.steal = std::clamp((after.steal_s - before.steal_s) / all, 0.0, 1.0);
  return load;
}

Contamination FindContamination(absl::Span<const RunLoad> base, absl::Span<const RunLoad> now) {
  Contamination found;
  for (const Kind& kind : kKinds) {
    const std::vector<double> a = FieldsOf(base, kind.field), b = FieldsOf(now, kind.field);
    const double mean_a = Mean(a), mean_b = Mean(b);
    const bool is_even = std::abs(mean_a - mean_b) <= kMostBetween;
    const bool differs = !is_even && WelchP(a, b, kSmallestLoad) < kByChance;
    if (!differs && std::max(mean_a, mean_b) <= kind.most) continue;
    found.is_even_load = found.why.empty() && is_even && kind.field == &RunLoad::others;
    if (!found.why.empty()) continue;
    found.why = absl::StrFormat("%s %.0f %% of the CPUs beside the base and %.0f %% beside the new side", kind.text,
                                100 * mean_a, 100 * mean_b);
  }
  const auto differ = [&](auto field, double smallest, const char* text) -> std::string {
    const std::vector<double> a = FieldsOf(base, field), b = FieldsOf(now, field);
    if (WelchP(a, b, smallest) >= kByChance) return "";
    return absl::StrFormat("%s: %.1f a run of the base and %.1f of the new side", text, Mean(a), Mean(b));
  };
  std::string why = differ(&RunLoad::throttles, 1, "times that CPUs were slowed down for their heat");
  if (why.empty()) why = differ(&RunLoad::gpu_processes, 0.5, "processes of others on the GPUs");
  if (why.empty()) why = differ(&RunLoad::gpu_slowed_s, kSmallestSlowed, "seconds that GPUs were slowed down");
  if (!why.empty()) found.is_even_load = false;
  if (found.why.empty()) found.why = why;
  return found;
}

}  // namespace tbprof
