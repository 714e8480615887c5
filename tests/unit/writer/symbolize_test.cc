// SPDX-License-Identifier: Apache-2.0
#include "writer/symbols/symbolize.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "tests/unit/writer/own_modules.h"
#include "writer/symbols/demangle.h"
#include "writer/symbols/elf_file.h"
#include "writer/symbols/unwind.h"

namespace tbprof {

struct SymbolizeTestClass {
  template <typename T>
  __attribute__((noinline, noipa)) static T Twice(T value) {
    return value + value;
  }
};

extern "C" __attribute__((noinline, noipa)) int tbprof_test_plain_c(int value) { return value + 1; }
extern "C" __attribute__((noinline, noipa)) int tbprof_test_patch_me(int value) { return value + 2; }

// In Rust's own mangling.
extern "C" __attribute__((noinline, noipa)) int _RNvC6tbprof4main(int value) { return value + 3; }

TEST(Demangle, HashOfRust_IsDropped) {
  EXPECT_EQ(Demangle("_ZN2rs4main17h6af98f44df74ee35E"), "rs::main");
  EXPECT_EQ(Demangle("_ZN2rs4hashEv"), "rs::hash()");
  EXPECT_EQ(Demangle("h6af98f44df74ee35"), "h6af98f44df74ee35");
}

// Demangled, the name has half a million characters: f(A<int, int>, A<A<int, int>, A<int, int> >, ...).
#define TBPROF_LONG_NAME                                                                       \
  "_Z1f1AIiiES_IS0_S0_ES_IS1_S1_ES_IS2_S2_ES_IS3_S3_ES_IS4_S4_ES_IS5_S5_ES_IS6_S6_ES_IS7_S7_E" \
  "S_IS8_S8_ES_IS9_S9_ES_ISA_SA_ES_ISB_SB_ES_ISC_SC_ES_ISD_SD_E"
int LongName(int value) asm(TBPROF_LONG_NAME);
__attribute__((noinline, noipa)) int LongName(int value) { return value + 5; }

namespace {

__attribute__((noinline, noipa)) int StaticFunction(int value) { return value + 4; }
constexpr int kStaticFunctionLine = __LINE__ - 1;

[[noreturn]] __attribute__((noinline, noipa)) void NeverReturns() { abort(); }
__attribute__((noinline, noipa)) void EndsWithNoreturnCall() { NeverReturns(); }

}  // namespace

__attribute__((always_inline)) inline uint64_t MiddleInlined() { return AddressHere(); }
constexpr int kMiddleLine = __LINE__ - 1;

namespace {

__attribute__((noinline, noipa)) uint64_t HoldsInlined() { return MiddleInlined(); }
constexpr int kHoldsLine = __LINE__ - 1;

template <typename F>
uint64_t Address(F function) {
  return reinterpret_cast<uint64_t>(function);
}

Symbol FindOwn(uint64_t address, bool is_return_address = false) {
  Symbolizer symbolizer;
  return symbolizer.Find(OwnModules(), address, is_return_address);
}

std::string OwnName() { return std::filesystem::read_symlink("/proc/self/exe").filename(); }

bool HasDebugLines() {
  auto file = ElfFile::Open(std::filesystem::read_symlink("/proc/self/exe"));
  return file != nullptr && file->FindSection(".debug_line") != nullptr;
}

TEST(SymbolTest, Text_HasWhatIsKnown) {
  Symbol symbol;
  symbol.offset = 0x1234;
  EXPECT_EQ(symbol.Text(), "0x1234");
  symbol.module = "libx.so";
  EXPECT_EQ(symbol.Text(), "libx.so+0x1234");
  symbol.function = "f()";
  EXPECT_EQ(symbol.Text(), "f() (libx.so)");
  symbol.file = "/src/dir/x.cc";
  EXPECT_EQ(symbol.Text(), "f() (libx.so)");
  symbol.line = 12;
  EXPECT_EQ(symbol.Text(), "f() (x.cc:12)");
  symbol.module.clear();
  EXPECT_EQ(symbol.Text(), "f() (x.cc:12)");
}

TEST(SymbolizeTest, Functions_AreNamed) {
  EXPECT_EQ(FindOwn(Address(&tbprof_test_plain_c)).function, "tbprof_test_plain_c");
  EXPECT_EQ(FindOwn(Address(&StaticFunction)).function, "tbprof::(anonymous namespace)::StaticFunction(int)");
  EXPECT_EQ(FindOwn(Address(&SymbolizeTestClass::Twice<double>)).function,
            "double tbprof::SymbolizeTestClass::Twice<double>(double)");
  EXPECT_EQ(FindOwn(Address(&_RNvC6tbprof4main)).function, "tbprof::main");
  EXPECT_EQ(FindOwn(Address(&StaticFunction)).module, OwnName());
}

// `_init` has no size and is the last function of its section; jumps to libraries follow, in sections without symbols.
TEST(SymbolizeTest, FunctionWithoutASize_EndsWithItsSection) {
  auto file = ElfFile::Open(std::filesystem::read_symlink("/proc/self/exe"));
  ASSERT_NE(file, nullptr);
  const uint64_t bias = OwnModules().modules()[0].load_bias;
  const ElfFile::Section* const init = file->FindSection(".init");
  ASSERT_NE(init, nullptr);
  EXPECT_EQ(FindOwn(bias + init->address).function, "_init");
  size_t tables = 0;
  for (const char* name : {".plt", ".plt.got", ".plt.sec"}) {
    const ElfFile::Section* const table = file->FindSection(name);
    if (table == nullptr) continue;
    ++tables;
    EXPECT_EQ(FindOwn(bias + table->address + table->size / 2).function, "") << name;
  }
  EXPECT_GT(tables, 0u);
}

TEST(SymbolizeTest, LongNames_AreBounded) {
  const std::string name = FindOwn(Address(&LongName)).function;
  EXPECT_GT(name.size(), 10U);
  EXPECT_LE(name.size(), 16384U);
}

TEST(SymbolizeTest, DebugInformation_GivesFileAndLine) {
  if (!HasDebugLines()) GTEST_SKIP() << "built without debug information";
  const Symbol symbol = FindOwn(Address(&StaticFunction));
  EXPECT_EQ(symbol.line, kStaticFunctionLine);
  EXPECT_EQ(symbol.Text(), "tbprof::(anonymous namespace)::StaticFunction(int) (symbolize_test.cc:" +
                               std::to_string(kStaticFunctionLine) + ")");
  EXPECT_EQ(std::filesystem::path(symbol.file).filename(), "symbolize_test.cc");
}

TEST(SymbolizeTest, InlinedFunctions_ComeBeforeTheirCaller) {
  if (!HasDebugLines()) GTEST_SKIP() << "built without debug information";
  Symbolizer symbolizer;
  const std::vector<Symbol> symbols = symbolizer.FindWithInlined(OwnModules(), HoldsInlined(), false);
  std::vector<std::string> functions;
  for (const Symbol& symbol : symbols) functions.push_back(symbol.function);
  // Where the debug information has no linkage names, there are no namespaces.
  using ::testing::HasSubstr;
  ASSERT_THAT(functions, ::testing::ElementsAre(HasSubstr("AddressHere"), HasSubstr("MiddleInlined"),
                                                "tbprof::(anonymous namespace)::HoldsInlined()"));
  EXPECT_EQ(symbols[1].line, kMiddleLine);
  EXPECT_EQ(symbols[2].line, kHoldsLine);
  EXPECT_EQ(std::filesystem::path(symbols[2].file).filename(), "symbolize_test.cc");
  EXPECT_EQ(symbols[2].module, OwnName());
}

TEST(SymbolizeTest, FunctionWithoutInlinedCalls_IsAlone) {
  Symbolizer symbolizer;
  const std::vector<Symbol> symbols = symbolizer.FindWithInlined(OwnModules(), Address(&StaticFunction), false);
  ASSERT_EQ(symbols.size(), 1u);
  EXPECT_EQ(symbols[0].Text(), FindOwn(Address(&StaticFunction)).Text());
  EXPECT_EQ(symbolizer.FindWithInlined(OwnModules(), 16, true)[0].Text(), "0x10");
}

TEST(SymbolizeTest, FunctionsOfLibraries_AreNamed) {
  EXPECT_NE(FindOwn(Address(&qsort)).function.find("qsort"), std::string::npos);
  void* memcpy_address = dlsym(RTLD_DEFAULT, "fopen");
  const Symbol symbol = FindOwn(Address(memcpy_address));
  EXPECT_NE(symbol.function.find("fopen"), std::string::npos) << symbol.function;
  EXPECT_EQ(symbol.function.find('@'), std::string::npos) << symbol.function;
}

TEST(SymbolizeTest, CLibraryWithASeparateDebugFile_NameWithoutLine) {
  // The name comes from the symbol table of the debug file or of the library itself.
  const Symbol symbol = FindOwn(Address(dlsym(RTLD_DEFAULT, "fopen")));
  EXPECT_NE(symbol.function.find("fopen"), std::string::npos) << symbol.function;
  EXPECT_EQ(symbol.line, 0) << symbol.file;
}

TEST(SymbolizeTest, ReturnAddress_BelongsToTheCall) {
  // The return address of the only call in EndsWithNoreturnCall is the end of that function.
  const uint64_t begin = Address(&EndsWithNoreturnCall);
  const std::string name = FindOwn(begin).function;
  uint64_t end = begin;
  while (FindOwn(end).function == name) ++end;
  EXPECT_EQ(FindOwn(end, true).function, name);
  EXPECT_NE(FindOwn(end, false).function, name);
  EXPECT_EQ(FindOwn(end, true).offset, FindOwn(end, false).offset);
}

TEST(SymbolizeTest, AddressesOutsideFunctions_AreOffsets) {
  const ModuleMap modules = OwnModules();
  Symbolizer symbolizer;
  EXPECT_EQ(symbolizer.Find(modules, 0, false).Text(), "0x0");
  EXPECT_EQ(symbolizer.Find(modules, 0, true).Text(), "0x0");
  EXPECT_EQ(symbolizer.Find(modules, 16, true).Text(), "0x10");
  EXPECT_EQ(symbolizer.Find(modules, UINT64_MAX, false).Text(), "0xffffffffffffffff");
  const Module& own = *modules.Find(Address(&StaticFunction));
  EXPECT_EQ(
      symbolizer.Find(modules, own.start, false).Text(), FindOwn(own.start).module + "+" + [&] {
        char text[32];
        snprintf(text, sizeof(text), "0x%llx", static_cast<unsigned long long>(own.start - own.load_bias));
        return std::string(text);
      }());
}

TEST(SymbolizeTest, ReplacedOrDeletedFile_IsNotUsed) {
  const uint64_t address = Address(&tbprof_test_plain_c);
  const ModuleMap own = OwnModules();
  const Module module = *own.Find(address);
  ASSERT_FALSE(module.build_id.empty());
  std::string other = module.build_id;
  other[0] = static_cast<char>(other[0] ^ 1);
  Symbolizer symbolizer;
  auto text = [&](const std::string& path, const std::string& build_id) {
    return symbolizer.Find(WithFile(address, path, build_id), address, false).Text();
  };
  char offset[32];
  snprintf(offset, sizeof(offset), "+0x%llx", static_cast<unsigned long long>(address - module.load_bias));
  EXPECT_EQ(text(module.path, other), OwnName() + offset);
  EXPECT_EQ(text(module.path + " (deleted)", ""), OwnName() + offset);
  EXPECT_EQ(text("/gone/libx.so (deleted)", ""), std::string("libx.so") + offset);
  EXPECT_EQ(text("/gone/libx.so (deleted)", module.build_id), std::string("libx.so") + offset);
  EXPECT_EQ(text("[vdso]", ""), std::string("[vdso]") + offset);
  EXPECT_EQ(text("", ""), std::string("[unknown]") + offset);
  EXPECT_EQ(text("/gone/", ""), std::string("[unknown]") + offset);
  EXPECT_EQ(text("/dev/zero", ""), std::string("zero") + offset);
  EXPECT_EQ(text("/gone/a\x01"
                 "b\x1b[1m",
                 ""),
            std::string("a\\x01b\\x1b[1m") + offset);
  // A file of the same build is used.
  EXPECT_EQ(text(module.path + " (deleted)", module.build_id).find("tbprof_test_plain_c"), 0U);
  EXPECT_EQ(text(module.path, "").find("tbprof_test_plain_c"), 0U);
}

class SymbolizeFileTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/tbprof_symbolize_test_XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    directory_ = name;
    copy_ = directory_ + "/copy";
    const ModuleMap modules = OwnModules();
    std::ifstream stream(modules.Find(Address(&StaticFunction))->path, std::ios::binary);
    good_.assign(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  void Write(const std::string& content) {
    std::ofstream stream(copy_, std::ios::binary | std::ios::trunc);
    stream << content;
  }

  std::string directory_;
  std::string copy_;
  std::string good_;
};

TEST_F(SymbolizeFileTest, FileWithoutSymbols_GivesAnOffset) {
  Elf64_Ehdr header;
  memcpy(&header, good_.data(), sizeof(header));
  header.e_shoff = 0;
  header.e_shnum = 0;
  std::string stripped = good_;
  memcpy(stripped.data(), &header, sizeof(header));
  Write(stripped);
  const uint64_t address = Address(&StaticFunction);
  Symbolizer symbolizer;
  const std::string text = symbolizer.Find(WithFile(address, copy_), address, false).Text();
  EXPECT_EQ(text.find("copy+0x"), 0U) << text;
}

TEST_F(SymbolizeFileTest, UnprintableName_IsEscaped) {
  const std::string name = "tbprof_test_patch_me";
  std::string odd = good_;
  for (size_t at = 0; (at = odd.find(name, at)) != std::string::npos; at += name.size()) {
    odd[at] = '\xff';
    odd[at + 1] = '\x01';
  }
  Write(odd);
  const uint64_t address = Address(&tbprof_test_patch_me);
  Symbolizer symbolizer;
  const Symbol symbol = symbolizer.Find(WithFile(address, copy_), address, false);
  EXPECT_EQ(symbol.function, "\\xff\\x01prof_test_patch_me");
}

TEST_F(SymbolizeFileTest, FileTruncatedAfterOpening_DoesNotCrash) {
  Write(good_);
  const uint64_t address = Address(&StaticFunction);
  const ModuleMap modules = WithFile(address, copy_);
  Symbolizer symbolizer;
  symbolizer.Find(modules, Address(&tbprof_test_plain_c), false);
  ASSERT_EQ(truncate(copy_.c_str(), 4096), 0);
  for (uint64_t i = 0; i < 5000; ++i) symbolizer.Find(modules, address + i * 8, false);
}

TEST_F(SymbolizeFileTest, BrokenFiles_DoNotCrash) {
  const uint64_t address = Address(&StaticFunction);
  Write(good_);
  std::vector<ElfFile::Section> sections;
  {
    auto file = ElfFile::Open(copy_);
    ASSERT_NE(file, nullptr);
    for (const auto& section : file->sections()) {
      if (section.size == 0 || section.type == SHT_NOBITS) continue;
      if (section.name.find("debug") != std::string::npos || section.name.find("sym") == 1 ||
          section.name.find("str") != std::string::npos) {
        sections.push_back(section);
      }
    }
  }
  ASSERT_FALSE(sections.empty());
  const ModuleMap modules = WithFile(address, copy_);
  std::mt19937_64 random(4);
  uint64_t section_headers;
  memcpy(&section_headers, good_.data() + offsetof(Elf64_Ehdr, e_shoff), sizeof(section_headers));
  for (int i = 0; i < 150; ++i) {
    std::string bad = good_;
    const int flips = 1 << (random() % 14);
    for (int flip = 0; flip < flips; ++flip) {
      const ElfFile::Section& section = sections[random() % sections.size()];
      uint64_t at = section.offset + random() % section.size;
      if (i % 3 == 0) at = section.offset + random() % std::min<uint64_t>(section.size, 256);
      if (i % 5 == 0) at = random() % 1024;
      if (i % 7 == 0) at = section_headers + random() % (good_.size() - section_headers);
      bad[at] = static_cast<char>(bad[at] ^ (1 << random() % 8));
    }
    if (i % 20 == 0) bad.resize(random() % bad.size());
    Write(bad);
    Symbolizer symbolizer;
    for (int k = 0; k < 100; ++k) {
      symbolizer.Find(modules, address - 100000 + random() % 200000, k % 2 == 0);
    }
  }
}

TEST_F(SymbolizeFileTest, Fifo_DoesNotBlock) {
  const std::string path = directory_ + "/fifo";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const uint64_t address = Address(&StaticFunction);
  Symbolizer symbolizer;
  EXPECT_EQ(symbolizer.Find(WithFile(address, path), address, false).function, "");
}

TEST(ElfFileTest, ReadBeyondTheEnd_Fails) {
  const ModuleMap modules = OwnModules();
  auto file = ElfFile::Open(modules.Find(Address(&StaticFunction))->path);
  ASSERT_NE(file, nullptr);
  std::vector<uint8_t> bytes(3 * ElfFile::kBlockSize);
  EXPECT_TRUE(file->Read(0, bytes.data(), 4));
  EXPECT_EQ(memcmp(bytes.data(), ELFMAG, 4), 0);
  EXPECT_TRUE(file->Read(ElfFile::kBlockSize - 2, bytes.data(), 4));
  EXPECT_TRUE(file->Read(1, bytes.data(), bytes.size()));
  EXPECT_TRUE(file->Read(file->size(), bytes.data(), 0));
  EXPECT_FALSE(file->Read(file->size() - 3, bytes.data(), 4));
  EXPECT_FALSE(file->Read(UINT64_MAX, bytes.data(), 1));
  EXPECT_FALSE(file->Read(UINT64_MAX - 2, bytes.data(), 4));
  EXPECT_FALSE(file->ReadAddress(UINT64_MAX - 2, bytes.data(), 4));
  EXPECT_EQ(ElfFile::Open("/no/such/file"), nullptr);
  EXPECT_EQ(ElfFile::Open("/etc/passwd"), nullptr);
}

}  // namespace
}  // namespace tbprof
