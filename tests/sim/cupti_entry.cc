// SPDX-License-Identifier: Apache-2.0
//
// libcupti: the exported functions. Which call answers what without a driver is the real library's behaviour, call by
// call (cupti_without_driver_test.cc).
#include <cupti_result.h>
#include <cupti_version.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <bitset>
#include <vector>

#include "tests/sim/cupti.h"
#include "tests/sim/modes.h"

// The client's handle.
struct CUpti_Subscriber_st {
  CUpti_CallbackFunc callback;
  void* userdata;
  bool second_version;
  char name[CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN];
  std::bitset<tbprof::sim::cupti::kCallbacks> enabled[CUPTI_CB_DOMAIN_SIZE];
};

namespace tbprof::sim::cupti {
namespace {

using Subscriber = CUpti_Subscriber_st;

Lock state_lock;
std::vector<Subscriber*>& Subscribers() {
  static auto* subscribers = new std::vector<Subscriber*>;
  return *subscribers;
}
// Read on the paths of calls, without the lock; subscribers are never freed.
std::atomic<Subscriber*> subscriber_array[4] = {};

std::atomic<bool> kinds[kKinds] = {};
std::atomic<bool> call_off[2][kCallbacks] = {};  // the kind is on, this call is not
std::atomic<bool> call_on[2][kCallbacks] = {};   // the kind is off, this call is not
std::atomic<bool> some_calls[2] = {};
std::atomic<uint32_t> next_correlation{0};
std::atomic<bool> latency_timestamps{false};
std::atomic<bool> system_thread_ids{false};
std::atomic<bool> installed{false};
std::atomic<const Table*> the_table{nullptr};

size_t Index(Domain domain) { return domain == Domain::kRuntime ? 1 : 0; }

struct Attributes {
  size_t device_buffer_size = 3200000;
  size_t device_buffer_size_cdp = 8 << 20;
  size_t device_buffer_pool_limit = 250;
  size_t semaphore_pool_size = 25000;
  size_t semaphore_pool_limit = 250;
  size_t device_buffer_pre_allocate = 3;
  size_t semaphore_pre_allocate = 3;
  uint8_t host_pinned = 0;
  size_t device_buffer_size_graphs = 16 << 20;
};
Attributes attributes;

// ---- the driver

// Opened anew with each call while there is none, as the real library does.
const Table* FindTable() {
  const Table* table = the_table.load(std::memory_order_acquire);
  if (table != nullptr) return table;
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) return nullptr;
  using GetExportTable = CUresult (*)(const void**, const CUuuid*);
  auto get = reinterpret_cast<GetExportTable>(dlsym(library, "cuGetExportTable"));
  const void* found = nullptr;
  if (get == nullptr || get(&found, &kTableId) != CUDA_SUCCESS) return nullptr;
  table = static_cast<const Table*>(found);
  if (table->version != kTableVersion) return nullptr;
  the_table.store(table, std::memory_order_release);
  return table;
}

bool InForkedChild() {
  const Table* table = the_table.load();
  return table != nullptr && table->state() == CUDA_ERROR_NOT_INITIALIZED;
}

// Why a call that has state cannot be served.
CUptiResult Refusal() {
  if (mode::unknown_999() != 0) return CUPTI_ERROR_UNKNOWN;
  if (mode::newer_than_driver() != 0) return CUPTI_ERROR_NOT_INITIALIZED;
  if (InForkedChild()) {
    while (mode::fork_hangs() != 0) pause();
    return CUPTI_ERROR_NOT_INITIALIZED;
  }
  const Table* table = FindTable();
  if (table == nullptr) return CUPTI_ERROR_UNKNOWN;
  const CUresult state = table->state();
  if (state != CUDA_SUCCESS && state != CUDA_ERROR_DEINITIALIZED) return CUPTI_ERROR_UNKNOWN;
  // Older than the driver is fine, newer is not.
  if (AtLeast(130000) && table->driver_version() < 13000) return CUPTI_ERROR_NOT_INITIALIZED;
  return CUPTI_SUCCESS;
}

#define SIM_CUPTI_TRY(expression)                                                   \
  do {                                                                              \
    if (const CUptiResult sim_result = (expression); sim_result != CUPTI_SUCCESS) { \
      return sim_result;                                                            \
    }                                                                               \
  } while (false)

// ---- what is passed to the engine

bool AnyCallback(uint32_t domain) {
  for (const Subscriber* subscriber : Subscribers()) {
    if (subscriber->enabled[domain].any()) return true;
  }
  return false;
}

void Enter(ApiCall* call);
void Exit(ApiCall* call);
void OnWork(const Work& work) { RecordWork(work); }
void OnSynchronized(const Synchronization& event);
void OnResource(const ResourceEvent& event);

constexpr Hooks kHooks = {Enter, Exit, OnWork, OnSynchronized, RecordMemory, RecordOverhead, OnResource, RecordUnified};

// Under the state's lock.
void UpdateWants() {
  const Table* table = the_table.load();
  if (table == nullptr) return;
  uint32_t wants = 0;
  const bool calls =
      kinds[CUPTI_ACTIVITY_KIND_RUNTIME] || kinds[CUPTI_ACTIVITY_KIND_DRIVER] || some_calls[0] || some_calls[1];
  // Either kind makes the ids of both: the driver's call within a runtime call carries the id of that.
  if (calls || AnyCallback(CUPTI_CB_DOMAIN_DRIVER_API)) wants |= kWantsDriverCalls;
  if (calls || AnyCallback(CUPTI_CB_DOMAIN_RUNTIME_API)) wants |= kWantsRuntimeCalls;
  for (const uint32_t kind :
       {CUPTI_ACTIVITY_KIND_KERNEL, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
        CUPTI_ACTIVITY_KIND_MEMCPY2, CUPTI_ACTIVITY_KIND_MEMSET, CUPTI_ACTIVITY_KIND_CUDA_EVENT,
        CUPTI_ACTIVITY_KIND_GRAPH_TRACE, CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER}) {
    if (kinds[kind]) wants |= kWantsWork;
  }
  if (kinds[CUPTI_ACTIVITY_KIND_GRAPH_TRACE]) wants |= kWantsGraphTrace;
  if (kinds[CUPTI_ACTIVITY_KIND_SYNCHRONIZATION] || AnyCallback(CUPTI_CB_DOMAIN_SYNCHRONIZE)) {
    wants |= kWantsSynchronization;
  }
  if (kinds[CUPTI_ACTIVITY_KIND_MEMORY2] || kinds[CUPTI_ACTIVITY_KIND_MEMORY_POOL]) wants |= kWantsMemory;
  if (kinds[CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER]) wants |= kWantsUnifiedMemory;
  if (kinds[CUPTI_ACTIVITY_KIND_OVERHEAD]) wants |= kWantsOverhead;
  if (kinds[CUPTI_ACTIVITY_KIND_DEVICE] || kinds[CUPTI_ACTIVITY_KIND_CONTEXT] || kinds[CUPTI_ACTIVITY_KIND_STREAM] ||
      AnyCallback(CUPTI_CB_DOMAIN_RESOURCE)) {
    wants |= kWantsResources;
  }
  if (!installed.exchange(true)) table->install(&kHooks);
  table->set_wants(wants);
}

void CallBack(CUpti_CallbackDomain domain, CUpti_CallbackId cbid, const void* data) {
  for (auto& entry : subscriber_array) {
    Subscriber* subscriber = entry.load(std::memory_order_acquire);
    if (subscriber == nullptr || cbid >= kCallbacks || !subscriber->enabled[domain][cbid]) continue;
    subscriber->callback(subscriber->userdata, domain, cbid, data);
  }
}

void CallBackForCall(ApiCall* call, CUpti_ApiCallbackSite site) {
  const auto domain = static_cast<CUpti_CallbackDomain>(call->domain);
  bool wanted = false;
  for (auto& entry : subscriber_array) {
    const Subscriber* subscriber = entry.load(std::memory_order_acquire);
    wanted = wanted || (subscriber != nullptr && call->cbid < kCallbacks && subscriber->enabled[domain][call->cbid]);
  }
  if (!wanted) return;
  CUpti_CallbackData data;
  memset(&data, 0, sizeof(data));
  data.callbackSite = site;
  data.functionName = call->name;
  data.functionParams = call->parameters;
  data.functionReturnValue = site == CUPTI_API_EXIT ? const_cast<void*>(call->result) : nullptr;
  data.symbolName = call->symbol;
  data.context = TheTable()->current_context();
  if (data.context != nullptr) TheTable()->context_ids(data.context, &data.contextUid, nullptr);
  data.correlationData = &call->correlation_data;
  data.correlationId = call->correlation;
  CallBack(domain, call->cbid, &data);
}

uint32_t NewCorrelation() {
  static const bool started = [] {
    next_correlation.store(static_cast<uint32_t>(mode::correlation_start()));
    return true;
  }();
  uint32_t id = started ? next_correlation.fetch_add(1, std::memory_order_relaxed) + 1 : 0;
  if (id == 0) id = next_correlation.fetch_add(1, std::memory_order_relaxed) + 1;
  return id;
}

void Enter(ApiCall* call) {
  if (call->outer == nullptr || call->outer->correlation == 0) {
    call->correlation = NewCorrelation();
  } else {
    call->correlation = call->outer->correlation;
  }
  call->seen = true;
  CallBackForCall(call, CUPTI_API_ENTER);
  if (CallRecorded(call->domain, call->cbid)) {
    RecordExternal(call->correlation);
    call->start = static_cast<int64_t>(Timestamp());
  } else {
    call->start = 0;
  }
}

// What the runtime calls of the driver is no record of its own while the runtime's calls are (H200, CUPTI 13.0).
bool IsWithinRuntimeCall(const ApiCall& call) {
  return call.domain == Domain::kDriver && call.outer != nullptr && call.outer->domain == Domain::kRuntime &&
         KindOn(CUPTI_ACTIVITY_KIND_RUNTIME);
}

void Exit(ApiCall* call) {
  if (!call->seen) return;
  // A call that was under way when its kind was turned on has no beginning, and gets no record.
  if (call->start != 0 && CallRecorded(call->domain, call->cbid) && !IsWithinRuntimeCall(*call)) {
    RecordCall(*call, static_cast<uint64_t>(call->start), Timestamp());
  }
  CallBackForCall(call, CUPTI_API_EXIT);
}

void OnSynchronized(const Synchronization& event) {
  RecordSynchronization(event);
  if (event.type != CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE &&
      event.type != CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE) {
    return;
  }
  const CUpti_SynchronizeData data = {event.context_handle, event.stream_handle};
  CallBack(CUPTI_CB_DOMAIN_SYNCHRONIZE,
           event.type == CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE
               ? CUPTI_CBID_SYNCHRONIZE_STREAM_SYNCHRONIZED
               : CUPTI_CBID_SYNCHRONIZE_CONTEXT_SYNCHRONIZED,
           &data);
}

void OnResource(const ResourceEvent& event) {
  RecordResource(event);
  CUpti_GraphData graph;
  CUpti_ModuleResourceData module;
  memset(&graph, 0, sizeof(graph));
  memset(&module, 0, sizeof(module));
  CUpti_ResourceData data;
  memset(&data, 0, sizeof(data));
  data.context = event.context;
  data.resourceHandle.stream = event.stream;
  if (event.module_id != 0) {
    module.moduleId = event.module_id;
    data.resourceDescriptor = &module;
  } else if (event.graph != nullptr || event.exec != nullptr || event.node != nullptr) {
    graph.graph = event.graph;
    graph.node = event.node;
    graph.originalNode = event.original_node;
    graph.nodeType = event.node_type;
    graph.graphExec = event.exec;
    data.resourceDescriptor = &graph;
  }
  CallBack(CUPTI_CB_DOMAIN_RESOURCE, static_cast<CUpti_CallbackId>(event.what), &data);
}

// ---- kinds

bool KnownKind(CUpti_ActivityKind kind) {
  return kind > CUPTI_ACTIVITY_KIND_INVALID && kind < CUPTI_ACTIVITY_KIND_COUNT;
}

// Kinds that this library makes records of. The rest is refused, as a device without the feature refuses it.
bool Simulated(CUpti_ActivityKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
    case CUPTI_ACTIVITY_KIND_MEMCPY:
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
    case CUPTI_ACTIVITY_KIND_MEMSET:
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER:
    case CUPTI_ACTIVITY_KIND_OVERHEAD:
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
    case CUPTI_ACTIVITY_KIND_CUDA_EVENT:
    case CUPTI_ACTIVITY_KIND_MEMORY2:
    case CUPTI_ACTIVITY_KIND_DEVICE:
    case CUPTI_ACTIVITY_KIND_CONTEXT:
    case CUPTI_ACTIVITY_KIND_STREAM:
    case CUPTI_ACTIVITY_KIND_NAME:
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
    case CUPTI_ACTIVITY_KIND_MEMORY_POOL:
    case CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER:
    // Accepted as by the real library; their records come from NVTX, which this one is not a part of.
    case CUPTI_ACTIVITY_KIND_MARKER:
    case CUPTI_ACTIVITY_KIND_MARKER_DATA:
      return true;
    default:
      return false;
  }
}

// Of two copies the driver serves the one that came first (H200).
CUptiResult Claim() {
  return TheTable()->claim(&installed) ? CUPTI_SUCCESS : CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
}

CUptiResult SetKind(CUpti_ActivityKind kind, bool on) {
  if (!KnownKind(kind)) return CUPTI_ERROR_INVALID_KIND;
  SIM_CUPTI_TRY(Claim());
  if (on && (mode::rival() != 0)) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  if (on && mode::privileges() != 0) return CUPTI_ERROR_INSUFFICIENT_PRIVILEGES;
  if (on && mode::enable_fails_kind() == kind) return CUPTI_ERROR_NOT_SUPPORTED;
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_EVENT:
    case CUPTI_ACTIVITY_KIND_METRIC:
    case CUPTI_ACTIVITY_KIND_PC_SAMPLING:
      if (AtLeast(130000)) return CUPTI_ERROR_LEGACY_PROFILER_NOT_SUPPORTED;
      break;
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
      if (!AtLeast(16)) return CUPTI_ERROR_INVALID_KIND;
      break;
    default:
      break;
  }
  if (on && !Simulated(kind)) return CUPTI_ERROR_NOT_SUPPORTED;
  Guard guard(state_lock);
  const bool was_on = kinds[kind].exchange(on);
  if (on && !was_on && kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) BeginKernels();
  if (kind == CUPTI_ACTIVITY_KIND_RUNTIME || kind == CUPTI_ACTIVITY_KIND_DRIVER) {
    // The kind overrides what was set call by call before.
    const size_t index = kind == CUPTI_ACTIVITY_KIND_RUNTIME ? 1 : 0;
    for (auto& call : call_off[index]) call.store(false);
    for (auto& call : call_on[index]) call.store(false);
    some_calls[index].store(false);
  }
  UpdateWants();
  return CUPTI_SUCCESS;
}

CUptiResult SetCall(Domain domain, CUpti_CallbackId cbid, bool on) {
  const uint32_t count = domain == Domain::kRuntime ? static_cast<uint32_t>(CUPTI_RUNTIME_TRACE_CBID_SIZE)
                                                    : static_cast<uint32_t>(CUPTI_DRIVER_TRACE_CBID_SIZE);
  if (cbid == 0 || cbid >= count || cbid >= kCallbacks) return CUPTI_ERROR_INVALID_PARAMETER;
  const size_t index = Index(domain);
  Guard guard(state_lock);
  call_off[index][cbid].store(!on);
  call_on[index][cbid].store(on);
  some_calls[index].store(
      std::any_of(std::begin(call_on[index]), std::end(call_on[index]), [](const auto& call) { return call.load(); }));
  UpdateWants();
  return CUPTI_SUCCESS;
}

// ---- subscribers

// The structure of CUDA 13.2 and later.
struct SubscriberParams132 {
  CUpti_SubscriberParams params;
  uint8_t allow_multiple_subscribers;
  uint8_t padding[7];
};

std::atomic<bool> many_allowed{false};

void ReportRival(const CUpti_SubscriberParams* params, const char* name) {
  if (params == nullptr || params->oldSubscriberName == nullptr || params->oldSubscriberSize == 0) return;
  snprintf(params->oldSubscriberName, params->oldSubscriberSize, "%s", name);
}

CUptiResult Subscribe(CUpti_SubscriberHandle* out, CUpti_CallbackFunc callback, void* userdata,
                      const CUpti_SubscriberParams* params, bool second_version) {
  if (out == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  SIM_CUPTI_TRY(Refusal());
  if (mode::privileges() != 0) return CUPTI_ERROR_INSUFFICIENT_PRIVILEGES;
  if (mode::rival() != 0) {
    ReportRival(params, "Nsight Systems");
    return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  }
  SIM_CUPTI_TRY(Claim());
  bool wants_many = false;
  if (params != nullptr && params->structSize >= offsetof(SubscriberParams132, padding) &&
      mode::multi_subscriber() != 0) {
    uint8_t allow = 0;
    memcpy(&allow, reinterpret_cast<const char*>(params) + offsetof(SubscriberParams132, allow_multiple_subscribers),
           1);
    wants_many = allow != 0;
  }
  Guard guard(state_lock);
  auto& subscribers = Subscribers();
  if (!subscribers.empty()) {
    const bool together = wants_many && many_allowed && subscribers.front()->second_version && second_version &&
                          subscribers.size() < sizeof(subscriber_array) / sizeof(*subscriber_array);
    if (!together) {
      ReportRival(params, subscribers.front()->name);
      return AtLeast(13) ? CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED : CUPTI_ERROR_MAX_LIMIT_REACHED;
    }
  } else {
    many_allowed.store(wants_many);
  }
  auto* subscriber = new Subscriber{};
  subscriber->callback = callback;
  subscriber->userdata = userdata;
  subscriber->second_version = second_version;
  const char* name = params == nullptr || params->subscriberName == nullptr ? "" : params->subscriberName;
  snprintf(subscriber->name, sizeof(subscriber->name), "CUPTI%s%.*s", *name == '\0' ? "" : " for ",
           CUPTI_SUBSCRIBER_NAME_MAX_LEN, name);
  subscribers.push_back(subscriber);
  for (auto& entry : subscriber_array) {
    Subscriber* none = nullptr;
    if (entry.compare_exchange_strong(none, subscriber)) break;
  }
  *out = subscriber;
  UpdateWants();
  return CUPTI_SUCCESS;
}

bool KnownSubscriber(CUpti_SubscriberHandle subscriber) {
  const auto& subscribers = Subscribers();
  return std::find(subscribers.begin(), subscribers.end(), subscriber) != subscribers.end();
}

void Remove(CUpti_SubscriberHandle subscriber) {
  auto& subscribers = Subscribers();
  subscribers.erase(std::remove(subscribers.begin(), subscribers.end(), subscriber), subscribers.end());
  for (auto& entry : subscriber_array) {
    Subscriber* same = subscriber;
    entry.compare_exchange_strong(same, nullptr);
  }
}

uint32_t DomainSize(CUpti_CallbackDomain domain) {
  switch (domain) {
    case CUPTI_CB_DOMAIN_DRIVER_API:
      return CUPTI_DRIVER_TRACE_CBID_SIZE;
    case CUPTI_CB_DOMAIN_RUNTIME_API:
      return CUPTI_RUNTIME_TRACE_CBID_SIZE;
    case CUPTI_CB_DOMAIN_RESOURCE:
      return CUPTI_CBID_RESOURCE_SIZE;
    case CUPTI_CB_DOMAIN_SYNCHRONIZE:
      return CUPTI_CBID_SYNCHRONIZE_SIZE;
    case CUPTI_CB_DOMAIN_NVTX:
      return kCallbacks;
    case CUPTI_CB_DOMAIN_STATE:
      return CUPTI_CBID_STATE_SIZE;
    default:
      return 0;
  }
}

CUptiResult EnableCallbacks(bool on, CUpti_SubscriberHandle subscriber, CUpti_CallbackDomain domain, uint32_t first,
                            uint32_t last) {
  Guard guard(state_lock);
  if (!KnownSubscriber(subscriber) || first >= DomainSize(domain)) return CUPTI_ERROR_INVALID_PARAMETER;
  for (uint32_t cbid = first; cbid < std::min(last, std::min(DomainSize(domain), kCallbacks)); ++cbid) {
    subscriber->enabled[domain][cbid] = on;
  }
  UpdateWants();
  return CUPTI_SUCCESS;
}

}  // namespace

uint32_t Version() {
  static const auto version = static_cast<uint32_t>(mode::version() != 0 ? mode::version() : kLibraryVersion);
  return version;
}

bool AtLeast(uint32_t version) { return Version() >= version; }

const Table* TheTable() { return the_table.load(std::memory_order_acquire); }

bool KindOn(uint32_t kind) { return kind < kKinds && kinds[kind].load(std::memory_order_relaxed); }

bool CallRecorded(Domain domain, uint32_t cbid) {
  const size_t index = Index(domain);
  if (cbid >= kCallbacks) return false;
  const bool kind = KindOn(domain == Domain::kRuntime ? CUPTI_ACTIVITY_KIND_RUNTIME : CUPTI_ACTIVITY_KIND_DRIVER);
  return kind ? !call_off[index][cbid].load(std::memory_order_relaxed)
              : call_on[index][cbid].load(std::memory_order_relaxed);
}

bool LatencyTimestamps() { return latency_timestamps.load(std::memory_order_relaxed); }
bool SystemThreadIds() { return system_thread_ids.load(std::memory_order_relaxed); }

}  // namespace tbprof::sim::cupti

// ---- exported

using namespace tbprof::sim::cupti;  // NOLINT(google-build-using-namespace): the rest of the file is C
namespace mode = tbprof::sim::mode;

// The mode fails_call names one of these: its number, from 1.
enum failing_call : int64_t {
  kNoCall,
  k_cuptiSubscribe,
  k_cuptiUnsubscribe,
  k_cuptiActivityEnable,
  k_cuptiActivityDisable,
  k_cuptiActivityEnableDriverApi,
  k_cuptiActivityEnableRuntimeApi,
  k_cuptiActivityRegisterCallbacks,
  k_cuptiActivityFlushAll,
  k_cuptiActivityGetNextRecord,
  k_cuptiActivityGetNumDroppedRecords,
  k_cuptiActivityGetAttribute,
  k_cuptiActivitySetAttribute,
  k_cuptiGetThreadIdType,
  k_cuptiSetThreadIdType,
  k_cuptiGetTimestamp,
  k_cuptiEnableCallback,
  k_cuptiGetCallbackName,
  k_cuptiGetVersion,
};
#define SIM_CUPTI_MAY_FAIL(name) \
  if (mode::fails_call() == k_##name) return CUPTI_ERROR_UNKNOWN

#define SIM_EXPORT extern "C" __attribute__((visibility("default")))

SIM_EXPORT CUptiResult cuptiGetVersion(uint32_t* version) {
  SIM_CUPTI_MAY_FAIL(cuptiGetVersion);
  if (version == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *version = Version();
  return CUPTI_SUCCESS;
}

SIM_EXPORT CUptiResult cuptiGetTimestamp(uint64_t* timestamp) {
  SIM_CUPTI_MAY_FAIL(cuptiGetTimestamp);
  if (timestamp == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *timestamp = Timestamp();
  return CUPTI_SUCCESS;
}

// ---- subscribers and callbacks

SIM_EXPORT CUptiResult cuptiSupportedDomains(size_t* domainCount, CUpti_DomainTable* domainTable) {
  if (domainCount == nullptr || domainTable == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  SIM_CUPTI_TRY(Refusal());
  static CUpti_CallbackDomain domains[] = {CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_CB_DOMAIN_RUNTIME_API,
                                           CUPTI_CB_DOMAIN_RESOURCE,   CUPTI_CB_DOMAIN_SYNCHRONIZE,
                                           CUPTI_CB_DOMAIN_NVTX,       CUPTI_CB_DOMAIN_STATE};
  *domainCount = sizeof(domains) / sizeof(*domains);
  *domainTable = domains;
  return CUPTI_SUCCESS;
}

SIM_EXPORT CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback, void* userdata) {
  SIM_CUPTI_MAY_FAIL(cuptiSubscribe);
  return Subscribe(subscriber, callback, userdata, nullptr, false);
}

SIM_EXPORT CUptiResult cuptiSubscribe_v2(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback,
                                         void* userdata, CUpti_SubscriberParams* pParams) {
  if (pParams != nullptr && pParams->structSize < CUpti_SubscriberParams_STRUCT_SIZE) {
    return CUPTI_ERROR_INVALID_PARAMETER;
  }
  return Subscribe(subscriber, callback, userdata, pParams, true);
}

SIM_EXPORT CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle subscriber) {
  SIM_CUPTI_MAY_FAIL(cuptiUnsubscribe);
  if (subscriber == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  SIM_CUPTI_TRY(Refusal());
  tbprof::sim::Guard guard(state_lock);
  if (!KnownSubscriber(subscriber)) return CUPTI_ERROR_INVALID_PARAMETER;
  Remove(subscriber);
  UpdateWants();
  return CUPTI_SUCCESS;
}

SIM_EXPORT CUptiResult cuptiGetCallbackState(uint32_t* enable, CUpti_SubscriberHandle subscriber,
                                             CUpti_CallbackDomain domain, CUpti_CallbackId cbid) {
  if (enable == nullptr || subscriber == nullptr || cbid >= DomainSize(domain) || cbid >= kCallbacks) {
    return CUPTI_ERROR_INVALID_PARAMETER;
  }
  SIM_CUPTI_TRY(Refusal());
  tbprof::sim::Guard guard(state_lock);
  if (!KnownSubscriber(subscriber)) return CUPTI_ERROR_INVALID_PARAMETER;
  *enable = subscriber->enabled[domain][cbid] ? 1 : 0;
  return CUPTI_SUCCESS;
}

SIM_EXPORT CUptiResult cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle subscriber,
                                           CUpti_CallbackDomain domain, CUpti_CallbackId cbid) {
  SIM_CUPTI_MAY_FAIL(cuptiEnableCallback);
  if (subscriber == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  SIM_CUPTI_TRY(Refusal());
  return EnableCallbacks(enable != 0, subscriber, domain, cbid, cbid + 1);
}

SIM_EXPORT CUptiResult cuptiEnableDomain(uint32_t enable, CUpti_SubscriberHandle subscriber,
                                         CUpti_CallbackDomain domain) {
  if (subscriber == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  SIM_CUPTI_TRY(Refusal());
  return EnableCallbacks(enable != 0, subscriber, domain, 0, kCallbacks);
}

SIM_EXPORT CUptiResult cuptiEnableAllDomains(uint32_t enable, CUpti_SubscriberHandle subscriber) {
  if (subscriber == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  SIM_CUPTI_TRY(Refusal());
  for (uint32_t domain = CUPTI_CB_DOMAIN_DRIVER_API; domain < CUPTI_CB_DOMAIN_SIZE; ++domain) {
    SIM_CUPTI_TRY(EnableCallbacks(enable != 0, subscriber, static_cast<CUpti_CallbackDomain>(domain), 0, kCallbacks));
  }
  return CUPTI_SUCCESS;
}

namespace {

struct CallbackName {
  uint32_t domain;
  uint32_t cbid;
  const char* name;
};

// Made from the headers by CMake.
constexpr CallbackName kCallbackNames[] = {
#define SIM_CALLBACK(domain, cbid, name) {domain, cbid, name},
#include "cupti_callback_names.inc"
};

struct ResultName {
  CUptiResult result;
  const char* name;
};

constexpr ResultName kResultNames[] = {
#define SIM_RESULT(name) {name, #name},
#include "cupti_result_names.inc"
};

}  // namespace

SIM_EXPORT CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t cbid, const char** name) {
  SIM_CUPTI_MAY_FAIL(cuptiGetCallbackName);
  if (name == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  for (const CallbackName& known : kCallbackNames) {
    if (known.domain == static_cast<uint32_t>(domain) && known.cbid == cbid) {
      *name = known.name;
      return CUPTI_SUCCESS;
    }
  }
  return CUPTI_ERROR_INVALID_PARAMETER;
}

SIM_EXPORT CUptiResult cuptiGetResultString(CUptiResult result, const char** str) {
  if (str == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  for (const ResultName& known : kResultNames) {
    // 13.0 lost the names of two codes that it no longer returns.
    if (AtLeast(130000) &&
        (result == CUPTI_ERROR_OLD_PROFILER_API_INITIALIZED || result == CUPTI_ERROR_OPENACC_UNDEFINED_ROUTINE)) {
      break;
    }
    if (known.result == result) {
      *str = known.name;
      return CUPTI_SUCCESS;
    }
  }
  *str = "<unknown>";
  return CUPTI_ERROR_INVALID_PARAMETER;
}

SIM_EXPORT CUptiResult cuptiGetErrorMessage(CUptiResult result, const char** str) {
  return cuptiGetResultString(result, str);
}

// ---- activity

SIM_EXPORT CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc funcBufferRequested,
                                                      CUpti_BuffersCallbackCompleteFunc funcBufferCompleted) {
  SIM_CUPTI_MAY_FAIL(cuptiActivityRegisterCallbacks);
  if (funcBufferRequested == nullptr || funcBufferCompleted == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  // Without a driver this one call succeeds; with one that refuses it does not.
  const tbprof::sim::Table* table = mode::unknown_999() != 0 ? nullptr : FindTable();
  if (table == nullptr) return CUPTI_SUCCESS;
  SIM_CUPTI_TRY(Refusal());
  SIM_CUPTI_TRY(Claim());
  SetCallbacks(funcBufferRequested, funcBufferCompleted);
  return CUPTI_SUCCESS;
}

SIM_EXPORT CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  SIM_CUPTI_MAY_FAIL(cuptiActivityEnable);
  SIM_CUPTI_TRY(Refusal());
  return SetKind(kind, true);
}

SIM_EXPORT CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  SIM_CUPTI_MAY_FAIL(cuptiActivityDisable);
  SIM_CUPTI_TRY(Refusal());
  return SetKind(kind, false);
}

SIM_EXPORT CUptiResult cuptiActivityEnableAndDump(CUpti_ActivityKind kind) {
  SIM_CUPTI_TRY(Refusal());
  SIM_CUPTI_TRY(SetKind(kind, true));
  if (kind == CUPTI_ACTIVITY_KIND_DEVICE) {
    for (int i = 0; i < TheTable()->device_count(); ++i) RecordDevice(i);
  }
  if (kind == CUPTI_ACTIVITY_KIND_CONTEXT || kind == CUPTI_ACTIVITY_KIND_STREAM) {
    TheTable()->enumerate(
        [](const tbprof::sim::ResourceEvent& event, void* wanted) {
          const bool context = event.what == tbprof::sim::Resource::kContextCreated;
          if (context == (*static_cast<CUpti_ActivityKind*>(wanted) == CUPTI_ACTIVITY_KIND_CONTEXT))
            RecordResource(event);
        },
        &kind);
  }
  return CUPTI_SUCCESS;
}

// One context alone: not simulated.
SIM_EXPORT CUptiResult cuptiActivityEnableContext(CUcontext context, CUpti_ActivityKind kind) {
  SIM_CUPTI_TRY(Refusal());
  return CUPTI_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUptiResult cuptiActivityDisableContext(CUcontext context, CUpti_ActivityKind kind) {
  SIM_CUPTI_TRY(Refusal());
  return CUPTI_ERROR_NOT_SUPPORTED;
}

// In the library of CUDA 12.4 these two are not exported: they came with 12.5.
SIM_EXPORT CUptiResult cuptiActivityEnableDriverApi(CUpti_CallbackId cbid, uint8_t enable) {
  SIM_CUPTI_MAY_FAIL(cuptiActivityEnableDriverApi);
  SIM_CUPTI_TRY(Refusal());
  return SetCall(tbprof::sim::Domain::kDriver, cbid, enable != 0);
}

SIM_EXPORT CUptiResult cuptiActivityEnableRuntimeApi(CUpti_CallbackId cbid, uint8_t enable) {
  SIM_CUPTI_MAY_FAIL(cuptiActivityEnableRuntimeApi);
  SIM_CUPTI_TRY(Refusal());
  return SetCall(tbprof::sim::Domain::kRuntime, cbid, enable != 0);
}

SIM_EXPORT CUptiResult cuptiActivityFlushAll(uint32_t flag) {
  SIM_CUPTI_MAY_FAIL(cuptiActivityFlushAll);
  // Before anything else here waits for cuInit, and whatever signals the thread blocks.
  if (mode::flush_in_init_crashes() != 0 && TheTable() != nullptr && !TheTable()->initialised()) __builtin_trap();
  SIM_CUPTI_TRY(Refusal());
  if (mode::exit_loses_buffers() != 0 && TheTable()->state() == CUDA_ERROR_DEINITIALIZED) return CUPTI_SUCCESS;
  const bool overhead = KindOn(CUPTI_ACTIVITY_KIND_OVERHEAD);
  const int64_t start = tbprof::sim::Now();
  Flush((flag & CUPTI_ACTIVITY_FLAG_FLUSH_FORCED) != 0);
  if (overhead) RecordOverhead({CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH, start, tbprof::sim::Now(), 0, 0});
  return CUPTI_SUCCESS;
}

SIM_EXPORT CUptiResult cuptiActivityFlush(CUcontext, uint32_t, uint32_t flag) { return cuptiActivityFlushAll(flag); }

SIM_EXPORT CUptiResult cuptiActivityFlushPeriod(uint32_t time) {
  SIM_CUPTI_TRY(Refusal());
  SetPeriod(time);
  return CUPTI_SUCCESS;
}

SIM_EXPORT CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t* dropped) {
  SIM_CUPTI_MAY_FAIL(cuptiActivityGetNumDroppedRecords);
  if (dropped == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *dropped = TakeDropped();
  return CUPTI_SUCCESS;
}

SIM_EXPORT CUptiResult cuptiActivityGetNextRecord(uint8_t* buffer, size_t validBufferSizeBytes,
                                                  CUpti_Activity** record) {
  SIM_CUPTI_MAY_FAIL(cuptiActivityGetNextRecord);
  if (buffer == nullptr || record == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  size_t at = 0;
  if (*record != nullptr) {
    const size_t size = RecordSize(static_cast<uint32_t>((*record)->kind));
    if (size == 0) return CUPTI_ERROR_INVALID_KIND;
    at = static_cast<size_t>(reinterpret_cast<uint8_t*>(*record) - buffer) + size;
  }
  if (at >= validBufferSizeBytes) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  auto* next = reinterpret_cast<CUpti_Activity*>(buffer + at);
  const size_t size = RecordSize(static_cast<uint32_t>(next->kind));
  if (size == 0 || at + size > validBufferSizeBytes) return CUPTI_ERROR_INVALID_KIND;
  *record = next;
  return CUPTI_SUCCESS;
}

namespace {

struct Attribute {
  void* value;
  size_t size;
};

bool FindAttribute(CUpti_ActivityAttribute attribute, Attribute* out) {
  switch (attribute) {
    case CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE:
      *out = {&attributes.device_buffer_size, sizeof(size_t)};
      return true;
    case CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE_CDP:
      *out = {&attributes.device_buffer_size_cdp, sizeof(size_t)};
      return true;
    case CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_POOL_LIMIT:
      *out = {&attributes.device_buffer_pool_limit, sizeof(size_t)};
      return true;
    case CUPTI_ACTIVITY_ATTR_PROFILING_SEMAPHORE_POOL_SIZE:
      *out = {&attributes.semaphore_pool_size, sizeof(size_t)};
      return true;
    case CUPTI_ACTIVITY_ATTR_PROFILING_SEMAPHORE_POOL_LIMIT:
      *out = {&attributes.semaphore_pool_limit, sizeof(size_t)};
      return true;
    case CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_PRE_ALLOCATE_VALUE:
      *out = {&attributes.device_buffer_pre_allocate, sizeof(size_t)};
      return true;
    case CUPTI_ACTIVITY_ATTR_PROFILING_SEMAPHORE_PRE_ALLOCATE_VALUE:
      *out = {&attributes.semaphore_pre_allocate, sizeof(size_t)};
      return true;
    case CUPTI_ACTIVITY_ATTR_MEM_ALLOCATION_TYPE_HOST_PINNED:
      *out = {&attributes.host_pinned, sizeof(uint8_t)};
      return true;
    case CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE_DEVICE_GRAPHS:
      *out = {&attributes.device_buffer_size_graphs, sizeof(size_t)};
      return true;
    default:
      return false;
  }
}

// The two flags that change how buffers are handled.
bool IsFlag(CUpti_ActivityAttribute attribute) {
  return attribute == CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER ||
         (attribute == CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER && AtLeast(20));
}

}  // namespace

SIM_EXPORT CUptiResult cuptiActivityGetAttribute(CUpti_ActivityAttribute attr, size_t* valueSize, void* value) {
  SIM_CUPTI_MAY_FAIL(cuptiActivityGetAttribute);
  SIM_CUPTI_TRY(Refusal());
  if (valueSize == nullptr || value == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  if (IsFlag(attr)) {
    if (*valueSize < 1) return CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT;
    *valueSize = 1;
    *static_cast<uint8_t*>(value) = attr == CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER ? PerThread() : Zeroed();
    return CUPTI_SUCCESS;
  }
  Attribute found;
  if (!FindAttribute(attr, &found)) return CUPTI_ERROR_INVALID_PARAMETER;
  if (*valueSize < found.size) return CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT;
  *valueSize = found.size;
  memcpy(value, found.value, found.size);
  return CUPTI_SUCCESS;
}

SIM_EXPORT CUptiResult cuptiActivitySetAttribute(CUpti_ActivityAttribute attr, size_t* valueSize, void* value) {
  SIM_CUPTI_MAY_FAIL(cuptiActivitySetAttribute);
  SIM_CUPTI_TRY(Refusal());
  if (valueSize == nullptr || value == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  if (IsFlag(attr)) {
    if (*valueSize < 1) return CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT;
    const bool on = *static_cast<uint8_t*>(value) != 0;
    if (attr == CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER) {
      SetZeroed(on);
    } else {
      if (HaveCallbacks()) return CUPTI_ERROR_INVALID_OPERATION;  // only before the callbacks are registered
      SetPerThread(on);
    }
    return CUPTI_SUCCESS;
  }
  Attribute found;
  if (!FindAttribute(attr, &found)) return CUPTI_ERROR_INVALID_PARAMETER;
  if (*valueSize < found.size) return CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT;
  memcpy(found.value, value, found.size);
  return CUPTI_SUCCESS;
}

SIM_EXPORT CUptiResult cuptiSetThreadIdType(CUpti_ActivityThreadIdType type) {
  SIM_CUPTI_MAY_FAIL(cuptiSetThreadIdType);
  SIM_CUPTI_TRY(Refusal());
  if (type != CUPTI_ACTIVITY_THREAD_ID_TYPE_DEFAULT && type != CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM) {
    return CUPTI_ERROR_NOT_SUPPORTED;
  }
  system_thread_ids.store(type == CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
  return CUPTI_SUCCESS;
}

SIM_EXPORT CUptiResult cuptiGetThreadIdType(CUpti_ActivityThreadIdType* type) {
  SIM_CUPTI_MAY_FAIL(cuptiGetThreadIdType);
  SIM_CUPTI_TRY(Refusal());
  if (type == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *type = SystemThreadIds() ? CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM : CUPTI_ACTIVITY_THREAD_ID_TYPE_DEFAULT;
  return CUPTI_SUCCESS;
}

SIM_EXPORT CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc funcTimestamp) {
  SIM_CUPTI_TRY(Refusal());
  if (funcTimestamp == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  if (mode::timestamp_callback_refused() != 0) return CUPTI_ERROR_NOT_SUPPORTED;
  SetTimestampCallback(funcTimestamp);
  return CUPTI_SUCCESS;
}

SIM_EXPORT CUptiResult cuptiActivityEnableLatencyTimestamps(uint8_t enable) {
  SIM_CUPTI_TRY(Refusal());
  latency_timestamps.store(enable != 0);
  return CUPTI_SUCCESS;
}

namespace {
// What it would add is not in the records of this library.
CUptiResult OnlyOff(uint8_t enable) {
  SIM_CUPTI_TRY(Refusal());
  return enable != 0 ? CUPTI_ERROR_NOT_SUPPORTED : CUPTI_SUCCESS;
}
}  // namespace

SIM_EXPORT CUptiResult cuptiActivityEnableLaunchAttributes(uint8_t enable) { return OnlyOff(enable); }
SIM_EXPORT CUptiResult cuptiActivityEnableDeviceGraph(uint8_t enable) { return OnlyOff(enable); }
SIM_EXPORT CUptiResult cuptiActivityEnableHWTrace(uint8_t enable) { return OnlyOff(enable); }
SIM_EXPORT CUptiResult cuptiActivityEnableAllocationSource(uint8_t enable) { return OnlyOff(enable); }
SIM_EXPORT CUptiResult cuptiActivityEnableAllSyncRecords(uint8_t enable) {
  SIM_CUPTI_TRY(Refusal());
  return CUPTI_SUCCESS;  // all are made anyway
}
SIM_EXPORT CUptiResult cuptiActivityEnableCudaEventDeviceTimestamps(uint8_t enable) { return OnlyOff(enable); }
SIM_EXPORT CUptiResult cuptiActivityConfigureUnifiedMemoryCounter(CUpti_ActivityUnifiedMemoryCounterConfig* config,
                                                                  uint32_t count) {
  SIM_CUPTI_TRY(Refusal());
  static std::atomic<int64_t> asked{0};
  if (asked.fetch_add(1) < mode::unified_not_yet()) return CUPTI_ERROR_NOT_READY;
  if (mode::unified_refused() != 0) return static_cast<CUptiResult>(mode::unified_refused());
  if (config == nullptr || count == 0) return CUPTI_ERROR_INVALID_PARAMETER;
  for (uint32_t i = 0; i < count; ++i) {
    const int64_t kind = config[i].kind;
    if (kind < 1 || kind > mode::unified_counters()) return CUPTI_ERROR_INVALID_PARAMETER;
  }
  for (uint32_t i = 0; i < count; ++i) ConfigureUnified(config[i].kind, config[i].enable != 0);
  return CUPTI_SUCCESS;
}
SIM_EXPORT CUptiResult cuptiActivityConfigurePCSampling(CUcontext, CUpti_ActivityPCSamplingConfig*) {
  SIM_CUPTI_TRY(Refusal());
  return CUPTI_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind, uint64_t id) {
  SIM_CUPTI_TRY(Refusal());
  return PushExternal(kind, id);
}

SIM_EXPORT CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind, uint64_t* lastId) {
  SIM_CUPTI_TRY(Refusal());
  return PopExternal(kind, lastId);
}

// Gives back nothing: what was not flushed before is lost. With many subscribers it does nothing while others are
// there.
SIM_EXPORT CUptiResult cuptiFinalize() {
  if (mode::finalize_crashes() != 0) raise(SIGSEGV);
  if (Refusal() != CUPTI_SUCCESS) return CUPTI_SUCCESS;
  tbprof::sim::Guard guard(state_lock);
  if (many_allowed && Subscribers().size() > 1) return CUPTI_SUCCESS;
  while (!Subscribers().empty()) Remove(Subscribers().back());
  for (auto& kind : kinds) kind.store(false);
  for (size_t index = 0; index < 2; ++index) {
    for (auto& call : call_off[index]) call.store(false);
    for (auto& call : call_on[index]) call.store(false);
    some_calls[index].store(false);
  }
  UpdateWants();
  ResetBuffers();
  // CUPTI 13.0 keeps the driver to itself, 12.9 does not.
  if (!AtLeast(130000)) TheTable()->unclaim(&installed);
  return CUPTI_SUCCESS;
}

SIM_EXPORT CUptiResult cuptiGetLastError() { return CUPTI_SUCCESS; }

// ---- ids

SIM_EXPORT CUptiResult cuptiGetContextId(CUcontext context, uint32_t* contextId) {
  SIM_CUPTI_TRY(Refusal());
  if (contextId == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  return TheTable()->context_ids(context, contextId, nullptr) ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_CONTEXT;
}

SIM_EXPORT CUptiResult cuptiGetDeviceId(CUcontext context, uint32_t* deviceId) {
  SIM_CUPTI_TRY(Refusal());
  if (deviceId == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  return TheTable()->context_ids(context, nullptr, deviceId) ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_CONTEXT;
}

SIM_EXPORT CUptiResult cuptiGetStreamIdEx(CUcontext context, CUstream stream, uint8_t perThreadStream,
                                          uint32_t* streamId) {
  SIM_CUPTI_TRY(Refusal());
  if (streamId == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  return TheTable()->stream_id(context, stream, perThreadStream != 0, streamId) ? CUPTI_SUCCESS
                                                                                : CUPTI_ERROR_INVALID_STREAM;
}

SIM_EXPORT CUptiResult cuptiGetStreamId(CUcontext context, CUstream stream, uint32_t* streamId) {
  return cuptiGetStreamIdEx(context, stream, 0, streamId);
}

SIM_EXPORT CUptiResult cuptiGetGraphId(CUgraph graph, uint32_t* pId) {
  if (graph == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  SIM_CUPTI_TRY(Refusal());
  return pId != nullptr && TheTable()->graph_id(graph, pId) ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}

SIM_EXPORT CUptiResult cuptiGetGraphExecId(CUgraphExec graphExec, uint32_t* pId) {
  if (graphExec == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  SIM_CUPTI_TRY(Refusal());
  return pId != nullptr && TheTable()->exec_id(graphExec, pId) ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}

SIM_EXPORT CUptiResult cuptiGetGraphNodeId(CUgraphNode node, uint64_t* nodeId) {
  if (node == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  SIM_CUPTI_TRY(Refusal());
  return nodeId != nullptr && TheTable()->node_id(node, nodeId) ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}

SIM_EXPORT CUptiResult cuptiComputeCapabilitySupported(int major, int minor, int* support) {
  if (support == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  const int oldest = AtLeast(130000) ? 75 : 50;
  *support = major * 10 + minor >= oldest ? 1 : 0;
  return CUPTI_SUCCESS;
}

SIM_EXPORT CUptiResult cuptiDeviceSupported(CUdevice dev, int* support) {
  if (support == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  if (Refusal() != CUPTI_SUCCESS) return CUPTI_ERROR_INVALID_DEVICE;
  if (dev < 0 || dev >= TheTable()->device_count()) return CUPTI_ERROR_INVALID_DEVICE;
  *support = 1;
  return CUPTI_SUCCESS;
}

SIM_EXPORT CUptiResult cuptiDeviceVirtualizationMode(CUdevice dev, CUpti_DeviceVirtualizationMode* virtualization) {
  SIM_CUPTI_TRY(Refusal());
  if (virtualization == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *virtualization = CUPTI_DEVICE_VIRTUALIZATION_MODE_NONE;
  return CUPTI_SUCCESS;
}
