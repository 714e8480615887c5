// SPDX-License-Identifier: Apache-2.0
#include "writer/base/symbol_text.h"

#include <gtest/gtest.h>

namespace tbprof {
namespace {

TEST(SymbolText, ShortSymbol_IsTheNameAlone) {
  EXPECT_EQ(ShortSymbol("void at::native::(anonymous namespace)::cpu_max_pool<float, true>(at::Tensor const&)"),
            "at::native::cpu_max_pool");
  EXPECT_EQ(ShortSymbol("std::vector<std::pair<int, char>, std::allocator<int> >::push_back(int&&)"),
            "std::vector::push_back");
  EXPECT_EQ(ShortSymbol("sgemm_kernel"), "sgemm_kernel");
  EXPECT_EQ(ShortSymbol("unsigned long f<int>()"), "f");
  EXPECT_EQ(ShortSymbol("foo(int)::{lambda()#1}::_FUN()"), "foo");
}

TEST(SymbolText, ShortSite_HasTheLineFirst) {
  EXPECT_EQ(ShortSite("Queue::get() (train.cc:17)"), "train.cc:17 Queue::get");
  EXPECT_EQ(ShortSite("main (train.cc:39)"), "train.cc:39 main");
  EXPECT_EQ(ShortSite("operator()() const (a-b.cpp:7)"), "a-b.cpp:7 operator()");
  for (const char* other : {"main", "zstd+0x9f730", "blas_thread_server (libscipy_openblas64_.so)", "f(int) (", "f()",
                            "std::map<int, int> (a:b)", " (a.c:3)", ""}) {
    EXPECT_EQ(ShortSite(other), ShortSymbol(other)) << other;
  }
}

TEST(SymbolText, ShortSymbol_OfACutName_IsWhatIsThere) {
  EXPECT_EQ(ShortSymbol("void cpu_max_pool<float, std::vector<i"), "cpu_max_pool");
  EXPECT_EQ(ShortSymbol("void f<int>"), "f");
  EXPECT_EQ(ShortSymbol(""), "");
  EXPECT_EQ(ShortSymbol("<int>"), "<int>");
  EXPECT_EQ(ShortSymbol("a > b"), "b");
}

TEST(SymbolText, ShortSymbol_OfWhatIsNoName_IsTheSame) {
  EXPECT_EQ(ShortSymbol("[libgomp.so.1]"), "[libgomp.so.1]");
  EXPECT_EQ(ShortSymbol("(callers not known)"), "(callers not known)");
}

TEST(SymbolText, ShortSymbol_OfAnOperator_IsTheOperator) {
  EXPECT_EQ(ShortSymbol("std::ostream& operator<< <char>(int)"), "operator<<");
  EXPECT_EQ(ShortSymbol("bool std::operator< <char, std::char_traits<char> >(std::string const&)"), "std::operator<");
  EXPECT_EQ(ShortSymbol("Less<int>::operator()(int, int) const"), "Less::operator()");
  EXPECT_EQ(ShortSymbol("Grid::operator[](unsigned long)"), "Grid::operator[]");
  EXPECT_EQ(ShortSymbol("operator new[](unsigned long)"), "operator new[]");
  EXPECT_EQ(ShortSymbol("Flag::operator bool() const"), "Flag::operator bool");
  EXPECT_EQ(ShortSymbol("It::operator->() const"), "It::operator->");
  EXPECT_EQ(ShortSymbol("run_operators(int)"), "run_operators");
  EXPECT_EQ(ShortSymbol("ns::operator_of(int)"), "ns::operator_of");
  EXPECT_EQ(ShortSymbol("operator"), "operator");
}

TEST(SymbolText, FilesOfTheCLibrary_AreKnown) {
  for (const char* name :
       {"libc.so.6", "libc-2.31.so", "libpthread.so.0", "ld-linux-x86-64.so.2", "ld-musl-x86_64.so.1"}) {
    EXPECT_TRUE(IsCLibraryFile(name)) << name;
  }
  for (const char* name : {"libpthreadpool.so.0", "libcublas.so.12", "libc10.so", "libcrypt.so.1"}) {
    EXPECT_FALSE(IsCLibraryFile(name)) << name;
  }
}

TEST(SymbolText, ShortFunction_LeavesNamesOfPython) {
  EXPECT_EQ(ShortFunction("train.<locals>.step"), "train.<locals>.step");
  EXPECT_EQ(ShortFunction("<module>"), "<module>");
  EXPECT_EQ(ShortFunction("void f<int>(int)"), "f");
}

}  // namespace
}  // namespace tbprof
