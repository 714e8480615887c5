// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/python_runtime.h"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "launcher/sampling/python_reader.h"
#include "launcher/sampling/python_text.h"
#include "tests/unit/launcher/python_programs.h"

namespace tbprof {
namespace {

constexpr uint64_t kBase = 0x10000;
constexpr uint64_t kVersionAt = kBase + 4096;

// Simulated memory that begins at kBase.
class FakeMemory {
 public:
  void Put64(uint64_t address, uint64_t value) { std::memcpy(&bytes_.at(address - kBase), &value, 8); }
  void PutText(uint64_t address, const std::string& text) {
    std::memcpy(&bytes_.at(address - kBase), text.data(), text.size());
  }
  ReadMemory Function() {
    return [this](void* out, std::span<const iovec> ranges) -> int64_t {
      if (error != 0) return -error;
      int64_t done = 0;
      for (const iovec& range : ranges) {
        const uint64_t at = reinterpret_cast<uint64_t>(range.iov_base) - kBase;
        if (at >= bytes_.size() || range.iov_len > bytes_.size() - at) return done > 0 ? done : -EFAULT;
        std::memcpy(static_cast<uint8_t*>(out) + done, &bytes_[at], range.iov_len);
        done += static_cast<int64_t>(range.iov_len);
      }
      return done;
    };
  }
  int error = 0;

 private:
  std::vector<uint8_t> bytes_ = std::vector<uint8_t>(1 << 16);
};

PythonRuntime Decide(FakeMemory* memory, uint32_t version, uint16_t minor = 0, bool free_threaded = false) {
  memory->Put64(kVersionAt, version);
  return DecidePythonRuntime(kBase, version == 0 ? 0 : kVersionAt, minor, free_threaded, memory->Function());
}

// Puts the table of offsets of the newest release of a row of kPythonDebugOffsets where the interpreter has it.
void PutDebugOffsets(FakeMemory* memory, uint64_t free_threaded, const PythonLayout& where = kPythonDebugOffsets[0]) {
  const PythonLayout* layout = nullptr;
  for (const PythonLayout& row : kPythonLayouts) {
    if (row.minor == where.minor) layout = &row;
  }
  ASSERT_NE(layout, nullptr);
  memory->PutText(kBase, "xdebugpy");
  memory->Put64(kBase + 16, free_threaded);
  const auto* places = reinterpret_cast<const uint16_t*>(&where);
  const auto* offsets = reinterpret_cast<const uint16_t*>(layout);
  for (size_t i = 1; i < sizeof(PythonLayout) / 2; ++i) {
    if (places[i] != kNoPythonMember) memory->Put64(kBase + places[i], offsets[i]);
  }
}

TEST(PythonRuntime, ReleaseWithARow_IsSampled) {
  FakeMemory memory;
  const PythonRuntime python = Decide(&memory, 0x030b07f0);
  EXPECT_EQ(python.state, kPythonSampled);
  EXPECT_EQ(python.minor, 11);
  EXPECT_EQ(python.layout.minor, 11);
  EXPECT_EQ(python.reason, "");
  EXPECT_EQ(Decide(&memory, 0, 9).layout.minor, 9);
}

TEST(PythonRuntime, VersionWithoutARow_IsRefused) {
  FakeMemory memory;
  for (const uint32_t version : {0x03630000u | 0xf0u, 0x02070ff0u, 0x031000f0u}) {
    const PythonRuntime python = Decide(&memory, version);
    EXPECT_TRUE(python.found);
    EXPECT_EQ(python.state, kPythonUnknownVersion) << version;
    EXPECT_NE(python.reason, "");
  }
  EXPECT_EQ(Decide(&memory, 0, 0).state, kPythonUnknownVersion);
  EXPECT_EQ(Decide(&memory, 0, 7).state, kPythonUnknownVersion);
}

TEST(PythonRuntime, PreRelease_IsRefused) {
  FakeMemory memory;
  EXPECT_EQ(Decide(&memory, 0x030c00c1).state, kPythonUnknownVersion);
}

TEST(PythonRuntime, MemoryThatMayNotBeRead_IsRefused) {
  FakeMemory memory;
  memory.error = EPERM;
  const PythonRuntime python = Decide(&memory, 0x030b07f0);
  EXPECT_EQ(python.state, kPythonNoPermission);
  EXPECT_NE(python.reason, "");
}

TEST(PythonRuntime, MemoryThatIsGone_IsNotFound) {
  FakeMemory memory;
  memory.error = ESRCH;
  EXPECT_FALSE(Decide(&memory, 0x030b07f0).found);
}

// 3.13 and later.
TEST(PythonRuntime, OffsetsOfEachMinor_AreTakenFromTheInterpreter) {
  ASSERT_GE(std::size(kPythonDebugOffsets), 3u);
  for (const PythonLayout& where : kPythonDebugOffsets) {
    FakeMemory memory;
    PutDebugOffsets(&memory, 0, where);
    memory.Put64(kBase + where.thread_frame, 80);  // 72 in the releases of the rows
    const PythonRuntime python = Decide(&memory, 0x030000f0u | uint32_t{where.minor} << 16);
    EXPECT_EQ(python.state, kPythonSampled) << python.reason;
    EXPECT_EQ(python.minor, where.minor);
    EXPECT_EQ(python.layout.thread_frame, 80);
  }
}

TEST(PythonRuntime, OffsetsOfEachMinor_WithoutCookieOrTooLarge_AreAMismatch) {
  for (const PythonLayout& where : kPythonDebugOffsets) {
    const uint32_t version = 0x030000f0u | uint32_t{where.minor} << 16;
    FakeMemory memory;
    EXPECT_EQ(Decide(&memory, version).state, kPythonLayoutMismatch);
    PutDebugOffsets(&memory, 0, where);
    EXPECT_EQ(Decide(&memory, version).state, kPythonSampled);
    memory.Put64(kBase + where.thread_frame, uint64_t{1} << 40);
    EXPECT_EQ(Decide(&memory, version).state, kPythonLayoutMismatch);
  }
}

TEST(PythonRuntime, FreeThreadedBuild_IsRefused) {
  for (const PythonLayout& where : kPythonDebugOffsets) {
    const uint32_t version = 0x030000f0u | uint32_t{where.minor} << 16;
    FakeMemory memory;
    PutDebugOffsets(&memory, 1, where);
    EXPECT_EQ(Decide(&memory, version).state, kPythonFreeThreaded);
    PutDebugOffsets(&memory, 0, where);
    EXPECT_EQ(Decide(&memory, version, where.minor, true).state, kPythonFreeThreaded);
  }
}

TEST(PythonRuntime, MinorOfName) {
  bool free_threaded = true;
  EXPECT_EQ(MinorOfPythonName("/usr/bin/python3.9", &free_threaded), 9);
  EXPECT_FALSE(free_threaded);
  EXPECT_EQ(MinorOfPythonName("/lib/libpython3.13t.so.1.0", &free_threaded), 13);
  EXPECT_TRUE(free_threaded);
  EXPECT_EQ(MinorOfPythonName("/python3.9/bin/uwsgi", &free_threaded), 0);
}

// Structures of 3.11 without valid frames: after enough of them the reader reports that the layout is wrong.
TEST(PythonReader, StacksThatMakeNoSense_FailTheSelfCheck) {
  FakeMemory memory;
  PythonLayout layout = Decide(&memory, 0x030b07f0).layout;
  const uint64_t interpreter = kBase + 0x2000, state = kBase + 0x3000, cframe = kBase + 0x4000, frame = kBase + 0x5000;
  memory.Put64(kBase + layout.runtime_interpreters, interpreter);
  memory.Put64(interpreter + layout.interpreter_threads, state);
  memory.Put64(state + layout.thread_interpreter, interpreter);
  memory.Put64(state + layout.thread_frame, cframe);
  memory.Put64(cframe + layout.cframe_frame, frame);
  memory.Put64(frame + layout.frame_code, kBase + 0x6000);  // zeros: no type
  // The memory is still: a preemption of this thread does not make a stack torn.
  PythonReader reader(layout, kBase, memory.Function(), /*is_still=*/true);
  std::vector<PythonReader::Frame> frames;
  for (int i = 0; i < 64; ++i) {
    EXPECT_EQ(reader.self_check(), PythonReader::SelfCheck::kPending);
    ASSERT_TRUE(reader.ListThreads());
    ASSERT_EQ(reader.threads().size(), 1u);
    EXPECT_EQ(reader.ReadStack(&reader.threads()[0], &frames), PythonReader::Result::kUnreadable);
    EXPECT_TRUE(frames.empty());
  }
  EXPECT_EQ(reader.self_check(), PythonReader::SelfCheck::kFailed);
}

TEST(PythonReader, ThreadsAndFramesInACircle_EndTheRead) {
  FakeMemory memory;
  PythonLayout layout = Decide(&memory, 0x030b07f0).layout;
  const uint64_t interpreter = kBase + 0x2000, state = kBase + 0x3000, cframe = kBase + 0x4000, frame = kBase + 0x5000;
  memory.Put64(kBase + layout.runtime_interpreters, interpreter);
  memory.Put64(interpreter + layout.interpreter_threads, state);
  memory.Put64(state + layout.thread_interpreter, interpreter);
  memory.Put64(state + layout.thread_frame, cframe);
  memory.Put64(cframe + layout.cframe_frame, frame);
  memory.Put64(frame + layout.frame_previous, frame);
  PythonReader reader(layout, kBase, memory.Function());
  std::vector<PythonReader::Frame> frames;
  ASSERT_TRUE(reader.ListThreads());
  EXPECT_EQ(reader.ReadStack(&reader.threads()[0], &frames), PythonReader::Result::kUnreadable);
  memory.Put64(state + layout.thread_next, state);
  EXPECT_FALSE(reader.ListThreads());
  EXPECT_EQ(reader.error(), 0);
}

TEST(PythonText, Characters_BecomeUtf8) {
  EXPECT_EQ(PythonTextToUtf8("a\xe4", 1, 10), "a\xc3\xa4");
  EXPECT_EQ(PythonTextToUtf8(std::string_view("\x2d\x4e\x00\xd8", 4), 2, 10), "\xe4\xb8\xad\xef\xbf\xbd");
  EXPECT_EQ(PythonTextToUtf8(std::string_view("\x00\xf6\x01\x00", 4), 4, 10), "\xf0\x9f\x98\x80");
  EXPECT_EQ(PythonTextToUtf8("ab\xe4", 1, 3), "ab");
}

}  // namespace
}  // namespace tbprof
