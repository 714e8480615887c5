// SPDX-License-Identifier: Apache-2.0
// Operations that PyTorch itself reports, with simulated libraries (tests/sim/torch). tests/xprof/test_torch.py uses
// the real libraries.
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "harness.h"
#include "writer/base/text.h"
#include "writer/spool/spool_facts.h"
#include "writer/spool/torch_sampling.h"

namespace tbprof::integration {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::SizeIs;

constexpr char kPause[] = "operations not recorded";

bool Contains(const Event& outer, const Event& inner) {
  return outer.line == inner.line && outer.start_ps <= inner.start_ps && inner.end_ps() <= outer.end_ps();
}

RunOptions With(const std::vector<std::string>& tbprof) {
  RunOptions options;
  options.tbprof = tbprof;
  return options;
}

// A directory .../torch/lib/, as in an installed wheel.
class Torch {
 public:
  explicit Torch(std::string_view kind = "plain", const std::string& version = "2.13.0+cpu",
                 const std::string& below = "") {
    path_ = (directory_ / below) + "/torch";
    std::filesystem::create_directories(path_ + "/lib");
    for (const char* library : {"/libc10.so", "/libtorch_cpu.so", "/libc10_cuda.so"}) {
      std::filesystem::copy_file(StrCat(TBPROF_BUILD_DIR "/tests/sim/torch/", kind, library),
                                 StrCat(path_, "/lib", library));
    }
    if (version.empty()) return;
    WriteFile(path_ + "/version.py", StrCat("from typing import Optional\n\n__all__ = ['__version__', 'debug']\n"
                                            "__version__ = '",
                                            version, "'\ndebug = False\n"));
  }

  std::vector<std::string> Command(const std::vector<std::string>& mode) const {
    std::vector<std::string> command = {Program("torch"), path_};
    command.insert(command.end(), mode.begin(), mode.end());
    return command;
  }
  Pair Run(const std::vector<std::string>& mode, const std::vector<std::string>& options = {}) const {
    return RunBoth(Command(mode), With(options));
  }

 private:
  TemporaryDirectory directory_;
  std::string path_;
};

bool HasNote(const RunResult& result, const std::string& text) {
  return result.summary["notes"].dump().find(text) != std::string::npos;
}

TEST(Torch, OperationsBackwardNodesAndRanges_AreRecorded) {
  const Pair pair = Torch().Run({"ops"});
  ASSERT_TRUE(pair.Same());
  const Profile& profile = *pair.profiled.profile;
  const std::vector<Event> range = profile.Named("my range"), linear = profile.Named("aten::linear"),
                           addmm = profile.Named("aten::addmm"), node = profile.Named("AddmmBackward0");
  ASSERT_THAT(range, SizeIs(1));
  ASSERT_THAT(linear, SizeIs(1));
  ASSERT_THAT(addmm, SizeIs(1));
  ASSERT_THAT(node, SizeIs(1));
  EXPECT_TRUE(Contains(range[0], linear[0]));
  EXPECT_TRUE(Contains(linear[0], addmm[0]));
  EXPECT_GE(addmm[0].milliseconds(), 1.0);
  EXPECT_FALSE(linear[0].Has("sequence"));
  EXPECT_EQ(addmm[0].Stat("sequence"), "7");
  EXPECT_EQ(node[0].Stat("sequence"), "7");
  EXPECT_NE(node[0].line, addmm[0].line);
  EXPECT_THAT(profile.Named("a function of TorchScript"), IsEmpty());
  EXPECT_EQ(pair.profiled.Fact("added"), 3u);
  EXPECT_EQ(pair.bare.Fact("added"), 0u);
  EXPECT_TRUE(HasNote(pair.profiled, "PyTorch 2.13.0+cpu is observed"));
}

// PyTorch numbers the operations of each thread separately: sequence number 7 identifies an operation only together
// with the thread that ran it. The operation and its backward node, which runs in another thread, both record that
// thread.
TEST(Torch, OperationAndBackwardNode_RecordTheThreadOfTheOperation) {
  TemporaryDirectory spools;
  const Torch torch;
  const RunResult result =
      RunUnderTbprof(torch.Command({"ops"}), With({"--keep-spool", "--spool-dir=" + spools.path()}));
  ASSERT_EQ(result.code(), 0) << result.AllPrinted();
  const std::vector<std::string> files = FilesBelow(spools.path(), ".spool");
  ASSERT_THAT(files, SizeIs(1));
  auto reader = SpoolReader::Open(files[0]);
  ASSERT_TRUE(reader.ok());
  std::vector<std::pair<TorchScope, AnnotationPayload>> told;
  Frame frame;
  while ((*reader)->Next(&frame)) {
    if (frame.type != FrameType::kChunk) continue;
    ChunkFact chunk;
    uint64_t corrupt = 0;
    ForEachRecord(frame, &chunk, &corrupt, [&](const RecordView& view) {
      AnnotationRecord record;
      AnnotationPayload payload;
      if (view.tag.kind != RecordKind::kAnnotation || view.tag.aux != kTorchDomain || !view.Read(&record) ||
          view.size < sizeof(record) + sizeof(payload)) {
        return;
      }
      memcpy(&payload, view.bytes + sizeof(record), sizeof(payload));
      told.emplace_back(static_cast<TorchScope>(record.category), payload);
    });
    EXPECT_EQ(corrupt, 0u);
  }
  ASSERT_THAT(told, SizeIs(2));
  for (const auto& [scope, payload] : told) {
    EXPECT_EQ(payload.bits, 7u);
    EXPECT_EQ(payload.name, result.Fact("forward_thread"));
  }
  EXPECT_NE(result.Fact("forward_thread"), result.Fact("backward_thread"));
  EXPECT_EQ(told[0].first == TorchScope::kBackward, told[1].first == TorchScope::kOperation);
}

struct Refused {
  const char* name;
  const char* kind;
  const char* version;
  const char* printed;
};
class NotObserved : public testing::TestWithParam<Refused> {};

TEST_P(NotObserved, Cause_IsOneLineAndNothingIsCalled) {
  const Pair pair = Torch(GetParam().kind, GetParam().version).Run({"ops"});
  ASSERT_TRUE(pair.Same());
  EXPECT_EQ(pair.profiled.Fact("added"), 0u);
  EXPECT_EQ(pair.profiled.Fact("seen"), 0u);
  EXPECT_THAT(pair.profiled.profile->Named("my range"), IsEmpty());
  EXPECT_TRUE(pair.profiled.profile->HasWarning(GetParam().printed)) << pair.profiled.AllPrinted();
  EXPECT_EQ(std::count_if(pair.profiled.printed.begin(), pair.profiled.printed.end(),
                          [](const std::string& line) { return line.find("PyTorch") != std::string::npos; }),
            1)
      << pair.profiled.AllPrinted();
}

INSTANTIATE_TEST_SUITE_P(
    Torch, NotObserved,
    testing::Values(Refused{"unknown", "plain", "9.9.9", "PyTorch 9.9.9 is not a tested build"},
                    Refused{"longer", "plain", "2.13.01", "PyTorch 2.13.01 is not a tested build"},
                    Refused{"shorter", "plain", "2.13", "PyTorch 2.13 is not a tested build"},
                    Refused{"prerelease", "plain", "2.13.0a0+git1", "PyTorch 2.13.0a0+git1 is not a tested build"},
                    Refused{"none", "plain", "", "PyTorch of unknown version is not a tested build"},
                    Refused{"endless", "plain", "2.13.0xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
                            "is not a tested build"},
                    Refused{"bytes", "plain", "\xff\xfe", "is not a tested build"},
                    Refused{"function", "no_peek", "2.13.0+cpu", "PyTorch 2.13.0+cpu has no observers"},
                    Refused{"strings", "old_strings", "2.13.0+cpu", "PyTorch 2.13.0+cpu is not a tested build"}),
    [](const auto& test) { return test.param.name; });

TEST(Torch, HashTableOfSystemV_IsRead) {
  const Pair pair = Torch("old_hash", "2.13.0+cpu").Run({"ops"});
  ASSERT_TRUE(pair.Same());
  EXPECT_THAT(pair.profiled.profile->Named("aten::addmm"), SizeIs(1)) << pair.profiled.AllPrinted();
}

TEST(Torch, LibraryInALongPath_IsFound) {
  const Pair pair = Torch("plain", "2.13.0", std::string(200, 'a') + "/" + std::string(200, 'b')).Run({"ops"});
  ASSERT_TRUE(pair.Same());
  EXPECT_THAT(pair.profiled.profile->Named("aten::addmm"), SizeIs(1)) << pair.profiled.AllPrinted();
}

TEST(Torch, ManyThreads_ObserverIsAddedOnce) {
  const Pair pair = Torch().Run({"race"}, {"--torch=all"});
  ASSERT_TRUE(pair.Same());
  EXPECT_EQ(pair.profiled.Fact("added"), 3u);
  EXPECT_EQ(pair.profiled.Fact("disabled"), 0u);
  EXPECT_THAT(pair.profiled.profile->Named("aten::after"), SizeIs(1));
  // Operations that began before the observer was added have no recorded end either.
  EXPECT_EQ(pair.profiled.summary["records"]["corrupt"], 0);
  EXPECT_FALSE(HasNote(pair.profiled, "ends of ranges"));
}

// As in Ray Train, and in a server.
TEST(Torch, OnlyAnotherThreadHasTensors_IsObserved) {
  const Pair pair = Torch().Run({"thread"}, {"--torch=all"});
  ASSERT_TRUE(pair.Same());
  EXPECT_EQ(pair.profiled.Fact("added"), 3u);
  EXPECT_GT(pair.profiled.profile->Count("aten::racing"), 19'000);
}

// A child must not find PyTorch's lock taken by a thread that it does not have.
TEST(Torch, ForksWhileTheListChanges_LeaveNoLockTaken) {
  RunOptions options;
  options.environment = {{"SIM_TORCH_CHANGE_US", "50"}};
  const RunResult result = RunUnderTbprof(Torch().Command({"forks_beside"}), options);
  ASSERT_EQ(result.code(), 0) << result.AllPrinted();
  EXPECT_EQ(result.Fact("taken"), 0u);
  EXPECT_GE(result.Fact("added"), 3u) << "and the counter, if operations are left out";
  EXPECT_GE(result.Fact("disabled") + result.Fact("enabled"), 12u) << "the list did not change meanwhile";
}

struct Level {
  const char* level;
  uint64_t added;
  bool ranges, operations;
};
class Levels : public testing::TestWithParam<Level> {};

TEST_P(Levels, EachLevel_RecordsItsEvents) {
  const Pair pair = Torch().Run({"ops"}, {std::string("--torch=") + GetParam().level});
  ASSERT_TRUE(pair.Same());
  const Profile& profile = *pair.profiled.profile;
  EXPECT_EQ(pair.profiled.Fact("added"), GetParam().added);
  EXPECT_EQ(profile.Count("my range"), GetParam().ranges ? 1 : 0);
  EXPECT_EQ(profile.Count("aten::addmm"), GetParam().operations ? 1 : 0);
  EXPECT_EQ(profile.Count("AddmmBackward0"), GetParam().operations ? 1 : 0);
}

INSTANTIATE_TEST_SUITE_P(Torch, Levels,
                         testing::Values(Level{"off", 0, false, false}, Level{"steps", 1, true, false},
                                         Level{"ops", 3, true, true}, Level{"all", 3, true, true}),
                         [](const auto& test) { return std::string(test.param.level); });

TEST(Torch, AnnotationsNotTraced_IsNotObserved) {
  const Pair pair = Torch().Run({"ops"}, {"--trace=thread,lock,malloc"});
  ASSERT_TRUE(pair.Same());
  EXPECT_EQ(pair.profiled.Fact("added"), 0u);
  EXPECT_FALSE(HasNote(pair.profiled, "PyTorch"));
}

TEST(Torch, AllocatorNotTraced_IsObserved) {
  const Pair pair = Torch().Run({"ops"}, {"--trace=annotation"});
  ASSERT_TRUE(pair.Same());
  EXPECT_EQ(pair.profiled.Fact("added"), 3u);
  EXPECT_THAT(pair.profiled.profile->Named("aten::addmm"), SizeIs(1));
}

// ---- the limit of cost

constexpr char kSampled[] = "PyTorch operations: sampled, ";

const nlohmann::json& OperationIn(const nlohmann::json& summary, const std::string& name) {
  static const nlohmann::json none;
  for (const auto& operation : summary["processes"][0]["operations"]) {
    if (operation["operation"] == name) return operation;
  }
  return none;
}

// How many of `events` begin in [from, to).
int64_t CountBetween(const std::vector<Event>& events, int64_t from, int64_t to) {
  return std::count_if(events.begin(), events.end(),
                       [&](const Event& event) { return event.start_ps >= from && event.start_ps < to; });
}

TEST(Torch, ManyOperations_WholeStepsAreSampled) {
  // 1.8 s of work after one second without work. Each batch has two optimizers: together they are one unit.
  constexpr int kCount = 900'000, kSteps = 450, kOfUnit = 2 * kCount / kSteps;
  const Torch torch;
  const RunResult result =
      RunUnderTbprof(torch.Command({"storm", std::to_string(kCount), std::to_string(kSteps), "2", "1000"}), With({}));
  ASSERT_EQ(result.code(), 0) << result.AllPrinted();
  const Profile& profile = *result.profile;
  const std::vector<Event> pauses = profile.Named(kPause);
  ASSERT_GE(pauses.size(), 2u);
  EXPECT_EQ(profile.Named("Optimizer.step#SGD.step").size(), static_cast<size_t>(kSteps));
  EXPECT_EQ(profile.Count("another range"), kSteps / 2);
  const std::vector<Event> operations = profile.Named("aten::add");
  EXPECT_LT(operations.size(), static_cast<size_t>(kCount) / 2);
  // The burst, and 1 % of the time; the second without work adds nothing.
  EXPECT_GT(CountBetween(operations, 0, pauses[0].start_ps), 8000);
  EXPECT_LT(CountBetween(operations, 0, pauses[0].start_ps), kCount / 9);  // more on a slow machine
  EXPECT_EQ(result.Fact("added"), 4u) << "one counts what is passed over";
  // Each pause disables the two observers of operations; a unit that is not counted disables the counter.
  EXPECT_GE(result.Fact("disabled"), 2 * pauses.size());
  EXPECT_LE(result.Fact("disabled"), 2 * pauses.size() + kSteps / 2);
  EXPECT_GE(result.Fact("enabled"), 2 * (pauses.size() - 1));
  for (size_t i = 0; i < pauses.size(); ++i) {
    EXPECT_EQ(CountBetween(operations, pauses[i].start_ps, pauses[i].end_ps()), 0);
    const int64_t next = i + 1 < pauses.size() ? pauses[i + 1].start_ps : INT64_MAX;
    const int64_t recorded = CountBetween(operations, pauses[i].end_ps(), next);
    // After the last one no unit may begin any more.
    if (!pauses[i].Has("clipped") && i + 1 < pauses.size()) {
      EXPECT_GE(recorded, kOfUnit);
    }
    EXPECT_EQ(recorded % kOfUnit, 0) << "a unit is recorded wholly or not at all, pause " << i;
  }
  EXPECT_FALSE(HasNote(result, "ends of ranges"));
}

TEST(Torch, ManyOperations_TotalsAreExtrapolatedAndTheTrueShareIsReported) {
  constexpr int kCount = 900'000, kSteps = 450;
  const Torch torch;
  const RunResult result =
      RunUnderTbprof(torch.Command({"storm", std::to_string(kCount), std::to_string(kSteps), "2"}), With({}));
  ASSERT_EQ(result.code(), 0) << result.AllPrinted();
  const auto& sampled = result.summary["processes"][0]["pytorch_operations"];
  const double recorded = sampled["recorded"], skipped = sampled["skipped"];
  constexpr double kAll = kCount + 10 * kSteps;
  // With short steps most units are not counted, but estimated by the CPU time of their thread.
  EXPECT_NEAR(recorded + skipped, kAll, kAll / 10);
  EXPECT_NEAR(sampled["recorded_share"], recorded / kAll, 0.01);
  EXPECT_EQ(sampled["skipped_is_estimated"], true);
  const auto& add = OperationIn(result.summary, "aten::add");
  EXPECT_EQ(add["estimated"], true);
  EXPECT_NEAR(add["calls"], kCount, kCount / 10);
  EXPECT_EQ(add["recorded"], result.profile->Count("aten::add"));
  EXPECT_EQ(OperationIn(result.summary, "Optimizer.step#SGD.step")["estimated"], false) << "all are recorded";
  EXPECT_EQ(OperationIn(result.summary, "Optimizer.step#SGD.step")["calls"], kSteps);
  // The same line is in the terminal and in the profile.
  const std::string line = StrCat(kSampled, SharePercent(skipped / (recorded + skipped)),
                                  " skipped to keep overhead under 1 % (record all: --torch=all)");
  EXPECT_TRUE(result.Printed(line.substr(0, 60))) << result.AllPrinted();
  EXPECT_TRUE(result.profile->HasWarning(line));
  // Bars stand for the missing operations, with a row that names them.
  const std::vector<Event> bars = result.profile->Named("estimate");
  ASSERT_GE(bars.size(), 2u);
  EXPECT_EQ(bars[0].line, "PyTorch operations not recorded (estimate)");
  int64_t bars_ps = 0, events_ps = 0;
  bool noted = false;
  for (const Event& bar : bars) {
    if (bar.Stat("tf_op") == "forward/aten/add:add") bars_ps += bar.end_ps() - bar.start_ps;
    noted |= bar.Stat("tf_op").find("PyTorch_operations_are_sampled/") == 0;
  }
  for (const Event& event : result.profile->Named("aten::add")) events_ps += event.end_ps() - event.start_ps;
  EXPECT_TRUE(noted);
  const double total_ps = 1e12 * static_cast<double>(add["total_s"]);
  EXPECT_NEAR(static_cast<double>(bars_ps + events_ps), total_ps, total_ps / 50);
}

TEST(Torch, All_EachOperationIsRecorded) {
  const Pair pair = Torch().Run({"storm", "300000", "300", "0"}, {"--torch=all", "--max-profile-size=1GiB"});
  ASSERT_TRUE(pair.Same());
  EXPECT_EQ(pair.profiled.profile->Count("aten::add"), 300'000);
  EXPECT_EQ(pair.profiled.profile->Count(kPause), 0);
  EXPECT_EQ(pair.profiled.Fact("disabled"), 0u);
  EXPECT_FALSE(pair.profiled.profile->HasWarning(kSampled));
  EXPECT_EQ(OperationIn(pair.profiled.summary, "aten::add")["estimated"], false);
  EXPECT_EQ(pair.profiled.summary["processes"][0]["pytorch_operations"]["skipped"], 0);
}

TEST(Torch, ManyOperationsWithoutSteps_StretchesAreSpreadOverTheRun) {
  constexpr int kCount = 1'500'000;
  const Torch torch;
  const RunResult result = RunUnderTbprof(torch.Command({"storm", std::to_string(kCount), "0", "2"}), With({}));
  ASSERT_EQ(result.code(), 0) << result.AllPrinted();
  const std::vector<Event> pauses = result.profile->Named(kPause), operations = result.profile->Named("aten::add");
  ASSERT_GE(pauses.size(), 4u);
  EXPECT_EQ(pauses[0].line, "PyTorch");
  EXPECT_EQ(result.Fact("disabled"), 2 * pauses.size());
  ASSERT_FALSE(operations.empty());
  // After the burst, each half of the rest has recorded intervals.
  const int64_t first = pauses[0].start_ps, end = pauses.back().end_ps();
  for (int part = 0; part < 2; ++part) {
    EXPECT_GT(CountBetween(operations, first + (end - first) / 2 * part, first + (end - first) / 2 * (part + 1)), 100);
  }
  EXPECT_NEAR(OperationIn(result.summary, "aten::add")["calls"], kCount, kCount / 50);
}

TEST(Torch, Capture_RecordsAllOperationsOfASampledRun) {
  constexpr int kOfStep = 500;
  const Torch torch;
  const auto running =
      StartUnderTbprof(torch.Command({"train", std::to_string(kOfStep)}), With({"--window-duration=400ms"}));
  EXPECT_GE(running->WaitForNumber("warm"), 0);
  running->Signal(SIGUSR1);
  ASSERT_TRUE(running->WaitForError("verified")) << running->Err();
  WriteFile(running->path() + "/stop", "");
  const RunResult result = running->Wait();
  ASSERT_EQ(result.code(), 0) << result.AllPrinted();
  ASSERT_THAT(result.run_directories, SizeIs(2)) << result.AllPrinted();
  int captures = 0;
  for (const std::string& directory : result.run_directories) {
    const std::vector<std::string> files = FilesBelow(directory, ".xplane.pb");
    ASSERT_THAT(files, SizeIs(1));
    const auto profile = Profile::Parse(files[0]);
    if (profile->Count(kPause) > 0) {
      EXPECT_TRUE(profile->HasWarning(kSampled)) << "the run's own window is sampled before and after";
      continue;
    }
    ++captures;
    EXPECT_FALSE(profile->HasWarning(kSampled));
    const std::vector<Event> steps = profile->Named("Optimizer.step#SGD.step"),
                             operations = profile->Named("aten::add");
    ASSERT_GE(steps.size(), 3u);
    for (size_t i = 1; i < steps.size(); ++i) {
      EXPECT_EQ(CountBetween(operations, steps[i - 1].end_ps(), steps[i].start_ps), kOfStep) << i;
    }
  }
  EXPECT_EQ(captures, 1);
}

TEST(Torch, WindowThatIsNamed_RecordsAllOperations) {
  const Torch torch;
  const RunResult result =
      RunUnderTbprof(torch.Command({"storm", "300000", "300", "2"}), With({"--window=100ms+300ms"}));
  ASSERT_EQ(result.code(), 0) << result.AllPrinted();
  ASSERT_NE(result.profile, nullptr) << result.AllPrinted();
  EXPECT_EQ(result.profile->Count(kPause), 0);
  EXPECT_GT(result.profile->Count("aten::add"), 1000);
  EXPECT_FALSE(result.profile->HasWarning(kSampled));
}

// ---- shapes

std::vector<std::string> ShapesOf(const Profile& profile, const std::string& name) {
  std::vector<std::string> shapes;
  for (const Event& event : profile.Named(name))
    shapes.push_back(event.Has("Input Dims") ? event.Stat("Input Dims") : "");
  return shapes;
}

TEST(Torch, Shapes_OfTheInputs_AreRecorded) {
  const Pair pair = Torch().Run({"shapes"}, {"--torch-shapes"});
  ASSERT_TRUE(pair.Same());
  const Profile& profile = *pair.profiled.profile;
  EXPECT_THAT(ShapesOf(profile, "aten::early"), ElementsAre("[[32, 64], [], [8, 3, 224, 224]]"));
  EXPECT_THAT(ShapesOf(profile, "aten::high"),
              ElementsAre("[[32, 64], [], [?]]", "[[32, 64], [], [2, 1, 3, 1, 2, 1, 4, 1, 1, 1, 1, 1]]"));
  EXPECT_EQ(ShapesOf(profile, "aten::mm"), std::vector<std::string>(100, "[[32, 64]]"));
  EXPECT_EQ(profile.Named("aten::mm")[0].Stat("sequence"), "3");
  EXPECT_THAT(ShapesOf(profile, "aten::of_a_stack"), ElementsAre("[[2, 1, 3, 1, 2, 1, 4, 1, 1, 1, 1, 1]]"));
  EXPECT_THAT(ShapesOf(profile, "aten::odd"), ElementsAre("[[7, 0, 5], [], [], []]"));
  EXPECT_THAT(ShapesOf(profile, "aten::without"), ElementsAre(""));
  EXPECT_EQ(profile.Named("aten::without")[0].Stat("sequence"), "5");
  EXPECT_THAT(ShapesOf(profile, "aten::symbolic"), ElementsAre("[[?]]"));
  EXPECT_THAT(ShapesOf(profile, "aten::cat")[0], MatchesRegex(R"(\[(\[8, 3, 224, 224\], )+\.\.\.\])"));
  EXPECT_THAT(ShapesOf(profile, "MmBackward0"), ElementsAre(""));
  EXPECT_THAT(ShapesOf(profile, "aten::behind_it"), ElementsAre("[[32, 64]]"));
  EXPECT_FALSE(profile.HasWarning("shapes"));
}

TEST(Torch, Shapes_NotRequested_AreNotRecorded) {
  const Pair pair = Torch().Run({"shapes"});
  ASSERT_TRUE(pair.Same());
  EXPECT_THAT(ShapesOf(*pair.profiled.profile, "aten::early"), ElementsAre(""));
  EXPECT_THAT(Torch().Run({"shapes"}, {"--torch-shapes", "--torch=steps"}).profiled.profile->Named("aten::early"),
              IsEmpty());
}

class OddInputs : public testing::TestWithParam<const char*> {};

TEST_P(OddInputs, UnknownLayout_EndsTheShapes) {
  const Pair pair = Torch().Run({"shapes", GetParam()}, {"--torch-shapes"});
  ASSERT_TRUE(pair.Same());
  const Profile& profile = *pair.profiled.profile;
  EXPECT_THAT(ShapesOf(profile, "aten::early"), ElementsAre("[[32, 64], [], [8, 3, 224, 224]]"));
  EXPECT_THAT(ShapesOf(profile, "aten::wrong"), ElementsAre(""));
  EXPECT_THAT(ShapesOf(profile, "aten::behind_it"), ElementsAre(""));
  EXPECT_EQ(profile.Named("aten::behind_it")[0].Stat("sequence"), "7");
  EXPECT_TRUE(profile.HasWarning("the shapes of PyTorch's operations are not recorded: an input is not laid out"));
}

INSTANTIATE_TEST_SUITE_P(Torch, OddInputs, testing::Values("count", "rank", "negative", "elements"),
                         [](const auto& test) { return std::string(test.param); });

TEST(Torch, Shapes_DifferFromPytorchs_AreNotRecorded) {
  const Pair pair = Torch().Run({"shapes", "told"}, {"--torch-shapes"});
  ASSERT_TRUE(pair.Same());
  EXPECT_THAT(ShapesOf(*pair.profiled.profile, "aten::mm"), ElementsAre("", "", ""));
  EXPECT_TRUE(pair.profiled.profile->HasWarning("the shapes of PyTorch's operations are not recorded"));
}

// ---- captures

TEST(Torch, NoWindow_OperationsAreInCapturesOnly) {
  const Torch torch;
  const auto running = StartUnderTbprof(torch.Command({"loop"}), With({"--window=none", "--window-duration=300ms"}));
  EXPECT_EQ(running->WaitForNumber("warm"), 0);
  running->Signal(SIGUSR1);
  ASSERT_TRUE(running->WaitForFact("added 3\n"));
  ASSERT_TRUE(running->WaitForFact("disabled 3\n")) << "after calls without a window it is told to pass us over";
  ASSERT_TRUE(running->WaitForError("verified")) << running->Err();
  running->Signal(SIGUSR1);
  ASSERT_TRUE(running->WaitForFact("enabled 3\n"));
  ASSERT_TRUE(running->WaitForFact("disabled 6\n"));
  WriteFile(running->path() + "/stop", "");
  const RunResult result = running->Wait();
  EXPECT_EQ(result.code(), 0) << result.AllPrinted();
  EXPECT_EQ(result.Fact("added"), 3u);
  ASSERT_THAT(result.run_directories, SizeIs(2)) << result.AllPrinted();
  for (const std::string& directory : result.run_directories) {
    const std::vector<std::string> files = FilesBelow(directory, ".xplane.pb");
    ASSERT_THAT(files, SizeIs(1));
    EXPECT_GT(Profile::Parse(files[0])->Count("aten::add"), 100) << directory;
  }
}

// ---- processes

TEST(Torch, ForkChildren_HaveTheirOwnOperations) {
  const Pair pair = Torch().Run({"fork"});
  ASSERT_TRUE(pair.Same());
  const Profile& profile = *pair.profiled.profile;
  EXPECT_EQ(pair.profiled.Fact("added"), 3u);
  EXPECT_EQ(pair.profiled.Fact("added_with_child"), 3u);
  const std::vector<Event> child = profile.Named("aten::of_the_child"), parent = profile.Named("aten::of_the_parent"),
                           behind = profile.Named("aten::behind_it");
  ASSERT_THAT(child, SizeIs(3));
  ASSERT_THAT(parent, SizeIs(1));
  ASSERT_THAT(behind, SizeIs(1));
  EXPECT_FALSE(parent[0].Has("clipped"));
  EXPECT_NE(child[0].line, parent[0].line);
  EXPECT_GE(behind[0].start_ps, parent[0].end_ps());
}

TEST(Torch, Pause_BelongsToItsProcess) {
  const Torch torch;
  const RunResult result = RunUnderTbprof(torch.Command({"forks_in_a_pause"}));
  ASSERT_EQ(result.code(), 0) << result.AllPrinted();
  EXPECT_GE(result.profile->Count(kPause), 1);
  EXPECT_GT(result.profile->Count("aten::of_the_child"), 100);
  EXPECT_FALSE(HasNote(result, "ends of ranges"));
}

TEST(Torch, ChildrenNotRecorded_DisableTheObserver) {
  const Pair alone = Torch().Run({"forks_a_worker"}, {"--follow=none"});
  ASSERT_TRUE(alone.Same());
  EXPECT_EQ(alone.profiled.profile->Count("aten::of_the_parent"), 2);
  EXPECT_EQ(alone.profiled.profile->Count("aten::of_the_child"), 0);
  EXPECT_EQ(alone.profiled.Fact("disabled_in_child"), 3u);
  EXPECT_EQ(alone.profiled.Fact("seen_at_the_end"), 0u);
  EXPECT_EQ(alone.profiled.Fact("enabled"), 0u);
  EXPECT_EQ(alone.profiled.Fact("disabled"), 0u) << "the parent's own list is as it was";

  const Pair both = Torch().Run({"forks_a_worker"});
  ASSERT_TRUE(both.Same());
  EXPECT_EQ(both.profiled.profile->Count("aten::of_the_child"), 1200);
  EXPECT_EQ(both.profiled.Fact("disabled_in_child"), 0u);
  EXPECT_EQ(both.profiled.Fact("seen_at_the_end"), 100u);
}

TEST(Torch, OperationsOpenAtTheEnd_AreClipped) {
  const Pair pair = Torch().Run({"ends", "exit"});
  ASSERT_TRUE(pair.Same());
  EXPECT_EQ(pair.profiled.code(), 3);
  for (const char* name : {"outer", "aten::inner"}) {
    const std::vector<Event> open = pair.profiled.profile->Named(name);
    ASSERT_THAT(open, SizeIs(1));
    EXPECT_EQ(open[0].Stat("clipped"), "end");
    EXPECT_GE(open[0].milliseconds(), 5);
  }
  EXPECT_FALSE(pair.profiled.profile->Named("aten::before")[0].Has("clipped"));
}

TEST(Torch, OperationsOpenAtAKill_AreClipped) {
  const Torch torch;
  const RunResult result = RunUnderTbprof(torch.Command({"ends", "kill"}));
  EXPECT_EQ(result.signal(), SIGKILL);
  ASSERT_NE(result.profile, nullptr);
  EXPECT_THAT(result.profile->Named("aten::before"), SizeIs(1));
  // The operation that is open at the kill may not have been recorded yet.
  const std::vector<Event> outer = result.profile->Named("outer");
  EXPECT_LE(outer.size(), 1u);
  for (const Event& open : outer) EXPECT_EQ(open.Stat("clipped"), "end");
}

// ---- memory of tensors

std::vector<Event> Reports(const Profile& profile, const std::string& allocator) {
  std::vector<Event> events;
  for (const char* name : {"MemoryAllocation", "MemoryDeallocation"}) {
    for (const Event& event : profile.Named(name)) {
      if (event.Stat("allocator_name") == allocator) events.push_back(event);
    }
  }
  return events;
}

TEST(Torch, MemoryOfDevices_IsRecorded) {
  const Pair pair = Torch().Run({"memory", "0"});
  ASSERT_TRUE(pair.Same());
  EXPECT_EQ(pair.bare.out, "memory 3146228 6\n") << "what libc10 is told, for the program's own profiler";
  const std::vector<Event> events = Reports(*pair.profiled.profile, "GPU:1 (torch)");
  ASSERT_THAT(events, SizeIs(5));
  for (int i = 0; i < 4; ++i) {
    const Event& event = events[static_cast<size_t>(i)];
    EXPECT_EQ(event.name, "MemoryAllocation");
    EXPECT_EQ(event.Number("addr"), 0x1000 * (i + 1));
    EXPECT_EQ(event.Number("allocation_bytes"), 1 << 20);
    EXPECT_EQ(event.Number("bytes_allocated"), (i + 1) << 20);
    EXPECT_EQ(event.Number("bytes_available"), (7 - i) << 20);
    EXPECT_EQ(event.Stat("tf_op"), "aten/empty:empty");
    EXPECT_EQ(event.Stat("region_type"), i == 2 ? "temp" : "persist/dynamic");
  }
  EXPECT_EQ(events[4].name, "MemoryDeallocation");
  EXPECT_EQ(events[4].Number("addr"), 0x3000);
  EXPECT_EQ(events[4].Number("peak_bytes_in_use"), 4 << 20);
  EXPECT_FALSE(events[4].Has("tf_op"));
  for (const Event& event : pair.profiled.profile->Named("MemoryAllocation")) {
    EXPECT_NE(event.Number("addr"), 0x5000) << "the host's memory is the allocator's hooks'";
  }
}

TEST(Torch, ManyMemoryReports_AreThinned) {
  const Pair pair = Torch().Run({"memory", "200000"});
  ASSERT_TRUE(pair.Same());
  const std::vector<Event> events = Reports(*pair.profiled.profile, "GPU:0 (torch)");
  EXPECT_GT(events.size(), 500u);
  EXPECT_LE(events.size(), 4000u);
  int64_t highest = 0;
  for (const Event& event : events) highest = std::max(highest, event.Number("bytes_allocated"));
  EXPECT_EQ(highest, (3 << 20) + 1000 + 199'999);
  // Each report is read, however few of them are shown.
  const nlohmann::json& rows = pair.profiled.summary["conservation"];
  const auto row = std::ranges::find_if(rows, [](const auto& one) { return one["kind"] == "tensor_memory_reports"; });
  ASSERT_NE(row, rows.end()) << rows.dump();
  EXPECT_GE((*row)["made"], 200'000);
  EXPECT_EQ((*row)["published"], (*row)["made"]);
  EXPECT_EQ((*row)["holds"], true);
}

TEST(Torch, MemoryWithOldStrings_IsRecorded) {
  const Pair pair = Torch("old_strings", "2.0.1").Run({"memory", "0"});
  ASSERT_TRUE(pair.Same());
  EXPECT_EQ(pair.profiled.out, "memory 3146228 6\n");
  EXPECT_THAT(Reports(*pair.profiled.profile, "GPU:1 (torch)"), SizeIs(5));
}

TEST(Torch, MemoryReports_EachOption_ArePassedOn) {
  for (const char* option : {"--torch=off", "--trace=thread", "--window=none"}) {
    const Torch torch;
    const RunResult result = RunUnderTbprof(torch.Command({"memory", "10"}), With({option}));
    EXPECT_EQ(result.code(), 0) << option << result.AllPrinted();
    EXPECT_EQ(result.out, "memory 3146228 26\n") << option;
    if (result.profile != nullptr) {
      EXPECT_THAT(Reports(*result.profile, "GPU:1 (torch)"), IsEmpty()) << option;
    }
  }
}

// ---- layouts of PyTorch's records

TEST(Torch, NumbersAtOtherOffsets_AreNotUsed) {
  const Pair pair = Torch().Run({"wrong"});
  ASSERT_TRUE(pair.Same());
  const std::vector<Event> operations = pair.profiled.profile->Named("aten::mm");
  ASSERT_THAT(operations, SizeIs(5));
  for (const Event& event : operations) EXPECT_FALSE(event.Has("sequence"));
  ASSERT_THAT(pair.profiled.profile->Named("MmBackward0"), SizeIs(1));
  EXPECT_FALSE(pair.profiled.profile->Named("MmBackward0")[0].Has("sequence"));
}

TEST(Torch, InvalidNames_AreReplaced) {
  const Pair pair = Torch().Run({"odd"});
  ASSERT_TRUE(pair.Same());
  const Profile& profile = *pair.profiled.profile;
  EXPECT_EQ(profile.Count(std::string(1024, 'x')), 1);
  EXPECT_EQ(profile.Count("(no name)"), 1);
  ASSERT_EQ(profile.Count("aten::minimum"), 1);
  EXPECT_FALSE(profile.Named("aten::minimum")[0].Has("sequence"));
  EXPECT_EQ(std::count_if(profile.events().begin(), profile.events().end(),
                          [](const Event& event) { return event.name.find("utf-8") != std::string::npos; }),
            1);
}

// Collectives of c10d begin on one thread and end on another.
TEST(Torch, RangesEndedByOtherThreads_AreMatched) {
  constexpr int kCount = 4200;  // more than a thread can have open
  const Pair pair = Torch().Run({"asynchronous", std::to_string(kCount)}, {"--torch=all"});
  ASSERT_TRUE(pair.Same());
  const Profile& profile = *pair.profiled.profile;
  const std::vector<Event> collectives = profile.Named("gloo:all_reduce");
  ASSERT_THAT(collectives, SizeIs(kCount));
  for (const Event& event : collectives) ASSERT_FALSE(event.Has("clipped"));
  EXPECT_EQ(profile.Count("aten::meanwhile"), kCount);
  EXPECT_EQ(profile.Count("aten::after_it"), kCount);
  EXPECT_EQ(profile.Count("at the end"), 1);
  EXPECT_FALSE(HasNote(pair.profiled, "ends of ranges"));
}

}  // namespace
}  // namespace tbprof::integration
