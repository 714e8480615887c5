// SPDX-License-Identifier: Apache-2.0
//
// `tbprof report`: prints the answers of a recorded profile; the exit status shows whether there are any.
#include "launcher/base/text.h"
#include "launcher/cli/commands.h"
#include "launcher/cli/terminal.h"
#include "launcher/report/report_output.h"
#include "launcher/report/report_reader.h"
#include "launcher/report/report_source.h"
#include "launcher/report/spool_summary.h"
#include "writer/base/utf8.h"
#include "writer/logdir/logdir.h"

namespace tbprof {
namespace {

constexpr int kExitInPart = 1, kExitNoAnswer = 2;

int Fail(std::string_view line, int status) {
  Terminal().Error(line);
  return status;
}

absl::StatusOr<Report> ReportOf(const Options& options, const ReportSource& source, std::optional<int64_t> rank) {
  if (source.kind != SourceKind::kSpool) return ReadReport(source, rank);
  Terminal terminal(options);
  const absl::StatusOr<SpoolText> text = SummaryOfSpool(source.path, options, &terminal);
  if (!text.ok()) return text.status();
  absl::StatusOr<Report> report = ReportOfText(text->summary, source, rank);
  if (report.ok()) report->missing.insert(report->missing.end(), text->remarks.begin(), text->remarks.end());
  return report;
}

}  // namespace

int CommandReport(const Options& options) {
  if (options.operands.size() > 1) {
    return Fail(StrCat("report takes one profile, spool, log directory or run, got `",
                       PrintableUtf8(options.operands[1]), "` as well"),
                kExitUsage);
  }
  if (int{options.json} + int{options.csv} + int{options.markdown} > 1) {
    return Fail("--json, --csv and --md exclude each other: give one of them", kExitUsage);
  }
  const absl::StatusOr<std::string> logdir = NormaliseLogdir(options.logdir, WorkingDirectory());
  if (!logdir.ok()) return Fail(std::string(logdir.status().message()), kExitUsage);
  const absl::StatusOr<ReportSource> source =
      FindSource(options.operands.empty() ? "" : options.operands[0], *logdir, options.run);
  if (!source.ok()) return Fail(std::string(source.status().message()), kExitNoAnswer);
  const absl::StatusOr<Report> report =
      ReportOf(options, *source, options.rank >= 0 ? std::optional(options.rank) : std::nullopt);
  if (!report.ok()) return Fail(PrintableUtf8(std::string(report.status().message())), kExitNoAnswer);
  const std::string text = options.json       ? ReportAsJson(*report)
                           : options.csv      ? ReportAsCsv(*report)
                           : options.markdown ? ReportAsMarkdown(*report, options.tokens)
                                              : ReportAsText(*report);
  if (!PrintOut(text)) return kExitUsage;
  return report->missing.empty() ? 0 : kExitInPart;
}

}  // namespace tbprof
