// SPDX-License-Identifier: Apache-2.0
//
// The drain on segments made here: each record is in the spool or counted, slots are freed, and a slow disk does not
// block the drain.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "launcher/session/drain.h"
#include "tests/unit/wire/segment_maker.h"
#include "tests/unit/writer/spool_maker.h"
#include "writer/spool/spool_facts.h"

namespace tbprof {
namespace {

constexpr uint32_t kChunks = 64;

// A memfd that is mapped twice: as in the target and as in the launcher.
class FakeTarget {
 public:
  explicit FakeTarget(uint32_t number) : number_(number) {
    const uint64_t bytes = LayoutFor(kChunks).bytes;
    ScopedFd fd(memfd_create("tbprof-test", MFD_CLOEXEC));
    EXPECT_EQ(ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
    mine_ = ScopedMapping(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0), bytes);
    theirs_ = ScopedMapping(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0), bytes);
    file_ = std::move(fd);
    segment_ = SegmentAt(mine_.data(), kChunks);
    InitialiseSegment(segment_, bytes);
    segment_.header->clock_kind = static_cast<uint32_t>(ClockKind::kMonotonic);
    segment_.header->operation_count = 1;
    memcpy(segment_.operations[0].name, "read", 5);
    segment_.header->thread_high = 8;
  }

  std::unique_ptr<MappedSegment> Hand() {
    auto mapped = std::make_unique<MappedSegment>();
    mapped->number = number_;
    mapped->pid = 100;
    mapped->segment = SegmentAt(theirs_.data(), kChunks);
    mapped->mapping = std::move(theirs_);
    mapped->file.Reset(fcntl(file_.get(), F_DUPFD_CLOEXEC, 0));
    mapped->operation_count = 1;
    return mapped;
  }
  void StartProcess(uint32_t slot, uint32_t serial, int32_t pid) {
    ProcessSlot* process = &segment_.process_slots[slot];
    process->serial = serial;
    process->pid = pid;
    process->start_ticks = ReadMonotonic();
    __atomic_store_n(&process->state, static_cast<uint32_t>(SlotState::kLive), __ATOMIC_RELEASE);
    uint32_t* high = &segment_.header->process_high;
    __atomic_store_n(high, std::max(*high, slot + 1), __ATOMIC_RELEASE);
  }
  // Runs `body` in a fork child, as a target would, and waits for its end.
  template <typename Body>
  void Run(Body body) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      body(segment_);
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
  }
  const Segment& segment() const { return segment_; }
  int64_t bytes_in_memory() const {
    struct stat facts {};
    EXPECT_EQ(fstat(file_.get(), &facts), 0);
    return facts.st_blocks * 512;
  }

 private:
  uint32_t number_;
  ScopedFd file_;
  ScopedMapping mine_, theirs_;
  Segment segment_;
};

uint64_t WriteAll(NumberedWriter& writer, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    while (!writer.Write(i)) usleep(100);
  }
  return count;
}

struct Contents {
  std::map<std::pair<uint32_t, uint64_t>, std::multiset<uint64_t>> spans;  // (segment, thread) -> numbers
  std::map<std::pair<uint32_t, uint32_t>, ThreadFact> threads;
  std::map<std::pair<uint32_t, uint32_t>, ProcessFact> processes;
  std::vector<CounterFact> counters;
  std::vector<FrameType> types;
  uint64_t records = 0, corrupt = 0, lost = 0, damaged = 0;
  bool truncated = false;

  bool HasExactly(uint32_t segment, uint64_t thread, uint64_t count) const {
    const auto found = spans.find({segment, thread});
    if (found == spans.end()) return count == 0;
    return found->second.size() == count && *found->second.rbegin() == count - 1 &&
           std::set<uint64_t>(found->second.begin(), found->second.end()).size() == count;
  }
};

Contents ReadSpool(const std::string& path) {
  Contents contents;
  auto reader = SpoolReader::Open(path);
  EXPECT_TRUE(reader.ok()) << reader.status();
  if (!reader.ok()) return contents;
  Frame frame;
  while ((*reader)->Next(&frame)) {
    contents.types.push_back(frame.type);
    if (frame.type == FrameType::kThread) {
      ThreadFact fact;
      EXPECT_TRUE(frame.Read(&fact));
      contents.threads[{frame.segment, fact.serial}] = fact;
    } else if (frame.type == FrameType::kProcess) {
      ProcessFact fact;
      EXPECT_TRUE(frame.Read(&fact));
      contents.processes[{frame.segment, fact.serial}] = fact;
    } else if (frame.type == FrameType::kCounters) {
      CounterFact fact;
      EXPECT_TRUE(frame.Read(&fact));
      contents.counters.push_back(fact);
    }
    if (frame.type != FrameType::kChunk) continue;
    ChunkFact chunk;
    EXPECT_TRUE(ForEachRecord(frame, &chunk, &contents.corrupt, [&](const RecordView& record) {
      // No thread wrote the record that begins a chunk.
      contents.records += record.tag.kind != RecordKind::kChunkBegin;
      SpanRecord span;
      if (!record.ReadSpan(&span)) return;
      EXPECT_EQ(span.call_site, Check(span.object, span.start));
      EXPECT_EQ(chunk.thread_serial, span.object + 1);
      contents.spans[{frame.segment, span.object}].insert(span.start);
    }));
    contents.lost += chunk.lost;
  }
  contents.damaged = (*reader)->damaged_bytes();
  contents.truncated = (*reader)->truncated();
  return contents;
}

class DrainTest : public testing::Test {
 protected:
  DrainTest() : file_("drain") {}
  ScopedFd Spool(const std::string& path) {
    ScopedFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    const SpoolHeader header = MakeSpoolHeader();
    EXPECT_EQ(write(fd.get(), &header, sizeof(header)), static_cast<ssize_t>(sizeof(header)));
    return fd;
  }
  Drain& Start(uint64_t limit = 0) {
    drain_ = std::make_unique<Drain>(Spool(file_.path()), ClockKind::kMonotonic, limit);
    EXPECT_TRUE(drain_->Start().ok());
    return *drain_;
  }
  TemporaryPath file_;
  std::unique_ptr<Drain> drain_;
};

TEST_F(DrainTest, NoTarget_SpoolIsEmpty) {
  Drain& drain = Start();
  EXPECT_TRUE(drain.Flush(10000));
  drain.Stop();
  drain.Stop();
  EXPECT_TRUE(ReadSpool(file_.path()).types.empty());
  EXPECT_EQ(drain.spool().write_error(), 0);
}

TEST_F(DrainTest, Flush_RecordedBefore_IsInTheSpool) {
  Drain& drain = Start();
  FakeTarget target(1);
  target.StartProcess(0, 1, 100);
  drain.Add(target.Hand(), SegmentFact{});
  uint64_t written = 0;
  for (int round = 1; round <= 5; ++round) {
    written += 20000;
    target.Run([&](const Segment& segment) {
      NumberedWriter writer(segment, 0);
      for (uint64_t i = written - 20000; i < written; ++i) {
        while (!writer.Write(i)) usleep(100);
      }
      if (round % 2 == 0) ReleaseChunk(segment, &writer.writer);
    });
    ASSERT_TRUE(drain.Flush(10000));
    const Contents contents = ReadSpool(file_.path());
    EXPECT_TRUE(contents.HasExactly(1, 0, written)) << round;
    EXPECT_EQ(contents.damaged, 0u);
    EXPECT_EQ(contents.threads.count({1, 1}), 1u) << "the facts of every thread";
    EXPECT_EQ(contents.processes.count({1, 1}), 1u);
    EXPECT_EQ(contents.types.front(), FrameType::kSegment);
  }
  EXPECT_EQ(drain.spool().records_not_kept(), 0u);
  struct stat facts;
  ASSERT_EQ(stat(file_.path().c_str(), &facts), 0);
  EXPECT_EQ(drain.spool().main_bytes() + sizeof(SpoolHeader), static_cast<uint64_t>(facts.st_size));
}

// A thread that ends pads the rest of its chunk. The pad takes no space in the spool: thousands of short threads would
// need gigabytes.
TEST_F(DrainTest, Pad_TakesNoSpaceInTheSpool) {
  Drain& drain = Start();
  FakeTarget target(1);
  target.StartProcess(0, 1, 100);
  drain.Add(target.Hand(), SegmentFact{});
  constexpr uint64_t kThreads = 1000;
  target.Run([&](const Segment& segment) {
    NumberedWriter writer(segment, 0);
    for (uint64_t i = 0; i < kThreads; ++i) {
      while (!writer.Write(i)) usleep(100);
      ReleaseChunk(segment, &writer.writer);
    }
  });
  ASSERT_TRUE(drain.Flush(10000));
  const Contents contents = ReadSpool(file_.path());
  EXPECT_TRUE(contents.HasExactly(1, 0, kThreads));
  EXPECT_EQ(contents.records, drain.records());
  EXPECT_LT(drain.spool().main_bytes(), kThreads * 1024) << "a chunk has 64 KiB";
}

TEST_F(DrainTest, SeveralTargets_AllRecordsAreRead) {
  Drain& drain = Start();
  constexpr uint32_t kTargets = 4;
  std::vector<std::unique_ptr<FakeTarget>> targets;
  std::vector<pid_t> children;
  for (uint32_t t = 1; t <= kTargets; ++t) {
    targets.push_back(std::make_unique<FakeTarget>(t));
    targets.back()->StartProcess(0, 1, 100);
    drain.Add(targets.back()->Hand(), SegmentFact{});
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      NumberedWriter writer(targets.back()->segment(), 0);
      WriteAll(writer, 50000);
      _exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  drain.Stop();
  const Contents contents = ReadSpool(file_.path());
  for (uint32_t t = 1; t <= kTargets; ++t) EXPECT_TRUE(contents.HasExactly(t, 0, 50000)) << t;
  EXPECT_EQ(contents.records, drain.records());
}

TEST_F(DrainTest, Stop_DrainsEverything) {
  Drain& drain = Start();
  FakeTarget target(1);
  target.StartProcess(0, 1, 100);
  drain.Add(target.Hand(), SegmentFact{});
  target.Run([&](const Segment& segment) {
    NumberedWriter writer(segment, 0);
    WriteAll(writer, 30000);
  });
  drain.Append(FrameType::kNote, 0, "last", 4);
  drain.Stop();
  const Contents contents = ReadSpool(file_.path());
  EXPECT_TRUE(contents.HasExactly(1, 0, 30000));
  EXPECT_EQ(std::count(contents.types.begin(), contents.types.end(), FrameType::kNote), 1);
}

// Frames that the launcher appends lie behind all records drained before, and before all records made after a flush.
TEST_F(DrainTest, OwnFrames_StayBetweenRecords) {
  Drain& drain = Start();
  FakeTarget target(1);
  target.StartProcess(0, 1, 100);
  drain.Add(target.Hand(), SegmentFact{});
  for (int i = 0; i < 20; ++i) {
    const WindowFact window{static_cast<uint64_t>(i), 0, WindowEvent::kOpened, 0, 0};
    drain.Append(FrameType::kWindow, 0, &window, sizeof(window));
    ASSERT_TRUE(drain.Flush(10000));
    target.Run([&](const Segment& segment) {
      NumberedWriter writer(segment, 0);
      writer.Write(static_cast<uint64_t>(i));
    });
    ASSERT_TRUE(drain.Flush(10000));
  }
  auto reader = SpoolReader::Open(file_.path());
  ASSERT_TRUE(reader.ok());
  Frame frame;
  uint64_t window_at = 0, span_at = 0, corrupt = 0;
  while ((*reader)->Next(&frame)) {
    if (frame.type == FrameType::kWindow) {
      WindowFact window;
      ASSERT_TRUE(frame.Read(&window));
      EXPECT_EQ(window.ticks, window_at++);
    }
    if (frame.type != FrameType::kChunk) continue;
    ChunkFact chunk;
    ForEachRecord(frame, &chunk, &corrupt, [&](const RecordView& record) {
      SpanRecord span;
      if (!record.ReadSpan(&span)) return;
      EXPECT_EQ(span.start, span_at++);
      EXPECT_EQ(window_at, span_at);
    });
  }
  EXPECT_EQ(span_at, 20u);
}

TEST_F(DrainTest, DeadProcess_SlotsAndChunksAreReused) {
  Drain& drain = Start();
  FakeTarget target(1);
  drain.Add(target.Hand(), SegmentFact{});
  const Segment& segment = target.segment();
  for (uint32_t serial = 1; serial <= 30; ++serial) {
    const uint32_t slot = serial % 8;
    ASSERT_EQ(segment.thread_slots[slot].state, static_cast<uint32_t>(SlotState::kFree)) << serial;
    target.StartProcess(0, serial, static_cast<int32_t>(100 + serial));
    drain.ProcessSeen(1, serial, static_cast<pid_t>(5000 + serial));
    target.Run([&](const Segment& shared) {
      NumberedWriter writer(shared, slot, serial);
      for (uint64_t i = 0; i < 2000; ++i) {
        while (!writer.Write(serial * 10000 + i)) usleep(100);
      }
      // The process dies inside a record that has another record behind it.
      Reservation reservation;
      if (BeginRecord(shared, &writer.writer, 2, &reservation)) writer.Write(serial * 10000 + 2000);
      _exit(0);
    });
    drain.ProcessEnded(1, serial, static_cast<pid_t>(5000 + serial));
    ASSERT_TRUE(drain.Flush(10000));
    EXPECT_EQ(__atomic_load_n(&segment.process_slots[0].state, __ATOMIC_ACQUIRE),
              static_cast<uint32_t>(SlotState::kFree));
    EXPECT_EQ(segment.thread_slots[slot].serial, 0u) << "zeroed before it is free";
    for (uint32_t i = 0; i < kChunks; ++i) {
      ASSERT_EQ(StateOfChunk(segment.chunk_states[i]), ChunkState::kFree) << serial << " chunk " << i;
    }
  }
  drain.Stop();
  const Contents contents = ReadSpool(file_.path());
  EXPECT_EQ(contents.lost, 30u);
  std::multiset<uint64_t> all;
  for (const auto& [key, numbers] : contents.spans) all.insert(numbers.begin(), numbers.end());
  EXPECT_EQ(all.size(), 30u * 2001);
  EXPECT_EQ(std::set<uint64_t>(all.begin(), all.end()).size(), all.size());
  ASSERT_EQ(contents.processes.size(), 30u);
  for (const auto& [key, process] : contents.processes) {
    EXPECT_NE(process.end_ticks, 0u);
    EXPECT_EQ(process.outer_pid, static_cast<int32_t>(5000 + key.second));
    EXPECT_EQ(process.pid, static_cast<int32_t>(100 + key.second));
  }
}

// A short process has touched one page of its chunk. A search of the rest for records behind a hole would allocate all
// pages, and cost more than the process.
TEST_F(DrainTest, DeadProcess_UntouchedPagesStayUntouched) {
  Drain& drain = Start();
  FakeTarget target(1);
  drain.Add(target.Hand(), SegmentFact{});
  constexpr uint32_t kProcesses = 8, kWithAHole = 7;
  for (uint32_t serial = 1; serial <= kProcesses; ++serial) {
    target.StartProcess(serial - 1, serial, static_cast<int32_t>(100 + serial));
    drain.ProcessSeen(1, serial, static_cast<pid_t>(5000 + serial));
  }
  target.Run([&](const Segment& shared) {
    for (uint32_t serial = 1; serial <= kProcesses; ++serial) {
      NumberedWriter writer(shared, serial - 1, serial);
      writer.Write(serial);
      // A long abandoned record, with another record behind it on the chunk's tenth page.
      Reservation reservation;
      if (serial == kWithAHole && BeginRecord(shared, &writer.writer, 10 * 128, &reservation)) writer.Write(1000);
    }
  });
  ASSERT_TRUE(drain.Flush(10000));
  const int64_t before = target.bytes_in_memory();
  for (uint32_t serial = 1; serial <= kProcesses; ++serial) {
    if (serial != kWithAHole) drain.ProcessEnded(1, serial, static_cast<pid_t>(5000 + serial));
  }
  ASSERT_TRUE(drain.Flush(10000));
  EXPECT_EQ(target.bytes_in_memory(), before);
  drain.ProcessEnded(1, kWithAHole, 5000 + kWithAHole);
  ASSERT_TRUE(drain.Flush(10000));
  for (uint32_t i = 0; i < kChunks; ++i) {
    ASSERT_EQ(StateOfChunk(target.segment().chunk_states[i]), ChunkState::kFree) << i;
    for (uint32_t word = 0; word < kChunkBytes / 8; ++word) ASSERT_EQ(target.segment().Chunk(i)[word], 0u) << i;
  }
  drain.Stop();
  const Contents contents = ReadSpool(file_.path());
  std::multiset<uint64_t> all;
  for (const auto& [key, numbers] : contents.spans) all.insert(numbers.begin(), numbers.end());
  EXPECT_EQ(all.size(), kProcesses + 1u);
  EXPECT_EQ(all.count(1000), 1u) << "behind the hole";
  EXPECT_EQ(contents.lost, 1u);
}

// Memory that was allocated and freed between two reads still counts for the peak.
TEST_F(DrainTest, PeakBetweenTwoReads_IsRecorded) {
  Drain& drain = Start();
  FakeTarget target(1);
  target.StartProcess(0, 1, 100);
  ProcessSlot* const process = &target.segment().process_slots[0];
  process->live_bytes = process->peak_bytes = 1000;
  drain.Add(target.Hand(), SegmentFact{});
  ASSERT_TRUE(drain.Flush(10000));
  __atomic_store_n(&process->peak_bytes, 9000, __ATOMIC_RELAXED);
  __atomic_store_n(&process->live_bytes, 2000, __ATOMIC_RELAXED);
  ASSERT_TRUE(drain.Flush(10000));
  ASSERT_TRUE(drain.Flush(10000));
  drain.Stop();
  const Contents contents = ReadSpool(file_.path());
  std::vector<int64_t> told;
  uint64_t last = 0;
  for (const CounterFact& counter : contents.counters) {
    EXPECT_GE(counter.ticks, last);
    last = counter.ticks;
    told.push_back(counter.live_bytes);
  }
  // The peak may be recorded before the remaining bytes.
  told.erase(std::unique(told.begin(), told.end()), told.end());
  EXPECT_EQ(told.front(), 1000);
  EXPECT_EQ(std::count(told.begin(), told.end(), 9000), 1);
  EXPECT_EQ(told.back(), 2000);
}

// Read when the process has ended, and only of a process that used CUDA.
TEST_F(DrainTest, WhatCuptiHeld_IsKeptAtTheEnd) {
  Drain& drain = Start();
  FakeTarget target(1);
  for (uint32_t i = 0; i < 3; ++i) target.StartProcess(i, i + 1, 100 + static_cast<int32_t>(i));
  ProcessSlot* const processes = target.segment().process_slots;
  processes[0].gpu_state = processes[1].gpu_state = static_cast<uint32_t>(GpuState::kRecording);
  processes[0].gpu_held_since = 5;
  drain.Add(target.Hand(), SegmentFact{});
  ASSERT_TRUE(drain.Flush(10000));
  processes[0].gpu_held_since = 77;
  for (uint32_t serial = 1; serial <= 3; ++serial) drain.ProcessEnded(1, serial, 0);
  ASSERT_TRUE(drain.Flush(10000));
  drain.Stop();
  auto reader = SpoolReader::Open(file_.path());
  ASSERT_TRUE(reader.ok()) << reader.status();
  SpoolFacts facts;
  (void)ReadSpoolFacts(
      reader->get(), 0, [](uint64_t) {}, &facts);
  EXPECT_EQ(facts.processes.at({1, 1}).gpu_held_since, 77u);
  EXPECT_EQ(facts.processes.at({1, 2}).gpu_held_since, 0u);
  EXPECT_EQ(facts.processes.at({1, 3}).gpu_held_since, std::nullopt);
}

TEST_F(DrainTest, ExitedThreads_SlotsAreReused) {
  Drain& drain = Start();
  FakeTarget target(1);
  target.StartProcess(0, 1, 100);
  drain.Add(target.Hand(), SegmentFact{});
  for (int round = 0; round < 5; ++round) {
    target.Run([&](const Segment& segment) {
      NumberedWriter writer(segment, 3);
      writer.writer.thread->serial = static_cast<uint32_t>(100 + round);
      writer.Write(0);
      writer.writer.thread->allocations = 77;
      writer.writer.thread->short_calls[0] = {5, 50};
      ReleaseChunk(segment, &writer.writer);
      writer.writer.thread->end_ticks = 9;
      __atomic_store_n(&writer.writer.thread->state, static_cast<uint32_t>(SlotState::kExited), __ATOMIC_RELEASE);
    });
    ASSERT_TRUE(drain.Flush(10000));
    EXPECT_EQ(__atomic_load_n(&target.segment().thread_slots[3].state, __ATOMIC_ACQUIRE),
              static_cast<uint32_t>(SlotState::kFree));
    EXPECT_EQ(target.segment().thread_slots[3].allocations, 0u);
    EXPECT_EQ(target.segment().thread_slots[3].short_calls[0].calls, 0u);
  }
  auto reader = SpoolReader::Open(file_.path());
  ASSERT_TRUE(reader.ok());
  std::map<uint32_t, ThreadFact> facts;
  Frame frame;
  while ((*reader)->Next(&frame)) {
    ThreadFact fact;
    if (frame.type != FrameType::kThread || !frame.Read(&fact)) continue;
    facts[fact.serial] = fact;
    CountFact count;
    ASSERT_EQ(frame.payload.size(), sizeof(fact) + fact.count_facts * sizeof(count));
    if (fact.count_facts == 0) continue;
    memcpy(&count, frame.payload.data() + sizeof(fact), sizeof(count));
    EXPECT_EQ(count.calls, 5u);
  }
  for (uint32_t serial = 100; serial < 105; ++serial) {
    EXPECT_EQ(facts[serial].allocations, 77u) << serial;
    EXPECT_EQ(facts[serial].end_ticks, 9u);
  }
}

TEST_F(DrainTest, RemovedSegments_AreUnmapped) {
  Drain& drain = Start();
  for (uint32_t number = 1; number <= 20; ++number) {
    FakeTarget target(number);
    target.StartProcess(0, 1, 100);
    drain.Add(target.Hand(), SegmentFact{});
    target.Run([&](const Segment& segment) {
      NumberedWriter writer(segment, 0);
      WriteAll(writer, 100);
    });
    drain.ProcessEnded(number, 1, 0);
    drain.Remove(number);
    drain.Remove(number);
    drain.Remove(number + 1000);
    drain.ProcessEnded(number, 1, 0);
  }
  drain.Stop();
  const Contents contents = ReadSpool(file_.path());
  for (uint32_t number = 1; number <= 20; ++number) EXPECT_TRUE(contents.HasExactly(number, 0, 100)) << number;
}

TEST_F(DrainTest, LiveBytes_ChangesAreCounters) {
  Drain& drain = Start();
  FakeTarget target(1);
  target.StartProcess(0, 1, 100);
  target.segment().process_slots[0].live_bytes = 10;
  drain.Add(target.Hand(), SegmentFact{});
  ASSERT_TRUE(drain.Flush(10000));
  ASSERT_TRUE(drain.Flush(10000));
  __atomic_store_n(&target.segment().process_slots[0].live_bytes, 20, __ATOMIC_RELAXED);
  ASSERT_TRUE(drain.Flush(10000));
  const Contents contents = ReadSpool(file_.path());
  ASSERT_EQ(contents.counters.size(), 2u);
  EXPECT_EQ(contents.counters[0].live_bytes, 10);
  EXPECT_EQ(contents.counters[1].live_bytes, 20);
}

// Every record is in the spool or counted, and the spool has the end of the run whatever the limit.
TEST_F(DrainTest, SpoolLimit_RestIsCounted) {
  Drain& drain = Start(3 << 20);
  FakeTarget target(1);
  target.StartProcess(0, 1, 100);
  drain.Add(target.Hand(), SegmentFact{});
  target.Run([&](const Segment& segment) {
    NumberedWriter writer(segment, 0);
    WriteAll(writer, 200000);
  });
  EndFact end{};
  end.exit_code = 7;
  drain.Append(FrameType::kEnd, 0, &end, sizeof(end));
  drain.Stop();
  EXPECT_GT(drain.spool().records_not_kept(), 0u);
  const Contents contents = ReadSpool(file_.path());
  EXPECT_EQ(contents.records + drain.spool().records_not_kept(), drain.records());
  EXPECT_EQ(contents.damaged, 0u);
  EXPECT_LE(drain.spool().main_bytes(), (3u << 20) + 100'000);
  EXPECT_GT(contents.records, 10000u);
  EXPECT_EQ(std::count(contents.types.begin(), contents.types.end(), FrameType::kEnd), 1);
  EXPECT_EQ(contents.threads.size(), 1u);
  for (uint32_t i = 0; i < kChunks; ++i)
    EXPECT_NE(StateOfChunk(target.segment().chunk_states[i]), ChunkState::kFull) << i;
}

TEST_F(DrainTest, FullDisk_RestIsCounted) {
  TemporaryPath directory("tmpfs");
  ASSERT_EQ(mkdir(directory.path().c_str(), 0700), 0);
  if (mount("none", directory.path().c_str(), "tmpfs", 0, "size=2m") != 0) GTEST_SKIP() << "cannot mount";
  const std::string path = directory.path() + "/spool";
  {
    Drain drain(Spool(path), ClockKind::kMonotonic, 0);
    ASSERT_TRUE(drain.Start().ok());
    FakeTarget target(1);
    target.StartProcess(0, 1, 100);
    drain.Add(target.Hand(), SegmentFact{});
    target.Run([&](const Segment& segment) {
      NumberedWriter writer(segment, 0);
      WriteAll(writer, 100000);
    });
    EXPECT_TRUE(drain.Flush(10000)) << "in time";
    drain.Stop();
    EXPECT_EQ(drain.spool().write_error(), ENOSPC);
    EXPECT_GT(drain.spool().records_not_kept(), 0u);
    const Contents contents = ReadSpool(path);
    EXPECT_EQ(contents.records + drain.spool().records_not_kept(), drain.records());
    EXPECT_EQ(contents.damaged, 0u);
    EXPECT_FALSE(contents.truncated);
  }
  EXPECT_EQ(umount2(directory.path().c_str(), MNT_DETACH), 0);
}

TEST_F(DrainTest, DescriptorThatCannotBeWritten_IsAnError) {
  for (const char* path : {"/dev/full", "/dev/null"}) {
    Drain drain(ScopedFd(open(path, (path[5] == 'f' ? O_WRONLY : O_RDONLY) | O_CLOEXEC)), ClockKind::kMonotonic, 0);
    ASSERT_TRUE(drain.Start().ok());
    FakeTarget target(1);
    target.StartProcess(0, 1, 100);
    drain.Add(target.Hand(), SegmentFact{});
    target.Run([&](const Segment& segment) {
      NumberedWriter writer(segment, 0);
      WriteAll(writer, 20000);
    });
    EXPECT_TRUE(drain.Flush(10000)) << "in time";
    drain.Stop();
    EXPECT_NE(drain.spool().write_error(), 0) << path;
    EXPECT_EQ(drain.spool().records_not_kept(), drain.records()) << path;
  }
}

// A peer that overwrites its segment can stop the drain neither of this segment nor of others.
TEST_F(DrainTest, HostileTarget_OthersAreDrained) {
  Drain& drain = Start(64 << 20);
  FakeTarget hostile(1), good(2);
  hostile.StartProcess(0, 1, 100);
  good.StartProcess(0, 1, 200);
  drain.Add(hostile.Hand(), SegmentFact{});
  drain.Add(good.Hand(), SegmentFact{});
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const Segment& segment = hostile.segment();
    uint64_t state = 1;
    const auto next = [&] { return state = state * 6364136223846793005 + 1442695040888963407, state >> 20; };
    // Chunk 0: records behind a hole, in changing generations. The rest: random values.
    for (uint64_t round = 0;; ++round) {
      const auto generation = static_cast<uint16_t>(1 + round % 3);
      for (uint32_t slot = 1; slot < 64; slot += 2) {
        __atomic_store_n(segment.Chunk(0) + slot * 4, TagWord(generation, RecordKind::kPad, 0, 1, 0), __ATOMIC_RELAXED);
      }
      __atomic_store_n(&segment.chunk_states[0], ChunkWord(ChunkState::kFull, generation, 0), __ATOMIC_RELEASE);
      if (round % 64 != 0) continue;
      __atomic_store_n(&segment.header->chunk_high, static_cast<uint32_t>(next()), __ATOMIC_RELAXED);
      __atomic_store_n(&segment.header->thread_high, static_cast<uint32_t>(next()), __ATOMIC_RELAXED);
      __atomic_store_n(&segment.header->process_high, static_cast<uint32_t>(next()), __ATOMIC_RELAXED);
      segment.chunk_states[next() % kChunks] = next();
      segment.thread_slots[next() % 16].state = static_cast<uint32_t>(next() % 5);
      segment.thread_slots[next() % 16].serial = static_cast<uint32_t>(next());
      segment.process_slots[next() % 16].state = static_cast<uint32_t>(next() % 5);
      for (int i = 0; i < 16; ++i) segment.Chunk(1 + next() % (kChunks - 1))[next() % (kChunkBytes / 8)] = next();
    }
  }
  for (int i = 0; i < 20; ++i) {
    good.Run([&](const Segment& segment) {
      NumberedWriter writer(segment, 0);
      for (uint64_t n = 0; n < 1000; ++n) {
        while (!writer.Write(static_cast<uint64_t>(i) * 1000 + n)) usleep(100);
      }
    });
    drain.ProcessEnded(1, static_cast<uint32_t>(i), 0);
    EXPECT_TRUE(drain.Flush(20000)) << i;
  }
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  drain.Stop();
  const Contents contents = [&] {
    Contents read;
    auto reader = SpoolReader::Open(file_.path());
    EXPECT_TRUE(reader.ok());
    Frame frame;
    while ((*reader)->Next(&frame)) {
      ChunkFact chunk;
      if (frame.type != FrameType::kChunk || frame.segment != 2) continue;
      ForEachRecord(frame, &chunk, &read.corrupt, [&](const RecordView& record) {
        SpanRecord span;
        if (record.ReadSpan(&span)) read.spans[{2, span.object}].insert(span.start);
      });
    }
    read.damaged = (*reader)->damaged_bytes();
    return read;
  }();
  EXPECT_EQ(contents.damaged, 0u);
  if (drain.spool().records_not_kept() == 0) {
    EXPECT_TRUE(contents.HasExactly(2, 0, 20000));
  }
}

// tbprof status reports what was dropped since the start, not of the threads that happen to live.
TEST(DroppedRecordsTest, OfThreadsThatHaveEnded_StayCounted) {
  FakeTarget target(1);
  const std::unique_ptr<MappedSegment> mapped = target.Hand();
  ThreadSlot* const slot = &target.segment().thread_slots[0];
  slot->serial = 1;
  slot->process_serial = 1;
  slot->dropped[kDropNoChunk] = 7;
  target.segment().header->dropped[kDropNoThreadSlot] = 2;
  __atomic_store_n(&slot->state, static_cast<uint32_t>(SlotState::kExited), __ATOMIC_RELEASE);
  EXPECT_EQ(DroppedRecords(*mapped), 9u);
  SlotRecorder recorder(ClockKind::kMonotonic);
  FrameBuffer frames(1 << 20);
  recorder.Append(mapped.get(), &frames);
  EXPECT_EQ(slot->state, static_cast<uint32_t>(SlotState::kFree));
  EXPECT_EQ(slot->dropped[kDropNoChunk], 0u);
  EXPECT_EQ(DroppedRecords(*mapped), 9u);
}

}  // namespace
}  // namespace tbprof
