// SPDX-License-Identifier: Apache-2.0
#include "writer/symbols/rust_names.h"

#include <random>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace tbprof {
namespace {

struct Row {
  std::string_view mangled, text;
};

TEST(RustName, PathsTypesAndReferences_HaveTheirShortForm) {
  const Row rows[] = {
      {"_RNvC6tbprof4main", "tbprof::main"},
      {"_RNvNtCs1234_7mycrate3foo3bar", "mycrate::foo::bar"},
      {"_RINvCs2aNiWST3429_6subtle9black_boxhECs8vstDzRPT6b_6rustls", "subtle::black_box"},
      // Generic arguments, and the crate that made the instance.
      {"_RINvNtC3std3mem8align_ofjEC3foo", "std::mem::align_of"},
      {"_RINvC7mycrate4foldTlSeEKj8_L_NtC7mycrate3RowE", "mycrate::fold"},
      // An implementation: of a type, of a trait for a type, by a trait.
      {"_RNvMs_NtC7mycrate3fooNtB4_3Bar3new", "mycrate::foo::Bar::new"},
      {"_RNvXs0_C7mycrateNtB5_3BarNtNtC4core3fmt7Display3fmt", "mycrate::Bar::fmt"},
      {"_RNvYNtC7mycrate3BarNtC4core5Clone5clone", "mycrate::Bar::clone"},
      {"_RNvXC7mycrateINtC5alloc3VeclENtC4core4Drop4drop", "alloc::Vec::drop"},
      {"_RNvXC7mycrateRShNtC4core5Debug3fmt", "&slice::fmt"},
      {"_RNvXC7mycrateTlAhj8_EC1a1f", "(i32, array)::f"},
      {"_RNvXC7mycrateDNtC4core2FnEL_C1a1f", "dyn core::Fn::f"},
      // Closures, also in functions.
      {"_RNCNvC7mycrate4main0B3_", "mycrate::main::{closure}"},
      {"_RNCNCNvC7mycrate4mains_00B5_", "mycrate::main::{closure}::{closure}"},
      {"_RNvC7mycrate4main.llvm.1234", "mycrate::main"},
      {"_RNvC7mycrateu8gdel_5qa", "mycrate::gdel_5qa"},
  };
  for (const Row& row : rows) EXPECT_EQ(RustName(row.mangled).value_or("nothing"), row.text) << row.mangled;
}

TEST(RustName, WhatIsNoName_IsRefused) {
  for (const std::string_view name :
       {"", "_R", "_RN", "_RNvC6tbprof", "_RNvC6tbprof5main", "_RNvC9999999999999999999999tbprof4main", "_RNvB_4main",
        "_RNvBz_4main", "_RNvC6tbprof4mainx", "_Rust", "_ZN2rs4mainE", "_RNvCs____6tbprof4main"}) {
    EXPECT_FALSE(RustName(name).has_value()) << name;
  }
}

// Each reference doubles the text.
TEST(RustName, ReferencesThatMultiply_EndEarly) {
  std::string name = "_RNvXC1aTNtC1a1bNtC1a1b";
  for (int i = 0; i < 500; ++i) name += "TB4_B4_E";
  name += "EC1a1f";
  RustName(name);
  std::string deep = "_RNvXC1a" + std::string(3000, 'S') + "hC1a1f";
  EXPECT_FALSE(RustName(deep).has_value());
}

TEST(RustName, ChangedNames_NeverFail) {
  std::mt19937_64 random(7);
  const std::string_view names[] = {"_RINvC7mycrate4foldTlSeEKj8_L_NtC7mycrate3RowE",
                                    "_RNvXs0_C7mycrateNtB5_3BarNtNtC4core3fmt7Display3fmt",
                                    "_RNCNCNvC7mycrate4mains_00B5_", "_RNvXC7mycrateDNtC4core2FnEL_C1a1f"};
  constexpr std::string_view kLetters = "_0123456789BCDEFGIKLMNPQRSTXYaeghjlpsuv";
  for (int i = 0; i < 50'000; ++i) {
    std::string name(names[random() % std::size(names)]);
    for (int change = 0; change < 3; ++change) {
      const size_t at = 2 + random() % (name.size() - 2);
      const char letter = kLetters[random() % kLetters.size()];
      if (random() % 2 == 0) {
        name[at] = letter;
      } else {
        name.insert(at, 1, letter);
      }
    }
    if (const auto text = RustName(name)) EXPECT_LE(text->size(), 4096u);
    OldRustName(name + "::h0123456789abcdef");
  }
}

TEST(OldRustName, CodesAndGenerics_AreDropped) {
  const Row rows[] = {
      {"rs::main::h6af98f44df74ee35", "rs::main"},
      {"_$LT$app..Row$LT$T$GT$$u20$as$u20$app..Sum$GT$::add::h6af98f44df74ee35", "app::Row::add"},
      {"_$LT$$RF$app..Row$u20$as$u20$core..fmt..Debug$GT$::fmt::h6af98f44df74ee35", "&app::Row::fmt"},
      {"app::run::_$u7b$$u7b$closure$u7d$$u7d$::h6af98f44df74ee35", "app::run::{closure}"},
      {"_$LT$F$u20$as$u20$core..ops..Fn$LT$$LP$$RP$$GT$$GT$::call::h6af98f44df74ee35", "F::call"},
      {"core::ops::FnOnce::call_once$LT$fn$LP$$RP$$u20$-$GT$$u20$u8$GT$::h6af98f44df74ee35",
       "core::ops::FnOnce::call_once"},
      {"_$LT$$u5b$T$u5d$$u20$as$u20$core..Clone$GT$::clone::h6af98f44df74ee35", "slice::clone"},
      {"std::vector<int>::h6af98f44df74ee35", "std::vector"},
  };
  for (const Row& row : rows) EXPECT_EQ(OldRustName(row.mangled).value_or("nothing"), row.text) << row.mangled;
  EXPECT_FALSE(OldRustName("rs::hash()").has_value());
  EXPECT_FALSE(OldRustName("h6af98f44df74ee35").has_value());
  EXPECT_FALSE(OldRustName("rs::main::h6af98f44df74ee3x").has_value());
}

}  // namespace
}  // namespace tbprof
