// SPDX-License-Identifier: Apache-2.0
#include "launcher/gate/run_numbers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>

#include "launcher/gate/sides.h"
#include "tests/unit/launcher/report_maker.h"

namespace tbprof {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

class RunNumbersTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/tbprof-run-numbers-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    directory_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  // Writes the file `relative` below the directory.
  std::string Write(const std::string& relative, const std::string& text) {
    const std::filesystem::path path = std::filesystem::path(directory_) / relative;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return path;
  }
  std::string Write(const std::string& relative, const Json& summary) { return Write(relative, summary.dump()); }

  std::string directory_;
};

// The summary of a run of one rank that ended normally, with a list of its steps.
Json MakeRun(size_t steps = 60, double step_s = 0.05) {
  Json summary = MakeSummary();
  Json& of_steps = summary["steps"];
  of_steps["count"] = steps;
  of_steps["mean_s"] = of_steps["median_s"] = step_s;
  of_steps["list"] = Json::array();
  of_steps["list"].push_back({{"number", 0}, {"start_s", 0}, {"duration_s", 9.0}, {"regular", false}});
  for (size_t i = 0; i < steps; ++i) {
    of_steps["list"].push_back({{"number", i + 1}, {"start_s", 1}, {"duration_s", step_s}, {"regular", true}});
  }
  summary["start_unix_ns"] = 1000;
  return summary;
}

std::optional<double> AmountOf(const RunNumbers& run, AmountKind kind, std::string_view name) {
  for (const Amount& amount : run.amounts) {
    if (amount.kind == kind && amount.name == name) return amount.per_step;
  }
  return std::nullopt;
}

TEST_F(RunNumbersTest, ReadRunNumbers_Summary_HasStepsCountsAndAmounts) {
  Json summary = MakeRun();
  summary["machine"] = {{"cpu_model", "EPYC"}, {"cpus", 8}, {"memory_bytes", nullptr}, {"kernel", "6.1"}};
  summary["step_counts"] = {{{"name", "kernels"}, {"per_step", 12.5}, {"basis", "steps"}}};
  summary["operations"] = {{{"name", "aten::mm"}, {"calls_per_step", 4}, {"s_per_step", 0.002}}};
  Json shell = summary["wait_sites"][0];
  shell["operation"] = "wait3";
  shell["total_s"] = 100.0;
  summary["wait_sites"].push_back(shell);
  const absl::StatusOr<RunNumbers> run = ReadRunNumbers(Write("summary.json", summary), std::nullopt);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_FALSE(AmountOf(*run, AmountKind::kWait, "wait3 at train.py:41 main")) << "longer than the steps";
  EXPECT_EQ(run->unfit, "");
  EXPECT_EQ(run->no_times, "");
  EXPECT_EQ(run->steps_s.size(), 60u);  // without the irregular step
  EXPECT_EQ(run->identity.cpu_model, "EPYC");
  EXPECT_EQ(run->identity.cpus, 8);
  EXPECT_THAT(run->identity.command, testing::Not(HasSubstr("hunter2")));
  ASSERT_EQ(run->counts.size(), 1u);
  EXPECT_EQ(run->counts[0].per_step, 12.5);
  EXPECT_EQ(run->no_counts, "12 records were dropped");
  EXPECT_NEAR(AmountOf(*run, AmountKind::kPart, "input").value_or(0), 1.9 / 60, 1e-12);
  EXPECT_NEAR(AmountOf(*run, AmountKind::kOperation, "aten::mm").value_or(0), 0.002, 1e-12);
  EXPECT_NEAR(AmountOf(*run, AmountKind::kKernel, "gemm").value_or(0), 1.9 / 62, 1e-12) << "irregular steps, too";
  EXPECT_NEAR(AmountOf(*run, AmountKind::kPythonLine, "train.py:41 main").value_or(0), 3.0 / 60, 1e-12);
  EXPECT_NEAR(AmountOf(*run, AmountKind::kWait, "sem_wait at train.py:41 main").value_or(0), 3.1 / 62, 1e-12);
  EXPECT_FALSE(AmountOf(*run, AmountKind::kWait, "pthread_cond_wait at blas_thread_server (libscipy_openblas64_.so)"));
}

// The timeline has the last part of a long run, the totals are of all of it.
TEST_F(RunNumbersTest, ReadRunNumbers_TotalsOfMoreThanTheSteps_AreNotDividedByThem) {
  Json summary = MakeRun();
  summary["totals_wall_s"] = 120.0;
  summary["step_counts"] = Json::array();
  const absl::StatusOr<RunNumbers> run = ReadRunNumbers(Write("summary.json", summary), std::nullopt);
  ASSERT_TRUE(run.ok());
  EXPECT_EQ(run->no_times, "");
  EXPECT_TRUE(run->counts.empty());
  EXPECT_EQ(run->no_counts, "its counts are of the whole run, its steps of a part of it");
  EXPECT_FALSE(AmountOf(*run, AmountKind::kKernel, "gemm"));
  EXPECT_FALSE(AmountOf(*run, AmountKind::kWait, "sem_wait at train.py:41 main"));
  EXPECT_TRUE(AmountOf(*run, AmountKind::kPythonLine, "train.py:41 main")) << "of the regular steps";
}

// Short events were left out, and steps were searched only where all events are.
TEST_F(RunNumbersTest, ReadRunNumbers_StepsOfAPart_DivideNoTotals) {
  Json summary = MakeRun();
  summary["steps"]["searched_from_s"] = 2.0;
  summary["steps"]["searched_to_s"] = 5.5;
  const absl::StatusOr<RunNumbers> run = ReadRunNumbers(Write("summary.json", summary), std::nullopt);
  ASSERT_TRUE(run.ok());
  EXPECT_EQ(run->no_times, "");
  EXPECT_EQ(run->no_counts, "its counts are of the whole run, its steps of a part of it");
  EXPECT_FALSE(AmountOf(*run, AmountKind::kKernel, "gemm"));
  EXPECT_FALSE(AmountOf(*run, AmountKind::kWait, "sem_wait at train.py:41 main"));
}

TEST_F(RunNumbersTest, ReadRunNumbers_StepsNotKnown_HasNoSource) {
  Json summary = MakeRun();
  summary["steps"]["known"] = false;
  summary["steps"]["source"] = "synthetic";
  EXPECT_EQ(ReadRunNumbers(Write("summary.json", summary), std::nullopt)->identity.steps_source, "");
}

// What a function of the program takes counts with the library's functions that it calls, in all threads.
TEST_F(RunNumbersTest, ReadRunNumbers_WithoutPython_HasTheProgramsFunctions) {
  Json summary = MakeRun();
  summary["steps"]["known"] = false;
  summary["steps"]["count"] = nullptr;
  summary["steps"]["irregular"] = nullptr;
  summary["window"] = "auto";
  Json& main = summary["native"]["groups"][0];
  const auto row = [](const char* function, const char* module, double total_s) {
    return Json{{"function", function}, {"module", module},    {"self_samples", 0},
                {"self_cpu_s", 0.0},    {"total_samples", 10}, {"total_cpu_s", total_s}};
  };
  main["top_total"] = {row("_start", "train", 3), row("main", "train", 3), row("metric(int)", "train", 2),
                       row("pow", "libm.so.6", 2), row("std::sort<int>(int*)", "train", 1)};
  Json others = main;
  others["main"] = false;
  others["top_total"] = Json::array({row("metric(int)", "train", 1)});
  summary["native"]["groups"].push_back(others);
  summary["processes"][0]["executable"] = "/opt/train";
  const auto read = [&] { return *ReadRunNumbers(Write("summary.json", summary), std::nullopt); };
  EXPECT_FALSE(AmountOf(read(), AmountKind::kOwnFunction, "metric")) << "a program with Python has lines";
  summary["python"]["groups"] = Json::array();
  const RunNumbers run = read();
  EXPECT_NEAR(AmountOf(run, AmountKind::kOwnFunction, "metric").value_or(0), 3, 1e-12);
  EXPECT_TRUE(AmountOf(run, AmountKind::kOwnFunction, "main"));
  for (const char* other : {"_start", "pow", "std::sort"}) {
    EXPECT_FALSE(AmountOf(run, AmountKind::kOwnFunction, other)) << other;
  }
}

TEST_F(RunNumbersTest, ReadRunNumbers_WindowWithoutSteps_HasShares) {
  Json summary = MakeRun();
  summary["steps"]["known"] = false;
  summary["steps"]["count"] = nullptr;
  Json& group = summary["python"]["groups"][1];
  group["top_lines"] = group["phases"][0]["top_lines"];
  group["phases"] = nullptr;
  const auto read = [&] { return *ReadRunNumbers(Write("summary.json", summary), std::nullopt); };
  summary["window"] = "auto";
  EXPECT_TRUE(read().shares.empty());
  summary["window"] = "capture 1";
  for (const Amount& share : read().shares) EXPECT_NE(share.kind, AmountKind::kPart) << "they are those of steps";
  summary["verdict"]["split"]["basis"] = "loop";
  const RunNumbers run = read();
  const auto share = [&](AmountKind kind, std::string_view name) {
    RunNumbers of = run;
    of.amounts = of.shares;
    return AmountOf(of, kind, name).value_or(-1);
  };
  EXPECT_EQ(run.python_samples, 600);
  EXPECT_EQ(run.native_samples, 300);
  EXPECT_NEAR(share(AmountKind::kPart, "input"), 0.62, 1e-12);
  EXPECT_NEAR(share(AmountKind::kPythonLine, "train.py:41 main"), 0.5, 1e-12) << "of the thread's time";
  EXPECT_NEAR(share(AmountKind::kFunction, "sgemm_kernel"), 2.0 / 3, 1e-12) << "of its CPU time";
}

TEST_F(RunNumbersTest, ReadRunNumbers_TwoThousandSteps_KeepsAll) {
  const absl::StatusOr<RunNumbers> run = ReadRunNumbers(Write("summary.json", MakeRun(2500)), std::nullopt);
  ASSERT_TRUE(run.ok());
  EXPECT_EQ(run->steps_s.size(), 2500u);
}

TEST_F(RunNumbersTest, ReadRunNumbers_WhatCannotBeCompared_SaysWhy) {
  const std::pair<std::string_view, std::function<void(Json*)>> unfit[] = {
      {"killed by signal 9",
       [](Json* json) {
         (*json)["command"] = {{"line", "x"}, {"exit_code", nullptr}, {"exit_signal", 9}};
       }},
      {"exit status 3", [](Json* json) { (*json)["command"]["exit_code"] = 3; }},
      {"not complete", [](Json* json) { (*json)["complete"] = false; }},
      {"$.schema_version: 2", [](Json* json) { (*json)["schema_version"] = 2; }},
      {"a number expected", [](Json* json) { (*json)["steps"]["median_s"] = "fast"; }},
  };
  for (const auto& [why, change] : unfit) {
    Json summary = MakeRun();
    change(&summary);
    const absl::StatusOr<RunNumbers> run = ReadRunNumbers(Write("summary.json", summary), std::nullopt);
    ASSERT_TRUE(run.ok()) << why;
    EXPECT_THAT(run->unfit, HasSubstr(why));
  }
  const std::pair<std::string_view, std::function<void(Json*)>> no_times[] = {
      {"9 regular steps", [](Json* json) { *json = MakeRun(9); }},
      {"steps are not known: no loop",
       [](Json* json) {
         (*json)["steps"]["known"] = false;
         (*json)["steps"]["unknown_because"] = "no loop";
       }},
      {"not sure what a step is", [](Json* json) { (*json)["steps"]["confidence"] = 0.3; }},
  };
  for (const auto& [why, change] : no_times) {
    Json summary = MakeRun();
    change(&summary);
    const absl::StatusOr<RunNumbers> run = ReadRunNumbers(Write("summary.json", summary), std::nullopt);
    ASSERT_TRUE(run.ok()) << why;
    EXPECT_EQ(run->unfit, "");
    EXPECT_THAT(run->no_times, HasSubstr(why));
  }
}

TEST_F(RunNumbersTest, ReadRunNumbers_DamagedFile_IsUnfit) {
  const std::string whole = MakeRun().dump();
  const absl::StatusOr<RunNumbers> run =
      ReadRunNumbers(Write("summary.json", whole.substr(0, whole.size() / 2)), std::nullopt);
  ASSERT_TRUE(run.ok());
  EXPECT_THAT(run->unfit, HasSubstr("summary.json: byte "));
  EXPECT_FALSE(ReadRunNumbers(directory_ + "/nowhere", std::nullopt).ok());
}

TEST_F(RunNumbersTest, ReadRunNumbers_SeveralRanks_TakesTheSlowestOrTheNamedOne) {
  for (const int rank : {0, 1, 2}) {
    Json summary = MakeRun(60, rank == 1 ? 0.08 : 0.05);
    summary["rank"] = rank;
    Write("run/vm_r" + std::to_string(rank) + ".summary.json", summary);
  }
  EXPECT_EQ(ReadRunNumbers(directory_ + "/run", std::nullopt)->median_step_s, 0.08);
  EXPECT_EQ(ReadRunNumbers(directory_ + "/run", 2)->median_step_s, 0.05);
  EXPECT_THAT(ReadRunNumbers(directory_ + "/run", 7)->unfit, HasSubstr("no summary of rank 7"));
}

TEST_F(RunNumbersTest, ReadRunNumbers_RanksOfOneLauncher_TakesTheOneThatTheTerminalShows) {
  for (const int rank : {0, 1, 2}) {
    Json summary = MakeRun(60, rank == 1 ? 0.08 : 0.05);
    summary["rank"] = rank;
    Write(rank == 0 ? "one/summary.json" : "one/vm_r" + std::to_string(rank) + ".summary.json", summary);
  }
  EXPECT_EQ(ReadRunNumbers(directory_ + "/one", std::nullopt)->median_step_s, 0.05);
  EXPECT_EQ(ReadRunNumbers(directory_ + "/one", 1)->median_step_s, 0.08);
}

TEST_F(RunNumbersTest, ReadSide_LogDirectory_HasAllWholeRunsThatEnded) {
  const auto add = [&](const std::string& name, int64_t start, const std::function<void(Json*)>& change) {
    Json summary = MakeRun();
    summary["start_unix_ns"] = start;
    change(&summary);
    Write("logs/plugins/profile/" + name + "/vm.summary.json", summary);
  };
  add("late", 9, [](Json*) {});
  add("early", 5, [](Json*) {});
  add("capture", 6, [](Json* json) { (*json)["window"] = "capture 1"; });
  add("running", 7, [](Json* json) { (*json)["command"] = {{"line", "x"}, {"running", true}}; });
  const absl::StatusOr<Side> side = ReadSide({directory_ + "/logs"}, std::nullopt, "");
  ASSERT_TRUE(side.ok()) << side.status();
  ASSERT_EQ(side->runs.size(), 2u);
  EXPECT_THAT(side->runs[0].path, HasSubstr("early"));
  EXPECT_THAT(side->runs[1].path, HasSubstr("late"));
}

TEST_F(RunNumbersTest, ReadSide_DamagedFile_IsAnError) {
  const std::string whole = MakeRun().dump();
  for (const std::string& text : {whole.substr(0, whole.size() / 2), std::string("{}")}) {
    const std::string path = Write("damaged.json", text);
    const absl::StatusOr<Side> side = ReadSide({path}, std::nullopt, "");
    ASSERT_FALSE(side.ok()) << text;
    EXPECT_THAT(std::string(side.status().message()), HasSubstr("damaged.json"));
  }
}

TEST_F(RunNumbersTest, ReadSide_NameOfARun_IsFoundInTheLogDirectory) {
  Write("logs/plugins/profile/first/vm.summary.json", MakeRun());
  Write("logs/plugins/profile/second/vm.summary.json", MakeRun());
  const std::string logdir = directory_ + "/logs";
  const absl::StatusOr<Side> side = ReadSide({"second"}, std::nullopt, "", logdir);
  ASSERT_TRUE(side.ok()) << side.status();
  ASSERT_EQ(side->runs.size(), 1u);
  EXPECT_EQ(side->runs[0].path, "second");
  EXPECT_THAT(std::string(ReadSide({"third"}, std::nullopt, "", logdir).status().message()),
              HasSubstr("no such run below " + logdir));
  EXPECT_FALSE(ReadSide({"second"}, std::nullopt, "").ok()) << "without a log directory";
}

TEST_F(RunNumbersTest, ReadRunNumbers_ProcessOfTheSteps_IsThatOfTheVerdict) {
  Json summary = MakeRun();
  summary["processes"] = {{{"pid", 7}, {"is_command", true}, {"replaced_by_exec", false}, {"started_ticks", 70}},
                          {{"pid", 8}, {"is_command", false}, {"replaced_by_exec", true}, {"started_ticks", 79}},
                          {{"pid", 8}, {"is_command", false}, {"replaced_by_exec", false}, {"started_ticks", 80}}};
  const auto process_of = [&] {
    const absl::StatusOr<RunNumbers> run = ReadRunNumbers(Write("summary.json", summary), std::nullopt);
    EXPECT_TRUE(run.ok() && run->unfit.empty());
    return std::pair(run->identity.pid, run->identity.started_ticks);
  };
  EXPECT_EQ(process_of(), std::pair(int64_t{8}, int64_t{80}));
  summary["verdict"]["where"] = Json::array();
  EXPECT_EQ(process_of(), std::pair(int64_t{7}, int64_t{70}));
  summary["processes"][0]["started_ticks"] = nullptr;
  EXPECT_EQ(process_of(), std::pair(int64_t{0}, int64_t{0}));
}

TEST_F(RunNumbersTest, ReadRunNumbers_StepsNotListed_HasTheirBlocks) {
  Json summary = MakeRun(3000);
  summary["steps"]["list"] = nullptr;
  summary["steps"]["blocks"] = {{"steps", 12}, {"medians_s", {0.05, 0.06}}, {"means_s", {0.07, 0.08}}};
  const absl::StatusOr<RunNumbers> run = ReadRunNumbers(Write("summary.json", summary), std::nullopt);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_TRUE(run->steps_s.empty());
  EXPECT_EQ(run->block_medians_s, (std::vector<double>{0.05, 0.06}));
  EXPECT_EQ(run->block_means_s, (std::vector<double>{0.07, 0.08}));
}

// A baseline rounds: the same run is known again.
TEST(RunNumbers, RunOfABaseline_IsTheSameRun) {
  RunNumbers read, stored;
  read.start_unix_ns = stored.start_unix_ns = 7;
  read.steps = stored.steps = 20;
  read.median_step_s = 0.12345678;
  stored.median_step_s = 0.123456;
  EXPECT_TRUE(IsSameRun(read, stored));
  stored.median_step_s = 0.1236;
  EXPECT_FALSE(IsSameRun(read, stored));
}

}  // namespace
}  // namespace tbprof
