// SPDX-License-Identifier: Apache-2.0
//
// The convert worker: reads its request, reports progress, publishes the profile.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <functional>
#include <map>
#include <new>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/time/clock.h"
#include "launcher/base/text.h"
#include "launcher/base/version.h"
#include "launcher/convert/conversion.h"
#include "launcher/convert/conversion_messages.h"
#include "launcher/target/command_python.h"
#include "launcher/target/preflight.h"
#include "wire/clock.h"
#include "writer/base/arguments.h"
#include "writer/base/scoped.h"
#include "writer/base/summary_format.h"
#include "writer/base/trusted_path.h"
#include "writer/base/utf8.h"
#include "writer/convert/rank_json.h"
#include "writer/convert/rank_report.h"
#include "writer/convert/timeline_builder.h"
#include "writer/logdir/logdir.h"
#include "writer/outputs/end_block.h"
#include "writer/outputs/memory_text.h"
#include "writer/outputs/outputs.h"
#include "writer/outputs/step_change_text.h"
#include "writer/outputs/summary.h"
#include "writer/outputs/summary_verdict.h"
#include "writer/steps/step_detector.h"
#include "writer/verdict/rank_stragglers.h"

namespace tbprof {
namespace {

constexpr off_t kMostSummaryBytes = 64 << 20;
constexpr rlim_t kMaxAddressSpace = 4ull << 30;

void Print(const nlohmann::json& message) {
  const std::string text = message.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t wrote = write(kConvertResultFd, text.data() + done, text.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return;  // the launcher is gone; the profile is still worth finishing
    done += static_cast<size_t>(wrote);
  }
}

// After {"publishing": true} the worker waits for the log directory, until its next message.
void PrintPublishing(bool publishing) { Print({{"publishing", publishing}}); }

void AddSentences(const Timeline& timeline, RankReport* report) {
  report->verdict = VerdictSentence(timeline);
  constexpr size_t kColumns = 84;  // of a terminal's 100, less `tbprof: rank 0: `
  report->step_change = StepChangeText(timeline, kColumns);
  MemoryText memory = MemoryOf(timeline);
  report->memory = std::move(memory.levels);
  report->memory_growth = std::move(memory.growth);
}

// Writes the requested outputs of the timeline. `build` makes a timeline for a number of bytes. For most programs the
// expected size of the file is accurate; if the file is too long, it is written again with fewer bytes.
absl::StatusOr<Timeline> WriteOutputs(const ConversionRequest& request, Timeline timeline, RunDirectory* directory,
                                      const std::function<absl::StatusOr<Timeline>(uint64_t)>& build) {
  constexpr int kMaxAttempts = 4;
  for (const Output& output : Outputs()) {
    bool wanted = output.by_default;
    for (const std::string& name : request.also) wanted |= name == output.name;
    if (!wanted) continue;
    for (int attempt = 1;; ++attempt) {
      PrintPublishing(true);
      const bool limited = output.limited && attempt < kMaxAttempts;
      const absl::StatusOr<uint64_t> bytes =
          directory->Write(output, timeline, limited ? request.max_profile_size : UINT64_MAX);
      if (!bytes.ok()) return bytes.status();
      if (!limited || *bytes <= request.max_profile_size) break;
      PrintPublishing(false);
      const double per_expected =
          static_cast<double>(*bytes) / static_cast<double>(std::max<uint64_t>(timeline.expected_bytes, 1));
      timeline = Timeline();  // two timelines would need too much memory
      absl::StatusOr<Timeline> shorter =
          build(static_cast<uint64_t>(0.95 * static_cast<double>(request.max_profile_size) / per_expected));
      if (!shorter.ok()) return shorter.status();
      timeline = *std::move(shorter);
    }
  }
  return timeline;
}

// Reads the reports about ranks from the summaries of other launchers in a run's directory, each summary once. The
// summaries are untrusted: other users may be able to write there.
void ReadOtherRanks(const RunDirectory& directory, const std::string& run, const Timeline& own,
                    std::set<std::string>* seen, std::map<int, RankReport>* found) {
  // If a run does not fit one profile, the timeline shows only the end of the run.
  const auto before_ns = static_cast<uint64_t>(std::max<int64_t>(own.totals_ps - own.duration_ps, 0) / 1000);
  const uint64_t run_start = own.origin_unix_ns - std::min(own.origin_unix_ns, before_ns);
  const absl::StatusOr<ScopedFd> shared = OpenBeneath(directory.profile_fd(), run, O_RDONLY | O_DIRECTORY);
  if (!shared.ok()) return;
  ForEachEntry(shared->get(), [&](const char* name) {
    if (!std::string_view(name).ends_with(".summary.json") || !seen->insert(StrCat(run, "/", name)).second) return;
    const ScopedFd file(openat(shared->get(), name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
    struct stat facts;
    if (!file.valid() || fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode) ||
        facts.st_size > kMostSummaryBytes) {
      return;
    }
    std::string text(static_cast<size_t>(facts.st_size), '\0');
    if (!ReadAll(file.get(), &text, name).ok()) return;
    for (RankReport& report : RankReportsOfSummary(text, own.origin_unix_ns, run_start)) {
      const int rank = report.rank;
      found->emplace(rank, std::move(report));
    }
  });
}

// Waits for the files of other launchers' ranks. Adds their reports to the timeline, and at the deadline the missing
// ranks. A launcher publishes its summary after its profile.
void WaitForRanks(const RunDirectory& directory, const ConversionRequest& request, Timeline* timeline) {
  timeline->missing_ranks.clear();
  const int world = std::min(std::max(timeline->world_size, request.world_size), kMaxWorld);
  RankChoice choice;
  if (world <= 1 || !ParseRankChoice(timeline->ranks_recorded.c_str(), &choice)) return;
  const bool by_number_alone = IsByNumberAlone(choice, world);
  std::set<int> own(timeline->further_ranks.begin(), timeline->further_ranks.end());
  own.insert(timeline->rank);
  std::set<int> missing;
  for (int rank = 0; by_number_alone && rank < world; ++rank) {
    if (!IsChosen(choice, {.rank = rank, .local_rank = -1, .world_size = world}) || own.count(rank) != 0) continue;
    missing.insert(rank);
  }
  // Each launcher decides separately whether its run fits one profile.
  const std::string end = StrCat("_", WindowName(kEndWindow));
  const std::string& run = directory.run();
  const std::string other = run.ends_with(end) ? run.substr(0, run.size() - end.size()) : StrCat(run, end);
  std::set<std::string> seen;
  std::map<int, RankReport> found;
  const absl::Time deadline = absl::Now() + absl::Milliseconds(request.rank_wait_ms);
  for (;;) {
    for (const std::string& place : {run, other}) {
      ReadOtherRanks(directory, place, *timeline, &seen, &found);
    }
    std::erase_if(missing, [&](int rank) { return found.count(rank) != 0; });
    if (missing.empty() || absl::Now() >= deadline) break;
    PrintPublishing(true);
    absl::SleepFor(absl::Milliseconds(50));
  }
  timeline->missing_ranks.assign(missing.begin(), missing.end());
  timeline->ranks_elsewhere = 0;
  for (auto& [rank, report] : found) {
    if (own.count(rank) == 0) PutRankReport(std::move(report), &timeline->by_rank);
  }
  for (const int rank : missing) {
    RankReport report;
    report.rank = rank;
    PutRankReport(std::move(report), &timeline->by_rank);
  }
}

// Finds the requested steps. The newest step may still continue, and the next step may move the bounds of an inferred
// step.
void FindSteps(const Timeline& timeline, const ConversionRequest& request, ConversionResult* result) {
  if (timeline.step_source == StepSource::kWholeCapture) return;
  // Of the other time, it is not known how many steps there were.
  if (timeline.steps_in_detail) return;
  // Work that repeats before the training (imports, unpacking) must not end the recording.
  if (request.summary_only && timeline.step_confidence < kSureConfidence) return;
  result->step_source = timeline.step_source_text;
  int64_t count = 0;
  for (const Step& step : timeline.steps) {
    if (!step.is_regular) continue;
    result->newest_step = std::max(result->newest_step, step.number);
    if (step.number >= request.first_step && step.number <= request.last_step) {
      const int64_t from = step.start_ps / 1000;
      result->steps_from_ns = result->steps_from_ns < 0 ? from : std::min(result->steps_from_ns, from);
      result->steps_to_ns = std::max(result->steps_to_ns, step.end_ps / 1000);
      ++count;
    }
  }
  if (count == 0) return;
  // The event that defines a step (its optimizer's end, or the next step's beginning) may lie on the border.
  const int64_t margin = std::min<int64_t>((result->steps_to_ns - result->steps_from_ns) / count / 20, 2'000'000);
  result->steps_from_ns = std::max<int64_t>(result->steps_from_ns - margin, 0);
  result->steps_to_ns += margin;
}

// Limit for one file: the files of all ranks go into one reply, which has a limit of its own.
uint64_t MostBytesOfFile(const ConversionRequest& request, size_t files) {
  if (request.max_reply_bytes == 0) return request.max_profile_size;
  return std::min(request.max_profile_size, request.max_reply_bytes / files);
}

void ReportReplyLimit(const ConversionRequest& request, size_t files, Timeline* timeline) {
  if (timeline->events_over_budget == 0 || MostBytesOfFile(request, files) == request.max_profile_size) return;
  timeline->warnings.push_back(
      StrCat("a reply takes at most ", request.max_reply_bytes >> 10, " KiB",
             files > 1 ? StrCat(" for the files of ", files, " ranks") : "",
             ": what is published by the job itself (a signal, `tbprof capture PID`) has no such limit"));
}

// Uses the descriptor of the spool's directory: the path may lead to another directory by now.
std::string ReadableSpool(const ConversionRequest& request) {
  if (request.spool_directory < 0) return request.spool;
  return StrCat("/proc/self/fd/", request.spool_directory, "/", request.spool_name);
}

// Opens the log directory that existed when the command started, at its present path; creates it again if it was
// removed.
absl::StatusOr<LogDirectory> HeldLogdir(const ConversionRequest& request, const std::string& host,
                                        std::vector<std::string>* warnings) {
  LogDirectory held{ScopedFd(request.logdir_fd < 0 ? -1 : fcntl(request.logdir_fd, F_DUPFD_CLOEXEC, 0)), request.logdir,
                    request.logdir_place};
  if (held.fd.get() >= 0 && IsRemoved(held.fd.get())) {
    const absl::Status made = PrepareLogdir(request.logdir, host);
    if (!made.ok()) return made;
    warnings->push_back("the log directory was removed while the command ran; it was made again");
    held.fd.Reset();
  }
  if (held.fd.get() < 0) return LogDirectory::Open(request.logdir);
  std::string now = PathOfDirectory(held.fd.get());
  if (now.empty() || held.place.empty() || now == held.place) return held;
  warnings->push_back(
      StrCat("the log directory was renamed while the command ran; this profile is in ", PrintableUtf8(now)));
  held.path = std::move(now);
  return held;
}

// The wall time that tbprof itself has added to the command so far.
void AddShare(const ConversionRequest& request, SummaryOptions* options) {
  if (request.command_end_ns == 0) return;
  options->seconds_before = static_cast<double>(request.before_command_ns) / 1e9;
  const uint64_t now = ReadMonotonic();
  options->seconds_after = static_cast<double>(now - std::min(now, request.command_end_ns)) / 1e9;
}

// Converts a spool into a published run, step by step.
class Job {
 public:
  explicit Job(const ConversionRequest& given) : given_(given), request_(given) {
    request_.max_profile_size = MostBytesOfFile(given, 1);
    building_.spool = ReadableSpool(request_);
    building_.extent = request_.extent;
    building_.window = request_.window;
    building_.max_profile_size = request_.max_profile_size;
    building_.step_marker = request_.step_marker;
    building_.warnings = request_.warnings;
    building_.recovered = request_.recovered;
    building_.command_ended = request_.command_ended;
    building_.agreed_start_unix_ns = request_.agreed_start_unix_ns;
    building_.examine = [environment = CurrentEnvironment()](const std::string& path) {
      return ExamineFile(path, environment);
    };
  }

  absl::StatusOr<ConversionResult> Run() {
    absl::StatusOr<Timeline> timeline = Build();
    if (!timeline.ok()) return timeline.status();
    if (request_.summary_only) return Summarize(*timeline);
    if (request_.last_step >= 0) timeline = CutToSteps(*std::move(timeline));
    if (!timeline.ok()) return timeline.status();
    absl::Status status = MakeDirectory(&*timeline);
    for (const int rank : timeline->further_ranks) {
      if (status.ok()) status = WriteRank(rank, &*timeline);
    }
    if (!status.ok()) return status;
    if (request_.wait_for_ranks) WaitForOthers(&*timeline);
    timeline = WriteOwn(*std::move(timeline));
    if (!timeline.ok()) return timeline.status();
    return Publish(*timeline);
  }

 private:
  absl::StatusOr<Timeline> Build() const {
    return BuildTimeline(building_, [](uint64_t done, uint64_t total) { Print({{"progress", {done, total}}}); });
  }

  ConversionResult Summarize(const Timeline& timeline) const {
    ConversionResult result;
    if (request_.last_step >= 0) {
      FindSteps(timeline, request_, &result);
    } else {
      SummaryOptions options;
      options.version = Version();
      result.summary_json = SummaryJson(timeline, {}, options);
    }
    return result;
  }

  // --window=steps=A:B
  absl::StatusOr<Timeline> CutToSteps(Timeline timeline) {
    ConversionResult steps;
    FindSteps(timeline, request_, &steps);
    if (steps.steps_from_ns >= 0 && steps.newest_step >= request_.last_step) {
      building_.part_from_ns = static_cast<uint64_t>(steps.steps_from_ns);
      building_.part_to_ns = static_cast<uint64_t>(steps.steps_to_ns);
      timeline = Timeline();
      return Build();
    }
    const std::string wanted = StrCat("--window=steps=", request_.first_step, ":", request_.last_step);
    timeline.warnings.push_back(
        steps.newest_step < 0
            ? StrCat(wanted, timeline.steps_in_detail ? ": the steps cannot be counted, since short events were left "
                                                        "out (--max-profile-size); this is all of the run"
                                                      : ": no steps were recognised; this is all of the run")
        : steps.newest_step > request_.last_step
            ? StrCat(wanted, ": all steps have higher numbers; this is all of the run")
            : StrCat("the command ended before step ", request_.last_step, " (the last was ", steps.newest_step,
                     "); this is all of the run"));
    return timeline;
  }

  absl::Status MakeDirectory(Timeline* timeline) {
    file_count_ = 1 + timeline->further_ranks.size();
    request_.max_profile_size = MostBytesOfFile(given_, file_count_);
    ReportReplyLimit(given_, file_count_, timeline);
    const std::string host = request_.host.empty() ? timeline->host : request_.host;
    PrintPublishing(true);
    absl::StatusOr<LogDirectory> logdir = HeldLogdir(request_, host, &timeline->warnings);
    if (!logdir.ok()) return logdir.status();
    logdir_ = *std::move(logdir);
    auto directory = RunDirectory::Create(logdir_->fd.get(), logdir_->path, request_.run, request_.run_exclusive, host,
                                          timeline->rank, timeline->further_ranks,
                                          request_.delivered ? RankNames::kClient : RankNames::kHosts);
    if (!directory.ok()) return directory.status();
    directory_ = *std::move(directory);
    directory_->set_durable(request_.durable);
    return absl::OkStatus();
  }

  // Writes the file of a further rank. `timeline`: the first rank's timeline, which gets the reports of this rank.
  absl::Status WriteRank(int rank, Timeline* timeline) {
    PrintPublishing(false);
    building_.rank = rank;
    const auto build = [&](uint64_t most_bytes) {
      building_.max_profile_size = most_bytes;
      absl::StatusOr<Timeline> further = Build();
      if (!further.ok()) return further;
      further->host = directory_->HostOf(rank);
      further->run = directory_->run();
      for (RankReport& report : further->by_rank) {
        if (report.rank != rank) continue;
        report.host = further->host;
        AddSentences(*further, &report);
        PutRankReport(report, &timeline->by_rank);
      }
      further->rank_warnings = RankWarnings(*further);
      ReportReplyLimit(given_, file_count_, &*further);
      return further;
    };
    absl::StatusOr<Timeline> further = build(request_.max_profile_size);
    const size_t earlier_files = directory_->written().size();
    if (further.ok()) further = WriteOutputs(request_, *std::move(further), directory_.get(), build);
    building_.rank = kAnyRank;
    // A client has no use for the summaries.
    if (!further.ok() || request_.delivered) return further.status();
    std::erase_if(further->by_rank, [&](const RankReport& report) { return report.rank != rank; });
    std::vector<RunDirectory::File> files = directory_->written();
    files.erase(files.begin(), files.begin() + static_cast<ptrdiff_t>(earlier_files));
    return directory_->WriteTextOfRank(rank, "summary.json", SummaryJson(*further, files, OptionsOfSummary()));
  }

  void WaitForOthers(Timeline* timeline) const {
    // Of launchers without a rank, the one that has rank 0 waits for the others.
    if (request_.world_size <= 1 && (timeline->ranks_elsewhere == 0 || timeline->rank != 0)) {
      timeline->ranks_elsewhere = 0;
      return;
    }
    WaitForRanks(*directory_, request_, timeline);
    if (timeline->missing_ranks.empty()) return;
    const int64_t waited = request_.rank_wait_ms;
    timeline->warnings.push_back(StrCat("missing ranks: ", RankList(timeline->missing_ranks),
                                        " (no file of theirs from this run in ", directory_->path(), " after ",
                                        HumanTime(waited * 1'000'000'000), ")"));
  }

  absl::StatusOr<Timeline> WriteOwn(Timeline timeline) {
    timeline.host = directory_->HostOf(timeline.rank);
    timeline.run = directory_->run();
    for (RankReport& report : timeline.by_rank) {
      if (report.rank != timeline.rank) continue;
      report.host = timeline.host;
      AddSentences(timeline, &report);
    }
    timeline.rank_warnings = RankWarnings(timeline);
    JudgeRanks(&timeline);
    const size_t further_files = directory_->written().size();
    // Copies, because `timeline` is moved into WriteOutputs.
    const auto build = [this, host = timeline.host, warnings = timeline.warnings,
                        rank_warnings = timeline.rank_warnings, missing = timeline.missing_ranks,
                        by_rank = timeline.by_rank](uint64_t most_bytes) {
      building_.max_profile_size = most_bytes;
      absl::StatusOr<Timeline> shorter = Build();
      if (!shorter.ok()) return shorter;
      shorter->host = host;
      shorter->run = directory_->run();
      shorter->warnings = warnings;
      shorter->rank_warnings = rank_warnings;
      shorter->missing_ranks = missing;
      shorter->by_rank = by_rank;
      JudgeRanks(&*shorter);
      ReportReplyLimit(given_, file_count_, &*shorter);
      return shorter;
    };
    absl::StatusOr<Timeline> written = WriteOutputs(request_, std::move(timeline), directory_.get(), build);
    if (written.ok()) directory_->PutFirst(further_files);
    return written;
  }

  SummaryOptions OptionsOfSummary() const {
    SummaryOptions options;
    options.logdir = logdir_->path;
    options.version = Version();
    options.viewer = ViewerCommand(CurrentEnvironment());
    options.color = request_.color;
    options.width = request_.width;
    AddShare(request_, &options);
    return options;
  }

  absl::StatusOr<ConversionResult> Publish(const Timeline& timeline) {
    SummaryOptions options = OptionsOfSummary();
    std::string summary = SummaryJson(timeline, directory_->written(), options);
    PrintPublishing(true);
    const absl::Status status = directory_->WriteText("summary.json", summary);
    if (!status.ok()) return status;
    PrintPublishing(true);
    absl::StatusOr<std::vector<RunDirectory::File>> files = directory_->Publish();
    if (!files.ok()) return files.status();
    ConversionResult result;
    if (request_.summary_wanted) result.summary_json = std::move(summary);
    AddShare(request_, &options);
    result.run = directory_->run();
    result.directory = directory_->path();
    for (const RunDirectory::File& file : *files) result.files.push_back(file.path);
    result.lines = request_.full_summary ? FullSummary(timeline, *files, options) : EndBlock(timeline, *files, options);
    return result;
  }

  const ConversionRequest& given_;
  ConversionRequest request_;  // max_profile_size is the limit of one file
  TimelineRequest building_;
  size_t file_count_ = 1;
  std::optional<LogDirectory> logdir_;
  std::unique_ptr<RunDirectory> directory_;
};

// Libraries throw if they run out of memory or cannot use their input: the exception ends the conversion with a
// message.
absl::StatusOr<ConversionResult> ConvertWithinMemory(const ConversionRequest& request) {
  try {
    return Job(request).Run();
  } catch (const std::bad_alloc&) {
    rlimit limit{};
    getrlimit(RLIMIT_AS, &limit);
    return absl::ResourceExhaustedError(StrCat("the conversion needs more memory than the ", limit.rlim_cur >> 20,
                                               " MiB it may have; a smaller --max-profile-size needs less"));
  } catch (const std::exception& error) {
    return absl::InternalError(StrCat("the conversion failed: ", PrintableUtf8(error.what())));
  }
}

}  // namespace

bool IsConvertWorker(int argc, char** argv) { return argc == 2 && strcmp(argv[1], kConvertWorkerArgument) == 0; }

int ConvertWorker() {
  // A sanitizer's shadow memory needs terabytes of address space.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur > kMaxAddressSpace) {
    limit = {kMaxAddressSpace, kMaxAddressSpace};
    setrlimit(RLIMIT_AS, &limit);
  }
#endif
  const int score = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (score >= 0) {
    (void)!write(score, "900", 3);
    close(score);
  }
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  std::string text;
  char buffer[4096];
  for (ssize_t got; (got = read(kConvertRequestFd, buffer, sizeof(buffer))) > 0;)
    text.append(buffer, static_cast<size_t>(got));
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return 1;
  const ConversionRequest request = RequestFromJson(json);
  absl::StatusOr<ConversionResult> result = ConvertWithinMemory(request);
  if (!result.ok()) {
    std::string message(result.status().message());
    const std::string held = ReadableSpool(request);
    if (const size_t at = message.find(held); at != std::string::npos) message.replace(at, held.size(), request.spool);
    Print({{"error", message}});
    return 1;
  }
  Print(ToJson(*result));
  return 0;
}

}  // namespace tbprof
