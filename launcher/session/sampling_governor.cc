// SPDX-License-Identifier: Apache-2.0
#include "launcher/session/sampling_governor.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace tbprof {
namespace {

constexpr double kMinuteNs = 60e9;
// The share of the rate that is reserved for samples.
constexpr double kLeastShare = 1.0 / 8;
constexpr uint64_t kMostThinning = 65536;
// From this thinning on a sample has half the stack, which allows twice as many samples.
constexpr uint64_t kHalfStackFrom = 4;
// The least time between two changes: after it the totals show the effect of the last one.
constexpr uint64_t kSettleNs = 2'000'000'000;
// The thinning is halved only after half of it has sufficed for this time: the phases of a program differ.
constexpr uint64_t kQuietNs = 20'000'000'000;

}  // namespace

SamplingGovernor::SamplingGovernor(uint64_t interval, uint64_t bytes_per_minute)
    : base_interval_(interval),
      bytes_per_ns_(static_cast<double>(bytes_per_minute) / kMinuteNs),
      most_credit_(static_cast<double>(bytes_per_minute)),
      credit_(most_credit_) {
  sampling_.interval = interval;
}

void SamplingGovernor::SetThinning(uint64_t thinning) {
  thinning_ = thinning;
  const bool half = thinning >= kHalfStackFrom;
  sampling_.stack_bytes = half ? kSnapshotBytes / 2 : kSnapshotBytes;
  sampling_.interval = base_interval_ * (half ? thinning / 2 : thinning);
}

bool SamplingGovernor::Update(uint64_t now_ns, uint64_t sample_bytes, uint64_t all_bytes) {
  if (bytes_per_ns_ <= 0) return false;
  if (last_ns_ == 0 || now_ns <= last_ns_) {
    if (last_ns_ == 0) last_ns_ = changed_ns_ = now_ns;
    return false;
  }
  const auto passed = static_cast<double>(now_ns - last_ns_);
  const auto samples = static_cast<double>(sample_bytes - last_samples_);
  const auto others = std::max(static_cast<double>(all_bytes - last_all_) - samples, 0.0);
  last_ns_ = now_ns;
  last_samples_ = sample_bytes;
  last_all_ = all_bytes;
  credit_ = std::clamp(credit_ + bytes_per_ns_ * passed - samples - others, -most_credit_, most_credit_);
  if (now_ns - changed_ns_ < kSettleNs) return false;

  const double allowed = std::max(bytes_per_ns_ * passed - others, kLeastShare * bytes_per_ns_ * passed);
  const double wanted = samples * static_cast<double>(thinning_) / allowed;
  const uint64_t needed =
      std::bit_ceil(static_cast<uint64_t>(std::clamp(std::ceil(wanted), 1.0, static_cast<double>(kMostThinning))));
  if (needed * 2 > thinning_) {
    quiet_since_ns_ = 0;
  } else if (quiet_since_ns_ == 0) {
    quiet_since_ns_ = now_ns;
  }
  uint64_t thinning = thinning_;
  if (needed > thinning_ && credit_ < most_credit_ / 2) thinning = needed;
  if (quiet_since_ns_ != 0 && now_ns - quiet_since_ns_ >= kQuietNs) {
    thinning = thinning_ / 2;
    quiet_since_ns_ = 0;
  }
  if (thinning == thinning_) return false;
  changed_ns_ = now_ns;
  SetThinning(thinning);
  return true;
}

}  // namespace tbprof
