// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/memory_growth.h"

#include <initializer_list>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

namespace tbprof {
namespace {

constexpr int64_t kMiB = 1 << 20;

// A growth whose memory is held by code below `files`, outermost first.
class Growth {
 public:
  Growth() { timeline_.python.stacks.resize(1); }

  Growth& Add(int64_t bytes, std::initializer_list<std::string_view> files) {
    uint32_t stack = 0;
    for (const std::string_view file : files) {
      PythonFunction function;
      function.file = timeline_.strings.Intern(file);
      function.name = timeline_.strings.Intern("<module>");
      timeline_.python.functions.push_back(function);
      timeline_.python.stacks.push_back({stack, static_cast<uint32_t>(timeline_.python.functions.size() - 1), 1});
      stack = static_cast<uint32_t>(timeline_.python.stacks.size() - 1);
    }
    HeldBytes row;
    row.bytes = bytes;
    row.python_stack = stack;
    growth_.rows.push_back(std::move(row));
    growth_.bytes += bytes;
    return *this;
  }

  bool IsOfImports() const { return tbprof::IsOfImports(timeline_, growth_); }

 private:
  Timeline timeline_;
  MemoryGrowth growth_;
};

constexpr std::string_view kProgram = "/home/user/train.py", kImport = "<frozen importlib._bootstrap>";

TEST(GrowthOfImports, BodyOfAnImportedModuleIsOne) {
  EXPECT_TRUE(Growth().Add(60 * kMiB, {kProgram, kImport, "/site-packages/torch/__init__.py"}).IsOfImports());
}

TEST(GrowthOfImports, HalfOfTheGrowthIsEnough) {
  EXPECT_TRUE(Growth().Add(5 * kMiB, {kProgram, kImport}).Add(5 * kMiB, {kProgram}).IsOfImports());
}

TEST(GrowthOfImports, ProgramThatKeepsMoreThanItImportsIsNone) {
  EXPECT_FALSE(Growth().Add(4 * kMiB, {kProgram, kImport}).Add(6 * kMiB, {kProgram}).IsOfImports());
}

TEST(GrowthOfImports, ImportedModuleOfTheProgramThatWorks_IsNone) {
  EXPECT_FALSE(Growth().Add(60 * kMiB, {"<string>", kImport, kProgram}).IsOfImports());
  EXPECT_TRUE(Growth().Add(60 * kMiB, {"<string>", kImport, kProgram, kImport}).IsOfImports());
}

TEST(GrowthOfImports, MemoryWithoutAPythonLineIsNone) {
  EXPECT_FALSE(Growth().Add(60 * kMiB, {}).IsOfImports());
  EXPECT_FALSE(Growth().IsOfImports());
}

}  // namespace
}  // namespace tbprof
