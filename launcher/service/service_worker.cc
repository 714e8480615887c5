// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <fcntl.h>
#include <grpc/support/log.h>
#include <grpcpp/grpcpp.h>
#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "launcher/base/control_socket.h"
#include "launcher/base/listener_pause.h"
#include "launcher/base/port_users.h"
#include "launcher/base/start_thread.h"
#include "launcher/base/text.h"
#include "launcher/proto/profiler_service.grpc.pb.h"
#include "launcher/service/profiler_request.h"
#include "launcher/service/refused_connections.h"
#include "launcher/service/service.h"
#include "launcher/service/service_process.h"
#include "launcher/service/tls.h"
#include "wire/clock.h"
#include "writer/base/file_ops.h"

namespace tbprof {
namespace {

constexpr size_t kMemoryQuota = size_t{48} << 20;
// Resident memory of the process without pending replies. gRPC 1.51 keeps some KiB for every stream that a client opens
// and resets, without a limit: 3 MB of input took 100 MB.
constexpr uint64_t kMaxMemory = uint64_t{96} << 20;
constexpr uint64_t kCopiesOfReply = 3;  // the message, its encoding, the part being sent
// RLIMIT_DATA: memory can grow faster than the loop checks it. At the limit an allocation fails and gRPC aborts.
constexpr uint64_t kMaxDataGrowth = uint64_t{192} << 20;
constexpr uint64_t kMuchMemory = uint64_t{32} << 20;
constexpr int kMuchMemoryLookMs = 10, kMemoryLookMs = 100, kQuietLookMs = 500;
constexpr uint64_t kMemoryMoves = uint64_t{1} << 20;  // growth between two checks that counts as activity
constexpr uint64_t kNewConnectionNs = 2'000'000'000;
constexpr uint64_t kConnectionsLookNs = 1'000'000'000;
constexpr int kMaxThreads = 64;
constexpr int kMaxRequestBytes = 1 << 20;
constexpr int kHandshakeMs = 5'000;        // until a connection has sent the HTTP/2 preface
constexpr int kIdleConnectionMs = 60'000;  // without a call
constexpr uint64_t kIdleWorkerNs = 30'000'000'000;
constexpr uint64_t kLauncherPatienceNs = 20'000'000'000;
constexpr absl::Duration kCancelLook = absl::Milliseconds(50);

uint64_t UnixNow() { return static_cast<uint64_t>(absl::GetCurrentTimeNanos()); }

// The wall clock is read only once: setting it later must not end a wait.
uint64_t NsUntil(uint64_t unix_ns) {
  const uint64_t now = UnixNow();
  return unix_ns > now ? unix_ns - now : 0;
}

grpc::Status ToGrpc(const absl::Status& status) {
  return grpc::Status(static_cast<grpc::StatusCode>(static_cast<int>(status.code())), std::string(status.message()));
}

CallTimes TimesOf(const grpc::ServerContext& context) {
  CallTimes times;
  times.now_unix_ns = UnixNow();
  const auto deadline = context.deadline();
  if (deadline != std::chrono::system_clock::time_point::max()) {
    times.deadline_unix_ns = static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(deadline.time_since_epoch()).count());
  }
  return times;
}

// `127.0.0.1:51234` from `ipv4:127.0.0.1:51234`; gRPC escapes the brackets of IPv6.
std::string PeerOf(const grpc::ServerContext& context) {
  std::string peer = context.peer();
  if (peer.starts_with("unix:")) return "a client by TLS";
  for (const std::string_view scheme : {"ipv4:", "ipv6:"}) {
    if (peer.starts_with(scheme)) peer.erase(0, scheme.size());
  }
  for (const auto& [escape, character] : {std::pair<std::string_view, char>{"%5B", '['}, {"%5D", ']'}}) {
    const size_t at = peer.find(escape);
    if (at != std::string::npos) peer.replace(at, escape.size(), 1, character);
  }
  return peer;
}

std::atomic<uint64_t> reply_bytes{0};  // bytes of replies that are not sent yet

uint64_t SizeOf(int fd) {
  struct stat facts;
  return fstat(fd, &facts) == 0 && facts.st_size > 0 ? static_cast<uint64_t>(facts.st_size) : 0;
}

absl::Status ReadWhole(int fd, std::string* bytes) {
  const uint64_t size = SizeOf(fd);
  bytes->resize(size);
  if (size == 0 || !ReadAll(fd, bytes, "the profile").ok()) return absl::DataLossError("the profile cannot be read");
  return bytes->size() == size ? absl::OkStatus() : absl::DataLossError("the profile is shorter than it was");
}

// The connection to the launcher; passes each answer to the call that waits for it.
class Launcher {
 public:
  // `gone`: an eventfd that becomes readable when the connection has ended.
  Launcher(ControlConnection connection, int gone) : connection_(std::move(connection)), gone_event_(gone) {
    started_ = StartThread(&reader_, [this] { ReadAnswers(); }).ok();
  }
  ~Launcher() {
    shutdown(connection_.fd(), SHUT_RDWR);
    if (reader_.joinable()) reader_.join();
  }

  // False: no answer can be read.
  bool started() const { return started_; }

  struct Answer {
    ControlAnswer answer;
    std::vector<ScopedFd> files;
  };

  // Sends `ask` and returns the final answer, or an error. Sends kCancel when the client has cancelled the call or the
  // launcher does not respond.
  absl::StatusOr<Answer> Ask(ControlAsk ask, grpc::ServerContext* context, uint64_t* id) {
    std::unique_lock<std::mutex> lock(mutex_);
    ask.id = *id = ++ids_;
    Call& call = calls_[ask.id];
    lock.unlock();
    absl::Status status = connection_.Send(ToText(ask));
    lock.lock();
    bool reported = false;
    uint64_t until = ReadMonotonic() + kLauncherPatienceNs;
    while (status.ok() && !call.answered && !gone_) {
      changed_.wait_for(lock, absl::ToChronoMilliseconds(kCancelLook));
      if (call.until_ns != 0) until = call.until_ns + kLauncherPatienceNs;
      if (ReadMonotonic() > until) status = absl::DeadlineExceededError("tbprof's launcher does not answer");
      if (!reported && context->IsCancelled()) {
        reported = true;
        lock.unlock();
        connection_.Send(ToText(ControlAsk{AskKind::kCancel, ask.id, {}})).IgnoreError();
        lock.lock();
        status = absl::CancelledError("the client has gone");
      }
    }
    if (status.ok() && !call.answered) status = absl::UnavailableError("the command has ended");
    if (absl::IsDeadlineExceeded(status)) {
      // The answer would not be read: without kCancel the launcher would keep the records, waiting for kReceived, until
      // the command ends.
      lock.unlock();
      connection_.Send(ToText(ControlAsk{AskKind::kCancel, ask.id, {}})).IgnoreError();
      lock.lock();
    }
    Answer answer = std::move(call.answer);
    calls_.erase(ask.id);
    last_ns_ = ReadMonotonic();
    if (!status.ok()) return status;
    if (answer.answer.state == AnswerState::kFailed) return answer.answer.status;
    return answer;
  }

  void Report(ControlAsk ask) { connection_.Send(ToText(ask)).IgnoreError(); }

  bool gone() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return gone_;
  }
  uint64_t IdleNs() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return calls_.empty() ? ReadMonotonic() - last_ns_ : 0;
  }

 private:
  struct Call {
    Answer answer;
    bool answered = false;
    uint64_t until_ns = 0;  // end of the window, then the last kWriting message; 0: no message yet
  };

  void ReadAnswers() {
    for (;;) {
      absl::StatusOr<ControlConnection::Received> received = connection_.Receive(absl::Seconds(60));
      if (absl::IsDeadlineExceeded(received.status())) continue;
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!received.ok()) {
        gone_ = true;
        changed_.notify_all();
        eventfd_write(gone_event_, 1);
        return;
      }
      absl::StatusOr<ControlAnswer> answer = ParseAnswer(received->text);
      if (!answer.ok()) continue;
      const auto call = calls_.find(answer->id);
      if (call == calls_.end()) continue;
      switch (answer->state) {
        case AnswerState::kOpen:
          call->second.until_ns = ReadMonotonic() + NsUntil(answer->closes_unix_ns);
          break;
        case AnswerState::kWriting:
          call->second.until_ns = ReadMonotonic();
          break;
        case AnswerState::kDone:
        case AnswerState::kFailed:
          call->second.answer = {*std::move(answer), std::move(received->descriptors)};
          call->second.answered = true;
          break;
      }
      changed_.notify_all();
    }
  }

  const ControlConnection connection_;
  const int gone_event_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint64_t, Call> calls_;
  uint64_t ids_ = 0;
  bool gone_ = false;
  uint64_t last_ns_ = ReadMonotonic();
  bool started_ = false;
  std::thread reader_;
};

// Sends the launcher a receipt for each reply: gRPC reports the end of a call only after the handler has returned, and
// until then the launcher keeps the records.
class Receipts final : public grpc::Server::GlobalCallbacks {
 public:
  // `bytes`: the size of the reply; counted in reply_bytes until it is sent.
  void Expect(const grpc::ServerContext* context, Launcher* launcher, uint64_t id, uint64_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    expected_[context] = {launcher, id, bytes};
  }
  void PreSynchronousRequest(grpc::ServerContext*) override {}
  void PostSynchronousRequest(grpc::ServerContext* context) override {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto found = expected_.find(context);
    if (found == expected_.end()) return;
    const auto [launcher, id, bytes] = found->second;
    expected_.erase(found);
    lock.unlock();
    reply_bytes -= bytes;
    // If the connection broke, the failed write marks the call as cancelled around this time: waits up to 20 ms for it.
    for (int i = 0; i < 4 && !context->IsCancelled(); ++i) absl::SleepFor(absl::Milliseconds(5));
    launcher->Report(ControlAsk{context->IsCancelled() ? AskKind::kCancel : AskKind::kReceived, id, {}});
  }

 private:
  std::mutex mutex_;
  struct Expected {
    Launcher* launcher;
    uint64_t id, bytes;
  };
  std::map<const grpc::ServerContext*, Expected> expected_;
};

constexpr char kNoContinuous[] =
    "tbprof has no continuous profiling: ask for a capture (Profile, `tbprof capture`, SIGUSR1), or run with "
    "--window=last=TIME and ask for what has been";

class ProfilerService final : public tensorflow::ProfilerService::Service {
 public:
  ProfilerService(Launcher* launcher, Receipts* receipts) : launcher_(*launcher), receipts_(*receipts) {}

  grpc::Status Profile(grpc::ServerContext* context, const tensorflow::ProfileRequest* request,
                       tensorflow::ProfileResponse* response) override {
    absl::StatusOr<CaptureRequest> capture = CaptureOf(*request, TimesOf(*context), PeerOf(*context));
    if (!capture.ok()) return ToGrpc(capture.status());
    uint64_t id = 0;
    absl::StatusOr<Launcher::Answer> answer =
        launcher_.Ask(ControlAsk{AskKind::kCapture, 0, *std::move(capture)}, context, &id);
    if (!answer.ok()) return ToGrpc(answer.status());
    absl::Status status;
    uint64_t bytes = 0;
    for (const ScopedFd& file : answer->files) bytes += SizeOf(file.get());
    const bool without_summary = LeaveOutSummary(&*answer, &bytes);
    if (bytes > MaxReplyBytes() / 2 * 3) {
      launcher_.Report(ControlAsk{AskKind::kCancel, id, {}});
      return ToGrpc(absl::ResourceExhaustedError(StrCat(
          "the profile has ", bytes >> 20, " MiB, more than a reply takes; it is in the job's own log directory")));
    }
    reply_bytes += bytes;
    AllowData(kMaxDataGrowth + kCopiesOfReply * reply_bytes);
    for (size_t i = 0; i < answer->files.size() && i < answer->answer.files.size() && status.ok(); ++i) {
      if (request->emit_xspace() && i == 0) {
        status = ReadWhole(answer->files[i].get(), response->mutable_xspace());
        continue;
      }
      tensorflow::ProfileToolData* const data = response->add_tool_data();
      data->set_name(answer->answer.files[i]);
      status = ReadWhole(answer->files[i].get(), data->mutable_data());
    }
    if (without_summary) response->add_tool_data()->set_name(kSummaryFile);
    if (status.ok() && answer->files.empty()) status = absl::InternalError("the launcher has sent no profile");
    if (status.ok()) {
      receipts_.Expect(context, &launcher_, id, bytes);
    } else {
      response->Clear();
      reply_bytes -= bytes;
      launcher_.Report(ControlAsk{AskKind::kCancel, id, {}});
    }
    return ToGrpc(status);
  }

  grpc::Status Terminate(grpc::ServerContext*, const tensorflow::TerminateRequest* request,
                         tensorflow::TerminateResponse*) override {
    if (const absl::Status status = CheckName("session_id", request->session_id()); !status.ok()) return ToGrpc(status);
    ControlAsk ask{AskKind::kTerminate, 0, {}};
    ask.capture.run = request->session_id();
    launcher_.Report(std::move(ask));
    return grpc::Status::OK;
  }

  grpc::Status Monitor(grpc::ServerContext* context, const tensorflow::MonitorRequest* request,
                       tensorflow::MonitorResponse* response) override {
    absl::StatusOr<CaptureRequest> capture = MonitoringOf(*request, TimesOf(*context), PeerOf(*context));
    if (!capture.ok()) return ToGrpc(capture.status());
    uint64_t id = 0;
    absl::StatusOr<Launcher::Answer> answer =
        launcher_.Ask(ControlAsk{AskKind::kMonitor, 0, *std::move(capture)}, context, &id);
    if (!answer.ok()) return ToGrpc(answer.status());
    std::string summary = answer->answer.json;
    if (!answer->files.empty()) {
      if (const absl::Status status = ReadWhole(answer->files[0].get(), &summary); !status.ok()) return ToGrpc(status);
    }
    *response = MonitorResponseOf(summary, *request, UnixNow());
    return grpc::Status::OK;
  }

  grpc::Status StartContinuousProfiling(grpc::ServerContext*, const tensorflow::ProfileRequest*,
                                        tensorflow::ContinuousProfilingResponse*) override {
    return NoContinuous();
  }
  grpc::Status ContinuousProfiling(grpc::ServerContext*, const tensorflow::ProfileRequest*,
                                   tensorflow::ContinuousProfilingResponse*) override {
    return NoContinuous();
  }
  grpc::Status StopContinuousProfiling(grpc::ServerContext*, const tensorflow::StopContinuousProfilingRequest*,
                                       tensorflow::StopContinuousProfilingResponse*) override {
    return NoContinuous();
  }
  grpc::Status GetSnapshot(grpc::ServerContext*, const tensorflow::GetSnapshotRequest*,
                           tensorflow::ProfileResponse*) override {
    return NoContinuous();
  }
  grpc::Status GetSnapShot(grpc::ServerContext*, const tensorflow::GetSnapshotRequest*,
                           tensorflow::ProfileResponse*) override {
    return NoContinuous();
  }

 private:
  // True: the summary was left out, because the reply is too long with both.
  static bool LeaveOutSummary(Launcher::Answer* answer, uint64_t* bytes) {
    std::vector<std::string>& names = answer->answer.files;
    if (*bytes <= MaxReplyBytes() || names.size() < 2 || names.size() != answer->files.size()) return false;
    if (names.back() != kSummaryFile) return false;
    *bytes -= SizeOf(answer->files.back().get());
    names.pop_back();
    answer->files.pop_back();
    return true;
  }

  static grpc::Status NoContinuous() { return grpc::Status(grpc::StatusCode::UNIMPLEMENTED, kNoContinuous); }
  Launcher& launcher_;
  Receipts& receipts_;
};

// The service that a client with a worker list (for TPU pods) calls.
class ProfileAnalysis final : public tensorflow::ProfileAnalysis::Service {
 public:
  grpc::Status NewSession(grpc::ServerContext*, const tensorflow::NewProfileSessionRequest*,
                          tensorflow::NewProfileSessionResponse*) override {
    return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT,
                        "worker_list is for TPU pods; leave it empty and name each worker in the service address, "
                        "separated by commas: HOST:PORT,HOST:PORT");
  }
  grpc::Status EnumSessions(grpc::ServerContext*, const tensorflow::EnumProfileSessionsAndToolsRequest*,
                            tensorflow::EnumProfileSessionsAndToolsResponse*) override {
    return grpc::Status(grpc::StatusCode::UNIMPLEMENTED,
                        "tbprof does not list runs: point TensorBoard at the log directory");
  }
  grpc::Status GetSessionToolData(grpc::ServerContext*, const tensorflow::ProfileSessionDataRequest*,
                                  tensorflow::ProfileSessionDataResponse*) override {
    return grpc::Status(grpc::StatusCode::UNIMPLEMENTED,
                        "tbprof does not show runs: point TensorBoard at the log directory");
  }
};

void LimitServer(grpc::ServerBuilder* builder) {
  builder->SetMaxReceiveMessageSize(kMaxRequestBytes);
  builder->SetMaxSendMessageSize(-1);
  builder->AddChannelArgument("grpc.server_handshake_timeout_ms", kHandshakeMs);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kIdleConnectionMs);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 64);
  builder->AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, 16 << 10);
  builder->AddChannelArgument(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  grpc::ResourceQuota quota("tbprof");
  quota.Resize(kMemoryQuota);
  quota.SetMaxThreads(kMaxThreads);
  builder->SetResourceQuota(quota);
}

// Accepts connections of users that the port serves, and refuses all others.
class Gate {
 public:
  Gate(const PortUsers& users, Launcher* launcher) : users_(users), launcher_(*launcher) {}

  // False: the connection is refused, and answered or closed here.
  bool LetIn(ScopedFd* connection, const std::string& peer_address) {
    if (users_.any) return true;
    const PeerUser peer = UserOfPeer(connection->get());
    if (!peer.on_this_machine || users_.Allows(peer.user)) return true;
    const std::string who = peer.user ? StrCat("user ", *peer.user) : std::string("a user that could not be proven");
    refused_.Add(std::move(*connection),
                 StrCat("this port serves ", users_.Names(), " only, and this connection is of ", who,
                        "; start the job with --port-users=", peer.user ? std::to_string(*peer.user) : "any"));
    ++count_;
    last_ = StrCat(who, peer_address.empty() ? "" : StrCat(" (", peer_address, ")"));
    Report();
    return false;
  }
  void AppendWatched(std::vector<pollfd>* fds) const { refused_.AppendWatched(fds); }
  void Handle() {
    refused_.Handle();
    Report();
  }
  bool busy() const { return !refused_.empty() || count_ > 0; }

 private:
  // At most once a second, so that refused connections do not slow down the launcher.
  void Report() {
    if (count_ == 0 || ReadMonotonic() < next_report_ns_) return;
    next_report_ns_ = ReadMonotonic() + kReportNs;
    ControlAsk ask{AskKind::kRefused, 0, {}};
    ask.capture.asked_by = last_;
    ask.count = std::exchange(count_, 0);
    launcher_.Report(std::move(ask));
  }

  static constexpr uint64_t kReportNs = 1'000'000'000;
  const PortUsers users_;
  Launcher& launcher_;
  RefusedConnections refused_;
  uint64_t count_ = 0, next_report_ns_ = 0;
  std::string last_;
};

using Acceptor = grpc::experimental::ExternalConnectionAcceptor;

// Accepts connections; ends when the launcher has ended, when the port was idle for kIdleWorkerNs, or when the process
// takes too much memory.
class ServiceLoop {
 public:
  ServiceLoop(int gone, int listeners_end, TlsContext* tls, Acceptor* acceptor, Launcher* launcher, Gate* gate)
      : gone_(gone), tls_(tls), acceptor_(*acceptor), launcher_(*launcher), gate_(*gate), entries_{{gone, POLLIN, 0}} {
    for (int fd = kServiceListenerFd; fd < listeners_end; ++fd) entries_.push_back({fd, POLLIN, 0});
  }

  void Run() {
    const size_t own_entries = entries_.size();
    while (!launcher_.gone()) {
      for (pollfd& entry : entries_) entry.events = entry.fd == gone_ || pause_.over() ? POLLIN : 0;
      gate_.AppendWatched(&entries_);
      poll(entries_.data(), entries_.size(), gate_.busy() ? std::min(LookMs(), kMemoryLookMs) : LookMs());
      entries_.resize(own_entries);
      gate_.Handle();
      LookAtMemory();
      if (connections_ && ReadMonotonic() >= connections_looked_ns_ + kConnectionsLookNs) {
        connections_looked_ns_ = ReadMonotonic();
        connections_ = HasConnections(kServiceListenerFd);
      }
      for (const pollfd& entry : entries_) {
        if ((entry.revents & POLLIN) != 0 && entry.fd != gone_) Accept(entry.fd);
      }
      if (ReadMonotonic() - last_ns_ > kIdleWorkerNs && launcher_.IdleNs() > kIdleWorkerNs) {
        if (!HasConnections(kServiceListenerFd)) break;
        last_ns_ = ReadMonotonic();
      }
    }
  }

 private:
  // Memory grows only by connections: without one the loop sleeps until the next connection or the idle limit.
  int LookMs() const {
    if (!pause_.over()) return kMemoryLookMs;
    if (resident_ > kMuchMemory) return kMuchMemoryLookMs;
    if (!connections_) {
      const uint64_t idle = std::min(ReadMonotonic() - last_ns_, launcher_.IdleNs());
      return static_cast<int>((kIdleWorkerNs - std::min(idle, kIdleWorkerNs)) / 1'000'000 + 1);
    }
    const bool busy = moves_ || launcher_.IdleNs() == 0 || ReadMonotonic() < last_ns_ + kNewConnectionNs;
    return busy ? kMemoryLookMs : kQuietLookMs;
  }

  void LookAtMemory() {
    const uint64_t before = std::exchange(resident_, MemoryNow(statm_.get()).resident);
    moves_ = resident_ > before + kMemoryMoves;
    if (resident_ > kMaxMemory + kCopiesOfReply * reply_bytes) _exit(kServiceTookTooMuch);
  }

  void Accept(int listener) {
    last_ns_ = connections_looked_ns_ = ReadMonotonic();
    connections_ = true;
    ScopedFd connection(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!connection.valid()) pause_.Failed(errno);
    if (!connection.valid() || connection.get() > kHighestConnection) return;
    if (!gate_.LetIn(&connection, AddressOf(connection.get()))) return;
    // gRPC sets TCP_NODELAY only for connections that it accepts itself.
    const int on = 1;
    setsockopt(connection.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    Acceptor::NewConnectionParameters parameters;
    parameters.listener_fd = listener;
    if (tls_ != nullptr && !IsToLoopback(connection.get())) connection = tls_->Accept(std::move(connection));
    if (!connection.valid()) return;
    parameters.fd = connection.Release();
    acceptor_.HandleNewConnection(&parameters);
  }

  const int gone_;
  TlsContext* const tls_;  // null: no TLS
  Acceptor& acceptor_;
  Launcher& launcher_;
  Gate& gate_;
  std::vector<pollfd> entries_;
  const ScopedFd statm_{open("/proc/self/statm", O_RDONLY | O_CLOEXEC)};
  uint64_t last_ns_ = ReadMonotonic(), connections_looked_ns_ = last_ns_;
  uint64_t resident_ = 0;
  bool moves_ = false;
  bool connections_ = true;  // whether clients are connected, as of the last check
  ListenerPause pause_;
};

}  // namespace

bool IsServiceWorker(int argc, char** argv) { return argc == 5 && strcmp(argv[1], kServiceWorkerArgument) == 0; }

int ServiceWorker(const char* listener_count, const char* users_text, const char* tls_text) {
  signal(SIGPIPE, SIG_IGN);
  LimitServiceProcess();
  const int listeners_end = kServiceListenerFd + atoi(listener_count);
  std::unique_ptr<TlsContext> tls;
  if (strcmp(tls_text, "tls") == 0) {
    std::string identity;
    const ScopedFd file(listeners_end);
    if (!ReadWhole(file.get(), &identity).ok()) return 1;
    absl::StatusOr<std::unique_ptr<TlsContext>> made = TlsContext::ForServer(identity);
    if (!made.ok()) return 1;
    tls = *std::move(made);
  }
  LeaveOtherDescriptors(listeners_end);
  AllowData(kMaxDataGrowth);
  const ScopedFd gone(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  // Discards gRPC's log: GRPC_VERBOSITY and GRPC_TRACE are meant for the user's program, not for the launcher's
  // terminal.
  gpr_set_log_function([](gpr_log_func_args*) {});

  Launcher launcher(ControlConnection(ScopedFd(kServiceControlFd)), gone.get());
  if (!launcher.started()) return 1;
  // gRPC keeps the pointer forever and deletes it at exit, contrary to its header.
  auto* const receipts = new Receipts();
  grpc::Server::SetGlobalCallbacks(receipts);
  ProfilerService profiler(&launcher, receipts);
  ProfileAnalysis analysis;
  grpc::ServerBuilder builder;
  LimitServer(&builder);
  builder.RegisterService(&profiler);
  builder.RegisterService(&analysis);
  const std::unique_ptr<Acceptor> acceptor = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, grpc::InsecureServerCredentials());
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return 1;

  const absl::StatusOr<PortUsers> users = ParsePortUsers(users_text);
  Gate gate(users.ok() ? *users : PortUsers(), &launcher);
  ServiceLoop(gone.get(), listeners_end, tls.get(), acceptor.get(), &launcher, &gate).Run();
  server->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(100));
  // _exit skips gRPC's destructors, since its threads may still run.
  _exit(0);
}

}  // namespace tbprof
