// SPDX-License-Identifier: Apache-2.0
//
// TLS in front of gRPC: both ends are relayed by a thread, and gRPC sees a plain socket. (gRPC's own TLS would make the
// program three times as large.)
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
#include "launcher/base/scoped.h"

struct ssl_ctx_st;

namespace tbprof {

// The certificates and the key, in PEM. Checked: they belong together, and no other user may read the key.
absl::StatusOr<std::string> ReadTlsIdentity(const std::string& certificate_path, const std::string& key_path);

class TlsContext {
 public:
  static absl::StatusOr<std::unique_ptr<TlsContext>> ForServer(const std::string& identity);
  // Trusts the certificates of that file.
  static absl::StatusOr<std::unique_ptr<TlsContext>> ForClient(const std::string& ca_path);
  ~TlsContext();

  // The plain end of a connection, at once; a peer that does not finish the handshake in 5 s ends it. Not valid: too
  // many are open.
  ScopedFd Accept(ScopedFd connection);
  // `host` without brackets: the name or address that the certificate must have.
  absl::StatusOr<ScopedFd> Connect(ScopedFd connection, const std::string& host);

 private:
  explicit TlsContext(ssl_ctx_st* context) : context_(context) {}
  ssl_ctx_st* const context_;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SERVICE_TLS_H_
