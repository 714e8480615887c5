// SPDX-License-Identifier: Apache-2.0
//
// Libraries that are missing, damaged or of another version: one line has the true cause, and no process of the command
// starts with a library that the dynamic linker would report.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "harness.h"
#include "wire/layout.h"

namespace tbprof::integration {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kPreload[] = "libtbprof_preload.so";
constexpr char kCupti[] = "libtbprof_cupti.so";

class HalfInstallation : public testing::Test {
 protected:
  HalfInstallation() {
    std::filesystem::copy(std::string(TBPROF_BUILD_DIR) + "/lib/tbprof", libraries_,
                          std::filesystem::copy_options::recursive);
  }

  std::string Path(std::string_view name) const { return libraries_ + "/" + std::string(name); }
  void Write(std::string_view name, const std::string& bytes) { std::ofstream(Path(name), std::ios::binary) << bytes; }
  // Replaces every `from` by `to`, which has the same length.
  void Replace(std::string_view name, const std::string& from, const std::string& to) {
    std::string bytes = ReadFile(Path(name));
    size_t count = 0;
    for (size_t at = 0; (at = bytes.find(from, at)) != std::string::npos; at += to.size(), ++count) {
      bytes.replace(at, from.size(), to);
    }
    ASSERT_GT(count, 0u) << name;
    Write(name, bytes);
  }
  static std::string Mark(uint32_t abi) {
    return "tbprof library: " + std::string(reinterpret_cast<const char*>(&abi), sizeof(abi));
  }

  RunResult Run(const std::vector<std::string>& options = {}) {
    RunOptions run;
    run.tbprof = options;
    run.environment = {{"TBPROF_LIBRARY_DIR", libraries_}};
    return RunUnderTbprof({"sh", "-c", "echo ran; echo own words >&2; exit 7"}, run);
  }
  void ExpectStopped(const std::string& cause) {
    const RunResult stopped = Run();
    EXPECT_EQ(stopped.code(), 125);
    EXPECT_THAT(stopped.out, IsEmpty());
    EXPECT_THAT(stopped.err, IsEmpty());
    EXPECT_THAT(stopped.printed, testing::ElementsAre(AllOf(HasSubstr(Path(kPreload)), HasSubstr(cause))));
    // If requested, the command runs without any text of tbprof on its stderr.
    const RunResult ran = Run({"--on-error=run"});
    EXPECT_EQ(ran.code(), 7);
    EXPECT_EQ(ran.out, "ran\n");
    EXPECT_EQ(ran.err, "own words\n");
    EXPECT_TRUE(ran.Printed(cause)) << ran.AllPrinted();
  }
  void ExpectWithoutGpu(const std::string& cause) {
    const RunResult ran = Run();
    EXPECT_EQ(ran.code(), 7);
    EXPECT_EQ(ran.out, "ran\n");
    EXPECT_EQ(ran.err, "own words\n");
    EXPECT_TRUE(ran.Printed("no GPU work is recorded: " + cause)) << ran.AllPrinted();
    ASSERT_NE(ran.profile, nullptr);
    EXPECT_THAT(ran.summary["warnings"].dump(), HasSubstr(cause));
    const RunResult required = Run({"--require-gpu"});
    EXPECT_EQ(required.code(), 125);
    EXPECT_TRUE(required.Printed("--require-gpu: " + cause)) << required.AllPrinted();
    const RunResult off = Run({"--cuda=off"});
    EXPECT_EQ(off.code(), 7);
    EXPECT_FALSE(off.Printed(cause)) << off.AllPrinted();
  }

  TemporaryDirectory directory_;
  std::string libraries_ = directory_ / "libraries";
};

TEST_F(HalfInstallation, Whole_Records) {
  const RunResult result = Run();
  EXPECT_EQ(result.code(), 7);
  ASSERT_NE(result.profile, nullptr);
  EXPECT_FALSE(result.Printed("no GPU work is recorded")) << result.AllPrinted();
}

TEST_F(HalfInstallation, PreloadLibraryMissing_StopsWithItsName) {
  std::filesystem::remove(Path(kPreload));
  ExpectStopped("No such file");
}

TEST_F(HalfInstallation, PreloadLibraryNoElfFile_Stops) {
  Write(kPreload, "garbage");
  ExpectStopped("it is no library");
}

TEST_F(HalfInstallation, PreloadLibraryEmpty_Stops) {
  Write(kPreload, "");
  ExpectStopped("it is no library");
}

// If it was loaded, the truncated library would end the program by SIGBUS.
TEST_F(HalfInstallation, PreloadLibraryCutShort_Stops) {
  std::filesystem::resize_file(Path(kPreload), 100'000);
  ExpectStopped("it is cut short");
}

TEST_F(HalfInstallation, PreloadLibraryOfAnotherMachine_Stops) {
  std::string bytes = ReadFile(Path(kPreload));
  bytes[18] = static_cast<char>(0xf3);  // e_machine: RISC-V
  bytes[19] = 0;
  Write(kPreload, bytes);
  ExpectStopped("it is a library for another machine");
}

TEST_F(HalfInstallation, PreloadLibraryOfAnotherVersion_Stops) {
  Replace(kPreload, Mark(kAbiVersion), Mark(kAbiVersion - 1));
  ExpectStopped("it is of another version of tbprof (wire format " + std::to_string(kAbiVersion - 1) + ", not " +
                std::to_string(kAbiVersion) + ")");
}

TEST_F(HalfInstallation, PreloadLibraryWithoutMark_Stops) {
  Replace(kPreload, "tbprof library: ", "tbprof_library: ");
  ExpectStopped("it is not of this version of tbprof");
}

TEST_F(HalfInstallation, PreloadLibraryForNewerGlibc_Stops) {
  Replace(kPreload, std::string("GLIBC_2.34\0", 11), std::string("GLIBC_2.99\0", 11));
  ExpectStopped("it needs glibc 2.99, this is ");
}

TEST_F(HalfInstallation, CuptiLibraryMissing_WarnsAndRecords) {
  std::filesystem::remove(Path(kCupti));
  ExpectWithoutGpu("no libtbprof_cupti.so in " + libraries_);
}

TEST_F(HalfInstallation, CuptiLibraryOfAnotherVersion_WarnsAndRecords) {
  Replace(kCupti, Mark(kAbiVersion), Mark(kAbiVersion + 1));
  ExpectWithoutGpu(Path(kCupti) + " is of another version of tbprof");
}

TEST_F(HalfInstallation, CuptiLibraryCutShort_WarnsAndRecords) {
  std::filesystem::resize_file(Path(kCupti), 50'000);
  ExpectWithoutGpu(Path(kCupti) + " is cut short");
}

}  // namespace
}  // namespace tbprof::integration
