// SPDX-License-Identifier: Apache-2.0
//
// The simulated libraries beside NVIDIA's own, as far as those run without a driver: libcupti's walk through a buffer,
// its names, and what each call answers when there is no driver.
#include <cuda_runtime_api.h>
#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <dlfcn.h>
#include <string.h>

#include <cstdint>
#include <functional>

#include "tests/sim/sim_test.h"

namespace tbprof::sim {
namespace {

void* Real(const char* name) {
  static std::map<std::string, void*> opened;
  void*& library = opened[name];
  if (library == nullptr) library = dlopen((std::string(TBPROF_CUDA_LIBRARIES) + "/" + name).c_str(), RTLD_NOW);
  return library;
}

void* Simulated(const char* name) {
  static std::map<std::string, void*> opened;
  void*& library = opened[name];
  if (library == nullptr) library = dlopen((SimDirectory() + "/nodriver/" + name).c_str(), RTLD_NOW);
  return library;
}

bool DriverHere() { return dlopen("libcuda.so.1", RTLD_NOW) != nullptr; }

#define SIM_NEEDS_REAL(name) \
  if (Real(name) == nullptr) GTEST_SKIP() << "SKIP: " << TBPROF_CUDA_LIBRARIES << "/" << name << " cannot be opened"

template <typename Function>
Function* In(void* library, const char* name, Function*) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}
#define FUNCTION(library, name) In(library, #name, &name)

std::map<std::string, long long> Walk(void* library, const std::string& dump) {
  std::map<std::string, long long> seen;
  auto* next = FUNCTION(library, cuptiActivityGetNextRecord);
  for (size_t at = 0; at + sizeof(uint64_t) <= dump.size();) {
    uint64_t length = 0;
    memcpy(&length, dump.data() + at, sizeof(length));
    at += sizeof(length);
    std::vector<uint64_t> aligned(length / 8 + 1);
    memcpy(aligned.data(), dump.data() + at, length);
    at += length;
    auto* buffer = reinterpret_cast<uint8_t*>(aligned.data());
    CUpti_Activity* record = nullptr;
    CUptiResult result = CUPTI_SUCCESS;
    while ((result = next(buffer, length, &record)) == CUPTI_SUCCESS) {
      ++seen["kind " + std::to_string(static_cast<uint32_t>(record->kind))];
      seen["offsets"] += reinterpret_cast<uint8_t*>(record) - buffer;
      if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
        const auto* kernel = reinterpret_cast<CUpti_ActivityKernel10*>(record);
        seen["kernel_ns"] += static_cast<long long>(kernel->end - kernel->start);
      }
    }
    ++seen["ended with " + std::to_string(result)];
  }
  return seen;
}

TEST(RealLibrary, SimulatedBuffers_AreRead) {
  SIM_NEEDS_REAL("libcupti.so.13");
  SIM_NEEDS_SUBJECT("train");
  const std::string kinds = "10,1,2,4,5,8,9,17,36,37,38,39,49";
  const Outcome train = RunSubject("train", {"6"}, {.collect = true, .kinds = kinds});
  const Outcome graph = RunSubject("train", {"6", "100000", "graph"}, {.collect = true, .kinds = "10,1,2,5,51"});
  const Outcome peers =
      RunSubject("devices", {}, {.collect = true, .kinds = kinds + ",22", .environment = {{"CUDASIM_GPUS", "2"}}});
  const Outcome memory = RunSubject("copies", {"1"}, {.collect = true, .kinds = kinds + ",25,50"});
  for (const Outcome* run : {&train, &graph, &peers, &memory}) {
    ASSERT_FALSE(run->dump.empty()) << run->out;
    const auto real = Walk(Real("libcupti.so.13"), run->dump);
    EXPECT_EQ(real, Walk(Simulated("libcupti.so.13"), run->dump));
    for (const auto& [what, count] : real) {
      if (what.rfind("ended", 0) == 0) {
        EXPECT_EQ(what, "ended with 12") << count;
      }
    }
  }
  EXPECT_EQ(Walk(Real("libcupti.so.13"), train.dump)["kernel_ns"], train.facts["kernel_ns"]);
}

TEST(RealLibrary, Names_EqualTheRealOnes) {
  SIM_NEEDS_REAL("libcupti.so.13");
  for (const auto domain : {CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_CB_DOMAIN_RUNTIME_API}) {
    for (uint32_t cbid = 0; cbid < 900; ++cbid) {
      const char *real = nullptr, *simulated = nullptr;
      const int expected = FUNCTION(Real("libcupti.so.13"), cuptiGetCallbackName)(domain, cbid, &real);
      const int result = FUNCTION(Simulated("libcupti.so.13"), cuptiGetCallbackName)(domain, cbid, &simulated);
      EXPECT_EQ(expected, result) << domain << " " << cbid << " " << (real == nullptr ? "" : real);
      if (expected == 0 && result == 0) {
        EXPECT_STREQ(real, simulated) << domain << " " << cbid;
      }
    }
  }
  // From 1000 on the real library names codes that no header has.
  for (int code = 0; code < 1000; ++code) {
    const char *real = nullptr, *simulated = nullptr;
    const auto result = static_cast<CUptiResult>(code);
    const int expected = FUNCTION(Real("libcupti.so.13"), cuptiGetResultString)(result, &real);
    EXPECT_EQ(expected, FUNCTION(Simulated("libcupti.so.13"), cuptiGetResultString)(result, &simulated)) << code;
    EXPECT_STREQ(real, simulated) << code;
  }
}

void Request(uint8_t** buffer, size_t* size, size_t*) {
  *buffer = nullptr;
  *size = 0;
}
void Complete(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t) {}
void OnCall(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}
uint64_t Clock() { return 1; }

struct Call {
  std::string name;
  std::function<int(void* library)> function;
};

// Every call of the library that a profiler makes, in an order in which one would.
std::vector<Call> Calls() {
  std::vector<Call> calls;
  const auto add = [&calls](const std::string& name, std::function<int(void*)> function) {
    calls.push_back({name, std::move(function)});
  };
  static CUpti_SubscriberHandle subscriber = nullptr;
#define ADD(function, ...) \
  add(#function "(" #__VA_ARGS__ ")", [=](void* library) -> int { return FUNCTION(library, function)(__VA_ARGS__); })
  static uint64_t time = 0;
  static uint32_t number = 0;
  static size_t size = sizeof(size_t), dropped = 0, value = 0, domains = 0;
  static CUpti_DomainTable table;
  static int support = 0;
  static CUpti_ActivityThreadIdType type;
  static CUpti_SubscriberParams parameters;
  parameters.structSize = CUpti_SubscriberParams_STRUCT_SIZE;
  ADD(cuptiGetTimestamp, &time);
  ADD(cuptiSubscribe, &subscriber, OnCall, nullptr);
  ADD(cuptiSubscribe_v2, &subscriber, OnCall, nullptr, &parameters);
  ADD(cuptiEnableDomain, 1, nullptr, CUPTI_CB_DOMAIN_RUNTIME_API);
  ADD(cuptiEnableCallback, 1, nullptr, CUPTI_CB_DOMAIN_RUNTIME_API, 1);
  ADD(cuptiEnableAllDomains, 1, nullptr);
  ADD(cuptiGetCallbackState, &number, nullptr, CUPTI_CB_DOMAIN_RUNTIME_API, 1);
  ADD(cuptiSupportedDomains, &domains, &table);
  ADD(cuptiUnsubscribe, nullptr);
  ADD(cuptiActivityRegisterCallbacks, Request, Complete);
  for (int kind = 1; kind <= 55; ++kind) {
    ADD(cuptiActivityEnable, static_cast<CUpti_ActivityKind>(kind));
    ADD(cuptiActivityDisable, static_cast<CUpti_ActivityKind>(kind));
    ADD(cuptiActivityEnableAndDump, static_cast<CUpti_ActivityKind>(kind));
  }
  ADD(cuptiActivityEnableDriverApi, 307, 1);
  ADD(cuptiActivityEnableRuntimeApi, 211, 1);
  for (int attribute = 0; attribute <= 10; ++attribute) {
    ADD(cuptiActivityGetAttribute, static_cast<CUpti_ActivityAttribute>(attribute), &size, &value);
    ADD(cuptiActivitySetAttribute, static_cast<CUpti_ActivityAttribute>(attribute), &size, &value);
  }
  ADD(cuptiSetThreadIdType, CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
  ADD(cuptiGetThreadIdType, &type);
  ADD(cuptiActivityRegisterTimestampCallback, Clock);
  ADD(cuptiActivityFlushPeriod, 100);
  ADD(cuptiActivityFlushAll, 0);
  ADD(cuptiActivityFlushAll, 1);
  ADD(cuptiActivityGetNumDroppedRecords, nullptr, 0, &dropped);
  ADD(cuptiActivityEnableLatencyTimestamps, 1);
  ADD(cuptiActivityEnableLaunchAttributes, 1);
  ADD(cuptiActivityEnableHWTrace, 1);
  ADD(cuptiActivityEnableDeviceGraph, 1);
  ADD(cuptiActivityEnableAllocationSource, 1);
  ADD(cuptiActivityEnableAllSyncRecords, 1);
  ADD(cuptiActivityEnableCudaEventDeviceTimestamps, 1);
  ADD(cuptiActivityPushExternalCorrelationId, CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, 7);
  ADD(cuptiActivityPopExternalCorrelationId, CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, &time);
  ADD(cuptiGetContextId, nullptr, &number);
  ADD(cuptiGetDeviceId, nullptr, &number);
  ADD(cuptiGetStreamIdEx, nullptr, nullptr, 0, &number);
  ADD(cuptiGetGraphId, nullptr, &number);
  ADD(cuptiComputeCapabilitySupported, 9, 0, &support);
  ADD(cuptiComputeCapabilitySupported, 7, 0, &support);
  ADD(cuptiDeviceSupported, 0, &support);
  ADD(cuptiGetLastError);
  ADD(cuptiFinalize);
  ADD(cuptiSubscribe, &subscriber, OnCall, nullptr);
#undef ADD
  return calls;
}

TEST(RealLibrary, NoDriver_AnswersEqualTheRealOnes) {
  SIM_NEEDS_REAL("libcupti.so.13");
  if (DriverHere()) GTEST_SKIP() << "SKIP: there is a driver on this machine";
  for (const Call& call : Calls()) {
    const int real = call.function(Real("libcupti.so.13"));
    EXPECT_EQ(real, call.function(Simulated("libcupti.so.13"))) << call.name;
  }
}

TEST(RealLibrary, HandmadeBuffer_IsRead) {
  SIM_NEEDS_REAL("libcupti.so.13");
  for (void* library : {Real("libcupti.so.13"), Simulated("libcupti.so.13")}) {
    std::vector<uint64_t> aligned((216 + 40 + 96) / 8);
    auto* buffer = reinterpret_cast<uint8_t*>(aligned.data());
    *reinterpret_cast<uint32_t*>(buffer) = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    *reinterpret_cast<uint32_t*>(buffer + 216) = CUPTI_ACTIVITY_KIND_RUNTIME;
    *reinterpret_cast<uint32_t*>(buffer + 256) = CUPTI_ACTIVITY_KIND_MEMCPY;
    auto* next = FUNCTION(library, cuptiActivityGetNextRecord);
    CUpti_Activity* record = nullptr;
    for (const size_t offset : {0, 216, 256}) {
      EXPECT_EQ(next(buffer, 352, &record), CUPTI_SUCCESS);
      EXPECT_EQ(reinterpret_cast<uint8_t*>(record), buffer + offset);
    }
    EXPECT_EQ(next(buffer, 352, &record), CUPTI_ERROR_MAX_LIMIT_REACHED);
    record = nullptr;
    EXPECT_EQ(next(nullptr, 352, &record), CUPTI_ERROR_INVALID_PARAMETER);
  }
}

TEST(RealLibrary, NoDriver_RuntimeAnswersEqualTheRealOnes) {
  SIM_NEEDS_REAL("libcudart.so.13");
  if (DriverHere()) GTEST_SKIP() << "SKIP: there is a driver on this machine";
  void* memory = nullptr;
  int number = 0;
  struct Row {
    const char* name;
    std::function<int(void*)> call;
  };
  const Row rows[] = {
      {"cudaDriverGetVersion", [&](void* l) { return static_cast<int>(FUNCTION(l, cudaDriverGetVersion)(&number)); }},
      {"cudaRuntimeGetVersion", [&](void* l) { return static_cast<int>(FUNCTION(l, cudaRuntimeGetVersion)(&number)); }},
      {"cudaPeekAtLastError", [&](void* l) { return static_cast<int>(FUNCTION(l, cudaPeekAtLastError)()); }},
      {"cudaGetDeviceCount", [&](void* l) { return static_cast<int>(FUNCTION(l, cudaGetDeviceCount)(&number)); }},
      {"cudaGetLastError", [&](void* l) { return static_cast<int>(FUNCTION(l, cudaGetLastError)()); }},
      {"cudaGetLastError again", [&](void* l) { return static_cast<int>(FUNCTION(l, cudaGetLastError)()); }},
      {"cudaGetDevice", [&](void* l) { return static_cast<int>(FUNCTION(l, cudaGetDevice)(&number)); }},
      {"cudaSetDevice", [&](void* l) { return static_cast<int>(FUNCTION(l, cudaSetDevice)(0)); }},
      {"cudaFree", [&](void* l) { return static_cast<int>(FUNCTION(l, cudaFree)(nullptr)); }},
      {"cudaDeviceSynchronize", [&](void* l) { return static_cast<int>(FUNCTION(l, cudaDeviceSynchronize)()); }},
      {"cudaMallocHost",
       [&](void* l) {
         auto* function = reinterpret_cast<cudaError_t (*)(void**, size_t)>(dlsym(l, "cudaMallocHost"));
         return static_cast<int>(function(&memory, 10));
       }},
  };
  for (const Row& row : rows) {
    const int real = row.call(Real("libcudart.so.13"));
    EXPECT_EQ(real, row.call(Simulated("libcudart.so.13"))) << row.name;
  }
  for (int code = 0; code < 1000; ++code) {
    const auto error = static_cast<cudaError_t>(code);
    const char* simulated = FUNCTION(Simulated("libcudart.so.13"), cudaGetErrorName)(error);
    if (strcmp(simulated, "unrecognized error code") == 0) continue;
    EXPECT_STREQ(FUNCTION(Real("libcudart.so.13"), cudaGetErrorName)(error), simulated);
    EXPECT_STREQ(FUNCTION(Real("libcudart.so.13"), cudaGetErrorString)(error),
                 FUNCTION(Simulated("libcudart.so.13"), cudaGetErrorString)(error));
  }
}

}  // namespace
}  // namespace tbprof::sim
