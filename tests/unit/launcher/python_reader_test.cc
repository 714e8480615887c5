// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/python_reader.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "launcher/sampling/python_runtime.h"
#include "launcher/sampling/thread_ids.h"
#include "tests/unit/launcher/python_programs.h"

namespace tbprof {
namespace {

class EachPython : public testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Installed, EachPython, testing::ValuesIn(InstalledPythons()), [](const auto& python) {
  std::string name = python.param;
  for (char& c : name) {
    if (!isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
});
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(EachPython);

struct Names {
  std::map<uint32_t, PythonReader::Code> codes;
  void Take(PythonReader* reader) {
    for (auto& code : reader->TakeNewCodes()) codes[code.number] = std::move(code);
  }
  const std::string& operator[](const PythonReader::Frame& frame) { return codes[frame.code].name; }
};

// Whether the frames of the two families are one family's, in order.
bool Possible(const std::vector<PythonReader::Frame>& frames, Names* names) {
  char family = 0;
  int next = 0;
  bool begun = false;
  for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
    const std::string& name = (*names)[*frame];
    if (name.size() < 2 || (name[0] != 'f' && name[0] != 'g') || !isdigit(static_cast<unsigned char>(name[1]))) {
      if (begun && name != "spin") return false;
      continue;
    }
    if (!begun) family = name[0];
    begun = true;
    if (name[0] != family || std::stoi(name.substr(1)) != next++) return false;
  }
  return true;
}

TEST_P(EachPython, FamiliesOfFunctions_WhileTheyRun_NeverMix) {
  PythonProgram program(GetParam(), kFamilies);
  std::set<int> workers;
  int main_tid = 0;
  for (std::string line = program.ReadLine(); !line.empty() && line != "ready" ; line = program.ReadLine()) {
    if (line.starts_with("main ")) main_tid = std::stoi(line.substr(5));
    if (line.starts_with("worker ")) workers.insert(std::stoi(line.substr(7)));
  }
  const ReadMemory read = ProcessMemory(program.pid());
  const PythonRuntime python = FindPythonRuntime(program.pid(), read);
  ASSERT_TRUE(python.found);
  ASSERT_EQ(python.state, kPythonSampled) << python.reason;
  PythonReader reader(python.layout, python.address, read);
  ThreadIds ids(program.pid(), read);
  Names names;
  std::vector<PythonReader::Frame> frames;
  uint64_t samples = 0, torn = 0, unreadable = 0, impossible = 0, lists = 0, deepest = 0, rounds = 0;
  std::set<int> seen;
  for (; samples + torn + unreadable < 20000 && rounds < 100000; ++rounds) {
    if (!reader.ListThreads()) {
      ++lists;
      continue;
    }
    std::this_thread::yield();
    for (PythonReader::Thread& thread : reader.threads()) {
      if (thread.main) {
        if (rounds == 0) {
          EXPECT_EQ(ids.Resolve(thread)->inner, main_tid);
        }
        continue;
      }
      if (rounds % 500 == 0) {
        if (const auto tid = ids.Resolve(thread)) seen.insert(tid->inner);
      }
      switch (reader.ReadStack(&thread, &frames)) {
        case PythonReader::Result::kRead: {
          ++samples;
          names.Take(&reader);
          deepest = std::max<uint64_t>(deepest, frames.size());
          if (!Possible(frames, &names)) ++impossible;
          break;
        }
        case PythonReader::Result::kTorn: ++torn; break;
        case PythonReader::Result::kUnreadable: ++unreadable; break;
      }
    }
  }
  printf("%s: %lu samples, %lu torn, %lu unreadable, %lu impossible, %lu lists not read\n", GetParam().c_str(), samples, torn,
         unreadable, impossible, lists);
  EXPECT_GE(deepest, 24u);
  EXPECT_LE(impossible * 1000, samples);
  EXPECT_LE((torn + unreadable) * 100, samples);
  EXPECT_EQ(reader.self_check(), PythonReader::SelfCheck::kPassed);
  EXPECT_EQ(seen.size(), 2u);
  for (int worker : workers) EXPECT_TRUE(seen.contains(worker)) << worker;
}

TEST_P(EachPython, ProgramThatEnds_WhileItIsRead_IsAnError) {
  PythonProgram program(GetParam(), kFamilies);
  while (program.ReadLine() != "ready") {
  }
  const ReadMemory read = ProcessMemory(program.pid());
  const PythonRuntime python = FindPythonRuntime(program.pid(), read);
  ASSERT_EQ(python.state, kPythonSampled);
  PythonReader reader(python.layout, python.address, read);
  ASSERT_TRUE(reader.ListThreads());
  program.CloseInput();
  std::vector<PythonReader::Frame> frames;
  while (reader.ListThreads() || reader.error() == 0 || reader.error() == EFAULT) {
    for (PythonReader::Thread& thread : reader.threads()) reader.ReadStack(&thread, &frames);
    if (waitpid(program.pid(), nullptr, WNOHANG) > 0) break;
  }
  EXPECT_FALSE(reader.ListThreads());
  EXPECT_EQ(reader.error(), ESRCH);
}

}  // namespace
}  // namespace tbprof
