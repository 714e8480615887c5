// SPDX-License-Identifier: Apache-2.0
//
// The process of the conversion, as the launcher handles it: however it ends, the launcher prints a line and goes on.
#include "launcher/convert/conversion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "absl/time/clock.h"
#include "tests/unit/writer/spool_maker.h"

namespace tbprof {
namespace {

constexpr char kWait[] = "CONVERSION_TEST_WAIT";            // the worker does nothing until it is killed
constexpr char kPublishes[] = "CONVERSION_TEST_PUBLISHES";  // it prints that it publishes, and then: "waits" or "runs"
constexpr char kMemory[] = "CONVERSION_TEST_MEMORY";        // bytes of address space, set before the worker's own limit
constexpr char kSignal[] = "CONVERSION_TEST_END_BY_SIGNAL";  // the worker ends by it

class ConversionTest : public testing::Test {
 protected:
  ConversionTest() : logdir_("conversion"), spool_("conversion_spool") {
    std::filesystem::create_directory(logdir_.path());
    request_.spool = spool_.path();
    request_.logdir = logdir_.path();
    request_.run = "run";
    request_.host = "node";
    request_.max_profile_size = 64u << 20;
  }
  ~ConversionTest() override {
    for (const char* name : {kWait, kPublishes, kMemory, kSignal}) unsetenv(name);
  }

  static bool Wait(Conversion* conversion) {
    for (int i = 0; i < 100; ++i) {
      if (conversion->Read()) return true;
      pollfd entry{conversion->fd(), POLLIN, 0};
      poll(&entry, 1, 1000);
    }
    return false;
  }
  ConversionResult Result() {
    auto conversion = Conversion::Start(request_);
    EXPECT_TRUE(conversion.ok()) << conversion.status();
    EXPECT_TRUE(conversion.ok() && Wait(conversion->get()));
    return conversion.ok() ? (*conversion)->result() : ConversionResult();
  }
  // The logdir holds no profile, not even an incomplete one.
  bool NothingIsLeft() const {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(logdir_.path())) {
      if (entry.is_regular_file()) return false;
    }
    return true;
  }

  SpoolMaker maker_;
  TemporaryPath logdir_, spool_;
  ConversionRequest request_;
};

TEST_F(ConversionTest, ValidSpool_GivesAProfile) {
  maker_.Session().Segment(1, {{"read"}}).Process(1, 1, 100, 10).Thread(1, 1, 1, 100, 10);
  spool_.Write(maker_.Bytes());
  const ConversionResult result = Result();
  EXPECT_TRUE(result.status.ok()) << result.status;
  EXPECT_TRUE(std::filesystem::exists(result.directory + "/node.xplane.pb"));
}

TEST_F(ConversionTest, KilledWorker_IsOneErrorLine) {
  spool_.Write(maker_.Session().Bytes());
  setenv(kWait, "1", 1);
  auto conversion = Conversion::Start(request_);
  ASSERT_TRUE(conversion.ok());
  EXPECT_FALSE((*conversion)->Read());
  ASSERT_EQ(kill((*conversion)->pid(), SIGKILL), 0);  // as by the OOM killer
  ASSERT_TRUE(Wait(conversion->get()));
  EXPECT_EQ((*conversion)->result().status.message(), "the conversion was ended by signal 9 (Killed)");
  EXPECT_TRUE((*conversion)->Read());
  EXPECT_TRUE(NothingIsLeft());
}

TEST_F(ConversionTest, CrashedWorker_IsOneErrorLine) {
  spool_.Write(maker_.Session().Bytes());
  setenv(kSignal, std::to_string(SIGSEGV).c_str(), 1);
  EXPECT_EQ(Result().status.message(), "the conversion was ended by signal 11 (Segmentation fault)");
  EXPECT_TRUE(NothingIsLeft());
}

TEST_F(ConversionTest, Destruction_EndsTheWorker) {
  spool_.Write(maker_.Session().Bytes());
  setenv(kWait, "1", 1);
  auto conversion = Conversion::Start(request_);
  ASSERT_TRUE(conversion.ok());
  const pid_t worker = (*conversion)->pid();
  conversion->reset();
  EXPECT_EQ(kill(worker, 0), -1);
}

TEST_F(ConversionTest, Stalled_WorkerWaitsForADirectory_Counts) {
  constexpr absl::Duration kLimit = absl::Milliseconds(500);
  for (const std::string does : {"waits", "runs"}) {
    setenv(kPublishes, does.c_str(), 1);
    auto conversion = Conversion::Start(request_);
    ASSERT_TRUE(conversion.ok());
    pollfd entry{(*conversion)->fd(), POLLIN, 0};
    ASSERT_EQ(poll(&entry, 1, 60'000), 1);
    absl::Duration stalled;
    const absl::Time end = absl::Now() + (does == "waits" ? absl::Seconds(60) : 4 * kLimit);
    while (absl::Now() < end && stalled <= kLimit) {
      EXPECT_FALSE((*conversion)->Read());
      stalled = (*conversion)->Stalled();
      absl::SleepFor(absl::Milliseconds(20));
    }
    EXPECT_EQ(stalled > kLimit, does == "waits") << does << ", " << stalled;
  }
}

TEST_F(ConversionTest, RaisePriority_WorkerBesideTheCommand_IsRaised) {
  setenv(kWait, "1", 1);
  request_.beside_command = true;
  auto conversion = Conversion::Start(request_);
  ASSERT_TRUE(conversion.ok());
  const auto worker = static_cast<id_t>((*conversion)->pid());
  EXPECT_EQ(getpriority(PRIO_PROCESS, worker), 19);
  // RaisePriority succeeds exactly if this process may set the priority of its child.
  const int own = getpriority(PRIO_PROCESS, 0);
  const bool may = setpriority(PRIO_PROCESS, worker, own) == 0;
  setpriority(PRIO_PROCESS, worker, 19);
  (*conversion)->RaisePriority();
  EXPECT_EQ(getpriority(PRIO_PROCESS, worker), may ? own : 19);
}

TEST_F(ConversionTest, SpoolThatNeedsTooMuchMemory_IsOneErrorLine) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's shadow needs terabytes of addresses";
#endif
  // The converter keeps the facts of each thread: a hostile target can claim as many threads as its spool has room for.
  maker_.Session().Segment(1, {{"read"}}).Process(1, 1, 100, 10);
  for (uint32_t serial = 1; serial <= 150'000; ++serial) maker_.Thread(1, serial, 1, 100, 10);
  spool_.Write(maker_.Bytes());
  setenv(kMemory, std::to_string(96u << 20).c_str(), 1);
  const ConversionResult result = Result();
  EXPECT_THAT(std::string(result.status.message()), testing::HasSubstr("needs more memory than the 96 MiB"));
  EXPECT_TRUE(NothingIsLeft());
}

TEST_F(ConversionTest, InvalidSpool_IsOneErrorLine) {
  for (const std::string& bytes :
       {std::string(), std::string("x"), std::string(1 << 20, 'x'),
        std::string(kSpoolMagic, 8) + std::string(1 << 20, '\0'), SpoolMaker().Bytes(),
        SpoolMaker().Session(1, "{").Bytes(), SpoolMaker().Session(1, std::string(1 << 20, '[')).Bytes()}) {
    spool_.Write(bytes);
    const ConversionResult result = Result();
    const std::string line(result.status.message());
    EXPECT_FALSE(line.empty());
    EXPECT_EQ(line.find("signal"), std::string::npos) << line;
    EXPECT_EQ(line.find('\n'), std::string::npos) << line;
  }
  EXPECT_TRUE(NothingIsLeft());
}

// Names in a spool, used as paths, must never lead out of the logdir.
TEST_F(ConversionTest, NamesInTheSpool_AreNoPaths) {
  for (const char* host : {"../../../host", "/etc/host", "..", "a/../../b", ""}) {
    request_.host = "";
    spool_.Write(
        SpoolMaker()
            .Session(1000, std::string(R"({"run":"../../run","logdir":"/nonexistent","host":")") + host + "\"}")
            .Segment(1, {{"../../read"}})
            .Process(1, 1, 100, 10)
            .Thread(1, 1, 1, 100, 10)
            .Bytes());
    request_.run = "run";
    const ConversionResult result = Result();
    ASSERT_TRUE(result.status.ok()) << result.status;
    EXPECT_EQ(std::filesystem::path(result.directory).parent_path(), logdir_.path() + "/plugins/profile");
    for (const auto& entry : std::filesystem::directory_iterator(result.directory))
      EXPECT_TRUE(entry.is_regular_file());
  }
  request_.run = "../../run";
  EXPECT_THAT(std::string(Result().status.message()), testing::HasSubstr("cannot be the name of a run"));
}

}  // namespace
}  // namespace tbprof

int main(int argc, char** argv) {
  if (tbprof::IsConvertWorker(argc, argv)) {
    if (getenv(tbprof::kWait) != nullptr) {
      for (;;) pause();
    }
    if (const char* text = getenv(tbprof::kPublishes); text != nullptr) {
      constexpr char kWord[] = "{\"publishing\":true}\n";
      if (write(4, kWord, strlen(kWord)) < 0) return 1;
      for (volatile bool runs = *text == 'r';;) {
        if (!runs) pause();
      }
    }
    if (const char* text = getenv(tbprof::kSignal); text != nullptr) {
      const rlimit none{0, 0};
      setrlimit(RLIMIT_CORE, &none);
      signal(atoi(text), SIG_DFL);
      raise(atoi(text));
    }
    if (const char* text = getenv(tbprof::kMemory); text != nullptr) {
      const auto bytes = static_cast<rlim_t>(atoll(text));
      const rlimit limit{bytes, bytes};
      setrlimit(RLIMIT_AS, &limit);
    }
    return tbprof::ConvertWorker();
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
