// SPDX-License-Identifier: Apache-2.0
//
// The meeting point of targets and launcher: a socket in a private directory, and an abstract socket of the same name
// for programs in another mount namespace. Accepts every caller, checks each message, and passes hellos and inert
// notices to the handler.
//
//   Rendezvous rendezvous(nonce, take, &notes);
//   rendezvous.Open(logdir, logdir_fd);
//   while (...) { ppoll({rendezvous.listen_fd(), ...}); rendezvous.Receive(); }
//
// Process: launcher, main thread. Only ReceiveLast waits. Callers are not trusted.
#ifndef TBPROF_LAUNCHER_SESSION_RENDEZVOUS_H_
#define TBPROF_LAUNCHER_SESSION_RENDEZVOUS_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "launcher/base/listener_pause.h"
#include "launcher/session/spool_home.h"
#include "wire/rendezvous.h"
#include "writer/base/scoped.h"

namespace tbprof {

// A message of a caller that knows this session's nonce.
struct Introduction {
  pid_t pid = 0;  // as the kernel reports it
  uid_t uid = 0;
  int32_t inner_pid = 0;              // in the caller's pid namespace
  std::optional<InertNotice> notice;  // a library that stays inert; without it:
  ScopedFd segment;                   // sealed: it cannot shrink while it is mapped
  size_t segment_bytes = 0;
};

// Formats `TBPROF_SESSION=...` for the library.
std::string FormatSessionVariable(const SessionVariable& variable);
// Its text up to the numbers.
std::string SessionVariableStart(const std::string& socket_path);

class Rendezvous {
 public:
  using Handler = std::function<void(Introduction)>;
  // `notes`: receives lines for the terminal; must outlive this object.
  Rendezvous(uint64_t nonce, Handler handler, std::vector<std::string>* notes)
      : nonce_(nonce), handler_(std::move(handler)), notes_(*notes) {}
  ~Rendezvous() { Remove(); }
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  // Tries TMPDIR, /tmp, XDG_RUNTIME_DIR, /dev/shm and the hidden directory of the log directory, in this order.
  absl::Status Open(const std::string& logdir, int logdir_fd);

  // False: accept failed a moment ago for lack of descriptors or memory; do not poll the sockets although callers wait.
  bool listens() const { return pause_.over(); }
  int listen_fd() const { return listen_.get(); }
  int abstract_fd() const { return abstract_.get(); }
  const std::string& socket_path() const { return socket_path_; }
  const std::string& directory() const { return directory_; }

  // Accepts waiting callers and passes their messages to the handler.
  void Receive();
  // Like Receive, and waits up to 100 ms for callers that have connected but sent nothing yet.
  void ReceiveLast();
  // The longest time until the next call of Receive; -1: no caller is connected.
  int TimeoutMs(uint64_t now_ns) const;

 private:
  absl::Status OpenIn(const std::string& base);
  void Remove();
  void Accept(int listener);
  void TakeHellos();
  // False: no message has arrived yet.
  bool ReceiveHello(int connection);

  const uint64_t nonce_;
  const Handler handler_;
  std::vector<std::string>& notes_;
  std::string directory_, socket_path_;
  ScopedFd directory_lock_;
  MadeDirectory parent_;  // set if the private directory is in the logdir's hidden directory
  ScopedFd listen_, abstract_;
  ListenerPause pause_;
  struct Caller {
    ScopedFd connection;
    uint64_t since_ns;
    bool foreign;  // of another user: any process in the network namespace can reach the abstract socket
  };
  std::vector<Caller> callers_;  // connected, no message yet; the latest last
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SESSION_RENDEZVOUS_H_
