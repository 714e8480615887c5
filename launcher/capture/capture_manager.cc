// SPDX-License-Identifier: Apache-2.0
#include "launcher/capture/capture_manager.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "launcher/base/text.h"
#include "launcher/capture/delivery.h"
#include "launcher/service/tls.h"
#include "wire/clock.h"
#include "writer/base/file_ops.h"
#include "writer/base/secrets.h"
#include "writer/base/utf8.h"
#include "writer/logdir/logdir.h"

namespace tbprof {
namespace {

constexpr size_t kMaxUnwrittenCaptures = 4;
constexpr uint64_t kSameRequestNs = 300'000'000;
constexpr uint64_t kProgressNs = 250'000'000;
// Time between the close of a window and the answer: the least time of a conversion, and its time per record, on a slow
// core beside a busy command.
constexpr uint64_t kReplyNs = 1'500'000'000;
constexpr uint64_t kReplyNsPerRecord = 400;
constexpr uint64_t kRefusalNs = 1'000'000'000;
constexpr uint64_t kReceiptPatienceNs = 60'000'000'000;
constexpr uint64_t kLastReceiptPatienceNs = 2'000'000'000;  // after the command has ended
constexpr uint64_t kWordNs = 2'000'000'000;                 // between two kWriting messages to a waiting client

uint64_t UnixNow() { return static_cast<uint64_t>(absl::GetCurrentTimeNanos()); }

std::string Length(uint64_t ns) {
  return absl::FormatDuration(absl::Milliseconds((static_cast<int64_t>(ns) + 500'000) / 1'000'000));
}

}  // namespace

CaptureManager::~CaptureManager() {
  for (Capture& capture : captures_.all()) Drop(&capture);
  // The port's worker ends when its control connection closes; closing that first lets the worker finish its replies to
  // clients.
  control_.reset();
  service_.reset();
}

absl::Status CaptureManager::Open() {
  absl::StatusOr<std::unique_ptr<ControlServer>> control = ControlServer::Listen(session_.control_path());
  if (!control.ok()) return control.status();
  control_ = *std::move(control);
  if (options_.port < 0) return absl::OkStatus();
  std::string identity;
  if (!options_.tls_cert.empty()) {
    absl::StatusOr<std::string> read = ReadTlsIdentity(options_.tls_cert, options_.tls_key);
    if (!read.ok()) return read.status();
    identity = *std::move(read);
  }
  absl::StatusOr<std::unique_ptr<Service>> service =
      Service::Listen(options_.listen, options_.port, options_.port_users, std::move(identity));
  if (!service.ok()) return service.status();
  service_ = *std::move(service);
  if (const absl::Status status = endpoints_.Write(run_, options_.ranks, addresses()); !status.ok()) {
    const std::string cause =
        absl::IsDeadlineExceeded(status) ? StrCat(run_.logdir(), " does not answer") : std::string(status.message());
    terminal_.Warn(StrCat(PrintableUtf8(cause), ": on other machines, tbprof capture needs the port's address"));
  }
  return absl::OkStatus();
}

std::vector<std::string> CaptureManager::addresses() const {
  return service_ != nullptr ? service_->addresses() : std::vector<std::string>();
}

std::vector<std::string> CaptureManager::StartLines() const {
  if (service_ == nullptr) return {};
  std::string text = "profiler service on ";
  bool open = false;
  for (size_t i = 0; i < addresses().size(); ++i) {
    StrAppend(&text, i == 0 ? "" : " and ", addresses()[i]);
    open |= !addresses()[i].starts_with("127.") && !addresses()[i].starts_with("[::1]");
  }
  std::vector<std::string> lines = {text};
  if (open) {
    lines.push_back(options_.tls_cert.empty()
                        ? "whoever on another machine reaches the port may take a profile: there is no password, no TLS"
                        : "beyond loopback the port speaks TLS; whoever reaches it may take a profile: no password");
  }
  return lines;
}

void CaptureManager::AppendWatched(std::vector<pollfd>* fds) const {
  if (control_ != nullptr) control_->AppendWatched(fds);
  if (service_ != nullptr) service_->AppendWatched(fds);
}

uint64_t CaptureManager::ReceiptPatienceNs() const {
  return run_.TargetRuns() ? kReceiptPatienceNs : kLastReceiptPatienceNs;
}

uint64_t CaptureManager::NextNs() const {
  uint64_t next = captures_.NextNs();
  // The number of records decides when a capture with a deadline has to close: it is checked every kLookNs.
  constexpr uint64_t kLookNs = 200'000'000;
  for (const Capture& capture : captures_.all()) {
    if (capture.state == Capture::State::kOpen && capture.gives_up_ns != UINT64_MAX &&
        capture.gives_up_ns < capture.closes_ns + 10 * kReplyNs) {
      next = std::min(next, ReadMonotonic() + kLookNs);
    }
    if (capture.state == Capture::State::kDelivered) next = std::min(next, capture.answered_ns + ReceiptPatienceNs());
    if (capture.state == Capture::State::kWriting && capture.waited_for()) {
      next = std::min(next, capture.answered_ns + kWordNs);
    }
  }
  return next;
}

void CaptureManager::Handle() {
  if (service_ != nullptr) {
    service_->Handle(control_.get());
    if (const std::string note = service_->TakeNote(); !note.empty()) terminal_.Warn(note);
  }
  if (control_ != nullptr) {
    for (const ControlMessage& message : control_->Take()) Take(message);
  }
  const uint64_t now = ReadMonotonic();
  // Iterates by number: handling one capture may remove any other.
  for (const uint32_t number : captures_.Numbers()) {
    Capture* const known = captures_.Find(number);
    if (known == nullptr) continue;
    Capture& capture = *known;
    if (capture.state == Capture::State::kAgreed && now >= capture.opens_ns) Begin(&capture);
    if (capture.state == Capture::State::kOpen) {
      // A client that waits for less than twice kReplyNs gets half of its waiting time recorded.
      const uint64_t waits = capture.gives_up_ns == UINT64_MAX        ? UINT64_MAX
                             : capture.gives_up_ns > capture.opens_ns ? capture.gives_up_ns - capture.opens_ns
                                                                      : 0;
      const uint64_t needed =
          std::min(kReplyNs, waits / 2) + kReplyNsPerRecord * (session_.records() - capture.records_before);
      if (now >= capture.closes_ns) {
        End(&capture);
      } else if (capture.gives_up_ns != UINT64_MAX && now + needed >= capture.gives_up_ns) {
        EndEarly(&capture, StrCat("this window was closed ", Length(capture.closes_ns - now),
                                  " early: its client waits no longer for the answer"));
      }
    } else if (capture.state == Capture::State::kDelivered && now >= capture.answered_ns + ReceiptPatienceNs()) {
      // The client is slow or has stopped. It may still receive the profile; the launcher also writes it to the run's
      // log directory.
      DetachClient(&capture);
    } else if (capture.state == Capture::State::kWriting && capture.waited_for() &&
               now >= capture.answered_ns + kWordNs) {
      // The conversion may wait for others: a message keeps the client from taking the launcher for dead.
      capture.answered_ns = now;
      ControlAnswer answer;
      answer.state = AnswerState::kWriting;
      Answer(capture, answer);
    }
  }
}

void CaptureManager::Take(const ControlMessage& message) {
  if (message.gone) {
    for (const uint32_t number : captures_.Numbers()) {
      Capture* const capture = captures_.Find(number);
      if (capture != nullptr && capture->asker.client == message.client) DetachClient(capture);
    }
    return;
  }
  const absl::StatusOr<ControlAsk> ask = ParseAsk(message.text);
  if (ask.ok()) {
    TakeAsk(message, *ask);
  } else {
    Fail(message.client, 0, ask.status());
  }
}

void CaptureManager::TakeAsk(const ControlMessage& message, const ControlAsk& ask) {
  switch (ask.kind) {
    case AskKind::kCapture:
    case AskKind::kMonitor:
      TakeCapture(message, ask);
      break;
    case AskKind::kTerminate:
      captures_.Terminate(ask.capture.run, ReadMonotonic());
      break;
    case AskKind::kCancel:
      if (Capture* capture = captures_.Find(message.client, ask.id)) DetachClient(capture);
      break;
    case AskKind::kReceived:
      if (Capture* capture = captures_.Find(message.client, ask.id);
          capture != nullptr && capture->state == Capture::State::kDelivered) {
        session_.Published(capture->number, true);
        ReportSent(*capture);
        Drop(capture);
        captures_.Remove(capture->number);
      }
      break;
    case AskKind::kRefused:
      ReportRefusedUser(ask.capture.asked_by, ask.count);
      break;
    case AskKind::kStatus: {
      ControlAnswer answer;
      answer.id = ask.id;
      answer.json = ToText(Status());
      (void)control_->Send(message.client, ToText(answer));
      break;
    }
  }
}

// Prints at most once a minute: a refused client may connect as often as it likes.
void CaptureManager::ReportRefusedUser(const std::string& who, uint64_t count) {
  constexpr uint64_t kMinuteNs = 60'000'000'000;
  refused_users_ += std::min<uint64_t>(count, 1'000'000);
  const uint64_t now = ReadMonotonic();
  if (now < refused_users_printed_ns_) return;
  refused_users_printed_ns_ = now + kMinuteNs;
  const uint64_t connections = std::exchange(refused_users_, 0);
  terminal_.Warn(StrCat("port: ", Counted(connections, "connection"), " refused, the last of ",
                        PrintableUtf8(who.substr(0, 100)), "; it serves ", options_.port_users.Names(),
                        " (others: --port-users)"));
}

void CaptureManager::TakeCapture(const ControlMessage& message, const ControlAsk& ask) {
  if (!run_.TargetRuns()) return Refuse(message, ask, Unavailable("the command has ended"));
  CaptureRequest request = ask.capture;
  if (request.duration_ns == 0) {
    request.duration_ns = static_cast<uint64_t>(absl::ToInt64Nanoseconds(options_.window_duration));
  }
  request.duration_ns = std::min(request.duration_ns, kMaxWindowNs);
  if (request.asked_by.empty()) request.asked_by = StrCat("process ", message.pid);
  if (const size_t unwritten = run_.UnwrittenCaptures(); unwritten >= kMaxUnwrittenCaptures) {
    return Refuse(message, ask, Unavailable(StrCat(unwritten, " captures are still being written")));
  }
  const CaptureTimes times{ReadMonotonic(), UnixNow()};
  absl::StatusOr<Capture*> asked =
      captures_.Ask(std::move(request), {message.client, ask.id, ask.kind == AskKind::kMonitor}, times);
  if (!asked.ok()) return Refuse(message, ask, asked.status());
  Capture* const capture = *asked;
  ControlAnswer answer;
  answer.state = AnswerState::kOpen;
  answer.opens_unix_ns = times.now_unix_ns + (capture->opens_ns - times.now_ns);
  answer.closes_unix_ns = times.now_unix_ns + (capture->closes_ns - times.now_ns);
  Answer(*capture, answer);
  if (capture->opens_ns > times.now_ns) return;
  Begin(capture);
}

void CaptureManager::Begin(Capture* capture) {
  ReportRefused();
  capture->state = Capture::State::kOpen;
  capture->records_before = session_.records();
  if (capture->asker.monitor) {
    session_.OpenWindow(capture->number, capture->request.families);
  } else {
    session_.OpenAskedWindow(capture->number, capture->request.families);
  }
  session_.RequestFlush();  // writes the current counters, at which the capture's totals begin
  if (capture->asker.monitor) return;
  std::string text = StrCat("capture ", capture->number, ": recording for ",
                            Length(capture->closes_ns - std::min(capture->closes_ns, capture->opens_ns)));
  if (capture->waited_for()) StrAppend(&text, ", asked for by ", capture->request.asked_by);
  terminal_.Print(text);
}

void CaptureManager::End(Capture* capture) {
  capture->state = Capture::State::kWriting;
  capture->answered_ns = ReadMonotonic();
  run_.CloseAndConvert(capture->number);
}

void CaptureManager::EndEarly(Capture* capture, std::string why) {
  capture->request.warnings.push_back(std::move(why));
  End(capture);
}

// The client no longer waits. The records are kept and converted into the run's own log directory.
void CaptureManager::DetachClient(Capture* capture) {
  capture->asker.client = 0;
  switch (capture->state) {
    case Capture::State::kAgreed:
      captures_.Remove(capture->number);
      break;
    case Capture::State::kOpen:
      EndEarly(capture, "the client went away before the window was over; this is what was recorded until then");
      break;
    case Capture::State::kWriting:
      break;
    case Capture::State::kDelivered:
      Drop(capture);
      capture->state = Capture::State::kWriting;
      run_.Convert(capture->number);
      break;
  }
}

void CaptureManager::Drop(Capture* capture) {
  if (capture->directory == nullptr) return;
  RemoveTree(capture->directory->parent.get(), capture->directory->name);
  capture->directory.reset();
}

void CaptureManager::AskBySignal(uint64_t own, uint64_t of_targets) {
  if (!run_.TargetRuns()) return;
  const uint64_t requests = own + of_targets;
  const uint64_t now = ReadMonotonic();
  // `pkill` signals the launcher and each process of the program, whose requests arrive later: they count as the same
  // request.
  if (now < same_request_until_ns_ && (own == 0 || of_targets_)) return;
  if (const Capture* open = captures_.Current()) {
    refused_ += requests;
    if (!std::exchange(printed_refused_, true)) {
      terminal_.Print(StrCat("capture ", open->number, " is still open; one at a time, further requests are counted"));
    }
    return;
  }
  if (const size_t unwritten = run_.UnwrittenCaptures(); unwritten >= kMaxUnwrittenCaptures) {
    refused_ += requests;
    if (!std::exchange(printed_refused_, true)) {
      terminal_.Print(StrCat(unwritten, " captures are still being written; further requests are counted"));
    }
    return;
  }
  ReportRefused();
  same_request_until_ns_ = now + kSameRequestNs;
  of_targets_ = own == 0;
  CaptureRequest request;
  request.asked_by = "a signal";
  if (options_.window.kind == Window::Kind::kLast) return CaptureLast(std::move(request));
  request.duration_ns = static_cast<uint64_t>(absl::ToInt64Nanoseconds(options_.window_duration));
  const absl::StatusOr<Capture*> capture = captures_.Ask(std::move(request), Asker(), {now, UnixNow()});
  if (capture.ok()) Begin(*capture);
}

void CaptureManager::ReportRefused() {
  if (std::exchange(printed_refused_, false)) {
    terminal_.Print(StrCat(Counted(refused_, "request"), refused_ == 1 ? " for a capture was" : " for a capture were",
                           " not followed: another was open or being written"));
  }
  refused_ = 0;
}

// --window=last=TIME: the requested records are already in the spool.
void CaptureManager::CaptureLast(CaptureRequest request) {
  Capture* const capture = captures_.Add(std::move(request));
  const uint64_t now = session_.Now();
  const uint64_t length = session_.TicksOf(static_cast<uint64_t>(absl::ToInt64Nanoseconds(options_.window.duration)));
  const uint64_t open = session_.run_open_ticks();
  session_.AddWindow(capture->number, now > open + length ? now - length : open, now);
  terminal_.Print(StrCat("capture ", capture->number, ": the last ", absl::FormatDuration(options_.window.duration)));
  run_.Convert(capture->number);
}

void CaptureManager::BeginTriggered(uint64_t ticks) {
  Capture* const capture = captures_.Add({.asked_by = "the program"});
  capture->by_program = true;
  triggered_ = capture->number;
  triggered_ticks_ = ticks;
  session_.OpenWindow(triggered_, kFamilyAll, ticks);
  session_.RequestFlush();
  terminal_.Print(StrCat("capture ", triggered_, ": ", PrintableUtf8(run_.WindowText()), " has begun"));
}

void CaptureManager::EndTriggered(const TriggerChange& change) {
  const uint32_t number = std::exchange(triggered_, 0);
  Capture* const capture = captures_.Find(number);
  if (capture != nullptr && change.process_ended) {
    capture->request.warnings.push_back("the process ended inside the range that this window is of");
  }
  session_.CloseWindow(number, std::max(change.ticks, triggered_ticks_));
  run_.Convert(number);
}

void CaptureManager::EndAll() {
  if (triggered_ != 0) EndTriggered({false, session_.Now(), true});
  for (const uint32_t number : captures_.Numbers()) {
    Capture* const known = captures_.Find(number);
    if (known == nullptr) continue;
    Capture& capture = *known;
    if (capture.state == Capture::State::kAgreed) {
      if (capture.waited_for()) {
        Fail(capture.asker.client, capture.asker.id, Unavailable("the command ended before the window opened"));
      }
      captures_.Remove(capture.number);
    } else if (capture.state == Capture::State::kOpen) {
      capture.ended_by_command = true;
      EndEarly(&capture, "the command ended before the window was over");
    }
  }
  ReportRefused();
}

bool CaptureManager::Waiting() const {
  return std::any_of(captures_.all().begin(), captures_.all().end(),
                     [](const Capture& capture) { return capture.state == Capture::State::kDelivered; });
}

// Whether the client names this run's log directory, as TensorBoard on the same machine does. The profile is then
// published there atomically, under the name that the client gives it.
bool CaptureManager::IsOurRepository(const std::string& root) const {
  return root == StrCat(run_.logdir(), "/plugins/profile") || root == StrCat(run_.logdir(), "/plugins/profile/");
}

void CaptureManager::Describe(uint32_t window, ConversionRequest* request) {
  Capture* const capture = captures_.Find(window);
  request->run = RunNameFor(time(nullptr));
  request->run_exclusive = true;
  if (capture == nullptr) return;
  request->on_request = !capture->by_program;
  request->command_ended = capture->ended_by_command;
  request->warnings.insert(request->warnings.end(), capture->request.warnings.begin(), capture->request.warnings.end());
  if (!capture->request.run.empty()) request->run = capture->request.run;
  request->step_marker = capture->request.step_marker;
  if (capture->asker.monitor) {
    request->summary_only = true;
    return;
  }
  if (capture->request.publish && capture->request.shared) {
    request->run_exclusive = false;
    request->agreed_start_unix_ns = capture->request.start_unix_ns;
    if (!capture->request.host.empty()) request->host = capture->request.host;
  }
  if (!capture->waited_for() || capture->request.publish) return;
  if (!capture->request.host.empty()) request->host = capture->request.host;
  request->agreed_start_unix_ns = capture->request.start_unix_ns;
  request->delivered = true;
  request->max_reply_bytes = MaxReplyBytes();
  if (IsOurRepository(capture->request.repository_root) && !capture->request.run.empty()) {
    request->run_exclusive = false;
    return;
  }
  capture->directory = MakePrivateDirectory(session_);
  if (capture->directory == nullptr) return;
  SetLogdir(capture->directory->logdir, request);
  request->durable = false;
}

void CaptureManager::Progress(const ConversionRequest& request, uint64_t done, uint64_t total) {
  Capture* const capture = captures_.Find(request.window);
  if (capture == nullptr || !capture->waited_for()) return;
  const uint64_t now = ReadMonotonic();
  if (now < capture->answered_ns + kProgressNs) return;
  capture->answered_ns = now;
  ControlAnswer answer;
  answer.state = AnswerState::kWriting;
  answer.done = done;
  answer.total = total;
  Answer(*capture, answer);
}

bool CaptureManager::Converted(const ConversionRequest& request, const ConversionResult& result) {
  Capture* const capture = captures_.Find(request.window);
  if (capture == nullptr) return result.status.ok();
  if (!result.status.ok()) {
    if (capture->waited_for()) Fail(capture->asker.client, capture->asker.id, result.status);
    Drop(capture);
    captures_.Remove(request.window);
    return false;
  }
  if (capture->asker.monitor || request.summary_only) {
    if (capture->waited_for()) Deliver(capture, request, result);
    captures_.Remove(request.window);
    return true;
  }
  if (!request.delivered) {
    if (capture->waited_for()) Deliver(capture, request, result);
    for (const std::string& line : result.lines) terminal_.Print(line);
    captures_.Remove(request.window);
    return true;
  }
  const bool is_published = capture->directory == nullptr;
  if (!capture->waited_for()) {
    // The client has left since this conversion began.
    Drop(capture);
    if (!is_published) {
      run_.Convert(request.window);
      return false;
    }
    captures_.Remove(request.window);
    return true;
  }
  Deliver(capture, request, result);
  if (!is_published) return false;
  captures_.Remove(request.window);
  return true;
}

void CaptureManager::Deliver(Capture* capture, const ConversionRequest& request, const ConversionResult& result) {
  ControlAnswer answer;
  answer.state = AnswerState::kDone;
  std::vector<ScopedFd> files;
  if (request.summary_only) {
    ScopedFd summary(memfd_create("tbprof-summary", MFD_CLOEXEC));
    const std::string& text = result.summary_json;
    if (!summary.valid() || write(summary.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
      capture->state = Capture::State::kDelivered;
      Fail(capture->asker.client, capture->asker.id, absl::ResourceExhaustedError("no memory for the answer"));
      return;
    }
    answer.files.emplace_back("summary.json");
    files.push_back(std::move(summary));
  } else if (!request.delivered) {
    answer.directory = result.directory;
    answer.lines = result.lines;
  } else {
    answer.directory = capture->directory == nullptr ? result.directory : "";
    DeliveredFiles delivered = OpenDelivered(request, result, capture->request.summary);
    answer.files = std::move(delivered.names);
    files = std::move(delivered.files);
    capture->sent_bytes = delivered.bytes;
    if (capture->directory == nullptr) ReportSent(*capture);
  }
  std::vector<int> descriptors;
  descriptors.reserve(files.size());
  for (const ScopedFd& file : files) descriptors.push_back(file.get());
  answer.id = capture->asker.id;
  capture->answered_ns = ReadMonotonic();
  capture->state = Capture::State::kDelivered;
  if (!control_->Send(capture->asker.client, ToText(answer), descriptors) && capture->directory != nullptr) {
    DetachClient(capture);
  }
}

void CaptureManager::ReportSent(const Capture& capture) {
  terminal_.Print(StrCat("capture ", capture.number, ": ",
                         absl::StrFormat("%.1f MiB", static_cast<double>(capture.sent_bytes) / (1 << 20)), " sent to ",
                         capture.request.asked_by));
}

void CaptureManager::Answer(const Capture& capture, const ControlAnswer& answer) {
  ControlAnswer with_id = answer;
  with_id.id = capture.asker.id;
  (void)control_->Send(capture.asker.client, ToText(with_id));
}

// Stock clients do not show the reason and repeat the request at once: the launcher also prints it, at most once per
// kRefusalNs.
void CaptureManager::Refuse(const ControlMessage& message, const ControlAsk& ask, const absl::Status& status) {
  Fail(message.client, ask.id, status);
  if (ask.kind == AskKind::kMonitor) return;
  const std::string by = ask.capture.asked_by.substr(0, ask.capture.asked_by.rfind(':'));
  const std::string line = StrCat("a capture for ", by.empty() ? StrCat("process ", message.pid) : by,
                                  " was refused: ", std::string(status.message()));
  const uint64_t now = ReadMonotonic();
  if (now < refusal_printed_ns_ + kRefusalNs) return;
  refusal_printed_ns_ = now;
  terminal_.Warn(line);
}

void CaptureManager::Fail(uint32_t client, uint64_t id, const absl::Status& status) {
  ControlAnswer answer;
  answer.id = id;
  answer.state = AnswerState::kFailed;
  answer.status = status;
  (void)control_->Send(client, ToText(answer));
}

SessionStatus CaptureManager::Status() const {
  constexpr size_t kMostPids = 256, kMostWords = 32;
  SessionStatus status;
  status.pid = getpid();
  status.run = ValidUtf8(run_.run_name());
  status.logdir = ValidUtf8(run_.logdir());
  status.host = run_.host();
  status.window = run_.WindowText();
  for (const std::string& word : MaskSecrets(options_.command)) {
    if (status.command.size() == (options_.record_argv ? kMostWords : 1)) break;
    status.command.emplace_back(TruncateUtf8(ValidUtf8(word), 200));
  }
  status.since_unix_ns = since_unix_ns_;
  const Capture* const open = captures_.Current();
  status.state = !run_.TargetRuns()       ? "writing"
                 : open != nullptr        ? "capturing"
                 : run_.RunWindowIsOpen() ? "recording"
                                          : "armed";
  if (open != nullptr) {
    status.capture_of = open->request.asked_by;
    const uint64_t now = ReadMonotonic();
    status.capture_until_unix_ns = UnixNow() + (open->closes_ns > now ? open->closes_ns - now : 0);
  }
  status.captures = captures_.count();
  status.pids = session_.LivePids();
  status.processes = session_.live_processes();
  if (status.pids.size() > kMostPids) status.pids.resize(kMostPids);
  status.records = session_.records();
  status.dropped = session_.records_not_kept() + session_.DroppedRecords();
  status.addresses = addresses();
  status.rank = run_.job().rank.rank;
  status.world_size = run_.job().rank.world_size;
  status.sure_rank = run_.job().sure_rank;
  status.ranks = options_.ranks;
  return status;
}

}  // namespace tbprof
