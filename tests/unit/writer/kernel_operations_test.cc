// SPDX-License-Identifier: Apache-2.0
#include "writer/outputs/kernel_operations.h"

#include <gtest/gtest.h>

namespace tbprof {
namespace {

// Names of kernels that ran on an H200.
TEST(KernelOperations, Name_IsTheFunctionAndTheFirstNameOfItsArguments) {
  const std::pair<const char*, const char*> cases[] = {
      {"input_reduce_fusion", "input_reduce_fusion"},
      {"stream_executor::gpu::RepeatBufferKernelImpl(char*, long, long)", "RepeatBufferKernelImpl"},
      {"void stream_executor::gpu::xla_fp_comparison<float>(float*, float*, float, unsigned long, int*)",
       "xla_fp_comparison"},
      {"void cutlass::Kernel2<cutlass_80_simt_sgemm_64x64_8x5_nn_align1>(cutlass_80_simt_sgemm::Params)",
       "Kernel2.cutlass_80_simt_sgemm_64x64_8x5_nn_align1"},
      {"void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, 1ul> "
       ">(int, at::native::FillFunctor<float>, std::array<char*, 1ul>)",
       "vectorized_elementwise_kernel.FillFunctor"},
      {"void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous "
       "namespace)::TensorListMetadata<2>, std::plus<float>, float>(float)",
       "multi_tensor_apply_kernel.TensorListMetadata"},
      {"void cublasLt::splitKreduce_kernel<32, 16, int, float, false, 1ul>(cublasLt::cublasSplitKParams<float>, int*)",
       "splitKreduce_kernel"},
      {"_fwd_kernel", "fwd_kernel"},
      {"operator()(int)", "operator"},
      {"<lambda>", "kernel.lambda"},
      {"", "kernel"},
  };
  for (const auto& [kernel, operation] : cases) EXPECT_EQ(OperationOfKernel(kernel), operation) << kernel;
}

TEST(KernelOperations, TwoKernelsWithOneName_HaveNumbersInTheOrderOfTheirFullNames) {
  Timeline timeline;
  timeline.gpu_devices.resize(2);
  timeline.gpu_streams.resize(2);
  timeline.gpu_streams[1].device = 1;
  const auto add = [&](size_t stream, const char* name, StringId operation = 0) {
    GpuEvent event;
    event.name = timeline.strings.Intern(name);
    event.operation = operation;
    timeline.gpu_streams[stream].events.push_back(event);
    return event.name;
  };
  const StringId second = add(0, "void reduce<256, float>(float*)");
  const StringId first = add(0, "void reduce<128, float>(float*)");
  EXPECT_EQ(add(0, "void reduce<256, float>(float*)"), second);
  // Neither of another device, nor with an operation of its own.
  add(1, "void reduce<64, float>(float*)");
  add(0, "void reduce<32, float>(float*)", timeline.strings.Intern("forward/sum:sum"));
  const KernelOperations operations(timeline, 0);
  EXPECT_EQ(operations.Of(first), "reduce:Kernel");
  EXPECT_EQ(operations.Of(second), "reduce.2:Kernel");
}

}  // namespace
}  // namespace tbprof
