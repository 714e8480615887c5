// SPDX-License-Identifier: Apache-2.0
//
// The response to kernels without valid times: restart the recording; after kMost restarts, record only in windows.
//
//   if (invalid) switch (restarts.OnInvalidTimes()) {...}
//   if (!restarts.MayRecord(header->gpu_windows)) stop();
//
// Process: target, tbprof's own thread.
#ifndef TBPROF_CUPTI_RESTARTS_H_
#define TBPROF_CUPTI_RESTARTS_H_

#include <stdint.h>

#include "wire/layout.h"

namespace tbprof::cupti {

class Restarts {
 public:
  static constexpr uint32_t kMost = 8;
  enum class Answer { kNothing, kRestart, kLimit };

  // After kMost restarts the recording goes on until the end of the window: work and bytes are still counted, as the
  // user requested.
  Answer OnInvalidTimes() {
    if (count_ < kMost) {
      ++count_;
      return Answer::kRestart;
    }
    if (limited_) return Answer::kNothing;
    limited_ = true;
    return Answer::kLimit;
  }

  // `windows`: SegmentHeader::gpu_windows. False: recording is limited to windows, and none is open.
  bool MayRecord(uint32_t windows) {
    if (windows != windows_) {
      windows_ = windows;
      // Each window has its own restarts.
      if (limited_ && (windows & kGpuWindowOpen) != 0) count_ = 0;
    }
    return !limited_ || (windows & kGpuWindowOpen) != 0;
  }

  // Nothing is recorded now: the next window enables the kinds anew.
  void OnDisarmed() {
    count_ = 0;
    limited_ = false;
  }

 private:
  uint32_t count_;
  uint32_t windows_;
  bool limited_;
};

}  // namespace tbprof::cupti

#endif  // TBPROF_CUPTI_RESTARTS_H_
