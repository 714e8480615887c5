// SPDX-License-Identifier: Apache-2.0
//
// tbprof's use of CUPTI: subscriber, attributes, buffers and activity kinds. Detach undoes the changes of Attach: the
// program finds CUPTI as it would be without tbprof.
//
// Process: target. Called by the start inside cuInit, then by tbprof's own thread; after that thread has ended, by the
// program's thread that calls CUPTI (Suspend). tbprof holds CUPTI (wire/cupti_use.h) in all functions except
// DiscardFilled. A program's thread may be inside a callback of CUPTI at the same time: no lock is held across a call.
#ifndef TBPROF_CUPTI_ACTIVITIES_H_
#define TBPROF_CUPTI_ACTIVITIES_H_

#include <stddef.h>
#include <stdint.h>

namespace tbprof::cupti {

// Registers buffers, sets attributes, and subscribes if the program has no subscriber. False: CUPTI refused the buffers
// or the subscriber; this is reported.
bool Attach();
void Detach();
bool IsAttached();

// False: kernels cannot be recorded.
bool EnableAll();
void DisableAll();
// Reports that unified memory was not recorded, if CUPTI was not ready for it until now.
void ReportUnifiedMemory();
// Call it on tbprof's own thread: CUPTI requires that cuInit has finished.
void EnableUnifiedMemory();

// Reads CUPTI's clock to update the range of valid device times.
void ReadTimeRange();
// Decodes the buffers that CUPTI has completed. Returns their number of bytes.
size_t DecodeFilled();
// Returns, without decoding, the buffers that the program's own recording filled before the program registered its own
// callbacks.
void DiscardFilled();
// Gives unfinished work some time to end, with flushes that are not forced: a forced flush truncates unfinished records
// for good.
void FlushFinished();
// Flushes until CUPTI has returned all of tbprof's buffers: it would deliver them to the program's callback.
void FlushUntilReturned();
void ReportLosses();

}  // namespace tbprof::cupti

#endif  // TBPROF_CUPTI_ACTIVITIES_H_
