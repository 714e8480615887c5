// SPDX-License-Identifier: Apache-2.0
//
// Reports on the recording: records of kind kGpuInfo, and the state that the launcher shows.
//
// Process: target. Called by the start inside cuInit, then by tbprof's own thread.
#ifndef TBPROF_CUPTI_REPORT_H_
#define TBPROF_CUPTI_REPORT_H_

#include "cupti/cupti_abi.h"
#include "cupti/recorder_state.h"

namespace tbprof::cupti {

void ReportAt(uint64_t ticks, GpuInfoKey key, const char* text, uint32_t length);
void Report(GpuInfoKey key, const char* text);
template <uint32_t size>
void Report(GpuInfoKey key, const Text<size>& text) {
  ReportAt(ReadTicks(g_recorder.session.clock), key, text.get(), text.length());
}

void SetState(GpuState state);
bool MayObserve();  // hooks are allowed in this session

// Nothing is recorded, or hooks record instead of CUPTI. `result` kSuccess: no CUPTI call failed.
void ReportUnavailable(const char* what, Result result);
// One activity is not recorded.
void ReportMissing(const char* name, Result result);
// Reports the first flush that failed.
void ReportFlush(Result result);
// `bytes` bytes of buffers could not be read.
void ReportUnread(size_t bytes, Result result);
void ReportRecording();
// If `why` is kAside, also reports how the program still uses CUPTI, whenever that has changed.
void ReportPaused(const char* why);

}  // namespace tbprof::cupti

#endif  // TBPROF_CUPTI_REPORT_H_
