// SPDX-License-Identifier: Apache-2.0
//
// From the engine's events to records. Structures only ever grew at their tail: the newest one of the headers is
// filled, and as much of it written as the version that is played has.
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "tests/sim/cupti.h"
#include "tests/sim/modes.h"

namespace tbprof::sim::cupti {
namespace {

// ---- which generation

int KernelGeneration() {
  static const int generation = [] {
    if (mode::generation() != 0) return static_cast<int>(mode::generation());
    const uint32_t v = Version();
    return v >= 130000 ? 10 : v >= 18 ? 9 : v >= 17 ? 8 : v >= 16 ? 7 : v >= 15 ? 6 : v >= 13 ? 5 : 4;
  }();
  return generation;
}

size_t KernelSize() {
  switch (KernelGeneration()) {
    case 4:
      return sizeof(CUpti_ActivityKernel4);
    case 5:
      return sizeof(CUpti_ActivityKernel5);
    case 6:
      return sizeof(CUpti_ActivityKernel6);
    case 7:
      return sizeof(CUpti_ActivityKernel7);
    case 8:
      return sizeof(CUpti_ActivityKernel8);
    case 9:
      return sizeof(CUpti_ActivityKernel9);
    default:
      return sizeof(CUpti_ActivityKernel10);
  }
}

// CUDA 12.8 gave copies their last field, without a new kernel record.
bool CopiesHaveCount() { return mode::generation() != 0 ? mode::generation() >= 10 : AtLeast(26); }

size_t CopySize() {
  if (CopiesHaveCount()) return sizeof(CUpti_ActivityMemcpy6);
  switch (KernelGeneration()) {
    case 4:
      return sizeof(CUpti_ActivityMemcpy);
    case 5:
    case 6:
      return sizeof(CUpti_ActivityMemcpy4);
    default:
      return sizeof(CUpti_ActivityMemcpy5);
  }
}

size_t PeerCopySize() {
  switch (KernelGeneration()) {
    case 4:
      return sizeof(CUpti_ActivityMemcpyPtoP);
    case 5:
    case 6:
      return sizeof(CUpti_ActivityMemcpyPtoP3);
    default:
      return sizeof(CUpti_ActivityMemcpyPtoP4);
  }
}

size_t SetSize() {
  switch (KernelGeneration()) {
    case 4:
      return sizeof(CUpti_ActivityMemset);
    case 5:
    case 6:
      return sizeof(CUpti_ActivityMemset3);
    default:
      return sizeof(CUpti_ActivityMemset4);
  }
}

size_t ByVersion(uint32_t second, size_t first_size, size_t second_size) {
  return AtLeast(second) ? second_size : first_size;
}

size_t OverheadSize() {
  if (AtLeast(22)) return sizeof(CUpti_ActivityOverhead3);
  return ByVersion(20, sizeof(CUpti_ActivityOverhead), sizeof(CUpti_ActivityOverhead2));
}

size_t MemorySize() {
  if (AtLeast(24)) return sizeof(CUpti_ActivityMemory4);
  return ByVersion(16, sizeof(CUpti_ActivityMemory2), sizeof(CUpti_ActivityMemory3));
}

size_t PoolSize() {
  if (AtLeast(130000)) return sizeof(CUpti_ActivityMemoryPool3);
  return ByVersion(16, sizeof(CUpti_ActivityMemoryPool), sizeof(CUpti_ActivityMemoryPool2));
}

size_t ContextSize() {
  if (AtLeast(24)) return sizeof(CUpti_ActivityContext3);
  return ByVersion(22, sizeof(CUpti_ActivityContext), sizeof(CUpti_ActivityContext2));
}

// ---- clocks

std::atomic<CUpti_TimestampCallbackFunc> timestamp_callback{nullptr};
std::atomic<double> clock_rate{1};  // of the registered clock, in a nanosecond
std::atomic<int64_t> offset{0};     // from the engine's clock to that of the records
std::atomic<int64_t> offset_age{0};
constexpr int64_t kRefreshNs = 200000000;

int64_t StepNs() {
  static const int64_t step = mode::clock_step_ms() * 1000000;
  return step;
}

int64_t StepAt() {
  static const int64_t at = Now() + mode::clock_step_after_ms() * 1000000;
  return at;
}

uint64_t Realtime() {
  timespec time;
  clock_gettime(CLOCK_REALTIME, &time);
  uint64_t now = static_cast<uint64_t>(time.tv_sec) * 1000000000u + static_cast<uint64_t>(time.tv_nsec);
  if (StepNs() != 0 && Now() >= StepAt()) now += static_cast<uint64_t>(StepNs());
  return now;
}

// Between 12.6 U2 and 13.0 a registered clock left kernels without times.
bool CallbackZeroesTimes() {
  if (timestamp_callback.load(std::memory_order_relaxed) == nullptr) return false;
  const int64_t wanted = mode::timestamp_callback_zeroes();
  if (wanted >= 0) return wanted != 0;
  return Version() >= 24 && Version() < 130100;
}

bool LosesTimes() {
  static const auto every = static_cast<uint64_t>(mode::zero_times());
  static std::atomic<uint64_t> count{0};
  if (every != 0 && (count.fetch_add(1) + 1) % every == 0) return true;
  return CallbackZeroesTimes();
}

// ---- threads

uint32_t ThreadId() {
  static thread_local uint32_t system_id = 0;
  if (!SystemThreadIds()) return static_cast<uint32_t>(pthread_self());
  if (system_id == 0) system_id = static_cast<uint32_t>(syscall(SYS_gettid));
  return system_id;
}

uint32_t ProcessId() {
  static const auto id = static_cast<uint32_t>(getpid());
  return id;
}

struct External {
  uint32_t kind;
  uint64_t id;
};

std::vector<External>& Externals() {
  static thread_local auto* stack = new std::vector<External>;
  return *stack;
}
// Most threads never push one.
thread_local uint32_t externals = 0;

// ---- device work

std::atomic<int64_t> kernels_since_enabled{0}, kernels_enabled{0};

bool HasBadTimes() {
  static const int64_t after = mode::bad_times_after(), turns = mode::bad_times_turns();
  if (after == 0 || (turns != 0 && kernels_enabled.load() > turns)) return false;
  return kernels_since_enabled.fetch_add(1) >= after;
}

// What the records of all work share.
template <typename Record>
void SetWork(Record* record, const Work& work) {
  if (!LosesTimes()) {
    // Converted one by one, the second may be by a later reading of the clock, and before the first.
    record->start = ToTimestamp(work.start);
    record->end = record->start + InTimestamps(work.end - work.start);
  }
  record->deviceId = work.device;
  record->contextId = work.context;
  record->streamId = work.stream;
  record->correlationId = work.correlation;
  record->graphId = work.graph;
}

// What the records of a single node share.
template <typename Record>
void SetNode(Record* record, const Work& work, CUpti_ChannelType channel) {
  SetWork(record, work);
  record->graphNodeId = work.graph_node;
  record->channelID = work.channel;
  record->channelType = channel;
}

void RecordKernel(const Work& work) {
  CUpti_ActivityKernel10 record;
  memset(&record, 0, sizeof(record));
  const auto& kernel = work.kernel;
  record.kind = KindOn(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) ? CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL
                                                              : CUPTI_ACTIVITY_KIND_KERNEL;
  record.registersPerThread = kernel.registers;
  SetNode(&record, work, CUPTI_CHANNEL_TYPE_COMPUTE);
  if (HasBadTimes()) {
    if (mode::bad_times_far() != 0) record.start = uint64_t{1} << 63;
    record.end = mode::bad_times_far() != 0 ? record.start : record.start - 1000;
  }
  record.completed = record.end;
  if (record.end != 0 && LatencyTimestamps()) {
    record.queued = ToTimestamp(work.queued);
    record.submitted = ToTimestamp(work.submitted);
  }
  record.gridX = static_cast<int32_t>(kernel.grid[0]);
  record.gridY = static_cast<int32_t>(kernel.grid[1]);
  record.gridZ = static_cast<int32_t>(kernel.grid[2]);
  record.blockX = static_cast<int32_t>(kernel.block[0]);
  record.blockY = static_cast<int32_t>(kernel.block[1]);
  record.blockZ = static_cast<int32_t>(kernel.block[2]);
  record.staticSharedMemory = static_cast<int32_t>(kernel.static_shared);
  record.dynamicSharedMemory = static_cast<int32_t>(kernel.dynamic_shared);
  record.gridId = kernel.grid_id;
  record.name = kernel.name;
  record.launchType = kernel.launch_type;
  record.sharedMemoryExecuted = 32768;
  record.clusterX = kernel.cluster[0];
  record.clusterY = kernel.cluster[1];
  record.clusterZ = kernel.cluster[2];
  Append(&record, KernelSize(), work.end);
}

void RecordCopy(const Work& work) {
  const auto& copy = work.copy;
  const auto set = [&](auto* record, CUpti_ActivityKind kind) {
    memset(record, 0, sizeof(*record));
    record->kind = kind;
    record->copyKind = copy.kind;
    record->srcKind = copy.source;
    record->dstKind = copy.destination;
    record->flags = copy.asynchronous ? CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC : 0;
    record->bytes = copy.bytes;
    SetNode(record, work, CUPTI_CHANNEL_TYPE_ASYNC_MEMCPY);
  };
  if (copy.kind == CUPTI_ACTIVITY_MEMCPY_KIND_PTOP) {
    if (!KindOn(CUPTI_ACTIVITY_KIND_MEMCPY2)) return;
    CUpti_ActivityMemcpyPtoP4 record;
    set(&record, CUPTI_ACTIVITY_KIND_MEMCPY2);
    record.srcDeviceId = copy.source_device;
    record.srcContextId = copy.source_context;
    record.dstDeviceId = copy.destination_device;
    record.dstContextId = copy.destination_context;
    Append(&record, PeerCopySize(), work.end);
    return;
  }
  if (!KindOn(CUPTI_ACTIVITY_KIND_MEMCPY)) return;
  CUpti_ActivityMemcpy6 record;
  set(&record, CUPTI_ACTIVITY_KIND_MEMCPY);
  record.runtimeCorrelationId = work.correlation;
  record.copyCount = copy.count;
  Append(&record, CopySize(), work.end);
}

void RecordSet(const Work& work) {
  const auto& set = work.set;
  CUpti_ActivityMemset4 record;
  memset(&record, 0, sizeof(record));
  record.kind = CUPTI_ACTIVITY_KIND_MEMSET;
  record.value = set.value;
  record.bytes = set.bytes;
  SetNode(&record, work, CUPTI_CHANNEL_TYPE_COMPUTE);
  record.flags = set.asynchronous ? CUPTI_ACTIVITY_FLAG_MEMSET_ASYNC : 0;
  record.memoryKind = set.memory;
  Append(&record, SetSize(), work.end);
}

void RecordGraph(const Work& work) {
  CUpti_ActivityGraphTrace2 record;
  memset(&record, 0, sizeof(record));
  record.kind = CUPTI_ACTIVITY_KIND_GRAPH_TRACE;
  SetWork(&record, work);
  record.endDeviceId = work.device;
  record.endContextId = work.context;
  Append(&record, RecordSize(CUPTI_ACTIVITY_KIND_GRAPH_TRACE), work.end);
}

void RecordEvent(const Work& work) {
  CUpti_ActivityCudaEvent2 record;
  memset(&record, 0, sizeof(record));
  record.kind = CUPTI_ACTIVITY_KIND_CUDA_EVENT;
  record.correlationId = work.correlation;
  record.contextId = work.context;
  record.streamId = work.stream;
  record.eventId = work.event.id;
  record.deviceId = work.device;
  record.deviceTimestamp = 0;
  record.cudaEventSyncId = work.event.sync_id;
  Append(&record, RecordSize(CUPTI_ACTIVITY_KIND_CUDA_EVENT), work.end);
}

}  // namespace

size_t RecordSize(uint32_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return KernelSize();
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return CopySize();
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      return PeerCopySize();
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return SetSize();
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER:
      return sizeof(CUpti_ActivityAPI);
    case CUPTI_ACTIVITY_KIND_OVERHEAD:
      return OverheadSize();
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      return ByVersion(26, sizeof(CUpti_ActivitySynchronization), sizeof(CUpti_ActivitySynchronization2));
    case CUPTI_ACTIVITY_KIND_CUDA_EVENT:
      return ByVersion(26, sizeof(CUpti_ActivityCudaEvent), sizeof(CUpti_ActivityCudaEvent2));
    case CUPTI_ACTIVITY_KIND_MEMORY2:
      return MemorySize();
    case CUPTI_ACTIVITY_KIND_MEMORY_POOL:
      return PoolSize();
    case CUPTI_ACTIVITY_KIND_DEVICE:
      return ByVersion(24, sizeof(CUpti_ActivityDevice4), sizeof(CUpti_ActivityDevice5));
    case CUPTI_ACTIVITY_KIND_CONTEXT:
      return ContextSize();
    case CUPTI_ACTIVITY_KIND_STREAM:
      return sizeof(CUpti_ActivityStream);
    case CUPTI_ACTIVITY_KIND_NAME:
      return sizeof(CUpti_ActivityName);
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
      return ByVersion(20, sizeof(CUpti_ActivityGraphTrace), sizeof(CUpti_ActivityGraphTrace2));
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
      return sizeof(CUpti_ActivityExternalCorrelation);
    case CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER:
      return ByVersion(26, sizeof(CUpti_ActivityUnifiedMemoryCounter2), sizeof(CUpti_ActivityUnifiedMemoryCounter3));
    case CUPTI_ACTIVITY_KIND_MARKER:
      return sizeof(CUpti_ActivityMarker2);
    case kUnknownKind:
      return mode::unknown_kind() != 0 ? 48 : 0;
    default:
      return 0;
  }
}

// ---- clocks

// Keeps the narrowest of some readings: a thread that loses its CPU between two clocks reads a difference that is wrong
// by that time.
void RefreshClock() {
  int64_t difference = 0, after = 0, width = INT64_MAX;
  for (int i = 0; i < 16 && width > 5'000; ++i) {
    const int64_t before = Now();
    const auto there = static_cast<int64_t>(Timestamp());
    const int64_t now = Now();
    if (now - before >= width) continue;
    width = now - before;
    after = now;
    difference = there - (before + width / 2);
  }
  // The step belongs to the time of the work, not to the time of the conversion.
  if (StepNs() != 0 && timestamp_callback.load() == nullptr && after >= StepAt()) difference -= StepNs();
  offset.store(difference);
  offset_age.store(after);
}

uint64_t Timestamp() {
  const auto callback = timestamp_callback.load(std::memory_order_relaxed);
  return callback != nullptr ? callback() : Realtime();
}

void BeginKernels() {
  kernels_since_enabled.store(0);
  kernels_enabled.fetch_add(1);
}

// A registered clock need not count nanoseconds: the counter of the CPU does not.
uint64_t InTimestamps(int64_t ns) {
  const double rate = clock_rate.load(std::memory_order_relaxed);
  return rate == 1 ? static_cast<uint64_t>(ns) : static_cast<uint64_t>(static_cast<double>(ns) * rate);
}

uint64_t ToTimestamp(int64_t engine_time) {
  if (clock_rate.load(std::memory_order_relaxed) != 1) {
    const int64_t now = Now();
    const auto there = static_cast<double>(Timestamp());
    return static_cast<uint64_t>(there + static_cast<double>(engine_time - now) * clock_rate.load());
  }
  const int64_t now = Now();
  if (now - offset_age.load(std::memory_order_relaxed) > kRefreshNs) RefreshClock();
  int64_t time = engine_time + offset.load(std::memory_order_relaxed);
  if (StepNs() != 0 && timestamp_callback.load() == nullptr && engine_time >= StepAt()) time += StepNs();
  return static_cast<uint64_t>(time);
}

void SetTimestampCallback(CUpti_TimestampCallbackFunc callback) {
  const int64_t begun = Now();
  const uint64_t first = callback();
  WaitUntil(begun + 20'000'000);
  const uint64_t second = callback();
  const double rate = static_cast<double>(second - first) / static_cast<double>(Now() - begun);
  clock_rate.store(rate > 0.99 && rate < 1.01 ? 1 : rate);
  timestamp_callback.store(callback);
  RefreshClock();
}

// ---- calls

void RecordCall(const ApiCall& call, uint64_t start, uint64_t end) {
  CUpti_ActivityAPI record;
  memset(&record, 0, sizeof(record));
  record.kind = call.domain == Domain::kRuntime ? CUPTI_ACTIVITY_KIND_RUNTIME : CUPTI_ACTIVITY_KIND_DRIVER;
  record.cbid = call.cbid;
  record.start = start;
  record.end = end;
  record.processId = ProcessId();
  record.threadId = ThreadId();
  record.correlationId = call.correlation;
  record.returnValue = call.result_value;
  Append(&record, sizeof(record), 0);
}

CUptiResult PushExternal(CUpti_ExternalCorrelationKind kind, uint64_t id) {
  if (kind <= 0 || kind >= CUPTI_EXTERNAL_CORRELATION_KIND_SIZE) return CUPTI_ERROR_INVALID_PARAMETER;
  Externals().push_back({static_cast<uint32_t>(kind), id});
  ++externals;
  return CUPTI_SUCCESS;
}

CUptiResult PopExternal(CUpti_ExternalCorrelationKind kind, uint64_t* id) {
  if (kind <= 0 || kind >= CUPTI_EXTERNAL_CORRELATION_KIND_SIZE) return CUPTI_ERROR_INVALID_PARAMETER;
  auto& stack = Externals();
  const auto found = std::find_if(stack.rbegin(), stack.rend(),
                                  [kind](const External& one) { return one.kind == static_cast<uint32_t>(kind); });
  if (found == stack.rend()) return CUPTI_ERROR_QUEUE_EMPTY;
  if (id != nullptr) *id = found->id;
  stack.erase(std::next(found).base());
  --externals;
  return CUPTI_SUCCESS;
}

// One record for each kind that has something pushed: its last id.
void RecordExternal(uint32_t correlation) {
  if (externals == 0 || !KindOn(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION)) return;
  uint32_t seen = 0;
  const auto& stack = Externals();
  for (auto it = stack.rbegin(); it != stack.rend(); ++it) {
    if ((seen & (1u << it->kind)) != 0) continue;
    seen |= 1u << it->kind;
    CUpti_ActivityExternalCorrelation record;
    memset(&record, 0, sizeof(record));
    record.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
    record.externalKind = static_cast<CUpti_ExternalCorrelationKind>(it->kind);
    record.externalId = it->id;
    record.correlationId = correlation;
    Append(&record, sizeof(record), 0);
  }
}

// ---- what the engine reports

namespace {

void RecordPool(const MemoryEvent& event) {
  CUpti_ActivityMemoryPool3 record;
  memset(&record, 0, sizeof(record));
  record.kind = CUPTI_ACTIVITY_KIND_MEMORY_POOL;
  record.memoryPoolOperationType = static_cast<CUpti_ActivityMemoryPoolOperationType>(event.pool_operation);
  record.memoryPoolType = CUPTI_ACTIVITY_MEMORY_POOL_TYPE_LOCAL;
  record.correlationId = event.correlation;
  record.processId = ProcessId();
  record.deviceId = event.device;
  record.minBytesToKeep = event.bytes;
  record.address = event.address;
  record.size = event.pool_size;
  record.utilizedSize = event.pool_size;
  record.timestamp = ToTimestamp(event.time);
  Append(&record, PoolSize(), 0);
}

std::atomic<uint32_t> unified_counters{0};

void AppendUnified(const UnifiedEvent& event) {
  if ((unified_counters.load() >> event.counter & 1) == 0) return;
  CUpti_ActivityUnifiedMemoryCounter3 record;
  memset(&record, 0, sizeof(record));
  record.kind = CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER;
  record.counterKind = static_cast<CUpti_ActivityUnifiedMemoryCounterKind>(event.counter);
  record.value = event.value;
  record.start = ToTimestamp(event.start);
  record.end = event.end == 0 ? 0 : ToTimestamp(event.end);
  record.address = event.address;
  record.srcId = static_cast<uint32_t>(event.source);
  record.dstId = static_cast<uint32_t>(event.destination);
  record.flags = event.flags;
  record.processId = ProcessId();
  Append(&record, RecordSize(CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER), event.end);
}

void RecordPrefetch(const Work& work) {
  const bool to_device = work.copy.kind == CUPTI_ACTIVITY_MEMCPY_KIND_HTOD;
  UnifiedEvent event{};
  event.counter = to_device ? CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_HTOD
                            : CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOH;
  event.flags = CUPTI_ACTIVITY_UNIFIED_MEMORY_MIGRATION_CAUSE_USER;
  event.value = work.copy.bytes;
  event.address = work.copy.count;
  event.start = work.start;
  event.end = work.end;
  event.source = to_device ? -1 : static_cast<int>(work.device);
  event.destination = to_device ? static_cast<int>(work.device) : -1;
  AppendUnified(event);
}

}  // namespace

void RecordUnified(const UnifiedEvent& event) {
  if (KindOn(CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER)) AppendUnified(event);
}

void ConfigureUnified(uint32_t counter, bool on) {
  if (on) {
    unified_counters |= 1u << counter;
  } else {
    unified_counters &= ~(1u << counter);
  }
}

void RecordWork(const Work& work) {
  switch (work.kind) {
    case WorkKind::kKernel:
      if (KindOn(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) || KindOn(CUPTI_ACTIVITY_KIND_KERNEL)) RecordKernel(work);
      break;
    case WorkKind::kMemcpy:
      RecordCopy(work);
      break;
    case WorkKind::kMemset:
      if (KindOn(CUPTI_ACTIVITY_KIND_MEMSET)) RecordSet(work);
      break;
    case WorkKind::kGraph:
      if (KindOn(CUPTI_ACTIVITY_KIND_GRAPH_TRACE)) RecordGraph(work);
      break;
    case WorkKind::kPrefetch:
      if (KindOn(CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER)) RecordPrefetch(work);
      break;
    case WorkKind::kEventRecord:
      if (KindOn(CUPTI_ACTIVITY_KIND_CUDA_EVENT)) RecordEvent(work);
      break;
    default:
      break;
  }
}

void RecordSynchronization(const Synchronization& event) {
  if (!KindOn(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION)) return;
  CUpti_ActivitySynchronization2 record;
  memset(&record, 0, sizeof(record));
  record.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
  record.type = static_cast<CUpti_ActivitySynchronizationType>(event.type);
  record.start = ToTimestamp(event.start);
  record.end = ToTimestamp(event.end);
  record.correlationId = event.correlation;
  record.contextId = event.context;
  record.streamId = event.stream;
  record.cudaEventId = event.event;
  record.cudaEventSyncId = event.sync_id;
  record.returnValue = event.result;
  Append(&record, RecordSize(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION), 0);
}

void RecordMemory(const MemoryEvent& event) {
  if (event.pool_operation != 0) {
    if (KindOn(CUPTI_ACTIVITY_KIND_MEMORY_POOL)) RecordPool(event);
    return;
  }
  if (!KindOn(CUPTI_ACTIVITY_KIND_MEMORY2)) return;
  CUpti_ActivityMemory4 record;
  memset(&record, 0, sizeof(record));
  record.kind = CUPTI_ACTIVITY_KIND_MEMORY2;
  record.memoryOperationType =
      event.allocation ? CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION : CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE;
  record.memoryKind = static_cast<CUpti_ActivityMemoryKind>(event.kind);
  record.correlationId = event.correlation;
  record.address = event.address;
  record.bytes = event.bytes;
  record.timestamp = ToTimestamp(event.time);
  record.processId = ProcessId();
  record.deviceId = event.device;
  record.contextId = event.context;
  record.streamId = event.stream;
  record.isAsync = event.asynchronous;
  if (event.pool) {
    record.memoryPoolConfig.memoryPoolType = CUPTI_ACTIVITY_MEMORY_POOL_TYPE_LOCAL;
    record.memoryPoolConfig.pool.size = event.pool_size;
    record.memoryPoolConfig.utilizedSize = event.pool_size;
  }
  Append(&record, MemorySize(), 0);
}

void RecordOverhead(const Overhead& event) {
  if (!KindOn(CUPTI_ACTIVITY_KIND_OVERHEAD)) return;
  CUpti_ActivityOverhead3 record;
  memset(&record, 0, sizeof(record));
  record.kind = CUPTI_ACTIVITY_KIND_OVERHEAD;
  record.overheadKind = static_cast<CUpti_ActivityOverheadKind>(event.kind);
  record.objectKind = CUPTI_ACTIVITY_OBJECT_THREAD;
  record.objectId.pt.processId = ProcessId();
  record.objectId.pt.threadId = ThreadId();
  record.start = ToTimestamp(event.start);
  record.end = ToTimestamp(event.end);
  record.correlationId = event.correlation;
  Append(&record, OverheadSize(), 0);
}

void RecordDevice(int ordinal) {
  const Table* table = TheTable();
  DeviceDescription description;
  if (table == nullptr || !table->describe_device(ordinal, &description)) return;
  CUpti_ActivityDevice5 record;
  memset(&record, 0, sizeof(record));
  record.kind = CUPTI_ACTIVITY_KIND_DEVICE;
  record.globalMemoryBandwidth = description.bandwidth_kb;
  record.globalMemorySize = description.memory_bytes;
  record.constantMemorySize = 65536;
  record.l2CacheSize = description.l2_bytes;
  record.numThreadsPerWarp = 32;
  record.coreClockRate = description.clock_khz;
  record.numMemcpyEngines = 3;
  record.numMultiprocessors = description.processors;
  record.maxIPC = 4;
  record.maxWarpsPerMultiprocessor = 64;
  record.maxBlocksPerMultiprocessor = 32;
  record.maxSharedMemoryPerMultiprocessor = 233472;
  record.maxRegistersPerMultiprocessor = 65536;
  record.maxRegistersPerBlock = 65536;
  record.maxSharedMemoryPerBlock = 49152;
  record.maxThreadsPerBlock = 1024;
  record.maxBlockDimX = record.maxBlockDimY = 1024;
  record.maxBlockDimZ = 64;
  record.maxGridDimX = 2147483647;
  record.maxGridDimY = record.maxGridDimZ = 65535;
  record.computeCapabilityMajor = description.major;
  record.computeCapabilityMinor = description.minor;
  record.id = static_cast<uint32_t>(ordinal);
  record.eccEnabled = 1;
  record.uuid = description.uuid;
  record.name = strdup(description.name);  // the client frees it
  record.isCudaVisible = 1;
  record.isMigEnabled = mode::mig() != 0 ? 1 : 0;
  record.numaId = 0xffffffffu;
  Append(&record, RecordSize(CUPTI_ACTIVITY_KIND_DEVICE), 0);
}

void RecordResource(const ResourceEvent& event) {
  if (event.what == Resource::kInitFinished && KindOn(CUPTI_ACTIVITY_KIND_DEVICE)) {
    for (int i = 0; i < TheTable()->device_count(); ++i) RecordDevice(i);
  }
  if (event.what == Resource::kContextCreated && KindOn(CUPTI_ACTIVITY_KIND_CONTEXT)) {
    CUpti_ActivityContext3 record;
    memset(&record, 0, sizeof(record));
    record.kind = CUPTI_ACTIVITY_KIND_CONTEXT;
    record.contextId = event.context_id;
    record.deviceId = event.device_id;
    record.computeApiKind = CUPTI_ACTIVITY_COMPUTE_API_CUDA;
    record.nullStreamId = static_cast<uint16_t>(event.stream_id);
    record.parentContextId = event.parent_id;
    record.isGreenContext = event.parent_id != 0;
    record.numMultiprocessors = static_cast<uint16_t>(event.processors);
    Append(&record, ContextSize(), 0);
  }
  if (event.what == Resource::kStreamCreated && KindOn(CUPTI_ACTIVITY_KIND_STREAM)) {
    CUpti_ActivityStream record;
    memset(&record, 0, sizeof(record));
    record.kind = CUPTI_ACTIVITY_KIND_STREAM;
    record.contextId = event.context_id;
    record.streamId = event.stream_id;
    record.priority = static_cast<uint32_t>(event.priority);
    record.flag = (event.stream_flags & CU_STREAM_NON_BLOCKING) != 0 ? CUPTI_ACTIVITY_STREAM_CREATE_FLAG_NON_BLOCKING
                                                                     : CUPTI_ACTIVITY_STREAM_CREATE_FLAG_DEFAULT;
    record.correlationId = event.correlation;
    Append(&record, sizeof(record), 0);
  }
}

}  // namespace tbprof::sim::cupti
