// SPDX-License-Identifier: Apache-2.0
//
// Where targets find their launcher: a private directory with a socket, which has an abstract name, too, for programs
// in mount namespaces of their own. Takes what callers send, whoever they are, and hands on what is a hello.
//
//   Rendezvous rendezvous(nonce, take, &notes);
//   rendezvous.Open(logdir, logdir_fd);
//   while (...) { ppoll({rendezvous.listen_fd(), ...}); rendezvous.Receive(); }
//
// Process: launcher, main thread. Never waits, but for ReceiveLast. Trusts nothing of what is sent.
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
#include "launcher/base/scoped.h"
#include "launcher/session/spool_home.h"
#include "wire/rendezvous.h"

namespace tbprof {

// What a caller with this session's nonce has sent.
struct Introduction {
  pid_t pid = 0;  // as the kernel has it
  uid_t uid = 0;
  int32_t inner_pid = 0;              // as the caller sees itself
  std::optional<InertNotice> notice;  // a library that stays out of the way; else:
  ScopedFd segment;                   // sealed, so that what is mapped of it stays there
  size_t segment_bytes = 0;
};

// `TBPROF_SESSION=...`, as the library reads it.
std::string FormatSessionVariable(const SessionVariable& variable);

class Rendezvous {
 public:
  using Handler = std::function<void(Introduction)>;
  // `notes`: lines for the terminal; must outlive this.
  Rendezvous(uint64_t nonce, Handler handler, std::vector<std::string>* notes)
      : nonce_(nonce), handler_(std::move(handler)), notes_(*notes) {}
  ~Rendezvous() { Remove(); }
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  // Where TMPDIR and /tmp have no room, somewhere else: at last in the log directory's hidden directory.
  absl::Status Open(const std::string& logdir, int logdir_fd);

  // False: not for a moment, though somebody waits there.
  bool listens() const { return pause_.over(); }
  int listen_fd() const { return listen_.get(); }
  int abstract_fd() const { return abstract_.get(); }
  const std::string& socket_path() const { return socket_path_; }
  const std::string& directory() const { return directory_; }

  // Accepts whoever has called, and hands on what they have sent.
  void Receive();
  // The same, and waits up to 100 ms for those who have connected and sent nothing yet.
  void ReceiveLast();
  // When Receive wants to be called at the latest; -1: nobody has called.
  int TimeoutMs(uint64_t now_ns) const;

 private:
  absl::Status OpenIn(const std::string& base);
  void Remove();
  void Accept(int listener);
  void TakeHellos();
  // False: nothing has come yet.
  bool ReceiveHello(int connection);

  const uint64_t nonce_;
  const Handler handler_;
  std::vector<std::string>& notes_;
  std::string directory_, socket_path_;
  ScopedFd directory_lock_;
  MadeDirectory parent_;  // where the private directory is in the logdir's hidden one
  ScopedFd listen_, abstract_;
  ListenerPause pause_;
  struct Caller {
    ScopedFd connection;
    uint64_t since_ns;
    bool foreign;  // of another user: whoever is in our network namespace can reach the abstract name
  };
  std::vector<Caller> callers_;  // connected, and not yet heard; the latest last
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SESSION_RENDEZVOUS_H_
