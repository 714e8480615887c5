// SPDX-License-Identifier: Apache-2.0
#include "writer/symbols/unwind.h"

#include <alloca.h>
#include <elf.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <csetjmp>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/writer/own_modules.h"
#include "writer/symbols/elf_file.h"
#include "writer/symbols/frame_entry.h"
#include "writer/symbols/symbolize.h"

namespace tbprof {
namespace {

constexpr size_t kStackBytes = 8192;
constexpr int kLimit = 128;

// A snapshot like a hook's in a target: registers, and the bytes above the stack pointer.
struct Snapshot {
  uint64_t registers[StackSnapshot::kMaxRegisters] = {};
  int register_count = 0;
  uint64_t stack_pointer = 0;
  size_t size = 0;
  alignas(8) uint8_t stack[kStackBytes];

  StackSnapshot View() const {
    StackSnapshot view;
    std::copy(std::begin(registers), std::end(registers), view.registers);
    view.register_count = register_count;
    view.stack_address = stack_pointer;
    view.stack = stack;
    view.stack_size = size;
    return view;
  }
};

Snapshot g_snapshot;

uint64_t StackEnd() {
  pthread_attr_t attributes;
  void* base = nullptr;
  size_t size = 0;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return 0;
  pthread_attr_getstack(&attributes, &base, &size);
  pthread_attr_destroy(&attributes);
  return reinterpret_cast<uint64_t>(base) + size;
}

__attribute__((noinline, no_sanitize("address", "undefined"))) void TakeSnapshot() {
  const uint64_t stack_end = StackEnd();
  uint64_t* registers = g_snapshot.registers;
#if defined(__x86_64__)
  constexpr int kStackPointer = 6;
  g_snapshot.register_count = 8;
  asm volatile(
      "movq %%rbx, 0(%0)\n movq %%rbp, 8(%0)\n movq %%r12, 16(%0)\n movq %%r13, 24(%0)\n"
      "movq %%r14, 32(%0)\n movq %%r15, 40(%0)\n movq %%rsp, 48(%0)\n"
      "leaq 0(%%rip), %%rcx\n movq %%rcx, 56(%0)\n"
      :
      : "r"(registers)
      : "rcx", "memory");
#else
  constexpr int kStackPointer = 12;
  g_snapshot.register_count = 14;
  asm volatile(
      "stp x19, x20, [%0]\n stp x21, x22, [%0, 16]\n stp x23, x24, [%0, 32]\n"
      "stp x25, x26, [%0, 48]\n stp x27, x28, [%0, 64]\n stp x29, x30, [%0, 80]\n"
      "mov x9, sp\n adr x10, .\n stp x9, x10, [%0, 96]\n"
      :
      : "r"(registers)
      : "x9", "x10", "memory");
#endif
  g_snapshot.stack_pointer = registers[kStackPointer];
  g_snapshot.size = std::min<uint64_t>(kStackBytes, stack_end - g_snapshot.stack_pointer);
  const auto* from = reinterpret_cast<const volatile uint8_t*>(g_snapshot.stack_pointer);
  for (size_t i = 0; i < g_snapshot.size; ++i) g_snapshot.stack[i] = from[i];
  asm volatile("" ::: "memory");
}

std::vector<std::string> Names(const ModuleMap& modules, const std::vector<uint64_t>& pcs) {
  Symbolizer symbolizer;
  std::vector<std::string> names;
  for (size_t i = 0; i < pcs.size(); ++i) {
    names.push_back(symbolizer.Find(modules, pcs[i], i > 0).function);
  }
  return names;
}

std::vector<uint64_t> UnwindOwn() {
  Unwinder unwinder;
  return unwinder.Unwind(OwnModules(), g_snapshot.View(), kLimit);
}

// Empty if `names` has all of `wanted` in this order; else the first missing name and all names.
std::string Missing(const std::vector<std::string>& names, const std::vector<std::string>& wanted) {
  size_t at = 0;
  for (const std::string& want : wanted) {
    while (at < names.size() && names[at].find(want) == std::string::npos) ++at;
    if (at++ >= names.size()) {
      std::string all = want + " missing in:";
      for (const std::string& name : names) all += "\n  " + name;
      return all;
    }
  }
  return {};
}

#define TBPROF_FRAME __attribute__((noinline, noipa, optimize("O2", "omit-frame-pointer")))
#define TBPROF_KEEP_CALL asm volatile("" ::: "memory")

TBPROF_FRAME void Innermost() {
  TakeSnapshot();
  TBPROF_KEEP_CALL;
}

TBPROF_FRAME static int WithoutFramePointer(int a, int b) {
  volatile int kept[20] = {a, b};
  Innermost();
  TBPROF_KEEP_CALL;
  return kept[0] + kept[1];
}

TBPROF_FRAME int WithAlloca(size_t size) {
  auto* bytes = static_cast<volatile char*>(alloca(size));
  bytes[0] = 1;
  const int result = WithoutFramePointer(bytes[0], 2);
  TBPROF_KEEP_CALL;
  return result + bytes[0];
}

// A realigned stack of unknown size: the frame address is in memory, found by an expression.
TBPROF_FRAME int Realigned(size_t size) {
  alignas(64) volatile char aligned[128] = {};
  auto* bytes = static_cast<volatile char*>(alloca(size));
  bytes[0] = aligned[3];
  const int result = WithAlloca(size);
  TBPROF_KEEP_CALL;
  return result + aligned[2] + bytes[0];
}

struct Shape {
  virtual ~Shape() = default;
  virtual int Area(const std::string& name) = 0;
};
struct Square : Shape {
  TBPROF_FRAME int Area(const std::string& name) override {
    const int result = Realigned(name.size() + 100);
    TBPROF_KEEP_CALL;
    return result;
  }
};

TBPROF_FRAME int Recurse(int depth, Shape* shape) {
  const int result = depth == 0 ? shape->Area("square") : Recurse(depth - 1, shape);
  TBPROF_KEEP_CALL;
  return result + 1;
}

TEST(UnwindTest, EachKindOfFrame_IsNamed) {
  Square square;
  Recurse(5, &square);
  const auto pcs = UnwindOwn();
  const auto names = Names(OwnModules(), pcs);
  EXPECT_EQ(Missing(names,
                    {"TakeSnapshot", "Innermost", "WithoutFramePointer", "WithAlloca", "Realigned", "Square::Area",
                     "Recurse", "Recurse", "Recurse", "Recurse", "Recurse", "Recurse",
                     "EachKindOfFrame_IsNamed_Test::TestBody", "testing::Test::Run", "main", "__libc_start", "_start"}),
            "");
  // No other frames lie between them.
  ASSERT_GT(names.size(), 13U);
  EXPECT_NE(names[12].find("TestBody"), std::string::npos) << names[12];
}

int CompareInts(const void* a, const void* b) {
  Innermost();
  TBPROF_KEEP_CALL;
  return *static_cast<const int*>(a) - *static_cast<const int*>(b);
}

TEST(UnwindTest, FrameOfASharedLibrary_IsPassed) {
  int numbers[] = {2, 1};
  qsort(numbers, 2, sizeof(int), CompareInts);
  const auto pcs = UnwindOwn();
  EXPECT_EQ(Missing(Names(OwnModules(), pcs), {"Innermost", "CompareInts", "FrameOfASharedLibrary_IsPassed", "main"}),
            "");
  const auto pc_of_libc = reinterpret_cast<uint64_t>(&qsort);
  const ModuleMap modules = OwnModules();
  EXPECT_TRUE(std::any_of(pcs.begin(), pcs.end(), [&](uint64_t pc) {
    const Module* module = modules.Find(pc);
    return module != nullptr && module->path.find("libc.so") != std::string::npos;
  })) << pc_of_libc;
}

void OnSignal(int) {
  Innermost();
  TBPROF_KEEP_CALL;
}

__attribute__((noinline)) void RaisesSignal() {
  raise(SIGUSR2);
  TBPROF_KEEP_CALL;
}

TEST(UnwindTest, SignalHandler_IsPassed) {
  signal(SIGUSR2, OnSignal);
  RaisesSignal();
  signal(SIGUSR2, SIG_DFL);
  EXPECT_EQ(Missing(Names(OwnModules(), UnwindOwn()),
                    {"Innermost", "OnSignal", "RaisesSignal", "SignalHandler_IsPassed", "main"}),
            "");
}

// The interrupted instruction is the first of a function: one byte earlier lies another one.
#if defined(__x86_64__)
extern "C" void tbprof_test_before();
extern "C" void tbprof_test_traps();
asm(".text\n.type tbprof_test_before, @function\ntbprof_test_before:\n"
    " .cfi_startproc\n ret\n .cfi_endproc\n.size tbprof_test_before, .-tbprof_test_before\n"
    ".type tbprof_test_traps, @function\ntbprof_test_traps:\n"
    " .cfi_startproc\n int3\n ret\n .cfi_endproc\n.size tbprof_test_traps, .-tbprof_test_traps\n"
    ".type tbprof_test_faults, @function\n.globl tbprof_test_faults\ntbprof_test_faults:\n"
    " .cfi_startproc\n movq %rax, (%rdi)\n ret\n .cfi_endproc\n"
    ".size tbprof_test_faults, .-tbprof_test_faults\n");
extern "C" void tbprof_test_faults(void*);

sigjmp_buf g_after_fault;
void OnFault(int) {
  Innermost();
  siglongjmp(g_after_fault, 1);
}

TEST(UnwindTest, InterruptedAddress_BelongsToItsOwnFunction) {
  struct sigaction action = {};
  struct sigaction before = {};
  action.sa_handler = OnFault;
  sigaction(SIGSEGV, &action, &before);
  if (sigsetjmp(g_after_fault, 1) == 0) tbprof_test_faults(nullptr);
  sigaction(SIGSEGV, &before, nullptr);
  EXPECT_EQ(Missing(Names(OwnModules(), UnwindOwn()),
                    {"OnFault", "tbprof_test_faults", "InterruptedAddress_BelongsToItsOwnFunction", "main"}),
            "");
}
#endif

[[noreturn]] TBPROF_FRAME void NeverReturns() {
  Innermost();
  throw 1;
}

// The call is its last instruction; the return address belongs to whatever follows.
TBPROF_FRAME void EndsWithNoreturnCall() { NeverReturns(); }

TEST(UnwindTest, ReturnAddressBehindAFunction_BelongsToTheCall) {
  EXPECT_THROW(EndsWithNoreturnCall(), int);
  EXPECT_EQ(Missing(Names(OwnModules(), UnwindOwn()), {"Innermost", "NeverReturns", "EndsWithNoreturnCall",
                                                       "ReturnAddressBehindAFunction_BelongsToTheCall", "main"}),
            "");
}

TEST(UnwindTest, StackOfAThread_EndsWhereItBegins) {
  std::thread([] {
    Innermost();
    TBPROF_KEEP_CALL;
  }).join();
  const ModuleMap modules = OwnModules();
  const auto pcs = UnwindOwn();
  const auto names = Names(modules, pcs);
  EXPECT_EQ(Missing(names, {"Innermost", "StackOfAThread_EndsWhereItBegins"}), "");
  const Module* last = modules.Find(pcs.back() - 1);
  ASSERT_NE(last, nullptr);
  EXPECT_NE(last->path.find("libc.so"), std::string::npos) << last->path;
}

TEST(UnwindTest, ShorterStack_GivesAPrefix) {
  Square square;
  Recurse(3, &square);
  const ModuleMap modules = OwnModules();
  Unwinder unwinder;
  StackSnapshot view = g_snapshot.View();
  const auto all = unwinder.Unwind(modules, view, kLimit);
  for (size_t size = 0; size < kStackBytes; ++size) {
    view.stack_size = std::min(size, g_snapshot.size);
    const auto pcs = unwinder.Unwind(modules, view, kLimit);
    ASSERT_GE(pcs.size(), 1U);
    ASSERT_LE(pcs.size(), all.size());
    ASSERT_TRUE(std::equal(pcs.begin(), pcs.end(), all.begin())) << size;
  }
}

TEST(UnwindTest, Complete_IsWhetherTheOutermostWasReached) {
  Square square;
  Recurse(3, &square);
  const ModuleMap modules = OwnModules();
  Unwinder unwinder;
  StackSnapshot view = g_snapshot.View();
  bool complete = false;
  const auto all = unwinder.Unwind(modules, view, kLimit, &complete);
  EXPECT_TRUE(complete);
  EXPECT_EQ(unwinder.Unwind(modules, view, static_cast<int>(all.size()) - 1, &complete).size(), all.size() - 1);
  EXPECT_FALSE(complete) << "the limit";
  view.stack_size = 256;
  EXPECT_LT(unwinder.Unwind(modules, view, kLimit, &complete).size(), all.size());
  EXPECT_FALSE(complete) << "the stack ends";
  unwinder.Unwind(ModuleMap(), g_snapshot.View(), kLimit, &complete);
  EXPECT_FALSE(complete) << "no tables";
  view.stack = nullptr;
  complete = true;
  unwinder.Unwind(modules, view, kLimit, &complete);
  EXPECT_FALSE(complete);
}

TEST(UnwindTest, Limit_IsKept) {
  Square square;
  Recurse(3, &square);
  const ModuleMap modules = OwnModules();
  Unwinder unwinder;
  StackSnapshot view = g_snapshot.View();
  for (int limit : {INT_MIN, -1, 0, 1}) EXPECT_EQ(unwinder.Unwind(modules, view, limit).size(), 1U);
  EXPECT_EQ(unwinder.Unwind(modules, view, 7).size(), 7U);
  view.register_count = 3;
  EXPECT_EQ(unwinder.Unwind(modules, view, 7).size(), 1U);
  view.register_count = INT_MAX;
  EXPECT_EQ(unwinder.Unwind(modules, view, 7).size(), 7U);
  view.stack = nullptr;
  EXPECT_EQ(unwinder.Unwind(modules, view, 7).size(), 1U);
  EXPECT_GE(unwinder.Unwind(ModuleMap(), g_snapshot.View(), 7).size(), 1U);
}

TEST(UnwindTest, RandomSnapshots_DoNotCrash) {
  Square square;
  Recurse(3, &square);
  const ModuleMap modules = OwnModules();
  Unwinder unwinder;
  std::mt19937_64 random(1);
  const StackSnapshot good = g_snapshot.View();
  std::vector<uint8_t> stack(g_snapshot.stack, g_snapshot.stack + g_snapshot.size);
  std::vector<uint64_t> words(stack.size() / 8);
  for (int i = 0; i < 100000; ++i) {
    StackSnapshot view = good;
    if (i % 16 == 0) std::copy_n(g_snapshot.stack, stack.size(), stack.begin());
    for (int change = 0; change < 4; ++change) {
      uint64_t value = random();
      const Module& module = modules.modules()[random() % modules.modules().size()];
      if (random() % 2 == 0) value = module.start + value % (module.end - module.start);
      if (random() % 4 == 0) value = good.stack_address + value % (2 * kStackBytes);
      memcpy(&stack[random() % (stack.size() - 8)], &value, sizeof(value));
      if (change == 0) view.registers[random() % 8] = value;
    }
    if (random() % 8 == 0) view.stack_address = random() % 3 == 0 ? UINT64_MAX - 100 : random();
    view.stack = stack.data();
    view.stack_size = random() % 2 == 0 ? stack.size() : random() % stack.size();
    const auto pcs = unwinder.Unwind(modules, view, kLimit);
    ASSERT_GE(pcs.size(), 1U);
    ASSERT_LE(pcs.size(), static_cast<size_t>(kLimit));
  }
}

class FileTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/tbprof_unwind_test_XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    directory_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string Copy(const std::string& from) {
    const std::string to = directory_ + "/copy";
    std::filesystem::copy_file(from, to, std::filesystem::copy_options::overwrite_existing);
    return to;
  }

  std::string directory_;
};

using UnwindFileTest = FileTest;

void Patch(const std::string& path, uint64_t offset, const void* bytes, size_t size) {
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_EQ(pwrite(fd, bytes, size, static_cast<off_t>(offset)), static_cast<ssize_t>(size));
  close(fd);
}

TEST_F(UnwindFileTest, FileOfAnotherBuild_IsNotUsed) {
  Square square;
  Recurse(3, &square);
  const uint64_t pc = g_snapshot.View().registers[g_snapshot.register_count - 1];
  const std::string path = OwnModules().Find(pc)->path;
  const std::string build_id = OwnModules().Find(pc)->build_id;
  ASSERT_FALSE(build_id.empty()) << "the linker gives build ids by default";
  Unwinder unwinder;
  const size_t all = unwinder.Unwind(OwnModules(), g_snapshot.View(), kLimit).size();
  std::string other = build_id;
  other[0] = static_cast<char>(other[0] ^ 1);
  EXPECT_LT(unwinder.Unwind(WithFile(pc, path, other), g_snapshot.View(), kLimit).size(), all);
  EXPECT_EQ(unwinder.Unwind(WithFile(pc, path), g_snapshot.View(), kLimit).size(), all);
  EXPECT_EQ(unwinder.Unwind(WithFile(pc, path + " (deleted)", build_id), g_snapshot.View(), kLimit).size(), all);
  for (const char* gone : {"", "[vdso]", "/no/such/file", "relative", "/dev/zero", "/tmp"}) {
    EXPECT_LT(unwinder.Unwind(WithFile(pc, gone), g_snapshot.View(), kLimit).size(), all) << gone;
  }
}

TEST_F(UnwindFileTest, Fifo_DoesNotBlock) {
  Innermost();
  const uint64_t pc = g_snapshot.View().registers[g_snapshot.register_count - 1];
  const std::string path = directory_ + "/fifo";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  Unwinder unwinder;
  EXPECT_GE(unwinder.Unwind(WithFile(pc, path), g_snapshot.View(), kLimit).size(), 1U);
}

#define TBPROF_FRAME_POINTER __attribute__((noinline, noipa, optimize("O1", "no-omit-frame-pointer")))

TBPROF_FRAME_POINTER void PointerInner() {
  TakeSnapshot();
  TBPROF_KEEP_CALL;
}
TBPROF_FRAME_POINTER void PointerMiddle() {
  PointerInner();
  TBPROF_KEEP_CALL;
}
TBPROF_FRAME_POINTER void PointerOuter() {
  PointerMiddle();
  TBPROF_KEEP_CALL;
}

TEST_F(UnwindFileTest, NoTables_FramePointersAreFollowed) {
  PointerOuter();
  // Make TakeSnapshot's caller the innermost frame: TakeSnapshot itself may have no frame pointer.
  Unwinder unwinder;
  const auto all = unwinder.Unwind(OwnModules(), g_snapshot.View(), kLimit);
  StackSnapshot view = g_snapshot.View();
  const std::string path = OwnModules().Find(all[0])->path;
  const std::string copy = Copy(path);
  Elf64_Ehdr header;
  auto file = ElfFile::Open(copy);
  ASSERT_TRUE(file->Read(0, &header, sizeof(header)));
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr program;
    ASSERT_TRUE(file->Read(header.e_phoff + i * sizeof(program), &program, sizeof(program)));
    const uint32_t none = PT_NULL;
    if (program.p_type == PT_GNU_EH_FRAME) {
      Patch(copy, header.e_phoff + i * sizeof(program), &none, sizeof(none));
    }
  }
  const auto pcs = unwinder.Unwind(WithFile(all[0], copy), view, kLimit);
  const auto names = Names(OwnModules(), pcs);
  EXPECT_EQ(Missing(names, {"TakeSnapshot", "PointerMiddle", "PointerOuter"}), "");
}

TEST_F(UnwindFileTest, LoopOfFramePointers_Ends) {
  StackSnapshot view;
  std::vector<uint64_t> stack(64, 0x10000);
  view.register_count = 8;
  view.stack_address = 0x10000;
  view.stack = reinterpret_cast<const uint8_t*>(stack.data());
  view.stack_size = stack.size() * 8;
  std::fill_n(view.registers, 8, 0x10000);
  ModuleMap modules;
  Module module;
  module.start = 0x1000;
  module.end = 0x20000;
  modules.Add(module);
  Unwinder unwinder;
  EXPECT_LE(unwinder.Unwind(modules, view, 1000).size(), 3U);
}

// Flips bits where the unwinder reads: headers, search table, frame entries.
TEST_F(UnwindFileTest, BrokenFiles_DoNotCrash) {
  int numbers[] = {2, 1};
  qsort(numbers, 2, sizeof(int), CompareInts);
  const ModuleMap own = OwnModules();
  const auto pcs = UnwindOwn();
  const auto in_libc = std::find_if(pcs.begin(), pcs.end(), [&](uint64_t pc) {
    const Module* module = own.Find(pc);
    return module != nullptr && module->path.find("libc.so") != std::string::npos;
  });
  ASSERT_NE(in_libc, pcs.end());
  const Module libc = *own.Find(*in_libc);
  const std::string copy = Copy(libc.path);
  std::ifstream stream(copy, std::ios::binary);
  const std::string good((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  auto file = ElfFile::Open(copy);
  const uint64_t table = file->FindSection(".eh_frame_hdr")->offset;
  const ElfFile::Section frames = *file->FindSection(".eh_frame");
  const ElfFile::Section text = *file->FindSection(".text");
  file.reset();
  const ModuleMap modules = WithFile(*in_libc, copy);
  std::mt19937_64 random(2);
  for (int i = 0; i < 1500; ++i) {
    std::string bad = good.substr(0, i % 50 == 0 ? random() % good.size() : good.size());
    const int flips = 1 << (random() % 12);
    for (int flip = 0; flip < flips; ++flip) {
      uint64_t at = 0;
      switch (i % 4) {
        case 0:
          at = random() % 1024;
          break;
        case 1:
          at = table + random() % (flips > 64 ? frames.offset - table : 16);
          break;
        default:
          at = frames.offset + random() % frames.size;
          break;
      }
      if (i % 4 == 3) at = frames.offset + random() % 4096;  // the common entry and the first frame entries
      if (at < bad.size()) bad[at] = static_cast<char>(bad[at] ^ (1 << random() % 8));
    }
    const int fd = open(copy.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC);
    ASSERT_EQ(write(fd, bad.data(), bad.size()), static_cast<ssize_t>(bad.size()));
    close(fd);
    Unwinder unwinder;
    unwinder.Unwind(modules, g_snapshot.View(), kLimit);
    StackSnapshot view = g_snapshot.View();
    for (int address = 0; address < 50; ++address) {
      const uint64_t within = i % 4 == 3 ? random() % 65536 : random() % text.size;
      view.registers[g_snapshot.register_count - 1] = libc.load_bias + text.address + within;
      ASSERT_LE(unwinder.Unwind(modules, view, kLimit).size(), static_cast<size_t>(kLimit));
    }
  }
}

std::string LibcPath() {
  const ModuleMap modules = OwnModules();
  for (const Module& module : modules.modules()) {
    if (module.path.find("/libc.so") != std::string::npos) return module.path;
  }
  return {};
}

TEST(FrameEntryTest, EntriesOfLibc_AreAllAccepted) {
  auto file = ElfFile::Open(LibcPath());
  ASSERT_NE(file, nullptr);
  FrameTable table;
  ASSERT_TRUE(FindFrameTable(*file, &table));
  EXPECT_GT(table.count, 1000U);
  int signal_frames = 0;
  for (uint64_t i = 0; i < table.count; ++i) {
    int32_t pair[2];
    ASSERT_TRUE(file->ReadAddress(table.entries + i * 8, pair, sizeof(pair)));
    FrameEntry entry;
    ASSERT_TRUE(FindFrameEntry(*file, table, table.header + static_cast<uint64_t>(int64_t{pair[0]}), &entry)) << i;
    EXPECT_EQ(entry.table_entry, table.entries + i * 8);
    signal_frames += entry.signal_frame ? 1 : 0;
  }
#if defined(__x86_64__)
  EXPECT_EQ(signal_frames, 1);  // __restore_rt
#endif
}

// Each of these is an access out of bounds, a division by zero or an endless loop in libunwind 1.6.
TEST_F(UnwindFileTest, EntriesThatCrashLibunwind_AreRefused) {
  const std::string copy = Copy(LibcPath());
  FrameTable table;
  uint64_t pc = 0, entry = 0, entry_size = 0, common = 0, offset_shift = 0;
  {
    auto file = ElfFile::Open(copy);
    ASSERT_TRUE(FindFrameTable(*file, &table));
    uint32_t head[2] = {};
    for (uint64_t i = table.count / 2; entry_size < 32; ++i) {
      int32_t pair[2];
      ASSERT_TRUE(file->ReadAddress(table.entries + i * 8, pair, sizeof(pair)));
      pc = table.header + static_cast<uint64_t>(int64_t{pair[0]});
      entry = table.header + static_cast<uint64_t>(int64_t{pair[1]});
      ASSERT_TRUE(file->ReadAddress(entry, head, sizeof(head)));
      entry_size = head[0] + sizeof(head[0]);
    }
    common = entry + 4 - head[1];
    char augmentation[3];
    ASSERT_TRUE(file->ReadAddress(common + 9, augmentation, sizeof(augmentation)));
    ASSERT_EQ(memcmp(augmentation, "zR", 3), 0);
    const ElfFile::Section* section = file->FindSection(".eh_frame");
    offset_shift = section->address - section->offset;
  }
  auto accepted = [&](uint64_t address, const std::string& bytes) {
    auto before = ElfFile::Open(copy);
    std::string old(bytes.size(), '\0');
    EXPECT_TRUE(before->ReadAddress(address, old.data(), old.size()));
    Patch(copy, address - offset_shift, bytes.data(), bytes.size());
    auto file = ElfFile::Open(copy);
    FrameEntry found;
    const bool sound = FindFrameEntry(*file, table, pc, &found);
    Patch(copy, address - offset_shift, old.data(), old.size());
    return sound;
  };
  const uint64_t column = common + 14;
  // The whole program of the entry: these instructions, then DW_CFA_nop.
  auto accepted_program = [&](std::string instructions) {
    constexpr uint64_t kProgram = 17;
    instructions.resize(entry_size - kProgram, '\0');
    return accepted(entry + kProgram, instructions);
  };
  EXPECT_TRUE(accepted(entry, ""));
  EXPECT_FALSE(accepted(column, "\xc8"));
  EXPECT_TRUE(accepted_program(std::string("\x09\x06\x03", 3)));           // DW_CFA_register
  EXPECT_FALSE(accepted_program(std::string("\x09\x06\x63", 3)));          // out of range
  EXPECT_FALSE(accepted_program(std::string("\x0f\x02\x30\x1d", 4)));      // DW_OP_mod
  EXPECT_FALSE(accepted_program(std::string("\x0f\x03\x2f\xfd\xff", 5)));  // DW_OP_skip
  EXPECT_FALSE(accepted(entry, std::string("\xff\xff\xff\x7f", 4)));
  EXPECT_FALSE(accepted(entry + 4, std::string(4, '\0')));
}

// Rules cached for one process are valid for another process that maps the same files at other addresses.
TEST(UnwindTest, SameFilesAtAnotherAddress_RulesAreRight) {
  Square square;
  Recurse(3, &square);
  Unwinder unwinder;
  const auto here = unwinder.Unwind(OwnModules(), g_snapshot.View(), kLimit);
  ModuleMap moved;
  constexpr uint64_t kShift = uint64_t{1} << 32;
  const ModuleMap own = OwnModules();
  for (Module module : own.modules()) {
    module.start += kShift;
    module.end += kShift;
    module.load_bias += kShift;
    moved.Add(module);
  }
  Snapshot there = g_snapshot;
  there.registers[there.register_count - 1] += kShift;
  for (size_t i = 0; i + 8 <= there.size; i += 8) {
    uint64_t word;
    memcpy(&word, &there.stack[i], sizeof(word));
    if (own.Find(word) != nullptr) word += kShift;
    memcpy(&there.stack[i], &word, sizeof(word));
  }
  auto pcs = unwinder.Unwind(moved, there.View(), kLimit);
  for (uint64_t& pc : pcs) pc -= kShift;
  EXPECT_EQ(pcs, here);
  EXPECT_EQ(unwinder.Unwind(OwnModules(), g_snapshot.View(), kLimit), here);
}

Module Range(uint64_t start, uint64_t end, const char* path) {
  Module module;
  module.start = start;
  module.end = end;
  module.path = path;
  return module;
}

std::string Show(const ModuleMap& map) {
  std::string text;
  for (const Module& module : map.modules()) {
    text += module.path + std::to_string(module.start) + "-" + std::to_string(module.end) + " ";
  }
  return text;
}

TEST(ModuleMapTest, Add_OverlappingModules_LaterOneWins) {
  ModuleMap map;
  map.Add(Range(10, 20, "a"));
  map.Add(Range(30, 40, "b"));
  map.Add(Range(20, 30, "c"));
  EXPECT_EQ(Show(map), "a10-20 c20-30 b30-40 ");
  map.Add(Range(15, 35, "d"));
  EXPECT_EQ(Show(map), "a10-15 d15-35 b35-40 ");
  map.Add(Range(20, 25, "e"));
  EXPECT_EQ(Show(map), "a10-15 d15-20 e20-25 d25-35 b35-40 ");
  map.Add(Range(20, 25, "f"));
  EXPECT_EQ(Show(map), "a10-15 d15-20 f20-25 d25-35 b35-40 ");
  map.Add(Range(0, UINT64_MAX, "g"));
  EXPECT_EQ(map.modules().size(), 1U);
  map.Add(Range(5, 5, "h"));
  map.Add(Range(9, 5, "i"));
  EXPECT_EQ(map.modules().size(), 1U);
}

TEST(ModuleMapTest, Find_ByRange_ReturnsTheModule) {
  ModuleMap map;
  EXPECT_EQ(map.Find(0), nullptr);
  map.Add(Range(10, 20, "a"));
  map.Add(Range(20, 30, "b"));
  map.Add(Range(40, 50, "c"));
  EXPECT_EQ(map.Find(9), nullptr);
  EXPECT_EQ(map.Find(10)->path, "a");
  EXPECT_EQ(map.Find(19)->path, "a");
  EXPECT_EQ(map.Find(20)->path, "b");
  EXPECT_EQ(map.Find(30), nullptr);
  EXPECT_EQ(map.Find(49)->path, "c");
  EXPECT_EQ(map.Find(50), nullptr);
  EXPECT_EQ(map.Find(UINT64_MAX), nullptr);
}

TEST(ModuleMapTest, RandomRanges_StaySortedAndDisjoint) {
  std::mt19937_64 random(3);
  ModuleMap map;
  std::vector<char> model(1000, ' ');
  for (int i = 0; i < 20000; ++i) {
    const uint64_t start = random() % 1000, end = std::min<uint64_t>(1000, start + random() % 50);
    const char name = static_cast<char>('a' + random() % 26);
    map.Add(Range(start, end, std::string(1, name).c_str()));
    for (uint64_t at = start; at < end; ++at) model[at] = name;
    const uint64_t probe = random() % 1000;
    const Module* found = map.Find(probe);
    ASSERT_EQ(found != nullptr ? found->path[0] : ' ', model[probe]);
    for (size_t k = 1; k < map.modules().size(); ++k) {
      ASSERT_LE(map.modules()[k - 1].end, map.modules()[k].start);
    }
  }
}

TEST(ModuleMapTest, Add_ManyModules_IsBounded) {
  ModuleMap map;
  for (uint64_t i = 0; i < 2 * ModuleMap::kMaxModules; ++i) map.Add(Range(i * 10, i * 10 + 5, "m"));
  EXPECT_LE(map.modules().size(), ModuleMap::kMaxModules);
}

}  // namespace
}  // namespace tbprof
