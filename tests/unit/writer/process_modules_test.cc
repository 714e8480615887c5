// SPDX-License-Identifier: Apache-2.0
//
// Modules of processes and of the processes from which they were forked.
#include "writer/convert/process_modules.h"

#include <gtest/gtest.h>

namespace tbprof {
namespace {

class ProcessModulesTest : public testing::Test {
 protected:
  ProcessFacts& Add(const Identity& process, uint32_t parent, uint64_t start, uint64_t end, const char* path) {
    ProcessFacts& facts = facts_.processes[process];
    facts.parent_serial = parent;
    Module module;
    module.load_bias = module.start = start;
    module.end = end;
    module.path = path;
    facts.modules.push_back(module);
    return facts;
  }

  SpoolFacts facts_;
  StringTable strings_;
  ProcessModules modules_{&facts_, &strings_};
};

TEST_F(ProcessModulesTest, ForkChild_HasItsParentsModules) {
  Add({1, 1}, 0, 0x1000, 0x2000, "/lib/parent.so");
  Add({1, 2}, 1, 0x3000, 0x4000, "/lib/child.so");
  EXPECT_EQ(modules_.FileOfCall({1, 2}, 0x1100), "parent.so");
  EXPECT_EQ(modules_.FileOfCall({1, 2}, 0x3100), "child.so");
  EXPECT_EQ(modules_.FileOfCall({1, 1}, 0x3100), "");
}

TEST_F(ProcessModulesTest, ModuleThatTheChildLoaded_WinsOverItsParents) {
  Add({1, 1}, 0, 0x1000, 0x2000, "/lib/old.so");
  Add({1, 2}, 1, 0x1000, 0x2000, "/lib/new.so");
  EXPECT_EQ(modules_.FileOfCall({1, 2}, 0x1100), "new.so");
  EXPECT_EQ(modules_.FileOfCall({1, 1}, 0x1100), "old.so");
}

TEST_F(ProcessModulesTest, ReturnAddressAtTheEnd_IsOfTheCallBeforeIt) {
  Add({1, 1}, 0, 0x1000, 0x2000, "/lib/first.so");
  Add({1, 1}, 0, 0x2000, 0x3000, "/lib/second.so");
  EXPECT_EQ(modules_.FileOfCall({1, 1}, 0x2000), "first.so");
  EXPECT_EQ(modules_.FileOfCall({1, 1}, 0x2001), "second.so");
  EXPECT_EQ(modules_.FileOfCall({1, 1}, 0x1000), "");
  EXPECT_EQ(modules_.FileOfCall({1, 1}, 0), "");
}

TEST_F(ProcessModulesTest, ProcessesThatAreEachOthersParent_EndTheSearch) {
  Add({1, 1}, 2, 0x1000, 0x2000, "/lib/first.so");
  Add({1, 2}, 1, 0x3000, 0x4000, "/lib/second.so");
  EXPECT_EQ(modules_.FileOfCall({1, 1}, 0x3100), "second.so");
}

TEST_F(ProcessModulesTest, ProcessOfAnotherSegment_IsNoParent) {
  Add({1, 1}, 0, 0x1000, 0x2000, "/lib/first.so");
  Add({2, 2}, 1, 0x3000, 0x4000, "/lib/second.so");
  EXPECT_EQ(modules_.FileOfCall({2, 2}, 0x1100), "");
  EXPECT_EQ(modules_.FileOfCall({9, 9}, 0x1100), "");
}

TEST_F(ProcessModulesTest, NameOfFile_IsMadePrintable) {
  Add({1, 1}, 0, 0x1000, 0x2000, "/lib/a\x1b[31m.so");
  EXPECT_EQ(modules_.FileOfCall({1, 1}, 0x1100).find('\x1b'), std::string::npos);
  EXPECT_NE(modules_.FileOfCall({1, 1}, 0x1100), "");
}

TEST_F(ProcessModulesTest, AddressInNoModule_IsNamedByItsNumber) {
  const StringId known = modules_.NameOfCall({1, 1}, 0xabc123);
  EXPECT_NE(strings_.Get(known).find("abc12"), std::string::npos);
  EXPECT_EQ(modules_.NameOfCall({1, 1}, 0xabc123), known);
}

}  // namespace
}  // namespace tbprof
