// SPDX-License-Identifier: Apache-2.0
#include "launcher/attach/attached_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "launcher/attach/running_process.h"
#include "wire/chunk.h"

namespace tbprof {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint64_t kNonce = 0x1234;

// The segment as the session sees it.
class SegmentView {
 public:
  explicit SegmentView(const Introduction& introduction)
      : mapping_(mmap(nullptr, introduction.segment_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                      introduction.segment.get(), 0),
                 introduction.segment_bytes) {
    memcpy(&header_, mapping_.data(), sizeof(header_));
    segment_ = SegmentAt(mapping_.data(), header_.chunk_count);
  }

  const SegmentHeader& header() const { return header_; }
  const Segment& segment() const { return segment_; }
  // Null: no such thread has a slot.
  const ThreadSlot* FindThread(int32_t tid) const {
    for (uint32_t i = 0; i < segment_.header->thread_high; ++i) {
      if (segment_.thread_slots[i].tid == tid) return &segment_.thread_slots[i];
    }
    return nullptr;
  }
  // The kinds of all records in the first chunk.
  std::vector<RecordKind> Records() const {
    std::vector<RecordKind> kinds;
    for (uint32_t at = 0; at < kSlotsPerChunk;) {
      const uint64_t tag = segment_.Chunk(0)[static_cast<uint64_t>(at) * (kSlotBytes / 8)];
      const auto slots = static_cast<uint16_t>(tag >> 32);
      if (slots == 0) break;
      kinds.push_back(static_cast<RecordKind>(static_cast<uint8_t>(tag >> 16)));
      at += slots;
    }
    return kinds;
  }

 private:
  ScopedMapping mapping_;
  SegmentHeader header_{};
  Segment segment_{};
};

std::unique_ptr<AttachedProcess> AttachToOwn(bool record_arguments = true) {
  const absl::StatusOr<RunningProcess> process = ReadRunningProcess(getpid());
  EXPECT_TRUE(process.ok()) << process.status();
  auto attached = AttachedProcess::Make(*process, {kNonce, ClockKind::kMonotonic, record_arguments});
  EXPECT_TRUE(attached.ok()) << attached.status();
  return *std::move(attached);
}

TEST(AttachedProcess, SegmentIsOneThatTheSessionAccepts) {
  const auto attached = AttachToOwn();
  const Introduction introduction = attached->TakeIntroduction();
  EXPECT_EQ(introduction.pid, getpid());
  const SegmentView view(introduction);
  EXPECT_EQ(CheckSegmentHeader(view.header(), introduction.segment_bytes), SegmentFault::kNone);
  EXPECT_EQ(view.header().nonce, kNonce);
  EXPECT_EQ(view.header().operation_count, 0u);
  const ProcessSlot& slot = view.segment().process_slots[0];
  EXPECT_EQ(slot.state, static_cast<uint32_t>(SlotState::kLive));
  EXPECT_EQ(slot.pid, getpid());
  EXPECT_EQ(slot.flags, kProcessAttached);
}

TEST(AttachedProcess, FactsAreRecordsOfTheFirstThread) {
  const auto with = AttachToOwn(), without = AttachToOwn(/*record_arguments=*/false);
  const SegmentView view(with->TakeIntroduction()), silent(without->TakeIntroduction());
  EXPECT_THAT(view.Records(), Contains(RecordKind::kProcessInfo).Times(::testing::Ge(2)));
  EXPECT_THAT(view.Records(), Contains(RecordKind::kModule).Times(::testing::Ge(2)));
  EXPECT_THAT(silent.Records(), Contains(RecordKind::kProcessInfo).Times(1)) << "the executable alone";
}

TEST(AttachedProcess, ThreadsThatBeginAndEnd_HaveASlotMeanwhile) {
  const auto attached = AttachToOwn();
  const SegmentView view(attached->TakeIntroduction());
  std::atomic<int32_t> tid = 0;
  std::atomic<bool> leave = false;
  std::thread worker([&] {
    pthread_setname_np(pthread_self(), "decoder");
    tid = static_cast<int32_t>(syscall(SYS_gettid));
    while (!leave) std::this_thread::yield();
  });
  while (tid == 0) std::this_thread::yield();
  EXPECT_EQ(view.FindThread(tid), nullptr);
  attached->Update();
  const ThreadSlot* const slot = view.FindThread(tid);
  ASSERT_NE(slot, nullptr);
  EXPECT_STREQ(slot->name, "decoder");
  EXPECT_EQ(slot->state, static_cast<uint32_t>(SlotState::kLive));
  leave = true;
  worker.join();
  // The kernel removes the thread from the list a moment after join returns.
  while (slot->state == static_cast<uint32_t>(SlotState::kLive)) attached->Update();
  EXPECT_EQ(slot->state, static_cast<uint32_t>(SlotState::kExited));
  EXPECT_GE(slot->end_ticks, slot->start_ticks);
  EXPECT_EQ(view.segment().header->threads_exited, 1u);
}

TEST(RunningProcess, Own_HasItsProgramAndItsThreads) {
  const absl::StatusOr<RunningProcess> process = ReadRunningProcess(getpid());
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_EQ(process->parent, getppid());
  EXPECT_EQ(process->user, geteuid());
  EXPECT_THAT(process->executable, HasSubstr("attached_process_test"));
  EXPECT_FALSE(process->arguments.empty());
  EXPECT_TRUE(IsStill(*process));
  RunningProcess earlier = *process;
  earlier.start_ticks -= 1;
  EXPECT_FALSE(IsStill(earlier)) << "another process had the pid before";
  EXPECT_THAT(ThreadsOf(getpid(), 10), Contains(getpid()));
  EXPECT_TRUE(CheckMemoryAccess(*process).ok());
  EXPECT_FALSE(HasTbprofLibrary(getpid()));
}

TEST(RunningProcess, Child_IsFoundUntilItHasEnded) {
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  EXPECT_THAT(ChildrenOf(getpid()), Contains(child));
  const absl::StatusOr<RunningProcess> process = ReadRunningProcess(child);
  ASSERT_TRUE(process.ok());
  kill(child, SIGKILL);
  siginfo_t info{};
  waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);
  EXPECT_THAT(ReadRunningProcess(child).status().ToString(), HasSubstr("has ended"));
  EXPECT_FALSE(IsStill(*process));
  waitpid(child, nullptr, 0);
  EXPECT_THAT(ReadRunningProcess(child).status().ToString(), HasSubstr("there is no process"));
  EXPECT_THAT(ChildrenOf(getpid()), Not(Contains(child)));
}

}  // namespace
}  // namespace tbprof
