// SPDX-License-Identifier: Apache-2.0
//
// Core files of live processes, core files made by hand, damaged core files, and core files of other users.
#include "launcher/sampling/core_stacks.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "launcher/sampling/core_search.h"
#include "launcher/sampling/python_text.h"
#include "tests/unit/launcher/core_maker.h"
#include "tests/unit/launcher/python_programs.h"
#include "tests/unit/writer/spool_maker.h"
#include "writer/symbols/symbolize.h"

namespace tbprof {
namespace {

using testing::HasSubstr;

auto Soon() { return std::chrono::steady_clock::now() + std::chrono::seconds(60); }

std::unique_ptr<CoreFile> OpenBytes(const std::string& bytes, std::string* reason) {
  const TemporaryPath path("core");
  path.Write(bytes);
  return CoreFile::Open(ScopedFd(open(path.path().c_str(), O_RDONLY | O_CLOEXEC)), Soon(), reason);
}

elf_gregset_t* Registers(uint64_t stack) {
  static elf_gregset_t registers;
  memset(&registers, 0, sizeof(registers));
#if defined(__x86_64__)
  user_regs_struct all = {};
  all.rsp = stack;
  all.rip = 0x401000;
  all.fs_base = 0x7000;
#else
  user_regs_struct all = {};
  all.sp = stack;
  all.pc = 0x401000;
#endif
  memcpy(&registers, &all, sizeof(all));
  return &registers;
}

CoreMaker Small() {
  CoreMaker core(100);
  core.Thread(101, SIGSEGV, *Registers(0x10008)).Thread(100, SIGSEGV, *Registers(0x20000));
  core.Fault(SIGSEGV, SEGV_MAPERR, 0x1234).Entry(0x401000);
  core.Memory(0x10000, "first words of a stack..", 4096).Memory(0x11000, "more");
  core.File(0x400000, 0x402000, 0, "/no/such/program");
  return core;
}

TEST(CoreFile, MadeByHand_HasItsThreadsAndMemory) {
  std::string reason;
  const auto core = OpenBytes(Small().Bytes(), &reason);
  ASSERT_NE(core, nullptr) << reason;
  EXPECT_EQ(core->pid(), 100);
  EXPECT_EQ(core->signal(), SIGSEGV);
  EXPECT_EQ(core->fault_address(), 0x1234u);
  ASSERT_EQ(core->threads().size(), 2u);
  EXPECT_EQ(core->threads()[0].tid, 101);
  EXPECT_EQ(core->threads()[0].stack_pointer(), 0x10008u);
  EXPECT_TRUE(core->complete());
  char text[6] = {};
  ASSERT_TRUE(core->Read(0x10006, text, 5));
  EXPECT_STREQ(text, "words");
  // Memory that is not in the file, and memory in no segment.
  EXPECT_FALSE(core->Read(0x10014, text, 5));
  EXPECT_FALSE(core->Read(0x30000, text, 1));
  ASSERT_EQ(core->mappings().size(), 1u);
  EXPECT_EQ(core->mappings()[0].path, "/no/such/program");
  const CoreStacks stacks = ReadCoreStacks(core.get());
  ASSERT_EQ(stacks.threads.size(), 2u);
  EXPECT_EQ(stacks.threads[0].tid, 101);
  EXPECT_FALSE(stacks.threads[0].complete);
}

TEST(CoreFile, SignalThatWasSent_HasNoAddress) {
  CoreMaker core(100);
  core.Thread(100, SIGSEGV, *Registers(0)).Fault(SIGSEGV, SI_USER, 0x1234);
  std::string reason;
  const auto file = OpenBytes(core.Bytes(), &reason);
  ASSERT_NE(file, nullptr);
  EXPECT_FALSE(file->fault_address().has_value());
}

// Every prefix is refused with a reason or read as far as it goes.
TEST(CoreFile, CutAnywhere_IsRefusedOrIncomplete) {
  const std::string whole = Small().Bytes();
  size_t read = 0;
  for (size_t size = 0; size < whole.size(); ++size) {
    std::string reason;
    const auto core = OpenBytes(whole.substr(0, size), &reason);
    if (core == nullptr) {
      EXPECT_FALSE(reason.empty()) << size;
      continue;
    }
    ++read;
    EXPECT_FALSE(core->complete()) << size;
    EXPECT_THAT(ReadCoreStacks(core.get()).shortfall, HasSubstr(" bytes (ulimit -c, or a full disk)"));
  }
  EXPECT_GT(read, 0u);
}

TEST(CoreFile, Garbage_IsRefused) {
  std::string reason;
  EXPECT_EQ(OpenBytes("", &reason), nullptr);
  EXPECT_EQ(OpenBytes(std::string(10000, 'x'), &reason), nullptr);
  EXPECT_EQ(reason, "it is no core file");
  std::string other = Small().Bytes();
  other[EI_CLASS] = ELFCLASS32;
  EXPECT_EQ(OpenBytes(other, &reason), nullptr);
  EXPECT_THAT(reason, HasSubstr("32-bit"));
}

TEST(CoreFile, TimeIsUp_NothingIsRead) {
  const TemporaryPath path("core");
  path.Write(Small().Bytes());
  std::string reason;
  const auto core = CoreFile::Open(ScopedFd(open(path.path().c_str(), O_RDONLY)), {}, &reason);
  EXPECT_EQ(core, nullptr);
}

// ---- stacks of real programs

// Undoes Python's ascii().
std::string Unescaped(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || (text[i + 1] != 'u' && text[i + 1] != 'x')) {
      out += text[i];
      continue;
    }
    const size_t digits = text[i + 1] == 'u' ? 4 : 2;
    const auto c = static_cast<uint32_t>(std::stoul(text.substr(i + 2, digits), nullptr, 16));
    out += PythonTextToUtf8({reinterpret_cast<const char*>(&c), sizeof(c)}, 4, 8);
    i += 1 + digits;
  }
  return out;
}

std::string HexOf(const std::string& bytes) {
  std::string hex;
  for (const char c : bytes) {
    hex += "0123456789abcdef"[static_cast<uint8_t>(c) >> 4];
    hex += "0123456789abcdef"[c & 15];
  }
  return hex;
}

// In the format in which `kBlocked` prints the frames of its main thread.
std::vector<std::string> LinesOf(const CoreStacks& stacks, const CoreStacks::Thread& thread) {
  std::vector<std::string> lines;
  for (const PythonReader::Frame& frame : thread.python) {
    const auto code = std::ranges::find(stacks.codes, frame.code, &PythonReader::Code::number);
    if (code == stacks.codes.end()) return lines;
    lines.push_back(std::to_string(frame.instruction) + " " + std::to_string(code->first_line) + " " +
                    HexOf(code->table) + " " + code->name + " " + code->file);
  }
  return lines;
}

std::vector<std::string> FunctionsOf(const CoreStacks& stacks, const CoreStacks::Thread& thread) {
  ModuleMap modules;
  for (const Module& module : stacks.modules) modules.Add(module);
  Symbolizer symbolizer;
  std::vector<std::string> names;
  for (size_t i = 0; i < thread.native.size(); ++i) {
    names.push_back(symbolizer.Find(modules, thread.native[i], /*is_return_address=*/i > 0).function);
  }
  return names;
}

class CoreOfPython : public testing::TestWithParam<std::string> {};

TEST_P(CoreOfPython, BlockedInNestedFunctions_HasExactlyThese) {
  PythonProgram program(GetParam(), kBlocked);
  std::vector<std::string> expected;
  for (std::string line = program.ReadLine(); line != "ready" && !line.empty(); line = program.ReadLine()) {
    expected.push_back(Unescaped(line));
  }
  ASSERT_GE(expected.size(), 6u);
  std::string reason;
  const auto core = OpenBytes(CoreOfProcess(program.pid(), SIGSEGV), &reason);
  ASSERT_NE(core, nullptr) << reason;
  const CoreStacks stacks = ReadCoreStacks(core.get());
  EXPECT_EQ(stacks.shortfall, "");
  ASSERT_EQ(stacks.threads.size(), 2u);
  const CoreStacks::Thread& main = stacks.threads[0];
  EXPECT_EQ(main.tid, program.pid());
  EXPECT_EQ(LinesOf(stacks, main), expected);
  // The other thread was started by Python.
  EXPECT_TRUE(stacks.threads[1].in_python);
  EXPECT_THAT(stacks.threads[1].name, HasSubstr("Thread-1"));
  // The stack reaches from the system call to the program's start.
  EXPECT_TRUE(main.complete);
  EXPECT_EQ(FunctionsOf(stacks, main).back(), "_start");
}

INSTANTIATE_TEST_SUITE_P(Installed, CoreOfPython, testing::ValuesIn(InstalledPythons()), [](const auto& param) {
  std::string name = param.param.starts_with("/usr") ? "system_" : "";
  for (const char c : param.param.substr(param.param.rfind('/') + 1)) name += isalnum(c) != 0 ? c : '_';
  return name;
});
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CoreOfPython);

// ---- the search for the file

class CoreSearchTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directory(directory_.path()); }
  std::string Path(const std::string& name) const { return directory_.path() + "/" + name; }
  void Write(const std::string& name, const std::string& bytes) const {
    FILE* const file = fopen(Path(name).c_str(), "w");
    fwrite(bytes.data(), 1, bytes.size(), file);
    fclose(file);
  }
  FoundCore Find(const std::string& pattern, int64_t begun_ns = 0) const {
    CoreSearch search;
    search.pattern = ParseCorePattern(pattern, false);
    search.directories = {directory_.path()};
    search.pid = 100;
    search.user = geteuid();
    search.begun_ns = begun_ns;
    return FindCore(search, Soon());
  }

  const TemporaryPath directory_{"core_search"};
};

TEST_F(CoreSearchTest, InTheWorkingDirectory_IsFoundAndLeftAlone) {
  const std::string bytes = Small().Bytes();
  Write("core.100", bytes);
  const FoundCore found = Find("core.%p");
  ASSERT_NE(found.core, nullptr) << found.reason;
  EXPECT_EQ(found.path, Path("core.100"));
  EXPECT_EQ(std::filesystem::file_size(found.path), bytes.size());
}

TEST_F(CoreSearchTest, NameOnlyTheKernelKnew_IsFoundByItsContent) {
  CoreMaker other(200);
  other.Thread(200, SIGSEGV, *Registers(0));
  Write("core.python3.1700000000", Small().Bytes());
  Write("core.python3.1700000001", other.Bytes());
  Write("core.python3.1700000002", "garbage");
  const FoundCore found = Find("core.%e.%t");
  ASSERT_NE(found.core, nullptr) << found.reason;
  EXPECT_EQ(found.path, Path("core.python3.1700000000"));
}

TEST_F(CoreSearchTest, OfAnotherProcess_IsNotUsed) {
  CoreMaker other(200);
  other.Thread(200, SIGSEGV, *Registers(0));
  Write("core", other.Bytes());
  const FoundCore found = Find("core");
  EXPECT_EQ(found.core, nullptr);
  EXPECT_THAT(found.reason, HasSubstr("not used: it is of another process"));
}

TEST_F(CoreSearchTest, OlderThanTheProcess_IsNotUsed) {
  Write("core", Small().Bytes());
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  const FoundCore found = Find("core", (int64_t{now.tv_sec} + 60) * 1'000'000'000);
  EXPECT_EQ(found.core, nullptr);
  EXPECT_THAT(found.reason, HasSubstr("it is older than the process"));
}

TEST_F(CoreSearchTest, FifoLinkAndGarbage_AreNotUsed) {
  ASSERT_EQ(mkfifo(Path("fifo").c_str(), 0600), 0);
  EXPECT_THAT(Find("fifo").reason, HasSubstr("it is no regular file"));
  Write("real", Small().Bytes());
  ASSERT_EQ(symlink("real", Path("link").c_str()), 0);
  EXPECT_EQ(Find("link").core, nullptr);
  Write("garbage", "garbage");
  EXPECT_THAT(Find("garbage").reason, HasSubstr("it is no core file"));
  EXPECT_THAT(Find("missing").reason, HasSubstr("No such file"));
  EXPECT_THAT(Find("missing.%e").reason, HasSubstr("core file not found"));
  EXPECT_THAT(Find(directory_.path() + "/%e/core").reason, HasSubstr("a name that only the kernel knew"));
}

TEST_F(CoreSearchTest, OfAnotherUser_IsNotUsed) {
  if (geteuid() != 0) return;  // only root can give a file away
  Write("core", Small().Bytes());
  ASSERT_EQ(chown(Path("core").c_str(), 12345, 12345), 0);
  EXPECT_THAT(Find("core").reason, HasSubstr("it belongs to another user"));
}

}  // namespace
}  // namespace tbprof
