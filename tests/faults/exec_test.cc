// SPDX-License-Identifier: Apache-2.0
// Programs that become others, and programs that cannot be recorded, as children of the command. As the command itself
// they are in run_command_line_test; the exec family is in run_processes_test.
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "../integration/harness.h"

namespace tbprof::integration {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

std::vector<std::string> AsChild(const std::string& text, const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {"/bin/sh", "-c", text, "sh"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

// Among what was not recorded, with a reason.
bool IsNamed(const RunResult& result, const std::string& program) {
  for (const auto& entry : result.summary["unrecorded"]) {
    if (entry["path"] == program && !entry["reason"].get<std::string>().empty()) return true;
  }
  return false;
}

TEST(Exec, ChainOfTenImages_EachIsRecorded) {
  const Pair pair = RunBoth(Program("execs_itself"), {"10"}, {"--wait-threshold=0"});
  ASSERT_TRUE(pair.Same());
  EXPECT_EQ(pair.profiled.code(), 17);
  EXPECT_THAT(pair.profiled.profile->Named("usleep", "main"), SizeIs(11));
  EXPECT_THAT(pair.profiled.summary["processes"], SizeIs(11));
  EXPECT_THAT(pair.profiled.run_directories, SizeIs(1));
}

TEST(Exec, StaticChild_IsNamed) {
  const Pair pair = RunBoth(AsChild("\"$1\"; echo $?", {Program("static_program")}), RunOptions());
  ASSERT_TRUE(pair.Same());
  EXPECT_THAT(pair.profiled.out, HasSubstr("5\n"));
  EXPECT_TRUE(IsNamed(pair.profiled, Program("static_program"))) << pair.profiled.summary["unrecorded"];
}

// Of another class, and static, so that the loader prints no line: exit(6) in 32-bit code. A kernel without
// 32-bit programs refuses it, with us as without.
TEST(Exec, ChildOfAnotherClass_IsAsBare) {
#if defined(__x86_64__)
  const auto number = [](uint32_t value, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> 8 * i);
    return text;
  };
  const std::string code = "\xb8" + number(1, 4) + "\xbb" + number(6, 4) + "\xcd\x80";
  constexpr uint32_t kBase = 0x8048000, kHeaders = 52 + 32;
  std::string elf = std::string("\x7f") + "ELF" + std::string("\1\1\1", 3) + std::string(9, '\0');
  elf += number(2, 2) + number(3, 2) + number(1, 4) + number(kBase + kHeaders, 4) + number(52, 4) + number(0, 4) +
         number(0, 4) + number(52, 2) + number(32, 2) + number(1, 2) + number(0, 6);
  const uint32_t size = kHeaders + static_cast<uint32_t>(code.size());
  elf += number(1, 4) + number(0, 4) + number(kBase, 4) + number(kBase, 4) + number(size, 4) + number(size, 4) +
         number(5, 4) + number(4096, 4) + code;
  TemporaryDirectory directory;
  WriteFile(directory / "class32", elf, 0755);
  const Pair pair = RunBoth(AsChild("\"$1\"; echo $?", {directory / "class32"}), RunOptions());
  ASSERT_TRUE(pair.Same());
  if (pair.bare.out == "6\n") {
    EXPECT_TRUE(IsNamed(pair.profiled, directory / "class32")) << pair.profiled.summary["unrecorded"];
  }
#else
  GTEST_SKIP() << "made of x86 code";
#endif
}

TEST(Exec, ChildWithCapabilities_IsAsBare) {
  TemporaryDirectory directory;
  const std::string copy = directory / "capable";
  std::filesystem::copy_file(Program("ends"), copy);
  ASSERT_EQ(chmod(directory.path().c_str(), 0755), 0);
  if (RunBare({"/bin/sh", "-c", "PATH=$PATH:/usr/sbin:/sbin setcap cap_net_raw+ep \"$1\"", "sh", copy}).code() != 0) {
    GTEST_SKIP() << "no capability may be given here";
  }
  const Pair pair = RunBoth(AsChild("\"$1\" exit 6; echo $?", {copy}), RunOptions());
  ASSERT_TRUE(pair.Same());
  EXPECT_THAT(pair.profiled.out, HasSubstr("6\n"));
}

TEST(Exec, SetuidChild_IsNamed) {
  if (geteuid() != 0) {
    const Pair pair = RunBoth(AsChild("/usr/bin/mount --version", {}), RunOptions());
    EXPECT_TRUE(pair.Same());
    return;
  }
  TemporaryDirectory directory;
  const std::string copy = directory / "setuid";
  std::filesystem::copy_file(Program("ends"), copy);
  ASSERT_EQ(chown(copy.c_str(), 65534, 65534), 0);
  ASSERT_EQ(chmod(copy.c_str(), 04755), 0);
  ASSERT_EQ(chmod(directory.path().c_str(), 0755), 0);
  const Pair pair = RunBoth(AsChild("\"$1\" exit 6; echo $?", {copy}), RunOptions());
  ASSERT_TRUE(pair.Same());
  EXPECT_THAT(pair.profiled.out, HasSubstr("6\n"));
  EXPECT_TRUE(IsNamed(pair.profiled, copy)) << pair.profiled.summary["unrecorded"];
}

TEST(Exec, ChildWithAMissingInterpreter_IsAsBare) {
  TemporaryDirectory directory;
  WriteFile(directory / "script", "#!/nowhere/interpreter\n", 0755);
  const Pair pair = RunBoth(AsChild("\"$1\"; echo $?", {directory / "script"}), RunOptions());
  ASSERT_TRUE(pair.Same());
  EXPECT_THAT(pair.profiled.out, testing::AnyOf(HasSubstr("127\n"), HasSubstr("126\n")));
}

// `env -i`: the child is not recorded, and one line reports that.
TEST(Exec, ChildWithoutOurEnvironment_IsReported) {
  const Pair pair =
      RunBoth(AsChild("env -i \"$1\" exit 6; env -i \"$1\" exit 7; echo $?", {Program("ends")}), RunOptions());
  ASSERT_TRUE(pair.Same());
  EXPECT_TRUE(pair.profiled.profile->HasWarning("without tbprof's LD_PRELOAD"));
}

// Ours preloaded by the user as well: by its own name the loader takes it once, a copy of it twice. One profile, and
// each call counts once.
TEST(Preload, OwnLibraryTwice_EachCallIsCountedOnce) {
  TemporaryDirectory directory;
  const std::string own = TBPROF_BUILD_DIR "/lib/tbprof/libtbprof_preload.so";
  std::filesystem::copy_file(own, directory / "libtbprof_preload.so");
  for (const std::string& library : {own, directory / "libtbprof_preload.so"}) {
    RunOptions options;
    options.environment = {{"LD_PRELOAD", library}};
    options.tbprof = {"--wait-threshold=0"};
    const Pair pair = RunBoth({Program("execs_itself"), "1"}, options);
    ASSERT_TRUE(pair.Same()) << library;
    EXPECT_THAT(pair.profiled.run_directories, SizeIs(1));
    EXPECT_THAT(pair.profiled.profile->Named("usleep", "main"), SizeIs(2)) << library;
    EXPECT_THAT(pair.profiled.summary["processes"], SizeIs(2)) << library;
  }
}

// A library that the program preloads itself stays where it is.
TEST(Preload, LibraryOfTheUser_IsKept) {
  std::string allocator;
  for (const char* path :
       {"/usr/lib/x86_64-linux-gnu/libjemalloc.so.2", "/usr/lib/aarch64-linux-gnu/libjemalloc.so.2"}) {
    if (access(path, R_OK) == 0) allocator = path;
  }
  if (allocator.empty()) GTEST_SKIP() << "libjemalloc2 is not installed";
  RunOptions options;
  options.environment = {{"LD_PRELOAD", allocator}};
  const Pair pair = RunBoth(AsChild("grep -c libjemalloc /proc/self/maps >/dev/null; echo $?", {}), options);
  ASSERT_TRUE(pair.Same());
  EXPECT_THAT(pair.profiled.out, HasSubstr("0\n"));
}

}  // namespace
}  // namespace tbprof::integration
