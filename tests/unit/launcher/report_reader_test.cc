// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/report_reader.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "launcher/base/text.h"
#include "launcher/report/bounded_json.h"
#include "launcher/report/report_output.h"
#include "tests/unit/launcher/report_maker.h"
#include "writer/base/scoped.h"
#include "writer/outputs/xspace_skim.h"
#include "writer/proto/xplane.pb.h"

namespace tbprof {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Directory {
 public:
  Directory() {
    char name[] = "/tmp/tbprof-report-XXXXXX";
    path_ = mkdtemp(name);
  }
  ~Directory() { std::filesystem::remove_all(path_); }
  std::string operator/(std::string_view name) const { return StrCat(path_, "/", name); }
  const std::string& path() const { return path_; }
  std::string Write(std::string_view name, const std::string& text) const {
    const std::string path = *this / name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

 private:
  std::string path_;
};

std::string ForeignProfile() {
  tensorflow::profiler::XSpace space;
  space.add_hostnames("other");
  auto* plane = space.add_planes();
  plane->set_name("/host:CPU");
  (*plane->mutable_event_metadata())[7].set_id(7);
  (*plane->mutable_event_metadata())[7].set_name("matmul\x1b[31m");
  auto* line = plane->add_lines();
  line->set_name("Steps");
  for (int i = 0; i < 5; ++i) {
    auto* event = line->add_events();
    event->set_metadata_id(7);
    event->set_duration_ps(int64_t{1'000'000'000} * (i + 1));
  }
  return space.SerializeAsString();
}

// ---- bounded JSON

TEST(BoundedJson, Truncated_NamesTheByte) {
  const std::string whole = MakeSummary().dump();
  for (size_t size = 0; size < whole.size(); size += 17) {
    const absl::StatusOr<nlohmann::json> json = ParseBoundedJson(whole.substr(0, size), "/p/summary.json");
    ASSERT_FALSE(json.ok()) << size;
    ASSERT_THAT(std::string(json.status().message()), HasSubstr("/p/summary.json: byte ")) << size;
  }
  EXPECT_TRUE(ParseBoundedJson(whole, "x").ok());
}

TEST(BoundedJson, DeepNesting_IsRefused) {
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  EXPECT_THAT(std::string(ParseBoundedJson(deep, "x").status().message()),
              HasSubstr("x: byte 65: nested deeper than 64 levels"));
}

TEST(BoundedJson, HugeNumbersAndTexts_AreRefused) {
  EXPECT_THAT(std::string(ParseBoundedJson("{\"a\": 1e999}", "x").status().message()), HasSubstr("too large"));
  EXPECT_FALSE(ParseBoundedJson(std::string(2000, '1'), "x").ok());
  EXPECT_FALSE(ParseBoundedJson(StrCat("[\"", std::string(2 << 20, 'a'), "\"]"), "x").ok());
  JsonLimits limits;
  limits.values = 100;
  std::string many = "[";
  for (int i = 0; i < 200; ++i) many += "[],";
  EXPECT_THAT(std::string(ParseBoundedJson(many + "1]", "x", limits).status().message()), HasSubstr("over 100 values"));
}

TEST(BoundedJson, LongArray_KeepsItsFirstValues) {
  JsonLimits limits;
  limits.array_values = 3;
  const auto json = ParseBoundedJson(R"({"a":[1,{"b":[2]},3,{"c":{"d":4}},5],"e":6})", "x", limits);
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ(json->dump(), R"({"a":[1,{"b":[2]},3],"e":6})");
}

TEST(BoundedJson, FileBeyondTheLimit_IsRefusedUnread) {
  const Directory directory;
  const std::string path = directory.Write("summary.json", "{}");
  ASSERT_EQ(truncate(path.c_str(), (off_t{512} << 20) + 1), 0);
  const ScopedFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_THAT(std::string(ReadBoundedJson(file.get(), path).status().message()), HasSubstr("512 MiB"));
}

// ---- wrong types

void VisitPaths(const nlohmann::json& value, const nlohmann::json::json_pointer& at,
                std::vector<nlohmann::json::json_pointer>* paths) {
  if (!at.empty()) paths->push_back(at);
  if (value.is_object()) {
    for (const auto& [name, member] : value.items()) VisitPaths(member, at / name, paths);
  } else if (value.is_array()) {
    for (size_t i = 0; i < value.size(); ++i) VisitPaths(value[i], at / i, paths);
  }
}

TEST(ReportReader, AnotherTypeInEachField_IsAFaultWithItsPlaceOrNotRead) {
  const nlohmann::json whole = MakeSummary();
  std::vector<nlohmann::json::json_pointer> paths;
  VisitPaths(whole, nlohmann::json::json_pointer(), &paths);
  ASSERT_GT(paths.size(), 150u);
  const nlohmann::json values[] = {nullptr,
                                   "text",
                                   -1,
                                   1.5,
                                   1e300,
                                   UINT64_MAX,
                                   INT64_MIN,
                                   true,
                                   nlohmann::json::array(),
                                   nlohmann::json::object(),
                                   {1, "a", nullptr},
                                   {{"a", 1}}};
  size_t faults = 0;
  for (const auto& path : paths) {
    for (const nlohmann::json& value : values) {
      nlohmann::json damaged = whole;
      damaged[path] = value;
      const absl::StatusOr<Report> report = ReportOf(damaged);
      if (report.ok()) {
        EXPECT_FALSE(ReportAsText(*report).empty());
        EXPECT_TRUE(nlohmann::json::accept(ReportAsJson(*report))) << path.to_string();
        EXPECT_LE(ReportAsMarkdown(*report, 500).size(), 1500u);
        EXPECT_FALSE(ReportAsCsv(*report).empty());
      } else {
        ++faults;
        EXPECT_THAT(std::string(report.status().message()), HasSubstr("summary.json: ")) << path.to_string();
        EXPECT_THAT(std::string(report.status().message()), HasSubstr("$")) << path.to_string();
      }
    }
  }
  EXPECT_GT(faults, 900u) << "most fields are read";
}

TEST(ReportReader, AnotherType_NamesThePath) {
  nlohmann::json summary = MakeSummary();
  summary["verdict"]["where"][1]["line"] = "17";
  const absl::StatusOr<Report> report = ReportOf(summary);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(std::string(report.status().message()),
            "/l/plugins/profile/r1/summary.json: $.verdict.where[1].line: an integer expected, found a text");
}

TEST(ReportReader, AnotherVersionOrForeignJson_IsRefused) {
  nlohmann::json summary = MakeSummary();
  summary["schema_version"] = 2;
  EXPECT_THAT(std::string(ReportOf(summary).status().message()), HasSubstr("$.schema_version: 2; this tbprof reads 1"));
  EXPECT_THAT(std::string(ReportOf({{"traceEvents", 1}}).status().message()), HasSubstr("no summary of tbprof"));
  EXPECT_THAT(std::string(ReportOf(nlohmann::json::array({1})).status().message()), HasSubstr("$: an object expected"));
}

TEST(ReportReader, SummaryWithoutAVerdict_IsAnswerInPart) {
  nlohmann::json summary = MakeSummary();
  summary.erase("verdict");
  const absl::StatusOr<Report> report = ReportOf(summary);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->missing, ElementsAre(HasSubstr("verdict and split: this summary has none")));
  EXPECT_THAT(ReportAsText(*report), HasSubstr("verdict: not known"));
}

TEST(ReportReader, VerdictWithoutBlocker_TakesItFromThePlaces) {
  nlohmann::json summary = MakeSummary();
  summary["verdict"].erase("blocker");
  EXPECT_EQ(ReportOf(summary)->verdict.blocker, "thread prefetch of process 8, in sleep at data.py:17 fetch");
  summary["verdict"]["where"].erase(1);
  EXPECT_EQ(ReportOf(summary)->verdict.blocker, "process 8, 60 % in queue.get at train.py:41 main, from train.py:90");
}

TEST(ReportReader, RankOfTheSameLauncher_HasWhatTheSummaryHasOfIt) {
  const absl::StatusOr<Report> report = ReportOf(MakeSummary(), 0);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->rank, 0);
  EXPECT_EQ(report->steps.median_s, 0.02);
  EXPECT_EQ(report->waits.size(), 1u);
  EXPECT_EQ(report->verdict.text, "85 % of the step: waits for collectives");
  EXPECT_EQ(report->verdict.blocker, "train.py:7 fill");
  EXPECT_THAT(report->missing, ElementsAre(HasSubstr("its launcher's summary has those of rank 1 alone")));
  EXPECT_FALSE(ReportOf(MakeSummary(), 7).ok());
}

// ---- sources

std::string OneRank(int rank, double median, const std::string& verdict) {
  nlohmann::json summary = MakeSummary();
  summary["rank"] = rank;
  summary["host"] = StrCat("vm_r", rank);
  summary["by_rank"] = nlohmann::json::array();
  summary["steps"]["median_s"] = median;
  summary["verdict"]["text"] = verdict;
  return summary.dump();
}

TEST(ReportSource, RanksOfOneLauncher_ShowsTheOneOfTheTerminal) {
  const Directory directory;
  directory.Write("plugins/profile/r/summary.json", OneRank(0, 0.01, "verdict of rank 0"));
  directory.Write("plugins/profile/r/vm_r1.summary.json", OneRank(1, 0.09, "verdict of rank 1"));
  const absl::StatusOr<ReportSource> source = FindSource("", directory.path(), "");
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(ReadReport(*source, std::nullopt)->verdict.text, "verdict of rank 0");
  const absl::StatusOr<Report> other = ReadReport(*source, 1);
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(other->verdict.text, "verdict of rank 1");
  EXPECT_FALSE(other->verdict.parts.empty()) << "its own split";
}

TEST(ReportSource, RanksWithoutSteps_ShowsTheFirst) {
  const Directory directory;
  for (const int rank : {0, 1, 2}) {
    nlohmann::json summary = nlohmann::json::parse(OneRank(rank, 0.01, StrCat("verdict of rank ", rank)));
    summary["steps"]["median_s"] = nullptr;
    directory.Write(StrCat("plugins/profile/r/vm_r", rank, ".summary.json"), summary.dump());
  }
  const absl::StatusOr<ReportSource> source = FindSource("", directory.path(), "");
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(ReadReport(*source, std::nullopt)->rank, 0);
}

TEST(ReportSource, RunOfSeveralLaunchers_ShowsTheSlowestAndALineOfEach) {
  const Directory directory;
  directory.Write("plugins/profile/r/vm_r0.summary.json", OneRank(0, 0.01, "verdict of rank 0"));
  directory.Write("plugins/profile/r/vm_r1.summary.json", OneRank(1, 0.09, "verdict of rank 1"));
  directory.Write("plugins/profile/r/vm_r2.summary.json", OneRank(2, 0.02, "verdict of rank 2"));
  directory.Write("plugins/profile/r/vm_r3.summary.json", "{\"schema_version\": ");
  const absl::StatusOr<ReportSource> source = FindSource("", directory.path(), "");
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(source->kind, SourceKind::kLogdir);
  const absl::StatusOr<Report> report = ReadReport(*source, std::nullopt);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->rank, 1);
  const std::string text = ReportAsText(*report);
  for (int rank = 0; rank < 3; ++rank) EXPECT_THAT(text, HasSubstr(StrCat("verdict of rank ", rank)));
  EXPECT_THAT(report->missing, ElementsAre(HasSubstr("vm_r3.summary.json: byte 19: it ends too early")));
  EXPECT_EQ(ReadReport(*source, 2)->verdict.text, "verdict of rank 2");
  EXPECT_THAT(std::string(ReadReport(*source, 9).status().message()), HasSubstr("no rank 9; ranks in it: 0, 1, 2"));
}

TEST(ReportSource, Names_LeadToTheRightRun) {
  const Directory directory;
  directory.Write("plugins/profile/old/summary.json", OneRank(0, 0.01, "old"));
  directory.Write("plugins/profile/new/summary.json", OneRank(0, 0.01, "new"));
  directory.Write("plugins/profile/empty/other.txt", "x");
  std::filesystem::last_write_time(directory / "plugins/profile/old/summary.json",
                                   std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  const auto verdict = [&](const std::string& operand, const std::string& run) {
    const absl::StatusOr<ReportSource> source = FindSource(operand, directory.path(), run);
    if (!source.ok()) return std::string(source.status().message());
    const absl::StatusOr<Report> report = ReadReport(*source, std::nullopt);
    return report.ok() ? report->verdict.text : std::string(report.status().message());
  };
  EXPECT_EQ(verdict("", ""), "new");
  EXPECT_EQ(verdict(directory.path(), "old"), "old");
  EXPECT_EQ(verdict("old", ""), "old");
  EXPECT_EQ(verdict(directory / "plugins/profile/old/", ""), "old");
  EXPECT_EQ(verdict(directory / "plugins/profile", ""), "new");
  EXPECT_EQ(verdict(directory / "plugins/profile/old/summary.json", ""), "old");
  EXPECT_THAT(verdict("nothing", ""), HasSubstr("nothing: no such file, and no such run below "));
  EXPECT_THAT(verdict(directory / "plugins/profile/empty", ""), HasSubstr("neither a log directory"));
  EXPECT_THAT(verdict("", "gone"), HasSubstr("plugins/profile/gone: no such run"));
  EXPECT_THAT(verdict("/dev/null", ""), HasSubstr("/dev/null: no regular file"));
}

TEST(ReportSource, ForeignProfile_ShowsWhatItsStructureHas) {
  const Directory directory;
  const std::string path = directory.Write("plugins/profile/r/h.xplane.pb", ForeignProfile());
  const absl::StatusOr<ReportSource> source = FindSource(path, directory.path(), "");
  ASSERT_TRUE(source.ok()) << source.status();
  const absl::StatusOr<Report> report = ReadReport(*source, std::nullopt);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->missing, ElementsAre(HasSubstr("not written by tbprof, or its summary.json is missing")));
  EXPECT_EQ(report->steps.count, 5u);
  EXPECT_DOUBLE_EQ(*report->steps.median_s, 0.003);
  ASSERT_TRUE(report->profile.has_value());
  EXPECT_EQ(report->profile->events, 5u);
  ASSERT_EQ(report->profile->planes[0].top.size(), 1u);
  EXPECT_EQ(report->profile->planes[0].top[0].name, "matmul\\x1b[31m");
  EXPECT_DOUBLE_EQ(report->profile->planes[0].top[0].total_s, 0.015);
}

// XSpace.warnings, as tbprof writes them; of a capture over a port, the summary is not sent.
std::string Warning(const std::string& text) { return std::string("\x1a") + static_cast<char>(text.size()) + text; }

TEST(ReportSource, ProfileOfOursWithoutSummary_AnswersAreThoseOfItsWarnings) {
  const Directory directory;
  const std::string bytes =
      ForeignProfile() +
      Warning("tbprof: verdict: 59 % of the main loop: sleeps; where: 59 % at a.py:2; split: sleep 59 %") +
      Warning("tbprof: steps unknown: it waits; the one step shown is synthetic and covers the capture");
  const std::string path = directory.Write("plugins/profile/r/h.xplane.pb", bytes);
  const absl::StatusOr<ReportSource> source = FindSource(path, directory.path(), "");
  ASSERT_TRUE(source.ok()) << source.status();
  const absl::StatusOr<Report> report = ReadReport(*source, std::nullopt);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->verdict.text, "59 % of the main loop: sleeps");
  EXPECT_EQ(report->verdict.blocker, "59 % at a.py:2");
  EXPECT_FALSE(report->steps.known);
  EXPECT_EQ(report->steps.unknown_because, "it waits");
  EXPECT_THAT(report->missing,
              ElementsAre(HasSubstr("its summary.json is missing: of the verdict the sentence alone")));
}

TEST(ReadNotes, AnyTexts_AreTakenAsTheyAre) {
  EXPECT_EQ(ReadNotes({}).verdict, "");
  EXPECT_EQ(ReadNotes({"verdict: mine", "tbprof: 3 records lost"}).verdict, "");
  EXPECT_EQ(ReadNotes({"tbprof: verdict: "}).verdict, "");
  EXPECT_EQ(ReadNotes({"tbprof: verdict: one", "tbprof: verdict: two"}).verdict, "one");
  EXPECT_EQ(ReadNotes({"tbprof: verdict: a; blocker: b; where: c; split: d"}).where, "b; where: c");
  EXPECT_TRUE(ReadNotes({"tbprof: verdict: a; blocker: b; where: c; split: d"}).is_waited_for);
  EXPECT_EQ(ReadNotes({"tbprof: verdict: a; where: b; next: c; memory: d"}).where, "b");
  EXPECT_EQ(ReadNotes({"tbprof (rank 12): verdict: a; where: b; memory: d"}).verdict, "a");
  EXPECT_EQ(ReadNotes({"tbprof (rank 3): steps unknown: none"}).no_steps_because, "none");
  EXPECT_EQ(ReadNotes({"tbprof (rank 3"}).verdict, "");
  EXPECT_FALSE(ReadNotes({"tbprof: verdict: a; where: b; blocker: c"}).is_waited_for);
  EXPECT_EQ(ReadNotes({"tbprof: verdict: what bounds the program is not known: 80 % is left; where: not known"})
                .unknown_because,
            "80 % is left");
  EXPECT_EQ(ReadNotes({"tbprof: steps unknown"}).no_steps_because, "none were recognised");
  EXPECT_EQ(ReadNotes({"tbprof: steps unknown; the one step shown is synthetic"}).no_steps_because,
            "none were recognised");
}

TEST(ReportSource, DamagedProfile_NamesTheByte) {
  const Directory directory;
  const std::string whole = ForeignProfile();
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::string path = directory.Write("h.xplane.pb", whole.substr(0, size));
    const absl::StatusOr<ReportSource> source = FindSource(path, directory.path(), "");
    const absl::Status status = source.ok() ? ReadReport(*source, std::nullopt).status() : source.status();
    if (!status.ok()) {
      EXPECT_THAT(std::string(status.message()), HasSubstr("h.xplane.pb: ")) << size;
      EXPECT_THAT(std::string(status.message()), HasSubstr("byte ")) << size;
    }
    // A profile that ends between two fields is valid; one that ends inside a field is not.
    if (size < whole.size() / 2) {
      EXPECT_FALSE(status.ok()) << size;
    }
  }
  std::string noise = whole;
  for (size_t i = 0; i < whole.size(); ++i) {
    noise[i] = static_cast<char>(whole[i] ^ 0x5a);
    const std::string path = directory.Write("h.xplane.pb", noise);
    const absl::StatusOr<ReportSource> source = FindSource(path, directory.path(), "");
    if (source.ok()) (void)ReadReport(*source, std::nullopt);
    noise[i] = whole[i];
  }
}

}  // namespace
}  // namespace tbprof
