// SPDX-License-Identifier: Apache-2.0
//
// Captures on request, from the request (a signal, the control socket, the port) to the answer. Keeps Captures, opens
// and closes their windows, chooses where each profile is written, and sends it to the client that waits for it.
//
//   CaptureManager captures(options, &run, &session, &terminal);
//   captures.Open();                               // before the command starts
//   while (...) { captures.AppendWatched(&fds); ppoll(...); captures.Handle(); }
//   captures.Describe(window, &request);           // a conversion begins
//   captures.Converted(request, result);           // the conversion has ended
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

  // Opens the control socket, and the port if one is set. After an error captures by signal still work.
  absl::Status Open();
  // Lines about the port, printed at the start.
  std::vector<std::string> StartLines() const;
  std::vector<std::string> addresses() const;
  void ContinueWorker() {
    if (service_ != nullptr) service_->ContinueWorker();
  }
  pid_t worker() const { return service_ != nullptr ? service_->worker() : 0; }

  void AppendWatched(std::vector<pollfd>* fds) const;
  void Handle();
  uint64_t NextNs() const;

  // Requests a capture: `own` signals to the launcher, `of_targets` signals that targets have caught.
  void AskBySignal(uint64_t own, uint64_t of_targets);
  // The number of captures granted so far.
  uint32_t count() const { return captures_.count(); }

  static bool IsCapture(uint32_t window) { return window != 0 && window < kStartWindow; }
  void Describe(uint32_t window, ConversionRequest* request);
  void Progress(const ConversionRequest& request, uint64_t done, uint64_t total);
  // Returns whether the window's records may be dropped.
  bool Converted(const ConversionRequest& request, const ConversionResult& result);

  // Begin and end of a window that the program marks, one at a time. `ticks`: the begin of the range, at which the
  // target itself began to record; BeginTriggered only opens the window.
  void BeginTriggered(uint64_t ticks);
  void EndTriggered(const TriggerChange& change);
  bool is_triggered_open() const { return triggered_ != 0; }

  void EndAll();
  // Whether a client has been sent its answer and has not acknowledged it yet.
  bool Waiting() const;
  void ReportRefused();
  void ReportRefusedUser(const std::string& who, uint64_t count);

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
  // How long a client may take to receive its profile.
  uint64_t ReceiptPatienceNs() const;
  void ReportSent(const Capture& capture);
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

  uint32_t triggered_ = 0;  // the open window that the program has begun; 0: none
  uint64_t triggered_ticks_ = 0;
  uint64_t refused_ = 0;  // requests refused since the last granted one
  bool printed_refused_ = false;
  uint64_t refused_users_ = 0;  // refused connections not yet reported on the terminal
  uint64_t refused_users_printed_ns_ = 0;
  uint64_t refusal_printed_ns_ = 0;
  uint64_t same_request_until_ns_ = 0;
  bool of_targets_ = false;  // the last capture was requested by signals to targets only
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_CAPTURE_CAPTURE_MANAGER_H_
