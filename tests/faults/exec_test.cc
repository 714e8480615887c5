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

TEST(Exec, ChainOfTenImages) {
  const Pair pair = RunBoth(Program("execs_itself"), {"10"}, {"--wait-threshold=0"});
  ASSERT_TRUE(pair.Same());
  EXPECT_EQ(pair.profiled.code(), 17);
  EXPECT_THAT(pair.profiled.profile->Named("usleep", "main"), SizeIs(11));
  EXPECT_THAT(pair.profiled.summary["processes"], SizeIs(11));
  EXPECT_THAT(pair.profiled.run_directories, SizeIs(1));
}

// The loader says a line of its own for a program of another class, in every process that starts one.
TEST(Exec, ChildThatIsStatic) {
  const Pair pair = RunBoth(AsChild("\"$1\"; echo $?", {Program("static_program")}), RunOptions());
  ASSERT_TRUE(pair.Same());
  EXPECT_THAT(pair.profiled.out, HasSubstr("5\n"));
}

TEST(Exec, ChildThatIsSetuid) {
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
}

TEST(Exec, ChildWithAnInterpreterThatIsMissing) {
  TemporaryDirectory directory;
  WriteFile(directory / "script", "#!/nowhere/interpreter\n", 0755);
  const Pair pair = RunBoth(AsChild("\"$1\"; echo $?", {directory / "script"}), RunOptions());
  ASSERT_TRUE(pair.Same());
  EXPECT_THAT(pair.profiled.out, testing::AnyOf(HasSubstr("127\n"), HasSubstr("126\n")));
}

// `env -i`: the child is not recorded, and that is said once.
TEST(Exec, ChildWithoutOurEnvironment) {
  const Pair pair =
      RunBoth(AsChild("env -i \"$1\" exit 6; env -i \"$1\" exit 7; echo $?", {Program("ends")}), RunOptions());
  ASSERT_TRUE(pair.Same());
  EXPECT_TRUE(pair.profiled.profile->HasWarning("without LD_PRELOAD"));
}

// A library that the program preloads itself stays where it is.
TEST(Preload, OfTheUserIsKept) {
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
