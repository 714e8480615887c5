// SPDX-License-Identifier: Apache-2.0
// Programs built with sanitizers, and valgrind: as the command they run without being recorded, and the cause is
// reported; as children of the command they run as they would.
#include <gmock/gmock.h>
#include <unistd.h>

#include "../integration/harness.h"

namespace tbprof::integration {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> AsChild(const std::vector<std::string>& command) {
  std::vector<std::string> words = {"/bin/sh", "-c", "\"$@\"; exit $?", "sh"};
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

class Sanitizer : public testing::TestWithParam<std::string> {};

TEST_P(Sanitizer, Command_RunsAndTheCauseIsReported) {
  const Pair pair = RunBoth(Program(GetParam()));
  EXPECT_TRUE(SameOutput(pair.bare, pair.profiled));
  EXPECT_EQ(pair.profiled.code(), 3);
  EXPECT_TRUE(pair.profiled.Printed("Sanitizer")) << pair.profiled.AllPrinted();
}

TEST_P(Sanitizer, ChildOfTheCommand_Runs) {
  const Pair pair = RunBoth(AsChild({Program(GetParam())}), RunOptions());
  EXPECT_TRUE(pair.Same());
  EXPECT_EQ(pair.profiled.code(), 3);
  EXPECT_EQ(pair.profiled.err, "");
}

// What the sanitizer is there for works, and its report names the same places.
TEST_P(Sanitizer, ChildOfTheCommand_IsChecked) {
  const bool is_asan = GetParam() == "asan_works";
  const std::vector<std::string> command = AsChild({Program(GetParam()), is_asan ? "past" : "race"});
  const Pair pair = RunBoth(command, RunOptions());
  EXPECT_EQ(pair.bare.status, pair.profiled.status);
  EXPECT_NE(pair.profiled.code(), 3);
  EXPECT_EQ(pair.bare.out, pair.profiled.out);
  EXPECT_THAT(pair.profiled.err, HasSubstr(is_asan ? "heap-buffer-overflow" : "data race"));
  EXPECT_THAT(pair.profiled.err, HasSubstr(is_asan ? "asan_works.c" : "tsan_works.c"));
}
INSTANTIATE_TEST_SUITE_P(Kinds, Sanitizer, testing::Values("asan_works", "tsan_works"),
                         [](const auto& name) { return std::string(name.param); });

// The locks and calls of an AddressSanitizer child are in the profile.
TEST(AddressSanitizer, Child_IsRecorded) {
  RunOptions options;
  options.tbprof = {"--wait-threshold=0"};
  const RunResult result = RunUnderTbprof(AsChild({Program("asan_works")}), options);
  ASSERT_NE(result.profile, nullptr);
  EXPECT_EQ(result.profile->Named("usleep").size(), 1u);
}

// Preloaded by the user, into tbprof itself, too.
TEST(AddressSanitizer, PreloadedOutside_CommandRuns) {
  std::string runtime;
  for (const char* path : {"/usr/lib/x86_64-linux-gnu/libasan.so.8", "/usr/lib/aarch64-linux-gnu/libasan.so.8"}) {
    if (access(path, R_OK) == 0) runtime = path;
  }
  if (runtime.empty()) GTEST_SKIP() << "libasan.so.8 is not installed";
  RunOptions options;
  options.environment = {{"LD_PRELOAD", runtime}, {"ASAN_OPTIONS", "detect_leaks=0"}};
  options.tbprof = {"--wait-threshold=0"};
  const Pair pair = RunBoth({Program("ends"), "exit", "5"}, options);
  EXPECT_TRUE(pair.Same());
  EXPECT_EQ(pair.profiled.code(), 5);
}

// Those of clang, whose runtimes are linked in or shared. Where clang or a runtime of it is missing, that one is left
// out.
class Clang : public testing::TestWithParam<const char*> {};
TEST_P(Clang, ChildOfTheCommand_Runs) {
  TemporaryDirectory directory;
  const std::string program = directory / "program";
  const std::string build = std::string("command -v clang >/dev/null || exit 77; clang -g -O1 ") + GetParam() + " \"" +
                            TBPROF_SOURCE_DIR "/tests/programs/ends.c\" -o \"" + program +
                            "\" -Wl,-rpath,\"$(clang -print-resource-dir)/lib/linux\" 2>/dev/null || exit 77";
  if (RunBare({"/bin/sh", "-c", build}).code() != 0) GTEST_SKIP() << "clang " << GetParam() << " is unavailable";
  const Pair pair = RunBoth(AsChild({program, "exit", "3"}), RunOptions());
  EXPECT_TRUE(pair.Same());
  EXPECT_EQ(pair.profiled.code(), 3);
  const Pair command = RunBoth({program, "exit", "3"}, RunOptions());
  EXPECT_TRUE(SameOutput(command.bare, command.profiled));
  EXPECT_EQ(command.profiled.code(), 3);
}
INSTANTIATE_TEST_SUITE_P(Kinds, Clang,
                         testing::Values("-fsanitize=address", "-fsanitize=address -shared-libasan",
                                         "-fsanitize=memory", "-fsanitize=thread", "-fsanitize=undefined",
                                         "-fsanitize=leak"));

// A suppression names the function that the sanitizer reports. It must match as it does without tbprof: runtimes take
// the address of their caller and walk frame pointers from there.
struct SuppressedCase {
  const char* name;
  const char* compiler;
  const char* flags;
  const char* options;  // the variable
  const char* suppression;
  std::vector<std::string> arguments;
};
void PrintTo(const SuppressedCase& it, std::ostream* out) { *out << it.name; }

class Suppression : public testing::TestWithParam<SuppressedCase> {};

TEST_P(Suppression, ByFunction_MatchesAsBare) {
  const SuppressedCase& it = GetParam();
  TemporaryDirectory directory;
  const std::string program = directory / "program";
  const std::string build = std::string("command -v ") + it.compiler + " >/dev/null || exit 77; " + it.compiler +
                            " -g " + it.flags +
                            " \"" TBPROF_SOURCE_DIR "/tests/faults/programs/sanitized/suppressed.c\" -o \"" + program +
                            "\" -pthread 2>/dev/null || exit 77";
  if (RunBare({"/bin/sh", "-c", build}).code() != 0) {
    GTEST_SKIP() << it.compiler << " " << it.flags << " is missing";
  }
  WriteFile(directory / "list", std::string(it.suppression) + "\n");
  std::vector<std::string> command = {program};
  command.insert(command.end(), it.arguments.begin(), it.arguments.end());
  // Without the list it is found, or the test would show nothing.
  RunOptions without;
  without.environment = {{it.options, "print_suppressions=0:halt_on_error=1"}};
  const RunResult found = RunBare(command, without);
  ASSERT_NE(found.code(), 0) << found.err;
  RunOptions options;
  options.environment = {{it.options, "print_suppressions=0:halt_on_error=1:suppressions=" + directory / "list"}};
  const Pair child = RunBoth(AsChild(command), options);
  EXPECT_EQ(child.bare.code(), 0) << child.bare.err;
  EXPECT_TRUE(child.Same());
  const Pair itself = RunBoth(command, options);
  EXPECT_TRUE(SameOutput(itself.bare, itself.profiled));
  EXPECT_EQ(itself.profiled.code(), 0) << itself.profiled.err;
}

constexpr char kLeak[] = "-O0 -fsanitize=leak";
constexpr char kAddress[] = "-O1 -fno-omit-frame-pointer -fsanitize=address";
constexpr char kThread[] = "-O1 -fsanitize=thread";
constexpr char kUndefined[] = "-O1 -fsanitize=undefined";
INSTANTIATE_TEST_SUITE_P(
    Kinds, Suppression,
    testing::Values(
        SuppressedCase{"gcc_lsan_malloc", "gcc", kLeak, "LSAN_OPTIONS", "leak:KnownPlace", {"leak", "malloc", "100"}},
        SuppressedCase{
            "gcc_lsan_large", "gcc", kLeak, "LSAN_OPTIONS", "leak:KnownPlace", {"leak", "malloc", "1000000"}},
        SuppressedCase{
            "gcc_lsan_calloc", "gcc", kLeak, "LSAN_OPTIONS", "leak:KnownPlace", {"leak", "calloc", "100000"}},
        SuppressedCase{
            "gcc_lsan_realloc", "gcc", kLeak, "LSAN_OPTIONS", "leak:KnownPlace", {"leak", "realloc", "70000"}},
        SuppressedCase{
            "gcc_lsan_array", "gcc", kLeak, "LSAN_OPTIONS", "leak:KnownPlace", {"leak", "reallocarray", "9"}},
        SuppressedCase{
            "gcc_lsan_posix", "gcc", kLeak, "LSAN_OPTIONS", "leak:KnownPlace", {"leak", "posix_memalign", "9"}},
        SuppressedCase{
            "gcc_lsan_memalign", "gcc", kLeak, "LSAN_OPTIONS", "leak:KnownPlace", {"leak", "memalign", "64"}},
        SuppressedCase{
            "gcc_asan_large", "gcc", kAddress, "LSAN_OPTIONS", "leak:KnownPlace", {"leak", "malloc", "99999"}},
        SuppressedCase{
            "gcc_asan_posix", "gcc", kAddress, "LSAN_OPTIONS", "leak:KnownPlace", {"leak", "posix_memalign", "9"}},
        SuppressedCase{
            "gcc_asan_read", "gcc", kAddress, "ASAN_OPTIONS", "interceptor_via_fun:KnownPlace", {"overflow"}},
        SuppressedCase{"gcc_tsan_race", "gcc", kThread, "TSAN_OPTIONS", "thread:KnownPlace", {"thread"}},
        SuppressedCase{"gcc_tsan_writes", "gcc", kThread, "TSAN_OPTIONS", "race:Write", {"race"}},
        SuppressedCase{"clang_lsan", "clang", kLeak, "LSAN_OPTIONS", "leak:KnownPlace", {"leak", "malloc", "99999"}},
        SuppressedCase{"clang_asan", "clang", kAddress, "LSAN_OPTIONS", "leak:KnownPlace", {"leak", "malloc", "99999"}},
        SuppressedCase{
            "clang_asan_read", "clang", kAddress, "ASAN_OPTIONS", "interceptor_via_fun:KnownPlace", {"overflow"}},
        SuppressedCase{"clang_asan_shared",
                       "clang",
                       "-O1 -fno-omit-frame-pointer -fsanitize=address -shared-libasan -Wl,-rpath,\"$(clang "
                       "-print-resource-dir)/lib/linux\"",
                       "LSAN_OPTIONS",
                       "leak:KnownPlace",
                       {"leak", "posix_memalign", "9"}},
        SuppressedCase{"clang_tsan", "clang", kThread, "TSAN_OPTIONS", "thread:KnownPlace", {"thread"}},
        SuppressedCase{
            "clang_ubsan", "clang", kUndefined, "UBSAN_OPTIONS", "signed-integer-overflow:KnownPlace", {"sum"}}),
    [](const auto& it) { return std::string(it.param.name); });

// A program with ThreadSanitizer is not recorded, and the profile reports that.
TEST(ThreadSanitizer, Child_IsReportedAsUnrecorded) {
  const RunResult result = RunUnderTbprof(AsChild({Program("tsan_works")}));
  ASSERT_NE(result.profile, nullptr);
  ASSERT_EQ(result.summary["unrecorded"].size(), 1u) << result.summary["unrecorded"];
  EXPECT_THAT(result.summary["unrecorded"][0]["reason"].get<std::string>(), HasSubstr("ThreadSanitizer"));
  EXPECT_TRUE(result.Printed("ThreadSanitizer")) << result.AllPrinted();
}

// Of one with AddressSanitizer all but its allocations is recorded, and the profile reports that.
TEST(AddressSanitizer, AllocationsOfTheChild_AreReportedAsUnrecorded) {
  const RunResult result = RunUnderTbprof(AsChild({Program("asan_works")}));
  ASSERT_NE(result.profile, nullptr);
  EXPECT_TRUE(result.Printed("allocations are not recorded")) << result.AllPrinted();
}

TEST(Valgrind, Program_RunsUnderIt) {
  if (access("/usr/bin/valgrind", X_OK) != 0) GTEST_SKIP() << "valgrind is not installed";
  const Pair pair =
      RunBoth({"/usr/bin/valgrind", "-q", "--error-exitcode=9", Program("ends"), "exit", "3"}, RunOptions());
  EXPECT_TRUE(SameOutput(pair.bare, pair.profiled));
  EXPECT_EQ(pair.profiled.code(), 3);
}

// Stacks of Python are read from the program's memory, which valgrind watches.
TEST(Valgrind, Python_HasNoErrorOfOurs) {
  if (access("/usr/bin/valgrind", X_OK) != 0) GTEST_SKIP() << "valgrind is not installed";
  RunOptions options;
  options.environment = {{"PYTHONMALLOC", "malloc"}};
  options.tbprof = {"--wait-threshold=0"};
  const Pair pair = RunBoth({"/usr/bin/valgrind", "-q", "--error-exitcode=9", "/usr/bin/python3", "-S", "-c",
                             "import time; time.sleep(0.1); print(sum(range(1000)))"},
                            options);
  EXPECT_TRUE(SameOutput(pair.bare, pair.profiled)) << pair.profiled.err;
  EXPECT_EQ(pair.profiled.code(), pair.bare.code());
}

}  // namespace
}  // namespace tbprof::integration
