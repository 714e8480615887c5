// SPDX-License-Identifier: Apache-2.0
//
// How recording goes: records of kind kGpuInfo, and the state that the launcher shows.
//
// Process: target. The start inside cuInit, then tbprof's own thread.
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

// Nothing is recorded, or not by CUPTI. `result`: kSuccess: no call of CUPTI failed.
void ReportUnavailable(const char* what, Result result);
// One activity is not recorded.
void ReportMissing(const char* name, Result result);
// What a flush came to: once, if it failed.
void ReportFlush(Result result);
// So many bytes of a buffer could not be read.
void ReportUnread(size_t bytes, Result result);
void ReportRecording();
// While it is for the program, also what is left of its use of CUPTI, whenever that has changed.
void ReportPaused(const char* why);

}  // namespace tbprof::cupti

#endif  // TBPROF_CUPTI_REPORT_H_
