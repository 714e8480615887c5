// SPDX-License-Identifier: Apache-2.0
#include "launcher/target/gpu_probe.h"

#include <gmock/gmock.h>

namespace tbprof {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

DriverAnswer AnswerTo(const std::string& error) {
  GpuFindings findings;
  findings.driver_error = error;
  return AnswerOf(findings);
}

TEST(DriverAnswerText, MissingLibraryOfTheDriver_IsNotAMissingDriver) {
  const DriverAnswer other =
      AnswerTo("libnvidia-gpucomp.so.1: cannot open shared object file: No such file or directory");
  EXPECT_THAT(other.found, HasSubstr("libnvidia-gpucomp.so.1, which it needs, is not"));
  EXPECT_THAT(other.found, Not(HasSubstr("no NVIDIA driver")));
  EXPECT_THAT(other.fix, HasSubstr("libnvidia-gpucomp.so.1"));
  EXPECT_FALSE(other.absent);
  const DriverAnswer broken = AnswerTo("/usr/lib/libcuda.so.1: file too short");
  EXPECT_THAT(broken.found, HasSubstr("cannot be loaded"));
  EXPECT_FALSE(broken.absent);
  const DriverAnswer none = AnswerTo("libcuda.so.1: cannot open shared object file: No such file or directory");
  EXPECT_THAT(none.found, HasSubstr("no NVIDIA driver"));
}

}  // namespace
}  // namespace tbprof
