// SPDX-License-Identifier: Apache-2.0
#include "launcher/service/tls.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "launcher/base/start_thread.h"
#include "launcher/base/text.h"
#include "wire/clock.h"
#include "writer/base/file_ops.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

constexpr uint64_t kHandshakeNs = 5'000'000'000;
constexpr int kMostAccepted = 32;
constexpr size_t kMaxPem = 1 << 20;
constexpr unsigned char kHttp2[] = "\x02h2";

std::atomic<int> accepted{0};

struct Free {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(SSL* ssl) const { SSL_free(ssl); }
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
template <typename T>
using Owned = std::unique_ptr<T, Free>;

std::string LastError() {
  const unsigned long error = ERR_get_error();
  ERR_clear_error();
  const char* const reason = error == 0 ? nullptr : ERR_reason_error_string(error);
  return reason == nullptr ? "unknown" : reason;
}

// No clean-up at exit, since relays may still run; no OpenSSL configuration from files and variables, which are meant
// for the user's programs.
void Initialise() { OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT | OPENSSL_INIT_NO_LOAD_CONFIG, nullptr); }

// Makes an encrypted key an error instead of a prompt on the terminal.
int NoPassword(char*, int, int, void*) { return 0; }

Owned<BIO> Reader(const std::string& text) {
  return Owned<BIO>(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

absl::StatusOr<std::string> ReadPem(const char* option, const std::string& path, bool secret) {
  const std::string what = StrCat(option, "=", PrintableUtf8(path), ": ");
  const ScopedFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat facts;
  if (!file.valid() || fstat(file.get(), &facts) != 0) return InvalidArgument(StrCat(what, strerror(errno)));
  if (!S_ISREG(facts.st_mode) || static_cast<uint64_t>(facts.st_size) > kMaxPem) {
    return InvalidArgument(StrCat(what, "not a file of at most 1 MiB"));
  }
  if (secret && ((facts.st_mode & S_IROTH) != 0 || (facts.st_uid != geteuid() && facts.st_uid != 0))) {
    return InvalidArgument(StrCat(what, "other users can read this key: chmod 600, and own it"));
  }
  std::string text(static_cast<size_t>(facts.st_size), '\0');
  if (!ReadAll(file.get(), &text, path).ok()) return InvalidArgument(StrCat(what, "cannot be read"));
  return text;
}

int ChooseProtocol(SSL*, const unsigned char** out, unsigned char* out_size, const unsigned char* in, unsigned in_size,
                   void*) {
  unsigned char* chosen = nullptr;
  if (SSL_select_next_proto(&chosen, out_size, kHttp2, sizeof(kHttp2) - 1, in, in_size) != OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  }
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

void Configure(SSL_CTX* context) {
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_mode(context,
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
}

short EventsOf(int error) { return error == SSL_ERROR_WANT_WRITE ? POLLOUT : POLLIN; }

// SSL_accept or SSL_connect within kHandshakeNs. False: SSL_get_verify_result and LastError have the cause.
bool Handshake(SSL* ssl, int fd) {
  const uint64_t until = ReadMonotonic() + kHandshakeNs;
  for (;;) {
    ERR_clear_error();
    const int result = SSL_do_handshake(ssl);
    if (result == 1) return true;
    const int error = SSL_get_error(ssl, result);
    if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) return false;
    const uint64_t now = ReadMonotonic();
    if (now >= until) return false;
    pollfd entry{fd, EventsOf(error), 0};
    poll(&entry, 1, static_cast<int>((until - now) / 1'000'000 + 1));
  }
}

// The buffer of one direction.
struct Pipe {
  char bytes[16384];
  size_t begin = 0, end = 0;
  bool empty() const { return begin == end; }
};

enum class Step { kMoved, kWaits, kEnded };

Step StepOf(SSL* ssl, int result, short* tls_events) {
  if (result > 0) return Step::kMoved;
  const int error = SSL_get_error(ssl, result);
  if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) return Step::kEnded;
  *tls_events |= EventsOf(error);
  return Step::kWaits;
}

Step StepOf(ssize_t result, short event, short* events) {
  if (result > 0) return Step::kMoved;
  if (result == 0 || (errno != EAGAIN && errno != EINTR)) return Step::kEnded;
  *events |= event;
  return Step::kWaits;
}

// Relays until one side ends; bytes read before are passed on first.
void Relay(SSL* ssl, int tls, int plain) {
  const auto in = std::make_unique<Pipe>(), out = std::make_unique<Pipe>();
  for (;;) {
    short tls_events = 0, plain_events = 0;
    bool moved = false;
    ERR_clear_error();
    if (in->empty()) {
      const int size = SSL_read(ssl, in->bytes, sizeof(in->bytes));
      const Step step = StepOf(ssl, size, &tls_events);
      if (step == Step::kEnded) return;
      if (step == Step::kMoved) in->begin = 0, in->end = static_cast<size_t>(size), moved = true;
    }
    if (!in->empty()) {
      const ssize_t size = send(plain, in->bytes + in->begin, in->end - in->begin, MSG_NOSIGNAL | MSG_DONTWAIT);
      const Step step = StepOf(size, POLLOUT, &plain_events);
      if (step == Step::kEnded) return;
      if (step == Step::kMoved) in->begin += static_cast<size_t>(size), moved = true;
    }
    if (out->empty()) {
      const ssize_t size = recv(plain, out->bytes, sizeof(out->bytes), MSG_DONTWAIT);
      const Step step = StepOf(size, POLLIN, &plain_events);
      if (step == Step::kEnded) {
        SSL_shutdown(ssl);
        return;
      }
      if (step == Step::kMoved) out->begin = 0, out->end = static_cast<size_t>(size), moved = true;
    }
    if (!out->empty()) {
      ERR_clear_error();
      const int size = SSL_write(ssl, out->bytes + out->begin, static_cast<int>(out->end - out->begin));
      const Step step = StepOf(ssl, size, &tls_events);
      if (step == Step::kEnded) return;
      if (step == Step::kMoved) out->begin += static_cast<size_t>(size), moved = true;
    }
    if (moved) continue;
    pollfd entries[] = {{tls, tls_events, 0}, {plain, plain_events, 0}};
    poll(entries, 2, -1);
    // poll reports POLLERR and POLLHUP even if no events are requested.
    if (tls_events == 0 && (entries[0].revents & (POLLERR | POLLHUP)) != 0) return;
    if (plain_events == 0 && (entries[1].revents & (POLLERR | POLLHUP)) != 0) return;
  }
}

// What a relay's thread owns. SSL_free comes before its socket is closed.
struct Ends {
  Ends(Owned<SSL> ssl_end, ScopedFd tls_end, ScopedFd plain_end)
      : tls(std::move(tls_end)), plain(std::move(plain_end)), ssl(std::move(ssl_end)) {}
  ScopedFd tls, plain;
  Owned<SSL> ssl;
};

// Runs `body` in a thread of its own, which nobody joins. False: no thread could be started.
bool StartRelay(std::function<void()> body) {
  std::thread thread;
  if (!StartThread(&thread, std::move(body)).ok()) return false;
  thread.detach();
  return true;
}

bool MakePair(ScopedFd* ours, ScopedFd* theirs) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) return false;
  ours->Reset(ends[0]);
  theirs->Reset(ends[1]);
  return true;
}

absl::Status UseIdentity(SSL_CTX* context, const std::string& identity) {
  const Owned<BIO> certificates = Reader(identity);
  const Owned<X509> first(PEM_read_bio_X509(certificates.get(), nullptr, NoPassword, nullptr));
  if (first == nullptr || SSL_CTX_use_certificate(context, first.get()) != 1) {
    return InvalidArgument(StrCat("--tls-cert: no certificate in PEM (", LastError(), ")"));
  }
  while (X509* const more = PEM_read_bio_X509(certificates.get(), nullptr, NoPassword, nullptr)) {
    if (SSL_CTX_add_extra_chain_cert(context, more) != 1) X509_free(more);
  }
  ERR_clear_error();
  const Owned<BIO> keys = Reader(identity);
  const Owned<EVP_PKEY> key(PEM_read_bio_PrivateKey(keys.get(), nullptr, NoPassword, nullptr));
  if (key == nullptr) {
    return InvalidArgument(StrCat("--tls-key: no private key in PEM without a password (", LastError(), ")"));
  }
  if (SSL_CTX_use_PrivateKey(context, key.get()) != 1 || SSL_CTX_check_private_key(context) != 1) {
    return InvalidArgument(StrCat("--tls-key: not the key of the certificate (", LastError(), ")"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> ReadTlsIdentity(const std::string& certificate_path, const std::string& key_path) {
  Initialise();
  absl::StatusOr<std::string> certificate = ReadPem("--tls-cert", certificate_path, false);
  if (!certificate.ok()) return certificate.status();
  absl::StatusOr<std::string> key = ReadPem("--tls-key", key_path, true);
  if (!key.ok()) return key.status();
  // The key must be in the --tls-key file: a key in the certificate file, which other users may read, is not used.
  const Owned<BIO> own = Reader(*key);
  if (const Owned<EVP_PKEY> found(PEM_read_bio_PrivateKey(own.get(), nullptr, NoPassword, nullptr)); found == nullptr) {
    return InvalidArgument(StrCat("--tls-key: no private key in PEM without a password (", LastError(), ")"));
  }
  std::string identity = StrCat(*key, "\n", *certificate);
  const absl::StatusOr<std::unique_ptr<TlsContext>> tried = TlsContext::ForServer(identity);
  if (!tried.ok()) return tried.status();
  return identity;
}

absl::StatusOr<std::unique_ptr<TlsContext>> TlsContext::ForServer(const std::string& identity) {
  Initialise();
  std::unique_ptr<TlsContext> made(new TlsContext(SSL_CTX_new(TLS_server_method())));
  if (made->context_ == nullptr) return absl::ResourceExhaustedError("TLS: no memory");
  Configure(made->context_);
  SSL_CTX_set_alpn_select_cb(made->context_, ChooseProtocol, nullptr);
  if (absl::Status status = UseIdentity(made->context_, identity); !status.ok()) return status;
  return made;
}

absl::StatusOr<std::unique_ptr<TlsContext>> TlsContext::ForClient(const std::string& ca_path) {
  Initialise();
  std::unique_ptr<TlsContext> made(new TlsContext(SSL_CTX_new(TLS_client_method())));
  if (made->context_ == nullptr) return absl::ResourceExhaustedError("TLS: no memory");
  Configure(made->context_);
  SSL_CTX_set_verify(made->context_, SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_alpn_protos(made->context_, kHttp2, sizeof(kHttp2) - 1);
  ERR_clear_error();
  if (SSL_CTX_load_verify_locations(made->context_, ca_path.c_str(), nullptr) != 1) {
    return InvalidArgument(StrCat("--tls-ca=", PrintableUtf8(ca_path), ": no certificates in PEM (", LastError(), ")"));
  }
  return made;
}

TlsContext::~TlsContext() { SSL_CTX_free(context_); }

ScopedFd TlsContext::Accept(ScopedFd connection) {
  ScopedFd ours, theirs;
  if (accepted.fetch_add(1) >= kMostAccepted || !MakePair(&ours, &theirs)) {
    --accepted;
    return ScopedFd();
  }
  const auto ends = std::make_shared<Ends>(Owned<SSL>(SSL_new(context_)), std::move(connection), std::move(ours));
  const bool started = StartRelay([ends] {
    if (ends->ssl != nullptr && SSL_set_fd(ends->ssl.get(), ends->tls.get()) == 1) {
      SSL_set_accept_state(ends->ssl.get());
      if (Handshake(ends->ssl.get(), ends->tls.get())) Relay(ends->ssl.get(), ends->tls.get(), ends->plain.get());
    }
    --accepted;
  });
  if (started) return theirs;
  --accepted;
  return ScopedFd();
}

absl::StatusOr<ScopedFd> TlsContext::Connect(ScopedFd connection, const std::string& host) {
  Owned<SSL> ssl(SSL_new(context_));
  ScopedFd ours, theirs;
  if (ssl == nullptr || !MakePair(&ours, &theirs) || SSL_set_fd(ssl.get(), connection.get()) != 1) {
    return absl::ResourceExhaustedError("TLS: no memory or descriptor");
  }
  in6_addr address;
  const bool numeric =
      inet_pton(AF_INET, host.c_str(), &address) == 1 || inet_pton(AF_INET6, host.c_str(), &address) == 1;
  const bool set =
      numeric ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl.get()), host.c_str()) == 1
              : SSL_set1_host(ssl.get(), host.c_str()) == 1 && SSL_set_tlsext_host_name(ssl.get(), host.c_str()) == 1;
  if (!set) return InvalidArgument("TLS: no such host name");
  SSL_set_connect_state(ssl.get());
  if (!Handshake(ssl.get(), connection.get())) {
    const long verified = SSL_get_verify_result(ssl.get());
    return absl::UnauthenticatedError(
        StrCat("TLS: ", verified != X509_V_OK ? X509_verify_cert_error_string(verified) : LastError().c_str()));
  }
  const auto ends = std::make_shared<Ends>(std::move(ssl), std::move(connection), std::move(ours));
  if (!StartRelay([ends] { Relay(ends->ssl.get(), ends->tls.get(), ends->plain.get()); })) {
    return absl::ResourceExhaustedError("TLS: no thread for the connection");
  }
  return theirs;
}

}  // namespace tbprof
