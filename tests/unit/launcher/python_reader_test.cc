// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/python_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "launcher/sampling/python_runtime.h"
#include "launcher/sampling/python_text.h"
#include "launcher/sampling/thread_ids.h"
#include "tests/unit/launcher/python_programs.h"

namespace tbprof {
namespace {

class EachPython : public testing::TestWithParam<std::string> {};
class EachPyPy : public EachPython {};
class EachWithGreenlets : public EachPython {};

std::string NameOf(const testing::TestParamInfo<std::string>& python) {
  std::string name = python.param;
  for (char& c : name) {
    if (!isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
}
INSTANTIATE_TEST_SUITE_P(Installed, EachPython, testing::ValuesIn(InstalledPythons()), NameOf);
INSTANTIATE_TEST_SUITE_P(Installed, EachPyPy, testing::ValuesIn(InstalledPyPys()), NameOf);
INSTANTIATE_TEST_SUITE_P(Installed, EachWithGreenlets, testing::ValuesIn(PythonsWithGreenlets()), NameOf);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(EachPython);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(EachPyPy);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(EachWithGreenlets);

struct Names {
  std::map<uint32_t, PythonReader::Code> codes;
  void Take(PythonReader* reader) {
    for (auto& code : reader->TakeNewCodes()) codes[code.number] = std::move(code);
  }
  const std::string& operator[](const PythonReader::Frame& frame) { return codes[frame.code].name; }
};

// Whether the frames are all of one family, in the right order.
bool Possible(const std::vector<PythonReader::Frame>& frames, Names* names) {
  char family = 0;
  int next = 0;
  bool begun = false;
  for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
    const std::string& name = (*names)[*frame];
    if (name.size() < 2 || (name[0] != 'f' && name[0] != 'g') || !isdigit(static_cast<unsigned char>(name[1]))) {
      if (begun && name != "spin" && name != "switch") return false;
      continue;
    }
    if (!begun) family = name[0];
    begun = true;
    if (name[0] != family || std::stoi(name.substr(1)) != next++) return false;
  }
  return true;
}

struct Counts {
  uint64_t samples = 0, torn = 0, unreadable = 0, impossible = 0, unlisted = 0;
  size_t deepest = 0;
  uint64_t lost() const { return torn + unreadable; }
};

// A wrong stack is an error of the reader on any machine. The number of lost stacks depends on how long the machine
// delays the reader between two copies: with nested generators 0 to 3.4 %, beside two other programs on two cores.
void ExpectFewWrong(const Counts& counts) {
  // One in a thousand, plus three standard deviations for chance.
  const double usual = static_cast<double>(counts.samples + counts.lost()) / 1000;
  EXPECT_LE(static_cast<double>(counts.impossible), usual + 3 * std::sqrt(usual));
}
void ExpectMostRead(const Counts& counts) { EXPECT_LE(counts.lost(), counts.samples); }

// Reads the stacks of the worker threads of a program with families, as fast as it can: `wanted` of them, and on until
// one was seen at its deepest, which a program that only calls is seldom long enough.
constexpr size_t kDeepest = 24;
Counts ReadFamilies(const std::string& python_path, const std::string& source, uint64_t wanted) {
  Counts counts;
  PythonProgram program(python_path, source);
  std::set<int> workers, seen;
  int main_tid = 0;
  for (std::string line = program.ReadLine(); !line.empty() && line != "ready"; line = program.ReadLine()) {
    if (line.starts_with("main ")) main_tid = std::stoi(line.substr(5));
    if (line.starts_with("worker ")) workers.insert(std::stoi(line.substr(7)));
  }
  const ReadMemory read = ProcessMemory(program.pid());
  const PythonRuntime python = FindPythonRuntime(program.pid(), read);
  EXPECT_TRUE(python.found);
  EXPECT_EQ(python.state, kPythonSampled) << python.reason;
  if (!python.found || python.state != kPythonSampled) return counts;
  PythonReader reader(python.layout, python.address, read);
  ThreadIds ids(program.pid(), read);
  Names names;
  std::vector<PythonReader::Frame> frames;
  const auto is_enough = [&] { return counts.samples + counts.lost() >= wanted && counts.deepest >= kDeepest; };
  for (uint64_t round = 0; !is_enough() && round < 10 * wanted; ++round) {
    if (!reader.ListThreads()) {
      ++counts.unlisted;
      continue;
    }
    for (PythonReader::Thread& thread : reader.threads()) {
      if (round % 500 == 0) {
        const auto tid = ids.Resolve(thread);
        if (tid) seen.insert(tid->inner);
        if (thread.main) {
          EXPECT_EQ(tid ? tid->inner : 0, main_tid);
        }
      }
      if (thread.main) continue;
      const PythonReader::Result result = reader.ReadStack(&thread, &frames);
      names.Take(&reader);
      if (result == PythonReader::Result::kTorn) ++counts.torn;
      if (result == PythonReader::Result::kUnreadable) ++counts.unreadable;
      if (result != PythonReader::Result::kRead) continue;
      ++counts.samples;
      counts.deepest = std::max(counts.deepest, frames.size());
      if (!Possible(frames, &names)) ++counts.impossible;
    }
  }
  printf("%s: %lu samples, %lu torn, %lu unreadable, %lu impossible, %lu lists not read\n", python_path.c_str(),
         counts.samples, counts.torn, counts.unreadable, counts.impossible, counts.unlisted);
  EXPECT_GE(counts.deepest, kDeepest);
  EXPECT_EQ(reader.self_check(), PythonReader::SelfCheck::kPassed);
  EXPECT_EQ(seen.size(), 3u);
  for (int worker : workers) EXPECT_TRUE(seen.contains(worker)) << worker;
  return counts;
}

TEST_P(EachPython, FamiliesOfFunctions_WhileTheyRun_NeverMix) {
  const Counts counts = ReadFamilies(GetParam(), kFamilies, 20000);
  ExpectFewWrong(counts);
  ExpectMostRead(counts);
}

// The program makes a call every 100 ns: many stacks change before they are copied, but none is wrong.
TEST_P(EachPython, FamiliesThatOnlyCall_WhileTheyRun_NeverMix) {
  const Counts counts =
      ReadFamilies(GetParam(), FamiliesWith("if n == 0: return 0\\n    return %s%d(n - 1) + 1", "return n"), 5000);
  ExpectFewWrong(counts);
}

TEST_P(EachPython, CallsThroughC_WhileTheyRun_NeverMix) {
  const Counts counts = ReadFamilies(
      GetParam(), FamiliesWith("if n == 0: return spin(n)\\n    return list(map(%s%d, [n - 1]))[0]", "return spin(n)"),
      5000);
  ExpectFewWrong(counts);
  ExpectMostRead(counts);
}

TEST_P(EachPython, NestedGenerators_WhileTheyRun_NeverMix) {
  const Counts counts = ReadFamilies(GetParam(),
                                     FamiliesWith("if n == 0: yield spin(n)\\n    else: yield from %s%d(n - 1)",
                                                  "yield spin(n)", "list(f0(n))\n            list(g0(n))"),
                                     5000);
  ExpectFewWrong(counts);
  ExpectMostRead(counts);
}

// Two greenlets of one thread, each with its own family, switch to each other in their innermost functions. The reader
// must return the stack of the running greenlet.
TEST_P(EachWithGreenlets, FamiliesThatSwitch_WhileTheyRun_NeverMix) {
  std::string source =
      FamiliesWith("if n == 0: return spin(n)\\n    return %s%d(n - 1) + 1", "return spin(n) + switch()", "switch()");
  const std::string work = "def work():\n";
  source.replace(
      source.find(work), work.size(),
      "sys.path.append('/usr/lib/python3/dist-packages')\n"
      "import greenlet\n"
      "current = threading.local()\n"
      "def switch():\n    current.turn ^= 1\n    current.both[current.turn].switch()\n    return 0\n"
      "def forever(function):\n    while True: function(30)\n" +
          work +
          "    current.turn = 1\n"
          "    current.both = [greenlet.greenlet(lambda: forever(f0)), greenlet.greenlet(lambda: forever(g0))]\n");
  const Counts counts = ReadFamilies(GetParam(), source, 5000);
  ExpectFewWrong(counts);
  ExpectMostRead(counts);
}

TEST_P(EachPyPy, Runtime_IsRefusedByName) {
  PythonProgram program(GetParam(), "import sys\nprint('ready', flush=True)\nsys.stdin.read()\n");
  ASSERT_TRUE(program.WaitUntilReady());
  const PythonRuntime python = FindPythonRuntime(program.pid(), ProcessMemory(program.pid()));
  EXPECT_TRUE(python.found);
  EXPECT_EQ(python.state, kPythonNotCPython);
  EXPECT_EQ(python.reason, "Python stacks: not sampled, PyPy is not supported");
}

std::string Hex(const std::string& bytes) {
  std::string hex;
  char digits[3];
  for (unsigned char byte : bytes) {
    snprintf(digits, sizeof(digits), "%02x", byte);
    hex += digits;
  }
  return hex;
}

// Undoes Python's ascii().
std::string Unescape(const std::string& text) {
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '\\') {
      out += text[at];
      continue;
    }
    const size_t digits = text[at + 1] == 'u' ? 4 : 2;
    const uint32_t c = static_cast<uint32_t>(std::stoul(text.substr(at + 2, digits), nullptr, 16));
    out += PythonTextToUtf8({reinterpret_cast<const char*>(&c), sizeof(c)}, 4, 8);
    at += digits + 1;
  }
  return out;
}

TEST_P(EachPython, BlockedThread_HasTheFramesThatPythonNames) {
  PythonProgram program(GetParam(), kBlocked);
  std::vector<std::string> expected;
  for (std::string line = program.ReadLine(); !line.empty() && line != "ready"; line = program.ReadLine()) {
    expected.push_back(Unescape(line));
  }
  ASSERT_GE(expected.size(), 7u);
  const ReadMemory read = ProcessMemory(program.pid());
  const PythonRuntime python = FindPythonRuntime(program.pid(), read);
  ASSERT_TRUE(python.found);
  PythonReader reader(python.layout, python.address, read);
  ASSERT_TRUE(reader.ListThreads());
  Names names;
  std::vector<PythonReader::Frame> frames;
  for (PythonReader::Thread& thread : reader.threads()) {
    if (!thread.main) continue;
    ASSERT_EQ(reader.ReadStack(&thread, &frames), PythonReader::Result::kRead);
  }
  names.Take(&reader);
  std::vector<std::string> read_lines;
  for (const auto& frame : frames) {
    const PythonReader::Code& code = names.codes[frame.code];
    read_lines.push_back(std::to_string(frame.instruction) + " " + std::to_string(code.first_line) + " " +
                         Hex(code.table) + " " + code.name + " " + code.file);
  }
  EXPECT_EQ(read_lines, expected);
}

TEST_P(EachPython, ForkedChild_IsReadByItself) {
  PythonProgram program(
      GetParam(),
      "import os, sys, threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"
      "def child():\n    os.write(1, b'child %d\\n' % os.getpid())\n    sys.stdin.read()\n"
      "pid = os.fork()\nif pid == 0: child()\nelse: os.waitpid(pid, 0)\n");
  const std::string line = program.ReadLine();
  ASSERT_TRUE(line.starts_with("child ")) << line;
  const pid_t child = std::stoi(line.substr(6));
  const ReadMemory read = ProcessMemory(child);
  const PythonRuntime python = FindPythonRuntime(child, read);
  ASSERT_EQ(python.state, kPythonSampled);
  PythonReader reader(python.layout, python.address, read);
  ThreadIds ids(child, read);
  Names names;
  std::vector<PythonReader::Frame> frames;
  ASSERT_TRUE(reader.ListThreads());
  ASSERT_EQ(reader.threads().size(), 1u);
  const auto tid = ids.Resolve(reader.threads()[0]);
  ASSERT_TRUE(tid.has_value());
  EXPECT_EQ(tid->inner, child);
  // The program may still be entering read(), which changes its frames a few times at most.
  PythonReader::Result result = PythonReader::Result::kTorn;
  while (result == PythonReader::Result::kTorn) {
    ASSERT_TRUE(reader.ListThreads());
    result = reader.ReadStack(&reader.threads()[0], &frames);
  }
  ASSERT_EQ(result, PythonReader::Result::kRead);
  names.Take(&reader);
  EXPECT_TRUE(std::any_of(frames.begin(), frames.end(), [&](const auto& frame) { return names[frame] == "child"; }));
  program.CloseInput();
}

TEST_P(EachPython, ProgramThatEnds_WhileItIsRead_IsAnError) {
  PythonProgram program(GetParam(), kFamilies);
  ASSERT_TRUE(program.WaitUntilReady());
  const ReadMemory read = ProcessMemory(program.pid());
  const PythonRuntime python = FindPythonRuntime(program.pid(), read);
  ASSERT_EQ(python.state, kPythonSampled);
  PythonReader reader(python.layout, python.address, read);
  ASSERT_TRUE(reader.ListThreads());
  program.CloseInput();
  std::vector<PythonReader::Frame> frames;
  while (reader.ListThreads() || reader.error() == 0 || reader.error() == EFAULT) {
    for (PythonReader::Thread& thread : reader.threads()) reader.ReadStack(&thread, &frames);
    if (program.HasEnded()) break;
  }
  EXPECT_FALSE(reader.ListThreads());
  EXPECT_EQ(reader.error(), ESRCH);
}

}  // namespace
}  // namespace tbprof
