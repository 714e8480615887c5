// SPDX-License-Identifier: Apache-2.0
//
// TLS in front of gRPC: a thread relays between the TLS connection and a plain socket that gRPC gets. (gRPC's own TLS
// would make the program three times as large.)
//
//   absl::StatusOr<std::string> identity = ReadTlsIdentity("cert.pem", "key.pem");
//   absl::StatusOr<std::unique_ptr<TlsContext>> server = TlsContext::ForServer(*identity);
//   ScopedFd plain = (*server)->Accept(std::move(connection));
//
// Process: launcher (reads), the worker of the port (accepts), `tbprof capture` (connects).
#ifndef TBPROF_LAUNCHER_SERVICE_TLS_H_
#define TBPROF_LAUNCHER_SERVICE_TLS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "writer/base/scoped.h"

struct ssl_ctx_st;

namespace tbprof {

// Reads the certificates and the key (PEM). Checks that they belong together and that other users cannot read the key.
absl::StatusOr<std::string> ReadTlsIdentity(const std::string& certificate_path, const std::string& key_path);

class TlsContext {
 public:
  static absl::StatusOr<std::unique_ptr<TlsContext>> ForServer(const std::string& identity);
  // Trusts the certificates in the file `ca_path`.
  static absl::StatusOr<std::unique_ptr<TlsContext>> ForClient(const std::string& ca_path);
  ~TlsContext();

  // Returns the plain end of a connection at once; it closes if the peer does not finish the handshake in 5 s. Not
  // valid: too many connections are open, or there is no thread for this one.
  ScopedFd Accept(ScopedFd connection);
  // `host` (without brackets): the name or address that the certificate must have.
  absl::StatusOr<ScopedFd> Connect(ScopedFd connection, const std::string& host);

 private:
  explicit TlsContext(ssl_ctx_st* context) : context_(context) {}
  ssl_ctx_st* const context_;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SERVICE_TLS_H_
