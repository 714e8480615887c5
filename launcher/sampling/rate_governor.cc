// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/rate_governor.h"

#include <unistd.h>

#include <algorithm>

#include "wire/raw.h"

namespace tbprof {
namespace {

constexpr std::chrono::milliseconds kGoverningInterval(1000), kSoonest(250);
constexpr double kFarTooMuch = 4, kLargestFactor = 16;
constexpr std::chrono::nanoseconds kSlowest(1'000'000'000);
constexpr double kFewToRaise = 0.4;

}  // namespace

void RateGovernor::Restart(Time now) {
  since_ = now;
  cpu_ns_ = static_cast<int64_t>(raw::ThreadCpuNs());
}

bool RateGovernor::Govern(Time now) {
  if (now - since_ < (at_once_ ? kSoonest : kGoverningInterval)) return false;
  const int64_t used_ns = static_cast<int64_t>(raw::ThreadCpuNs()) - cpu_ns_;
  const double elapsed_ns = std::chrono::duration<double, std::nano>(now - since_).count();
  const double share = static_cast<double>(used_ns) / elapsed_ns / static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN));
  // Far too much is lowered at once.
  const double factor = at_once_ && max_share_ > 0 ? std::clamp(share / max_share_, 2.0, kLargestFactor) : 2;
  if (now - since_ < kGoverningInterval && factor < kFarTooMuch) return false;
  if (share > max_share_) {
    const auto lowered = static_cast<int64_t>(static_cast<double>(interval_.count()) * factor);
    interval_ = std::min(std::chrono::nanoseconds(lowered), std::max(kSlowest, wanted_));
  } else if (share < max_share_ * kFewToRaise) {
    interval_ = std::max(interval_ / 2, wanted_);
  }
  Restart(now);
  return true;
}

}  // namespace tbprof
