// SPDX-License-Identifier: Apache-2.0
// Compares wire/cuda_calls.def and wire/cuda_observer.h with NVIDIA's headers: a hook with other parameters than the
// function that it replaces would break the program.
#include <gtest/gtest.h>

#include "wire/cuda_observer.h"

#if __has_include(<cudaTypedefs.h>)
#include <cuda.h>
#include <cudaTypedefs.h>

#include <string>
#include <vector>

// cudaTypedefs.h declares these only for NVIDIA's own sources.
using PFN_cuCtxDestroy_v2000 = CUresult (*)(CUcontext);
using PFN_cuDevicePrimaryCtxRelease_v7000 = CUresult (*)(CUdevice_v1);
using PFN_cuDevicePrimaryCtxReset_v7000 = CUresult (*)(CUdevice_v1);

#if CUDA_VERSION < 13010
using PFN_cuLaunchHostFunc_v13010 = CUresult (*)(CUstream, CUhostFn, void*, unsigned int);
using PFN_cuLaunchHostFunc_v13010_ptsz = PFN_cuLaunchHostFunc_v13010;
#endif

namespace tbprof {
namespace {

// The properties of a type that determine how an argument is passed.
template <typename Argument>
std::string Shape() {
  if constexpr (std::is_floating_point_v<Argument>) return "f" + std::to_string(sizeof(Argument));
  if constexpr (std::is_class_v<Argument>) return "c" + std::to_string(sizeof(Argument));
  return "i" + std::to_string(sizeof(Argument));
}

template <typename Function>
struct Shapes;
template <typename Result, typename... Arguments>
struct Shapes<Result (*)(Arguments...)> {
  static std::vector<std::string> Of() { return {Shape<Result>(), Shape<Arguments>()...}; }
};

TEST(CudaCalls, EachCall_HasTheArgumentsOfItsInterface){
#define SAME(ours, theirs) EXPECT_EQ(Shapes<ours>::Of(), Shapes<theirs>::Of()) << #theirs
#define TBPROF_CUDA_CALL(symbol, name, since, until, parameters, arguments, description) \
  {                                                                                      \
    using Ours = int(*) parameters;                                                      \
    SAME(Ours, PFN_##name##_v##since);                                                   \
  }
#define TBPROF_CUDA_STREAM_CALL(symbol, name, since, until, suffix, suffix_since, parameters, arguments, description) \
  {                                                                                                                   \
    using Ours = int(*) parameters;                                                                                   \
    SAME(Ours, PFN_##name##_v##since);                                                                                \
    SAME(Ours, PFN_##name##_v##suffix_since##suffix);                                                                 \
  }
#include "wire/cuda_calls.def"
}

// cuda.h maps each name to the symbol of its newest interface: the row without a successor must have that symbol.
TEST(CudaCalls, EachSymbol_IsThatOfCudaH) {
  struct Row {
    std::string symbol, name;
    int until;
  };
  const std::vector<Row> rows = {
#define TBPROF_CUDA_CALL(symbol, name, since, until, ...) {#symbol, #name, until},
#define TBPROF_CUDA_STREAM_CALL(symbol, name, since, until, ...) {#symbol, #name, until},
#include "wire/cuda_calls.def"
  };
  for (const Row& row : rows) {
    EXPECT_TRUE(row.symbol.starts_with(row.name)) << row.symbol;
    for (const Row& other : rows) {
      if (&row == &other || row.name != other.name) continue;
      EXPECT_NE(row.until, other.until) << row.symbol << " and " << other.symbol;
    }
  }
#define EXPAND(name) #name
#define SYMBOL(name) EXPAND(name)
  const auto is_newest = [&](const std::string& name, const std::string& symbol) {
    for (const Row& row : rows) {
      if (row.name == name && row.symbol == symbol) return row.until == 14000;
    }
    return false;
  };
  EXPECT_TRUE(is_newest("cuMemAlloc", SYMBOL(cuMemAlloc)));
  EXPECT_TRUE(is_newest("cuMemcpyHtoDAsync", SYMBOL(cuMemcpyHtoDAsync)));
  EXPECT_TRUE(is_newest("cuMemsetD2D32", SYMBOL(cuMemsetD2D32)));
  EXPECT_TRUE(is_newest("cuCtxDestroy", SYMBOL(cuCtxDestroy)));
  EXPECT_TRUE(is_newest("cuDevicePrimaryCtxReset", SYMBOL(cuDevicePrimaryCtxReset)));
  EXPECT_TRUE(is_newest("cuMemcpyBatchAsync", SYMBOL(cuMemcpyBatchAsync)));
  EXPECT_TRUE(is_newest("cuMemcpy3DBatchAsync", SYMBOL(cuMemcpy3DBatchAsync)));
  EXPECT_TRUE(is_newest("cuMemPrefetchAsync", SYMBOL(cuMemPrefetchAsync)));
  EXPECT_TRUE(is_newest("cuStreamBatchMemOp", SYMBOL(cuStreamBatchMemOp)));
}

#define FIELD(theirs, field, ours, member)                                                             \
  EXPECT_EQ(offsetof(theirs, field), offsetof(ours, member)) << #theirs "." #field;                    \
  EXPECT_EQ(sizeof(static_cast<theirs*>(nullptr)->field), sizeof(static_cast<ours*>(nullptr)->member)) \
      << #theirs "." #field

TEST(CudaStructures, EachStructure_IsAPrefixOfCudas) {
  FIELD(CUlaunchConfig, gridDimX, CudaLaunchConfig, grid_x);
  FIELD(CUlaunchConfig, blockDimZ, CudaLaunchConfig, block_z);
  FIELD(CUlaunchConfig, sharedMemBytes, CudaLaunchConfig, shared_bytes);
  FIELD(CUlaunchConfig, hStream, CudaLaunchConfig, stream);
  FIELD(CUDA_LAUNCH_PARAMS, function, CudaLaunch, function);
  FIELD(CUDA_LAUNCH_PARAMS, gridDimX, CudaLaunch, grid_x);
  FIELD(CUDA_LAUNCH_PARAMS, sharedMemBytes, CudaLaunch, shared_bytes);
  FIELD(CUDA_LAUNCH_PARAMS, hStream, CudaLaunch, stream);
  EXPECT_EQ(sizeof(CUDA_LAUNCH_PARAMS), sizeof(CudaLaunch)) << "of which there are several";
  FIELD(CUDA_MEMCPY2D, srcMemoryType, CudaCopy2d, source_type);
  FIELD(CUDA_MEMCPY2D, srcDevice, CudaCopy2d, source_device);
  FIELD(CUDA_MEMCPY2D, dstMemoryType, CudaCopy2d, destination_type);
  FIELD(CUDA_MEMCPY2D, dstDevice, CudaCopy2d, destination_device);
  FIELD(CUDA_MEMCPY2D, WidthInBytes, CudaCopy2d, width);
  FIELD(CUDA_MEMCPY2D, Height, CudaCopy2d, height);
  FIELD(CUDA_MEMCPY3D, srcMemoryType, CudaCopy3d, source_type);
  FIELD(CUDA_MEMCPY3D, srcDevice, CudaCopy3d, source_device);
  FIELD(CUDA_MEMCPY3D, dstMemoryType, CudaCopy3d, destination_type);
  FIELD(CUDA_MEMCPY3D, dstDevice, CudaCopy3d, destination_device);
  FIELD(CUDA_MEMCPY3D, WidthInBytes, CudaCopy3d, width);
  FIELD(CUDA_MEMCPY3D, Height, CudaCopy3d, height);
  FIELD(CUDA_MEMCPY3D, Depth, CudaCopy3d, depth);
  FIELD(CUDA_MEMCPY3D_PEER, srcDevice, CudaCopy3d, source_device);
  FIELD(CUDA_MEMCPY3D_PEER, dstMemoryType, CudaCopy3d, destination_type);
  FIELD(CUDA_MEMCPY3D_PEER, WidthInBytes, CudaCopy3d, width);
  FIELD(CUDA_MEMCPY3D_PEER, Depth, CudaCopy3d, depth);
  FIELD(CUDA_MEMCPY3D_BATCH_OP, src.type, CudaBatchCopy3d, source.type);
  FIELD(CUDA_MEMCPY3D_BATCH_OP, src.op.ptr.ptr, CudaBatchCopy3d, source.address);
  FIELD(CUDA_MEMCPY3D_BATCH_OP, dst.op.ptr.ptr, CudaBatchCopy3d, destination.address);
  FIELD(CUDA_MEMCPY3D_BATCH_OP, extent.width, CudaBatchCopy3d, width);
  FIELD(CUDA_MEMCPY3D_BATCH_OP, extent.depth, CudaBatchCopy3d, depth);
  EXPECT_EQ(sizeof(CUDA_MEMCPY3D_BATCH_OP), sizeof(CudaBatchCopy3d)) << "of which there are several";
  EXPECT_EQ(sizeof(CUmemLocation), sizeof(CudaLocation));
  EXPECT_EQ(CU_MEM_LOCATION_TYPE_DEVICE, 1);
  FIELD(CUmemAllocationProp, location.type, CudaMemoryProperties, location.type);
  FIELD(CUmemAllocationProp, location.id, CudaMemoryProperties, location.id);
  EXPECT_EQ(sizeof(CUmemAllocationProp), sizeof(CudaMemoryProperties));
  EXPECT_EQ(reinterpret_cast<uint64_t>(CU_STREAM_LEGACY), kCudaLegacyStream);
  EXPECT_EQ(reinterpret_cast<uint64_t>(CU_STREAM_PER_THREAD), kCudaThreadStream);
}

}  // namespace
}  // namespace tbprof
#else
TEST(CudaCalls, EachCall_HasTheArgumentsOfItsInterface) { GTEST_SKIP() << "no CUDA headers"; }
#endif
