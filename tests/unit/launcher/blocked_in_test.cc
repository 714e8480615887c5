// SPDX-License-Identifier: Apache-2.0
//
// The call in which a thread is blocked: from texts of the kernel, and from threads of this test.
#include "launcher/sampling/blocked_in.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "writer/base/scoped.h"

namespace tbprof {
namespace {

std::string Line(int64_t number, const char* first = "0x0") {
  return std::to_string(number) + " " + first + " 0x1 0x2 0x3 0x4 0x5 0x7ffe 0x7f12\n";
}

TEST(BlockedIn, Text_HasTheCallsKind) {
  EXPECT_FALSE(ParseSyscall("running\n"));
  EXPECT_FALSE(ParseSyscall(""));
  EXPECT_EQ(ParseSyscall("-1 0x7ffe 0x7f12\n"), (Blocked{BlockedIn::kPageFault, -1}));
  EXPECT_EQ(ParseSyscall(Line(SYS_fsync, "0x5")), (Blocked{BlockedIn::kFile, -1}));
  EXPECT_EQ(ParseSyscall(Line(SYS_preadv, "0x2a")), (Blocked{BlockedIn::kOther, 42}));
  EXPECT_EQ(ParseSyscall(Line(SYS_futex, "0x7f00")), (Blocked{BlockedIn::kFutex, -1}));
  EXPECT_EQ(ParseSyscall(Line(SYS_wait4)), (Blocked{BlockedIn::kChild, -1}));
  EXPECT_EQ(ParseSyscall(Line(SYS_clock_nanosleep)), (Blocked{BlockedIn::kSleep, -1}));
  EXPECT_EQ(ParseSyscall(Line(SYS_recvmsg, "0x3")), (Blocked{BlockedIn::kSocket, -1}));
  EXPECT_EQ(ParseSyscall(Line(SYS_flock, "0x3")), (Blocked{BlockedIn::kFileLock, -1}));
  EXPECT_EQ(ParseSyscall(Line(SYS_ioctl, "0x3")), Blocked{});
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
  EXPECT_EQ(BlockedOf(tid), (Blocked{kind, ends[0]}));
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
  std::vector<ThreadBlockedRow> rows;
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

}  // namespace
}  // namespace tbprof
