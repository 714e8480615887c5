// SPDX-License-Identifier: Apache-2.0
//
// Captures on request, from the request to the answer: signals, the control socket, the port. Keeps Captures, opens and
// closes their windows, chooses where each profile goes, and hands it to the client that waits for it.
//
//   CaptureManager captures(options, run, session, terminal);
//   captures.Open();                               // before the command starts
//   while (...) { captures.AppendWatched(&fds); ppoll(...); captures.Handle(); }
//   captures.Describe(window, &request);           // of a conversion that begins
//   captures.Converted(request, result);           // that has ended
//   captures.EndAll();                             // the command has ended; Handle until !captures.Waiting()
//
// Process: launcher, main thread. Never waits.
#ifndef TBPROF_LAUNCHER_CAPTURE_CAPTURE_MANAGER_H_
#define TBPROF_LAUNCHER_CAPTURE_CAPTURE_MANAGER_H_

#include <poll.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "launcher/base/control_socket.h"
#include "launcher/capture/capture_run.h"
#include "launcher/capture/captures.h"
#include "launcher/capture/endpoints_file.h"
#include "launcher/cli/options.h"
#include "launcher/cli/terminal.h"
#include "launcher/convert/conversion.h"
#include "launcher/service/service.h"
#include "launcher/session/session.h"

namespace tbprof {

class CaptureManager {
 public:
  CaptureManager(const Options& options, CaptureRun* run, Session* session, Terminal* terminal)
      : options_(options), run_(*run), session_(*session), terminal_(*terminal) {}
  ~CaptureManager();

  // The control socket, and the port if one is set. The error is of the port: all else works.
  absl::Status Open();
  // For the lines at the start.
  std::vector<std::string> StartLines() const;
  std::vector<std::string> addresses() const;
  void ContinueWorker() {
    if (service_ != nullptr) service_->ContinueWorker();
  }
  pid_t worker() const { return service_ != nullptr ? service_->worker() : 0; }

  void AppendWatched(std::vector<pollfd>* fds) const;
  void Handle();
  uint64_t NextNs() const;

  // Requested by signals to us, and by such as targets have caught.
  void AskBySignal(uint64_t own, uint64_t of_targets);
  // Captures that were granted so far.
  uint32_t count() const { return captures_.count(); }

  static bool IsCapture(uint32_t window) { return window != 0 && window < kStartWindow; }
  void Describe(uint32_t window, ConversionRequest* request);
  void Progress(const ConversionRequest& request, uint64_t done, uint64_t total);
  // Whether the window's records may go.
  bool Converted(const ConversionRequest& request, const ConversionResult& result);

  // Of windows that the program itself begins and ends, one at a time; the window for the first, not the records.
  void BeginTriggered(uint64_t ticks);
  void EndTriggered(const TriggerChange& change);
  bool is_triggered_open() const { return triggered_ != 0; }

  void EndAll();
  // For a client that has been answered and has not acknowledged it yet.
  bool Waiting() const;
  void TellRefused();
  void TellRefusedUser(const std::string& who, uint64_t count);

 private:
  void Take(const ControlMessage& message);
  void TakeAsk(const ControlMessage& message, const ControlAsk& ask);
  void TakeCapture(const ControlMessage& message, const ControlAsk& ask);
  void Begin(Capture* capture);
  void End(Capture* capture);
  void EndEarly(Capture* capture, std::string why);
  void CaptureLast(CaptureRequest request);
  void DetachClient(Capture* capture);
  void Drop(Capture* capture);
  void Deliver(Capture* capture, const ConversionRequest& request, const ConversionResult& result);
  // For a client that is being sent its profile.
  uint64_t ReceiptPatienceNs() const;
  void TellSent(const Capture& capture);
  void Answer(const Capture& capture, const ControlAnswer& answer);
  void Refuse(const ControlMessage& message, const ControlAsk& ask, const absl::Status& status);
  void Fail(uint32_t client, uint64_t id, const absl::Status& status);
  bool IsOurRepository(const std::string& root) const;
  SessionStatus Status() const;

  const Options& options_;
  CaptureRun& run_;
  Session& session_;
  Terminal& terminal_;
  Captures captures_;
  std::unique_ptr<ControlServer> control_;
  std::unique_ptr<Service> service_;
  EndpointsFile endpoints_;
  const uint64_t since_unix_ns_ = static_cast<uint64_t>(absl::GetCurrentTimeNanos());

  uint32_t triggered_ = 0;  // the window that the program has begun
  uint64_t triggered_ticks_ = 0;
  uint64_t refused_ = 0;  // since the last one that was granted
  bool said_refused_ = false;
  uint64_t refused_users_ = 0;  // connections that the terminal has not named
  uint64_t refused_users_told_ns_ = 0;
  uint64_t refusal_told_ns_ = 0;
  uint64_t same_request_until_ns_ = 0;
  bool of_targets_ = false;  // the last was requested by a signal to a target alone, as far as was known then
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_CAPTURE_CAPTURE_MANAGER_H_
