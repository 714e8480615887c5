// SPDX-License-Identifier: Apache-2.0
//
// The simulated CUPTI: what its three sources share.
//
//   cupti_entry.cc    the exported functions: subscribers, callbacks, which kinds are on
//   cupti_records.cc  from the engine's events to records of the generation that the version has
//   cupti_buffers.cc  the client's buffers: requested, filled, given back
#ifndef TBPROF_TESTS_SIM_CUPTI_H_
#define TBPROF_TESTS_SIM_CUPTI_H_

#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <cupti_driver_cbid.h>
#include <cupti_runtime_cbid.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tests/sim/lock.h"
#include "tests/sim/tools.h"

namespace tbprof::sim::cupti {

constexpr uint32_t kKinds = 64;
constexpr uint32_t kCallbacks = 1024;
constexpr uint32_t kUnknownKind = 213;  // of unknown_kind: 48 bytes

uint32_t Version();
bool AtLeast(uint32_t version);

// ---- the driver (cupti_entry.cc)

const Table* TheTable();  // null without a driver of ours

// ---- what is on (cupti_entry.cc)

bool KindOn(uint32_t kind);
bool CallRecorded(Domain domain, uint32_t cbid);
bool LatencyTimestamps();
bool SystemThreadIds();

// ---- clocks (cupti_records.cc)

// The clock of all records: CLOCK_REALTIME, or what the client has registered.
uint64_t Timestamp();
uint64_t ToTimestamp(int64_t engine_time);
void RefreshClock();
// A length of time in the clock of the records.
uint64_t InTimestamps(int64_t ns);
// The kernels' kind was turned on.
void BeginKernels();
void SetTimestampCallback(CUpti_TimestampCallbackFunc callback);

// ---- records (cupti_records.cc)

void RecordCall(const ApiCall& call, uint64_t start, uint64_t end);
void RecordExternal(uint32_t correlation);
void RecordWork(const Work& work);
void RecordSynchronization(const Synchronization& event);
void RecordMemory(const MemoryEvent& event);
void RecordUnified(const UnifiedEvent& event);
// Nothing is counted that was not configured.
void ConfigureUnified(uint32_t counter, bool on);
void RecordOverhead(const Overhead& event);
void RecordResource(const ResourceEvent& event);
void RecordDevice(int ordinal);
CUptiResult PushExternal(CUpti_ExternalCorrelationKind kind, uint64_t id);
CUptiResult PopExternal(CUpti_ExternalCorrelationKind kind, uint64_t* id);
// 0 when no record of that kind is known.
size_t RecordSize(uint32_t kind);

// ---- buffers (cupti_buffers.cc)

void SetCallbacks(CUpti_BuffersCallbackRequestFunc request, CUpti_BuffersCallbackCompleteFunc complete);
bool HaveCallbacks();
void SetPerThread(bool on);
bool PerThread();
void SetZeroed(bool on);
bool Zeroed();
// complete_at: when the record is final, in the engine's time; 0 for at once.
void Append(const void* record, size_t size, int64_t complete_at);
void Flush(bool forced);
void SetPeriod(uint32_t milliseconds);
uint32_t TakeDropped();
void ResetBuffers();

}  // namespace tbprof::sim::cupti

#endif  // TBPROF_TESTS_SIM_CUPTI_H_
