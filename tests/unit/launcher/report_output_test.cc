// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/report_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "launcher/base/text.h"
#include "tests/unit/launcher/report_maker.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

Report Made() {
  absl::StatusOr<Report> report = ReportOf(MakeSummary());
  EXPECT_TRUE(report.ok()) << report.status();
  return report.ok() ? *std::move(report) : Report();
}

std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  for (const std::string_view line : Split(text, '\n')) lines.emplace_back(line);
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

// RFC 4180; each record must have the header's number of fields.
std::vector<std::vector<std::string>> CsvRecords(const std::string& text) {
  std::vector<std::vector<std::string>> records;
  std::vector<std::string> record(1);
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c != '"') {
        record.back() += c;
      } else if (i + 1 < text.size() && text[i + 1] == '"') {
        record.back() += '"';
        ++i;
      } else {
        quoted = false;
      }
    } else if (c == '"') {
      quoted = true;
    } else if (c == ',') {
      record.emplace_back();
    } else if (c == '\r') {
      EXPECT_EQ(text[i + 1], '\n');
      ++i;
      records.push_back(std::move(record));
      record = {""};
    } else {
      record.back() += c;
    }
  }
  EXPECT_FALSE(quoted);
  return records;
}

TEST(ReportText, StepsOfAPart_SayOfWhich) {
  Report report = Made();
  report.steps.searched_from_s = 2;
  report.steps.searched_to_s = 5.4;
  EXPECT_EQ(
      StepsLine(report),
      "60 steps in 3.40 s of 6.60 s, median 52.1 ms, 2 more irregular (confidence 0.95, found by Optimizer.step)");
}

TEST(ReportText, Lead_IsThatOfTheEndBlock) {
  const std::vector<std::string> lines = LinesOf(ReportAsText(Made()));
  ASSERT_GT(lines.size(), 6u);
  EXPECT_EQ(lines[0],
            "rank 1: verdict: 62 % of the step: waits for a thread that prepares its data, at train.py:41 main");
  EXPECT_EQ(lines[1], "60 steps, median 52.1 ms, 2 more irregular (confidence 0.95, found by Optimizer.step)");
  EXPECT_EQ(lines[2], "blocker: thread prefetch, in sleep at data.py:17 fetch");
  EXPECT_EQ(lines[3], "next: start more of these threads");
  EXPECT_EQ(lines[4], "split: input 62 %, Python 30 %");
  Report hung = Made();
  hung.verdict.hangs = {"main thread, in sem_wait at data.py:8 put"};
  EXPECT_EQ(LinesOf(ReportAsText(hung))[3], "hangs: main thread, in sem_wait at data.py:8 put");
  EXPECT_THAT(ReportAsJson(hung), HasSubstr("hangs: main thread, in sem_wait at data.py:8 put"));
}

// Of a reinforcement learning program, or of evaluations: much of the time is in no regular step.
TEST(ReportOutput, ManySamplesInIrregularSteps_HaveTheirLines) {
  for (const int samples : {100, 400, 600}) {
    nlohmann::json summary = MakeSummary();
    nlohmann::json& phases = summary["python"]["groups"][1]["phases"];
    nlohmann::json irregular = phases[0];
    irregular["phase"] = "irregular_steps";
    irregular["samples"] = samples;
    irregular["top_lines"] = nlohmann::json::array({irregular["top_lines"][0]});
    irregular["top_lines"][0]["line"] = 77;
    phases.push_back(std::move(irregular));
    const absl::StatusOr<Report> report = ReportOf(summary);
    ASSERT_TRUE(report.ok()) << report.status();
    const std::string text = ReportAsText(*report);
    EXPECT_THAT(text, HasSubstr("main thread, in steps: 500 samples"));
    const std::string heading = "main thread, in irregular steps: " + std::to_string(samples) + " samples";
    EXPECT_EQ(text.find(heading) != std::string::npos, samples >= 400) << text;
    EXPECT_EQ(text.find("train.py:77 main") != std::string::npos, samples >= 400);
  }
}

TEST(ReportOutput, ChangeOfSteps_IsInAllFormats) {
  nlohmann::json summary = MakeSummary();
  const std::string text =
      "slower: from 14.2 s (step 2830) on a step takes 12.1 ms, before 4.30 ms: +7.40 ms at a.py:8 f";
  summary["steps"]["change"] = {{"text", text},          {"kind", "jump"},
                                {"slower", true},        {"at_s", 14.2},
                                {"until_s", nullptr},    {"step", 2830},
                                {"before_s", 0.0043},    {"after_s", 0.0121},
                                {"steps_before", 2800},  {"steps_after", 400},
                                {"part", "python"},      {"part_s", 0.0075},
                                {"file", "/x/a.py"},     {"line", 8},
                                {"function", "f"},       {"line_s", 0.0074},
                                {"line_part", "python"}, {"line_part_s", 0.0074}};
  const absl::StatusOr<Report> report = ReportOf(summary);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(LinesOf(ReportAsText(*report))[2], text);
  EXPECT_THAT(ReportAsMarkdown(*report, 2000), HasSubstr("slower: from 14.2 s"));
  EXPECT_EQ(nlohmann::json::parse(ReportAsJson(*report))["steps"]["change"], summary["steps"]["change"]);
  std::string rows;
  for (const std::vector<std::string>& record : CsvRecords(ReportAsCsv(*report))) {
    if (record[0] == "steps") rows += record[3] + " " + record[4] + " " + record[5] + " " + record[7] + "\n";
  }
  EXPECT_EQ(rows, "median   0.0521\nbefore the change   0.0043\nafter the change /x/a.py 8 0.0121\n");
  EXPECT_TRUE(nlohmann::json::parse(ReportAsJson(Made()))["steps"]["change"].is_null());
}

// Without Python, the callers of the functions that use the CPU are functions of the program.
TEST(ReportText, NativeFunctions_WithoutPythonHaveCallers) {
  Report report = Made();
  NativeThreads& threads = report.native.at(0);
  threads.threads.clear();
  threads.main = false;
  threads.thread_count = 2;
  threads.rows = {{"sin", "libm.so.6", 90, 0.9, 0.9, 0.9}, {"main", "app", 0, 0, 1, 0}};
  threads.callers = {{"heavy(double)", "app", 70, 0, 0.7, 0.7}, {"light(double)", "app", 20, 0, 0.2, 0.2}};
  EXPECT_THAT(ReportAsText(report), Not(HasSubstr("with what they call")));
  report.python.clear();
  const std::string text = ReportAsText(report);
  EXPECT_THAT(text, HasSubstr("      with what they call: 70 % heavy (app), 20 % light (app)\n"));
  EXPECT_THAT(text, HasSubstr("sin (libm.so.6)"));
  EXPECT_THAT(text, Not(HasSubstr("main (app)"))) << "it runs nothing itself";
  EXPECT_THAT(text, HasSubstr("2 threads, "));
}

TEST(ReportText, CallersOfNativeFunctions_HaveNamesAndAreAPart) {
  nlohmann::json summary = MakeSummary();
  nlohmann::json& group = summary["native"]["groups"][0];
  const double whole = group["cpu_s"];
  group["phases"] = nullptr;
  group["top_total"] = nlohmann::json::array();
  for (const auto& [name, share] :
       {std::pair{"main", 1.0}, std::pair{"[libcrypto.so.3]", 0.9}, std::pair{"hash", 0.6}}) {
    group["top_total"].push_back({{"function", name},
                                  {"module", "app"},
                                  {"self_samples", 0},
                                  {"self_cpu_s", 0.0},
                                  {"total_samples", 9},
                                  {"total_cpu_s", share * whole}});
  }
  const absl::StatusOr<Report> report = ReportOf(summary);
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(report->native.at(0).callers.size(), 1u);
  EXPECT_EQ(report->native[0].callers[0].function, "hash");
}

TEST(ReportText, Tables_NameRankThreadsAndWindow) {
  const std::string text = ReportAsText(Made());
  EXPECT_THAT(text,
              HasSubstr("Python lines (rank 1, train.py, main thread, in steps: 500 samples, on a CPU for 90 %)"));
  EXPECT_THAT(text, HasSubstr("60 %    3.00 s    2.00 s  train.py:41 main"));
  EXPECT_THAT(text, HasSubstr("native functions (rank 1, train.py, main thread, whole profile"));
  EXPECT_THAT(text, HasSubstr("sem_wait in train.py:41 main, via PyThread_acquire_lock (t.h:4)"));
  EXPECT_THAT(
      text,
      HasSubstr("rank 1, GPU 0 H100: 30 % busy (40 % in steps), 500 kernels for 1.90 s (NCCL 100 ms); whole profile"));
  EXPECT_THAT(text, HasSubstr("heap (rank 1, train.py 8): 19.5 KiB allocated in all, 300 B live at the end"));
  EXPECT_THAT(text, HasSubstr("9.77 KiB  train.py:50 load")) << "two places of one line are one row";
  EXPECT_THAT(text, HasSubstr("rank 0 (vm_r0): 60 steps, median 20.0 ms; 85 % of the step: waits for collectives"));
  EXPECT_THAT(text, HasSubstr("warning: one warning"));
  EXPECT_THAT(text, HasSubstr("error: one error"));
}

// In the second process one thread alone runs Python.
TEST(ReportText, GilOfSeveralThreads_IsATable) {
  const std::string text = ReportAsText(Made());
  EXPECT_THAT(text, HasSubstr("Python lines that held the GIL (rank 1, train.py 8, 2 threads, whole profile: 200 "
                              "samples)\n      60 %    1.20 s  nms.py:5 nms"));
  EXPECT_THAT(text, Not(HasSubstr("alone")));
  EXPECT_THAT(ReportAsMarkdown(Made(), 100'000), HasSubstr("| 60 % | 1.20 s | `/x/nms.py:5` `nms` |"));
  EXPECT_THAT(ReportAsCsv(Made()), HasSubstr("gil,1,data.py (9),alone,/x/alone.py,7,99,0.99,0.99,"));
}

TEST(ReportText, IdlePools_AreOneLine) {
  const std::string text = ReportAsText(Made());
  EXPECT_THAT(text, Not(HasSubstr("blas_thread_server")));
  EXPECT_THAT(text, HasSubstr("idle pools: 5.90 s in 1 wait site of OpenBLAS"));
  EXPECT_THAT(text, HasSubstr("4 threads of Python only wait"));
}

TEST(ReportText, ManyRows_StayWithinLinesAndColumns) {
  nlohmann::json summary = MakeSummary();
  for (int i = 0; i < 500; ++i) {
    nlohmann::json wait = summary["wait_sites"][0];
    wait["call_site"] = std::string(400, 'x') + std::to_string(i);
    summary["wait_sites"].push_back(wait);
    summary["warnings"].push_back(std::string(500, 'w'));
    nlohmann::json rank = summary["by_rank"][0];
    rank["rank"] = i + 2;
    rank["host"] = "host_" + std::to_string(i) + std::string(150, 'h');
    summary["by_rank"].push_back(rank);
    summary["gpus"].push_back(summary["gpus"][0]);
  }
  summary["verdict"]["text"] = std::string(4000, 'v');
  const absl::StatusOr<Report> report = ReportOf(summary);
  ASSERT_TRUE(report.ok()) << report.status();
  const std::vector<std::string> lines = LinesOf(ReportAsText(*report));
  EXPECT_LE(lines.size(), kReportLines);
  for (const std::string& line : lines) EXPECT_LE(Utf8Columns(line), kReportColumns) << line;
  EXPECT_THAT(lines.back(), HasSubstr("more rows: --json, --csv"));
}

TEST(ReportText, SecretOfTheCommand_IsMaskedInEveryForm) {
  const Report report = Made();
  for (const std::string& text :
       {ReportAsText(report), ReportAsJson(report), ReportAsCsv(report), ReportAsMarkdown(report, 100'000)}) {
    EXPECT_THAT(text, Not(HasSubstr("hunter2")));
  }
}

TEST(ReportCsv, EachRow_HasTheHeadersFields) {
  const std::vector<std::vector<std::string>> records = CsvRecords(ReportAsCsv(Made()));
  ASSERT_GT(records.size(), 20u);
  EXPECT_THAT(records[0], ::testing::ElementsAre("section", "rank", "process", "name", "file", "line", "calls",
                                                 "total_s", "share", "bytes"));
  bool has_line = false, has_odd = false;
  for (const std::vector<std::string>& record : records) {
    ASSERT_EQ(record.size(), records[0].size());
    has_line |= record[0] == "python" && record[1] == "1" && record[3] == "main" && record[4] == "/x/train.py" &&
                record[5] == "41" && record[6] == "300" && record[7] == "3" && record[8] == "0.6";
    has_odd |= record[4] == "/x/we,ird \"name\".py" && record[5].empty();
  }
  EXPECT_TRUE(has_line);
  EXPECT_TRUE(has_odd);
}

TEST(ReportJson, Answers_HaveStableNames) {
  const nlohmann::json out = nlohmann::json::parse(ReportAsJson(Made()));
  EXPECT_EQ(out["report_schema_version"], 1);
  EXPECT_EQ(out["source"]["kind"], "summary");
  EXPECT_EQ(out["complete"], true);
  EXPECT_EQ(out["verdict"]["where"][1]["line"], 17);
  EXPECT_EQ(out["verdict"]["split"][0]["title"], "input");
  EXPECT_EQ(out["python"][0]["lines"][0]["self_s"], 3.0);
  EXPECT_EQ(out["python"][0]["window"], "steps");
  EXPECT_EQ(out["waits"][1]["idle_pool"], "OpenBLAS");
  EXPECT_EQ(out["gil"].size(), 2u);
  EXPECT_EQ(out["gil"][0]["lines"][0]["held_s"], 1.2);
  EXPECT_EQ(out["memory"]["totals"][0]["name"], "unreleased");
  EXPECT_EQ(out["memory"]["text"][0], "grows by 1.00 MiB a step");
  EXPECT_EQ(out["ranks"].size(), 2u);
  EXPECT_EQ(out["ranks"][1]["end"], "killed by signal 9");
  EXPECT_TRUE(out["profile"].is_null());
}

TEST(ReportMarkdown, EachLimit_IsKeptAndTheCutNamed) {
  nlohmann::json summary = MakeSummary();
  for (int i = 0; i < 300; ++i) summary["wait_sites"].push_back(summary["wait_sites"][0]);
  const absl::StatusOr<Report> report = ReportOf(summary);
  ASSERT_TRUE(report.ok()) << report.status();
  for (size_t tokens = 100; tokens <= 2000; tokens += 13) {
    const std::string text = ReportAsMarkdown(*report, tokens);
    ASSERT_LE(text.size(), 3 * tokens) << tokens;
    ASSERT_EQ(ValidUtf8Prefix(text), text.size()) << tokens;
    ASSERT_THAT(text, HasSubstr("Cut")) << tokens;
  }
  const std::string some = ReportAsMarkdown(*report, 500);
  EXPECT_THAT(some, HasSubstr("verdict: 62 %"));
  EXPECT_THAT(some, HasSubstr("`/x/train.py:41` `main`"));
  EXPECT_THAT(some, HasSubstr("Warnings 1")) << "the least important is cut first";
  EXPECT_THAT(some, HasSubstr("## Evidence"));
}

TEST(ReportMarkdown, WithRoom_HasAllSections) {
  const std::string text = ReportAsMarkdown(Made(), 100'000);
  for (const std::string_view section :
       {"## Evidence", "## Split", "## Python lines", "## Python lines that held the GIL", "## Native functions",
        "## Waits", "## GPUs", "## Memory", "## Ranks", "## Not recorded", "## Warnings", "## Next steps"}) {
    EXPECT_THAT(text, HasSubstr(std::string(section)));
  }
  EXPECT_THAT(text, Not(HasSubstr("Cut to")));
  EXPECT_THAT(text, HasSubstr("`f¦g'h`")) << "no name ends its code span or its cell";
  EXPECT_THAT(text, HasSubstr("Python lines of process 9: refused: ptrace is denied"));
  EXPECT_THAT(text, HasSubstr("lost 12 records: segment full"));
}

TEST(ReportOutputs, NamesWithEscapesAndNewlines_ReachNoTerminal) {
  const std::string odd = "a\x1b[31m\nb\r\x07\xc2\x9b\xe2\x80\xae`|,\"<script>\x7f";
  nlohmann::json summary = MakeSummary();
  summary["run"] = summary["host"] = summary["command"]["line"] = odd;
  summary["warnings"] = summary["errors"] = {odd, odd};
  summary["verdict"]["text"] = summary["verdict"]["blocker"] = summary["verdict"]["next"] = odd;
  summary["verdict"]["where"][0]["function"] = summary["verdict"]["where"][0]["thread"] = odd;
  summary["verdict"]["facts"] = {odd};
  summary["python"]["groups"][1]["process"] = odd;
  summary["python"]["groups"][1]["phases"][0]["top_lines"][0]["function"] = odd;
  summary["native"]["groups"][0]["top_self"][0]["function"] = odd;
  summary["wait_sites"][0]["call_site"] = odd;
  summary["gpus"][0]["top_kernels"][0]["name"] = odd;
  summary["allocation_sites"][0]["frames"][0] = odd;
  summary["by_rank"][0]["host"] = odd;
  summary["records"]["dropped"][odd] = 3;
  summary["memory"][odd + "_bytes"] = 3;
  const absl::StatusOr<Report> report = ReportOf(summary);
  ASSERT_TRUE(report.ok()) << report.status();
  const std::string forms[] = {ReportAsText(*report), ReportAsJson(*report), ReportAsCsv(*report),
                               ReportAsMarkdown(*report, 5000)};
  for (const std::string& text : forms) {
    EXPECT_EQ(ValidUtf8Prefix(text), text.size());
    for (const char c : text) EXPECT_TRUE(static_cast<uint8_t>(c) >= 0x20 || c == '\n' || c == '\r') << int{c};
    EXPECT_THAT(text, Not(HasSubstr("\xc2\x9b")));
    EXPECT_THAT(text, Not(HasSubstr("\xe2\x80\xae")));
    EXPECT_THAT(text, Not(HasSubstr("\x7f")));
  }
  for (const auto& record : CsvRecords(forms[2])) EXPECT_EQ(record.size(), 10u);
  for (const std::string& line : LinesOf(forms[0])) EXPECT_LE(Utf8Columns(line), kReportColumns) << line;
}

TEST(ReportOutputs, EmptyReport_HasEveryForm) {
  const Report report;
  EXPECT_THAT(ReportAsText(report), StartsWith("verdict: not known\nsteps unknown"));
  EXPECT_EQ(CsvRecords(ReportAsCsv(report)).size(), 1u);
  EXPECT_THAT(ReportAsMarkdown(report, 100), HasSubstr("verdict: not known"));
  EXPECT_TRUE(nlohmann::json::parse(ReportAsJson(report))["verdict"].is_null());
}

}  // namespace
}  // namespace tbprof
