// SPDX-License-Identifier: Apache-2.0
// The port serves the user of the job and root; others get a reason, and the terminal shows a line.
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness.h"

namespace tbprof::integration {
namespace {

using ::testing::HasSubstr;

struct Job {
  std::unique_ptr<Running> running;
  std::string address, port;
};

Job StartJob(const std::vector<std::string>& more) {
  RunOptions options;
  options.tbprof = {"--window=none", "--port=0"};
  options.tbprof.insert(options.tbprof.end(), more.begin(), more.end());
  Job job;
  job.running = StartUnderTbprof({Program("waits_for_signals"), "60"}, options);
  EXPECT_TRUE(job.running->WaitForError("profiler service on "));
  EXPECT_TRUE(job.running->WaitForFact("warm "));
  const std::string text = job.running->Err();
  const size_t begin = text.find("127.0.0.1:");
  job.address = text.substr(begin, text.find_first_of(" \n", begin) - begin);
  job.port = job.address.substr(job.address.find(':') + 1);
  return job;
}

RunResult End(const Job& job) {
  WriteFile(job.running->path() + "/stop", "");
  return job.running->Wait();
}

// `tbprof capture` of user 65534.
RunResult CaptureAsNobody(const std::string& address) {
  RunOptions options;
  options.launcher = {"/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"};
  options.environment = {{"XDG_CONFIG_HOME", "/nowhere"}};
  options.directory = "/";
  const TemporaryDirectory logdir;
  chmod(logdir.path().c_str(), 0777);
  return RunTbprof({"capture", address, "--duration=200ms", "--retries=0", "--logdir=" + logdir.path()}, options);
}

bool MayBecomeNobody() {
  return geteuid() == 0 &&
         RunBare({"/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/bin/true"}, {}).code() == 0;
}

TEST(PortUsers, SameUser_IsServedByEachAddress) {
  const Job job = StartJob({});
  for (const std::string& host : {std::string("127.0.0.1"), std::string("[::ffff:127.0.0.1]")}) {
    const RunResult capture = RunTbprof({"capture", host + ":" + job.port, "--duration=200ms", "--logdir=logs"});
    EXPECT_EQ(capture.code(), 0) << host << "\n" << capture.AllPrinted();
  }
  const RunResult result = End(job);
  EXPECT_FALSE(result.Printed("refused")) << result.AllPrinted();
}

TEST(PortUsers, AnotherUser_IsDeniedAndNamed) {
  if (!MayBecomeNobody()) GTEST_SKIP() << "needs root and setpriv: only root has another user to be";
  const Job job = StartJob({});
  for (const std::string& host : {std::string("127.0.0.1"), std::string("[::1]"), std::string("[::ffff:127.0.0.1]")}) {
    if (host == "[::1]" && job.running->Err().find("[::1]") == std::string::npos) continue;
    const RunResult capture = CaptureAsNobody(host + ":" + job.port);
    EXPECT_NE(capture.code(), 0) << host;
    EXPECT_THAT(capture.AllPrinted(),
                HasSubstr("this connection is of user 65534; start the job with --port-users=65534"));
  }
  ASSERT_TRUE(job.running->WaitForError("refused, the last of user 65534"));
  // The port still works for its own user.
  const RunResult own = RunTbprof({"capture", job.address, "--duration=200ms", "--logdir=logs"});
  EXPECT_EQ(own.code(), 0) << own.AllPrinted();
  const RunResult result = End(job);
  EXPECT_FALSE(result.Printed("asked for by 127.0.0.1") && result.Printed("capture 2")) << result.AllPrinted();
}

TEST(PortUsers, Option_OtherUsersAreAllowed) {
  if (!MayBecomeNobody()) GTEST_SKIP() << "needs root and setpriv: only root has another user to be";
  for (const char* option : {"--port-users=65534", "--port-users=any", "--port-users=7"}) {
    const Job job = StartJob({option});
    const RunResult capture = CaptureAsNobody(job.address);
    const bool denied = capture.Printed("this connection is of user 65534");
    EXPECT_EQ(denied, std::string(option) == "--port-users=7") << capture.AllPrinted();
    End(job);
  }
}

TEST(PortUsers, EnvironmentVariable_IsTheOption) {
  RunOptions options;
  options.environment = {{"TBPROF_PORT_USERS", "nonsense"}};
  const RunResult result = RunUnderTbprof({"/bin/true"}, options);
  EXPECT_EQ(result.code(), 125);
  EXPECT_THAT(result.AllPrinted(), HasSubstr("TBPROF_PORT_USERS"));
}

}  // namespace
}  // namespace tbprof::integration
