// SPDX-License-Identifier: Apache-2.0
//
// Records of the kernel's perf events, valid and invalid; and a thread that samples itself.
#include "launcher/sampling/perf_events.h"

#include <climits>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <errno.h>
#include <linux/perf_event.h>
#include <time.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tbprof {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class Record {
 public:
  explicit Record(uint32_t type, uint16_t misc = 0) {
    const perf_event_header header = {type, misc, 0};
    Add(header);
  }
  template <typename T>
  Record& Add(const T& value) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
    bytes_.insert(bytes_.end(), bytes, bytes + sizeof(value));
    return *this;
  }
  Record& Text(const std::string& text) {
    bytes_.insert(bytes_.end(), text.begin(), text.end());
    bytes_.resize((bytes_.size() + 8) / 8 * 8);  // at least one zero
    return *this;
  }
  Record& Trailer(uint64_t time) { return Add(int32_t{7}).Add(int32_t{8}).Add(time); }
  std::vector<uint8_t> Bytes() const {
    std::vector<uint8_t> bytes = bytes_;
    const auto size = static_cast<uint16_t>(bytes.size());
    std::memcpy(&bytes[6], &size, sizeof(size));
    return bytes;
  }

 private:
  std::vector<uint8_t> bytes_;
};

#if defined(__x86_64__)
constexpr int kRegisters = 8;
#else
constexpr int kRegisters = 14;
#endif

Record Sample(uint64_t time, uint64_t stack_bytes, uint64_t copied) {
  Record record(PERF_RECORD_SAMPLE);
  record.Add(int32_t{10}).Add(int32_t{11}).Add(time).Add(uint64_t{PERF_SAMPLE_REGS_ABI_64});
  for (int i = 0; i < kRegisters; ++i) record.Add(uint64_t{100} + static_cast<uint64_t>(i));
  record.Add(stack_bytes);
  for (uint64_t i = 0; i < stack_bytes; ++i) record.Add(static_cast<uint8_t>(i));
  return stack_bytes == 0 ? record : record.Add(copied);
}

TEST(PerfRecord, Sample_HasThreadTimeRegistersAndStack) {
  const std::vector<uint8_t> bytes = Sample(55, 64, 48).Bytes();
  PerfRecord record;
  ASSERT_TRUE(ParsePerfRecord(bytes, &record));
  EXPECT_EQ(record.kind, PerfRecord::kSample);
  EXPECT_EQ(record.pid, 10);
  EXPECT_EQ(record.tid, 11);
  EXPECT_EQ(record.time_ns, 55u);
  EXPECT_EQ(record.snapshot.register_count, kRegisters);
#if defined(__x86_64__)
  // The kernel's order is bx bp sp ip r12 to r15; the unwinder's bx bp r12 to r15 sp ip.
  const std::vector<uint64_t> registers(record.snapshot.registers, record.snapshot.registers + kRegisters);
  EXPECT_THAT(registers, ElementsAre(100, 101, 104, 105, 106, 107, 102, 103));
  EXPECT_EQ(record.snapshot.stack_address, 102u);
#endif
  ASSERT_EQ(record.snapshot.stack_size, 48u);
  EXPECT_EQ(record.snapshot.stack[47], 47);
}

TEST(PerfRecord, SampleWithoutRegistersOrStack_IsRead) {
  Record sample(PERF_RECORD_SAMPLE);
  sample.Add(int32_t{10}).Add(int32_t{11}).Add(uint64_t{5}).Add(uint64_t{PERF_SAMPLE_REGS_ABI_NONE}).Add(uint64_t{0});
  PerfRecord record;
  ASSERT_TRUE(ParsePerfRecord(sample.Bytes(), &record));
  EXPECT_EQ(record.snapshot.register_count, 0);
  EXPECT_EQ(record.snapshot.stack_size, 0u);
}

TEST(PerfRecord, Sample_CutAnywhere_IsRefused) {
  const std::vector<uint8_t> whole = Sample(55, 64, 48).Bytes();
  for (size_t size = 0; size < whole.size(); ++size) {
    std::vector<uint8_t> cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size));
    const auto length = static_cast<uint16_t>(size);
    if (size >= 8) std::memcpy(&cut[6], &length, sizeof(length));
    PerfRecord record;
    EXPECT_FALSE(ParsePerfRecord(cut, &record)) << size;
  }
}

TEST(PerfRecord, StackThatIsLongerThanTheRecord_IsRefused) {
  PerfRecord record;
  EXPECT_FALSE(ParsePerfRecord(Sample(55, 64, 65).Bytes(), &record)) << "copied more than there is";
  Record sample(PERF_RECORD_SAMPLE);
  sample.Add(int32_t{10}).Add(int32_t{11}).Add(uint64_t{5}).Add(uint64_t{PERF_SAMPLE_REGS_ABI_NONE});
  sample.Add(UINT64_MAX).Add(uint64_t{0}).Add(uint64_t{0});
  EXPECT_FALSE(ParsePerfRecord(sample.Bytes(), &record));
}

TEST(PerfRecord, OtherKinds_AreRead) {
  PerfRecord record;
  ASSERT_TRUE(ParsePerfRecord(Record(PERF_RECORD_LOST).Add(uint64_t{1}).Add(uint64_t{9}).Trailer(3).Bytes(), &record));
  EXPECT_EQ(record.kind, PerfRecord::kLost);
  EXPECT_EQ(record.lost, 9u);
  const auto task = [](uint32_t type) {
    return Record(type).Add(int32_t{1}).Add(int32_t{1}).Add(int32_t{2}).Add(int32_t{1}).Add(uint64_t{4}).Trailer(4);
  };
  ASSERT_TRUE(ParsePerfRecord(task(PERF_RECORD_FORK).Bytes(), &record));
  EXPECT_EQ(record.kind, PerfRecord::kNewThread);
  EXPECT_EQ(record.pid, 1);
  EXPECT_EQ(record.tid, 2);
  ASSERT_TRUE(ParsePerfRecord(task(PERF_RECORD_EXIT).Bytes(), &record));
  EXPECT_EQ(record.kind, PerfRecord::kExit);
  const auto name = [](uint16_t misc) {
    return Record(PERF_RECORD_COMM, misc).Add(int32_t{1}).Add(int32_t{1}).Text("program").Trailer(4);
  };
  ASSERT_TRUE(ParsePerfRecord(name(0).Bytes(), &record));
  EXPECT_EQ(record.kind, PerfRecord::kOther) << "a thread names itself";
  ASSERT_TRUE(ParsePerfRecord(name(PERF_RECORD_MISC_COMM_EXEC).Bytes(), &record));
  EXPECT_EQ(record.kind, PerfRecord::kExec);
}

TEST(PerfRecord, Mapping_HasRangeAndPath) {
  Record mapping(PERF_RECORD_MMAP2);
  mapping.Add(int32_t{1}).Add(int32_t{1}).Add(uint64_t{0x1000}).Add(uint64_t{0x2000}).Add(uint64_t{0x3000});
  mapping.Add(uint32_t{8}).Add(uint32_t{1}).Add(uint64_t{77}).Add(uint64_t{0}).Add(uint32_t{5}).Add(uint32_t{2});
  mapping.Text("/lib/libx.so.1").Trailer(9);
  PerfRecord record;
  ASSERT_TRUE(ParsePerfRecord(mapping.Bytes(), &record));
  EXPECT_EQ(record.kind, PerfRecord::kMapped);
  EXPECT_EQ(record.address, 0x1000u);
  EXPECT_EQ(record.length, 0x2000u);
  EXPECT_EQ(record.offset, 0x3000u);
  EXPECT_EQ(record.inode, 77u);
  EXPECT_EQ(record.path, "/lib/libx.so.1");
  EXPECT_EQ(record.time_ns, 9u);
}

class PerfRing : public testing::Test {
 protected:
  // Writes like the kernel, and wraps around at the end of the ring.
  uint64_t Write(uint64_t at, const std::vector<uint8_t>& bytes) {
    for (const uint8_t byte : bytes) ring_[at++ % ring_.size()] = byte;
    return at;
  }
  uint64_t Read(uint64_t tail, uint64_t head) {
    times_.clear();
    return ReadPerfRing(ring_, tail, head, &scratch_, &corrupt_,
                        [&](const PerfRecord& record) { times_.push_back(record.time_ns); });
  }

  std::vector<uint8_t> ring_ = std::vector<uint8_t>(4096);
  std::vector<uint8_t> scratch_;
  std::vector<uint64_t> times_;
  uint64_t corrupt_ = 0;
};

TEST_F(PerfRing, RecordsAroundTheEnd_AreWhole) {
  for (uint64_t begin = 4096 - 400; begin < 4096 + 8; begin += 8) {
    uint64_t head = begin;
    for (uint64_t time = 1; time <= 3; ++time) head = Write(head, Sample(time, 64, 64).Bytes());
    EXPECT_EQ(Read(begin, head), head);
    EXPECT_THAT(times_, ElementsAre(1, 2, 3)) << begin;
  }
  EXPECT_EQ(corrupt_, 0u);
}

TEST_F(PerfRing, SizeThatCannotBe_EndsTheReadingAtTheHead) {
  const std::vector<uint8_t> good = Sample(1, 64, 64).Bytes();
  for (const uint16_t size : {uint16_t{0}, uint16_t{7}, uint16_t{65535}}) {
    const uint64_t second = Write(0, good);
    std::vector<uint8_t> bad = good;
    std::memcpy(&bad[6], &size, sizeof(size));
    const uint64_t head = Write(second, bad);
    corrupt_ = 0;
    EXPECT_EQ(Read(0, head), head);
    EXPECT_THAT(times_, ElementsAre(1)) << size;
    EXPECT_EQ(corrupt_, 1u);
  }
}

TEST_F(PerfRing, HeadBeyondTheBuffer_ReadsNothing) {
  EXPECT_EQ(Read(0, 5000), 5000u);
  EXPECT_EQ(Read(5000, 0), 0u);
  EXPECT_THAT(times_, IsEmpty());
  EXPECT_EQ(corrupt_, 2u);
}

TEST_F(PerfRing, RandomBytes_EndAtTheHead) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 20000; ++round) {
    const uint64_t tail = random() % 8192;
    uint64_t head = tail;
    // Plausible kinds and sizes, with random bytes behind them.
    while (head - tail < 3000) {
      std::vector<uint8_t> bytes(8 + random() % 200);
      for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random() % 3 == 0 ? random() : 0);
      const perf_event_header header = {static_cast<uint32_t>(random() % 12), 0,
                                        static_cast<uint16_t>(random() % 5 == 0 ? random() : bytes.size())};
      std::memcpy(bytes.data(), &header, sizeof(header));
      head = Write(head, bytes);
    }
    ASSERT_EQ(Read(tail, head), head);
  }
}

__attribute__((noinline, aligned(256))) uint64_t BurnForSamples(uint64_t units) {
  volatile uint64_t sum = 0;
  for (uint64_t i = 0; i < units; ++i) sum = sum * 3 + i;
  return sum;
}

uint64_t MonotonicNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

// If the kernel refuses, checks that the user can act on the reason.
TEST(PerfEvent, OwnThread_IsSampledInTheFunctionThatUsesCpu) {
  int error = -1;
  const uint64_t begin = MonotonicNs();
  const auto event = PerfEvent::Open({.tid = gettid(), .period_ns = 1'000'000}, &error);
  if (event == nullptr) {
    EXPECT_THAT((std::vector<int>{EACCES, EPERM, ENOSYS, ENOENT, EOPNOTSUPP}), testing::Contains(error));
    EXPECT_FALSE(ExplainPerfRefusal(error, PerfEventParanoid()).cause.empty());
    return;
  }
  const auto function = reinterpret_cast<uint64_t>(&BurnForSamples);
  int samples = 0, within = 0;
  for (int round = 0; round < 100'000 && within < 20; ++round) {
    BurnForSamples(100'000);
    event->Read([&](const PerfRecord& record) {
      if (record.kind != PerfRecord::kSample) return;
      ++samples;
      EXPECT_EQ(record.pid, getpid());
      EXPECT_EQ(record.tid, gettid());
      EXPECT_GE(record.time_ns, begin);
      EXPECT_LE(record.time_ns, MonotonicNs());
      EXPECT_GT(record.snapshot.stack_size, 0u);
      const uint64_t pc = record.snapshot.registers[record.snapshot.register_count - 1];
      within += pc >= function && pc < function + 256;
    });
  }
  EXPECT_GE(within, 20);
  EXPECT_GE(within * 10, samples * 8) << "nothing else uses CPU";
  EXPECT_EQ(event->corrupt(), 0u);
}

uint64_t ThreadCpuNs() {
  timespec used;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<uint64_t>(used.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(used.tv_nsec);
}

void BurnFor(uint64_t cpu_ns) {
  for (const uint64_t end = ThreadCpuNs() + cpu_ns; ThreadCpuNs() < end;) BurnForSamples(1000);
}

TEST(PerfEvent, NewPeriod_ReturnsTheCpuTimeSinceTheLastSample) {
  constexpr uint64_t kMs = 1'000'000;
  int error = 0;
  const uint64_t before_open = MonotonicNs();
  const auto event = PerfEvent::Open({.tid = gettid(), .period_ns = 60'000 * kMs}, &error);
  if (event == nullptr) return;  // the first test checks the reason
  const uint64_t opened = ThreadCpuNs();
  BurnFor(20 * kMs);
  const uint64_t before_set = ThreadCpuNs();
  const auto first = event->SetPeriod(10 * kMs);
  ASSERT_TRUE(first.has_value());
  // The event's clock contains what a hypervisor took away; the thread's does not.
  EXPECT_GE(first->cut_ns * 10, (before_set - opened) * 9);
  EXPECT_LE(first->cut_ns, MonotonicNs() - before_open);
  EXPECT_EQ(first->cpu_ns, first->cut_ns);
  BurnFor(35 * kMs);
  const auto second = event->SetPeriod(60'000 * kMs);
  ASSERT_TRUE(second.has_value());
  EXPECT_GE(second->cpu_ns, 30 * kMs);
  EXPECT_EQ(second->cut_ns, second->cpu_ns % (10 * kMs)) << "whole periods ended with a sample";
  const uint64_t set = ThreadCpuNs();
  BurnFor(5 * kMs);
  const uint64_t end = ThreadCpuNs();
  const auto third = event->SetPeriod(kMs);
  ASSERT_TRUE(third.has_value());
  EXPECT_GE(third->cut_ns * 10, (end - set) * 9) << "counted from the last change on";
  EXPECT_FALSE(event->is_small());
}

TEST(PerfEvent, ThreadThatIsNotThere_IsEsrch) {
  if (ProbePerfEvents() != 0) return;  // the test above checks the reason
  int error = 0;
  EXPECT_EQ(PerfEvent::Open({.tid = INT_MAX - 1, .period_ns = 1'000'000}, &error), nullptr);
  EXPECT_EQ(error, ESRCH);
}

TEST(PerfRefusal, EachCause_NamesItsRemedy) {
  EXPECT_EQ(ExplainPerfRefusal(EACCES, 4).cause, "perf_event_paranoid is 4");
  EXPECT_THAT(ExplainPerfRefusal(EACCES, 3).remedy, HasSubstr("kernel.perf_event_paranoid=2"));
  EXPECT_THAT(ExplainPerfRefusal(EPERM, 2).remedy, HasSubstr("--cap-add=PERFMON"));
  EXPECT_THAT(ExplainPerfRefusal(ENOSYS, INT_MIN).cause, HasSubstr("no such perf events"));
  EXPECT_EQ(ExplainPerfRefusal(ENOSYS, INT_MIN).remedy, "");
  EXPECT_EQ(ExplainPerfRefusal(EMFILE, 2).remedy, "ulimit -n");
  EXPECT_EQ(ExplainPerfRefusal(ENOBUFS, 2).remedy, "ulimit -l");
}

}  // namespace
}  // namespace tbprof
