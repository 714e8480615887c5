// SPDX-License-Identifier: Apache-2.0
#include "writer/outputs/native_place.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tbprof {
namespace {

std::string PlaceOf(const std::vector<std::string>& frames) {
  Timeline timeline;
  std::vector<StringId> ids;
  for (const std::string& frame : frames) ids.push_back(timeline.strings.Intern(frame));
  return NativePlace(timeline, ids);
}

TEST(NativePlace, FramesOfTheAllocatorAndOfTheThreadsStart_AreLeftOut) {
  EXPECT_EQ(PlaceOf({"operator new(unsigned long) (libstdc++.so.6)",
                     "std::vector<int>::_M_realloc_insert(int const&) (vector.tcc:12)", "Fill(int) (heap.cc:12)",
                     "main (heap.cc:40)", "__libc_start_call_main (libc.so.6)", "_start (heap)"}),
            "Fill (heap.cc:12) < main (heap.cc:40)");
  EXPECT_EQ(PlaceOf({"malloc (libc.so.6)", "worker (pool.cc:9)", "start_thread (libc.so.6)", "clone3 (libc.so.6)"}),
            "worker (pool.cc:9)");
}

// A container that is inlined gives its caller the line of its own header.
TEST(NativePlace, FunctionWithALineOfTheLibrary_IsShownWithoutIt) {
  EXPECT_EQ(PlaceOf({"operator new(unsigned long) (libstdc++.so.6)", "main (new_allocator.h:137)",
                     "__libc_start_call_main (libc.so.6)"}),
            "main");
  EXPECT_EQ(PlaceOf({"Grow (stl_vector.h:99)", "main (heap.cc:40)"}), "Grow < main (heap.cc:40)");
}

TEST(NativePlace, FunctionWhoseArgumentsNameTheLibrary_IsTheProgramsOwn) {
  EXPECT_EQ(PlaceOf({"operator new(unsigned long) (libstdc++.so.6)", "Load(std::vector<int>&) (load.cc:7)",
                     "main (load.cc:20)"}),
            "Load (load.cc:7) < main (load.cc:20)");
  EXPECT_EQ(PlaceOf({"void std::vector<int>::push_back(int const&) (stl_vector.h:1)", "main (a.cc:2)"}),
            "main (a.cc:2)");
}

TEST(NativePlace, FunctionThatCallsItself_IsNamedOnce) {
  EXPECT_EQ(PlaceOf({"build (tree.cc:11)", "build (tree.cc:11)", "main (tree.cc:30)"}),
            "build (tree.cc:11) < main (tree.cc:30)");
}

TEST(NativePlace, NothingButTheAllocator_IsShownAsItIs) {
  EXPECT_EQ(PlaceOf({"malloc (libc.so.6)", "__libc_start_main (libc.so.6)"}), "malloc");
}

}  // namespace
}  // namespace tbprof
