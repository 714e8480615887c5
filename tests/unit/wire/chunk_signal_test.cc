// SPDX-License-Identifier: Apache-2.0
//
// Signal handlers that record in the middle of a record: at a high rate by a timer, and at every instruction by the
// CPU's trap flag. With the trap flag, tests also leave records by longjmp and kill processes at every instruction.
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <random>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "tests/unit/wire/segment_maker.h"

namespace tbprof {
namespace {

// The writer that the handlers of this test use; one writer per thread, as in the target.
NumberedWriter* g_writer;
volatile uint64_t g_next;  // each attempt takes a sequence number, in any order
volatile uint64_t g_signals;
std::vector<uint8_t>* g_written;  // by sequence number: whether Write succeeded
uint32_t g_handler_spans;

void WriteNext(uint32_t extra) {
  // Atomic, so that the compiler makes it one instruction: with several, a handler in between would use the same
  // number.
  const uint64_t sequence = __atomic_fetch_add(&g_next, 1, __ATOMIC_RELAXED);
  if (sequence >= g_written->size()) return;
  if (g_writer->Write(sequence, extra)) (*g_written)[sequence] = 1;
}

timer_t g_timers[2];
uint64_t g_deadline;

// The handler arms the timer again, so that the main flow makes progress under any load; not after the deadline.
void Arm(int timer) {
  if (ReadMonotonic() >= g_deadline) return;
  itimerspec once{};
  once.it_value.tv_nsec = timer == 0 ? 9000 : 6000;
  timer_settime(g_timers[timer], 0, &once, nullptr);
}

void OnTimer(int) {
  const int error = errno;
  g_signals = g_signals + 1;
  for (uint32_t i = 0; i < g_handler_spans; ++i) WriteNext(i % 3);
  // Now and then one that needs chunks of its own.
  if (g_signals % 64 == 0) {
    for (int i = 0; i < 40; ++i) WriteNext(60);
  }
  Arm(0);
  errno = error;
}

void OnInner(int) {
  const int error = errno;
  g_signals = g_signals + 1;
  WriteNext(1);
  Arm(1);
  errno = error;
}

struct HandlerScope {
  HandlerScope(int signal, void (*handler)(int), int flags = SA_RESTART) : number(signal) {
    struct sigaction action {};
    action.sa_handler = handler;
    action.sa_flags = flags;
    sigaction(signal, &action, &before);
  }
  HandlerScope(int signal, void (*handler)(int, siginfo_t*, void*)) : number(signal) {
    struct sigaction action {};
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO;
    sigaction(signal, &action, &before);
  }
  ~HandlerScope() { sigaction(number, &before, nullptr); }
  int number;
  struct sigaction before;
};

void Compare(NumberedReader& reader, uint64_t attempts) {
  std::vector<uint8_t> seen(g_written->size());
  uint64_t twice = 0;
  for (const uint64_t sequence : reader.spans[0]) {
    if (sequence >= seen.size() || seen[sequence]++ != 0) ++twice;
  }
  EXPECT_EQ(twice, 0u);
  uint64_t missing = 0, uncommitted = 0;
  for (uint64_t i = 0; i < attempts && i < seen.size(); ++i) {
    if ((*g_written)[i] != 0 && seen[i] == 0) ++missing;
    if ((*g_written)[i] == 0 && seen[i] != 0) ++uncommitted;
  }
  EXPECT_EQ(missing, 0u);
  EXPECT_EQ(uncommitted, 0u);
  EXPECT_EQ(reader.wrong, 0u);
}

void RunTimer(uint32_t chunks, bool slow_reader) {
  GuardedSegment owner(chunks);
  NumberedWriter writer(owner.get(), 0);
  NumberedReader reader(owner.get());
  std::vector<uint8_t> written(60u << 20);
  g_writer = &writer;
  g_written = &written;
  g_next = 0;
  g_signals = 0;
  g_handler_spans = 3;
  std::atomic<bool> done{false};
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread drain([&] {
    while (!done.load()) {
      reader.Pass();
      if (slow_reader) {
        usleep(3000);
      } else {
        std::this_thread::yield();
      }
    }
    while (reader.Pass()) {
    }
  });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  {
    HandlerScope outer(SIGALRM, OnTimer), inner(SIGUSR1, OnInner);
    g_deadline = ReadMonotonic() + (TBPROF_TEST_TSAN ? 500'000'000 : 1'000'000'000);
    for (int i = 0; i < 2; ++i) {
      sigevent event{};
      event.sigev_notify = SIGEV_SIGNAL;
      event.sigev_signo = i == 0 ? SIGALRM : SIGUSR1;
      ASSERT_EQ(timer_create(CLOCK_MONOTONIC, &event, &g_timers[i]), 0);
      Arm(i);
    }
    while (ReadMonotonic() < g_deadline && g_next < written.size() - 100000) {
      for (int i = 0; i < 200; ++i) WriteNext(static_cast<uint32_t>(i) % 5);
    }
    g_deadline = 0;
    for (timer_t timer : g_timers) timer_delete(timer);
    // A signal that was queued before the deletion arrives with the next system call at the latest.
    getppid();
  }
  EXPECT_EQ(writer.writer.depth, 0u);
  EXPECT_EQ(writer.writer.pending, 0u);
  ReleaseChunk(owner.get(), &writer.writer);
  done = true;
  drain.join();
  const uint64_t attempts = g_next;
  ASSERT_LT(attempts, written.size());
  Compare(reader, attempts);
  EXPECT_EQ(reader.lost, 0u);
  // A handler could increment a counter between the load and the store of an interrupted increment. The compiler uses
  // `add $1, mem`, so the counts are exact on this machine.
  EXPECT_EQ(reader.Count() + writer.dropped(), attempts);
  EXPECT_EQ(reader.Count(), writer.writer.thread->records);
  if (!slow_reader && !TBPROF_TEST_TSAN) {
    EXPECT_GT(g_signals, 1000u);
  }
  for (uint32_t i = 0; i < chunks; ++i) EXPECT_EQ(StateOfChunk(owner.get().chunk_states[i]), ChunkState::kFree);
  testing::Test::RecordProperty("signals", static_cast<int>(g_signals));
}

TEST(ChunkSignals, TimerAtHighRate_NoRecordIsLost) { RunTimer(64, false); }
TEST(ChunkSignals, TimerAndTooFewChunks_DropsAreCounted) { RunTimer(4, true); }

#if defined(__x86_64__) && !TBPROF_TEST_TSAN

// ------------------------------------------------------------------------------------------ one instruction at a time

__attribute__((always_inline)) inline void SetTrap() {
  asm volatile("pushfq\n\torq $0x100, (%%rsp)\n\tpopfq" : : : "memory", "cc");
}
__attribute__((always_inline)) inline void ClearTrap() {
  asm volatile("pushfq\n\tandq $~0x100, (%%rsp)\n\tpopfq" : : : "memory", "cc");
}

constexpr int kStepped = 2;  // records: one that fits, one that takes a new chunk
constexpr uint64_t kNever = ~uint64_t{0};
volatile uint64_t g_steps;
uint64_t g_act_at = kNever;
enum class Action { kRecord, kRecordMany, kJump, kKill, kFork } g_action;
sigjmp_buf g_jump;
int g_child_may_go = -1;             // reading end: a byte lets the child continue; -1: the parent waits for the child
pid_t g_child;                       // 0 in the child
constexpr uint64_t kOfChild = 5000;  // its first sequence number

// Forks, and gives the child its own process slot and thread slot, as the library does.
void ForkInHandler() {
  g_child = fork();
  if (g_child != 0) {
    int status = 0;
    if (g_child_may_go < 0) waitpid(g_child, &status, 0);
    return;
  }
  char byte;
  if (g_child_may_go >= 0) (void)!read(g_child_may_go, &byte, 1);
  g_writer->Register(1, 2);
  g_next = kOfChild;
  WriteNext(0);
}

void OnStep(int, siginfo_t*, void* context) {
  const uint64_t step = g_steps;
  g_steps = step + 1;
  if (step == g_act_at) static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL] &= ~0x100;
  switch (g_action) {
    case Action::kRecord:
      WriteNext(0);
      break;
    case Action::kRecordMany:
      if (step == g_act_at) {
        for (int i = 0; i < 40; ++i) WriteNext(300);
      }
      break;
    case Action::kJump:
      if (step == g_act_at) siglongjmp(g_jump, 1);
      break;
    case Action::kKill:
      if (step == g_act_at) kill(getpid(), SIGKILL);
      break;
    case Action::kFork:
      if (step == g_act_at) ForkInHandler();
      break;
  }
}

// A main flow that crosses from one chunk to the next: the chunk has room for one span only.
__attribute__((noinline)) void WriteStepped(int count) {
  SetTrap();
  for (int i = 0; i < count; ++i) WriteNext(0);
  ClearTrap();
}

// The parameter: records are made by BeginInChunk, where it permits that.
class ChunkSteps : public testing::TestWithParam<bool> {
 protected:
  void Begin(uint32_t chunks, uint32_t first) {
    owner_ = std::make_unique<GuardedSegment>(chunks);
    writer_ = std::make_unique<NumberedWriter>(owner_->get(), 0);
    writer_->in_chunk = GetParam();
    reader_ = std::make_unique<NumberedReader>(owner_->get());
    written_.assign(1u << 20, 0);
    g_writer = writer_.get();
    g_written = &written_;
    g_next = 0;
    g_steps = 0;
    g_signals = 0;
    g_act_at = kNever;
    for (uint32_t i = 0; i < first; ++i) WriteNext(0);
    // Except the first record, which takes the chunk.
    if (first > 0) {
      EXPECT_GE(writer_->made_in_chunk + 2, GetParam() ? first : 2);
    }
  }
  void End() {
    ReleaseChunk(owner_->get(), &writer_->writer);
    while (reader_->Pass()) {
    }
    Compare(*reader_, g_next);
  }
  uint32_t InUse() const {
    uint32_t count = 0;
    for (uint32_t i = 0; i < owner_->get().chunk_count; ++i) {
      count += StateOfChunk(owner_->get().chunk_states[i]) != ChunkState::kFree ? 1 : 0;
    }
    return count;
  }
  // The number of steps of WriteStepped(count) with a handler that does not write.
  uint64_t CountSteps(uint32_t chunks, uint32_t first, int count) {
    HandlerScope scope(SIGTRAP, OnStep);
    Begin(chunks, first);
    g_action = Action::kJump;
    WriteStepped(count);
    const uint64_t steps = g_steps;
    End();
    return steps;
  }
  std::unique_ptr<GuardedSegment> owner_;
  std::unique_ptr<NumberedWriter> writer_;
  std::unique_ptr<NumberedReader> reader_;
  std::vector<uint8_t> written_;
};

INSTANTIATE_TEST_SUITE_P(, ChunkSteps, testing::Bool(), [](const testing::TestParamInfo<bool>& chosen) {
  return chosen.param ? "InChunk" : "AnyWay";
});

constexpr uint32_t kRoomForOne = 1022;  // spans after which a chunk has room for another

TEST_P(ChunkSteps, HandlerRecordsAtAnyInstruction_NoRecordIsLost) {
  HandlerScope scope(SIGTRAP, OnStep);
  Begin(64, 0);
  g_action = Action::kRecord;
  for (int i = 0; i < 200; ++i) {
    WriteStepped(kStepped);
    if (i % 3 == 0) reader_->Pass();
  }
  // A chunk that a handler left pending in a record by BeginInChunk is retired with the next record.
  WriteNext(0);
  EXPECT_GT(g_steps, 10000u);
  EXPECT_EQ(writer_->writer.depth, 0u);
  EXPECT_EQ(writer_->writer.pending, 0u);
  EXPECT_EQ(writer_->dropped(), 0u);
  End();
  EXPECT_EQ(reader_->Count(), g_next);
  EXPECT_EQ(writer_->writer.thread->records, g_next);
  EXPECT_EQ(reader_->lost, 0u);
  EXPECT_EQ(InUse(), 0u);
}

TEST_P(ChunkSteps, HandlerRecordsWithFewChunks_DropsAreCounted) {
  HandlerScope scope(SIGTRAP, OnStep);
  Begin(2, 0);
  g_action = Action::kRecord;
  for (int i = 0; i < 200; ++i) {
    WriteStepped(kStepped);
    if (i % 20 == 0) reader_->Pass();
  }
  EXPECT_EQ(writer_->writer.depth, 0u);
  const uint64_t dropped = writer_->dropped();
  EXPECT_GT(dropped, 0u);
  End();
  EXPECT_EQ(reader_->Count() + dropped, g_next);
  EXPECT_EQ(reader_->lost, 0u);
  EXPECT_EQ(InUse(), 0u);
}

// The handler fills several chunks while the main flow stands at instruction k.
TEST_P(ChunkSteps, HandlerFillsChunksAtAnyInstruction_NoRecordIsLost) {
  const uint64_t steps = CountSteps(64, kRoomForOne, kStepped);
  ASSERT_GT(steps, 100u);
  HandlerScope scope(SIGTRAP, OnStep);
  for (uint64_t at = 0; at <= steps; ++at) {
    Begin(64, kRoomForOne);
    g_action = Action::kRecordMany;
    g_act_at = at;
    WriteStepped(kStepped);
    EXPECT_EQ(writer_->writer.depth, 0u) << at;
    const uint64_t dropped = writer_->dropped();
    End();
    EXPECT_EQ(reader_->Count() + dropped, g_next) << at;
    EXPECT_EQ(reader_->lost, 0u) << at;
    EXPECT_EQ(InUse(), 0u) << at;
  }
}

// The child also returns into the interrupted function, before its parent or after it. Each record is read once, except
// the interrupted record, which both processes may have.
TEST_P(ChunkSteps, HandlerForksAtAnyInstruction_EachRecordIsReadOnce) {
  const uint32_t chunks = 64;
  for (const auto& [first, child_first] : {std::pair(kRoomForOne, true), std::pair(kRoomForOne, false),
                                           std::pair(kRoomForOne + 1, true), std::pair(kRoomForOne + 1, false)}) {
    const uint64_t steps = CountSteps(chunks, first, 1);
    int left_in_use = 0;
    HandlerScope scope(SIGTRAP, OnStep);
    for (uint64_t at = 0; at <= steps; ++at) {
      Begin(chunks, first);
      int ends[2];
      ASSERT_EQ(pipe(ends), 0);
      g_child_may_go = child_first ? -1 : ends[0];
      g_child = -1;
      g_action = Action::kFork;
      g_act_at = at;
      WriteStepped(1);
      if (g_child != 0) {
        ASSERT_EQ(write(ends[1], "g", 1), 1);
      }
      for (int i = 0; i < 3; ++i) WriteNext(0);
      ReleaseChunk(owner_->get(), &writer_->writer);
      if (g_child == 0) {
        // Reports the number of attempts in a counter that this test does not use otherwise.
        owner_->get().header->capture_requests = static_cast<uint32_t>(g_next - kOfChild);
        _exit(writer_->writer.depth == 0 && writer_->writer.pending == 0 ? 0 : 1);
      }
      int status = 0;
      if (!child_first && g_child > 0) waitpid(g_child, &status, 0);
      close(ends[0]);
      close(ends[1]);
      EXPECT_EQ(status, 0) << at;
      EXPECT_EQ(writer_->writer.depth, 0u) << at;
      EXPECT_EQ(writer_->dropped(), 0u) << at;
      while (reader_->Pass()) {
      }
      std::map<uint64_t, int> seen;
      for (const uint64_t sequence : reader_->spans[0]) ++seen[sequence];
      int twice = 0;
      for (uint64_t i = 0; i < g_next; ++i) {
        EXPECT_GE(seen[i], 1) << at << " " << i;
        twice += seen[i] == 2 ? 1 : 0;
        EXPECT_LE(seen[i], 2) << at;
      }
      EXPECT_LE(twice, 1) << at;
      if (g_child > 0) {
        const uint32_t of_child = owner_->get().header->capture_requests;
        EXPECT_GE(of_child, 4u) << at;
        for (uint32_t i = 0; i < of_child; ++i) EXPECT_EQ(seen[kOfChild + i], 1) << at << " " << i;
      }
      EXPECT_EQ(reader_->wrong, 0u) << at;
      EXPECT_EQ(reader_->lost, 0u) << at;
      left_in_use += static_cast<int>(InUse());
      if (HasFailure()) return;
    }
    // A child may take a chunk for its parent if it forks between the last check of the process and the exchange.
    EXPECT_LE(left_in_use, 16);
    RecordProperty("left_in_use", left_in_use);
  }
}

// The same with chunks for the handler only, or without any free chunk.
TEST_P(ChunkSteps, HandlerTakesTheLastChunks_DropsAreCounted) {
  for (const uint32_t chunks : {1u, 2u, 6u}) {
    const uint64_t steps = CountSteps(chunks, kRoomForOne, kStepped);
    HandlerScope scope(SIGTRAP, OnStep);
    for (uint64_t at = 0; at <= steps; ++at) {
      Begin(chunks, kRoomForOne);
      g_action = Action::kRecordMany;
      g_act_at = at;
      WriteStepped(kStepped);
      ASSERT_EQ(writer_->writer.depth, 0u) << at;
      const uint64_t dropped = writer_->dropped();
      End();
      ASSERT_EQ(reader_->Count() + dropped, g_next) << at << " of " << chunks;
      ASSERT_EQ(reader_->lost, 0u) << at;
      ASSERT_EQ(InUse(), 0u) << at << " of " << chunks;
    }
  }
}

// A handler leaves by longjmp at instruction k: one record at most is lost, and the thread goes on.
TEST_P(ChunkSteps, HandlerJumpsAwayAtAnyInstruction_OneRecordIsLost) {
  const uint64_t steps = CountSteps(64, kRoomForOne, kStepped);
  for (uint64_t at = 0; at <= steps; ++at) {
    HandlerScope scope(SIGTRAP, OnStep);
    Begin(64, kRoomForOne);
    g_action = Action::kJump;
    g_act_at = at;
    if (sigsetjmp(g_jump, 1) == 0) WriteStepped(kStepped);
    ClearTrap();
    const uint64_t abandoned = g_next;
    for (int i = 0; i < 6000; ++i) {
      WriteNext(0);
      if (i % 1000 == 0) reader_->Pass();
    }
    ASSERT_EQ(writer_->dropped(), 0u) << at;
    // The thread ends: its chunks are released, and its records are read.
    ReleaseChunk(owner_->get(), &writer_->writer);
    while (reader_->Pass()) {
    }
    std::set<uint64_t> read(reader_->spans[0].begin(), reader_->spans[0].end());
    ASSERT_EQ(read.size(), reader_->spans[0].size()) << at << ": something twice";
    uint64_t missing = 0;
    for (uint64_t i = 0; i < g_next; ++i) missing += read.count(i) == 0 ? 1 : 0;
    ASSERT_LE(missing, 1u) << at;
    for (uint64_t i = abandoned; i < g_next; ++i) ASSERT_EQ(read.count(i), 1u) << at;
    ASSERT_LE(reader_->lost, 1u) << at;
    ASSERT_EQ(reader_->wrong, 0u) << at;
    // At most the chunk that was being claimed is lost to everyone until the process ends.
    ASSERT_LE(InUse(), 1u) << at;
    while (reader_->Pass(true)) {
    }
    ASSERT_EQ(InUse(), 0u) << at;
  }
}

// Many abandoned records in one thread: still every other record arrives.
TEST_P(ChunkSteps, ManyAbandonedRecords_OthersAreRead) {
  HandlerScope scope(SIGTRAP, OnStep);
  Begin(64, 0);
  std::mt19937 random(3);
  g_action = Action::kJump;
  uint64_t jumps = 0;
  static int round;  // it outlives the jumps
  for (round = 0; round < 2000; ++round) {
    g_steps = 0;
    g_act_at = random() % 120;
    if (sigsetjmp(g_jump, 1) == 0) {
      WriteStepped(1);
    } else {
      ++jumps;
    }
    ClearTrap();
    for (int i = 0; i < 20; ++i) WriteNext(i % 2 == 0 ? 30 : 0);
    reader_->Pass();
  }
  EXPECT_GT(jumps, 100u);
  ReleaseChunk(owner_->get(), &writer_->writer);
  while (reader_->Pass(true)) {
  }
  EXPECT_EQ(reader_->wrong, 0u);
  EXPECT_EQ(writer_->dropped(), 0u);
  std::set<uint64_t> read(reader_->spans[0].begin(), reader_->spans[0].end());
  EXPECT_EQ(read.size(), reader_->spans[0].size());
  for (uint64_t i = 0; i < g_next; ++i) EXPECT_FALSE(written_[i] != 0 && read.count(i) == 0) << i;
  EXPECT_EQ(InUse(), 0u);
}

// A process is killed at instruction k.
TEST_P(ChunkSteps, ProcessKilledAtAnyInstruction_OneRecordIsLost) {
  const uint64_t steps = CountSteps(8, kRoomForOne, kStepped);
  auto* committed =
      static_cast<volatile uint64_t*>(mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  for (uint64_t at = 0; at < steps; ++at) {
    Begin(8, kRoomForOne);
    *committed = kRoomForOne;
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      struct sigaction action {};
      action.sa_sigaction = OnStep;
      action.sa_flags = SA_SIGINFO;
      sigaction(SIGTRAP, &action, nullptr);
      g_action = Action::kKill;
      g_act_at = at;
      SetTrap();
      for (int i = 0; i < kStepped; ++i) {
        WriteNext(0);
        *committed = *committed + 1;
      }
      ClearTrap();
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    while (reader_->Pass(true)) {
    }
    std::set<uint64_t> read(reader_->spans[0].begin(), reader_->spans[0].end());
    ASSERT_EQ(read.size(), reader_->spans[0].size()) << at;
    for (uint64_t i = 0; i < *committed; ++i) ASSERT_EQ(read.count(i), 1u) << at << ": a finished record is missing";
    ASSERT_LE(read.size(), *committed + 1) << at;
    ASSERT_LE(reader_->lost, 1u) << at;
    ASSERT_EQ(reader_->wrong, 0u) << at;
    ASSERT_EQ(InUse(), 0u) << at;
  }
  munmap(const_cast<uint64_t*>(committed), kPage);
}

#endif  // x86-64

// A chunk that holds an interrupted record stays owned until that record is finished, however much a handler writes.
TEST(ChunkNesting, InterruptedRecord_KeepsItsChunk) {
  GuardedSegment owner(64);
  NumberedWriter writer(owner.get(), 0);
  NumberedReader reader(owner.get());
  uint64_t sequence = 1;
  Reservation outer;
  ASSERT_TRUE(BeginRecord(owner.get(), &writer.writer, 2, &outer));
  for (int i = 0; i < 20000; ++i) {
    ASSERT_TRUE(writer.Write(sequence++));
    if (i % 500 == 0) reader.Pass();
  }
  EXPECT_EQ(StateOfChunk(owner.get().chunk_states[0]), ChunkState::kOwned);
  writer.Fill(outer, 0, 0);
  CommitRecord(owner.get(), &writer.writer, outer, RecordKind::kSpan, 0, 0);
  EXPECT_EQ(writer.writer.pending, 0u);
  ReleaseChunk(owner.get(), &writer.writer);
  while (reader.Pass()) {
  }
  EXPECT_EQ(reader.MissingAndExtra(0, sequence), std::make_pair(uint64_t{0}, uint64_t{0}));
  EXPECT_EQ(reader.lost, 0u);
  EXPECT_EQ(reader.wrong, 0u);
}

// A thread that ends with abandoned records releases all its chunks.
TEST(ChunkNesting, ThreadEndsWithAbandonedRecords_ReleasesItsChunks) {
  GuardedSegment owner(64);
  NumberedWriter writer(owner.get(), 0);
  NumberedReader reader(owner.get());
  Reservation abandoned;
  ASSERT_TRUE(BeginRecord(owner.get(), &writer.writer, 2, &abandoned));
  uint64_t sequence = 0;
  for (int i = 0; i < 3000; ++i) ASSERT_TRUE(writer.Write(sequence++));
  ReleaseChunk(owner.get(), &writer.writer);
  while (reader.Pass()) {
  }
  EXPECT_EQ(reader.MissingAndExtra(0, sequence), std::make_pair(uint64_t{0}, uint64_t{0}));
  EXPECT_EQ(reader.lost, 1u);
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(StateOfChunk(owner.get().chunk_states[i]), ChunkState::kFree) << i;
}

// Two records are interrupted, the inner one in a later chunk, and a second handler fills chunks: neither of the two
// chunks may be released.
TEST(ChunkNesting, TwoInterruptedRecords_KeepTheirChunks) {
  GuardedSegment owner(64);
  NumberedWriter writer(owner.get(), 0);
  NumberedReader reader(owner.get());
  uint64_t sequence = 2;
  Reservation outer, inner;
  ASSERT_TRUE(BeginRecord(owner.get(), &writer.writer, 2, &outer));
  for (int i = 0; i < 1500; ++i) ASSERT_TRUE(writer.Write(sequence++));
  ASSERT_TRUE(BeginRecord(owner.get(), &writer.writer, 2, &inner));
  uint64_t dropped = 0;
  for (int i = 0; i < 20000; ++i) {
    dropped += writer.Write(sequence++) ? 0 : 1;
    if (i % 500 == 0) reader.Pass();
  }
  // If the chunk of the inner record had been released, another writer would get it now.
  NumberedWriter other(owner.get(), 1);
  for (uint64_t i = 0; i < 20000; ++i) {
    while (!other.Write(i)) reader.Pass();
    if (i % 500 == 0) reader.Pass();
  }
  writer.Fill(inner, 1, 0);
  CommitRecord(owner.get(), &writer.writer, inner, RecordKind::kSpan, 0, 0);
  writer.Fill(outer, 0, 0);
  CommitRecord(owner.get(), &writer.writer, outer, RecordKind::kSpan, 0, 0);
  ReleaseChunk(owner.get(), &writer.writer);
  ReleaseChunk(owner.get(), &other.writer);
  while (reader.Pass()) {
  }
  EXPECT_EQ(reader.wrong, 0u);
  EXPECT_EQ(reader.lost, 0u);
  EXPECT_EQ(reader.spans[0].size() + dropped, sequence);
  EXPECT_EQ(reader.MissingAndExtra(1, 20000), std::make_pair(uint64_t{0}, uint64_t{0}));
  EXPECT_EQ(dropped, writer.writer.thread->dropped[kDropNoChunk]);
}

}  // namespace
}  // namespace tbprof
