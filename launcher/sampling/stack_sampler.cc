// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/stack_sampler.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "launcher/sampling/process_sampler.h"
#include "launcher/sampling/random_interval.h"
#include "launcher/sampling/rate_governor.h"

namespace tbprof {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// With half of the interval to each side, samples fall on any moment of a loop that takes one interval equally often.
constexpr double kSpread = 0.5;
constexpr milliseconds kLongestPause(200);  // while no process runs Python: ends of processes must be detected

microseconds IntervalOf(uint32_t rate) { return microseconds(1'000'000 / std::clamp<uint32_t>(rate, 1, 100'000)); }

class PythonSet final : public SampledSet {
 public:
  PythonSet(const SamplerOptions& options, EmitFrame emit)
      : options_(options),
        emit_(std::move(emit)),
        governor_(IntervalOf(options.rate), options.max_cpu_share, /*at_once=*/options.all_blocked),
        intervals_(kSpread) {}

  void Begin() override { pthread_setname_np(pthread_self(), "tbprof-python"); }
  bool empty() const override { return processes_.empty(); }
  bool Add(const SampledProcess& process) override {
    processes_.push_back(std::make_unique<ProcessSampler>(process, options_, emit_));
    return true;
  }
  void Remove(uint32_t segment, uint32_t serial) override {
    std::erase_if(processes_, [&](const std::unique_ptr<ProcessSampler>& process) {
      if (process->process().segment != segment || process->process().serial != serial) return false;
      process->Forget();
      return true;
    });
  }
  void Arm(Time now) override { governor_.Restart(now); }
  void Disarm() override {
    for (const auto& process : processes_) process->Forget();
  }
  Time Tick(Time due) override {
    const Time now = Clock::now();
    const auto interval = std::chrono::duration_cast<microseconds>(governor_.interval());
    for (const auto& process : processes_) {
      process->Sample(now, interval);
      if (process->ended()) process->Forget();
    }
    std::erase_if(processes_, [](const auto& process) { return process->ended(); });
    governor_.Govern(now);
    Time wanted = now + kLongestPause;
    for (const auto& process : processes_) wanted = std::min(wanted, process->Due(now));
    // Missed ticks are skipped: several samples at one moment would all be equal.
    const Time next = due + intervals_.Next(governor_.interval());
    const Time nearest =
        Clock::now() + std::chrono::duration_cast<Clock::duration>(governor_.interval() * (1 - kSpread));
    return next > Clock::now() ? std::max(next, wanted) : std::max(nearest, wanted);
  }
  void Emit() override {
    for (const auto& process : processes_) process->Emit();
  }
  void End() override { Emit(); }

 private:
  const SamplerOptions options_;
  const EmitFrame emit_;
  RateGovernor governor_;
  RandomInterval intervals_;
  std::vector<std::unique_ptr<ProcessSampler>> processes_;
};

}  // namespace

StackSampler::StackSampler(const SamplerOptions& options, EmitFrame emit)
    : Sampler(std::make_unique<PythonSet>(options, std::move(emit))) {}

}  // namespace tbprof
