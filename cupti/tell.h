// SPDX-License-Identifier: Apache-2.0
//
// How recording goes: records of kind kGpuInfo, and the state that the launcher shows.
//
// Process: target. The start inside cuInit, then tbprof's own thread.
#ifndef TBPROF_CUPTI_TELL_H_
#define TBPROF_CUPTI_TELL_H_

#include "cupti/cupti_abi.h"
#include "cupti/recorder_state.h"

namespace tbprof::cupti {

void TellAt(uint64_t ticks, GpuInfoKey key, const char* text, uint32_t length);
void Tell(GpuInfoKey key, const char* text);
template <uint32_t size>
void Tell(GpuInfoKey key, const Text<size>& text) {
  TellAt(ReadTicks(g_recorder.session.clock), key, text.get(), text.length());
}

void SetState(GpuState state);
bool MayObserve();  // hooks are allowed in this session

// Nothing is recorded, or not by CUPTI. `result`: kSuccess: no call of CUPTI failed.
void TellUnavailable(const char* what, Result result);
// One activity is not recorded.
void TellMissing(const char* name, Result result);
// What a flush came to: once, if it failed.
void TellFlush(Result result);
// So many bytes of a buffer could not be read.
void TellUnread(size_t bytes, Result result);
void TellRecording();
// While it is for the program, also what is left of its use of CUPTI, whenever that has changed.
void TellPaused(const char* why);

}  // namespace tbprof::cupti

#endif  // TBPROF_CUPTI_TELL_H_
