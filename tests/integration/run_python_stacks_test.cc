// SPDX-License-Identifier: Apache-2.0
// Python stacks of records, compared with the frames that the program itself prints at the same place, in each version.
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "harness.h"
#include "python_commands.h"
#include "python_stack_records.h"

namespace tbprof::integration {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;
using ::testing::StartsWith;

class PythonStacks : public testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Installed, PythonStacks, testing::ValuesIn(InstalledPythons()), [](const auto& python) {
  std::string name = python.param;
  for (char& c : name) {
    if (!isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
});
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(PythonStacks);

// `bytearray(here())` allocates a number of bytes that no other line of the output has, and prints its frames.
constexpr char kHere[] = R"(
import itertools, os, sys, threading
numbers = itertools.count(1 << 20, 2)  # with what a bytearray adds odd, as no free block is
def here():
    size = next(numbers)
    frame, text = sys._getframe(1), []
    while frame is not None:
        code = frame.f_code
        text.append("%s:%d" % (getattr(code, "co_qualname", code.co_name), frame.f_lineno))
        frame = frame.f_back
    data = ("%d %d %s\n" % (os.getpid(), size, ";".join(text))).encode()
    while data:
        data = data[os.write(1, data):]
    return size
)";

std::string Script(std::string_view body) { return std::string(kHere) + std::string(body); }

struct Recording {
  RunResult result;
  std::unique_ptr<TemporaryDirectory> spools = std::make_unique<TemporaryDirectory>();
  std::unique_ptr<PythonStackRecords> records;
};

Recording RecordCommand(std::vector<std::string> command, const std::string& source,
                        std::vector<std::pair<std::string, std::optional<std::string>>> environment = {},
                        const std::vector<std::string>& options = {}) {
  Recording recording;
  RunOptions run;
  run.environment = std::move(environment);
  run.tbprof = {"--sample-rate=100", "--keep-spool", "--spool-dir=" + recording.spools->path()};
  run.tbprof.insert(run.tbprof.end(), options.begin(), options.end());
  command.push_back(*recording.spools / "program.py");
  WriteFile(command.back(), source);
  recording.result = RunUnderTbprof(command, run);
  const std::vector<std::string> files = FilesBelow(recording.spools->path(), ".spool");
  EXPECT_THAT(files, SizeIs(1)) << recording.result.AllPrinted();
  if (files.size() == 1) recording.records = std::make_unique<PythonStackRecords>(files[0]);
  return recording;
}

Recording Record(const std::string& python, const std::string& source, const std::vector<std::string>& options = {}) {
  return RecordCommand(WithinRoot({python}), source, {}, options);
}

// The extra bytes of a bytearray: a 0 at the end, and from 3.15 on also the header of a bytes object at the start.
int64_t Overhead(const Recording& recording) { return recording.records->Python() == "+3.15" ? 33 : 1; }

// Compares each line of the output with the span of that many bytes. Returns the number of lines.
size_t Compare(const Recording& recording) {
  std::map<int64_t, const RecordedSpan*> by_size;
  for (const RecordedSpan& span : recording.records->spans()) {
    if (span.span.result >= 1 << 20) by_size.emplace(span.span.result, &span);
  }
  size_t compared = 0;
  std::istringstream lines(recording.result.out);
  for (std::string line; std::getline(lines, line); ++compared) {
    std::istringstream words(line);
    int64_t pid = 0, size = 0;
    std::string frames;
    if (!(words >> pid >> size >> frames)) continue;
    auto found = by_size.find(size + Overhead(recording));
    if (found == by_size.end()) {
      ADD_FAILURE() << "no span of " << size << " bytes";
      continue;
    }
    const RecordedStack* const stack = found->second->stack;
    if (stack == nullptr) {
      ADD_FAILURE() << "no stack: " << line;
      continue;
    }
    std::string recorded;
    size_t expected_frames = 1;
    for (char c : frames) expected_frames += c == ';';
    for (const std::string& frame : stack->frames) recorded += (recorded.empty() ? "" : ";") + frame;
    const bool deep = expected_frames > kMaxPythonFrames;
    EXPECT_EQ(stack->flags, deep ? kPythonStackDeep : 0) << line;
    EXPECT_EQ(recorded, deep ? frames.substr(0, recorded.size()) : frames);
    if (deep) {
      EXPECT_THAT(stack->frames, SizeIs(kMaxPythonFrames));
    }
  }
  EXPECT_EQ(recording.records->unresolved(), 0u);
  return compared;
}

constexpr char kEveryKind[] = R"(
import random
class Kind:
    def __del__(self):
        bytearray(here())
    def method(self, n):
        return [bytearray(here()) for _ in range(2)]
def generator(n):
    if n:
        yield from generator(n - 1)
    yield len(bytearray(here()))
async def coroutine(n):
    if n:
        await coroutine(n - 1)
    return bytearray(here())
def run(c):
    try:
        c.send(None)
    except StopIteration:
        pass
def f(n):
    return g(n - 1) if n else bytearray(here())
def g(n):
    return list(map(f, [n - 1]))[0] if n else sorted([1, 2], key=lambda x: len(bytearray(here())))
def \u00e4\u03b1\u4e2d(n):
    return bytearray(here())
def deep(n):
    return deep(n - 1) if n else bytearray(here())
def work(seed):
    pick = random.Random(seed)
    for _ in range(60):
        f(pick.randrange(12))
        g(pick.randrange(12))
        sum(generator(pick.randrange(8)))
        run(coroutine(pick.randrange(8)))
        Kind().method(1)
        \u00e4\u03b1\u4e2d(1)
threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
for thread in threads: thread.start()
work(7)
for thread in threads: thread.join()
deep(300)
)";

TEST_P(PythonStacks, EveryKindOfFrame_IsWhatTheProgramSays) {
  std::string body = kEveryKind;
  for (const auto& [from, to] : {std::pair("\\u00e4", "\u00e4"), {"\\u03b1", "\u03b1"}, {"\\u4e2d", "\u4e2d"}}) {
    for (size_t at = body.find(from); at != std::string::npos; at = body.find(from)) body.replace(at, 6, to);
  }
  const Recording recording = Record(GetParam(), Script(body));
  ASSERT_EQ(recording.result.code(), 0) << recording.result.err;
  ASSERT_NE(recording.records, nullptr);
  EXPECT_THAT(recording.records->Python(), StartsWith("+3."));
  EXPECT_GT(Compare(recording), 2000u);
}

// Code objects come and go at the same addresses, with other names.
TEST_P(PythonStacks, CodeThatTakesTheMemoryOfOther_HasItsOwnName) {
  const Recording recording = Record(GetParam(), Script(R"(
for i in range(1500):
    space = dict(here=here)
    exec(compile("def name%d():\n%s    return bytearray(here())\nname%d()\n" % (i, "\n" * (i % 7), i), "file%d.py" % i, "exec"), space)
)"));
  ASSERT_EQ(recording.result.code(), 0) << recording.result.err;
  ASSERT_NE(recording.records, nullptr);
  EXPECT_GE(Compare(recording), 1500u);
}

TEST_P(PythonStacks, ForkChildren_HaveStacksOfTheirOwn) {
  const Recording recording = Record(GetParam(), Script(R"(
def child(n):
    bytearray(here())
    if n: fork(n - 1)
    bytearray(here())
def fork(n):
    bytearray(here())
    pid = os.fork()
    if pid == 0:
        for _ in range(n * 1000 + 1000): next(numbers)
        child(n)
        os._exit(0)
    os.waitpid(pid, 0)
    bytearray(here())
for _ in range(5):
    fork(3)
    for _ in range(20000): next(numbers)
)"));
  ASSERT_EQ(recording.result.code(), 0) << recording.result.err;
  ASSERT_NE(recording.records, nullptr);
  EXPECT_GE(Compare(recording), 50u);
}

TEST_P(PythonStacks, LongWaits_CarryTheirStack) {
  const Recording recording = Record(GetParam(), Script(R"(
import time
lock = threading.Lock()
def hold():
    with lock:
        time.sleep(0.02)
def sleeper():
    time.sleep(0.02)
def waiter():
    thread = threading.Thread(target=hold)
    thread.start()
    while not lock.locked() and thread.is_alive(): time.sleep(0.0001)
    with lock: pass
    thread.join()
sleeper()
waiter()
)"));
  ASSERT_EQ(recording.result.code(), 0) << recording.result.err;
  ASSERT_NE(recording.records, nullptr);
  EXPECT_EQ(recording.records->unresolved(), 0u);
  size_t sleeps = 0, without = 0;
  for (const RecordedSpan& span : recording.records->spans()) {
    if (span.stack == nullptr) continue;
    if (span.stack->frames[0].starts_with("sleeper:")) {
      ++sleeps;
      EXPECT_THAT(span.stack->frames, SizeIs(2));
      EXPECT_THAT(span.stack->files[0], ::testing::EndsWith("/program.py"));
    }
    if (span.stack->frames.empty()) ++without;
  }
  EXPECT_EQ(sleeps, 1u);
  EXPECT_EQ(without, 0u);
}

// Daemon threads continue while the interpreter ends and frees the states of other threads.
TEST_P(PythonStacks, DaemonThreadsAtTheEnd_ChangeNothing) {
  const std::string source = Script(R"(
import time
def daemon(i):
    while True:
        time.sleep(0.0002)
        bytearray(1 << 20)
for i in range(8):
    threading.Thread(target=daemon, args=(i,), daemon=True).start()
time.sleep(0.05)
print("done", flush=True)
)");
  for (int i = 0; i < 5; ++i) {
    const Recording recording = Record(GetParam(), source);
    ASSERT_EQ(recording.result.code(), 0) << recording.result.err;
    EXPECT_EQ(recording.result.out, "done\n");
    ASSERT_NE(recording.records, nullptr);
    EXPECT_EQ(recording.records->unresolved(), 0u);
  }
}

TEST_P(PythonStacks, AllocatorSamples_CarryTheirStack) {
  const Recording recording = Record(GetParam(), Script(R"(
def fill(n):
    return [bytes(2000 + i % 7) for i in range(n)]
keep = [fill(2000) for _ in range(20)]
)"));
  ASSERT_EQ(recording.result.code(), 0) << recording.result.err;
  ASSERT_NE(recording.records, nullptr);
  EXPECT_EQ(recording.records->unresolved(), 0u);
  EXPECT_GT(recording.records->samples(), 50u);
  EXPECT_GT(recording.records->samples_with_stack() * 10, recording.records->samples() * 8);
}

// --malloc=exact: each block has the stack that it was allocated under.
TEST_P(PythonStacks, ExactBlocks_HaveTheirStack) {
  const Recording recording = Record(GetParam(), Script(R"(
numbers = itertools.count(1 << 20, 8192)
def f(n):
    return g(n - 1) if n else bytearray(here())
def g(n):
    return f(n - 1) if n else len([bytearray(here()) for _ in range(2)])
def work():
    for n in range(30):
        f(n % 7)
        g(n % 5)
        bytearray(here())
threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads: thread.start()
work()
for thread in threads: thread.join()
)"),
                                     {"--malloc=exact"});
  ASSERT_EQ(recording.result.code(), 0) << recording.result.err;
  ASSERT_NE(recording.records, nullptr);
  std::map<uint64_t, const RecordedStack*> by_size;
  for (const RecordedBlock& block : recording.records->blocks()) {
    if (block.size > 1 << 20) by_size.emplace(block.size, block.stack);
  }
  size_t compared = 0;
  std::istringstream lines(recording.result.out);
  int64_t pid = 0, size = 0;
  for (std::string frames; lines >> pid >> size >> frames; ++compared) {
    // Blocks have the usable size, which is larger for blocks of pages and of the heap.
    const auto found = by_size.upper_bound(static_cast<uint64_t>(size));
    ASSERT_NE(found, by_size.end()) << size;
    ASSERT_LT(found->first, static_cast<uint64_t>(size) + 8192);
    ASSERT_NE(found->second, nullptr) << frames;
    std::string recorded;
    for (const std::string& frame : found->second->frames) recorded += (recorded.empty() ? "" : ";") + frame;
    EXPECT_EQ(recorded, frames);
  }
  EXPECT_GE(compared, 300u);
  EXPECT_EQ(recording.records->unresolved(), 0u);
}

// Up to 3.11 no stack is recorded while there are several interpreters. No stack is ever wrong.
TEST_P(PythonStacks, Subinterpreters_NoStackIsWrong) {
  const Recording recording = Record(GetParam(), Script(R"(
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
bytearray(here())
for _ in range(5):
    new = interpreters.create()
    interpreters.run_string(new, "def inner():\n    return bytearray(3 << 20)\ninner()\n")
    interpreters.destroy(new)
    bytearray(here())
)"));
  ASSERT_EQ(recording.result.code(), 0) << recording.result.err;
  ASSERT_NE(recording.records, nullptr);
  EXPECT_EQ(Compare(recording), 6u);
  size_t inner = 0;
  for (const RecordedSpan& span : recording.records->spans()) {
    if (span.span.result != (3 << 20) + Overhead(recording)) continue;
    ++inner;
    if (span.stack != nullptr) {
      EXPECT_THAT(span.stack->frames, ElementsAre("inner:2", "<module>:3"));
    }
  }
  EXPECT_EQ(inner, 5u);
}

TEST_P(PythonStacks, ExitAmidThreads_KeepsTheStatusAndTheStacks) {
  const Recording recording = Record(GetParam(), Script(R"(
lock = threading.Lock()
def work():
    while True:
        with lock: bytearray(here())
for _ in range(3): threading.Thread(target=work, daemon=True).start()
for _ in range(20):
    with lock: bytearray(here())
lock.acquire()
os._exit(3)
)"));
  ASSERT_EQ(recording.result.code(), 3) << recording.result.err;
  ASSERT_NE(recording.records, nullptr);
  EXPECT_GE(Compare(recording), 20u);
}

// `program`: of tests/programs/runs_python_script.c. Null: that interpreter has no library.
std::unique_ptr<Recording> RecordEmbedded(const std::string& python, const std::string& program) {
  const std::string library = LibraryOf(python);
  if (library.empty()) return nullptr;
  const std::string prefix = std::filesystem::path(PathWithinRoot(python)).parent_path().parent_path();
  return std::make_unique<Recording>(RecordCommand(
      WithinRoot({program, library}), Script("for _ in range(50): bytearray(here())\n"), {{"PYTHONHOME", prefix}}));
}

// The program loads an interpreter after the search for symbols. From 3.15 on, reading the thread's state might
// allocate in such a program.
TEST_P(PythonStacks, InterpreterLoadedLater_IsFoundOrRefused) {
  const auto recording = RecordEmbedded(GetParam(), Program("runs_python_script"));
  if (recording == nullptr) GTEST_SKIP() << "no library of " << GetParam();
  ASSERT_EQ(recording->result.code(), 0) << recording->result.err;
  ASSERT_NE(recording->records, nullptr);
  if (MinorOf(GetParam()) >= 15) {
    EXPECT_EQ(recording->records->Python(), "-3.15 was loaded by dlopen, which is not supported from 3.15 on");
    EXPECT_EQ(recording->records->stacks(), 0u);
    return;
  }
  EXPECT_THAT(recording->records->Python(), StartsWith("+3."));
  EXPECT_EQ(Compare(*recording), 50u);
}

// A program that is linked with the library.
TEST_P(PythonStacks, InterpreterThatTheProgramNeeds_IsFound) {
  const TemporaryDirectory directory;
  const std::string program = ProgramLinkedWith(GetParam(), directory.path());
  if (program.empty()) GTEST_SKIP() << "no program is linked with the library of " << GetParam();
  const auto recording = RecordEmbedded(GetParam(), program);
  ASSERT_NE(recording, nullptr);
  ASSERT_EQ(recording->result.code(), 0) << recording->result.err;
  ASSERT_NE(recording->records, nullptr);
  EXPECT_THAT(recording->records->Python(), StartsWith("+3."));
  EXPECT_EQ(Compare(*recording), 50u);
}

TEST_P(PythonStacks, WithoutSampling_NoneIsRecorded) {
  const Recording recording = Record(GetParam(), Script("bytearray(here())\n"), {"--sample-rate=0"});
  ASSERT_EQ(recording.result.code(), 0) << recording.result.err;
  ASSERT_NE(recording.records, nullptr);
  EXPECT_EQ(recording.records->stacks(), 0u);
  EXPECT_EQ(recording.records->Python(), "");
}

}  // namespace
}  // namespace tbprof::integration
