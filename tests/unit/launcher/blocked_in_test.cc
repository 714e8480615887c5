// SPDX-License-Identifier: Apache-2.0
//
// The call in which a thread is blocked: from texts of the kernel, and from threads of this test.
#include "launcher/sampling/blocked_in.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include "writer/base/scoped.h"

namespace tbprof {
namespace {

std::string Line(int64_t number, const char* first = "0x0") {
  return std::to_string(number) + " " + first + " 0x1 0x2 0x3 0x4 0x5 0x7ffe 0x7f12\n";
}

// Kind and descriptor.
std::pair<BlockedIn, int32_t> KindAndDescriptor(const std::string& text) {
  const std::optional<Blocked> blocked = ParseSyscall(text);
  EXPECT_TRUE(blocked.has_value()) << text;
  return blocked ? std::pair(blocked->kind, blocked->fd) : std::pair(BlockedIn::kOther, -2);
}

TEST(BlockedIn, Text_HasTheCallsKind) {
  EXPECT_FALSE(ParseSyscall("running\n"));
  EXPECT_FALSE(ParseSyscall(""));
  EXPECT_EQ(KindAndDescriptor("-1 0x7ffe 0x7f12\n"), std::pair(BlockedIn::kPageFault, -1));
  EXPECT_EQ(KindAndDescriptor(Line(SYS_fsync, "0x5")), std::pair(BlockedIn::kFile, -1));
  EXPECT_EQ(KindAndDescriptor(Line(SYS_preadv, "0x2a")), std::pair(BlockedIn::kOther, 42));
  EXPECT_EQ(KindAndDescriptor(Line(SYS_futex, "0x7f00")), std::pair(BlockedIn::kFutex, -1));
  EXPECT_EQ(KindAndDescriptor(Line(SYS_wait4)), std::pair(BlockedIn::kChild, -1));
  EXPECT_EQ(KindAndDescriptor(Line(SYS_clock_nanosleep)), std::pair(BlockedIn::kSleep, -1));
  EXPECT_EQ(KindAndDescriptor(Line(SYS_recvmsg, "0x3")), std::pair(BlockedIn::kSocket, -1));
  EXPECT_EQ(KindAndDescriptor(Line(SYS_flock, "0x3")), std::pair(BlockedIn::kFileLock, -1));
  EXPECT_EQ(KindAndDescriptor(Line(SYS_ioctl, "0x3")), std::pair(BlockedIn::kOther, -1));
}

TEST(BlockedIn, WaitForNoDescriptor_IsASleep) {
  EXPECT_EQ(ParseSyscall(Line(SYS_pselect6, "0x0"))->kind, BlockedIn::kSleep);
  EXPECT_EQ(ParseSyscall(Line(SYS_pselect6, "0x4"))->kind, BlockedIn::kPoll);
  EXPECT_EQ(ParseSyscall(Line(SYS_poll, "0x7ffe"))->kind, BlockedIn::kPoll);
  EXPECT_EQ(ParseSyscall(std::to_string(SYS_poll) + " 0x0 0x0 0x64 0x0 0x0 0x0 0x7ffe 0x7f12\n")->kind,
            BlockedIn::kSleep);
}

TEST(BlockedIn, CutRows_SayWhetherTheyGoOn) {
  BlockedTrack track;
  std::vector<BlockedCallRow> rows;
  const Blocked file = {BlockedIn::kFile, 3};
  track.Take(file, 7, 10, &rows);
  track.Cut(&rows);
  track.Take(file, 7, 20, &rows);
  track.Take(file, 7, 30, &rows, /*is_new=*/true);
  track.Cut(&rows);
  track.Take(std::nullopt, 7, 40, &rows);
  track.Take(file, 7, 50, &rows);
  track.Finish(&rows);
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0].goes_on, 0u);
  EXPECT_EQ(rows[1].goes_on, 1u);
  EXPECT_EQ(rows[2].goes_on, 0u) << "another call";
  EXPECT_EQ(rows[3].goes_on, 0u) << "it ran in between";
}

TEST(BlockedIn, Text_HasTheCallItsFutexAndTwoRegisters) {
  const Blocked blocked = ParseSyscall(Line(SYS_futex, "0x7f00")).value();
  EXPECT_EQ(blocked.call, SYS_futex + 1);
  EXPECT_EQ(blocked.futex, 0x7f00u);
  EXPECT_EQ(blocked.stack_pointer, 0x7ffeu);
  EXPECT_EQ(blocked.program_counter, 0x7f12u);
  const Blocked fault = ParseSyscall("-1 0x7ffe 0x7f12\n").value();
  EXPECT_EQ(fault.call, 0);
  EXPECT_EQ(fault.program_counter, 0x7f12u);
  EXPECT_EQ(ParseSyscall("12")->stack_pointer, 0u) << "cut off";
}

TEST(BlockedIn, Link_HasTheDescriptorsKind) {
  EXPECT_EQ(KindOfDescriptor("pipe:[123]"), BlockedIn::kPipe);
  EXPECT_EQ(KindOfDescriptor("socket:[123]"), BlockedIn::kSocket);
  EXPECT_EQ(KindOfDescriptor("/data/train.bin"), BlockedIn::kFile);
  EXPECT_EQ(KindOfDescriptor("/dev/shm/batch (deleted)"), BlockedIn::kFile);
  EXPECT_EQ(KindOfDescriptor("/dev/pts/3"), BlockedIn::kTerminal);
  EXPECT_EQ(KindOfDescriptor("/dev/nvidia0"), BlockedIn::kOther);
  EXPECT_EQ(KindOfDescriptor("anon_inode:[eventfd]"), BlockedIn::kOther);
}

// Waits until the kernel reports that the thread is blocked. It does not return if the thread never blocks.
Blocked BlockedOf(int32_t tid) {
  const ScopedFd file(open(SyscallPath(getpid(), tid).c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_TRUE(file.valid());
  for (;;) {
    const std::optional<Blocked> blocked = ReadBlocked(getpid(), file.get());
    if (blocked && blocked->fd >= 0) return *blocked;
    std::this_thread::yield();
  }
}

void ExpectKindOfRead(const int (&ends)[2], BlockedIn kind) {
  std::atomic<int32_t> tid = 0;
  std::thread reader([&] {
    tid = static_cast<int32_t>(syscall(SYS_gettid));
    char byte;
    EXPECT_EQ(read(ends[0], &byte, 1), 1);
  });
  while (tid == 0) std::this_thread::yield();
  const Blocked blocked = BlockedOf(tid);
  EXPECT_EQ(blocked.kind, kind);
  EXPECT_EQ(blocked.fd, ends[0]);
  EXPECT_EQ(blocked.call, SYS_read + 1);
  EXPECT_EQ(write(ends[1], "x", 1), 1);
  reader.join();
  close(ends[0]);
  close(ends[1]);
}

TEST(BlockedIn, ReaderOfAPipe_IsFoundInIt) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ExpectKindOfRead(ends, BlockedIn::kPipe);
}

TEST(BlockedIn, ReaderOfASocket_IsFoundInIt) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  ExpectKindOfRead(ends, BlockedIn::kSocket);
}

TEST(BlockedIn, SamplesInTheSameState_AreOneRow) {
  BlockedTrack track;
  std::vector<BlockedCallRow> rows;
  const Blocked file = {BlockedIn::kFile, 3}, other = {BlockedIn::kFile, 4};
  track.Take(file, 7, 10, &rows);
  track.Take(file, 7, 20, &rows);
  track.Take(std::nullopt, 7, 30, &rows);
  track.Take(other, 7, 40, &rows);
  track.Take(file, 7, 50, &rows);
  track.Finish(&rows);
  track.Finish(&rows);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].first_ticks, 10u);
  EXPECT_EQ(rows[0].last_ticks, 20u);
  EXPECT_EQ(rows[0].samples, 2u);
  EXPECT_EQ(rows[0].tid, 7);
  EXPECT_EQ(rows[1].fd, 4);
  EXPECT_EQ(rows[2].first_ticks, 50u);
}

TEST(ReadBlocked, StoppedChild_IsNotInAPageFault) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    (void)!write(ends[1], "", 1);
    for (volatile int spins = 0;;) spins = spins + 1;
  }
  char byte;
  ASSERT_EQ(read(ends[0], &byte, 1), 1);
  int status = 0;
  // It may still be in write().
  std::optional<Blocked> blocked;
  do {
    kill(child, SIGCONT);
    sched_yield();
    kill(child, SIGSTOP);
    ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
    ASSERT_TRUE(WIFSTOPPED(status));
    const ScopedFd file(open(SyscallPath(child, child).c_str(), O_RDONLY | O_CLOEXEC));
    blocked = ReadBlocked(child, file.get());
    ASSERT_TRUE(blocked.has_value());
  } while (blocked->call != 0);
  EXPECT_EQ(blocked->kind, BlockedIn::kStopped);
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace tbprof
