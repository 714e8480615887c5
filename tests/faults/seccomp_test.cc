// SPDX-License-Identifier: Apache-2.0
// Filters of system calls: none of ours may end the program, whenever the filter came.
#include <gmock/gmock.h>

#include "../integration/harness.h"

namespace tbprof::integration {
namespace {

TEST(Seccomp, LaterFilter_NoCallByTbprof) {
  const Pair pair = RunBoth(Program("seccomp_filter"), {"self"}, {"--wait-threshold=0", "--malloc-interval=4096"});
  if (pair.bare.code() == 77) GTEST_SKIP() << "no seccomp here";
  ASSERT_EQ(pair.bare.code(), 0) << pair.bare.err;
  ASSERT_TRUE(pair.Same());
  EXPECT_EQ(pair.profiled.profile->Count("read"), 1000);
  EXPECT_GE(pair.profiled.profile->Count("usleep"), 100);
  EXPECT_EQ(pair.profiled.summary["threads"], 2);
}

TEST(Seccomp, QuestionsAboutTheKernel_AreNoFilter) {
  const Pair pair = RunBoth(Program("seccomp_filter"), {"asks"}, {"--wait-threshold=0"});
  EXPECT_EQ(pair.bare.code(), 4);
  ASSERT_TRUE(pair.Same());
  EXPECT_GE(pair.profiled.profile->Count("usleep"), 100);
  // The verdict names seccomp_filter.c.
  for (const char* about : {"seccomp?", "seccomp's"}) {
    EXPECT_FALSE(pair.profiled.profile->HasWarning(about)) << pair.profiled.AllPrinted();
  }
}

TEST(Seccomp, StrictMode_ProgramIsAsBare) {
  for (const char* how : {"strict", "strict_syscall"}) {
    const Pair pair = RunBoth(Program("seccomp_filter"), {how}, {"--wait-threshold=0", "--malloc-interval=4096"});
    if (pair.bare.code() == 77) GTEST_SKIP() << "no seccomp here";
    EXPECT_EQ(pair.bare.code(), 5) << how;
    ASSERT_TRUE(pair.Same()) << how << pair.profiled.signal();
    EXPECT_TRUE(pair.profiled.profile->HasWarning("seccomp's strict mode")) << pair.profiled.AllPrinted();
  }
}

// A Python stack is recorded only if its memory is known to be readable, and the probe is a system call.
TEST(Seccomp, LaterFilterOfAPythonProgram_NoCallByTbprof) {
  // Allows read, write, exit, exit_group, brk, mmap, munmap, rt_sigreturn and futex.
  const std::string script = R"py(
import ctypes, os, struct, sys
ends = os.pipe()
libc = ctypes.CDLL(None, use_errno=True)
allowed = [0, 1, 60, 231, 12, 9, 11, 15, 202]
filter = [(0x20, 0, 0, 0)]
filter += [(0x15, len(allowed) - i, 0, call) for i, call in enumerate(allowed)]
filter += [(6, 0, 0, 0x80000000), (6, 0, 0, 0x7fff0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in filter))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(filter), ctypes.addressof(code)))
def work():
    for i in range(300):
        os.write(ends[1], b"x")
        os.read(ends[0], 1)
    return [bytearray(1 << shift) for shift in range(10, 24)]
print("before", flush=True)
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.c_void_p(ctypes.addressof(program)), 0, 0):
    os._exit(77)
work()
os.write(1, b"inside\n")
os._exit(6)
)py";
  const Pair pair = RunBoth({"/usr/bin/python3", "-S", "-c", script}, {.tbprof = {"--wait-threshold=0"}});
  if (pair.bare.code() == 77) GTEST_SKIP() << "no seccomp here";
  EXPECT_EQ(pair.bare.code(), 6);
  ASSERT_TRUE(pair.Same()) << pair.profiled.signal();
  EXPECT_GE(pair.profiled.profile->Count("read"), 300);
}

// The kernel would end the process at the first of our calls, before main.
TEST(Seccomp, ProgramUnderAStricterFilter_Runs) {
  for (const char* how : {"kill", "errno"}) {
    const Pair pair = RunBoth(Program("seccomp_filter"), {how, Program("survive"), "2000", "_exit"});
    if (pair.bare.code() == 77) GTEST_SKIP() << "no seccomp here";
    EXPECT_EQ(pair.bare.code(), 3);
    EXPECT_TRUE(pair.Same()) << how;
    const auto& first = pair.profiled.summary["processes"][0];
    EXPECT_EQ(first["executable"], Program("seccomp_filter")) << "what came before is there";
  }
}

// The launcher has the same filter, so that it is no reason to stay out of the way; the calls then fail.
TEST(Seccomp, FilterAroundEverything_IsReported) {
  RunOptions options;
  options.launcher = {Program("seccomp_filter"), "errno"};
  const RunResult result = RunUnderTbprof({Program("survive"), "2000", "_exit"}, options);
  if (result.code() == 77) GTEST_SKIP() << "no seccomp here";
  // No socket, no session: refused before the command starts.
  EXPECT_EQ(result.code(), 125);
  EXPECT_TRUE(result.Printed("memfd_create")) << result.AllPrinted();
  options.tbprof = {"--on-error=run"};
  const RunResult unprofiled = RunUnderTbprof({Program("survive"), "2000", "_exit"}, options);
  EXPECT_EQ(unprofiled.code(), 3);
  EXPECT_EQ(unprofiled.out, "");
}

}  // namespace
}  // namespace tbprof::integration
