// SPDX-License-Identifier: Apache-2.0
//
// How functions of the simulated driver are found, and what it refuses.
#include <cuda.h>
#include <dlfcn.h>

#include "tests/sim/sim_test.h"

#undef cuGetProcAddress

namespace tbprof::sim {
namespace {

using GetProcAddress = CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);
using GetProcAddressOld = CUresult (*)(const char*, void**, int, cuuint64_t);

class Driver : public testing::Test {
 protected:
  static void* Library() {
    static void* library = dlopen((SimDirectory() + "/cuda13/libcuda.so.1").c_str(), RTLD_NOW);
    return library;
  }
  static void* Named(const char* name) { return dlsym(Library(), name); }
  static void* Ask(const char* base, int version, cuuint64_t flags = 0) {
    void* function = nullptr;
    auto get = reinterpret_cast<GetProcAddress>(Named("cuGetProcAddress_v2"));
    EXPECT_EQ(get(base, &function, version, flags, &status), CUDA_SUCCESS);
    return function;
  }
  static inline CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
};

TEST_F(Driver, Version_SelectsTheFunction) {
  ASSERT_NE(Library(), nullptr) << dlerror();
  EXPECT_EQ(Ask("cuMemAlloc", 3020), Named("cuMemAlloc_v2"));
  EXPECT_EQ(Ask("cuMemAlloc", 13000), Named("cuMemAlloc_v2"));
  EXPECT_EQ(Ask("cuCtxSynchronize", 12000), Named("cuCtxSynchronize"));
  EXPECT_EQ(Ask("cuCtxSynchronize", 13000), Named("cuCtxSynchronize_v2"));
  EXPECT_EQ(Ask("cuGetProcAddress", 11030), Named("cuGetProcAddress"));
  EXPECT_EQ(Ask("cuGetProcAddress", 12000), Named("cuGetProcAddress_v2"));
  EXPECT_EQ(Ask("cuCtxCreate", 4000), Named("cuCtxCreate_v2"));
  EXPECT_EQ(Ask("cuCtxCreate", 12050), Named("cuCtxCreate_v4"));
}

TEST_F(Driver, Flags_SelectTheFunction) {
  EXPECT_EQ(Ask("cuLaunchKernel", 12000), Named("cuLaunchKernel"));
  EXPECT_EQ(Ask("cuLaunchKernel", 12000, CU_GET_PROC_ADDRESS_LEGACY_STREAM), Named("cuLaunchKernel"));
  EXPECT_EQ(Ask("cuLaunchKernel", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM), Named("cuLaunchKernel_ptsz"));
  EXPECT_EQ(Ask("cuMemcpyHtoD", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM), Named("cuMemcpyHtoD_v2_ptds"));
  EXPECT_EQ(Ask("cuMemAlloc", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM), Named("cuMemAlloc_v2"));
}

TEST_F(Driver, MissingFunction_CauseIsReturned) {
  EXPECT_EQ(Ask("", 0), nullptr) << "the runtime's probe";
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  EXPECT_EQ(Ask("cuNoSuchCall", 12000), nullptr);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  EXPECT_EQ(Ask("cuGraphLaunch", 9000), nullptr);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  auto get = reinterpret_cast<GetProcAddress>(Named("cuGetProcAddress_v2"));
  void* function = nullptr;
  EXPECT_EQ(get("cuInit", &function, 99000, 0, nullptr), CUDA_ERROR_INVALID_VALUE) << "newer than the driver";
  EXPECT_EQ(get("cuInit", &function, 12000, 4, nullptr), CUDA_ERROR_INVALID_VALUE);
  auto old = reinterpret_cast<GetProcAddressOld>(Named("cuGetProcAddress"));
  EXPECT_EQ(old("cuInit", &function, 12000, 0), CUDA_SUCCESS);
  EXPECT_EQ(function, Named("cuInit"));
}

TEST_F(Driver, ForeignHandles_AreRefused) {
  auto table = reinterpret_cast<decltype(&cuGetExportTable)>(Named("cuGetExportTable"));
  const void* found = nullptr;
  const CUuuid first_of_the_runtime = {{'\xf8', '\xcf', '\xf9', '\x51'}};
  EXPECT_NE(table(&found, &first_of_the_runtime), CUDA_SUCCESS);
  auto arrays = reinterpret_cast<decltype(&cuArrayDestroy)>(Named("cuArrayDestroy"));
  ASSERT_NE(arrays, nullptr);
  EXPECT_EQ(arrays(nullptr), CUDA_ERROR_NOT_SUPPORTED);
  auto count = reinterpret_cast<decltype(&cuDeviceGetCount)>(Named("cuDeviceGetCount"));
  int devices = 0;
  EXPECT_EQ(count(&devices), CUDA_ERROR_NOT_INITIALIZED);
}

TEST_F(Driver, VersionNodes_EqualTheRealOnes) {
  for (const auto& [path, node] :
       {std::pair{"/cuda13/libcudart.so.13", "libcudart.so.13"}, {"/cuda12/libcudart.so.12", "libcudart.so.12"}}) {
    void* library = dlopen((SimDirectory() + path).c_str(), RTLD_NOW);
    ASSERT_NE(library, nullptr) << dlerror();
    EXPECT_NE(dlvsym(library, "cudaMalloc", node), nullptr) << path;
    EXPECT_NE(dlvsym(library, "__cudaLaunchKernel", node), nullptr) << path;
  }
  for (const auto& [path, node] :
       {std::pair{"/cuda13/libcupti.so.13", "libcupti.so.13"}, {"/cuda12/libcupti.so.12", "libcupti.so.12"}}) {
    void* library = dlopen((SimDirectory() + path).c_str(), RTLD_NOW);
    ASSERT_NE(library, nullptr) << dlerror();
    EXPECT_NE(dlvsym(library, "cuptiSubscribe", node), nullptr) << path;
    const bool newer = std::string(path).find("13") != std::string::npos;
    EXPECT_EQ(dlsym(library, "cuptiActivityEnableRuntimeApi") != nullptr, newer);
  }
}

}  // namespace
}  // namespace tbprof::sim
