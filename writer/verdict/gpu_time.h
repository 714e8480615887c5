// SPDX-License-Identifier: Apache-2.0
//
// What the GPUs of a process do in an interval: kernels, copies, collectives, or nothing.
//
// Process: converter.
#ifndef TBPROF_WRITER_VERDICT_GPU_TIME_H_
#define TBPROF_WRITER_VERDICT_GPU_TIME_H_

#include <cstdint>
#include <set>
#include <vector>

#include "writer/verdict/step_span.h"
#include "writer/verdict/verdict.h"

namespace tbprof {

class GpuTime {
 public:
  GpuTime(const Timeline& timeline, uint32_t process, const std::vector<TimeSpan>& spans);

  bool any() const { return any_; }
  // Adds the GPU time in [start, end) to `parts`. Where activities overlap, kernels win over collectives, and
  // collectives over copies. Idle time is added to kLaunch.
  void Add(int64_t start_ps, int64_t end_ps, std::array<int64_t, kStepParts>* parts) const;
  // Number of GPUs on which kernels ran.
  size_t devices() const { return devices_.size(); }
  // Activities were left out of the timeline: where the GPU is idle is not known. With one GPU, kernels(), kernel_ps()
  // and busy_ps() are the spans' share of the totals.
  bool is_cut() const { return is_cut_; }
  // The numbers below are counted within the spans.
  uint64_t kernels() const { return kernels_; }
  int64_t kernel_ps() const { return kernel_ps_; }        // sum over kernels
  int64_t busy_ps() const { return busy_ps_; }            // union of all GPU activity
  int64_t computing_ps() const { return computing_ps_; }  // union of kernels, without collectives; not if cut
  uint64_t pageable_copies() const { return pageable_copies_; }
  int64_t pageable_ps() const { return pageable_ps_; }
  uint64_t pageable_bytes() const { return pageable_bytes_; }

 private:
  std::vector<TimeSpan> computing_, collecting_, copying_, busy_;  // each in order, disjoint
  std::set<uint32_t> devices_;
  uint64_t kernels_ = 0, pageable_copies_ = 0, pageable_bytes_ = 0;
  int64_t kernel_ps_ = 0, pageable_ps_ = 0, busy_ps_ = 0, computing_ps_ = 0;
  bool any_ = false, is_cut_ = false;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_VERDICT_GPU_TIME_H_
