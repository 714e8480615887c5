// SPDX-License-Identifier: Apache-2.0
#include "writer/outputs/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <nlohmann/json.hpp>

#include "tests/unit/writer/random_timeline.h"
#include "writer/base/summary_format.h"
#include "writer/base/utf8.h"
#include "writer/convert/rank_report.h"
#include "writer/outputs/summary_steps.h"

namespace tbprof {
namespace {

using Json = nlohmann::json;

constexpr int64_t kSecond = 1'000'000'000'000;

Timeline Sample() {
  Timeline timeline;
  timeline.host = "node";
  timeline.run = "2026_01_02_03_04_05";
  timeline.duration_ps = 12'340'000'000'000;
  timeline.exit_code = 0;
  timeline.user_cpu_seconds = 30.5;
  timeline.system_cpu_seconds = 1.25;
  timeline.records = 1'234'567;
  timeline.own_cost_seconds = 0.1;
  timeline.types = {{"pthread_cond_wait", EventFamily::kLock}, {"read", EventFamily::kIo}};
  timeline.processes.resize(2);
  timeline.processes[0].pid = 4711;
  timeline.processes[0].name = "python3";
  timeline.processes[0].is_command = true;
  timeline.processes[0].allocator = {1'000'000, 999'000, 3'000'000'000, 2'900'000'000, 100'000'000,
                                     512 << 20, 0,       512 << 20};
  timeline.processes[1].pid = 4712;
  timeline.processes[1].name = "busybox";
  timeline.processes[1].state = ProcessState::kNotLoaded;
  timeline.processes[1].reason = "statically linked";
  timeline.threads.resize(17);
  for (int i = 0; i < 10; ++i) {
    timeline.wait_sites.push_back({timeline.strings.Intern("Wait" + std::to_string(i) + " (queue.cc:7)"), 0, 1204,
                                   (10 - i) * kSecond, kSecond / 8});
    timeline.allocation_sites.push_back({{timeline.strings.Intern("at::empty" + std::to_string(i) + " (tensor.cpp:33)"),
                                          timeline.strings.Intern("caller")},
                                         10,
                                         1e9 / (i + 1)});
  }
  Step step;
  step.end_ps = timeline.duration_ps;
  timeline.steps.push_back(step);
  timeline.step_source = StepSource::kWholeCapture;
  timeline.step_source_text = kWholeCaptureText;
  timeline.steps_unknown = "what repeats mostly waits";
  timeline.drops = {{"no free chunk", 12'345}, {"never", 0}};
  timeline.events_over_budget = 5;
  timeline.warnings = {"tbprof: the loader worker left early"};
  return timeline;
}

std::vector<PublishedFile> SampleFiles() {
  return {{"/logs/plugins/profile/2026_01_02_03_04_05/node.xplane.pb", 1'300'000,
           "verified: 3 planes, 12 lines, 10432 events"}};
}

std::string Joined(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += line + "\n";
  return out;
}

SummaryOptions InLogs() {
  SummaryOptions options;
  options.logdir = "/logs";
  return options;
}

TEST(SummaryText, KnownFacts_AreInTheText) {
  const std::string text = Joined(SummaryText(Sample(), SampleFiles(), InLogs()));
  for (const char* expected :
       {"12.3 s wall, 30.5 s user + 1.25 s system CPU; exit status 0",
        "2 processes, 17 threads, 1.23 M records; steps unknown: what repeats mostly waits",
        "10.0 s    125 ms      1204  pthread_cond_wait in Wait0 (queue.cc:7)", "1.00 M allocations, 2.79 GiB in all",
        "by python3 (4711)", "live at the end 95.4 MiB; peak 512 MiB", "estimate   share", "at::empty0 (tensor.cpp:33)",
        "lost 12.3 k records: 12.3 k no free chunk", "5 events are in the totals but not drawn",
        "busybox (4712) not recorded: statically linked", "the loader worker left early",
        "tbprof's own cost in the program: about 100 ms of CPU (0.3 % of the command's)",
        "/logs/plugins/profile/2026_01_02_03_04_05/node.xplane.pb  1.24 MiB, verified: 3 planes, 12 lines, 10432 "
        "events",
        "tensorboard --logdir /logs\n", "run 2026_01_02_03_04_05"}) {
    EXPECT_NE(text.find(expected), std::string::npos) << expected << "\nin\n" << text;
  }
  EXPECT_EQ(text.find("never"), std::string::npos);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST(SummaryText, WallTimeBesideTheCommand_Known_HasALine) {
  SummaryOptions options = InLogs();
  EXPECT_EQ(Joined(SummaryText(Sample(), SampleFiles(), options)).find("profile written"), std::string::npos);
  options.seconds_before = 0.012;
  options.seconds_after = 0.095;
  const std::string text = Joined(SummaryText(Sample(), SampleFiles(), options));
  EXPECT_NE(text.find("profile written 95.0 ms after the command's end; tbprof's start took 12.0 ms\n"),
            std::string::npos)
      << text;
}

TEST(SummaryText, AllocationSites_AreSummedByCaller) {
  Timeline timeline = Sample();
  timeline.allocation_sites.clear();
  const auto site = [&](std::initializer_list<const char*> frames, double bytes) {
    AllocationSiteTotal total;
    for (const char* frame : frames) total.frames.push_back(timeline.strings.Intern(frame));
    total.bytes = bytes;
    timeline.allocation_sites.push_back(total);
  };
  site({"c10::alloc_cpu(unsigned long) (libc10.so)", "libc10.so+0x1b1e2", "at::relu(at::Tensor const&) (libtorch.so)",
        "step(int) (train.cc:9)"},
       3 << 20);
  site({"std::vector<int>::reserve(unsigned long) (libtorch.so)", "at::relu(at::Tensor const&) (libtorch.so)",
        "step(int) (train.cc:9)"},
       1 << 20);
  site({"libfoo.so+0x10"}, 1 << 10);
  site({"(anonymous namespace)::Fill(int) (libbar.so)",
        "at::(anonymous namespace)::structured::set(long) (libtorch.so)"},
       1 << 11);
  const std::string text = Joined(SummaryText(timeline, {}, InLogs()));
  EXPECT_NE(text.find("4.00 MiB"), std::string::npos) << text;
  EXPECT_NE(text.find("at::relu < step (train.cc:9)"), std::string::npos) << text;
  EXPECT_NE(text.find("libfoo.so+0x10"), std::string::npos) << text;
  EXPECT_NE(text.find("Fill < at::structured::set\n"), std::string::npos) << text;
}

// Memory from before the capture counts for the peak of the process.
TEST(SummaryText, ExactHeapOfACapture_HasThePeakOfTheProcess) {
  Timeline timeline = Sample();
  Process& process = timeline.processes[0];
  process.allocator.begin_bytes = 100 << 20;
  process.allocator.live_bytes = process.allocator.window_peak_bytes = process.allocator.peak_bytes = 124 << 20;
  process.exact_heap.recorded = true;
  process.exact_heap.peak_bytes = 24 << 20;
  const auto heading = [&] {
    for (const std::string& line : SummaryText(timeline, {}, {})) {
      if (line.find("each block") != std::string::npos) return line;
    }
    return std::string("none");
  };
  EXPECT_THAT(heading(), testing::HasSubstr("peak 124 MiB (24.0 MiB since the start) at "));
  process.allocator.begin_bytes = 0;
  EXPECT_THAT(heading(), testing::HasSubstr("peak 24.0 MiB at "));
  process.allocator.is_absolute = false;
  EXPECT_THAT(heading(), testing::HasSubstr("peak at least 24.0 MiB (without older blocks) at "));
}

TEST(SummaryText, SourceOfSteps_FitsEachWidth) {
  Timeline timeline = Sample();
  timeline.step_source = StepSource::kMarked;
  timeline.step_source_text = "Optimizer.step";
  timeline.step_confidence = 0.95;
  timeline.steps[0].is_regular = true;
  const std::string counts = "2 processes, 17 threads, 1.23 M records";
  const std::string steps = "1 step, median 12.3 s (confidence 0.95, found by Optimizer.step)";
  SummaryOptions options = InLogs();
  options.width = 120;
  EXPECT_EQ(SummaryText(timeline, {}, options)[1], counts + "; " + steps);
  options.width = 80;
  EXPECT_EQ(SummaryText(timeline, {}, options)[1], counts);
  EXPECT_EQ(SummaryText(timeline, {}, options)[2], steps);
}

TEST(SummaryText, StepsOfAPart_SayOfWhich) {
  Timeline timeline = Sample();
  timeline.step_source = StepSource::kInferred;
  timeline.step_source_text = "repeated launches";
  timeline.step_confidence = 0.95;
  timeline.steps[0].is_regular = true;
  timeline.steps_in_detail = true;
  timeline.full_detail = {2'000'000'000'000, 5'400'000'000'000};
  timeline.events_over_budget = 1200;
  SummaryOptions options = InLogs();
  options.width = 400;
  const std::string text = Joined(SummaryText(timeline, {}, options));
  EXPECT_NE(text.find("1 step in 3.40 s of "), std::string::npos) << text;
  EXPECT_NE(text.find("(--max-profile-size)"), std::string::npos) << text;
  EXPECT_NE(text.find("all recorded ones are drawn from 2.00 s to 5.40 s"), std::string::npos) << text;
}

// `timeout -s KILL 1 program`: only the CPU time of `timeout` is known.
TEST(SummaryText, IncompleteCpuTime_HasNoShare) {
  Timeline timeline = Sample();
  timeline.user_cpu_seconds = 0.002;
  timeline.system_cpu_seconds = 0.001;
  const std::string text = Joined(SummaryText(timeline, {}, InLogs()));
  EXPECT_NE(text.find("about 100 ms of CPU\n"), std::string::npos) << text;
}

TEST(SummaryText, UnknownFacts_AreLeftOut) {
  Timeline timeline;
  timeline.duration_ps = kSecond;
  const std::vector<std::string> lines = SummaryText(timeline, {}, InLogs());
  EXPECT_EQ(lines, (std::vector<std::string>{"1.00 s wall; still running", "0 processes, 0 threads, 0 records"}));
  timeline.exit_signal = SIGSEGV;
  timeline.exit_code = 139;
  EXPECT_NE(SummaryText(timeline, {}, InLogs())[0].find("killed by SIGSEGV"), std::string::npos);
}

TEST(SummaryText, RandomTimelines_FitTheTerminal) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    Timeline timeline = RandomTimeline(seed).Make();
    const Timeline sample = Sample();
    timeline.wait_sites = sample.wait_sites;
    for (CallSiteTotal& site : timeline.wait_sites) {
      site.site = timeline.strings.Intern(std::string(300, 'n') + "\x1b]0;title\x07 (a.cc:1)");
    }
    timeline.allocation_sites = {{{timeline.strings.Intern(std::string(300, 'a'))}, 1, 1e6}};
    timeline.processes[0].allocator.allocations = 5;
    for (int i = 0; i < 40; ++i) timeline.warnings.push_back("\x1b[31m" + std::string(500, 'w'));
    std::vector<PublishedFile> files(60, SampleFiles()[0]);
    for (const int limit : {25, 12, 5, 2}) {
      SummaryOptions options = InLogs();
      options.max_lines = limit;
      const std::vector<std::string> lines = SummaryText(timeline, files, options);
      EXPECT_LE(lines.size(), static_cast<size_t>(limit));
      for (const std::string& line : lines) {
        EXPECT_EQ(PrintableUtf8(line), line);
        if (line.find("/logs") == std::string::npos) {
          EXPECT_LE(Utf8Columns(line), 92u) << line;
        }
      }
      EXPECT_NE(Joined(lines).find("tensorboard --logdir /logs"), std::string::npos);
    }
  }
}

// Ranks 0 to 2 of 4: rank 0 is shown, 1 is slow, 2 was killed, 3 never started.
Timeline OfRanks() {
  Timeline timeline = Sample();
  timeline.rank = 0;
  timeline.world_size = 4;
  timeline.ranks = {0, 1, 2};
  timeline.missing_ranks = {3};
  for (int rank = 0; rank < 4; ++rank) {
    RankReport report;
    report.rank = rank;
    if (rank < 3) {
      report.state = RankState::kEnded;
      report.exit_code = 0;
      report.has_numbers = true;
      report.host = "node_r" + std::to_string(rank);
      report.processes = 2;
      report.threads = 10;
      report.records = 1000;
      report.steps = 20;
      report.step_source = "Optimizer.step";
      report.median_step_ps = (rank == 1 ? 80 : 40 + rank) * kSecond / 1000;
      report.last_step = 19 - rank;
      report.waited_ps = kSecond;
      report.own_cost_seconds = 0.1;
    }
    timeline.by_rank.push_back(report);
  }
  timeline.by_rank[2].exit_code = -1;
  timeline.by_rank[2].exit_signal = SIGKILL;
  timeline.by_rank[2].end_ps = 4 * kSecond;
  timeline.rank_warnings = RankWarnings(timeline);
  return timeline;
}

TEST(SummaryText, SeveralRanks_LabelsTheRankAndAddsTotals) {
  const std::string text = Joined(SummaryText(OfRanks(), SampleFiles(), InLogs()));
  for (const char* expected : {"3 of 4 ranks: 6 processes, 30 threads, 3000 records; waits 3.00 s (all threads)\n",
                               "slowest: rank 1, step median 80.0 ms; fastest: rank 0, 40.0 ms\n",
                               "rank 2: killed by SIGKILL at 4.00 s, last recorded step 17\n", "below: rank 0 alone",
                               "rank 0: 2 processes, 17", "where (all threads of rank 0)", "python3 (4711) of rank 0",
                               "tbprof's own cost in the program (3 ranks): about 300 ms of CPU"}) {
    EXPECT_NE(text.find(expected), std::string::npos) << expected << "\nin\n" << text;
  }
  for (const std::string& line : SummaryText(OfRanks(), {}, InLogs())) EXPECT_LE(Utf8Columns(line), 92u) << line;
}

TEST(SummaryText, OneRank_HasNoLabels) {
  Timeline timeline = OfRanks();
  timeline.by_rank.resize(1);
  timeline.rank_warnings.clear();
  const std::string text = Joined(SummaryText(timeline, SampleFiles(), InLogs()));
  EXPECT_EQ(text.find("rank"), std::string::npos) << text;
}

TEST(SummaryJson, SeveralRanks_HasASectionForEach) {
  const Json json = Json::parse(SummaryJson(OfRanks(), SampleFiles(), InLogs()));
  ASSERT_EQ(json["by_rank"].size(), 4u);
  EXPECT_EQ(json["by_rank"][1]["steps"]["median_s"], 0.08);
  EXPECT_EQ(json["by_rank"][2]["exit_signal"], SIGKILL);
  EXPECT_EQ(json["by_rank"][2]["end_s"], 4.0);
  EXPECT_EQ(json["by_rank"][2]["steps"]["last"], 17);
  EXPECT_EQ(json["by_rank"][3]["state"], "missing");
  EXPECT_TRUE(json["by_rank"][3]["process_count"].is_null());
  EXPECT_EQ(json["warnings"][0], "rank 2: killed by SIGKILL at 4.00 s, last recorded step 17");
}

TEST(SummaryText, ShellQuotesAndColours_AreApplied) {
  SummaryOptions options;
  options.logdir = "/my logs/it's";
  options.color = true;
  const std::string text = Joined(SummaryText(Sample(), SampleFiles(), options));
  EXPECT_NE(text.find("tensorboard --logdir '/my logs/it'\\''s'"), std::string::npos);
  EXPECT_NE(text.find("\x1b[1m"), std::string::npos);
  EXPECT_NE(text.find("\x1b[33mlost"), std::string::npos);
}

TEST(SummaryJson, FullTimeline_HasEachField) {
  const Json json = Json::parse(SummaryJson(Sample(), SampleFiles(), InLogs()));
  EXPECT_EQ(json["schema_version"], 1);
  EXPECT_TRUE(json["tbprof_version"].is_null());
  EXPECT_EQ(json["command"]["exit_code"], 0);
  EXPECT_TRUE(json["command"]["exit_signal"].is_null());
  EXPECT_EQ(json["published"], true);
  EXPECT_EQ(json["files"][0]["bytes"], 1'300'000);
  EXPECT_EQ(json["records"]["dropped"]["no free chunk"], 12'345);
  EXPECT_EQ(json["processes"][0]["allocator"]["peak_bytes"], 512 << 20);
  EXPECT_EQ(json["processes"][1]["state"], "not_loaded");
  EXPECT_EQ(json["wait_sites"][0]["operation"], "pthread_cond_wait");
  EXPECT_EQ(json["steps"]["source"], "synthetic");
  EXPECT_EQ(json["steps"]["known"], false);
  EXPECT_TRUE(json["steps"]["count"].is_null()) << "unknown, not one";
  EXPECT_TRUE(json["steps"]["median_s"].is_null());
  EXPECT_EQ(json["steps"]["unknown_because"], "what repeats mostly waits");
  EXPECT_DOUBLE_EQ(json["wall_s"], 12.34);
}

TEST(SummaryJson, Steps_ListAndDistribution_AreWritten) {
  Timeline timeline = Sample();
  timeline.steps.clear();
  timeline.step_source = StepSource::kMarked;
  timeline.step_source_text = "marker";
  for (int i = 0; i < 100; ++i)
    timeline.steps.push_back({i * kSecond, i * kSecond + (i + 1) * kSecond / 1000, i, "", 0});
  timeline.steps[99].is_regular = false;
  const Json steps = Json::parse(SummaryJson(timeline, {}, InLogs()))["steps"];
  EXPECT_EQ(steps["count"], 99);
  EXPECT_EQ(steps["irregular"], 1);
  ASSERT_EQ(steps["list"].size(), 100u);
  EXPECT_EQ(steps["list"][7]["number"], 7);
  EXPECT_EQ(steps["list"][7]["start_s"], 7.0);
  EXPECT_EQ(steps["list"][7]["duration_s"], 0.008);
  EXPECT_EQ(steps["list"][99]["regular"], false);
  EXPECT_EQ(steps["distribution"]["min_s"], 0.001);
  EXPECT_EQ(steps["distribution"]["p1_s"], 0.001);
  EXPECT_EQ(steps["distribution"]["p50_s"], 0.050);
  EXPECT_EQ(steps["distribution"]["p99_s"], 0.099);
  EXPECT_EQ(steps["distribution"]["max_s"], 0.099);
  EXPECT_EQ(steps["list_omitted"], 0);
  timeline.steps.resize(kMaxListedSteps + 1, timeline.steps[0]);
  const Json many = Json::parse(SummaryJson(timeline, {}, InLogs()))["steps"];
  EXPECT_TRUE(many["list"].is_null());
  EXPECT_EQ(many["list_omitted"], kMaxListedSteps + 1);
  EXPECT_EQ(many["distribution"]["count"], kMaxListedSteps);
  EXPECT_TRUE(steps["blocks"].is_null());
  EXPECT_EQ(many["blocks"]["steps"], 8);
  EXPECT_EQ(many["blocks"]["medians_s"].size(), 250u);
  EXPECT_EQ(many["blocks"]["means_s"].size(), 250u);
}

TEST(SummaryJson, NothingKnown_IsNullAndNotZero) {
  const Json json = Json::parse(SummaryJson(Timeline(), {}, InLogs()));
  for (const char* field : {"shortest_s", "median_s", "longest_s", "mean_s", "distribution", "source"}) {
    EXPECT_TRUE(json["steps"][field].is_null()) << field;
  }
  for (const char* field : {"rank", "world_size", "totals_wall_s", "user_cpu_s", "system_cpu_s"}) {
    EXPECT_TRUE(json[field].is_null()) << field;
  }
  Timeline uncounted = Sample();
  uncounted.counts_allocator = false;
  EXPECT_TRUE(Json::parse(SummaryJson(uncounted, {}, InLogs()))["processes"][0]["allocator"].is_null());
}

TEST(SummaryJson, InvalidTexts_AreValidJson) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    Timeline timeline = RandomTimeline(seed).Make();
    timeline.processes[0].arguments = {"\xff\xfe", "\n\"", std::string("\0x", 2)};
    timeline.drops.push_back({timeline.drops[0].cause, 4});
    const Json json = Json::parse(SummaryJson(timeline, {}, InLogs()));
    EXPECT_EQ(json["published"], false);
    EXPECT_EQ(json["records"]["dropped"]["no free chunk"], timeline.drops[0].records + 4);
  }
}

TEST(SummaryFormat, NumbersAndWords_AreReadable) {
  EXPECT_EQ(HumanTime(0), "0 s");
  EXPECT_EQ(HumanTime(1), "0.00 ns");
  EXPECT_EQ(HumanTime(45'000), "45.0 ns");
  EXPECT_EQ(HumanTime(999'999), "1.00 us");
  EXPECT_EQ(HumanTime(kSecond), "1.00 s");
  EXPECT_EQ(HumanTime(125 * kSecond), "2 min 5 s");
  EXPECT_EQ(HumanTime(11'520 * kSecond), "3 h 12 min");
  EXPECT_EQ(HumanTime(-kSecond), "-1.00 s");
  EXPECT_EQ(HumanSeconds(0.25), "250 ms");
  EXPECT_EQ(HumanSeconds(9e12), HumanSeconds(1e300));
  EXPECT_EQ(HumanSeconds(-9e12), HumanSeconds(-1e300));
  EXPECT_EQ(HumanSeconds(std::nan("")), "0 s");
  EXPECT_LT(HumanPercent(1e300).size(), 20u);
  EXPECT_EQ(HumanBytes(0), "0 B");
  EXPECT_EQ(HumanBytes(1536), "1.50 KiB");
  EXPECT_EQ(HumanBytes(1023.9 * 1024), "1.00 MiB");
  EXPECT_EQ(HumanBytes(-2048), "-2.00 KiB");
  EXPECT_EQ(HumanCount(9999), "9999");
  EXPECT_EQ(HumanCount(12'345), "12.3 k");
  EXPECT_EQ(HumanPercent(0.003), "0.3 %");
  EXPECT_EQ(HumanPercent(0.32), "32 %");
  EXPECT_EQ(ShellQuoted("/a/b-c_d.e"), "/a/b-c_d.e");
  EXPECT_EQ(ShellQuoted(""), "''");
  EXPECT_EQ(ShellQuoted("$(x)"), "'$(x)'");
}

}  // namespace
}  // namespace tbprof
