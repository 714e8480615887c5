// SPDX-License-Identifier: Apache-2.0
//
// tbprof's use of CUPTI: subscriber, attributes, buffers, kinds. What Attach changes, Detach changes back: the program
// finds CUPTI as it would be without us.
//
// Process: target. The start inside cuInit, then tbprof's own thread; CUPTI is held (wire/cupti_use.h) but for
// DiscardFilled. The program may be inside a callback of CUPTI's meanwhile: no lock is held across a call.
#ifndef TBPROF_CUPTI_ACTIVITIES_H_
#define TBPROF_CUPTI_ACTIVITIES_H_

#include <stddef.h>
#include <stdint.h>

namespace tbprof::cupti {

// Buffers and attributes, and a subscriber where the program has none. False: CUPTI refused one of them, which is
// reported.
bool Attach();
void Detach();
bool IsAttached();

// False: kernels cannot be recorded.
bool EnableAll();
void DisableAll();
// That unified memory was not recorded to the end, if it is so.
void ReportUnifiedMemory();
// On tbprof's own thread, as CUPTI requires after cuInit.
void EnableUnifiedMemory();

// Reads CUPTI's clock for what times device work can have.
void ReadTimeRange();
// Records of what CUPTI has handed over; how many bytes that was.
size_t DecodeFilled();
// Buffers that the program's own recording filled before it registered its own, without a request.
void DiscardFilled();
// A forced flush cuts what has not ended, for good: first the rest has some time to come by itself.
void FlushFinished();
// Until CUPTI has none of our buffers, which it would hand to the program.
void FlushUntilReturned();
void ReportLosses();

}  // namespace tbprof::cupti

#endif  // TBPROF_CUPTI_ACTIVITIES_H_
