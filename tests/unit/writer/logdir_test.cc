// SPDX-License-Identifier: Apache-2.0
#include "writer/logdir/logdir.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>

#include "writer/base/crc32c.h"
#include "writer/outputs/xplane.h"

namespace tbprof {
namespace {

namespace fs = std::filesystem;

bool Contains(const absl::Status& status, std::string_view text) {
  return std::string(status.message()).find(text) != std::string::npos;
}

std::string Read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::string> Names(const fs::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) {
    // Every run has this empty file, for a TensorBoard that may not write there.
    if (entry.path().filename() == "NO_MODULE.hlo_proto.pb") {
      EXPECT_EQ(entry.file_size(), 0u);
    } else {
      names.push_back(entry.path().filename());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

Timeline SmallTimeline(const std::string& host) {
  Timeline timeline;
  timeline.host = host;
  timeline.duration_ps = 1'000'000'000;
  timeline.types = {{"read", EventFamily::kIo}};
  timeline.processes.resize(1);
  timeline.threads.resize(1);
  timeline.threads[0].events.resize(3);
  return timeline;
}

// Runs `body` in a child without root; the child's failures fail the test.
bool AsNobody(const std::function<bool()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) _exit(3);
    _exit(body() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

absl::StatusOr<std::unique_ptr<RunDirectory>> CreateRun(const std::string& logdir, const std::string& run,
                                                        bool exclusive, const std::string& host, int rank,
                                                        const std::vector<int>& further_ranks = {},
                                                        RankNames names = RankNames::kHosts) {
  const absl::StatusOr<LogDirectory> held = LogDirectory::Open(logdir);
  if (!held.ok()) return held.status();
  return RunDirectory::Create(held->fd.get(), logdir, run, exclusive, host, rank, further_ranks, names);
}

class LogdirTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/tbprof_logdir_XXXXXX";
    root_ = fs::canonical(mkdtemp(pattern.data()));
    chmod(root_.c_str(), 0755);
    logdir_ = root_ / "logs";
  }
  void TearDown() override { fs::remove_all(root_); }

  fs::path Profile() const { return logdir_ / "plugins/profile"; }

  absl::StatusOr<std::vector<RunDirectory::File>> PublishOne(const std::string& run, bool exclusive, int rank = -1,
                                                             std::string* made_run = nullptr) {
    auto directory = CreateRun(logdir_, run, exclusive, "node", rank);
    if (!directory.ok()) return directory.status();
    const Timeline timeline = SmallTimeline((*directory)->HostOf(rank));
    if (absl::Status status = (*directory)->Write(*FindOutput("xplane"), timeline).status(); !status.ok())
      return status;
    if (absl::Status status = (*directory)->WriteText("summary.json", "{}\n"); !status.ok()) return status;
    auto files = (*directory)->Publish();
    if (made_run != nullptr) *made_run = (*directory)->run();
    return files;
  }

  fs::path root_, logdir_;
};

TEST(NormaliseLogdir, RelativePath_BecomesAbsolute) {
  EXPECT_EQ(*NormaliseLogdir("logs", "/home/me"), "/home/me/logs");
  EXPECT_EQ(*NormaliseLogdir("./a//b/../c/.", "/w"), "/w/a/c");
  EXPECT_EQ(*NormaliseLogdir("/x/plugins", "/w"), "/x");
  EXPECT_EQ(*NormaliseLogdir("/x/plugins/profile/", "/w"), "/x");
  EXPECT_EQ(*NormaliseLogdir("/plugins/profile", "/w"), "/");
  EXPECT_EQ(*NormaliseLogdir("../../../../x", "/w"), "/x");
  EXPECT_EQ(*NormaliseLogdir("a:b", "/w"), "/w/a:b");
  EXPECT_EQ(*NormaliseLogdir("spaces and 'quotes'", "/w"), "/w/spaces and 'quotes'");
}

TEST(NormaliseLogdir, UrlOrEmptyPath_IsRefused) {
  for (const char* url : {"gs://bucket/x", "s3://b", "file:///x", "hdfs+v2://x"}) {
    const auto result = NormaliseLogdir(url, "/w");
    EXPECT_TRUE(absl::IsInvalidArgument(result.status()));
    EXPECT_TRUE(Contains(result.status(), url));
    EXPECT_TRUE(Contains(result.status(), "copy"));
    EXPECT_TRUE(Contains(result.status(), "mount"));
  }
  EXPECT_FALSE(NormaliseLogdir("", "/w").ok());
}

TEST_F(LogdirTest, RanksOfOneLauncher_HaveAFileEach) {
  ASSERT_TRUE(PrepareLogdir(logdir_, "node").ok());
  const auto create = [&](RankNames names) {
    auto directory = CreateRun(logdir_, "run", false, "node", 4, {5, 6}, names);
    EXPECT_TRUE(directory.ok()) << directory.status();
    return *std::move(directory);
  };
  const auto hosts = create(RankNames::kHosts);
  EXPECT_EQ(hosts->HostOf(4), "node_r4");
  EXPECT_EQ(hosts->HostOf(6), "node_r6");
  fs::create_directories(Profile() / "run");
  const auto client = create(RankNames::kClient);
  ASSERT_NE(client->host(), "node") << "the other one has reserved it";
  EXPECT_EQ(client->HostOf(4), client->host());
  EXPECT_EQ(client->HostOf(6), client->host() + ".r6");
  EXPECT_EQ(RunDirectory::NameForClient("node.r7.xplane.pb", "node.r7"), "xplane.pb");
  EXPECT_EQ(RunDirectory::NameForClient("node.r7.r1.xplane.pb", "node.r7"), "r1.xplane.pb");
}

// With a launcher per rank, the file name does not depend on which rank is first.
TEST_F(LogdirTest, FileOfOneRank_HasTheRankInItsName) {
  ASSERT_TRUE(PrepareLogdir(logdir_, "node").ok());
  for (const int rank : {3, 0}) ASSERT_TRUE(PublishOne("named", false, rank).ok());
  ASSERT_TRUE(PublishOne("alone", true, 5).ok());
  EXPECT_EQ(Names(Profile() / "named"), (std::vector<std::string>{"node_r0.summary.json", "node_r0.xplane.pb",
                                                                  "node_r3.summary.json", "node_r3.xplane.pb"}));
  EXPECT_EQ(Names(Profile() / "alone"), (std::vector<std::string>{"node_r5.xplane.pb", "summary.json"}));
  ASSERT_TRUE(PublishOne("named", false, 3).ok());
  EXPECT_EQ(Names(Profile() / "named").size(), 6u) << "nothing is replaced";
  auto client = CreateRun(logdir_, "run", false, "node", 4, {}, RankNames::kClient);
  ASSERT_TRUE(client.ok());
  EXPECT_EQ((*client)->HostOf(4), "node");
}

TEST_F(LogdirTest, FileOfAnotherRank_TakesTheName) {
  ASSERT_TRUE(PrepareLogdir(logdir_, "node").ok());
  for (const auto& [names, file] : std::vector<std::pair<RankNames, std::string>>{
           {RankNames::kHosts, "a_r5"}, {RankNames::kClient, "b.r5"}, {RankNames::kClient, "c"}}) {
    fs::create_directories(Profile() / "run");
    std::ofstream(Profile() / "run" / (file + ".xplane.pb")) << "other";
    auto directory = CreateRun(logdir_, "run", false, file.substr(0, 1), 4, {5, 6}, names);
    ASSERT_TRUE(directory.ok()) << directory.status();
    EXPECT_NE((*directory)->host(), file.substr(0, 1));
  }
}

TEST_F(LogdirTest, Normalise_LinkBeforeParent_IsFollowedFirst) {
  fs::create_directories(root_ / "real/deep");
  fs::create_directory_symlink(root_ / "real/deep", root_ / "link");
  EXPECT_EQ(*NormaliseLogdir("link/../x", root_), fs::canonical(root_ / "real").string() + "/x");
}

TEST_F(LogdirTest, Prepare_NewDirectory_HasItsLevels) {
  ASSERT_TRUE(PrepareLogdir(logdir_, "node").ok());
  EXPECT_TRUE(fs::is_directory(Profile()));
  EXPECT_TRUE(fs::is_empty(Profile()));
  EXPECT_EQ(Read(logdir_ / ".gitignore"), "*\n");
  EXPECT_FALSE(fs::exists(logdir_ / ".tbprof"));
  ASSERT_TRUE(PrepareLogdir(logdir_, "node").ok());
  EXPECT_EQ(Names(logdir_).size(), 3u);  // .gitignore, the events file, plugins
}

TEST_F(LogdirTest, Prepare_ExistingDirectory_HasNoGitignore) {
  fs::create_directory(logdir_);
  ASSERT_TRUE(PrepareLogdir(logdir_, "node").ok());
  EXPECT_FALSE(fs::exists(logdir_ / ".gitignore"));
}

TEST_F(LogdirTest, Prepare_EmptyEventsFile_IsOneRecord) {
  ASSERT_TRUE(PrepareLogdir(logdir_, "node").ok());
  fs::path events;
  for (const std::string& name : Names(logdir_)) {
    if (name.ends_with(".profile-empty")) events = logdir_ / name;
  }
  EXPECT_TRUE(events.filename().string().starts_with("events.out.tfevents."));
  EXPECT_NE(events.filename().string().find(".node."), std::string::npos);
  const std::string bytes = Read(events);
  uint64_t length = 0;
  ASSERT_GT(bytes.size(), 16u);
  memcpy(&length, bytes.data(), 8);
  ASSERT_EQ(bytes.size(), 16 + length);
  auto masked = [&](size_t at, size_t size) {
    const uint32_t crc = Crc32c(0, bytes.data() + at, size);
    return static_cast<uint32_t>((crc >> 15 | crc << 17) + 0xA282EAD8);
  };
  uint32_t crc = 0;
  memcpy(&crc, &bytes[8], 4);
  EXPECT_EQ(crc, masked(0, 8));
  memcpy(&crc, &bytes[12 + length], 4);
  EXPECT_EQ(crc, masked(12, length));
  EXPECT_NE(bytes.find("\x1a\x0d"
                       "brain.Event:2"),
            std::string::npos);
  double wall_time = 0;
  memcpy(&wall_time, &bytes[13], 8);
  EXPECT_NEAR(wall_time, static_cast<double>(time(nullptr)), 60);
}

TEST_F(LogdirTest, Prepare_OtherEmptyEventsFile_IsEnough) {
  fs::create_directory(logdir_);
  std::ofstream(logdir_ / "events.out.tfevents.1.other.profile-empty") << "x";
  ASSERT_TRUE(PrepareLogdir(logdir_, "node").ok());
  EXPECT_EQ(Names(logdir_).size(), 2u);
}

TEST_F(LogdirTest, Prepare_UnusableDirectory_ErrorNamesTheCause) {
  std::ofstream(root_ / "file") << "x";
  absl::Status status = PrepareLogdir(root_ / "file", "node");
  EXPECT_TRUE(Contains(status, (root_ / "file").string() + ": Not a directory")) << status;
  status = PrepareLogdir(root_ / "file/below/it", "node");
  EXPECT_TRUE(Contains(status, (root_ / "file").string())) << status;
  status = PrepareLogdir("/proc/tbprof/logs", "node");
  EXPECT_TRUE(Contains(status, "/proc/tbprof")) << status;
  EXPECT_TRUE(Contains(status, "/proc exists")) << status;
  status = PrepareLogdir(root_.string() + "/" + std::string(300, 'x'), "node");
  EXPECT_TRUE(Contains(status, "File name too long")) << status;
}

TEST_F(LogdirTest, Prepare_MissingPermission_NamesOwnerAndMode) {
  ASSERT_TRUE(PrepareLogdir(logdir_, "node").ok());
  EXPECT_TRUE(AsNobody([&] {
    const absl::Status status = PrepareLogdir(logdir_, "node");
    return absl::IsPermissionDenied(status) && Contains(status, logdir_.string()) &&
           Contains(status, "Permission denied") && Contains(status, "this is uid 65534") &&
           Contains(status, "belongs to uid 0") && Contains(status, "mode 0755");
  }));
  EXPECT_TRUE(AsNobody([&] {
    const absl::Status status = PrepareLogdir(root_ / "other/deep", "node");
    return absl::IsPermissionDenied(status) && Contains(status, (root_ / "other").string());
  }));
}

TEST_F(LogdirTest, Prepare_LinkOfAnotherUser_IsNotFollowed) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to be two users";
  fs::create_directory(logdir_);
  chmod(logdir_.c_str(), 01777);
  fs::create_directory(root_ / "victim");
  chmod((root_ / "victim").c_str(), 0777);
  ASSERT_TRUE(AsNobody([&] { return symlink((root_ / "victim").c_str(), (logdir_ / "plugins").c_str()) == 0; }));
  const absl::Status status = PrepareLogdir(logdir_, "node");
  EXPECT_TRUE(Contains(status, "symbolic link")) << status;
  EXPECT_TRUE(fs::is_empty(root_ / "victim"));
  // A link of the caller's own user is not followed either: a cloned repository may hold it.
  fs::remove(logdir_ / "plugins");
  fs::create_directory_symlink(root_ / "victim", logdir_ / "plugins");
  EXPECT_TRUE(Contains(PrepareLogdir(logdir_, "node"), "symbolic link"));
  EXPECT_TRUE(fs::is_empty(root_ / "victim"));
}

TEST_F(LogdirTest, Publish_CompleteFiles_AreShownAtOnce) {
  ASSERT_TRUE(PrepareLogdir(logdir_, "node").ok());
  {
    auto directory = CreateRun(logdir_, "run", true, "node", -1);
    ASSERT_TRUE(directory.ok()) << directory.status();
    ASSERT_TRUE((*directory)->Write(*FindOutput("xplane"), SmallTimeline("node")).ok());
    EXPECT_TRUE(fs::is_empty(Profile()));
    for (const auto& entry : fs::recursive_directory_iterator(logdir_)) {
      EXPECT_FALSE(entry.path().string().ends_with(".xplane.pb"));
    }
    const auto files = (*directory)->Publish();
    ASSERT_TRUE(files.ok()) << files.status();
    ASSERT_EQ(files->size(), 1u);
    EXPECT_EQ((*files)[0].path, (Profile() / "run/node.xplane.pb").string());
    EXPECT_EQ((*files)[0].bytes, fs::file_size((*files)[0].path));
    EXPECT_EQ((*files)[0].verified, "verified: 2 planes, 1 line, 3 events");
  }
  EXPECT_EQ(Names(Profile() / "run"), std::vector<std::string>{"node.xplane.pb"});
  EXPECT_TRUE(fs::exists(Profile() / "run/NO_MODULE.hlo_proto.pb"));
  EXPECT_FALSE(fs::exists(logdir_ / ".tbprof"));
}

TEST_F(LogdirTest, Publish_EachUmask_SetsTheModes) {
  for (mode_t mask : {0022, 0077, 0000}) {
    const mode_t before = umask(mask);
    const std::string run = "run" + std::to_string(mask);
    ASSERT_TRUE(PrepareLogdir(logdir_, "node").ok());
    ASSERT_TRUE(PublishOne(run, true).ok());
    umask(before);
    struct stat info;
    ASSERT_EQ(stat((Profile() / run).c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777, 0777u & ~mask);
    ASSERT_EQ(stat((Profile() / run / "node.xplane.pb").c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777, 0666u & ~mask);
  }
}

TEST_F(LogdirTest, Run_NotPublished_IsRemoved) {
  ASSERT_TRUE(PrepareLogdir(logdir_, "node").ok());
  {
    auto directory = CreateRun(logdir_, "run", true, "node", -1);
    ASSERT_TRUE((*directory)->WriteText("summary.json", "{}").ok());
  }
  EXPECT_TRUE(fs::is_empty(Profile()));
  EXPECT_FALSE(fs::exists(logdir_ / ".tbprof"));
}

TEST_F(LogdirTest, Run_AutomaticName_NeverCollides) {
  ASSERT_TRUE(PrepareLogdir(logdir_, "node").ok());
  std::string run;
  ASSERT_TRUE(PublishOne("run", true, -1, &run).ok());
  EXPECT_EQ(run, "run");
  ASSERT_TRUE(PublishOne("run", true, -1, &run).ok());
  EXPECT_EQ(run, "run_2");
  // A capture that is not published yet has reserved the name.
  auto open = CreateRun(logdir_, "run", true, "node", -1);
  ASSERT_TRUE(open.ok());
  EXPECT_EQ((*open)->run(), "run_3");
  ASSERT_TRUE(PublishOne("run", true, -1, &run).ok());
  EXPECT_EQ(run, "run_4");
  // Another program takes the name between reservation and publishing.
  fs::create_directory(Profile() / "run_3");
  ASSERT_TRUE((*open)->WriteText("summary.json", "{}").ok());
  const auto files = (*open)->Publish();
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ((*open)->run(), "run_3_2");
  EXPECT_TRUE(fs::is_empty(Profile() / "run_3"));
}

TEST_F(LogdirTest, Run_SixteenProcessesInOneSecond_HaveSixteenNames) {
  ASSERT_TRUE(PrepareLogdir(logdir_, "node").ok());
  for (const bool exclusive : {true, false}) {
    std::vector<pid_t> children;
    for (int i = 0; i < 16; ++i) {
      const pid_t child = fork();
      if (child == 0) {
        const auto files = PublishOne(exclusive ? "auto" : "named", exclusive, i % 4);
        if (!files.ok()) fprintf(stderr, "%s\n", files.status().ToString().c_str());
        _exit(files.ok() ? 0 : 1);
      }
      children.push_back(child);
    }
    for (const pid_t child : children) {
      int status = 0;
      waitpid(child, &status, 0);
      EXPECT_EQ(status, 0);
    }
  }
  size_t automatic = 0;
  std::set<std::string> hosts;
  for (const std::string& run : Names(Profile())) {
    if (!run.starts_with("auto")) continue;
    ++automatic;
    for (const std::string& name : Names(Profile() / run)) {
      if (!name.ends_with(".xplane.pb")) continue;
      const std::string host = name.substr(0, name.size() - strlen(".xplane.pb"));
      EXPECT_TRUE(host.starts_with("node_r")) << host;
      EXPECT_TRUE(LintXplane(Profile() / run / name, host).ok());
    }
  }
  EXPECT_EQ(automatic, 16u);
  for (const std::string& name : Names(Profile() / "named")) {
    if (!name.ends_with(".xplane.pb")) continue;
    const std::string host = name.substr(0, name.size() - strlen(".xplane.pb"));
    EXPECT_TRUE(LintXplane(Profile() / "named" / name, host).ok()) << name;
    EXPECT_TRUE(fs::exists(Profile() / "named" / (host + ".summary.json")));
    hosts.insert(host);
  }
  EXPECT_EQ(hosts.size(), 16u);
  for (const char* host : {"node_r0", "node_r1", "node_r2", "node_r3"}) EXPECT_TRUE(hosts.contains(host)) << host;
  EXPECT_FALSE(fs::exists(logdir_ / ".tbprof"));
}

TEST_F(LogdirTest, Run_Shared_FilesNameTheRank) {
  ASSERT_TRUE(PrepareLogdir(logdir_, "node").ok());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(PublishOne("named", false, 7).ok());
  const std::vector<std::string> names = Names(Profile() / "named");
  ASSERT_EQ(names.size(), 6u);
  EXPECT_EQ(std::count(names.begin(), names.end(), "node_r7.xplane.pb"), 1);
  EXPECT_EQ(std::count_if(names.begin(), names.end(),
                          [](const std::string& name) {
                            return name.starts_with("node_" + std::to_string(getpid()) + "-") &&
                                   name.ends_with("_r7.xplane.pb");
                          }),
            2);
}

TEST_F(LogdirTest, Publish_LinkAtTheFileName_IsNotFollowedOrReplaced) {
  ASSERT_TRUE(PrepareLogdir(logdir_, "node").ok());
  std::ofstream(root_ / "victim") << "precious";
  auto directory = CreateRun(logdir_, "named", false, "node", -1);
  ASSERT_TRUE(directory.ok());
  ASSERT_TRUE((*directory)->Write(*FindOutput("xplane"), SmallTimeline("node")).ok());
  ASSERT_TRUE((*directory)->WriteText("a.json", "{}").ok());
  fs::create_directory(Profile() / "named");
  fs::create_symlink(root_ / "victim", Profile() / "named/node.a.json");
  const auto files = (*directory)->Publish();
  EXPECT_TRUE(absl::IsAlreadyExists(files.status())) << files.status();
  EXPECT_EQ(Read(root_ / "victim"), "precious");
  // No incomplete file stays.
  EXPECT_EQ(Names(Profile() / "named"), std::vector<std::string>{"node.a.json"});
}

TEST_F(LogdirTest, Run_InvalidName_IsRefused) {
  fs::create_directory(logdir_);
  for (const std::string& run : {std::string(""), std::string("a/b"), std::string(".."), std::string(".hidden"),
                                 std::string("a\nb"), std::string("\xff"), std::string(129, 'x')}) {
    EXPECT_TRUE(absl::IsInvalidArgument(CreateRun(logdir_, run, true, "node", -1).status())) << run;
  }
  EXPECT_TRUE(CreateRun(logdir_, std::string(128, 'x'), false, std::string(120, 'h'), -1).ok());
}

TEST_F(LogdirTest, Staging_Abandoned_IsRemovedAndLiveOneIsKept) {
  ASSERT_TRUE(PrepareLogdir(logdir_, "node").ok());
  auto live = CreateRun(logdir_, "live", true, "node", -1);
  ASSERT_TRUE(live.ok());
  const pid_t child = fork();
  if (child == 0) {
    auto dead = CreateRun(logdir_, "dead", true, "node", -1);
    (*dead)->WriteText("summary.json", "{}").IgnoreError();
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  const fs::path staging = logdir_ / ".tbprof/staging";
  EXPECT_EQ(Names(staging), (std::vector<std::string>{"dead", "live"}));
  const timespec old[2] = {{1'000'000'000, 0}, {1'000'000'000, 0}};
  for (const char* name : {"dead", "live"}) utimensat(AT_FDCWD, (staging / name).c_str(), old, 0);
  auto next = CreateRun(logdir_, "next", true, "node", -1);
  EXPECT_EQ(Names(staging), (std::vector<std::string>{"live", "next"}));
}

TEST_F(LogdirTest, Publish_FullDisk_LeavesNoFile) {
  fs::create_directory(logdir_);
  if (mount("tmpfs", logdir_.c_str(), "tmpfs", 0, "size=256k") != 0) GTEST_SKIP() << "cannot mount a tmpfs";
  EXPECT_TRUE(PrepareLogdir(logdir_, "node").ok());
  {
    auto directory = CreateRun(logdir_, "run", true, "node", -1);
    EXPECT_TRUE(directory.ok()) << directory.status();
    Timeline timeline = SmallTimeline("node");
    timeline.threads[0].events.resize(100'000);
    const absl::Status status = (*directory)->Write(*FindOutput("xplane"), timeline).status();
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_TRUE(Contains(status, (Profile() / "run/node.xplane.pb").string() + ": No space left on device")) << status;
    // Smaller files are still published.
    EXPECT_TRUE((*directory)->WriteText("summary.json", "{}").ok());
    EXPECT_TRUE((*directory)->Publish().ok());
  }
  EXPECT_EQ(Names(Profile() / "run"), std::vector<std::string>{"summary.json"});
  EXPECT_FALSE(fs::exists(logdir_ / ".tbprof"));

  // A disk that is full before the start is reported before the program runs.
  std::ofstream filler(logdir_ / "filler");
  filler << std::string(1 << 20, 'x');
  filler.close();
  const absl::Status status = PrepareLogdir(logdir_, "node");
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_EQ(Names(Profile()), std::vector<std::string>{"run"});
  umount(logdir_.c_str());
}

TEST_F(LogdirTest, Prepare_ReadOnlyFileSystem_IsNamed) {
  fs::create_directory(logdir_);
  if (mount("tmpfs", logdir_.c_str(), "tmpfs", MS_RDONLY, "size=256k") != 0) GTEST_SKIP() << "cannot mount a tmpfs";
  const absl::Status status = PrepareLogdir(logdir_, "node");
  EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
  EXPECT_TRUE(Contains(status, "Read-only file system")) << status;
  umount(logdir_.c_str());
}

TEST_F(LogdirTest, Publish_FailedVerification_LeavesNoFile) {
  ASSERT_TRUE(PrepareLogdir(logdir_, "node").ok());
  auto directory = CreateRun(logdir_, "run", true, "node", -1);
  Timeline timeline = SmallTimeline("another host");  // must not become the file's name: TensorBoard would refuse it
  Output output = *FindOutput("xplane");
  output.verify = [](const std::string& path, const Timeline&) -> absl::StatusOr<std::string> {
    return VerifyXplane(path, SmallTimeline("node"));
  };
  const absl::Status status = (*directory)->Write(output, timeline).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_FALSE((*directory)->Publish().ok());
  directory->reset();
  EXPECT_TRUE(fs::is_empty(Profile()));
}

TEST(Names, RunNameFor_Time_IsTheStockPattern) {
  setenv("TZ", "UTC", 1);
  tzset();
  EXPECT_EQ(RunNameFor(1'790'000'000), "2026_09_21_14_13_20");
}

TEST(Names, HostName_InvalidCharacters_FitsAFileName) {
  const std::string name = HostName();
  EXPECT_FALSE(name.empty());
  EXPECT_EQ(name.find_first_of("/,: "), std::string::npos);
  EXPECT_EQ(HostNameFrom(name), name);
  EXPECT_EQ(HostNameFrom("node1.example.com"), "node1.example.com");
  EXPECT_EQ(HostNameFrom("../../etc/x"), "_._.._etc_x");
  EXPECT_EQ(HostNameFrom("a,b:c\n"), "a_b_c_n");
  EXPECT_EQ(HostNameFrom(""), "localhost");
  EXPECT_EQ(HostNameFrom("ALL_HOSTS"), "ALL_HOSTS_");
  EXPECT_LE(HostNameFrom(std::string(1000, 'x')).size(), 128u);
}

}  // namespace
}  // namespace tbprof
