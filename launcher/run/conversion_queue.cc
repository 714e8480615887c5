// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/conversion_queue.h"

#include <algorithm>
#include <limits>

#include "launcher/base/text.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

constexpr size_t kMaxConversions = 2;  // at the same time
constexpr int kColumns = 100;

}  // namespace

// Records that are not on the disk within kPatienceMs are missing in this profile.
void ConversionQueue::FlushBeforeConversion() {
  constexpr int kPatienceMs = 10'000;
  if (context_.closed || session_->Flush(kPatienceMs, true)) return;
  context_.Warn(
      "the disk of the spool is too slow: what was recorded last is missing in the profile that is written now");
}

void ConversionQueue::Convert(uint32_t window) {
  FlushBeforeConversion();
  Enqueue(window);
}

void ConversionQueue::CloseAndConvert(uint32_t window) {
  session_->CloseWindow(window);
  FlushBeforeConversion();
  Enqueue(window);
}

void ConversionQueue::Enqueue(uint32_t window) {
  waiting_.push_back(window);
  StartConversions();
}

void ConversionQueue::StartConversions() {
  while (!waiting_.empty() && conversions_.size() < kMaxConversions) {
    const uint32_t window = waiting_.front();
    waiting_.pop_front();
    StartConversion(window);
  }
}

void ConversionQueue::SetSpool(ConversionRequest* request) {
  request->spool = session_->FindSpool();
  request->spool_directory = session_->spool_directory();
  request->spool_name = session_->spool_name();
}

void ConversionQueue::AddWarnings(ConversionRequest* request) {
  for (const std::string& note : session_->TakeNotes()) context_.Warn(note);
  if (session_->targets_refused() > 1 && IsOfRun(request->window)) {
    context_.Warn(StrCat(session_->targets_refused(), " programs were not recorded: too many at a time"));
  }
  request->warnings = context_.warnings;
  if (session_->records_not_kept() > 0) {
    const std::string missing = StrCat(session_->records_not_kept(), " records are missing: ", session_->SpoolError(),
                                       ": the spool ", PrintableUtf8(session_->spool_path()));
    request->warnings.push_back(missing);
    if (session_->records_not_kept() != printed_not_kept_) terminal_.Warn(missing);
    printed_not_kept_ = session_->records_not_kept();
  }
}

void ConversionQueue::SetRanks(ConversionRequest* request) const {
  // A launcher of torchrun has no rank, but one on each node may have been given the same --run.
  const int rank = context_.job.rank.rank;
  const bool may_be_joined = rank < 0 ? !options_.run.empty() : rank == context_.PrintingRank();
  request->wait_for_ranks = IsOfRun(request->window) && !context_.run_exclusive && may_be_joined;
  request->rank_wait_ms = static_cast<int>(
      std::min<int64_t>(absl::ToInt64Milliseconds(options_.rank_wait), std::numeric_limits<int>::max()));
  request->world_size = context_.job.rank.world_size;
}

void ConversionQueue::StartConversion(uint32_t window) {
  ConversionRequest request;
  SetSpool(&request);
  request.extent = session_->ExtentOf(window);
  request.window = window;
  SetLogdir(logdir_.held(), &request);
  request.run = window == 0 ? context_.run : StrCat(context_.run, "_", WindowName(window));
  request.run_exclusive = context_.run_exclusive;
  request.host = context_.host;
  request.max_profile_size = options_.max_profile_size;
  request.also = options_.also;
  AddWarnings(&request);
  SetRanks(&request);
  request.beside_command = context_.TargetRuns();
  if (IsOfRun(window)) {
    request.summary_wanted = !options_.summary_json.empty() || options_.summary_json_fd >= 0;
    if (context_.command_end_ns != 0) {
      request.before_command_ns = context_.command_start_ns - context_.began_ns;
      request.command_end_ns = context_.command_end_ns;
    }
  }
  request.color = terminal_.color();
  // In a file or a CI log, longer lines can be read in full.
  request.width = terminal_.interactive() ? std::min(terminal_.width(), kColumns) : 2 * kColumns;
  request.full_summary = options_.full_summary;
  if (window == 0) {
    request.first_step = first_step_;
    request.last_step = last_step_;
  }
  // The start and the steady part are published while the run goes on, and a user may wait for them.
  request.on_request = window == kStartWindow || window == kSteadyWindow;
  // Describe replaces the name of the run for a capture.
  if (CaptureManager::IsCapture(window)) captures_->Describe(window, &request);
  absl::StatusOr<std::unique_ptr<Conversion>> conversion = Conversion::Start(request);
  if (!conversion.ok()) {
    NotConverted(request, conversion.status());
    return;
  }
  conversions_.push_back(std::move(*conversion));
}

// A conversion that could not start: a waiting client gets the reason, and the window's records may be dropped when
// room is short.
void ConversionQueue::NotConverted(const ConversionRequest& request, const absl::Status& status) {
  ConversionResult failed;
  failed.status = status;
  if (CaptureManager::IsCapture(request.window)) captures_->Converted(request, failed);
  if (!context_.closed) session_->Published(request.window, false);
  Fail(status);
}

void ConversionQueue::Fail(const absl::Status& status) {
  failed_ = true;
  terminal_.Error(PrintableUtf8(ToText(status)));
}

bool ConversionQueue::IsLookForSteps(const ConversionRequest& request) {
  return request.summary_only && request.last_step >= 0;
}

bool ConversionQueue::FindSteps(int64_t first, int64_t last, std::function<void(const ConversionResult&)> found) {
  session_->Flush(1000);
  ConversionRequest request;
  SetSpool(&request);
  request.extent = session_->ExtentOf(0);
  request.max_profile_size = options_.max_profile_size;
  request.summary_only = true;
  request.first_step = first;
  request.last_step = last;
  request.beside_command = true;
  absl::StatusOr<std::unique_ptr<Conversion>> conversion = Conversion::Start(request);
  if (!conversion.ok()) return false;
  found_steps_ = std::move(found);
  conversions_.push_back(std::move(*conversion));
  return true;
}

void ConversionQueue::TakeResults() {
  for (auto at = conversions_.begin(); at != conversions_.end();) {
    Conversion& conversion = **at;
    if (!conversion.Read()) {
      if (CaptureManager::IsCapture(conversion.request().window)) {
        captures_->Progress(conversion.request(), conversion.done(), conversion.total());
      }
      if (conversion.Stalled() > logdir_.PublishLimit(conversion.request().logdir)) {
        conversion.Abandon();
        const ConversionRequest request = conversion.request();
        at = conversions_.erase(at);
        PublishLocally(request);
      } else {
        ++at;
      }
      continue;
    }
    const ConversionResult& result = conversion.result();
    if (IsLookForSteps(conversion.request())) {
      const ConversionResult steps = result;
      at = conversions_.erase(at);
      found_steps_(steps);
      continue;
    }
    TakeResult(conversion.request(), result);
    at = conversions_.erase(at);
  }
  StartConversions();
}

void ConversionQueue::TakeResult(const ConversionRequest& request, const ConversionResult& result) {
  const uint32_t window = request.window;
  // The records of a capture that its client has not received yet are kept: the profile may still be published here.
  const bool done = CaptureManager::IsCapture(window) ? captures_->Converted(request, result) : result.status.ok();
  if (!context_.closed && (done || !result.status.ok())) session_->Published(window, done);
  if (!result.status.ok()) {
    Fail(result.status);
  } else if (window == kStartWindow || window == kSteadyWindow) {
    terminal_.Print(
        StrCat(window == kStartWindow ? "start" : "steady part", " of the run: ", PrintableUtf8(result.directory)));
  } else if (IsOfRun(window)) {
    summary_ = result;
    if (context_.state.target_running) PrintSummary();
  }
}

void ConversionQueue::PrintSummary() {
  printed_summary_ = true;
  for (const std::string& line : summary_.lines) terminal_.Print(line);
}

// The log directory hangs: publishes the profile to a local directory, at most once.
void ConversionQueue::PublishLocally(ConversionRequest request) {
  const std::string cause = logdir_.NoAnswer(logdir_.PublishLimit(request.logdir));
  absl::Status status = absl::UnavailableError(cause);
  const LogDirectory& local = logdir_.LocalWhenSilent();
  // The conversion already used the local directory.
  const bool already_local = request.logdir_fd == local.fd.get();
  if (!already_local && local.fd.get() >= 0) {
    terminal_.Warn(StrCat(cause, "; writing the profile to ", PrintableUtf8(local.path), " instead"));
    SetLogdir(local, &request);
    request.warnings.push_back(StrCat(cause, "; this profile was written elsewhere"));
    request.wait_for_ranks = false;
    absl::StatusOr<std::unique_ptr<Conversion>> conversion = Conversion::Start(request);
    status = conversion.status();
    if (conversion.ok()) conversions_.push_front(std::move(*conversion));
  }
  if (!status.ok()) NotConverted(request, status);
}

size_t ConversionQueue::UnwrittenCaptures() const {
  size_t count = static_cast<size_t>(std::count_if(waiting_.begin(), waiting_.end(), CaptureManager::IsCapture));
  for (const auto& conversion : conversions_) count += CaptureManager::IsCapture(conversion->request().window) ? 1 : 0;
  return count;
}

void ConversionQueue::AppendWatched(std::vector<pollfd>* fds) const {
  for (const auto& conversion : conversions_) fds->push_back({conversion->fd(), POLLIN, 0});
}

bool ConversionQueue::Has(pid_t pid) const {
  return std::any_of(conversions_.begin(), conversions_.end(),
                     [&](const auto& conversion) { return conversion->pid() == pid; });
}

void ConversionQueue::RaisePriorities() {
  conversions_.remove_if([](const auto& conversion) { return IsLookForSteps(conversion->request()); });
  for (const auto& conversion : conversions_) conversion->RaisePriority();
}

void ConversionQueue::Abandon() {
  for (const auto& conversion : conversions_) conversion->Abandon();
  conversions_.clear();
}

void ConversionQueue::Stop() {
  conversions_.clear();
  waiting_.clear();
}

}  // namespace tbprof
