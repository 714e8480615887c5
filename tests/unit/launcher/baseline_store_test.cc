// SPDX-License-Identifier: Apache-2.0
#include "launcher/gate/baseline_store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "launcher/base/text.h"
#include "tests/unit/launcher/gate_maker.h"

namespace tbprof {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

namespace fs = std::filesystem;

class BaselineStore : public ::testing::Test {
 protected:
  BaselineStore() {
    char pattern[] = "/tmp/tbprof-baseline-XXXXXX";
    directory_ = mkdtemp(pattern);
  }
  ~BaselineStore() override { fs::remove_all(directory_); }

  std::string At(std::string_view name) const { return StrCat(directory_, "/", name); }
  static std::string Read(const std::string& path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  static void Write(const std::string& path, std::string_view text) { std::ofstream(path) << text; }
  static std::string ErrorOf(const absl::Status& status) {
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(status.message().find('\n'), std::string::npos);
    return std::string(status.message());
  }
  static std::string ErrorOf(const absl::StatusOr<SavedBaseline>& saved) { return ErrorOf(saved.status()); }

  std::string directory_;
};

TEST_F(BaselineStore, Saved_ReadsBack) {
  for (const std::string& store : {At("store"), At("all.json")}) {
    const Side side = MakeSide("r", {0.03, 0.031});
    ASSERT_TRUE(SaveBaseline(store, "main", side, {}).ok());
    const absl::StatusOr<Side> back = LoadBaseline(store, "main");
    ASSERT_TRUE(back.ok()) << back.status();
    ASSERT_EQ(back->runs.size(), 2u);
    const RunNumbers &was = side.runs[1], &is = back->runs[1];
    EXPECT_EQ(is.path, "r1");
    EXPECT_EQ(is.identity.command, was.identity.command);
    EXPECT_EQ(is.identity.devices, was.identity.devices);
    EXPECT_EQ(is.identity.world_size, 1);
    EXPECT_EQ(is.identity.cpus, 2);
    EXPECT_EQ(is.start_unix_ns, was.start_unix_ns);
    EXPECT_THAT(is.steps_s, ::testing::Pointwise(::testing::DoubleNear(1e-8), was.steps_s));
    EXPECT_EQ(is.median_step_s, 0.031);
    EXPECT_EQ(is.split_step_s, 0.031);
    ASSERT_EQ(is.counts.size(), 2u);
    EXPECT_EQ(is.counts[0].basis, CountBasis::kRun);
    EXPECT_EQ(is.counts[1].per_step, 2000.5);
    ASSERT_EQ(is.amounts.size(), 4u);
    EXPECT_EQ(is.amounts[0].name, "operations") << "the largest first";
    EXPECT_EQ(is.amounts[2].kind, AmountKind::kKernel);
    EXPECT_EQ(is.memory_peak_bytes, 3e8);
    EXPECT_EQ(is.files, was.files);
    EXPECT_EQ(BaselinesAsJson({{"x", 1, *back}}), BaselinesAsJson({{"x", 1, side}})) << "all of it";
  }
  EXPECT_TRUE(fs::exists(At("store/main.json")));
  EXPECT_TRUE(fs::is_regular_file(At("all.json")));
}

TEST_F(BaselineStore, LargeRuns_AreCutToWhatIsKept) {
  Side side = MakeSide("r", {0.03});
  side.runs[0].steps_s.clear();
  for (int i = 0; i < 5000; ++i) side.runs[0].steps_s.push_back(0.001 * i);
  side.runs[0].steps = 5000;
  for (int i = 0; i < 5000; ++i) side.runs[0].amounts.push_back({AmountKind::kWait, StrCat("w", i), 0.001 * i});
  side.runs[0].identity.command = "train.py --api-key=hunter2";
  ASSERT_TRUE(SaveBaseline(At("s"), "big", side, {}).ok());
  const absl::StatusOr<Side> back = LoadBaseline(At("s"), "big");
  ASSERT_TRUE(back.ok()) << back.status();
  const RunNumbers& run = back->runs[0];
  EXPECT_EQ(run.steps_s.size(), kMostBaselineSteps);
  EXPECT_EQ(run.steps_s.front(), 0);
  EXPECT_GT(run.steps_s.back(), 4.9) << "from all of the run";
  EXPECT_EQ(run.steps, 5000u);
  EXPECT_EQ(run.amounts.size(), 4 + kMostBaselineAmounts);
  EXPECT_THAT(Read(At("s/big.json")), Not(HasSubstr("hunter2")));
}

TEST_F(BaselineStore, SaveAgain_ReplacesAndAddKeeps) {
  ASSERT_TRUE(SaveBaseline(At("s"), "main", MakeSide("a", {0.03}), {.add = true}).ok());
  ASSERT_TRUE(SaveBaseline(At("s"), "main", MakeSide("b", {0.03, 0.04}), {.add = true}).ok());
  EXPECT_EQ(LoadBaseline(At("s"), "main")->runs.size(), 3u);
  ASSERT_TRUE(SaveBaseline(At("s"), "main", MakeSide("c", {0.03}), {}).ok());
  EXPECT_EQ(LoadBaseline(At("s"), "main")->runs[0].path, "c0");
  EXPECT_EQ(LoadBaseline(At("s"), "main")->runs.size(), 1u);
}

// A job that is started again saves its run again.
TEST_F(BaselineStore, SameRunAgain_IsThereOnce) {
  Side side = MakeSide("a", {0.0312345678, 0.04});
  ASSERT_TRUE(SaveBaseline(At("s"), "main", side, {.add = true}).ok());
  for (RunNumbers& run : side.runs) run.path = run.files[0] = StrCat("/elsewhere/", run.path);
  side.runs.push_back(MakeRun("new", 0.04));
  const absl::StatusOr<SavedBaseline> saved = SaveBaseline(At("s"), "main", side, {.add = true});
  ASSERT_TRUE(saved.ok());
  EXPECT_EQ(saved->runs, 3u);
  EXPECT_EQ(saved->again, 2u);
  EXPECT_EQ(saved->dropped, 0u);
  // Ranks of one run are other runs.
  Side rank = MakeSide("r", {0.05});
  rank.runs[0].start_unix_ns = side.runs[0].start_unix_ns;
  EXPECT_EQ(SaveBaseline(At("s"), "main", rank, {.add = true})->runs, 4u);
}

// A rule may compare them exactly.
TEST_F(BaselineStore, Counts_AreNotRounded) {
  Side side = MakeSide("a", {0.03});
  side.runs[0].counts = {{"allocations", 33710.0 / 119, CountBasis::kRun}};
  ASSERT_TRUE(SaveBaseline(At("s"), "main", side, {}).ok());
  EXPECT_EQ(LoadBaseline(At("s"), "main")->runs[0].counts[0].per_step, 33710.0 / 119);
}

TEST_F(BaselineStore, AddBeyondKeep_DropsTheOldest) {
  ASSERT_TRUE(SaveBaseline(At("s"), "main", MakeSide("a", {0.03, 0.04}), {.add = true, .keep = 3}).ok());
  const absl::StatusOr<SavedBaseline> saved =
      SaveBaseline(At("s"), "main", MakeSide("b", {0.05, 0.06}), {.add = true, .keep = 3});
  ASSERT_TRUE(saved.ok());
  EXPECT_EQ(saved->runs, 3u);
  EXPECT_EQ(saved->dropped, 1u);
  const absl::StatusOr<Side> side = LoadBaseline(At("s"), "main");
  ASSERT_EQ(side->runs.size(), 3u);
  EXPECT_EQ(side->runs[0].path, "a1");
  EXPECT_EQ(side->runs[2].path, "b1");
}

TEST_F(BaselineStore, AddToAFullOne_KeepsTheMost) {
  const Side many = MakeSide("m", std::vector<double>(kMostBaselineRuns, 0.03));
  ASSERT_TRUE(SaveBaseline(At("s"), "main", many, {}).ok());
  ASSERT_TRUE(SaveBaseline(At("s"), "main", MakeSide("n", {0.03}), {.add = true}).ok());
  EXPECT_EQ(LoadBaseline(At("s"), "main")->runs.size(), kMostBaselineRuns);
  EXPECT_EQ(LoadBaseline(At("s"), "main")->runs.back().path, "n0");
}

TEST_F(BaselineStore, SaveMoreThanItKeeps_KeepsTheNewest) {
  Side side = MakeSide("a", {0.03, 0.04, 0.05});
  side.runs[0].start_unix_ns += 3'000'000'000;  // the newest is named first
  const absl::StatusOr<SavedBaseline> saved = SaveBaseline(At("s"), "main", side, {.keep = 2});
  ASSERT_TRUE(saved.ok());
  EXPECT_EQ(saved->runs, 2u);
  EXPECT_EQ(saved->dropped, 1u);
  const absl::StatusOr<Side> back = LoadBaseline(At("s"), "main");
  ASSERT_EQ(back->runs.size(), 2u);
  EXPECT_EQ(back->runs[1].path, "a0");
}

TEST_F(BaselineStore, OneFile_HoldsSeveral) {
  for (const char* name : {"b", "a", "c"}) {
    ASSERT_TRUE(SaveBaseline(At("all.json"), name, MakeSide(name, {0.03}), {}).ok());
  }
  std::vector<std::string> faults;
  const absl::StatusOr<std::vector<Baseline>> all = ListBaselines(At("all.json"), &faults);
  ASSERT_TRUE(all.ok());
  ASSERT_EQ(all->size(), 3u);
  EXPECT_EQ((*all)[0].name, "a");
  EXPECT_THAT(ErrorOf(LoadBaseline(At("all.json"), "d").status()), HasSubstr("no baseline d in "));
}

// Eight processes add at once, to a directory and to a file, from a common start.
TEST_F(BaselineStore, ParallelAdds_AllSurvive) {
  for (const std::string& store : {At("s"), At("all.json")}) {
    int start[2];
    ASSERT_EQ(pipe(start), 0);
    std::vector<pid_t> children;
    for (int i = 0; i < 8; ++i) {
      const pid_t child = fork();
      ASSERT_GE(child, 0);
      if (child == 0) {
        close(start[1]);
        char byte;
        if (read(start[0], &byte, 1) != 0) _exit(2);
        bool ok = true;
        for (int run = 0; run < 5; ++run) {
          Side side = MakeSide(StrCat(i, "-", run, "-"), {0.03});
          side.runs[0].start_unix_ns += i;
          ok = ok && SaveBaseline(store, "main", side, {.add = true}).ok();
        }
        _exit(ok ? 0 : 1);
      }
      children.push_back(child);
    }
    close(start[0]);
    close(start[1]);
    for (const pid_t child : children) {
      int status = -1;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      EXPECT_EQ(status, 0);
    }
    const absl::StatusOr<Side> side = LoadBaseline(store, "main");
    ASSERT_TRUE(side.ok()) << side.status();
    std::set<std::string> paths;
    for (const RunNumbers& run : side->runs) paths.insert(run.path);
    EXPECT_EQ(paths.size(), 40u);
  }
  for (const auto& entry : fs::recursive_directory_iterator(directory_)) {
    EXPECT_THAT(entry.path().filename().string(), ::testing::EndsWith(entry.is_directory() ? "s" : ".json"));
  }
}

TEST_F(BaselineStore, BadNames_AreRefused) {
  for (const std::string name : {"", ".", "..", "../x", "a/b", "-x", ".hidden", "a b", "x\n", "größe"}) {
    EXPECT_THAT(ErrorOf(SaveBaseline(At("s"), name, MakeSide("r", {0.03}), {})), HasSubstr("is no name of a baseline"));
    EXPECT_THAT(ErrorOf(LoadBaseline(At("s"), name).status()), HasSubstr("is no name of a baseline"));
  }
  EXPECT_FALSE(fs::exists(At("s")));
  EXPECT_FALSE(SaveBaseline(At("s"), std::string(101, 'a'), MakeSide("r", {0.03}), {}).ok());
  EXPECT_FALSE(SaveBaseline("", "a", MakeSide("r", {0.03}), {}).ok());
  EXPECT_FALSE(SaveBaseline(At("s"), "a", Side(), {}).ok());
}

TEST_F(BaselineStore, UnknownName_SuggestsTheNearest) {
  ASSERT_TRUE(SaveBaseline(At("s"), "nightly", MakeSide("r", {0.03}), {}).ok());
  EXPECT_THAT(ErrorOf(LoadBaseline(At("s"), "nightyl").status()), HasSubstr("did you mean nightly?"));
  EXPECT_THAT(ErrorOf(LoadBaseline(At("absent"), "main").status()), HasSubstr("tbprof baseline save main RUN..."));
}

TEST_F(BaselineStore, Links_AreNotFollowed) {
  ASSERT_TRUE(fs::create_directory(At("s")));
  Write(At("precious"), "mine");
  fs::create_symlink(At("precious"), At("s/main.json"));
  EXPECT_THAT(ErrorOf(SaveBaseline(At("s"), "main", MakeSide("r", {0.03}), {})), HasSubstr("a link"));
  EXPECT_THAT(ErrorOf(LoadBaseline(At("s"), "main").status()), HasSubstr("a link"));
  EXPECT_EQ(Read(At("precious")), "mine");
  ASSERT_EQ(mkfifo(At("s/fifo.json").c_str(), 0600), 0);
  EXPECT_THAT(ErrorOf(LoadBaseline(At("s"), "fifo").status()), HasSubstr("no regular file"));
}

// Reads each prefix of a file, and the file with each single byte changed.
TEST_F(BaselineStore, DamagedFiles_AreOneLineOrWhole) {
  Side side = MakeSide("r", {0.03});
  side.runs[0].steps_s.resize(2);
  const std::string whole = BaselinesAsJson({{"main", 1, side}});
  ASSERT_TRUE(BaselinesFromJson(whole, "f").ok()) << BaselinesFromJson(whole, "f").status();
  for (size_t size = 0; size + 2 < whole.size(); ++size) {
    const auto back = BaselinesFromJson(whole.substr(0, size), "f");
    ASSERT_FALSE(back.ok()) << size;
    ASSERT_EQ(back.status().message().find('\n'), std::string::npos) << back.status();
    for (const char byte : {'\0', '9', '-', '}', '"'}) {
      std::string changed = whole;
      changed[size] = byte;
      const auto other = BaselinesFromJson(changed, "f");
      if (!other.ok()) {
        ASSERT_EQ(other.status().message().find('\n'), std::string::npos);
        continue;
      }
      for (const double step : other->front().side.runs[0].steps_s) ASSERT_TRUE(std::isfinite(step) && step >= 0);
    }
  }
}

TEST_F(BaselineStore, ForeignFiles_AreOneLine) {
  ASSERT_TRUE(fs::create_directory(At("s")));
  const std::string good = BaselinesAsJson({{"main", 1, MakeSide("r", {0.03})}});
  const auto with = [&](std::string_view from, std::string_view to) {
    std::string text = good;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  };
  std::string steps = "\"steps_s\":[";
  for (int i = 0; i < 3000; ++i) steps += "1,";
  const std::pair<std::string, std::string> cases[] = {
      {"", "the file is empty"},
      {"{}", "no baselines of tbprof"},
      {"[1]", "no baselines of tbprof"},
      {"{\"schema_version\": 1}", "no baselines of tbprof"},
      {std::string(100'000, '['), "nested deeper than"},
      {with("\"schema_version\": 1", "\"schema_version\": 2"), "schema version 2; this tbprof reads 1"},
      {with("\"name\": \"main\"", "\"name\": \"../x\""), "a name that none can have"},
      {with("\"name\": \"main\"", "\"name\": \"other\""), "holds another baseline"},
      {with("\"cpus\":2", "\"cpus\":-2"), "baseline 1, run 1: cpus: expected a whole number"},
      {with("\"median_step_s\":0.03", "\"median_step_s\":-1"), "median_step_s: expected a number of at least 0"},
      {with("\"median_step_s\":0.03", "\"median_step_s\":1e999"), "too large"},
      {with("\"unfit\":null,", ""), "no unfit"},
      {with("\"steps_s\":[", steps), "steps_s: over 500 values"},
      {with("\"steps\":20", "\"steps\":3"), "steps: less than there are times"},
      {with("[\"kernels\",108.0", "[\"kernels\",null"), "counts: expected"},
      {with("[\"part\",", "[\"parts\","), "a kind that is not known"},
  };
  for (const auto& [text, error] : cases) {
    Write(At("s/main.json"), text);
    std::string line = ErrorOf(LoadBaseline(At("s"), "main").status());
    if (text.empty()) {
      EXPECT_THAT(line, HasSubstr("main.json"));
      continue;
    }
    EXPECT_THAT(line, HasSubstr(error));
    if (error == "holds another baseline") continue;
    line = ErrorOf(SaveBaseline(At("s"), "main", MakeSide("r", {0.03}), {}));
    EXPECT_EQ(Read(At("s/main.json")), text) << "what is damaged is not replaced";
  }
  Write(At("s/good.json"), with("\"name\": \"main\"", "\"name\": \"good\""));
  std::vector<std::string> faults;
  const absl::StatusOr<std::vector<Baseline>> all = ListBaselines(At("s"), &faults);
  ASSERT_TRUE(all.ok());
  ASSERT_EQ(all->size(), 1u);
  EXPECT_EQ((*all)[0].name, "good");
  EXPECT_EQ(faults.size(), 1u);
  ASSERT_EQ(truncate(At("s/main.json").c_str(), (64 << 20) + 1), 0);
  EXPECT_THAT(ErrorOf(LoadBaseline(At("s"), "main").status()), HasSubstr("baselines have at most 64"));
}

TEST_F(BaselineStore, KilledSaves_LeaveNothing) {
  ASSERT_TRUE(SaveBaseline(At("s"), "main", MakeSide("r", {0.03}), {}).ok());
  Write(At("s/.main.json.0123456789abcdef.tmp"), "half");
  Write(At("s/.main.json.notours.tmp"), "x");
  ASSERT_TRUE(SaveBaseline(At("s"), "main", MakeSide("r", {0.03}), {.add = true}).ok());
  EXPECT_FALSE(fs::exists(At("s/.main.json.0123456789abcdef.tmp")));
  EXPECT_TRUE(fs::exists(At("s/.main.json.notours.tmp")));
}

TEST(RunNoise, OfRuns_IsTheDeviationOfLogarithms) {
  EXPECT_FALSE(NoiseOf(MakeSide("r", {1, 2})).has_value());
  const double e = std::exp(0.01);
  const std::optional<RunNoise> noise = NoiseOf(MakeSide("r", {1, e, e * e}));
  ASSERT_TRUE(noise.has_value());
  EXPECT_NEAR(noise->sd, 0.01, 1e-12);
  EXPECT_EQ(noise->degrees, 2u);
  Side side = MakeSide("r", {1, e, e * e, 50});
  side.runs[3].no_times = "too few steps";
  EXPECT_NEAR(NoiseOf(side)->sd, 0.01, 1e-12);
}

}  // namespace
}  // namespace tbprof
