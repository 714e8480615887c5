// SPDX-License-Identifier: Apache-2.0
// How the place of a call is named where functions are inlined. The modules are this test's own.
#include "writer/convert/process_modules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "tests/unit/writer/own_modules.h"

namespace tbprof {

extern "C" __attribute__((noinline, noipa)) uint64_t tbprof_test_take_gil() { return AddressHere(); }

namespace {

// The place, if the executable had this name.
std::string PlaceIn(const std::string& name) {
  const std::filesystem::path directory =
      std::filesystem::temp_directory_path() / ("tbprof-modules-" + std::to_string(getpid()));
  std::filesystem::create_directory(directory);
  const std::filesystem::path copy = directory / name;
  std::filesystem::copy_file("/proc/self/exe", copy, std::filesystem::copy_options::overwrite_existing);
  const uint64_t address = tbprof_test_take_gil();
  SpoolFacts facts;
  StringTable strings;
  ProcessModules process(&facts, &strings);
  process.Set({1, 1}, WithFile(address, copy).modules());
  const std::string place = strings.Get(process.NameOfCall({1, 1}, address + 1));
  std::filesystem::remove_all(directory);
  return place;
}

TEST(ProcessModules, CallInAnInlinedFunction_IsThatFunctions) {
  EXPECT_THAT(PlaceIn("program"), testing::HasSubstr("AddressHere"));
}

// Waits for the GIL are known by `take_gil`, into which CPython inlines its wait.
TEST(ProcessModules, CallInTheInterpreter_IsTheFunctionsAroundIt) {
  EXPECT_THAT(PlaceIn("libpython3.11.so.1.0"), testing::StartsWith("tbprof_test_take_gil"));
  EXPECT_THAT(PlaceIn("python3.12"), testing::StartsWith("tbprof_test_take_gil"));
}

}  // namespace
}  // namespace tbprof
