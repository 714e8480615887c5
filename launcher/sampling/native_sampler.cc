// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/native_sampler.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "launcher/sampling/native_process.h"
#include "launcher/sampling/rate_governor.h"

namespace tbprof {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using Clock = std::chrono::steady_clock;

// New threads are found at the next tick, but each wake costs as much as a sample. A thread's buffer holds 15 samples,
// or 3 if the user may lock only little memory.
constexpr milliseconds kLongestTick(20);
constexpr milliseconds kShortestTick(1);
constexpr int kPeriodsPerTick = 2;
constexpr int kNice = 5;
constexpr uint32_t kMaxEvents = 2048;  // 77 MB of buffers

nanoseconds PeriodOf(uint32_t rate) { return nanoseconds(1'000'000'000 / std::clamp<uint32_t>(rate, 1, 10'000)); }

// A quarter of the descriptor limit: segments need descriptors, too.
uint32_t MaxEvents() {
  rlimit descriptors{};
  if (getrlimit(RLIMIT_NOFILE, &descriptors) != 0) return 256;
  return static_cast<uint32_t>(std::min<rlim_t>(descriptors.rlim_cur / 4, kMaxEvents));
}

class NativeSet final : public SampledSet {
 public:
  NativeSet(const SamplerOptions& options, EmitFrame emit)
      : options_(options), emit_(std::move(emit)), governor_(PeriodOf(options.rate), options.max_cpu_share) {}

  void Begin() override {
    pthread_setname_np(pthread_self(), "tbprof-native");
    setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kNice);
    shared_ = std::make_unique<NativeShared>(options_.clock);
    shared_->max_events = MaxEvents();
    shared_->max_switches = options_.max_switches;
  }
  bool empty() const override { return processes_.empty(); }
  bool Add(const SampledProcess& process) override {
    processes_.push_back(std::make_unique<NativeTarget>(process, shared_.get(), emit_));
    if (armed_) processes_.back()->Start(PeriodNs());
    return false;
  }
  void Remove(uint32_t segment, uint32_t serial) override {
    std::erase_if(processes_, [&](const std::unique_ptr<NativeTarget>& process) {
      if (process->process().segment != segment || process->process().serial != serial) return false;
      process->Stop();
      return true;
    });
  }
  void Arm(Time now) override {
    armed_ = true;
    governor_.Restart(now);
    for (const auto& process : processes_) process->Start(PeriodNs());
  }
  void Disarm() override {
    armed_ = false;
    for (const auto& process : processes_) process->Stop();
  }
  Time Tick(Time due) override {
    shared_->clock.Update();
    const Time now = Clock::now();
    for (const auto& process : processes_) process->Take(now);
    std::erase_if(processes_, [](const auto& process) { return process->ended(); });
    if (governor_.Govern(now)) {
      for (const auto& process : processes_) process->SetPeriod(PeriodNs());
    }
    const auto tick = std::clamp<nanoseconds>(governor_.interval() * kPeriodsPerTick, kShortestTick, kLongestTick);
    return std::max(due + std::chrono::duration_cast<Clock::duration>(tick), Clock::now());
  }
  // What the kernel has sampled since the last tick is among it.
  void Emit() override {
    if (armed_) Tick(Clock::now());
    for (const auto& process : processes_) process->Emit();
  }
  void End() override {
    if (armed_) Tick(Clock::now());
    for (const auto& process : processes_) process->Stop();
    processes_.clear();
    shared_.reset();
  }

 private:
  uint64_t PeriodNs() const { return static_cast<uint64_t>(governor_.interval().count()); }

  const SamplerOptions options_;
  const EmitFrame emit_;
  bool armed_ = false;
  RateGovernor governor_;
  std::unique_ptr<NativeShared> shared_;
  std::vector<std::unique_ptr<NativeTarget>> processes_;
};

}  // namespace

NativeSampler::NativeSampler(const SamplerOptions& options, EmitFrame emit)
    : Sampler(std::make_unique<NativeSet>(options, std::move(emit))) {}

}  // namespace tbprof
