// SPDX-License-Identifier: Apache-2.0
// Which line of Python launches work on a GPU, and which waits for it, on the simulated CUDA libraries.
#include <gmock/gmock.h>

#include <map>
#include <string>

#include "cuda_harness.h"

namespace tbprof::integration {
namespace {

// Kernels of 1 ms; the program waits for each, so the wait is longer than any launch.
constexpr char kProgram[] = R"(import ctypes
cuda = ctypes.CDLL('libcuda.so.1')
device, context, module, function = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
image = b'.version 8.0\n.target sm_90\n.address_size 64\n.visible .entry for_nanoseconds(.param .u64 d) { ret; }\n'
failed = cuda.cuInit(0) or cuda.cuDeviceGet(ctypes.byref(device), 0)
failed = failed or cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) or cuda.cuCtxSetCurrent(context)
failed = failed or cuda.cuModuleLoadData(ctypes.byref(module), image)
failed = failed or cuda.cuModuleGetFunction(ctypes.byref(function), module, b'for_nanoseconds')
duration = ctypes.c_longlong(1000000)
parameters = (ctypes.c_void_p * 1)(ctypes.addressof(duration))
def launch():
    return cuda.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, None, parameters, None)
def wait():
    return cuda.cuCtxSynchronize()
for _ in range(30):
    failed = failed or launch() or wait()
print('failed=%d' % failed)
)";

class CudaPython : public Cuda {
 protected:
  void SetUp() override {
    Cuda::SetUp();
    const std::string script = directory_.path() + "/step.py";
    WriteFile(script, kProgram);
    command_ = {"/usr/bin/python3", script};
  }
  // The number of calls by line, like `cuCtxSynchronize step.py:14 wait`.
  static std::map<std::string, int> LinesOf(const Profile& profile) {
    std::map<std::string, int> lines;
    for (const Event& event : profile.events()) {
      if (event.plane == "/host:CPU" && event.Has("python")) ++lines[event.name + " " + event.Stat("python")];
    }
    return lines;
  }

  TemporaryDirectory directory_;
  std::vector<std::string> command_;
};

// Each wait is much longer than the time between two stacks. On a busy machine the program may lose its core between
// the hook and the call: then the stack is too far from the call to be matched.
TEST_F(CudaPython, WaitForTheDevice_HasTheLineThatWaits) {
  for (const std::string way : {"cupti", "hooks"}) {
    RunOptions options = On("cuda13");
    if (way == "hooks") options.tbprof = {"--cuda=hooks"};
    const Pair pair = RunBoth(command_, options);
    ASSERT_TRUE(pair.Same()) << pair.profiled.AllPrinted();
    ASSERT_EQ(Reported(pair.profiled, "failed"), 0);
    auto lines = LinesOf(*pair.profiled.profile);
    EXPECT_GE(lines["cuCtxSynchronize step.py:14 wait"], 15) << way << testing::PrintToString(lines);
    EXPECT_EQ(lines["cuCtxSynchronize step.py:12 launch"] + lines["cuLaunchKernel step.py:14 wait"], 0) << way;
  }
}

TEST_F(CudaPython, WithoutSampling_NoCallHasALine) {
  RunOptions options = On("cuda13");
  options.tbprof = {"--sample-rate=0"};
  const RunResult run = RunUnderTbprof(command_, options);
  ASSERT_EQ(run.code(), 0) << run.AllPrinted();
  EXPECT_FALSE(run.profile->Named("cuCtxSynchronize").empty());
  EXPECT_EQ(LinesOf(*run.profile).size(), 0u);
}

}  // namespace
}  // namespace tbprof::integration
