// SPDX-License-Identifier: Apache-2.0
#include "launcher/capture/profiler_client.h"

#include <arpa/inet.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpc/support/log.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/support/proto_buffer_reader.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>

#include "absl/time/clock.h"
#include "launcher/base/start_thread.h"
#include "launcher/base/text.h"
#include "launcher/proto/profiler_service.pb.h"
#include "launcher/service/profiler_request.h"
#include "launcher/service/tls.h"
#include "writer/base/parse_number.h"
#include "writer/base/scoped.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

// The tools that stock clients request; TensorFlow's server reads only the last.
constexpr const char* kTools[] = {"trace_viewer",     "op_profile",     "input_pipeline", "kernel_stats",
                                  "memory_viewer",    "memory_profile", "overview_page",  "pod_viewer",
                                  "tensorflow_stats", "xplane.pb"};
constexpr uint64_t kMaxEvents = 1'000'000;
constexpr absl::Duration kLeastAnswerTime = absl::Seconds(60);
constexpr absl::Duration kFirstPause = absl::Seconds(1);
constexpr size_t kMostNameBytes = 200;
// Time limit for the first reply: a stopped process or a server without gRPC also accepts connections.
constexpr absl::Duration kSilence = absl::Seconds(5);
constexpr int kConnectMs = 10'000, kOneLookMs = 1000;

bool MayWorkLater(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::ALREADY_EXISTS:
      return true;
    case grpc::StatusCode::UNKNOWN:
      return status.error_message().find("Stream removed") != std::string::npos;
    default:
      return false;
  }
}

absl::Status ToAbsl(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(static_cast<int>(status.error_code())),
                      PrintableUtf8(status.error_message().substr(0, 2000)));
}

absl::Status Malformed() { return absl::DataLossError("its reply is not one of a profiler service"); }

// Parses a ProfileResponse in place, without a second copy of its data.
class Answer {
 public:
  Answer(grpc::ByteBuffer* buffer, RemoteWorker* worker, const TakeEntry& take)
      : reader_(buffer), input_(&reader_), worker_(*worker), take_(take) {
    input_.SetTotalBytesLimit(INT_MAX);
  }

  absl::Status Take() {
    while (const uint32_t tag = input_.ReadTag()) {
      absl::Status status;
      switch (WireFormatLite::GetTagFieldNumber(tag)) {
        case tensorflow::ProfileResponse::kToolDataFieldNumber:
          status = TakeToolData();
          break;
        case tensorflow::ProfileResponse::kXspaceFieldNumber:
          status = TakeBytes("xplane.pb");
          break;
        case tensorflow::ProfileResponse::kEmptyTraceFieldNumber: {
          uint64_t value = 0;
          if (!input_.ReadVarint64(&value)) return Malformed();
          worker_.empty = value != 0;
          break;
        }
        default:
          if (!WireFormatLite::SkipField(&input_, tag)) return Malformed();
      }
      if (!status.ok()) return status;
    }
    return input_.ConsumedEntireMessage() ? absl::OkStatus() : Malformed();
  }

 private:
  absl::Status TakeToolData() {
    int size = 0;
    if (!input_.ReadVarintSizeAsInt(&size)) return Malformed();
    const auto limit = input_.PushLimit(size);
    std::string name;
    bool has_data = false;
    absl::Status status;
    while (const uint32_t tag = input_.ReadTag()) {
      const int field = WireFormatLite::GetTagFieldNumber(tag);
      if (field == tensorflow::ProfileToolData::kNameFieldNumber) {
        if (!WireFormatLite::ReadBytes(&input_, &name)) return Malformed();
        const bool fine = !name.empty() && name.size() <= kMostNameBytes && name[0] != '.' &&
                          name.find('/') == std::string::npos && PrintableUtf8(name) == name;
        if (!fine) return absl::DataLossError(StrCat("it sent a file called ", PrintableUtf8(name.substr(0, 100))));
      } else if (field == tensorflow::ProfileToolData::kDataFieldNumber) {
        // The name must come before the data: every serializer writes fields in the order of their numbers.
        if (name.empty()) return Malformed();
        has_data = true;
        status = TakeBytes(name);
        if (!status.ok()) return status;
      } else if (!WireFormatLite::SkipField(&input_, tag)) {
        return Malformed();
      }
    }
    if (input_.BytesUntilLimit() != 0) return Malformed();
    input_.PopLimit(limit);
    // A summary without data, which protobuf does not encode: the launcher has left it out.
    if (!has_data && name == kSummaryFile) return take_(worker_, name, [](std::string_view*) { return false; });
    return absl::OkStatus();
  }

  absl::Status TakeBytes(const std::string& name) {
    int left = 0;
    if (!input_.ReadVarintSizeAsInt(&left)) return Malformed();
    const int before = left;
    bool broken = false;
    absl::Status status = take_(worker_, name, [&](std::string_view* piece) {
      if (left == 0) return false;
      const void* data = nullptr;
      int size = 0;
      if (!input_.GetDirectBufferPointer(&data, &size) || size <= 0) {
        broken = true;
        return false;
      }
      size = std::min(size, left);
      *piece = std::string_view(static_cast<const char*>(data), static_cast<size_t>(size));
      left -= size;
      input_.Skip(size);
      return true;
    });
    if (broken) return Malformed();
    if (!status.ok()) return status;
    if (name == kSummaryFile) {
      worker_.has_summary = true;
    } else {
      worker_.bytes += static_cast<uint64_t>(before);
    }
    if (left > 0 && !input_.Skip(left)) return Malformed();
    return absl::OkStatus();
  }

  grpc::ProtoBufferReader reader_;
  CodedInputStream input_;
  RemoteWorker& worker_;
  const TakeEntry& take_;
};

tensorflow::ProfileRequest RequestFor(const RemoteCapture& capture, const RemoteWorker& worker, absl::Time start) {
  const auto duration_ms = static_cast<uint64_t>(absl::ToInt64Milliseconds(capture.duration));
  tensorflow::ProfileRequest request;
  request.set_duration_ms(duration_ms);
  request.set_max_events(kMaxEvents);
  request.add_tools(kSummaryTool);
  for (const char* tool : kTools) request.add_tools(tool);
  request.set_repository_root(capture.repository_root);
  request.set_session_id(capture.session_id);
  // The host name in the profile, which a request can set, should equal the name of the file.
  request.set_host_name(CheckName("", worker.stem).ok() ? worker.stem : worker.address);
  tensorflow::ProfileOptions* const options = request.mutable_opts();
  options->set_version(1);
  options->set_include_dataset_ops(true);
  options->set_host_tracer_level(2);
  options->set_device_tracer_level(1);
  options->set_enable_hlo_proto(true);
  options->set_start_timestamp_ns(static_cast<uint64_t>(absl::ToUnixNanos(start)));
  options->set_duration_ms(duration_ms);
  if (!capture.step_marker.empty()) {
    (*options->mutable_advanced_configuration())[kStepMarkerSetting].set_string_value(capture.step_marker);
  }
  return request;
}

bool IsLoopback(std::string host) {
  if (host.starts_with("[")) host = host.substr(1, host.size() - 2);
  in6_addr v6;
  return host == "localhost" || host.starts_with("127.") ||
         (inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6));
}

// Connects to HOST:PORT, trying all its addresses.
absl::StatusOr<ScopedFd> ConnectTo(const std::string& host, const std::string& port, int patience_ms) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found); error != 0) {
    return Unavailable(gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> all(found, &freeaddrinfo);
  int error = ENOENT;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    ScopedFd fd(socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd.valid()) continue;
    error = connect(fd.get(), at->ai_addr, at->ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
      pollfd entry{fd.get(), POLLOUT, 0};
      error = ETIMEDOUT;
      socklen_t size = sizeof(error);
      if (poll(&entry, 1, patience_ms) == 1) getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    }
    if (error == 0) return fd;
  }
  return Unavailable(strerror(error));
}

// Connects by TLS through a relay: gRPC gets a plain socket.
absl::StatusOr<std::shared_ptr<grpc::Channel>> TlsChannel(const std::string& address, TlsContext* tls,
                                                          const grpc::ChannelArguments& arguments) {
  const size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.starts_with("[")) host = host.substr(1, host.size() - 2);
  absl::StatusOr<ScopedFd> connection = ConnectTo(host, address.substr(colon + 1), kConnectMs);
  if (!connection.ok()) return connection.status();
  absl::StatusOr<ScopedFd> plain = tls->Connect(*std::move(connection), host);
  if (!plain.ok()) return plain.status();
  return grpc::CreateCustomInsecureChannelFromFd("tls", plain->Release(), arguments);
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> ChannelTo(const std::string& address, TlsContext* tls) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  // Ignores the proxy of the environment: it is for the web, and most proxies refuse other ports.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  if (tls != nullptr && !IsLoopback(address.substr(0, address.rfind(':')))) return TlsChannel(address, tls, arguments);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

// Describes what the address answers instead of a gRPC server, and how to find out more.
std::string NoReplyText(const std::string& address, grpc_connectivity_state state) {
  const size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.starts_with("[")) host = host.substr(1, host.size() - 2);
  const std::string port = address.substr(colon + 1);
  const std::string seconds = absl::FormatDuration(kSilence);
  const std::string check = StrCat("; who listens: ss -ltnp 'sport = :", port, "'");
  if (state == GRPC_CHANNEL_READY)
    return StrCat("HTTP/2 is spoken there, but no gRPC call answered in ", seconds, check);
  if (const auto connected = ConnectTo(host, port, kOneLookMs); connected.ok()) {
    return StrCat("the port accepts connections, but sends no HTTP/2 in ", seconds, check);
  }
  return StrCat("no connection in ", seconds, "; is the address right, does a firewall drop it?");
}

// One generic call: the answer stays a ByteBuffer, since it may have gigabytes.
struct PendingCall {
  grpc::ClientContext context;
  std::unique_ptr<grpc::GenericClientAsyncResponseReader> call;
  grpc::ByteBuffer answer;
  grpc::Status status;
  bool ended = false;

  void Start(grpc::GenericStub* stub, const char* method, const grpc::ByteBuffer& request, absl::Time deadline,
             grpc::CompletionQueue* queue) {
    context.set_deadline(absl::ToChronoTime(deadline));
    call = stub->PrepareUnaryCall(&context, method, request, queue);
    call->StartCall();
    call->Finish(&answer, &status, this);
  }
};

// A worker answers Profile only when the capture is over. A health check shows earlier whether a gRPC server is there:
// each server answers it at once, at least with UNIMPLEMENTED. The check is sent first: a server may handle one call at
// a time.
constexpr char kProbe[] = "/grpc.health.v1.Health/Check";
constexpr char kProfile[] = "/tensorflow.ProfilerService/Profile";

grpc::Status Call(const std::string& address, TlsContext* tls, const tensorflow::ProfileRequest& request,
                  absl::Time deadline, grpc::ByteBuffer* answer) {
  absl::StatusOr<std::shared_ptr<grpc::Channel>> channel = ChannelTo(address, tls);
  if (!channel.ok()) {
    return grpc::Status(static_cast<grpc::StatusCode>(static_cast<int>(channel.status().code())),
                        std::string(channel.status().message()));
  }
  grpc::GenericStub stub(*channel);
  bool own = false;
  grpc::ByteBuffer bytes;
  if (grpc::Status status = grpc::SerializationTraits<tensorflow::ProfileRequest>::Serialize(request, &bytes, &own);
      !status.ok()) {
    return status;
  }
  grpc::Slice nothing;
  const grpc::ByteBuffer empty(&nothing, 1);
  grpc::CompletionQueue queue;
  PendingCall probe, profile;
  probe.Start(&stub, kProbe, empty, std::min(deadline, absl::Now() + kSilence), &queue);
  profile.Start(&stub, kProfile, bytes, deadline, &queue);
  void* tag = nullptr;
  bool ok = false, silent = false;
  while (!profile.ended && queue.Next(&tag, &ok)) {
    static_cast<PendingCall*>(tag)->ended = true;
    if (tag != &probe || probe.status.error_code() != grpc::StatusCode::DEADLINE_EXCEEDED) continue;
    silent = true;
    profile.context.TryCancel();
  }
  probe.context.TryCancel();
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) {
  }
  if (silent && !profile.status.ok()) {
    return grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED, NoReplyText(address, (*channel)->GetState(false)));
  }
  answer->Swap(&profile.answer);
  return profile.status;
}

}  // namespace

absl::Status CheckAddress(std::string_view address) {
  absl::Status expected =
      InvalidArgument(StrCat("`", PrintableUtf8(address), "` is no HOST:PORT, as 10.0.0.7:6009 or [::1]:6009"));
  const size_t colon = address.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return expected;
  const std::string_view host = address.substr(0, colon);
  const std::string_view port = address.substr(colon + 1);
  const int number = ParseNumber<int>(port).value_or(0);
  if (number < 1 || number > 65535) return expected;
  if (host.find_first_of("/ \t,@") != std::string_view::npos || PrintableUtf8(host) != host) return expected;
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (host.find(':') != std::string_view::npos && !bracketed) {
    return InvalidArgument(StrCat("`", PrintableUtf8(address), "`: an IPv6 address goes in brackets: [",
                                  PrintableUtf8(host), "]:", number));
  }
  return absl::OkStatus();
}

std::string StemOfAddress(std::string_view address) {
  std::string stem;
  for (const char c : address) {
    if (c != '[' && c != ']') stem += c == ':' ? '_' : c;
  }
  return stem;
}

void CaptureFromWorkers(const RemoteCapture& request, std::vector<RemoteWorker>* workers, const TakeEntry& take,
                        const WorkerChanged& changed, TlsContext* tls) {
  gpr_set_log_function([](gpr_log_func_args*) {});
  std::mutex mutex;
  const absl::Time start = request.start;
  std::vector<std::thread> threads;
  threads.reserve(workers->size());
  for (RemoteWorker& worker : *workers) {
    const absl::Status started = StartThread(&threads.emplace_back(), [&, mine = &worker] {
      absl::Duration pause = kFirstPause;
      for (;;) {
        ++mine->attempts;
        // A later attempt begins at once, but requests the same start, so that all files share it if the start is at
        // most 10 s ago (the limit of tbprof's service).
        const absl::Time begins = std::max(start, absl::Now());
        const absl::Time deadline = begins + request.duration + std::max(kLeastAnswerTime, request.duration);
        grpc::ByteBuffer answer;
        const absl::Time called = absl::Now();
        const grpc::Status status = Call(mine->address, tls, RequestFor(request, *mine, start), deadline, &answer);
        std::unique_lock<std::mutex> lock(mutex);
        mine->took = absl::Now() - called;
        mine->late = std::max(called - start, absl::ZeroDuration());
        if (status.ok()) {
          mine->status = Answer(&answer, mine, take).Take();
          const bool has_none = mine->status.ok() && mine->bytes == 0;
          if (has_none && mine->empty) {
            mine->status = absl::NotFoundError("the service reports that nothing was recorded");
          } else if (has_none && mine->has_summary) {
            mine->status = absl::DataLossError("it sent a summary without its profile");
          }
          mine->wrote_itself = has_none && mine->status.ok();
        } else {
          mine->status = ToAbsl(status);
        }
        const bool again = !status.ok() && MayWorkLater(status) && mine->attempts < request.attempts;
        mine->state = mine->status.ok() ? RemoteWorker::State::kDone
                      : again           ? RemoteWorker::State::kRetrying
                                        : RemoteWorker::State::kFailed;
        changed(*mine);
        if (!again) return;
        mine->state = RemoteWorker::State::kCalling;
        lock.unlock();
        absl::SleepFor(pause);
        pause *= 2;
      }
    });
    if (started.ok()) continue;
    threads.pop_back();
    const std::lock_guard<std::mutex> lock(mutex);
    worker.state = RemoteWorker::State::kFailed;
    worker.status = started;
    changed(worker);
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace tbprof
