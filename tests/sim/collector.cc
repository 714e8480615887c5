// SPDX-License-Identifier: Apache-2.0
//
// A small CUPTI client for the tests of the simulator: an injected library (CUDA_INJECTION64_PATH) that turns kinds on
// at cuInit, takes all buffers, and at exit writes what it saw as `key=value` lines.
//
//   COLLECTOR_FACTS   the file for the lines
//   COLLECTOR_DUMP    a file for the raw buffers: each an 8-byte length and its bytes
//   COLLECTOR_CUPTI   the library (libcupti.so.13)
//   COLLECTOR_KINDS   numbers of kinds, separated by commas
//   COLLECTOR_FLAGS   of: forced (no plain flush before the last), none (give no buffer), callback (register a clock),
//                     subscribe (runtime callbacks, counted), small (4 KiB buffers), noflush (only what comes by
//                     itself),
//                     destructor (flush after all exit handlers, the driver's among them), light (records are not
//                     looked at, buffers zeroed and used again: what is left is the simulator's own cost)
//   COLLECTOR_BUFFER  bytes of a buffer (1 MiB)
#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace {

struct Cupti {
  CUptiResult (*GetVersion)(uint32_t*);
  CUptiResult (*Subscribe)(CUpti_SubscriberHandle*, CUpti_CallbackFunc, void*);
  CUptiResult (*EnableDomain)(uint32_t, CUpti_SubscriberHandle, CUpti_CallbackDomain);
  CUptiResult (*RegisterCallbacks)(CUpti_BuffersCallbackRequestFunc, CUpti_BuffersCallbackCompleteFunc);
  CUptiResult (*RegisterTimestampCallback)(CUpti_TimestampCallbackFunc);
  CUptiResult (*Enable)(CUpti_ActivityKind);
  CUptiResult (*ConfigureUnified)(CUpti_ActivityUnifiedMemoryCounterConfig*, uint32_t);
  CUptiResult (*FlushAll)(uint32_t);
  CUptiResult (*GetNextRecord)(uint8_t*, size_t, CUpti_Activity**);
  CUptiResult (*GetNumDropped)(CUcontext, uint32_t, size_t*);
  CUptiResult (*SetThreadIdType)(CUpti_ActivityThreadIdType);
  CUptiResult (*SetAttribute)(CUpti_ActivityAttribute, size_t*, void*);
};
Cupti cupti;

std::mutex& mutex() {
  static auto* one = new std::mutex;
  return *one;
}
std::map<std::string, long long>& facts() {
  static auto* map = new std::map<std::string, long long>;
  return *map;
}
std::map<uint32_t, uint64_t>& call_start() {
  static auto* map = new std::map<uint32_t, uint64_t>;
  return *map;
}
FILE* dump = nullptr;
pid_t owner = 0;

bool Flag(const char* name) {
  const char* flags = getenv("COLLECTOR_FLAGS");
  return flags != nullptr && strstr(flags, name) != nullptr;
}

bool light = false;

size_t BufferBytes() {
  static const size_t bytes = [] {
    const char* said = getenv("COLLECTOR_BUFFER");
    return said != nullptr ? strtoull(said, nullptr, 10) : Flag("small") ? size_t{4096} : size_t{1} << 20;
  }();
  return bytes;
}

std::vector<uint8_t*>& spare() {
  static auto* buffers = new std::vector<uint8_t*>;
  return *buffers;
}

void Request(uint8_t** buffer, size_t* size, size_t* records) {
  *records = 0;
  *buffer = nullptr;
  *size = 0;
  if (Flag("none")) return;
  *size = BufferBytes();
  if (light) {
    const std::lock_guard<std::mutex> guard(mutex());
    ++facts()["buffers_asked"];
    if (!spare().empty()) {
      *buffer = spare().back();
      spare().pop_back();
      return;
    }
  }
  *buffer = static_cast<uint8_t*>(light ? calloc(1, *size) : aligned_alloc(8, *size));
  const std::lock_guard<std::mutex> guard(mutex());
  ++facts()["buffers_asked"];
}

void CountDevice(const char* what, uint64_t start, uint64_t end, uint32_t correlation) {
  auto& f = facts();
  ++f[what];
  if (start == 0 && end == 0) {
    ++f[std::string(what) + "_without_times"];
  } else if (end == 0) {
    ++f[std::string(what) + "_unfinished"];
  } else {
    f[std::string(what) + "_ns"] += static_cast<long long>(end - start);
    if (end < start) ++f["negative"];
  }
  if (correlation == 0) ++f[std::string(what) + "_without_correlation"];
  const auto call = call_start().find(correlation);
  // A call's record may come later than its kernel's; what is there must have begun before.
  if (call != call_start().end() && start != 0 && start < call->second) ++f["started_before_call"];
}

void Count(const CUpti_Activity* record) {
  auto& f = facts();
  ++f["records"];
  ++f["kind_" + std::to_string(static_cast<uint32_t>(record->kind))];
  switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      const auto* kernel = reinterpret_cast<const CUpti_ActivityKernel4*>(record);
      CountDevice("kernels", kernel->start, kernel->end, kernel->correlationId);
      ++f["kernel:" + std::string(kernel->name)];
      ++f["stream:" + std::to_string(kernel->streamId)];
      ++f["device:" + std::to_string(kernel->deviceId)];
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto* copy = reinterpret_cast<const CUpti_ActivityMemcpy*>(record);
      CountDevice("copies", copy->start, copy->end, copy->correlationId);
      const std::string kind = std::to_string(copy->copyKind);
      ++f["copies_" + kind];
      f["bytes_" + kind] += static_cast<long long>(copy->bytes);
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY2: {
      const auto* copy = reinterpret_cast<const CUpti_ActivityMemcpyPtoP*>(record);
      CountDevice("peer_copies", copy->start, copy->end, copy->correlationId);
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
      const auto* set = reinterpret_cast<const CUpti_ActivityMemset*>(record);
      CountDevice("sets", set->start, set->end, set->correlationId);
      break;
    }
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE: {
      const auto* graph = reinterpret_cast<const CUpti_ActivityGraphTrace*>(record);
      CountDevice("graphs", graph->start, graph->end, graph->correlationId);
      break;
    }
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER: {
      const auto* call = reinterpret_cast<const CUpti_ActivityAPI*>(record);
      const char* prefix = record->kind == CUPTI_ACTIVITY_KIND_RUNTIME ? "runtime" : "driver";
      ++f[prefix];
      ++f[std::string(prefix) + "_cbid_" + std::to_string(call->cbid)];
      if (call->returnValue != 0) ++f[std::string(prefix) + "_failed_" + std::to_string(call->returnValue)];
      call_start()[call->correlationId] = call->start;
      if (call->end < call->start) ++f["negative"];
      break;
    }
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      ++f["synchronizations"];
      break;
    default:
      break;
  }
}

void Complete(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  // It must not be waited for.
  if (light) memset(buffer, 0, valid);
  const std::lock_guard<std::mutex> guard(mutex());
  ++facts()["buffers"];
  if (light) {
    spare().push_back(buffer);
    return;
  }
  if (dump != nullptr) {
    const uint64_t length = valid;
    fwrite(&length, sizeof(length), 1, dump);
    fwrite(buffer, 1, valid, dump);
  }
  CUpti_Activity* record = nullptr;
  CUptiResult result = CUPTI_SUCCESS;
  while ((result = cupti.GetNextRecord(buffer, valid, &record)) == CUPTI_SUCCESS) Count(record);
  if (result != CUPTI_ERROR_MAX_LIMIT_REACHED) ++facts()["walk_ended_" + std::to_string(result)];
  free(buffer);
}

void OnCall(void*, CUpti_CallbackDomain domain, CUpti_CallbackId, const void* data) {
  const auto* call = static_cast<const CUpti_CallbackData*>(data);
  const std::lock_guard<std::mutex> guard(mutex());
  ++facts()[call->callbackSite == CUPTI_API_ENTER ? "callbacks_enter" : "callbacks_exit"];
  ++facts()[(domain == CUPTI_CB_DOMAIN_RUNTIME_API ? "callback:" : "other:") + std::string(call->functionName)];
}

uint64_t Monotonic() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1000000000u + static_cast<uint64_t>(time.tv_nsec);
}

void AtExit() {
  if (getpid() != owner) return;
  if (!Flag("noflush")) {
    if (!Flag("forced")) facts()["flush"] = cupti.FlushAll(0);
    facts()["forced_flush"] = cupti.FlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  }
  // Without a flush the worker gets time for the full ones.
  for (int i = 0; Flag("noflush") && i < 1000; ++i) {
    usleep(10000);
    const std::lock_guard<std::mutex> guard(mutex());
    if (facts()["buffers"] + 4 > facts()["buffers_asked"]) break;
  }
  size_t dropped = 0;
  cupti.GetNumDropped(nullptr, 0, &dropped);
  const std::lock_guard<std::mutex> guard(mutex());
  facts()["dropped"] = static_cast<long long>(dropped);
  // The worker may still deliver.
  if (dump != nullptr) fclose(dump);
  dump = nullptr;
  const char* path = getenv("COLLECTOR_FACTS");
  FILE* file = path == nullptr ? stderr : fopen(path, "we");
  if (file == nullptr) return;
  for (const auto& [key, value] : facts()) fprintf(file, "%s=%lld\n", key.c_str(), value);
  if (file != stderr) fclose(file);
}

template <typename Function>
void Find(void* library, const char* name, Function* out) {
  *out = reinterpret_cast<Function>(dlsym(library, name));
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  const char* name = getenv("COLLECTOR_CUPTI");
  void* library = dlopen(name == nullptr ? "libcupti.so.13" : name, RTLD_NOW);
  if (library == nullptr) return 0;
  Find(library, "cuptiGetVersion", &cupti.GetVersion);
  Find(library, "cuptiSubscribe", &cupti.Subscribe);
  Find(library, "cuptiEnableDomain", &cupti.EnableDomain);
  Find(library, "cuptiActivityRegisterCallbacks", &cupti.RegisterCallbacks);
  Find(library, "cuptiActivityRegisterTimestampCallback", &cupti.RegisterTimestampCallback);
  Find(library, "cuptiActivityEnable", &cupti.Enable);
  Find(library, "cuptiActivityConfigureUnifiedMemoryCounter", &cupti.ConfigureUnified);
  Find(library, "cuptiActivityFlushAll", &cupti.FlushAll);
  Find(library, "cuptiActivityGetNextRecord", &cupti.GetNextRecord);
  Find(library, "cuptiActivityGetNumDroppedRecords", &cupti.GetNumDropped);
  Find(library, "cuptiSetThreadIdType", &cupti.SetThreadIdType);
  Find(library, "cuptiActivitySetAttribute", &cupti.SetAttribute);
  owner = getpid();
  light = Flag("light");
  if (light) {
    // Or the launching thread zeroes them.
    uint8_t zeroed = 1;
    size_t size = sizeof(zeroed);
    cupti.SetAttribute(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &size, &zeroed);
  }
  auto& f = facts();
  CUpti_SubscriberHandle subscriber = nullptr;
  f["subscribe"] = cupti.Subscribe(&subscriber, OnCall, nullptr);
  if (Flag("subscribe")) f["enable_domain"] = cupti.EnableDomain(1, subscriber, CUPTI_CB_DOMAIN_RUNTIME_API);
  cupti.SetThreadIdType(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
  if (Flag("callback")) f["register_clock"] = cupti.RegisterTimestampCallback(Monotonic);
  f["register"] = cupti.RegisterCallbacks(Request, Complete);
  const char* kinds = getenv("COLLECTOR_KINDS");
  for (std::string left = kinds == nullptr ? "10,1,2,5" : kinds; !left.empty();) {
    const int kind = atoi(left.c_str());
    if (kind == CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER) {
      CUpti_ActivityUnifiedMemoryCounterConfig transfers[2] = {};
      transfers[0].kind = CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_HTOD;
      transfers[1].kind = CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOH;
      for (auto& transfer : transfers) {
        transfer.scope = CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_SCOPE_PROCESS_ALL_DEVICES;
        transfer.enable = 1;
      }
      cupti.ConfigureUnified(transfers, 2);
    }
    const CUptiResult result = cupti.Enable(static_cast<CUpti_ActivityKind>(kind));
    if (result != CUPTI_SUCCESS) f["enable_" + std::to_string(kind)] = result;
    const size_t comma = left.find(',');
    left = comma == std::string::npos ? "" : left.substr(comma + 1);
  }
  if (const char* path = getenv("COLLECTOR_DUMP")) dump = fopen(path, "we");
  if (!Flag("destructor")) atexit(AtExit);
  return 1;
}

__attribute__((destructor)) static void Last() {
  if (owner != 0 && Flag("destructor")) AtExit();
}
