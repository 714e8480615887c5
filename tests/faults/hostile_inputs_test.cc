// SPDX-License-Identifier: Apache-2.0
// `tbprof merge`, `convert` and `recover` with hostile input: they end soon, with one line for a cause,
// and write nothing outside the output.
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "other_user.h"
#include "writer/base/crc32c.h"
#include "writer/spool/spool.h"

namespace tbprof::integration {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

std::string SpaceOf(const std::string& host, int events = 3) {
  tensorflow::profiler::XSpace space;
  space.add_hostnames(host);
  auto* const plane = space.add_planes();
  plane->set_name("/host:CPU");
  auto* const line = plane->add_lines();
  for (int i = 0; i < events; ++i) line->add_events()->set_offset_ps(i * 1000);
  auto* const environment = space.add_planes();
  environment->set_name("Task Environment");
  (*environment->mutable_stat_metadata())[1].set_name("profile_start_time");
  (*environment->mutable_stat_metadata())[1].set_id(1);
  auto* const start = environment->add_stats();
  start->set_metadata_id(1);
  start->set_uint64_value(1'700'000'000'000'000'000);
  return space.SerializeAsString();
}

// A varint field with the length of what follows: `length` bytes of a plane that is not there.
std::string Declares(uint64_t length) {
  std::string bytes = "\x0a";
  for (; length >= 128; length >>= 7) bytes += static_cast<char>(0x80 | (length & 0x7f));
  return bytes + static_cast<char>(length);
}

class Merge : public OtherUserTest {
 protected:
  void SetUp() override {
    OtherUserTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    for (const std::string& directory : {good_, bad_}) ASSERT_EQ(mkdir(directory.c_str(), 0755), 0);
    WriteFile(good_ + "/good.xplane.pb", SpaceOf("good"));
    WriteFile(victim_ + "/secret.xplane.pb", SpaceOf("secret"));
    before_ = Picture(victim_);
  }
  RunResult Run(const std::vector<std::string>& directories) {
    fs::remove_all(out_);
    std::vector<std::string> words = {"merge", "--run=merged", "--logdir=" + out_};
    words.insert(words.end(), directories.begin(), directories.end());
    RunOptions options;
    options.timeout_s = 60;
    RunResult result = RunTbprof(words, options);
    EXPECT_TRUE(result.exited()) << result.AllPrinted();
    EXPECT_FALSE(result.timed_out);
    EXPECT_THAT(result.code(), testing::AnyOf(0, 125)) << result.AllPrinted();
    EXPECT_EQ(result.AllPrinted().find('\x1b'), std::string::npos);
    EXPECT_EQ(result.err, "") << "a line that is not tbprof's";
    return result;
  }
  RunResult Run() { return Run({good_, bad_}); }
  // One line names the file and the cause, and there is no profile.
  void ExpectRefused(const std::string& cause) {
    const RunResult result = Run();
    EXPECT_EQ(result.code(), 125) << result.AllPrinted();
    EXPECT_THAT(result.printed, testing::Contains(testing::AllOf(HasSubstr(bad_), HasSubstr(cause))))
        << result.AllPrinted();
    EXPECT_THAT(FilesBelow(out_, ".xplane.pb"), IsEmpty());
  }
  void ExpectTooLarge() {
    const RunResult result = RunBare(
        {"/bin/sh", "-c", "ulimit -v 400000; exec \"$0\" \"$@\"", Tbprof(), "merge", "--logdir=" + out_, good_, bad_});
    EXPECT_EQ(result.code(), 125) << result.AllPrinted();
    EXPECT_THAT(result.AllPrinted() + result.err, HasSubstr("more memory than there is"));
    EXPECT_THAT(result.err, Not(HasSubstr("terminate")));
  }
  const std::string good_ = root_ / "good", bad_ = root_ / "bad", out_ = root_ / "out";
};

TEST_F(Merge, NamesOfProfiles_BecomeNamesOfHosts) {
  for (const std::string& name : {std::string("\x1b]0;x\x07\nq"), std::string(244, 'x'), std::string("\xff\x80"),
                                  std::string(".."), std::string("ALL_HOSTS"), std::string("a,b:c")}) {
    WriteFile(bad_ + "/" + name + ".xplane.pb", SpaceOf("h"));
    const RunResult result = Run();
    EXPECT_EQ(result.code(), 0) << result.AllPrinted();
    const std::vector<std::string> files = FilesBelow(out_, ".xplane.pb");
    EXPECT_THAT(files, SizeIs(2)) << name;
    for (const std::string& file : files) {
      const std::string base = fs::path(file).filename();
      EXPECT_LT(base.size(), 160u);
      EXPECT_EQ(base.find_first_of("\x1b\n,:\xff"), std::string::npos) << base;
      EXPECT_NE(base[0], '.') << base;
      EXPECT_NE(base, "ALL_HOSTS.xplane.pb");
    }
    fs::remove(bad_ + "/" + name + ".xplane.pb");
  }
}

TEST_F(Merge, LinkOfAnotherUser_IsNotFollowed) {
  ASSERT_TRUE(AsOther([&] {
    return mkdir((theirs_ + "/run").c_str(), 0755) == 0 &&
           Link(victim_ + "/secret.xplane.pb", theirs_ + "/run/x.xplane.pb") && Link(victim_, theirs_ + "/way");
  }));
  for (const std::string& directory : {theirs_ + "/run", theirs_ + "/way"}) {
    const RunResult result = Run({good_, directory});
    EXPECT_EQ(result.code(), 125) << result.AllPrinted();
    EXPECT_TRUE(result.Printed("is a symbolic link of uid 65534")) << result.AllPrinted();
    EXPECT_THAT(FilesBelow(out_, ".xplane.pb"), IsEmpty());
  }
  // One's own is.
  ASSERT_TRUE(Link(victim_ + "/secret.xplane.pb", bad_ + "/x.xplane.pb"));
  EXPECT_EQ(Run().code(), 0);
}

TEST_F(Merge, FileThatIsNoProfile_IsRefused) {
  const std::string path = bad_ + "/x.xplane.pb";
  ASSERT_EQ(mkfifo(path.c_str(), 0666), 0);
  ExpectRefused("is no file");
  fs::remove(path);
  ASSERT_TRUE(Link("/dev/zero", path));
  ExpectRefused("is no file");
  fs::remove(path);
  ASSERT_TRUE(Link("..", path));
  ExpectRefused("is no file");
  fs::remove(path);
  ASSERT_TRUE(Link("x.xplane.pb", path));
  ExpectRefused("cannot read");
  fs::remove(path);
  WriteFile(path, "");
  ASSERT_EQ(truncate(path.c_str(), off_t{3} << 30), 0);
  ExpectRefused("is no file of at most");
}

TEST_F(Merge, DeclaredSizesAndBrokenMessages_AreRefused) {
  const std::string path = bad_ + "/x.xplane.pb", whole = SpaceOf("h");
  std::string nested;
  for (int i = 0; i < 5000; ++i) nested = Declares(nested.size()) + nested;
  for (const std::string& bytes : {Declares(uint64_t{1} << 35), Declares(UINT64_MAX), Declares(1) + "\xff",
                                   std::string(100'000, '\x0b'), whole.substr(0, whole.size() - 1)}) {
    WriteFile(path, bytes);
    ExpectRefused("not a whole XSpace");
  }
  WriteFile(path, nested);
  Run();
  for (size_t size = 0; size < whole.size(); size += 9) {
    WriteFile(path, whole.substr(0, size));
    Run();
  }
}

TEST_F(Merge, ManyEventsAndRepeatedHosts_AreMerged) {
  WriteFile(bad_ + "/x.xplane.pb", SpaceOf("h", 1'000'000));
  EXPECT_EQ(Run().code(), 0);
  EXPECT_EQ(Run({good_, good_, good_}).code(), 0);
  EXPECT_THAT(FilesBelow(out_, ".xplane.pb"), SizeIs(3));
}

TEST_F(Merge, InvalidSummaries_AreIgnored) {
  WriteFile(bad_ + "/x.xplane.pb", SpaceOf("h"));
  ASSERT_EQ(mkfifo((bad_ + "/fifo.summary.json").c_str(), 0666), 0);
  ASSERT_TRUE(Link("/dev/zero", bad_ + "/zero.summary.json"));
  ASSERT_TRUE(Link(".", bad_ + "/itself"));
  WriteFile(bad_ + "/numbers.summary.json",
            R"({"world_size": 99999999999, "ranks": [-1, 1e9, 99999999999999999, "x"]})");
  WriteFile(bad_ + "/large.summary.json", "");
  ASSERT_EQ(truncate((bad_ + "/large.summary.json").c_str(), off_t{1} << 31), 0);
  EXPECT_EQ(Run().code(), 0);
}

TEST_F(Merge, TooLittleMemory_IsOneLine) {
  const std::string name(200 << 20, 'x'), plane = "\x12" + Declares(name.size()).substr(1) + name;
  for (const bool whole : {false, true}) {
    WriteFile(bad_ + "/x.xplane.pb", whole ? Declares(plane.size()) + plane : "");
    if (!whole) fs::resize_file(bad_ + "/x.xplane.pb", uintmax_t{1} << 30);
    ExpectTooLarge();
  }
}

TEST_F(Merge, ManyInvalidFiles_AreFewLines) {
  for (int i = 0; i < 200; ++i) WriteFile(bad_ + "/" + std::to_string(i) + ".xplane.pb", "");
  const RunResult result = Run();
  EXPECT_LT(result.printed.size(), 60u);
}

// ---- convert and recover

size_t Padded(size_t size) { return (size + 7) / 8 * 8; }

// A spool with another session frame, with valid checksums.
std::string WithFact(const std::string& spool, const std::string& key, const nlohmann::json& value) {
  FrameHeader header;
  const size_t at = sizeof(SpoolHeader) + sizeof(header);
  memcpy(&header, spool.data() + sizeof(SpoolHeader), sizeof(header));
  nlohmann::json facts = nlohmann::json::parse(spool.substr(at, header.payload_bytes));
  facts[key] = value;
  std::string text = facts.dump();
  const std::string rest = spool.substr(at + Padded(header.payload_bytes));
  header.payload_bytes = static_cast<uint32_t>(text.size());
  header.payload_crc = Crc32c(0, text.data(), text.size());
  header.header_crc = Crc32c(0, &header, offsetof(FrameHeader, header_crc));
  text.resize(Padded(text.size()));
  return spool.substr(0, sizeof(SpoolHeader)) + std::string(reinterpret_cast<char*>(&header), sizeof(header)) + text +
         rest;
}

class Spools : public OtherUserTest {
 protected:
  void SetUp() override {
    OtherUserTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    RunOptions options;
    options.tbprof = {"--keep-spool", "--spool-dir=" + (root_ / "made")};
    EXPECT_EQ(RunUnderTbprof({Program("ends"), "exit", "5"}, options).code(), 5);
    const std::vector<std::string> spools = FilesBelow(root_ / "made", ".spool");
    ASSERT_THAT(spools, SizeIs(1));
    spool_ = spools[0];
  }
  RunResult Run(const std::string& command, const std::string& operand) {
    fs::remove_all(out_);
    RunOptions options;
    options.timeout_s = 60;
    RunResult result = RunTbprof({command, "--logdir=" + out_, operand}, options);
    EXPECT_TRUE(result.exited() && !result.timed_out) << result.AllPrinted();
    EXPECT_EQ(result.AllPrinted().find('\x1b'), std::string::npos);
    EXPECT_EQ(result.err, "") << "a line that is not tbprof's";
    return result;
  }
  std::string spool_;
  const std::string out_ = root_ / "out";
};

TEST_F(Spools, CutAnywhere_DoesNotCrash) {
  const std::string whole = ReadFile(spool_), cut = root_ / "cut.spool";
  for (size_t i = 0; i < 12; ++i) {
    WriteFile(cut, whole.substr(0, whole.size() * i / 12));
    Run("convert", cut);
  }
}

TEST_F(Spools, NamesInTheSpool_AreMadeSafe) {
  const std::string spool = ReadFile(spool_), forged = root_ / "forged.spool";
  for (const std::string key : {"host", "run", "logdir", "scheduler", "ranks"}) {
    for (const nlohmann::json& value :
         std::vector<nlohmann::json>{"../../victim/x", victim_, "\x1b]0;x\x07\n", std::string(5000, 'x'), 7, nullptr}) {
      WriteFile(forged, WithFact(spool, key, value));
      Run("convert", forged);
      for (const auto& entry : fs::recursive_directory_iterator(root_ / "out")) {
        EXPECT_EQ(entry.path().filename().string().find_first_of("\x1b\x07\n"), std::string::npos) << entry.path();
      }
    }
  }
}

// The name of the empty events file holds the host's: a directory that is prepared could make a path of it.
TEST_F(Spools, HostThatIsAPath_IsMadeSafe) {
  const std::string forged = root_ / "forged.spool", logdir = root_ / "logs";
  WriteFile(forged, WithFact(ReadFile(spool_), "host", "/../../victim/planted"));
  const time_t now = time(nullptr);
  for (time_t at = now; at < now + 60; ++at) {
    fs::create_directories(logdir + "/events.out.tfevents." + std::to_string(at) + ".");
  }
  EXPECT_EQ(RunTbprof({"convert", "--logdir=" + logdir, forged}).code(), 0);
  EXPECT_THAT(FilesBelow(victim_, ".profile-empty"), IsEmpty());
}

TEST_F(Spools, OtherFileTypes_AreRefused) {
  ASSERT_EQ(mkfifo((root_ / "fifo.spool").c_str(), 0666), 0);
  for (const std::string& path : {root_ / "fifo.spool", std::string("/dev/zero"), std::string("/proc/self/mem")}) {
    const RunResult result = Run("convert", path);
    EXPECT_EQ(result.code(), 1);
    EXPECT_THAT(result.printed, SizeIs(1)) << result.AllPrinted();
  }
}

TEST_F(Spools, DirectoryThatContainsItself_IsSearchedOnce) {
  const std::string logdir = root_ / "logs";
  fs::create_directories(logdir + "/.tbprof");
  fs::rename(spool_, logdir + "/.tbprof/\x1b[2J\n.spool");
  ASSERT_TRUE(Link("..", logdir + "/.tbprof/.tbprof"));
  ASSERT_TRUE(Link(".tbprof", logdir + "/.tbprof-aaaaaa"));
  ASSERT_TRUE(Link("loop.spool", logdir + "/.tbprof/loop.spool"));
  Run("recover", logdir);
  EXPECT_THAT(FilesBelow(out_, ".xplane.pb"), SizeIs(1));
}

TEST_F(Spools, PartsThatAreLinksOfAnotherUser_AreNotFollowed) {
  ASSERT_EQ(chown((root_ / "made").c_str(), kOther, kOther), 0);
  ASSERT_TRUE(AsOther([&] {
    bool made = true;
    for (const char* end : {".1", ".2", ".001", ".p1"}) made = made && Link(victim_ + "/precious", spool_ + end);
    return made;
  }));
  Run("convert", spool_);
}

}  // namespace
}  // namespace tbprof::integration
