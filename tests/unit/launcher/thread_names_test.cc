// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/thread_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "launcher/sampling/python_reader.h"
#include "launcher/sampling/python_runtime.h"
#include "tests/unit/launcher/python_programs.h"

namespace tbprof {
namespace {

// Threads made in each possible way; all of them wait.
constexpr char kThreads[] = R"(
import sys, threading
from concurrent.futures import ThreadPoolExecutor
release = threading.Event()
begun = threading.Semaphore(0)
def wait():
    begun.release()
    release.wait()
class Many(threading.Thread):
    def __init__(self):
        super().__init__(daemon=True)
        for i in range(60): setattr(self, "attribute%d" % i, i)
        self.name = "many"
    def run(self): wait()
def own_dictionary():
    thread = threading.Thread(target=wait, daemon=True)
    thread.__dict__["x"] = 1
    thread.name = "dictionary"
    return thread
renamed = threading.Thread(target=wait, name="before", daemon=True)
wide = threading.Thread(target=wait, name="\u4e2d \u00e4", daemon=True)
threads = [threading.Thread(target=wait, name="plain", daemon=True), renamed, wide, Many(), own_dictionary()]
for thread in threads: thread.start()
renamed.name = "after"
pool = ThreadPoolExecutor(1, thread_name_prefix="pool")
pool.submit(wait)
for _ in range(6): begun.acquire()
print("ready", flush=True)
sys.stdin.read()
release.set()
)";

class EachPython : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Installed, EachPython, testing::ValuesIn(InstalledPythons()), [](const auto& python) {
  std::string name = python.param;
  for (char& c : name) {
    if (!isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
});
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(EachPython);

// Addresses of the start frames of all threads that threading.Thread started.
std::vector<uint64_t> StartFrames(const PythonRuntime& runtime, const ReadMemory& read) {
  PythonReader reader(runtime.layout, runtime.address, read);
  std::vector<uint64_t> starts;
  std::vector<PythonReader::Frame> frames;
  if (!reader.ListThreads()) return starts;
  for (PythonReader::Thread& thread : reader.threads()) {
    if (reader.ReadStack(&thread, &frames) != PythonReader::Result::kRead) continue;
    if (const uint64_t frame = reader.ThreadStartFrame(frames)) starts.push_back(frame);
  }
  return starts;
}

TEST_P(EachPython, ThreadsOfEachKind_HaveTheNameThatTheProgramGaveThem) {
  PythonProgram program(GetParam(), kThreads);
  ASSERT_TRUE(program.WaitUntilReady());
  const ReadMemory read = ProcessMemory(program.pid());
  const PythonRuntime runtime = FindPythonRuntime(program.pid(), read);
  ASSERT_TRUE(runtime.found);
  const ThreadNames names(runtime.layout, read);
  std::multiset<std::string> found;
  for (const uint64_t frame : StartFrames(runtime, read)) found.insert(names.Read(frame));
  EXPECT_THAT(found, testing::UnorderedElementsAre("plain", "after", "\u4e2d \u00e4", "many", "dictionary", "pool_0"));
}

// Whatever the memory holds, the reader ends and reads little.
TEST_P(EachPython, CorruptMemory_GivesTextOrNothing) {
  PythonProgram program(GetParam(), kThreads);
  ASSERT_TRUE(program.WaitUntilReady());
  const ReadMemory read = ProcessMemory(program.pid());
  const PythonRuntime runtime = FindPythonRuntime(program.pid(), read);
  ASSERT_TRUE(runtime.found);
  const std::vector<uint64_t> frames = StartFrames(runtime, read);
  ASSERT_FALSE(frames.empty());
  std::mt19937_64 random(1);
  uint64_t reads = 0, bytes = 0;
  const ReadMemory corrupt = [&](void* out, std::span<const iovec> ranges) -> int64_t {
    const int64_t got = read(out, ranges);
    ++reads;
    if (got <= 0) return got;
    bytes += static_cast<uint64_t>(got);
    auto* const data = static_cast<uint8_t*>(out);
    // Corrupts a byte, all bytes of a word, or nothing.
    const auto at = random() % static_cast<uint64_t>(got);
    if (random() % 3 == 0) data[at] = static_cast<uint8_t>(random());
    if (random() % 9 == 0) std::fill(data, data + std::min<int64_t>(got, 8), static_cast<uint8_t>(random()));
    if (random() % 9 == 0) return static_cast<int64_t>(at);
    return got;
  };
  const ThreadNames names(runtime.layout, corrupt);
  for (int i = 0; i < 3000; ++i) {
    reads = bytes = 0;
    EXPECT_LE(names.Read(frames[static_cast<size_t>(i) % frames.size()]).size(), ThreadNames::kMostNameBytes);
    EXPECT_LE(reads, 4 * ThreadNames::kMostEntries + 20);
    EXPECT_LE(bytes, 64u << 10);
  }
}

TEST(ThreadNames, VersionThatIsNotKnown_HasNoNames) {
  uint64_t reads = 0;
  const ReadMemory read = [&](void*, std::span<const iovec>) -> int64_t { return static_cast<int64_t>(++reads) * 0; };
  PythonLayout layout = kPythonLayouts[0];
  layout.minor = 99;
  EXPECT_EQ(ThreadNames(layout, read).Read(0x10000), "");
  EXPECT_EQ(reads, 0u);
}

}  // namespace
}  // namespace tbprof
