// SPDX-License-Identifier: Apache-2.0
//
// Adapts the interval of allocator samples and the stack size of a sample, so that raw records stay below a rate: a
// training that allocates 500 MB/s would write 500 MiB of stacks a minute. Estimates stay unbiased: each sample is
// weighted with the mean distance that was in effect for it.
//
//   SamplingGovernor governor(512 << 10, 100 << 20);
//   if (governor.Update(now_ns, sample_bytes, all_bytes)) SetSampling(governor.sampling());
//
// The bytes of one minute may be written at any speed, so that short programs are sampled at the requested interval.
// Records of other kinds count too, but an eighth of the rate is always reserved for samples.
//
// Process: launcher, main thread. No system calls.
#ifndef TBPROF_LAUNCHER_SESSION_SAMPLING_GOVERNOR_H_
#define TBPROF_LAUNCHER_SESSION_SAMPLING_GOVERNOR_H_

#include <cstdint>

#include "wire/records.h"

namespace tbprof {

struct Sampling {
  uint64_t interval = 0;                  // mean bytes allocated between two samples
  uint32_t stack_bytes = kSnapshotBytes;  // most bytes of stack in a sample
};

class SamplingGovernor {
 public:
  // `bytes_per_minute` 0: sampling never changes.
  SamplingGovernor(uint64_t interval, uint64_t bytes_per_minute);

  // Takes totals since the start; to be called about once a second. True: sampling() has changed.
  bool Update(uint64_t now_ns, uint64_t sample_bytes, uint64_t all_bytes);
  const Sampling& sampling() const { return sampling_; }

 private:
  // 1: the requested sampling; each doubling halves the bytes of samples.
  void SetThinning(uint64_t thinning);

  const uint64_t base_interval_;
  const double bytes_per_ns_, most_credit_;
  double credit_;
  Sampling sampling_;
  uint64_t thinning_ = 1;
  uint64_t last_ns_ = 0, last_samples_ = 0, last_all_ = 0;
  uint64_t changed_ns_ = 0;      // when thinning_ changed
  uint64_t quiet_since_ns_ = 0;  // since when half the thinning suffices; 0: it does not
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SESSION_SAMPLING_GOVERNOR_H_
