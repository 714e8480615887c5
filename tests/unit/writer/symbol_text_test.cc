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
  EXPECT_EQ(ShortSymbol("std::ostream& operator<< <char>(int)"), "std::ostream& operator<< <char>(int)");
}

}  // namespace
}  // namespace tbprof
